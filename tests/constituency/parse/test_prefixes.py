"""Prefix probabilities against lists of all sentences, and what must hold for any grammar."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import bundled
from tests.reference.prefixes import prefix_probability, sentences_of
from tests.toys import Toy, random_toy

import sapwood as sw
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse import prefixes
from sapwood.constituency.parse.prefixes import mix_predictions, predict_words
from sapwood.core.errors import SapwoodError
from sapwood.incremental import Surprisal, join_tokens
from sapwood.lm.data.counting import CountSettings, count_text


def proper_toy(seed: int, n_states: int, *, is_finite: bool = False) -> Toy:
    """A random grammar of probabilities; a finite one has no recursion."""
    toy = random_toy(np.random.default_rng(seed), n_phrases=3, n_tags=2, n_states=n_states)
    if is_finite:
        toy.rules = {rule: t for rule, t in toy.rules.items() if min(rule[1:]) > rule[0]}
    return toy.normalised()


def conditionals(grammar: LatentGrammar, words: list[str], **options: Any) -> list[float]:
    return [found.probability for found in predict_words(grammar, words, **options)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_states", [1, 3])
def test_prefixes_of_a_finite_grammar_sum_over_its_sentences(seed: int, n_states: int) -> None:
    toy = proper_toy(seed, n_states, is_finite=True)
    listed = sentences_of(toy.root, toy.rules, toy.words)
    grammar = toy.grammar(is_probabilistic=True)
    for words in [*sorted(listed, key=len)[-3:], *list(listed)[:5]]:
        found = np.cumprod(conditionals(grammar, list(words)))
        expected = [
            sum(p for sentence, p in listed.items() if sentence[:k] == words[:k])
            for k in range(1, len(words) + 1)
        ]
        # sums of positive numbers, in another order
        np.testing.assert_allclose(found, [*expected, listed[words]], rtol=1e-10)


def prefix_errors(seed: int, n_states: int) -> float:
    """The largest relative error over the prefixes of a sentence, for a grammar with recursion."""
    toy, words = proper_toy(seed, n_states), ["w0", "w1", "w2", "w0", "w1"]
    found = np.cumprod(conditionals(toy.grammar(is_probabilistic=True), words))[: len(words)]
    expected = [prefix_probability(*toy.floats(words[:k])) for k in range(1, len(words) + 1)]
    return float(np.abs(found / np.array(expected) - 1.0).max())


@pytest.mark.parametrize(("seed", "n_states"), [(0, 1), (0, 2), (1, 2), (2, 3)])
def test_prefixes_with_left_recursion(seed: int, n_states: int) -> None:
    assert prefix_errors(seed, n_states) < 1e-10


def test_a_wrong_sum_over_left_recursion_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant counts a left-recursive chain of one rule only."""
    right = prefixes._make_tables

    class OneStep:
        def __init__(self, chains: Any) -> None:
            self.chains = chains

        def solve(self, starts: Any, trans: str) -> Any:
            whole = self.chains.solve(starts, trans=trans)
            return starts + (whole - starts) * 0.9

    monkeypatch.setattr(
        prefixes,
        "_make_tables",
        lambda g: (tables := right(g))._replace(left_chains=OneStep(tables.left_chains)),
    )
    assert prefix_errors(0, 2) > 1e-3


@pytest.mark.parametrize("restart", [0.0, 1e-3, 0.3])
def test_predictions_sum_to_one_and_prefixes_never_rise(restart: float) -> None:
    grammar = sw.bundled_grammar()
    words = ["the", "man", "with", "a", "hat", "ate", "the", "soup", "with", "a", "spoon", "."]
    predictions = list(predict_words(grammar, words, restart=restart, with_words=True))
    assert len(predictions) == len(words) + 1
    for found in predictions:
        assert found.words is not None
        np.testing.assert_allclose([found.tags.sum(), found.words.sum()], 1.0, rtol=1e-12)
        assert 0.0 < found.probability <= found.syntactic <= 1.0 + 1e-12


