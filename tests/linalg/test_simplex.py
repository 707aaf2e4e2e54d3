"""Weights on the simplex: least squares against other solvers, and EM with its duality gap."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.linalg.frank_wolfe import frank_wolfe

from sapwood.core.errors import NotIdentifiableError, SapwoodError
from sapwood.linalg import simplex as module
from sapwood.linalg.simplex import convex_em, simplex_least_squares


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
    "vertices", [np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), np.ones((2, 3)), np.eye(4)[:, :2]]
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


Views = tuple[np.ndarray, np.ndarray, np.ndarray]


def views(seed: int, n: int = 40, m: tuple[int, int, int] = (2, 3, 2)) -> Views:
    rng = np.random.default_rng(seed)
    z, y, x = (rng.gamma(0.5, size=(n, k)) + 1e-3 for k in m)
    return z, y, x


def log_likelihood(parts: Views, t: np.ndarray) -> float:
    """Eq. 1, with one term for each instance and the same weight for all."""
    return float(np.log(np.einsum("ih,ip,iq,hpq->i", *parts, t)).mean())


@given(seed=st.integers(0, 10**6), n=st.integers(1, 30))
def test_likelihood_never_falls_and_is_that_of_eq_1(seed: int, n: int) -> None:
    parts = views(seed, n)
    found = convex_em(*parts, max_iter=60)
    assert np.diff(found.log_likelihoods).min(initial=0.0) >= -1e-12  # rounding of a mean of logs
    assert found.t.sum() == pytest.approx(1.0, abs=1e-12)
    assert (found.t >= 0).all()
    assert found.log_likelihoods[-1] == pytest.approx(log_likelihood(parts, found.t), abs=1e-10)


@given(seed=st.integers(0, 10**6))
def test_gap_bounds_what_is_left(seed: int) -> None:
    parts = views(seed)
    early, late = convex_em(*parts, gap=0.1), convex_em(*parts, gap=1e-4, max_iter=5000)
    assert early.gap <= 0.1
    left = late.log_likelihoods[-1] - early.log_likelihoods[-1]
    assert -1e-12 <= left <= early.gap + 1e-12


def test_agrees_with_a_general_solver() -> None:
    parts = views(3)
    found = convex_em(*parts, gap=1e-6, max_iter=100_000)
    assert found.gap <= 1e-6

    def loss(free: np.ndarray) -> float:
        t = np.exp(free - free.max())
        return -log_likelihood(parts, (t / t.sum()).reshape(2, 3, 2))

    solved = minimize(loss, np.zeros(12), method="BFGS", options={"gtol": 1e-7})
    assert found.log_likelihoods[-1] == pytest.approx(-solved.fun, abs=2e-6)


def test_mutant_without_one_view_is_rejected() -> None:
    """An M-step that forgets to divide by the mixture lowers the likelihood."""
    parts = views(0)
    t = np.full((2, 3, 2), 1 / 12)
    values = []
    for _ in range(30):
        values.append(log_likelihood(parts, t))
        t = t * np.einsum("ih,ip,iq->hpq", *parts)
        t /= t.sum()
    assert np.diff(values).min() < -1e-3


def test_a_fall_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    falling = iter([-1.0, -2.0])
    monkeypatch.setattr(
        module, "_value_and_slope", lambda parts, weights, t: (next(falling), 2 + np.zeros(t.shape))
    )
    with pytest.raises(AssertionError, match="lowered"):
        convex_em(*views(0))


def test_weights_stand_for_repetitions() -> None:
    z, y, x = views(4, n=5)
    counts = np.array([1, 2, 3, 1, 4])
    once = convex_em(z, y, x, weights=counts.astype(float), max_iter=50)
    repeated = convex_em(*(np.repeat(part, counts, axis=0) for part in (z, y, x)), max_iter=50)
    np.testing.assert_allclose(once.t, repeated.t, atol=1e-12)
    np.testing.assert_allclose(once.log_likelihoods, repeated.log_likelihoods, atol=1e-12)


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = views(5)
    whole = convex_em(*parts, max_iter=30)
    monkeypatch.setattr(module, "CHUNK_NUMBERS", 20)  # three instances at a time
    np.testing.assert_allclose(convex_em(*parts, max_iter=30).t, whole.t, atol=1e-12)


def test_tiny_probabilities_do_not_underflow() -> None:
    z, y, x = views(6)
    plain, tiny = (convex_em(z * f, y * f, x * f, max_iter=30) for f in (1.0, 1e-200))
    np.testing.assert_allclose(tiny.t, plain.t, atol=1e-12)
    shift = 3 * np.log(1e-200)
    np.testing.assert_allclose(tiny.log_likelihoods, plain.log_likelihoods + shift, atol=1e-9)


def test_impossible_instances_are_counted() -> None:
    z, y, x = views(7)
    spoilt = np.vstack([y, np.zeros((2, 3))])
    found = convex_em(np.vstack([z, z[:2]]), spoilt, np.vstack([x, x[:2]]), max_iter=20)
    assert found.n_impossible == 2
    np.testing.assert_allclose(found.t, convex_em(z, y, x, max_iter=20).t, atol=1e-14)
    with pytest.raises(SapwoodError, match="all 3 instances"):
        convex_em(np.zeros((3, 2)), np.ones((3, 2)), np.ones((3, 2)))


def test_starts() -> None:
    parts = views(8)
    best = convex_em(*parts, gap=1e-7, max_iter=20_000)
    other = np.random.default_rng(0).gamma(1.0, size=(2, 3, 2))
    elsewhere = convex_em(*parts, start=other, gap=1e-7, max_iter=20_000)
    assert elsewhere.log_likelihoods[-1] == pytest.approx(best.log_likelihoods[-1], abs=2e-7)
    with pytest.raises(SapwoodError, match="1 entries of 12"):
        convex_em(*parts, start=np.where(np.arange(12).reshape(2, 3, 2) == 5, 0.0, other))


def test_stops() -> None:
    parts = views(9)
    assert len(convex_em(*parts, gap=0.0, max_iter=7).log_likelihoods) == 8
