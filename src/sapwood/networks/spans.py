"""Scores of the labels of spans (Stern, Andreas and Klein 2017), forwards and backwards.

Between two words lies a fencepost, whose vector is made of the states that were read up to it from
the start and from the end of the sentence. A span has the difference of the vectors of its ends.
One hidden layer with layer normalisation and a matrix turn it into scores of labels; no label at
all scores 0. The notation is that of `sapwood.networks.kernels.span_layer`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import IntArray, ranges
from sapwood.networks.layers import (
    Dropout,
    Packing,
    Parameters,
    Real,
    apply_mask,
    centre,
    glorot_uniform,
)

INITIAL_LABEL_SCORE = -3.0  # most spans have no label
NEGLIGIBLE_GRADIENT = 1e-4  # of the largest: spans below it are left out of the backward pass
_GAIN, _OFFSET = "span.gain", "span.offset"  # weights of the layer normalisation


class SpanSizes(NamedTuple):
    """Size of the hidden layer of spans, and whether it has layer normalisation.

    Networks of version 0.2.0 have none: they are used as they are, but no longer trained.
    """

    hidden: int = 250
    is_normalised: bool = True

    def shapes(self, n_states: int, n_labels: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of spans and labels."""
        factors = (_GAIN, _OFFSET) if self.is_normalised else ()
        return {
            "span.W": (n_states, self.hidden), "span.b": (self.hidden,),
            **dict.fromkeys(factors, (self.hidden,)),
            "label.W": (self.hidden, n_labels), "label.b": (n_labels,),
        }  # fmt: skip


def init_spans(P: Parameters, rng: np.random.Generator) -> None:
    """Random initial weights; gains start at 1, and labels start improbable."""
    for name in ("span.W", "label.W"):
        glorot_uniform(P[name], rng)
    P[_GAIN][:] = 1
    P["label.b"][:] = INITIAL_LABEL_SCORE


class Fenceposts(NamedTuple):
    """Vectors between the words of a batch of sentences, and what the backward pass needs.

    Spans are given by their starts and ends among all fenceposts, and by their sentences; those of
    a sentence are numbered as `sapwood.core.arrays.cell` does.
    """

    before: IntArray  # row of the batch whose state ends at a fencepost, read from the start
    behind: IntArray  # likewise, read from the end
    spans: tuple[IntArray, IntArray, IntArray]
    states: Real
    masks: tuple[Real | None, Real | None]
    # A [n_fenceposts, hidden], b [hidden], g and o [n_sentences, hidden]
    layer: tuple[Real, Real, Real, Real]


def fenceposts(
    P: Parameters, states: Real, packing: Packing, starts: IntArray, dropout: Dropout | None = None
) -> Fenceposts:
    """Vectors between the words of sentences with marks at both ends, which start at `starts`."""
    from sapwood.networks.kernels.lstm import row_products

    words = ranges(starts[:-1], starts[1:] - 1)
    before, behind = packing.row[words], packing.row[words + 1]
    half, sizes = states.shape[1] // 2, np.diff(starts) - 1
    sentence = np.repeat(np.arange(len(sizes)), sizes)
    gain, offset = (np.tile(P.get(name, 1.0), (len(sizes), 1)) for name in (_GAIN, _OFFSET))
    masks: tuple[Real | None, Real | None] = (None, None)
    if dropout is not None:
        by_sentence = dropout.sentence_mask(gain.shape[1])[packing.row[starts[:-1]]]
        masks = dropout.sentence_mask(states.shape[1])[before], by_sentence
        gain *= by_sentence  # dropout before a ReLU, whose mask is not negative, is that behind it
        offset *= by_sentence
    ends = np.concatenate([states[before, :half], states[behind, half:]], axis=1)
    ends = apply_mask(ends, masks[0])
    layer = centre(row_products(ends, P["span.W"])), centre(P["span.b"]), gain, offset
    return Fenceposts(before, behind, _spans_of(sentence, sizes), ends, masks, layer)


