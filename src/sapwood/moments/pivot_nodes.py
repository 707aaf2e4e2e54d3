"""Weighted nodes with their features: the moments that pivots are learnt from.

A treebank has a row for every node, of weight 1. Exact moments have a row for every pair of an
inside and an outside feature, weighted by its expected count; nothing else differs.

Notation
--------
    f, g   inside and outside features, one a template      Y, Z   vectors of rows, likewise
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Side:
    """The features of one side, and which each row has.

    Attributes
    ----------
    start : [n_symbols + 1]
        Where the block of each label's features starts.
    count : [n_features]
        Weight of the rows that have a feature.
    number
        The features of each template.
    ids : [n_rows, n_templates]
        The features of each row.
    """

    start: IntArray
    count: FloatArray
    number: tuple[IntArray, ...]
    ids: Ids

    @cached_property
    def owner(self) -> IntArray:
        """The label of each feature."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def block(self, a: int) -> slice:
        """Rows of a label's features."""
        return slice(int(self.start[a]), int(self.start[a + 1]))

    def sums(self, rows: FloatArray) -> FloatArray:
        """For each feature, the sum of the rows that have it."""
        from sapwood.kernels.features import scatter

        out = np.zeros((len(self.count), rows.shape[1]))
        scatter(self.ids, np.ones(len(out)), np.ascontiguousarray(rows), out)
        return out

    def of_rows(self, table: FloatArray) -> FloatArray:
        """For each row, the sum over its features of their rows of a table."""
        from sapwood.kernels.features import gather

        out = np.empty((len(self.ids), table.shape[1]))
        gather(self.ids, np.ones(len(table)), table, out)
        return out

    def per_template(self, weights: FloatArray, m: IntArray) -> FloatArray:
        """Probabilities of features given a label's state, for each template on its own.

        A node has one feature of every template (section 6.2). Where a state has no weight for any
        feature of a template, the template says nothing about it: all are 1.

        Parameters
        ----------
        m : [n_symbols]
            States of each label; columns beyond are 0.
        """
        out, owner = np.zeros_like(weights), self.owner
        for number in self.number:
            total = np.zeros((len(self.start) - 1, weights.shape[1]))
            np.add.at(total, owner[number], weights[number])
            same = total[owner[number]]
            out[number] = np.divide(weights[number], same, out=np.ones_like(same), where=same > 0)
        return np.where(np.arange(weights.shape[1]) < m[owner][:, None], out, 0.0)


@dataclass(frozen=True, eq=False)
class PivotNodes:
    """All that step 1 to 3 of Figure 1 ask of the data.

    Attributes
    ----------
    label, weight : [n_rows]
    inside, outside
        Their features.
    Y, Z : [n_rows, k]
        Their vectors, and how many numbers of them count for each label:
    size : [n_symbols]
    rules : [n_rules, 3]
    rule, instance_weight : [n_instances]
        Instances of rules.
    parent, left, right : [n_instances]
        Rows with the parent's outside features, and with the children's inside features.
    symbol_of_pair : [n_pairs]
        Tags of the pairs of tag and word.
    leaf, pair : [n_leaves]
        Rows of words, and which pair each is.
    top : [n_roots]
        Rows of roots.
    """

    label: IntArray
    weight: FloatArray
    inside: Side
    outside: Side
    Y: FloatArray
    Z: FloatArray
    size: IntArray
    rules: IntArray
    rule: IntArray
    instance_weight: FloatArray
    parent: IntArray
    left: IntArray
    right: IntArray
    symbol_of_pair: IntArray
    leaf: IntArray
    pair: IntArray
    top: IntArray

    @cached_property
    def count(self) -> FloatArray:
        """Weight of each label, [n_symbols]."""
        return np.asarray(np.bincount(self.label, self.weight, len(self.size)), float)
