"""Signals of edits, against counts made by hand."""

from __future__ import annotations

import random
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.audit.conllu_texts import judgement, random_annotation

from sapwood.auditing.nuclei import Nuclei
from sapwood.dependency.audit.edits import edits_between, relation_edit, tag_edit
from sapwood.dependency.audit.located import Annotation, LocatedSentence
from sapwood.dependency.audit.run import ArcAuditSettings, ArcEvidence, candidates
from sapwood.dependency.audit.signals import (
    Disagreements,
    Scene,
    _rivals,
    change_keys,
    is_supported,
    spans_of,
)
from sapwood.dependency.data.transform import lift_heads

HERE = Annotation(("NOUN", "VERB", "ADP"), (2, 0, 2), ("obj", "root", "case"))
BEST = Annotation(("NOUN", "VERB", "ADV"), (2, 0, 1), ("nsubj", "root", "case"))


def located(number: int, words: list[str], annotation: Annotation) -> LocatedSentence:
    none = ("_",) * len(words)
    return LocatedSentence("a", number, number, tuple(words), none, annotation)


def test_what_models_change_everywhere_is_told_from_what_they_change_once() -> None:
    """Of four places with a stranded preposition, models would move three and one other word."""
    sentences = [located(k, ["Dogs", "bark", "at"], HERE) for k in range(4)]
    bests = [BEST, BEST, BEST, HERE]
    judged = [judgement(best, random.Random(k)) for k, best in enumerate(bests)]
    counts = Disagreements(sentences, judged)
    scene = Scene(0, sentences[0].words, HERE, 0, judged[0], HERE.heads)
    found = {
        edit.kind: counts.signals(scene, edit)
        for edit in edits_between(sentences[0].words, HERE, judged[0])
    }
    # two of the three other places, once by the word and once by its tag
    expected = [log((2 + 0.1) / (3 + 1)), log(3)] * 2
    assert found == {kind: pytest.approx(expected) for kind in ("tag", "relation", "head")}


def test_a_planted_error_is_not_its_own_witness() -> None:
    """An annotation that differs from the sentence's own is not among what was counted."""
    sentences = [located(0, ["a", "b", "c"], HERE)]
    judged = judgement(HERE, random.Random(0))
    counts = Disagreements(sentences, [judged])
    wrong = HERE._replace(upos=("X", "VERB", "ADP"))
    (edit,) = edits_between(["a", "b", "c"], wrong, judged)
    scene = Scene(0, ["a", "b", "c"], wrong, 0, judged, wrong.heads)
    assert counts.signals(scene, edit) == pytest.approx([log(0.1), 0.0] * 2)


def test_edits_that_other_places_support_are_no_examples_of_right_annotations() -> None:
    """Both other places have the tag that is suggested; places that differ support nothing."""
    tags = ("DET", "NOUN", "VERB")
    words = ["the", "run", "ends"]
    trees = [Annotation(tags, (2, 3, 0), ("det", "nsubj", "root")) for _ in range(3)]
    trees[2] = trees[2]._replace(upos=("DET", "VERB", "VERB"))
    nuclei = Nuclei([words] * 3, [spans_of(tree) for tree in trees])
    right, wrong = tag_edit("tag", 2, trees[2], "NOUN"), tag_edit("tag", 2, trees[0], "VERB")
    assert is_supported(2, trees[2], right, nuclei)
    assert not is_supported(0, trees[0], wrong, nuclei)  # one alike, one otherwise
    for others in ([], [trees[0]]):  # one other place is as likely to be wrong
        few = Nuclei([words] * (1 + len(others)), [spans_of(t) for t in [trees[2], *others]])
        assert not is_supported(0, trees[2], right, few)
    sentences = [located(k, words, tree) for k, tree in enumerate(trees)]
    judged = [judgement(trees[0], random.Random(k)) for k in range(3)]
    folds = np.zeros(3, np.int64)
    evidence = ArcEvidence(sentences, folds, folds, judged)
    settings = ArcAuditSettings(planted_rate=0.0)
    assert len(candidates(evidence, settings).edits) == 1
    assert not candidates(evidence, settings, 0).edits


@given(st.integers(0, 10**9), st.lists(st.integers(1, 4), min_size=1, max_size=5))
def test_disagreements_are_those_of_a_plain_count(seed: int, sizes: list[int]) -> None:
    rng = random.Random(seed)
    sentences = [
        located(k, [rng.choice("ab") for _ in range(n)], random_annotation(rng, n))
        for k, n in enumerate(sizes)
    ]
    judged = [judgement(random_annotation(rng, n), rng) for n in sizes]
    counts = Disagreements(sentences, judged)
    every = [
        (k, edit.words[0], change)
        for k, (one, best) in enumerate(zip(sentences, judged, strict=True))
        for edit in edits_between(one.words, one.annotation, best)
        for _, change in change_keys(one.words, one.annotation, edit)
    ]
    for k, (one, best) in enumerate(zip(sentences, judged, strict=True)):
        scene = Scene(k, one.words, one.annotation, 0, best, lift_heads(one.annotation.heads))
        for edit in edits_between(one.words, one.annotation, best):
            ns = [
                sum(change == other for *place, other in every if place != [k, edit.words[0]])
                for _, change in change_keys(one.words, one.annotation, edit)
            ]
            assert counts.signals(scene, edit)[1::2] == pytest.approx([log(1 + n) for n in ns])


def test_a_second_object_speaks_against_an_edit() -> None:
    """`what are you using`: there is a subject, so that `what` can be none."""
    tree = Annotation(
        ("PRON", "AUX", "PRON", "VERB"), (4, 4, 4, 0), ("obj", "aux", "nsubj", "root")
    )
    assert _rivals(tree, relation_edit("relation", 1, tree, "nsubj")) == (0.0, 1.0)
    twice = tree._replace(relations=("nsubj", "aux", "nsubj", "root"))
    assert _rivals(twice, relation_edit("relation", 1, twice, "obj")) == (1.0, 0.0)
    outer = tree._replace(relations=("nsubj:outer", "aux", "nsubj", "root"))
    assert _rivals(outer, relation_edit("relation", 1, outer, "obj")) == (0.0, 0.0)
    assert _rivals(tree, tag_edit("tag", 1, tree, "DET")) == (0.0, 0.0)
