"""Theorems 1 and 2 of PIVOT: features with pivots give the parameters, up to the order of states.

Notation: Q = r diag(pi) s', m = 4 states, d = 30 features on each side. A pivot of a state has
probability 0.1 to 0.3 there and 0 elsewhere; the other features are uniform on the simplex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tests.linalg.frank_wolfe import FrankWolfe, frank_wolfe
from tests.linalg.pivot_problems import (
    OneSided,
    PivotSettings,
    align,
    decompose_both_views,
    decompose_one_view,
    decompose_rows,
    least_squares_columns,
    likely_columns,
    states_from_points,
)

from sapwood.core.errors import NotIdentifiableError
from sapwood.linalg.pivots import find_anchors
from sapwood.linalg.simplex import convex_em, simplex_least_squares
from sapwood.linalg.svd import cca

M, D = 4, 30
EXACT = 1e-10  # conditions are below 1e2: measured 1e-15
SEEDS = range(100, 112)

Array = np.ndarray


class Model(NamedTuple):
    r: Array
    s: Array
    pi: Array

    @property
    def joint(self) -> Array:
        return (self.r * self.pi) @ self.s.T


def separable(rng: np.random.Generator, d: int = D, m: int = M) -> Array:
    """Columns with pivots, in rows in random order."""
    r = rng.dirichlet(np.ones(d - m), size=m).T
    mass = rng.uniform(0.1, 0.3, size=m)
    return np.vstack([np.diag(mass), r * (1 - mass)])[rng.permutation(d)]


def model(seed: int) -> Model:
    rng = np.random.default_rng(seed)
    return Model(separable(rng), separable(rng), rng.dirichlet(np.full(M, 5.0)))


def model_without_pivots(seed: int) -> Model:
    rng = np.random.default_rng(seed)
    r, s = (rng.dirichlet(np.ones(D), size=M).T for _ in range(2))
    return Model(r, s, rng.dirichlet(np.full(M, 5.0)))


def sampled(joint: Array, n: int, seed: int) -> Array:
    return np.random.default_rng(seed).multinomial(n, joint.ravel()).reshape(joint.shape)


def matched(found: Array, true: Array) -> tuple[Array, Array]:
    """L1 error of each column under the best order, and that order: found[:, h] ~ true[:, o[h]]."""
    cost = np.abs(found[:, :, None] - true[:, None, :]).sum(axis=0)
    rows, columns = linear_sum_assignment(cost)
    return cost[rows, columns], columns


# -- Theorem 2: exact Q gives exact parameters ------------------------------------------------


def worst_error(r: Array, s: Array, pi: Array, true: Model) -> float:
    """Largest error, all parameters in the order of r."""
    errors, order = matched(r, true.r)
    return float(
        max(errors.max(), np.abs(s - true.s[:, order]).max(), np.abs(pi - true.pi[order]).max())
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_2_one_view_and_least_squares(seed: int) -> None:
    true = model(seed)
    found = decompose_one_view(true.joint, M)
    assert worst_error(found.r, found.s, found.pi, true) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_2_both_views_and_em(seed: int) -> None:
    """Figure 2 as printed; a gap of 1e-13 leaves errors of up to 1e-11 in s."""
    true = model(seed)
    found = decompose_both_views(true.joint, M, gap=1e-13)
    assert worst_error(found.r, found.s, found.pi, true) < EXACT


@pytest.mark.parametrize("seed", SEEDS)
def test_mutant_rows_that_are_not_conditional(seed: int) -> None:
    """Without the division by p(f), frequent features are the extreme points, not pivots."""
    true = model(seed)
    joint, p = true.joint, true.joint.sum(axis=1)
    phi = cca(joint, p, joint.sum(axis=0), M).right
    wrong = states_from_points(joint @ phi, p, M)
    s, _ = least_squares_columns(joint, wrong.posterior)
    assert worst_error(wrong.r, s, wrong.pi, true) > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_mutant_views_that_are_not_aligned(seed: int) -> None:
    """Step 3 of Figure 2 is needed: each view has its own order of states, mostly another one."""
    true = model(seed)
    rows, columns = decompose_rows(true.joint, M), decompose_rows(true.joint.T, M)
    turned = columns.r[:, np.roll(_to_match(columns.r, true.s, rows.r, true.r), 1)]
    assert worst_error(rows.r, turned, rows.pi, true) > 0.01


def _to_match(s: Array, true_s: Array, r: Array, true_r: Array) -> Array:
    """Columns of s in the order of r."""
    return np.argsort(matched(s, true_s)[1])[matched(r, true_r)[1]]


# -- samples ----------------------------------------------------------------------------------

# median L1 error of a column of r, by number of pairs
EXPECTED = {10_000: 0.118, 100_000: 0.038, 1_000_000: 0.013}

Method = Callable[[Array, int], Array]


def rows_of(counts: Array, n: int) -> OneSided:
    return decompose_rows(counts, M, PivotSettings(n_pairs=n, candidates=counts.sum(axis=1) >= 20))


def by_pivots(counts: Array, n: int) -> Array:
    return rows_of(counts, n).r


def by_frequent_features(counts: Array, n: int) -> Array:
    """A mutant: the most frequent features instead of the extreme ones."""
    p = counts.sum(axis=1) / n
    phi = cca(counts / n, p, counts.sum(axis=0) / n, M).right
    points = counts @ phi / (n * p[:, None])
    q = simplex_least_squares(points[np.argsort(-p)[:M]], points)
    return p[:, None] * q / (p @ q)


def median_error(method: Method, n: int) -> float:
    errors = []
    for seed in SEEDS:
        true = model(seed)
        errors.append(matched(method(sampled(true.joint, n, seed), n), true.r)[0])
    return float(np.median(errors))


def is_on_the_ladder(method: Method) -> bool:
    return all(
        expected / 2 <= median_error(method, n) <= 2 * expected for n, expected in EXPECTED.items()
    )


def test_sampled_errors_fall_with_the_root_of_the_sample() -> None:
    assert is_on_the_ladder(by_pivots)


def test_mutant_anchors_stay_off_the_ladder() -> None:
    assert not is_on_the_ladder(by_frequent_features)
    assert median_error(by_frequent_features, 1_000_000) > 10 * EXPECTED[1_000_000]


def test_the_likely_second_view_is_the_best_of_three() -> None:
    """Each with the states of the first view, from 1e5 pairs."""
    errors = []
    for seed in SEEDS[:8]:
        true = model(seed)
        counts = sampled(true.joint, 100_000, seed)
        rows, columns = rows_of(counts, 100_000), decompose_rows(counts.T, M)
        views = (
            likely_columns(counts, rows.posterior, gap=1e-5).t,
            least_squares_columns(counts, rows.posterior)[0],
            columns.r @ align(counts, rows.posterior, columns.r, gap=1e-5).t.T,
        )
        errors.append([np.median(matched(s, true.s)[0]) for s in views])
    likely, squares, both = np.median(errors, axis=0)
    assert likely < squares
    assert likely < both
    assert max(squares, both) < 2 * EXPECTED[100_000]


# -- models without pivots --------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_models_without_pivots_are_reported(seed: int) -> None:
    joint = model_without_pivots(seed).joint
    for method in (decompose_one_view, decompose_both_views):
        with pytest.raises(NotIdentifiableError, match="outside the hull") as caught:
            method(joint, M)
        assert not caught.value.report.has_pivots
        assert caught.value.report.misfit > 1e-3


@pytest.mark.parametrize("n", EXPECTED)
def test_sampled_models_with_pivots_are_not_reported(n: int) -> None:
    for seed in SEEDS:
        assert rows_of(sampled(model(seed).joint, n, seed), n).report.has_pivots


@pytest.mark.parametrize(("n", "share"), [(100_000, 0.75), (1_000_000, 1.0)])
def test_sampled_models_without_pivots_are_reported(n: int, share: float) -> None:
    """Of 60 other models 55 and 60 were; 1e4 pairs are too few to tell (2 of 60)."""
    reported = [
        not rows_of(sampled(model_without_pivots(seed).joint, n, seed), n).report.has_pivots
        for seed in SEEDS
    ]
    assert np.mean(reported) >= share


def test_mutant_affine_weights_never_report() -> None:
    """Weights that may be negative put every point into the hull: nothing is outside."""
    joint = model_without_pivots(100).joint
    p = joint.sum(axis=1)
    points = joint @ cca(joint, p, joint.sum(axis=0), M).right / p[:, None]
    W = points[find_anchors(points, M)]  # noqa: N806
    q = np.linalg.lstsq(W.T, points.T, rcond=None)[0].T
    assert np.abs(q @ W - points).max() < 1e-10
    assert q.min() < -0.01


# -- Frank-Wolfe ------------------------------------------------------------------------------


def keeps_its_promise(found: FrankWolfe, B: Array, Y: Array) -> bool:  # noqa: N803
    """No row is farther above the minimum than its gap, and none below it."""
    values = [((X @ B - Y) ** 2).sum(axis=1) for X in (found.weights, simplex_least_squares(B, Y))]
    above = values[0] - values[1]
    return bool((above >= -1e-12).all() and (above <= found.gaps + 1e-12).all())


def least_squares_problem() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    B = rng.normal(size=(M, M))  # noqa: N806
    return B, np.vstack([rng.dirichlet(np.ones(M), size=100) @ B, rng.normal(size=(100, M))])


@pytest.mark.parametrize("max_steps", [0, 1, 5, 30, 300])
def test_frank_wolfe_is_within_its_gap_of_the_exact_solution(max_steps: int) -> None:
    B, Y = least_squares_problem()  # noqa: N806
    assert keeps_its_promise(frank_wolfe(B, Y, gap=0.0, max_steps=max_steps), B, Y)


def test_frank_wolfe_reaches_the_exact_weights_slowly() -> None:
    B, Y = least_squares_problem()  # noqa: N806
    found = frank_wolfe(B, Y, gap=1e-3, max_steps=20_000)
    assert found.gaps.max() <= 1e-3
    # |B' (x - x*)|^2 <= gap, and weights sum to 1
    least = np.linalg.svd(B - B.mean(axis=0), compute_uv=False)[M - 2]
    distance = np.linalg.norm(found.weights - simplex_least_squares(B, Y), axis=1)
    assert distance.max() <= np.sqrt(1e-3) / least
    assert found.n_steps > 1000


def test_mutant_gap_over_the_vertices_in_use() -> None:
    """A gap that forgets the vertices not reached yet is no bound."""
    B, Y = least_squares_problem()  # noqa: N806
    found = frank_wolfe(B, Y, gap=0.0, max_steps=1)
    g = (found.weights @ B - Y) @ B.T
    least = np.where(found.weights > 0, g, np.inf).min(axis=1)
    wrong = 2 * ((found.weights * g).sum(axis=1) - least)
    assert not keeps_its_promise(found._replace(gaps=wrong), B, Y)


# -- Eq. 3: the maximum is the permutation ----------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_em_on_eq_3_finds_what_least_squares_finds(seed: int) -> None:
    joint = model(seed).joint
    rows, columns = decompose_rows(joint, M), decompose_rows(joint.T, M)
    found = align(joint, rows.posterior, columns.r, gap=1e-13)
    assert np.diff(found.log_likelihoods).min() >= -1e-12  # rounding of a sum of logarithms
    np.testing.assert_allclose(found.t, np.round(found.t), atol=1e-8)
    np.testing.assert_allclose(
        columns.r @ found.t.T, least_squares_columns(joint, rows.posterior)[0], atol=EXACT
    )
    # the maximum of the likelihood is the negative entropy of g given f
    p = joint.sum(axis=1, keepdims=True)
    entropy = -(joint * np.log(np.where(joint > 0, joint / p, 1.0))).sum()
    assert found.log_likelihoods[-1] == pytest.approx(-entropy, abs=1e-11)


def test_mutant_m_step_over_all_states_at_once() -> None:
    """t as one distribution, as in Eq. 1, instead of one for each h, ends elsewhere."""
    joint = model(100).joint
    rows, columns = decompose_rows(joint, M), decompose_rows(joint.T, M)
    t = np.full((M, M), 1 / M)
    for _ in range(500):
        K = rows.posterior @ t @ columns.r.T  # noqa: N806
        t = t * (rows.posterior.T @ np.divide(joint, K) @ columns.r)
        t *= M / t.sum()
    assert np.abs(t - np.round(t)).max() > 0.01


# -- Theorem 1, step 2: exact r and s give the exact joint distribution of states -------------


def step_2(seed: int) -> tuple[Array, list[Array], Array]:
    """Truth, one row of each view for every triple of 12 features, and probabilities of these."""
    rng = np.random.default_rng(seed)
    views = [separable(rng, 12) for _ in range(3)]
    t = rng.dirichlet(np.ones(M**3)).reshape(M, M, M)
    p = np.einsum("hpq,fh,gp,kq->fgk", t, *views)
    rows = [view[index.ravel()] for view, index in zip(views, np.indices(p.shape), strict=True)]
    return t, rows, p.ravel()


@pytest.mark.parametrize("seed", range(100, 104))
def test_theorem_1_convex_em_recovers_the_rule(seed: int) -> None:
    t, rows, p = step_2(seed)
    found = convex_em(*rows, weights=p, gap=1e-8, max_iter=10_000)
    assert np.abs(found.t - t).sum() < 1e-5  # about ten times the gap
    seen = p > 0
    assert found.log_likelihoods[-1] == pytest.approx(p[seen] @ np.log(p[seen]), abs=1e-8)


def test_mutant_children_that_are_swapped() -> None:
    t, (z, y, x), p = step_2(100)
    found = convex_em(z, x, y, weights=p, gap=1e-8, max_iter=10_000)
    assert np.abs(found.t - t).sum() > 0.1
