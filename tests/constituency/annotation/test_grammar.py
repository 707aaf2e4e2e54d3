"""Grammars of a treebank that grows: exact sums, one model for one set of trees, mixes, labels."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.constituency.annotation.grammar import (
    PRIOR,
    AnnotationGrammar,
    GrammarPlan,
    Plan,
    bracket_posteriors,
    plan_of,
    tree_brackets,
)
from sapwood.constituency.annotation.growing import GrowingTreebank, TreeSums
from sapwood.constituency.annotation.start import labels_of, map_model, map_tree, start_model
from sapwood.constituency.data.transform import Transform
from sapwood.constituency.learn.training_data import (
    LexiconSettings,
    TreebankCounts,
    relative_frequency_grammar,
)
from sapwood.core.errors import SapwoodError, SapwoodValueError
from sapwood.core.model_files import FileContents
from sapwood.corpora.tree import Tree

TREES = list(sw.bundled_treebank("dev"))[:60]
TRANSFORMS = [
    Transform(heads="penn"), Transform(horizontal=0, heads="generic"),
    Transform(binarise="right", vertical=2, heads="generic"),
]  # fmt: skip
PLAIN = (Plan(1, (GrammarPlan("pcfg", 1, 1),)),)


def grown(trees: dict[int, Tree], transform: Transform = TRANSFORMS[0]) -> GrowingTreebank:
    bank = GrowingTreebank(transform)
    for key, tree in trees.items():
        bank.add(key, tree)
    return bank


def same_file(one: FileContents, other: FileContents) -> bool:
    return one.header == other.header and all(
        np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items()
    )


def holds(bank: GrowingTreebank, trees: dict[int, Tree]) -> bool:
    """Whether the sums are those of these trees, and learners see the same treebank."""
    fresh = grown(trees, bank.transform)
    if bank.names() != fresh.names():
        return False
    return not trees or bank.bank().digest() == fresh.bank().digest()


actions = st.lists(st.tuples(st.integers(0, 11), st.integers(-1, 29)), max_size=25)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
@given(actions=actions)
def test_sums_forget_what_was_removed(transform: Transform, actions: list[tuple[int, int]]) -> None:
    """Any adding, replacing and removing leaves the sums of the trees that are there."""
    bank, there = GrowingTreebank(transform), dict[int, Tree]()
    for key, tree in actions:
        if tree >= 0:
            bank.add(key, TREES[tree])
            there[key] = TREES[tree]
        elif key in there:
            bank.remove(key)
            del there[key]
    assert len(bank) == len(there)
    assert holds(bank, there)


def test_adding_and_removing_is_the_identity_also_of_zeros() -> None:
    bank = grown(dict(enumerate(TREES[:5])))
    before = {name: Counter(counts) for name, counts in vars(bank.sums).items()}
    bank.add(9, TREES[40])
    assert vars(bank.sums) != before
    bank.remove(9)
    assert {name: dict(counts) for name, counts in vars(bank.sums).items()} == {
        name: dict(counts) for name, counts in before.items()
    }


def test_sums_that_are_wrong_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong versions: a tree that is replaced stays counted; one that is removed stays a little."""
    trees = dict(enumerate(TREES[:4]))
    bank = grown(trees)
    bank.sums += TreeSums.of(bank._trees[2])
    assert not holds(bank, trees)
    bank = grown(trees)

    def keep_words(sums: TreeSums, other: TreeSums) -> TreeSums:
        for name in ("symbols", "roots", "rules"):
            getattr(sums, name).subtract(getattr(other, name))
        return sums

    monkeypatch.setattr(TreeSums, "__isub__", keep_words)
    bank.remove(3)
    assert not holds(bank, {k: trees[k] for k in range(3)})


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_sums_are_the_counts_of_the_trees(transform: Transform) -> None:
    bank = grown(dict(enumerate(TREES)), transform)
    inventory, sums = bank.counts()
    counted = TreebankCounts.of(bank.bank())
    for name in ("rules", "symbols", "roots", "lexical", "lexical_count"):
        np.testing.assert_array_equal(getattr(sums, name), getattr(counted, name), name)
    assert inventory.symbols == bank.bank().inventory.symbols
    assert list(bank.bank()) == TREES


def test_the_plain_grammar_of_the_sums_is_that_of_the_treebank() -> None:
    bank = grown(dict(enumerate(TREES)))
    model = relative_frequency_grammar(*reversed(bank.counts()), LexiconSettings(), {})
    scratch = sw.PCFG().fit(TREES).model_
    for tree in TREES[:20]:
        assert model.log_prob(tree) == pytest.approx(scratch.log_prob(tree), rel=1e-12)


def learnt(keys: list[int], **options: Any) -> AnnotationGrammar:
    grammar = AnnotationGrammar(**options)
    for key in keys:
        grammar.add(key, TREES[key])
    return grammar


def test_the_order_of_adding_does_not_matter() -> None:
    keys = list(range(40))
    shuffled = random.Random(3).sample(keys, len(keys))
    one, other = learnt(keys), learnt([*shuffled, 50, 51])
    other.add(7, TREES[55])  # replaced, then put back
    other.add(7, TREES[7])
    other.remove(50)
    other.remove(51)
    assert same_file(one.learn().model.to_file(), other.learn().model.to_file())
    other.add(7, TREES[55])
    assert not same_file(one.learn().model.to_file(), other.learn().model.to_file())


