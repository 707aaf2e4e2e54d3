"""DECOMPOSE and roots of A A + A on their own; what they are for stands in test_unmixing.py."""

from __future__ import annotations

import numpy as np
import pytest

from sapwood.core.errors import NotIdentifiableError
from sapwood.linalg import diagonalise
from sapwood.linalg.diagonalise import decompose, stochastic_root


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
    skew = np.array(
        [[1.0, -4.0], [1.0, 1.0]]
    )  # its complex eigenvectors have real parts of any length
    found = decompose(np.eye(2), lambda tau: skew, 2, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(found.M1, axis=0), 1)


def test_one_state_needs_no_gap() -> None:
    column = np.array([[0.2], [0.8]])
    found = decompose(column @ column.T, lambda tau: column @ column.T, 1, np.random.default_rng(0))
    assert found.gap == np.inf
    np.testing.assert_allclose(found.M1 / found.M1.sum(), column, atol=1e-15)


def test_the_direction_with_the_widest_gap_is_kept() -> None:
    """Directions are drawn again by hand; the gap of each is the distance of two eigenvalues."""
    columns = np.random.default_rng(1).dirichlet(np.ones(5), 3).T
    found = decompose(
        columns @ columns.T, lambda tau: (columns * (columns.T @ tau)) @ columns.T, 3,
        np.random.default_rng(2), n_draws=7,
    )  # fmt: skip
    rng, left = np.random.default_rng(2), np.linalg.svd(columns @ columns.T)[0][:, :3]
    gaps = []
    for _ in range(7):
        tau = left @ rng.standard_normal(3)
        values = np.sort(columns.T @ (tau / np.linalg.norm(tau)))
        gaps.append(np.diff(values).min())
    assert found.gap == pytest.approx(max(gaps), rel=1e-9)
    assert max(gaps) > 2 * min(gaps)
    assert np.linalg.norm(found.tau) == pytest.approx(1)
    assert (np.diff(found.eigenvalues) < 0).all()
    np.testing.assert_allclose(np.sort(columns.T @ found.tau)[::-1], found.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found.M1, axis=0), 1)


def test_real_eigenvalues_go_before_a_wide_gap() -> None:
    turn, narrow = np.array([[0.0, -9.0], [9.0, 0.0]]), np.diag([1.0, 1.01])
    for order in ([turn, narrow, turn], [narrow, turn, narrow]):
        given = iter(order)
        found = decompose(
            np.eye(2), lambda tau, given=given: next(given), 2, np.random.default_rng(0), n_draws=3
        )
        assert found.is_real
        assert found.gap == pytest.approx(0.01)


def test_only_roots_inside_the_circle_are_open() -> None:
    """lam and -1 - lam may both be eigenvalues of a stochastic matrix only for lam below 0.05."""
    vectors = np.array([[0.5, 1.0], [0.5, -1.0]])

    def root(lam: float) -> diagonalise.Roots:
        matrix = vectors @ np.diag([1.0, lam]) @ np.linalg.inv(vectors)
        return stochastic_root(
            matrix @ matrix + matrix, lambda found: float(np.abs(found - matrix).sum())
        )

    assert [root(lam).n_ambiguous for lam in (0.3, 0.04, -0.2, -0.7)] == [0, 1, 1, 1]
    assert [root(lam).n_other for lam in (0.3, 0.04, -0.2, -0.7)] == [0, 0, 0, 1]
    assert root(0.3).runner_up == np.inf
    other = root(-0.7)
    assert other.mismatch == pytest.approx(0, abs=1e-9)
    assert other.runner_up == pytest.approx(0.8, abs=1e-9)  # -0.3 in place of -0.7, in 4 entries
    assert other.gap == pytest.approx(2.21)


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
    assert (found.n_ambiguous, len(seen)) == (1, 2)  # one choice for both of the pair
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


def test_the_search_goes_on_while_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two roots are not the principal ones: the second is found from where the first was."""
    vectors = np.array([[1.0, 1.0, 1.0], [1.0, -1.0, 0.0], [1.0, 0.0, -1.0]])
    true = vectors @ np.diag([1.0, -0.7, -0.9]) @ np.linalg.inv(vectors)
    monkeypatch.setattr(diagonalise, "MANY_CHOICES", 1)
    found = stochastic_root(
        true @ true + true, lambda candidate: float(np.abs(candidate - true).sum())
    )
    assert found.n_other == 2
    np.testing.assert_allclose(found.A, true, atol=1e-9)


def test_noise_below_the_branch_point_gives_a_real_matrix() -> None:
    vectors = np.array([[0.5, 1.0], [0.5, -1.0]])
    wanted = vectors @ np.diag([2.0, -0.3]) @ np.linalg.inv(vectors)  # -0.3 < -1/4
    found = stochastic_root(wanted, lambda root: 0.0)
    np.testing.assert_allclose(np.sort_complex(found.eigenvalues), [-0.5, 1.0])
    assert found.n_ambiguous == 0  # -1/2 is its own other root
    assert found.gap == pytest.approx(2.3)


def test_a_single_state_has_one_root_and_no_gap() -> None:
    found = stochastic_root(np.array([[2.0]]), lambda root: 0.5)
    assert found.A.tolist() == [[1.0]]
    assert (found.gap, found.mismatch, found.runner_up) == (np.inf, 0.5, np.inf)


def test_the_report_of_a_rank_says_what_was_wanted() -> None:
    report = diagonalise.RankReport(2, 1, np.array([0.5, 1e-17, 1e-18]))
    first, second = report.lines()
    assert first == "not identifiable: 2 states from a moment of rank 1"
    assert second.split() == ["values", "0.5", "1e-17"]


def test_a_moment_of_zeros_has_rank_0() -> None:
    with pytest.raises(NotIdentifiableError, match="has rank 0"):
        decompose(np.zeros((3, 3)), lambda tau: np.zeros((3, 3)), 1, np.random.default_rng(0))


def test_small_moments_have_the_rank_of_large_ones() -> None:
    """Singular values are compared with the largest, not with 1."""
    columns = np.random.default_rng(0).dirichlet(np.ones(4), 2).T
    for scale in (1e-20, 1e20):
        found = decompose(
            scale * columns @ columns.T,
            lambda tau, scale=scale: scale * (columns * (columns.T @ tau)) @ columns.T,
            2, np.random.default_rng(1),
        )  # fmt: skip
        made = found.M1 / found.M1.sum(axis=0)
        order = np.argsort(made[0])
        np.testing.assert_allclose(made[:, order], columns[:, np.argsort(columns[0])], atol=1e-9)
        with pytest.raises(NotIdentifiableError, match="has rank 2"):
            decompose(scale * columns @ columns.T, np.diag, 3, np.random.default_rng(1))
