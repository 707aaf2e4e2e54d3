"""Theorem 3 of SPECTRAL: the tensor form is right in any invertible basis of each symbol."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference import charts
from tests.reference import enumerate as listing
from tests.toys import Toy, random_bases, random_toy, tree_of

WORDS = ["w0", "w1", "w2", "w0"]
# Bases of condition number 4 cancel at every node: errors stay far below 1e-16 * 4**7 (nodes).
TOLERANCE = 1e-10


def toys(seed: int, m: int, *, mutant: bool = False) -> tuple[Toy, Toy]:
    """A grammar with m states everywhere, and its tensors in another basis."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, n_states=m, density=0.3)
    while set(toy.n_states) != {m}:
        toy = random_toy(rng, n_states=m, density=0.3)
    return toy, toy.rebased(random_bases(rng, toy.n_states), mutant=mutant)


def gap(one: Toy, other: Toy) -> float:
    """The largest relative difference of any tree weight, sentence weight or marginal."""
    weights = []
    for toy in (one, other):
        root, rules, emissions = toy.floats(WORDS)
        trees = listing.all_trees(rules, emissions)
        beta = charts.inside(rules, emissions)
        alpha = charts.outside(root, rules, emissions, beta)
        mu = charts.marginals(alpha, beta)
        of_trees = [listing.tree_weight(tree, root, rules, emissions) for tree in trees]
        total = charts.sentence_weight(root, beta, len(WORDS))
        weights.append(np.array([*of_trees, total, *[mu[span] for span in sorted(mu)]]))
    return float(np.max(np.abs(weights[0] - weights[1]) / np.max(np.abs(weights[0]))))


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_figures_4_and_5_are_right_in_any_basis(seed: int, m: int) -> None:
    """Theorem 3: 1) the algorithm in Figure 4 correctly computes p(r_1 ... r_N) under the L-PCFG;
    2) the algorithm in Figure 5 correctly computes the marginals mu(a, i, j).
    """
    assert gap(*toys(seed, m)) < TOLERANCE


@pytest.mark.parametrize("m", [2, 3])
def test_a_basis_that_is_not_inverted_is_noticed(m: int) -> None:
    assert gap(*toys(0, m, mutant=True)) > 1e-3


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_kernels_are_right_in_any_basis(seed: int, m: int) -> None:
    toy, other = toys(seed, m)
    trees = [tree_of(tree, WORDS, 2) for tree in listing.all_trees(*toy.floats(WORDS)[1:])]
    before, after = toy.grammar(), other.grammar()
    np.testing.assert_allclose(
        after.log_probs(trees), before.log_probs(trees), rtol=0, atol=TOLERANCE
    )
    assert abs(after.log_prob(WORDS) - before.log_prob(WORDS)) < TOLERANCE


@pytest.mark.parametrize("m", [2, 3])
def test_the_kernels_notice_a_basis_that_is_not_inverted(m: int) -> None:
    toy, other = toys(0, m, mutant=True)
    assert abs(other.grammar().log_prob(WORDS) - toy.grammar().log_prob(WORDS)) > 1e-3
