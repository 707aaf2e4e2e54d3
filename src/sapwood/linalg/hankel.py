"""A weighted grammar, or automaton, from Hankel blocks: Lemma 1 of WCFG, and how far to trust it.

Notation (WCFG, section 3)
--------------------------
    H = P S          rank n, from the SVD U D V':  P = U D, S = V'      [p, n], [n, s]
    h_*              the row of the empty context              alpha_*' = h_*' S+        (21)
    h_sigma          the column of a symbol                    beta_sigma = P+ h_sigma   (22)
    H_A              composed insides                          A = P+ H_A (S (x) S)+     (23)

(S (x) S)+ = S+ (x) S+, so that no product of that size is ever inverted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError, count

AT_ONCE = 1 << 22  # numbers of the outer products in memory at a time
DENSE = 1 << 22  # entries of a matrix up to which all singular values are found
RELATIVE = 1e-12  # singular values below this fraction of the largest are rounding errors


class Operators(NamedTuple):
    """The operators of a weighted grammar."""

    initial: FloatArray  # [n]: alpha_*
    terminals: FloatArray  # [d, n]: the rows beta_sigma
    binary: FloatArray  # [n, n, n]: A


@dataclass(frozen=True, eq=False)
class Factors:
    """The leading part of an SVD, H = P S."""

    left: FloatArray  # [p, n]: singular vectors U
    right: FloatArray  # [s, n]: singular vectors V
    values: FloatArray  # all singular values that were found, falling; the first n are kept
    n: int

    @property
    def rank(self) -> int:
        """Number of singular values that are more than rounding."""
        return int((self.values > RELATIVE * self.values[0]).sum()) if self.values[0] > 0 else 0

    @property
    def inverse(self) -> FloatArray:
        """The pseudo-inverse P+, shape [n, p]."""
        return np.asarray(self.left.T / self.values[: self.n, None])


def factorise(matrix: Any, n: int | None, noise: float = 0.0) -> Factors:
    """The n leading singular vectors of a Hankel block; more than its rank are refused.

    Where n is None it is chosen by `rank_by_gap`, given the spectral norm of the sampling noise.
    """
    size = min(matrix.shape)
    if matrix.shape[0] * matrix.shape[1] <= DENSE or (n or size) >= size - 1:
        dense = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
        U, D, Vt = np.linalg.svd(dense, full_matrices=False)
    elif not abs(matrix).max() > 0:  # ARPACK fails for a matrix of zeros
        U, D, Vt = np.zeros((matrix.shape[0], 1)), np.zeros(1), np.zeros((1, matrix.shape[1]))
    else:
        from scipy.sparse.linalg import svds

        wanted = min(size - 1, (n or 64) + 8)
        U, D, Vt = svds(matrix, k=wanted, random_state=np.random.default_rng(0))
        order = np.argsort(-D)
        U, D, Vt = U[:, order], D[order], Vt[order]
    found = Factors(U, Vt.T, D, len(D))
    keep = rank_by_gap(D, noise) if n is None else n
    if keep > found.rank:
        shape = " x ".join(map(str, matrix.shape))
        asked = count(keep, "state")
        msg = f"{asked} asked for, but the Hankel matrix of {shape} has rank {found.rank}"
        hint = f"ask for at most {count(found.rank, 'state')}, or take a larger basis"
        if not found.rank:
            hint = "what is in its basis never occurs together: take a larger --basis, or more text"
        raise SapwoodError(msg, hint=hint)
    return Factors(U[:, :keep], Vt[:keep].T, D, keep)


def rank_by_gap(values: FloatArray, noise: float = 0.0) -> int:
    """The number of singular values before the widest gap, as a ratio, above the noise.

    >>> rank_by_gap(np.array([1.0, 0.5, 0.4, 1e-3, 5e-4]), noise=1e-4)
    3
    >>> rank_by_gap(np.array([1.0, 0.5, 0.4, 1e-3, 1e-9]), noise=0.01)
    3
    """
    floor = max(noise, RELATIVE * values[0])
    kept = values[values > floor]
    if not len(kept):
        return 1
    return int(np.argmax(kept / np.append(kept[1:], floor))) + 1  # all others are below the floor


def operators(
    factors: Factors,
    root_row: FloatArray,
    symbol_columns: FloatArray,
    pairs: sp.csr_array | FloatArray,
) -> Operators:
    """Operators of a weighted grammar by Lemma 1.

        A[a, b, c] = sum over entries (o, (y, z)) of  P+[a, o] H_A[o, y z] V[y, b] V[z, c]

    Parameters
    ----------
    root_row : [s]
        h_*.
    symbol_columns : [p, d]
        h_sigma side by side.
    pairs : [p, s * s]
        H_A; dense or sparse.
    """
    V, inverse, n = factors.right, factors.inverse, factors.n
    entries = sp.coo_array(pairs)
    row, column = entries.coords
    binary = np.zeros((n, n * n))
    step = max(1, AT_ONCE // (n * n))
    for first in range(0, len(entries.data), step):
        part = slice(first, first + step)
        y, z = np.divmod(column[part].astype(np.int64), len(V))
        outer = (V[y][:, :, None] * V[z][:, None, :]).reshape(len(y), -1)
        binary += (inverse[:, row[part]] * entries.data[part]) @ outer
    terminals = (inverse @ symbol_columns).T
    return Operators(root_row @ V, terminals, binary.reshape(n, n, n))


class HankelConditioning(NamedTuple):
    """How much the operators amplify the noise of the moments."""

    smallest: float  # the smallest singular value that was kept
    next: float  # the largest singular value that was not kept
    noise: float  # estimated spectral norm of the sampling noise of the block; 0 for exact ones
    relative_error: float  # noise / smallest: first-order relative error of the operators


def conditioning(factors: Factors, noise: float) -> HankelConditioning:
    """How much the operators of a factorisation amplify the noise of its block."""
    n, values = factors.n, factors.values
    smallest = float(values[n - 1])
    behind = float(values[n]) if n < len(values) else 0.0
    return HankelConditioning(smallest, behind, noise, noise / smallest if smallest else np.inf)


def sampling_noise(means: FloatArray | sp.csr_array, n: float) -> float:
    """Estimated spectral norm of the sampling noise of a matrix of means over n strings.

    An entry of mean f has a variance of about f / n; the norm of a matrix of independent errors is
    about the root of its largest row or column sum of variances.
    """
    if not np.isfinite(n):
        return 0.0
    size = abs(means)
    rows, columns = np.asarray(size.sum(axis=1)), np.asarray(size.sum(axis=0))
    return float(np.sqrt(max(rows.max(), columns.max()) / n))


class StepEntries(NamedTuple):
    """The entries of the blocks f(u sigma v) of all symbols; equal positions are added."""

    row: IntArray  # of u
    column: IntArray  # of v
    symbol: IntArray  # sigma
    value: FloatArray


def automaton(
    matrix: sp.csr_array, steps: StepEntries, n_symbols: int, n: int | None, noise: float = 0.0
) -> tuple[Factors, FloatArray, FloatArray, FloatArray]:
    """A weighted automaton from the Hankel blocks of prefixes and suffixes.

        alpha' = h_S' V,  A_sigma = (H V)+ H_sigma V,  omega = (H V)+ h_P

    `matrix` [p, s] holds f(u v), the empty prefix and the empty suffix first. Returns the factors,
    alpha, omega and all A_sigma. Cost: O(entries * n^2) after the SVD, O(n_symbols * n^2) memory.
    """
    factors = factorise(matrix, n, noise)
    V, inverse = factors.right, factors.inverse
    size = factors.n
    made = np.zeros((n_symbols, size * size))
    order = np.argsort(steps.symbol, kind="stable")
    at_once = max(1, AT_ONCE // (size * size))
    for first in range(0, len(order), at_once):
        part = order[first : first + at_once]
        left = inverse[:, steps.row[part]].T * steps.value[part, None]
        outer = (left[:, :, None] * V[steps.column[part]][:, None, :]).reshape(len(part), -1)
        symbols, starts = np.unique(steps.symbol[part], return_index=True)
        made[symbols] += np.add.reduceat(outer, starts, axis=0)
    initial = matrix[[0]].toarray()[0] @ V
    final = inverse @ matrix[:, [0]].toarray()[:, 0]
    return factors, np.asarray(initial), np.asarray(final), made.reshape(n_symbols, size, size)
