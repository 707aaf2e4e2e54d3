"""EM's kernels against twins that list the hidden states of small trees one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import log
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.constituency.kernels.treebank_cases import (
    Array,
    Case,
    case,
    forest,
    training_trees,
)
from tests.shards import shards_of

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.em_states import copy_states
from sapwood.constituency.learn.em_steps import (
    ExpectedCounts,
    LatentParameters,
    SortedTrees,
    inside_outside_vectors,
    smooth_states,
)
from sapwood.constituency.learn.kernels import treebank_em as kernel
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree

# Sums of at most 3**9 products of at most 19 positive factors: no cancellation, little rounding.
CLOSE = 1e-11
COUNTS = ("rules", "words", "root", "log_likelihood")


# -- the twin ---------------------------------------------------------------------------------


@dataclass
class Twin:
    log_likelihood: float
    rules: Array
    words: Array
    root: Array
    posterior: Array  # [n_nodes, m]: P(state | tree)


def places(at: Case, x: int, state: dict[int, int]) -> tuple[str, int]:
    """Which number of the parameters a node uses, in given states."""
    p, t = at.parameters, at.shard
    h = state[x]
    if t.pair[x] >= 0:
        return "words", int(p.word_start[t.pair[x]]) + h
    y, z = int(t.left[x]), int(t.right[x])
    m_y, m_z = int(p.n_states[t.label[y]]), int(p.n_states[t.label[z]])
    return "rules", int(p.rule_start[t.rule[x]]) + (h * m_y + state[y]) * m_z + state[z]


def weigh(at: Case, nodes: list[int], state: dict[int, int]) -> float:
    """Product of the probabilities of some nodes."""
    weight = 1.0
    for x in nodes:
        kind, place = places(at, x, state)
        weight *= float(getattr(at.parameters, kind)[place])
    return weight


def all_states(at: Case, nodes: list[int]) -> list[dict[int, int]]:
    sizes = [range(int(at.parameters.n_states[at.shard.label[x]])) for x in nodes]
    return [dict(zip(nodes, states, strict=True)) for states in product(*sizes)]


def twin(at: Case) -> Twin:
    p, t = at.parameters, at.shard
    out = Twin(
        0.0, np.zeros_like(p.rules), np.zeros_like(p.words), np.zeros_like(p.root),
        np.zeros((len(t.label), int(p.n_states.max()))),
    )  # fmt: skip
    for first, end in zip(at.bank.offsets[:-1].tolist(), at.bank.offsets[1:].tolist(), strict=True):
        nodes, top = list(range(first, end)), end - 1
        start = int(p.state_start[t.label[top]])
        states = all_states(at, nodes)
        weights = [float(p.root[start + s[top]]) * weigh(at, nodes, s) for s in states]
        total = sum(weights)
        out.log_likelihood += log(total)
        for s, weight in zip(states, weights, strict=True):
            out.root[start + s[top]] += weight / total
            for x in nodes:
                kind, place = places(at, x, s)
                getattr(out, kind)[place] += weight / total
                out.posterior[x, s[x]] += weight / total
    return out


def assert_same(found: ExpectedCounts, expected: Twin) -> None:
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=CLOSE)
    for name in ("rules", "words", "root"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=CLOSE, atol=CLOSE, err_msg=name
        )


# -- expected counts --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
def test_expected_counts(seed: int, zeros: float) -> None:
    at = case(seed, zeros=zeros)
    assert_same(ExpectedCounts.of(at.shard, at.parameters), twin(at))


def test_totals_are_the_counts_of_the_trees() -> None:
    """Expected counts only share what was counted among the states."""
    at = case(5)
    found = ExpectedCounts.of(at.shard, at.parameters)
    counted = np.bincount(at.bank.rule[at.bank.rule >= 0], minlength=len(at.bank.inventory.rules))
    per_rule = np.add.reduceat(found.rules, at.parameters.rule_start[:-1])
    np.testing.assert_allclose(per_rule, counted, rtol=CLOSE)
    per_pair = np.add.reduceat(found.words, at.parameters.word_start[:-1])
    leaf, n_words = at.bank.word >= 0, len(at.bank.inventory.words)
    _, counted = np.unique(at.bank.label[leaf] * n_words + at.bank.word[leaf], return_counts=True)
    np.testing.assert_allclose(per_pair, counted, rtol=CLOSE)
    assert found.root.sum() == pytest.approx(at.bank.n_trees, rel=CLOSE)


@pytest.mark.parametrize("n_shards", [2, 3, 8])
def test_shards_add_up(n_shards: int) -> None:
    at = case(1)
    whole = ExpectedCounts.of(at.shard, at.parameters)
    trees = training_trees(shards_of(at.bank, n_shards))
    assert 1 < len(trees.shards) <= n_shards
    total = trees.expect(at.parameters)
    for name in COUNTS:
        np.testing.assert_allclose(
            getattr(total, name), getattr(whole, name), rtol=CLOSE, atol=CLOSE
        )


@pytest.mark.parametrize("jobs", [2, 3])
def test_threads_change_no_bit(jobs: int) -> None:
    """A sum over shards has one shape, whoever adds."""
    at = forest(7, 40, [3, 2])
    one, many = (training_trees(shards_of(at.bank, 7), n).expect(at.parameters) for n in (1, jobs))
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name))


# -- vectors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_alpha_times_beta_is_the_posterior_of_the_states(seed: int) -> None:
    at = case(seed, zeros=0.2)
    beta, alpha, down, _, _ = inside_outside_vectors(at.shard, at.parameters)
    expected = twin(at).posterior
    for x, a in enumerate(at.shard.label.tolist()):
        m = int(at.parameters.n_states[a])
        np.testing.assert_allclose(
            alpha[x, :m] * beta[x, :m], expected[x, :m], rtol=CLOSE, atol=CLOSE
        )
        assert beta[x, :m].max() == 1.0
    assert (down > 0).all()


def test_inside_vectors_times_their_scales() -> None:
    """beta[x] times every scale below is the probability of what a node covers, state by state."""
    at = case(4)
    beta, _, down, _, _ = inside_outside_vectors(at.shard, at.parameters)
    for x in range(len(at.shard.label)):
        below = covered(at, x)
        m = int(at.parameters.n_states[at.shard.label[x]])
        expected = np.zeros(m)
        for states in all_states(at, below):
            expected[states[x]] += weigh(at, below, states)
        np.testing.assert_allclose(beta[x, :m] * down[below].prod(), expected, rtol=CLOSE)


def covered(at: Case, x: int) -> list[int]:
    """A node and all below it."""
    if at.shard.left[x] < 0:
        return [x]
    return [*covered(at, int(at.shard.left[x])), *covered(at, int(at.shard.right[x])), x]


def test_a_tree_of_three_thousand_words_neither_underflows_nor_drifts() -> None:
    """Its probability is far below the smallest float; alpha . beta stays 1 from top to bottom."""
    rng = np.random.default_rng(0)
    tree = Tree("A", "x")
    for _ in range(2999):
        word = str(rng.choice(["x", "y"]))
        tree = Tree("S", [Tree("A", word), tree] if rng.random() < 0.5 else [tree, Tree("B", word)])
    bank = Treebank.from_trees([tree])
    trees = training_trees(bank)
    plain = trees.plain_parameters()
    parameters = copy_states(plain, [np.zeros(4, np.int64)] * len(plain.n_states), rng)
    beta, alpha, _, log_likelihood, _ = inside_outside_vectors(trees.shards.items[0], parameters)
    assert -np.inf < log_likelihood < -745
    # rounding of 3,000 products in a row, 1e-16 each
    np.testing.assert_allclose((alpha * beta).sum(axis=1), 1.0, rtol=0, atol=1e-11)


def test_heights_and_depths() -> None:
    at = case(0)
    t, parent = at.shard, np.full(len(at.shard.label), -1)
    for x in range(len(t.label)):
        if t.left[x] >= 0:
            parent[t.left[x]] = parent[t.right[x]] = x
    height, depth = kernel.heights_and_depths(at.bank.offsets, t.left, t.right, parent)

    def above(x: int) -> int:
        return 0 if parent[x] < 0 else 1 + above(int(parent[x]))

    def below(x: int) -> int:
        return 0 if t.left[x] < 0 else 1 + max(below(int(t.left[x])), below(int(t.right[x])))

    assert height.tolist() == [below(x) for x in range(len(parent))]
    assert depth.tolist() == [above(x) for x in range(len(parent))]


# -- many nodes: blocks, chunks and tiles -----------------------------------------------------


class ByNode(NamedTuple):
    """Inside and outside vectors and counts of rules, one node after the other."""

    beta: Array
    alpha: Array
    rules: Array


def node_by_node(shard: SortedTrees, p: LatentParameters) -> ByNode:
    """The formulas of the kernels' notation, one `einsum` a node."""
    n, m = len(shard.label), p.n_states
    width = int(m.max())
    beta, alpha, down = np.zeros((n, width)), np.zeros((n, width)), np.zeros(n)
    rules = np.zeros_like(p.rules)

    def parts(x: int) -> tuple[slice, Array, int, int, Array, Array]:
        r, y, z = int(shard.rule[x]), int(shard.left[x]), int(shard.right[x])
        at = slice(int(p.rule_start[r]), int(p.rule_start[r + 1]))
        tensor = p.rules[at].reshape(m[shard.label[[x, y, z]]])
        return at, tensor, y, z, beta[y, : tensor.shape[1]], beta[z, : tensor.shape[2]]

    for x in range(n):  # children come before their parent
        if shard.pair[x] >= 0:
            vector = p.words[p.word_start[shard.pair[x]] : p.word_start[shard.pair[x] + 1]]
        else:
            _, tensor, _, _, one, other = parts(x)
            vector = np.einsum("hpq,p,q->h", tensor, one, other)
        down[x] = vector.max()
        beta[x, : len(vector)] = vector / down[x]
    for x in shard.roots.tolist():
        a = shard.label[x]
        pi = p.root[p.state_start[a] : p.state_start[a + 1]]
        alpha[x, : m[a]] = pi / (pi @ beta[x, : m[a]])
    for x in reversed(range(n)):
        if shard.pair[x] < 0:
            at, tensor, y, z, one, other = parts(x)
            w = alpha[x, : len(tensor)] / down[x]
            alpha[y, : len(one)] = np.einsum("hpq,h,q->p", tensor, w, other)
            alpha[z, : len(other)] = np.einsum("hpq,h,p->q", tensor, w, one)
            rules[at] += np.einsum("hpq,h,p,q->hpq", tensor, w, one, other).ravel()
    return ByNode(beta, alpha, rules)


