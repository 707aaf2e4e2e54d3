"""The k best derivations of any hypergraph, against all of them, listed one by one."""

from __future__ import annotations

from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.constituency.parse.k_best import Derivation, Edges, k_best

Graph = list[list[tuple[float, tuple[int, ...], int]]]  # of each node: weight, tails, name
MOST = 3000  # derivations that are listed

# Whole numbers add up exactly in any order, so that ties are ties; -inf is an edge never to use.
WEIGHTS = st.one_of(st.integers(-3, 3).map(float), st.just(-np.inf))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes in order: tails come before their heads. Names repeat, and so do whole edges."""
    graph: Graph = []
    for node in range(draw(st.integers(1, 6))):
        tails = st.lists(st.integers(0, node - 1), max_size=3) if node else st.just([])
        edge = st.tuples(WEIGHTS, tails.map(tuple), st.integers(0, 3))
        graph.append(draw(st.lists(edge, max_size=4)))
    return graph


def best_of(graph: Graph) -> np.ndarray:
    """Score of the best derivation of each node."""
    best = np.full(len(graph), -np.inf)
    for node, edges in enumerate(graph):
        totals = [weight + sum(best[list(tails)]) for weight, tails, _ in edges]
        best[node] = max(totals, default=-np.inf)
    return best


def in_order(graph: Graph, node: int) -> Edges:
    """The edges of a node, best first."""
    best = best_of(graph)
    totals = [
        (weight + sum(best[list(tails)]), k) for k, (weight, tails, _) in enumerate(graph[node])
    ]
    kept = [
        graph[node][k] for total, k in sorted(totals, key=lambda row: -row[0]) if total > -np.inf
    ]
    return (
        Edges(*(list(column) for column in zip(*kept, strict=True))) if kept else Edges([], [], [])
    )


def all_trees(graph: Graph) -> dict[Any, float]:
    """Best score of every tree of the last node; a tree is a name and the trees below."""
    trees: list[dict[Any, float]] = []
    for edges in graph:
        here: dict[Any, float] = {}
        for weight, tails, name in edges:
            for below in product(*(trees[tail].items() for tail in tails)):
                score = weight + sum(score for _, score in below)
                tree = (name, *(tree for tree, _ in below))
                if score > here.get(tree, -np.inf):
                    here[tree] = score
        trees.append(here)
        if len(here) > MOST:
            pytest.skip("more derivations than can be listed")
    return trees[-1]


def possible_scores(graph: Graph, found: Derivation) -> set[float]:
    """Scores that the nodes of a derivation allow: several edges may have the same tails."""
    scores: list[set[float]] = []
    for node, places in found.nodes:
        tails = tuple(found.nodes[place][0] for place in places)
        weights = {weight for weight, row, _ in graph[node] if row == tails}
        below = product(*(scores[place] for place in places))  # tails stand first
        scores.append({weight + sum(row) for weight, row in product(weights, below)})
    return scores[-1]


@settings(max_examples=300)
@given(graphs())
def test_all_trees_come_once_from_the_best_down(graph: Graph) -> None:
    n_trees = 1
    for edges in graph:  # a bound, so that nothing is listed for minutes
        n_trees = sum(n_trees ** len(tails) for _, tails, _ in edges) + 1
        if n_trees > MOST:
            return
    expected = all_trees(graph)
    root = len(graph) - 1
    found = list(k_best(root, lambda node: in_order(graph, node)))
    assert [score for score, _ in found] == sorted(expected.values(), reverse=True)
    for derivation in found:
        assert derivation.nodes[-1][0] == root
        assert derivation.score in possible_scores(graph, derivation)


@given(st.integers(0, 10_000))
def test_arrays_are_put_in_the_same_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_nodes, n = int(rng.integers(1, 6)), int(rng.integers(0, 8))
    best = np.where(rng.random(n_nodes) < 0.2, -np.inf, rng.integers(-3, 3, n_nodes))
    weight, name = rng.integers(-3, 3, n).astype(float), np.arange(n)
    tails = rng.integers(0, n_nodes, (n, 2))
    edges = Edges.best_first(weight, tails, name, best)
    totals = weight + best[tails[:, 0]] + best[tails[:, 1]]
    assert edges.name == sorted(np.flatnonzero(totals > -np.inf), key=lambda k: (-totals[k], k))
    found = [edges.nodes_below(place) for place in range(len(edges.name))]
    assert found == [tails[k].tolist() for k in edges.name]
    assert edges.weight == [weight[k] for k in edges.name]


def test_only_what_is_needed_is_looked_at() -> None:
    """A long chain of choices: the first derivations open the best edge of each node alone."""
    n, asked = 50, []

    def incoming(node: int) -> Edges:
        asked.append(node)
        if node < 2:
            return Edges([0.0], [()], [node])
        good, bad = 2 * (node // 2) - 2, 2 * (node // 2) - 1
        return Edges([0.0, -1.0], [(good,), (bad,)], [0, 1])

    best = next(k_best(2 * n, incoming))
    assert best.score == 0.0
    assert len(best.nodes) == n + 1
    assert len(asked) == len(set(asked)) == n + 1


def test_deep_derivations_do_not_recurse() -> None:
    def incoming(node: int) -> Edges:
        if node == 0:
            return Edges([0.0], [()], [0])
        return Edges([-1.0, -2.0], [(node - 1,)] * 2, [1, 2])

    found = list(islice(k_best(5000, incoming), 3))
    assert [score for score, _ in found] == [-5000.0, -5001.0, -5001.0]
    assert len(found[0].nodes) == 5001


def test_there_may_be_nothing() -> None:
    assert list(k_best(0, lambda _: Edges([], [], []))) == []
