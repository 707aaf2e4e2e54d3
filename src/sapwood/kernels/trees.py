"""Tensor-form inside on given trees (SPECTRAL, Figure 4), over packed arrays."""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _apply(tensors, start, k, m, m_left, m_right, f_left, f_right, out):
    """Out = C(f_left, f_right) for one rule."""
    if k == 0:
        tensor = tensors[start : start + m * m_left * m_right].reshape(m, m_left, m_right)
        for h in range(m):
            total = 0.0
            for p in range(m_left):
                for q in range(m_right):
                    total += tensor[h, p, q] * f_left[p] * f_right[q]
            out[h] = total
        return
    at_b = start + k * m
    at_d = at_b + k * m_left
    for t in range(k):
        from_left, from_right = 0.0, 0.0
        for p in range(m_left):
            from_left += tensors[at_b + t * m_left + p] * f_left[p]
        for q in range(m_right):
            from_right += tensors[at_d + t * m_right + q] * f_right[q]
        for h in range(m):
            out[h] += from_left * from_right * tensors[start + t * m + h]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def log_weights(
    offsets, label, rule, left, right, n_states, tensor_start, rank, tensors, leaf_start, leaves,
    root_start, root
):  # fmt: skip
    """Log of the absolute weight of each tree, and its sign.

        f[node] = C[rule](f[left], f[right])        f[leaf] = c_inf[tag -> word]
        weight  = c_1[label of the root] . f[root]

    Parameters
    ----------
    rule
        Rule numbers of the grammar; a negative one at an in-terminal gives the tree weight 0.
    tensor_start, rank, tensors
        Tensors of the rules, stored as `sapwood.kernels.latent` says.
    leaf_start : [n_nodes]
        Where the emission vector of a pre-terminal lies in `leaves`; -1 gives weight 0.
    root_start : [n_symbols]
        Where the root vector of each symbol lies in `root`.
    """
    n_trees = len(offsets) - 1
    log_weight, sign = np.full(n_trees, -np.inf), np.zeros(n_trees)
    largest = n_states.max()
    for tree in range(n_trees):
        first, n_nodes = offsets[tree], offsets[tree + 1] - offsets[tree]
        vectors = np.zeros((n_nodes, largest))
        exponent = np.int64(0)
        possible = True
        for node in range(n_nodes):
            at = first + node
            if (
                label[at] < 0
                or (left[at] < 0 and leaf_start[at] < 0)
                or (left[at] >= 0 and rule[at] < 0)
            ):
                possible = False
                break
            m = np.int64(n_states[label[at]])
            out = vectors[node]
            if left[at] < 0:
                out[:m] = leaves[leaf_start[at] : leaf_start[at] + m]
            else:
                m_left = np.int64(n_states[label[first + left[at]]])
                m_right = np.int64(n_states[label[first + right[at]]])
                _apply(
                    tensors, tensor_start[rule[at]], rank[rule[at]], m, m_left, m_right,
                    vectors[left[at]], vectors[right[at]], out,
                )  # fmt: skip
            peak = 0.0
            for h in range(m):
                peak = max(peak, abs(out[h]))
            if peak == 0.0:
                possible = False
                break
            _, power = frexp(peak)
            power = max(power, -1022)
            exponent += power
            for h in range(m):
                out[h] *= ldexp(1.0, -power)
        if not possible:
            continue
        top = label[first + n_nodes - 1]
        total = 0.0
        for h in range(n_states[top]):
            total += root[root_start[top] + h] * vectors[n_nodes - 1, h]
        if total != 0.0:
            sign[tree] = np.sign(total)
            log_weight[tree] = np.log(abs(total)) + exponent * np.log(2.0)
    return log_weight, sign
