"""`LatentParameters`: numbers by symbol and state, against a dictionary of all of them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from tests.constituency.grammar.drawn_parameters import SEEDS, as_numbers, drawn


@given(SEEDS)
def test_totals_are_sums_over_all_that_a_state_becomes(seed: int) -> None:
    rng, parameters = np.random.default_rng(seed), drawn(seed)
    counts = replace(
        parameters,
        rules=rng.gamma(1.0, size=len(parameters.rules)),
        words=rng.gamma(1.0, size=len(parameters.words)),
    )
    expected: dict[tuple[int, int], float] = defaultdict(float)
    for (part, index, h, *_), value in as_numbers(counts).items():
        if part != "root":
            symbols = parameters.symbols_of[:, 0] if part == "rule" else parameters.symbol_of_pair
            expected[int(symbols[index]), h] += value
    states = [(a, h) for a, m in enumerate(parameters.n_states.tolist()) for h in range(m)]
    assert counts.state_totals() == pytest.approx([expected[at] for at in states], rel=1e-12)
