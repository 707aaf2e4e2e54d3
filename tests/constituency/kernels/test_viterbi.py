"""The best derivation against enumeration and the dictionary chart; the k best ones in order."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from math import log

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.reference import charts
from tests.reference import enumerate as listing
from tests.toys import (
    EXTREME,
    ORDINARY,
    Toy,
    exact_log,
    parse_forest,
    plain_toys,
    random_toy,
    sentences,
    tree_of,
)

from sapwood.constituency.parse.charts import leaf_vectors, tag_weights
from sapwood.constituency.parse.decoders import goodman_gains, max_rule_gains, viterbi_tree
from sapwood.constituency.parse.k_best import next_derivations, next_trees
from sapwood.constituency.parse.kernels.coarse import cell_of
from sapwood.constituency.parse.kernels.viterbi import best_states, best_weights
from sapwood.constituency.parse.parser import Parser
from sapwood.constituency.parse.prepared import prepare

EVERYTHING = 5e-324
# A derivation of seven words is a product of twenty numbers.
RTOL = 1e-13


def check_best(toy: Toy, words: list[str]) -> None:
    root, rules, emissions = toy.exactly(words)
    n = len(words)
    delta = charts.viterbi(rules, emissions)
    tops = [w[0] * delta[a, 0, n][0] for a, w in root.items() if (a, 0, n) in delta]
    best = max(tops, default=0)
    parse = Parser(toy.grammar(), decoder="viterbi").parse(words)
    assert parse.is_fallback == (best == 0)
    if best:
        np.testing.assert_allclose(parse.log_prob, exact_log(best), rtol=1e-12, atol=1e-11)


@settings(max_examples=60)
@given(plain_toys(ORDINARY[:-2]).flatmap(lambda t: st.tuples(st.just(t), sentences(t, most=7))))
def test_plain_viterbi_finds_the_best_derivation(case: tuple[Toy, list[str]]) -> None:
    check_best(*case)


@settings(max_examples=40)
@given(plain_toys(EXTREME).flatmap(lambda t: st.tuples(st.just(t), sentences(t, most=4))))
def test_plain_viterbi_weights_of_any_size(case: tuple[Toy, list[str]]) -> None:
    toy, words = case
    _, rules, emissions = toy.exactly(words)
    prepared = prepare(toy.grammar())
    delta, scale = best_weights(prepared.plain.rules, tag_weights(prepared, words))
    exact = charts.viterbi(rules, emissions)
    n = len(words)
    values = {(a, n): (value, exact.get((a, 0, n), [0])[0]) for a, value in enumerate(delta[n - 1])}
    largest = max((value for _, value in values.values()), default=0)
    # One span shares one power of two: weights far below its largest may be lost.
    assume(all(v == 0 or v > largest * 10**-280 for v in (v for (v,) in exact.values())))
    # So do the tags of a word, and a tree multiplies those of four words at most.
    for row in emissions:
        weights = [v for (v,) in row.values() if v]
        assume(not weights or min(weights) > max(weights) * 10**-70)
    for value, expected in values.values():
        found = log(value) + float(scale[n - 1]) * log(2.0) if value else -np.inf
        np.testing.assert_allclose(found, exact_log(expected), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("exponent", [-1010, -1040, -1060])
def test_weights_around_the_least_normal_number(exponent: int) -> None:
    """Scaling them to 1 takes the largest powers of two, or more than these."""
    toy = Toy(1, [1, 1], {0: np.ones(1)}, {}, {"w0": {1: np.ones(1)}})
    toy.rules = {(0, 1, 0): np.full((1, 1, 1), 0.5), (0, 1, 1): np.full((1, 1, 1), 2.0**exponent)}
    for n in (2, 3, 5):
        parse = Parser(toy.grammar(), decoder="viterbi").parse(["w0"] * n)
        np.testing.assert_allclose(parse.log_prob, (exponent - (n - 2)) * log(2.0), rtol=1e-14)
        prepared = prepare(toy.grammar())
        delta, scale = best_weights(prepared.plain.rules, tag_weights(prepared, ["w0"] * n))
        assert log(delta[n - 1, 0]) + scale[n - 1] * log(2.0) == pytest.approx(parse.log_prob)


@pytest.mark.parametrize("n", [2, 4, 5, 7])
def test_best_weight_of_every_span(n: int) -> None:
    for seed in range(3):
        toy, words = random_toy(np.random.default_rng(seed)), [f"w{x % 3}" for x in range(n)]
        for rule in toy.rules:  # let pairs of phrases win, so that every split matters
            toy.rules[rule] *= 9.0 if max(rule[1:]) < toy.n_phrases else 1.0
        prepared = prepare(toy.grammar())
        delta, scale = best_weights(prepared.plain.rules, tag_weights(prepared, words))
        _, rules, emissions = toy.floats(words)
        for (a, i, j), (expected,) in charts.viterbi(rules, emissions).items():
            if j - i > 1:
                cell = int(cell_of(i, j, n))
                found = delta[cell, a] * 2.0 ** int(scale[cell])
                np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_viterbi_tree_is_the_best_of_all_trees(seed: int) -> None:
    """Trees of the same rules in another order weigh the same; any of them will do."""
    toy = random_toy(np.random.default_rng(seed), density=0.5)
    words = ["w0", "w1", "w2", "w0"]
    weighted = listing.weighted_trees(*toy.floats(words))
    _, weight = listing.best_tree(weighted)
    best = [tree for tree, w in weighted if w > weight * (1 - RTOL)]
    parse = Parser(toy.grammar(), decoder="viterbi", threshold=0.0, beam=0.0).parse(words)
    assert parse.tree in [tree_of(tree, words, toy.n_phrases) for tree in best]
    np.testing.assert_allclose(parse.log_prob, log(weight), rtol=RTOL, atol=RTOL)


@pytest.mark.parametrize("seed", range(6))
def test_latent_viterbi_tree_is_that_of_the_best_derivation_with_states(seed: int) -> None:
    toy = random_toy(np.random.default_rng(seed), n_states=2, density=0.3).normalised()
    words, grammar = ["w0", "w1", "w2"], toy.grammar(is_probabilistic=True)
    root, rules, emissions = toy.floats(words)
    _, _, weight = listing.best_derivation(root, rules, emissions)
    best = [
        tree_of(tree, words, toy.n_phrases)
        for tree in listing.all_trees(rules, emissions)
        if tree.symbol in root
        and max(w for _, w in listing.derivations(tree, *toy.floats(words))) > weight * (1 - RTOL)
    ]
    parse = Parser(grammar, decoder="viterbi", threshold=0.0, beam=0.0).parse(words)
    assert len(best) < 4
    assert parse.tree in best


def unequal_toy(seed: int) -> Toy:
    """Probabilities, with another number of states for every symbol."""
    rng = np.random.default_rng(seed)
    m = [3, 2, 4, 1, 5]
    toy = random_toy(rng, n_phrases=3, n_tags=2, density=0.5)
    toy.n_states = m
    toy.root = {a: rng.dirichlet(np.ones(m[a])) for a in toy.root}
    toy.rules = {rule: rng.gamma(0.3, size=[m[x] for x in rule]) for rule in toy.rules}
    for row in toy.words.values():
        row.update({t: rng.gamma(0.3, size=m[t]) for t in row})
    return toy.normalised()


@pytest.mark.parametrize("seed", range(5))
def test_best_derivation_of_every_item_and_state(seed: int) -> None:
    toy, words = unequal_toy(seed), ["w0", "w1", "w2", "w0", "w1"]
    grammar = toy.grammar(is_probabilistic=True)
    parsed = parse_forest(grammar, words, EVERYTHING)
    assert parsed is not None
    forest, scale = parsed.pruned.forest, parsed.pruned.scale
    start, delta = leaf_vectors(grammar, parsed.pruned)
    choice, tensor_start = np.zeros(len(delta), np.uint32), grammar.tensor_start.astype(np.uint64)
    best_states(forest, len(words), scale, start, tensor_start, grammar.rule_weights, delta, choice)
    _, rules, emissions = toy.floats(words)
    expected = charts.viterbi(rules, emissions)
    for item in range(len(forest.symbol)):
        i, j = int(forest.start[item]), int(forest.end[item])
        found = delta[int(start[item]) : int(start[item + 1])]
        found = found * 2.0 ** int(scale[int(cell_of(i, j, len(words)))])
        np.testing.assert_allclose(found, expected[int(forest.symbol[item]), i, j], rtol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_the_latent_tree_has_the_weight_of_the_best_derivation(seed: int) -> None:
    toy, words = unequal_toy(seed), ["w0", "w1", "w2", "w0", "w1", "w2"]
    grammar = toy.grammar(is_probabilistic=True)
    parsed = parse_forest(grammar, words, EVERYTHING)
    assert parsed is not None
    found = viterbi_tree(parsed)
    assert found is not None
    nodes = found.nodes
    root, rules, emissions = toy.floats(words)
    vectors: list[np.ndarray] = []  # of the best states below each node of this very tree
    for a, left, right, i in nodes:
        if left < 0:
            vectors.append(emissions[i][a])
            continue
        tensor = rules[a, nodes[left][0], nodes[right][0]]
        vectors.append((tensor * vectors[left][:, None] * vectors[right]).max(axis=(1, 2)))
    delta = charts.viterbi(rules, emissions)
    best = max((root[a] * delta[a, 0, 6]).max() for a in root if (a, 0, 6) in delta)
    np.testing.assert_allclose(found.score, log(best), rtol=1e-12)
    np.testing.assert_allclose((root[nodes[-1][0]] * vectors[-1]).max(), best, rtol=RTOL)


def test_viterbi_needs_no_forest_of_a_plain_grammar() -> None:
    """Exact over the full chart: a high threshold prunes the forest, not the tree."""
    toy = random_toy(np.random.default_rng(3), density=0.5)
    words = ["w0", "w1", "w2", "w0"]
    parsed = parse_forest(toy.grammar(), words, 0.5)
    assert parsed is not None
    best = viterbi_tree(parsed)
    assert best is not None
    weighted = listing.weighted_trees(*toy.floats(words))
    by_spans = {spans_of(tree): weight for tree, weight in weighted}
    found = by_spans[frozenset(places(best.nodes))]
    np.testing.assert_allclose(best.score, log(found), rtol=0, atol=RTOL)
    np.testing.assert_allclose(found, max(by_spans.values()), rtol=RTOL)


@pytest.mark.parametrize("n_states", [1, 2])
@pytest.mark.parametrize("decoder", ["goodman", "max-rule"])
@pytest.mark.parametrize("seed", range(3))
def test_k_best_lists_all_trees_in_order(seed: int, decoder: str, n_states: int) -> None:
    toy = random_toy(np.random.default_rng(seed), density=0.25, n_states=n_states)
    words = ["w0", "w1", "w2", "w0"]
    weighted = listing.weighted_trees(*toy.floats(words))
    parsed = parse_forest(toy.grammar(), words, EVERYTHING)
    if not weighted:
        assert parsed is None
        return
    assert parsed is not None
    gains = goodman_gains(parsed) if decoder == "goodman" else max_rule_gains(parsed)
    score = listing.goodman_score if decoder == "goodman" else listing.max_rule_score
    found = list(islice(next_trees(parsed.pruned, gains), len(weighted) + 1))
    expected = {spans_of(tree): score(tree, weighted) for tree, _ in weighted}
    assert len(found) == len(weighted)
    scores = [tree.score for tree in found]
    np.testing.assert_allclose(scores, sorted(expected.values(), reverse=True), rtol=1e-9)
    for tree in found:
        spans = frozenset(places(tree.nodes))
        np.testing.assert_allclose(tree.score, expected.pop(spans), rtol=1e-9)
    assert not expected


def spans_of(tree: listing.Node) -> frozenset[listing.Span]:
    return frozenset(listing.spans(tree))


def places(nodes: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int]]:
    """(symbol, start, end) of nodes that stand children first."""
    ends: list[int] = []
    for _, left, right, start in nodes:
        ends.append(start + 1 if left < 0 else ends[right])
    return [(a, i, j) for (a, _, _, i), j in zip(nodes, ends, strict=True)]


def test_k_best_starts_with_the_tree_of_the_parse() -> None:
    toy = random_toy(np.random.default_rng(5))
    for decoder in ("goodman", "max-rule"):
        parse = Parser(toy.grammar(), decoder=decoder, beam=0.0).parse(
            ["w0", "w1", "w2", "w0", "w1"]
        )
        best = parse.k_best(5)
        assert best[0].tree == parse.tree
        assert len({scored.tree for scored in best}) == len(best) == 5
        assert [s.score for s in best] == sorted((s.score for s in best), reverse=True)
        assert parse.k_best(0) == []


def test_k_best_after_viterbi_lists_plain_derivations_by_probability() -> None:
    for seed in range(8):
        toy = random_toy(np.random.default_rng(seed), density=0.4)
        parser = Parser(toy.grammar(), decoder="viterbi", threshold=0.0, beam=0.0)
        best = parser.parse(["w0", "w1", "w2", "w0", "w1"]).k_best(4)
        found = [scored.log_prob for scored in best]
        np.testing.assert_allclose(found, sorted(found, reverse=True), rtol=0, atol=1e-9)
        np.testing.assert_allclose([s.score for s in best], found, rtol=0, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_k_best_after_viterbi_lists_latent_trees_by_their_best_derivation(seed: int) -> None:
    """States included, which is what the decoder maximises; every tree once."""
    toy = random_toy(np.random.default_rng(seed), n_states=2, density=0.4).normalised()
    words = ["w0", "w1", "w2"]
    root, rules, emissions = toy.floats(words)
    expected = {
        tree_of(tree, words, toy.n_phrases): max(
            log(w) for _, w in listing.derivations(tree, root, rules, emissions)
        )
        for tree in listing.all_trees(rules, emissions)
        if tree.symbol in root
    }
    grammar = toy.grammar(is_probabilistic=True)
    parse = Parser(grammar, decoder="viterbi", threshold=0.0, beam=0.0).parse(words)
    best = parse.k_best(len(expected) + 1)
    assert best[0].tree == parse.tree
    assert {scored.tree: scored.score for scored in best} == pytest.approx(expected, abs=1e-9)
    assert [s.score for s in best] == sorted((s.score for s in best), reverse=True)


@pytest.mark.parametrize("seed", range(3))
def test_no_tree_is_listed_twice_for_its_states(seed: int) -> None:
    """Items in each of their states are nodes of their own, roots too."""
    toy, words = unequal_toy(seed), ["w0", "w1", "w2", "w0"]
    grammar = toy.grammar(is_probabilistic=True)
    parsed = parse_forest(grammar, words, EVERYTHING)
    assert parsed is not None
    trees = Counter(
        (tree.nodes[-1][0], frozenset(places(tree.nodes)))
        for tree in next_derivations(grammar, parsed.pruned)
    )
    assert len(trees) > 5
    assert set(trees.values()) == {1}


@pytest.mark.compiled
def test_k_best_of_a_long_sentence_does_not_recurse() -> None:
    rules = {(0, 1, 0): 0.4, (0, 2, 0): 0.3, (0, 1, 1): 0.3}
    toy = Toy(
        1, [1, 1, 1], {0: np.ones(1)}, {r: np.full((1, 1, 1), w) for r, w in rules.items()},
        {"w0": {1: np.full(1, 0.6), 2: np.full(1, 0.4)}},
    )  # fmt: skip
    for decoder in ("goodman", "viterbi"):
        parse = Parser(toy.grammar(), decoder=decoder).parse(["w0"] * 600)
        assert len(parse.k_best(3)) == 3
