"""Relative frequencies: by hand, by shards, and against the truth behind samples."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sapwood as sw
from sapwood.constituency.data.transform import Symbol, Transform
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.from_text import bundled_grammar
from sapwood.constituency.grammar.latent_grammar import LatentGrammar, state_sums
from sapwood.constituency.learn.pcfg import PCFG, LexiconSettings
from sapwood.constituency.learn.tree_counts import TreeCounts
from sapwood.constituency.parse.prepared import prepare
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree
from sapwood.corpora.vocabulary import UNKNOWN

BY_HAND = """
(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT a) (NN cat))))
(S (NP (DT the) (NN cat)) (VP (VB sleeps)))
(S (NP (NP (DT a) (NN cat)) (PP (IN with) (NP (DT a) (NN hat)))) (VP (VB sleeps)))
(NP (DT a) (NN dog))
"""


def bank_of(text: str, transform: Transform | None = None) -> Treebank:
    trees = [Tree.parse(line) for line in text.strip().splitlines()]
    return Treebank.from_trees(trees, transform)


@pytest.fixture(scope="module")
def model(dev: Treebank) -> LatentGrammar:
    return PCFG().fit(dev).model_


def rules_of(model: LatentGrammar) -> dict[str, float]:
    names = [str(symbol) for symbol in model.symbols]
    return {
        f"{names[a]} -> {names[b]} {names[c]}": float(w)
        for (a, b, c), w in zip(model.rules.tolist(), model.rule_weights, strict=True)
    }


def same(one: LatentGrammar, other: LatentGrammar) -> bool:
    """Equal to the last bit, apart from the record."""
    arrays = ("n_states", "root", "rules", "rule_weights")
    lexical = ("row_start", "entry_tag", "weights", "weight_start")
    return (
        (one.phrases, one.tags, one.transform) == (other.phrases, other.tags, other.transform)
        and one.lexicon.words == other.lexicon.words
        and one.lexicon.vocabulary.classes == other.lexicon.vocabulary.classes
        and all(getattr(one, a).tobytes() == getattr(other, a).tobytes() for a in arrays)
        and all(
            getattr(one.lexicon, a).tobytes() == getattr(other.lexicon, a).tobytes()
            for a in lexical
        )
    )


# -- by hand ----------------------------------------------------------------------------------


def test_frequencies_worked_out_by_hand() -> None:
    model = PCFG().fit(bank_of(BY_HAND)).model_
    assert rules_of(model) == pytest.approx(
        {
            "S -> NP VP": 1 / 3,
            "S -> NP VP|VB": 2 / 3,
            "NP -> DT NN": 6 / 7,
            "NP -> NP PP": 1 / 7,
            "VP -> VB NP": 1.0,
            "PP -> IN NP": 1.0,
        },
        rel=1e-15,
    )
    root = {str(a): p for a, p in zip(model.symbols, model.root, strict=True) if p}
    assert root == pytest.approx({"S": 3 / 4, "NP": 1 / 4}, rel=1e-15)
    assert model.is_plain
    assert model.is_probabilistic
    assert model.record["trees"] == 4
    assert model.record["tokens"] == 16


def test_a_tree_weighs_the_product_of_its_rules() -> None:
    model = PCFG().fit(bank_of(BY_HAND)).model_
    word = {
        (
            model.lexicon.words[row],
            str(model.tags[model.lexicon.entry_tag[e]]),
        ): model.lexicon.weights[e]
        for row in range(len(model.lexicon.words))
        for e in range(model.lexicon.entries(row).start, model.lexicon.entries(row).stop)
    }
    expected = 1 / 4 * 6 / 7 * word["the", "DT"] * word["cat", "NN"]
    found = model.log_prob(Tree.parse("(NP (DT the) (NN cat))"))
    np.testing.assert_allclose(found, log(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "rules"),
    [
        ({"binarise": "right", "horizontal": 0}, {"S -> A @S", "@S -> B @S", "@S -> C D"}),
        ({"binarise": "left", "horizontal": 0}, {"S -> @S D", "@S -> @S C", "@S -> A B"}),
        (
            {"binarise": "right", "horizontal": 1},
            {"S -> A @S:<B", "@S:<B -> B @S:<C", "@S:<C -> C D"},
        ),
        (
            {"binarise": "left", "horizontal": 2},
            {"S -> @S:>C,>B D", "@S:>C,>B -> @S:>B C", "@S:>B -> A B"},
        ),
    ],
)
def test_options_make_trees_binary_in_another_way(
    options: dict[str, object], rules: set[str]
) -> None:
    bank = bank_of("(S (A a) (B b) (C c) (D d))")
    model = PCFG(**options).fit(bank).model_  # type: ignore[arg-type]
    assert set(rules_of(model)) == rules
    assert model.transform.binarise == options["binarise"]


def test_vertical_context_splits_symbols() -> None:
    bank = bank_of(BY_HAND)
    model = PCFG(vertical=2, tag_parents=True).fit(bank).model_
    assert Symbol(("NP",), ("PP",)) in model.phrases
    assert Symbol(("DT",), ("NP",)) in model.tags
    assert rules_of(model)["NP^S -> NP^NP PP^NP"] == pytest.approx(1 / 3, rel=1e-15)
    assert np.isfinite(model.log_probs(bank)).all()


def test_what_is_not_set_stays_as_the_treebank_was_read() -> None:
    transform = Transform(binarise="left", horizontal=2, heads="generic")
    model = PCFG().fit(bank_of(BY_HAND, transform)).model_
    assert model.transform == transform
    assert PCFG(horizontal=0).fit(bank_of(BY_HAND, transform)).model_.transform == Transform(
        binarise="left", horizontal=0, heads="generic"
    )


def test_a_treebank_of_single_words_gives_a_grammar_without_rules() -> None:
    model = PCFG().fit(bank_of("(NP (NN dogs))\n(NN cats)")).model_
    assert len(model.rules) == 0
    assert model.log_prob(["dogs"]) > -inf
    assert str(sw.Parser(model).parse(["dogs"]).tree) == "(TOP (NP (NN dogs)))"


# -- moments ----------------------------------------------------------------------------------


def equal(one: TreeCounts, other: TreeCounts) -> bool:
    return all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(TreeCounts)
    )


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 300), min_size=2, max_size=2))
def test_counts_are_a_commutative_monoid(cuts: list[int], dev: Treebank) -> None:
    i, j = sorted(cuts)
    a, b, c = (TreeCounts.of(part) for part in (dev[:i], dev[i:j], dev[j:]))
    zero = TreeCounts.zero(dev.inventory)
    assert equal(a + zero, a)
    assert equal(zero + a, a)
    assert equal(a + b, b + a)
    assert equal((a + b) + c, a + (b + c))
    assert equal(a + b + c, TreeCounts.of(dev))


def test_counts_count(dev: Treebank) -> None:
    counts = TreeCounts.of(dev)
    assert counts.roots.sum() == dev.n_trees
    assert counts.rules.sum() == dev.n_tokens - dev.n_trees
    assert counts.lexical_count.sum() == dev.n_tokens
    assert counts.symbols.sum() == len(dev.label)
    assert not equal(counts, TreeCounts.of(dev[1:]))


def test_jobs_do_not_change_the_model(dev: Treebank, model: LatentGrammar) -> None:
    for n_jobs in (2, 3, 0):
        assert same(model, PCFG(n_jobs=n_jobs).fit(dev).model_)


def test_the_order_of_trees_does_not_change_frequencies(
    dev: Treebank, model: LatentGrammar
) -> None:
    trees = list(dev.trees())
    turned = PCFG().fit(Treebank.from_trees(reversed(trees), dev.inventory.transform)).model_
    assert rules_of(turned) == pytest.approx(rules_of(model), rel=1e-15)


# -- lexicon ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings_",
    [
        LexiconSettings(),
        LexiconSettings(rare_count=0),
        LexiconSettings(sharing=0.0),
        LexiconSettings(class_weight=0.0),
        LexiconSettings(style="generic", class_count=1),
    ],
    ids=["default", "no rare words", "no sharing", "no classes in words", "generic"],
)
def test_every_symbol_is_a_distribution(settings_: LexiconSettings, dev: Treebank) -> None:
    model = PCFG(lexicon=settings_).fit(dev).model_
    sums = state_sums(model)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.root.sum(), 1.0, rtol=1e-12)
    assert np.isfinite(model.log_probs(dev)).all()


def tags_of(model: LatentGrammar, word: str, *, is_first: bool = False) -> dict[str, float]:
    """P(tag | word) under the tags' frequencies in the treebank."""
    lexicon = model.lexicon
    entries = lexicon.entries(lexicon.vocabulary.row(word, is_first=is_first))
    joint = prepare(model).plain.entry_share[entries]
    tags = [str(model.tags[t]) for t in lexicon.entry_tag[entries]]
    return dict(zip(tags, joint.tolist(), strict=True))


