"""DECOMPOSE and roots of A A + A on their own; what they are for stands in test_unmixing.py."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.decompose import diagonalise
from sapwood.decompose.diagonalise import decompose, stochastic_root
from sapwood.errors import NotIdentifiableError


def stochastic(seed: int, d: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(d), d).T


def test_too_many_states_are_refused_with_the_rank() -> None:
    columns = np.random.default_rng(0).dirichlet(np.ones(5), 2).T
    with pytest.raises(NotIdentifiableError, match="has rank 2") as caught:
        decompose(columns @ columns.T, lambda tau: columns @ columns.T, 3, np.random.default_rng(0))
    assert caught.value.report.wanted == 3
    assert "at most 2" in caught.value.hint


def test_complex_eigenvalues_are_reported_and_leave_real_columns() -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    found = decompose(np.eye(2), lambda tau: turn, 2, np.random.default_rng(0))
    assert not found.is_real
    assert np.linalg.matrix_rank(found.M1) == 2
    assert found.M1.dtype == float


def test_one_state_needs_no_gap() -> None:
    column = np.array([[0.2], [0.8]])
    found = decompose(column @ column.T, lambda tau: column @ column.T, 1, np.random.default_rng(0))
    assert found.gap == np.inf
    np.testing.assert_allclose(found.M1 / found.M1.sum(), column, atol=1e-15)


@pytest.mark.parametrize("d", [2, 3, 5, 9])
def test_the_root_squares_back(d: int) -> None:
    for seed in range(10):
        true = stochastic(seed, d)
        wanted = true @ true + true
        found = stochastic_root(wanted, lambda root: float(np.abs(root - true).sum()))  # noqa: B023
        np.testing.assert_allclose(found.A @ found.A + found.A, wanted, atol=1e-9)
        np.testing.assert_allclose(found.A, true, atol=1e-8)
        assert found.mismatch <= found.runner_up


def test_conjugate_pairs_stay_together() -> None:
    """A rotation-like chain has complex eigenvalues; every candidate is real."""
    seen = []
    true = 0.1 * stochastic(0, 3) + 0.9 * np.roll(np.eye(3), 1, axis=0)
    assert np.abs(np.linalg.eigvals(true).imag).max() > 0.5

    def mismatch(candidate: np.ndarray) -> float:
        seen.append(candidate)
        return float(np.abs(candidate - true).sum())

    found = stochastic_root(true @ true + true, mismatch)
    np.testing.assert_allclose(found.A, true, atol=1e-10)
    for candidate in seen:  # were a pair split, the imaginary parts would not cancel
        square = candidate @ candidate + candidate
        np.testing.assert_allclose(square, true @ true + true, atol=1e-9)


def test_many_choices_are_searched_one_at_a_time(monkeypatch) -> None:
    true = next(
        table
        for table in (stochastic(seed, 4) for seed in range(200))
        if (np.linalg.eigvals(table).real < -0.55).any()
    )
    wanted = true @ true + true

    def mismatch(candidate: np.ndarray) -> float:
        return float(np.abs(candidate - true).sum())

    whole = stochastic_root(wanted, mismatch)
    monkeypatch.setattr(diagonalise, "MANY_CHOICES", 1)
    climbed = stochastic_root(wanted, mismatch)
    assert whole.n_other >= 1
    np.testing.assert_allclose(climbed.A, true, atol=1e-9)


def test_noise_below_the_branch_point_gives_a_real_matrix() -> None:
    vectors = np.array([[0.5, 1.0], [0.5, -1.0]])
    wanted = vectors @ np.diag([2.0, -0.3]) @ np.linalg.inv(vectors)  # -0.3 < -1/4
    found = stochastic_root(wanted, lambda root: 0.0)
    np.testing.assert_allclose(np.sort(found.eigenvalues.real), [-0.5, 1.0])
