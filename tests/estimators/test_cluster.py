"""States from clusters of projected nodes, on the bundled treebank."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood as sw
from sapwood.corpus.treebank import Treebank
from sapwood.errors import SapwoodError
from sapwood.estimators.cluster import ClusterLPCFG, cluster_nodes, counted
from sapwood.estimators.spectral import SpectralLPCFG
from sapwood.estimators.training_trees import NODES_PER_STATE, TrainingTrees
from sapwood.features.nodes import NodeTable
from sapwood.models.invariants import state_sums
from sapwood.models.latent_grammar import LatentGrammar
from sapwood.models.sampling import sample_trees
from sapwood.moments.projected import ProjectedNodes

ARRAYS = ("n_states", "root", "rules", "rule_weights")


@pytest.fixture(scope="module")
def train() -> Treebank:
    return sw.bundled_treebank("train")


@pytest.fixture(scope="module")
def dev() -> Treebank:
    return sw.bundled_treebank("dev")


@pytest.fixture(scope="module")
def learner(train: Treebank) -> ClusterLPCFG:
    return ClusterLPCFG(8).fit(train)


def f1(model: LatentGrammar, dev: Treebank) -> float:
    sentences = [dev.words(index) for index in range(dev.n_trees)]
    parses = sw.Parser(model).parse_many(sentences, jobs=2)
    return sw.evaluate.bracketing(list(dev.trees()), [parse.tree for parse in parses]).f1


def is_same(one: LatentGrammar, other: LatentGrammar) -> bool:
    """Equal to the last bit."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in ARRAYS]
    pairs += [(one.lexicon.weights, other.lexicon.weights)]
    return all(np.array_equal(a, b) for a, b in pairs)


# -- counts of known states -------------------------------------------------------------------


def known() -> tuple[Treebank, np.ndarray, np.ndarray]:
    """A treebank, states of its nodes, and the number of states of each symbol."""
    texts = ("(S (A x) (S (B y) (A x)))", "(S (A y) (S (A x) (B y)))", "(S (B y) (A x))")
    bank = Treebank.from_trees([sw.Tree.parse(text) for text in texts * 20])
    m = np.arange(len(bank.inventory.symbols)) % 2 + 2
    states = np.random.default_rng(0).integers(0, 1000, len(bank.label)) % m[bank.label]
    return bank, states, m


def counts_by_hand(bank: Treebank, states: np.ndarray) -> Counter[tuple[Any, ...]]:
    """How often each symbol and state became what; one node after the other."""
    table, found = NodeTable(bank), Counter[tuple[Any, ...]]()
    for x, a in enumerate(table.label.tolist()):
        h = int(states[x])
        if table.word[x] >= 0:
            became: tuple[Any, ...] = (int(table.word[x]),)
        else:
            y, z = int(table.left[x]), int(table.right[x])
            became = (int(table.rule[x]), int(states[y]), int(states[z]))
        found["all", a, h] += 1
        found["became", a, h, *became] += 1
        if table.parent[x] < 0:
            found["root", a, h] += 1
    return found


def test_counts_of_known_states() -> None:
    bank, states, m = known()
    trees = TrainingTrees(bank, 1)
    found, hand = counted(bank, trees, states, m), counts_by_hand(bank, states)
    assert found.n_states.tolist() == m.tolist()
    for r, (a, b, c) in enumerate(found.symbols_of.tolist()):
        tensor = found.rules[found.rule_start[r] : found.rule_start[r + 1]].reshape(m[[a, b, c]])
        for (h, p, q), value in np.ndenumerate(tensor):
            expected = hand["became", a, h, r, p, q] / hand["all", a, h]
            assert value == pytest.approx(expected, rel=1e-14)  # one division
    n_words = len(bank.inventory.words)
    for pair, a in enumerate(found.symbol_of_pair.tolist()):
        word = int(trees.pairs[pair]) % n_words
        vector = found.words[found.word_start[pair] : found.word_start[pair + 1]]
        for h, value in enumerate(vector.tolist()):
            expected = hand["became", a, h, word] / hand["all", a, h]
            assert value == pytest.approx(expected, rel=1e-14)
    for a in range(len(m)):
        vector = found.root[found.state_start[a] : found.state_start[a + 1]]
        assert vector.tolist() == [hand["root", a, h] / bank.n_trees for h in range(m[a])]


