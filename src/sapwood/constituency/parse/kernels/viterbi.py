"""The single best derivation of a plain PCFG: max instead of sum in the full chart.

Looks like `coarse.fill` on purpose; helpers are repeated here because Numba's cache does not see
edits in other files.
"""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from sapwood.constituency.parse.kernels.coarse import cell_of
from sapwood.core.jit import kernel, part


@part
def _best_two_words(rules, tags, i, out):
    for x in range(tags.start[i], tags.start[i + 1]):
        for y in range(tags.start[i + 1], tags.start[i + 2]):
            pair = rules.tt_pair[tags.tag[x], tags.tag[y]]
            if pair == 0:
                continue
            weight = tags.weight[x] * tags.weight[y]
            for r in range(rules.tt_start[pair - np.uint32(1)], rules.tt_start[pair]):
                a = rules.tt_parent[r]
                out[a] = max(out[a], rules.tt_weight[r] * weight)


@part
def _best_with_word(tags, position, pairs, start, parent, rule_weight, row, factor, out):
    """One child is the word at `position`, the other a phrase with weights `row`."""
    for c in range(np.uint64(len(row))):
        if row[c] == 0.0:
            continue
        for x in range(tags.start[position], tags.start[position + 1]):
            pair = np.uint64(pairs[tags.tag[x], c])
            if pair == 0:
                continue
            weight = tags.weight[x] * factor * row[c]
            for r in range(np.uint64(start[pair - np.uint64(1)]), np.uint64(start[pair])):
                out[parent[r]] = max(out[parent[r]], rule_weight[r] * weight)


@part
def _best_phrases(rules, n, delta, factor, i, j, out):
    """Best split of every pair, then its rules; the best value of a pair serves all its rules."""
    for left in range(len(rules.left_of)):
        b = rules.left_of[left]
        for pair in range(rules.aa_first[left], rules.aa_first[left + 1]):
            c = rules.right_of[rules.aa_right[pair]]
            best = 0.0
            for k in range(i + 2, j - 1):
                value = delta[cell_of(i, k, n), b]
                if value != 0.0:
                    best = max(best, value * delta[cell_of(k, j, n), c] * factor[k])
            if best == 0.0:
                continue
            for r in range(rules.aa_start[pair], rules.aa_start[pair + 1]):
                a = rules.aa_parent[r]
                out[a] = max(out[a], rules.aa_weight[r] * best)


