"""Features of the nodes of shards, and sums over them: all that spectral learning asks of trees.

Notation (SPECTRAL, section 7 and Figure 7)
-------------------------------------------
    y = U' phi     inside vector of a node, [m]       z = V' psi   outside vector, [m]
    Y[node], Z[node]                                  rows of the nodes of one shard
    a -> b c       a rule; z of the parent, y of the left and w of the right child are its vectors

All nodes of all trees count. (Drawing one node per tree, as the paper does to get independent
samples, weighs nodes of small trees more than those of large ones; inside and outside are then
dependent given the hidden state, and the estimate is inconsistent: see docs/concepts/spectral.md.)
Every statistic is a sum over nodes. Third moments of rules are the large ones; rules that are seen
so seldom that their instances are smaller keep these instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Inventory
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import Lexicon
from sapwood.constituency.learn.templates import Column, Template, feature_keys
from sapwood.constituency.learn.tree_counts import TreeCounts
from sapwood.core.arrays import FloatArray, IntArray, group_rows, sum_rows
from sapwood.linalg.observable import RuleLayout, RuleSums

Rows = npt.NDArray[np.int64]
RARE = 2  # words seen at most so often also stand for the unknown words of their class
Ids = npt.NDArray[np.uint32]


class WordClasses(NamedTuple):
    """Rows of the lexicon for tokens."""

    seen: FloatArray  # [n_words]: how often each word occurs
    # [n_words]: for features: the row of a word, or of its class when it was seen once
    row_of_word: Rows
    # [n_words]: the row of each word itself, -1 for words that the lexicon does not list
    own_row: Rows
    # [2, n_words]: the row of its class, in the middle of a sentence and at its start; -1 for
    # words that are not rare
    class_of_word: Rows

    @classmethod
    def of(cls, counts: TreeCounts, inventory: Inventory, lexicon: Lexicon) -> WordClasses:
        """Look up every word once."""
        words, vocabulary = inventory.words, lexicon.vocabulary
        word = counts.lexical // 2 % len(words)
        count = np.asarray(np.bincount(word, counts.lexical_count, len(words)), float)
        number = {word: row for row, word in enumerate(vocabulary.words)}
        own = np.array([number.get(word, -1) for word in words])
        classes = np.full((2, len(words)), -1)
        for x in np.flatnonzero((count > 0) & (count <= RARE)).tolist():
            for is_first in (0, 1):
                classes[is_first, x] = vocabulary.class_row(words[x], is_first=bool(is_first))
        once = (count <= 1) & (classes[0] >= 0)
        return cls(count, np.where(once, classes[0], own), own, classes)

    def entries(self, shard: Treebank, lexicon: Lexicon) -> Rows:
        """Entries that each leaf of a shard is an instance of: its word's and its class's, or -1.

        Returns
        -------
        array of [2, n_leaves]
        """
        leaf = np.flatnonzero(shard.word >= 0)
        word, is_first = shard.word[leaf], (shard.start[leaf] == 0).astype(np.int64)
        tag = shard.label[leaf].astype(np.int64) - len(shard.inventory.phrases)
        rows = (self.own_row[word], self.class_of_word[is_first, word])
        return np.stack([lexicon.find_entries(row, tag) for row in rows])


@dataclass(frozen=True, eq=False)
class FeatureCounts:
    """Rising keys and counts per template; `+` joins shards."""

    keys: tuple[Column, ...]
    counts: tuple[FloatArray, ...]

    def __add__(self, other: FeatureCounts) -> FeatureCounts:
        keys, counts = [], []
        for columns in zip(self.keys, other.keys, self.counts, other.counts, strict=True):
            joined, inverse = np.unique(np.concatenate(columns[:2]), return_inverse=True)
            keys.append(joined)
            total = np.bincount(inverse, np.concatenate(columns[2:]), len(joined))
            counts.append(total.astype(float))
        return FeatureCounts(tuple(keys), tuple(counts))


@dataclass(frozen=True, eq=False)
class NodeKeys:
    """What templates say of every node of a shard, before features have numbers."""

    shard: Treebank
    counts: FeatureCounts  # the distinct keys of each template
    places: tuple[npt.NDArray[np.uint32], ...]  # for each template, which of its keys each node has

    @classmethod
    def of(
        cls, shard: Treebank, templates: Sequence[Template], row_of_word: Column | None = None
    ) -> NodeKeys:
        """Look at all nodes of a shard."""
        keys, counts, places = [], [], []
        for values in feature_keys(shard, templates, row_of_word):
            key, place, n = np.unique(values, return_inverse=True, return_counts=True)
            keys.append(key)
            counts.append(n.astype(float))
            places.append(place.astype(np.uint32))
        return cls(shard, FeatureCounts(tuple(keys), tuple(counts)), tuple(places))


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """All features of one side, inside or outside."""

    templates: tuple[Template, ...]
    keys: tuple[Column, ...]  # rising keys of each template's features
    number: tuple[Column, ...]  # the number of each of those features
    weight: FloatArray  # [n_features]: value of a feature where it is active
    count: FloatArray  # [n_features]: how many nodes have it
    start: Column  # [n_symbols + 1]: where the block of each label starts

    @classmethod
    def build(
        cls,
        templates: Sequence[Template],
        keys: Sequence[Column],
        counts: Sequence[FloatArray],
        symbol_count: FloatArray,
        kappa: float,
        *,
        scaled: bool = True,
    ) -> FeatureSpace:
        """Number and scale features that were counted over all shards."""
        n_symbols = len(symbol_count)
        all_keys, all_counts = np.concatenate(keys), np.concatenate(counts)
        label = all_keys % n_symbols
        order = np.argsort(label, kind="stable")
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        count, label = all_counts[order], label[order]
        weight = np.sqrt(symbol_count[label] / (count + kappa)) if scaled else np.ones(len(order))
        cuts = np.cumsum([len(k) for k in keys])[:-1]
        start = np.searchsorted(label, np.arange(n_symbols + 1))
        return cls(
            tuple(templates), tuple(keys), tuple(np.split(number, cuts)), weight, count, start
        )

    def rows(
        self, keys: Sequence[Column], places: Sequence[npt.NDArray[np.uint32]]
    ) -> npt.NDArray[np.uint32]:
        """Feature numbers of every node, shape [n_nodes, n_templates]."""
        ids = np.empty((len(places[0]), len(self.templates)), np.uint32)
        for t, (key, place) in enumerate(zip(keys, places, strict=True)):
            ids[:, t] = self.number[t][np.searchsorted(self.keys[t], key)][place]
        return ids


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The nodes of a shard as numbers of features, and how they hang together."""

    # [n_nodes, n_templates]: feature numbers
    inside: Ids
    outside: Ids
    label: IntArray  # [n_nodes]
    # [n_instances]: instances of rules: their rows, rules, and rows of the children
    parent: IntArray
    rule: IntArray
    left: IntArray
    right: IntArray
    roots: IntArray  # [n_trees]: rows
    # [n_leaves]: rows, and numbers of words
    leaf: IntArray
    word: IntArray
    # [2, n_leaves]: entries of the lexicon that a leaf is an instance of, for its word and its
    # class; or -1
    entry: IntArray

    @classmethod
    def of(
        cls,
        nodes: NodeKeys,
        inside: FeatureSpace,
        outside: FeatureSpace,
        classes: WordClasses,
        lexicon: Lexicon,
    ) -> FeatureRows:
        """Number the features of a shard whose values were looked at."""
        shard, n_inside = nodes.shard, len(inside.templates)
        keys, places = nodes.counts.keys, nodes.places
        parent, leaf = np.flatnonzero(shard.rule >= 0), np.flatnonzero(shard.word >= 0)
        first = np.repeat(shard.offsets[:-1], np.diff(shard.offsets))[parent]  # of each's tree
        return cls(
            inside=inside.rows(keys[:n_inside], places[:n_inside]),
            outside=outside.rows(keys[n_inside:], places[n_inside:]),
            label=shard.label.astype(np.int64),
            parent=parent,
            rule=shard.rule[parent].astype(np.int64),
            left=shard.left[parent] + first,
            right=shard.right[parent] + first,
            roots=shard.offsets[1:] - 1,
            leaf=leaf,
            word=shard.word[leaf].astype(np.int64),
            entry=classes.entries(shard, lexicon),
        )

    def pairs(self, known: IntArray, n_phrases: int, n_words: int) -> IntArray:
        """Which pair of tag and word each leaf is, among rising codes `tag * n_words + word`."""
        return np.searchsorted(known, (self.label[self.leaf] - n_phrases) * n_words + self.word)


