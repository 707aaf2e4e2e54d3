"""Low rank under linear constraints: the Hankel matrix that agrees with the observations.

Notation (WCFG, section 4.2)
----------------------------
    H         [p, q], of which some entries are listed; all others are free
    block     entries of one yield: constraints never tie entries of two yields
    h         the entries of a block:  h = z c + Q t,  z the observed number, t anything
    c         what one unit of the observation adds, orthogonal to Q;  Q  orthonormal columns [m, r]

    minimise  ||H||_*   subject to  K vec(H) = 0,  ||O vec(H) - z||_2 <= mu

This is problem (29) without its constraint ||H||_2 <= 1, which the Hankel matrix of a distribution
need not satisfy: p(aa) = 1 gives the norm sqrt(2). The constraints (25) to (27) and the
observations of one yield say that h lies in an affine space, whose projection is exact:
h -> z c + Q Q' h. Blocks of one shape share Q and c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.progress import counted, note

DIRECT_SIZE = 1 << 24  # entries of a linear system that is solved densely
SHOWN = 1 << 22  # most entries of a product of factors that is computed
STILL = 1e-4  # relative fall of the objective over some steps below which `factored` ends
STEPS_BETWEEN_GAPS = 25  # steps between two computations of the gap, which take an SVD
GAP_ROUNDING = 1e-9  # relative; a duality gap below its negative is an error, not rounding


class Blocks(NamedTuple):
    """All blocks of one shape; they have Q and c in common."""

    places: IntArray  # [k, m]: indices of the entries of each block
    free: FloatArray  # [m, r]: Q
    unit: FloatArray  # [m]: c; 0 where nothing is observed
    observed: FloatArray  # [k]: z; 0 where nothing is observed


@dataclass(frozen=True, eq=False)
class Problem:
    """A matrix whose entries must agree within blocks, and with observations."""

    shape: tuple[int, int]  # p and q
    # [n_entries]: positions of the listed entries; all other entries are free
    rows: IntArray
    columns: IntArray
    groups: Sequence[Blocks]  # an entry is in at most one block
    slack: float = 0.0  # mu

    @property
    def is_dense(self) -> bool:
        """Whether all entries are listed, row by row."""
        return len(self.rows) == self.shape[0] * self.shape[1]

    def matrix(self, entries: FloatArray) -> FloatArray:
        """The matrix of all entries; those that are not listed are 0."""
        return entries.reshape(self.shape) if self.is_dense else self.sparse(entries).toarray()

    def sparse(self, entries: FloatArray) -> sp.csr_array:
        """The matrix of the listed entries."""
        return sp.csr_array(sp.coo_array((entries, (self.rows, self.columns)), shape=self.shape))

    def project(self, entries: FloatArray) -> FloatArray:
        """The nearest entries that satisfy all constraints."""
        out = entries.copy()
        targets = self._targets(entries)
        for group, target in zip(self.groups, targets, strict=True):
            h = entries[group.places]
            out[group.places] = (h @ group.free) @ group.free.T + target[:, None] * group.unit
        return out

    def _targets(self, entries: FloatArray) -> list[FloatArray]:
        """The target of each block: z, or the point within the slack that is nearest to h."""
        exact = [group.observed for group in self.groups]
        if not self.slack:
            return exact
        seen = [group for group in self.groups if group.unit.any()]
        z = np.concatenate([group.observed for group in seen])
        weight = np.concatenate([np.full(len(g.observed), g.unit @ g.unit) for g in seen])
        now = np.concatenate([(entries[g.places] @ g.unit) / (g.unit @ g.unit) for g in seen])
        # minimise sum of weight (t - now)^2 subject to ||t - z|| <= mu: t between z and now
        low, high = 0.0, 1.0
        if np.linalg.norm(now - z) > self.slack:
            while np.linalg.norm(weight / (weight + high) * (now - z)) > self.slack:
                high *= 2
            for _ in range(60):
                middle = (low + high) / 2
                is_far = np.linalg.norm(weight / (weight + middle) * (now - z)) > self.slack
                low, high = (middle, high) if is_far else (low, middle)
            now = z + weight / (weight + high) * (now - z)
        parts = iter(np.split(now, np.cumsum([len(g.observed) for g in seen])[:-1]))
        return [next(parts) if g.unit.any() else g.observed for g in self.groups]

    def support(self, dual: FloatArray) -> float:
        """The least inner product of a dual matrix, orthogonal to all Q, with feasible entries."""
        total, squares = 0.0, 0.0
        for group in self.groups:
            y = dual[group.places] @ group.unit
            total += float(y @ group.observed)
            squares += float(y @ y)
        return total - self.slack * float(np.sqrt(squares))

    def normal_part(self, entries: FloatArray) -> FloatArray:
        """The part that is orthogonal to all directions in which entries may move."""
        out = np.zeros_like(entries)
        for group in self.groups:
            h = entries[group.places]
            out[group.places] = h - (h @ group.free) @ group.free.T
        return out

    @cached_property
    def n_observed(self) -> int:
        """Number of blocks with an observation."""
        return sum(len(group.places) for group in self.groups if group.unit.any())

    @cached_property
    def n_constraints(self) -> int:
        """Number of independent equations between entries, without the observations."""
        return sum(
            len(g.places) * (g.free.shape[0] - g.free.shape[1] - bool(g.unit.any()))
            for g in self.groups
        )


@dataclass
class Solution:
    """The result of a solver, and its distance from the constraints and from the optimum."""

    matrix: FloatArray  # [p, q]: feasible; for `factored`, the product of the factors
    steps: int  # iterations
    feasibility: float  # relative distance of the low-rank iterate from the constraints
    gap: float = np.inf  # relative duality gap; infinite where a solver gives no lower bound
    nuclear: float = np.nan  # the nuclear norm of the feasible matrix
    factors: tuple[FloatArray, FloatArray] | None = None  # P and S, where the solver has them
    trace: list[tuple[int, float, float]] = field(default_factory=list)  # steps, feasibility, gap

    def as_dict(self) -> dict[str, Any]:
        """The numbers, for reports."""
        return {name: getattr(self, name) for name in ("steps", "feasibility", "gap", "nuclear")}


def shrink(matrix: FloatArray, tau: float) -> FloatArray:
    """The proximal step of tau times the nuclear norm: sigma -> max(sigma - tau, 0), by one SVD.

    >>> shrink(np.diag([3.0, 0.7, 0.1]), 0.2).round(3).tolist()
    [[2.8, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    U, D, Vt = _svd(matrix)
    return np.asarray((U * np.maximum(D - tau, 0.0)) @ Vt)


def _svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """SVD through the smaller Gram matrix where the sides differ much: precise enough for steps."""
    p, q = matrix.shape
    if 4 * p > q:
        U, D, Vt = np.linalg.svd(matrix, full_matrices=False)
        return U, D, Vt
    # with an orthonormal basis of the rows it is as exact as an SVD, at the cost of a product
    Q, R = np.linalg.qr(matrix.T)
    U, D, Wt = np.linalg.svd(R.T, full_matrices=False)
    return U, D, Wt @ Q.T


def admm(
    problem: Problem, *, tolerance: float = 1e-7, max_steps: int = 5000, rho: float | None = None
) -> Solution:
    """Problem (29), without its cap, by the alternating direction method of multipliers.

        X = shrink(Z - U, 1 / rho),  Z = project(X + U),  U = U + X - Z

    Stops when X is as good as feasible and the gap to the dual bound is closed: Y = -rho U is
    orthogonal to all free directions; divided by max(1, ||Y||_2) it is feasible for the dual
    problem, so its least product with a feasible matrix is a lower bound of the norm.

    Raises
    ------
    SapwoodError
        Where a gap is negative: then the bound or the matrix is wrong.
    """
    Z = problem.project(np.zeros(len(problem.rows)))
    weight = rho or 10.0 / (float(np.linalg.norm(Z, 2)) or 1.0)
    U = np.zeros_like(Z)
    found = Solution(Z, 0, np.inf)
    for step in counted(range(1, max_steps + 1), "nuclear norm, at most", unit="step"):
        X = shrink(problem.matrix(Z - U), 1 / weight).ravel()
        old, Z = Z, problem.project(X + U)
        U = U + X - Z
        primal, dual = np.linalg.norm(X - Z), np.linalg.norm(Z - old)
        if step % STEPS_BETWEEN_GAPS == 0 or step == max_steps:
            feasibility = float(primal / max(float(np.linalg.norm(Z)), 1e-300))
            gap, nuclear = _gap(problem, Z, -weight * U)
            found.trace.append((step, feasibility, gap))
            found = Solution(problem.matrix(Z), step, feasibility, gap, nuclear, trace=found.trace)
            if feasibility < tolerance and gap < tolerance:
                break
            # residuals of one size make the fastest progress (Boyd et al. 2011, section 3.4.1)
            factor = 2.0 if primal > 5 * dual else 0.5 if dual > 5 * primal else 1.0
            weight, U = weight * factor, U / factor
    return found


def _gap(problem: Problem, Z: FloatArray, Y: FloatArray) -> tuple[float, float]:
    """Relative duality gap and nuclear norm of a feasible point Z."""
    nuclear = float(np.linalg.svd(problem.matrix(Z), compute_uv=False).sum())
    Y = problem.normal_part(Y)
    # H = 0 has the norm 0, which is a bound too
    bound = max(problem.support(Y) / max(1.0, float(np.linalg.norm(problem.matrix(Y), 2))), 0.0)
    gap = (nuclear - bound) / max(nuclear, 1e-300)
    if not gap >= -GAP_ROUNDING:
        msg = f"the solver found the duality gap {gap:.3g}; a duality gap is never negative"
        raise SapwoodError(msg, hint="this is a fault of Sapwood: please report it with the data")
    return gap, nuclear


def fista(problem: Problem, n: int, *, steps: int = 50) -> Solution:
    """FISTA as section 5.1 prints it: project, shrink to n singular values, extrapolate.

    The threshold is the first singular value that is not kept. FISTA gives no lower bound; it is
    here as a baseline.
    """
    H = previous = problem.project(np.zeros(len(problem.rows)))
    point, t = H, 1.0
    for _ in counted(range(steps), "nuclear norm", unit="step"):
        U, D, Vt = _svd(problem.matrix(problem.project(point)))
        tau = D[n] if n < len(D) else 0.0
        H = ((U * np.maximum(D - tau, 0.0)) @ Vt).ravel()
        ahead = (1 + np.sqrt(1 + 4 * t * t)) / 2
        point = H + (t - 1) / ahead * (H - previous)
        previous, t = H, ahead
    Z = problem.project(H)
    distance = float(np.linalg.norm(H - Z) / max(float(np.linalg.norm(Z)), 1e-300))
    nuclear = float(np.linalg.svd(problem.matrix(Z), compute_uv=False).sum())
    return Solution(problem.matrix(Z), steps, distance, nuclear=nuclear)


def direct(problem: Problem, columns: FloatArray) -> Solution:
    """The matrix U C that satisfies the constraints best, by linear least squares in C.

    `columns` [p, n] is an orthonormal basis U of the column space, which is known here.
    """
    p, q = problem.shape
    n = columns.shape[1]
    goal = problem.project(np.zeros(p * q))  # z c

    def apply(C: FloatArray) -> FloatArray:
        return problem.normal_part((columns @ C.reshape(n, q)).ravel())

    if p * q * n * q <= DIRECT_SIZE:
        A = np.stack([apply(unit) for unit in np.eye(n * q)], axis=1)
        C, *_ = np.linalg.lstsq(A, goal, rcond=None)
    else:
        from scipy.sparse.linalg import LinearOperator, lsmr

        operator = LinearOperator(
            (p * q, n * q), matvec=apply, dtype=float,
            rmatvec=lambda y: (columns.T @ problem.normal_part(y).reshape(p, q)).ravel(),
        )  # fmt: skip
        C = lsmr(operator, goal, atol=1e-14, btol=1e-14, maxiter=5000)[0]
    right = np.asarray(C.reshape(n, q), np.float64)
    H = columns @ right
    entries = H.ravel()
    distance = float(np.linalg.norm(entries - problem.project(entries)))
    return Solution(
        H, 1, distance / max(float(np.linalg.norm(entries)), 1e-300),
        nuclear=float(np.linalg.svd(H, compute_uv=False).sum()), factors=(columns, right),
    )  # fmt: skip


def factored(
    problem: Problem,
    n: int,
    *,
    penalty: float = 0.0,
    max_steps: int = 2000,
    start: tuple[FloatArray, FloatArray] | None = None,
) -> Solution:
    """Factors P [p, n] and S [n, q] whose product satisfies the constraints (Burer and Monteiro).

        minimise  1/2 dist(PS, constraints)^2 + penalty / 2 (||P||^2 + ||S||^2)

    The least penalty over all factors of a matrix is its nuclear norm. Only listed entries are ever
    computed, so that large sparse problems fit; the start is a sparse SVD of the feasible entries
    nearest to 0. Ends when a hundred steps lower the objective by less than a fraction `STILL`.
    """
    from scipy.optimize import OptimizeResult, minimize

    p, q = problem.shape
    rows, columns = problem.rows, problem.columns
    P, S = start or _svd_start(problem, n)
    size = float(np.linalg.norm(problem.project(np.zeros(len(rows))))) or 1.0
    track: list[float] = []

    def product(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        P, S = x[: p * n].reshape(p, n), x[p * n :].reshape(n, q)
        return P, S, np.einsum("ek,ek->e", P[rows], S.T[columns])

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        P, S, h = product(x)
        away = h - problem.project(h)
        G = problem.sparse(away)
        slope_P = G @ S.T + penalty * size * P
        slope_S = (G.T @ P).T + penalty * size * S
        value = 0.5 * float(away @ away) + 0.5 * penalty * size * float(x @ x)
        return value / size**2, np.concatenate([slope_P.ravel(), slope_S.ravel()]) / size**2

    def watch(*, intermediate_result: OptimizeResult) -> None:
        track.append(float(intermediate_result.fun))
        note(len(track), max_steps, "step")
        if (
            len(track) > 4 * STEPS_BETWEEN_GAPS
            and track[-1] > (1 - STILL) * track[-1 - 4 * STEPS_BETWEEN_GAPS]
        ):
            raise StopIteration

    x = np.concatenate([P.ravel(), S.ravel()])
    options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "maxcor": 30, "ftol": 1e-30}
    options["gtol"] = 1e-14
    done = minimize(loss, x, jac=True, method="L-BFGS-B", options=options, callback=watch)
    P, S, h = product(done.x)
    distance = float(np.linalg.norm(h - problem.project(h))) / size
    matrix = P @ S if p * q <= SHOWN else np.empty((0, 0))
    return Solution(matrix, len(track), distance, factors=(P, S))


def _svd_start(problem: Problem, n: int) -> tuple[FloatArray, FloatArray]:
    h = problem.project(np.zeros(len(problem.rows)))
    p, q = problem.shape
    sparse = problem.sparse(h)
    if min(p, q) <= n + 1 or p * q <= 1 << 20:
        U, D, Vt = np.linalg.svd(sparse.toarray(), full_matrices=False)
    else:
        from scipy.sparse.linalg import svds

        U, D, Vt = svds(sparse, k=n, random_state=np.random.default_rng(0))
    order = np.argsort(-D)[:n]
    root = np.sqrt(np.maximum(D[order], 1e-8 * D.max()))
    return U[:, order] * root, root[:, None] * Vt[order]
