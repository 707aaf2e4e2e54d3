"""`ClusterLPCFG`: hard states from clusters of projected nodes (Narayan and Cohen 2015).

1. Project every node as spectral learning does: `U' phi` inside, `V' psi` outside.
2. Per label, k-means on the joined vectors gives each node of the treebank a state.
3. Relative frequencies of the refined rules give a proper latent grammar.
4. A few EM iterations refine it, if wanted.
"""

from __future__ import annotations

import warnings
from typing import Self

import numpy as np

from sapwood.constituency.data.treebank import TreebankLike
from sapwood.constituency.learn.cluster_moments import NodeSample, cluster_counts
from sapwood.constituency.learn.em_steps import Stage, TrainingTrees, run_treebank_em
from sapwood.constituency.learn.expected_counts import ExpectedCounts
from sapwood.constituency.learn.latent_parameters import LatentParameters, maximise, smooth
from sapwood.constituency.learn.pcfg import Trainable, TrainingData
from sapwood.constituency.learn.spectral import Projection, project
from sapwood.constituency.learn.treebank_learner import (
    OnPlainGrammar,
    TreebankEstimator,
    WithEM,
    dev_trees,
)
from sapwood.core.arrays import FloatArray, IntArray, group_rows
from sapwood.core.learner import WithStates

N_ROUNDS = 20  # of k-means: states change little behind that
SAMPLE = 20_000  # nodes of a label, about, that place its centres; all nodes are then assigned


class ClusterLPCFG(WithStates, WithEM, OnPlainGrammar, TreebankEstimator):
    """Latent-variable PCFG whose states are clusters of tree nodes.

    A label with n nodes gets at most n / 20 states.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : Info
        See `run_treebank_em`.
    """

    def memory_needed(self, data: TrainingData) -> float:
        """Bytes that learning takes at most, about, besides the packed trees."""
        from sapwood.constituency.learn import memory as tree_memory

        return tree_memory.projected_em_bytes(data, self.n_states)

    def fit(self, bank: Trainable, held: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank.

        Parameters
        ----------
        held
            Trees apart from the treebank; the EM iteration that parses them best is kept.
        """
        data = self._prepare(bank)
        projection = project(data, self.n_states, seed=self.seed)  # step 1
        trees = TrainingTrees(data)
        layout = layout_of(trees, np.minimum(trees.limit, self.n_states))
        centres = find_centres(data, projection, layout.n_states, self.seed)  # step 2
        counts = count_states(data, projection, layout, centres)  # step 3
        start = smooth(maximise(layout, counts), self.rule_smoothing, self.word_smoothing)
        settings = self.em_settings(self.seed)
        stages = [Stage("none", self.n_states, self.iterations)] if self.iterations else []
        record = {"method": "cluster", "n_states": self.n_states, "seed": self.seed, **data.sizes}
        self.model_, self.info_ = run_treebank_em(  # step 4
            data, start, stages, settings, dev_trees(held), record
        )
        return self


def layout_of(trees: TrainingTrees, m: IntArray) -> LatentParameters:
    """Where counts of so many states of each symbol have their places; without numbers."""
    none, rules = np.empty(0), trees.inventory.rules.astype(np.int64)
    return LatentParameters(m, rules, trees.symbol_of_pair, none, none, none)


def find_centres(
    data: TrainingData, projection: Projection, m: IntArray, seed: int
) -> list[FloatArray]:
    """The centres of each label's clusters: k-means on a sample of its nodes.

    Every label has a random source of its own, so that labels do not wait for each other.
    """
    count = data.counts.symbols.astype(np.int64)
    stride = np.where(m > 1, -(-count // SAMPLE), 0)
    sample = data.engine.total(NodeSample.of, projection.features.rows, projection.vectors, stride)
    groups = group_rows(sample.label, len(m))
    tasks = ((a, int(m[a]), sample.rows[rows]) for a, rows in enumerate(groups))
    return list(data.engine.stream(_k_means, tasks, seed))


def _k_means(task: tuple[int, int, FloatArray], seed: int) -> FloatArray:
    """Centres of the k clusters of one label's rows, [k, dim]; none for a label with one state."""
    from scipy.cluster.vq import kmeans2

    label, k, rows = task
    if k == 1:
        return rows[:0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is a state less, nothing worse
        rng = np.random.default_rng([seed, label])
        return np.asarray(kmeans2(rows, k, iter=N_ROUNDS, minit="++", seed=rng)[0])


def count_states(
    data: TrainingData, projection: Projection, layout: LatentParameters, centres: list[FloatArray]
) -> ExpectedCounts:
    """Counts of trees whose nodes have the state of the nearest centre."""
    sizes = len(data.inventory.phrases), len(data.inventory.words)
    return data.engine.total(
        cluster_counts, projection.features.rows, projection.vectors, centres, layout,
        data.counts.pairs, *sizes,
    )  # fmt: skip
