"""Problems 1 and 2 of PIVOT for one matrix, by the steps that `PivotLPCFG` takes; and a report.

    Q = r diag(pi) s', up to the order of the states

Notation (PIVOT, section 5)
---------------------------
    Q[f, g]     joint probability (or count) of two features              [d, d'], dense or sparse
    pi[h]       probability of a state                                    [m]
    r[f, h]     p(f | h), columns sum to 1                                [d, m]
    s[g, h]     p(g | h), columns sum to 1                                [d', m]
    q[f, h]     p(h | f), rows sum to 1                                   [d, m]
    phi[g]      right directions of the CCA of Q                          [d', dim]
    v[f]        E[phi(g) | f] = sum of q[f, h] w[h]                       [d, dim]
    t[h, h']    which state of the second view is h of the first          [m, m], Eq. 3

Problem 2 of the paper asks for pi and r, and needs pivots among the rows. Problem 1 asks for s too.
Figure 2 solves it with pivots on both sides and EM for t (`decompose_both_views`). The remark below
Theorem 2 needs pivots on one side only: given q, s follows by least squares in closed form
(`decompose_one_view`) or as the maximum of a concave likelihood (`likely_columns`).

Models without pivots have points outside the hull of any m of them. How far they are outside is
measured, compared with what sampling explains, and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import NotIdentifiableError, SapwoodError
from sapwood.linalg import pivots
from sapwood.linalg.pivots import TOLERANCE, BoolArray, columns_given_states
from sapwood.linalg.simplex import _check_gain
from sapwood.linalg.svd import cca

Matrix = Any  # dense or sparse, two axes
Missing = Literal["raise", "keep"]
CHUNK_PAIRS = 1 << 17  # entries of Q whose products are taken together: 32 MB at m = 32

# Sampling moves singular values of the whitened Q by (sqrt(d) + sqrt(d')) / sqrt(n_pairs) or less;
# with rare features by up to 1.8 times as much (m = 4, d = 30, 1e3 to 1e6 pairs).
NOISE_LIMIT = 2.0
# Squared distances over those that sampling explains. The hull moves towards the points, so that
# models with pivots stay below 0.7 (m = 4, d = 30, 1e4 to 1e6 pairs; median 0.05). Models without
# grow with the sample: of 60, 2 are above 1 at 1e4 pairs, 55 at 1e5, all at 1e6.
EXCESS_LIMIT = 1.0


@dataclass(frozen=True)
class PivotSettings:
    """How pivots are looked for."""

    candidates: BoolArray | None = None  # [d]: Features that may be pivots; see `anchors.frequent`
    # how many pairs Q was counted from; without it, Q is taken to be exact
    n_pairs: float | None = None
    # heights and distances that count as zero, as a share of the cloud's size, and correlations
    tolerance: float = TOLERANCE
    # of the CCA, as a share of the mean probability. Two features that are seen once, together,
    # have a correlation of 1: long tails need a ridge of 1 or more, or they take all directions
    ridge: float = 0.0


class Sampling(NamedTuple):
    """What sampling explains."""

    # [d]: Expected squared distance of each point from where it would be without sampling
    noise: FloatArray
    correlation: float  # what canonical correlations of independent features would be


@dataclass(frozen=True, eq=False)
class PivotReport:
    """Whether the features have pivots."""

    # states asked for, and vertices that stand apart
    wanted: int
    found: int
    # [found]: Distance of each pivot from the hull of the others, as a share of the cloud's
    # size: of its radius or its distance from the origin, whichever is greater
    heights: FloatArray
    misfit: float  # root mean square distance of the features from the hull of the pivots, likewise
    # mean square distance over the mean expected from sampling; `inf` where Q is exact
    excess: float
    tolerance: float  # what the misfit may be when sampling does not explain it
    # [at most wanted + 1]: Canonical correlations; the last shows what more states could add.
    # Empty for bare points
    correlations: FloatArray
    noise_correlation: float  # what sampling alone would make of the last; 0 where Q is exact

    @property
    def needs_more_states(self) -> bool:
        """True where Q has a greater rank than the states wanted."""
        beyond = self.correlations[self.wanted :]
        return bool((beyond > max(self.tolerance, NOISE_LIMIT * self.noise_correlation)).any())

    @property
    def has_pivots(self) -> bool:
        """True where these states explain Q, and all features are mixtures of their pivots."""
        fits = self.misfit <= self.tolerance or self.excess <= EXCESS_LIMIT
        return self.found == self.wanted and fits and not self.needs_more_states


@dataclass(frozen=True, eq=False)
class OneSided:
    """Answer to problem 2."""

    # [m]: Probabilities of the states; m is less than asked for where the features are too flat
    pi: FloatArray
    r: FloatArray  # [d, m]: p(f | h); rows of features that never occur are zero
    posterior: FloatArray  # [d, m]: p(h | f); likewise
    pivots: IntArray  # [m]: The pivot feature of each state
    report: PivotReport  # whether they deserve the name


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Answer to problem 1: Q / sum(Q) = r diag(pi) s'."""

    # [m], [d, m], [d', m]: The parameters, all in the same order of states
    pi: FloatArray
    r: FloatArray
    s: FloatArray
    reports: tuple[PivotReport, ...]  # of the rows and, where they were needed, of the columns
    # negative mass of s that was set to zero, per state; only least squares has any
    clipped: float = 0.0


