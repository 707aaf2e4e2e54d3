"""Charts of weighted grammars against sums over all trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.weighted_grammars import (
    best_gain,
    binary_trees,
    inside_vector,
    outside_vector,
    tree_spans,
    tree_vector,
)

from sapwood.core.arrays import starts_of
from sapwood.hankel.model.kernels import weighted_grammar as kernels

SEEDS = st.integers(0, 10_000)


def draw(seed: int, size: float = 1.0):
    """A grammar with weights of both signs and some zeros, and a string."""
    rng = np.random.default_rng(seed)
    n, d, length = (int(rng.integers(1, high)) for high in (4, 4, 7))
    arrays = [rng.normal(size=shape) * size for shape in ((n,), (d, n), (n, n, n))]
    for array in arrays:
        array[rng.random(array.shape) < 0.1] = 0.0
    return arrays, rng.integers(0, d, length)


def run_inside(words, terminals, binary):
    n = terminals.shape[1]
    beta = np.zeros((len(words), len(words) + 1, n))
    scale = np.zeros((len(words), len(words) + 1), np.int64)
    kernels.fill_inside_chart(words, terminals, binary, beta, scale)
    return beta, scale


@settings(max_examples=25)
@given(SEEDS, st.sampled_from([1.0, 1e-60, 1e40]))
def test_inside_vectors(seed: int, size: float) -> None:
    (_, terminals, binary), words = draw(seed, size)
    binary /= size  # so that longer strings do not grow
    beta, scale = run_inside(words, terminals, binary)
    for i in range(len(words)):
        for j in range(i + 1, len(words) + 1):
            want = inside_vector(words[i:j].tolist(), terminals, binary)
            found = np.ldexp(beta[i, j], np.maximum(scale[i, j], -3000))
            np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-12 * np.abs(want).max())


@settings(max_examples=25)
@given(SEEDS)
def test_outside_vectors(seed: int) -> None:
    (initial, terminals, binary), words = draw(seed)
    beta, scale = run_inside(words, terminals, binary)
    alpha = np.zeros_like(beta)
    total = kernels.fill_outside_chart(words, initial, terminals, binary, beta, scale, alpha)
    value = float(initial @ inside_vector(words.tolist(), terminals, binary))
    if total == 0.0:
        assert value == pytest.approx(0.0, abs=1e-12)
        return
    for i in range(len(words)):
        for j in range(i + 1, len(words) + 1):
            row = words.tolist()
            want = outside_vector(row[:i], row[j:], initial, terminals, binary) / value
            found = np.ldexp(alpha[i, j], -np.minimum(np.maximum(scale[i, j], -3000), 3000))
            if scale[i, j] > kernels.ZERO_SCALE // 2:
                limit = 1e-9 * max(np.abs(want).max(), 1.0)  # where terms of both signs cancel
                np.testing.assert_allclose(found, want, rtol=1e-6, atol=limit)


@settings(max_examples=25)
@given(SEEDS)
def test_expected_counts(seed: int) -> None:
    (initial, terminals, binary), words = draw(seed)
    initial, terminals, binary = map(np.abs, (initial, terminals, binary))
    value = initial @ inside_vector(words.tolist(), terminals, binary)
    sums = [np.zeros_like(x) for x in (initial, terminals, binary)]
    logs, weight = np.zeros(1), np.full(1, 2.0)
    kernels.log_slopes(
        words, starts_of([len(words)]), weight, initial, terminals, binary, *sums, logs
    )
    sums = [x * slope for x, slope in zip((initial, terminals, binary), sums, strict=True)]
    if value == 0.0:
        assert logs[0] == -np.inf
        return
    assert logs[0] == pytest.approx(np.log(value), rel=1e-9, abs=1e-9)
    # the count of a weight is the derivative of the log by its log: by finite differences
    step = 1e-6
    for place, (array, found) in enumerate(zip((initial, terminals, binary), sums, strict=True)):
        for at in np.ndindex(array.shape):
            parts = [x.copy() for x in (initial, terminals, binary)]
            parts[place][at] *= np.exp(step)
            up = parts[0] @ inside_vector(words.tolist(), parts[1], parts[2])
            assert found[at] == pytest.approx(2 * (np.log(up / value)) / step, abs=1e-3)
    assert sums[1].sum() == pytest.approx(2 * len(words))
    assert sums[2].sum() == pytest.approx(2 * (len(words) - 1))


@settings(max_examples=25)
@given(SEEDS)
def test_counts_of_trees_add_up_to_those_of_the_string(seed: int) -> None:
    (initial, terminals, binary), words = draw(seed)
    initial, terminals, binary = map(np.abs, (initial, terminals, binary))
    trees = list(binary_trees(words.tolist()))
    values = np.array([initial @ tree_vector(tree, terminals, binary) for tree in trees])
    if not (values > 0).all():
        return
    nodes = [_nodes(tree) for tree in trees]
    word, left, right = (
        np.array([node[field] for tree in nodes for node in tree]) for field in range(3)
    )
    starts = starts_of([len(tree) for tree in nodes])
    sums = [np.zeros_like(x) for x in (initial, terminals, binary)]
    logs = np.zeros(len(trees))
    kernels.tree_counts(
        word, left, right, starts, values / values.sum(), initial, terminals, binary, *sums, logs
    )
    np.testing.assert_allclose(np.exp(logs), values, rtol=1e-9)
    whole = [np.zeros_like(x) for x in (initial, terminals, binary)]
    kernels.log_slopes(
        words, starts_of([len(words)]), np.ones(1), initial, terminals, binary, *whole, np.zeros(1)
    )
    weights = (initial, terminals, binary)
    for found, slope, weight in zip(sums, whole, weights, strict=True):
        np.testing.assert_allclose(found, slope * weight, rtol=1e-9, atol=1e-12)


def _nodes(tree) -> list[tuple[int, int, int]]:
    out: list[tuple[int, int, int]] = []

    def visit(node) -> int:
        if isinstance(node, tuple):
            left, right = visit(node[0]), visit(node[1])
            out.append((-1, left, right))
        else:
            out.append((node, -1, -1))
        return len(out) - 1

    visit(tree)
    return out


@settings(max_examples=25)
@given(SEEDS)
def test_best_brackets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 7))
    gain = rng.random((length, length + 1))
    split = np.zeros((length, length + 1), np.int64)
    best = kernels.best_brackets(gain, split)
    assert best == pytest.approx(best_gain(gain))

    def spans(i: int, j: int) -> list[tuple[int, int]]:
        k = int(split[i, j])
        return [(i, j)] if j - i == 1 else [*spans(i, k), *spans(k, j), (i, j)]

    assert sum(gain[i, j] for i, j in spans(0, length)) == pytest.approx(best)
    assert len(tree_spans(next(binary_trees(list(range(length)))))[0]) == len(spans(0, length))


@pytest.mark.compiled
def test_a_string_of_five_hundred_symbols_does_not_underflow() -> None:
    initial, terminals = np.array([1.0]), np.full((4, 1), 1e-3)
    binary = np.full((1, 1, 1), 1e-2)
    words = np.arange(500) % 4
    value, scale = np.zeros(1), np.zeros(1, np.int64)
    kernels.string_values(words, starts_of([500]), initial, terminals, binary, value, scale)
    from math import comb, log

    catalan = log(comb(998, 499)) - log(500)
    want = catalan + 500 * log(1e-3) + 499 * log(1e-2)
    assert log(value[0]) + scale[0] * log(2) == pytest.approx(want, rel=1e-10)
