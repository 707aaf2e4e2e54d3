"""The M-step: against a twin that goes block by block."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.constituency.kernels.treebank_cases import case, forest

from sapwood.constituency.learn.latent_parameters import (
    LatentParameters,
    maximise,
    normalise,
    smooth,
)

Array = np.ndarray
PARTS = ("root", "rules", "words")
CLOSE = 1e-11  # sums of some hundred positive numbers, and two divisions


def test_normalised_probabilities_sum_to_one() -> None:
    p = case(1).parameters
    total = np.zeros(int(p.state_start[-1]))
    for r, (a, b, c) in enumerate(p.symbols_of.tolist()):
        tensor = p.rules[p.rule_start[r] : p.rule_start[r + 1]].reshape(p.n_states[[a, b, c]])
        total[p.state_start[a] : p.state_start[a + 1]] += tensor.sum(axis=(1, 2))
    for pair, a in enumerate(p.symbol_of_pair.tolist()):
        total[p.state_start[a] : p.state_start[a + 1]] += (
            p.words[p.word_start[pair] : p.word_start[pair + 1]]
        )  # fmt: skip
    np.testing.assert_allclose(total, 1.0, rtol=CLOSE)
    assert p.root.sum() == pytest.approx(1.0, rel=CLOSE)


def slow_m_step(p: LatentParameters, rules: float, words: float) -> LatentParameters:
    """Pull states to their mean, then normalise: block by block."""

    def pulled(numbers: Array, starts: Array, symbols: Array, amount: float) -> list[Array]:
        blocks = np.split(numbers, starts[1:-1])
        blocks = [b.reshape(p.n_states[a], -1) for b, a in zip(blocks, symbols, strict=True)]
        return [(1 - amount) * b + amount * b.mean(axis=0) for b in blocks]

    tensors = pulled(p.rules, p.rule_start, p.symbols_of[:, 0], rules)
    vectors = pulled(p.words, p.word_start, p.symbol_of_pair, words)
    total = [np.zeros(m) for m in p.n_states]
    symbols = [*p.symbols_of[:, 0], *p.symbol_of_pair]
    for block, a in zip([*tensors, *vectors], symbols, strict=True):
        total[a] += block.sum(axis=1)
    safe = [np.where(t > 0, t, 1.0) for t in total]
    done = [
        (b / safe[a][:, None]).ravel() for b, a in zip([*tensors, *vectors], symbols, strict=True)
    ]
    n = len(tensors)
    return replace(
        p, root=p.root / p.root.sum(), rules=np.concatenate(done[:n]),
        words=np.concatenate(done[n:]),
    )  # fmt: skip


def raw_counts(seed: int, n_states: list[int]) -> LatentParameters:
    """Counts as an E-step leaves them, with one state of one phrase that nobody uses."""
    rng = np.random.default_rng(seed)
    p = forest(seed, 5, n_states).parameters
    parts = {name: getattr(p, name) * rng.uniform(0.1, 9.0) for name in PARTS}
    a = int(p.symbols_of[0, 0])
    for r in np.flatnonzero(p.symbols_of[:, 0] == a).tolist():
        row = (p.rule_start[r + 1] - p.rule_start[r]) // p.n_states[a]
        parts["rules"][p.rule_start[r] : p.rule_start[r] + row] = 0.0
    return replace(p, **parts)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000), st.lists(st.integers(1, 18), min_size=1, max_size=4),
    st.sampled_from([(0.0, 0.0), (0.03, 0.1), (0.0, 0.5), (0.9, 0.0)]),
)  # fmt: skip
def test_m_steps(seed: int, n_states: list[int], amounts: tuple[float, float]) -> None:
    counts = raw_counts(seed, n_states)
    before = {name: getattr(counts, name).copy() for name in PARTS}
    plain = slow_m_step(counts, 0.0, 0.0)
    # only the layout of a layout is looked at
    layout = replace(counts, **{name: np.full_like(before[name], np.nan) for name in PARTS})
    for found, expected in (
        (normalise(counts), plain),
        (smooth(counts, *amounts), slow_m_step(counts, *amounts)),
        (maximise(layout, counts, *amounts), slow_m_step(plain, *amounts)),
    ):
        for name, numbers in before.items():
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=CLOSE)
            np.testing.assert_array_equal(getattr(counts, name), numbers)  # the input stays
