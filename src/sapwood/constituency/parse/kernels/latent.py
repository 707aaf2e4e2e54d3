"""Tensor-form inside-outside on a packed forest (SPECTRAL, Figure 5).

Notation
--------
    C[a -> b c][h, p, q]   tensor of a rule          m(x)   number of states of item x
    beta[x][h]             inside vector of item x   alpha[x][h]   outside vector, divided by Z

A tensor is stored whole (rank 0), or, for a rule seen rarely, as a sum of k outer products:
C = sum over t of A[t] (x) B[t] (x) D[t], stored as A [k, m(a)], B [k, m(b)], D [k, m(c)].
A tensor that is nearly all zeros, as EM and clustering leave them, is also kept as a list of the
others, which is all that is read of it.

Ordinary latent grammars and spectral ones run through the same code: a weight may be negative, so
values stay linear, with one power of two per span. The plain grammar's chart has already found good
powers of two; they are used again.
"""

from __future__ import annotations

from math import ldexp
from typing import NamedTuple

import numpy as np

from sapwood.constituency.parse.kernels.coarse import cell_of
from sapwood.core.jit import kernel, part

_FAST = {"contract", "reassoc"}


class RuleTensors(NamedTuple):
    """The tensors of all rules of a grammar."""

    start: np.ndarray  # [n_rules]: where each rule's tensor lies in `weights`
    rank: np.ndarray  # [n_rules]: its number of outer products; 0 where it is stored whole
    weights: np.ndarray
    # [n_rules + 1]: where the numbers other than 0 of each rule start; none for a rule whose
    # tensor is read from `weights`
    nonzero_start: np.ndarray
    parent: np.ndarray  # [n_nonzero]: state h of each
    left: np.ndarray  # state p
    right: np.ndarray  # state q
    nonzero: np.ndarray  # C[h, p, q]


@part
def _factor(forest, edge, n, scale):
    """2**(scale of the children - scale of the parent)."""
    x, y = forest.head[edge], forest.left[edge]
    i, k, j = np.int64(forest.start[x]), np.int64(forest.end[y]), np.int64(forest.end[x])
    exponent = scale[cell_of(i, k, n)] + scale[cell_of(k, j, n)] - scale[cell_of(i, j, n)]
    return ldexp(1.0, int(max(min(exponent, 1023), -1074)))


@part(fastmath=_FAST)
def _outer(beta, first, n_first, second, n_second, out):
    """out[p, q] = beta[first + p] * beta[second + q], flat."""
    for p in range(n_first):
        weight = beta[first + p]
        at = p * n_second
        for q in range(n_second):
            out[at + q] = weight * beta[second + q]


@part(fastmath=_FAST)
def _dot(left, at, right, start, size):
    total = 0.0
    for i in range(size):
        total += left[at + i] * right[start + i]
    return total


@part(fastmath=_FAST)
def _add_nonzero(rules, begin, end, factor, first, left, right, beta):
    """beta[first + h] += factor * C[h, p, q] * beta[left + p] * beta[right + q], C not 0."""
    h, p, q, values = rules.parent, rules.left, rules.right, rules.nonzero
    for t in range(begin, end):
        value = factor * values[t] * beta[left + np.uint64(p[t])]
        beta[first + np.uint64(h[t])] += value * beta[right + np.uint64(q[t])]


@part(fastmath=_FAST)
def _send_nonzero(rules, begin, end, factor, first, left, right, beta, alpha):
    """Add to the outside vectors of both children over C not 0; the posterior of the edge."""
    h, p, q, values = rules.parent, rules.left, rules.right, rules.nonzero
    total = 0.0
    for t in range(begin, end):
        at_left, at_right = left + np.uint64(p[t]), right + np.uint64(q[t])
        above = factor * values[t] * alpha[first + np.uint64(h[t])]
        to_left = above * beta[at_right]
        alpha[at_left] += to_left
        alpha[at_right] += above * beta[at_left]
        total += to_left * beta[at_left]
    return total


