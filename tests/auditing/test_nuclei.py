"""Variation nuclei, against a search through all pairs of spans."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sapwood.auditing.nuclei import MAX_LENGTH, NIL, Nuclei, count_differences

WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=6)


@st.composite
def annotated(draw: st.DrawFn) -> tuple[list[list[str]], list[dict[tuple[int, int], str]]]:
    sentences = draw(st.lists(WORDS, min_size=1, max_size=5))
    spans = []
    for words in sentences:
        some = {(i, i + 1): draw(st.sampled_from("XY")) for i in range(len(words))}
        for _ in range(draw(st.integers(0, 2))):
            i = draw(st.integers(0, len(words) - 1))
            some[i, draw(st.integers(i + 1, len(words)))] = draw(st.sampled_from("PQ"))
        spans.append(some)
    return sentences, spans


def with_context(words: list[str], i: int, j: int) -> tuple[str, ...]:
    return tuple(["<", *words, ">"][i : j + 2])


@given(annotated())
def test_others_are_all_places_with_the_same_words_and_neighbours(
    drawn: tuple[list[list[str]], list[dict[tuple[int, int], str]]],
) -> None:
    sentences, spans = drawn
    nuclei = Nuclei(sentences, spans)
    places = [
        (k, i, j)
        for k, words in enumerate(sentences)
        for i in range(len(words))
        for j in range(i + 1, min(len(words), i + MAX_LENGTH) + 1)
        if j - i < len(words)
    ]
    names = {place: with_context(sentences[place[0]], *place[1:]) for place in places}
    known = {names[place] for place in places if (place[1:]) in spans[place[0]]}
    for k, i, j in places:
        if names[k, i, j] not in known:
            continue
        expected = [
            (m, a, spans[m].get((a, b), NIL))
            for m, a, b in places
            if names[m, a, b] == names[k, i, j] and (m, a) != (k, i)
        ]
        assert nuclei.others(k, i, j) == expected
        assert nuclei.counts(k, i, j) == Counter(label for _, _, label in expected)
        for last in "XPQ":
            ordered = sorted(expected, key=lambda place: (place[2] == last, place))
            for most in range(len(expected) + 2):
                assert nuclei.others(k, i, j, last=last, most=most) == ordered[:most]
        assert any(place.span == (i, j) for place in nuclei.repeated[k]) == bool(expected)


def test_passages_are_compared_inside_and_once() -> None:
    words = list("abcdefghij")
    spans = {(i, i + 1): "X" for i in range(10)} | {(3, 6): "P"}
    assert count_differences([words, words], [spans, spans]) == (8, 0)
    other = dict(spans)
    other[4, 5] = "Y"
    del other[3, 6]
    assert count_differences([words, words], [spans, other]) == (8, 2)
    assert count_differences([words, words[::-1]], [spans, spans]) == (0, 0)