# -- problem 2 --------------------------------------------------------------------------------


def decompose_rows(Q: Matrix, m: int, settings: PivotSettings | None = None) -> OneSided:
    """Probabilities of states and of row features given a state (problem 2).

        v[f] = sum over g of p(g | f) phi[g];   q[f] = argmin |sum of q[f, h] w[h] - v[f]|^2
        pi[h] = sum of p(f) q[f, h];            r[f, h] = p(f) q[f, h] / pi[h]

    Cost: one CCA of m + 1 directions, O(d m^3) for anchors, and d least-squares problems.

    Examples
    --------
    >>> Q = np.array([[0.3, 0.0], [0.1, 0.3], [0.0, 0.3]])
    >>> found = decompose_rows(Q, 2)
    >>> sorted(found.pivots.tolist()), found.report.has_pivots
    ([0, 2], True)
    """
    settings = settings or PivotSettings()
    Q = _probabilities(Q)
    p_f, p_g = np.asarray(Q.sum(axis=1)), np.asarray(Q.sum(axis=0))
    directions = cca(Q, p_f, p_g, m + 1, ridge=settings.ridge)
    phi = directions.right[:, :m]
    inverse = np.divide(1.0, p_f, out=np.zeros_like(p_f), where=p_f > 0)
    points = (Q @ phi) * inverse[:, None]
    sampling = _sampling(Q, phi, points, settings.n_pairs) if settings.n_pairs else None
    return states_from_points(
        points, p_f, m, settings, sampling=sampling, correlations=directions.correlations
    )


def _sampling(Q: Matrix, phi: FloatArray, points: FloatArray, n_pairs: float) -> Sampling:
    """Variance of phi given f over the count of f, and the norm of whitened noise."""
    p_f, p_g = np.asarray(Q.sum(axis=1)), np.asarray(Q.sum(axis=0))
    inverse = np.divide(1.0, p_f, out=np.zeros_like(p_f), where=p_f > 0)
    variance = (Q @ (phi * phi).sum(axis=1)) * inverse - (points * points).sum(axis=1)
    edge = (np.count_nonzero(p_f) ** 0.5 + np.count_nonzero(p_g) ** 0.5) / n_pairs**0.5
    return Sampling(np.maximum(variance, 0.0) * inverse / n_pairs, edge)


def states_from_points(
    points: FloatArray,
    p: FloatArray,
    m: int,
    settings: PivotSettings | None = None,
    *,
    sampling: Sampling | None = None,
    correlations: FloatArray | None = None,
) -> OneSided:
    """What `PivotLPCFG` does with the points of a label's features, and a report of it."""
    settings = settings or PivotSettings()
    pi, q, anchors = pivots.states_from_points(
        points, p, m, candidates=settings.candidates, tolerance=settings.tolerance
    )
    W, share = points[anchors], p / p.sum()
    outside = float(share @ ((q @ W - points) ** 2).sum(axis=1, where=p[:, None] > 0))
    allowed = (p > 0) if settings.candidates is None else (p > 0) & settings.candidates
    middle = points[allowed].mean(axis=0)
    radius = float(np.linalg.norm(points[allowed] - middle, axis=1).max())
    size = max(radius, float(np.linalg.norm(W, axis=1).max())) or 1.0
    apart = np.array([radius])
    if len(W) > 1:
        apart = np.diagonal(pivots._heights_without_each(W, list(range(len(W)))))
    report = PivotReport(
        wanted=m,
        found=len(W),
        heights=apart / size,
        misfit=outside**0.5 / size,
        excess=_excess(outside, share, q, sampling, anchors) if sampling else np.inf,
        tolerance=settings.tolerance,
        correlations=np.zeros(0) if correlations is None else correlations,
        noise_correlation=sampling.correlation if sampling else 0.0,
    )
    return OneSided(pi, share[:, None] * q / pi, q, anchors, report)


