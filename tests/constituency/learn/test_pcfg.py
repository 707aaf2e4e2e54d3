"""`PCFG`: counts of a treebank, relative frequencies, and prepared training data."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from math import inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import bundled
from tests.shards import shards_of

import sapwood as sw
from sapwood.constituency.data.transform import Symbol, Transform
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.ensemble import Member
from sapwood.constituency.grammar.from_text import bundled_grammar
from sapwood.constituency.grammar.latent_grammar import LatentGrammar, state_sums
from sapwood.constituency.learn.pcfg import PCFG
from sapwood.constituency.learn.training_data import LexiconSettings, TrainingData, TreebankCounts
from sapwood.constituency.parse.prepared import prepare
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree
from sapwood.corpora.vocabulary import UNKNOWN
from sapwood.execute import Threads

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


def equal(one: TreebankCounts, other: TreebankCounts) -> bool:
    return all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(TreebankCounts)
    )


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, 300), min_size=2, max_size=2))
def test_counts_are_a_commutative_monoid(cuts: list[int], dev: Treebank) -> None:
    i, j = sorted(cuts)
    a, b, c = (TreebankCounts.of(part) for part in (dev[:i], dev[i:j], dev[j:]))
    zero = TreebankCounts.zero(dev.inventory)
    assert equal(a + zero, a)
    assert equal(zero + a, a)
    assert equal(a + b, b + a)
    assert equal((a + b) + c, a + (b + c))
    assert equal(a + b + c, TreebankCounts.of(dev))


def test_counts_count(dev: Treebank) -> None:
    counts = TreebankCounts.of(dev)
    assert counts.roots.sum() == dev.n_trees
    assert counts.rules.sum() == dev.n_tokens - dev.n_trees
    assert counts.lexical_count.sum() == dev.n_tokens
    assert counts.symbols.sum() == len(dev.label)
    assert not equal(counts, TreebankCounts.of(dev[1:]))


def test_jobs_do_not_change_the_model(dev: Treebank, model: LatentGrammar) -> None:
    for n_jobs in (2, 3, 0):
        assert same(model, PCFG(n_jobs=n_jobs).fit(dev).model_)


def test_the_order_of_trees_does_not_change_frequencies(
    dev: Treebank, model: LatentGrammar
) -> None:
    trees = list(dev.trees())
    turned = PCFG().fit(Treebank.from_trees(reversed(trees), dev.inventory.transform)).model_
    assert rules_of(turned) == pytest.approx(rules_of(model), rel=1e-15)


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
    joint = prepare(model).plain.entry_ratio[entries]
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
    visits = TreebankCounts.of(bank).symbols
    share = {number[symbol]: visits[a] for a, symbol in enumerate(model.phrases)}
    total = sum(share.values())
    return sum(share.get(r[0], 0.0) * abs(ours[r] - found[r]) for r in ours) / (2 * total)


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


TREES = """
(S (NP (DT the) (NN dog)) (VP (VB sees) (NP (DT the) (NN cat))))
(NP (DT the) (NN dog))
(S (NP (NN dog) (NN dog)) (VB sees))
"""


@pytest.fixture(scope="module")
def three_trees() -> Treebank:
    return Treebank.from_trees([Tree.parse(line) for line in TREES.strip().splitlines()])


def named(counts: TreebankCounts, three_trees: Treebank) -> dict[tuple[str, str, bool], float]:
    """Lexical counts by tag, word and whether it comes first."""
    tags, words = three_trees.inventory.tags, three_trees.inventory.words
    pair, is_first = np.divmod(counts.lexical, 2)
    return {
        (str(tags[code // len(words)]), words[code % len(words)], bool(first)): float(n)
        for code, first, n in zip(pair, is_first, counts.lexical_count, strict=True)
    }


def test_by_hand(three_trees: Treebank) -> None:
    counts, symbols = (
        TreebankCounts.of(three_trees),
        [str(symbol) for symbol in three_trees.inventory.symbols],
    )
    assert dict(zip(symbols, counts.symbols.tolist(), strict=True)) == {
        "S": 2, "NP": 4, "VP": 1, "DT": 3, "NN": 5, "VB": 2
    }  # fmt: skip
    roots = {name: n for name, n in zip(symbols, counts.roots.tolist(), strict=True) if n}
    assert roots == {"S": 2, "NP": 1}
    rules = {
        " ".join(symbols[x] for x in rule): n
        for rule, n in zip(three_trees.inventory.rules, counts.rules.tolist(), strict=True)
    }
    assert rules == {"NP DT NN": 3, "VP VB NP": 1, "S NP VP": 1, "NP NN NN": 1, "S NP VB": 1}
    assert named(counts, three_trees) == {
        ("DT", "the", True): 2, ("DT", "the", False): 1, ("NN", "dog", False): 3,
        ("NN", "dog", True): 1, ("NN", "cat", False): 1, ("VB", "sees", False): 2,
    }  # fmt: skip


def test_words_and_their_pairs_with_tags(three_trees: Treebank) -> None:
    counts, words = TreebankCounts.of(three_trees), three_trees.inventory.words
    n = PCFG().prepare(three_trees, Threads()).classes.seen
    assert dict(zip(words, n.tolist(), strict=True)) == {"the": 3, "dog": 4, "sees": 2, "cat": 1}
    tag, word = np.divmod(counts.pairs, len(words))
    pairs = [(str(three_trees.inventory.tags[a]), words[x]) for a, x in zip(tag, word, strict=True)]
    assert sorted(pairs) == [("DT", "the"), ("NN", "cat"), ("NN", "dog"), ("VB", "sees")]
    assert (np.diff(counts.pairs) > 0).all()


def test_a_part_counts_no_word_of_the_rest(three_trees: Treebank) -> None:
    n = PCFG().prepare(three_trees[1:2], Threads()).classes.seen
    assert dict(zip(three_trees.inventory.words, n.tolist(), strict=True)) == {
        "the": 1, "dog": 1, "sees": 0, "cat": 0
    }  # fmt: skip


def test_shards_add_up(three_trees: Treebank) -> None:
    whole = TreebankCounts.of(three_trees)
    total = TreebankCounts.zero(three_trees.inventory)
    for tree in range(three_trees.n_trees):
        total = total + TreebankCounts.of(three_trees[tree : tree + 1])
    for name in ("rules", "symbols", "roots"):
        np.testing.assert_array_equal(getattr(total, name), getattr(whole, name))
    assert named(total, three_trees) == named(whole, three_trees)


ESTIMATORS: tuple[Any, ...] = (
    sw.PCFG(), sw.SpectralLPCFG(3), sw.EMLPCFG(2, iterations=2), sw.ClusterLPCFG(2, iterations=1),
    sw.PivotLPCFG(2, iterations=1), sw.SpanCRF(passes=1),
)  # fmt: skip


@pytest.fixture(scope="module")
def data(small_bank: Treebank) -> TrainingData:
    return sw.PCFG().prepare(small_bank, Threads())


def is_same(one: Member, other: Member) -> bool:
    """Equal to the last bit."""
    (ours, header), (theirs, other_header) = one.to_file(), other.to_file()
    is_equal = all(np.array_equal(ours[name], theirs[name]) for name in ours)
    return header == other_header and ours.keys() == theirs.keys() and is_equal


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_treebank_and_its_data_teach_the_same(
    estimator: Any, small_bank: Treebank, data: TrainingData
) -> None:
    """Also when others have learnt from the data before, and left there what they made."""
    from_bank = estimator.fit(small_bank).model_
    assert is_same(estimator.fit(data).model_, from_bank)
    assert is_same(estimator.fit(data).model_, from_bank)


@pytest.mark.parametrize("other", [{"seed": 1}, {"n_states": 4}, {"kappa": 1.0}], ids=str)
def test_what_others_made_is_not_taken_for_ones_own(
    other: dict[str, Any], small_bank: Treebank, data: TrainingData
) -> None:
    learner = sw.SpectralLPCFG(3).fit(data)
    first = learner.model_
    assert is_same(learner.set_params(**other).fit(data).model_, learner.fit(small_bank).model_)
    assert not is_same(learner.model_, first)


@pytest.mark.parametrize("estimator", ESTIMATORS[1:], ids=lambda e: type(e).__name__)
def test_the_estimator_of_the_plain_grammar_stays_as_it_was(
    estimator: Any, small_bank: Treebank
) -> None:
    plain = sw.PCFG(binarise="right")
    before = dict(vars(plain))
    learner = type(estimator)(**estimator.get_params() | {"plain": plain})
    assert learner.fit(small_bank).model_.transform.binarise == "right"
    assert vars(plain) == before


@pytest.mark.parametrize("n", [2, 7])
def test_shards_change_no_count(n: int, small_bank: Treebank, data: TrainingData) -> None:
    cut = sw.PCFG().prepare(shards_of(small_bank, n), Threads(2))
    assert len(cut.shards) == n
    for name in ("rules", "symbols", "roots", "lexical", "lexical_count"):
        np.testing.assert_array_equal(getattr(cut.counts, name), getattr(data.counts, name))
    assert is_same(cut.grammar, data.grammar)
    for mine, whole in zip(cut.classes, data.classes, strict=True):
        np.testing.assert_array_equal(mine, whole)


def test_classes_are_those_of_the_counted_words(small_bank: Treebank) -> None:
    """Words of the inventory that a part lacks are neither rare nor of a class."""
    part = sw.PCFG().prepare(small_bank[:20], Threads())
    count = part.classes.seen
    assert (count == 0).any()
    assert (part.classes.class_of_word[:, count == 0] == -1).all()
    assert (part.classes.class_of_word[:, count == 1] >= 0).all()


def test_the_lexicon_is_that_of_the_settings(small_bank: Treebank) -> None:
    rare = TrainingData(small_bank, LexiconSettings(rare_count=1), Threads()).grammar.lexicon
    ours = sw.PCFG(lexicon=LexiconSettings(rare_count=1)).fit(small_bank).model_.lexicon
    assert np.array_equal(rare.weights, ours.weights)
    assert not np.array_equal(rare.weights, sw.PCFG().fit(small_bank).model_.lexicon.weights)


def test_a_fingerprint_tells_trees_apart(small_bank: Treebank, data: TrainingData) -> None:
    def digest(small_bank: Treebank, n: int = 1) -> str:
        return sw.PCFG().prepare(shards_of(small_bank, n), Threads(n)).digest()

    assert digest(small_bank) == data.digest()
    others = [small_bank[:-1], small_bank[::-1], bundled("train")[:150]]
    assert len({data.digest(), *map(digest, others)}) == 4
    other_end = small_bank[[*range(149), 0]]
    assert digest(other_end, 3) != digest(small_bank, 3) == digest(small_bank, 3)


def test_what_is_no_treebank_is_refused() -> None:
    with pytest.raises(SapwoodError, match="expected a treebank, not an int"):
        sw.PCFG().prepare(3, Threads())  # type: ignore[arg-type]
    with pytest.raises(SapwoodError, match="horizontal must be"):
        sw.PCFG(horizontal=-1).fit(sw.bundled_treebank("dev"))
    with pytest.raises(SapwoodError, match="PCFG: horizontal must be"):
        sw.SpectralLPCFG(plain=sw.PCFG(horizontal=-1)).fit(sw.bundled_treebank("dev"))


def test_a_record_counts_the_trees(small_bank: Treebank, data: TrainingData) -> None:
    assert data.sizes == {"trees": 150, "tokens": small_bank.n_tokens}
    assert data.grammar.record == {"method": "pcfg", **data.sizes}
