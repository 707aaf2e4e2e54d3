"""The order of sentences: the same for the same input, and by what the formula says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.annotation.order import (
    NEW_WORDS,
    Ranked,
    WaitingSentence,
    random_order,
    rank,
    sentence_counts,
)
from sapwood.core.errors import SapwoodError

words = st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6)
rows = st.lists(st.tuples(words, st.floats(0, 5)), max_size=12)


def candidates(given_rows: list[tuple[list[str], float]]) -> list[WaitingSentence]:
    return [WaitingSentence(f"s{k:02}", *row) for k, row in enumerate(given_rows)]


def plain_rank(some: list[WaitingSentence], annotated: list[list[str]]) -> list[str]:
    """The order by the formula of the module, every score computed again before each choice."""
    done, waiting = sentence_counts(annotated), sentence_counts(one.words for one in some)
    left, chosen, order = list(some), list[list[str]](), list[str]()

    def score(one: WaitingSentence) -> float:
        n, types = len(one.words), {word.lower() for word in one.words}
        new = sum(not done[word] and waiting[word] > 1 for word in types) / n
        before = sentence_counts(chosen)
        variety = sum(1 / (1 + before[word]) for word in types) / len(types)
        return (one.errors or 0.0) / n * (1 + NEW_WORDS * new) * variety

    while left:
        best = max(left, key=lambda one: round(score(one), 9))
        order.append(best.id)
        chosen.append(list(best.words))
        left.remove(best)
    return order


@given(rows=rows, annotated=st.lists(words, max_size=4))
def test_the_lazy_order_is_the_greedy_one(
    rows: list[tuple[list[str], float]], annotated: list[list[str]]
) -> None:
    some = candidates(rows)
    counts = sentence_counts(annotated), sentence_counts(one.words for one in some)
    found = rank(some, *counts)
    plain = plain_rank(some, annotated)
    by_id = {row.id: row for row in found}
    assert sorted(by_id) == sorted(plain)
    scores = [by_id[name].score for name in plain]
    assert [row.score for row in found] == pytest.approx(sorted(scores, reverse=True))
    assert rank(some, *counts) == found
    assert rank(some, *counts, n=3) == found[:3]


def test_a_longer_sentence_with_as_many_errors_comes_later() -> None:
    some = [WaitingSentence("long", ["a"] * 20, 2.0), WaitingSentence("short", ["b"] * 5, 2.0)]
    done = sentence_counts([["a", "b"]])
    assert [one.id for one in rank(some, done, done)] == ["short", "long"]
    wrong = sorted(some, key=lambda one: -(one.errors or 0.0))  # errors alone: no difference
    assert [one.id for one in wrong] == ["long", "short"]


def test_duplicates_wait() -> None:
    twin = ["the", "same", "words"]
    some = [
        WaitingSentence("one", twin, 1.0), WaitingSentence("two", twin, 1.0),
        WaitingSentence("other", ["quite", "different"], 0.8),
    ]  # fmt: skip
    found = rank(some, sentence_counts([]), sentence_counts(one.words for one in some))
    assert [one.id for one in found] == ["one", "other", "two"]
    assert found[2].parts[-1].text == "50% like the sentences that come before it"


def test_new_words_count_where_they_come_again() -> None:
    some = [
        WaitingSentence("rare", ["hapax", "known"], 1.0),
        WaitingSentence("useful", ["often", "known"], 1.0),
    ]  # fmt: skip
    waiting = sentence_counts([*(one.words for one in some), ["often"], ["often"]])
    found = rank(some, sentence_counts([["known"]]), waiting)
    assert [one.id for one in found] == ["useful", "rare"]
    assert [part.name for part in found[0].parts] == ["errors", "length", "new words"]
    assert found[0].parts[2].text == "1 new word that other sentences have too: often"


def test_without_a_model_the_words_decide() -> None:
    some = [
        WaitingSentence("a", ["x", "x"]),
        WaitingSentence("b", ["y", "z"]),
        WaitingSentence("c", ["y", "z"]),
    ]
    found = rank(some, sentence_counts([["x"]]), sentence_counts(one.words for one in some))
    assert [one.id for one in found] == ["b", "a", "c"]
    assert found[0].parts[0].text == "2 words, and no model to expect errors by"


def test_random_order_depends_on_the_seed_and_not_on_the_neighbours() -> None:
    ids = [f"s{k}" for k in range(50)]
    order = random_order(ids, 3)
    assert order == random_order(random.Random(0).sample(ids, 50), 3)
    assert order != random_order(ids, 4) != ids
    assert random_order(ids[:20], 3) == [name for name in order if name in ids[:20]]


def test_a_wrong_number_of_sentences_is_refused() -> None:
    with pytest.raises(SapwoodError, match="cannot choose -1 sentences"):
        rank([], sentence_counts([]), sentence_counts([]), n=-1)


def test_empty_sentences_rank_last() -> None:
    found: list[Ranked] = rank(
        [WaitingSentence("e", [], 0.0)], sentence_counts([]), sentence_counts([])
    )
    assert [(one.id, one.score) for one in found] == [("e", 0.0)]
