"""Least squares on the simplex against enumeration of supports and optimality conditions."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.linalg.frank_wolfe import frank_wolfe

from sapwood.core.errors import NotIdentifiableError
from sapwood.linalg import simplex as module
from sapwood.linalg.simplex import simplex_least_squares


def by_enumeration(B: np.ndarray, y: np.ndarray) -> np.ndarray:  # noqa: N803
    """Best feasible solution over all supports."""
    m = len(B)
    best, weights = np.inf, np.zeros(m)
    for S in chain.from_iterable(combinations(range(m), k) for k in range(1, m + 1)):  # noqa: N806
        b = B[list(S)]
        rest = np.linalg.lstsq((b[1:] - b[0]).T, y - b[0], rcond=None)[0] if len(S) > 1 else []
        x = np.array([1 - np.sum(rest), *rest])
        value = ((x @ b - y) ** 2).sum()
        if (x >= -1e-13).all() and value < best - 1e-15:
            best, weights = value, np.zeros(m)
            weights[list(S)] = x
    return weights


def assert_optimal(
    B: np.ndarray, Y: np.ndarray, X: np.ndarray, tolerance: float = 1e-12  # noqa: N803
) -> None:  # fmt: skip
    """On the simplex, and no index has a gradient below that of the support."""
    assert (X >= 0).all()
    np.testing.assert_allclose(X.sum(axis=1), 1.0, atol=1e-14)
    g = (X @ B - Y) @ B.T
    reduced = g - (X * g).sum(axis=1, keepdims=True)
    scale = (1 + np.abs(Y).max()) * np.abs(B).max() ** 2 * len(B)
    assert reduced.min() >= -tolerance * scale
    assert np.abs(X * reduced).max() <= tolerance * scale


@given(seed=st.integers(0, 10**6), m=st.integers(2, 6), extra=st.integers(-1, 3))
def test_agrees_with_enumeration(seed: int, m: int, extra: int) -> None:
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(m, max(1, m + extra)))  # noqa: N806
    assume(m == 2 or np.linalg.cond(B[1:] - B[0]) < 1e3)
    Y = 2 * rng.normal(size=(8, B.shape[1]))  # noqa: N806
    X = simplex_least_squares(B, Y)  # noqa: N806
    expected = np.array([by_enumeration(B, y) for y in Y])
    # rounding of 1e-15 times a condition of up to 1e3, squared where enumeration meets ties
    np.testing.assert_allclose(X, expected, atol=1e-9)
    assert_optimal(B, Y, X)


def test_exact_to_1e_12_when_well_conditioned() -> None:
    rng = np.random.default_rng(0)
    B = np.eye(6) + 0.1 * rng.normal(size=(6, 6))  # noqa: N806
    Y = rng.normal(size=(300, 6))  # noqa: N806
    expected = np.array([by_enumeration(B, y) for y in Y])
    np.testing.assert_allclose(simplex_least_squares(B, Y), expected, atol=1e-12)


def test_mutant_projected_affine_solution_is_rejected() -> None:
    """The start of the method alone, without active sets, is not optimal."""
    rng = np.random.default_rng(1)
    B, Y = rng.normal(size=(5, 5)), rng.normal(size=(100, 5))  # noqa: N806
    centred = B - B.mean(axis=0)
    start = 1 / 5 + (Y - B.mean(axis=0)) @ np.linalg.pinv(centred)
    wrong = module._project_to_simplex(start)
    with pytest.raises(AssertionError):
        assert_optimal(B, Y, wrong, 1e-6)
    assert_optimal(B, Y, simplex_least_squares(B, Y))


@pytest.mark.parametrize("m", [8, 32])
def test_many_rows_in_chunks(m: int) -> None:
    rng = np.random.default_rng(m)
    B = rng.normal(size=(m, m))  # noqa: N806
    Y = rng.dirichlet(np.full(m, 0.2), size=10_000) @ B + 0.1 * rng.normal(size=(10_000, m))  # noqa: N806
    X = simplex_least_squares(B, Y)  # noqa: N806
    assert_optimal(B, Y, X)
    again = simplex_least_squares(B, Y[8190:8200])  # rows around a border between chunks
    np.testing.assert_allclose(X[8190:8200], again, atol=1e-12)


def test_mixtures_come_back() -> None:
    rng = np.random.default_rng(2)
    B = rng.normal(size=(7, 9))  # noqa: N806
    mixed = rng.dirichlet(np.full(7, 0.3), size=500)
    np.testing.assert_allclose(simplex_least_squares(B, mixed @ B), mixed, atol=1e-12)


def test_vertices_and_points_far_out_have_exact_zeros() -> None:
    B = np.random.default_rng(3).normal(size=(5, 5))  # noqa: N806
    np.testing.assert_allclose(simplex_least_squares(B, B), np.eye(5), atol=1e-14)
    X = simplex_least_squares(np.eye(5), 1e6 * np.eye(5))  # noqa: N806
    assert np.array_equal(X, np.eye(5))


def test_small_and_moved_vertices() -> None:
    """Weights do not depend on units or origin."""
    rng = np.random.default_rng(4)
    B, Y = rng.normal(size=(4, 6)), rng.normal(size=(50, 6))  # noqa: N806
    plain = simplex_least_squares(B, Y)
    np.testing.assert_allclose(simplex_least_squares(1e-9 * B, 1e-9 * Y), plain, atol=1e-12)
    # moving by 1e3 costs three digits of the data
    np.testing.assert_allclose(simplex_least_squares(B + 1e3, Y + 1e3), plain, atol=1e-10)


def test_one_vertex_and_no_points() -> None:
    assert np.array_equal(simplex_least_squares(np.ones((1, 3)), np.zeros((2, 3))), np.ones((2, 1)))
    assert simplex_least_squares(np.eye(3), np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    "vertices",
    [np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), np.ones((2, 3)), np.eye(4)[:, :2]],
)
def test_dependent_vertices_are_reported(vertices: np.ndarray) -> None:
    with pytest.raises(NotIdentifiableError, match="not unique") as caught:
        simplex_least_squares(vertices, np.zeros((1, vertices.shape[1])))
    assert "at most" in str(caught.value.hint)


def test_frank_wolfe_on_one_vertex() -> None:
    found = frank_wolfe(np.ones((1, 3)), np.zeros((2, 3)))
    assert np.array_equal(found.weights, np.ones((2, 1)))
    assert found.n_steps == 0


def test_frank_wolfe_says_how_far_it_is_when_steps_run_out() -> None:
    rng = np.random.default_rng(5)
    B = rng.normal(size=(6, 6))  # noqa: N806
    Y = rng.dirichlet(np.ones(6), size=40) @ B  # noqa: N806
    found = frank_wolfe(B, Y, gap=1e-12, max_steps=20)
    assert found.n_steps == 20
    assert found.gaps.max() > 1e-12
