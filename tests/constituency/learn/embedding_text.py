"""A text of two kinds of sentences, for tests of word vectors."""

from __future__ import annotations

import numpy as np


def text(n: int = 2000) -> list[list[str]]:
    """Two kinds of sentences; a rare animal, and things of a shape that are seen once each."""
    rng = np.random.default_rng(4)
    animals, things = ["dog", "cat", "cow"], ["car", "bus", "van"]
    out = []
    for number in range(n):
        noun, verb = ((animals, ["eats", "sleeps"]), (things, ["drives", "stops"]))[number % 2]
        chosen = str(rng.choice(noun)) if number % 40 else "yak"
        place = (["here", "there"], ["now", "soon"])[number % 2]
        out.append(
            [("the", "a")[number % 2], chosen, str(rng.choice(verb)), str(rng.choice(place))]
        )
        if number % 50 == 1:
            out[-1][1] = f"x{number}mobile"
    return out
