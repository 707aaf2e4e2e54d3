"""Parameters by symbol and state: totals, M-step, and states that are split and joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.constituency.grammar.drawn_parameters import SEEDS, as_numbers, drawn
from tests.constituency.kernels.treebank_cases import case, forest, training_trees
from tests.shards import shards_of

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.em_states import (
    copy_states,
    join_states,
    merge_siblings,
    sibling_pairs,
    split_states,
)
from sapwood.constituency.learn.em_steps import (
    ExpectedCounts,
    LatentParameters,
    SortedTrees,
    TrainingTrees,
    maximise_tree_counts,
    normalise,
    smooth_states,
    state_merge_losses,
)

Array = np.ndarray
PARTS = ("root", "rules", "words")
CLOSE = 1e-13  # sums of some dozen products of numbers below 1


class Trained(NamedTuple):
    """Parameters some steps after a split."""

    trees: TrainingTrees
    parameters: LatentParameters
    origin: Array
    weight: Array

    @property
    def pairs(self) -> Array:
        return sibling_pairs(self.parameters, self.origin)

    @property
    def share(self) -> Array:
        """How frequent the first of each pair is among the two."""
        at = self.parameters.state_start[self.pairs[:, 0]]
        one, two = self.weight[at + self.pairs[:, 1]], self.weight[at + self.pairs[:, 2]]
        return np.asarray(one / (one + two))

    def log_likelihood(self, parameters: LatentParameters) -> float:
        return self.trees.expect(parameters).log_likelihood


def climbed(trees: TrainingTrees, parameters: LatentParameters, steps: int) -> LatentParameters:
    """EM without smoothing."""
    for _ in range(steps):
        parameters = maximise_tree_counts(parameters, trees.expect(parameters))
    return parameters


@cache
def dev() -> Treebank:
    return sw.bundled_treebank("dev")


@cache
def trained(*levels: int, steps: int = 30) -> Trained:
    """Split to each number of states in turn, with EM after each split."""
    trees = training_trees(dev())
    parameters, origin = trees.plain_parameters(), np.empty(0, np.int64)
    rng = np.random.default_rng(0)
    for m in levels:
        parameters, origin = split_states(parameters, np.minimum(trees.limit, m), rng)
        parameters = climbed(trees, parameters, steps)
    counts = trees.expect(parameters)
    weight = replace(parameters, rules=counts.rules, words=counts.words).state_totals()
    return Trained(trees, parameters, origin, weight)


def with_one_pair_joined(at: Trained, pair: Array) -> LatentParameters:
    """The second state of a pair joins the first; later states move up."""
    a, one, two = pair.tolist()
    joined = [np.arange(m) for m in at.parameters.n_states.tolist()]
    joined[a] = np.array([one if h == two else h - (h > two) for h in joined[a].tolist()])
    return join_states(at.parameters, joined, at.weight)


class Joining(NamedTuple):
    """States to be joined: the new number of each, and how frequent each is."""

    joined: list[Array]
    weight: Array


def joining(parameters: LatentParameters, seed: int) -> Joining:
    """Any states of a symbol may be joined, not only those side by side."""
    rng = np.random.default_rng(seed)
    groups = [rng.integers(0, m, m) for m in parameters.n_states.tolist()]
    numbered = [np.unique(group, return_inverse=True)[1] for group in groups]
    return Joining(numbered, rng.gamma(0.7, size=int(parameters.n_states.sum())))


def merged_slowly(parameters: LatentParameters, at: Joining) -> dict[Any, float]:
    """Parents by the weighted mean, children and roots by the sum."""
    weight = [part.tolist() for part in np.split(at.weight, np.cumsum(parameters.n_states)[:-1])]
    new = [states.tolist() for states in at.joined]
    total: dict[Any, float] = defaultdict(float)
    for a, states in enumerate(new):
        for h, joined in enumerate(states):
            total[a, joined] += weight[a][h]
    out: dict[Any, float] = defaultdict(float)
    for (part, index, *states), value in as_numbers(parameters).items():
        h = states[0]
        if part == "root":
            out["root", index, new[index][h]] += value
            continue
        if part == "word":
            a, others = int(parameters.symbol_of_pair[index]), []
        else:
            a, *children = parameters.symbols_of[index].tolist()
            others = [new[b][p] for b, p in zip(children, states[1:], strict=True)]
        out[part, index, new[a][h], *others] += value * weight[a][h] / total[a, new[a][h]]
    return dict(out)


def gap(one: dict[Any, float], other: dict[Any, float]) -> float:
    """Largest difference; infinite when they name other things."""
    if one.keys() != other.keys():
        return float("inf")
    return max(abs(one[name] - other[name]) for name in one)


def distance(one: LatentParameters, other: LatentParameters) -> float:
    return gap(as_numbers(one), as_numbers(other))


@given(SEEDS)
def test_joined_states_are_weighted_means_and_sums(seed: int) -> None:
    parameters = drawn(seed)
    at = joining(parameters, seed)
    found = join_states(parameters, *at)
    assert found.n_states.tolist() == [int(states.max()) + 1 for states in at.joined]
    assert gap(as_numbers(found), merged_slowly(parameters, at)) < CLOSE


@given(SEEDS)
def test_joined_probabilities_still_sum_to_one(seed: int) -> None:
    parameters = drawn(seed)
    found = join_states(parameters, *joining(parameters, seed))
    used = np.unique(np.concatenate([parameters.symbols_of[:, 0], parameters.symbol_of_pair]))
    total = np.split(found.state_totals(), found.state_start[1:-1])
    for a, sums in enumerate(total):
        np.testing.assert_allclose(sums, 1.0 if a in used else 0.0, rtol=0, atol=CLOSE)
    assert found.root.sum() == pytest.approx(1.0, abs=CLOSE)


@given(SEEDS)
def test_copies_without_noise_are_undone(seed: int) -> None:
    """Whatever weights the copies have: they are all the same."""
    parameters, rng = drawn(seed), np.random.default_rng(seed)
    old = [
        np.sort(np.concatenate([np.arange(m), rng.integers(0, m, rng.integers(0, 4))]))
        for m in parameters.n_states.tolist()
    ]
    copied = copy_states(parameters, old, None)
    weight = rng.gamma(1.0, size=int(copied.n_states.sum()))
    assert distance(join_states(copied, old, weight), parameters) < CLOSE
    noisy = copy_states(parameters, old, rng)
    assert distance(join_states(noisy, old, weight), parameters) > 1e-6  # noise is not undone


@given(SEEDS)
def test_joining_nothing_changes_nothing(seed: int) -> None:
    parameters = drawn(seed)
    apart = [np.arange(m) for m in parameters.n_states.tolist()]
    weight = joining(parameters, seed).weight
    assert distance(join_states(parameters, apart, weight), parameters) < CLOSE


@given(SEEDS)
def test_joining_in_two_steps_is_joining_at_once(seed: int) -> None:
    """A joined state is as frequent as its parts together."""
    parameters = drawn(seed)
    first = joining(parameters, seed)
    between = join_states(parameters, *first)
    parts = zip(first.joined, np.split(first.weight, parameters.state_start[1:-1]), strict=True)
    weight = np.concatenate([np.bincount(states, part) for states, part in parts])
    second = joining(between, seed + 1)
    at_once = [then[states] for states, then in zip(first.joined, second.joined, strict=True)]
    found = join_states(between, second.joined, weight)
    assert distance(found, join_states(parameters, at_once, first.weight)) < CLOSE


def test_states_that_nobody_uses_have_a_mean() -> None:
    parameters = drawn(1)
    joined = [np.zeros(m, np.int64) for m in parameters.n_states.tolist()]
    found = join_states(parameters, joined, np.zeros(int(parameters.n_states.sum())))
    alike = Joining(joined, np.ones(int(parameters.n_states.sum())))
    assert gap(as_numbers(found), merged_slowly(parameters, alike)) < CLOSE


def unweighted(at: Joining) -> Joining:
    return at._replace(weight=np.ones_like(at.weight))


def other_weights(at: Joining) -> Joining:
    """The wrong share: that of the state behind."""
    return at._replace(weight=np.roll(at.weight, 1))


@pytest.mark.parametrize("mutant", [unweighted, other_weights])
def test_other_weights_are_noticed(mutant: Callable[[Joining], Joining]) -> None:
    gaps = []
    for seed in range(10):
        parameters = drawn(seed)
        at = joining(parameters, seed)
        found = join_states(parameters, *mutant(at))
        gaps.append(gap(as_numbers(found), merged_slowly(parameters, at)))
    assert max(gaps) > 0.1
    assert np.median(gaps) > 1e-3


def test_states_that_copy_states_change_no_probability() -> None:
    at = case(4)
    before = ExpectedCounts.of(at.shard, at.parameters).log_likelihood
    rng = np.random.default_rng(0)
    old = [
        np.concatenate([np.arange(m), rng.integers(0, m, rng.integers(0, 3))])
        for m in at.parameters.n_states.tolist()
    ]
    copied = copy_states(at.parameters, old, None)
    assert copied.n_states.sum() > at.parameters.n_states.sum()
    after = ExpectedCounts.of(at.shard, copied).log_likelihood
    assert after == pytest.approx(before, rel=1e-13)  # the same sums in another order


def parameters_of(n_states: list[int]) -> LatentParameters:
    none, m = np.empty((0, 3), np.int64), np.array(n_states)
    total = int(m.sum())
    return LatentParameters(m, none, none[:, 0], np.ones(total), np.empty(0), np.empty(0))


def test_states_that_were_never_split_have_no_siblings() -> None:
    plain = parameters_of([1, 1, 1])
    assert sibling_pairs(plain, np.zeros(3, np.int64)).shape == (0, 3)
    assert sibling_pairs(parameters_of([3]), np.arange(3)).shape == (0, 3)


def test_siblings_are_of_one_symbol() -> None:
    """The last state of a symbol and the first of the next may come from states of one number."""
    pairs = sibling_pairs(
        parameters_of([1, 2, 3, 1, 4]), np.array([0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1])
    )
    assert pairs.tolist() == [[1, 0, 1], [2, 1, 2], [4, 0, 1], [4, 2, 3]]


@pytest.mark.parametrize("target", [[1, 2, 5, 4], [9, 9, 9, 9], [1, 1, 1, 1]])
def test_a_split_doubles_at_most_and_says_where_states_come_from(target: list[int]) -> None:
    before = [1, 2, 4, 3]
    made, origin = split_states(parameters_of(before), np.array(target), np.random.default_rng(0))
    expected = [max(m, min(wanted, 2 * m)) for m, wanted in zip(before, target, strict=True)]
    assert made.n_states.tolist() == expected
    for m, old in zip(before, np.split(origin, np.cumsum(expected)[:-1]), strict=True):
        assert sorted(set(old.tolist())) == list(range(m))
        assert old.tolist() == sorted(old.tolist())
        assert np.bincount(old).max() <= 2
    n_new = sum(expected) - sum(before)
    assert len(sibling_pairs(made, origin)) == n_new


def test_a_split_without_noise_is_undone_by_merging() -> None:
    """Parameters and likelihood are as before, to rounding."""
    at = trained(2)
    old = [np.repeat(np.arange(m), 2) for m in at.parameters.n_states.tolist()]
    copied = copy_states(at.parameters, old, None)
    assert at.log_likelihood(copied) == pytest.approx(at.log_likelihood(at.parameters), rel=1e-12)
    back = merge_siblings(at.trees, copied, np.concatenate(old), 1.0)
    assert back.n_states.tolist() == at.parameters.n_states.tolist()
    for name in PARTS:
        found, expected = getattr(back, name), getattr(at.parameters, name)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)
    assert at.log_likelihood(back) == pytest.approx(at.log_likelihood(at.parameters), rel=1e-12)


def test_copies_cost_nothing() -> None:
    at = trained(2)
    old = [np.repeat(np.arange(m), 2) for m in at.parameters.n_states.tolist()]
    copied = copy_states(at.parameters, old, None)
    pairs = sibling_pairs(copied, np.concatenate(old))
    assert len(pairs) == at.parameters.n_states.sum()
    # shares of any size: both states behave alike. Each node's logarithm is off by rounding
    share = np.random.default_rng(0).uniform(size=len(pairs))
    total, shards = at.trees.engine.total, at.trees.shards
    assert np.abs(total(state_merge_losses, shards, copied, pairs, share)).max() < 1e-9
    losses = total(state_merge_losses, shards, at.parameters, at.pairs, at.share)
    assert np.abs(losses).max() > 1


class Costs(NamedTuple):
    """Predicted and true fall of the log-likelihood of single trees, for pairs of a symbol."""

    predicted: Array
    true: Array


def costs_of_trees(at: Trained, symbol: int, share: Array, n_nodes: range) -> Costs:
    """Over the trees in which a symbol occurs so often, tree by tree and pair by pair."""
    bank = dev()
    pairs, share = at.pairs[at.pairs[:, 0] == symbol], share[at.pairs[:, 0] == symbol]
    joined = [with_one_pair_joined(at, pair) for pair in pairs]
    predicted, true = [], []
    for tree in range(bank.n_trees):
        labels = bank.label[bank.offsets[tree] : bank.offsets[tree + 1]]
        if np.count_nonzero(labels == symbol) not in n_nodes:
            continue
        shard = SortedTrees(bank[tree : tree + 1], at.trees.pairs)
        predicted.append(state_merge_losses(shard, at.parameters, pairs, share))
        whole = ExpectedCounts.of(shard, at.parameters).log_likelihood
        true.append([whole - ExpectedCounts.of(shard, one).log_likelihood for one in joined])
    return Costs(np.array(predicted), np.array(true))


SYMBOLS = (1, 3, 37, 41)  # two phrases and two tags, each in 100 trees and more just once


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_the_cost_is_exact_where_a_symbol_occurs_once(symbol: int) -> None:
    at = trained(2, 4)
    predicted, true = costs_of_trees(at, symbol, at.share, range(1, 2))
    assert predicted.shape[0] > 100
    assert predicted.shape[1] == 2
    np.testing.assert_allclose(predicted, true, rtol=1e-9, atol=1e-11)
    assert np.abs(true).max() > 0.05  # and not of rounding alone


def test_the_cost_is_not_exact_where_it_occurs_often() -> None:
    """Each node is taken alone: what two nodes of a tree lose together is left out."""
    at = trained(2)
    predicted, true = costs_of_trees(at, SYMBOLS[0], at.share, range(2, 100))
    assert len(predicted) > 50
    assert np.abs(predicted - true).max() > 0.01


@pytest.mark.parametrize("wrong", ["alike", "swapped"])
def test_a_wrong_share_is_noticed(wrong: str) -> None:
    at = trained(2, 4)
    share = {"alike": np.full(len(at.pairs), 0.5), "swapped": 1 - at.share}[wrong]
    predicted, true = costs_of_trees(at, SYMBOLS[0], share, range(1, 2))
    assert np.abs(predicted - true).max() > 0.01


@pytest.mark.parametrize("levels", [(2,), (2, 4)], ids=str)
def test_costs_over_a_treebank_are_about_right(levels: tuple[int, ...]) -> None:
    """Measured: sums that differ by 1 %, correlations of 0.9994 and of ranks of 1."""
    at = trained(*levels)
    predicted = at.trees.merge_losses(at.parameters, at.pairs, at.share)
    before = at.log_likelihood(at.parameters)
    joined = (with_one_pair_joined(at, pair) for pair in at.pairs)
    true = np.array([before - at.log_likelihood(one) for one in joined])
    assert np.corrcoef(predicted, true)[0, 1] > 0.99
    ranks = [np.argsort(np.argsort(numbers)) for numbers in (predicted, true)]
    assert np.corrcoef(*ranks)[0, 1] > 0.99
    assert predicted.sum() == pytest.approx(true.sum(), rel=0.03)


def test_shards_do_not_matter() -> None:
    at = trained(2, 4)
    whole = at.trees.merge_losses(at.parameters, at.pairs, at.share)
    one, *more = (
        training_trees(shards_of(dev(), 7), jobs).merge_losses(at.parameters, at.pairs, at.share)
        for jobs in (1, 2, 3)
    )
    np.testing.assert_allclose(one, whole, rtol=1e-9, atol=1e-10)
    for losses in more:
        np.testing.assert_array_equal(losses, one)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.5, 0.99])
def test_the_cheapest_pairs_are_joined(fraction: float) -> None:
    at = trained(2, 4)
    losses = at.trees.merge_losses(at.parameters, at.pairs, at.share)
    n = int(fraction * len(losses))
    chosen = at.pairs[np.argsort(losses)[:n]]
    expected = at.parameters.n_states - np.bincount(
        chosen[:, 0], minlength=len(at.parameters.n_states)
    )
    found = merge_siblings(at.trees, at.parameters, at.origin, fraction)
    assert found.n_states.tolist() == expected.tolist()
    joined = np.concatenate([chosen[:, 0], chosen[:, 0]])
    for a in set(range(len(expected))) - set(joined.tolist()):  # others keep their words
        mine = at.parameters.symbol_of_pair == a
        before = at.parameters.words[np.repeat(mine, np.diff(at.parameters.word_start))]
        after = found.words[np.repeat(mine, np.diff(found.word_start))]
        np.testing.assert_allclose(after, before, rtol=1e-12)


def test_copies_go_first() -> None:
    """Labels with too little data for a second state get a copy: just these are undone."""
    at = trained(2)
    m = at.parameters.n_states
    copied = np.flatnonzero(m == 1)
    doubled = copy_states(at.parameters, [np.arange(2) % n for n in m.tolist()], None)
    origin = np.zeros(2 * len(m), np.int64)
    pairs = sibling_pairs(doubled, origin)
    assert len(pairs) == len(m)
    cost = at.trees.merge_losses(doubled, pairs, np.full(len(m), 0.5))
    idle = np.setdiff1d(np.flatnonzero(cost < 1e-6), copied)
    assert len(idle) == 1  # a tag with one word and one place, whose states cannot differ
    fraction = (len(copied) + len(idle) + 0.5) / len(m)
    found = merge_siblings(at.trees, doubled, origin, fraction)
    assert np.flatnonzero(found.n_states == 1).tolist() == sorted([*copied, *idle])


def test_merging_costs_little_and_em_wins_it_back() -> None:
    """Of the likelihood that a split won: half of the splits undone keep nearly all of it."""
    at = trained(2)
    before = at.log_likelihood(at.trees.plain_parameters())
    won = at.log_likelihood(at.parameters) - before
    merged = merge_siblings(at.trees, at.parameters, at.origin, 0.5)
    again = climbed(at.trees, merged, 6)
    assert merged.n_states.sum() < at.parameters.n_states.sum()
    assert at.log_likelihood(merged) - before > 0.7 * won
    assert at.log_likelihood(again) > at.log_likelihood(merged)


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


MAXIMISED = 1e-11  # sums of some hundred positive numbers, and two divisions


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
    np.testing.assert_allclose(total, 1.0, rtol=MAXIMISED)
    assert p.root.sum() == pytest.approx(1.0, rel=MAXIMISED)


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
        (smooth_states(counts, *amounts), slow_m_step(counts, *amounts)),
        (maximise_tree_counts(layout, counts, *amounts), slow_m_step(plain, *amounts)),
    ):
        for name, numbers in before.items():
            np.testing.assert_allclose(
                getattr(found, name), getattr(expected, name), rtol=MAXIMISED
            )
            np.testing.assert_array_equal(getattr(counts, name), numbers)  # the input stays