@pytest.mark.parametrize("method", ["pcfg", "em", "cluster"])
def test_surprisals_sum_to_the_log_probability_of_the_sentence(method: str, learn: Any) -> None:
    model = learn(method)
    for tree in sw.bundled_treebank("test")[:8]:
        found = sw.surprisal(model, tree.words(), unit="nats")
        np.testing.assert_allclose(-found.total, model.log_prob(tree.words()), rtol=1e-10)
        np.testing.assert_allclose(
            found.syntactic + found.lexical, found.surprisal, rtol=1e-9, atol=1e-12
        )


def test_a_mix_conditions_on_the_prefix(learn: Any) -> None:
    members = [learn("pcfg"), learn("em")]
    mix = sw.Ensemble.of(members, [0.25, 0.75])
    words = ["the", "dog", "sees", "the", "man", "."]
    found = sw.surprisal(mix, words, unit="nats")
    np.testing.assert_allclose(-found.total, mix.log_prob(words), rtol=1e-10)
    prefixes_of = [np.cumprod(conditionals(member, words)) for member in members]
    mean = 0.25 * prefixes_of[0] + 0.75 * prefixes_of[1]
    np.testing.assert_allclose(np.exp(-np.cumsum(found.surprisal)), mean, rtol=1e-10)
    by_mutant = -np.log(0.25 * np.array(conditionals(members[0], words))
                        + 0.75 * np.array(conditionals(members[1], words)))  # fmt: skip
    assert abs(by_mutant - found.surprisal).max() > 1e-3  # weights that are not updated


def test_the_mean_over_samples_is_the_cross_entropy(learn: Any) -> None:
    grammar = sw.bundled_grammar()
    drawn = [tree.words() for tree in grammar.sample(60, seed=5)]
    totals = np.array([sw.surprisal(grammar, words, unit="nats").total for words in drawn])
    others = np.array([-grammar.log_prob(tree.words()) for tree in grammar.sample(400, seed=6)])
    error = np.hypot(totals.std() / len(totals) ** 0.5, others.std() / len(others) ** 0.5)
    assert abs(totals.mean() - others.mean()) < 4 * error


def test_a_member_without_weight_or_parse_is_left_out() -> None:
    grammar = sw.bundled_grammar()
    words = ["they", "sleep", "."]
    alone = list(mix_predictions([grammar], np.ones(1), words))
    both = list(mix_predictions([grammar, grammar], np.array([1.0, 0.0]), words))
    np.testing.assert_allclose(alone, both, rtol=1e-12)


def test_the_next_tag_of_a_mix_is_that_of_its_members_by_their_shares(learn: Any) -> None:
    """Tags of the same name are one, and a member may lack some."""
    few = sw.PCFG().fit(list(bundled("train")[:6])).model_
    members, weights = [few, learn("em")], np.array([0.25, 0.75])
    assert {x.chain[-1] for x in few.tags} < {x.chain[-1] for x in members[1].tags}
    words = ["the", "dog", "sees", "the", "man", "."]
    found = list(mix_predictions(members, weights, words, restart=1e-3))
    shares, alone = weights, [list(predict_words(g, words, restart=1e-3)) for g in members]
    for mixed, *ones in zip(found, *alone, strict=True):
        p: dict[str, float] = {}
        for grammar, share, one in zip(members, shares, ones, strict=True):
            for tag, mass in zip([*(x.chain[-1] for x in grammar.tags), ""], one.tags, strict=True):
                p[tag] = p.get(tag, 0.0) + share * mass
        assert mixed.tag_entropy == pytest.approx(-sum(x * np.log(x) for x in p.values() if x > 0))
        shares = shares * [one.probability for one in ones]
        shares = shares / shares.sum()


@pytest.mark.parametrize("n", [1, 7])
def test_the_memory_of_a_chart_is_that_of_its_arrays(n: int) -> None:
    grammar = sw.bundled_grammar()
    tables = prefixes.prefix_tables(grammar)
    chart = prefixes._PrefixReader(grammar, tables, n, 0.0).chart
    arrays = (chart.phrases, chart.is_active, chart.tags, chart.sums)
    assert prefixes.chart_bytes(tables, n) == sum(array.nbytes for array in arrays)


