"""`Tree`, and the cleaning of trees as they are published."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.corpora.tree import (
    ROOT,
    Tree,
    clean,
    clean_all,
    clean_label,
    clean_tag,
    escape,
    is_empty,
)

DEPTH = 20_000

TEXT = "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))"


def spans_by_recursion(node: Tree, start: int = 0) -> list[tuple[str, int, int]]:
    """The obvious twin of Tree.spans."""
    if node.is_preterminal:
        return [(node.label, start, start + 1)]
    below: list[tuple[str, int, int]] = []
    end = start
    for child in node:
        found = spans_by_recursion(child, end)
        end = found[0][2]
        below += found
    return [(node.label, start, end), *below]


def deep_tree(depth: int) -> Tree:
    """A right-branching tree whose word-bearing tags lie up to `depth` nodes deep."""
    node = Tree("X", "w")
    for level in range(depth - 1):
        node = Tree(f"L{level % 7}", [Tree("T", "x"), node] if level % 2 else [node])
    return node


def test_reading_access() -> None:
    tree = Tree.parse(TEXT)
    assert tree.words() == ["the", "dog", "barks"]
    assert tree.tags() == ["DT", "NN", "VBZ"]
    assert len(tree) == 2
    assert [child.label for child in tree] == ["NP", "VP"]
    assert tree[0][1].word == "dog"
    assert tree[-1].label == "VP"
    assert tree
    assert len(tree[0][0]) == 0
    assert list(tree[0][0]) == []
    assert tree[0][0]  # a leaf is true although it has no subtrees


def test_words_and_subtrees_are_not_confused() -> None:
    tree = Tree.parse(TEXT)
    with pytest.raises(TypeError, match="phrase"):
        _ = tree.word
    with pytest.raises(TypeError, match="pre-terminal"):
        _ = tree[0][0][0]


@pytest.mark.parametrize("children", [[], (), ["a", "b"], ["a", Tree("X", "b")]])
def test_ill_formed_children_are_refused(children: list[str]) -> None:
    with pytest.raises(ValueError, match="NP"):
        Tree("NP", children)


def test_immutable() -> None:
    tree = Tree.parse(TEXT)
    with pytest.raises(AttributeError, match="immutable"):
        tree.label = "X"
    with pytest.raises(AttributeError, match="immutable"):
        del tree.label


def test_equality_sees_labels_words_and_shape() -> None:
    tree = Tree.parse(TEXT)
    assert tree == Tree.parse(TEXT)
    assert tree != TEXT
    for other in (
        "(S (NP (DT the) (NN dog)) (VP (VBZ bark)))",
        "(S (NP (DT the) (NN dog)) (VP (VBP barks)))",
        "(S (NP (DT the)) (NP (NN dog)) (VP (VBZ barks)))",
        "(S (DT the) (NN dog) (VP (VBZ barks)))",
    ):
        assert tree != Tree.parse(other)


def test_a_word_that_looks_like_a_count_is_no_count() -> None:
    assert Tree("A", "1") != Tree("A", [Tree("1", "1")])


@given(st.from_type(Tree))
def test_copies_are_equal(tree: Tree) -> None:
    for twin in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert twin == tree
        assert hash(twin) == hash(tree)
        assert str(twin) == str(tree)


@given(st.from_type(Tree), st.from_type(Tree))
def test_equal_trees_have_equal_brackets(one: Tree, other: Tree) -> None:
    assert (one == other) == (str(one) == str(other))


@given(st.from_type(Tree))
def test_spans_agree_with_recursion(tree: Tree) -> None:
    assert tree.spans() == spans_by_recursion(tree)


@given(st.from_type(Tree))
def test_brackets_read_back(tree: Tree) -> None:
    assert Tree.parse(str(tree)) == tree
    assert eval(repr(tree), {"Tree": Tree}) == tree


def test_brackets_inside_words_are_escaped() -> None:
    assert escape("a(b)c") == "a-LRB-b-RRB-c"
    assert str(Tree("SYM", "(")) == "(SYM -LRB-)"


def test_depth_is_no_limit() -> None:
    tree = deep_tree(DEPTH)
    assert Tree.parse(str(tree)) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert len(tree.words()) == len(tree.tags())
    assert tree.spans()[0] == (tree.label, 0, len(tree.words()))


@given(st.from_type(Tree))
def test_nltk_and_back(tree: Tree) -> None:
    pytest.importorskip("nltk")
    assert Tree.from_nltk(tree.to_nltk()) == tree


def test_nltk_reads_what_we_write() -> None:
    nltk = pytest.importorskip("nltk")
    assert nltk.Tree.fromstring(TEXT) == Tree.parse(TEXT).to_nltk()


def cleaned(text: str) -> str:
    return str(clean(Tree.parse(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # empty leaves, and what they leave empty
        ("(S (NP (-NONE- *)) (VP (VB go)))", "(TOP (S (VP (VB go))))"),
        ("(S (NP (NP (-NONE- *T*-1))) (VP (VB go)))", "(TOP (S (VP (VB go))))"),
        ("(S (NP *pro*) (VB go))", "(TOP (S (VB go)))"),
        ("(IP (WNP-1 0) (C 0) (VB go))", "(TOP (IP (VB go)))"),
        ("(QP (CD 0) (SYM *))", "(TOP (QP (CD 0) (SYM *)))"),
        ("(S (NN *emphasis*) (NN b))", "(TOP (S (NN *emphasis*) (NN b)))"),
        # function tags and coindexation
        ("(S (NP-SBJ-1 (NN a)) (VP=2 (VB b)))", "(TOP (S (NP (NN a)) (VP (VB b))))"),
        ("(NP (N-D a) (CONJ-1 b))", "(TOP (NP (N-D a) (CONJ b)))"),
        ("(PRN (-LRB- -LRB-) (-RRB- -RRB-))", "(TOP (PRN (-LRB- -LRB-) (-RRB- -RRB-)))"),
        # X -> X
        ("(S (NP (NP (NN a) (NN b))))", "(TOP (S (NP (NN a) (NN b))))"),
        ("(S (NP-SBJ (NP-1 (NP (NN a) (NN b)))))", "(TOP (S (NP (NN a) (NN b))))"),
        ("(NP (NP (NN a)) (-NONE- *))", "(TOP (NP (NN a)))"),
        ("(S (X (X a)))", "(TOP (S (X a)))"),
        # roots
        ("( (S (NN a)))", "(TOP (S (NN a)))"),
        ("(ROOT (S (NN a)))", "(TOP (S (NN a)))"),
        ("(TOP (S1 (VROOT (S (NN a)))))", "(TOP (S (NN a)))"),
        ("(ROOT (S (NN a)) (S (NN b)))", "(TOP (S (NN a)) (S (NN b)))"),
        ("( (S (NN a)) (-NONE- *))", "(TOP (S (NN a)))"),
        ("(NN a)", "(TOP (NN a))"),
        ("(TOP a)", "(TOP a)"),
        ("(ROOT (TOP a))", "(TOP a)"),
        ("(S (TOP (NN a)))", "(TOP (S (TOP (NN a))))"),
    ],
)
def test_recipe(text: str, expected: str) -> None:
    assert cleaned(text) == expected


@pytest.mark.parametrize("text", ["(-NONE- *)", "(S (NP (-NONE- *T*-1)) (NP 0))", "( (CP (C 0)))"])
def test_nothing_remains(text: str) -> None:
    assert clean(Tree.parse(text)) is None
    assert list(clean_all([Tree.parse(text), Tree.parse("(X a)")])) == [Tree.parse("(TOP (X a))")]


@given(st.from_type(Tree))
def test_idempotent(tree: Tree) -> None:
    once = clean(tree)
    if once is not None:
        assert clean(once) == once


@given(st.from_type(Tree))
def test_invariants(tree: Tree) -> None:
    once = clean(tree)
    kept = [leaf.word for leaf in tree.preterminals() if not is_empty(leaf.label, leaf.word)]
    if once is None:
        assert not kept
        return
    assert once.words() == kept
    assert once.label == ROOT
    for node in once.nodes():
        assert not (len(node) == 1 and node[0].label == node.label)


@given(st.text())
def test_label_functions_are_idempotent(label: str) -> None:
    assert clean_label(clean_label(label)) == clean_label(label)
    assert clean_tag(clean_tag(label)) == clean_tag(label)


def test_cleaning_shares_what_it_keeps() -> None:
    tree = Tree.parse("(S (NN a) (NN-1 b))")
    once = clean(tree)
    assert once is not None
    assert once[0][0] is tree[0]
    assert tree[1].label == "NN-1"


def test_depth_is_no_limit_of_cleaning() -> None:
    text = "(A (T x) (B " * (DEPTH // 2) + "(X w)" + "))" * (DEPTH // 2)
    assert cleaned(text) == f"(TOP {Tree.parse(text)})"
