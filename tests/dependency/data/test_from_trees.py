"""Dependencies of phrase-structure trees."""

from __future__ import annotations

import io

import pytest

import sapwood as sw
from sapwood.core.errors import CorpusError
from sapwood.corpora.heads import head_rule
from sapwood.dependency.data.from_trees import read_as_arcs, tree_arcs
from sapwood.dependency.data.projective import is_projective
from sapwood.dependency.data.reader import write_arcs

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
    assert tree_arcs(sw.Tree.parse("(NP (NN dog) (NN house))"), head_rule("penn")).heads == (2, 0)


def test_universal_tags_where_tags_are_penns() -> None:
    assert read_as_arcs(io.StringIO(TREE))[0].upos[:4] == ("DET", "ADJ", "NOUN", "AUX")
    german = "(S (NP (ART ein) (NE Hund)) (VVFIN bellt))"
    assert set(read_as_arcs(io.StringIO(german))[0].upos) == {"_"}
    arcs = tree_arcs(sw.Tree.parse("(NP (DT a) (NN dog))"), head_rule("penn"))
    assert arcs.upos == ("DET", "NOUN")


def test_every_bundled_tree_is_projective_and_headed_in_its_phrases() -> None:
    bank = sw.bundled_treebank("dev")
    for tree in list(bank)[:100]:
        arcs = tree_arcs(tree, head_rule("penn"))
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
