"""Heads and relations of words, scored by products of two vectors of words (biaffine).

Each word has four vectors, made of its state: as a head and as a modifier, for arcs and for
relations. An arc's score is bilinear in two of them, a relation's in the other two.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.networks.encoder import Dropout, softmax, start_uniform, times
from sapwood.networks.lstm import Packing
from sapwood.networks.parameters import Parameters, Real

LEAK = 0.1  # slope of negative numbers


class ArcSizes(NamedTuple):
    """How many numbers there are in the vectors of words for arcs, and for relations."""

    arc: int = 200
    relation: int = 50

    def shapes(self, n_states: int, n_relations: int) -> dict[str, tuple[int, ...]]:
        """Of all arrays."""
        a, r = self
        return {
            "vectors.W": (n_states, 2 * (a + r)), "vectors.b": (2 * (a + r),),
            "arc.U": (a + 1, a), "relation.U": (r + 1, n_relations * (r + 1)),
        }  # fmt: skip


def start_arcs(P: Parameters, rng: np.random.Generator) -> None:
    """Random weights; relations start at 0."""
    for name in ("vectors.W", "arc.U"):
        start_uniform(P[name], rng)


class WordVectors(NamedTuple):
    """The vectors of the words of a batch, sentence after sentence, with what the gradient needs.

    Attributes
    ----------
    before : [n, 2 * (arc + relation)]
        By rows of the batch: before negative numbers are made smaller.
    head, modifier
        For arcs; `relation_head`, `relation_modifier` for relations, each with a 1 behind.
    """

    states: Real
    before: Real
    masks: tuple[Real | None, Real | None]
    head: Real
    modifier: Real
    relation_head: Real
    relation_modifier: Real


def word_vectors(
    P: Parameters, states: Real, packing: Packing, dropout: Dropout | None = None
) -> WordVectors:
    """Vectors of words as heads and as modifiers."""
    masks: tuple[Real | None, Real | None] = (None, None)
    if dropout is not None:
        masks = dropout.of_sentences(states.shape[1]), dropout.of_sentences(len(P["vectors.b"]))
    states = times(states, masks[0])
    before = states @ P["vectors.W"] + P["vectors.b"]
    found = times(np.where(before > 0, before, LEAK * before), masks[1])[packing.row]
    a = P["arc.U"].shape[1]
    r = len(P["relation.U"]) - 1
    head, modifier, relation_head, relation_modifier = np.split(
        found, [a, 2 * a, 2 * a + r], axis=1
    )
    return WordVectors(
        states, before, masks, head, _with_one(modifier),
        _with_one(relation_head), _with_one(relation_modifier),
    )  # fmt: skip


def _with_one(array: Real) -> Real:
    return np.concatenate([array, np.ones_like(array[:, :1])], axis=1)


def word_vectors_gradient(
    P: Parameters, G: Parameters, vectors: WordVectors, packing: Packing, d_found: Sequence[Real]
) -> Real:
    """Write the gradient of the weights into G; that of the states is returned.

    Parameters
    ----------
    d_found
        By head, modifier, and the two for relations; the last three with their ones.
    """
    parts = [d_found[0], *(part[:, :-1] for part in d_found[1:])]
    d_before = np.empty_like(vectors.before)
    d_before[packing.row] = np.concatenate(parts, axis=1)
    d_before = times(d_before, vectors.masks[1])
    d_before *= np.where(vectors.before > 0, 1.0, LEAK).astype(d_before.dtype)
    np.matmul(vectors.states.T, d_before, out=G["vectors.W"])
    np.sum(d_before, axis=0, out=G["vectors.b"])
    return times(d_before @ P["vectors.W"].T, vectors.masks[0])


def head_shares(P: Parameters, vectors: WordVectors, starts: Sequence[int]) -> list[Real]:
    """Of each sentence, the share of each word's heads, shape [n, n + 1]; the root is a word."""
    left = vectors.modifier @ P["arc.U"]
    shares = []
    for start, end in pairwise(starts):
        scores = left[start + 1 : end] @ vectors.head[start:end].T
        word = np.arange(end - start - 1)
        scores[word, word + 1] = -np.inf  # nobody is their own head
        shares.append(softmax(scores))
    return shares


def head_gradient(
    P: Parameters, G: Parameters, vectors: WordVectors, starts: Sequence[int], d_scores: list[Real]
) -> tuple[Real, Real]:
    """Write the gradient of the weights into G; those of the vectors of heads and modifiers."""
    left = vectors.modifier @ P["arc.U"]
    d_left, d_head = np.zeros_like(left), np.empty_like(vectors.head)
    for start, end, d in zip(starts[:-1], starts[1:], d_scores, strict=True):
        d_left[start + 1 : end] = d @ vectors.head[start:end]
        d_head[start:end] = d.T @ left[start + 1 : end]
    np.matmul(vectors.modifier.T, d_left, out=G["arc.U"])
    return d_head, d_left @ P["arc.U"].T


class RelationTrace(NamedTuple):
    """Shares of relations of some arcs, with what the gradient needs."""

    heads: npt.NDArray[np.int64]
    modifiers: npt.NDArray[np.int64]
    left: Real
    shares: Real


def relation_shares(
    P: Parameters,
    vectors: WordVectors,
    heads: npt.NDArray[np.int64],
    modifiers: npt.NDArray[np.int64],
) -> RelationTrace:
    """Shares of relations of arcs, whose words are given by their places in the batch."""
    right, U = vectors.relation_head[heads], P["relation.U"]
    left = (vectors.relation_modifier[modifiers] @ U).reshape(len(heads), -1, len(U))
    return RelationTrace(heads, modifiers, left, softmax((left @ right[:, :, None])[:, :, 0]))


def relation_gradient(
    P: Parameters, G: Parameters, vectors: WordVectors, trace: RelationTrace, d_scores: Real
) -> tuple[Real, Real]:
    """Write the gradient of the weights into G; those of the vectors of heads and modifiers."""
    right = vectors.relation_head[trace.heads]
    d_left = (d_scores[:, :, None] * right[:, None, :]).reshape(len(right), -1)
    np.matmul(vectors.relation_modifier[trace.modifiers].T, d_left, out=G["relation.U"])
    d_head, d_modifier = np.zeros((2, *vectors.relation_head.shape), right.dtype)
    d_modifier[trace.modifiers] = d_left @ P["relation.U"].T
    np.add.at(d_head, trace.heads, (d_scores[:, None, :] @ trace.left)[:, 0])
    return d_head, d_modifier
