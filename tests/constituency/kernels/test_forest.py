"""Packed forests against enumeration: which items and edges, their posteriors, the best tree."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference import enumerate as listing
from tests.reference.enumerate import Edge, Node, Span
from tests.toys import Toy, parse_forest, random_toy

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.charts import ForestPosteriors
from sapwood.constituency.parse.kernels.forest import NO_ITEM, backtrace_items, best_derivations

EVERYTHING = 5e-324  # keeps every item of positive posterior
# Sums of a few hundred positive products.
RTOL = 1e-11
WORDS = ["w0", "w1", "w2", "w0"]


def charted(toy: Toy, words: list[str], threshold: float = EVERYTHING) -> ForestPosteriors:
    parsed = parse_forest(toy.grammar(), words, threshold)
    assert parsed is not None
    return parsed


def items_of(parsed: ForestPosteriors) -> list[Span]:
    forest = parsed.pruned.forest
    columns = (forest.symbol.tolist(), forest.start.tolist(), forest.end.tolist())
    return list(zip(*columns, strict=True))


def edges_of(parsed: ForestPosteriors, grammar: LatentGrammar) -> list[Edge]:
    forest = parsed.pruned.forest
    rules = grammar.rules[forest.rule].tolist()
    columns = (rules, forest.start[forest.head], forest.end[forest.left], forest.end[forest.head])
    return [(*rule, int(i), int(k), int(j)) for rule, i, k, j in zip(*columns, strict=True)]


@pytest.mark.parametrize("n_states", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_items_and_edges_carry_the_posteriors_of_enumeration(seed: int, n_states: int) -> None:
    toy = random_toy(np.random.default_rng(seed), n_states=n_states, density=0.5)
    weighted = listing.weighted_trees(*toy.floats(WORDS))
    total = listing.sentence_weight(weighted)
    parsed = charted(toy, WORDS)
    items = dict(zip(items_of(parsed), parsed.items.tolist(), strict=True))
    edges = dict(zip(edges_of(parsed, toy.grammar()), parsed.edges.tolist(), strict=True))
    for found, expected in (
        (items, listing.marginals(weighted)),
        (edges, listing.rule_marginals(weighted)),
    ):
        assert expected.keys() <= found.keys()
        for part, posterior in found.items():
            np.testing.assert_allclose(posterior, expected.get(part, 0) / total, rtol=RTOL, atol=0)
    np.testing.assert_allclose(parsed.log_prob, np.log(total), rtol=0, atol=RTOL)


@pytest.mark.parametrize("threshold", [0.05, 0.3])
def test_pruning_keeps_exactly_the_items_at_or_above_the_threshold(threshold: float) -> None:
    toy = random_toy(np.random.default_rng(1))
    everything, pruned = charted(toy, WORDS), charted(toy, WORDS, threshold)
    kept = {
        item
        for item, posterior in zip(items_of(everything), everything.items, strict=True)
        if posterior >= threshold
    }
    assert set(items_of(pruned)) == kept
    assert 0 < len(kept) < len(items_of(everything))
    grammar = toy.grammar()
    spans = [
        [(a, i, j), (b, i, k), (c, k, j)] for a, b, c, i, k, j in edges_of(everything, grammar)
    ]
    possible = {
        edge
        for edge, parts in zip(edges_of(everything, grammar), spans, strict=True)
        if kept.issuperset(parts)
    }
    assert set(edges_of(pruned, grammar)) == possible


def test_an_item_of_exactly_the_threshold_stays() -> None:
    """Half of the weight is on either split of three words, so both have a posterior of 1/2."""
    rules = dict.fromkeys([(0, 1, 1), (0, 0, 1), (0, 1, 0)], np.ones((1, 1, 1)))
    toy = Toy(1, [1, 1], {0: np.ones(1)}, rules, {"w0": {1: np.ones(1)}})
    half = charted(toy, ["w0"] * 3, 0.5)
    assert len(half.pruned.forest.symbol) == 6
    assert len(half.pruned.forest.head) == 4
    more = charted(toy, ["w0"] * 3, np.nextafter(0.5, 1.0))
    assert len(more.pruned.forest.symbol) == 4


def test_of_equal_edges_the_first_is_chosen() -> None:
    rules = dict.fromkeys([(0, 1, 1), (0, 0, 1), (0, 1, 0)], np.ones((1, 1, 1)))
    toy = Toy(1, [1, 1], {0: np.ones(1)}, rules, {"w0": {1: np.ones(1)}})
    parsed = charted(toy, ["w0"] * 5)
    forest = parsed.pruned.forest
    _, choice = best_derivations(forest, np.zeros(len(parsed.items)), np.zeros(len(parsed.edges)))
    for item in np.flatnonzero(choice != NO_ITEM):
        assert choice[item] == np.flatnonzero(forest.head == item)[0]


def test_more_edges_than_fit_at_first_are_all_kept() -> None:
    toy = random_toy(np.random.default_rng(5), n_phrases=3, n_tags=3, density=1.0)
    words = ["w0", "w1", "w2", "w0", "w1", "w2"]
    parsed = charted(toy, words)
    edges = edges_of(parsed, toy.grammar())
    assert len(edges) > 512  # room for 256 has been doubled twice
    places = {(*span[1:],): set() for span in items_of(parsed)}
    for a, i, j in items_of(parsed):
        places[i, j].add(a)
    expected = {
        (a, b, c, i, k, j)
        for i, j in places
        for k in range(i + 1, j)
        for a, b, c in toy.rules
        if a in places[i, j] and b in places[i, k] and c in places[k, j]
    }
    assert len(edges) == len(set(edges))
    assert set(edges) == expected


def test_rules_of_weight_0_join_nothing() -> None:
    """P0 -> T P0 has weight 0; a P0 over the last two words is there all the same, below P1."""
    weights = {(0, 2, 2): 1.0, (0, 0, 2): 1.0, (0, 2, 0): 0.0, (1, 2, 0): 1.0}
    rules = {rule: np.full((1, 1, 1), w) for rule, w in weights.items()}
    toy = Toy(2, [1, 1, 1], {0: np.ones(1), 1: np.ones(1)}, rules, {"w0": {2: np.ones(1)}})
    grammar, parsed = toy.grammar(), charted(toy, ["w0"] * 3)
    assert {(0, 0, 3), (1, 0, 3), (0, 1, 3)} <= set(items_of(parsed))
    assert [edge for edge in edges_of(parsed, grammar) if edge[:3] == (0, 2, 0)] == []


def test_plain_edges_of_words_with_very_different_weights() -> None:
    """Each word has a power of two of its own."""
    toy = random_toy(np.random.default_rng(6), density=0.5)
    for word, size in (("w0", 1e-9), ("w1", 1e5), ("w2", 1e-40)):
        toy.words[word] = {tag: vector * size for tag, vector in toy.words[word].items()}
    weighted = listing.weighted_trees(*toy.floats(WORDS))
    total, expected = listing.sentence_weight(weighted), listing.rule_marginals(weighted)
    parsed = charted(toy, WORDS)
    for edge, posterior in zip(edges_of(parsed, toy.grammar()), parsed.edges, strict=True):
        np.testing.assert_allclose(posterior, expected.get(edge, 0) / total, rtol=RTOL)


def test_children_stand_before_their_parents() -> None:
    parsed = charted(random_toy(np.random.default_rng(0)), ["w0"] * 6)
    forest = parsed.pruned.forest
    width = (forest.end - forest.start).astype(int)
    assert (np.diff(width) >= 0).all()
    assert (np.diff(width[forest.head]) >= 0).all()
    assert (np.maximum(forest.left, forest.right) < forest.head).all()


def gain_of(tree: Node, items: dict[Span, float], edges: dict[Edge, float]) -> float:
    return sum(items[span] for span in listing.spans(tree)) + sum(
        edges[edge] for edge in listing.edges(tree)
    )


@pytest.mark.parametrize("seed", range(5))
def test_best_derivation_has_the_highest_gain_of_all_trees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, density=0.4)
    grammar, parsed = toy.grammar(), charted(toy, WORDS)
    forest = parsed.pruned.forest
    item_gain, edge_gain = rng.normal(size=len(forest.symbol)), rng.normal(size=len(forest.head))
    items = dict(zip(items_of(parsed), item_gain.tolist(), strict=True))
    edges = dict(zip(edges_of(parsed, grammar), edge_gain.tolist(), strict=True))
    best, choice = best_derivations(forest, item_gain, edge_gain)
    trees = [tree for tree, _ in listing.weighted_trees(*toy.floats(WORDS))]
    for root in parsed.pruned.roots.tolist():
        mine = [tree for tree in trees if tree.symbol == forest.symbol[root]]
        highest = max(mine, key=lambda tree: gain_of(tree, items, edges))
        np.testing.assert_allclose(best[root], gain_of(highest, items, edges), rtol=RTOL)
        chosen, _, _ = backtrace_items(forest, choice, root)
        assert {items_of(parsed)[item] for item in chosen} == set(listing.spans(highest))


def test_following_lists_children_before_parents() -> None:
    parsed = charted(random_toy(np.random.default_rng(3)), ["w0"] * 5)
    forest = parsed.pruned.forest
    _, choice = best_derivations(forest, parsed.items, parsed.edges)
    item, left, right = backtrace_items(forest, choice, int(parsed.pruned.roots[0]))
    assert len(item) == 9
    assert item[-1] == parsed.pruned.roots[0]
    for place in range(len(item)):
        if forest.end[item[place]] - forest.start[item[place]] == 1:
            assert left[place] == right[place] == -1
            continue
        assert 0 <= left[place] < place
        assert 0 <= right[place] < place
        assert forest.end[item[left[place]]] == forest.start[item[right[place]]]


def test_what_nothing_builds_has_no_derivation() -> None:
    """Pruned to a single wide item, no tree is left, and the gain says so."""
    toy = random_toy(np.random.default_rng(1))
    parsed = charted(toy, WORDS, 0.3)
    forest = parsed.pruned.forest
    best, choice = best_derivations(forest, parsed.items, np.zeros(len(forest.head)))
    unbuilt = np.setdiff1d(np.flatnonzero(forest.end - forest.start > 1), forest.head)
    assert (best[unbuilt] == -np.inf).all()
    assert (choice[unbuilt] == NO_ITEM).all()


def test_a_sentence_without_parse_has_no_forest() -> None:
    toy = random_toy(np.random.default_rng(0))
    toy.rules = {(0, 2, 3): np.ones((1, 1, 1))}
    toy.words = {"w0": {2: np.ones(1)}}
    assert parse_forest(toy.grammar(), ["w0", "w0"], EVERYTHING) is None