def test_states_of_other_nodes_give_other_counts() -> None:
    """The mutant is one node late."""
    bank, states, m = known()
    trees = TrainingTrees(bank, 1)
    late = np.roll(states, 1) % m[bank.label]
    right, wrong = (counted(bank, trees, s, m) for s in (states, late))
    assert np.abs(right.rules - wrong.rules).max() > 0.01


# -- clusters ---------------------------------------------------------------------------------


def test_nodes_of_a_cluster_lie_nearer_to_each_other(dev: Treebank) -> None:
    projection = SpectralLPCFG(4).project(dev)
    m = np.minimum(np.maximum(1, projection.count // NODES_PER_STATE), 4).astype(np.int64)
    states = cluster_nodes(projection, m, np.random.default_rng(0))
    assert (states < m[dev.label]).all()
    again = cluster_nodes(projection, m, np.random.default_rng(0))
    assert np.array_equal(states, again)
    rows = np.hstack([projection.nodes.Y, projection.nodes.Z])
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    a = int(np.argmax(np.bincount(dev.label)))
    mine, cluster = rows[dev.label == a], states[dev.label == a]
    whole = spread(mine, np.zeros_like(cluster))
    assert spread(mine, cluster) < 0.6 * whole  # measured: 0.43
    mutant = np.random.default_rng(1).permutation(cluster)
    assert spread(mine, mutant) > 0.95 * whole


def test_only_the_directions_of_vectors_count(dev: Treebank) -> None:
    projection = SpectralLPCFG(3).project(dev[:100])
    m = np.minimum(np.maximum(1, projection.count // NODES_PER_STATE), 3).astype(np.int64)
    states = cluster_nodes(projection, m, np.random.default_rng(0))
    assert states.any()
    rng, nodes = np.random.default_rng(1), projection.nodes
    longer = [2.0 ** rng.integers(-3, 4, (len(states), 1)) for _ in range(2)]  # exact in binary
    scaled = ProjectedNodes(nodes.Y * longer[0], nodes.Z * longer[1])
    again = cluster_nodes(replace(projection, nodes=scaled), m, np.random.default_rng(0))
    np.testing.assert_array_equal(again, states)


def spread(rows: np.ndarray, cluster: np.ndarray) -> float:
    """Squared distances of rows from the mean of their cluster."""
    parts = [rows[cluster == h] for h in np.unique(cluster)]
    return sum(float(((part - part.mean(axis=0)) ** 2).sum()) for part in parts)


def test_clusters_help_and_em_helps_them(
    train: Treebank, dev: Treebank, learner: ClusterLPCFG
) -> None:
    """Measured: plain 90.5, counts only 93.9, with 10 iterations of EM 95.0."""
    plain = f1(sw.PCFG().fit(train).model_, dev)
    counts_only = f1(learner.model_, dev)
    refined = ClusterLPCFG(8, iterations=10).fit(train)
    assert plain + 2 < counts_only < f1(refined.model_, dev)
    rises = np.diff(refined.info_.log_likelihoods)
    assert (rises > 0).sum() >= 7  # smoothing works against the last ones


def test_plain_em_from_clusters_never_lowers_the_likelihood(dev: Treebank) -> None:
    em = ClusterLPCFG(4, iterations=8, rule_smoothing=0.0, word_smoothing=0.0).fit(dev)
    likelihoods = np.array(em.info_.log_likelihoods)
    assert len(likelihoods) == 8
    assert (np.diff(likelihoods) >= -1e-10 * np.abs(likelihoods[1:])).all()  # rounding


# -- the model --------------------------------------------------------------------------------


@pytest.mark.parametrize("iterations", [0, 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.05])
def test_the_model_is_a_distribution(iterations: int, smoothing: float, dev: Treebank) -> None:
    estimator = ClusterLPCFG(
        4, iterations=iterations, rule_smoothing=smoothing, word_smoothing=smoothing
    ).fit(dev)
    model = estimator.model_
    assert model.is_probabilistic
    sums = state_sums(model)
    used = sums > 0  # without smoothing an empty cluster is a state that is never used
    np.testing.assert_allclose(sums[used], 1.0, rtol=1e-9)
    assert np.isfinite(model.log_probs(dev)).all()
    assert len(sample_trees(model, 20, np.random.default_rng(0))) == 20


def test_labels_get_no_more_states_than_their_counts_allow(
    train: Treebank, learner: ClusterLPCFG
) -> None:
    count = np.bincount(train.label, minlength=learner.model_.n_symbols)
    allowed = np.minimum(8, np.maximum(1, count // NODES_PER_STATE))
    assert learner.model_.n_states.tolist() == allowed.tolist()


def test_a_model_survives_a_file(tmp_path: Path, dev: Treebank, learner: ClusterLPCFG) -> None:
    path = tmp_path / "cluster.sapwood"
    learner.model_.save(path)
    again = sw.load(path)
    assert is_same(again, learner.model_)
    assert (again.log_probs(dev) == learner.model_.log_probs(dev)).all()


@pytest.mark.parametrize("iterations", [0, 2])
def test_a_seed_decides_every_bit(iterations: int, dev: Treebank) -> None:
    one, again, other = (
        ClusterLPCFG(4, iterations=iterations, seed=seed).fit(dev).model_ for seed in (0, 0, 1)
    )
    assert is_same(one, again)
    assert not is_same(one, other)


def test_jobs_do_not_matter(dev: Treebank) -> None:
    one, two = (ClusterLPCFG(4, iterations=3, n_jobs=jobs).fit(dev) for jobs in (1, 2))
    # the projection is the same to the bit, and EM adds in another order
    np.testing.assert_allclose(one.info_.log_likelihoods, two.info_.log_likelihoods, rtol=1e-9)


@pytest.mark.parametrize("n_trees", [1, 3, 40])
def test_small_treebanks(n_trees: int, dev: Treebank) -> None:
    bank = Treebank.from_trees(list(dev.trees())[:n_trees])
    model = ClusterLPCFG(4, iterations=1).fit(bank).model_
    assert np.isfinite(model.log_probs(bank)).all()


def test_one_word_trees() -> None:
    trees = [sw.Tree.parse(text) for text in ("(INTJ (UH oh))", "(INTJ (UH ah))", "(X (Y z))")]
    model = ClusterLPCFG(2).fit(Treebank.from_trees(trees * 30)).model_
    assert str(sw.Parser(model).parse(["oh"]).tree) == "(TOP (INTJ (UH oh)))"


def test_a_part_of_a_treebank(train: Treebank) -> None:
    part = train[1000:1300]
    model = ClusterLPCFG(4).fit(part).model_
    assert len(model.rules) < len(part.inventory.rules)
    assert np.isfinite(model.log_probs(part)).all()


@pytest.mark.parametrize("iterations", [0, 2])
def test_what_was_done_is_told(iterations: int, dev: Treebank) -> None:
    estimator = ClusterLPCFG(2, iterations=iterations).fit(dev)
    record = estimator.model_.record
    assert (record["method"], record["n_states"]) == ("cluster", 2)
    assert record["iterations"] == estimator.info_.iterations == iterations


@pytest.mark.parametrize(
    "wrong",
    [{"n_states": 0}, {"n_states": 1000}, {"iterations": -1}, {"iterations": 0.5},
     {"rule_smoothing": 1.0}, {"word_smoothing": -1.0}, {"plain": "pcfg"}],
    ids=str,
)  # fmt: skip
def test_parameters_are_checked(wrong: dict[str, Any], dev: Treebank) -> None:
    with pytest.raises(SapwoodError, match=f"{next(iter(wrong))} must be"):
        ClusterLPCFG(**wrong).fit(dev)


def test_only_treebanks_are_fitted() -> None:
    with pytest.raises(SapwoodError, match=r"\(S x\): no such file"):
        ClusterLPCFG().fit(["(S x)"])  # type: ignore[arg-type]