def test_unknown_words_take_the_tags_of_rare_words_like_them() -> None:
    lines = []
    for stem in ("walk", "talk", "jump", "cook", "read", "sing"):
        lines.append(f"(S (NN {stem}er) (VBG {stem}ing))")
        lines += ["(S (DT the) (NN man))"] * 3
    model = PCFG().fit(bank_of("\n".join(lines))).model_
    assert UNKNOWN in model.lexicon.vocabulary.classes
    assert "<unk-lower-ing>" in model.lexicon.vocabulary.classes
    unknown = tags_of(model, "zorbing")
    assert max(unknown, key=unknown.__getitem__) == "VBG"
    assert max(tags_of(model, "zorber").items(), key=lambda pair: pair[1])[0] == "NN"
    frequent = tags_of(model, "the")
    assert max(frequent, key=frequent.__getitem__) == "DT"
    assert unknown.get("DT", 0.0) < 0.1


def test_known_words_keep_their_tags(dev: Treebank, model: LatentGrammar) -> None:
    seen = {(tree_tag, word) for i in range(100) for tree_tag, word in _tagged(dev.tree(i))}
    wrong = [
        (tag, word)
        for tag, word in seen
        if not any(name.split("|")[-1] == tag for name in tags_of(model, word))
    ]
    assert wrong == []


