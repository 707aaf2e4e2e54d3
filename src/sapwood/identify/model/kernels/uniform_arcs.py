"""Inside, outside and expected counts over all projective dependency trees (Eisner's spans).

Notation
--------
    right[i, j]   sum over the right dependents of word i, up to word j
    left[i, j]    sum over the left dependents of word j, from word i on
    to_right[i, j], to_left[i, j]   the same with an arc i -> j, or j -> i, and all words between
    A[y, x]       argument y given head x

    to_right[i, j] = A[x_j, x_i] sum over m of  right[i, m] left[m + 1, j]
    to_left[i, j]  = A[x_i, x_j] sum over m of  right[i, m] left[m + 1, j]
    right[i, j] = sum over m > i of  to_right[i, m] right[m, j]
    left[i, j]  = sum over m < j of  left[i, m] to_left[m, j]
    total = sum over r of  pi[x_r] left[0, r] right[r, n - 1]

The outside pass is the derivative of the total, taken backwards. Names that end in `_bar` hold it.
All trees weigh 1: the caller divides by their number.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part


@kernel
def uniform_arc_counts(rows, weight, root, argument, root_sum, argument_sum, log_totals):
    """Add the expected counts of sentences of one length to the sums; fill `log_totals`.

    The sentences, [n, length], count as often as `weight` says. Tables (root, argument: pi and A)
    may have any positive scale. A sentence of probability 0 adds nothing.

    Cost: O(length^3) a sentence.
    """
    size = rows.shape[1]
    spans = np.zeros((4, size, size))
    bars = np.zeros((4, size, size))
    for n in range(len(rows)):
        total = _inside(rows[n], root, argument, spans)
        if not total > 0.0:
            log_totals[n] = -np.inf
            continue
        log_totals[n] = np.log(total)
        scale = weight[n] / total
        _outside(rows[n], root, argument, spans, bars)
        for r in range(size):
            inside = spans[0, 0, r] * spans[1, r, size - 1]
            root_sum[rows[n, r]] += scale * root[rows[n, r]] * inside
        for i in range(size):
            for j in range(i + 1, size):
                x, y = rows[n, i], rows[n, j]
                argument_sum[y, x] += scale * spans[2, i, j] * bars[2, i, j]
                argument_sum[x, y] += scale * spans[3, i, j] * bars[3, i, j]


@part
def _inside(row, root, argument, spans):
    left, right, to_right, to_left = spans[0], spans[1], spans[2], spans[3]
    size = len(row)
    for i in range(size):
        left[i, i] = 1.0
        right[i, i] = 1.0
    for gap in range(1, size):
        for i in range(size - gap):
            j = i + gap
            total = 0.0
            for m in range(i, j):
                total += right[i, m] * left[m + 1, j]
            to_right[i, j] = argument[row[j], row[i]] * total
            to_left[i, j] = argument[row[i], row[j]] * total
            total = 0.0
            for m in range(i + 1, j + 1):
                total += to_right[i, m] * right[m, j]
            right[i, j] = total
            total = 0.0
            for m in range(i, j):
                total += left[i, m] * to_left[m, j]
            left[i, j] = total
    total = 0.0
    for r in range(size):
        total += root[row[r]] * left[0, r] * right[r, size - 1]
    return total


@part
def _outside(row, root, argument, spans, bars):
    left, right, to_right, to_left = spans[0], spans[1], spans[2], spans[3]
    left_bar, right_bar, to_right_bar, to_left_bar = bars[0], bars[1], bars[2], bars[3]
    size = len(row)
    bars[:] = 0.0
    for r in range(size):
        left_bar[0, r] += root[row[r]] * right[r, size - 1]
        right_bar[r, size - 1] += root[row[r]] * left[0, r]
    for back in range(1, size):
        gap = size - back
        for i in range(size - gap):
            j = i + gap
            for m in range(i + 1, j + 1):
                to_right_bar[i, m] += right_bar[i, j] * right[m, j]
                right_bar[m, j] += right_bar[i, j] * to_right[i, m]
            for m in range(i, j):
                left_bar[i, m] += left_bar[i, j] * to_left[m, j]
                to_left_bar[m, j] += left_bar[i, j] * left[i, m]
            both = (
                to_right_bar[i, j] * argument[row[j], row[i]]
                + to_left_bar[i, j] * argument[row[i], row[j]]
            )
            for m in range(i, j):
                right_bar[i, m] += both * left[m + 1, j]
                left_bar[m + 1, j] += both * right[i, m]
