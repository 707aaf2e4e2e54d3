"""Features of the nodes of a shard, and products with them that add up over shards.

Notation (SPECTRAL, section 7 and Figure 7)
-------------------------------------------
    y = U' phi     inside vector of a node, [m]       z = V' psi   outside vector, [m]
    Y[node], Z[node]                                  rows of the nodes of one shard

All nodes of all trees count. (Drawing one node per tree, as the paper does to get independent
samples, weighs nodes of small trees more than those of large ones; inside and outside are then
dependent given the hidden state, and the estimate is inconsistent: see docs/concepts/spectral.md.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.features.nodes import NodeTable
from sapwood.features.space import FeatureSpace
from sapwood.models.latent_grammar import Lexicon
from sapwood.moments.feature_counts import NodeKeys
from sapwood.moments.word_classes import WordClasses

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The nodes of a shard as numbers of features, and how they hang together.

    Attributes
    ----------
    inside, outside : [n_nodes, n_templates]
        Feature numbers.
    label : [n_nodes]
    parent, rule, left, right : [n_instances]
        Instances of rules: their rows, rules, and rows of the children.
    roots : [n_trees]
        Rows.
    leaf, word : [n_leaves]
        Rows, and numbers of words.
    entry : [2, n_leaves]
        Entries of the lexicon that a leaf is an instance of, for its word and its class; or -1.
    """

    inside: Ids
    outside: Ids
    label: IntArray
    parent: IntArray
    rule: IntArray
    left: IntArray
    right: IntArray
    roots: IntArray
    leaf: IntArray
    word: IntArray
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
        table, keys, places = NodeTable(shard), nodes.counts.keys, nodes.places
        parent, leaf = np.flatnonzero(table.rule >= 0), np.flatnonzero(table.word >= 0)
        return cls(
            inside=inside.rows(keys[:n_inside], places[:n_inside]),
            outside=outside.rows(keys[n_inside:], places[n_inside:]),
            label=table.label,
            parent=parent,
            rule=table.rule[parent],
            left=table.left[parent],
            right=table.right[parent],
            roots=shard.offsets[1:] - 1,
            leaf=leaf,
            word=table.word[leaf],
            entry=classes.entries(shard, lexicon),
        )

    def pairs(self, known: IntArray, n_phrases: int, n_words: int) -> IntArray:
        """Which pair of tag and word each leaf is, among rising codes `tag * n_words + word`."""
        return np.searchsorted(known, (self.label[self.leaf] - n_phrases) * n_words + self.word)


class SingularVectors(NamedTuple):
    """What makes vectors of the features of nodes.

    Attributes
    ----------
    inside, outside : [n_features]
        Scales of the features of either side.
    U, V : [n_features, m]
    m : [n_symbols]
        How many numbers of a vector count for each label.
    """

    inside: FloatArray
    outside: FloatArray
    U: FloatArray
    V: FloatArray
    m: IntArray

    def vectors(self, rows: FeatureRows) -> tuple[FloatArray, FloatArray]:
        """Step 1 of Figure 7: y and z of all nodes of a shard; zero beyond m of their label."""
        from sapwood.kernels.features import gather

        Y, Z = (np.empty((len(rows.label), self.U.shape[1])) for _ in range(2))  # noqa: N806
        gather(rows.inside, self.inside, self.U, Y)
        gather(rows.outside, self.outside, self.V, Z)
        beyond = np.arange(self.U.shape[1]) >= self.m[rows.label][:, None]
        Y[beyond] = Z[beyond] = 0.0
        return Y, Z


class CrossCovariance(NamedTuple):
    """Omega = sum over nodes of phi psi', block-diagonal by label, as products.

    The matrix itself would have as many entries as pairs of features that meet at a node.

    Attributes
    ----------
    inside, outside : [n_features]
        Scales of the features of either side.
    """

    inside: FloatArray
    outside: FloatArray

    def times(self, rows: FeatureRows, X: FloatArray) -> FloatArray:  # noqa: N803 - a matrix
        """One shard's part of Omega X, shape [n_inside, k]; parts add up."""
        return _product(rows.outside, self.outside, X, rows.inside, self.inside)

    def transposed_times(self, rows: FeatureRows, X: FloatArray) -> FloatArray:  # noqa: N803
        """One shard's part of Omega' X, shape [n_outside, k]; parts add up."""
        return _product(rows.inside, self.inside, X, rows.outside, self.outside)


def _product(
    ids: Ids,
    weight: FloatArray,
    X: FloatArray,  # noqa: N803
    other_ids: Ids,
    other_weight: FloatArray,
) -> FloatArray:
    from sapwood.kernels.features import gather, scatter

    rows = np.empty((len(ids), X.shape[1]))
    gather(ids, weight, X, rows)
    out = np.zeros((len(other_weight), X.shape[1]))
    scatter(other_ids, other_weight, rows, out)
    return out
