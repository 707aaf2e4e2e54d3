"""Nodes as points for k-means, and counts of trees whose nodes belong to the nearest centre."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.constituency.learn.expected_counts import ExpectedCounts
from sapwood.constituency.learn.latent_parameters import LatentParameters
from sapwood.constituency.learn.projected import FeatureRows, SingularVectors
from sapwood.core.arrays import FloatArray, IntArray, group_rows


def points(rows: FeatureRows, vectors: SingularVectors) -> FloatArray:
    """The directions of both vectors of every node, side by side: [n_nodes, 2 m]."""
    whole = vectors._replace(m=np.full_like(vectors.m, vectors.U.shape[1]))
    sides = []
    for side in whole.vectors(rows):
        length = np.linalg.norm(side, axis=1, keepdims=True)
        sides.append(side / np.where(length > 0, length, 1.0))
    return np.hstack(sides)


@dataclass(frozen=True, eq=False)
class NodeSample:
    """Points of some nodes; `+` puts those of the next shard behind."""

    label: IntArray  # [n]
    rows: FloatArray  # [n, 2 m]

    def __add__(self, other: NodeSample) -> NodeSample:
        return NodeSample(
            np.concatenate([self.label, other.label]), np.concatenate([self.rows, other.rows])
        )

    @classmethod
    def of(cls, rows: FeatureRows, vectors: SingularVectors, stride: IntArray) -> NodeSample:
        """Of each label every so-manieth node, or none where the stride is 0."""
        groups = group_rows(rows.label, len(stride))
        some = [at[::n] for at, n in zip(groups, stride.tolist(), strict=True) if n]
        at = np.sort(np.concatenate([np.empty(0, np.int64), *some]))
        return cls(rows.label[at], points(rows, vectors)[at])


def cluster_counts(
    rows: FeatureRows,
    vectors: SingularVectors,
    centres: Sequence[FloatArray],
    layout: LatentParameters,
    pairs: IntArray,
    n_phrases: int,
    n_words: int,
) -> ExpectedCounts:
    """Counts of one shard, each node in the state of the nearest centre of its label."""
    from scipy.cluster.vq import vq

    point, states = points(rows, vectors), np.zeros(len(rows.label), np.int64)
    for at, centre in zip(group_rows(rows.label, len(centres)), centres, strict=True):
        if len(centre) and len(at):
            states[at] = vq(point[at], centre)[0]
    return hard_counts(rows, states, layout, rows.pairs(pairs, n_phrases, n_words))


def hard_counts(
    rows: FeatureRows, states: IntArray, layout: LatentParameters, pair: IntArray
) -> ExpectedCounts:
    """Counts of one shard whose nodes have known states."""
    m = layout.n_states
    _, b, c = layout.symbols_of[rows.rule].T
    inner = (states[rows.parent] * m[b] + states[rows.left]) * m[c] + states[rows.right]
    places = (
        (layout.rule_start, layout.rule_start[rows.rule] + inner),
        (layout.word_start, layout.word_start[pair] + states[rows.leaf]),
        (layout.state_start, layout.state_start[rows.label[rows.roots]] + states[rows.roots]),
    )
    rules, words, root = (
        np.bincount(at, minlength=int(start[-1])).astype(float) for start, at in places
    )
    return ExpectedCounts(rules, words, root, log_likelihood=0.0)
