"""The k best derivations of a hypergraph, one by one (Huang and Chiang 2005, algorithm 3).

Knows nothing of what is derived. Nobody needs to say how many are wanted, and only what the next
derivation needs is looked at.

Notation
--------
    node    something that is derived, a number
    edge    a way to derive a node from its tails, which are nodes; one without tails is a leaf
    score   of a derivation: the weight of its edge, and the scores of the derivations of its tails
    rank    how many derivations of a node are better
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple, Self

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray


class Edges(NamedTuple):
    """The ways to derive a node, the one with the best derivation first."""

    weight: list[float]  # what each adds itself
    tails: list[tuple[int, ...]] | IntArray  # an array stays one: most rows are never looked at
    # what tells derivations apart: those of the same names, all the way down, count once
    name: list[int]

    @classmethod
    def best_first(
        cls, weight: FloatArray, tails: IntArray, name: IntArray, best: FloatArray
    ) -> Self:
        """Put edges in order, and leave those out that have no derivation.

        Parameters
        ----------
        tails : [n_edges, n_tails]
        best : [n_nodes]
            Score of the best derivation of each node, -inf for none: what a Viterbi pass finds.
        """
        total = weight + sum(best[tail] for tail in tails.T)
        order = np.argsort(-total, kind="stable")
        order = order[total[order] > -np.inf]
        return cls(weight[order].tolist(), tails[order], name[order].tolist())

    def nodes_below(self, edge: int) -> tuple[int, ...] | list[int]:
        """The tails of an edge."""
        row = self.tails[edge]
        return row if isinstance(row, tuple) else row.tolist()


class Derivation(NamedTuple):
    """A derivation, as nodes with the places of their tails; tails before heads, the root last."""

    score: float
    nodes: list[tuple[int, tuple[int, ...]]]


def k_best(root: int, incoming: Callable[[int], Edges]) -> Iterator[Derivation]:
    """The derivations of a node of a hypergraph without cycles, from the best down.

    Parameters
    ----------
    incoming
        The edges of a node; asked once, and only for nodes that are looked at.

    Examples
    --------
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


# A way to derive a node: an edge, then the rank of a derivation of each of its tails.
_Way = tuple[int, ...]


class _Found(NamedTuple):
    """A derivation of a node, and the number of the tree it is."""

    score: float
    tree: int
    way: _Way


class _Node:
    """Derivations of a node found so far, and what may come next.

    Attributes
    ----------
    below
        The tails of the edges that were looked at.
    heap
        Ways that were weighed, each behind its score.
    pending
        Ways that were not.
    """

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.below: dict[int, list[_Node]] = {}
        self.found: list[_Found] = []
        self.trees: set[int] = set()
        self.heap: list[tuple[float, _Way]] = []
        self.offered: set[_Way] = set()
        self.pending: list[_Way] = [(0,) * (1 + len(tails)) for tails in edges.tails[:1]]


class _LazyBest(dict[int, _Node]):
    """The k-th best derivation of every node, found only when asked for.

    Nothing recurses: derivations may be deep.
    """

    def __init__(self, incoming: Callable[[int], Edges]) -> None:
        super().__init__()
        self.incoming = incoming
        self.trees: dict[tuple[int, ...], int] = {}  # numbers of (name, trees below)

    def __missing__(self, node: int) -> _Node:
        """Open a node that nobody has asked for yet."""
        opened = self[node] = _Node(self.incoming(node))
        return opened

    def kth(self, node: _Node, rank: int) -> _Found | None:
        """The derivation of a node with this rank, or None when there are fewer."""
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
        """Weigh the candidates that wait, or tell which nodes and ranks must be known before."""
        weight, known = node.edges.weight, node.below
        waiting: list[_Way] = []
        missing: list[tuple[_Node, int]] = []
        for way in node.pending:
            edge = way[0]
            if edge not in known:
                known[edge] = [self[tail] for tail in node.edges.nodes_below(edge)]
            score, n_missing = weight[edge], len(missing)
            for k, tail in enumerate(known[edge], 1):
                rank, found = way[k], tail.found
                if rank < len(found):
                    score += found[rank][0]
                elif tail.heap or tail.pending:
                    missing.append((tail, rank))
                else:  # it has no more
                    break
            else:
                if len(missing) > n_missing:
                    waiting.append(way)
                else:
                    heapq.heappush(node.heap, (-score, way))
        node.pending = waiting
        return missing

    def _take(self, node: _Node) -> None:
        """Take the best candidate: list its tree unless it is there, and offer what follows it."""
        _, tails, name = node.edges
        score, way = heapq.heappop(node.heap)
        edge = way[0]
        key = [name[edge]]
        following = []
        for k, tail in enumerate(node.below[edge], 1):
            key.append(tail.found[way[k]][1])
            following.append(way[:k] + (way[k] + 1,) + way[k + 1 :])  # noqa: RUF005 - twice as fast
        tree = self.trees.setdefault(tuple(key), len(self.trees))
        if tree not in node.trees:
            node.trees.add(tree)
            node.found.append(_Found(-score, tree, way))
        if edge + 1 < len(tails) and not any(way[1:]):
            following.append((edge + 1, *[0] * len(tails[edge + 1])))
        node.pending = [way for way in following if way not in node.offered]
        node.offered.update(node.pending)

    def nodes(self, root: int, rank: int) -> list[tuple[int, tuple[int, ...]]]:
        """The nodes of a derivation with the places of their tails, tails first."""
        waiting = [(root, rank)]
        drawn: list[tuple[int, range]] = []
        while len(drawn) < len(waiting):
            node, k = waiting[len(drawn)]
            edge, *ranks = self[node].found[k].way
            first = len(waiting)
            waiting += zip(self[node].edges.nodes_below(edge), ranks, strict=True)
            drawn.append((node, range(first, len(waiting))))
        last = len(drawn) - 1
        return [(node, tuple(last - place for place in tails)) for node, tails in reversed(drawn)]
