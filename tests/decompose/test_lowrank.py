"""Low rank under linear constraints: projections, the optimum of a conic solver, certificates."""

from __future__ import annotations

import numpy as np
import pytest
from tests.toys import strings_grammar

from sapwood.decompose import lowrank
from sapwood.decompose.lowrank import Blocks, Problem
from sapwood.errors import SapwoodError
from sapwood.evaluate.strings import strings_up_to
from sapwood.moments.consistency import problem_of
from sapwood.moments.hankel import Basis


def small_problem(slack: float = 0.0, noise: float = 0.0) -> Problem:
    """Section 5.1 with two symbols."""
    grammar = strings_grammar(2, 2, seed=8)
    short = strings_up_to(("a", "b"), 3)
    p = grammar.values(short) * (1 + noise * np.random.default_rng(0).normal(size=len(short)))
    observed = dict(zip(short, p.tolist(), strict=True))
    return problem_of(Basis.smallest(("a", "b")), observed, only_observed=False, slack=slack)


def conic_optimum(problem: Problem) -> float:
    """Problem (29) as a semidefinite program: nuclear norm = least mean trace of two blocks.

    With slack, what is observed is a further variable u, and (mu, u - z) lies in a quadratic cone.
    """
    clarabel = pytest.importorskip("clarabel")
    sp = pytest.importorskip("scipy.sparse")
    p, q = problem.shape
    size = p + q
    corner = [(i, j) for j in range(size) for i in range(j + 1)]  # upper triangle by columns
    at = {place: number for number, place in enumerate(corner)}
    m, n = p * q, len(corner)
    units, observed = [], []
    for group in problem.groups:
        for places, z in zip(group.places, group.observed, strict=True):
            if group.unit.any():
                units.append(np.zeros(m))
                units[-1][places] = group.unit
                observed.append(z)
    k = len(observed)
    cost = np.array([0.5 if i == j else 0.0 for i, j in corner] + [0.0] * k)
    # equalities: the part of vec(H) orthogonal to all free directions is u times the units
    normal = np.array([problem.normal_part(unit) for unit in np.eye(m)])
    equal = np.zeros((m, n + k))
    for e, (i, j) in enumerate(zip(problem.rows, problem.columns, strict=True)):
        equal[:, at[i, p + j]] += normal[:, e]
    equal[:, n:] = -np.array(units).T
    scale = np.array([1.0 if i == j else np.sqrt(2.0) for i, j in corner])
    trace = np.hstack([-np.diag(scale), np.zeros((n, k))])
    near = np.vstack([np.zeros(n + k), np.hstack([np.zeros((k, n)), -np.eye(k)])])
    matrix = sp.csc_matrix(np.vstack([equal, trace, near]))
    b = np.concatenate([np.zeros(m + n), [problem.slack], -np.array(observed)])
    cones = [
        clarabel.ZeroConeT(m),
        clarabel.PSDTriangleConeT(size),
        clarabel.SecondOrderConeT(k + 1),
    ]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    square = sp.csc_matrix((n + k, n + k))
    solver = clarabel.DefaultSolver(square, cost, matrix, b, cones, settings)
    return float(solver.solve().obj_val)


def test_a_projection_is_the_nearest_point_and_stays() -> None:
    problem = small_problem()
    rng = np.random.default_rng(1)
    point = rng.normal(size=len(problem.rows))
    nearest = problem.project(point)
    np.testing.assert_allclose(problem.project(nearest), nearest, atol=1e-12)
    for _ in range(20):  # the way there is orthogonal to every way within
        other = problem.project(rng.normal(size=len(point)))
        assert (point - nearest) @ (other - nearest) == pytest.approx(0, abs=1e-10)


def test_slack_is_used_up_and_no_more() -> None:
    problem = small_problem(slack=0.05)
    point = np.random.default_rng(1).normal(size=len(problem.rows))
    near = problem.project(point)
    missed = [
        near[g.places] @ g.unit / (g.unit @ g.unit) - g.observed
        for g in problem.groups
        if g.unit.any()
    ]
    assert np.linalg.norm(np.concatenate(missed)) == pytest.approx(0.05, rel=1e-6)
    exact = small_problem().project(point)
    assert np.linalg.norm(point - near) < np.linalg.norm(point - exact)


@pytest.mark.parametrize(("noise", "slack"), [(0.0, 0.0), (0.05, 0.0), (0.05, 0.01)])
def test_admm_finds_the_optimum_of_a_conic_solver(noise: float, slack: float) -> None:
    problem = small_problem(noise=noise, slack=slack)
    found = lowrank.admm(problem, tolerance=1e-8)
    assert found.gap < 1e-7
    assert found.feasibility < 1e-7
    assert found.nuclear == pytest.approx(conic_optimum(problem), rel=1e-5)


def test_a_gap_is_no_promise_before_the_end() -> None:
    problem = small_problem(noise=0.05)
    early, late = lowrank.admm(problem, max_steps=2), lowrank.admm(problem)
    assert early.gap > 10 * late.gap
    assert early.nuclear - early.gap * early.nuclear <= late.nuclear * (1 + 1e-6)  # a bound it is


