"""Lifting, and dependencies of phrase-structure trees."""

from __future__ import annotations

import io
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.data.draws import RELATIONS, corpus_files, head_lists, sentences

import sapwood as sw
from sapwood.core.errors import CorpusError
from sapwood.corpora.tree import HEAD_RULES
from sapwood.dependency.data.bank import ArcBank, Arcs, heads_problem
from sapwood.dependency.data.reader import write_arcs
from sapwood.dependency.data.transform import (
    LIFTED,
    is_projective,
    lift,
    lift_arcs,
    lower,
    lower_arcs,
    projective_sentences,
    read_as_arcs,
    tree_arcs,
)


def ancestors(heads: list[int], word: int) -> set[int]:
    found = {word}
    while word:
        word = heads[word - 1]
        found.add(word)
    return found


def has_no_jump(heads: list[int]) -> bool:
    """The definition: every word between a head and its dependent is below the head."""
    return all(
        head in ancestors(heads, between)
        for word, head in enumerate(heads, 1)
        for between in range(min(word, head) + 1, max(word, head))
    )


@given(head_lists())
def test_projectivity_is_that_of_the_definition(heads: list[int]) -> None:
    assert is_projective(heads) == has_no_jump(heads)


def test_projective_trees_are_as_many_as_they_should_be() -> None:
    """Trees with one root on n words: C(3n - 2, n - 1) / n ways are projective."""
    for n, expected in ((1, 1), (2, 2), (3, 7), (4, 30)):
        trees = [h for h in product(range(n + 1), repeat=n) if heads_problem(h) is None]
        assert len(trees) == n ** (n - 1)
        assert sum(map(is_projective, trees)) == expected


@given(head_lists(12), st.data())
def test_lifting_there_and_back(heads: list[int], data: st.DataObject) -> None:
    n = len(heads)
    relations = data.draw(st.lists(st.sampled_from(RELATIONS), min_size=n, max_size=n))
    lifted, names = lift_arcs(heads, relations)
    assert heads_problem(lifted) is None
    assert has_no_jump(lifted)
    for word, (old, new) in enumerate(zip(heads, lifted, strict=True), 1):
        assert (LIFTED in names[word - 1]) == (old != new)
        assert new in ancestors(heads, old)
    assert lower_arcs(lifted, names) == (heads, relations)


def test_the_shortest_jump_is_lifted_first() -> None:
    # The arc from 3 to 1 is shorter than that from 1 to 4, which would else end at 3.
    assert lift_arcs([3, 0, 2, 1], list("abcd"))[0] == [2, 0, 2, 2]


def test_a_relation_counts_the_words_that_have_it() -> None:
    heads, relations = [0, 1, 1, 3, 2, 1], ["root", "obl", "obl", "x", "y", "z"]
    lifted, names = lift_arcs(heads, relations)
    assert lifted == [0, 1, 1, 3, 1, 1]
    assert names[4] == f"y{LIFTED}obl"
    lifted, names = lift_arcs([0, 1, 1, 2, 1], ["root", "obl", "obl", "x", "z"])
    assert names[3] == f"x{LIFTED}obl"
    heads = [0, 1, 5, 1, 1]
    lifted, names = lift_arcs(heads, ["root", "a", "x", "a", "a"])
    assert names[2] == f"x{LIFTED}a{LIFTED}3"
    assert lower_arcs(lifted, names)[0] == heads


@given(head_lists(), st.data())
def test_predicted_relations_always_give_a_tree(heads: list[int], data: st.DataObject) -> None:
    marks = st.sampled_from(["a", "b", f"a{LIFTED}b", f"b{LIFTED}a{LIFTED}2", f"a{LIFTED}z",
                             f"a{LIFTED}a{LIFTED}x", f"a{LIFTED}b{LIFTED}99", LIFTED])  # fmt: skip
    relations = data.draw(st.lists(marks, min_size=len(heads), max_size=len(heads)))
    lowered, names = lower_arcs(heads, relations)
    assert not any(LIFTED in name for name in names)
    assert heads_problem(lowered) is None


