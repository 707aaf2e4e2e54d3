"""Trees and sentences are weighed alike: a tree by all its derivations, a sentence by all trees."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import inf, isfinite, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import trees
from tests.reference import enumerate as listing
from tests.reference.enumerate import Node
from tests.toys import Toy, exact_log, random_toy

import sapwood as sw
from sapwood.constituency.data.transform import Symbol, Transform, restore
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.charts import sentence_log
from sapwood.corpora.tree import Tree, clean

ROUNDING = 1e-9  # of a log: sums of some thousand products of some hundred factors
PHRASES = [
    Symbol(chain, ancestors, context)
    for chain, ancestors, context in product(
        [("X",), ("Y",), ("X", "Y"), ("TOP",), ("TOP", "X")], [(), ("A",)], [None, (), (">X",)]
    )
]
TAGS = [Symbol(chain, above) for chain in [("T",), ("X", "T")] for above in [(), ("A",)]]


def seen(symbols: tuple[Symbol, ...], node: Node, words: list[str]) -> Tree:
    """What people see of a binary tree."""
    rows: list[tuple[int, int, int, str | None]] = []

    def add(part: Node) -> int:
        left, right = map(add, part.children) if part.children else (-1, -1)
        rows.append((part.symbol, left, right, None if part.children else words[part.start]))
        return len(rows) - 1

    add(node)
    return restore(symbols, rows)


def by_tree(
    grammar: LatentGrammar, weighted: listing.Weighted, words: list[str]
) -> dict[Tree, Any]:
    """Weights of all trees that people see, by enumeration."""
    return listing.weights_by(weighted, lambda node: seen(grammar.symbols, node, words))


def with_names(toy: Toy, rng: np.random.Generator) -> LatentGrammar:
    """The grammar of a toy whose symbols are so few labels that many restore to the same."""
    grammar = toy.grammar()
    phrases = [PHRASES[k] for k in rng.choice(len(PHRASES), toy.n_phrases, replace=False)]
    tags = [TAGS[k] for k in rng.choice(len(TAGS), len(grammar.tags), replace=False)]
    return replace(grammar, phrases=tuple(phrases), tags=tuple(tags))


# -- all derivations --------------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_a_tree_weighs_what_its_derivations_weigh_together(seed: int, n_states: int) -> None:
    """Against enumeration; the trees of a sentence then weigh what the sentence does."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, n_phrases=3, n_states=n_states, density=0.5)
    toy.root[3] = np.full(toy.n_states[3], 0.1)
    grammar = with_names(toy, rng)
    for words in (["w0"], ["w1", "w0"], ["w0", "w1", "w2", "w0"]):
        weighted = listing.weighted_trees(*toy.exactly(words))
        expected = by_tree(grammar, weighted, words)
        found = grammar.log_probs(list(expected))
        logs = [exact_log(weight) for weight in expected.values()]
        np.testing.assert_allclose(found, logs, rtol=0, atol=1e-11)
        total = np.logaddexp.reduce(found)
        np.testing.assert_allclose(total, grammar.log_prob(words), rtol=0, atol=1e-11)


def test_some_trees_of_the_random_grammars_have_several_derivations() -> None:
    """Without this the test above would say nothing."""
    rng = np.random.default_rng(0)
    toy = random_toy(rng, n_phrases=3, density=0.5)
    grammar = with_names(toy, rng)
    words = ["w0", "w1", "w2", "w0"]
    weighted = listing.weighted_trees(*toy.floats(words))
    assert len(by_tree(grammar, weighted, words)) < len(weighted)


def test_weights_of_either_sign_are_summed_with_their_signs() -> None:
    rng = np.random.default_rng(5)
    toy = random_toy(rng, n_phrases=3, n_states=2, density=0.5)
    toy.rules = {rule: rng.normal(size=t.shape) for rule, t in toy.rules.items()}
    grammar = with_names(toy, rng)
    words = ["w0", "w1", "w2"]
    weighted = listing.weighted_trees(*toy.exactly(words))
    exact = by_tree(grammar, weighted, words)
    logs, signs = grammar.signed_log_probs(list(exact))
    assert signs.tolist() == [1 if weight > 0 else -1 for weight in exact.values()]
    assert {1.0, -1.0} == set(signs.tolist())
    expected = [exact_log(abs(weight)) for weight in exact.values()]
    np.testing.assert_allclose(logs, expected, rtol=0, atol=1e-8)
    sentence = sum(exact.values())
    assert sentence < 0
    assert grammar.signed_log_prob(words).sign == -1


