"""Biaffine scores of heads and relations (Dozat and Manning 2017), forwards and backwards.

Each word has four vectors, made of its state: as a head and as a modifier, for arcs and for
relations. An arc's score is bilinear in two of them, a relation's in the other two.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import IntArray
from sapwood.networks.layers import (
    Dropout,
    Packing,
    Parameters,
    Real,
    apply_mask,
    glorot_uniform,
    softmax,
)

LEAK = 0.1  # slope of the leaky ReLU for negative numbers


class ArcSizes(NamedTuple):
    """Sizes of the vectors of words for arcs, and for relations."""

    arc: int = 200
    relation: int = 50

    def shapes(self, n_states: int, n_relations: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of arcs and relations."""
        a, r = self
        return {
            "vectors.W": (n_states, 2 * (a + r)), "vectors.b": (2 * (a + r),),
            "arc.U": (a + 1, a), "relation.U": (r + 1, n_relations * (r + 1)),
        }  # fmt: skip


def init_arcs(P: Parameters, rng: np.random.Generator) -> None:
    """Random initial weights; those of relations start at 0."""
    for name in ("vectors.W", "arc.U"):
        glorot_uniform(P[name], rng)


class ArcVectors(NamedTuple):
    """The vectors of the words of a batch, sentence after sentence, and their layer's trace."""

    states: Real
    inputs: Real  # of the leaky ReLU, by rows of the batch, [n, 2 * (arc + relation)]
    masks: tuple[Real | None, Real | None]
    head: Real
    modifier: Real  # this and the next two end in a 1
    relation_head: Real
    relation_modifier: Real


def arc_vectors(
    P: Parameters, states: Real, packing: Packing, dropout: Dropout | None = None
) -> ArcVectors:
    """Vectors of words as heads and as modifiers: one layer with a leaky ReLU."""
    masks: tuple[Real | None, Real | None] = (None, None)
    if dropout is not None:
        masks = dropout.sentence_mask(states.shape[1]), dropout.sentence_mask(len(P["vectors.b"]))
    states = apply_mask(states, masks[0])
    inputs = states @ P["vectors.W"] + P["vectors.b"]
    vectors = apply_mask(np.where(inputs > 0, inputs, LEAK * inputs), masks[1])[packing.row]
    a, r = P["arc.U"].shape[1], len(P["relation.U"]) - 1
    head, *others = np.split(vectors, [a, 2 * a, 2 * a + r], axis=1)
    ones = np.ones_like(head[:, :1])
    with_ones = (np.concatenate([part, ones], axis=1) for part in others)
    return ArcVectors(states, inputs, masks, head, *with_ones)


def arc_vectors_backward(
    P: Parameters, G: Parameters, vectors: ArcVectors, packing: Packing, d_vectors: Sequence[Real]
) -> Real:
    """Write the gradient of the layer's weights into G; return that of the states.

    `d_vectors` are gradients by head, modifier, and the two for relations, with their ones.
    """
    parts = [d_vectors[0], *(part[:, :-1] for part in d_vectors[1:])]
    d_inputs = np.empty_like(vectors.inputs)
    d_inputs[packing.row] = np.concatenate(parts, axis=1)
    d_inputs = apply_mask(d_inputs, vectors.masks[1])
    d_inputs *= np.where(vectors.inputs > 0, 1.0, LEAK).astype(d_inputs.dtype)
    np.matmul(vectors.states.T, d_inputs, out=G["vectors.W"])
    np.sum(d_inputs, axis=0, out=G["vectors.b"])
    return apply_mask(d_inputs @ P["vectors.W"].T, vectors.masks[0])


def biaffine_heads(P: Parameters, vectors: ArcVectors, starts: Sequence[int]) -> list[Real]:
    """For each sentence, the posteriors of the heads of its words, [n, n + 1], the root first."""
    left = vectors.modifier @ P["arc.U"]
    posteriors = []
    for start, end in pairwise(starts):
        scores = left[start + 1 : end] @ vectors.head[start:end].T
        word = np.arange(end - start - 1)
        scores[word, word + 1] = -np.inf  # no word is its own head
        posteriors.append(softmax(scores))
    return posteriors


def biaffine_heads_backward(
    P: Parameters, G: Parameters, vectors: ArcVectors, starts: Sequence[int], d_scores: list[Real]
) -> tuple[Real, Real]:
    """Write the gradient of the arcs' weights into G; return those of heads and modifiers."""
    left = vectors.modifier @ P["arc.U"]
    d_left, d_head = np.zeros_like(left), np.empty_like(vectors.head)
    for start, end, d in zip(starts[:-1], starts[1:], d_scores, strict=True):
        d_left[start + 1 : end] = d @ vectors.head[start:end]
        d_head[start:end] = d.T @ left[start + 1 : end]
    np.matmul(vectors.modifier.T, d_left, out=G["arc.U"])
    return d_head, d_left @ P["arc.U"].T


class RelationTrace(NamedTuple):
    """Posteriors of the relations of some arcs, and what their backward pass needs."""

    heads: IntArray
    modifiers: IntArray
    left: Real
    posteriors: Real  # [n_arcs, n_relations]


def biaffine_relations(
    P: Parameters, vectors: ArcVectors, heads: IntArray, modifiers: IntArray
) -> RelationTrace:
    """Posteriors of the relations of arcs, whose words are given by their indices in the batch."""
    right, U = vectors.relation_head[heads], P["relation.U"]
    left = (vectors.relation_modifier[modifiers] @ U).reshape(len(heads), -1, len(U))
    return RelationTrace(heads, modifiers, left, softmax((left @ right[:, :, None])[:, :, 0]))


def biaffine_relations_backward(
    P: Parameters, G: Parameters, vectors: ArcVectors, trace: RelationTrace, d_scores: Real
) -> tuple[Real, Real]:
    """Write the gradient of the relations' weights into G; return those of heads and modifiers."""
    right = vectors.relation_head[trace.heads]
    d_left = (d_scores[:, :, None] * right[:, None, :]).reshape(len(right), -1)
    np.matmul(vectors.relation_modifier[trace.modifiers].T, d_left, out=G["relation.U"])
    d_head, d_modifier = np.zeros((2, *vectors.relation_head.shape), right.dtype)
    d_modifier[trace.modifiers] = d_left @ P["relation.U"].T
    np.add.at(d_head, trace.heads, (d_scores[:, None, :] @ trace.left)[:, 0])
    return d_head, d_modifier
