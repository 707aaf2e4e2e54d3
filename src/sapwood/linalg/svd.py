"""Truncated singular value decompositions of many blocks at once, by random projection.

Notation
--------
    Omega   block-diagonal matrix, [d, d'], given only by its products with matrices
    U, V    left and right singular vectors of each block, in the rows of that block
    s       singular values of each block, falling, shape [n_blocks, m]

The method is that of Halko, Martinsson and Tropp (2011): a random block of m + oversample columns,
a few power iterations with orthonormalisation, then a small dense SVD per block.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.progress import step

Product = Callable[[FloatArray], FloatArray]


class BlockSVD(NamedTuple):
    """Singular vectors and values of all blocks; columns beyond a block's rank are zero."""

    U: FloatArray  # [d, m]
    s: FloatArray  # [n_blocks, m]
    V: FloatArray  # [d', m]


def block_svd(  # noqa: PLR0913 - an operator is two products and two partitions
    times: Product,
    transposed_times: Product,
    left_start: npt.NDArray[np.int64],
    right_start: npt.NDArray[np.int64],
    m: int,
    *,
    rng: np.random.Generator,
    oversample: int = 10,
    n_power: int = 3,
) -> BlockSVD:
    """Leading singular triples of every block of a block-diagonal matrix.

    Parameters
    ----------
    times, transposed_times
        X -> Omega X and Y -> Omega' Y for matrices with few columns.
    left_start, right_start : [n_blocks + 1]
        Where the rows (columns) of each block start.
    m
        How many triples; blocks of smaller rank get zeros.
    n_power
        Power iterations: each squares how fast the error falls with the gap of singular values.

    Cost: (2 n_power + 2) products with m + oversample columns, and their QR decompositions.
    """
    X = rng.standard_normal((int(right_start[-1]), m + oversample))
    with step("singular vectors", total=2 * n_power + 2, unit="product") as advance:
        for k in range(n_power):
            Q = _orthonormal(times(X), left_start)
            advance(2 * k + 1)
            X = _orthonormal(transposed_times(Q), right_start)
            advance(2 * k + 2)
        Q = _orthonormal(times(X), left_start)
        advance(2 * n_power + 1)
        # Omega is close to Q (Q' Omega), and Q' Omega is small: its SVD gives that of Omega.
        return _small_svds(Q, transposed_times(Q), left_start, right_start, m)


def _orthonormal(Y: FloatArray, start: npt.NDArray[np.int64]) -> FloatArray:
    Q = np.zeros_like(Y)
    for first, last in pairwise(start.tolist()):
        if last > first:
            q = np.linalg.qr(Y[first:last])[0]
            Q[first:last, : q.shape[1]] = q
    return Q


def _small_svds(
    Q: FloatArray,
    B: FloatArray,
    left_start: npt.NDArray[np.int64],
    right_start: npt.NDArray[np.int64],
    m: int,
) -> BlockSVD:
    """SVD of each block from B = Omega' Q, shape [d', k]."""
    n_blocks = len(left_start) - 1
    U, V, s = np.zeros((len(Q), m)), np.zeros((len(B), m)), np.zeros((n_blocks, m))
    for block in range(n_blocks):
        rows = slice(left_start[block], left_start[block + 1])
        columns = slice(right_start[block], right_start[block + 1])
        if rows.start == rows.stop or columns.start == columns.stop:
            continue
        v, values, wt = np.linalg.svd(B[columns], full_matrices=False)
        rank = min(m, len(values), rows.stop - rows.start)
        V[columns, :rank] = v[:, :rank]
        U[rows, :rank] = Q[rows] @ wt[:rank].T
        s[block, :rank] = values[:rank]
    return BlockSVD(U, s, V)
