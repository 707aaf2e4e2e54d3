"""Grammars with the same symbols and rules and other weights."""

from __future__ import annotations

import numpy as np
from tests.toys import Toy, random_toy


def toys(n: int = 3, n_states: int = 2) -> list[Toy]:
    """Toys with the same symbols and rules and other weights."""
    first = random_toy(np.random.default_rng(0), n_states=n_states)
    return [first, *(jitter(first, seed) for seed in range(1, n))]


def jitter(toy: Toy, seed: int, low: float = 0.1, high: float = 2.0) -> Toy:
    """A toy with every weight times a random factor."""
    rng = np.random.default_rng(seed)

    def other(array: np.ndarray) -> np.ndarray:
        return array * rng.uniform(low, high, array.shape)

    return Toy(
        toy.n_phrases,
        toy.n_states,
        {a: other(vector) for a, vector in toy.root.items()},
        {r: other(tensor) for r, tensor in toy.rules.items()},
        {w: {t: other(v) for t, v in row.items()} for w, row in toy.words.items()},
    )
