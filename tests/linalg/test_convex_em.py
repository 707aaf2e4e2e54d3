"""EM on concave likelihoods: it climbs, its gap is a bound, and it ends where a solver does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from sapwood.core.errors import SapwoodError
from sapwood.linalg import convex_em as module
from sapwood.linalg.convex_em import convex_em

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