def test_words_that_cannot_be_derived() -> None:
    found = sw.surprisal(sw.bundled_grammar(), ["dog", "the", "dog", "."])
    assert found.surprisal[0] == np.inf
    assert np.isnan(found.surprisal[1:]).all()
    assert np.isfinite(
        sw.surprisal(sw.bundled_grammar(), list(found.words[:-1]), restart=1e-4).surprisal
    ).all()


def test_restarts_of_probability_zero_change_nothing() -> None:
    grammar, words = sw.bundled_grammar(), ["the", "dog", "sees", "the", "man", "."]
    np.testing.assert_allclose(
        conditionals(grammar, words, restart=1e-9), conditionals(grammar, words), rtol=1e-6
    )


@pytest.mark.parametrize(
    "words",
    [["they"], ["Zorblax", "sleeps", "."], ["THE", "dog", "sleeps", "."], ["the", "dog"] * 50],
    ids=["one word", "unknown", "capitals", "a hundred words"],
)
def test_awkward_sentences(words: list[str]) -> None:
    found = sw.surprisal(sw.bundled_grammar(), words, restart=1e-3)
    assert np.isfinite(found.surprisal).all()
    assert len(found.words) == len(words) + 1


def test_models_without_probabilities_are_refused(learn: Any) -> None:
    with pytest.raises(SapwoodError, match="no surprisal by spectral") as caught:
        sw.surprisal(learn("spectral"), ["they", "sleep"])
    assert "pivot-em" in str(caught.value.hint)
    mix = sw.Ensemble.of([learn("spectral"), learn("pcfg")])
    words = ["they", "sleep", "."]
    np.testing.assert_array_equal(
        sw.surprisal(mix, words).surprisal, sw.surprisal(learn("pcfg"), words).surprisal
    )


def test_wrong_arguments_are_explained() -> None:
    grammar = sw.bundled_grammar()
    with pytest.raises(SapwoodError, match="needs a grammar or a language model, not the string"):
        sw.surprisal("model.sapwood", ["a"])  # type: ignore[arg-type]
    with pytest.raises(SapwoodError, match="expected bits or nats"):
        sw.surprisal(grammar, ["a"], unit="bans")
    with pytest.raises(SapwoodError, match="a probability below 1"):
        sw.surprisal(grammar, ["a"], restart=1.0)


def test_a_sentence_that_does_not_fit_into_memory(limit_memory: Any) -> None:
    limit_memory(100_000)
    with pytest.raises(SapwoodError, match="the prefix chart of a sentence of 200 words needs"):
        sw.surprisal(sw.bundled_grammar(), ["dog"] * 200)


