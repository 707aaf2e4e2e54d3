"""Charts of weighted grammars where some symbols must be paired and some pairs must not form.

A pair (i, p) is two nodes of a binary tree: the node over [i, p + 1) splits at p, so that its right
child is the symbol p, and its left child over [i, p) splits at i + 1, so that its left child is the
symbol i; p is at least i + 2.

Notation
--------
    opened[i, j, a]  inside vector of the trees of [i, j) that split at i + 1: i may open a pair
    rest[i, j, a]    inside vector of the others, and of single symbols
    total[i, j, a]   what a node hands on that makes no pair of i: rest + free[i] opened
    ok[i, p]         whether i and p may be a pair, 1 or 0
    free[i]          whether i may be in no pair, 1 or 0
    A[a, b, c]       the bilinear operator

    opened[i, j] = A (symbol i (x) total[i + 1, j]),    times free[j - 1] where j = i + 2
    rest[i, j]   = sum over i + 1 < k < j - 1 of  A (total[i, k] (x) total[k, j])
                 + A ((ok[i, j - 1] opened[i, j - 1] + free[j - 1] rest[i, j - 1]) (x) symbol j - 1)

All vectors of a span are divided by the same power of two, as in `weighted_grammar`. Outside
vectors are derivatives of the log of the string's value.
"""

from __future__ import annotations

import math

import numpy as np

from sapwood.core.jit import kernel, part
from sapwood.hankel.model.kernels.weighted_grammar import LEAST_POWER, ZERO_SCALE

OPENED, REST, TOTAL = range(3)  # kinds of vectors of a span


@part
def _factor(power):
    if power > LEAST_POWER and power < -LEAST_POWER:
        return math.ldexp(1.0, int(power))
    return 0.0


@part
def _left(i, k, j, ok, free, beta, left):
    """Write the vector of [i, k) as the left child of [i, j)."""
    n = len(left)
    if k == j - 1 and k > i + 1:
        for b in range(n):
            left[b] = ok[i, k] * beta[i, k, OPENED, b] + free[k] * beta[i, k, REST, b]
    elif k == j - 1:
        for b in range(n):
            left[b] = free[k] * beta[i, k, TOTAL, b]
    else:
        for b in range(n):
            left[b] = beta[i, k, TOTAL, b]


@kernel
def fill_paired_inside(words, terminals, binary, ok, free, beta, scale):
    """Fill the inside vectors of all spans, [length, length + 1, 3, n], and their powers of two.

    Cost: O(length^3 n^2 + length^2 n^3).
    """
    length, n = len(words), terminals.shape[1]
    pair, left = np.zeros((2, n, n)), np.zeros(n)
    for size in range(1, length + 1):
        for i in range(length - size + 1):
            j = i + size
            top = 0
            if size == 1:
                for a in range(n):
                    beta[i, j, OPENED, a] = 0.0
                    beta[i, j, REST, a] = terminals[words[i], a]
            else:
                top = 2 * ZERO_SCALE
                for k in range(i + 1, j):
                    top = max(top, scale[i, k] + scale[k, j])
                pair[:] = 0.0
                for k in range(i + 1, j):
                    factor = _factor(scale[i, k] + scale[k, j] - top)
                    if factor == 0.0:
                        continue
                    _left(i, k, j, ok, free, beta, left)
                    kind = OPENED if k == i + 1 else REST
                    for b in range(n):
                        for c in range(n):
                            pair[kind, b, c] += factor * left[b] * beta[k, j, TOTAL, c]
                for kind in range(2):
                    for a in range(n):
                        sum_ = 0.0
                        for b in range(n):
                            for c in range(n):
                                sum_ += binary[a, b, c] * pair[kind, b, c]
                        beta[i, j, kind, a] = sum_
            largest = 0.0
            for kind in range(2):
                for a in range(n):
                    largest = max(largest, abs(beta[i, j, kind, a]))
            if largest == 0.0:
                scale[i, j] = ZERO_SCALE
            else:
                power = math.frexp(largest)[1]
                scale[i, j] = top + power
                for kind in range(2):
                    for a in range(n):
                        beta[i, j, kind, a] = math.ldexp(beta[i, j, kind, a], -power)
            for a in range(n):
                opened = free[i] * beta[i, j, OPENED, a]
                beta[i, j, TOTAL, a] = beta[i, j, REST, a] + opened