def test_learning_again_is_learning_from_scratch() -> None:
    grammar = learnt(list(range(60)), plans=PLAIN, heads="penn")
    model, scratch = grammar.learn().model, sw.PCFG(vertical=1).fit(TREES).model_
    words = [tree.words() for tree in sw.bundled_treebank("test")[:30]]
    ours = [parse.tree for parse in sw.Parser(model).parse_many(words)]
    assert ours == [parse.tree for parse in sw.Parser(scratch).parse_many(words)]


def test_update_touches_what_differs_alone() -> None:
    grammar = learnt(list(range(10)))
    trees = {key: TREES[key] for key in range(1, 12)} | {5: TREES[30]}
    assert grammar.update(trees) == 4  # one is gone, two are new, one differs
    assert grammar.keys == list(range(1, 12))
    assert grammar.update(trees) == 0


def test_plans_by_number_of_trees() -> None:
    assert [plan_of(n).least_trees for n in (0, 1, 10, 99, 100)] == [1, 1, 10, 10, 100]


def test_nothing_to_learn_from() -> None:
    with pytest.raises(SapwoodError, match="nothing to learn from"):
        AnnotationGrammar().learn()
    with pytest.raises(SapwoodValueError, match="no tree with the key 3"):
        AnnotationGrammar().remove(3)
    with pytest.raises(SapwoodValueError, match="cannot be 'auto'"):
        GrowingTreebank(Transform())
    with pytest.raises(SapwoodValueError, match="has no words"):
        AnnotationGrammar().add(1, Tree.parse("(TOP (NP (-NONE- *)))"))


def test_the_start_model_alone_until_there_is_a_tree() -> None:
    start = sw.PCFG().fit(TREES).model_
    found = AnnotationGrammar(start).learn()
    assert (found.model, found.n_trees, found.start_weight) == (start, 0, 1.0)


def test_the_weight_of_the_start_model_is_the_least_squares_one() -> None:
    """Against a search over weights; a weight that favours the other model is rejected."""
    start = sw.PCFG().fit(list(sw.bundled_treebank("train"))[:40]).model_
    grammar = learnt(list(range(40)), start=start)
    rows = []
    for fold in grammar._folds():
        parser = sw.Parser(grammar.fold_model(fold))
        for key in fold:
            right = set(tree_brackets(TREES[key]))
            own = bracket_posteriors(parser, TREES[key].words())
            other = bracket_posteriors(sw.Parser(start), TREES[key].words())
            rows += [
                (other.get(b, 0.0), own.get(b, 0.0), b in right) for b in {*right, *own, *other}
            ]
    s, o, y = np.array(rows, float).T

    def loss(w: float) -> float:
        return float(((w * s + (1 - w) * o - y) ** 2).sum() + PRIOR * (1 - w) ** 2)

    w = grammar.start_weight()
    assert 0.05 < w < 0.95
    assert min(np.linspace(0, 1, 1001), key=loss) == pytest.approx(w, abs=1e-3)
    assert loss(1 - w) > loss(w) + 1e-6


def test_a_start_model_with_other_labels_loses_its_weight() -> None:
    start = start_model(TREES, {"NP": "X1", "VP": "X2", "S": "X3", "PP": "X4"})
    same = start_model(TREES)
    keys = list(range(40))
    assert learnt(keys, start=start).start_weight() < 0.2 < learnt(keys, start=same).start_weight()


def test_labels_are_mapped_in_models_as_in_trees() -> None:
    names = {"NP": "GN", "VP": "GV", "NN": "N"}
    model = sw.Ensemble.of(
        [sw.SpectralLPCFG(4).fit(TREES).model_, sw.PCFG(vertical=2).fit(TREES).model_]
    )
    mapped = map_model(model, names)
    assert {"GN", "GV", "N"} <= labels_of(mapped)
    assert not {"NP", "VP", "NN"} & labels_of(mapped)
    for tree in TREES[:10]:
        words = tree.words()
        assert sw.Parser(mapped).parse(words).tree == map_tree(
            sw.Parser(model).parse(words).tree, names
        )


def test_a_network_is_mapped_too() -> None:
    model = sw.load("english")
    words = ["the", "old", "dog", "saw", "a", "cat", "."]
    mapped = sw.Parser(map_model(model, {"NP": "GN", "DT": "D"})).parse(words).tree
    assert mapped == map_tree(sw.Parser(model).parse(words).tree, {"NP": "GN", "DT": "D"})


def test_labels_that_become_one_are_learnt_from_mapped_trees() -> None:
    model = sw.PCFG().fit(TREES).model_
    with pytest.raises(SapwoodValueError, match="NP and VP would all be VP"):
        map_model(model, {"NP": "VP"})
    with pytest.raises(SapwoodValueError, match="NP would be removed"):
        map_model(model, {"NP": None})
    words = [tree.words() for tree in TREES[:20]]
    assert "NP" not in labels_of(start_model(model, {"NP": None}, words))


def test_phrases_that_are_mapped_to_none_vanish() -> None:
    tree = Tree.parse("(TOP (S (NP (NP (NN a)) (PP (IN b))) (VP (VB c))))")
    assert str(map_tree(tree, {"NP": None, "S": None})) == "(TOP (NN a) (PP (IN b)) (VP (VB c)))"
    assert str(map_tree(tree, {"TOP": None, "NN": None})) == str(tree)
