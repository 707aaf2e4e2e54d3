"""Sums over all projective trees and states against a list of them all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import latent_arcs as listing
from tests.reference.topologies import projective_trees

from sapwood.dependency.learn.em import tie_valences
from sapwood.dependency.model.dependency import count_children
from sapwood.dependency.model.latent import LatentArcs
from sapwood.dependency.parse.parser import arc_posteriors

N_SYMBOLS = 3
Array = np.ndarray


def tables(seed: int, k: int, low: float) -> LatentArcs:
    rng = np.random.default_rng(seed)
    parts = [rng.uniform(low, 1, shape) for shape in ((k,), (2, k, k), (N_SYMBOLS, k))]
    return LatentArcs(*parts, np.array([0, N_SYMBOLS]))


@settings(max_examples=40)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 99), st.sampled_from([0.0, -0.3]),
       st.sampled_from([1.0, 0.7]))  # fmt: skip
def test_sums_are_those_over_all_trees(
    n: int, k: int, seed: int, low: float, density: float
) -> None:
    """With arcs left out and weights of any sign; marginals of all words sum to 1."""
    rng = np.random.default_rng(seed)
    model = tables(seed, k, low)
    arcs = rng.random((n + 1, n)) * (rng.random((n + 1, n)) < density)
    seen = rng.integers(-1, N_SYMBOLS, (n, 1))
    parts = (model.root, model.steps, model.symbols)
    shown = [[x for x in row if x >= 0] for row in seen.tolist()]
    total, through = listing.projective_sums(shown, arcs, parts)
    log, sign, found = arc_posteriors(model, seen, arcs)
    # sums of up to 30 trees and 81 assignments, which may cancel where weights are negative
    assert sign * np.exp(log) == pytest.approx(total, rel=1e-8, abs=1e-12)
    if abs(total) > 1e-6:
        np.testing.assert_allclose(found, through / total, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found.sum(axis=0), 1.0, atol=1e-7)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_children_are_part_of_the_sum(seed: int) -> None:
    """With them, a tree weighs what its words and their numbers of children do."""
    n, k = 4, 2
    rng = np.random.default_rng(seed)
    rows = (slice(N_SYMBOLS, N_SYMBOLS + 10), slice(N_SYMBOLS + 10, N_SYMBOLS + 20))
    bare = LatentArcs(
        rng.dirichlet(np.ones(k)), rng.dirichlet(np.ones(k), (2, k)).swapaxes(1, 2).copy(),
        rng.random((N_SYMBOLS + 20, k)), np.array([0, N_SYMBOLS, N_SYMBOLS + 10, N_SYMBOLS + 20]),
    )  # fmt: skip
    model = tie_valences(bare, rows)
    parts = (model.root, model.steps, model.symbols)
    words, arcs = rng.integers(0, N_SYMBOLS, n), rng.random((n + 1, n))
    total, through = 0.0, np.zeros_like(arcs)
    for heads in projective_trees(n):
        sides = count_children(np.array([0, n]), np.array(heads) + 1)
        seen = [[words[i], rows[0].start + sides[0][i], rows[1].start + sides[1][i]]
                for i in range(n)]  # fmt: skip
        weight = listing.tree_weight(heads, seen, parts)
        weight *= np.prod([arcs[head + 1, i] for i, head in enumerate(heads)])
        total += weight
        for i, head in enumerate(heads):
            through[head + 1, i] += weight
    seen = np.stack([words, np.full(n, -1), np.full(n, -1)], axis=1)
    log, sign, found = arc_posteriors(model, seen, arcs, rows)
    assert sign * np.exp(log) == pytest.approx(total, rel=1e-9)
    np.testing.assert_allclose(found, through / total, atol=1e-9)


def test_one_state_and_even_arcs_count_trees() -> None:
    one = LatentArcs(np.ones(1), np.ones((2, 1, 1)), np.ones((1, 1)), np.array([0, 1]))
    for n in range(1, 6):
        log, _, found = arc_posteriors(one, np.zeros((n, 1), int), np.ones((n + 1, n)))
        trees = list(projective_trees(n))
        assert np.exp(log) == pytest.approx(len(trees))
        share = np.mean([[heads[i] for heads in trees].count(-1) / len(trees) for i in range(n)])
        assert found[0].mean() == pytest.approx(share)


def test_a_sentence_without_a_tree_has_no_posteriors() -> None:
    model = tables(0, 2, 0.0)
    arcs = np.zeros((3, 2))
    arcs[1, 1] = arcs[2, 0] = 1.0  # a circle, and no root
    log, sign, found = arc_posteriors(model, np.zeros((2, 1), int), arcs)
    assert log == -np.inf
    assert sign == 0
    assert not found.any()


def test_long_sentences_do_not_underflow() -> None:
    n = 120
    small = LatentArcs(
        np.full(2, 0.5), np.full((2, 2, 2), 0.5), np.full((N_SYMBOLS, 2), 1e-6), np.array([0, 3])
    )
    arcs = np.zeros((n + 1, n))
    arcs[0, 0] = 1e-3
    arcs[np.arange(1, n), np.arange(1, n)] = 1e-3  # a chain
    log, sign, found = arc_posteriors(small, np.zeros((n, 1), int), arcs)
    assert sign == 1
    assert log == pytest.approx(n * np.log(1e-9), rel=1e-9)
    assert found.sum() == pytest.approx(n)
