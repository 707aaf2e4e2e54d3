"""Singular vectors: of many blocks at once by random projection, and of whitened moments (CCA).

Notation of `block_svd`
-----------------------
    Omega   block-diagonal matrix, [d, d'], given only by its products with matrices
    U, V    left and right singular vectors of each block, in the rows of that block
    s       singular values of each block, falling, shape [n_blocks, m]

The method is that of Halko, Martinsson and Tropp (2011): a random block of m + oversample columns,
a few power iterations with orthonormalisation, then a small dense SVD per block.

Notation of `cca` (Hotelling 1936; PIVOT, section 5.2, step 1, and section 6.2)
-------------------------------------------------------------------------------
    C_xy       E[x y']                                          [d, d'], dense or sparse
    C_xx, C_yy E[x x'], E[y y'], or only their diagonals        [d, d] or [d], [d', d'] or [d']
    W_x, W_y   whitenings, C^-1/2                               symmetric
    U, V       singular vectors of W_x C_xy W_y                 [d, k], [d', k]
    A, B       projections W_x U, W_y V                         A' C_xx A = B' C_yy B = 1

Moments are not centred: for one-hot views the first correlation is 1, between two constants, and
the others are those of the centred views.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.progress import step

Product = Callable[[FloatArray], FloatArray]
Matrix = Any  # dense or sparse

# Directions whose variance is below this fraction of the largest are rounding, and are dropped.
RANK_TOLERANCE = 1e-12
# Up to this size a dense SVD takes about a second; larger ones compute only the leading triples.
DENSE_SIZE = 800


class BlockSVD(NamedTuple):
    """Singular vectors and values of all blocks; columns beyond a block's rank are zero."""

    U: FloatArray  # [d, m]
    s: FloatArray  # [n_blocks, m]
    V: FloatArray  # [d', m]


def block_svd(  # noqa: PLR0913 - an operator is two products and two partitions
    times: Product,
    transposed_times: Product,
    left_start: IntArray,
    right_start: IntArray,
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
        Offsets of the rows (columns) of each block.
    m
        Number of triples; blocks of smaller rank get zeros.
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


def _orthonormal(Y: FloatArray, start: IntArray) -> FloatArray:
    Q = np.zeros_like(Y)
    for first, last in pairwise(start.tolist()):
        if last > first:
            q = np.linalg.qr(Y[first:last])[0]
            Q[first:last, : q.shape[1]] = q
    return Q


def _small_svds(
    Q: FloatArray, B: FloatArray, left_start: IntArray, right_start: IntArray, m: int
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


class CCA(NamedTuple):
    """Projections of both views, one column per direction, and correlations, falling."""

    left: FloatArray  # [d, k]
    right: FloatArray  # [d', k]
    correlations: FloatArray  # [k]


def cca(C_xy: Matrix, C_xx: Matrix, C_yy: Matrix, k: int, *, ridge: float = 0.0) -> CCA:
    """Directions in which two views are correlated most.

        max of a' C_xy b  over  a' C_xx a = b' C_yy b = 1,  again and again, uncorrelated

    Parameters
    ----------
    C_xx, C_yy
        Second moments of each view, or their diagonals (one axis), which is exact for one-hot views
        and the usual shortcut for long ones. Zero variances give zero rows.
    k
        Number of directions; no more than min(d, d') are returned.
    ridge
        Added to the variances, in units of their mean: directions seen rarely shrink.

    Cost: diagonal moments and a sparse C_xy, O(k nnz) for each Lanczos step; full moments,
    O(d^3 + d'^3). Deterministic: the largest entry of every left direction is positive.

    >>> joint = np.array([[0.4, 0.1], [0.1, 0.4]])  # of two coins
    >>> cca(joint, joint.sum(axis=1), joint.sum(axis=0), 2).correlations.round(3)
    array([1. , 0.6])
    """
    W_x, W_y = _whitening(C_xx, ridge), _whitening(C_yy, ridge)
    U, s, V = _singular_triples(W_x @ C_xy @ W_y, k)
    signs = np.sign(U[np.abs(U).argmax(axis=0), np.arange(len(s))])
    signs[signs == 0] = 1.0
    return CCA(np.asarray(W_x @ (U * signs)), np.asarray(W_y @ (V * signs)), s)


def _whitening(C: Matrix, ridge: float) -> Matrix:
    """The whitening C^-1/2, zero in directions that have no variance."""
    full = np.asarray(C.toarray() if sparse.issparse(C) else C, dtype=float)
    if full.ndim == 1:
        return sparse.diags_array(_inverse_root(full + ridge * full.mean()))
    values, vectors = np.linalg.eigh(full)
    return (vectors * _inverse_root(values + ridge * np.trace(full) / len(full))) @ vectors.T


def _inverse_root(variance: FloatArray) -> FloatArray:
    kept = variance > RANK_TOLERANCE * max(float(variance.max(initial=0.0)), 0.0)
    root = np.zeros_like(variance)
    root[kept] = variance[kept] ** -0.5
    return root


def _singular_triples(M: Matrix, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    small = min(M.shape)
    k = min(k, small)
    if small <= DENSE_SIZE or k >= small - 1:  # Lanczos needs k below the size, and gains there
        dense = M.toarray() if sparse.issparse(M) else np.asarray(M)
        U, s, Vt = np.linalg.svd(dense, full_matrices=False)
        return U[:, :k], s[:k], Vt[:k].T
    # a fixed start, in no special position to the singular vectors, makes the result repeatable
    start = np.random.default_rng(0).standard_normal(small)
    U, s, Vt = svds(M, k=k, v0=start)
    falling = np.argsort(-s, kind="stable")
    return U[:, falling], s[falling], Vt[falling].T
