"""Inside, outside and expected counts of a latent grammar on given trees (Baum-Welch on trees).

Notation
--------
    C[r][h, p, q]   probability of rule r and the children's states p, q given the parent's state h
    beta[node]      inside vector, divided by down[node], its largest entry
    alpha[node]     outside vector, scaled so that alpha . beta = 1 at every node of a tree
    S[r]            sum over the rule's nodes of alpha (x) beta_left (x) beta_right / down

C * S is then the expected number of times that each rule is used with each combination of states:
no node needs the probability of its tree. Nodes are visited level by level and rule by rule, so
that the tensor of a rule is read once for all its nodes of a level.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc"}


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _outer(beta, left, m_left, right, m_right, out):
    for p in range(np.uint64(m_left)):
        weight = beta[left, p]
        at = p * np.uint64(m_right)
        for q in range(np.uint64(m_right)):
            out[at + q] = weight * beta[right, q]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def inside(
    order, label, rule, left, right, n_states, tensor_start, tensors, leaf, leaves, beta, down
):
    """Fill `beta` and `down`, children before parents.

    Parameters
    ----------
    order
        Nodes, leaves first, then by height and rule.
    leaf : [n_nodes]
        Where the emission vector of a tag lies in `leaves`; -1 for phrases.
    """
    pair = np.empty(beta.shape[1] * beta.shape[1])
    for place in range(len(order)):
        x = order[place]
        m = np.uint64(n_states[label[x]])
        largest = 0.0
        if leaf[x] >= 0:
            at = np.uint64(leaf[x])
            for h in range(m):
                beta[x, h] = leaves[at + h]
                largest = max(largest, beta[x, h])
        else:
            y, z = left[x], right[x]
            m_y, m_z = np.uint64(n_states[label[y]]), np.uint64(n_states[label[z]])
            _outer(beta, y, m_y, z, m_z, pair)
            at, size = np.uint64(tensor_start[rule[x]]), m_y * m_z
            for h in range(m):
                total = 0.0
                row = at + h * size
                for pq in range(size):
                    total += tensors[row + pq] * pair[pq]
                beta[x, h] = total
                largest = max(largest, total)
        down[x] = largest
        if largest > 0.0:
            for h in range(m):
                beta[x, h] /= largest


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def outside(order, label, rule, left, right, n_states, tensor_start, tensors, beta, down, alpha):
    """Fill `alpha` below the roots, which are given; `order` visits parents before children."""
    both = np.empty(beta.shape[1] * beta.shape[1])
    for place in range(len(order)):
        x = order[place]
        if rule[x] < 0:
            continue
        y, z = left[x], right[x]
        m = np.uint64(n_states[label[x]])
        m_y, m_z = np.uint64(n_states[label[y]]), np.uint64(n_states[label[z]])
        at, size = np.uint64(tensor_start[rule[x]]), m_y * m_z
        for pq in range(size):
            both[pq] = 0.0
        for h in range(m):
            weight = alpha[x, h] / down[x]
            row = at + h * size
            for pq in range(size):
                both[pq] += weight * tensors[row + pq]
        for q in range(m_z):
            alpha[z, q] = 0.0
        for p in range(m_y):
            total, weight = 0.0, beta[y, p]
            row = p * m_z
            for q in range(m_z):
                total += both[row + q] * beta[z, q]
                alpha[z, q] += both[row + q] * weight
            alpha[y, p] = total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def rule_sums(by_rule, label, rule, left, right, n_states, tensor_start, beta, down, alpha, sums):
    """Add alpha (x) beta_left (x) beta_right / down to `sums`, rule by rule."""
    pair = np.empty(beta.shape[1] * beta.shape[1])
    for place in range(len(by_rule)):
        x = by_rule[place]
        y, z = left[x], right[x]
        m = np.uint64(n_states[label[x]])
        m_y, m_z = np.uint64(n_states[label[y]]), np.uint64(n_states[label[z]])
        _outer(beta, y, m_y, z, m_z, pair)
        at, size = np.uint64(tensor_start[rule[x]]), m_y * m_z
        for h in range(m):
            weight = alpha[x, h] / down[x]
            row = at + h * size
            for pq in range(size):
                sums[row + pq] += weight * pair[pq]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def leaf_sums(nodes, label, n_states, leaf, beta, alpha, sums):
    """Add alpha * beta of the leaves to `sums`: expected states of each tag and word."""
    for place in range(len(nodes)):
        x = nodes[place]
        at = np.uint64(leaf[x])
        for h in range(np.uint64(n_states[label[x]])):
            sums[at + h] += alpha[x, h] * beta[x, h]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def merge_losses(label, pair_start, first, second, share, alpha, beta, loss):
    """Log-likelihood lost by merging pairs of states of a label, summed over its nodes.

        loss[pair] -= log(1 - (a1 b1 + a2 b2) + (a1 + a2) (s1 b1 + s2 b2))

    with s the relative frequencies of the two states (Petrov et al. 2006).
    """
    for x in range(len(label)):
        for pair in range(pair_start[label[x]], pair_start[label[x] + 1]):
            one, two = first[pair], second[pair]
            a1, a2, b1, b2 = alpha[x, one], alpha[x, two], beta[x, one], beta[x, two]
            mean = share[pair] * b1 + (1.0 - share[pair]) * b2
            kept = 1.0 - (a1 * b1 + a2 * b2) + (a1 + a2) * mean
            loss[pair] -= np.log(max(kept, 1e-300))


@njit(cache=True, nogil=True, error_model="numpy")
def heights_and_depths(offsets, left, right, parent):
    """Height above the leaves and depth below the root of every node; rows over all trees."""
    height, depth = np.zeros(len(left), np.int64), np.zeros(len(left), np.int64)
    for x in range(len(left)):
        if left[x] >= 0:
            height[x] = 1 + max(height[left[x]], height[right[x]])
    for back in range(len(left)):
        x = len(left) - 1 - back
        if parent[x] >= 0:
            depth[x] = depth[parent[x]] + 1
    return height, depth


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def smooth_states(start, n_states, row_size, amount, weights):
    """Pull each block [m, row_size] towards its mean over the m states by `amount`."""
    for block in range(len(start)):
        m, size = np.uint64(n_states[block]), np.uint64(row_size[block])
        at = np.uint64(start[block])
        for place in range(size):
            mean = 0.0
            for h in range(m):
                mean += weights[at + h * size + place]
            mean /= m
            for h in range(m):
                i = at + h * size + place
                weights[i] = (1.0 - amount) * weights[i] + amount * mean
