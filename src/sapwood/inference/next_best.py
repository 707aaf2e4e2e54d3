"""The next best trees of a parse forest: a hypergraph of items, or of items in a state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from sapwood.arrays import FloatArray, IntArray, cell, group_rows
from sapwood.inference.decoders import Decoded, Gains, best_states
from sapwood.inference.k_best import Edges, k_best

if TYPE_CHECKING:
    from sapwood.inference.charts import ParseForest
    from sapwood.kernels.forest import Forest


def next_trees(parsed: ParseForest, gains: Gains) -> Iterator[Decoded]:
    """Trees of a forest from the best down."""
    from sapwood.kernels.forest import best_derivations

    forest = parsed.forest
    best, _ = best_derivations(forest, gains.items, gains.edges)
    edges_of = group_rows(forest.head, len(forest.symbol))

    def incoming(item: int) -> Edges:
        edges = edges_of[item]
        tails = np.column_stack([forest.left[edges], forest.right[edges]])
        return Edges.best_first(gains.items[item] + gains.edges[edges], tails, edges, best)

    roots = Edges.best_first(gains.roots, parsed.roots[:, None], parsed.roots, best)
    return _trees(forest, np.arange(len(forest.symbol)), best, roots, incoming)


def next_derivations(parsed: ParseForest) -> Iterator[Decoded]:
    """Trees of a latent grammar's forest from the best down, each with its best hidden states.

    A tree's score is the log-probability of its likeliest derivation, states included: what the
    Viterbi decoder maximises. Each tree is listed once, whatever the states, so that the many
    derivations of one tree do not stand between it and the next.
    """
    forest, grammar, n = parsed.forest, parsed.grammar, len(parsed.words)
    start, delta, *_ = best_states(parsed)
    begin, m = start.astype(np.int64), grammar.n_states[forest.symbol]
    item_of = np.repeat(np.arange(len(forest.symbol)), m)
    i, j = forest.start.astype(np.int64), forest.end.astype(np.int64)
    scale = parsed.scale[cell(i, j, n)]
    with np.errstate(divide="ignore"):  # weight 0 is log-probability -inf
        best = np.log(delta) + scale[item_of] * np.log(2.0)
        log_root = np.log(grammar.root)
    edges_of = group_rows(forest.head, len(forest.symbol))

    def by_states(edge: int, h: int) -> tuple[FloatArray, IntArray, IntArray]:
        children = [int(forest.left[edge]), int(forest.right[edge])]
        with np.errstate(divide="ignore"):
            gain = np.log(grammar.tensor(int(forest.rule[edge]))[h])
        tails = np.indices(gain.shape).reshape(2, -1).T + begin[children]
        return gain.ravel(), tails, np.full(gain.size, edge)

    def incoming(node: int) -> Edges:
        item = int(item_of[node])
        parts = [by_states(edge, node - int(begin[item])) for edge in edges_of[item].tolist()]
        weight, tails, edge = (np.concatenate(part) for part in zip(*parts, strict=True))
        return Edges.best_first(weight, tails, edge, best)

    nodes = np.concatenate([np.arange(begin[x], begin[x + 1]) for x in parsed.roots])
    state = nodes - begin[item_of[nodes]] + grammar.state_start[forest.symbol[item_of[nodes]]]
    roots = Edges.best_first(log_root[state], nodes[:, None], item_of[nodes], best)
    return _trees(forest, item_of, best, roots, incoming)


def _trees(
    forest: Forest,
    item_of: IntArray,
    best: FloatArray,
    roots: Edges,
    incoming: Callable[[int], Edges],
) -> Iterator[Decoded]:
    """The derivations of a node above all roots, as trees."""
    top, is_leaf = len(item_of), forest.end - forest.start == 1
    symbol, start = forest.symbol.tolist(), forest.start.tolist()

    def edges(node: int) -> Edges:
        if node == top:
            return roots
        item = int(item_of[node])
        return Edges([float(best[node])], [()], [item]) if is_leaf[item] else incoming(node)

    for score, nodes in k_best(top, edges):
        rows = [(int(item_of[node]), tails or (-1, -1)) for node, tails in nodes[:-1]]
        yield Decoded(score, [(symbol[x], left, right, start[x]) for x, (left, right) in rows])
