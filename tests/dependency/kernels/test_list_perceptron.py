"""The averaged perceptron over lists: by its definition, on lists whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sapwood.core.arrays import starts_of
from sapwood.dependency.learn.reranker import (
    RankingData,
    RankingWeights,
    learn_to_rank,
    perceptron_passes,
)

BITS = 6


def lesson(n_lists: int = 60, *, tells: bool = True, seed: int = 0) -> RankingData:
    """Lists of 4 trees of 3 words; where it tells, feature 5 marks the right tree."""
    rng = np.random.default_rng(seed)
    n_trees = 4 * n_lists
    triples = rng.integers(8, 64, (3 * n_trees, 2)).astype(np.uint32)
    right = rng.integers(0, 3, n_trees)
    best = 4 * np.arange(n_lists) + rng.integers(0, 4, n_lists)
    right[best] = 3
    if tells:
        triples[3 * best, 0] = 5
    dense = rng.normal(size=(n_trees, 3))
    starts, offsets = starts_of([4] * n_lists), starts_of([3] * n_trees)
    return RankingData(starts, offsets, triples, dense, right, BITS)


def slow_passes(
    given: RankingData, held: tuple[int, float], passes: int, seed: int
) -> list[RankingWeights]:
    """Every step's weights are kept and averaged."""
    rng = np.random.default_rng(seed)
    w, u = np.zeros(1 << BITS), np.zeros(given.dense.shape[1])
    u[held[0]] = held[1]
    kept, out = [(w.copy(), u.copy())], []
    for _ in range(passes):
        for index in rng.permutation(len(given)).tolist():
            trees = range(given.starts[index], given.starts[index + 1])
            counts = {t: np.bincount(given.triples[3 * t : 3 * t + 3].ravel(), minlength=1 << BITS)
                      for t in trees}  # fmt: skip
            scores = {t: counts[t] @ w + given.dense[t] @ u for t in trees}
            guess = max(trees, key=lambda t: (scores[t], -t))
            top = max(given.right[t] for t in trees)
            goal = max((t for t in trees if given.right[t] == top), key=lambda t: (scores[t], -t))
            if given.right[guess] < top:
                w = w + counts[goal] - counts[guess]
                u = u + (given.dense[goal] - given.dense[guess]) * [0, 0, 1]
            kept.append((w.copy(), u.copy()))
        out.append(RankingWeights(*(np.mean(column, axis=0) for column in zip(*kept, strict=True))))
    return out


@pytest.mark.parametrize("column", [0, 1])
def test_the_mean_is_that_of_all_steps(column: int) -> None:
    given, held = lesson(12), (column, 0.5)
    found = perceptron_passes(given, np.arange(12), held, 3, seed=4)
    for fast, slow in zip(found, slow_passes(given, held, 3, seed=4), strict=True):
        np.testing.assert_allclose(fast.sparse, slow.sparse, rtol=0, atol=1e-12)
        np.testing.assert_allclose(fast.dense, slow.dense, rtol=0, atol=1e-12)


def test_a_feature_that_tells_is_found() -> None:
    choice = learn_to_rank(lesson(), passes=4, folds=3, seed=0)
    assert choice.passes > 0
    assert choice.held_right > choice.parser_right + 60
    again = lesson(seed=9)  # other lists of the same kind
    assert again.n_right(choice.weights, np.arange(60)) > 0.95 * 180


def test_a_dense_column_that_tells_is_found() -> None:
    given = lesson(tells=False)
    dense = np.column_stack([given.dense[:, :2], 0.01 * given.right])
    given = replace(given, dense=dense)
    choice = learn_to_rank(given, passes=4, folds=3, seed=0)
    assert given.n_right(choice.weights, np.arange(60)) > 0.9 * 180


@pytest.mark.parametrize("column", [0, 1])
def test_where_nothing_helps_the_parser_stays(column: int) -> None:
    """By its score, or by the heads that it expects, whichever is better."""
    given = lesson(tells=False)
    dense = given.dense.copy()
    dense[:, column] = given.right
    choice = learn_to_rank(replace(given, dense=dense), passes=3, folds=3, seed=0)
    assert (choice.passes, choice.held_right) == (0, choice.parser_right)
    assert choice.held == (column, 1.0)
    assert choice.weights.dense.tolist() == np.eye(3)[column].tolist()
    assert not choice.weights.sparse.any()
    assert choice.parser_right == 180


def test_settings_are_judged_on_lists_that_were_not_learnt_from() -> None:
    """Marks that no two lists share say all of the lists they are learnt from, and nothing else."""
    given, bits = lesson(tells=False), 8
    best = np.flatnonzero(given.right == 3)[np.searchsorted(
        np.flatnonzero(given.right == 3), given.starts[:-1])]  # fmt: skip
    triples = given.triples.copy()
    triples[3 * best, 0] = 100 + np.arange(len(given))
    given = replace(given, triples=triples, bits=bits)
    every = np.arange(len(given))
    *_, learnt = perceptron_passes(given, every, (0, 0.01), 4, seed=0)
    assert given.n_right(learnt, every) > 0.8 * 180
    choice = learn_to_rank(given, passes=4, folds=3, seed=0)
    assert choice.held_right < 0.7 * 180


def test_parts_are_joined_in_order() -> None:
    one, other = lesson(5, seed=1), lesson(7, seed=2)
    both = RankingData.join([one, other])
    assert len(both) == 12
    weights = RankingWeights(np.random.default_rng(0).normal(size=64), np.array([1.0, -1.0, 0.5]))
    apart = one.n_right(weights, np.arange(5)) + other.n_right(weights, np.arange(7))
    assert both.n_right(weights, np.arange(12)) == apart


@pytest.mark.parametrize("n_lists", [1, 2])
def test_too_few_lists_to_hold_any_out(n_lists: int) -> None:
    choice = learn_to_rank(lesson(n_lists), passes=2, folds=3, seed=0)
    assert choice.passes == 0
