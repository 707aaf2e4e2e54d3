"""Corrections of brackets change what was accepted, and no other character."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.constituency.audit.texts import other_tree, raw_tree

from sapwood.auditing.decisions import ACCEPT, REJECT, SKIP, DecidedPart, Decision, replace_in
from sapwood.constituency.audit.corrections import BracketCorrector
from sapwood.constituency.audit.located import annotation_of, as_brackets
from sapwood.constituency.audit.parts import apply_edits, edits_between
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


@given(st.integers(0, 10**9), st.integers(2, 9))
def test_accepted_parts_alone_change(seed: int, n_words: int) -> None:
    """Any parts of any correction make the tree with these edits, and traces stay."""
    rng = random.Random(seed)
    raw = raw_tree(rng, n_words)
    tree = clean(Tree.parse(raw))
    assert tree is not None
    old, new = annotation_of(tree), annotation_of(other_tree(rng, tree))
    edits = edits_between(old, new)
    is_taken = [rng.random() < 0.6 for _ in edits]
    taken = [edit for edit, is_one in zip(edits, is_taken, strict=True) if is_one]
    parts = [
        DecidedPart(ACCEPT if is_one else REJECT, edit.kind, edit.as_dict())
        for edit, is_one in zip(edits, is_taken, strict=True)
    ]
    trees = (str(as_brackets(tree.words(), one)) for one in (old, new))
    decision = Decision("f", "a.mrg", 1, 1, ACCEPT, *trees, tuple(parts))
    if not taken:
        return
    made_of = new if all(is_taken) else apply_edits(old, new, taken)
    wanted = clean(as_brackets(tree.words(), made_of))  # a bracket in one of its label is one
    made = replace_in(raw, BracketCorrector()(raw, decision))
    assert clean(Tree.parse(made)) == wanted
    assert leaves(made) == leaves(raw)


def decided(*accepted: bool, **change: object) -> Decision:
    """A decision on a bracket that moves, in two parts that need each other."""
    old = "(TOP (S (NP (A a) (B b)) (C c)))"
    edits: list[dict[str, object]] = [
        {"removed": [["NP", 0, 2]], "added": [], "is_tag": False},
        {"removed": [], "added": [["NP", 1, 3]], "is_tag": False} | change,
    ]
    parts = tuple(
        DecidedPart(ACCEPT if is_accepted else SKIP, kind, edit)
        for is_accepted, kind, edit in zip(accepted, ("extra", "missing"), edits, strict=True)
    )
    new = "(TOP (S (A a) (NP (B b) (C c))))"
    return Decision("f", "a.mrg", 1, 1, ACCEPT, old, new, parts)


def test_parts_that_need_each_other() -> None:
    text = "(S (NP-SBJ (A a) (B b)) (C c))"

    def made(decision: Decision) -> str:
        return replace_in(text, BracketCorrector()(text, decision))

    assert made(decided(True, True)) == "(S (A a) (NP-SBJ (B b) (C c)))"
    assert made(decided(True, False)) == "(S (A a) (B b) (C c))"
    with pytest.raises(CorpusError, match=r"with part 2 alone: \(NP a b\) crosses \(NP b c\)"):
        made(decided(False, True))


@pytest.mark.parametrize(
    "change",
    [
        {"added": [["NP", 1, 4]]}, {"added": [["NP", 2, 1]]}, {"added": [["N(", 1, 3]]},
        {"added": [["", 1, 3]]}, {"added": [[1, 1, 3]]}, {"added": [["NP", True, 3]]},
        {"added": None}, {"added": [["NP", 1]]}, {"added": []}, {"is_tag": 1}, {"is_tag": True},
        {"removed": [["VP", 0, 2]]},
    ],
)  # fmt: skip
def test_parts_that_are_no_edits_are_refused(change: dict[str, object]) -> None:
    text = "(S (NP (A a) (B b)) (C c))"
    with pytest.raises(CorpusError, match=r"no edit of its words|not in its tree"):
        BracketCorrector()(text, decided(False, True, **change))


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
