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

AT_ONCE = 1 << 22  # numbers of the outer products that are held at a time
DENSE = 1 << 22  # entries of a matrix up to which all singular values are found
RELATIVE = 1e-12  # of the largest singular value: below, numbers are rounding


class Operators(NamedTuple):
    """alpha_*, the rows beta_sigma, and A."""

    initial: FloatArray
    terminals: FloatArray
    binary: FloatArray


@dataclass(frozen=True, eq=False)
class Factors:
    """The leading part of an SVD, H = P S.

    Attributes
    ----------
    left : [p, n]
        Singular vectors U.
    right : [s, n]
        Singular vectors V.
    values
        Singular values, all that were found, falling; the first n are kept.
    n
        How many are kept.
    """

    left: FloatArray
    right: FloatArray
    values: FloatArray
    n: int

    @property
    def rank(self) -> int:
        """Singular values that are more than rounding."""
        return int((self.values > RELATIVE * self.values[0]).sum()) if self.values[0] > 0 else 0

    @property
    def inverse(self) -> FloatArray:
        """P+, shape [n, p]."""
        return np.asarray(self.left.T / self.values[: self.n, None])


def factorise(matrix: Any, n: int | None, noise: float = 0.0) -> Factors:
    """The leading singular vectors of a Hankel block.

    Parameters
    ----------
    n
        How many; None chooses them by the gap, see `rank_by_gap`.
    noise
        Spectral norm of what sampling adds to the block, for the choice.

    Raises
    ------
    SapwoodError
        For more than the rank of the block.
    """
    size = min(matrix.shape)
    if matrix.shape[0] * matrix.shape[1] <= DENSE or (n or size) >= size - 1:
        dense = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)
        U, D, Vt = np.linalg.svd(dense, full_matrices=False)
    elif not abs(matrix).max() > 0:  # ARPACK has no answer for a matrix of zeros
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

    Examples
    --------
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
    """Lemma 1.

    Parameters
    ----------
    root_row : [s]
        h_*.
    symbol_columns : [p, d]
        h_sigma side by side.
    pairs : [p, s * s]
        H_A; dense or sparse.
    """
    V, inverse = factors.right, factors.inverse
    binary = contract_pairs(inverse, V, sp.coo_array(pairs), V.shape[0])
    return Operators(root_row @ V, (inverse @ symbol_columns).T, binary)


def contract_pairs(inverse: FloatArray, V: FloatArray, pairs: Any, s: int) -> FloatArray:
    """A[a, b, c] = sum over entries (o, (y, z)) of  P+[a, o] H_A[o, y z] V[y, b] V[z, c]."""
    n = len(inverse)
    total = np.zeros((n, n * n))
    step = max(1, AT_ONCE // (n * n))
    row, column = pairs.coords
    for first in range(0, len(pairs.data), step):
        part = slice(first, first + step)
        y, z = np.divmod(column[part].astype(np.int64), s)
        outer = (V[y][:, :, None] * V[z][:, None, :]).reshape(len(y), -1)
        total += (inverse[:, row[part]] * pairs.data[part]) @ outer
    return total.reshape(n, n, n)


class Conditioning(NamedTuple):
    """How much noise of the moments is multiplied.

    Attributes
    ----------
    smallest
        The smallest singular value that was kept.
    next
        The first that was not.
    noise
        Estimated spectral norm of the sampling noise of the block; 0 for exact ones.
    relative_error
        noise / smallest: error of the operators to first order, relative to their size.
    """

    smallest: float
    next: float
    noise: float
    relative_error: float


def conditioning(factors: Factors, noise: float) -> Conditioning:
    """What stands between the moments and the operators."""
    n, values = factors.n, factors.values
    smallest = float(values[n - 1])
    behind = float(values[n]) if n < len(values) else 0.0
    return Conditioning(smallest, behind, noise, noise / smallest if smallest else np.inf)


def sampling_noise(means: FloatArray | sp.csr_array, n: float) -> float:
    """Spectral norm, roughly, of the noise of a matrix of means over n strings.

    An entry of mean f has a variance of about f / n; the norm of a matrix of independent errors is
    about the root of its largest row or column sum of variances.
    """
    if not np.isfinite(n):
        return 0.0
    size = abs(means)
    rows, columns = np.asarray(size.sum(axis=1)), np.asarray(size.sum(axis=0))
    return float(np.sqrt(max(rows.max(), columns.max()) / n))


class StepEntries(NamedTuple):
    """The entries of the blocks f(u sigma v) of all symbols, one number of each for an entry.

    Attributes
    ----------
    row, column
        Of u and of v.
    symbol
        The number of sigma.
    value
        What is added to the entry.
    """

    row: IntArray
    column: IntArray
    symbol: IntArray
    value: FloatArray


def automaton(
    matrix: sp.csr_array, steps: StepEntries, n_symbols: int, n: int | None, noise: float = 0.0
) -> tuple[Factors, FloatArray, FloatArray, FloatArray]:
    """A weighted automaton from the Hankel blocks of prefixes and suffixes.

        alpha' = h_S' V,  A_sigma = (H V)+ H_sigma V,  omega = (H V)+ h_P

    Cost: O(entries * n^2) time after the SVD, O(n_symbols * n^2) memory.

    Parameters
    ----------
    matrix : [p, s]
        f(u v), the empty prefix and the empty suffix first.
    steps
        f(u sigma v).

    Returns
    -------
    Factors, and the initial vector, the final one and the steps.
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
