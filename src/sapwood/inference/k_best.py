"""The next best trees of a forest (Huang and Chiang 2005, algorithm 3).

Notation
--------
    vertex   an item of a forest, or, for a latent grammar, an item in one of its states
    arc      a way to build a vertex from two others
    rank     how many trees of a vertex are better
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import cell, group_rows
from sapwood.inference.decoders import Decoded, Gains, Nodes, best_states

if TYPE_CHECKING:
    from sapwood.inference.charts import ParseForest
    from sapwood.kernels.forest import Forest

FloatArray = npt.NDArray[np.float64]


def k_best_trees(parsed: ParseForest, gains: Gains) -> Iterator[Decoded]:
    """Trees of a forest from the best down."""
    from sapwood.kernels.forest import best_derivations

    forest = parsed.forest
    best, _ = best_derivations(forest, gains.items, gains.edges)
    edges_of = group_rows(forest.head, len(forest.symbol))

    def arcs(item: int) -> _Arcs:
        edges = edges_of[item]
        left, right = forest.left[edges], forest.right[edges]
        gain = gains.items[item] + gains.edges[edges]
        return _Arcs.sorted(gain, best[left] + best[right], edges, left, right)

    lazy = _LazyBest(forest, np.arange(len(forest.symbol)), best, arcs)
    roots = zip(parsed.roots.tolist(), gains.roots.tolist(), strict=True)
    return lazy.from_roots(list(roots))


def k_best_derivations(parsed: ParseForest) -> Iterator[Decoded]:
    """Trees of a latent grammar's forest from the best down, each with its best hidden states.

    A tree's score is the log-probability of its likeliest derivation, states included: what the
    Viterbi decoder maximises. Each pair of item and state lists its trees once, whatever the states
    below, so that the many derivations of one tree do not stand between it and the next.
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

    def by_states(edge: int, h: int) -> tuple[npt.NDArray[Any], ...]:
        children = [int(forest.left[edge]), int(forest.right[edge])]
        with np.errstate(divide="ignore"):
            gain = np.log(grammar.tensor(int(forest.rule[edge]))[h])
        left, right = np.indices(gain.shape).reshape(2, -1) + begin[children][:, None]
        return gain.ravel(), best[left] + best[right], np.full(gain.size, edge), left, right

    def arcs(vertex: int) -> _Arcs:
        item = int(item_of[vertex])
        parts = [by_states(edge, vertex - int(begin[item])) for edge in edges_of[item].tolist()]
        return _Arcs.sorted(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    lazy = _LazyBest(forest, item_of, best, arcs)
    return lazy.from_roots(
        [
            (int(begin[x]) + h, float(log_root[grammar.state_start[forest.symbol[x]] + h]))
            for x in parsed.roots.tolist()
            for h in range(int(m[x]))
        ]
    )


class _Arcs(NamedTuple):
    """Ways to build a vertex from two others, best first; what each adds itself is its gain."""

    gain: list[float]
    edge: list[int]
    left: list[int]
    right: list[int]

    @classmethod
    def sorted(
        cls,
        gain: FloatArray,
        below: FloatArray,
        *columns: npt.NDArray[Any],
    ) -> _Arcs:
        """Sort arcs by their gain and what the best of both vertices below add."""
        total = gain + below
        order = np.argsort(-total, kind="stable")
        order = order[total[order] > -np.inf]
        return cls(gain[order].tolist(), *(column[order].tolist() for column in columns))


class _Found(NamedTuple):
    """A derivation of a vertex: its arc, the ranks of the two below, and the tree it is."""

    score: float
    arc: int
    p: int
    q: int
    tree: int


class _Vertex:
    """Derivations of a vertex found so far, and what may come next."""

    def __init__(self, arcs: _Arcs) -> None:
        self.arcs = arcs
        self.found: list[_Found] = []
        self.trees: set[int] = set()
        self.heap: list[tuple[float, int, int, int]] = []
        self.offered: set[tuple[int, int, int]] = set()
        self.pending: list[tuple[int, int, int]] = [(0, 0, 0)] if arcs.gain else []


class _LazyBest(dict[int, _Vertex]):
    """The k-th best tree of every vertex, found only when asked for.

    A vertex is an item, or an item in one of its states. Nothing recurses: trees may be deep.
    """

    def __init__(
        self,
        forest: Forest,
        item_of: npt.NDArray[np.int64],
        best: FloatArray,
        arcs: Callable[[int], _Arcs],
    ) -> None:
        super().__init__()
        self.forest, self.item_of, self.best, self.arcs = forest, item_of, best, arcs
        self.trees: dict[tuple[int, int, int], int] = {}  # (edge, trees below) or (item, -1, -1)

    def from_roots(self, roots: Sequence[tuple[int, float]]) -> Iterator[Decoded]:
        """Trees of vertices that may be the root, each with its own gain, from the best down."""
        heap = [(-(self.best[v] + gain), v, 0, gain) for v, gain in roots]
        heap = [row for row in heap if row[0] < np.inf]
        heapq.heapify(heap)
        while heap:
            score, vertex, rank, gain = heapq.heappop(heap)
            if self._kth(vertex, rank) is None:
                continue
            yield Decoded(-score, self._nodes(vertex, rank))
            following = self._kth(vertex, rank + 1)
            if following is not None:
                heapq.heappush(heap, (-(following.score + gain), vertex, rank + 1, gain))

    def _kth(self, vertex: int, rank: int) -> _Found | None:
        """The derivation of a vertex with this rank, or None when there are fewer."""
        waiting = [(vertex, rank)]
        while waiting:
            at, wanted = waiting[-1]
            state = self[at]
            if len(state.found) > wanted or not (state.heap or state.pending):
                waiting.pop()
                continue
            missing = self._missing(state)
            waiting += missing
            if not missing:
                self._advance(state)
        found = self[vertex].found
        return found[rank] if rank < len(found) else None

    def __missing__(self, vertex: int) -> _Vertex:
        """Open a vertex that nobody has asked for yet."""
        item = int(self.item_of[vertex])
        if self.forest.end[item] - self.forest.start[item] > 1:
            opened = _Vertex(self.arcs(vertex))
        else:
            opened = _Vertex(_Arcs([], [], [], []))
            tree = self._number(item, -1, -1)
            opened.found.append(_Found(float(self.best[vertex]), -1, 0, 0, tree))
        self[vertex] = opened
        return opened

    def _missing(self, state: _Vertex) -> list[tuple[int, int]]:
        """Vertices and ranks that must be known before the waiting candidates can be weighed."""
        left, right = state.arcs.left, state.arcs.right
        return [
            (vertex, rank)
            for arc, p, q in state.pending
            for vertex, rank in ((left[arc], p), (right[arc], q))
            if len((below := self[vertex]).found) <= rank and (below.heap or below.pending)
        ]

    def _advance(self, state: _Vertex) -> None:
        """Weigh the candidates that wait and take the best; list its tree unless it is there."""
        arcs = state.arcs
        for arc, p, q in state.pending:
            left, right = self[arcs.left[arc]].found, self[arcs.right[arc]].found
            if p < len(left) and q < len(right):
                score = arcs.gain[arc] + left[p].score + right[q].score
                heapq.heappush(state.heap, (-score, arc, p, q))
        state.pending = []
        if not state.heap:
            return
        score, arc, p, q = heapq.heappop(state.heap)
        below = (self[arcs.left[arc]].found[p].tree, self[arcs.right[arc]].found[q].tree)
        tree = self._number(arcs.edge[arc], *below)
        if tree not in state.trees:
            state.trees.add(tree)
            state.found.append(_Found(-score, arc, p, q, tree))
        following = [(arc, p + 1, q), (arc, p, q + 1)]
        if p == q == 0 and arc + 1 < len(arcs.gain):
            following.append((arc + 1, 0, 0))
        state.pending = [row for row in following if row not in state.offered]
        state.offered.update(state.pending)

    def _number(self, edge: int, left: int, right: int) -> int:
        return self.trees.setdefault((edge, left, right), len(self.trees))

    def _nodes(self, root: int, rank: int) -> Nodes:
        """The nodes of a derivation, children before parents."""
        symbol, start = self.forest.symbol, self.forest.start
        waiting = [(root, rank)]
        drawn: Nodes = []
        at = 0
        while at < len(waiting):
            vertex, k = waiting[at]
            at += 1
            state, item = self[vertex], int(self.item_of[vertex])
            _, arc, p, q, _ = state.found[k]
            if arc < 0:
                drawn.append((int(symbol[item]), -1, -1, int(start[item])))
            else:
                drawn.append((int(symbol[item]), len(waiting), len(waiting) + 1, int(start[item])))
                waiting += [(state.arcs.left[arc], p), (state.arcs.right[arc], q)]
        last = len(drawn) - 1
        return [
            (a, last - b if b >= 0 else -1, last - c if c >= 0 else -1, i)
            for a, b, c, i in reversed(drawn)
        ]