def test_the_charts_of_a_mix_have_to_fit_together(limit_memory: Any) -> None:
    grammar = sw.bundled_grammar()
    mix = sw.Ensemble.of([grammar, grammar])
    limit_memory(prefixes.chart_bytes(prefixes.prefix_tables(grammar), 20) * 3 // 2)
    assert sw.surprisal(grammar, ["dog"] * 20).surprisal[0] == np.inf
    with pytest.raises(SapwoodError, match="of 20 words for 2 grammars needs about"):
        sw.surprisal(mix, ["dog"] * 20)


def test_language_models_have_the_same_columns() -> None:
    model = sw.EMBigram(2, iterations=3).fit([["a", "b"], ["b", "a"]] * 20).model_
    found = sw.surprisal(model, ["a", "b"], unit="nats")
    assert found.words == ("a", "b", "</s>")
    np.testing.assert_allclose(-found.total, model.log_prob(["a", "b"]), rtol=1e-12)
    assert [row["syntactic"] for row in found.rows()] == [None] * 3


def test_joined_tokens_add_up() -> None:
    found = sw.surprisal(sw.bundled_grammar(), ["the", "dog", "sees", "the", "man", "."])
    joined = join_tokens(found, [2, 0, 1, 3], ["the dog", "", "sees", "the man."])
    assert joined.words == ("the dog", "", "sees", "the man.", "</s>")
    np.testing.assert_allclose(joined.surprisal[0], found.surprisal[:2].sum())
    np.testing.assert_allclose(joined.surprisal[3], found.surprisal[3:6].sum())
    assert np.isnan(joined.surprisal[1])  # an empty region keeps its number
    assert joined.tag_entropy[2] == found.tag_entropy[2]
    assert joined.surprisal[4] == found.surprisal[6]
    assert joined.total == pytest.approx(found.total)


def test_a_unit_with_an_impossible_token_is_impossible() -> None:
    found = sw.surprisal(sw.bundled_grammar(), ["they", "the", "dog", "."])
    assert np.isinf(found.surprisal[1])
    joined = join_tokens(found, [1, 2, 1], ["they", "the dog", "."])
    assert np.isinf(joined.surprisal).tolist() == [False, True, False, False]
    assert np.isnan(joined.surprisal[2:]).all()
    assert found.total == joined.total == np.inf


def test_units_that_do_not_fit_the_sentence_are_refused() -> None:
    found = sw.surprisal(sw.bundled_grammar(), ["they", "sleep", "."])
    for sizes, names, message in (
        ([1, 1], ["they", "sleep"], "the units have 2 tokens, and the sentence has 3 words"),
        ([1, 2, 1], ["they", "sleep.", "</s>"], "the units have 4 tokens"),
        ([1, 2], ["they"], "2 sizes and 1 name of units"),
        ([5, -2], ["they", "sleep."], "size 2 must be a whole number from 0 up"),
        ([1.0, 2.0], ["they", "sleep."], "size 1 must be a whole number"),
        ([1, 2], "ab", "expected a list of names, not the string"),
    ):
        with pytest.raises(SapwoodError, match=message):
            join_tokens(found, sizes, names)  # type: ignore[arg-type]
    joined = join_tokens(found, np.array([1, 2]), ["they", "sleep."])
    assert joined.words == ("they", "sleep.", "</s>")


def test_streams_have_no_end_that_units_could_reach(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c\n" * 20)
    counts = count_text(tmp_path / "text.txt", CountSettings(2, is_stream=True))
    model = sw.KneserNey(2).fit(counts).model_
    found = sw.surprisal(model, ["a", "b", "c"])
    assert join_tokens(found, [1, 2], ["a", "b c"]).words == ("a", "b c")
    with pytest.raises(SapwoodError, match="the units have 2 tokens"):
        join_tokens(found, [1, 1], ["a", "b"])


def test_reserved_words_and_restarts_of_language_models_are_refused() -> None:
    model = sw.KneserNey(2).fit([["a", "b"]] * 20).model_
    for one in (sw.bundled_grammar(), model):
        with pytest.raises(SapwoodError, match="word 2 of the sentence is '</s>', a symbol that"):
            sw.surprisal(one, ["a", "</s>", "b"])
    with pytest.raises(SapwoodError, match=r"restart is 0.1, and a language model") as caught:
        sw.surprisal(model, ["a"], restart=0.1)
    assert caught.value.hint


def test_the_entropy_of_the_next_word_is_that_of_the_mix(learn: Any) -> None:
    members, shares = [learn("pcfg"), learn("em")], np.array([0.25, 0.75])
    words = ["the", "dog", "sees", "the", "man", "."]
    found = sw.surprisal(sw.Ensemble.of(members, shares.tolist()), words, unit="nats")
    alone = [list(predict_words(g, words, with_words=True)) for g in members]
    for k, ones in enumerate(zip(*alone, strict=True)):
        p = sum(share * one.words for share, one in zip(shares, ones, strict=True))
        expected = -sum(x * np.log(x) for x in p.tolist() if x > 0)
        assert found.word_entropy[k] == pytest.approx(expected, abs=1e-9)
        shares = shares * [one.probability for one in ones] / found_probability(found, k)


def found_probability(found: Surprisal, k: int) -> float:
    return float(np.exp(-found.surprisal[k]))
