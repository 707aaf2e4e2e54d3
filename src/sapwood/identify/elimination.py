"""Exact rank and null space of a tall matrix of residues modulo a prime.

Notation
--------
    J    the matrix, usually with far more rows than columns        [m, n]
    R    its reduced echelon form: rank rows, one pivot each         [rank, n]
    N    basis of the vectors v with J v = 0                         [n, n - rank]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sapwood.arrays import IntArray
from sapwood.identify.dual import Residues


class NullSpace(NamedTuple):
    """Rank of a matrix, and what it maps to zero."""

    rank: int
    basis: IntArray  # [n, n - rank]


def null_space(matrix: IntArray, field: Residues, rng: np.random.Generator) -> NullSpace:
    """All vectors that a matrix of residues maps to zero.

    A few rows at random are reduced to echelon form. Rows that do not vanish on a random vector of
    their null space are added, until there are none; at the end every row is checked against the
    whole basis. The answer is exact: chance decides only how many rows are looked at.

    Cost: O(n^3) for each round, mostly one to three, and O(m n) for its check.

    Examples
    --------
    >>> null_space(np.array([[1, 2], [2, 4]]), Residues(), np.random.default_rng(0)).rank
    1
    """
    n_rows, n = matrix.shape
    some = rng.permutation(n_rows)[: n + 8]  # a few more than could be independent
    echelon, pivots = field.echelon(matrix[some])
    while True:
        basis = _basis(echelon, pivots, n, field)
        rest = _rows_outside(matrix, basis, field, rng)
        if not len(rest):
            return NullSpace(len(pivots), basis)
        echelon, pivots = field.echelon(np.concatenate([echelon, matrix[rest[:n]]]))


def rank(matrix: IntArray, field: Residues) -> int:
    """Rank of a small matrix of residues."""
    return len(field.echelon(matrix)[1])


def _basis(echelon: IntArray, pivots: list[int], n: int, field: Residues) -> IntArray:
    """One vector for each column without a pivot: 1 there, minus that column at the pivots."""
    free = np.setdiff1d(np.arange(n), pivots)
    basis = np.zeros((n, len(free)), dtype=np.int64)
    basis[free, np.arange(len(free))] = 1
    basis[pivots] = field.normalise(-echelon[:, free])
    return basis


def _rows_outside(
    matrix: IntArray, basis: IntArray, field: Residues, rng: np.random.Generator
) -> IntArray:
    """Rows that do not vanish on the basis; first by one random vector of it, then by all."""
    if not basis.shape[1]:
        return np.zeros(0, dtype=np.int64)
    mix = rng.integers(1, field.prime, (basis.shape[1], 1))
    seen = np.flatnonzero(field.matmul(matrix, field.matmul(basis, mix))[:, 0])
    return seen if len(seen) else np.flatnonzero(field.matmul(matrix, basis).any(axis=1))