@given(st.lists(sentences(), min_size=1, max_size=4))
def test_banks_are_lifted_sentence_by_sentence(drawn: list[Arcs]) -> None:
    bank = ArcBank.of(drawn)
    lifted = lift(bank)
    assert projective_sentences(lifted).all()
    for before, after in zip(drawn, lifted, strict=True):
        assert (list(after.heads), list(after.relations)) == lift_arcs(
            before.heads, before.relations
        )
    assert list(lower(lifted)) == drawn


def test_a_lifted_bank_is_not_lifted_again() -> None:
    lifted = lift(ArcBank.of([Arcs(list("abc"), [3, 0, 2])]))
    with pytest.raises(CorpusError, match="marks lifted words"):
        lift(lifted)


@pytest.mark.corpora
@pytest.mark.skipif(not corpus_files(), reason="SAPWOOD_DATA names no folder with CoNLL-U")
@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_real_trees_are_lifted_and_come_back(path: Path) -> None:
    bank = sw.read_arcs(path)
    lifted = lift(bank)
    assert projective_sentences(lifted).all()
    again = lower(lifted)
    np.testing.assert_array_equal(again.head, bank.head)
    assert [again.relations[i] for i in again.relation] == [
        bank.relations[i] for i in bank.relation
    ]


TREE = (
    "( (S (NP-SBJ-1 (DT The) (JJ big) (NN dog)) (VP (MD will) (VP (VB see) (NP (NNP Kim)) "
    "(PP-TMP (IN on) (NP (NNP Monday))) (NP (-NONE- *T*-1)))) (. .)) )\n"
)


def test_a_sentence_as_the_table_of_heads_has_it() -> None:
    arcs = read_as_arcs(io.StringIO(TREE), heads="penn")[0]
    assert arcs.words == ("The", "big", "dog", "will", "see", "Kim", "on", "Monday", ".")
    assert arcs.heads == (3, 3, 4, 0, 4, 5, 5, 7, 4)
    assert arcs.relations == ("DT", "JJ", "SBJ", "root", "VP", "NP", "TMP", "NP", "punct")
    assert arcs.xpos == ("DT", "JJ", "NN", "MD", "VB", "NNP", "IN", "NNP", ".")


def test_the_last_noun_is_the_head() -> None:
    assert tree_arcs(sw.Tree.parse("(NP (NN dog) (NN house))"), HEAD_RULES["penn"]).heads == (2, 0)


def test_universal_tags_where_tags_are_penns() -> None:
    assert read_as_arcs(io.StringIO(TREE))[0].upos[:4] == ("DET", "ADJ", "NOUN", "AUX")
    german = "(S (NP (ART ein) (NE Hund)) (VVFIN bellt))"
    assert set(read_as_arcs(io.StringIO(german))[0].upos) == {"_"}
    arcs = tree_arcs(sw.Tree.parse("(NP (DT a) (NN dog))"), HEAD_RULES["penn"])
    assert arcs.upos == ("DET", "NOUN")


def test_every_bundled_tree_is_projective_and_headed_in_its_phrases() -> None:
    bank = sw.bundled_treebank("dev")
    for tree in list(bank)[:100]:
        arcs = tree_arcs(tree, HEAD_RULES["penn"])
        assert is_projective(arcs.heads)
        assert list(arcs.words) == tree.words()
        for _, start, end in tree.spans():  # every phrase hangs on one word outside
            outside = [h for h in arcs.heads[start:end] if not start < h <= end]
            assert len(outside) == 1


def test_conllu_passes_through() -> None:
    first = read_as_arcs(io.StringIO(TREE), heads="penn")
    text = io.StringIO()
    write_arcs(first, text)
    again = read_as_arcs(io.StringIO(text.getvalue()))
    assert list(again) == list(first)


def test_broken_trees_are_named_or_skipped(tmp_path) -> None:
    path = tmp_path / "trees.mrg"
    path.write_text(TREE + "(S (NP dogs bark))\n" + TREE)
    with pytest.raises(CorpusError, match=r"trees.mrg:2"):
        read_as_arcs(path)
    skipped: list[CorpusError] = []
    assert len(read_as_arcs(path, skipped=skipped)) == 2
    assert len(skipped) == 1
    named = tmp_path / "broken.conllu"
    named.write_text("1\tdogs\n")
    with pytest.raises(CorpusError, match="expected 10 columns"):
        read_as_arcs(named)
    with pytest.raises(CorpusError, match="no tree found"):
        read_as_arcs(io.StringIO(""))
