"""Sums of projected vectors: all that steps 2 and 3 of spectral learning ask of the trees.

Notation (SPECTRAL, Figure 7)
-----------------------------
    y, z     inside and outside vectors of a node, see `projected`
    a -> b c a rule; z of the parent, y of the left and w of the right child are its vectors

Every statistic is a sum over nodes. Third moments of rules are the large ones; rules that are seen
so seldom that their instances are smaller keep these instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import group_rows, starts_of
from sapwood.decompose.observable import RuleSums
from sapwood.moments.projected import FeatureRows, SingularVectors

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class RuleLayout(NamedTuple):
    """Which rules keep their instances, and where the sums of the others start.

    Attributes
    ----------
    rules : [n_rules, 3]
    keeps : [n_rules]
        Whether a rule keeps its instances.
    start : [n_rules + 1]
        Where its `RuleSums` start among those of all; nothing for rules that keep instances.
    n_entries
        Of the lexicon.
    """

    rules: IntArray
    keeps: npt.NDArray[np.bool_]
    start: IntArray
    n_entries: int

    @classmethod
    def of(
        cls, rules: IntArray, m: IntArray, keeps: npt.NDArray[np.bool_], n_entries: int
    ) -> RuleLayout:
        """For labels with so many states."""
        sizes = RuleSums.sizes(m[rules])
        return cls(rules, keeps, starts_of(np.where(keeps, 0, sizes)), n_entries)


@dataclass(frozen=True, eq=False)
class Instances:
    """Instances of rare rules, in the order of the trees; `+` puts those of the next shard behind.

    Attributes
    ----------
    rule : [n]
    z, y, w : [n, m]
        Outside vector of the parent, inside vectors of the children.
    """

    rule: IntArray
    z: FloatArray
    y: FloatArray
    w: FloatArray

    def __add__(self, other: Instances) -> Instances:
        names = ("rule", "z", "y", "w")
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return Instances(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class ProjectedSums:
    """Sums over the nodes of shards; `+` joins shards.

    Attributes
    ----------
    y, z, yz : [n_symbols, m]
        Of the vectors of each label, and of their products number by number.
    root : [n_symbols, m]
        Of y of the roots of trees.
    entry, entry_count : [n_entries, m], [n_entries]
        Of z of the leaves that are instances of each entry of the lexicon, and how many they are.
    rules
        `RuleSums` of all rules that do not keep their instances.
    instances
        Of those that do.
    """

    y: FloatArray
    z: FloatArray
    yz: FloatArray
    root: FloatArray
    entry: FloatArray
    entry_count: FloatArray
    rules: FloatArray
    instances: Instances

    def __add__(self, other: ProjectedSums) -> ProjectedSums:
        names = ("y", "z", "yz", "root", "entry", "entry_count", "rules", "instances")
        return ProjectedSums(*(getattr(self, name) + getattr(other, name) for name in names))

    @classmethod
    def of(cls, rows: FeatureRows, vectors: SingularVectors, layout: RuleLayout) -> ProjectedSums:
        """Steps 1 and 2 of Figure 7 for one shard."""
        Y, Z = vectors.vectors(rows)  # noqa: N806
        n_symbols, m = len(vectors.m), Y.shape[1]
        entry, count = np.zeros((layout.n_entries, m)), np.zeros(layout.n_entries)
        for found in rows.entry:
            hit = found >= 0
            np.add.at(entry, found[hit], Z[rows.leaf[hit]])
            count += np.bincount(found[hit], minlength=layout.n_entries)
        seldom = np.flatnonzero(layout.keeps[rows.rule])
        return cls(
            _sums(Y, rows.label, n_symbols),
            _sums(Z, rows.label, n_symbols),
            _sums(Y * Z, rows.label, n_symbols),
            _sums(Y[rows.roots], rows.label[rows.roots], n_symbols),
            entry,
            count,
            _rule_sums(rows, Y, Z, vectors.m, layout),
            Instances(
                rows.rule[seldom], Z[rows.parent[seldom]], Y[rows.left[seldom]],
                Y[rows.right[seldom]],
            ),
        )  # fmt: skip


def _sums(rows: FloatArray, keys: IntArray, n_keys: int) -> FloatArray:
    total = np.zeros((n_keys, rows.shape[1]))
    np.add.at(total, keys, rows)
    return total


def _rule_sums(
    rows: FeatureRows,
    Y: FloatArray,  # noqa: N803
    Z: FloatArray,  # noqa: N803
    m: IntArray,
    layout: RuleLayout,
) -> FloatArray:
    """All rules' sums one after the other."""
    flat = np.zeros(int(layout.start[-1]))
    groups = group_rows(np.where(layout.keeps[rows.rule], -1, rows.rule), len(layout.rules))
    for r, at in enumerate(groups):
        if len(at):
            a, b, c = m[layout.rules[r]].tolist()
            z, y, w = Z[rows.parent[at], :a], Y[rows.left[at], :b], Y[rows.right[at], :c]
            parts = [part.ravel() for part in RuleSums.of(z, y, w)]
            flat[layout.start[r] : layout.start[r + 1]] = np.concatenate(parts)
    return flat
