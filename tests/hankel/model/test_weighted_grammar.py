"""Weighted grammars: forms, values, contexts, sums, draws and other kinds of models."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from tests.reference.weighted_grammars import outside_vector
from tests.toys import change_basis, strings_grammar

import sapwood as sw
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.hankel.data import bracket
from sapwood.hankel.model.string_model import SequenceModel
from sapwood.hankel.model.weighted_grammar import ClassicForm, WeightedGrammar


@pytest.fixture(scope="module")
def grammar() -> WeightedGrammar:
    return strings_grammar(3, 2, seed=1)


def test_a_grammar_of_rules_has_their_weights(grammar: WeightedGrammar) -> None:
    initial, terminals, binary = grammar.weights
    rules = ClassicForm(
        dict(enumerate(initial)),
        {(i, symbol): terminals[x, i] for x, symbol in enumerate("ab") for i in range(3)},
        {at: binary[at] for at in product(range(3), repeat=3)},
    )
    found = WeightedGrammar.from_classic(rules)
    assert found.symbols == grammar.symbols
    for one, other in zip(found.weights, grammar.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_inside_and_outside_meet_in_every_cut(grammar: WeightedGrammar) -> None:
    words = ["a", "b", "b", "a", "b"]
    value = grammar.value(words)
    for t in range(len(words)):  # the last equation of section 2.1
        outside = grammar.outside(words[:t], words[t + 1 :])
        assert outside @ grammar.inside(words[t : t + 1]) == pytest.approx(value, rel=1e-12)
    want = outside_vector([0, 1], [0], grammar.initial, grammar.terminals, grammar.binary)
    np.testing.assert_allclose(grammar.outside(["a", "b"], ["a"]), want, rtol=1e-12)


def test_marginals_of_words_and_of_the_whole_are_1(grammar: WeightedGrammar) -> None:
    found = grammar.marginals(["a", "b", "a", "a"])
    for i in range(4):
        assert found[i, i + 1] == pytest.approx(1)
    assert found[0, 4] == pytest.approx(1)
    assert found.sum() == pytest.approx(4 + 3)  # leaves, and nodes with two children


def test_sum_over_all_strings_and_expected_length(grammar: WeightedGrammar) -> None:
    total = grammar.total()
    masses = grammar.length_masses(400)
    assert total.mass == pytest.approx(1, abs=1e-12)
    assert total.spectral_radius < 1
    assert masses.sum() == pytest.approx(1, abs=1e-6)
    assert total.expected_length == pytest.approx(masses @ np.arange(1, 401), rel=1e-3)
    every = [list(x) for x in product("ab", repeat=4)]
    assert grammar.values(every).sum() == pytest.approx(masses[3])


def test_a_sum_that_diverges_is_told() -> None:
    twice = WeightedGrammar(("a",), np.ones(1), np.full((1, 1), 0.5), np.full((1, 1, 1), 0.6))
    assert not twice.total().converges
    assert twice.total().expected_length == np.inf


def test_weights_beyond_all_numbers_diverge_rather_than_break() -> None:
    binary = np.zeros((2, 2, 2))
    vast = WeightedGrammar(("a",), np.array([0.0, 1.0]), np.zeros((1, 2)), binary)
    vast.terminals[0, 1], vast.binary[0, 1, 1] = 1e200, 1e300  # which no file may have
    assert vast.total().mass == np.inf
    torn = WeightedGrammar(("a",), np.ones(2), np.array([[1.0, 1.0]]), np.zeros((2, 2, 2)))
    torn.binary[:] = np.array([[1e200, -1e200], [1e200, -1e200]])[:, :, None] * [1.0, -1.0]
    assert torn.total().spectral_radius >= 0


def test_draws_have_the_probabilities_of_their_strings(grammar: WeightedGrammar) -> None:
    drawn = grammar.sample_brackets(20_000, seed=3)
    counts = Counter(x.words for x in drawn)
    for words in [("a",), ("b",), ("a", "b"), ("b", "b", "a")]:
        p = grammar.value(words)
        assert counts[words] / 20_000 == pytest.approx(p, abs=5 * (p / 20_000) ** 0.5)
    for one in drawn[:50]:
        again, n_wide = bracket(one.tree())
        assert (set(again.splits), again.words, n_wide) == (set(one.splits), one.words, 0)
    mean = sum(len(x.words) for x in drawn) / 20_000
    assert mean == pytest.approx(grammar.total().expected_length, rel=0.05)


def test_weights_cannot_be_drawn_from(grammar: WeightedGrammar) -> None:
    turned = change_basis(grammar, np.array([[1, 2, 0], [0, 1, 1], [1, 0, 3.0]]))
    assert not turned.is_probabilistic
    with pytest.raises(SapwoodError, match="weights, not probabilities"):
        turned.sample(1)


def test_the_value_of_a_tree_is_that_of_its_brackets(grammar: WeightedGrammar) -> None:
    trees = [sw.Tree.parse(text) for text in (
        "(S (A a) (B (C b) (D a)))", "(S (B (C a) (D b)) (A a))")]  # fmt: skip
    parts = [np.exp(grammar.signed_log_prob(tree).log) for tree in trees]
    assert sum(parts) == pytest.approx(grammar.value(["a", "b", "a"]), rel=1e-12)


def test_a_symbol_that_is_not_known_is_named(grammar: WeightedGrammar) -> None:
    with pytest.raises(SapwoodError, match=r"'c', the 2\. of its string") as caught:
        grammar.value(["a", "c"])
    assert "a, b" in str(caught.value.hint)


def test_best_brackets_of_strings_the_model_cannot_make_are_right_branching() -> None:
    only = WeightedGrammar(("a", "b"), np.ones(1), np.array([[1.0], [0.0]]), np.ones((1, 1, 1)))
    assert only.best_brackets(["b", "b", "b"]).splits == ((1, 2, 3), (0, 1, 3))


@pytest.mark.parametrize(
    ("arrays", "match"),
    [
        ((np.ones(2), np.ones((1, 2)), np.ones((2, 2))), "axes"),
        ((np.ones(2), np.ones((1, 1)), np.ones((2, 2, 2))), "shape"),
        ((np.ones(1), np.full((1, 1), np.nan), np.ones((1, 1, 1))), "not finite"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays, match: str) -> None:
    with pytest.raises(ModelFormatError, match=match):
        WeightedGrammar(("a",), *arrays)


def test_a_hidden_markov_model() -> None:
    start, emissions = np.array([0.3, 0.7]), np.array([[0.9, 0.1], [0.2, 0.8]])
    transitions = np.array([[0.5, 0.3], [0.2, 0.4]])
    steps = np.einsum("hx,hk->xhk", emissions, transitions)
    model = SequenceModel(("a", "b"), start, 1 - transitions.sum(axis=1), steps)
    assert model.is_probabilistic
    every = [list(x) for size in range(1, 10) for x in product("ab", repeat=size)]
    empty = float(start @ model.final)
    assert model.values(every).sum() + empty == pytest.approx(model.total().mass, abs=0.03)
    assert model.total().mass == pytest.approx(1)
    drawn = Counter(" ".join(t.words()) for t in model.sample(20_000, seed=1))
    p = model.value(["b"]) / (1 - empty)  # the empty string is drawn again
    assert drawn["b"] / 20_000 == pytest.approx(p, abs=0.01)
    with pytest.raises(SapwoodError, match="weights"):
        SequenceModel(("a",), -start, start, np.ones((1, 2, 2))).sample(1)