def test_how_a_treebank_was_made_binary_changes_no_weight() -> None:
    model = sw.PCFG().fit(sw.bundled_treebank("dev")).model_
    bank = sw.bundled_treebank("test")
    other = bank.retransform(Transform(binarise="left", horizontal=0, vertical=3))
    np.testing.assert_array_equal(model.log_probs(bank), model.log_probs(other))


def test_one_tiny_derivation_is_not_lost_beside_another() -> None:
    """Each symbol over the same words has its own power of two."""
    tiny = 1e-300
    rules = {(0, 2, 2): 1.0, (1, 2, 2): tiny, (0, 1, 1): tiny}
    toy = Toy(
        2, [1, 1, 1], {0: np.ones(1)}, {r: np.full((1, 1, 1), w) for r, w in rules.items()},
        {"w0": {2: np.ones(1)}},
    )  # fmt: skip
    grammar = replace(
        toy.grammar(), phrases=(Symbol(("X",)), Symbol(("X",), ("A",))), tags=(Symbol(("T",)),)
    )
    tree = Tree.parse("(X (X (T w0) (T w0)) (X (T w0) (T w0)))")
    np.testing.assert_allclose(grammar.log_prob(tree), 3 * log(tiny), rtol=1e-12)


# -- a tree is never likelier than its words --------------------------------------------------


def capital(tree: Tree) -> Tree:
    """The tree with a capital on its first word."""
    children = tree.children
    if isinstance(children[0], str):
        return Tree(tree.label, children[0][:1].upper() + children[0][1:])
    return Tree(tree.label, [capital(children[0]), *children[1:]])  # type: ignore[arg-type]


TRANSFORMS = st.builds(
    Transform,
    binarise=st.sampled_from(["head", "right", "left"]),
    horizontal=st.integers(0, 2),
    vertical=st.integers(1, 3),
    tag_parents=st.booleans(),
    heads=st.sampled_from(["penn", "generic"]),
)


@settings(max_examples=60)
@given(bank=st.lists(trees(8), min_size=1, max_size=5), transform=TRANSFORMS, way=TRANSFORMS)
def test_no_tree_is_likelier_than_its_sentence(
    bank: list[Tree], transform: Transform, way: Transform
) -> None:
    """Whatever the treebank, the transform, and the trees: those of the bank, and drawn ones."""
    cleaned = [tree for tree in map(clean, bank) if tree is not None]
    if not cleaned:
        return
    model = sw.PCFG().fit(Treebank.from_trees(cleaned, transform)).model_
    drawn = model.sample(5, seed=0)
    cases = [*bank, *map(capital, bank), *drawn, *map(capital, drawn)]
    for tree, weight in zip(cases, model.log_probs(cases), strict=True):
        kept = clean(tree)
        if kept is None:
            assert weight == -inf
        elif len(kept.words()) < 40:
            assert weight <= model.log_prob(kept.words()) + ROUNDING
            packed = Treebank.from_trees([kept], way)
            assert model.log_probs(packed)[0] == weight
    assert np.isfinite(model.log_probs([*cleaned, *drawn])).all()


@pytest.mark.parametrize(
    "text",
    ["(S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .))",
     "(S (NP-SBJ (-NONE- *)) (NP (DT The) (NN dog)) (VP (VBZ sleeps) (NP (-NONE- *T*-1))) (. .))",
     "(S (NP (DT The) (NN Xylophonist)) (VP (VBZ sleeps)) (. .))"],
)  # fmt: skip
def test_the_first_word_that_is_written_counts_as_the_first(text: str) -> None:
    """With a capital it is looked up without: in trees, traces or not, as in sentences."""
    model = sw.bundled_grammar()
    tree = Tree.parse(text)
    cleaned = clean(tree)
    assert cleaned is not None
    small = Tree.parse(text.replace("The", "the"))
    assert model.log_prob(tree) == model.log_prob(small) == model.log_prob(cleaned) > -inf
    assert model.log_prob(tree) <= model.log_prob(cleaned.words()) + ROUNDING
    assert model.log_prob(cleaned.words()) == model.log_prob(["the", *cleaned.words()[1:]])


# -- models can build what they drew and decoded ----------------------------------------------


@pytest.mark.parametrize(
    "transform",
    [Transform(), Transform(horizontal=0), Transform(horizontal=2), Transform(vertical=2),
     Transform(vertical=2, tag_parents=True), Transform(binarise="left"),
     Transform(binarise="right", horizontal=0), Transform(horizontal=0, vertical=3)],
    ids=str,
)  # fmt: skip
def test_drawn_trees_have_a_probability(transform: Transform) -> None:
    model = sw.PCFG().fit(sw.bundled_treebank("dev", transform)).model_
    check_own_trees(model, model.sample(200, seed=1))