def _spans_of(sentence: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Starts, ends and sentences of spans, given the sentences of all fenceposts.

    >>> _spans_of(np.array([0, 0, 1, 1, 1]), np.array([2, 3]))
    (array([0, 2, 2, 3]), array([1, 3, 4, 4]), array([0, 1, 1, 1]))
    """
    post, end = np.arange(len(sentence)), np.repeat(np.cumsum(sizes), sizes)
    n_from = end - post - 1
    return np.repeat(post, n_from), ranges(post + 1, end), np.repeat(sentence, n_from)


def span_scores(P: Parameters, posts: Fenceposts) -> Real:
    """Scores of labels of all spans, [n_spans, n_labels]."""
    from sapwood.networks.kernels.span_layer import span_label_scores

    W, b = P["label.W"], P["label.b"]
    if _GAIN not in P:  # a network of version 0.2.0
        start, end, _ = posts.spans
        vectors = posts.states @ P["span.W"]
        hidden: Real = np.maximum(vectors[end] - vectors[start] + P["span.b"], 0)
        unnormalised: Real = hidden @ W + b
        return unnormalised
    scores = np.empty((len(posts.spans[0]), len(b)), W.dtype)
    span_label_scores(*posts.layer, *posts.spans, W, b, scores)
    return scores


def sentence_span_scores(P: Parameters, posts: Fenceposts) -> Iterator[Real]:
    """Scores of labels of the spans of each sentence: those that the sentence has in no batch."""
    start, end, sentence = posts.spans
    A, b, gain, offset = posts.layer
    bounds = np.searchsorted(sentence, np.arange(len(gain) + 1))
    for k, (first, stop) in enumerate(pairwise(bounds.tolist())):
        low, high = start[first], end[stop - 1] + 1  # its fenceposts
        spans = start[first:stop] - low, end[first:stop] - low, np.zeros(stop - first, np.int64)
        layer = A[low:high], b, gain[k : k + 1], offset[k : k + 1]
        yield span_scores(
            P, posts._replace(spans=spans, layer=layer, states=posts.states[low:high])
        )


def spans_backward(
    P: Parameters, G: Parameters, posts: Fenceposts, packing: Packing, d_scores: Real
) -> Real:
    """Write the gradient of the spans' weights into G; return that of the states.

    Nearly all spans of a sentence have negligible posteriors and gradients: they are left out.
    """
    from sapwood.networks.kernels.span_layer import row_maxima, span_layer, span_layer_backward

    largest = row_maxima(np.abs(d_scores))
    kept = np.flatnonzero(largest >= NEGLIGIBLE_GRADIENT * largest.max())
    d, spans = d_scores[kept], [part[kept] for part in posts.spans]
    z = np.empty((len(d), posts.layer[0].shape[1]), d.dtype)
    c, hidden = np.empty(len(d), d.dtype), np.empty_like(z)
    span_layer(*posts.layer, *spans, z, c, hidden)
    np.matmul(hidden.T, d, out=G["label.W"])
    np.sum(d, axis=0, out=G["label.b"])
    gradients = [np.zeros_like(part) for part in posts.layer]
    span_layer_backward(d @ P["label.W"].T, hidden, z, c, posts.layer[2], *spans, *gradients)
    d_vectors, d_bias, d_gain, d_offset = gradients
    np.sum(apply_mask(d_gain, posts.masks[1]), axis=0, out=G[_GAIN])
    np.sum(apply_mask(d_offset, posts.masks[1]), axis=0, out=G[_OFFSET])
    G["span.b"][:] = centre(d_bias)
    d_vectors = centre(d_vectors)
    np.matmul(posts.states.T, d_vectors, out=G["span.W"])
    d_ends = apply_mask(d_vectors @ P["span.W"].T, posts.masks[0])
    half = d_ends.shape[1] // 2
    d_states = np.zeros((len(packing.row), 2 * half), d_ends.dtype)
    d_states[posts.before, :half] = d_ends[:, :half]
    d_states[posts.behind, half:] = d_ends[:, half:]
    return d_states
