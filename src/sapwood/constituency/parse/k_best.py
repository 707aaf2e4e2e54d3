"""The k best trees of a forest, computed lazily (Huang and Chiang 2005, algorithm 3).

`k_best` yields the derivations of any hypergraph, and expands only the nodes that are needed.
Forests become hypergraphs of items, or of items with their hidden states.

Notation
--------
    node    the number of an item that is derived
    edge    a hyperedge: derives a node from its tails, which are nodes; without tails, a leaf
    score   of a derivation: the weight of its edge, and the scores of the derivations of its tails
    rank    number of derivations of a node that are better
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from sapwood.constituency.data.transform import restore_words
from sapwood.constituency.parse.decoders import GAINS, Decoded, Gains, latent_viterbi
from sapwood.core.arrays import FloatArray, IntArray, cell, group_rows
from sapwood.corpora.tree import Tree

if TYPE_CHECKING:
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.parse.charts import PrunedForest
    from sapwood.constituency.parse.kernels.forest import Forest
    from sapwood.constituency.parse.posteriors import LabelledForest


class Edges(NamedTuple):
    """The hyperedges of a node, the one with the best derivation first."""

    weight: list[float]
    tails: list[tuple[int, ...]] | IntArray  # arrays stay arrays, since most rows are never read
    name: list[int]  # derivations with the same names at all edges count once

    @classmethod
    def best_first(
        cls, weight: FloatArray, tails: IntArray, name: IntArray, best: FloatArray
    ) -> Self:
        """Sort edges by their best derivation, and drop edges without a derivation.

        The tails have the shape [n_edges, n_tails]; `best` [n_nodes] holds the Viterbi scores of
        the nodes, -inf for nodes without a derivation.
        """
        total = weight + sum(best[tail] for tail in tails.T)
        order = np.argsort(-total, kind="stable")
        order = order[total[order] > -np.inf]
        return cls(weight[order].tolist(), tails[order], name[order].tolist())

    def nodes_below(self, edge: int) -> tuple[int, ...] | list[int]:
        """Return the tails of an edge."""
        row = self.tails[edge]
        return row if isinstance(row, tuple) else row.tolist()


class Derivation(NamedTuple):
    """A derivation: nodes with the indices of their tails, tails before heads, the root last."""

    score: float
    nodes: list[tuple[int, tuple[int, ...]]]


def k_best(root: int, incoming: Callable[[int], Edges]) -> Iterator[Derivation]:
    """Yield the derivations of a node of an acyclic hypergraph, best first.

    `incoming` returns the edges of a node, and is called once for each expanded node.

    >>> leaf = Edges([0.0], [()], [7])
    >>> graph = {0: leaf, 1: leaf, 2: Edges([2.0, 1.0], [(0, 1), (0,)], [8, 9])}
    >>> [found.score for found in k_best(2, graph.__getitem__)]
    [2.0, 1.0]
    """
    lazy = _LazyBest(incoming)
    for rank in count():
        found = lazy.kth(lazy[root], rank)
        if found is None:
            return
        yield Derivation(found.score, lazy.nodes(root, rank))


# A candidate derivation of a node: an edge, then the rank of a derivation of each of its tails.
_Candidate = tuple[int, ...]


class _Found(NamedTuple):
    """A derivation of a node, and the number of its tree."""

    score: float
    tree: int
    candidate: _Candidate


class _Node:
    """The derivations of a node found so far, and the candidates for the next one."""

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.below: dict[int, list[_Node]] = {}  # the tails of the edges that were expanded
        self.found: list[_Found] = []
        self.trees: set[int] = set()
        self.heap: list[tuple[float, _Candidate]] = []  # candidates with their scores
        self.offered: set[_Candidate] = set()
        # candidates without a score yet
        self.pending: list[_Candidate] = [(0,) * (1 + len(tails)) for tails in edges.tails[:1]]


class _LazyBest(dict[int, _Node]):
    """The k-th best derivations of all nodes, computed on demand without recursion."""

    def __init__(self, incoming: Callable[[int], Edges]) -> None:
        super().__init__()
        self.incoming = incoming
        self.trees: dict[tuple[int, ...], int] = {}  # numbers of (name, trees below)

    def __missing__(self, node: int) -> _Node:
        """Expand a node at its first use."""
        opened = self[node] = _Node(self.incoming(node))
        return opened

    def kth(self, node: _Node, rank: int) -> _Found | None:
        """Return the derivation of a node with a rank; None if the node has fewer."""
        waiting = [(node, rank)]
        while waiting:
            at, wanted = waiting[-1]
            if len(at.found) > wanted or not (at.heap or at.pending):
                waiting.pop()
                continue
            missing = self._weigh(at)
            waiting += missing
            if not missing and at.heap:
                self._take(at)
        return node.found[rank] if rank < len(node.found) else None

    def _weigh(self, node: _Node) -> list[tuple[_Node, int]]:
        """Score the pending candidates; returns the nodes and ranks to compute first."""
        weight, known = node.edges.weight, node.below
        waiting: list[_Candidate] = []
        missing: list[tuple[_Node, int]] = []
        for candidate in node.pending:
            edge = candidate[0]
            if edge not in known:
                known[edge] = [self[tail] for tail in node.edges.nodes_below(edge)]
            score, n_missing = weight[edge], len(missing)
            for k, tail in enumerate(known[edge], 1):
                rank, found = candidate[k], tail.found
                if rank < len(found):
                    score += found[rank][0]
                elif tail.heap or tail.pending:
                    missing.append((tail, rank))
                else:  # the tail has no more derivations
                    break
            else:
                if len(missing) > n_missing:
                    waiting.append(candidate)
                else:
                    heapq.heappush(node.heap, (-score, candidate))
        node.pending = waiting
        return missing

    def _take(self, node: _Node) -> None:
        """Take the best candidate: add its tree if it is new, and push its successors."""
        _, tails, name = node.edges
        score, candidate = heapq.heappop(node.heap)
        edge = candidate[0]
        key = [name[edge]]
        following = []
        for k, tail in enumerate(node.below[edge], 1):
            key.append(tail.found[candidate[k]][1])
            # joined by +, which is twice as fast as unpacking
            following.append(candidate[:k] + (candidate[k] + 1,) + candidate[k + 1 :])  # noqa: RUF005
        tree = self.trees.setdefault(tuple(key), len(self.trees))
        if tree not in node.trees:
            node.trees.add(tree)
            node.found.append(_Found(-score, tree, candidate))
        if edge + 1 < len(tails) and not any(candidate[1:]):
            following.append((edge + 1, *[0] * len(tails[edge + 1])))
        node.pending = [candidate for candidate in following if candidate not in node.offered]
        node.offered.update(node.pending)

    def nodes(self, root: int, rank: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return the nodes of a derivation with the indices of their tails, tails first."""
        waiting = [(root, rank)]
        drawn: list[tuple[int, range]] = []
        while len(drawn) < len(waiting):
            node, k = waiting[len(drawn)]
            edge, *ranks = self[node].found[k].candidate
            first = len(waiting)
            waiting += zip(self[node].edges.nodes_below(edge), ranks, strict=True)
            drawn.append((node, range(first, len(waiting))))
        last = len(drawn) - 1
        return [(node, tuple(last - place for place in tails)) for node, tails in reversed(drawn)]