def _excess(
    outside: float, share: FloatArray, q: FloatArray, sampling: Sampling, pivots: IntArray
) -> float:
    """Mean square distance over its expectation: noise of the points and of their pivots."""
    expected = float(share @ (sampling.noise + (q * q) @ sampling.noise[pivots]))
    return outside / max(expected, np.finfo(float).tiny)


def require_pivots(report: PivotReport) -> None:
    """Raise `NotIdentifiableError` where features have no pivots; its report is the argument."""
    if report.has_pivots:
        return
    if report.found < report.wanted:
        msg = f"{report.wanted} states were asked for, but features tell only {report.found} apart"
        hint = f"use {report.found} states, or features that tell more states apart"
        raise NotIdentifiableError(msg, report=report, hint=hint)
    if report.needs_more_states:
        last = report.correlations[report.wanted]
        msg = (
            f"{report.wanted} states leave a correlation of {last:.3g} unexplained;"
            f" sampling explains about {report.noise_correlation:.3g}"
        )
        raise NotIdentifiableError(msg, report=report, hint="ask for more states")
    msg = (
        f"features lie {report.misfit:.3g} of the cloud's size outside the hull of"
        f" {report.found} pivots, and sampling explains 1 / {report.excess:.3g} of it (squared)"
    )
    hint = "states have no pivots: use finer features or EM, or keep the result as an approximation"
    raise NotIdentifiableError(msg, report=report, hint=hint)


# -- problem 1 --------------------------------------------------------------------------------


def decompose_both_views(
    Q: Matrix,
    m: int,
    rows: PivotSettings | None = None,
    columns: PivotSettings | None = None,
    *,
    gap: float = 1e-8,
    on_missing: Missing = "raise",
) -> Decomposition:
    """All parameters from pivots on both sides (Figure 2).

    r, pi from Q;   s' from Q';   s = s' t',  t from `align` (Eq. 3)
    """
    left = decompose_rows(Q, m, rows)
    right = decompose_rows(sparse.csr_array(Q).T, m, columns)
    _judge((left.report, right.report), on_missing)
    t = align(Q, left.posterior, right.r, gap=gap).t
    return Decomposition(left.pi, left.r, right.r @ t.T, (left.report, right.report))


def decompose_one_view(
    Q: Matrix, m: int, rows: PivotSettings | None = None, *, on_missing: Missing = "raise"
) -> Decomposition:
    """All parameters from pivots among the rows only (remark below Theorem 2).

    Examples
    --------
    >>> Q = np.array([[0.3, 0.0], [0.1, 0.3], [0.0, 0.3]])
    >>> found = decompose_one_view(Q, 2)
    >>> (found.r * found.pi @ found.s.T).round(12).tolist()
    [[0.3, 0.0], [0.1, 0.3], [0.0, 0.3]]
    """
    left = decompose_rows(Q, m, rows)
    _judge((left.report,), on_missing)
    s, clipped = least_squares_columns(Q, left.posterior)
    return Decomposition(left.pi, left.r, s, (left.report,), clipped)


def least_squares_columns(Q: Matrix, posterior: FloatArray) -> tuple[FloatArray, float]:
    """Second view given the states of the first, in closed form.

        min over s of  sum over f of p(f) |p(. | f) - sum of q[f, h] s[., h]|^2
        s' = (q' D q)^-1 q' Q,   D = diag(p(f))

    Columns sum to 1 by themselves. Negative entries are set to zero, and columns scaled to 1 again.

    Cost: O(m nnz(Q) + m^3).
    """
    Q = _probabilities(Q)
    p = np.asarray(Q.sum(axis=1))
    s = columns_given_states(posterior.T @ (p[:, None] * posterior), Q.T @ posterior)
    clipped = float(np.maximum(-s, 0.0).sum(axis=0).mean())
    s = np.maximum(s, 0.0)
    return s / s.sum(axis=0), clipped


def likely_columns(
    Q: Matrix, posterior: FloatArray, *, gap: float = 1e-8, max_iter: int = 2000
) -> ConditionalEM:
    """Second view given the states of the first, of greatest likelihood (remark below Theorem 2).

        max over s of  sum of Q[f, g] log sum over h of q[f, h] s[g, h]

    Cost: O(m nnz(Q)) an iteration of EM.
    """
    Q = _probabilities(Q)
    d_right, m = Q.shape[1], posterior.shape[1]
    # s[h] is a distribution over columns: t of Eq. 3 with one state for each column
    start = np.tile(np.asarray(Q.sum(axis=0)), (m, 1))
    one_each = sparse.eye_array(d_right, format="csr")
    found = conditional_em(Q, posterior, one_each, start, gap=gap, max_iter=max_iter)
    return found._replace(t=found.t.T)


