"""Edits of dependency trees: each alone leaves a tree, and all together make the suggested one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.audit.conllu_texts import judgement, random_annotation

from sapwood.dependency.audit.edits import Edit, apply_edits, edits_between, p_head
from sapwood.dependency.audit.located import Annotation
from sapwood.dependency.audit.planting import Confusions, plant
from sapwood.dependency.data.bank import heads_problem
from sapwood.dependency.data.transform import lift_heads

SIZES = st.integers(1, 9)
SEEDS = st.integers(0, 10**9)


def test_a_word_that_models_would_move_may_also_have_a_wrong_relation() -> None:
    old = Annotation(("X",) * 3, (0, 1, 2), ("root", "obj", "obl"))
    best = old._replace(heads=(0, 1, 1))
    judged = judgement(best, random.Random(0))._replace(
        annotated_heads=old.heads,
        annotated_relations=({"root": 1.0}, {}, {"root": 0.6, "punct": 0.3, "obl": 0.1}),
    )
    words = ["a", "b", "c"]
    found = {edit.kind: edit for edit in edits_between(words, old, judged)}
    assert (found["relation"].heads, found["relation"].relations) == ((2,), ("punct",))
    assert (found["head"].heads, found["head"].relations) == ((1,), ("obl",))
    # after a planted head, nothing is known of the relation to it
    moved = old._replace(heads=(0, 3, 1), relations=("root", "nsubj", "obl"))
    assert {edit.kind for edit in edits_between(words, moved, judged)} == {"head"}


@given(SEEDS, SIZES)
def test_all_edits_make_the_suggested_tree(seed: int, n: int) -> None:
    """All but other relations of words that would rather be moved, as where arcs cross."""
    rng = random.Random(seed)
    old, new = random_annotation(rng, n), random_annotation(rng, n)
    edits = edits_between([f"w{k}" for k in range(n)], old, judgement(new, rng))
    moved = {word for edit in edits if edit.kind == "head" for word in edit.words}
    edits = [e for e in edits if e.kind != "relation" or e.words[0] not in moved]
    rng.shuffle(edits)
    assert apply_edits(old, edits) == new
    for edit in edits:
        alone = apply_edits(old, [edit])
        assert alone != old
        assert heads_problem(alone.heads) is None
        if edit.tag is None:
            k = edit.words[0] - 1
            assert (alone.heads[k], alone.relations[k]) == (new.heads[k], new.relations[k])


def test_a_crossing_arc_is_judged_by_its_lifted_one() -> None:
    """The stranded `for` hangs on `what`; a projective parser can only hang it on `ask`."""
    old = Annotation(
        ("PRON", "AUX", "PRON", "VERB", "ADP"), (4, 4, 4, 0, 1),
        ("obl", "aux", "nsubj", "root", "case"),
    )  # fmt: skip
    words = ["what", "do", "you", "ask", "for"]
    likely = judgement(old._replace(heads=(4, 4, 4, 0, 4)), random.Random(0))._replace(
        heads=({4: 1.0}, {4: 1.0}, {4: 1.0}, {0: 1.0}, {4: 0.7, 1: 0.2, 3: 0.1}),
        relations=({"obl": 1.0}, {"aux": 1.0}, {"nsubj": 1.0}, {"root": 1.0}, {"case": 1.0}),
        annotated_heads=(4, 4, 4, 0, 4),
    )
    (edit,) = edits_between(words, old, likely)
    assert (edit.kind, edit.words, edit.heads) == ("head", (5,), (4,))
    lifted = lift_heads(old.heads)
    assert lifted == [4, 4, 4, 0, 4]
    assert p_head(likely, old.heads, lifted, 4) == pytest.approx(0.9)
    assert p_head(likely, old.heads, old.heads, 4) == pytest.approx(0.2)  # what it was before


@given(SEEDS, SIZES)
def test_any_choice_of_edits_is_a_tree(seed: int, n: int) -> None:
    rng = random.Random(seed)
    old, new = random_annotation(rng, n), random_annotation(rng, n)
    edits = edits_between([f"w{k}" for k in range(n)], old, judgement(new, rng))
    some = [edit for edit in edits if rng.random() < 0.5]
    made = apply_edits(old, some)
    assert heads_problem(made.heads) is None
    untouched = set(range(n)) - {word - 1 for edit in some for word in edit.words}
    for k in untouched:
        assert [column[k] for column in made] == [column[k] for column in old]


def test_equal_trees_have_no_edits() -> None:
    rng = random.Random(1)
    one = random_annotation(rng, 6)
    assert edits_between(list("abcdef"), one, judgement(one, rng)) == []


def test_words_that_must_move_together_are_one_edit() -> None:
    old = Annotation(("X",) * 3, (2, 0, 2), ("a", "root", "c"))
    new = Annotation(("X",) * 3, (0, 1, 2), ("root", "b", "c"))
    (edit,) = edits_between(list("abc"), old, judgement(new, random.Random(1)))
    assert set(edit.words) == {1, 2}


def test_missing_tags_are_no_errors() -> None:
    old = Annotation(("_", "_"), (2, 0), ("a", "root"))
    new = old._replace(upos=("NOUN", "VERB"))
    assert edits_between(["a", "b"], old, judgement(new, random.Random(1))) == []


@given(SEEDS, SIZES, st.sampled_from([0.0, 0.3, 1.0]))
def test_planted_errors_keep_a_tree(seed: int, n: int, rate: float) -> None:
    rng = random.Random(seed)
    old = random_annotation(rng, n)
    judged = judgement(random_annotation(rng, n), rng)
    confusions = Confusions()
    confusions.add(old, judged)
    made, planted = plant(old, judged, confusions, rate, np.random.default_rng(seed))
    assert heads_problem(made.heads) is None
    changed = {
        kind: {k + 1 for k in range(n) if new[k] != before[k]}
        for kind, new, before in zip(("tag", "head", "relation"), made, old, strict=True)
    }
    for kind, words in changed.items():
        assert words == {error.word for error in planted if error.kind == kind}
    # the edit that undoes an error finds it, unless it also moves more than two other words
    right = judged._replace(best=old)
    edits = edits_between([f"w{k}" for k in range(n)], made, right)
    for error in planted:
        mine = [e for e in edits if e.kind == error.kind and error.word in e.words]
        assert len(mine) == 1
        assert error.is_hit(mine[0]) == (len(mine[0].words) <= 3)
    if not rate:
        assert made == old


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Edit("tag", (2,), (), (), "X", "a", "b"), (1, 2)),
        (Edit("head", (3, 1), (1, 0), ("a", "root"), None, "a", "b"), (2, 3)),
    ],
)
def test_spans_are_those_of_the_first_word(edit: Edit, expected: tuple[int, int]) -> None:
    assert edit.span == expected
