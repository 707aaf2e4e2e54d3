"""Binary trees over a sentence, weighed by their spans alone: sums over all of them, and the best.

Notation
--------
    w[i, j]     log-weight of a span; a tree's is the sum over its spans, those of words included
    beta[i, j]  log of the sum over the trees of a span
    mu[i, j]    marginal of a span: posterior probability that a tree has it

    beta[i, j] = w[i, j] + log sum over k of  exp(beta[i, k] + beta[k, j])
    mu[i, k], mu[k, j] += mu[i, j] exp(w[i, j] + beta[i, k] + beta[k, j] - beta[i, j])

Spans are numbered as `sapwood.core.arrays.cell` does. Charts are kept twice, by start and by end,
so that all splits of a span lie side by side.
"""

from __future__ import annotations

import numpy as np

from sapwood.constituency.parse.kernels.coarse import cell_of
from sapwood.core.jit import kernel

_NEGLIGIBLE = -40.0  # exp of smaller numbers is lost when it is added to 1
_NO_MARGINAL = np.exp(_NEGLIGIBLE)


@kernel(fastmath={"nnan", "nsz"})
def span_marginals(weight, n):
    """Log of the sum over all binary trees, and the marginal of each span.

    Parameters
    ----------
    weight : [n (n + 1) / 2]
        Log-weights of the spans of n words.

    Cost: O(n^3) time, O(n^2) memory.
    """
    by_start = np.zeros((n + 1, n + 1))
    by_end = np.zeros((n + 1, n + 1))
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            j = i + size
            total = weight[cell_of(i, j, n)]
            if size > 1:
                top = -np.inf
                for k in range(i + 1, j):
                    top = max(top, by_start[i, k] + by_end[j, k])
                rest = 0.0
                for k in range(i + 1, j):
                    less = by_start[i, k] + by_end[j, k] - top
                    if less > _NEGLIGIBLE:
                        rest += np.exp(less)
                total += top + np.log(rest)
            by_start[i, j] = total
            by_end[j, i] = total
    marginal = np.zeros(len(weight))
    marginal[cell_of(0, n, n)] = 1.0
    for gap in range(n - 1):
        size = n - gap
        for i in range(gap + 1):
            j = i + size
            here = marginal[cell_of(i, j, n)]
            if here < _NO_MARGINAL:
                continue
            around = weight[cell_of(i, j, n)] - by_start[i, j]
            for k in range(i + 1, j):
                less = around + by_start[i, k] + by_end[j, k]
                if less > _NEGLIGIBLE:
                    part = here * np.exp(less)
                    marginal[cell_of(i, k, n)] += part
                    marginal[cell_of(k, j, n)] += part
    return by_start[0, n], marginal


@kernel
def best_spans(gain, n):
    """The binary tree with the largest sum of gains: its spans, parents first, [2 n - 1, 3].

    Rows are start, end, and where the span is split, 0 for a word. Of equal splits the first wins.

    Cost: O(n^3) time, O(n^2) memory.
    """
    by_start = np.zeros((n + 1, n + 1))
    by_end = np.zeros((n + 1, n + 1))
    split = np.zeros((n + 1, n + 1), np.int64)
    for size in range(1, n + 1):
        for i in range(n - size + 1):
            j = i + size
            best = 0.0
            if size > 1:
                best = -np.inf
                for k in range(i + 1, j):
                    total = by_start[i, k] + by_end[j, k]
                    if total > best:
                        best = total
                        split[i, j] = k
            by_start[i, j] = best + gain[cell_of(i, j, n)]
            by_end[j, i] = by_start[i, j]
    spans = np.zeros((2 * n - 1, 3), np.int64)
    spans[0, 1] = n
    n_found = 1
    for place in range(2 * n - 1):
        i, j = spans[place, 0], spans[place, 1]
        if j - i > 1:
            k = split[i, j]
            spans[place, 2] = k
            spans[n_found, 0], spans[n_found, 1] = i, k
            spans[n_found + 1, 0], spans[n_found + 1, 1] = k, j
            n_found += 2
    return spans