def assert_like_node_by_node(shard: SortedTrees, parameters: LatentParameters) -> None:
    expected = node_by_node(shard, parameters)
    beta, alpha, *_ = inside_outside_vectors(shard, parameters)
    found = ExpectedCounts.of(shard, parameters).rules
    for x, a in enumerate(shard.label.tolist()):
        m = int(parameters.n_states[a])
        np.testing.assert_allclose(beta[x, :m], expected.beta[x, :m], rtol=CLOSE)
        np.testing.assert_allclose(alpha[x, :m], expected.alpha[x, :m], rtol=CLOSE)
    np.testing.assert_allclose(found, expected.rules, rtol=CLOSE, atol=1e-300)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.lists(st.integers(1, 9), min_size=1))
def test_any_forest(seed: int, n_trees: int, n_states: list[int]) -> None:
    at = forest(seed, n_trees, n_states)
    assert_like_node_by_node(at.shard, at.parameters)


LARGE = ([3, 130, 2], [2, 2, 256, 1], [1, 128, 3])


@pytest.mark.parametrize(
    "n_states",
    [
        *([1], [4], [16], [17, 16], [33, 20, 1, 6]),
        *(pytest.param(n_states, marks=pytest.mark.compiled) for n_states in LARGE),
    ],
    ids=str,
)
def test_states_that_do_not_fill_blocks_and_tiles(n_states: list[int]) -> None:
    at = forest(1, 12, n_states)
    assert_like_node_by_node(at.shard, at.parameters)


