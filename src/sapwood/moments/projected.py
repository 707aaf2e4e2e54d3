"""Projected vectors of all nodes, and the averages over them that spectral learning needs.

Notation (SPECTRAL, section 7 and Figure 7)
-------------------------------------------
    y = U' phi     inside vector of a node, [m]       z = V' psi   outside vector, [m]
    Y[node], Z[node]                                  rows of all nodes, in treebank order

All nodes of all trees count. (Drawing one node per tree, as the paper does to get independent
samples, weighs nodes of small trees more than those of large ones; inside and outside are then
dependent given the hidden state, and the estimate is inconsistent: see docs/concepts/spectral.md.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.features.space import FeatureSpace

FloatArray = npt.NDArray[np.float64]
Ids = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Shard:
    """Feature numbers of the nodes of one shard, inside and outside."""

    inside: Ids
    outside: Ids


class CrossCovariance:
    """Omega = sum over nodes of phi psi' / M(a), block-diagonal by label, as products.

    The matrix itself would have as many entries as pairs of features that meet at a node.
    """

    def __init__(
        self, inside: FeatureSpace, outside: FeatureSpace, symbol_count: FloatArray
    ) -> None:
        self.inside, self.outside = inside, outside
        sizes = np.diff(inside.start)
        self.per_node = 1.0 / np.maximum(np.repeat(symbol_count, sizes), 1.0)[:, None]
        sizes = np.diff(outside.start)
        self.per_node_outside = 1.0 / np.maximum(np.repeat(symbol_count, sizes), 1.0)[:, None]

    def times(self, shard: Shard, X: FloatArray) -> FloatArray:  # noqa: N803 - a matrix
        """One shard's part of Omega X, shape [n_inside, k]; parts add up."""
        return self._product(shard.outside, self.outside, X, shard.inside, self.inside)

    def transposed_times(self, shard: Shard, X: FloatArray) -> FloatArray:  # noqa: N803
        """One shard's part of Omega' X, shape [n_outside, k]; parts add up."""
        return self._product(shard.inside, self.inside, X, shard.outside, self.outside)

    def _product(
        self,
        ids: Ids,
        space: FeatureSpace,
        X: FloatArray,  # noqa: N803
        other_ids: Ids,
        other: FeatureSpace,
    ) -> FloatArray:
        from sapwood.kernels.features import gather, scatter

        rows = np.empty((len(ids), X.shape[1]))
        gather(ids, space.weight, X, rows)
        out = np.zeros((other.n_features, X.shape[1]))
        scatter(other_ids, other.weight, rows, out)
        return out * (self.per_node if other is self.inside else self.per_node_outside)


@dataclass(frozen=True, eq=False)
class ProjectedNodes:
    """Vectors of nodes, one row each; `+` puts the rows of the next shard behind."""

    Y: FloatArray
    Z: FloatArray

    def __add__(self, other: ProjectedNodes) -> ProjectedNodes:
        return ProjectedNodes(np.concatenate([self.Y, other.Y]), np.concatenate([self.Z, other.Z]))

    @classmethod
    def of(
        cls,
        shard: Shard,
        inside: FeatureSpace,
        outside: FeatureSpace,
        U: FloatArray,  # noqa: N803
        V: FloatArray,  # noqa: N803
    ) -> ProjectedNodes:
        """Step 1 of Figure 7 for one shard."""
        from sapwood.kernels.features import gather

        Y, Z = (np.empty((len(shard.inside), U.shape[1])) for _ in range(2))  # noqa: N806
        gather(shard.inside, inside.weight, U, Y)
        gather(shard.outside, outside.weight, V, Z)
        return cls(Y, Z)