MAX_DUPLICATES = 1000  # maximum number of skipped derivations of earlier trees


def best_trees(
    parsed: LabelledForest, decoder: str, tree: Tree, best: Decoded, k: int
) -> tuple[list[Tree], list[Decoded]]:
    """Return the k best different trees of a forest, best first; the first tree is given."""
    out, lowest, duplicates = {tree: best}, best.score, 0
    pruned, grammar = parsed.posteriors.pruned, parsed.posteriors.prepared.grammar
    if decoder == "viterbi" and not grammar.is_plain:
        rest = next_derivations(grammar, pruned)
    else:
        rest = next_trees(pruned, GAINS[decoder](parsed))
    with closing(rest):
        for found in rest:
            tree = restore_words(grammar.symbols, pruned.words, found.nodes)
            lowest = min(lowest, found.score)  # another order of summation rounds differently
            if tree not in out:
                out[tree] = found._replace(score=lowest)
            else:
                duplicates += 1
            if len(out) >= k or duplicates > MAX_DUPLICATES:
                break
    return list(out), list(out.values())


def next_trees(pruned: PrunedForest, gains: Gains) -> Generator[Decoded, None, None]:
    """Yield the trees of a forest, best first."""
    from sapwood.constituency.parse.kernels.forest import best_derivations

    forest = pruned.forest
    best, _ = best_derivations(forest, gains.items, gains.edges)
    order = np.argsort(forest.head, kind="stable")
    start = np.searchsorted(forest.head[order], np.arange(len(best) + 1))

    def incoming(item: int) -> Hyperedges:
        edges = order[start[item] : start[item + 1]]
        tails = np.column_stack([forest.left[edges], forest.right[edges]])
        return gains.items[item] + gains.edges[edges], tails, edges

    roots = (gains.roots, pruned.roots[:, None], pruned.roots)
    return _trees(forest, np.arange(len(best)), best, roots, incoming)


