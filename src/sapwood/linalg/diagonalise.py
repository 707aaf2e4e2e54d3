"""Factors of products of matrices from eigenvectors: DECOMPOSE, and roots of A A + A = C.

Notation (IDENT, Lemma 1 and section 5.3)
-----------------------------------------
    X = M1 M2'            M1, M2 of full column rank                    [d, d], [d, k]
    Y = M1 D M2'          D diagonal, its entries distinct              [d, d]
    U1, U2                orthonormal bases of the ranges of X and X'   [d, k]
    (U1' Y U2) (U1' X U2)^-1 = V D V^-1,  so  M1 = U1 V  up to order and scale of its columns

The recovery amplifies noise by one over the distance between eigenvalues. Y depends on a direction
tau that may be chosen, so several are drawn and the one with the widest gap is kept.

    C = A A + A           eigenvalues c = lam^2 + lam, eigenvectors those of A
    lam, -1 - lam         both give c; for a conjugate pair of c, one choice for both keeps A real
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import NotIdentifiableError

ComplexArray = npt.NDArray[np.complex128]
# Moments add up to about 1: singular values this far below the largest are rounding.
_RANK_TOLERANCE = 1e-12
# Choices of roots that are all tried; more are searched by changing one at a time.
MANY_CHOICES = 4096
# Eigenvalues of a stochastic matrix lie in the unit circle; those of a noisy one need not.
CIRCLE = 1.05


class Decomposition(NamedTuple):
    """The result of DECOMPOSE, with diagnostics."""

    M1: FloatArray  # [d, k]: columns of length 1, in falling order of eigenvalues
    eigenvalues: FloatArray  # [k]: the entries of D
    gap: float  # smallest distance between two eigenvalues, for |tau| = 1; inf for one state
    singular_values: FloatArray  # of X, falling
    is_real: bool  # whether a direction with real eigenvalues was found
    tau: FloatArray  # the direction kept


class RankReport(NamedTuple):
    """The reason why the moments have fewer states than requested."""

    wanted: int
    rank: int
    singular_values: FloatArray

    def lines(self) -> Iterator[str]:
        """The report as lines of text."""
        yield f"not identifiable: {self.wanted} states from a moment of rank {self.rank}"
        shown = "  ".join(f"{value:.2g}" for value in self.singular_values[: self.wanted])
        yield f"  values       {shown}"


def decompose(
    X: FloatArray,
    contract: Callable[[FloatArray], FloatArray],
    k: int,
    rng: np.random.Generator,
    *,
    n_draws: int = 20,
) -> Decomposition:
    """M1 of Lemma 1, with k columns, from the best of several directions tau.

    X is M1 M2', and `contract` gives Y = M1 D(tau) M2' for a direction tau in R^d; directions are
    drawn in the range of X, where the words are. An X of a rank below k is refused with a
    `NotIdentifiableError` whose report is a `RankReport`. Cost: one SVD and O(n_draws d^2 k).

    >>> M1, M2 = np.array([[0.9, 0.2], [0.1, 0.3], [0.0, 0.5]]), np.eye(3)[:, :2]
    >>> rng = np.random.default_rng(0)
    >>> found = decompose(M1 @ M2.T, lambda tau: (M1 * (M1.T @ tau)) @ M2.T, 2, rng)
    >>> np.sort((found.M1 / found.M1.sum(axis=0)).round(12), axis=1)
    array([[0.2, 0.9],
           [0.1, 0.3],
           [0. , 0.5]])
    """
    U1, s, U2t = np.linalg.svd(X)
    rank = int((s > _RANK_TOLERANCE * max(s[0], np.finfo(float).tiny)).sum())
    if rank < k:
        msg = f"{k} states were asked for, but the unmixed moment has rank {rank}"
        hint = f"ask for fewer states, at most {rank}; states must differ in their words"
        raise NotIdentifiableError(msg, report=RankReport(k, rank, s), hint=hint)
    U1, U2 = U1[:, :k], U2t[:k].T
    best: Decomposition | None = None
    for _ in range(n_draws if k > 1 else 1):
        tau = U1 @ rng.standard_normal(k)
        tau /= np.linalg.norm(tau)
        found = _one_direction(U1, U2, s, contract(tau), tau)
        if best is None or (found.is_real, found.gap) > (best.is_real, best.gap):
            best = found
    assert best is not None  # at least one direction is drawn
    return best


def _one_direction(
    U1: FloatArray, U2: FloatArray, s: FloatArray, Y: FloatArray, tau: FloatArray
) -> Decomposition:
    k = U1.shape[1]
    values, V = np.linalg.eig((U1.T @ Y @ U2) / s[:k])  # U1' X U2 = diag(s)
    order = np.argsort(-values.real, kind="stable")
    values, V = values[order], V[:, order]
    is_real = bool(np.abs(values.imag).max() == 0.0)
    # Conjugate eigenvectors v, v* span the same plane as the real vectors Re v + Im v, Re v - Im v.
    columns = U1 @ (V.real if is_real else V.real + V.imag)
    gaps = np.abs(values[:, None] - values)[~np.eye(k, dtype=bool)]
    gap = float(gaps.min()) if k > 1 else np.inf
    M1 = columns / np.linalg.norm(columns, axis=0)
    return Decomposition(M1, values.real, gap, s, is_real, tau)


class Roots(NamedTuple):
    """The root A = sqrt(C + I / 4) - I / 2 that was chosen, with diagnostics."""

    A: FloatArray  # [d, d]
    eigenvalues: ComplexArray  # [d]: of A
    n_ambiguous: int  # eigenvalues, or conjugate pairs, with two possible roots
    n_other: int  # how many of these do not have the principal root
    gap: float  # smallest distance between two eigenvalues of C
    mismatch: float  # of A
    runner_up: float  # mismatch of the second-best root; inf where there is none


def stochastic_root(C: FloatArray, mismatch: Callable[[FloatArray], float]) -> Roots:
    """The column-stochastic A with A A + A = C that fits other moments best.

    C is diagonalisable, with the eigenvalue 2 of the stationary vector; the A of least `mismatch`
    is chosen. Cost: one eigendecomposition and one `mismatch` for each choice of roots, up to 4096
    choices; beyond that, one for each single change of a choice until none helps.

    Reference: IDENT, section 5.3, which leaves the choice between the two roots open.

    >>> A = np.array([[0.1, 0.8], [0.9, 0.2]])  # its eigenvalue -0.7 is not a principal root
    >>> found = stochastic_root(A @ A + A, lambda B: abs(B - A).sum())
    >>> found.n_other, found.A.round(12).tolist()
    (1, [[0.1, 0.8], [0.9, 0.2]])
    """
    c, Q = np.linalg.eig(C)
    inverse = np.linalg.inv(Q)
    principal, groups = _principal(c)
    is_open = [group for group in groups if _may_be_other(principal[group])]

    def candidate(flips: tuple[bool, ...]) -> tuple[float, ComplexArray, FloatArray]:
        lam = principal.copy()
        for group, is_other in zip(is_open, flips, strict=True):
            lam[group] = -1 - lam[group] if is_other else lam[group]
        A = ((Q * lam) @ inverse).real
        return mismatch(A), lam, A

    if 2 ** len(is_open) <= MANY_CHOICES:
        tried = [(candidate(flips), flips) for flips in product((False, True), repeat=len(is_open))]
    else:
        tried = _local_search(candidate, len(is_open))
    tried.sort(key=lambda item: item[0][0])
    (least, lam, A), flips = tried[0]
    runner_up = tried[1][0][0] if len(tried) > 1 else np.inf
    gaps = np.abs(c[:, None] - c)[~np.eye(len(c), dtype=bool)]
    gap = float(gaps.min()) if len(c) > 1 else np.inf
    return Roots(A, lam, len(is_open), sum(flips), gap, least, runner_up)


def _principal(c: ComplexArray) -> tuple[ComplexArray, list[list[int]]]:
    """Principal roots of lam^2 + lam = c, and the groups of conjugate ones."""
    c = c.astype(complex)
    lam = np.asarray(np.sqrt(c + 0.25) - 0.5, dtype=complex)
    # A real c below -1/4, which only noise makes, would have a complex root without its conjugate.
    is_lonely = (c.imag == 0) & (c.real < -0.25)
    lam[is_lonely] = -0.5
    groups, seen = [], set()
    lam[int(np.argmin(np.abs(c - 2)))] = 1.0  # the stationary vector
    for at in range(len(c)):
        if at in seen:
            continue
        partners = [at]
        if c[at].imag != 0:
            partner = int(np.argmin(np.abs(c - c[at].conjugate())))
            partners.append(partner)
            lam[partner] = lam[at].conjugate()
        seen.update(partners)
        groups.append(partners)
    return lam, groups


def _may_be_other(lam: ComplexArray) -> bool:
    """Whether the other root is an eigenvalue that a stochastic matrix may have."""
    return bool((np.abs(-1 - lam) <= CIRCLE).all() and lam[0] != -0.5)  # its own other root


Candidate = tuple[float, ComplexArray, FloatArray]


def _local_search(
    candidate: Callable[[tuple[bool, ...]], Candidate], n: int
) -> list[tuple[Candidate, tuple[bool, ...]]]:
    """Change one choice at a time, from the principal roots, as long as that helps."""
    flips = (False,) * n
    tried = [(candidate(flips), flips)]
    while True:
        around = [(*flips[:at], not flips[at], *flips[at + 1 :]) for at in range(n)]
        steps = [(candidate(each), each) for each in around]
        best = min(steps, key=lambda item: item[0][0])
        tried += steps
        if best[0][0] >= min(item[0][0] for item in tried[: -len(steps)]):
            return tried
        flips = best[1]