@kernel
def best_weights(rules, tags):
    """Weight of the best derivation of every labelled span.

        delta[i, j, a] = max over k and a -> b c of  w(a -> b c) * delta[i, k, b] * delta[k, j, c]

    Returns `delta` [n_cells, n_phrases] and the power of two of each cell.
    """
    n = len(tags.start) - 1
    delta = np.zeros((n * (n + 1) // 2, rules.n_phrases))
    scale = np.full(n * (n + 1) // 2, -(2**30), np.int64)
    for i in range(n):
        if tags.start[i + 1] > tags.start[i]:
            scale[cell_of(i, i + 1, n)] = tags.scale[i]
    factor = np.zeros(n + 1)
    for width in range(2, n + 1 if rules.n_phrases else 2):
        for i in range(n - width + 1):
            j = i + width
            base = -(2**30)
            for k in range(i + 1, j):
                base = max(base, scale[cell_of(i, k, n)] + scale[cell_of(k, j, n)])
            if base <= -(2**29):
                continue
            for k in range(i + 1, j):
                exponent = scale[cell_of(i, k, n)] + scale[cell_of(k, j, n)] - base
                factor[k] = ldexp(1.0, int(max(exponent, -1074)))
            out = delta[cell_of(i, j, n)]
            if width == 2:
                _best_two_words(rules, tags, i, out)
            else:
                _best_with_word(
                    tags, i, rules.ta_pair, rules.ta_start, rules.ta_parent, rules.ta_weight,
                    delta[cell_of(i + 1, j, n)], factor[i + 1], out,
                )  # fmt: skip
                _best_with_word(
                    tags, j - 1, rules.at_pair, rules.at_start, rules.at_parent, rules.at_weight,
                    delta[cell_of(i, j - 1, n)], factor[j - 1], out,
                )  # fmt: skip
            if width >= 4:
                _best_phrases(rules, n, delta, factor, i, j, out)
            peak = 0.0
            for a in range(len(out)):
                peak = max(peak, out[a])
            if peak > 0.0:
                _, power = frexp(peak)
                power = max(power, -1022)
                scale[cell_of(i, j, n)] = base + power
                out *= ldexp(1.0, -power)
    return delta, scale


@part
def _child_value(delta, n_phrases, tags, n, i, j, symbol):
    if symbol < n_phrases:
        return delta[cell_of(i, j, n), symbol] if j - i > 1 else 0.0
    if j - i > 1:
        return 0.0
    for x in range(tags.start[i], tags.start[i + 1]):
        if tags.tag[x] + n_phrases == symbol:
            return tags.weight[x]
    return 0.0


@kernel
def backtrace_chart(
    delta, scale, tags, root_symbol, first_word, last_word, rule_start, rule_order, rules, weights,
    n_phrases,
):  # fmt: skip
    """Nodes of the best derivation of a symbol over [first_word, last_word), children first.

    Returns their symbols, the places of their left and right children, and their starts. The chart
    keeps no pointers; each node's best rule and split is found again, which costs no more than the
    rules of 2n - 1 symbols.
    """
    n = len(tags.start) - 1
    n_nodes = 2 * (last_word - first_word) - 1
    symbol, start = np.zeros(n_nodes, np.int64), np.zeros(n_nodes, np.int64)
    end = np.zeros(n_nodes, np.int64)
    left, right = np.full(n_nodes, -1, np.int64), np.full(n_nodes, -1, np.int64)
    place = n_nodes - 1
    symbol[place], start[place], end[place] = root_symbol, first_word, last_word
    free = place - 1
    while place >= 0:
        i, j, a = start[place], end[place], symbol[place]
        if j - i > 1:
            best, best_rule, best_split = -1.0, 0, 0
            here = scale[cell_of(i, j, n)]
            for place_in_order in range(rule_start[a], rule_start[a + 1]):
                r = rule_order[place_in_order]
                b, c = rules[r, 1], rules[r, 2]
                first = i + 1 if b >= n_phrases else i + 2
                last = j - 1 if c >= n_phrases else j - 2
                if b >= n_phrases:
                    last = min(last, i + 1)
                if c >= n_phrases:
                    first = max(first, j - 1)
                for k in range(first, last + 1):
                    value = _child_value(delta, n_phrases, tags, n, i, k, b)
                    if value == 0.0:
                        continue
                    value *= weights[r] * _child_value(delta, n_phrases, tags, n, k, j, c)
                    exponent = scale[cell_of(i, k, n)] + scale[cell_of(k, j, n)] - here
                    value *= ldexp(1.0, int(max(min(exponent, 1023), -1074)))
                    if value > best:
                        best, best_rule, best_split = value, r, k
            right[place], left[place] = free, free - 1
            symbol[free], start[free], end[free] = rules[best_rule, 2], best_split, j
            symbol[free - 1], start[free - 1], end[free - 1] = rules[best_rule, 1], i, best_split
            free -= 2
        place -= 1
    return symbol, left, right, start


@kernel
def best_states(forest, n, scale, vector_start, tensor_start, tensors, delta, choice):
    """Best derivation of each item and state of a latent grammar on a forest.

        delta[x][h] = max over edges, p, q of  C[h, p, q] * delta[left][p] * delta[right][q]

    `delta` holds the leaf vectors; `choice` receives the edge behind each state. Weights must not
    be negative.
    """
    for edge in range(len(forest.head)):
        x, y, z = forest.head[edge], forest.left[edge], forest.right[edge]
        out = delta[vector_start[x] : vector_start[x + np.uint32(1)]]
        left = delta[vector_start[y] : vector_start[y + np.uint32(1)]]
        right = delta[vector_start[z] : vector_start[z + np.uint32(1)]]
        first = tensor_start[forest.rule[edge]]
        i, k, j = np.int64(forest.start[x]), np.int64(forest.end[y]), np.int64(forest.end[x])
        exponent = scale[cell_of(i, k, n)] + scale[cell_of(k, j, n)] - scale[cell_of(i, j, n)]
        factor = ldexp(1.0, int(max(min(exponent, 1023), -1074)))
        for h in range(len(out)):
            for p in range(len(left)):
                for q in range(len(right)):
                    at = first + np.uint64((h * len(left) + p) * len(right) + q)
                    value = tensors[at] * left[p] * right[q] * factor
                    if value > out[h]:
                        out[h] = value
                        choice[vector_start[x] + np.uint64(h)] = edge


@kernel
def backtrace_states(
    forest, n, scale, vector_start, tensor_start, tensors, delta, choice, root, state
):
    """The edge that the best derivation of one root item and state uses for each of its items."""
    used = np.full(len(forest.symbol), np.uint32(0xFFFFFFFF), np.uint32)
    stack = [(np.int64(root), np.int64(state))]
    while len(stack) > 0:
        x, h = stack.pop()
        if forest.end[x] - forest.start[x] == 1:
            continue
        edge = choice[vector_start[x] + np.uint64(h)]
        used[x] = edge
        y, z = np.int64(forest.left[edge]), np.int64(forest.right[edge])
        left = delta[vector_start[y] : vector_start[y + 1]]
        right = delta[vector_start[z] : vector_start[z + 1]]
        first = tensor_start[forest.rule[edge]]
        best, best_p, best_q = -1.0, 0, 0
        for p in range(len(left)):
            for q in range(len(right)):
                at = first + np.uint64((h * len(left) + p) * len(right) + q)
                value = tensors[at] * left[p] * right[q]
                if value > best:
                    best, best_p, best_q = value, p, q
        stack.append((y, np.int64(best_p)))
        stack.append((z, np.int64(best_q)))
    return used
