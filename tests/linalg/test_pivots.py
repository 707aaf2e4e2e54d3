"""Anchors of a cloud of points, and states from pivots."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
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
from sapwood.linalg.pivots import _heights_without_each, find_anchors, frequent

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


def heights(points: np.ndarray, picked: list[int] | np.ndarray) -> np.ndarray:
    """Distance of every point from the affine hull of some of them."""
    moved = points - points[picked[0]]
    basis = np.linalg.qr(moved[picked[1:]].T)[0]
    for _ in range(2):  # the second projection removes the rounding of the first
        moved = moved - (moved @ basis) @ basis.T
    return np.linalg.norm(moved, axis=1)


def apart(points: np.ndarray, picked: np.ndarray) -> np.ndarray:
    """Distance of each anchor from the affine hull of the others."""
    return np.diagonal(_heights_without_each(points[picked], list(range(len(picked)))))


def radius(points: np.ndarray) -> float:
    return float(np.linalg.norm(points - points.mean(axis=0), axis=1).max())


def cloud(seed: int, m: int, dim: int, n: int = 200) -> np.ndarray:
    """Random mixtures of m vertices; the vertices are the first m points."""
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(m, dim))  # noqa: N806
    return np.vstack([W, rng.dirichlet(np.full(m, 0.7), size=n) @ W])


@given(seed=st.integers(0, 10**6), m=st.integers(1, 8), extra=st.integers(-1, 4))
def test_vertices_of_a_simplex_are_found(seed: int, m: int, extra: int) -> None:
    points = cloud(seed, m, max(1, m + extra))  # m - 1 dimensions are enough for m vertices
    found = find_anchors(points, m)
    if m > 1:
        assert sorted(found.tolist()) == list(range(m))
    assert len(found) == m
    assert heights(points, found).max() < 1e-9 * max(1.0, radius(points))


@given(seed=st.integers(0, 10**6))
def test_moving_and_turning_the_cloud_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = cloud(seed, 4, 5)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    elsewhere = points @ turn + 10 * rng.normal(size=5)
    moved = find_anchors(elsewhere, 4)
    plain = find_anchors(points, 4)
    assert moved.tolist() == plain.tolist()
    np.testing.assert_allclose(apart(elsewhere, moved), apart(points, plain), rtol=1e-9)


def test_mutant_linear_spans_move_with_the_origin() -> None:
    """FastAnchorWords without the translation: m vertices in m - 1 dimensions cannot be found."""
    points = cloud(3, 4, 3)
    picked, R = [], points.copy()  # noqa: N806
    for _ in range(4):
        best = int(np.linalg.norm(R, axis=1).argmax())
        picked.append(best)
        q = R[best] / np.linalg.norm(R[best])
        R = R - np.outer(R @ q, q)  # noqa: N806
    assert sorted(picked) != [0, 1, 2, 3]
    assert sorted(find_anchors(points, 4).tolist()) == [0, 1, 2, 3]


def test_clean_up_repairs_greedy_choices() -> None:
    """Early anchors were picked without knowing the later ones."""
    better = 0
    for seed in range(30):
        points = np.random.default_rng(seed).normal(size=(200, 6))
        volumes = [_volume(points[find_anchors(points, 6, n_clean_up=n)]) for n in (0, 1)]
        assert volumes[1] >= volumes[0] * (1 - 1e-12)  # each re-pick raises one height
        better += volumes[1] > volumes[0] * (1 + 1e-9)
    assert better >= 10


def test_one_clean_up_is_the_default() -> None:
    points = np.random.default_rng(1).normal(size=(200, 6))
    greedy, once = (find_anchors(points, 6, n_clean_up=n).tolist() for n in (0, 1))
    assert greedy != once
    assert find_anchors(points, 6).tolist() == once


def test_clean_up_picks_each_anchor_given_all_others() -> None:
    """By hand: the first anchor is farthest from the mean, yet not from the line of the others."""
    points = np.array([[0.0, 10.0], [0.0, -9.0], [9.0, 0.0], [-8.0, 9.0], [-8.0, -8.0]])
    found = find_anchors(points, 3, n_clean_up=1)
    picked = find_anchors(points, 3, n_clean_up=0).tolist()
    for i in range(3):
        others = points[picked[:i] + picked[i + 1 :]]
        along = others[1] - others[0]
        across = np.array([-along[1], along[0]]) / np.hypot(*along)
        picked[i] = int(np.abs((points - others[0]) @ across).argmax())
    assert found.tolist() == picked


def test_anchors_close_to_each_other_are_projected_out_twice() -> None:
    """Directions at an angle of 1e-7: one projection leaves their rounding in the heights."""
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    corners = np.array([[0, 0, 0], [1e6, 0, 0], [1e6, 1, 0], [3e5, 0.2, 0.5]]) @ turn + 1e6
    found = find_anchors(corners, 4, tolerance=0.0)
    assert len(found) == 4
    assert heights(corners, found).max() < 1e-9 * radius(corners)


def _volume(vertices: np.ndarray) -> float:
    edges = vertices[1:] - vertices[0]
    return float(np.sqrt(np.linalg.det(edges @ edges.T)))


def test_heights_are_distances_from_the_others() -> None:
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    found = find_anchors(corners, 3)
    expected = {0: 12 / 5, 1: 4.0, 2: 3.0}  # the height of a 3-4-5 triangle over its long side
    for row, height in zip(found.tolist(), apart(corners, found), strict=True):
        assert height == pytest.approx(expected[row], rel=1e-12)


def test_flat_clouds_give_fewer_anchors() -> None:
    points = np.hstack([cloud(0, 3, 2), np.zeros((203, 4))])
    found = find_anchors(points, 6)
    assert sorted(found.tolist()) == [0, 1, 2]
    noisy = points + 1e-4 * np.random.default_rng(0).normal(size=points.shape)
    assert len(find_anchors(noisy, 6)) == 6
    assert len(find_anchors(noisy, 6, tolerance=1e-2)) == 3


def test_only_candidates_are_picked() -> None:
    points = np.vstack([[[50.0, 50.0]], cloud(1, 3, 2)])  # a rare feature far out
    counts = np.array([1.0] + [30.0] * 203)
    assert 0 in find_anchors(points, 3)
    found = find_anchors(points, 3, candidates=frequent(counts, 6090.0, least=20, share=0.0))
    assert sorted(found.tolist()) == [1, 2, 3]


def test_frequent_scales_with_the_label() -> None:
    counts = np.array([5.0, 20.0, 975.0])
    assert frequent(counts, 1000.0, least=20, share=0.0).tolist() == [False, True, True]
    assert frequent(counts, 1000.0, least=20, share=0.05).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("points", "m", "expected"),
    [
        (np.ones((5, 2)), 3, 1),  # all the same
        (np.zeros((1, 2)), 3, 1),
        (np.eye(3), 0, 0),
        (np.zeros((0, 2)), 2, 0),
        (np.eye(2), 5, 2),  # fewer points than states
    ],
)
def test_degenerate_clouds(points: np.ndarray, m: int, expected: int) -> None:
    assert len(find_anchors(points, m)) == expected


def test_no_candidates_no_anchors() -> None:
    found = find_anchors(np.eye(3), 2, candidates=np.zeros(3, dtype=bool))
    assert not len(found)


def test_same_input_same_output() -> None:
    points = np.random.default_rng(5).normal(size=(1000, 10))
    first, second = find_anchors(points, 11), find_anchors(points.copy(), 11)
    assert np.array_equal(first, second)


def test_heights_without_each_anchor_are_those_of_the_others() -> None:
    """All at once as one by one, also of points outside the anchors' hull."""
    points = np.random.default_rng(0).normal(size=(20, 5))
    found = _heights_without_each(points, [3, 1, 7])
    for i, others in enumerate(([1, 7], [3, 7], [3, 1])):
        np.testing.assert_allclose(found[:, i], heights(points, others), atol=1e-12)
