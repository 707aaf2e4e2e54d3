"""Products with cross-covariances, and sums of projected nodes, against plain sums."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.shards import rows_of, shards_of

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.pcfg import TrainingData
from sapwood.constituency.learn.projected import (
    CrossCovariance,
    FeatureRows,
    FeatureSpace,
    ProjectedSums,
)
from sapwood.constituency.learn.spectral import Projection, project, rule_layout
from sapwood.constituency.learn.templates import NodeTable
from sapwood.execute import Threads, tree_sum
from sapwood.linalg.observable import RuleLayout, RuleSums

M = 3


@pytest.fixture(scope="module")
def data(small_bank: Treebank) -> TrainingData:
    return sw.PCFG().prepare(small_bank, Threads())


@pytest.fixture(scope="module")
def projection(data: TrainingData) -> Projection:
    return project(data, M)


def features(ids: np.ndarray, space: FeatureSpace) -> csr_array:
    """Phi: one row a node, the scale of each of its features."""
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    columns = ids.ravel().astype(np.int64)
    shape = (len(ids), len(space.weight))
    return csr_array((space.weight[columns], (rows, columns)), shape=shape)


def omega(projection: Projection) -> np.ndarray:
    """Sum over the nodes of phi psi'."""
    sides, rows = projection.features, rows_of(projection)
    phi, psi = features(rows.inside, sides.inside), features(rows.outside, sides.outside)
    return (phi.T @ psi).toarray()


# -- features and products --------------------------------------------------------------------


def test_rows_are_the_nodes_of_the_trees(small_bank: Treebank, projection: Projection) -> None:
    rows, table = rows_of(projection), NodeTable(small_bank)
    assert rows.label.tolist() == table.label.tolist()
    assert rows.roots.tolist() == (small_bank.offsets[1:] - 1).tolist()
    assert sorted([*rows.parent.tolist(), *rows.leaf.tolist()]) == list(
        range(len(small_bank.label))
    )
    assert rows.left.tolist() == table.left[rows.parent].tolist()
    assert rows.right.tolist() == table.right[rows.parent].tolist()
    assert rows.word.tolist() == small_bank.word[rows.leaf].tolist()


def test_products_are_those_of_the_matrix(projection: Projection) -> None:
    sides, rows = projection.features, rows_of(projection)
    rng, exact = np.random.default_rng(0), omega(projection)
    product = CrossCovariance(sides.inside.weight, sides.outside.weight)
    X, Y = (rng.normal(size=(n, 4)) for n in exact.shape[::-1])  # noqa: N806
    np.testing.assert_allclose(product.times(rows, X, 0), exact @ X, rtol=1e-9, atol=1e-9)
    found = product.times(rows, Y, 1)
    np.testing.assert_allclose(found, exact.T @ Y, rtol=1e-9, atol=1e-9)


def test_blocks_are_those_of_labels(projection: Projection) -> None:
    sides, exact = projection.features, omega(projection)
    outside = np.zeros_like(exact, dtype=bool)
    for a in range(len(projection.m)):
        rows = slice(sides.inside.start[a], sides.inside.start[a + 1])
        outside[rows, sides.outside.start[a] : sides.outside.start[a + 1]] = True
    assert not exact[~outside].any()


def test_singular_values_are_those_of_the_mean_over_a_labels_nodes(
    data: TrainingData, projection: Projection
) -> None:
    """Unlike sums they have the same unit for all labels, and small ones are left out by it."""
    sides, exact, count = projection.features, omega(projection), data.counts.symbols
    for a in np.argsort(-count)[:6].tolist():
        rows = slice(sides.inside.start[a], sides.inside.start[a + 1])
        block = exact[rows, sides.outside.start[a] : sides.outside.start[a + 1]] / count[a]
        values = np.linalg.svd(block, compute_uv=False)[:M]
        # random projections with 3 power iterations: measured 1e-4 where the gaps are small
        np.testing.assert_allclose(projection.singular_values[a], values, rtol=5e-3)


