"""Canonical correlations against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sapwood.linalg import cca as module
from sapwood.linalg.cca import CCA, cca


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


def test_ridge_shrinks_rare_directions_most() -> None:
    variance = np.array([1.0, 0.01])
    plain = cca(np.diag(0.9 * variance), variance, variance, 2)
    shrunk = cca(np.diag(0.9 * variance), variance, variance, 2, ridge=0.1)
    np.testing.assert_allclose(plain.correlations, [0.9, 0.9], rtol=1e-12)
    expected = 0.9 * variance / (variance + 0.1 * variance.mean())
    np.testing.assert_allclose(shrunk.correlations, expected, rtol=1e-12)


def test_no_more_directions_than_features() -> None:
    assert cca(np.eye(3)[:2], np.ones(2), np.ones(3), 9).left.shape == (2, 2)
