"""Names of moments."""

from __future__ import annotations

import pytest

from sapwood.core.errors import SapwoodError
from sapwood.identify.families import NAMED, Observation, observations


def positions(name: str, length: int) -> list[tuple[int, ...]]:
    return [each.positions for each in observations(name, length)]


def test_named_moments() -> None:
    assert positions("12", 5) == [(1, 2)]
    assert positions("pairs", 3) == [(1, 2), (1, 3), (2, 3)]
    assert positions("123", 4) == [(1, 2, 3)]
    assert positions("triples", 4) == [(1, 2, 3), (1, 2, 4), (1, 3, 4), (2, 3, 4)]
    assert positions("all", 4) == [(1, 2, 3, 4)]
    assert len(observations("pairs", 10)) == 45
    assert len(observations("triples", 10)) == 120


def test_slices_pick_a_word_at_the_last_position() -> None:
    assert observations("123e1", 3) == [Observation((1, 2, 3), 1)]
    assert observations("132e4", 3) == [Observation((1, 3, 2), 4)]
    slices = observations("triples-e1", 3)
    assert slices == [Observation((1, 2, 3), 1), Observation((1, 3, 2), 1),
                      Observation((2, 3, 1), 1)]  # fmt: skip
    assert len(observations("triples-e1", 10)) == 360


def test_own_positions() -> None:
    assert positions("13", 3) == [(1, 3)]
    assert positions("31", 3) == [(3, 1)]
    assert positions("1,10", 10) == [(1, 10)]
    assert positions("2,4,10", 10) == [(2, 4, 10)]
    assert observations("1,10e2", 10) == [Observation((1, 10), 2)]
    assert positions("12+13", 3) == [(1, 2), (1, 3)]
    assert positions("12 + pairs", 3) == [(1, 2), (1, 3), (2, 3)]


def test_short_sentences_are_seen_whole() -> None:
    assert positions("triples", 2) == positions("pairs", 2) == positions("all", 2) == [(1, 2)]
    assert positions("pairs", 1) == [(1,)]
    assert observations("triples-e1", 2) == [Observation((1, 2), 1), Observation((2, 1), 1)]


def test_sizes() -> None:
    assert Observation((1, 2, 3)).size(5) == 125
    assert Observation((1, 2, 3), 1).size(5) == 25


@pytest.mark.parametrize("name", ["foo", "", "pairs+", "12-13", "e1", "1;2", "12e", "-1", "1,,2"])
def test_unknown_names_list_the_known(name: str) -> None:
    with pytest.raises(SapwoodError, match="unknown moments") as error:
        observations(name, 4)
    assert all(known in (error.value.hint or "") for known in NAMED)


@pytest.mark.parametrize(("name", "place"), [("14", 4), ("10", 0), ("1,12", 12), ("123", 3)])
def test_positions_beyond_the_sentence(name: str, place: int) -> None:
    with pytest.raises(SapwoodError, match=f"position {place} of sentences of 2 words"):
        observations(name, 2)


def test_repeated_positions() -> None:
    with pytest.raises(SapwoodError, match="twice"):
        observations("112", 12)
