from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.corpora.tree import ROOT, Tree, clean, clean_all, clean_label, clean_tag, is_empty

DEPTH = 20_000


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


def test_depth_is_no_limit() -> None:
    text = "(A (T x) (B " * (DEPTH // 2) + "(X w)" + "))" * (DEPTH // 2)
    assert cleaned(text) == f"(TOP {Tree.parse(text)})"
