"""`ClusterLPCFG`: hard states from clusters of projected nodes (Narayan and Cohen 2015).

1. Project every node as spectral learning does: `U' phi` inside, `V' psi` outside.
2. Per label, k-means on the joined vectors gives each node of the treebank a state.
3. Relative frequencies of the refined rules give a proper latent grammar.
4. A few EM iterations refine it, where requested.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from sapwood.constituency.data.treebank import TreebankLike
from sapwood.constituency.learn.em import Stage, em_bytes, em_settings, run_treebank_em
from sapwood.constituency.learn.em_steps import (
    ExpectedCounts,
    LatentParameters,
    TrainingTrees,
    maximise_tree_counts,
    smooth_states,
)
from sapwood.constituency.learn.features import (
    FeatureRows,
    NodeProjection,
    SingularVectors,
    project_nodes,
    projection_bytes,
)
from sapwood.constituency.learn.pcfg import KERNEL_BYTES, OnPlainGrammar, Trainable, dev_trees
from sapwood.constituency.learn.registry import EMParameters
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.arrays import FieldRows, FloatArray, IntArray, group_rows
from sapwood.core.learner import StateParameters

K_MEANS_ROUNDS = 20  # rounds of k-means; states change little after that
SAMPLE = 20_000  # k-means runs on about this many nodes of a label; all nodes are then assigned


class ClusterLPCFG(StateParameters, EMParameters, OnPlainGrammar):
    """Latent-variable PCFG whose states are clusters of tree nodes.

    A label with n nodes gets at most n / 20 states.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : Info
        See `run_treebank_em`.
    """

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the bytes of the projection of all nodes and of EM."""
        projection, em = projection_bytes(data, self.n_states), em_bytes(data, self.n_states)
        return projection + em - KERNEL_BYTES

    def fit(self, bank: Trainable, held: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank.

        Parameters
        ----------
        held
            Held-out trees, which choose the EM iteration with the highest F1.
        """
        data = self._prepare(bank)
        projection = project_nodes(data, self.n_states, seed=self.seed)  # step 1
        trees = TrainingTrees(data)
        layout = layout_of(trees, np.minimum(trees.limit, self.n_states))
        centres = find_centres(data, projection, layout.n_states, self.seed)  # step 2
        counts = count_states(data, projection, layout, centres)  # step 3
        start = smooth_states(
            maximise_tree_counts(layout, counts), self.rule_smoothing, self.word_smoothing
        )
        stages = [Stage("none", self.n_states, self.iterations)] if self.iterations else []
        record = {"method": "cluster", "n_states": self.n_states, "seed": self.seed, **data.sizes}
        self.model_, self.info_ = run_treebank_em(  # step 4
            data, start, stages, em_settings(self, self.seed), dev_trees(held), record
        )
        return self


def layout_of(trees: TrainingTrees, m: IntArray) -> LatentParameters:
    """Return the layout of the counts for given numbers of states, without any counts."""
    none, rules = np.empty(0), trees.inventory.rules.astype(np.int64)
    return LatentParameters(m, rules, trees.symbol_of_pair, none, none, none)


def points(rows: FeatureRows, vectors: SingularVectors) -> FloatArray:
    """Return the unit inside and outside vectors of every node, joined: [n_nodes, 2 m]."""
    whole = vectors._replace(m=np.full_like(vectors.m, vectors.U.shape[1]))
    sides = []
    for side in whole.vectors(rows):
        length = np.linalg.norm(side, axis=1, keepdims=True)
        sides.append(side / np.where(length > 0, length, 1.0))
    return np.hstack(sides)


@dataclass(frozen=True, eq=False)
class NodeSample(FieldRows):
    """Labels and joined vectors of sampled nodes; `+` appends the nodes of the next shard."""

    label: IntArray  # [n]
    rows: FloatArray  # [n, 2 m]

    @classmethod
    def of(cls, rows: FeatureRows, vectors: SingularVectors, stride: IntArray) -> NodeSample:
        """Sample every stride-th node of each label; labels with stride 0 are skipped."""
        groups = group_rows(rows.label, len(stride))
        some = [at[::n] for at, n in zip(groups, stride.tolist(), strict=True) if n]
        at = np.sort(np.concatenate([np.empty(0, np.int64), *some]))
        return cls(rows.label[at], points(rows, vectors)[at])


def find_centres(
    data: TrainingData, projection: NodeProjection, m: IntArray, seed: int
) -> list[FloatArray]:
    """Return the cluster centres of each label, by k-means on a sample of its nodes.

    Every label has its own random generator, so that labels can be clustered in parallel.
    """
    count = data.counts.symbols.astype(np.int64)
    stride = np.where(m > 1, -(-count // SAMPLE), 0)
    sample = data.engine.total(NodeSample.of, projection.features.rows, projection.vectors, stride)
    groups = group_rows(sample.label, len(m))
    tasks = ((a, int(m[a]), sample.rows[rows]) for a, rows in enumerate(groups))
    return list(data.engine.stream(_k_means, tasks, seed))


def _k_means(task: tuple[int, int, FloatArray], seed: int) -> FloatArray:
    """Return the centres of the k clusters of one label, [k, dim]; no rows if k is 1."""
    from scipy.cluster.vq import kmeans2

    label, k, rows = task
    if k == 1:
        return rows[:0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster only means one state fewer
        rng = np.random.default_rng([seed, label])
        return np.asarray(kmeans2(rows, k, iter=K_MEANS_ROUNDS, minit="++", seed=rng)[0])


def count_states(
    data: TrainingData,
    projection: NodeProjection,
    layout: LatentParameters,
    centres: list[FloatArray],
) -> ExpectedCounts:
    """Count rules, words and roots with every node in the state of its nearest cluster centre."""
    sizes = len(data.inventory.phrases), len(data.inventory.words)
    return data.engine.total(
        cluster_counts, projection.features.rows, projection.vectors, centres, layout,
        data.counts.pairs, *sizes,
    )  # fmt: skip


def cluster_counts(
    rows: FeatureRows,
    vectors: SingularVectors,
    centres: Sequence[FloatArray],
    layout: LatentParameters,
    pairs: IntArray,
    n_phrases: int,
    n_words: int,
) -> ExpectedCounts:
    """Return the counts of one shard, with each node in the state of its nearest cluster centre."""
    from scipy.cluster.vq import vq

    point, states = points(rows, vectors), np.zeros(len(rows.label), np.int64)
    for at, centre in zip(group_rows(rows.label, len(centres)), centres, strict=True):
        if len(centre) and len(at):
            states[at] = vq(point[at], centre)[0]
    return hard_counts(rows, states, layout, rows.pairs(pairs, n_phrases, n_words))


def hard_counts(
    rows: FeatureRows, states: IntArray, layout: LatentParameters, pair: IntArray
) -> ExpectedCounts:
    """Return the counts of one shard whose nodes have known states."""
    m = layout.n_states
    _, b, c = layout.symbols_of[rows.rule].T
    inner = (states[rows.parent] * m[b] + states[rows.left]) * m[c] + states[rows.right]
    places = (
        (layout.rule_start, layout.rule_start[rows.rule] + inner),
        (layout.word_start, layout.word_start[pair] + states[rows.leaf]),
        (layout.state_start, layout.state_start[rows.label[rows.roots]] + states[rows.roots]),
    )
    rules, words, root = (
        np.bincount(at, minlength=int(start[-1])).astype(float) for start, at in places
    )
    return ExpectedCounts(rules, words, root, log_likelihood=0.0)