def test_large_and_small_groups_of_one_rule() -> None:
    """Groups of 1 node, of part of a block, and of more than a chunk are all there."""
    at = forest(2, 400, [3, 5, 2])
    sizes = np.diff(at.shard.up.starts)
    assert {1, 2, 3, 4, 5} <= set(sizes.tolist())
    assert sizes.max() > 64
    assert np.diff(at.shard.by_rule.starts).max() > 64
    assert_like_node_by_node(at.shard, at.parameters)


def test_rules_that_a_shard_lacks_count_nothing() -> None:
    at = forest(3, 6, [3, 2])
    shards = training_trees(shards_of(at.bank, 6)).shards.items
    lacking = [shard for shard in shards if (np.diff(shard.by_rule.starts) == 0).any()]
    assert lacking
    for shard in lacking:
        assert_like_node_by_node(shard, at.parameters)


@pytest.mark.parametrize("order", ["up", "down"])
def test_groups_have_one_rule_and_one_level(order: str) -> None:
    """And no node of a group lies below another: their vectors can be found at once."""
    at = forest(4, 50, [1])
    groups, t = getattr(at.shard, order), at.shard
    assert sorted(groups.nodes.tolist()) == np.flatnonzero(t.pair < 0).tolist()
    done = set(t.leaves.tolist() if order == "up" else t.roots.tolist())
    for first, last in pairwise(groups.starts.tolist()):
        nodes = groups.nodes[first:last].tolist()
        assert len({int(t.rule[x]) for x in nodes}) == 1
        kids = {int(y) for x in nodes for y in (t.left[x], t.right[x])}
        assert (kids if order == "up" else set(nodes)) <= done
        done |= set(nodes) if order == "up" else kids


