"""Tensor-form inside-outside against the dictionary chart, with tensors of either sign."""

from __future__ import annotations

import numpy as np
import pytest
from numba import config
from tests.reference import charts
from tests.reference import enumerate as listing
from tests.toys import Toy, factored_toy, parse_forest, random_bases, random_toy

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.prepared import prepare

EVERYTHING = 5e-324


def signed_toy(seed: int, n_states: int) -> Toy:
    """Tensors with negative entries; most of the weight is positive, so that sums do not cancel."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, n_states=n_states)
    toy.rules = {rule: t - rng.uniform(0, 0.4, t.shape) for rule, t in toy.rules.items()}
    for row in toy.words.values():
        for tag, vector in row.items():
            row[tag] = vector - rng.uniform(0, 0.3, vector.shape)
    return toy


def compare(toy: Toy, words: list[str], rtol: float, grammar: LatentGrammar | None = None) -> None:
    """Posteriors of a toy's grammar, or of one stored otherwise, against the dictionary chart."""
    root, rules, emissions = toy.exactly(words)
    beta = charts.inside(rules, emissions)
    total = charts.sentence_weight(root, beta, len(words))
    alpha = charts.outside(root, rules, emissions, beta)
    mu = charts.marginals(alpha, beta)
    grammar = grammar or toy.grammar()
    parsed = parse_forest(grammar, words, EVERYTHING)
    assert parsed is not None
    forest = parsed.pruned.forest
    for item in range(len(forest.symbol)):
        span = (int(forest.symbol[item]), int(forest.start[item]), int(forest.end[item]))
        expected = float(mu[span] / total)
        np.testing.assert_allclose(parsed.items[item], expected, rtol=rtol, atol=rtol)
    rho = charts.rule_marginals(rules, emissions, alpha, beta)
    for edge, posterior in enumerate(parsed.edges):
        a, b, c = grammar.rules[forest.rule[edge]].tolist()
        x, y = forest.head[edge], forest.left[edge]
        place = (int(forest.start[x]), int(forest.end[y]), int(forest.end[x]))
        expected = float(rho[(a, b, c, *place)] / total)
        np.testing.assert_allclose(posterior, expected, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(parsed.log_prob, np.log(abs(float(total))), rtol=0, atol=1e-10)
    np.testing.assert_allclose(grammar.log_prob(words), parsed.log_prob, rtol=0, atol=1e-10)


def sparse_toy(seed: int, sign: int) -> Toy:
    """Tensors in which one number in eight is not 0; with sign -1, some of them are negative."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, n_states=5)
    for rule, tensor in toy.rules.items():
        kept = rng.random(tensor.shape) < 1 / 8
        kept[0, 0, 0] = True
        toy.rules[rule] = np.where(kept, tensor, 0.0)
        toy.rules[rule].flat[-1] *= sign
    return toy


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_tensors_that_are_nearly_all_zeros(n: int, sign: int) -> None:
    toy = sparse_toy(n, sign)
    rules = prepare(toy.grammar()).tensors
    n_listed = np.diff(rules.nonzero_start.astype(np.int64))
    assert n_listed.max() > 3
    assert len(rules.nonzero) == n_listed.sum()
    assert 0.0 not in rules.nonzero
    compare(toy, [f"w{x % 3}" for x in range(n)], rtol=1e-10)


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_positive_tensors(n: int, n_states: int) -> None:
    toy = random_toy(np.random.default_rng(n), n_states=n_states)
    compare(toy, [f"w{x % 3}" for x in range(n)], rtol=1e-11)  # only sums of positive numbers


@pytest.mark.parametrize("n_states", [2, 3])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_tensors_of_either_sign(n: int, n_states: int) -> None:
    toy = signed_toy(n, n_states)
    compare(toy, [f"w{x % 3}" for x in range(n)], rtol=1e-9)  # terms cancel, digits are lost


def test_symbols_may_differ_in_their_number_of_states() -> None:
    for seed in range(4):
        toy = random_toy(np.random.default_rng(seed), n_phrases=3, n_states=4, density=0.4)
        assert len(set(toy.n_states)) > 1
        compare(toy, ["w0", "w1", "w0"], rtol=1e-11)


# every label has another number of states, so that no two axes can be taken for each other
UNEQUAL = ((2, 3, 4, 5), (5, 2, 3, 1), (1, 4, 2, 3))


@pytest.mark.parametrize("n_states", UNEQUAL, ids=str)
def test_factored_tensors_against_the_dictionary_chart(n_states: tuple[int, ...]) -> None:
    toy, factored = factored_toy(np.random.default_rng(sum(n_states)), 2, n_states)
    assert {0, 1, 2, 3} == set(factored.rule_rank.tolist())
    compare(toy, ["w0", "w1", "w2", "w1"], 1e-9, factored)  # some terms cancel


@pytest.mark.parametrize("n_states", UNEQUAL, ids=str)
def test_factored_tensors_are_the_whole_ones(n_states: tuple[int, ...]) -> None:
    toy, factored = factored_toy(np.random.default_rng(1 + sum(n_states)), 2, n_states)
    whole = toy.grammar()
    for rule, tensor in enumerate(toy.rules.values()):
        np.testing.assert_allclose(factored.tensor(rule), tensor, rtol=1e-12, atol=1e-14)
    words = ["w0", "w2", "w1", "w1", "w0", "w2"]
    one, other = (parse_forest(grammar, words, EVERYTHING) for grammar in (whole, factored))
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(other.items, one.items, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(other.edges, one.edges, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(factored.log_prob(words), whole.log_prob(words), rtol=1e-11)


@pytest.mark.parametrize("seed", range(3))
def test_a_change_of_basis_changes_no_marginal(seed: int) -> None:
    """Theorem 3 of SPECTRAL, through pruned forests."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, n_states=3)
    other = toy.rebased(random_bases(rng, toy.n_states))
    words = ["w0", "w2", "w1", "w1", "w0"]
    before, after = (parse_forest(t.grammar(), words, EVERYTHING) for t in (toy, other))
    assert before is not None
    assert after is not None
    # Condition numbers of the bases are at most 4; about ten products in a row.
    np.testing.assert_allclose(after.items, before.items, rtol=0, atol=1e-10)
    np.testing.assert_allclose(after.edges, before.edges, rtol=0, atol=1e-10)
    np.testing.assert_allclose(after.log_prob, before.log_prob, rtol=0, atol=1e-10)
    assert min(tensor.min() for tensor in other.rules.values()) < 0


def test_relabelled_states_change_nothing() -> None:
    rng = np.random.default_rng(4)
    toy = random_toy(rng, n_states=3)
    turned = toy.rebased([np.eye(m)[rng.permutation(m)] for m in toy.n_states])
    words = ["w0", "w1", "w2"]
    pair = [parse_forest(t.grammar(), words, EVERYTHING) for t in (toy, turned)]
    np.testing.assert_allclose(pair[0].items, pair[1].items, rtol=1e-12)


def test_states_that_copy_each_other_are_a_plain_grammar() -> None:
    plain = random_toy(np.random.default_rng(8))
    doubled = Toy(
        plain.n_phrases,
        [2] * len(plain.n_states),
        {a: np.repeat(v / 2, 2) for a, v in plain.root.items()},
        {rule: np.broadcast_to(t / 4, (2, 2, 2)).copy() for rule, t in plain.rules.items()},
        {w: {t: np.repeat(v, 2) for t, v in row.items()} for w, row in plain.words.items()},
    )
    words = ["w0", "w1", "w2", "w1"]
    parsed = parse_forest(doubled.grammar(), words, EVERYTHING)
    assert parsed is not None
    weighted = listing.weighted_trees(*plain.floats(words))
    mu, total = listing.marginals(weighted), listing.sentence_weight(weighted)
    for item, posterior in enumerate(parsed.items):
        forest = parsed.pruned.forest
        span = (int(forest.symbol[item]), int(forest.start[item]), int(forest.end[item]))
        np.testing.assert_allclose(posterior, mu.get(span, 0) / total, rtol=1e-11)


def test_long_sentences_stay_in_range() -> None:
    toy = random_toy(np.random.default_rng(2), n_states=2).normalised()
    n = 20 if config.DISABLE_JIT else 60
    words = [f"w{x % 3}" for x in range(n)]
    parsed = parse_forest(toy.grammar(is_probabilistic=True), words, 1e-6)
    assert parsed is not None
    assert np.isfinite(parsed.log_prob)
    leaves = parsed.pruned.forest.end - parsed.pruned.forest.start == 1
    # What pruning at 1e-6 drops is missing, at most a thousand items.
    np.testing.assert_allclose(parsed.items[leaves].sum(), n, rtol=1e-3)
