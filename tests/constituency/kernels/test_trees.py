"""Weights of given trees against enumeration."""

from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import enumerate as listing
from tests.toys import (
    EXTREME,
    Toy,
    exact_log,
    factored_toy,
    plain_toys,
    random_bases,
    random_toy,
    sentences,
    tree_of,
)

import sapwood as sw
from sapwood.corpora.tree import Tree

WORDS = ["w0", "w1", "w2", "w0"]


def weighed(toy: Toy, words: list[str]) -> list[tuple[Tree, float]]:
    """All trees with the logs of the absolute values of their exact weights."""
    root, rules, emissions = toy.exactly(words)
    trees = listing.all_trees(rules, emissions)
    return [
        (
            tree_of(tree, words, toy.n_phrases),
            exact_log(abs(listing.tree_weight(tree, root, rules, emissions))),
        )
        for tree in trees
    ]


@pytest.mark.parametrize("n_states", [1, 2, 3])
@pytest.mark.parametrize("words", [["w0"], ["w0", "w1"], WORDS], ids=len)
def test_weights_of_all_trees(words: list[str], n_states: int) -> None:
    toy = random_toy(np.random.default_rng(n_states), n_states=n_states, density=0.4)
    toy.root[toy.n_phrases] = np.full(toy.n_states[toy.n_phrases], 0.1)
    trees, expected = zip(*weighed(toy, words), strict=True)
    found = toy.grammar().log_probs(list(trees))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)  # sums of positive numbers


@pytest.mark.parametrize("n_states", [(2, 3, 4, 5), (5, 2, 3, 1)], ids=str)
def test_weights_by_factored_tensors(n_states: tuple[int, ...]) -> None:
    """Labels differ in their states, so that no two axes can be taken for each other."""
    toy, factored = factored_toy(np.random.default_rng(sum(n_states)), 2, n_states)
    assert {0, 1, 2, 3} == set(factored.rule_rank.tolist())
    trees, expected = zip(*weighed(toy, WORDS), strict=True)
    found = factored.log_probs(list(trees))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)  # some terms cancel


def test_negative_weights_give_the_log_of_their_size() -> None:
    rng = np.random.default_rng(1)
    toy = random_toy(rng, n_states=2, density=0.3)
    toy.rules = {rule: rng.normal(size=t.shape) for rule, t in toy.rules.items()}
    cases = weighed(toy, ["w0", "w1", "w2"])
    found = toy.grammar().log_probs([tree for tree, _ in cases])
    # a sum of 2**4 terms of either sign may lose a few digits
    np.testing.assert_allclose(found, [w for _, w in cases], rtol=0, atol=1e-8)


def test_a_change_of_basis_changes_no_tree() -> None:
    rng = np.random.default_rng(2)
    toy = random_toy(rng, n_states=3, density=0.3)
    other = toy.rebased(random_bases(rng, toy.n_states))
    trees = [tree for tree, _ in weighed(toy, WORDS)]
    before, after = toy.grammar().log_probs(trees), other.grammar().log_probs(trees)
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-10)


@settings(max_examples=40)
@given(plain_toys(EXTREME).flatmap(lambda t: st.tuples(st.just(t), sentences(t, most=4))))
def test_trees_of_any_weight_do_not_underflow(case: tuple[Toy, list[str]]) -> None:
    toy, words = case
    cases = weighed(toy, words)[:30]
    if not cases:
        return
    found = toy.grammar().log_probs([tree for tree, _ in cases])
    expected = [w for _, w in cases]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("tiny", [5e-324, 1e-320, 3e-310])
def test_weights_below_the_least_normal_number(tiny: float) -> None:
    """Scaling such a number to 1 takes more than the largest power of two."""
    toy = Toy(1, [1, 1], {0: np.ones(1)}, {}, {"w0": {1: np.array([tiny])}})
    toy.rules = {(0, 1, 0): np.full((1, 1, 1), 0.5), (0, 1, 1): np.full((1, 1, 1), 0.25)}
    tree = Tree.parse("(P0 (T1 w0) (P0 (T1 w0) (T1 w0)))")
    expected = 3 * log(tiny) + log(0.125)
    np.testing.assert_allclose(toy.grammar().log_prob(tree), expected, rtol=1e-12)


def test_deep_trees_do_not_underflow() -> None:
    toy = Toy(1, [1, 1], {0: np.ones(1)}, {}, {"w0": {1: np.array([1e-3])}})
    toy.rules = {(0, 1, 0): np.full((1, 1, 1), 1e-2), (0, 1, 1): np.full((1, 1, 1), 1e-2)}
    tree = Tree("P0", [Tree("T1", "w0"), Tree("T1", "w0")])
    for _ in range(398):
        tree = Tree("P0", [Tree("T1", "w0"), tree])
    expected = 399 * log(1e-2) + 400 * log(1e-3)
    np.testing.assert_allclose(toy.grammar().log_prob(tree), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "(P0 (T2 w0) (XX w0))",
        "(XX (T2 w0) (T2 w0))",
        "(P0 (T2 w0) (T2 w0) (T2 w0))",
        "(P0 (P0 (T2 w0)) (T2 w0))",
        "(P1 (T2 w0) (T2 w0))",
        "(P0 (T3 w0) (T2 w0))",
        "(P0 (T2 w0) (T2 w1))",
    ],
    ids=["tag", "phrase", "arity", "chain", "rule", "tag of the word", "word of the tag"],
)
def test_what_the_grammar_cannot_build_has_weight_zero(text: str) -> None:
    toy = Toy(2, [1] * 4, {0: np.ones(1)}, {(0, 2, 2): np.ones((1, 1, 1))}, {})
    toy.words = {"w0": {2: np.ones(1)}, "w1": {3: np.ones(1)}}
    good = Tree.parse("(P0 (T2 w0) (T2 w0))")
    found = toy.grammar().log_probs([good, Tree.parse(text), good])
    assert found.tolist() == [0.0, -inf, 0.0]


def test_the_sign_is_reported() -> None:
    rules = {(0, 1, 1): np.array([[[-2.0]], [[0.0]]])}
    toy = Toy(1, [2, 1], {0: np.ones(2)}, rules, {"w0": {1: np.ones(1)}})
    grammar = toy.grammar()
    weights, sign = grammar.signed_log_probs([Tree.parse("(P0 (T1 w0) (T1 w0))")])
    assert sign.tolist() == [-1.0]
    np.testing.assert_allclose(weights, log(2.0), rtol=1e-15)


def test_parts_of_a_treebank_weigh_what_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = sw.bundled_treebank("dev")[:23]
    model = sw.PCFG().fit(bank).model_
    whole = model.log_probs(bank)
    for size in (1, 7, 22, 23):
        monkeypatch.setattr("sapwood.constituency.parse.prepared.TREES_PER_CALL", size)
        np.testing.assert_array_equal(model.log_probs(bank), whole)
        np.testing.assert_array_equal(model.log_probs(bank[5:9]), whole[5:9])
