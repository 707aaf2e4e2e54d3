"""Lists of candidate trees, read and written."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.data.lists import CandidateLists, read_lists, without_list_comments

GOLD = ArcBank.of([Arcs(["a", "b"], [2, 0], upos=list("NV")), Arcs(["c", "d", "e"], [0, 1, 2])])
HEADS = [np.array([[0, 1], [2, 0]]), np.array([[0, 1, 1], [2, 3, 0], [0, 1, 2]])]
SCORES = [np.array([-1.0, -2.0]), np.array([-3.0, -1.0, -1.0])]
LISTS = CandidateLists.of_heads(GOLD, HEADS, SCORES)


def text_of(lists: list[tuple[object, list[int], object]]) -> str:
    parts = []
    for sentence, heads, score in lists:
        said = (f"# sentence = {sentence}", "# note", f"# score = {score}")
        parts.append(f"{Arcs(list('abcd'[: len(heads)]), heads, comments=said)}\n\n")
    return "".join(parts)


def test_trees_have_the_words_and_tags_of_their_sentence() -> None:
    assert [arcs.words for arcs in LISTS.bank] == [("a", "b")] * 2 + [("c", "d", "e")] * 3
    assert LISTS.bank[1].upos == ("N", "V")
    assert [arcs.heads for arcs in LISTS.bank[2:]] == [(0, 1, 1), (2, 3, 0), (0, 1, 2)]
    assert LISTS.heads(1).tolist() == HEADS[1].tolist()


def test_right_heads_and_the_best_of_each_list() -> None:
    right = LISTS.right_heads(GOLD)
    assert right.tolist() == [0, 2, 2, 0, 3]
    assert LISTS.best(right).tolist() == [1, 4]
    assert LISTS.best(LISTS.score).tolist() == [0, 3]  # the first of equals


@given(st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=5), min_size=1, max_size=5))
def test_the_best_is_the_first_highest(scores: list[list[int]]) -> None:
    bank = ArcBank.of([Arcs(["a"], [0])] * len(scores))
    heads = [np.zeros((len(each), 1)) for each in scores]
    lists = CandidateLists.of_heads(bank, heads, [np.array(each, float) for each in scores])
    expected = [int(np.argmax(each)) for each in scores]
    assert (lists.best(lists.score) - lists.starts[:-1]).tolist() == expected


def test_some_of_the_lists() -> None:
    second = LISTS.select([1])
    assert (len(second), second.starts.tolist()) == (1, [0, 3])
    assert second.score.tolist() == SCORES[1].tolist()
    assert [arcs.heads for arcs in second.bank] == [arcs.heads for arcs in LISTS.bank[2:]]
    assert LISTS.select(np.array([True, False])).starts.tolist() == [0, 2]


def test_lists_of_other_sentences_are_refused() -> None:
    with pytest.raises(SapwoodError, match="2 lists, but 1 right trees"):
        LISTS.right_heads(GOLD[:1])
    with pytest.raises(SapwoodError, match="different lengths"):
        LISTS.right_heads(GOLD[[0, 0]])
    with pytest.raises(SapwoodError, match="do not cut 2 trees"):
        CandidateLists(GOLD, np.array([0, 0, 2]), np.zeros(2))


def test_lists_are_read_from_comments() -> None:
    text = text_of([(1, [2, 0], -0.5), (1, [0, 1], -2), (7, [0, 1, 1], 1e-3)])
    lists = read_lists(io.StringIO(text))
    assert lists.starts.tolist() == [0, 2, 3]
    assert lists.score.tolist() == [-0.5, -2, 1e-3]
    assert without_list_comments(lists.bank[1]).comments == ("# note",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (str(Arcs(["a"], [0])), "tree 1 has no comments"),
        (text_of([(1, [2, 0], "high")]), "tree 1 has no comments"),
        (text_of([(1, [2, 0], 1), (1, [0, 1], "nan")]), "tree 2 has no comments"),
        (text_of([(1, [2, 0], 1), (1, [0, 1, 1], 1)]), "tree 2 has other words"),
        (text_of([(1, [2, 0], 1), (1, [0, 1], 1)]).replace("2\tb", "2\tx", 1), "tree 2 has other"),
    ],
)
def test_files_that_are_no_lists(text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message) as caught:
        read_lists(io.StringIO(text))
    assert caught.value.hint
