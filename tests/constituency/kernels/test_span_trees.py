"""Sums over binary trees of spans, and the best one, against all of them one by one."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.span_trees import binary_spans

from sapwood.constituency.parse.kernels.span_trees import best_spans, span_shares
from sapwood.core.arrays import cell

sizes = st.integers(1, 6)
# Sums of at most 42 trees of a dozen numbers around 1.
ATOL = 1e-11


def random_weights(n: int, seed: int, scale: float = 2.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=n * (n + 1) // 2)


def total(weight: np.ndarray, spans: list[tuple[int, int]], n: int) -> float:
    return float(sum(weight[cell(i, j, n)] for i, j in spans))


@given(sizes, st.integers(0, 10**6), st.sampled_from([0.0, 2.0, 300.0]))
def test_shares_are_those_of_all_trees(n: int, seed: int, scale: float) -> None:
    weight = random_weights(n, seed, scale)
    trees = binary_spans(0, n)
    logs = np.array([total(weight, spans, n) for spans in trees])
    log_total, shares = span_shares(weight, n)
    expected = np.logaddexp.reduce(logs)
    assert log_total == pytest.approx(expected, abs=ATOL * max(1.0, scale))
    of_tree, found = np.exp(logs - expected), np.zeros(len(weight))
    for spans, p in zip(trees, of_tree, strict=True):
        for i, j in spans:
            found[cell(i, j, n)] += p
    np.testing.assert_allclose(shares, found, atol=ATOL * max(1.0, scale))


@given(sizes, st.integers(0, 10**6))
def test_the_best_tree_is_the_best_of_all(n: int, seed: int) -> None:
    gain = random_weights(n, seed)
    rows = best_spans(gain, n).tolist()
    spans = [(i, j) for i, j, _ in rows]
    assert sorted(spans) in [sorted(tree) for tree in binary_spans(0, n)]
    best = max(total(gain, tree, n) for tree in binary_spans(0, n))
    assert total(gain, spans, n) == pytest.approx(best, abs=ATOL)
    for place, (i, j, k) in enumerate(rows):
        assert (k == 0) == (j - i == 1)
        if k:
            assert min(spans.index((i, k)), spans.index((k, j))) > place


def test_without_weights_trees_are_counted() -> None:
    n = 12
    log_total, shares = span_shares(np.zeros(n * (n + 1) // 2), n)
    assert np.exp(log_total) == pytest.approx(comb(2 * n - 2, n - 1) // n, rel=1e-12)
    assert shares.sum() == pytest.approx(2 * n - 1, rel=1e-12)
