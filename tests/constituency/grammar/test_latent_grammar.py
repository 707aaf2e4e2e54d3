"""Grammars reject what is broken, sample what they say, and weigh trees and sentences alike."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from math import exp, inf, log
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from tests.reference import enumerate as listing
from tests.toys import Toy, random_toy, tree_of

import sapwood as sw
from sapwood.constituency.data.transform import Symbol
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar import random_trees
from sapwood.constituency.grammar.from_text import bundled_grammar, grammar_from_text
from sapwood.constituency.grammar.latent_grammar import CoarseWeights, LatentGrammar, Lexicon
from sapwood.constituency.parse.charts import tag_weights
from sapwood.constituency.parse.parser import Parser
from sapwood.constituency.parse.prepared import prepare
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.corpora.tree import Tree
from sapwood.corpora.vocabulary import UNKNOWN

FINITE = """
root S[a] 3
root S[b] 1
S[a] -> NP[x] VP 2
S[a] -> NP[x] @S 1
S[b] -> NP[y] VP 1
@S -> ADV VP 1
NP[x] -> DT NN[x] 1
NP[y] -> DT NN[y] 1
DT : the a*3
NN[x] : dog cat*2
NN[y] : dog*4 fox
ADV : often
VP : runs sleeps*2
"""


@pytest.fixture(scope="module")
def grammar() -> LatentGrammar:
    return (
        random_toy(np.random.default_rng(0), n_states=2).normalised().grammar(is_probabilistic=True)
    )


@pytest.fixture(scope="module")
def finite() -> LatentGrammar:
    """A grammar with finitely many trees."""
    return grammar_from_text(FINITE)


# -- invariants -------------------------------------------------------------------------------


def _array(values: np.ndarray, place: Any, value: float) -> np.ndarray:
    changed = values.copy()
    changed[place] = value
    return changed


def _lexicon(**changes: Callable[[Lexicon], Any]) -> Callable[[LatentGrammar], LatentGrammar]:
    return lambda g: replace(
        g, lexicon=replace(g.lexicon, **{k: change(g.lexicon) for k, change in changes.items()})
    )


def _coarse(**changes: Callable[[CoarseWeights], Any]) -> Callable[[LatentGrammar], LatentGrammar]:
    return lambda g: replace(
        g, coarse=replace(g.coarse, **{k: change(g.coarse) for k, change in changes.items()})
    )


BROKEN: dict[str, tuple[Callable[[LatentGrammar], LatentGrammar], str]] = {
    "no tags": (lambda g: replace(g, tags=()), "no tags"),
    "phrase twice": (
        lambda g: replace(g, phrases=(g.phrases[0],) * 2),
        "phrase symbol is listed twice",
    ),
    "tag twice": (lambda g: replace(g, tags=(g.tags[0],) * 2), "tag symbol is listed twice"),
    "intermediate tag": (
        lambda g: replace(g, tags=(g.tags[0], Symbol(("X",), (), ()))),
        "intermediate symbol stands among the tags",
    ),
    "states missing": (lambda g: replace(g, n_states=g.n_states[:-1]), "3 entries for 4 symbols"),
    "no state": (lambda g: replace(g, n_states=_array(g.n_states, 0, 0)), "a symbol has no state"),
    "root too short": (lambda g: replace(g, root=g.root[:-1]), "root vectors do not fit"),
    "rules of two": (lambda g: replace(g, rules=g.rules[:, :2]), "rows of three"),
    "unknown symbol": (lambda g: replace(g, rules=_array(g.rules, (0, 1), 9)), "unknown symbol"),
    "negative symbol": (lambda g: replace(g, rules=_array(g.rules, (0, 1), -1)), "unknown symbol"),
    "tag as parent": (
        lambda g: replace(g, rules=_array(g.rules, (0, 0), 2)),
        "tag has a binary rule",
    ),
    "rule twice": (
        lambda g: replace(g, rules=_array(g.rules, 1, g.rules[0])),
        "1 rules are listed twice",
    ),
    "weights missing": (
        lambda g: replace(g, rule_weights=g.rule_weights[:-1]),
        "rule weights, found",
    ),
    "nan": (
        lambda g: replace(g, rule_weights=_array(g.rule_weights, 0, np.nan)),
        "not a finite number",
    ),
    "infinite": (
        lambda g: replace(g, root=_array(g.root, 0, np.inf)),
        "root weight is not a finite",
    ),
    "negative": (
        lambda g: replace(g, root=_array(g.root, 0, -0.1)),
        "root probability is negative",
    ),
    "root sum": (lambda g: replace(g, root=g.root * 1.1), "root probabilities sum to 1.1, not 1"),
    "rule sum": (
        lambda g: replace(g, rule_weights=g.rule_weights * 0.5),
        r"P0 in state 0 sum to 0.5",
    ),
    "rows": (
        _lexicon(vocabulary=lambda x: replace(x.vocabulary, words=x.words[:-1])),
        "rows do not fit its words",
    ),
    "overlap": (_lexicon(row_start=lambda x: _array(x.row_start, 1, 99)), "rows overlap"),
    "unknown tag": (_lexicon(entry_tag=lambda x: _array(x.entry_tag, 0, 9)), "unknown tag"),
    "vectors": (_lexicon(weight_start=lambda x: x.weight_start[:-1]), "vectors do not fit"),
    "vector overlap": (_lexicon(weights=lambda x: x.weights[:-1]), "vectors overlap"),
    "tag order": (
        _lexicon(entry_tag=lambda x: x.entry_tag[::-1].copy()),
        "rising order|do not fit",
    ),
    "no unknown": (
        _lexicon(vocabulary=lambda x: replace(x.vocabulary, classes=("<other>",))),
        f"no class {UNKNOWN}",
    ),
    "emission sum": (_lexicon(weights=lambda x: x.weights * 2), "sum to 2, not 1"),
    "coarse root": (_coarse(root=lambda x: x.root[:-1]), "expected 4 coarse root weights, found 3"),
    "coarse rules": (_coarse(rules=lambda x: -x.rules), "coarse rules weight is negative"),
    "coarse lexical": (_coarse(lexical=lambda x: x.lexical[1:]), "coarse lexical weights"),
    "coarse nan": (_coarse(rules=lambda x: _array(x.rules, 0, np.nan)), "coarse rules weight"),
    "coarse infinite": (_coarse(root=lambda x: _array(x.root, 0, np.inf)), "coarse root weight"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_grammar_is_rejected_with_the_reason(grammar: LatentGrammar, case: str) -> None:
    breaks, message = BROKEN[case]
    with pytest.raises(ModelFormatError, match=message) as caught:
        breaks(grammar)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_a_word_lists_each_of_its_tags_once() -> None:
    lexicon = (grammar := random_toy(np.random.default_rng(0)).grammar()).lexicon
    first = int(lexicon.row_start[np.flatnonzero(np.diff(lexicon.row_start) > 1)[0]])
    tags = _array(lexicon.entry_tag, first + 1, lexicon.entry_tag[first])
    with pytest.raises(ModelFormatError, match="rising order"):
        replace(grammar, lexicon=replace(lexicon, entry_tag=tags))


def test_weights_of_either_sign_need_not_sum_to_one(grammar: LatentGrammar) -> None:
    spectral = replace(grammar, rule_weights=-grammar.rule_weights, is_probabilistic=False)
    assert not spectral.is_probabilistic
    with pytest.raises(SapwoodError, match="weights, not probabilities"):
        spectral.sample(1)


def test_a_grammar_without_rules_reads_single_words() -> None:
    toy = Toy(
        0, [1], {0: np.ones(1)}, {}, {"w0": {0: np.array([0.5])}, UNKNOWN: {0: np.array([0.5])}}
    )
    model = toy.grammar(is_probabilistic=True)
    np.testing.assert_allclose(model.log_prob(["w0"]), log(0.5), rtol=1e-15)
    assert model.log_prob(["w0", "w0"]) == -inf
    assert str(model.sample(1)[0]) == "(TOP (T0 w0))"


def test_a_grammar_carries_nothing_that_was_prepared(grammar: LatentGrammar) -> None:
    fresh = pickle.dumps(grammar)
    before = grammar.log_prob(["w0", "w1"])
    assert pickle.dumps(grammar) == fresh
    assert pickle.loads(fresh).log_prob(["w0", "w1"]) == before


# -- probabilities ----------------------------------------------------------------------------


def every_tree(model: LatentGrammar, words: list[list[str]]) -> dict[Tree, float]:
    """Trees of the given sentences with their probabilities, by enumeration over labels."""
    rules = {tuple(row): model.tensor(r) for r, row in enumerate(model.rules.tolist())}
    root = {a: model.root_vector(a) for a in range(model.n_symbols)}
    out: dict[Tree, float] = {}
    for sentence in words:
        emissions = [emission(model, word, place == 0) for place, word in enumerate(sentence)]
        for node, weight in listing.weighted_trees(root, rules, emissions):
            out[restored(model, node, sentence)] = weight
    return out


def emission(model: LatentGrammar, word: str, is_first: bool) -> dict[int, np.ndarray]:
    lexicon = model.lexicon
    entries = lexicon.entries(lexicon.vocabulary.row(word, is_first=is_first))
    return {
        model.n_phrases + int(lexicon.entry_tag[e]): lexicon.weights[
            lexicon.weight_start[e] : lexicon.weight_start[e + 1]
        ]
        for e in range(entries.start, entries.stop)
    }


def restored(model: LatentGrammar, node: listing.Node, words: list[str]) -> Tree:
    def parts(part: listing.Node) -> list[Tree]:
        symbol = model.symbols[part.symbol]
        if not part.children:
            return [Tree(symbol.chain[-1], words[part.start])]
        kids = [tree for child in part.children for tree in parts(child)]
        return kids if symbol.is_intermediate else [Tree(symbol.chain[-1], kids)]

    return Tree("TOP", parts(node))


def all_sentences(words: tuple[str, ...]) -> list[list[str]]:
    """Every sentence of the finite grammar."""
    dets, nouns, verbs = ("the", "a"), ("dog", "cat", "fox"), ("runs", "sleeps")
    assert set(words) == {*dets, *nouns, *verbs, "often"}
    short = [[d, n, v] for d in dets for n in nouns for v in verbs]
    return short + [[d, n, "often", v] for d, n, v in short]


def test_trees_of_a_finite_grammar_share_all_probability(finite: LatentGrammar) -> None:
    trees = every_tree(finite, all_sentences(finite.lexicon.words))
    # Each of the three or four tags of a tree keeps 1e-4 for words that are not listed.
    known = sum(p * (1 - 1e-4) ** -len(tree.words()) for tree, p in trees.items())
    np.testing.assert_allclose(known, 1.0, rtol=1e-12)
    found = finite.log_probs(list(trees))
    np.testing.assert_allclose(np.exp(found), list(trees.values()), rtol=1e-12)


def test_a_sentence_weighs_as_much_as_its_trees() -> None:
    for seed in range(4):
        toy = random_toy(np.random.default_rng(seed), n_states=1 + seed % 3, density=0.5)
        model, words = toy.grammar(), ["w0", "w1", "w2", "w1"]
        trees = [
            tree_of(t, words, toy.n_phrases) for t, _ in listing.weighted_trees(*toy.floats(words))
        ]
        expected = logsumexp(model.log_probs(trees))
        np.testing.assert_allclose(model.log_prob(words), expected, rtol=0, atol=1e-11)


def test_the_bundled_grammar_gives_a_sentence_more_than_its_best_tree() -> None:
    model = bundled_grammar()
    tree = Tree.parse("(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))")
    assert -inf < model.log_prob(tree) <= model.log_prob(tree.words()) < 0
    assert model.log_prob(tree[0]) == model.log_prob(tree)  # with or without TOP


def test_bad_requests_are_explained(grammar: LatentGrammar) -> None:
    with pytest.raises(SapwoodError, match="list of words, not a string"):
        grammar.log_prob("w0 w1")
    with pytest.raises(SapwoodError, match="empty sentence"):
        grammar.log_prob([])


@pytest.mark.parametrize("weight", [1e20, 1e30])
def test_visits_are_finite_whatever_the_weights(weight: float) -> None:
    """What is not a number would be the best piece of a sentence, and a kernel would follow it."""
    one = np.ones(1)
    rules = {(0, 0, 0): weight * one.reshape(1, 1, 1), (0, 1, 1): one.reshape(1, 1, 1)}
    words = {"w0": {1: one}, UNKNOWN: {1: one}}
    model = Toy(1, [1, 1], {0: weight * one}, rules, words).grammar()
    visits = prepare(model).plain.visits
    assert np.isfinite(visits).all()
    assert (visits > 0).all()
    unrooted = replace(model, coarse=replace(model.coarse, root=np.zeros(2)))
    assert str(Parser(unrooted).parse(["w0", "w0"]).tree)


# -- samples ----------------------------------------------------------------------------------


def test_samples_are_as_frequent_as_they_are_probable(finite: LatentGrammar) -> None:
    n = 4000
    drawn = Counter(finite.sample(n, seed=7))
    trees = every_tree(finite, all_sentences(finite.lexicon.words))
    expected = np.array(list(trees.values())) * n / sum(trees.values())
    counts = np.array([drawn[tree] for tree in trees])
    assert counts.sum() == n
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    freedom = len(trees) - 1
    # Mean `freedom`, variance 2 * freedom: four deviations happen with one seed in 10,000.
    assert abs(chi_square - freedom) < 4 * (2 * freedom) ** 0.5


def test_a_state_that_can_become_nothing_ends_a_sample() -> None:
    """A state without words passes as unused; a rule that leads there shows when it is drawn."""
    to_state_1 = np.array([[[0.0, 0.0], [0.0, 1.0]]])
    toy = Toy(
        1, [1, 2], {0: np.ones(1)}, {(0, 1, 1): to_state_1}, {"w0": {1: np.array([1.0, 0.0])}}
    )
    with pytest.raises(SapwoodError, match="T1 in state 1 was drawn, and it can become nothing"):
        toy.grammar(is_probabilistic=True).sample(1)


def test_samples_can_be_scored() -> None:
    model = bundled_grammar()
    trees = model.sample(50, seed=3)
    log_probs = model.log_probs(trees)
    assert np.isfinite(log_probs).all()
    assert (log_probs < 0).all()
    assert UNKNOWN not in {word for tree in trees for word in tree.words()}


def test_the_seed_decides_the_sample(finite: LatentGrammar) -> None:
    assert finite.sample(20, seed=1) == finite.sample(20, seed=1)
    assert finite.sample(20, seed=1) != finite.sample(20, seed=2)
    rng = np.random.default_rng(1)
    assert (
        finite.sample(20, seed=rng) + finite.sample(20, seed=rng) != finite.sample(20, seed=1) * 2
    )
    assert finite.sample(0) == []


def test_a_grammar_that_never_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random_trees, "MAX_TRIES", 3)
    toy = Toy(1, [1, 1], {0: np.ones(1)}, {(0, 0, 0): np.ones((1, 1, 1))}, {})
    toy.words = {"w0": {1: np.array([0.5])}, UNKNOWN: {1: np.array([0.5])}}
    with pytest.raises(SapwoodError, match="the grammar does not"):
        toy.grammar(is_probabilistic=True).sample(1)


def test_the_plain_grammar_behind_a_latent_one_is_a_distribution() -> None:
    """Coarse weights sum to 1 per symbol, and its sentences are about as probable."""
    model = bundled_grammar()
    sums = np.zeros(model.n_symbols)
    np.add.at(sums, model.rules[:, 0], model.coarse.rules)
    np.add.at(sums, model.n_phrases + model.lexicon.entry_tag.astype(int), model.coarse.lexical)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-9)
    np.testing.assert_allclose(model.coarse.root.sum(), 1.0, rtol=1e-12)
    assert exp(model.log_prob(["the", "dog", "sleeps", "."])) > 0


def expected_visits(model: LatentGrammar) -> dict[tuple[int, int], float]:
    """How often each symbol and state occurs in a tree, top down, state by state."""
    visits: dict[tuple[int, int], float] = Counter()
    waiting = [
        (a, h, float(p)) for a in range(model.n_symbols) for h, p in enumerate(model.root_vector(a))
    ]
    while waiting:
        a, h, p = waiting.pop()
        visits[a, h] += p
        for r, (parent, b, c) in enumerate(model.rules.tolist()):
            if parent == a and p > 0:
                for i, j in np.argwhere(model.tensor(r)[h] > 0).tolist():
                    share = p * float(model.tensor(r)[h, i, j])
                    waiting += [(b, i, share), (c, j, share)]
    return visits


def test_the_plain_grammar_weighs_states_by_how_often_they_occur(finite: LatentGrammar) -> None:
    """w(a -> b c) = sum over h of P(h | a) sum over p, q of C[h, p, q], on finitely many trees."""
    visits = expected_visits(finite)
    total: Counter[int] = Counter()
    for (a, _), n in visits.items():
        total[a] += n
    for r, (a, _, _) in enumerate(finite.rules.tolist()):
        sums = finite.tensor(r).sum(axis=(1, 2))
        expected = sum(visits[a, h] * w for h, w in enumerate(sums)) / total[a]
        np.testing.assert_allclose(finite.coarse.rules[r], expected, rtol=1e-12)
    lexicon = finite.lexicon
    for e, tag in enumerate(lexicon.entry_tag.tolist()):
        a = finite.n_phrases + tag
        vector = lexicon.weights[lexicon.weight_start[e] : lexicon.weight_start[e + 1]]
        expected = sum(visits[a, h] * q for h, q in enumerate(vector)) / total[a]
        np.testing.assert_allclose(finite.coarse.lexical[e], expected, rtol=1e-12)
    visits = prepare(finite).plain.visits
    shares = [visits[a] / visits[0] for a in range(finite.n_symbols)]
    expected_shares = [total[a] / total[0] for a in range(finite.n_symbols)]
    np.testing.assert_allclose(shares, expected_shares, rtol=1e-12)


def test_tags_are_as_probable_as_word_and_tag_together() -> None:
    """By hand: every tree has one A, a quarter of them x, and three B, half of them x."""
    model = grammar_from_text(TWO_TAGS)
    joint = {"A": 1.0 * 0.25, "B": 3.0 * 0.5}  # visits in a tree, times q(x | tag)
    entries = model.lexicon.entries(model.lexicon.words.index("x"))
    tags = [str(model.tags[t]) for t in model.lexicon.entry_tag[entries]]
    expected = [joint[tag] / joint["B"] for tag in tags]
    np.testing.assert_allclose(prepare(model).plain.entry_ratio[entries], expected, rtol=1e-12)


TWO_TAGS = """
root S 1
S -> A P 1
P -> B Q 1
Q -> B B 1
A : x y*3
B : x y
"""


def test_tree_scores_know_which_word_comes_first(plain: LatentGrammar) -> None:
    """The same tree over `The` and `the`, at the start of the sentence and inside it."""
    tree = "(TOP (S (NP (DT {}) (NN dog)) (VP (VBZ sees) (NP (DT {}) (NN cat))) (. .)))"

    def score(first: str, inner: str) -> float:
        return plain.log_prob(Tree.parse(tree.format(first, inner)))

    assert score("The", "the") == score("the", "the")  # the capital is the sentence's
    assert score("the", "The") < score("the", "the") - 1  # this one is a word never seen
    words = ["The", "dog", "sees", "The", "cat", "."]
    parsed = sw.Parser(plain, threshold=0.0, beam=0.0).parse(words)
    assert parsed.sentence_log_prob == pytest.approx(plain.log_prob(words), rel=1e-12)
    assert score("The", "The") < plain.log_prob(words)


def test_one_word_sentences_start_with_their_word() -> None:
    trees = [Tree.parse(text) for text in ("(INTJ (UH oh))", "(INTJ (UH ah))", "(X (Y z))")]
    plain = sw.PCFG().fit(Treebank.from_trees(trees)).model_
    assert plain.log_prob(["Oh"]) == plain.log_prob(["oh"])
    assert plain.log_prob(["OH"]) != plain.log_prob(["oh"])
    upper, lower = (plain.log_prob(Tree.parse(f"(INTJ (UH {word}))")) for word in ("Oh", "oh"))
    assert upper == lower


def test_entries_are_found_by_row_and_tag(plain: LatentGrammar) -> None:
    """Numbers beyond the rows or the tags are nowhere, whatever their sum would hit."""
    lexicon, n_tags = plain.lexicon, len(plain.tags)
    rows, tags = np.divmod(np.arange(lexicon.n_rows * n_tags), n_tags)
    found = lexicon.find_entries(rows, tags)
    for row, tag, entry in zip(rows.tolist(), tags.tolist(), found.tolist(), strict=True):
        own = lexicon.entries(row)
        listed = [e for e in range(own.start, own.stop) if lexicon.entry_tag[e] == tag]
        assert listed == ([entry] if entry >= 0 else [])
    hit = np.flatnonzero((found >= 0) & (rows > 0))
    assert (lexicon.find_entries(rows[hit] - 1, tags[hit] + n_tags) == -1).all()
    assert (lexicon.find_entries(rows[hit] + 1, tags[hit] - n_tags) == -1).all()
    assert (lexicon.find_entries(np.full(3, -1), np.array([0, 1, n_tags])) == -1).all()


# -- tags of a sentence -----------------------------------------------------------------------


def test_rare_tags_are_left_out_unless_they_are_right() -> None:
    rules = dict.fromkeys([(0, 1, 1), (0, 1, 2), (0, 2, 1)], np.ones((1, 1, 1)))
    words = {"w0": {1: np.array([0.5]), 2: np.array([1e-6])}, "w1": {2: np.array([0.25])}}
    grammar = Toy(1, [1, 1, 1], {0: np.ones(1)}, rules, words).grammar()
    sentence = ["w0", "w1", "w0"]
    some = tag_weights(prepare(grammar), sentence, 1e-3)
    assert (some.start.tolist(), some.tag.tolist()) == ([0, 1, 2, 3], [0, 1, 0])
    right = tag_weights(prepare(grammar), sentence, 1e-3, np.array([1, 1, 0]))
    assert (right.start.tolist(), right.tag.tolist()) == ([0, 2, 3, 4], [0, 1, 1, 0])
    every = tag_weights(prepare(grammar), sentence)
    assert (every.start.tolist(), every.tag.tolist()) == ([0, 2, 3, 5], [0, 1, 1, 0, 1])
    np.testing.assert_allclose(
        every.weight * 2.0 ** every.scale[[0, 0, 1, 2, 2]], [0.5, 1e-6, 0.25, 0.5, 1e-6]
    )
