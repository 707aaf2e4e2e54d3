"""Tensor-form inside-outside on a packed forest (SPECTRAL, Figure 5).

Notation
--------
    C[a -> b c][h, p, q]   tensor of a rule          m(x)   number of states of item x
    beta[x][h]             inside vector of item x   alpha[x][h]   outside vector, divided by Z

Ordinary latent grammars and spectral ones run through the same code: a weight may be negative, so
values stay linear, with one power of two per span. The plain grammar's chart has already found good
powers of two; they are used again.
"""

from __future__ import annotations

from math import ldexp

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc"}


@njit(cache=True, nogil=True, error_model="numpy")
def _factor(forest, edge, n, scale):
    """2**(scale of the children - scale of the parent)."""
    x, y = forest.head[edge], forest.left[edge]
    i, k, j = np.int64(forest.start[x]), np.int64(forest.end[y]), np.int64(forest.end[x])
    west = np.uint64(i * (2 * n - i + 1) // 2 + (k - i - 1))
    east = np.uint64(k * (2 * n - k + 1) // 2 + (j - k - 1))
    here = np.uint64(i * (2 * n - i + 1) // 2 + (j - i - 1))
    exponent = scale[west] + scale[east] - scale[here]
    return ldexp(1.0, int(max(min(exponent, 1000), -1074)))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def inside(forest, n, scale, vector_start, tensor_start, tensors, beta):
    """Fill the inside vectors of all phrases; those of the leaves are given.

        beta[x][h] = sum over edges of x, p, q of  C[h, p, q] * beta[left][p] * beta[right][q]

    Parameters
    ----------
    vector_start : [n_items + 1]
        Where each item's vector lies in `beta`.
    tensor_start : [n_rules]
        Where each rule's tensor lies in `tensors`, stored h, p, q.
    beta
        Leaf vectors in place (divided by 2**scale of their span), zeros elsewhere.
    """
    for edge in range(len(forest.head)):
        x, y, z = forest.head[edge], forest.left[edge], forest.right[edge]
        out = beta[vector_start[x] : vector_start[x + np.uint32(1)]]
        left = beta[vector_start[y] : vector_start[y + np.uint32(1)]]
        right = beta[vector_start[z] : vector_start[z + np.uint32(1)]]
        first = tensor_start[forest.rule[edge]]
        size = np.uint64(len(out) * len(left) * len(right))
        tensor = tensors[first : first + size].reshape(len(out), len(left), len(right))
        factor = _factor(forest, edge, n, scale)
        for h in range(len(out)):
            total = 0.0
            for p in range(len(left)):
                row = tensor[h, p]
                partial = 0.0
                for q in range(len(right)):
                    partial += row[q] * right[q]
                total += left[p] * partial
            out[h] += factor * total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def outside(forest, n, scale, vector_start, tensor_start, tensors, beta, alpha, largest):
    """Fill the outside vectors from those of the root items, and return the posterior of each edge.

        alpha[left][p] = sum over edges, h, q of  alpha[x][h] * C[h, p, q] * beta[right][q]  (and
        mirrored)

    Parameters
    ----------
    alpha
        Root vectors divided by the weight of the sentence in place, zeros elsewhere.
    largest
        The largest number of states of any symbol (for scratch space).
    """
    posterior = np.empty(len(forest.head))
    scratch = np.empty(largest * largest)
    for back in range(len(forest.head)):
        edge = len(forest.head) - 1 - back
        x, y, z = forest.head[edge], forest.left[edge], forest.right[edge]
        above = alpha[vector_start[x] : vector_start[x + np.uint32(1)]]
        left = beta[vector_start[y] : vector_start[y + np.uint32(1)]]
        right = beta[vector_start[z] : vector_start[z + np.uint32(1)]]
        to_left = alpha[vector_start[y] : vector_start[y + np.uint32(1)]]
        to_right = alpha[vector_start[z] : vector_start[z + np.uint32(1)]]
        first = tensor_start[forest.rule[edge]]
        size = np.uint64(len(above) * len(left) * len(right))
        tensor = tensors[first : first + size].reshape(len(above), len(left) * len(right))
        factor = _factor(forest, edge, n, scale)
        both = scratch[: len(left) * len(right)]
        both[:] = 0.0
        for h in range(len(above)):
            weight = above[h] * factor
            row = tensor[h]
            for pq in range(len(row)):
                both[pq] += weight * row[pq]
        total = 0.0
        for p in range(len(left)):
            row = both[p * len(right) : (p + 1) * len(right)]
            partial = 0.0
            weight = left[p]
            for q in range(len(right)):
                partial += row[q] * right[q]
                to_right[q] += weight * row[q]
            to_left[p] += partial
            total += weight * partial
        posterior[edge] = total
    return posterior