@kernel(fastmath=_FAST)
def latent_inside(forest, n, scale, vector_start, rules, beta, largest):
    """Fill the inside vectors of all phrases; those of the leaves are given.

        beta[x][h] = sum over edges of x, p, q of  C[h, p, q] * beta[left][p] * beta[right][q]

    Parameters
    ----------
    vector_start : [n_items + 1]
        Where each item's vector lies in `beta`.
    rules
        The `RuleTensors`.
    beta
        Leaf vectors in place (divided by 2**scale of their span), zeros elsewhere.
    largest
        The largest number of states of any symbol (for scratch space).
    """
    one, zero = np.uint64(1), np.uint64(0)
    one_rule, nonzero_start = np.uint32(1), rules.nonzero_start
    tensor_start, rank, tensors = rules.start, rules.rank, rules.weights
    pair = np.empty(largest * largest)
    pair_left, pair_right = np.uint32(0xFFFFFFFF), np.uint32(0xFFFFFFFF)
    for edge in range(len(forest.head)):
        x, y, z = forest.head[edge], forest.left[edge], forest.right[edge]
        first, left, right = vector_start[x], vector_start[y], vector_start[z]
        m_x = vector_start[x + one] - first
        m_y, m_z = vector_start[y + one] - left, vector_start[z + one] - right
        at, k = tensor_start[forest.rule[edge]], rank[forest.rule[edge]]
        factor = _factor(forest, edge, n, scale)
        begin, end = nonzero_start[forest.rule[edge]], nonzero_start[forest.rule[edge] + one_rule]
        if begin < end:
            _add_nonzero(rules, begin, end, factor, first, left, right, beta)
            continue
        if k == 0:
            if y != pair_left or z != pair_right:  # neighbouring edges often share their children
                _outer(beta, left, m_y, right, m_z, pair)
                pair_left, pair_right = y, z
            for h in range(m_x):
                beta[first + h] += factor * _dot(tensors, at + h * m_y * m_z, pair, zero, m_y * m_z)
            continue
        at_b = at + k * m_x
        at_d = at_b + k * m_y
        for t in range(k):
            weight = factor * _dot(tensors, at_b + t * m_y, beta, left, m_y)
            weight *= _dot(tensors, at_d + t * m_z, beta, right, m_z)
            for h in range(m_x):
                beta[first + h] += weight * tensors[at + t * m_x + h]


@kernel(fastmath=_FAST)
def latent_outside(forest, n, scale, vector_start, rules, beta, alpha, largest):
    """Fill the outside vectors from those of the root items; return the posterior of each edge.

        alpha[left][p] = sum over edges, h, q of  alpha[x][h] * C[h, p, q] * beta[right][q]

    and mirrored. Parameters as for `latent_inside`; `alpha` holds the root vectors divided by the
    weight of the sentence, and zeros elsewhere.
    """
    one = np.uint64(1)
    one_rule, nonzero_start = np.uint32(1), rules.nonzero_start
    tensor_start, rank, tensors = rules.start, rules.rank, rules.weights
    posterior = np.empty(len(forest.head))
    both = np.empty(largest * largest)
    for back in range(len(forest.head)):
        edge = len(forest.head) - 1 - back
        x, y, z = forest.head[edge], forest.left[edge], forest.right[edge]
        first, left, right = vector_start[x], vector_start[y], vector_start[z]
        m_x = vector_start[x + one] - first
        m_y, m_z = vector_start[y + one] - left, vector_start[z + one] - right
        at, k = tensor_start[forest.rule[edge]], rank[forest.rule[edge]]
        factor = _factor(forest, edge, n, scale)
        total = 0.0
        begin, end = nonzero_start[forest.rule[edge]], nonzero_start[forest.rule[edge] + one_rule]
        if begin < end:
            posterior[edge] = _send_nonzero(
                rules, begin, end, factor, first, left, right, beta, alpha
            )
            continue
        if k == 0:
            size = m_y * m_z
            for pq in range(size):
                both[pq] = 0.0
            for h in range(m_x):
                weight = alpha[first + h] * factor
                row = at + h * size
                for pq in range(size):
                    both[pq] += weight * tensors[row + pq]
            for p in range(m_y):
                weight, partial = beta[left + p], 0.0
                row = p * m_z
                for q in range(m_z):
                    partial += both[row + q] * beta[right + q]
                    alpha[right + q] += weight * both[row + q]
                alpha[left + p] += partial
                total += weight * partial
            posterior[edge] = total
            continue
        at_b = at + k * m_x
        at_d = at_b + k * m_y
        for t in range(k):
            above = factor * _dot(tensors, at + t * m_x, alpha, first, m_x)
            from_left = _dot(tensors, at_b + t * m_y, beta, left, m_y)
            from_right = _dot(tensors, at_d + t * m_z, beta, right, m_z)
            for p in range(m_y):
                alpha[left + p] += above * from_right * tensors[at_b + t * m_y + p]
            for q in range(m_z):
                alpha[right + q] += above * from_left * tensors[at_d + t * m_z + q]
            total += above * from_left * from_right
        posterior[edge] = total
    return posterior
