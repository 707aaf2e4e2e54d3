"""Inside, outside and expected counts over all binary trees, children drawn alike and apart.

Notation
--------
    beta[i, j, a]   sum over trees of [i, j) of the probability of its words, given state a on top
    up[i, j, a]     the same given that the parent has state a:  sum over b of T[b, a] beta[i, j, b]
    alpha[i, j, a]  sum over what is around [i, j), with state a on top of it
    down[i, j, a]   the same with state a on the parent
    T[b, a]         child b given parent a         O[x, a]   word x given state a

    beta[i, j, a]  = sum over m of  up[i, m, a] up[m, j, a]
    down[i, m, a] += alpha[i, j, a] up[m, j, a];   down[m, j, a] += alpha[i, j, a] up[i, m, a]
    alpha[i, j, b] = sum over a of  T[b, a] down[i, j, a]

All trees weigh 1: the caller divides by their number.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part


@kernel
def uniform_bracket_counts(
    rows, weight, root, child, words, root_sum, child_sum, word_sum, log_totals
):
    """Add the expected counts of sentences of one length to the sums; fill `log_totals`.

    The sentences, [n, length], count as often as `weight` says. Tables (root, child, words: pi, T
    and O) may have any positive scale. A sentence of probability 0 adds nothing.

    Cost: O(length^3 k + length^2 k^2) a sentence.
    """
    length, k = rows.shape[1], len(root)
    beta = np.zeros((length, length + 1, k))
    up = np.zeros((length, length + 1, k))
    alpha = np.zeros((length, length + 1, k))
    down = np.zeros((length, length + 1, k))
    for n in range(len(rows)):
        total = _inside(rows[n], root, child, words, beta, up)
        if not total > 0.0:
            log_totals[n] = -np.inf
            continue
        log_totals[n] = np.log(total)
        scale = weight[n] / total
        _outside(length, root, child, up, alpha, down)
        for a in range(k):
            root_sum[a] += scale * root[a] * beta[0, length, a]
        for i in range(length):
            for j in range(i + 1, length + 1):
                if j - i == 1:
                    for a in range(k):
                        word_sum[rows[n, i], a] += scale * alpha[i, j, a] * beta[i, j, a]
                if j - i < length:
                    for b in range(k):
                        for a in range(k):
                            child_sum[b, a] += scale * down[i, j, a] * child[b, a] * beta[i, j, b]


@part
def _inside(row, root, child, words, beta, up):
    length, k = len(row), len(root)
    for size in range(1, length + 1):
        for i in range(length - size + 1):
            j = i + size
            for a in range(k):
                total = 0.0
                if size == 1:
                    total = words[row[i], a]
                for m in range(i + 1, j):
                    total += up[i, m, a] * up[m, j, a]
                beta[i, j, a] = total
            for a in range(k):
                total = 0.0
                for b in range(k):
                    total += child[b, a] * beta[i, j, b]
                up[i, j, a] = total
    total = 0.0
    for a in range(k):
        total += root[a] * beta[0, length, a]
    return total


@part
def _outside(length, root, child, up, alpha, down):
    k = len(root)
    down[:] = 0.0
    for a in range(k):
        alpha[0, length, a] = root[a]
    for gap in range(length):
        size = length - gap
        for i in range(gap + 1):
            j = i + size
            if size < length:
                for b in range(k):
                    total = 0.0
                    for a in range(k):
                        total += child[b, a] * down[i, j, a]
                    alpha[i, j, b] = total
            for m in range(i + 1, j):
                for a in range(k):
                    down[i, m, a] += alpha[i, j, a] * up[m, j, a]
                    down[m, j, a] += alpha[i, j, a] * up[i, m, a]
