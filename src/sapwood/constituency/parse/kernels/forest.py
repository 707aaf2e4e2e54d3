"""Packed forests: the labelled spans worth keeping, and every rule that joins them.

Notation
--------
    item   a labelled span; items stand in the order of their width, so children come first
    edge   a rule that builds an item (`head`) from two others (`left`, `right`)

A forest is a pruned chart. All decoders, and the vectors of latent models, work on forests; only
the plain grammar needs the full chart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sapwood.constituency.parse.kernels.coarse import cell_of
from sapwood.core.jit import kernel, part

NO_ITEM = np.uint32(0xFFFFFFFF)


class PairTable(NamedTuple):
    """Binary rules by their two children: rules of pair p are `rule[start[p]:start[p + 1]]`."""

    left_slot: np.ndarray  # [n_symbols], NO_ITEM when never a left child
    right_slot: np.ndarray  # [n_symbols]
    pair: np.ndarray  # [n_left, n_right], pair + 1, 0 for none
    start: np.ndarray  # [n_pairs + 1]
    rule: np.ndarray
    parent: np.ndarray


class Forest(NamedTuple):
    """Items and edges; symbols are numbered as in the grammar, phrases before tags."""

    symbol: np.ndarray  # [n_items]
    start: np.ndarray
    end: np.ndarray
    head: np.ndarray  # [n_edges], non-decreasing width
    left: np.ndarray
    right: np.ndarray
    rule: np.ndarray


@part
def _select_items(n, n_phrases, phrases, tag_start, tag, tag_posterior, threshold):
    """Items whose posterior reaches the threshold, narrow spans first, and those of each cell."""
    phrase_start, phrase, posterior = phrases
    kept = 0
    for x in range(len(posterior)):
        kept += posterior[x] >= threshold
    for x in range(len(tag_posterior)):
        kept += tag_posterior[x] >= threshold
    symbol, start, end = (
        np.empty(kept, np.uint32),
        np.empty(kept, np.uint32),
        np.empty(kept, np.uint32),
    )
    value = np.empty(kept)
    first = np.zeros(n * (n + 1) // 2, np.uint32)
    stop = np.zeros(n * (n + 1) // 2, np.uint32)
    item = 0
    for width in range(1, n + 1):
        for i in range(n - width + 1):
            cell = cell_of(i, i + width, n)
            first[cell] = item
            if width == 1:
                for x in range(tag_start[i], tag_start[i + 1]):
                    if tag_posterior[x] >= threshold:
                        symbol[item], start[item], end[item] = n_phrases + tag[x], i, i + 1
                        value[item] = tag_posterior[x]
                        item += 1
            else:
                for x in range(phrase_start[cell], phrase_start[cell + np.uint64(1)]):
                    if posterior[x] >= threshold:
                        symbol[item], start[item], end[item] = phrase[x], i, i + width
                        value[item] = posterior[x]
                        item += 1
            stop[cell] = item
    return symbol, start, end, value, first, stop


@part
def _grow_column(column, n_used):
    bigger = np.empty(2 * len(column), column.dtype)
    for place in range(n_used):  # a slice would compile NumPy's errors of shapes: 2 s
        bigger[place] = column[place]
    return bigger


@kernel
def phrase_posteriors(chart, alpha):
    """Phrases of each span and their posteriors: starts by cell, phrases, beta times alpha."""
    n_cells = len(chart.n_active)
    start = np.zeros(n_cells + 1, np.uint64)
    for cell in range(n_cells):
        start[cell + 1] = start[cell] + np.uint64(chart.n_active[cell])
    phrase, posterior = np.empty(start[n_cells], np.uint32), np.empty(start[n_cells])
    for cell in range(n_cells):
        first = start[cell]
        for place in range(np.uint64(chart.n_active[cell])):
            a = chart.active[cell, place]
            phrase[first + place] = a
            posterior[first + place] = chart.beta[cell, a] * alpha[cell, a]
    return start, phrase, posterior


@kernel
def prune(pairs, n_phrases, tags, phrases, tag_posterior, threshold):
    """Prune a chart to the items at or above a posterior and list every rule that joins them.

    Phrases with their posteriors are those of `phrase_posteriors`.

    Returns the columns of a `Forest`, then the posterior of each item; tags stand first, in order.

    Cost: O(items + pairs of neighbouring items + edges).
    """
    n, n_symbols = len(tags.scale), len(pairs.left_slot)
    symbol, start, end, value, first, stop = _select_items(
        n, n_phrases, phrases, tags.start, tags.tag, tag_posterior, threshold
    )
    n_edges = 0
    head, left = np.empty(256, np.uint32), np.empty(256, np.uint32)
    right, rule = np.empty(256, np.uint32), np.empty(256, np.uint32)
    item_of = np.full(n_symbols, NO_ITEM, np.uint32)
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            here = cell_of(i, j, n)
            if first[here] == stop[here]:
                continue
            for item in range(first[here], stop[here]):
                item_of[symbol[item]] = item
            for k in range(i + 1, j):
                west, east = cell_of(i, k, n), cell_of(k, j, n)
                if first[east] == stop[east]:
                    continue
                for x in range(first[west], stop[west]):
                    slot = pairs.left_slot[symbol[x]]
                    if slot == NO_ITEM:
                        continue
                    for y in range(first[east], stop[east]):
                        other = pairs.right_slot[symbol[y]]
                        if other == NO_ITEM or pairs.pair[slot, other] == 0:
                            continue
                        pair = pairs.pair[slot, other]
                        for r in range(pairs.start[pair - np.uint32(1)], pairs.start[pair]):
                            parent = item_of[pairs.parent[r]]
                            if parent == NO_ITEM:
                                continue
                            if n_edges == len(head):
                                head, left = (
                                    _grow_column(head, n_edges),
                                    _grow_column(left, n_edges),
                                )
                                right, rule = (
                                    _grow_column(right, n_edges),
                                    _grow_column(rule, n_edges),
                                )
                            head[n_edges], left[n_edges] = parent, x
                            right[n_edges], rule[n_edges] = y, pairs.rule[r]
                            n_edges += 1
            for item in range(first[here], stop[here]):
                item_of[symbol[item]] = NO_ITEM
    return (
        symbol, start, end, head[:n_edges].copy(), left[:n_edges].copy(), right[:n_edges].copy(),
        rule[:n_edges].copy(), value,
    )  # fmt: skip


@kernel
def best_derivations(forest, item_gain, edge_gain):
    """Best total gain of a derivation of each item, and the edge that achieves it.

        best[x] = item_gain[x] + max over edges e of x of  edge_gain[e] + best[left] + best[right]

    Leaves (tags) have no edge; a phrase that nothing builds has gain -inf. Ties go to the edge
    listed first, so the result does not depend on threads.
    """
    best = np.full(len(forest.symbol), -np.inf)
    choice = np.full(len(forest.symbol), NO_ITEM, np.uint32)
    for item in range(len(forest.symbol)):
        if forest.end[item] - forest.start[item] == 1:
            best[item] = item_gain[item]
    for edge in range(len(forest.head)):
        x = forest.head[edge]
        gain = item_gain[x] + edge_gain[edge] + best[forest.left[edge]] + best[forest.right[edge]]
        if gain > best[x]:
            best[x], choice[x] = gain, edge
    return best, choice


@kernel
def backtrace_items(forest, choice, root):
    """Items of the chosen derivation of `root`, children before parents.

    Returns arrays `item`, `left`, `right`; left and right are places in these arrays, -1 for
    leaves.
    """
    n_nodes = 2 * np.int64(forest.end[root] - forest.start[root]) - 1
    item = np.empty(n_nodes, np.int64)
    left, right = np.full(n_nodes, -1, np.int64), np.full(n_nodes, -1, np.int64)
    place = n_nodes - 1
    item[place] = root
    free = place - 1  # filled from the back: a parent always stands behind its children
    while place >= 0:
        edge = choice[item[place]]
        if edge != NO_ITEM:
            right[place], item[free] = free, forest.right[edge]
            left[place], item[free - 1] = free - 1, forest.left[edge]
            free -= 2
        place -= 1
    return item, left, right


@kernel
def edge_posteriors(forest, chart_beta, chart_scale, alpha, tag_value, tag_scale, n, weight):
    """Posterior of each edge under the plain grammar.

        p(e) = alpha[head] * w(rule) * beta[left] * beta[right]

    `tag_value[item]` is the scaled tag weight of a leaf item; `weight[rule]` the rule weights.
    """
    out = np.empty(len(forest.head))
    for edge in range(len(forest.head)):
        x, y, z = forest.head[edge], forest.left[edge], forest.right[edge]
        i, k, j = forest.start[x], forest.end[y], forest.end[x]
        here = cell_of(i, j, n)
        value = alpha[here, forest.symbol[x]] * weight[forest.rule[edge]]
        exponent = -chart_scale[here]
        if k - i == 1:
            value *= tag_value[y]
            exponent += tag_scale[i]
        else:
            cell = cell_of(i, k, n)
            value *= chart_beta[cell, forest.symbol[y]]
            exponent += chart_scale[cell]
        if j - k == 1:
            value *= tag_value[z]
            exponent += tag_scale[k]
        else:
            cell = cell_of(k, j, n)
            value *= chart_beta[cell, forest.symbol[z]]
            exponent += chart_scale[cell]
        out[edge] = value * 2.0**exponent
    return out
