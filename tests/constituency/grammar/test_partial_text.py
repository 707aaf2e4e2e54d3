"""Tagged lines and partial bracketings: what they ask for, and what is refused where."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sapwood as sw
from sapwood.constituency.grammar.constraints import KnownLabels
from sapwood.constituency.grammar.partial_text import (
    LinePlace,
    read_bracketing,
    read_tagged,
    tags_of_tree,
)
from sapwood.core.errors import CorpusError

PHRASES = frozenset({"NP", "VP", "S", "PP"})
TAGS = frozenset({"DT", "NN", "VBD", ".", ",", "-LRB-", "N-D", "PRP$"})
KNOWN = KnownLabels(PHRASES, TAGS)
PLACE = LinePlace("lines.txt", 7)


def asked(text: str) -> tuple[str, list[str | None] | None, list[Any]]:
    """Words in one string, tags and spans of a partial line."""
    words, tags, spans, forbidden = read_bracketing(text, KNOWN)
    assert not forbidden
    return " ".join(words), None if tags is None else list(tags), list(spans)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "words", "spans"),
    [
        ("( (NP the girl) saw (a dog) )", "the girl saw a dog", [(0, 2, "NP"), (3, 5, None)]),
        ("(NP the girl) saw (a dog)", "the girl saw a dog", [(0, 2, "NP"), (3, 5, None)]),
        ("the girl saw", "the girl saw", []),
        ("(TOP (S a dog))", "a dog", [(0, 2, "S")]),
        ("( (ROOT (S a dog)))", "a dog", [(0, 2, "S")]),
        ("(a dog)", "a dog", []),
        ("( a dog) barks", "a dog barks", [(0, 2, None)]),
        ("((a dog))", "a dog", [(0, 2, None)]),
        ("( ( a dog))", "a dog", [(0, 2, None)]),
        ("(S (VP (VP go)))", "go", [(0, 1, "S"), (0, 1, "VP")]),
        ("(S (NP (S go)))", "go", [(0, 1, "S"), (0, 1, "NP"), (0, 1, "S")]),
        ("(NP ((NP a dog))) barks", "a dog barks", [(0, 2, "NP")]),
        ("(NP-SBJ-1 a dog) (PP=2 in it)", "a dog in it", [(0, 2, "NP"), (2, 4, "PP")]),
        ("(S (NP (-NONE- *T*-1)) (VP go))", "go", [(0, 1, "S"), (0, 1, "VP")]),
        ("( NPP a dog) barks", "NPP a dog barks", [(0, 3, None)]),
        ("(The dog) barks", "The dog barks", [(0, 2, None)]),
        ("(S-shaped tables) x", "S-shaped tables x", [(0, 2, None)]),
        ("(, he said ,) x", ", he said , x", [(0, 4, None)]),
        ("(dog) x", "dog x", [(0, 1, None)]),
        ("(NP dog) x", "dog x", [(0, 1, "NP")]),
        ("(1990 sales) x", "1990 sales x", [(0, 2, None)]),
        ("", "", []),
    ],
)
def test_what_brackets_ask_for(text: str, words: str, spans: list[Any]) -> None:
    assert asked(text) == (words, None, spans)


def test_what_gives_a_tag() -> None:
    assert asked("the (NN dog) (VBD barked) (.)") == (
        "the dog barked .", [None, "NN", "VBD", "."], [],
    )  # fmt: skip
    assert asked("(NP (DT the) (NN-SBJ dog)) (N-D x)")[1] == ["DT", "NN", "N-D"]
    assert asked("(-LRB- -LRB-) (PRP$ his)")[1] == ["-LRB-", "PRP$"]


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("(NPP the dog) x", 2, "the label is NPP", "NP"),
        ("x (NNX dog)", 4, "the label is NNX", "NN"),
        ("(a dog", 1, "1 more ')'", "missing bracket"),
        ("( (a (dog", 1, "3 more ')'", "one line"),
        ("a dog)", 6, "no more ')'", "too many"),
        ("a ()", 4, "before ')'", "empty brackets"),
        ("(NP )", 5, "before ')'", "empty brackets"),
        ("(NN big dog) x", 1, "NN is a tag", "( NN"),
        ("(NN (NP dog)) x", 1, "NN is a tag", "one word"),
        ("x (S (TOP a dog))", 7, "the label is TOP", "nearest"),
    ],
)
def test_refusals_of_brackets(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read_bracketing(text, KNOWN, PLACE)
    error = caught.value
    assert (error.file, error.line, error.column) == ("lines.txt", 7, column)
    assert message in error.message
    assert hint in str(error.hint)


def test_tagged_words() -> None:
    words, tags, *_ = read_tagged("the/DT 1/2/NN it/ //. (/-LRB- a/NN-1\n", KNOWN)
    assert words == ["the", "1/2", "it", "/", "(", "a"]
    assert tags == ["DT", "NN", None, ".", "-LRB-", "NN"]
    assert read_tagged(" \n", KNOWN).words == []


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("the/DT dog", 8, "expected word/TAG, found 'dog'"),
        ("/NN", 1, "found '/NN'"),
        ("the/DT dog/NNX", 12, "the tag of 'dog' is NNX"),
    ],
)
def test_refusals_of_tags(text: str, column: int, message: str) -> None:
    with pytest.raises(CorpusError) as caught:
        read_tagged(text, KNOWN, PLACE)
    assert str(caught.value).startswith(f"lines.txt:7:{column}: ")
    assert message in caught.value.message
    assert caught.value.hint


def test_tags_of_trees() -> None:
    tree = sw.Tree.parse("(NP (DT a) (NN dog))")
    assert tags_of_tree(tree, KNOWN)[:2] == (["a", "dog"], ["DT", "NN"])
    with pytest.raises(CorpusError, match="bank: tree 3: the tag of 'a' is QQ") as caught:
        tags_of_tree(sw.Tree.parse("(NP (QQ a) (NN dog))"), KNOWN, "bank", 3)
    assert caught.value.hint


def test_a_whole_tree_asks_for_all_that_it_has() -> None:
    for tree in sw.bundled_treebank("test")[:20]:
        nodes = list(zip(tree.nodes(), tree.spans(), strict=True))
        labels = {node.label for node, _ in nodes if not node.is_preterminal}
        known = KnownLabels(frozenset(labels - {"TOP"}), frozenset(tree.tags()))
        words, tags, spans, _ = read_bracketing(str(tree), known)
        assert (words, tags) == (tree.words(), tree.tags())
        phrases = [span for node, span in nodes if not node.is_preterminal and node.label != "TOP"]
        assert spans == [(i, j, label) for label, i, j in phrases]


PIECES = st.sampled_from(["(", ")", " ", "NP", "NN", "a", "X", "-", "*", "."])


@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_line_is_read_or_refused_with_a_place(text: str) -> None:
    try:
        words, tags, spans, _ = read_bracketing(text, KNOWN, PLACE)
    except CorpusError as error:
        found = error.hint, error.column
    else:
        assert tags is None or len(tags) == len(words)
        assert all(0 <= i < j <= len(words) and (x is None or x in PHRASES) for i, j, x in spans)
        return
    assert found[0]
    assert 1 <= (found[1] or 0) <= len(text) + 1


def test_a_phrase_of_several_words_is_compared_with_phrases_alone() -> None:
    known = KnownLabels(frozenset({"NP", "VP"}), frozenset({"NNP", "DT"}))
    with pytest.raises(CorpusError) as caught:
        read_bracketing("(NPP the dog) sleeps", known)
    assert "NNP" not in (caught.value.hint or "")
    with pytest.raises(CorpusError) as caught:
        read_bracketing("(NPP dog) sleeps", known)  # may be a tag
    assert "NNP" in (caught.value.hint or "")
