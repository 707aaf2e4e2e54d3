"""Labels of spans, scored by what changes between the two ends of a span.

Between two words lies a fencepost, whose vector is made of the states that were read up to it from
the start and from the end of the sentence. A span has the difference of the vectors of its ends:
what was read in it, seen from both sides. One hidden layer, normalised, and a matrix turn it into
scores of labels; to have none always scores 0. `sapwood.networks.kernels.span_layer` has the
notation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import IntArray, ranges
from sapwood.networks.encoder import Dropout, start_uniform, times
from sapwood.networks.lstm import Packing
from sapwood.networks.parameters import Parameters, Real

RARE = -3.0  # score that labels start with: most spans have none
NEGLIGIBLE = 1e-4  # of the largest slope: spans whose slopes are all below change nothing


class SpanSizes(NamedTuple):
    """How many numbers there are in the hidden layer."""

    hidden: int = 250

    def shapes(self, n_states: int, n_labels: int) -> dict[str, tuple[int, ...]]:
        """Of all arrays."""
        return {
            "span.W": (n_states, self.hidden), "span.b": (self.hidden,),
            "span.gain": (self.hidden,), "span.offset": (self.hidden,),
            "label.W": (self.hidden, n_labels), "label.b": (n_labels,),
        }  # fmt: skip


def start_spans(P: Parameters, rng: np.random.Generator) -> None:
    """Random weights."""
    for name in ("span.W", "label.W"):
        start_uniform(P[name], rng)
    P["span.gain"][:] = 1
    P["label.b"][:] = RARE


class Fenceposts(NamedTuple):
    """Vectors between the words of a batch of sentences, with what the gradient needs.

    Attributes
    ----------
    before, behind
        Rows of the batch whose states are read up to a fencepost, from the start and the end.
    spans
        Starts and ends, among all fenceposts, and sentences of all spans; sentence after sentence,
        those of each numbered as `sapwood.core.arrays.cell` does.
    vectors : [n_fenceposts, hidden]
        A.
    bias : [hidden]
        b.
    gain, offset : [n_sentences, hidden]
        g and o, as each sentence has them.
    """

    before: IntArray
    behind: IntArray
    spans: tuple[IntArray, IntArray, IntArray]
    states: Real
    masks: tuple[Real | None, Real | None]
    vectors: Real
    bias: Real
    gain: Real
    offset: Real

    @property
    def layer(self) -> tuple[Real, Real, Real, Real]:
        """What hidden layers of spans are made of."""
        return self.vectors, self.bias, self.gain, self.offset


def fenceposts(
    P: Parameters, states: Real, packing: Packing, starts: IntArray, dropout: Dropout | None = None
) -> Fenceposts:
    """Vectors between the words of sentences that are marked at both ends.

    Parameters
    ----------
    starts
        Where the rows of each sentence, its marks included, start among all.
    """
    places = ranges(starts[:-1], starts[1:] - 1)
    before, behind = packing.row[places], packing.row[places + 1]
    half, sizes = states.shape[1] // 2, np.diff(starts) - 1
    sentence = np.repeat(np.arange(len(sizes)), sizes)
    gain, offset = (np.tile(P[name], (len(sizes), 1)) for name in ("span.gain", "span.offset"))
    masks: tuple[Real | None, Real | None] = (None, None)
    if dropout is not None:
        by_sentence = dropout.of_sentences(gain.shape[1])[packing.row[starts[:-1]]]
        masks = dropout.of_sentences(states.shape[1])[before], by_sentence
        gain *= by_sentence  # of what is not below 0, a share is left out on either side of max
        offset *= by_sentence
    found = np.concatenate([states[before, :half], states[behind, half:]], axis=1)
    found = times(found, masks[0])
    vectors, bias = centred(found @ P["span.W"]), centred(P["span.b"])
    spans = _spans_of(sentence, sizes)
    return Fenceposts(before, behind, spans, found, masks, vectors, bias, gain, offset)


def centred(numbers: Real) -> Real:
    """Numbers less the mean of their row: differences of such rows have a mean of 0.

    >>> centred(np.array([[1.0, 3.0], [5.0, 5.0]]))
    array([[-1.,  1.],
           [ 0.,  0.]])
    """
    centred: Real = numbers - numbers.mean(axis=-1, keepdims=True)
    return centred


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
    from sapwood.networks.kernels.span_layer import label_scores

    W, b = P["label.W"], P["label.b"]
    scores = np.empty((len(posts.spans[0]), len(b)), W.dtype)
    label_scores(*posts.layer, *posts.spans, W, b, scores)
    return scores


def span_gradient(
    P: Parameters, G: Parameters, posts: Fenceposts, packing: Packing, d_scores: Real
) -> Real:
    """Write the gradient of the weights into G; that of the states is returned.

    Nearly all spans of a sentence are in no tree that a network takes for possible, and left out.
    """
    from sapwood.networks.kernels.span_layer import hidden_layer, largest_of_rows, send_back

    steepest = largest_of_rows(np.abs(d_scores))
    kept = np.flatnonzero(steepest >= NEGLIGIBLE * steepest.max())
    d, those = d_scores[kept], [part[kept] for part in posts.spans]
    z = np.empty((len(d), posts.vectors.shape[1]), d.dtype)
    c, hidden = np.empty(len(d), d.dtype), np.empty_like(z)
    hidden_layer(*posts.layer, *those, z, c, hidden)
    np.matmul(hidden.T, d, out=G["label.W"])
    np.sum(d, axis=0, out=G["label.b"])
    d_vectors, d_bias, d_gain, d_offset = back = [np.zeros_like(part) for part in posts.layer]
    send_back(d @ P["label.W"].T, hidden, z, c, posts.gain, *those, *back)
    np.sum(times(d_gain, posts.masks[1]), axis=0, out=G["span.gain"])
    np.sum(times(d_offset, posts.masks[1]), axis=0, out=G["span.offset"])
    G["span.b"][:] = centred(d_bias)
    d_vectors = centred(d_vectors)
    np.matmul(posts.states.T, d_vectors, out=G["span.W"])
    d_found = times(d_vectors @ P["span.W"].T, posts.masks[0])
    half = d_found.shape[1] // 2
    d_states = np.zeros((len(packing.row), 2 * half), d_found.dtype)
    d_states[posts.before, :half] = d_found[:, :half]
    d_states[posts.behind, half:] = d_found[:, half:]
    return d_states
