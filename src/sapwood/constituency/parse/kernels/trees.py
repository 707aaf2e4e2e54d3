"""Tensor-form inside on given trees (SPECTRAL, Figure 4), summed over the derivations of each.

Notation
--------
    tree         nodes with any number of children, unary chains as one node
    derivation   a binary tree of the grammar's symbols that restores to the tree
    item         a symbol over neighbouring children of one node, or over all of them
    edge         a rule that builds an item from two others; edges stand bottom up
    chain        number of what a symbol restores to; HIDDEN for one that vanishes

A node over k children is built by a symbol of its chain over all k; whatever covers only some of
them vanishes, so it is intermediate. Everything else about a symbol (ancestors, context) is free:
the derivations of a tree are all those binary trees, and form a small forest.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import NamedTuple

import numpy as np

from sapwood.core.jit import kernel, part

_FAST = {"contract", "reassoc"}
HIDDEN = -2
UNKNOWN_CHAIN = -1
NO_POWER = -(2**40)  # power of two of a vector of zeros


class Trees(NamedTuple):
    """Binary rows of trees, children before parents; any binarisation will do."""

    offsets: np.ndarray  # [n_trees + 1]
    left: np.ndarray  # [n_rows], counted from the tree's first; -1 for a leaf
    right: np.ndarray
    chain: np.ndarray  # [n_rows], UNKNOWN_CHAIN when the grammar has no such chain
    root_chain: np.ndarray  # [n_trees], chain of the last row with the root above it
    word: np.ndarray  # [n_rows], row of the lexicon; any number for an in-terminal


class TreeGrammar(NamedTuple):
    """The tables of a grammar that trees need."""

    n_phrases: int
    chain: np.ndarray  # [n_symbols]
    root_chain: np.ndarray  # [n_symbols], as the root of a sentence
    row_start: np.ndarray  # [n_lexicon_rows + 1]
    entry_tag: np.ndarray
    entry_start: np.ndarray  # [n_entries + 1], where each emission vector lies in `emissions`
    emissions: np.ndarray
    n_states: np.ndarray  # [n_symbols]
    tensor_start: np.ndarray  # [n_rules + 1], stored as in `kernels.latent`
    rank: np.ndarray
    tensors: np.ndarray
    root_start: np.ndarray  # [n_symbols + 1]
    root: np.ndarray


class Derivations(NamedTuple):
    """The forest of one tree."""

    symbol: np.ndarray  # [n_items]
    leaf: np.ndarray  # [n_items], where a leaf's emission vector lies; -1 for a phrase
    edges: np.ndarray  # [n_edges, 4]: head, left, right, rule
    roots: tuple  # first and last + 1 of the items that may be the root


@part
def _grow(rows, n_used):
    bigger = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    for row in range(n_used):  # slices would compile NumPy's errors of shapes: 2 s
        for column in range(rows.shape[1]):
            bigger[row, column] = rows[row, column]
    return bigger


@part
def _children(trees, first, node, stack, kids):
    """Visible children of a node in `kids`, from left to right; how many."""
    stack[0], stack[1] = trees.right[first + node], trees.left[first + node]
    n_waiting, n_kids = 2, 0
    while n_waiting > 0:
        n_waiting -= 1
        row = stack[n_waiting]
        if trees.chain[first + row] == HIDDEN:
            stack[n_waiting] = trees.right[first + row]
            stack[n_waiting + 1] = trees.left[first + row]
            n_waiting += 2
        else:
            kids[n_kids] = row
            n_kids += 1
    return n_kids


@part
def _tags(grammar, word, key, wanted, items, n_items):
    """Add the tags of a word that restore to the wanted chain."""
    for entry in range(grammar.row_start[word], grammar.row_start[word + 1]):
        symbol = grammar.n_phrases + grammar.entry_tag[entry]
        if key[symbol] == wanted:
            if n_items == len(items):
                items = _grow(items, n_items)
            items[n_items, 0], items[n_items, 1] = symbol, grammar.entry_start[entry]
            n_items += 1
    return items, n_items


@part
def _joints(pairs, west, east, key, wanted, item_of, items, n_items, edges, n_edges):
    """Add every rule that joins an item of `west` with one of `east` to a wanted symbol.

    `item_of` holds the items over the same children that are there already.
    """
    for x in range(west[0], west[1]):
        left = pairs.left_slot[items[x, 0]]
        if left == np.uint32(0xFFFFFFFF):
            continue
        for y in range(east[0], east[1]):
            right = pairs.right_slot[items[y, 0]]
            if right == np.uint32(0xFFFFFFFF) or pairs.pair[left, right] == 0:
                continue
            pair = np.int64(pairs.pair[left, right])
            for r in range(pairs.start[pair - 1], pairs.start[pair]):
                parent = pairs.parent[r]
                if key[parent] != wanted:
                    continue
                if item_of[parent] < 0:
                    if n_items == len(items):
                        items = _grow(items, n_items)
                    items[n_items, 0], items[n_items, 1] = parent, -1
                    item_of[parent] = n_items
                    n_items += 1
                if n_edges == len(edges):
                    edges = _grow(edges, n_edges)
                edges[n_edges, 0], edges[n_edges, 1] = item_of[parent], x
                edges[n_edges, 2], edges[n_edges, 3] = y, pairs.rule[r]
                n_edges += 1
    return items, n_items, edges, n_edges


@part
def _join_all(grammar, pairs, kids, of_row, key, wanted, item_of, items, n_items, edges, n_edges):
    """Add all items over two or more neighbouring children; those over all of them come last."""
    n_kids, first = len(kids), n_items
    cells = np.empty((n_kids, n_kids + 1, 2), np.int64)  # items over the children from i to j
    for i in range(n_kids):
        cells[i, i + 1, 0], cells[i, i + 1, 1] = of_row[kids[i], 0], of_row[kids[i], 1]
    for width in range(2, n_kids + 1):
        here, target = (key, wanted) if width == n_kids else (grammar.chain, HIDDEN)
        for i in range(n_kids - width + 1):
            first = n_items
            for k in range(i + 1, i + width):
                items, n_items, edges, n_edges = _joints(
                    pairs, cells[i, k], cells[k, i + width], here, target,
                    item_of, items, n_items, edges, n_edges,
                )  # fmt: skip
            for item in range(first, n_items):
                item_of[items[item, 0]] = -1
            cells[i, i + width, 0], cells[i, i + width, 1] = first, n_items
    return first, items, n_items, edges, n_edges


@part
def _derivations(trees, tree, grammar, pairs, item_of):
    """All derivations of one tree; `item_of` [n_symbols] is scratch space, -1 everywhere.

    Cost: O(k^3) lookups of pairs for a node of k children, times the symbols that compete.
    """
    start = trees.offsets[tree]
    n_rows = trees.offsets[tree + 1] - start
    items, n_items = np.empty((2 * n_rows, 2), np.int64), 0
    edges, n_edges = np.empty((2 * n_rows, 4), np.int64), 0
    of_row = np.zeros((n_rows, 2), np.int64)  # items of each visible row, from and to
    stack, kids = np.empty(n_rows + 1, np.int64), np.empty(n_rows, np.int64)
    key, wanted = grammar.chain, HIDDEN
    for row in range(n_rows):
        first, wanted = n_items, trees.chain[start + row]
        if row == n_rows - 1:
            key, wanted = grammar.root_chain, trees.root_chain[tree]
        elif wanted == HIDDEN:
            continue
        if trees.left[start + row] < 0:
            word = trees.word[start + row]
            items, n_items = _tags(grammar, word, key, wanted, items, n_items)
        else:
            n_kids = _children(trees, start, row, stack, kids)
            first, items, n_items, edges, n_edges = _join_all(
                grammar, pairs, kids[:n_kids], of_row, key, wanted,
                item_of, items, n_items, edges, n_edges,
            )  # fmt: skip
        if first == n_items:  # a node without derivation: the tree has none
            break
        of_row[row, 0], of_row[row, 1] = first, n_items
    roots = (of_row[n_rows - 1, 0], of_row[n_rows - 1, 1])
    return Derivations(items[:n_items, 0], items[:n_items, 1], edges[:n_edges], roots)


@part
def _in_use(found):
    """Which items are part of a whole derivation: from the root down."""
    used = np.zeros(len(found.symbol), np.bool_)
    for item in range(found.roots[0], found.roots[1]):
        used[item] = True
    for back in range(len(found.edges)):
        edge = found.edges[len(found.edges) - 1 - back]
        if used[edge[0]]:
            used[edge[1]] = True
            used[edge[2]] = True
    return used


@part(fastmath=_FAST)
def _add_rule(tensors, start, k, vectors, x, m, y, m_left, z, m_right, factor):
    """Add factor * C(f_left, f_right) of one rule to the vector at x."""
    if k == 0:
        for h in range(m):
            total = 0.0
            for p in range(m_left):
                partial = 0.0
                row = start + (h * m_left + p) * m_right
                for q in range(m_right):
                    partial += tensors[row + q] * vectors[z + q]
                total += partial * vectors[y + p]
            vectors[x + h] += factor * total
        return
    at_b = start + k * m
    at_d = at_b + k * m_left
    for t in range(k):
        from_left, from_right = 0.0, 0.0
        for p in range(m_left):
            from_left += tensors[at_b + t * m_left + p] * vectors[y + p]
        for q in range(m_right):
            from_right += tensors[at_d + t * m_right + q] * vectors[z + q]
        for h in range(m):
            vectors[x + h] += factor * from_left * from_right * tensors[start + t * m + h]


@part
def _normalise(vectors, start, size, power):
    """Scale a vector to about 1; its new power of two, NO_POWER for a vector of zeros."""
    peak = 0.0
    for h in range(size):
        peak = max(peak, abs(vectors[start + h]))
    if peak == 0.0:
        return np.int64(NO_POWER)
    _, more = frexp(peak)
    more = max(more, -1022)
    for h in range(size):
        vectors[start + h] *= ldexp(1.0, -more)
    return np.int64(power + more)


@part
def _lift(vectors, start, size, power, other):
    """The larger of two powers; a vector of smaller power is brought to it."""
    if power == NO_POWER or power >= other:
        return max(power, other)
    for h in range(size):
        vectors[start + h] *= ldexp(1.0, int(max(power - other, -1074)))
    return other


@part
def _weight(found, grammar):
    """Weight of all derivations of a tree, as a number of about 1 and a power of two.

        f[x] = sum over edges of x of  C[rule](f[left], f[right])      f[leaf] = c_inf[tag -> word]
        weight = sum over root items of  c_1[symbol] . f[root]

    Each vector has its own power of two, so that no derivation is lost beside a larger one.
    """
    used, edges = _in_use(found), found.edges
    n_items = len(found.symbol)
    m, start = np.empty(n_items, np.int64), np.zeros(n_items + 1, np.int64)
    for x in range(n_items):
        m[x] = grammar.n_states[found.symbol[x]]
        start[x + 1] = start[x] + (m[x] if used[x] else 0)
    vectors, power = np.zeros(start[n_items]), np.full(n_items, NO_POWER, np.int64)
    for x in range(n_items):
        if used[x] and found.leaf[x] >= 0:
            at = found.leaf[x]
            for h in range(m[x]):
                vectors[start[x] + h] = grammar.emissions[at + h]
            power[x] = _normalise(vectors, start[x], m[x], 0)
    for e in range(len(edges)):
        x, y, z, rule = edges[e]
        if not used[x] or power[y] == NO_POWER or power[z] == NO_POWER:
            continue
        new = power[y] + power[z]
        power[x] = _lift(vectors, start[x], m[x], power[x], new)
        _add_rule(
            grammar.tensors, grammar.tensor_start[rule], grammar.rank[rule], vectors,
            start[x], m[x], start[y], m[y], start[z], m[z],
            ldexp(1.0, int(max(new - power[x], -1074))),
        )  # fmt: skip
        power[x] = _normalise(vectors, start[x], m[x], power[x])  # more edges may come
    return _root_weight(found, grammar, vectors, start, power)


@part
def _root_weight(found, grammar, vectors, start, power):
    first, last = found.roots
    top = np.int64(NO_POWER)
    for x in range(first, last):
        top = max(top, power[x])
    total = 0.0
    for x in range(first, last):
        at = grammar.root_start[found.symbol[x]]
        weight = 0.0
        for h in range(start[x + 1] - start[x]):
            weight += grammar.root[at + h] * vectors[start[x] + h]
        total += weight * ldexp(1.0, int(max(power[x] - top, -1074)))
    return total, top


@kernel
def log_weights(trees, grammar, pairs):
    """Log of the absolute weight of each tree over all its derivations, and its sign."""
    n_trees = len(trees.offsets) - 1
    log_weight, sign = np.full(n_trees, -np.inf), np.zeros(n_trees)
    item_of = np.full(len(grammar.chain), -1, np.int64)
    for tree in range(n_trees):
        found = _derivations(trees, tree, grammar, pairs, item_of)
        if found.roots[0] == found.roots[1]:
            continue
        total, power = _weight(found, grammar)
        if total != 0.0:
            sign[tree] = np.sign(total)
            log_weight[tree] = np.log(abs(total)) + power * np.log(2.0)
    return log_weight, sign
