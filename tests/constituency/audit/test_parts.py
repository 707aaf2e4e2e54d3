"""Differences of annotations: parts that lead from one to the other, each to a tree."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.constituency.audit.located import Annotation, annotation_of, as_brackets
from sapwood.constituency.audit.parts import apply_edits, crosses, edits_between
from sapwood.constituency.audit.planting import Confusions, Planted, plant_in_tree
from sapwood.constituency.audit.signals import rules_of
from sapwood.corpora.tree import Tree


@st.composite
def annotations(draw: st.DrawFn, n: int) -> Annotation:
    """An annotation of n words with some brackets that do not cross."""
    tags = tuple(draw(st.sampled_from("NVD")) for _ in range(n))
    brackets: list[tuple[str, int, int]] = []
    for _ in range(draw(st.integers(0, 6))):
        i = draw(st.integers(0, n - 1))
        new = (draw(st.sampled_from(["NP", "VP", "S"])), i, draw(st.integers(i + 1, n)))
        if not any(crosses(new, other) for other in brackets):
            brackets.append(new)
    brackets.sort(key=lambda bracket: (bracket[1], -bracket[2]))
    return Annotation(tags, tuple(brackets))


PAIRS = st.integers(1, 7).flatmap(lambda n: st.tuples(annotations(n), annotations(n)))


@given(PAIRS)
def test_all_edits_together_lead_to_the_other_annotation(
    pair: tuple[Annotation, Annotation],
) -> None:
    one, other = pair
    found = apply_edits(one, other, edits_between(one, other))
    assert found.tags == other.tags
    assert Counter(found.brackets) == Counter(other.brackets)


@given(PAIRS)
def test_any_edits_lead_to_a_tree(pair: tuple[Annotation, Annotation]) -> None:
    one, other = pair
    edits = edits_between(one, other)
    for some in [[edit] for edit in edits] + [list(two) for two in combinations(edits, 2)]:
        found = apply_edits(one, other, some)
        tree = as_brackets(["w"] * len(found.tags), found)
        assert annotation_of(tree) == found


@given(PAIRS)
def test_an_edit_adds_one_bracket_and_removes_what_crosses_it(
    pair: tuple[Annotation, Annotation],
) -> None:
    for edit in edits_between(*pair):
        assert len(set(edit.added)) == 1 or (edit.kind == "extra" and len(set(edit.removed)) == 1)
        moved = [b for b in set(edit.removed) if not any(crosses(b, new) for new in edit.added)]
        assert len(moved) <= 1  # the same bracket with another end or start


def test_a_sentence_that_is_rebuilt_has_a_part_for_each_bracket() -> None:
    one = annotation_of(Tree.parse("(TOP (S (A (N a) (N b) (N c)) (B (N d) (N e)) (N f)))"))
    other = annotation_of(Tree.parse("(TOP (S (N a) (C (N b) (N c) (N d)) (D (N e) (N f))))"))
    found = {(edit.old, edit.new) for edit in edits_between(one, other)}
    assert found == {("A B", "C"), ("B", "D")}


@given(st.integers(1, 7).flatmap(annotations))
def test_an_annotation_does_not_differ_from_itself(one: Annotation) -> None:
    assert edits_between(one, one) == []


@pytest.mark.parametrize(
    ("other", "kind", "old", "new"),
    [
        ("(S (VP (D the) (N dog)) (VP (V barks)))", "label", "NP", "VP"),
        ("(S (NP (D the) (V dog)) (VP (V barks)))", "tag", "N", "V"),
        ("(S (NP (D the) (N dog)) (V barks))", "extra", "VP", None),
        ("(S (NP (D the) (NX (N dog))) (VP (V barks)))", "missing", None, "NX"),
        ("(S (D the) (NP (N dog)) (VP (V barks)))", "boundary", "NP", "NP"),
    ],
)
def test_each_kind_of_difference(other: str, kind: str, old: str | None, new: str | None) -> None:
    one = annotation_of(Tree.parse("(TOP (S (NP (D the) (N dog)) (VP (V barks))))"))
    (edit,) = edits_between(one, annotation_of(Tree.parse(f"(TOP {other})")))
    assert (edit.kind, edit.old, edit.new) == (kind, old, new)


@given(st.integers(1, 7).flatmap(annotations))
def test_rules_are_those_of_the_tree(one: Annotation) -> None:
    tree = as_brackets(["w"] * len(one.tags), one)
    rules = Counter(
        (node.label, *(kid.label for kid in node)) for node in tree.nodes() if len(node)
    )
    assert Counter(rule for rule, _, _ in rules_of(one)) == rules


CONFUSIONS = Confusions(
    {"N": Counter(V=1.0), "V": Counter(N=0.5, D=0.5)}, {"NP": Counter(VP=1.0)}, Counter(PP=1.0)
)


@given(st.integers(1, 7).flatmap(annotations), st.integers(0, 1000))
def test_planted_errors_leave_a_tree_and_say_what_they_changed(one: Annotation, seed: int) -> None:
    found, planted = plant_in_tree(one, CONFUSIONS, 0.4, np.random.default_rng(seed))
    tree = as_brackets(["w"] * len(found.tags), found)
    assert annotation_of(tree) == found
    assert bool(planted) == (found != one) or Counter(found.brackets) == Counter(one.brackets)
    for error in planted:
        if error.kind == "tag":
            assert found.tags[error.wrong[0][1]] == error.wrong[0][0]
            assert one.tags[error.right[0][1]] == error.right[0][0]


@pytest.mark.parametrize("kind", ["label", "boundary", "missing", "extra", "tag"])
def test_a_planted_error_is_hit_by_the_edit_that_undoes_it(kind: str) -> None:
    text = "(TOP (S (NP (NP (D a) (N dog)) (PP (P in) (NP (D a) (J old) (N car)))) (VP (V barks))))"
    one = annotation_of(Tree.parse(text))
    hits = Counter[bool]()
    for seed in range(300):
        found, planted = plant_in_tree(one, CONFUSIONS, 0.03, np.random.default_rng(seed))
        if len(planted) == 1 and planted[0].kind == kind:
            hits[any(planted[0].is_hit(edit) for edit in edits_between(found, one))] += 1
    assert hits[True] > 0
    assert not hits[False]


def test_an_edit_elsewhere_hits_nothing() -> None:
    one = annotation_of(Tree.parse("(TOP (S (NP (D the) (N dog)) (VP (V barks))))"))
    other = annotation_of(Tree.parse("(TOP (S (NP (D the) (N dog)) (V barks)))"))
    (edit,) = edits_between(one, other)
    assert not Planted("tag", (("V", 2, 3),), (("N", 2, 3),)).is_hit(edit)
    assert not Planted("label", (("NP", 0, 2),), (("VP", 0, 2),)).is_hit(edit)
    assert Planted("extra", (("VP", 2, 3),), ()).is_hit(edit)
