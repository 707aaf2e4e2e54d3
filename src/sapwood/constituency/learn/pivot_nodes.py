"""Weighted nodes with their features: what pivots are learnt from.

A treebank has a row for every node, of weight 1. Exact moments have a row for every pair of an
inside and an outside feature, weighted by its expected count; nothing else differs. Rows stay in
their shards; what leaves them are sums by feature, label, or pair of tag and word, and the
instances of one rule at a time.

Notation
--------
    f, g   inside and outside features, one a template      Y, Z   vectors of rows, likewise
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sapwood.constituency.learn.projected import FeatureRows, SingularVectors
from sapwood.core.arrays import FloatArray, IntArray, group_rows, sum_rows

Ids = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Side:
    """The features of one side."""

    start: IntArray  # [n_symbols + 1]: where the block of each label's features starts
    count: FloatArray  # [n_features]: weight of the rows that have a feature
    number: tuple[IntArray, ...]  # the features of each template

    @cached_property
    def owner(self) -> IntArray:
        """The label of each feature."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def block(self, a: int) -> slice:
        """Rows of a label's features."""
        return slice(int(self.start[a]), int(self.start[a + 1]))

    def per_template(self, weights: FloatArray, m: IntArray) -> FloatArray:
        """Probabilities of features given a label's state, for each template on its own.

        A node has one feature of every template (section 6.2). Where a state has no weight for any
        feature of a template, the template says nothing about it: all are 1. Columns beyond the
        states m of a label, [n_symbols], are 0.
        """
        out, owner = np.zeros_like(weights), self.owner
        for number in self.number:
            total = sum_rows(weights[number], owner[number], len(self.start) - 1)
            same = total[owner[number]]
            out[number] = np.divide(weights[number], same, out=np.ones_like(same), where=same > 0)
        return np.where(np.arange(weights.shape[1]) < m[owner][:, None], out, 0.0)


def sums_by_feature(ids: Ids, rows: FloatArray, n_features: int) -> FloatArray:
    """For each feature, the sum of the rows that have it."""
    from sapwood.constituency.learn.kernels.features import scatter

    out = np.zeros((n_features, rows.shape[1]))
    scatter(ids, np.ones(n_features), np.ascontiguousarray(rows), out)
    return out


def sums_over_features(ids: Ids, table: FloatArray) -> FloatArray:
    """For each row, the sum over its features of their rows of a table."""
    from sapwood.constituency.learn.kernels.features import gather

    out = np.empty((len(ids), table.shape[1]))
    gather(ids, np.ones(len(table)), table, out)
    return out


@dataclass(frozen=True, eq=False)
class PivotRows:
    """The rows of one shard."""

    # [n_rows]
    label: IntArray
    weight: FloatArray
    # [n_rows, n_templates]: their features
    inside: Ids
    outside: Ids
    # [n_rows, k]: their vectors
    Y: FloatArray
    Z: FloatArray
    # [n_instances]: instances of rules
    rule: IntArray
    instance_weight: FloatArray
    # [n_instances]: rows with the parent's outside features, and with the children's inside
    # features
    parent: IntArray
    left: IntArray
    right: IntArray
    # [n_leaves]: rows of words, and which pair of tag and word each is
    leaf: IntArray
    pair: IntArray
    top: IntArray  # [n_roots]: rows of roots

    @classmethod
    def of(
        cls,
        rows: FeatureRows,
        vectors: SingularVectors,
        pairs: IntArray,
        n_phrases: int,
        n_words: int,
    ) -> PivotRows:
        """The nodes of a shard of trees, each of weight 1."""
        Y, Z = vectors.vectors(rows)  # noqa: N806
        return cls(
            label=rows.label, weight=np.ones(len(rows.label)), inside=rows.inside,
            outside=rows.outside, Y=Y, Z=Z, rule=rows.rule, instance_weight=np.ones(len(rows.rule)),
            parent=rows.parent, left=rows.left, right=rows.right, leaf=rows.leaf,
            pair=rows.pairs(pairs, n_phrases, n_words), top=rows.roots,
        )  # fmt: skip

    def features(self, side: str) -> Ids:
        """Of one side, `inside` or `outside`."""
        return self.inside if side == "inside" else self.outside

    def points(self, side: str, n_features: int) -> FloatArray:
        """For each feature of a side, the weighted sum of the other side's vectors."""
        vectors = self.Z if side == "inside" else self.Y
        return sums_by_feature(self.features(side), vectors * self.weight[:, None], n_features)

    def joint(self, side: str, posterior: FloatArray, n_features: int) -> FloatArray:
        """For each feature of the other side, the states of one side that it occurs with."""
        other = "outside" if side == "inside" else "inside"
        states = sums_over_features(self.features(side), posterior) * self.weight[:, None]
        return sums_by_feature(self.features(other), states, n_features)


@dataclass(frozen=True, eq=False)
class LikelyStates:
    """Rows of a shard with how likely each state makes their features."""

    rows: PivotRows
    # [n_rows, m]: products of r of a row's inside features, and of s of its outside features
    below: FloatArray
    above: FloatArray

    def instances(self, rules: slice, stride: IntArray) -> RuleInstances:
        """Of some rules, every so-manieth instance: z above, y and x below."""
        rows = self.rows
        groups = group_rows(rows.rule, len(stride))[rules]
        some = [at[::n] for at, n in zip(groups, stride[rules].tolist(), strict=True)]
        at = np.concatenate([np.empty(0, np.int64), *some])
        return RuleInstances(
            rows.rule[at], self.above[rows.parent[at]], self.below[rows.left[at]],
            self.below[rows.right[at]], rows.instance_weight[at],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class RuleInstances:
    """Instances of some rules; `+` puts those of the next shard behind.

    Attributes
    ----------
    rule, weight : [n]
    z, y, x : [n, m]
        Likelihoods of the states of the parent and the children.
    """

    rule: IntArray
    z: FloatArray
    y: FloatArray
    x: FloatArray
    weight: FloatArray

    def __add__(self, other: RuleInstances) -> RuleInstances:
        names = ("rule", "z", "y", "x", "weight")
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return RuleInstances(*map(np.concatenate, pairs))
