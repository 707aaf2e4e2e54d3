"""The kernels of prefix probabilities against dictionaries and NumPy, on small random grammars."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from tests.reference import charts
from tests.reference.prefixes import prefix_probability, restarted_probabilities
from tests.toys import Toy, random_toy

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.kernels import prefixes as kernels
from sapwood.constituency.parse.kernels.prefixes import inside_column, next_starts, sum_over_parents
from sapwood.constituency.parse.prefixes import predict_words, prefix_tables

# Sums of positive numbers in another order, and one linear system with a condition below 1e3.
RTOL = 1e-10
WORDS = ("w0", "w1", "w2", "unheard-of")


@st.composite
def proper_toys(draw: st.DrawFn) -> Toy:
    """Grammars of probabilities, of few rules or many, with symbols that nothing reaches."""
    toy = random_toy(
        np.random.default_rng(draw(st.integers(0, 10_000))),
        n_phrases=draw(st.integers(1, 3)),
        n_tags=draw(st.integers(1, 3)),
        n_states=draw(st.integers(1, 3)),
        density=draw(st.sampled_from([0.0, 0.2, 0.7])),
    )
    if draw(st.booleans()):  # a tag can be a whole sentence
        tag = toy.n_phrases
        toy.root[tag] = np.ones(toy.n_states[tag])
    return toy.normalised()


sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5)


def probabilities(grammar: LatentGrammar, words: list[str], restart: float = 0.0) -> np.ndarray:
    """Probability of each prefix, and last of the sentence; zeros behind an impossible word."""
    found = [one.probability for one in predict_words(grammar, words, restart=restart)]
    return np.cumprod([*found, *[0.0] * (len(words) + 1 - len(found))])


@settings(max_examples=30)
@given(proper_toys(), sentences)
def test_prefixes_of_random_grammars(toy: Toy, words: list[str]) -> None:
    found = probabilities(toy.grammar(is_probabilistic=True), words)
    expected = [prefix_probability(*toy.floats(words[:k])) for k in range(1, len(words) + 1)]
    beta = charts.inside(toy.rules, toy.emissions(words))
    whole = charts.sentence_weight(toy.root, beta, len(words))
    np.testing.assert_allclose(found, [*expected, whole], rtol=RTOL, atol=1e-300)
    assert (np.diff(found) <= found[:-1] * RTOL).all()  # prefixes never rise


@settings(max_examples=20)
@given(proper_toys(), sentences, st.sampled_from([1e-4, 0.1, 0.5]))
def test_restarts_of_random_grammars(toy: Toy, words: list[str], restart: float) -> None:
    grammar = toy.grammar(is_probabilistic=True)
    parts = np.split(prefix_tables(grammar).restart, grammar.state_start[1:-1])
    later = dict(enumerate(parts))
    first = {
        a: (1.0 - restart) * toy.root.get(a, np.zeros(len(part))) + restart * part
        for a, part in later.items()
    }
    expected = restarted_probabilities(first, later, toy.rules, toy.emissions(words), restart)
    found = probabilities(grammar, words, restart)
    np.testing.assert_allclose(found, expected, rtol=RTOL, atol=1e-300)


@settings(max_examples=30)
@given(proper_toys(), sentences)
def test_syntactic_parts_and_tags_of_random_grammars(toy: Toy, words: list[str]) -> None:
    """Derivations that lead to a word: the last emission is 1 where it is not 0 (Roark 2009)."""
    prefix = 1.0
    for k, found in enumerate(predict_words(toy.grammar(is_probabilistic=True), words)):
        if k == len(words):
            assert found.syntactic == found.probability
            continue
        root, rules, emissions = toy.floats(words[: k + 1])
        ones = {tag: (np.asarray(v) > 0).astype(float) for tag, v in emissions[k].items()}
        expected = prefix_probability(root, rules, [*emissions[:k], ones]) / prefix
        np.testing.assert_allclose(found.syntactic, expected, rtol=RTOL, atol=1e-300)
        for number, size in enumerate(toy.n_states[toy.n_phrases :]):
            one = {toy.n_phrases + number: np.ones(size)}
            expected = prefix_probability(root, rules, [*emissions[:k], one]) / prefix
            np.testing.assert_allclose(found.tags[number], expected, rtol=RTOL, atol=1e-300)
        prefix *= found.probability


@settings(max_examples=20)
@given(proper_toys(), st.integers(0, 2**32 - 1))
def test_sums_over_parents(toy: Toy, seed: int) -> None:
    grammar = toy.grammar(is_probabilistic=True)
    rules = prefix_tables(grammar).rules
    start = grammar.state_start
    started = np.random.default_rng(seed).random(int(start[grammar.n_phrases]))
    started[::3] = 0.0
    out = np.full(int(rules.block_start[-1]), np.nan)
    sum_over_parents(rules, started, out)
    expected: dict[tuple[int, int], np.ndarray] = {}
    for (a, b, c), tensor in toy.rules.items():
        block = np.einsum("h,hpq->pq", started[start[a] : start[a + 1]], tensor)
        expected[b, c] = expected.get((b, c), 0.0) + block
    whole = [np.ravel(expected[pair]) for pair in sorted(expected)]
    np.testing.assert_allclose(out, np.concatenate(whole), rtol=RTOL)


@pytest.mark.parametrize("n_states", [1, 3])
def test_the_chart_holds_scaled_inside_probabilities(
    n_states: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cell (i, k) is the inside probability, divided by P(w1 ... wk) / P(w1 ... wi)."""
    toy = random_toy(np.random.default_rng(n_states), n_phrases=3, n_states=n_states).normalised()
    words = ["w0", "w1", "w2", "w0", "w1", "w2"]
    kept = []

    def keep(rules, chart, k, largest):
        inside_column(rules, chart, k, largest)
        kept.append(chart)

    monkeypatch.setattr(kernels, "inside_column", keep)
    grammar = toy.grammar(is_probabilistic=True)
    prefix = np.concatenate([[1.0], probabilities(grammar, words)])
    beta = charts.inside(toy.rules, toy.emissions(words))
    for (a, i, k), vector in beta.items():
        if k == i + 1:
            continue
        states = slice(int(grammar.state_start[a]), int(grammar.state_start[a + 1]))
        found = kept[-1].phrases[k * (k - 1) // 2 + i, states]
        np.testing.assert_allclose(found * prefix[k] / prefix[i], vector, rtol=RTOL)


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_each_kernel_compiles_once() -> None:
    for n_states in (1, 2):
        toy = random_toy(np.random.default_rng(0), n_states=n_states).normalised()
        probabilities(toy.grammar(is_probabilistic=True), ["w0", "w1", "w2"])
    for kernel in (inside_column, next_starts, sum_over_parents):
        assert len(kernel.signatures) == 1
