"""Labels of spans, scored by what changes between the two ends of a span.

Between two words lies a fencepost, whose vector is made of the states that were read up to it from
the start and from the end of the sentence. A span has the difference of the vectors of its ends:
what was read in it, seen from both sides. One hidden layer and a matrix turn it into scores of
labels; to have none always scores 0.

Notation
--------
    A[k]       vector of fencepost k, already multiplied for the hidden layer
    h[i, j]  = max(0, A[j] - A[i] + b)
    s[i, j]  = h[i, j] U + u, one number for each label
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sapwood.arrays import IntArray, ranges
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
            "label.W": (self.hidden, n_labels), "label.b": (n_labels,),
        }  # fmt: skip


def start_spans(P: Parameters, rng: np.random.Generator) -> None:
    """Random weights."""
    for name in ("span.W", "label.W"):
        start_uniform(P[name], rng)
    P["label.b"][:] = RARE


class Fenceposts(NamedTuple):
    """Vectors between the words of a batch of sentences, with what the gradient needs.

    Attributes
    ----------
    before, behind
        Rows of the batch whose states are read up to a fencepost, from the start and the end.
    starts
        First fencepost of each sentence.
    vectors : [n_fenceposts, hidden]
        A.
    bias : [n_sentences, hidden]
        b as each sentence has it.
    """

    before: IntArray
    behind: IntArray
    starts: list[int]
    states: Real
    masks: tuple[Real | None, Real | None]
    vectors: Real
    bias: Real


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
    bias = np.broadcast_to(P["span.b"], (len(sizes), len(P["span.b"])))
    masks: tuple[Real | None, Real | None] = (None, None)
    if dropout is not None:
        by_sentence = dropout.of_sentences(bias.shape[1])[packing.row[starts[:-1]]]
        masks = dropout.of_sentences(states.shape[1])[before], by_sentence
    found = np.concatenate([states[before, :half], states[behind, half:]], axis=1)
    found = times(found, masks[0])
    vectors = found @ P["span.W"]
    if masks[1] is not None:  # of what is not below 0, a share is left out on either side of max
        vectors *= np.repeat(masks[1], sizes, axis=0)
        bias = bias * masks[1]
    first = np.append(0, np.cumsum(sizes)).tolist()
    return Fenceposts(before, behind, first, found, masks, vectors, bias)


def span_scores(P: Parameters, posts: Fenceposts, sentence: int) -> tuple[Real, Real]:
    """The hidden layer of all spans of a sentence, and scores of labels, [n_spans, n_labels]."""
    start, end = posts.starts[sentence], posts.starts[sentence + 1]
    signs = _ends_of_spans(end - start, posts.vectors.dtype.str)[2]
    hidden = signs @ posts.vectors[start:end]
    hidden += posts.bias[sentence]
    np.maximum(hidden, 0, out=hidden)
    return hidden, hidden @ P["label.W"] + P["label.b"]


@lru_cache(maxsize=512)
def _ends_of_spans(n_posts: int, dtype: str) -> tuple[IntArray, IntArray, sp.csr_array]:
    """Starts and ends of the spans of a sentence, and their signs."""
    start, end = np.triu_indices(n_posts, 1)
    return start, end, _signs_of_ends(start, end, n_posts, dtype)


def _signs_of_ends(start: IntArray, end: IntArray, n_posts: int, dtype: str) -> sp.csr_array:
    """For each span 1 at its end and -1 at its start, [n_spans, n_posts]."""
    place = np.column_stack([start, end]).ravel()
    sign = np.tile(np.array([-1, 1], dtype), len(start))
    rows = np.arange(0, len(place) + 1, 2)
    return sp.csr_array((sign, place, rows), shape=(len(start), n_posts))


def _spans_that_count(
    posts: Fenceposts, hidden: Sequence[Real], d_scores: Sequence[Real]
) -> tuple[Real, Real, IntArray, IntArray, IntArray]:
    """Hidden layer, slopes, ends among all fenceposts, and sentence of spans worth a step.

    Nearly all spans of a sentence are in no tree that a network takes for possible.
    """
    steepest = [np.abs(d).max(axis=1) for d in d_scores]
    least = NEGLIGIBLE * max(float(slopes.max()) for slopes in steepest)
    kept = [np.flatnonzero(slopes >= least) for slopes in steepest]
    starts, ends = [], []
    for rows, first, behind in zip(kept, posts.starts[:-1], posts.starts[1:], strict=True):
        start, end, _ = _ends_of_spans(behind - first, posts.vectors.dtype.str)
        starts.append(start[rows] + first)
        ends.append(end[rows] + first)
    h, d = (
        np.concatenate([part[rows] for part, rows in zip(parts, kept, strict=True)])
        for parts in (hidden, d_scores)
    )
    sentence = np.repeat(np.arange(len(kept)), [len(rows) for rows in kept])
    return h, d, np.concatenate(starts), np.concatenate(ends), sentence


def span_gradient(
    P: Parameters,
    G: Parameters,
    posts: Fenceposts,
    packing: Packing,
    hidden: Sequence[Real],
    d_scores: Sequence[Real],
) -> Real:
    """Write the gradient of the weights into G; that of the states is returned.

    Parameters
    ----------
    hidden, d_scores
        By sentence.
    """
    h, d, start, end, sentence = _spans_that_count(posts, hidden, d_scores)
    np.matmul(h.T, d, out=G["label.W"])
    np.sum(d, axis=0, out=G["label.b"])
    d_hidden = d @ P["label.W"].T
    d_hidden *= h > 0
    if posts.masks[1] is not None:
        d_hidden *= posts.masks[1][sentence]
    np.sum(d_hidden, axis=0, out=G["span.b"])
    d_vectors = _signs_of_ends(start, end, len(posts.vectors), d.dtype.str).T @ d_hidden
    np.matmul(posts.states.T, d_vectors, out=G["span.W"])
    d_found = times(d_vectors @ P["span.W"].T, posts.masks[0])
    half = d_found.shape[1] // 2
    d_states = np.zeros((len(packing.row), 2 * half), d_found.dtype)
    d_states[posts.before, :half] = d_found[:, :half]
    d_states[posts.behind, half:] = d_found[:, half:]
    return d_states
