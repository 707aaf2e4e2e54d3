"""Singular vectors of blocks by random projection, and canonical correlations."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse import block_diag, csr_array, random_array

from sapwood.linalg import svd as module
from sapwood.linalg.svd import CCA, BlockSVD, block_svd, cca


def decomposed(blocks: list[np.ndarray], m: int, *, seed: int = 0, n_power: int = 3) -> BlockSVD:
    """Decompose blocks that are given as matrices."""
    omega = csr_array(block_diag(blocks))
    left, right = (np.cumsum([0, *(b.shape[axis] for b in blocks)]) for axis in (0, 1))
    return block_svd(
        omega.__matmul__, omega.T.__matmul__, left, right, m,
        rng=np.random.default_rng(seed), n_power=n_power,
    )  # fmt: skip


def parts(blocks: list[np.ndarray], found: BlockSVD) -> list[tuple[np.ndarray, ...]]:
    """Each block with its own vectors and values."""
    rows, columns = ([0, *np.cumsum([b.shape[axis] for b in blocks])] for axis in (0, 1))
    return [
        (block, found.U[a:b], found.s[place], found.V[c:d])
        for place, (block, (a, b), (c, d)) in enumerate(
            zip(blocks, pairwise(rows), pairwise(columns), strict=True)
        )
    ]


def with_values(
    rng: np.random.Generator, shape: tuple[int, int], values: list[float]
) -> np.ndarray:
    """A matrix with given singular values."""
    k = len(values)
    U, V = (np.linalg.qr(rng.normal(size=(n, k)))[0] for n in shape)  # noqa: N806
    return (U * values) @ V.T


def test_blocks_with_a_gap_are_as_exact_as_dense_ones() -> None:
    """Noise 1e-4 below the m-th value shrinks by the gap to the power of 2 n_power + 1 = 7."""
    rng = np.random.default_rng(0)
    values = [3.0, 2.0, 1.0, 0.5] + [5e-5 * 0.9**k for k in range(30)]
    blocks = [with_values(rng, shape, values) for shape in ((60, 80), (200, 50), (40, 34))]
    for block, U, s, V in parts(blocks, decomposed(blocks, 4)):  # noqa: N806
        dense_u, dense_s, dense_vt = np.linalg.svd(block, full_matrices=False)
        np.testing.assert_allclose(s, dense_s[:4], rtol=1e-12)
        # vectors up to sign, through their projections
        np.testing.assert_allclose(U @ U.T, dense_u[:, :4] @ dense_u[:, :4].T, atol=1e-10)
        np.testing.assert_allclose(V @ V.T, dense_vt[:4].T @ dense_vt[:4], atol=1e-10)
        np.testing.assert_allclose((U * s) @ V.T, (dense_u[:, :4] * s) @ dense_vt[:4], atol=1e-10)


def test_without_power_iterations_it_is_less_exact() -> None:
    rng = np.random.default_rng(0)
    blocks = [with_values(rng, (200, 200), [0.97**k for k in range(150)])]
    exact = np.linalg.svd(blocks[0], compute_uv=False)[:4]
    errors = [np.abs(decomposed(blocks, 4, n_power=n).s[0] - exact).max() for n in (0, 1, 3, 8)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.05
    assert errors[3] < 1e-3


def test_values_of_very_different_size_are_all_found() -> None:
    """Power iterations raise values to the 7th power: without orthonormalising, the rounding of

    the largest would drown the others.
    """
    rng = np.random.default_rng(4)
    values = [1.0, 1e-2, 1e-4, 1e-6]
    blocks = [with_values(rng, (40, 50), values), with_values(rng, (30, 20), values)]
    for block, U, s, V in parts(blocks, decomposed(blocks, 4)):  # noqa: N806
        np.testing.assert_allclose(s, values, rtol=1e-8)
        np.testing.assert_allclose((U * s) @ V.T, block, atol=1e-14)
        np.testing.assert_allclose(U.T @ U, np.eye(4), atol=1e-12)
        np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-12)


def test_sparse_blocks() -> None:
    rng = np.random.default_rng(1)
    blocks = [
        random_array((n, d), density=0.1, rng=rng).toarray()
        for n, d in ((50, 30), (9, 200), (12, 13))
    ]
    for block, U, s, V in parts(blocks, decomposed(blocks, 3, n_power=30)):  # noqa: N806
        exact = np.linalg.svd(block, compute_uv=False)[:3]
        np.testing.assert_allclose(
            s, exact, rtol=1e-8
        )  # gaps are small: 30 iterations instead of 3
        np.testing.assert_allclose(U.T @ block @ V, np.diag(s), atol=1e-12)


@pytest.mark.parametrize("n_power", [0, 3])
def test_sigma_is_diagonal_however_rough_the_vectors_are(n_power: int) -> None:
    """U' Omega V = diag(s): the estimator divides by the diagonal alone."""
    blocks = [np.random.default_rng(0).normal(size=(100, 120))]
    found = decomposed(blocks, 5, n_power=n_power)
    np.testing.assert_allclose(found.U.T @ blocks[0] @ found.V, np.diag(found.s[0]), atol=1e-12)


