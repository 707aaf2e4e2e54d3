"""Decomposition with pivots: zero rows, masks, scales, reports and the three ways to align."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from tests.linalg.pivot_problems import (
    PivotSettings,
    Sampling,
    align,
    decompose_both_views,
    decompose_one_view,
    decompose_rows,
    least_squares_columns,
    likely_columns,
    reconstruction_error,
    require_pivots,
    states_from_points,
)

from sapwood.core.errors import NotIdentifiableError, SapwoodError

PI = np.array([0.2, 0.5, 0.3])


def separable(seed: int, d: int, m: int = 3) -> np.ndarray:
    """Columns are distributions; feature h is a pivot of state h."""
    r = np.random.default_rng(seed).dirichlet(np.ones(d), size=m).T
    r[:m] = np.diag(np.full(m, 0.2))
    return r / r.sum(axis=0)


@pytest.fixture
def joint() -> np.ndarray:
    return (separable(0, 12) * PI) @ separable(1, 10).T


def order(pivots: np.ndarray) -> np.ndarray:
    """State of each pivot: they are features 0 to m - 1."""
    assert sorted(pivots.tolist()) == list(range(len(pivots)))
    return pivots


def test_sparse_dense_and_scaled_input_agree(joint: np.ndarray) -> None:
    dense = decompose_one_view(joint, 3)
    for same in (sparse.csr_array(joint), sparse.coo_array(joint * 1234.0)):
        found = decompose_one_view(same, 3)
        np.testing.assert_allclose(found.r, dense.r, atol=1e-12)
        np.testing.assert_allclose(found.s, dense.s, atol=1e-12)
    assert reconstruction_error(1234.0 * joint, dense) < 1e-12


def test_zero_rows_and_columns_are_left_out(joint: np.ndarray) -> None:
    padded = np.zeros((14, 11))
    rows, columns = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13], [0, *range(2, 11)]
    padded[np.ix_(rows, columns)] = joint
    found, plain = decompose_one_view(padded, 3), decompose_one_view(joint, 3)
    np.testing.assert_allclose(found.r[rows], plain.r, atol=1e-12)
    np.testing.assert_allclose(found.s[columns], plain.s, atol=1e-12)
    assert not found.r[[3, 12]].any()
    assert not found.s[1].any()


def test_posteriors_and_parameters_are_distributions(joint: np.ndarray) -> None:
    found = decompose_rows(joint, 3)
    np.testing.assert_allclose(found.posterior.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(found.r.sum(axis=0), 1.0, atol=1e-14)
    assert found.pi.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(found.pi, PI[order(found.pivots)], atol=1e-12)
    np.testing.assert_allclose(found.posterior[found.pivots], np.eye(3), atol=1e-12)


def test_three_ways_to_the_second_view(joint: np.ndarray) -> None:
    rows, columns = decompose_rows(joint, 3), decompose_rows(joint.T, 3)
    expected = separable(1, 10)[:, order(rows.pivots)]
    by_squares, clipped = least_squares_columns(joint, rows.posterior)
    np.testing.assert_allclose(by_squares, expected, atol=1e-12)
    assert clipped < 1e-12
    t = align(joint, rows.posterior, columns.r, gap=1e-12, max_iter=20_000).t
    np.testing.assert_allclose(columns.r @ t.T, expected, atol=1e-9)
    # zeros of s are approached, not met: slower than a permutation
    likely = likely_columns(joint, rows.posterior, gap=1e-10, max_iter=20_000)
    np.testing.assert_allclose(likely.t, expected, atol=1e-6)
    assert likely.gap <= 1e-10


def test_alignment_likelihoods_never_fall() -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(9, 8))
    rows, columns = decompose_rows(counts, 3), decompose_rows(counts.T, 3)
    for found in (
        align(counts, rows.posterior, columns.r, gap=0.0, max_iter=50),
        likely_columns(counts, rows.posterior, gap=0.0, max_iter=50),
    ):
        assert len(found.log_likelihoods) == 51
        assert np.diff(found.log_likelihoods).min() >= -1e-12  # rounding of a sum of logs
    assert likely_columns(counts, rows.posterior).log_likelihoods[-1] >= (
        align(counts, rows.posterior, columns.r).log_likelihoods[-1] - 1e-8
    )  # s' t' is one of the second views that `likely_columns` chooses from


def test_views_may_have_different_numbers_of_states(joint: np.ndarray) -> None:
    rows, columns = decompose_rows(joint, 3), decompose_rows(joint.T, 2)
    assert align(joint, rows.posterior, columns.r).t.shape == (3, 2)


def test_too_few_directions_are_reported(joint: np.ndarray) -> None:
    found = decompose_rows(joint, 5)
    assert (found.report.wanted, found.report.found) == (5, 3)
    assert found.r.shape == (12, 3)
    assert found.report.correlations[3:].max() < 1e-12
    with pytest.raises(NotIdentifiableError, match="tell only 3 apart") as caught:
        decompose_both_views(joint, 5)
    assert caught.value.report.found == 3
    kept = decompose_both_views(joint, 5, on_missing="keep", gap=1e-10)
    assert reconstruction_error(joint, kept) < 1e-6


def test_too_few_states_are_reported(joint: np.ndarray) -> None:
    """Two points hold all others of a line between them: only the rank tells."""
    with pytest.raises(NotIdentifiableError, match="unexplained") as caught:
        decompose_one_view(joint, 2)
    assert caught.value.report.correlations[2] > 0.1
    kept = decompose_one_view(joint, 2, on_missing="keep").reports[0]
    assert kept.misfit < 1e-12
    assert not kept.has_pivots


@pytest.mark.parametrize("n_pairs", [10_000, 100_000])
def test_sampled_ranks(joint: np.ndarray, n_pairs: int) -> None:
    counts = np.random.default_rng(0).multinomial(n_pairs, joint.ravel()).reshape(joint.shape)
    settings = PivotSettings(n_pairs=n_pairs)
    assert decompose_rows(counts, 3, settings).report.has_pivots
    assert decompose_rows(counts, 2, settings).report.needs_more_states
    assert not decompose_rows(counts, 3).report.has_pivots  # as exact numbers, they are not


def test_independent_views_have_one_state(joint: np.ndarray) -> None:
    """Differences by rounding are not states."""
    found = decompose_rows(np.outer(joint.sum(axis=1), joint.sum(axis=0)), 3)
    assert found.report.found == 1


def test_clipped_mass_is_counted() -> None:
    counts = np.random.default_rng(3).multinomial(60, np.full(30, 1 / 30)).reshape(6, 5)
    found = decompose_one_view(counts, 3, on_missing="keep")
    assert found.clipped > 0
    assert (found.s >= 0).all()
    np.testing.assert_allclose(found.s.sum(axis=0), 1.0, atol=1e-14)


def test_only_candidates_are_pivots(joint: np.ndarray) -> None:
    counts = np.vstack([1e3 * joint, np.eye(10)])  # ten features seen once
    assert max(decompose_rows(counts, 3).pivots) >= 12
    found = decompose_rows(counts, 3, PivotSettings(candidates=counts.sum(axis=1) >= 20))
    order(found.pivots)
    with pytest.raises(NotIdentifiableError, match="no feature out of 22"):
        decompose_rows(counts, 3, PivotSettings(candidates=np.zeros(22, dtype=bool)))


def test_points_of_any_representation_will_do(joint: np.ndarray) -> None:
    """Arora et al. project at random; here the whole conditional distribution is the point."""
    p = joint.sum(axis=1)
    found = states_from_points(joint / p[:, None], p, 3)
    require_pivots(found.report)
    np.testing.assert_allclose(found.r, separable(0, 12)[:, order(found.pivots)], atol=1e-12)


@pytest.mark.parametrize("wrong", [np.zeros((2, 2)), np.array([[1.0, -0.1], [0.0, 1.0]])])
def test_matrices_that_are_no_counts(wrong: np.ndarray) -> None:
    with pytest.raises(SapwoodError, match="must hold counts"):
        decompose_rows(wrong, 2)


def test_one_state(joint: np.ndarray) -> None:
    found = decompose_one_view(np.outer(joint.sum(axis=1), joint.sum(axis=0)), 1)
    np.testing.assert_allclose(found.r[:, 0], joint.sum(axis=1), atol=1e-14)
    np.testing.assert_allclose(found.s[:, 0], joint.sum(axis=0), atol=1e-14)


def test_ridge_keeps_exactness_and_rare_pairs_out(joint: np.ndarray) -> None:
    """Any representation of the columns will do; pairs of features seen once need a ridge."""
    plain, ridged = (decompose_one_view(joint, 3, PivotSettings(ridge=x)) for x in (0.0, 1.0))
    np.testing.assert_allclose(ridged.r, plain.r[:, matching(plain.r, ridged.r)], atol=1e-12)
    tail = np.zeros((52, 50))
    tail[:12, :10], tail[12:, 10:] = 1e4 * joint, np.eye(40)
    mask = tail.sum(axis=1) >= 20
    lost = decompose_rows(tail, 3, PivotSettings(candidates=mask))
    assert lost.report.correlations[2] == pytest.approx(1.0, abs=1e-12)
    assert lost.report.found < 3
    found = decompose_rows(tail, 3, PivotSettings(candidates=mask, ridge=1.0))
    order(found.pivots)
    np.testing.assert_allclose(found.pi, PI[found.pivots], atol=0.01)  # the tail is 0.4 %


def matching(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Column of a that is nearest to each column of b."""
    return np.abs(a[:, :, None] - b[:, None, :]).sum(axis=0).argmin(axis=0)


def test_memory_grows_with_entries_not_with_the_matrix() -> None:
    d = 3000  # a dense matrix would take 72 MB
    counts = sparse.eye_array(d, format="csr")
    posterior = np.random.default_rng(0).dirichlet(np.ones(2), size=d)
    tracemalloc.start()
    try:
        likely_columns(counts, posterior, max_iter=2)
        least_squares_columns(counts, posterior)
        align(counts, posterior, posterior / posterior.sum(axis=0), max_iter=2)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_what_sampling_explains_is_noise_of_points_and_of_their_pivots() -> None:
    """By hand: two pivots, and a feature half-way between them, 0.1 off their line."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.1]])
    n = np.array([0.01, 0.04, 0.02])
    found = states_from_points(points, np.ones(3), 2, sampling=Sampling(n, 0.0))
    assert sorted(found.pivots.tolist()) == [0, 1]
    expected = (2 * n[0] + 2 * n[1] + n[2] + (n[0] + n[1]) / 4) / 3
    assert found.report.excess == pytest.approx((0.1**2 / 3) / expected, rel=1e-12)
