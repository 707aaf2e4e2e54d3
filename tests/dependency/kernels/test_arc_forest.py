"""Forests of dependency trees against every tree, one by one."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import arcs as reference

from sapwood.dependency.kernels import arc_forest
from sapwood.dependency.kernels.arc_layout import PART_KINDS
from sapwood.dependency.parse.scoring import ArcForest

MOST_WORDS = 5
EXACT = {"rtol": 1e-9, "atol": 1e-12}  # sums of at most 143 trees


@st.composite
def scored_arcs(draw):
    """A number of words, arcs between them, and a seed for the scores of their parts."""
    n = draw(st.integers(1, MOST_WORDS))
    every = [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    kept = draw(st.one_of(st.just(every), st.lists(st.sampled_from(every), unique=True)))
    return n, sorted(kept), draw(st.integers(0, 2**20)), draw(st.sampled_from([0.1, 1.0, 30.0]))


def made(n, arcs, order, seed, size):
    """The forest, scores of its parts, and the same by name."""
    head, modifier = (np.array([arc[k] for arc in arcs], np.int32) for k in range(2))
    forest = ArcForest(n, head, modifier, order)
    scores = size * np.random.default_rng(seed).normal(size=len(forest.parts))
    scores[forest.parts[:, 0] < 0] = 0.0
    named = {}
    for (kind, h, m, third), score in zip(forest.parts.tolist(), scores.tolist(), strict=True):
        if kind >= 0:
            named[PART_KINDS[kind], h, m, third] = score
    return forest, scores, named


@pytest.mark.parametrize("order", [1, 2])
@given(scored_arcs())
def test_all_trees_are_summed(order, drawn):
    n, arcs, seed, size = drawn
    forest, scores, named = made(n, arcs, order, seed, size)
    total, shares = reference.posteriors(reference.tree_scores(n, set(arcs), named))
    if total == -inf:
        assert len(forest.starts) == 1
        return
    found, of_parts = forest.posteriors(scores)
    np.testing.assert_allclose(found, total, **EXACT)
    expected = [shares.get(key, 0.0) for key in _names(forest)]
    np.testing.assert_allclose(of_parts, expected, rtol=1e-7, atol=1e-9)


def _names(forest):
    return [
        (PART_KINDS[kind], h, m, third) if kind >= 0 else None
        for kind, h, m, third in forest.parts.tolist()
    ]


@pytest.mark.parametrize("order", [1, 2])
@given(scored_arcs())
@settings(max_examples=25)
def test_best_trees_come_in_order(order, drawn):
    n, arcs, seed, size = drawn
    forest, scores, named = made(n, arcs, order, seed, size)
    trees = reference.tree_scores(n, set(arcs), named)
    if not trees:
        return
    ranked = sorted(trees.items(), key=lambda pair: -pair[1])
    found, heads = forest.k_best(scores, len(trees) + 1)
    np.testing.assert_allclose(found, [s for _, s in ranked], rtol=1e-9, atol=1e-9)
    assert {tuple(tree.tolist()) for tree in heads} == set(trees)  # each of them once
    for score, tree in zip(found, heads, strict=True):
        np.testing.assert_allclose(trees[tuple(tree.tolist())], score, rtol=1e-9, atol=1e-9)
    assert forest.best(scores).tolist() == heads[0].tolist() == list(ranked[0][0])
    few, first = forest.k_best(scores, 3)
    assert few.tolist() == found[:3].tolist()
    assert first.tolist() == heads[:3].tolist()


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("n", range(1, MOST_WORDS + 1))
def test_right_parts_are_those_of_the_tree(n, order):
    arcs = [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    forest, _, _ = made(n, arcs, order, 0, 1.0)
    for heads in reference.projective_trees(n):
        known = set(reference.parts_of(heads))
        right = forest.right(np.array(heads, np.int32))
        assert right.tolist() == [float(name in known) for name in _names(forest)]


def test_arcs_without_a_tree_give_no_forest():
    one = np.array([1], np.int32)
    for build in (arc_forest.first_order, arc_forest.second_order):
        starts = build(2, one, one + 1)[1]
        assert len(starts) == 1


@pytest.mark.parametrize("order", [1, 2])
def test_scores_of_any_size_are_summed(order):
    n = 40
    arcs = sorted({(m - 1, m) for m in range(1, n + 1)} | {(m + 1, m) for m in range(1, n)})
    forest, scores, _ = made(n, arcs, order, 3, 500.0)
    total, shares = forest.posteriors(scores)
    assert np.isfinite(total)
    into = np.bincount(forest.modifier, shares[: len(arcs)], n + 1)
    np.testing.assert_allclose(into[1:], 1.0, rtol=1e-9)  # each word has one head
    best = forest.k_best(scores, 1)[0][0]
    assert best <= total + 1e-9 * abs(total)


@pytest.mark.parametrize("order", [1, 2])
def test_equal_trees_are_listed_once_each(order):
    n = 4
    arcs = [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    forest, scores, _ = made(n, arcs, order, 0, 0.0)
    found, heads = forest.k_best(scores, 1000)
    assert not found.any()
    every = reference.projective_trees(n)
    assert {tuple(tree.tolist()) for tree in heads} == {tuple(tree) for tree in every}
    assert len(heads) == 30


def test_long_lists_of_long_sentences_fall():
    """Far more than tables have room for at first."""
    n = 30
    arcs = sorted({(m - d, m) for m in range(1, n + 1) for d in (1, 2, 3) if m - d >= 0}
                  | {(m + 1, m) for m in range(1, n)})  # fmt: skip
    forest, scores, _ = made(n, arcs, 2, 1, 1.0)
    found, heads = forest.k_best(scores, 1000)
    assert len(found) == len(np.unique(heads, axis=0)) == 1000
    assert (np.diff(found) <= 1e-9).all()
    for place in (0, 1, 17, 999):
        parts = forest.right(heads[place])
        np.testing.assert_allclose(scores @ parts, found[place], rtol=1e-9)
