"""Edits of phrase trees: each is obeyed by the tree that is suggested, or refused with a hint."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sapwood as sw
from sapwood.annotation.state import SentenceState
from sapwood.constituency.annotation.annotator import TreeAnnotator
from sapwood.constituency.annotation.edits import edit_tree
from sapwood.constituency.annotation.given import GivenPhrases, Span, TreeLayout
from sapwood.constituency.annotation.suggest import Suggester, n_tree_changes
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree

WORDS = ("the", "man", "sees", "the", "dog", "with", "a", "hat", ".")
LABELS = ("NP", "VP", "S", "PP", "ADJP", "NEW", "GN-été", "X", "NN")
TAGS = ("NN", "DT", "V", "NOM", "NP", ".")


@cache
def suggester() -> Suggester:
    return Suggester(sw.Parser(sw.bundled_grammar()))


def annotator(*, with_model: bool) -> TreeAnnotator:
    return TreeAnnotator(suggester() if with_model else None)


def new(words: tuple[str, ...] = WORDS) -> SentenceState:
    return SentenceState(0, "new", words)


def layout_of(desk: TreeAnnotator, state: SentenceState) -> TreeLayout:
    return TreeLayout.of(Tree.parse(desk.suggest(state).tree))


def chain(layout: TreeLayout, start: int, end: int) -> tuple[str, ...]:
    return layout.chains.get((start, end), ())


def take(desk: TreeAnnotator, state: SentenceState, **action: Any) -> SentenceState:
    return desk.edit(state, action, desk.suggest(state).tree)


def parent_spans(layout: TreeLayout, span: Span) -> list[Span]:
    return [(i, j) for i, j in layout.chains if i <= span[0] and span[1] <= j and (i, j) != span]


@st.composite
def actions(draw: st.DrawFn, layout: TreeLayout) -> dict[str, Any]:
    """An action that mostly fits the tree."""
    n = len(layout.words)
    phrases = layout.phrases() or [(0, n, "S")]
    word = draw(st.integers(0, n - 1))
    start = draw(st.integers(0, n - 1))
    span = {"start": start, "end": draw(st.integers(start + 1, n))}
    i, j, label = draw(st.sampled_from(phrases))
    phrase = {"start": i, "end": j, "label": label}
    a, b, other = draw(st.sampled_from(phrases))
    name = draw(st.sampled_from(LABELS))
    kind = draw(st.sampled_from(
        ["add", "add", "above", "remove", "relabel", "retag", "move", "move", "split", "join",
         "choose", "free", "free-word", "accept", "reopen", "skip", "clear"]
    ))  # fmt: skip
    fields: dict[str, Any] = {
        "add": {**span, "label": name}, "above": {**phrase, "label": name, "above": label},
        "remove": phrase, "relabel": {**phrase, "to": name},
        "retag": {"word": word, "tag": draw(st.sampled_from(TAGS))},
        "move": {**phrase, "to_start": a, "to_end": b, "to_label": other},
        "split": {"word": word, "at": draw(st.integers(1, 3))}, "join": {"word": word},
        "choose": {"alternative": 1}, "free": span, "free-word": {"word": word},
    }.get(kind, {})  # fmt: skip
    return {"type": {"above": "add", "free-word": "free"}.get(kind, kind), **fields}


def check_obeyed(action: dict[str, Any], before: TreeLayout, after: TreeLayout) -> None:
    """Whether the tree is as was asked."""
    kind = action["type"]
    here = chain(after, action.get("start", 0), action.get("end", 0))
    if kind == "add":
        assert action["label"] in here
        if "above" in action and action["above"] != action["label"]:
            assert here.index(action["label"]) < len(here) - 1 - here[::-1].index(action["above"])
    elif kind == "remove":
        assert action["label"] not in here
    elif kind == "relabel":
        assert action["to"] in here
        assert action["label"] == action["to"] or action["label"] not in here
    elif kind == "retag":
        assert after.tags[action["word"]] == action["tag"]
    elif kind == "move":
        span = (action["start"], action["end"])
        target = (action["to_start"], action["to_end"])
        union = (min(span[0], target[0]), max(span[1], target[1]))
        assert action["label"] in chain(after, *span)
        assert action["to_label"] in chain(after, *union)
        if union == target:  # upwards: nothing that stood between has the phrase still
            between = [
                one
                for one in parent_spans(before, span)
                if one[0] >= union[0] and one[1] <= union[1]
            ]
            assert all(one == union or not chain(after, *one) for one in between)


@pytest.mark.parametrize("with_model", [True, False])
@settings(max_examples=60)
@given(data=st.data())
def test_each_action_is_obeyed_or_refused_with_a_hint(
    *, with_model: bool, data: st.DataObject
) -> None:
    desk, state = annotator(with_model=with_model), new()
    for _ in range(data.draw(st.integers(1, 8))):
        before = desk.suggest(state)
        layout = TreeLayout.of(Tree.parse(before.tree))
        action = data.draw(actions(layout))
        try:
            changed = edit_tree(state, action, before.tree)
        except SapwoodError as error:
            refused = error
        else:
            refused = None
        if refused is not None:
            assert refused.hint
            continue
        if changed.status == "accepted":
            assert changed.tree == before.tree
            state = changed
            continue
        after = desk.suggest(changed)
        found = TreeLayout.of(Tree.parse(after.tree))
        assert found.words == changed.words
        assert found.unmet(GivenPhrases.of(changed)) is None
        check_obeyed(action, layout, found)
        for one in after.alternatives:
            other = TreeLayout.of(Tree.parse(one.tree))
            assert other.unmet(GivenPhrases.of(changed)) is None
            assert one.changes == n_tree_changes(found, other)
        assert after.alternatives[0].tree == after.tree
        if action["type"] in {"split", "join"}:
            assert "".join(changed.words) == "".join(state.words)
        state = changed


def test_the_hat_goes_to_the_dog() -> None:
    desk, state = annotator(with_model=True), new()
    assert not chain(layout_of(desk, state), 3, 8)
    moved = take(
        desk, state, type="move", start=5, end=8, label="PP", to_start=3, to_end=5, to_label="NP"
    )
    assert moved.constraints["spans"] == [[3, 8, "NP"], [5, 8, "PP"]]
    found = layout_of(desk, moved)
    assert chain(found, 3, 8) == ("NP",)
    back = take(
        desk, moved, type="move", start=5, end=8, label="PP", to_start=2, to_end=8, to_label="VP"
    )
    found = layout_of(desk, back)
    assert not chain(found, 3, 8)
    assert chain(found, 3, 5) == ("NP",)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"type": "add", "start": 0, "end": 2, "label": "TOP"}, "that of the root"),
        ({"type": "add", "start": 0, "end": 2, "label": "N P"}, "brackets cannot say"),
        ({"type": "add", "start": 0, "end": 2, "label": "(NP"}, "brackets cannot say"),
        ({"type": "add", "start": 0, "end": 2, "label": ""}, "expected a name"),
        ({"type": "add", "start": 0, "end": 2, "label": "x" * 101}, "101 characters"),
        ({"type": "add", "start": 2, "end": 2, "label": "NP"}, '"end" is 2'),
        ({"type": "add", "start": -1, "end": 2, "label": "NP"}, '"start" is -1'),
        ({"type": "add", "start": 0, "end": 99, "label": "NP"}, '"end" is 99'),
        ({"type": "add", "start": True, "end": 2, "label": "NP"}, "expected a whole number"),
        ({"type": "add", "start": "0", "end": 2, "label": "NP"}, "expected a whole number"),
        ({"type": "add", "start": 0, "end": 2, "label": ["NP"]}, "expected a name"),
        ({"type": "remove", "start": 0, "end": 3, "label": "NP"}, "the tree has no NP"),
        ({"type": "retag", "word": 9, "tag": "NN"}, '"word" is 9'),
        ({"type": "split", "word": 6, "at": 1}, "has one character"),
        ({"type": "split", "word": 1, "at": 3}, "is 3"),
        ({"type": "join", "word": 8}, "is 8"),
        ({"type": "move", "start": 0, "end": 2, "label": "NP", "to_start": 3, "to_end": 5,
          "to_label": "NP"}, "words stand between"),
        ({"type": "reopen"}, "neither accepted nor skipped"),
        ({"type": "fly"}, "no action is called 'fly'"),
        ({}, "no action is called None"),
        ({"type": "replace", "tree": "(S (X a))"}, "the tree has the words"),
        ({"type": "replace", "tree": "(S (X"}, "to close the tree"),
        ({"type": "accept", "tree": "(TOP (X the) (X man))"}, "the tree has the words"),
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(action: dict[str, Any], message: str) -> None:
    desk, state = annotator(with_model=True), new()
    with pytest.raises(SapwoodError) as caught:
        edit_tree(state, action, desk.suggest(state).tree)
    assert message in str(caught.value)
    assert caught.value.hint


def test_what_was_set_by_hand_stays_and_is_marked() -> None:
    desk, state = annotator(with_model=True), new()
    state = take(desk, state, type="add", start=3, end=8, label="NP")
    state = take(desk, state, type="retag", word=1, tag="NOM")
    with pytest.raises(SapwoodError, match="crosses NP over words 4 to 8, which was set by hand"):
        take(desk, state, type="add", start=4, end=9, label="VP")
    marked = [row for row in desk.suggest(state).rows if row["is_given"]]
    assert [(row["label"], row["start"], row["end"]) for row in marked] == [
        ("NOM", 1, 2), ("NP", 3, 8),
    ]  # fmt: skip
    state = take(desk, state, type="free", start=3, end=8)
    assert [row["label"] for row in desk.suggest(state).rows if row["is_given"]] == ["NOM"]


def test_an_accepted_tree_is_kept_where_it_is_not_edited() -> None:
    desk, state = annotator(with_model=True), new()
    tree = (
        "(TOP (S (GN (D the) (N man)) (V sees) (GN (D the) (N dog)) "
        "(PP (P with) (GN (D a) (N hat))) (. .)))"
    )
    accepted = take(desk, state, type="accept", tree=tree)
    assert (accepted.status, accepted.tree) == ("accepted", tree)
    opened = take(desk, accepted, type="relabel", start=5, end=8, label="PP", to="SP")
    assert opened.status == "started"
    assert opened.tree is None
    assert desk.suggest(opened).tree == tree.replace("PP", "SP")
    assert desk.suggest(take(desk, accepted, type="reopen")).tree == tree
    crossed = take(desk, accepted, type="add", start=4, end=8, label="FOO")
    found = layout_of(desk, crossed)
    assert chain(found, 4, 8) == ("FOO",)
    assert chain(found, 0, 2) == ("GN",)
    assert chain(found, 0, 9) == ("S",)


def test_rows_stand_parents_first() -> None:
    rows = annotator(with_model=True).suggest(new()).rows
    for number, row in enumerate(rows):
        assert row["parent"] < number
        if row["parent"] >= 0:
            above = rows[row["parent"]]
            assert above["start"] <= row["start"] < row["end"] <= above["end"]
            assert row["level"] == above["level"] + 1
            assert not above["is_tag"]
        assert 0.0 <= row["probability"] <= 1.0
    assert [row["start"] for row in rows if row["is_tag"]] == list(range(9))


def test_probabilities_of_alternatives_are_shares() -> None:
    found = annotator(with_model=True).suggest(new()).alternatives
    assert 1 < len(found) <= 4
    assert sum(one.probability or 0.0 for one in found) <= 1.0 + 1e-9
    rest = [one.probability or 0.0 for one in found[1:]]
    assert rest == sorted(rest, reverse=True)


def test_completion_lists_the_probable_labels_first() -> None:
    desk, state = annotator(with_model=True), new()
    labels = desk.complete(state, {"start": 3, "end": 8})
    assert labels[0].label == "NP"
    assert {one.label for one in labels} >= {"VP", "PP"}
    given_one = take(desk, state, type="add", start=3, end=8, label="VP")
    assert desk.complete(given_one, {"start": 3, "end": 8})[0].label == "NP"
    tags = desk.complete(state, {"word": 4})
    assert tags[0].label == "NN"
    assert tags[0].probability is not None
    assert tags[0].probability > 0.5


@pytest.mark.parametrize("words", [
    ("w" * 600, "x"), ("שלום", "עולם"), ("😀", "👨‍👩‍👧", "é"), ("a",), tuple("abcdefghij" * 16),
    ("-LRB-", "*T*-1", "0"),
])  # fmt: skip
def test_awkward_sentences_have_a_tree(words: tuple[str, ...]) -> None:
    for with_model in (True, False):
        desk, state = annotator(with_model=with_model), new(words)
        state = take(desk, state, type="add", start=0, end=len(words), label="ÄP")
        found = layout_of(desk, state)
        assert found.words == words
        assert chain(found, 0, len(words))[0] == "ÄP"
        accepted = take(desk, state, type="accept")
        assert Tree.parse(str(accepted.tree)).words() == list(words)


def test_a_layout_is_the_tree() -> None:
    for tree in sw.bundled_treebank("dev")[:50]:
        assert TreeLayout.of(tree).tree() == tree
