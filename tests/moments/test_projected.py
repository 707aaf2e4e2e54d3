"""Products with cross-covariances, and averages of projected nodes, against plain sums."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import sapwood as sw
from sapwood.corpus.treebank import Treebank
from sapwood.estimators.spectral import Projection, SpectralLPCFG
from sapwood.features.space import FeatureSpace
from sapwood.moments.projected import CrossCovariance, ProjectedNodes


@pytest.fixture(scope="module")
def bank() -> Treebank:
    return sw.bundled_treebank("dev")[:150]


@pytest.fixture(scope="module")
def projection(bank: Treebank) -> Projection:
    return SpectralLPCFG(3).project(bank)


def features(ids: np.ndarray, space: FeatureSpace) -> csr_array:
    """Phi: one row a node, the scale of each of its features."""
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    columns = ids.ravel().astype(np.int64)
    shape = (len(ids), space.n_features)
    return csr_array((space.weight[columns], (rows, columns)), shape=shape)


def omega(projection: Projection) -> np.ndarray:
    """Sum over the nodes of phi psi', label by label divided by the label's nodes."""
    p, (shard,) = projection, projection.shards
    phi, psi = features(shard.inside, p.inside), features(shard.outside, p.outside)
    total = (phi.T @ psi).toarray()
    label = np.repeat(np.arange(len(p.count)), np.diff(p.inside.start))
    return total / np.maximum(p.count[label], 1.0)[:, None]


def test_products_are_those_of_the_matrix_divided_by_the_nodes(projection: Projection) -> None:
    p, (shard,) = projection, projection.shards
    rng, exact = np.random.default_rng(0), omega(projection)
    product = CrossCovariance(p.inside, p.outside, p.count)
    X, Y = (rng.normal(size=(n, 4)) for n in exact.shape[::-1])  # noqa: N806
    np.testing.assert_allclose(product.times(shard, X), exact @ X, rtol=1e-9, atol=1e-11)
    found = product.transposed_times(shard, Y)
    np.testing.assert_allclose(found, exact.T @ Y, rtol=1e-9, atol=1e-11)


def test_blocks_are_those_of_labels(projection: Projection) -> None:
    p, exact = projection, omega(projection)
    outside = np.zeros_like(exact, dtype=bool)
    for a in range(len(p.count)):
        rows = slice(p.inside.start[a], p.inside.start[a + 1])
        outside[rows, p.outside.start[a] : p.outside.start[a + 1]] = True
    assert not exact[~outside].any()


def test_singular_values_are_those_of_the_mean_over_a_labels_nodes(
    projection: Projection,
) -> None:
    """Unlike sums they have the same unit for all labels, and small ones are left out by it."""
    p, exact = projection, omega(projection)
    for a in np.argsort(-p.count)[:6].tolist():
        rows = slice(p.inside.start[a], p.inside.start[a + 1])
        block = exact[rows, p.outside.start[a] : p.outside.start[a + 1]]
        values = np.linalg.svd(block, compute_uv=False)[:3]
        # random projections with 3 power iterations: measured 1e-4 where the gaps are small
        np.testing.assert_allclose(p.singular_values[a], values, rtol=5e-3)


def test_nodes_are_projected_by_their_own_side(projection: Projection) -> None:
    p, (shard,), rng = projection, projection.shards, np.random.default_rng(1)
    U, V = (rng.normal(size=(side.n_features, 2)) for side in (p.inside, p.outside))  # noqa: N806
    nodes = ProjectedNodes.of(shard, p.inside, p.outside, U, V)
    np.testing.assert_allclose(nodes.Y, features(shard.inside, p.inside) @ U, rtol=1e-9, atol=1e-9)
    outside = features(shard.outside, p.outside) @ V
    np.testing.assert_allclose(nodes.Z, outside, rtol=1e-9, atol=1e-9)
    both = nodes + ProjectedNodes(nodes.Z[:2], nodes.Y[:2])
    np.testing.assert_array_equal(both.Y[-2:], nodes.Z[:2])
    np.testing.assert_array_equal(both.Z[-2:], nodes.Y[:2])
    np.testing.assert_array_equal(both.Y[:-2], nodes.Y)