class SingularVectors(NamedTuple):
    """What makes vectors of the features of nodes."""

    # [n_features]: scales of the features of either side
    inside: FloatArray
    outside: FloatArray
    # [n_features, m]
    U: FloatArray
    V: FloatArray
    m: IntArray  # [n_symbols]: how many numbers of a vector count for each label

    def vectors(self, rows: FeatureRows) -> tuple[FloatArray, FloatArray]:
        """Step 1 of Figure 7: y and z of all nodes of a shard; zero beyond m of their label."""
        from sapwood.constituency.learn.kernels.features import gather

        Y, Z = (np.empty((len(rows.label), self.U.shape[1])) for _ in range(2))  # noqa: N806
        gather(rows.inside, self.inside, self.U, Y)
        gather(rows.outside, self.outside, self.V, Z)
        beyond = np.arange(self.U.shape[1]) >= self.m[rows.label][:, None]
        Y[beyond] = Z[beyond] = 0.0
        return Y, Z


class CrossCovariance(NamedTuple):
    """Omega = sum over nodes of phi psi', block-diagonal by label, as products.

    The matrix itself would have as many entries as pairs of features that meet at a node.
    """

    # [n_features]: scales of the features of either side
    inside: FloatArray
    outside: FloatArray

    def times(self, rows: FeatureRows, X: FloatArray, side: int) -> FloatArray:  # noqa: N803
        """One shard's part of Omega X, [n_inside, k], or for side 1 of Omega' X; parts add up."""
        from sapwood.constituency.learn.kernels.features import gather, scatter

        (ids, weight), (other_ids, other_weight) = (
            (rows.inside, self.inside),
            (rows.outside, self.outside),
        )[:: 1 - 2 * side]
        mixed = np.empty((len(ids), X.shape[1]))
        gather(other_ids, other_weight, X, mixed)
        out = np.zeros((len(weight), X.shape[1]))
        scatter(ids, weight, mixed, out)
        return out


