"""Random latent parameters, and their numbers by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from sapwood.constituency.learn.em_steps import LatentParameters, normalise

PARTS = ("root", "rules", "words")
SEEDS = st.integers(0, 10_000)


def drawn(seed: int, most: int = 4) -> LatentParameters:
    """Three phrases and three tags with 1 to `most` states each; the last phrase has no rule."""
    rng = np.random.default_rng(seed)
    n_states = rng.integers(1, most + 1, 6)
    triples = [(a, b, c) for a in range(2) for b in range(6) for c in range(6)]
    chosen = rng.choice(len(triples), rng.integers(0, 8), replace=False)
    rules = np.array([triples[place] for place in chosen], np.int64).reshape(-1, 3)
    tags = np.sort(rng.integers(3, 6, rng.integers(1, 9)))
    sizes = n_states.sum(), n_states[rules].prod(axis=1).sum(), n_states[tags].sum()
    parts = [rng.gamma(0.7, size=int(size)) for size in sizes]
    return normalise(LatentParameters(n_states, rules, tags, *parts))


def as_numbers(parameters: LatentParameters) -> dict[Any, float]:
    """Every probability by its name: part, index, states."""
    numbers: dict[Any, float] = {}
    root, rules, words = (iter(getattr(parameters, name).tolist()) for name in PARTS)
    m = parameters.n_states.tolist()
    for a, n in enumerate(m):
        for h in range(n):
            numbers["root", a, h] = next(root)
    for r, (a, b, c) in enumerate(parameters.symbols_of.tolist()):
        for states in np.ndindex(m[a], m[b], m[c]):
            numbers["rule", r, *states] = next(rules)
    for pair, a in enumerate(parameters.symbol_of_pair.tolist()):
        for h in range(m[a]):
            numbers["word", pair, h] = next(words)
    return numbers
