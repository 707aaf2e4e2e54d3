"""Weights of given dependency trees whose words have hidden states, and expected counts.

Notation (DEP, equations 2 to 5)
--------------------------------
    r[i, h]        weight of everything at and below word i, given its state
    y[i, h]        message from word i to the state of its head
    a[i, h]        weight of everything else, with the state of word i
    o[x, h]        symbol x given a state                            `symbols`, [n, k]
    T[d][g, h]     state of a child on side d, 0 left and 1 right, given its head's    `steps`
    D[c][a, b]     the product of vectors in another basis           `product`, [k, k, k]

    r[i] = prod over x seen at i of o[x]  *  prod over children j of y[j]
    y[j, h] = sum over g of  T[d(j)][g, h] r[j, g]
    p = prod over roots i of  sum over h of  pi[h] r[i, h]

Trees are packed: the words of tree t have the numbers offsets[t] .. offsets[t + 1], and heads
count from 1 inside it; 0 is the root. Trees need not be projective. Vectors are scaled to a largest
entry of 1, and the logs of the scales are summed.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part


@kernel
def weigh_states(offsets, head, seen, root, steps, symbols, logs, signs):
    """Weights of trees in the basis of states: products of vectors are entry by entry.

    Parameters
    ----------
    offsets, head
        Packed trees.
    seen : [n_words, n_columns]
        Symbols of each word, -1 for none.
    root, steps, symbols
        pi, T and o; negative numbers are allowed.
    logs, signs : [n_trees]
        Receive the log of the absolute weight, and its sign.

    Cost: O(k^2) a word.
    """
    longest = _longest(offsets)
    k = len(root)
    r, y = np.empty((longest, k)), np.empty((longest, k))
    order, waiting = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for t in range(len(offsets) - 1):
        first, size = offsets[t], offsets[t + 1] - offsets[t]
        _children_first(head[first : first + size], order, waiting)
        logs[t], signs[t] = _inside(
            head[first : first + size], seen[first : first + size], order,
            root, steps, symbols, r, y,
        )  # fmt: skip


@kernel
def expect_tree_states(
    offsets, head, seen, root, steps, symbols, root_sum, step_sum, symbol_sum, logs
):  # fmt: skip
    """Add the expected counts of all tables to the sums: the E-step.

    Parameters
    ----------
    offsets, head, seen, root, steps, symbols
        As `weigh_states` has them; no negative numbers.
    root_sum, step_sum, symbol_sum
        Receive the counts, in the shapes of the tables. A tree of probability 0 adds nothing.
    logs : [n_trees]
        Receives log-probabilities.

    Cost: O(k^2) a word, and O(k) for each pair of children of one head.
    """
    longest = _longest(offsets)
    k = len(root)
    r, y, a = np.empty((longest, k)), np.empty((longest, k)), np.empty((longest, k))
    rest = np.empty(k)
    order, waiting = np.empty(longest, np.int64), np.empty(longest, np.int64)
    child, sibling = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for t in range(len(offsets) - 1):
        first, size = offsets[t], offsets[t + 1] - offsets[t]
        heads, symbols_here = head[first : first + size], seen[first : first + size]
        _children_first(heads, order, waiting)
        logs[t], sign = _inside(heads, symbols_here, order, root, steps, symbols, r, y)
        if sign <= 0.0:
            continue
        _list_children(heads, child, sibling)
        for place in range(size - 1, -1, -1):
            i = order[place]
            if heads[i] == 0:
                for h in range(k):
                    a[i, h] = root[h]
                _add_posterior(a[i], r[i], root_sum)
            for column in range(symbols_here.shape[1]):
                if symbols_here[i, column] >= 0:
                    _add_posterior(a[i], r[i], symbol_sum[symbols_here[i, column]])
            j = child[i]
            while j >= 0:
                _without_child(i, j, symbols_here[i], symbols, child, sibling, y, a[i], rest)
                d = 1 if j > i else 0
                _add_step(steps[d], rest, r[j], step_sum[d], a[j])
                j = sibling[j]


@kernel
def weigh_operators(offsets, head, seen, root, end, steps, symbols, product, logs, signs):
    """Weights of trees in any basis, where products go through a tensor.

    Parameters
    ----------
    offsets, head, seen, root, steps, symbols, logs, signs
        As `weigh_states` has them.
    end : [k]
        The vector of ones in this basis.
    product : [k, k, k]
        v times w is the sum over c of w[c] v' D[c]; children multiply from left to right.

    Cost: O(k^3) a word.
    """
    longest = _longest(offsets)
    k = len(root)
    r, y, v = np.empty((longest, k)), np.empty((longest, k)), np.empty(k)
    order, waiting = np.empty(longest, np.int64), np.empty(longest, np.int64)
    child, sibling = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for t in range(len(offsets) - 1):
        first, size = offsets[t], offsets[t + 1] - offsets[t]
        heads, symbols_here = head[first : first + size], seen[first : first + size]
        _children_first(heads, order, waiting)
        _list_children(heads, child, sibling)
        log, sign = 0.0, 1.0
        for place in range(size):
            i = order[place]
            for h in range(k):
                r[i, h] = end[h]
            n_seen = 0
            for column in range(symbols_here.shape[1]):
                x = symbols_here[i, column]
                if x >= 0:
                    if n_seen == 0:
                        for h in range(k):
                            r[i, h] = symbols[x, h]
                    else:
                        _multiply(r[i], symbols[x], product, v)
                    n_seen += 1
            j = child[i]
            while j >= 0:
                _multiply(r[i], y[j], product, v)
                log += _scale(r[i])
                j = sibling[j]
            log += _scale(r[i])
            _finish(i, heads[i], r, y, steps)
            if heads[i] == 0:
                total = 0.0
                for h in range(k):
                    total += root[h] * r[i, h]
                log, sign = _times(log, sign, total)
        logs[t], signs[t] = log, sign


@part
def _longest(offsets):
    longest = 1
    for t in range(len(offsets) - 1):
        longest = max(longest, offsets[t + 1] - offsets[t])
    return longest


@part
def _children_first(head, order, waiting):
    """Words in an order in which children come before their heads."""
    size = len(head)
    for i in range(size):
        waiting[i] = 0
    for i in range(size):
        if head[i] > 0:
            waiting[head[i] - 1] += 1
    n = 0
    for i in range(size):
        if waiting[i] == 0:
            order[n] = i
            n += 1
    done = 0
    while done < n:
        up = head[order[done]] - 1
        done += 1
        if up >= 0:
            waiting[up] -= 1
            if waiting[up] == 0:
                order[n] = up
                n += 1


@part
def _list_children(head, child, sibling):
    """First child of each word, and next sibling of each word, from left to right."""
    for i in range(len(head)):
        child[i] = -1
    for back in range(len(head)):
        i = len(head) - 1 - back
        sibling[i] = -1
        if head[i] > 0:
            sibling[i] = child[head[i] - 1]
            child[head[i] - 1] = i


@part
def _inside(head, seen, order, root, steps, symbols, r, y):
    """Fill r and y; the log and the sign of the weight."""
    size, k = len(head), len(root)
    for i in range(size):
        for h in range(k):
            r[i, h] = 1.0
        for column in range(seen.shape[1]):
            if seen[i, column] >= 0:
                for h in range(k):
                    r[i, h] *= symbols[seen[i, column], h]
    log, sign = 0.0, 1.0
    for place in range(size):
        i = order[place]
        log += _scale(r[i])
        _finish(i, head[i], r, y, steps)
        total = 0.0
        for h in range(k):
            if head[i] > 0:
                r[head[i] - 1, h] *= y[i, h]
            else:
                total += root[h] * r[i, h]
        if head[i] > 0:
            log += _scale(r[head[i] - 1])
        else:
            log, sign = _times(log, sign, total)
    return log, sign


@part
def _times(log, sign, factor):
    if factor == 0.0:
        return -np.inf, 0.0
    return log + np.log(abs(factor)), sign * np.sign(factor)


@part
def _finish(i, head, r, y, steps):
    """Write the message from a word to its head."""
    if head == 0:
        return
    k = r.shape[1]
    step = steps[1 if i > head - 1 else 0]
    for h in range(k):
        y[i, h] = 0.0
    for g in range(k):
        for h in range(k):
            y[i, h] += step[g, h] * r[i, g]


@part
def _scale(v):
    """Divide by the largest entry; its log. A vector of zeros stays as it is."""
    top = 0.0
    for h in range(len(v)):
        top = max(top, abs(v[h]))
    if not top > 0.0:
        return 0.0  # the weight itself will be 0
    for h in range(len(v)):
        v[h] /= top
    return np.log(top)


@part
def _multiply(v, w, product, scratch):
    """Replace v by its product with w."""
    k = len(v)
    for b in range(k):
        scratch[b] = 0.0
    for c in range(k):
        for a in range(k):
            share = w[c] * v[a]
            for b in range(k):
                scratch[b] += share * product[c, a, b]
    for b in range(k):
        v[b] = scratch[b]


@part
def _add_posterior(a, r, total):
    mass = 0.0
    for h in range(len(a)):
        mass += a[h] * r[h]
    for h in range(len(a)):
        total[h] += a[h] * r[h] / mass


@part
def _without_child(i, left_out, seen, symbols, child, sibling, y, a, rest):
    """Everything but a child of word i, by the state of i."""
    k = len(rest)
    for h in range(k):
        rest[h] = a[h]
    for column in range(len(seen)):
        if seen[column] >= 0:
            for h in range(k):
                rest[h] *= symbols[seen[column], h]
    _scale(rest)
    j = child[i]
    while j >= 0:
        if j != left_out:
            for h in range(k):
                rest[h] *= y[j, h]
            _scale(rest)
        j = sibling[j]


@part
def _add_step(step, rest, r, total, a):
    """Posterior counts of a step down, and the vector from outside at its end."""
    k = len(rest)
    mass = 0.0
    for g in range(k):
        a[g] = 0.0
        for h in range(k):
            a[g] += step[g, h] * rest[h]
        mass += a[g] * r[g]
    for g in range(k):
        for h in range(k):
            total[g, h] += step[g, h] * rest[h] * r[g] / mass
    _scale(a)