def test_too_many_states_are_refused() -> None:
    at = forest(5, 2, [1])
    many = replace(at.parameters, n_states=at.parameters.n_states + kernel.MAX_STATES)
    with pytest.raises(SapwoodError, match="257"):
        inside_outside_vectors(at.shard, many)


def groups_across_levels(at: Case, patch: pytest.MonkeyPatch) -> None:
    """One group a rule, whatever the heights: parents are done before their children."""
    at.shard.up = at.shard.by_rule
    at.parameters = smooth_states(
        at.parameters, 0.5, 0.5
    )  # vectors left in memory must not be right


def last_block_left_out(at: Case, patch: pytest.MonkeyPatch) -> None:
    starts = at.shard.down.starts
    starts[1:] -= np.diff(starts) % 4


def first_of_each_block_for_all(at: Case, patch: pytest.MonkeyPatch) -> None:
    nodes, starts = at.shard.by_rule
    place = np.arange(len(nodes)) - np.repeat(starts[:-1], np.diff(starts))
    nodes[:] = nodes[np.arange(len(nodes)) - place % 4]


@pytest.mark.parametrize(
    "mutate",
    [groups_across_levels, last_block_left_out, first_of_each_block_for_all],
    ids=lambda mutate: mutate.__name__,
)
def test_mutants_of_grouping_are_rejected(mutate: object, monkeypatch: pytest.MonkeyPatch) -> None:
    at = forest(6, 80, [3, 5, 2])
    assert_like_node_by_node(at.shard, at.parameters)
    mutate(at, monkeypatch)  # type: ignore[operator]
    with np.errstate(all="ignore"), pytest.raises(AssertionError):
        assert_like_node_by_node(at.shard, at.parameters)


# -- mutants ----------------------------------------------------------------------------------


def children_in_the_wrong_order(at: Case, patch: pytest.MonkeyPatch) -> None:
    at.shard.left, at.shard.right = at.shard.right, at.shard.left


def outside_without_the_sister(at: Case, patch: pytest.MonkeyPatch) -> None:
    right = kernel.outside

    def outside(*given: Array) -> None:
        *rest, beta, down, alpha = given
        right(*rest, np.ones_like(beta), down, alpha)

    patch.setattr(kernel, "outside", outside)


def sums_without_the_scale(at: Case, patch: pytest.MonkeyPatch) -> None:
    right = kernel.rule_counts

    def rule_counts(*given: Array) -> None:
        *rest, beta, down, alpha, counts = given
        right(*rest, beta, np.ones_like(down), alpha, counts)

    patch.setattr(kernel, "rule_counts", rule_counts)


def last_node_left_out(at: Case, patch: pytest.MonkeyPatch) -> None:
    at.shard.by_rule.starts[-1] -= 1


def leaves_without_their_outside(at: Case, patch: pytest.MonkeyPatch) -> None:
    right = kernel.leaf_sums

    def leaf_sums(*given: Array) -> None:
        *rest, beta, alpha, sums = given
        right(*rest, beta, np.ones_like(alpha), sums)

    patch.setattr(kernel, "leaf_sums", leaf_sums)


MUTANTS = (
    children_in_the_wrong_order, outside_without_the_sister, sums_without_the_scale,
    last_node_left_out, leaves_without_their_outside,
)  # fmt: skip


@pytest.mark.parametrize("mutate", MUTANTS, ids=lambda mutate: mutate.__name__)
def test_mutants_are_rejected(mutate: object, monkeypatch: pytest.MonkeyPatch) -> None:
    at = case(1)
    assert (at.parameters.n_states > 1).sum() > 3  # with one state much is the same
    expected = twin(at)
    mutate(at, monkeypatch)  # type: ignore[operator]
    with pytest.raises(AssertionError):
        assert_same(ExpectedCounts.of(at.shard, at.parameters), expected)


# -- merging and smoothing --------------------------------------------------------------------


