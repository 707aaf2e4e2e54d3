"""Low rank under linear constraints: projections, the optimum of a conic solver, certificates."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.papers.string_distances import strings_up_to
from tests.toys import strings_grammar

from sapwood.core.errors import SapwoodError
from sapwood.hankel.learn.consistency import problem_of
from sapwood.hankel.learn.moments import Basis
from sapwood.linalg import low_rank as lowrank
from sapwood.linalg.low_rank import Blocks, Problem


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


def test_steps_of_admm_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """X = shrink(Z - U, 1 / rho), Z = project(X + U), U = U + X - Z, with rho looked at each step.

    Where one residual is more than five times the other, rho is doubled or halved; U is scaled so
    that rho U stays what it was.
    """
    monkeypatch.setattr(lowrank, "STEPS_BETWEEN_GAPS", 1)
    problem = small_problem(noise=0.05)
    here = problem.project(np.zeros(len(problem.rows)))
    scaled, rho, factors, feasibilities = np.zeros_like(here), 30.0, set(), []
    for _ in range(40):
        left, values, right = np.linalg.svd(problem.matrix(here - scaled), full_matrices=False)
        low = ((left * np.maximum(values - 1 / rho, 0)) @ right).ravel()
        before, here = here, problem.project(low + scaled)
        scaled = scaled + low - here
        feasibilities.append(np.linalg.norm(low - here) / np.linalg.norm(here))
        primal, dual = np.linalg.norm(low - here), np.linalg.norm(here - before)
        factor = 2.0 if primal > 5 * dual else 0.5 if dual > 5 * primal else 1.0
        factors.add(factor)
        rho, scaled = rho * factor, scaled / factor
    found = lowrank.admm(problem, rho=30.0, max_steps=40)
    assert factors >= {2.0, 1.0}
    assert (found.steps, len(found.trace)) == (40, 40)
    np.testing.assert_allclose(found.matrix.ravel(), here, atol=1e-10)
    np.testing.assert_allclose([row[1] for row in found.trace], feasibilities, rtol=1e-6)
    assert found.feasibility == found.trace[-1][1]
    assert [row[0] for row in found.trace] == list(range(1, 41))


def test_admm_ends_only_when_both_measures_are_small() -> None:
    problem = small_problem(noise=0.05)
    found = lowrank.admm(problem, tolerance=1e-5)
    assert found.steps % lowrank.STEPS_BETWEEN_GAPS == 0
    assert found.steps < 5000
    assert [max(row[1:]) < 1e-5 for row in found.trace] == [False] * (len(found.trace) - 1) + [True]
    assert lowrank.admm(problem, max_steps=0).steps == 0
    known = problem.project(np.zeros(len(problem.rows)))
    same = lowrank.admm(problem, max_steps=30, rho=10 / np.linalg.norm(known))  # the default
    assert lowrank.admm(problem, max_steps=30).feasibility == same.feasibility


def test_what_lies_within_the_slack_stays() -> None:
    exact = small_problem()
    inside = exact.project(np.random.default_rng(1).normal(size=len(exact.rows)))
    np.testing.assert_allclose(small_problem(slack=0.05).project(inside), inside, atol=1e-12)


def test_the_nearest_point_with_slack_is_nearer_than_others() -> None:
    """Random points whose observations keep to the slack lie farther away, or as far."""
    problem, rng = small_problem(slack=0.2), np.random.default_rng(3)
    point = rng.normal(size=len(problem.rows))
    nearest = problem.project(point)
    np.testing.assert_allclose(problem.project(nearest), nearest, atol=1e-9)
    for _ in range(30):  # all angles to feasible points are at least right ones
        other = problem.project(nearest + rng.normal(size=len(point)))
        assert (point - nearest) @ (other - nearest) <= 1e-8


def test_counts_of_a_problem_with_and_without_observations() -> None:
    free = np.full((2, 1), 0.5**0.5)
    tied = Blocks(np.array([[0, 3], [1, 2]]), free, np.zeros(2), np.zeros(2))
    unit = np.array([0.5, 0.5, 0.0])
    seen = Blocks(np.array([[4, 5, 6]]), np.array([[0.0], [0.0], [1.0]]), unit, np.array([0.3]))
    rows, columns = np.divmod(np.arange(7), 4)
    problem = Problem((2, 4), rows, columns, [tied, seen], slack=0.1)
    assert (problem.n_observed, problem.n_constraints) == (1, 2 + 1)
    assert not problem.is_dense
    numbers = np.arange(1.0, 8.0)
    assert problem.matrix(numbers).tolist() == [[1, 2, 3, 4], [5, 6, 7, 0]]
    normal = problem.normal_part(numbers)
    np.testing.assert_allclose(normal, [-1.5, -0.5, 0.5, 1.5, 5, 6, 0])
    # <normal, z unit> less the slack times its length
    assert problem.support(normal) == pytest.approx(0.3 * 5.5 - 0.1 * 5.5)


def test_fista_with_all_values_kept_stays_feasible() -> None:
    problem = small_problem()
    size = min(problem.shape)
    found = lowrank.fista(problem, size, steps=3)
    assert found.feasibility < 1e-12  # a threshold of 0 changes nothing
    assert found.nuclear == pytest.approx(np.linalg.norm(found.matrix, "nuc"))
    cut = lowrank.fista(problem, 1, steps=1)
    start = problem.matrix(problem.project(np.zeros(len(problem.rows))))
    left, values, right = np.linalg.svd(start, full_matrices=False)
    low = (values[0] - values[1]) * np.outer(left[:, 0], right[0]).ravel()
    near = problem.project(low)
    assert cut.feasibility == pytest.approx(np.linalg.norm(low - near) / np.linalg.norm(near))


@pytest.mark.parametrize("size", [1 << 24, 0])
def test_the_direct_way_says_how_far_it_is_from_the_constraints(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a space without the solution, what is found is the least-squares one: see its slopes."""
    monkeypatch.setattr(lowrank, "DIRECT_SIZE", size)
    problem, rng = small_problem(noise=0.05), np.random.default_rng(0)
    left = np.linalg.qr(rng.normal(size=(problem.shape[0], 2)))[0]
    found = lowrank.direct(problem, left)
    entries = found.matrix.ravel()
    away = entries - problem.project(entries)
    assert found.feasibility == pytest.approx(np.linalg.norm(away) / np.linalg.norm(entries))
    assert found.feasibility > 0.01
    np.testing.assert_allclose(left.T @ problem.matrix(away), 0, atol=1e-9)
    assert found.nuclear == pytest.approx(np.linalg.norm(found.matrix, "nuc"))
    assert found.factors is not None
    np.testing.assert_allclose(left @ found.factors[1], found.matrix, atol=1e-12)
    assert (found.factors[0] == left).all()
    assert (found.steps, found.gap) == (1, np.inf)


