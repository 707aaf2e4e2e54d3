"""Grammars with the same symbols and rules and other weights."""

from __future__ import annotations

import numpy as np
from tests.toys import Toy, random_toy


def toys(n: int = 3, n_states: int = 2) -> list[Toy]:
    """Toys with the same symbols and rules and other weights."""
    first = random_toy(np.random.default_rng(0), n_states=n_states)
    return [first, *(_jittered(first, seed) for seed in range(1, n))]


def _jittered(toy: Toy, seed: int) -> Toy:
    rng = np.random.default_rng(seed)

    def other(array: np.ndarray) -> np.ndarray:
        return array * rng.uniform(0.1, 2.0, array.shape)

    return Toy(
        toy.n_phrases,
        toy.n_states,
        {a: other(vector) for a, vector in toy.root.items()},
        {r: other(tensor) for r, tensor in toy.rules.items()},
        {w: {t: other(v) for t, v in row.items()} for w, row in toy.words.items()},
    )
