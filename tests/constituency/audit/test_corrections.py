"""Corrections of brackets change what was accepted, and no other character."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.constituency.audit.texts import other_tree, raw_tree

from sapwood.auditing.decisions import ACCEPT, Decision, replace_in
from sapwood.constituency.audit.corrections import BracketCorrector
from sapwood.core.errors import CorpusError
from sapwood.corpora.tree import Tree, clean


def corrected(
    text: str, annotated: str, suggested: str, line: int = 1, format: str | None = None
) -> str:
    one = Decision("f", "a.mrg", line, 1, ACCEPT, annotated, suggested)
    return replace_in(text, BracketCorrector(format)(text, one))


def leaves(text: str) -> list[str]:
    """All leaves, empty ones too, without their tags."""
    return re.findall(r"\([^\s()]+\s+([^\s()]+)\s*\)", text)


@given(st.integers(0, 10**9), st.integers(1, 9))
def test_any_tree_becomes_any_other(seed: int, n_words: int) -> None:
    rng = random.Random(seed)
    raw = raw_tree(rng, n_words)
    tree = clean(Tree.parse(raw))
    assert tree is not None
    wanted = other_tree(rng, tree)
    before, behind = "(S (X before)) ", rng.choice(("", "\n", "(S (X y))\r\n(S (broken"))
    text = f"{before}{raw}{behind}"
    made = corrected(text, str(tree), str(wanted))
    assert made.startswith(before)
    assert made.endswith(behind)
    inside = made[len(before) : len(made) - len(behind)]
    assert clean(Tree.parse(inside)) == wanted
    assert leaves(inside) == leaves(raw)  # traces stay where they are among the words
    if tree == wanted:
        assert made == text


@given(st.integers(0, 10**9), st.integers(2, 9))
def test_one_other_tag_changes_one_tag(seed: int, n_words: int) -> None:
    rng = random.Random(seed)
    raw = raw_tree(rng, n_words)
    tree = clean(Tree.parse(raw))
    assert tree is not None
    word = rng.choice(tree.words())
    wanted = re.sub(rf"\(\S+ {word}\)", f"(XX {word})", str(tree))
    made = corrected(raw, str(tree), wanted)
    assert made == re.sub(rf"\((NN|VB|IN)(-1)? {word}\)", rf"(XX\2 {word})", raw)


NP = "(TOP (S (NP (NN dog)) (VP (VB saw) (NP (NP (NN cat)) (PP (IN at) (NN night))))))"


@pytest.mark.parametrize(
    ("text", "annotated", "suggested", "expected"),
    [
        # a label keeps its functions and indices
        ("( (S (NP-SBJ-1 (NN x)) (VP (VB y))) )", "(TOP (S (NP (NN x)) (VP (VB y))))",
         "(TOP (S (ADVP (NN x)) (VP (VB y))))", "( (S (ADVP-SBJ-1 (NN x)) (VP (VB y))) )"),
        # a bracket goes, with the blanks between it and what it holds
        ("(S (NP\n   (NP (NN x)) (PP (IN y) )\n   )\n  (. .))",
         "(TOP (S (NP (NP (NN x)) (PP (IN y))) (. .)))", "(TOP (S (NP (NN x)) (PP (IN y)) (. .)))",
         "(S (NP (NN x)) (PP (IN y) )\n  (. .))"),
        # a bracket comes
        ("(S (A a)(B b)(C c))", "(TOP (S (A a) (B b) (C c)))",
         "(TOP (S (X (A a)) (Y (B b) (C c))))", "(S (X (A a))(Y (B b)(C c)))"),
        # a bracket that moves takes its functions along; a trace stays where it is
        ("(S (A a) (NP-SBJ (B b) (C c)) (-NONE- *T*-1) (D d))",
         "(TOP (S (A a) (NP (B b) (C c)) (D d)))", "(TOP (S (A a) (B b) (NP (C c) (D d))))",
         "(S (A a) (B b) (NP-SBJ (C c) (-NONE- *T*-1) (D d)))"),
        # a tree without a root stays one tree
        ("(S (A a) (B b))", "(TOP (S (A a) (B b)))", "(TOP (A a) (B b))", "(TOP (A a) (B b))"),
        # X -> X is one bracket
        ("(S (NP-SBJ (NP (N a) (N b)) (-NONE- *)) (V c))",
         "(TOP (S (NP (N a) (N b)) (V c)))", "(TOP (S (QP (N a) (N b)) (V c)))",
         "(S (QP-SBJ (QP (N a) (N b)) (-NONE- *)) (V c))"),
        # punctuation that is its own tag
        ("(S (A a) (,))", "(TOP (S (A a) (, ,)))", "(TOP (S (A a) (X ,)))", "(S (A a) (X ,))"),
        # codes and comments of historical treebanks
        ("/* (S (A a))\n*/ ( (S (CODE {x}) (N-N a-a) (VB b-b)) (ID a,1))",
         "(TOP (S (N-N a) (VB b)))", "(TOP (S (NP (N-N a)) (VBD b)))",
         "/* (S (A a))\n*/ ( (S (CODE {x}) (NP (N-N a-a)) (VBD b-b)) (ID a,1))"),
    ],
)  # fmt: skip
def test_examples(text: str, annotated: str, suggested: str, expected: str) -> None:
    line = 2 if text.startswith("/*") else 1
    form = "psd-lemmas" if text.startswith("/*") else None
    assert corrected(text, annotated, suggested, line, form) == expected


def test_floresta_keeps_functions() -> None:
    text = "(STA+fcl (S+np (H+n cão)) (P+v ladra))"
    tree, wanted = "(TOP (fcl (np (n cão)) (v ladra)))", "(TOP (fcl (ap (n cão)) (v ladra)))"
    made = corrected(text, tree, wanted, format="floresta")
    assert made == "(STA+fcl (S+ap (H+n cão)) (P+v ladra))"


def test_two_trees_of_a_line_are_told_apart() -> None:
    text = "(S (A a)) (S (B b)) (S (A a))\n"
    made = corrected(text, "(TOP (S (B b)))", "(TOP (X (B b)))")
    assert made == "(S (A a)) (X (B b)) (S (A a))\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"line": 2}, "no tree here is annotated"),
        ({"line": 99}, "no tree here is annotated"),
        ({"annotated_tree": "(TOP (S (A b)))"}, "no tree here is annotated"),
        ({"suggested_tree": "(TOP (S (A other)))"}, "cannot be written"),
    ],
)
def test_what_is_not_there_is_refused(change: dict[str, object], message: str) -> None:
    facts = {
        "id": "f", "file": "a.mrg", "line": 1, "tree": 1, "decision": ACCEPT,
        "annotated_tree": "(TOP (S (A a)))", "suggested_tree": "(TOP (X (A a)))",
    }  # fmt: skip
    with pytest.raises(CorpusError, match=message):
        BracketCorrector()("(S (A a))\n(S (C c))\n", Decision(**(facts | change)))  # type: ignore[arg-type]


def test_export_files_are_refused() -> None:
    text = "#FORMAT 3\n#BOS 1\na\tX\t--\t--\t0\n#EOS 1\n"
    with pytest.raises(CorpusError, match="format export cannot be corrected"):
        corrected(text, "(TOP (X a))", "(TOP (Y a))")


def test_deep_trees_are_no_limit() -> None:
    deep = f"{'(S ' * 3000}(X a) (Y b){')' * 3000}"
    text = re.sub(r"\(S ", lambda match: next(names), deep) if (names := _names(3000)) else deep
    tree = clean(Tree.parse(text))
    made = corrected(text, str(tree), str(tree).replace("(X a)", "(Z a)"))
    assert made == text.replace("(X a)", "(Z a)")


def _names(n: int):  # type: ignore[no-untyped-def]
    return iter([f"(S{k % 7} " for k in range(n)])
