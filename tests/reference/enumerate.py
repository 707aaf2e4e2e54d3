"""Every derivation of a short sentence, one by one (up to about six words).

Notation
--------
    tau        a labelled binary tree, without states         p(tau)   its weight, states summed out
    mu(a,i,j)  weight of all trees with the node (a, i, j)     Z        weight of all trees

    root[a]            weights of symbol a at the root, one number per state
    rules[a, b, c]     tensor [m(a)][m(b)][m(c)] of the rule a -> b c, as nested sequences
    emissions[i][t]    weights with which tag t emits the word at position i, one number per state

The modules of this folder are slow, obvious twins of the kernels: what the fast code is checked
against. Grammars are plain Python data and any numbers will do: with `fractions.Fraction` all
results are exact, whatever the size of the weights. Nothing of Sapwood but the types of arrays is
imported here, so a mistake in the library cannot repeat itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import product
from math import inf, log
from typing import Any, NamedTuple

Symbol = Hashable
Number = Any  # int, float or Fraction
Vector = Sequence[Number]
Root = Mapping[Any, Vector]
Rules = Mapping[tuple[Any, Any, Any], Any]
Emissions = Sequence[Mapping[Any, Vector]]
Span = tuple[Any, int, int]  # (a, i, j)
Edge = tuple[Any, Any, Any, int, int, int]  # (a, b, c, i, k, j)


class Node(NamedTuple):
    """A labelled node over the words [start, end); a leaf has no children."""

    symbol: Any
    start: int
    end: int
    children: tuple[Node, ...] = ()


Weighted = list[tuple[Node, Number]]


def all_trees(rules: Rules, emissions: Emissions) -> list[Node]:
    """Every tree over the whole sentence, whatever its root symbol and whatever its weight."""
    return _trees(rules, emissions, 0, len(emissions))


def _trees(rules: Rules, emissions: Emissions, i: int, j: int) -> list[Node]:
    if j - i == 1:
        return [Node(tag, i, j) for tag in emissions[i]]
    out = []
    for k in range(i + 1, j):
        lefts, rights = _trees(rules, emissions, i, k), _trees(rules, emissions, k, j)
        for left, right in product(lefts, rights):
            for a, b, c in rules:
                if (b, c) == (left.symbol, right.symbol):
                    out.append(Node(a, i, j, (left, right)))
    return out


def nodes(tree: Node) -> Iterator[Node]:
    """All nodes, parents before children."""
    yield tree
    for child in tree.children:
        yield from nodes(child)


def spans(tree: Node) -> list[Span]:
    """Every node as (a, i, j)."""
    return [(node.symbol, node.start, node.end) for node in nodes(tree)]


def edges(tree: Node) -> list[Edge]:
    """Every rule of a tree with its place, as (a, b, c, i, k, j)."""
    return [
        (node.symbol, node.children[0].symbol, node.children[1].symbol,
         node.start, node.children[0].end, node.end)
        for node in nodes(tree)
        if node.children
    ]  # fmt: skip


def tree_vector(tree: Node, rules: Rules, emissions: Emissions) -> list[Number]:
    """Weight of a tree for each state of its root symbol (SPECTRAL, Figures 2 and 4).

    f[leaf] = c_inf[tag -> word]
    f[node][h] = sum over p, q of  C[h][p][q] f[left][p] f[right][q]
    """
    if not tree.children:
        return list(emissions[tree.start][tree.symbol])
    left, right = (tree_vector(child, rules, emissions) for child in tree.children)
    tensor = rules[tree.symbol, tree.children[0].symbol, tree.children[1].symbol]
    return [
        sum(
            tensor[h][p][q] * left[p] * right[q]
            for p, q in product(range(len(left)), range(len(right)))
        )
        for h in range(len(tensor))
    ]


def tree_weight(tree: Node, root: Root, rules: Rules, emissions: Emissions) -> Number:
    """p(tau) = c_1[root symbol] . f[root]; 0 for a symbol that may not be the root."""
    if tree.symbol not in root:
        return 0
    vector = tree_vector(tree, rules, emissions)
    return sum(w * f for w, f in zip(root[tree.symbol], vector, strict=True))


def weighted_trees(root: Root, rules: Rules, emissions: Emissions) -> Weighted:
    """Every tree of the sentence whose weight is not 0, with its weight."""
    trees = all_trees(rules, emissions)
    weighted = [(tree, tree_weight(tree, root, rules, emissions)) for tree in trees]
    return [(tree, weight) for tree, weight in weighted if weight != 0]


def sentence_weight(weighted: Weighted) -> Number:
    """Z = sum of p(tau)."""
    return sum(weight for _, weight in weighted)


def weights_by(weighted: Weighted, image: Callable[[Node], Hashable]) -> dict[Any, Number]:
    """Weight of every image of a tree: the sum of p(tau) over the trees that it is the image of.

    With the image that people see (annotations cut, intermediate symbols gone), this is what a
    tree weighs when all of its derivations count.
    """
    return _collect(weighted, lambda tree: [image(tree)])


def marginals(weighted: Weighted) -> dict[Span, Number]:
    """mu(a, i, j) = sum of p(tau) over the trees that contain (a, i, j)."""
    return _collect(weighted, spans)


def rule_marginals(weighted: Weighted) -> dict[Edge, Number]:
    """Sum of p(tau) over the trees that contain a rule at one place."""
    return _collect(weighted, edges)


def _collect(weighted: Weighted, parts: Callable[[Node], list[Any]]) -> dict[Any, Number]:
    out: dict[Any, Number] = defaultdict(int)
    for tree, weight in weighted:
        for part in parts(tree):  # no labelled span or rule occurs twice in one tree
            out[part] += weight
    return dict(out)


def best_tree(weighted: Weighted) -> tuple[Node, Number]:
    """The tree of largest p(tau), states summed out; the first one of equals."""
    return max(weighted, key=lambda pair: pair[1])


def best_derivation(
    root: Root, rules: Rules, emissions: Emissions
) -> tuple[Node | None, tuple[int, ...], Number]:
    """The tree and states of largest weight, found by trying all states of all nodes of all trees.

    The states stand in the order of `nodes`. Weights must not be negative.
    """
    best: tuple[Node | None, tuple[int, ...], Number] = (None, (), 0)
    for tree in all_trees(rules, emissions):
        if tree.symbol not in root:
            continue
        for states, weight in derivations(tree, root, rules, emissions):
            if weight > best[2]:
                best = (tree, states, weight)
    return best


def derivations(
    tree: Node, root: Root, rules: Rules, emissions: Emissions
) -> Iterator[tuple[tuple[int, ...], Number]]:
    """Every assignment of states to the nodes of a tree, with its weight.

    w = root[h of the root] * product of C[h][p][q] over rules * product of c_inf[h] over leaves
    """
    order = list(nodes(tree))
    place = {id(node): index for index, node in enumerate(order)}
    sizes = [_n_states(node, rules, emissions) for node in order]
    for states in product(*(range(m) for m in sizes)):
        weight = root[tree.symbol][states[0]]
        for node, h in zip(order, states, strict=True):
            if node.children:
                left, right = node.children
                tensor = rules[node.symbol, left.symbol, right.symbol]
                weight = weight * tensor[h][states[place[id(left)]]][states[place[id(right)]]]
            else:
                weight = weight * emissions[node.start][node.symbol][h]
        yield states, weight


def _n_states(node: Node, rules: Rules, emissions: Emissions) -> int:
    if not node.children:
        return len(emissions[node.start][node.symbol])
    return len(rules[node.symbol, node.children[0].symbol, node.children[1].symbol])


def goodman_score(tree: Node, weighted: Weighted) -> Number:
    """Expected number of correct labelled spans: the sum of mu(a, i, j) / Z over a tree's nodes."""
    mu, total = marginals(weighted), sentence_weight(weighted)
    return sum(mu.get(span, 0) for span in spans(tree)) / total


def max_rule_score(tree: Node, weighted: Weighted) -> float:
    """Sum of log posteriors of the root, of the rules at their places and of the tags of a tree."""
    mu, rho, total = marginals(weighted), rule_marginals(weighted), sentence_weight(weighted)
    tags = [(node.symbol, node.start, node.end) for node in nodes(tree) if not node.children]
    parts = [mu.get(span, 0) for span in [spans(tree)[0], *tags]]
    parts += [rho.get(edge, 0) for edge in edges(tree)]
    return sum(log(part / total) if part > 0 else -inf for part in parts)


def best_by(
    score: Callable[[Node, Weighted], Number], trees: Sequence[Node], weighted: Weighted
) -> tuple[Node, Number]:
    """The tree of the highest score among the given ones; the first one of equals."""
    scored = [(tree, score(tree, weighted)) for tree in trees]
    return max(scored, key=lambda pair: pair[1])