def captured(problem: Problem, n: int, monkeypatch: pytest.MonkeyPatch, **more: float):
    """The arguments that `factored` gives to its optimiser."""
    import scipy.optimize

    seen = {}

    def fake(loss, x, **options):
        seen.update(options, loss=loss, x=x)
        return scipy.optimize.OptimizeResult(x=x)

    monkeypatch.setattr(scipy.optimize, "minimize", fake)
    seen["solution"] = lowrank.factored(problem, n, **more)
    return seen


@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_the_loss_of_factors_and_its_slopes(
    penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, rng = small_problem(noise=0.05), np.random.default_rng(0)
    p, q = problem.shape
    seen = captured(problem, 2, monkeypatch, penalty=penalty)
    size = np.linalg.norm(problem.project(np.zeros(p * q)))
    x = rng.normal(size=2 * (p + q))
    product = (x[: 2 * p].reshape(p, 2) @ x[2 * p :].reshape(2, q)).ravel()
    squares = np.sum((product - problem.project(product)) ** 2)
    value, slopes = seen["loss"](x)
    assert value == pytest.approx((squares / 2 + penalty * size / 2 * x @ x) / size**2)
    for place in rng.permutation(len(x))[:12]:
        step = np.zeros(len(x))
        step[place] = 1e-5
        change = (seen["loss"](x + step)[0] - seen["loss"](x - step)[0]) / 2e-5
        assert slopes[place] == pytest.approx(change, rel=1e-5, abs=1e-7)


def test_factors_start_from_an_svd(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small_problem(noise=0.05)
    p, q = problem.shape
    start = captured(problem, 2, monkeypatch)["x"]
    left, right = start[: 2 * p].reshape(p, 2), start[2 * p :].reshape(2, q)
    known = problem.matrix(problem.project(np.zeros(p * q)))
    U, D, Vt = np.linalg.svd(known, full_matrices=False)  # noqa: N806
    np.testing.assert_allclose(left @ right, (U[:, :2] * D[:2]) @ Vt[:2], atol=1e-12)
    np.testing.assert_allclose((left**2).sum(axis=0), D[:2])  # each side has the root
    given = captured(problem, 2, monkeypatch, start=(left + 1, right - 1))
    assert np.array_equal(given["x"], np.append((left + 1).ravel(), (right - 1).ravel()))
    made = given["solution"]
    np.testing.assert_allclose(made.matrix, (left + 1) @ (right - 1))
    away = made.matrix.ravel() - problem.project(made.matrix.ravel())
    assert made.feasibility == pytest.approx(np.linalg.norm(away) / np.linalg.norm(known))


def test_large_problems_start_from_a_sparse_svd(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 x 1,000 entries, of which five are listed and observed; nothing else is made."""
    monkeypatch.setattr(lowrank, "SHOWN", 1000)
    places = np.arange(5)
    observed = np.array([1.0, 5.0, 3.0, 4.0, 2.0])
    block = Blocks(places[:, None], np.zeros((1, 0)), np.ones(1), observed)
    problem = Problem((1500, 1000), 7 * places, 11 * places, [block])
    left, right = lowrank._svd_start(problem, 3)
    assert (left.shape, right.shape) == ((1500, 3), (3, 1000))
    made = (left @ right)[7 * places, 11 * places]
    np.testing.assert_allclose(made, [0, 5, 3, 4, 0], atol=1e-9)
    np.testing.assert_allclose((left**2).sum(axis=0), [5, 4, 3])
    found = lowrank.factored(problem, 5)
    assert found.matrix.shape == (0, 0)
    assert found.factors is not None
    assert found.feasibility < 1e-6


def test_factors_of_too_small_a_rank_leave_zero() -> None:
    """Columns beyond the rank start a little above 0, where slopes would vanish."""
    one = Blocks(np.array([[0]]), np.zeros((1, 0)), np.ones(1), np.array([4.0]))
    place = np.zeros(1, np.int64)
    left, right = lowrank._svd_start(Problem((3, 3), place, place, [one]), 2)
    np.testing.assert_allclose((left**2).sum(axis=0), [4, 4e-8])
    np.testing.assert_allclose((right**2).sum(axis=1), [4, 4e-8])


def test_factors_are_left_once_a_hundred_steps_bring_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import scipy.optimize

    monkeypatch.setattr(lowrank, "STEPS_BETWEEN_GAPS", 2)  # eight steps instead of a hundred
    n_stopped = []

    def fake(loss, x, callback, **options):
        values = [0.5**k for k in range(11)] + [0.5**10] * 50
        for k, value in enumerate(values):
            try:
                callback(intermediate_result=scipy.optimize.OptimizeResult(fun=value))
            except StopIteration:
                n_stopped.append(k)
                break
        return scipy.optimize.OptimizeResult(x=x)

    monkeypatch.setattr(scipy.optimize, "minimize", fake)
    found = lowrank.factored(small_problem(), 2)
    assert n_stopped == [18]  # the value at 10 is as low
    assert found.steps == 19


def test_numbers_for_reports() -> None:
    found = lowrank.fista(small_problem(), 2, steps=2)
    assert found.as_dict() == {
        "steps": 2, "feasibility": found.feasibility, "gap": np.inf, "nuclear": found.nuclear
    }  # fmt: skip
