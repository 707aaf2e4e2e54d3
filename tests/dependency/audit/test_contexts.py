"""Counts of annotations in their contexts, against plain counts."""

from __future__ import annotations

import random
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.audit.conllu_texts import judgement, random_annotation

from sapwood.dependency.audit.contexts import AnnotatedWords, Contexts
from sapwood.dependency.audit.edits import Edit, edits_between, relation_edit, tag_edit
from sapwood.dependency.audit.located import Annotation, LocatedSentence
from sapwood.dependency.audit.planting import Confusions
from sapwood.dependency.audit.run import ArcAuditSettings, ArcEvidence, candidates
from sapwood.dependency.data.transform import lift_heads

ASKED = Annotation(
    ("PRON", "AUX", "PRON", "VERB", "ADP"), (4, 4, 4, 0, 1),
    ("obl", "aux", "nsubj", "root", "case"),
)  # fmt: skip
WHAT_FOR = ["What", "do", "you", "ask", "for"]
LIFTED = ASKED._replace(heads=(4, 4, 4, 0, 4))


def located(words: list[str], annotation: Annotation) -> LocatedSentence:
    return LocatedSentence("a", 1, 1, tuple(words), ("_",) * len(words), annotation)


def view(words: list[str], annotation: Annotation) -> AnnotatedWords:
    return AnnotatedWords.of(words, annotation, lift_heads(annotation.heads))


def test_the_context_tells_a_convention_from_an_error() -> None:
    """`right` is INTJ in three other places before `?`, and ADJ in none."""
    words = ["fine", "right", "?"]
    right = Annotation(("ADJ", "INTJ", "PUNCT"), (0, 1, 1), ("root", "discourse", "punct"))
    wrong = right._replace(upos=("ADJ", "ADJ", "PUNCT"))
    contexts = Contexts([located(words, tree) for tree in (right, right, right, wrong)])
    (row,) = contexts.signals(3, view(words, wrong), [tag_edit("tag", 2, wrong, "INTJ")])
    assert row == pytest.approx([log(3.5 / 0.5), 0.0, log(4)] * (len(row) // 3))
    (row,) = contexts.signals(0, view(words, right), [tag_edit("tag", 2, right, "ADJ")])
    assert row == pytest.approx([log(1.5 / 2.5), log(3), log(2)] * (len(row) // 3))


@given(st.integers(0, 10**9), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_contexts_are_those_of_a_plain_count(seed: int, sizes: list[int]) -> None:
    """Each count is that of all words but the one that is judged, by comparing them one by one."""
    rng = random.Random(seed)
    sentences = [
        located([rng.choice("aB") for _ in range(n)], random_annotation(rng, n)) for n in sizes
    ]
    contexts = Contexts(sentences)
    views = [view(list(one.words), one.annotation) for one in sentences]
    for number, (one, here) in enumerate(zip(sentences, views, strict=True)):
        k = rng.randint(1, len(one.words))
        edits: list[tuple[str, str, Edit]] = [
            ("tag", "ADP", tag_edit("tag", k, one.annotation, "ADP")),
            ("relation", "obl", relation_edit("relation", k, one.annotation, "obl")),
        ]
        for kind, new, edit in edits:
            (row,) = contexts.signals(number, here, [edit])
            for place, context in enumerate(here.contexts(kind, k)):
                others = [
                    other.annotation_of(kind, word)
                    for m, other in enumerate(views)
                    for word in range(1, len(other.lifted) + 1)
                    if (m, word) != (number, k) and other.contexts(kind, word)[place] == context
                ]
                old = others.count(here.annotation_of(kind, k))
                found = row[3 * place : 3 * place + 3]
                n_new = others.count(new)
                expected = [log((n_new + 0.5) / (old + 0.5)), log(1 + old), log(1 + n_new)]
                assert found == pytest.approx(expected)


def test_crossing_arcs_are_usual_where_others_alike_cross() -> None:
    """A stranded `for` is usual where another one is stranded, not where it is the only one."""
    plain = [located(["a", "for", "b"], Annotation(
        ("VERB", "ADP", "NOUN"), (0, 3, 1), ("root", "case", "obl")))] * 9  # fmt: skip
    for others, expected in (([ASKED], True), ([LIFTED], False), ([], False)):
        trees = [ASKED, *others]
        contexts = Contexts([located(WHAT_FOR, tree) for tree in trees] + plain)
        assert contexts.is_usual_crossing(0, view(WHAT_FOR, ASKED), 5) is expected


@pytest.mark.parametrize(("is_usual", "kinds"), [(True, []), (False, ["head"])])
def test_usual_crossing_arcs_are_no_findings(is_usual: bool, kinds: list[str]) -> None:
    trees = [ASKED, ASKED if is_usual else LIFTED, LIFTED]
    sentences = [located(WHAT_FOR, tree) for tree in trees]
    judged = [
        judgement(LIFTED, random.Random(k))._replace(annotated_heads=LIFTED.heads, relations=tuple(
            {relation: 1.0} for relation in LIFTED.relations)) for k in range(3)
    ]  # fmt: skip
    folds = np.zeros(3, np.int64)
    evidence = ArcEvidence(sentences, folds, folds, judged)
    found = candidates(evidence, ArcAuditSettings())
    assert [
        edit.kind for k, edit in zip(found.sentence, found.edits, strict=True)
        if not k and edit.kind == "head"
    ] == kinds  # fmt: skip
    assert len(edits_between(WHAT_FOR, ASKED, judged[0])) == 1


def test_planting_is_expected_as_often_as_it_is_drawn() -> None:
    """Both NOUN are confused with VERB alone, the one ADJ with NOUN in three of four cases."""
    confusions = Confusions()
    tree = Annotation(("NOUN", "NOUN", "ADJ"), (0, 1, 1), ("root", "conj", "amod"))
    judged = judgement(tree, random.Random(0))._replace(
        tags=({"VERB": 0.5, "NOUN": 0.5}, {"NOUN": 1.0}, {"NOUN": 0.6, "VERB": 0.2})
    )
    confusions.add(tree, judged)
    assert confusions.expected_count("tag", "VERB", "NOUN") == pytest.approx(2.0)
    assert confusions.expected_count("tag", "NOUN", "ADJ") == pytest.approx(0.75)
    assert confusions.expected_count("tag", "ADJ", "VERB") == 0.0
