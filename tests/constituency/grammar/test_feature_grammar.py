"""`FeatureGrammar`: what features see of words, what is checked, and its file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.constituency.grammar.file_checks import assert_refused, assert_same

import sapwood as sw
from sapwood.constituency.grammar.discriminative import FeatureGrammar, SpanFeatures
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.kernels import span_features as kernel
from sapwood.core import model_files as kinds
from sapwood.core.errors import SapwoodError

Array = np.ndarray
BITS = 12  # a small table, so that files are small


def with_features(plain: LatentGrammar, weights: Array, familiar: Array) -> FeatureGrammar:
    return FeatureGrammar(plain, weights, familiar, {"method": "crf", "trees": 300})


@pytest.fixture(scope="module")
def model(plain: LatentGrammar) -> FeatureGrammar:
    """Weights at random; every word is familiar but for each seventh."""
    weights = np.random.default_rng(0).normal(size=1 << BITS).astype(np.float32)
    return with_features(plain, weights, np.arange(len(plain.lexicon.words)) % 7 != 6)


# -- what features see of words ---------------------------------------------------------------


def columns(model: FeatureGrammar, words: list[str]) -> Array:
    seen = SpanFeatures(model).word_properties(words)
    assert seen.shape == (len(words) + 2, kernel.N_PROPERTIES)
    assert seen.dtype == np.uint64
    return seen


def test_familiar_words_are_themselves_and_others_their_class(model: FeatureGrammar) -> None:
    words = list(model.grammar.lexicon.words)
    seen = columns(model, ["x", *words])[2:-1, kernel.WORD]  # behind a first word
    for row, (word, number) in enumerate(zip(words, seen.tolist(), strict=True)):
        assert (number == row) == bool(model.is_familiar[row]), word
    unfamiliar = seen[~model.is_familiar]
    assert (unfamiliar >= len(words)).all()
    strange = columns(model, ["x", "zyzzyxes", "flimflames", "Zyzzyx"])[2:-1, kernel.WORD]
    assert strange[0] == strange[1] != strange[2]


def test_borders_are_like_no_word(model: FeatureGrammar) -> None:
    """Not like any word of the lexicon, nor class: in no property."""
    words = list(model.grammar.lexicon.words)
    seen = columns(model, ["x", *words, "zyzzyx", "1990-91", "XX", "?!"])
    assert np.array_equal(seen[0], seen[-1])
    for k in range(kernel.N_PROPERTIES):
        assert seen[0, k] not in seen[1:-1, k]
    assert np.array_equal(seen[0], columns(model, ["another"])[0])


def test_a_capital_at_the_start_is_forgiven(model: FeatureGrammar) -> None:
    row = next(
        row
        for row, word in enumerate(model.grammar.lexicon.words)
        if model.is_familiar[row]
        and word.islower()
        and word.capitalize() not in model.grammar.lexicon.words
    )
    word = model.grammar.lexicon.words[row].capitalize()
    first, later = columns(model, [word, word])[1:3]
    assert first[kernel.WORD] == row
    assert later[kernel.WORD] != row
    assert first[kernel.LOWER] == later[kernel.LOWER]
    assert first[kernel.SHAPE] != later[kernel.SHAPE]


def test_brackets_are_words_in_either_spelling(model: FeatureGrammar) -> None:
    one, other = columns(model, ["a", "(", "b", ")"]), columns(model, ["a", "-LRB-", "b", "-RRB-"])
    assert np.array_equal(one, other)
    assert not np.array_equal(one[2], one[4])


CHANGES = {  # of which properties a pair of unknown words differs
    ("walking", "talking"): {kernel.LOWER, kernel.BEGINNING},
    ("walking", "walker"): {kernel.WORD, kernel.ENDING, kernel.SHORT_ENDING, kernel.LOWER},
    ("Flimflam", "flimflam"): {kernel.WORD, kernel.ENDING, kernel.SHAPE},
    ("12", "13"): {kernel.ENDING, kernel.SHORT_ENDING, kernel.LOWER, kernel.BEGINNING},
}  # fmt: skip


@pytest.mark.parametrize("pair", CHANGES, ids=" ".join)
def test_what_tells_words_apart(pair: tuple[str, str], plain: LatentGrammar) -> None:
    """Nothing is familiar here, so that words are their classes; English endings."""
    nothing = np.zeros(len(plain.lexicon.words), np.bool_)
    model = with_features(plain, np.zeros(2, np.float32), nothing)
    assert model.grammar.lexicon.vocabulary.style == "english"
    one, other = columns(model, ["x", *pair])[2:4]
    assert set(np.flatnonzero(one != other).tolist()) == CHANGES[pair]


@given(words=st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=5))
def test_any_words_have_properties(words: list[str], model: FeatureGrammar) -> None:
    """The same ones each time, wherever they stand but for the first place."""
    seen = columns(model, words)
    assert np.array_equal(seen, columns(model, words))
    again = columns(model, [*words, *words])
    assert np.array_equal(again[: len(words) + 1], seen[:-1])
    assert np.array_equal(again[len(words) + 2 : -1], seen[2:-1])


# -- parsing ----------------------------------------------------------------------------------


def test_weights_of_zero_make_all_trees_of_the_chart_alike(
    plain: LatentGrammar, model: FeatureGrammar
) -> None:
    """Then posteriors count trees; with weights they differ from that and from the plain ones."""
    words = ["the", "girl", "saw", "a", "dog", "in", "the", "garden", "."]
    flat = replace(model, feature_weights=np.zeros(1 << BITS, np.float32))
    found = [sw.Parser(m).parse(words)._forest for m in (flat, model, plain)]
    items = [forest.posteriors.items for forest in found if forest is not None]
    assert len(items) == 3
    assert all(p.max() <= 1 + 1e-9 for p in items)
    # a tree has 2 n - 1 items, whatever the weights; the plain ones lose what was pruned
    assert items[0].sum() == pytest.approx(2 * len(words) - 1)
    assert items[1].sum() == pytest.approx(2 * len(words) - 1)
    assert not np.allclose(items[0], items[1], atol=0.01)
    assert not np.allclose(items[0], items[2], atol=0.01)


def test_probabilities_of_trees_are_those_of_the_plain_grammar(
    plain: LatentGrammar, model: FeatureGrammar
) -> None:
    bank = sw.bundled_treebank("dev")
    tree, words = bank.tree(3), bank.words(3)
    assert model.log_prob(tree) == plain.log_prob(tree)
    assert model.log_prob(words) == plain.log_prob(words)
    assert sw.Parser(model).parse(["hello"]).tree == sw.Parser(plain).parse(["hello"]).tree


def test_no_parse_means_a_flat_tree(model: FeatureGrammar) -> None:
    none = np.empty(0)
    plain, coarse = model.grammar, replace(model.grammar.coarse, rules=none)
    bare = replace(
        plain, rules=plain.rules[:0], rule_weights=none, coarse=coarse, is_probabilistic=False
    )
    parse = sw.Parser(replace(model, grammar=bare)).parse(["the", "dog"])
    assert parse.is_fallback
    assert parse.tree.words() == ["the", "dog"]


# -- checks and files -------------------------------------------------------------------------

BAD: dict[str, tuple[Callable[[FeatureGrammar], FeatureGrammar], str]] = {
    "three weights": (
        lambda m: replace(m, feature_weights=np.zeros(3, np.float32)),
        "3 numbers, expected a power of two",
    ),
    "no weights": (
        lambda m: replace(m, feature_weights=np.zeros(0, np.float32)),
        "0 numbers, expected a power of two",
    ),
    "double precision": (
        lambda m: replace(m, feature_weights=np.zeros(4)),
        "finite numbers of type float32, not float64",
    ),
    "no numbers": (
        lambda m: replace(m, feature_weights=np.full(4, np.nan, np.float32)),
        "finite numbers",
    ),
    "a table of two dimensions": (
        lambda m: replace(m, feature_weights=np.zeros((2, 3), np.float32)),
        "6 numbers, expected a power of two",
    ),
    "a mark too few": (
        lambda m: replace(m, is_familiar=m.is_familiar[1:]),
        r"\d+ marks of words, expected \d+",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_parts_are_refused(name: str, model: FeatureGrammar) -> None:
    change, text = BAD[name]
    with pytest.raises(SapwoodError, match=text):
        change(model)


@pytest.mark.parametrize("bits", [0, 1, 5])
def test_a_power_of_two_is_a_table(bits: int, model: FeatureGrammar) -> None:
    small = replace(model, feature_weights=np.ones(1 << bits, np.float32))
    assert SpanFeatures(small).mask == (1 << bits) - 1
    assert sw.Parser(small).parse(["the", "dog", "sleeps", "."]).tree.words()[1] == "dog"


def test_it_comes_back_the_same(model: FeatureGrammar, tmp_path: Path) -> None:
    path = tmp_path / "crf.sapwood"
    model.save(path)
    again = sw.load(path)
    assert isinstance(again, FeatureGrammar)
    assert_same(replace(model.grammar, record=model.record), again.grammar)
    assert again.record == again.grammar.record == model.record
    assert again.feature_weights.tobytes() == model.feature_weights.tobytes()
    assert np.array_equal(again.is_familiar, model.is_familiar)
    bank = sw.bundled_treebank("test")
    for index in range(20):
        one, other = (sw.Parser(m).parse(bank.words(index)) for m in (model, again))
        assert (one.tree, one.marginals) == (other.tree, other.marginals)


def test_it_comes_back_as_a_member_of_an_ensemble(
    plain: LatentGrammar, model: FeatureGrammar, tmp_path: Path
) -> None:
    """First or behind a grammar whose chart it shares."""
    latent = sw.SpectralLPCFG(4).fit(sw.bundled_treebank("dev")).model_
    for members in ([model, latent], [latent, model], [plain, model]):
        before = sw.Ensemble.of(members)
        assert before.groups == ((0, 1),)
        before.save(tmp_path / "e")
        after = sw.load(tmp_path / "e")
        assert isinstance(after, sw.Ensemble)
        for one, other in zip(members, after.members, strict=True):
            assert type(one) is type(other)
            grammar = replace(one.rounded().chart_grammar, record=one.record)
            assert_same(grammar, other.chart_grammar)
        crf = next(m for m in after.members if isinstance(m, FeatureGrammar))
        halves = model.rounded().feature_weights
        assert crf.feature_weights.tobytes() == halves.tobytes()
        assert np.array_equal(crf.is_familiar, model.is_familiar)


def spoilt(path: Path, change: Callable[[dict[str, Array]], object]) -> None:
    """A file whose tensors were changed by somebody who knows how to sign it."""
    tensors, header = kinds._read(path)
    change(tensors)
    header["sha256"] = kinds.digest_of(tensors, header["model"])
    kinds.write_atomically(path, tensors, header)


SPOILT: dict[str, Callable[[dict[str, Array]], object]] = {
    "not a power of two": lambda t: t.update(feature_weights=t["feature_weights"][:-1]),
    "empty": lambda t: t.update(feature_weights=t["feature_weights"][:0]),
    "not finite": lambda t: t.update(feature_weights=t["feature_weights"] + np.float32(np.inf)),
    "of another type": lambda t: t.update(feature_weights=t["feature_weights"].astype(np.float64)),
    "without marks": lambda t: t.pop("is_familiar"),
    "marks too few": lambda t: t.update(is_familiar=t["is_familiar"][:-1]),
}


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_files_are_refused(name: str, model: FeatureGrammar, tmp_path: Path) -> None:
    path = tmp_path / "crf.sapwood"
    model.save(path)
    spoilt(path, SPOILT[name])
    assert_refused(path, "not a valid model")
