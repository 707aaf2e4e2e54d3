"""Edits of dependency trees: each is obeyed by the tree that is suggested, or refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.arc_toys import bank

from sapwood.annotation.state import SentenceState
from sapwood.core.errors import SapwoodError
from sapwood.dependency.annotation.annotator import ArcAnnotator
from sapwood.dependency.annotation.given import GivenArcs, tag_column, unmet
from sapwood.dependency.annotation.suggest import ArcSuggester
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.learn.crf import ArcCRF

TREES = list(bank(60))
WORDS = TREES[0].words


@cache
def suggester() -> ArcSuggester:
    return ArcSuggester(ArcCRF(1, passes=2, folds=2).fit(TREES).model_, {"amod": "ATTR"})


def annotator(*, with_model: bool) -> ArcAnnotator:
    return ArcAnnotator(suggester() if with_model else None)


def new(words: tuple[str, ...] = WORDS) -> SentenceState:
    return SentenceState(0, "new", words)


def arcs_of(desk: ArcAnnotator, state: SentenceState) -> Arcs:
    return Arcs.parse(desk.suggest(state).tree)


def take(desk: ArcAnnotator, state: SentenceState, **action: Any) -> SentenceState:
    return desk.edit(state, action, desk.suggest(state).tree)


@st.composite
def actions(draw: st.DrawFn, n: int) -> dict[str, Any]:
    word = draw(st.integers(0, n - 1))
    others = ["retag", "free", "split", "join", "choose", "accept", "reopen", "skip", "clear"]
    kind = draw(st.sampled_from(["head"] * 5 + ["relation"] * 2 + others))
    fields: dict[str, Any] = {
        "head": {"word": word, "head": draw(st.integers(0, n))},
        "relation": {"word": word, "relation": draw(st.sampled_from(["nsubj", "root", "NEW"]))},
        "retag": {"word": word, "tag": draw(st.sampled_from(["NOUN", "VERB", "NEW"]))},
        "free": {"word": word}, "split": {"word": word, "at": 1}, "join": {"word": word},
        "choose": {"alternative": 1},
    }.get(kind, {})  # fmt: skip
    return {"type": kind, **fields}


@pytest.mark.parametrize("with_model", [True, False])
@settings(max_examples=60)
@given(data=st.data())
def test_each_action_is_obeyed_or_refused_with_a_hint(
    *, with_model: bool, data: st.DataObject
) -> None:
    desk, state = annotator(with_model=with_model), new()
    for _ in range(data.draw(st.integers(1, 8))):
        before = desk.suggest(state)
        action = data.draw(actions(len(state.words)))
        refused = None
        try:
            changed = desk.edit(state, action, before.tree)
        except SapwoodError as error:
            refused = error
        if refused is not None:
            assert refused.hint
            continue
        if changed.status == "accepted":
            assert changed.tree == before.tree
            state = changed
            continue
        after = desk.suggest(changed)
        found = Arcs.parse(after.tree)  # which refuses what is no tree
        assert found.words == changed.words
        assert unmet(found, GivenArcs.of(changed)) is None
        word = action.get("word", 0)
        if action["type"] == "head":
            assert found.heads[word] == action["head"]
        elif action["type"] == "relation":
            assert found.relations[word] == action["relation"]
        elif action["type"] == "retag":
            assert getattr(found, tag_column(found))[word] == action["tag"]
        for one in after.alternatives:
            assert unmet(Arcs.parse(one.tree), GivenArcs.of(changed)) is None
        assert after.alternatives[0].tree == after.tree
        state = changed


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([{"type": "head", "word": 0, "head": 1}], "its own head"),
        ([{"type": "head", "word": 0, "head": 99}], '"head" is 99'),
        ([{"type": "head", "word": 0, "head": 2}, {"type": "head", "word": 1, "head": 1}],
         "circle"),
        ([{"type": "head", "word": 0, "head": 0}, {"type": "head", "word": 1, "head": 0}],
         "was made the root by hand"),
        ([{"type": "head", "word": 0, "head": 0}, {"type": "relation", "word": 0,
          "relation": "nsubj"}], "was made the root by hand"),
        ([{"type": "relation", "word": 0, "relation": "n subj"}], "cannot stand in a column"),
        ([{"type": "retag", "word": 0, "tag": "_"}], "cannot stand in a column"),
        ([{"type": "replace", "tree": "1\tno\t_\t_\t_\t_\t0\troot\t_\t_"}], "has the words"),
        ([{"type": "replace", "tree": "no tree"}], "columns"),
        ([{"type": "add", "start": 0, "end": 1, "label": "NP"}], "no action is called 'add'"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(actions: list[dict[str, Any]], message: str) -> None:
    desk, state = annotator(with_model=True), new()
    for action in actions[:-1]:
        state = take(desk, state, **action)
    with pytest.raises(SapwoodError) as caught:
        take(desk, state, **actions[-1])
    assert message in str(caught.value)
    assert caught.value.hint


def test_heads_that_cross_are_obeyed_though_the_parser_is_projective() -> None:
    desk, state = annotator(with_model=True), new(("a", "b", "c", "d"))
    state = take(desk, state, type="head", word=0, head=3)
    state = take(desk, state, type="head", word=1, head=4)
    found = arcs_of(desk, state)
    assert found.heads[:2] == (3, 4)
    assert not found.is_projective()
    assert desk.suggest(state).is_fallback


def test_the_columns_of_an_imported_tree_stay() -> None:
    text = (
        "# sent_id = a-1\n# text = Hunde bellen\n"
        "1\tHunde\tHund\tNOUN\tNN\tNumber=Plur\t2\tnsubj\t_\tSpaceAfter=No\n"
        "2\tbellen\tbellen\tVERB\tVV\t_\t0\troot\t_\t_\n\n"
    )
    desk = annotator(with_model=True)
    (one,) = desk.read(text, "conllu", "text", as_accepted=False).sentences
    assert "sent_id" not in str(one.tree)
    state = take(desk, one.first_state(), type="relation", word=0, relation="SB")
    tree = desk.suggest(state).tree
    assert "# text = Hunde bellen" in tree
    assert "1\tHunde\tHund\tNOUN\tNN\tNumber=Plur\t2\tSB\t_\tSpaceAfter=No" in tree
    split = take(desk, state, type="split", word=0, at=4)
    assert arcs_of(desk, split).words == ("Hund", "e", "bellen")
    assert "bellen\tbellen\tVERB" in desk.suggest(split).tree


def test_names_of_the_start_model_are_mapped() -> None:
    desk = annotator(with_model=True)
    assert "ATTR" in desk.names()["relations"]
    assert "amod" not in desk.names()["relations"]


def test_completion_lists_the_probable_names_first() -> None:
    desk, state = annotator(with_model=True), new()
    for place in ({"word": 0, "head": 2}, {"word": 0}):
        found = [one.probability or 0.0 for one in desk.complete(state, place)]
        assert found == sorted(found, reverse=True)
        assert sum(found) == pytest.approx(1.0, abs=1e-4)  # in single precision
