"""Forests of dependency trees: scores of parts, posteriors of arcs, the best trees.

Notation
--------
    arc     a number; `head[a]` and `modifier[a]`, the root being 0; sorted by head, then modifier
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.corpora.word_properties import COLUMN, Words
from sapwood.dependency.model.tables import FeatureTable

IntArray = npt.NDArray[np.int32]
BETWEEN_COLUMNS = np.array([COLUMN["X"], COLUMN["X"]], np.int32)


class PartFeatures(NamedTuple):
    """Hashed features of parts; see `sapwood.dependency.parse.kernels.arc_features`."""

    places: npt.NDArray[np.uint32]
    n_features: IntArray
    lengths: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, parts: IntArray, rows: Words, table: FeatureTable) -> PartFeatures:
        """Features of the parts of a sentence."""
        from sapwood.dependency.parse.kernels.arc_features import part_features

        templates = table.templates
        made = part_features(
            parts, rows, COLUMN["C"], BETWEEN_COLUMNS, templates.atoms, templates.bounds, table.mask
        )
        return cls(*made)

    def scores(self, weights: npt.NDArray[np.float32]) -> FloatArray:
        """Sum of the weights of each part's features."""
        from sapwood.dependency.parse.kernels.arc_features import part_scores

        found: FloatArray = part_scores(*self, weights)
        return found

    def adagrad_step(self, residue: FloatArray, table: Any, rate: float) -> None:
        """One step of AdaGrad along what is right less what was expected."""
        from sapwood.core.kernels.adagrad import adagrad_parts

        adagrad_parts(*self, residue, table.weights, table.squares, rate)


class ArcForest:
    """All projective trees over some arcs with one word at the root.

    Parameters
    ----------
    n
        Words.
    head, modifier
        Of each arc; sorted. There must be a tree: the chain of arcs from each word to the next
        is one.
    order
        1 or 2.
    """

    def __init__(self, n: int, head: IntArray, modifier: IntArray, order: int = 1) -> None:
        from sapwood.dependency.parse.kernels import arc_forest as kernel

        self.n, self.head, self.modifier, self.order = n, head, modifier, order
        if order == 1:
            made = kernel.first_order(n, head, modifier)
        else:
            *made, self._first_sibling = kernel.second_order(n, head, modifier)
        self.parts, self.starts, self.edges, self.arc_of = made

    def whole(self, scores: FloatArray) -> FloatArray:
        """Scores of parts as the edges have them: those of arcs with those of their siblings."""
        if self.order == 1:
            return scores
        first, out = self._first_sibling, scores.copy()
        out[first[0] : first[-1]] += np.repeat(scores[: len(self.head)], np.diff(first))
        return out

    def posteriors(self, scores: FloatArray) -> tuple[float, FloatArray]:
        """Log of the sum over all trees, and posteriors of all parts; those of arcs come first."""
        from sapwood.dependency.parse.kernels.arc_forest import posteriors

        total, found = posteriors(self.starts, self.edges, self.whole(scores))
        if self.order > 1:
            first = self._first_sibling
            of_siblings = found[first[0] : first[-1]]
            found[: len(self.head)] = np.add.reduceat(of_siblings, first[:-1] - first[0])
        return float(total), found

    def arc_posteriors(self, scores: FloatArray) -> FloatArray:
        """Posterior of each arc."""
        return self.posteriors(scores)[1][: len(self.head)]

    def right(self, heads: IntArray) -> FloatArray:
        """Which parts are in a tree, as 0 and 1; `heads` has one more number, for the root."""
        from sapwood.dependency.parse.kernels.arc_forest import right_parts

        found: FloatArray = right_parts(self.parts, heads)
        return found

    def best(self, scores: FloatArray) -> IntArray:
        """Heads of the best tree, shape [n + 1]; that of the root is 0."""
        from sapwood.dependency.parse.kernels.arc_forest import best_tree

        _, arcs = best_tree(self.starts, self.edges, self.arc_of, self.whole(scores))
        return self._heads(arcs)

    def _heads(self, arcs: Any) -> IntArray:
        heads = np.zeros(self.n + 1, np.int32)
        heads[self.modifier[arcs]] = self.head[arcs]
        return heads

    def k_best(self, scores: FloatArray, k: int) -> tuple[FloatArray, IntArray]:
        """Scores and heads, shape [n_trees, n + 1], of the k best trees or as many as there are."""
        from sapwood.dependency.parse.kernels.arc_k_best import k_best_trees

        found, arcs = k_best_trees(
            self.n, self.starts, self.edges, self.arc_of, self.whole(scores), k
        )
        heads = np.zeros((len(found), self.n + 1), np.int32)
        np.put_along_axis(heads, self.modifier[arcs], self.head[arcs], axis=1)
        return found, heads
