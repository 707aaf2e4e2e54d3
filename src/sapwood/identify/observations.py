"""What is seen of a sentence: names of moments, and the positions behind them.

Notation (IDENT, section 4.1)
-----------------------------
    12, 123        phi_12, phi_123: the words at these positions, jointly
    123e1          phi_123e1: the same where the last of the positions has word number 1
    pairs          phi_**: every two positions
    triples        phi_***: every three positions
    triples-e1     phi_***e1: every three positions, each in turn having word number 1
    all            the whole sentence

The paper lets positions repeat. A repeated position adds a margin of what is seen already, unless
the sentence is too short for pairs or triples: then they see all of its positions.

Other positions are named in the same way: `13` for 1 and 3, `1,10` where a position has two digits,
`14e2` for the words at 1 where 4 has word 2, and `+` between several: `12+13`, `pairs+123e1`.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import NamedTuple

from sapwood.errors import SapwoodError

NAMED = ("12", "pairs", "123e1", "123", "triples-e1", "triples", "all")
SYNTAX = "names are 12, pairs, 123e1, 123, triples-e1, triples, all, or positions: 13, 1,10, 12+13"
_POSITIONS = re.compile(r"(\d+|\d+(?:,\d+)+)(?:e(\d+))?")


class Observation(NamedTuple):
    """Joint distribution of the words at some positions.

    With a picked word (counted from 1) only the part where the last position has that word.
    """

    positions: tuple[int, ...]
    picked: int | None = None

    def size(self, n_words: int) -> int:
        """How many numbers it has."""
        return int(n_words ** (len(self.positions) - (self.picked is not None)))


def observations(name: str, length: int) -> list[Observation]:
    """The observations that a name stands for, in sentences of a length.

    Examples
    --------
    >>> observations("123e1", 4)
    [Observation(positions=(1, 2, 3), picked=1)]
    >>> [each.positions for each in observations("pairs", 3)]
    [(1, 2), (1, 3), (2, 3)]
    """
    found = [each for part in name.split("+") for each in _part(part.strip(), name, length)]
    return list(dict.fromkeys(found))


def _part(part: str, name: str, length: int) -> list[Observation]:
    every = range(1, length + 1)
    if part == "all":
        return [Observation(tuple(every))]
    if part in ("pairs", "triples"):
        size = min(2 if part == "pairs" else 3, length)
        return [Observation(places) for places in combinations(every, size)]
    if part == "triples-e1":
        return [
            Observation((*(place for place in places if place != last), last), 1)
            for places in combinations(every, min(3, length))
            for last in reversed(places)
        ]
    match = _POSITIONS.fullmatch(part)
    if not match:
        msg = f"unknown moments {name!r}"
        raise SapwoodError(msg, hint=SYNTAX)
    digits, picked = match.groups()
    places = tuple(map(int, digits.split(",") if "," in digits else digits))
    _check(places, part, length)
    return [Observation(places, int(picked) if picked else None)]


def _check(places: tuple[int, ...], part: str, length: int) -> None:
    if len(set(places)) < len(places):
        msg = f"moments {part!r} name a position twice"
        raise SapwoodError(msg, hint="name each position once; 1,10 is how to write 1 and 10")
    outside = [place for place in places if not 1 <= place <= length]
    if outside:
        msg = f"moments {part!r} see position {outside[0]} of sentences of {length} words"
        hint = f"use positions from 1 to {length} (1,10 is how to write 1 and 10), or more --length"
        raise SapwoodError(msg, hint=hint)