def align(
    Q: Matrix, posterior: FloatArray, s: FloatArray, *, gap: float = 1e-8, max_iter: int = 2000
) -> ConditionalEM:
    """Which states of the second view are those of the first, by EM (Eq. 3).

        max over t of  sum of Q[f, g] log sum over h, h' of q[f, h] t[h, h'] s[g, h']

    Cost: O(m nnz(Q)) an iteration; hundreds of iterations.
    """
    m, m_right = posterior.shape[1], s.shape[1]
    start = np.full((m, m_right), 1.0 / m_right)
    return conditional_em(_probabilities(Q), posterior, s, start, gap=gap, max_iter=max_iter)


def reconstruction_error(Q: Matrix, found: Decomposition) -> float:
    """Sum over all entries of |Q / sum(Q) - r diag(pi) s'|; cost O(d d' m)."""
    Q = _probabilities(Q)
    weighted = found.r * found.pi
    return float(
        sum(np.abs(Q[[f]].toarray() - weighted[f] @ found.s.T).sum() for f in range(Q.shape[0]))
    )


def _judge(reports: tuple[PivotReport, ...], on_missing: Missing) -> None:
    if on_missing == "raise":
        for report in reports:
            require_pivots(report)


def _probabilities(Q: Matrix) -> Matrix:
    """Q as a sparse matrix with sum 1 and without stored zeros."""
    Q = sparse.csr_array(Q, dtype=float)
    total, least = float(Q.sum()), float(Q.data.min(initial=0.0))
    if least < 0 or not 0 < total < np.inf:
        msg = f"Q has sum {total:g} and smallest entry {least:g}; it must hold counts, or shares"
        raise SapwoodError(msg, hint="count how often each pair of features occurs")
    Q = Q / total
    Q.sum_duplicates()
    Q.eliminate_zeros()
    return Q


# -- EM of Eq. 3 ---------------------------------------------------------------------------------


class ConditionalEM(NamedTuple):
    """Conditional distributions found by EM, and how it went; attributes as those of `ConvexEM`."""

    t: FloatArray
    log_likelihoods: FloatArray
    gap: float


def conditional_em(
    Q: Matrix, q: FloatArray, s: Matrix, start: FloatArray, *, gap: float, max_iter: int
) -> ConditionalEM:
    """How states of one view become states of another (Eq. 3).

        max over t of  sum of Q[f, g] log K[f, g],  K = q t s',  at the entries of Q
        slope[h, h'] = sum of Q[f, g] q[f, h] s[g, h'] / K[f, g];   t <- t * slope, rows scaled to 1

    The likelihood is concave, so that its maximum is at most
    sum over h of (max of slope[h] - t[h] slope[h]) above the value at t.

    Cost: O(m nnz(Q) + (d + d') m m') an iteration; no matrix of the size of Q is formed.
    """
    t, values = start, list[float]()
    while True:
        K = _at_entries(Q, q, np.asarray(s @ t.T))
        values.append(float(Q.data @ np.log(K)))
        _check_gain(values)
        ratio = sparse.csr_array((Q.data / K, Q.indices, Q.indptr), shape=Q.shape)
        slope = np.asarray((s.T @ (ratio.T @ q)).T)  # [m, m']
        joint = t * slope
        above = float((slope.max(axis=1) - joint.sum(axis=1)).sum())
        if above <= gap or len(values) > max_iter:
            return ConditionalEM(t, np.array(values), above)
        total = joint.sum(axis=1, keepdims=True)
        t = np.divide(joint, total, out=t.copy(), where=total > 0)


def _at_entries(Q: Matrix, left: FloatArray, right: FloatArray) -> FloatArray:
    """Sum over h of left[f, h] right[g, h] at the entries of Q only, [nnz]."""
    f = np.repeat(np.arange(Q.shape[0]), np.diff(Q.indptr))
    K = np.empty(Q.nnz)
    for first in range(0, Q.nnz, CHUNK_PAIRS):
        part = slice(first, first + CHUNK_PAIRS)
        K[part] = np.einsum("ij,ij->i", left[f[part]], right[Q.indices[part]])
    return K