def test_fista_comes_near_and_is_no_better_than_admm() -> None:
    problem = small_problem(noise=0.02)
    printed, found = lowrank.fista(problem, 2), lowrank.admm(problem)
    assert printed.steps == 50
    assert printed.nuclear >= found.nuclear * (1 - 1e-6)
    assert printed.feasibility < 0.1


def test_a_known_column_space_makes_it_linear() -> None:
    problem = small_problem()
    known = problem.matrix(problem.project(np.zeros(len(problem.rows))))[:, :2]
    left = np.linalg.svd(known, full_matrices=False)[0]
    found = lowrank.direct(problem, left)
    assert found.feasibility < 1e-12
    iterated, dense = lowrank.DIRECT_SIZE, found.matrix
    try:
        lowrank.DIRECT_SIZE = 0
        np.testing.assert_allclose(lowrank.direct(problem, left).matrix, dense, atol=1e-8)
    finally:
        lowrank.DIRECT_SIZE = iterated


def test_factors_keep_to_the_constraints() -> None:
    found = lowrank.factored(small_problem(), 2)
    assert found.feasibility < 1e-6
    assert np.linalg.matrix_rank(found.matrix, tol=1e-9) == 2


def test_factors_end_when_nothing_falls_any_more() -> None:
    problem = small_problem(noise=0.05)
    early, late = (lowrank.factored(problem, 1, max_steps=x) for x in (3, 2000))
    assert early.feasibility > late.feasibility > 1e-3  # no matrix of rank 1 keeps to them
    assert late.steps < 1000


def test_a_penalty_on_factors_lowers_the_nuclear_norm() -> None:
    problem = small_problem(noise=0.05)
    free, held = (lowrank.factored(problem, 4, penalty=x).matrix for x in (0.0, 0.3))
    assert np.linalg.norm(held, "nuc") < np.linalg.norm(free, "nuc")


def test_entries_in_no_block_are_free() -> None:
    tied = Blocks(np.array([[0, 3]]), np.full((2, 1), 0.5**0.5), np.zeros(2), np.zeros(1))
    rows, columns = np.indices((2, 2)).reshape(2, -1)
    problem = Problem((2, 2), rows, columns, [tied])
    np.testing.assert_allclose(problem.project(np.array([1.0, 7.0, 8.0, 3.0])), [2, 7, 8, 2])
    assert (problem.n_constraints, problem.n_observed) == (1, 0)


def test_shrinking_takes_the_threshold_off_every_singular_value() -> None:
    rng = np.random.default_rng(2)
    left, right = (np.linalg.qr(rng.normal(size=(size, 3)))[0] for size in (4, 30))
    found = lowrank.shrink((left * [3.0, 0.7, 0.1]) @ right.T, 0.2)
    np.testing.assert_allclose(found, (left * [2.8, 0.5, 0.0]) @ right.T, atol=1e-12)


def test_a_negative_duality_gap_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Problem, "support", lambda self, dual: 1e6)
    with pytest.raises(SapwoodError, match="never negative"):
        lowrank.admm(small_problem(noise=0.05))


@pytest.mark.parametrize("slack", [0.0, 0.01])
def test_every_dual_matrix_gives_a_lower_bound(slack: float) -> None:
    """Weak duality: whatever Y is, what `_gap` takes for a bound is at most the optimum."""
    problem = small_problem(noise=0.05, slack=slack)
    best = lowrank.admm(problem)
    feasible, rng = best.matrix.ravel(), np.random.default_rng(0)
    left, _, right = np.linalg.svd(best.matrix, full_matrices=False)
    for scale in (0.5, 1.0, 3.0, 30.0):
        for dual in ((left @ right).ravel(), rng.normal(size=len(feasible))):
            gap, nuclear = lowrank._gap(problem, feasible, scale * dual)
            assert nuclear == pytest.approx(best.nuclear)
            assert nuclear * (1 - gap) <= best.nuclear * (1 + 1e-9)
            assert gap <= 1


def test_the_bound_with_slack_is_reached() -> None:
    """One entry, observed as 1 with a slack of 0.25: the least norm is 0.75."""
    one = Blocks(np.array([[0]]), np.zeros((1, 0)), np.ones(1), np.ones(1))
    place = np.zeros(1, np.int64)
    found = lowrank.admm(Problem((1, 1), place, place, [one], slack=0.25))
    assert found.nuclear == pytest.approx(0.75, abs=1e-6)
    assert 0 <= found.gap + 1e-9 < 1e-6


def test_fista_extrapolates_by_the_sequence_of_beck_and_teboulle() -> None:
    """Five steps by hand: (t - 1) / t' for t = 1, (1 + sqrt(1 + 4 t^2)) / 2, and so on."""
    problem = small_problem(noise=0.05)
    momenta = (0.0, 0.2817535277, 0.4340425634, 0.5310634964, 0.5987786337)
    point = previous = problem.matrix(problem.project(np.zeros(len(problem.rows))))
    for momentum in momenta:
        feasible = problem.matrix(problem.project(point.ravel()))
        left, values, right = np.linalg.svd(feasible, full_matrices=False)
        here = sum((values[k] - values[1]) * np.outer(left[:, k], right[k]) for k in range(1))
        point, previous = here + momentum * (here - previous), here
    expected = problem.matrix(problem.project(here.ravel()))
    np.testing.assert_allclose(lowrank.fista(problem, 1, steps=5).matrix, expected, atol=1e-9)