@kernel
def fill_paired_outside(initial, binary, ok, free, beta, scale, alpha, posterior):
    """Fill the outside vectors, and the posterior of each span, [length, length + 1].

    `alpha`, of the shape of `beta`, is times powers of two. Returns the value of the string divided
    by 2**scale of the whole; where it is 0, nothing else is filled.
    """
    length, n = len(beta), len(initial)
    total = 0.0
    for a in range(n):
        total += initial[a] * beta[0, length, TOTAL, a]
    if total == 0.0:
        return total
    alpha[:] = 0.0
    for a in range(n):
        alpha[0, length, TOTAL, a] = initial[a] / total
    down, left, below = np.zeros((2, n, n)), np.zeros(n), np.zeros(n)
    for gap in range(length):
        size = length - gap
        for i in range(gap + 1):
            j = i + size
            # what is handed on as a whole is rest and, where i may be in no pair, opened
            for a in range(n):
                alpha[i, j, REST, a] += alpha[i, j, TOTAL, a]
                alpha[i, j, OPENED, a] += free[i] * alpha[i, j, TOTAL, a]
            posterior[i, j] = 0.0
            for kind in range(2):
                for a in range(n):
                    posterior[i, j] += alpha[i, j, kind, a] * beta[i, j, kind, a]
            if size == 1:
                continue
            for kind in range(2):
                for b in range(n):
                    for c in range(n):
                        sum_ = 0.0
                        for a in range(n):
                            sum_ += alpha[i, j, kind, a] * binary[a, b, c]
                        down[kind, b, c] = sum_
            for k in range(i + 1, j):
                factor = _factor(scale[i, k] + scale[k, j] - scale[i, j])
                if factor == 0.0:
                    continue
                _left(i, k, j, ok, free, beta, left)
                kind = OPENED if k == i + 1 else REST
                for b in range(n):
                    sum_ = 0.0
                    for c in range(n):
                        sum_ += down[kind, b, c] * beta[k, j, TOTAL, c]
                        alpha[k, j, TOTAL, c] += factor * left[b] * down[kind, b, c]
                    below[b] = factor * sum_
                for b in range(n):
                    if k == j - 1 and k > i + 1:
                        alpha[i, k, OPENED, b] += ok[i, k] * below[b]
                        alpha[i, k, REST, b] += free[k] * below[b]
                    elif k == j - 1:
                        alpha[i, k, TOTAL, b] += free[k] * below[b]
                    else:
                        alpha[i, k, TOTAL, b] += below[b]
    return total


@kernel
def best_paired_brackets(gain, ok, free, split):
    """The binary tree with the largest sum of gains of its spans among those that are allowed.

    The recursions are those of this module with the maximum for the sum. Returns that sum, -inf
    where no tree is allowed.

    Parameters
    ----------
    gain, split : [length, length + 1]
        `split` receives the split of each span of the tree; of equals, the first.
    """
    length = len(gain)
    best = np.full((length, length + 1, 3), -np.inf)
    at = np.zeros((length, length + 1), np.int64)  # the best split of a node that is not opened
    closes = np.zeros((length, length + 1), np.bool_)  # whether that split closes a pair
    for size in range(1, length + 1):
        for i in range(length - size + 1):
            j = i + size
            if size == 1:
                best[i, j, REST] = gain[i, j]
            for k in range(i + 1, j):
                if k == i + 1:
                    if size > 2 or free[k] > 0:
                        left, right = best[i, k, TOTAL], best[k, j, TOTAL]
                        best[i, j, OPENED] = gain[i, j] + left + right
                    continue
                here, is_pair = best[i, k, TOTAL], False
                if k == j - 1:
                    here = best[i, k, REST] if free[k] > 0 else -np.inf
                    if ok[i, k] > 0 and best[i, k, OPENED] > here:
                        here, is_pair = best[i, k, OPENED], True
                here += gain[i, j] + best[k, j, TOTAL]
                if here > best[i, j, REST]:
                    best[i, j, REST], at[i, j], closes[i, j] = here, k, is_pair
            best[i, j, TOTAL] = best[i, j, REST]
            if free[i] > 0:
                best[i, j, TOTAL] = max(best[i, j, OPENED], best[i, j, REST])
    # a single symbol is no node: at the root it is in no pair
    found = best[0, length, TOTAL] if length > 1 or free[0] > 0 else -np.inf
    if found == -np.inf:
        return found
    waiting = np.empty((2 * length, 3), np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, length, TOTAL
    n_waiting = 1
    while n_waiting:
        n_waiting -= 1
        i, j, kind = waiting[n_waiting]
        if j - i == 1:
            continue
        if kind == TOTAL:
            is_opened = free[i] > 0 and best[i, j, OPENED] >= best[i, j, REST]
            kind = OPENED if is_opened else REST
        k = i + 1 if kind == OPENED else at[i, j]
        split[i, j] = k
        of_left = TOTAL
        if kind == REST and k == j - 1:
            of_left = OPENED if closes[i, j] else REST
        for x, y, below in ((i, k, of_left), (k, j, TOTAL)):
            waiting[n_waiting, 0], waiting[n_waiting, 1] = x, y
            waiting[n_waiting, 2] = below
            n_waiting += 1
    return found
