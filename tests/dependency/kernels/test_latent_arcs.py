"""Weights and expected counts of given trees against sums over all states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import latent_arcs as listing
from tests.reference.latent_arcs import Tables

from sapwood.dependency.kernels import latent_arcs as kernel
from sapwood.dependency.model.latent import SeenTrees, pack_seen_trees

N_SYMBOLS, N_COLUMNS = 4, 2
Array = np.ndarray


@st.composite
def any_heads(draw: st.DrawFn) -> list[int]:
    """Heads of any tree, projective or not: each word hangs on one that was placed before it."""
    order = draw(st.permutations(range(draw(st.integers(1, 5)))))
    heads = [0] * len(order)
    for place, word in enumerate(order[1:], 1):
        heads[word] = order[draw(st.integers(0, place - 1))] + 1
    return heads


@st.composite
def some_trees(draw: st.DrawFn) -> SeenTrees:
    heads = draw(st.lists(any_heads(), min_size=1, max_size=3))
    symbol = st.integers(-1, N_SYMBOLS - 1)
    seen = [[[draw(symbol) for _ in range(N_COLUMNS)] for _ in tree] for tree in heads]
    return pack_seen_trees(heads, seen)


def tables(seed: int, k: int, *, low: float = 0.0, zeros: bool = False) -> Tables:
    rng = np.random.default_rng(seed)
    parts = [rng.uniform(low, 1, shape) for shape in ((k,), (2, k, k), (N_SYMBOLS, k))]
    if zeros:
        parts = [part * (rng.random(part.shape) < 0.6) for part in parts]
    root, steps, symbols = parts
    return root, steps, symbols


def listed(trees: SeenTrees, t: int) -> tuple[tuple[int, ...], list[list[int]]]:
    rows = slice(trees.offsets[t], trees.offsets[t + 1])
    seen = [[x for x in row if x >= 0] for row in trees.seen[rows].tolist()]
    return tuple((trees.head[rows] - 1).tolist()), seen


def weigh(trees: SeenTrees, parts: Tables) -> Array:
    logs, signs = np.empty(trees.n_trees), np.empty(trees.n_trees)
    kernel.weigh_states(*trees, *parts, logs, signs)
    assert (np.isfinite(logs) == (signs != 0)).all()
    return signs * np.exp(logs)


@given(some_trees(), st.integers(0, 99), st.integers(1, 3), st.sampled_from([0.0, -1.0]),
       st.booleans())  # fmt: skip
def test_weights_are_sums_over_states(
    trees: SeenTrees, seed: int, k: int, low: float, zeros: bool
) -> None:
    parts = tables(seed, k, low=low, zeros=zeros)
    truth = [listing.tree_weight(*listed(trees, t), parts) for t in range(trees.n_trees)]
    # sums of up to 243 products of numbers up to 1, some of which cancel
    np.testing.assert_allclose(weigh(trees, parts), truth, rtol=1e-9, atol=1e-14)


@given(some_trees(), st.integers(0, 99), st.integers(1, 3), st.booleans())
def test_expected_counts_are_means_over_states(
    trees: SeenTrees, seed: int, k: int, zeros: bool
) -> None:
    parts = tables(seed, k, zeros=zeros)
    sums = tuple(np.zeros_like(part) for part in parts)
    logs = np.empty(trees.n_trees)
    kernel.expect_tree_states(*trees, *parts, *sums, logs)
    truth = [np.zeros_like(part) for part in parts]
    for t in range(trees.n_trees):
        weight = listing.tree_weight(*listed(trees, t), parts)
        assert np.isfinite(logs[t]) == (weight > 0)
        if weight > 0:
            assert logs[t] == pytest.approx(np.log(weight), abs=1e-9)
            listed_counts = listing.expected_counts(*listed(trees, t), parts)
            truth = [total + part for total, part in zip(truth, listed_counts, strict=True)]
    for found, total in zip(sums, truth, strict=True):
        np.testing.assert_allclose(found, total, rtol=1e-9, atol=1e-12)


@given(some_trees(), st.integers(0, 99), st.integers(1, 3))
def test_operators_multiply_in_the_order_of_the_children(
    trees: SeenTrees, seed: int, k: int
) -> None:
    """Products that do not commute, which estimates have: the order is part of the definition."""
    root, steps, symbols = tables(seed, k, low=-1.0)
    rng = np.random.default_rng(seed + 1)
    end, product = rng.uniform(-1, 1, k), rng.uniform(-1, 1, (k, k, k))
    logs, signs = np.empty(trees.n_trees), np.empty(trees.n_trees)
    kernel.weigh_operators(*trees, root, end, steps, symbols, product, logs, signs)

    def times(v: Array, w: Array) -> Array:
        return np.asarray(v @ np.tensordot(w, product, 1))

    for t in range(trees.n_trees):
        heads, seen = listed(trees, t)

        def start(i: int, seen: list[list[int]] = seen) -> Array:
            if not seen[i]:
                return end
            v = symbols[seen[i][0]]
            for x in seen[i][1:]:
                v = times(v, symbols[x])
            return np.asarray(v)

        truth = listing.operator_weight(
            heads, root, lambda side, r: steps[side].T @ r, start, times
        )
        assert signs[t] * np.exp(logs[t]) == pytest.approx(truth, rel=1e-8, abs=1e-13)


def test_long_sentences_do_not_underflow() -> None:
    """A chain of 3,000 words of probability 1e-4 each, and a head with as many children."""
    n = 3000
    parts = (np.full(2, 0.5), np.full((2, 2, 2), 0.5), np.full((N_SYMBOLS, 2), 1e-4))
    for heads in (list(range(n)), [0] + [1] * (n - 1)):
        trees = pack_seen_trees([heads], [np.zeros((n, 1))])
        logs, signs = np.empty(1), np.empty(1)
        kernel.weigh_states(*trees, *parts, logs, signs)
        assert signs[0] == 1
        assert logs[0] == pytest.approx(n * np.log(1e-4), rel=1e-9)


def test_expected_counts_of_long_sentences_are_numbers() -> None:
    n = 500
    parts = tables(3, 2, low=0.0)
    trees = pack_seen_trees([list(range(n)), [0] + [1] * (n - 1)], [np.zeros((n, 1))] * 2)
    sums, logs = tuple(np.zeros_like(part) for part in parts), np.empty(2)
    kernel.expect_tree_states(*trees, *parts, *sums, logs)
    assert sums[0].sum() == pytest.approx(2)
    assert sums[1].sum() == pytest.approx(2 * (n - 1))
    assert sums[2].sum() == pytest.approx(2 * n)