@pytest.mark.parametrize("method", ["bundled", "em", "ensemble"])
def test_drawn_trees_of_latent_models_have_a_probability(method: str) -> None:
    bank = sw.bundled_treebank("dev")
    model = {
        "bundled": sw.bundled_grammar,
        "em": lambda: sw.EMLPCFG(2, iterations=3).fit(bank).model_,
        "ensemble": lambda: sw.Ensemble.of([sw.PCFG(vertical=v).fit(bank).model_ for v in (1, 2)]),
    }[method]()
    check_own_trees(model, model.sample(200, seed=1))


def check_own_trees(model: LatentGrammar | sw.Ensemble, drawn: list[Tree]) -> None:
    found = model.log_probs(drawn)
    assert np.isfinite(found).all()
    for tree, weight in zip(drawn[:50], found[:50], strict=True):
        assert weight <= model.log_prob(tree.words()) + ROUNDING


@pytest.mark.parametrize("method", ["pcfg", "em", "spectral"])
def test_decoded_trees_have_a_probability(method: str) -> None:
    """Also the odd ones: other annotations and other orders than the transform would choose."""
    bank = sw.bundled_treebank("dev", Transform(horizontal=0, vertical=2))
    learner = {
        "pcfg": sw.PCFG(), "em": sw.EMLPCFG(2, iterations=3), "spectral": sw.SpectralLPCFG(4)
    }[method]  # fmt: skip
    parser = sw.Parser(learner.fit(bank).model_, threshold=0.0, beam=0.0)
    for text in (
        "dog the sleeps .",
        "sleeps the man with a hat with a hat .",
        "the *T*-1 sleeps .",
    ):
        parse = parser.parse(text.split())
        assert not parse.is_fallback
        assert isfinite(parse.log_prob)
        if method != "spectral":
            assert parse.log_prob <= parse.sentence_log_prob + ROUNDING
        assert all(isfinite(scored.log_prob) for scored in parse.k_best(5))


def test_a_class_of_unknown_words_is_a_word_of_its_own() -> None:
    """Where a tag has nothing else, its name is drawn; it must then mean that class."""
    lexicon = sw.PCFG().fit(sw.bundled_treebank("dev")).model_.lexicon
    for row, name in enumerate(lexicon.vocabulary.classes, len(lexicon.words)):
        assert (
            lexicon.vocabulary.row(name, is_first=False)
            == lexicon.vocabulary.row(name, is_first=True)
            == row
        )


def test_words_that_read_as_traces_are_not_drawn() -> None:
    """Smoothing gives rare words the tags of their class; `(C 0)` is an empty leaf."""
    texts = ["(S (C if) (NP (NUM 0)))", "(S (C that) (NP (NUM 1)))", "(S (C as) (NP (N 2)))"]
    grammar = sw.PCFG().fit(Treebank.from_trees(map(Tree.parse, texts))).model_
    drawn = grammar.sample(500, seed=0)
    assert all(clean(tree) == tree for tree in drawn)
    assert np.isfinite(grammar.log_probs(drawn)).all()


# -- signs ------------------------------------------------------------------------------------


def test_the_weight_of_a_sentence_has_a_power_of_two() -> None:
    scale = np.array([0, 0, 3, 0, 0, 0])  # the span of all three words is the third cell
    assert sentence_log(scale, 3, -2.0) == log(2.0) + 3 * log(2.0)
    assert sentence_log(scale, 3, 0.0) == -inf


def test_an_ensemble_adds_weights_with_their_signs() -> None:
    """The mean of 3 and -1 is 1, not 2."""
    toys = [
        Toy(
            1, [1, 1], {0: np.full(1, weight)}, {(0, 1, 1): np.ones((1, 1, 1))},
            {"w0": {1: np.ones(1)}},
        )
        for weight in (3.0, -1.0)
    ]  # fmt: skip
    one = toys[0].grammar()
    other = replace(one, root=toys[1].root[0].repeat(2) * [1.0, 0.0], is_probabilistic=False)
    ensemble = sw.Ensemble.of([one, other])
    tree = Tree.parse("(P0 (T1 w0) (T1 w0))")
    assert ensemble.signed_log_prob(tree) == (pytest.approx(0.0, abs=1e-15), 1)
    tipped = sw.Ensemble.of([one, other], [0.2, 0.8])
    assert tipped.signed_log_prob(tree) == (pytest.approx(log(0.2)), -1)
    assert tipped.log_probs([tree, Tree.parse("(Q (T1 w0) (T1 w0))")]).tolist() == [
        pytest.approx(log(0.2)), -inf,
    ]  # fmt: skip
