"""All projective dependency trees over hidden states, on the arcs kept: inside and outside.

Notation (DEP, equation 2; spans of Eisner 1996)
------------------------------------------------
    e[i, h]           weight of the symbols of word i, given its state
    T[d][g, h]        state of a child on side d, 0 left and 1 right, given its head's
    w[i, j]           weight of the arc from word i to word j; 0 where it was pruned
    right[i, j, h]    weight of the right dependents of word i, up to word j, by the state of i
    left[i, j, h]     weight of the left dependents of word j, from word i on, by the state of j
    hook[a, h, g]     arc a, its head's state and its child's, with all words between them

    m[d, c, h]        weight of one more child on side d; c is 0 for the first, 1 for the others
    z[d, c, h]        weight of no more children on side d; c is 0 where there are none

    hook of i -> j, j right of i:
        w T[1][g, h] e[j, g] sum over s of  m[1, s > i, h] right[i, s, h] Left[s + 1, j, g]
    hook of j -> i, i left of j:
        w T[0][g, h] e[i, g] sum over s of  m[0, s + 1 < j, h] left[s + 1, j, h] Right[i, s, g]
    right[i, j, h] = sum over arcs i -> x, i < x <= j, and g of  hook[i -> x, h, g] Right[x, j, g]
    left[i, j, h]  = sum over arcs j -> x, i <= x < j, and g of  hook[j -> x, h, g] Left[i, x, g]
    Right[i, j, h] = z[1, j > i, h] right[i, j, h],   Left[i, j, h] = z[0, i < j, h] left[i, j, h]
    total = sum over r and h of  w[root, r] pi[h] e[r, h] Left[0, r, h] Right[r, n - 1, h]

One word depends on the root. The outside pass is the derivative of the total, computed backwards;
names that end in `_bar` hold it. Weights may be negative: no logarithm is taken.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part


@kernel
def arc_sums(emission, root_arcs, arc_of, weight, root, steps, more, none, through_root, through):
    """Weight of all trees, and the part of it that goes through each arc.

    Parameters
    ----------
    emission : [n, k]
        e.
    root_arcs : [n]
        Weight of each word as the root.
    arc_of : [n, n]
        Number of the arc from the first word to the second; -1 for none.
    weight : [n_arcs]
        w.
    root, steps
        pi, [k], and T, [2, k, k].
    more, none : [2, 2, k]
        m and z; ones where numbers of children do not count.
    through_root, through : [n], [n_arcs]
        Receive the weight of the trees with the arc, for the total of 1; zeros where it is 0.

    Returns
    -------
    The total.

    Cost: O(arcs n k^2).
    """
    n, k = emission.shape
    left, right = np.zeros((2, n, n, k)), np.zeros((2, n, n, k))  # open, and closed
    hook = np.zeros((len(weight), k, k))
    _inside(emission, arc_of, weight, steps, more, none, left, right, hook)
    total = 0.0
    for r in range(n):
        for h in range(k):
            share = root_arcs[r] * root[h] * emission[r, h]
            through_root[r] += share * left[1, 0, r, h] * right[1, r, n - 1, h]
        total += through_root[r]
    if total == 0.0 or not np.isfinite(total):
        for r in range(n):
            through_root[r] = 0.0
        return total
    left_bar, right_bar = np.zeros((2, n, n, k)), np.zeros((2, n, n, k))
    for r in range(n):
        for h in range(k):
            share = root_arcs[r] * root[h] * emission[r, h]
            left_bar[1, 0, r, h] += share * right[1, r, n - 1, h]
            right_bar[1, r, n - 1, h] += share * left[1, 0, r, h]
        through_root[r] /= total
    _outside(
        emission, arc_of, weight, steps, more, none, left, right, hook, left_bar, right_bar, through
    )  # fmt: skip
    for a in range(len(weight)):
        through[a] /= total
    return total


@part
def _inside(emission, arc_of, weight, steps, more, none, left, right, hook):
    n, k = emission.shape
    for i in range(n):
        for h in range(k):
            left[0, i, i, h] = 1.0
            right[0, i, i, h] = 1.0
            left[1, i, i, h] = none[0, 0, h]
            right[1, i, i, h] = none[1, 0, h]
    for gap in range(1, n):
        for i in range(n - gap):
            j = i + gap
            if arc_of[i, j] >= 0:
                made = hook[arc_of[i, j]]
                for s in range(i, j):
                    _join(made, right[0, i, s], left[1, s + 1, j], more[1, 1 if s > i else 0])
                _weigh(made, weight[arc_of[i, j]], steps[1], emission[j])
            if arc_of[j, i] >= 0:
                made = hook[arc_of[j, i]]
                for s in range(i, j):
                    _join(made, left[0, s + 1, j], right[1, i, s], more[0, 1 if s + 1 < j else 0])
                _weigh(made, weight[arc_of[j, i]], steps[0], emission[i])
            for x in range(i + 1, j + 1):
                if arc_of[i, x] >= 0:
                    _apply(hook[arc_of[i, x]], right[1, x, j], right[0, i, j])
            for x in range(i, j):
                if arc_of[j, x] >= 0:
                    _apply(hook[arc_of[j, x]], left[1, i, x], left[0, i, j])
            for h in range(k):
                left[1, i, j, h] = none[0, 1, h] * left[0, i, j, h]
                right[1, i, j, h] = none[1, 1, h] * right[0, i, j, h]


@part
def _join(hook, above, below, more):
    for h in range(len(above)):
        for g in range(len(below)):
            hook[h, g] += more[h] * above[h] * below[g]


@part
def _weigh(hook, weight, step, emission):
    for h in range(len(hook)):
        for g in range(len(hook)):
            hook[h, g] *= weight * step[g, h] * emission[g]


@part
def _apply(hook, below, above):
    for h in range(len(above)):
        for g in range(len(below)):
            above[h] += hook[h, g] * below[g]


@part
def _outside(
    emission, arc_of, weight, steps, more, none, left, right, hook, left_bar, right_bar, through
):  # fmt: skip
    n, k = emission.shape
    hook_bar = np.zeros(hook.shape)
    for narrow in range(n - 1):
        gap = n - 1 - narrow
        for i in range(n - gap):
            j = i + gap
            for h in range(k):
                left_bar[0, i, j, h] += none[0, 1, h] * left_bar[1, i, j, h]
                right_bar[0, i, j, h] += none[1, 1, h] * right_bar[1, i, j, h]
            for x in range(i + 1, j + 1):
                a = arc_of[i, x]
                if a >= 0:
                    _apply_bar(
                        hook[a], right[1, x, j], hook_bar[a], right_bar[1, x, j], right_bar[0, i, j]
                    )  # fmt: skip
            for x in range(i, j):
                a = arc_of[j, x]
                if a >= 0:
                    _apply_bar(
                        hook[a], left[1, i, x], hook_bar[a], left_bar[1, i, x], left_bar[0, i, j]
                    )  # fmt: skip
            a = arc_of[i, j]
            if a >= 0:
                through[a] += _dot(hook[a], hook_bar[a])
                _weigh(hook_bar[a], weight[a], steps[1], emission[j])
                for s in range(i, j):
                    _join_bar(
                        hook_bar[a], right[0, i, s], left[1, s + 1, j], more[1, 1 if s > i else 0],
                        right_bar[0, i, s], left_bar[1, s + 1, j],
                    )  # fmt: skip
            a = arc_of[j, i]
            if a >= 0:
                through[a] += _dot(hook[a], hook_bar[a])
                _weigh(hook_bar[a], weight[a], steps[0], emission[i])
                for s in range(i, j):
                    _join_bar(
                        hook_bar[a], left[0, s + 1, j], right[1, i, s],
                        more[0, 1 if s + 1 < j else 0], left_bar[0, s + 1, j], right_bar[1, i, s],
                    )  # fmt: skip


@part
def _apply_bar(hook, below, hook_bar, below_bar, above_bar):
    for h in range(len(above_bar)):
        for g in range(len(below)):
            hook_bar[h, g] += above_bar[h] * below[g]
            below_bar[g] += above_bar[h] * hook[h, g]


@part
def _join_bar(hook_bar, above, below, more, above_bar, below_bar):
    for h in range(len(above)):
        for g in range(len(below)):
            above_bar[h] += hook_bar[h, g] * more[h] * below[g]
            below_bar[g] += hook_bar[h, g] * more[h] * above[h]


@part
def _dot(one, other):
    total = 0.0
    for h in range(len(one)):
        for g in range(len(one)):
            total += one[h, g] * other[h, g]
    return total