def test_nodes_are_projected_by_their_own_side(projection: Projection) -> None:
    sides, rows, rng = projection.features, rows_of(projection), np.random.default_rng(1)
    weights = (sides.inside.weight, sides.outside.weight)
    U, V = (rng.normal(size=(len(w), 2)) for w in weights)  # noqa: N806
    m = np.arange(len(projection.m)) % 2 + 1
    Y, Z = projection.vectors._replace(U=U, V=V, m=m).vectors(rows)  # noqa: N806
    cut = np.arange(2) < m[rows.label][:, None]
    for found, ids, space, vectors in (
        (Y, rows.inside, sides.inside, U), (Z, rows.outside, sides.outside, V)
    ):  # fmt: skip
        expected = np.where(cut, features(ids, space) @ vectors, 0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


# -- sums -------------------------------------------------------------------------------------


def sums_by_hand(rows: FeatureRows, projection: Projection, layout: RuleLayout) -> ProjectedSums:
    """One node after the other."""
    Y, Z = projection.vectors.vectors(rows)  # noqa: N806
    n_symbols, m = len(projection.m), projection.m
    y, z, yz, root = (np.zeros((n_symbols, M)) for _ in range(4))
    for node, a in enumerate(rows.label.tolist()):
        y[a] += Y[node]
        z[a] += Z[node]
        yz[a] += Y[node] * Z[node]
    for node in rows.roots.tolist():
        root[rows.label[node]] += Y[node]
    entry, count = np.zeros((layout.n_entries, M)), np.zeros(layout.n_entries)
    for entries in rows.entry.tolist():
        for leaf, e in zip(rows.leaf.tolist(), entries, strict=True):
            if e >= 0:
                entry[e] += Z[leaf]
                count[e] += 1
    flat = np.zeros(int(layout.start[-1]))
    for x, r, left, right in zip(
        rows.parent.tolist(), rows.rule.tolist(), rows.left.tolist(), rows.right.tolist(),
        strict=True,
    ):  # fmt: skip
        if not layout.keeps[r]:
            i, j, k = m[layout.rules[r]].tolist()
            one = RuleSums.of(Z[[x], :i], Y[[left], :j], Y[[right], :k])
            parts = np.concatenate([part.ravel() for part in one])
            flat[layout.start[r] : layout.start[r + 1]] += parts
    none = ProjectedSums.of(rows, projection.vectors, layout).instances
    return ProjectedSums(y, z, yz, root, entry, count, flat, none)


def assert_close(one: ProjectedSums, other: ProjectedSums) -> None:
    for name in ("y", "z", "yz", "root", "entry", "entry_count", "rules"):
        found, expected = getattr(one, name), getattr(other, name)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * scale, err_msg=name)
    for name in ("rule", "z", "y", "w"):
        found, expected = getattr(one.instances, name), getattr(other.instances, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("shrinkage", [0.0, 20.0])
def test_sums_are_those_over_the_nodes(
    data: TrainingData, projection: Projection, shrinkage: float
) -> None:
    layout, rows = rule_layout(data, projection.m, shrinkage), rows_of(projection)
    assert 0 < layout.keeps.sum() < len(layout.keeps)
    found = ProjectedSums.of(rows, projection.vectors, layout)
    assert_close(found, sums_by_hand(rows, projection, layout))
    kept = layout.keeps[rows.rule]
    Y, Z = projection.vectors.vectors(rows)  # noqa: N806
    assert found.instances.rule.tolist() == rows.rule[kept].tolist()
    assert np.array_equal(found.instances.z, Z[rows.parent[kept]])
    assert np.array_equal(found.instances.y, Y[rows.left[kept]])
    assert np.array_equal(found.instances.w, Y[rows.right[kept]])


@pytest.mark.parametrize("n", [2, 5])
def test_shards_add_up(data: TrainingData, small_bank: Treebank, n: int) -> None:
    whole = project(data, M)
    parts = sw.PCFG().prepare(shards_of(small_bank, n), Threads())
    cut = project(parts, M)
    layout = rule_layout(data, whole.m, 20.0)
    rows = list(parts.engine.gather(cut.features.rows))
    assert len(rows) == n
    found = [ProjectedSums.of(part, whole.vectors, layout) for part in rows]
    expected = ProjectedSums.of(rows_of(whole), whole.vectors, layout)
    assert_close(tree_sum(found), expected)
    assert_close(reduce(add, found), expected)
    short = reduce(add, found[1:])
    assert not np.allclose(short.rules, expected.rules)


def test_a_rule_that_keeps_its_instances_has_no_sums(data: TrainingData) -> None:
    m = np.full(len(data.inventory.symbols), 4)
    layout = rule_layout(data, m, 20.0)
    sizes = np.diff(layout.start)
    assert (sizes[layout.keeps] == 0).all()
    assert (sizes[~layout.keeps] == 4**3 + 3 * 4**2 + 3 * 4).all()
    assert data.counts.rules[layout.keeps].max() <= 1  # at 4 states 4 n + 2 factors are few for 1