def next_derivations(
    grammar: LatentGrammar, pruned: PrunedForest
) -> Generator[Decoded, None, None]:
    """Yield the trees of a latent grammar's forest, best first, with their best hidden states.

    A tree's score is the log-probability of its most probable derivation with hidden states, which
    the Viterbi decoder maximises. Each tree is listed once, although it has many derivations.
    """
    forest, n = pruned.forest, len(pruned.words)
    start, delta, _ = latent_viterbi(grammar, pruned)
    begin, m = start.astype(np.int64), grammar.n_states[forest.symbol]
    item_of = np.repeat(np.arange(len(m)), m)
    i, j = forest.start.astype(np.int64), forest.end.astype(np.int64)
    scale = pruned.scale[cell(i, j, n)]
    with np.errstate(divide="ignore"):  # weight 0 is log-probability -inf
        best = np.log(delta) + scale[item_of] * np.log(2.0)
        log_root = np.log(grammar.root)
    edges_of = group_rows(forest.head, len(m))

    def by_states(edge: int, h: int) -> Hyperedges:
        children = [int(forest.left[edge]), int(forest.right[edge])]
        with np.errstate(divide="ignore"):
            gain = np.log(grammar.tensor(int(forest.rule[edge]))[h])
        tails = np.indices(gain.shape).reshape(2, -1).T + begin[children]
        return gain.ravel(), tails, np.full(gain.size, edge)

    def incoming(node: int) -> Hyperedges:
        item = int(item_of[node])
        parts = [by_states(edge, node - int(begin[item])) for edge in edges_of[item].tolist()]
        weight, tails, edge = (np.concatenate(part) for part in zip(*parts, strict=True))
        return weight, tails, edge

    nodes = np.concatenate([np.arange(begin[x], begin[x + 1]) for x in pruned.roots])
    state = nodes - begin[item_of[nodes]] + grammar.state_start[forest.symbol[item_of[nodes]]]
    roots = (log_root[state], nodes[:, None], item_of[nodes])
    return _trees(forest, item_of, best, roots, incoming)


# Weights, tails and names of the hyperedges of a node, see `k_best.Edges`.
Hyperedges = tuple[FloatArray, IntArray, IntArray]


def _trees(
    forest: Forest,
    item_of: IntArray,
    best: FloatArray,
    roots: Hyperedges,
    incoming: Callable[[int], Hyperedges],
) -> Generator[Decoded, None, None]:
    """Yield the derivations of a node above all roots, as trees."""
    top, is_leaf = len(item_of), forest.end - forest.start == 1
    symbol, start = forest.symbol.tolist(), forest.start.tolist()

    def edges(node: int) -> Edges:
        if node < top and is_leaf[item_of[node]]:
            return Edges([float(best[node])], [()], [int(item_of[node])])
        return Edges.best_first(*(roots if node == top else incoming(node)), best)

    for score, nodes in k_best(top, edges):
        rows = [(int(item_of[node]), tails or (-1, -1)) for node, tails in nodes[:-1]]
        yield Decoded(score, [(symbol[x], left, right, start[x]) for x, (left, right) in rows])