@dataclass(frozen=True, eq=False)
class Instances:
    """Instances of rare rules in the order of trees; `+` puts those of the next shard behind."""

    rule: IntArray  # [n]
    # [n, m]: outside vector of the parent, inside vectors of the children
    z: FloatArray
    y: FloatArray
    w: FloatArray

    def __add__(self, other: Instances) -> Instances:
        names = ("rule", "z", "y", "w")
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return Instances(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class ProjectedSums:
    """Sums over the nodes of shards; `+` joins shards."""

    # [n_symbols, m]: of the vectors of each label, and of their products number by number
    y: FloatArray
    z: FloatArray
    yz: FloatArray
    root: FloatArray  # [n_symbols, m]: of y of the roots of trees
    # [n_entries, m], [n_entries]: of z of the leaves that are instances of each entry of the
    # lexicon, and how many they are
    entry: FloatArray
    entry_count: FloatArray
    rules: FloatArray  # `RuleSums` of all rules that do not keep their instances
    instances: Instances  # of those that do

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
            sum_rows(Y, rows.label, n_symbols),
            sum_rows(Z, rows.label, n_symbols),
            sum_rows(Y * Z, rows.label, n_symbols),
            sum_rows(Y[rows.roots], rows.label[rows.roots], n_symbols),
            entry,
            count,
            _rule_sums(rows, Y, Z, vectors.m, layout),
            Instances(
                rows.rule[seldom], Z[rows.parent[seldom]], Y[rows.left[seldom]],
                Y[rows.right[seldom]],
            ),
        )  # fmt: skip


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
