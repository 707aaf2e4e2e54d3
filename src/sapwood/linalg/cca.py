"""Canonical correlations of two views, from their second moments.

Notation (Hotelling 1936; PIVOT, section 5.2, step 1, and section 6.2)
---------------------------------------------------------------------
    C_xy       E[x y']                                          [d, d'], dense or sparse
    C_xx, C_yy E[x x'], E[y y'], or only their diagonals        [d, d] or [d], [d', d'] or [d']
    W_x, W_y   whitenings, C^-1/2                               symmetric
    U, V       singular vectors of W_x C_xy W_y                 [d, k], [d', k]
    A, B       projections W_x U, W_y V                         A' C_xx A = B' C_yy B = 1

Moments are taken as they come: for one-hot views the first correlation is 1, between two constants,
and the others are those of the centred views.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from sapwood.core.arrays import FloatArray

Matrix = Any  # dense or sparse

# A variance this much below the largest is rounding: its direction is left out, not blown up.
RANK_TOLERANCE = 1e-12
# Up to this size a dense SVD takes about a second; beyond, only the wanted triples are looked for.
DENSE_SIZE = 800


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
    C_xy : [d, d']
        Cross moments, dense or sparse.
    C_xx, C_yy
        Second moments of each view, or their diagonals (one axis), which is exact for one-hot views
        and the usual shortcut for long ones. Zero variances give zero rows.
    k
        How many directions; no more than min(d, d') are returned.
    ridge
        Added to the variances, as a share of their mean: directions seen rarely shrink.

    Cost: diagonal moments and a sparse C_xy, O(k nnz) for each Lanczos step; full moments,
    O(d^3 + d'^3). Deterministic: the largest entry of every left direction is positive.

    Examples
    --------
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
    """C^-1/2 without the directions that have no variance."""
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