def _tagged(tree: Tree) -> list[tuple[str, str]]:
    return list(zip(tree.tags(), tree.words(), strict=True))


def test_capitals_at_the_start_are_forgiven(model: LatentGrammar) -> None:
    lexicon = model.lexicon
    assert "the" in lexicon.words
    assert (
        lexicon.vocabulary.row("The", is_first=True) == lexicon.words.index("the")
        or "The" in lexicon.words
    )
    assert lexicon.vocabulary.row("(", is_first=False) == lexicon.vocabulary.row(
        "-LRB-", is_first=False
    )
    for word in ("Zyx", "zyx", "ZYX", "1990", "%"):
        assert lexicon.vocabulary.row(word, is_first=False) >= len(lexicon.words)


# -- against the truth ------------------------------------------------------------------------


def test_estimates_approach_the_truth_as_the_sample_grows() -> None:
    """The error of a frequency falls like 1 / sqrt(n): four times the trees, half the error."""
    truth = bundled_grammar()
    sizes = (100, 400, 1600)
    trees = truth.sample(sizes[-1], seed=5)
    errors = [_distance(truth, Treebank.from_trees(trees[:n], truth.transform)) for n in sizes]
    ratios = [few / many for few, many in pairwise(errors)]
    assert all(ratio > 1.3 for ratio in ratios)  # rare rules fall more slowly at first
    assert errors[0] / errors[-1] == pytest.approx(4.0, rel=0.5)


def _distance(truth: LatentGrammar, bank: Treebank) -> float:
    """Mean over symbols, by how often they occur, of the total variation of their rules."""
    model = PCFG().fit(bank).model_
    number = {symbol: a for a, symbol in enumerate(truth.symbols)}
    ours = {
        tuple(rule): w for rule, w in zip(truth.rules.tolist(), truth.coarse.rules, strict=True)
    }
    found = dict.fromkeys(ours, 0.0)
    for rule, weight in zip(model.rules.tolist(), model.rule_weights, strict=True):
        found[tuple(number[model.symbols[a]] for a in rule)] = float(weight)
    assert found.keys() == ours.keys()  # nothing was seen that the truth cannot do
    visits = TreeCounts.of(bank).symbols
    share = {number[symbol]: visits[a] for a, symbol in enumerate(model.phrases)}
    total = sum(share.values())
    return sum(share.get(r[0], 0.0) * abs(ours[r] - found[r]) for r in ours) / (2 * total)


# -- the estimator's contract -----------------------------------------------------------------


def test_parameters_are_stored_shown_and_changed() -> None:
    estimator = PCFG(binarise="left", n_jobs=2)
    params = estimator.get_params()
    assert params["binarise"] == "left"
    assert params["n_jobs"] == 2
    assert params["vertical"] is None
    assert PCFG(**params).get_params() == params
    assert estimator.set_params(vertical=2, binarise=None) is estimator
    assert (estimator.vertical, estimator.binarise) == (2, None)
    assert repr(estimator) == "PCFG(vertical=2, n_jobs=2)"
    with pytest.raises(SapwoodError, match="no parameter 'colour'"):
        estimator.set_params(colour="green")


@pytest.mark.parametrize(
    "params",
    [
        {"binarise": "sideways"},
        {"horizontal": -1},
        {"horizontal": 1.5},
        {"vertical": 0},
        {"lexicon": "big"},
        {"n_jobs": -1},
    ],
    ids=str,
)
def test_bad_parameters_are_named_when_fitting(params: dict[str, object], dev: Treebank) -> None:
    estimator = PCFG(**params)  # type: ignore[arg-type]
    with pytest.raises(SapwoodError, match=next(iter(params)).removeprefix("n_")):
        estimator.fit(dev)
    assert not hasattr(estimator, "model_")


def test_fitting_something_else_is_explained() -> None:
    with pytest.raises(SapwoodError, match="expected a treebank, not an int") as caught:
        PCFG().fit(3)  # type: ignore[arg-type]
    assert "Treebank" in str(caught.value.hint)


def test_a_part_of_a_treebank_is_a_treebank(dev: Treebank) -> None:
    """A slice shares the inventory of the whole; what it lacks is unknown to its model."""
    part = PCFG().fit(dev[:40]).model_
    alone = PCFG().fit(Treebank.from_trees(dev[:40].trees(), dev.inventory.transform)).model_
    assert rules_of(part) == pytest.approx(rules_of(alone), rel=1e-15)
    assert set(part.lexicon.words) == set(alone.lexicon.words)
    sentences = [dev.words(index) for index in range(100, 140)]
    one, other = (sw.Parser(model) for model in (part, alone))
    for words in sentences:
        assert one.parse(words).sentence_log_prob == pytest.approx(
            other.parse(words).sentence_log_prob, rel=1e-9
        )


def test_fitting_returns_the_estimator_and_fits_again(dev: Treebank, model: LatentGrammar) -> None:
    estimator = PCFG()
    assert estimator.fit(dev[:50]) is estimator
    assert same(estimator.fit(dev).model_, model)