def merged(at: Case, x: int, pair: tuple[int, int], share: float) -> float:
    """P(tree of x with two states of x made one) / P(tree), by listing both sides of x.

    The outside gets the sum of both states, the inside their mean.
    """
    p, t = at.parameters, at.shard
    tree = int(np.searchsorted(at.bank.offsets, x, side="right")) - 1
    nodes = list(range(int(at.bank.offsets[tree]), int(at.bank.offsets[tree + 1])))
    below = covered(at, x)
    m = int(p.n_states[t.label[x]])
    inside, outside = np.zeros(m), np.zeros(m)
    for states in all_states(at, below):
        inside[states[x]] += weigh(at, below, states)
    rest = [y for y in nodes if y not in below]
    start = int(p.state_start[t.label[nodes[-1]]])
    for states in all_states(at, [*rest, x]):
        outside[states[x]] += float(p.root[start + states[nodes[-1]]]) * weigh(at, rest, states)
    one, two = pair
    others = [h for h in range(m) if h not in pair]
    kept = float(outside[others] @ inside[others])
    mean = share * inside[one] + (1 - share) * inside[two]
    return (kept + (outside[one] + outside[two]) * mean) / float(outside @ inside)


def losses(at: Case, share: float) -> tuple[list[tuple[int, int, int]], Array]:
    """Loss of every pair of states of every symbol."""
    m = at.parameters.n_states.tolist()
    pairs = [(a, i, j) for a, n in enumerate(m) for i in range(n) for j in range(i + 1, n)]
    start = np.searchsorted([a for a, _, _ in pairs], np.arange(len(m) + 1))
    beta, alpha, *_ = inside_outside_vectors(at.shard, at.parameters)
    found = np.zeros(len(pairs))
    kernel.merge_losses(
        at.shard.label, start, np.array([i for _, i, _ in pairs]),
        np.array([j for *_, j in pairs]), np.full(len(pairs), share), alpha, beta, found,
    )  # fmt: skip
    return pairs, found


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_merge_losses(share: float) -> None:
    at = case(5)
    pairs, found = losses(at, share)
    assert len(pairs) > 3
    for (a, i, j), loss in zip(pairs, found, strict=True):
        nodes = np.flatnonzero(at.shard.label == a).tolist()
        expected = -sum(log(merged(at, x, (i, j), share)) for x in nodes)
        assert loss == pytest.approx(expected, rel=1e-9, abs=CLOSE)


def test_merging_copies_loses_nothing() -> None:
    at = case(0)
    doubled = [np.repeat(np.arange(m), 2) for m in at.parameters.n_states.tolist()]
    at.parameters = copy_states(at.parameters, doubled, None)
    pairs, found = losses(at, 0.5)
    twins = np.array([j == i + 1 and i % 2 == 0 for _, i, j in pairs])
    np.testing.assert_allclose(found[twins], 0.0, rtol=0, atol=CLOSE)
    assert np.abs(found[~twins]).max() > 1e-3  # and other pairs do lose


@pytest.mark.parametrize("amount", [0.0, 0.03, 1.0])
def test_mix_states(amount: float) -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (1, 5), (2, 1), (4, 600), (4, 256), (2, 257)]  # less and more than a tile
    blocks = [rng.random(shape) for shape in shapes]
    flat = np.concatenate([block.ravel() for block in blocks])
    sizes = np.array([m * k for m, k in shapes])
    m, k = np.array(shapes).T.copy()
    state = np.array([0, 3, 4, 0, 0, 4])
    before, after = rng.uniform(0.5, 2.0, (2, 6))
    found = np.full(len(flat), np.nan)
    kernel.mix_states(np.cumsum(sizes) - sizes, state, m, k, before, amount, after, flat, found)
    expected = []
    for block, at, n in zip(blocks, state.tolist(), m.tolist(), strict=True):
        scaled = block / before[at : at + n, None]
        pulled = (1 - amount) * scaled + amount * scaled.mean(axis=0)
        expected.append((pulled / after[at : at + n, None]).ravel())
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=CLOSE)


# -- compilation ------------------------------------------------------------------------------

ONE_SPECIALISATION = """
import sapwood as sw
from sapwood.core.jit import Kernel
from sapwood.constituency.learn.kernels import treebank_em
bank = sw.bundled_treebank("dev")
sw.EMLPCFG(2, iterations=1, n_jobs=2).fit(bank)
sw.EMLPCFG(2, iterations=1, start="matsuzaki").fit(bank[5:90])
sw.ClusterLPCFG(2, iterations=1).fit(bank)
for name, value in vars(treebank_em).items():
    if isinstance(value, Kernel):
        print(name, len(value.signatures))
"""


@pytest.mark.compiled
def test_every_kernel_compiles_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_SPECIALISATION], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert counts.pop("merge_losses") == "0"  # neither estimator merges states
    assert set(counts.values()) == {"1"}, counts
