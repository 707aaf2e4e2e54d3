"""Vertices of clouds with known ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.linalg.pivots import (
    _heights_without_each,
    find_anchors,
    frequent,
)


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
