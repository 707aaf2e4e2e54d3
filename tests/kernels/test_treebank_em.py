"""EM's kernels against twins that list the hidden states of small trees one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from itertools import product
from math import log

import numpy as np
import pytest
from numba import config

from sapwood.corpus.tree import Tree
from sapwood.corpus.treebank import Treebank
from sapwood.estimators.em import TrainingTrees
from sapwood.kernels import treebank_em as kernel
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import ExpectedCounts, TreeShard, vectors

# Sums of at most 3**9 products of at most 19 positive factors: no cancellation, little rounding.
CLOSE = 1e-11
TREES = (
    "(S (A x) (B y))",
    "(S (S (A x) (A y)) (B x))",
    "(S (A x) (S (B y) (S (A y) (B z))))",
    "(Q (S (B z) (A x)) (S (A z) (B y)))",
    "(S (S (S (A x) (A y)) (B x)) (S (A z) (B y)))",
    "(Q (S (A x) (B y)) (A z))",
    "(S (A x) (B y))",
    "(I (U z))",  # a root that is a tag
)
Array = np.ndarray


@dataclass
class Case:
    """Trees with random probabilities on them."""

    bank: Treebank
    trees: TrainingTrees
    parameters: LatentParameters

    @property
    def shard(self) -> TreeShard:
        return self.trees.shards[0]


def case(seed: int, *, zeros: float = 0.0) -> Case:
    """1 to 3 states a symbol; a share `zeros` of all numbers is 0, but never a whole vector."""
    rng = np.random.default_rng(seed)
    bank = Treebank.from_trees([Tree.parse(text) for text in TREES])
    trees = TrainingTrees(bank, 1)
    plain = trees.plain_parameters()
    states = [np.zeros(m, np.int64) for m in rng.integers(1, 4, len(plain.n_states))]
    copied = plain.restated(states, None)

    def shaken(numbers: Array) -> Array:
        kept = rng.random(len(numbers)) >= zeros
        return numbers * rng.uniform(0.1, 1.0, len(numbers)) * np.where(kept, 1.0, 0.0)

    words = shaken(copied.words)
    words[copied.word_start[:-1]] += 0.01
    rules = shaken(copied.rules)
    rules[copied.rule_start[:-1]] += 0.01
    root = shaken(copied.root)
    root[copied.state_start[:-1]] += 0.01
    return Case(bank, trees, replace(copied, root=root, rules=rules, words=words).normalised())


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
    np.testing.assert_allclose(per_pair, at.trees.pair_count, rtol=CLOSE)
    assert found.root.sum() == pytest.approx(at.bank.n_trees, rel=CLOSE)


@pytest.mark.parametrize("n_shards", [2, 3, 8])
def test_shards_add_up(n_shards: int) -> None:
    at = case(1)
    whole = ExpectedCounts.of(at.shard, at.parameters)
    parts = TrainingTrees(at.bank, n_shards)
    assert 1 < len(parts.shards) <= n_shards
    for jobs in (1, 2):
        total = parts.expect(at.parameters, jobs)
        for name in ("rules", "words", "root", "log_likelihood"):
            np.testing.assert_allclose(
                getattr(total, name), getattr(whole, name), rtol=CLOSE, atol=CLOSE
            )


# -- vectors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_alpha_times_beta_is_the_posterior_of_the_states(seed: int) -> None:
    at = case(seed, zeros=0.2)
    beta, alpha, down, _, _ = vectors(at.shard, at.parameters)
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
    beta, _, down, _, _ = vectors(at.shard, at.parameters)
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
    trees = TrainingTrees(bank, 1)
    plain = trees.plain_parameters()
    parameters = plain.restated([np.zeros(4, np.int64)] * len(plain.n_states), rng)
    beta, alpha, _, log_likelihood, _ = vectors(trees.shards[0], parameters)
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
    right = kernel.rule_sums

    def rule_sums(*given: Array) -> None:
        *rest, beta, down, alpha, sums = given
        right(*rest, beta, np.ones_like(down), alpha, sums)

    patch.setattr(kernel, "rule_sums", rule_sums)


def last_node_left_out(at: Case, patch: pytest.MonkeyPatch) -> None:
    at.shard.by_rule = at.shard.by_rule[:-1]


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
    beta, alpha, *_ = vectors(at.shard, at.parameters)
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
    at.parameters = at.parameters.restated(doubled, None)
    pairs, found = losses(at, 0.5)
    twins = np.array([j == i + 1 and i % 2 == 0 for _, i, j in pairs])
    np.testing.assert_allclose(found[twins], 0.0, rtol=0, atol=CLOSE)
    assert np.abs(found[~twins]).max() > 1e-3  # and other pairs do lose


@pytest.mark.parametrize("amount", [0.0, 0.03, 1.0])
def test_smooth_states(amount: float) -> None:
    rng = np.random.default_rng(0)
    shapes = [(3, 4), (1, 5), (2, 1), (4, 6)]
    blocks = [rng.random(shape) for shape in shapes]
    flat = np.concatenate([block.ravel() for block in blocks])
    sizes = np.array([m * k for m, k in shapes])
    m, k = np.array(shapes).T.copy()
    kernel.smooth_states(np.cumsum(sizes) - sizes, m, k, amount, flat)
    expected = [(1 - amount) * block + amount * block.mean(axis=0) for block in blocks]
    np.testing.assert_allclose(
        flat, np.concatenate([block.ravel() for block in expected]), rtol=CLOSE
    )


# -- parameters -------------------------------------------------------------------------------


def test_states_that_copy_states_change_no_probability() -> None:
    at = case(4)
    before = ExpectedCounts.of(at.shard, at.parameters).log_likelihood
    rng = np.random.default_rng(0)
    old = [
        np.concatenate([np.arange(m), rng.integers(0, m, rng.integers(0, 3))])
        for m in at.parameters.n_states.tolist()
    ]
    copied = at.parameters.restated(old, None)
    assert copied.n_states.sum() > at.parameters.n_states.sum()
    after = ExpectedCounts.of(at.shard, copied).log_likelihood
    assert after == pytest.approx(before, rel=1e-13)  # the same sums in another order


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
    np.testing.assert_allclose(total, 1.0, rtol=CLOSE)
    assert p.root.sum() == pytest.approx(1.0, rel=CLOSE)


# -- compilation ------------------------------------------------------------------------------

ONE_SPECIALISATION = """
import sapwood as sw
from numba.core.dispatcher import Dispatcher
from sapwood.kernels import treebank_em
bank = sw.bundled_treebank("dev")
sw.EMLPCFG(2, iterations=1, n_jobs=2).fit(bank)
sw.EMLPCFG(2, iterations=1, start="matsuzaki").fit(bank[5:90])
sw.ClusterLPCFG(2, iterations=1).fit(bank)
for name, value in vars(treebank_em).items():
    if isinstance(value, Dispatcher) and not name.startswith("_"):
        print(name, len(value.signatures))
"""


@pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
def test_every_kernel_compiles_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_SPECIALISATION], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert counts.pop("merge_losses") == "0"  # neither estimator merges states
    assert set(counts.values()) == {"1"}, counts