def test_small_and_deficient_blocks() -> None:
    rng = np.random.default_rng(2)
    rank_two = with_values(rng, (30, 20), [2.0, 1.0])
    blocks = [
        np.array([[3.0]]), rank_two, np.zeros((4, 5)), rng.normal(size=(1, 6)),
        rng.normal(size=(6, 1)), rng.normal(size=(2, 3)),
    ]  # fmt: skip
    for block, U, s, V in parts(blocks, decomposed(blocks, 4)):  # noqa: N806
        size = min(4, *block.shape)
        expected = np.zeros(4)
        expected[:size] = np.linalg.svd(block, compute_uv=False)[:size]
        np.testing.assert_allclose(s, expected, atol=1e-12)
        np.testing.assert_allclose((U * s) @ V.T, block, atol=1e-12)
        assert not U[:, size:].any()
        assert not V[:, size:].any()
        assert np.isfinite(U).all()
        assert np.isfinite(V).all()


@pytest.mark.parametrize("shape", [(0, 0), (3, 0), (0, 3)])
def test_empty_blocks(shape: tuple[int, int]) -> None:
    """A label without nodes, as in a part of a treebank, has a block without rows or columns."""
    rng = np.random.default_rng(3)
    blocks = [rng.normal(size=(5, 4)), np.zeros(shape), rng.normal(size=(2, 2))]
    found = decomposed(blocks, 2)
    assert not found.s[1].any()
    for block, _, s, _ in (parts(blocks, found)[place] for place in (0, 2)):
        np.testing.assert_allclose(s, np.linalg.svd(block, compute_uv=False)[:2], rtol=1e-12)


