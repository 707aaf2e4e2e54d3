"""All projective dependency trees over hidden states, on arcs that were left: inside and outside.

Notation (DEP, equation 2; spans of Eisner 1996)
------------------------------------------------
    e[i, h]           weight of what word i shows, given its state
    T[d][g, h]        state of a child on side d, 0 left and 1 right, given its head's
    w[i, j]           weight of the arc from word i to word j; 0 where it was pruned
    right[i, j, h]    what hangs on the right of word i, up to word j, by the state of i
    left[i, j, h]     what hangs on the left of word j, from word i on, by the state of j
    hook[a, h, g]     arc a, its head's state and its child's, with all words between them

    hook of i -> j, j right of i:
        w T[1][g, h] e[j, g] sum over s of  right[i, s, h] left[s + 1, j, g]
    hook of j -> i, i left of j:
        w T[0][g, h] e[i, g] sum over s of  left[s + 1, j, h] right[i, s, g]
    right[i, j, h] = sum over arcs i -> m, i < m <= j, and g of  hook[i -> m, h, g] right[m, j, g]
    left[i, j, h]  = sum over arcs j -> m, i <= m < j, and g of  hook[j -> m, h, g] left[i, m, g]
    total = sum over r and h of  w[root, r] pi[h] e[r, h] left[0, r, h] right[r, n - 1, h]

One word hangs on the root. The outside pass is the derivative of the total, taken backwards; names
that end in `_bar` hold it. Numbers may be negative: nothing here takes a logarithm.
"""

from __future__ import annotations

import numpy as np

from sapwood.kernels.border import kernel, part


@kernel
def arc_sums(emission, root_arcs, arc_of, weight, root, steps, through_root, through):
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
    through_root, through : [n], [n_arcs]
        Receive the weight of the trees with the arc, for the total of 1; zeros where it is 0.

    Returns
    -------
    The total.

    Cost: O(arcs n k^2).
    """
    n, k = emission.shape
    left, right = np.zeros((n, n, k)), np.zeros((n, n, k))
    hook = np.zeros((len(weight), k, k))
    _inside(emission, arc_of, weight, steps, left, right, hook)
    total = 0.0
    for r in range(n):
        for h in range(k):
            through_root[r] += (
                root_arcs[r] * root[h] * emission[r, h] * left[0, r, h] * right[r, n - 1, h]
            )
        total += through_root[r]
    if total == 0.0 or not np.isfinite(total):
        for r in range(n):
            through_root[r] = 0.0
        return total
    left_bar, right_bar = np.zeros((n, n, k)), np.zeros((n, n, k))
    for r in range(n):
        for h in range(k):
            share = root_arcs[r] * root[h] * emission[r, h]
            left_bar[0, r, h] += share * right[r, n - 1, h]
            right_bar[r, n - 1, h] += share * left[0, r, h]
        through_root[r] /= total
    _outside(emission, arc_of, weight, steps, left, right, hook, left_bar, right_bar, through)
    for a in range(len(weight)):
        through[a] /= total
    return total


@part
def _inside(emission, arc_of, weight, steps, left, right, hook):
    n, k = emission.shape
    for i in range(n):
        for h in range(k):
            left[i, i, h] = 1.0
            right[i, i, h] = 1.0
    for gap in range(1, n):
        for i in range(n - gap):
            j = i + gap
            forward, back = arc_of[i, j], arc_of[j, i]
            if forward >= 0 or back >= 0:
                for s in range(i, j):
                    for h in range(k):
                        for g in range(k):
                            if forward >= 0:
                                hook[forward, h, g] += right[i, s, h] * left[s + 1, j, g]
                            if back >= 0:
                                hook[back, h, g] += left[s + 1, j, h] * right[i, s, g]
                for h in range(k):
                    for g in range(k):
                        if forward >= 0:
                            hook[forward, h, g] *= weight[forward] * steps[1, g, h] * emission[j, g]
                        if back >= 0:
                            hook[back, h, g] *= weight[back] * steps[0, g, h] * emission[i, g]
            for m in range(i + 1, j + 1):
                if arc_of[i, m] >= 0:
                    _apply(hook[arc_of[i, m]], right[m, j], right[i, j])
            for m in range(i, j):
                if arc_of[j, m] >= 0:
                    _apply(hook[arc_of[j, m]], left[i, m], left[i, j])


@part
def _apply(hook, below, above):
    for h in range(len(above)):
        for g in range(len(below)):
            above[h] += hook[h, g] * below[g]


@part
def _apply_bar(hook, below, hook_bar, below_bar, above_bar):
    for h in range(len(above_bar)):
        for g in range(len(below)):
            hook_bar[h, g] += above_bar[h] * below[g]
            below_bar[g] += above_bar[h] * hook[h, g]


@part
def _outside(emission, arc_of, weight, steps, left, right, hook, left_bar, right_bar, through):
    n, k = emission.shape
    hook_bar = np.zeros(hook.shape)
    for narrow in range(n - 1):
        gap = n - 1 - narrow
        for i in range(n - gap):
            j = i + gap
            for m in range(i + 1, j + 1):
                a = arc_of[i, m]
                if a >= 0:
                    _apply_bar(hook[a], right[m, j], hook_bar[a], right_bar[m, j], right_bar[i, j])
            for m in range(i, j):
                a = arc_of[j, m]
                if a >= 0:
                    _apply_bar(hook[a], left[i, m], hook_bar[a], left_bar[i, m], left_bar[i, j])
            forward, back = arc_of[i, j], arc_of[j, i]
            for h in range(k):
                for g in range(k):
                    if forward >= 0:
                        through[forward] += hook[forward, h, g] * hook_bar[forward, h, g]
                        share = weight[forward] * steps[1, g, h] * emission[j, g]
                        share *= hook_bar[forward, h, g]
                        for s in range(i, j):
                            right_bar[i, s, h] += share * left[s + 1, j, g]
                            left_bar[s + 1, j, g] += share * right[i, s, h]
                    if back >= 0:
                        through[back] += hook[back, h, g] * hook_bar[back, h, g]
                        share = weight[back] * steps[0, g, h] * emission[i, g]
                        share *= hook_bar[back, h, g]
                        for s in range(i, j):
                            left_bar[s + 1, j, h] += share * right[i, s, g]
                            right_bar[i, s, g] += share * left[s + 1, j, h]