def test_a_seed_decides_every_bit() -> None:
    blocks = [np.random.default_rng(0).normal(size=(40, 50)), np.eye(3)]
    one, same, other = (decomposed(blocks, 4, seed=seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    assert (one.U != other.U).any()


def test_blocks_do_not_mix() -> None:
    """The mutant: one block where there are two takes the larger one's values for both."""
    blocks = [np.diag([5.0, 4.0]), np.diag([2.0, 1.0])]
    np.testing.assert_allclose(decomposed(blocks, 2).s, [[5, 4], [2, 1]], rtol=1e-12)
    joined = [block_diag(blocks).toarray()]
    assert decomposed(joined, 2).s[0] == pytest.approx([5, 4])


@pytest.fixture
def moments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Second moments of two views that share three factors."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(500, 3))
    x = shared @ rng.normal(size=(3, 8)) + rng.normal(size=(500, 8))
    y = shared @ rng.normal(size=(3, 6)) + rng.normal(size=(500, 6))
    return x.T @ y / 500, x.T @ x / 500, y.T @ y / 500


def assert_canonical(
    found: CCA, C_xy: np.ndarray, C_xx: np.ndarray, C_yy: np.ndarray  # noqa: N803
) -> None:  # fmt: skip
    """Unit variances, and cross moments that are the correlations on the diagonal only."""
    one = np.eye(len(found.correlations))
    # rounding times the condition of the moments, below 1e3 here
    np.testing.assert_allclose(found.left.T @ C_xx @ found.left, one, atol=1e-11)
    np.testing.assert_allclose(found.right.T @ C_yy @ found.right, one, atol=1e-11)
    np.testing.assert_allclose(
        found.left.T @ C_xy @ found.right, np.diag(found.correlations), atol=1e-11
    )
    assert (np.diff(found.correlations) <= 0).all()


def test_full_whitening_solves_the_generalised_eigenproblem(
    moments: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    C_xy, C_xx, C_yy = moments  # noqa: N806
    found = cca(C_xy, C_xx, C_yy, 6)
    assert_canonical(found, C_xy, C_xx, C_yy)
    squares = np.linalg.eigvals(
        np.linalg.solve(C_xx, C_xy) @ np.linalg.solve(C_yy, C_xy.T)
    ).real  # [8]
    np.testing.assert_allclose(found.correlations**2, np.sort(squares)[::-1][:6], atol=1e-10)


def test_mutant_diagonal_whitening_of_correlated_features_is_rejected(
    moments: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    C_xy, C_xx, C_yy = moments  # noqa: N806
    wrong = cca(C_xy, np.diag(C_xx), np.diag(C_yy), 6)
    with pytest.raises(AssertionError):
        assert_canonical(wrong, C_xy, C_xx, C_yy)


def test_sparse_full_moments_are_read(moments: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    dense = cca(*moments, 3)
    from_sparse = cca(*(sparse.csr_array(part) for part in moments), 3)
    for a, b in zip(dense, from_sparse, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_one_hot_views_first_agree_on_the_constant() -> None:
    joint = np.random.default_rng(1).dirichlet(np.ones(35)).reshape(7, 5)
    found = cca(joint, joint.sum(axis=1), joint.sum(axis=0), 5)
    assert_canonical(found, joint, np.diag(joint.sum(axis=1)), np.diag(joint.sum(axis=0)))
    assert found.correlations[0] == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(found.left[:, 0], 1.0, atol=1e-12)
    np.testing.assert_allclose(found.right[:, 0], 1.0, atol=1e-12)


def test_lanczos_agrees_with_the_dense_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    r, s = (rng.dirichlet(np.full(60, 0.3), size=4).T for _ in range(2))
    joint = sparse.csr_array((r * 0.25) @ s.T)
    margins = joint.sum(axis=1), joint.sum(axis=0)
    dense = cca(joint, *margins, 4)
    monkeypatch.setattr(module, "DENSE_SIZE", 10)
    few = cca(joint, *margins, 4)
    for a, b in zip(dense, few, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)  # correlations are 0.1 apart
    again = cca(joint, *margins, 4)
    assert all(np.array_equal(a, b) for a, b in zip(few, again, strict=True))


def test_features_without_variance_get_zeros() -> None:
    joint = np.array([[0.5, 0.0, 0.1], [0.0, 0.0, 0.0], [0.1, 0.0, 0.3]])
    found = cca(joint, joint.sum(axis=1), joint.sum(axis=0), 2)
    assert np.array_equal(found.left[1], [0, 0])
    assert np.array_equal(found.right[1], [0, 0])
    full = cca(joint, np.diag(joint.sum(axis=1)), np.diag(joint.sum(axis=0)), 2)
    np.testing.assert_allclose(full.correlations, found.correlations, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_correlations_do_not_depend_on_units(
    moments: tuple[np.ndarray, np.ndarray, np.ndarray], scale: float
) -> None:
    """What counts as no variance is measured by the largest variance, whatever its size."""
    expected = cca(*moments, 6).correlations
    found = cca(*(scale * part for part in moments), 6).correlations
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_ridge_shrinks_rare_directions_most() -> None:
    variance = np.array([1.0, 0.01])
    plain = cca(np.diag(0.9 * variance), variance, variance, 2)
    shrunk = cca(np.diag(0.9 * variance), variance, variance, 2, ridge=0.1)
    np.testing.assert_allclose(plain.correlations, [0.9, 0.9], rtol=1e-12)
    expected = 0.9 * variance / (variance + 0.1 * variance.mean())
    np.testing.assert_allclose(shrunk.correlations, expected, rtol=1e-12)


def test_no_more_directions_than_features() -> None:
    assert cca(np.eye(3)[:2], np.ones(2), np.ones(3), 9).left.shape == (2, 2)
