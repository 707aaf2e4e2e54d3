"""`ClusterLPCFG`: hard states from clusters of projected nodes (Narayan and Cohen 2015).

1. Project every node as spectral learning does: `U' phi` inside, `V' psi` outside.
2. Per label, k-means on the joined vectors gives each node of the treebank a state.
3. Relative frequencies of the refined rules give a proper latent grammar.
4. A few EM iterations refine it, if wanted.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from sapwood.arrays import group_rows
from sapwood.corpus.tree import Tree
from sapwood.corpus.treebank import Treebank, TreebankLike, as_treebank
from sapwood.estimators.base import TreebankEstimator, dev_trees
from sapwood.estimators.em import refined
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.shared_parameters import OnPlainGrammar, WithEM, WithStates
from sapwood.estimators.spectral import Projection, SpectralLPCFG
from sapwood.estimators.training_trees import NODES_PER_STATE, TrainingTrees
from sapwood.features.nodes import NodeTable
from sapwood.models.latent_parameters import LatentParameters

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
N_ROUNDS = 20  # of k-means: states change little behind that
SAMPLE = 20_000  # nodes of a label that place its centres; all nodes are then assigned


class ClusterLPCFG(WithStates, WithEM, OnPlainGrammar, TreebankEstimator):
    """Latent-variable PCFG whose states are clusters of tree nodes.

    A label with n nodes gets at most n / 20 states.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : EMInfo
    """

    def fit(self, bank: TreebankLike, dev: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank.

        Parameters
        ----------
        dev
            Trees apart from the treebank; the EM iteration that parses them best is kept.
        """
        self._check_parameters()
        bank, dev = as_treebank(bank), dev_trees(dev)
        spectral = SpectralLPCFG(
            self.n_states, plain=self.plain, seed=self.seed, n_jobs=self.n_jobs
        )
        projection = spectral.project(bank)
        trees = TrainingTrees(projection.bank)
        m = np.minimum(np.maximum(1, projection.count // NODES_PER_STATE), self.n_states)
        states = cluster_nodes(projection, m.astype(np.int64), np.random.default_rng(self.seed))
        start = counted(projection.bank, trees, states, m.astype(np.int64))
        start = start.smoothed(self.rule_smoothing, self.word_smoothing)
        self._finish(projection.plain, trees, start, dev)
        return self

    def _finish(
        self,
        plain: PCFG,
        trees: TrainingTrees,
        start: LatentParameters,
        dev: Sequence[Tree] | None,
    ) -> None:
        record = {
            "method": "cluster", "n_states": self.n_states, "trees": trees.bank.n_trees,
            "tokens": trees.bank.n_tokens, "seed": self.seed,
        }  # fmt: skip
        self.model_, self.info_ = refined(self, plain, trees, start, record, dev)


def cluster_nodes(projection: Projection, m: IntArray, rng: np.random.Generator) -> IntArray:
    """A state for every node: k-means per label on the directions of its two vectors."""
    label = projection.bank.label.astype(np.int64)
    joined = np.hstack([_unit(projection.nodes.Y), _unit(projection.nodes.Z)])
    states = np.zeros(len(label), np.int64)
    for a, rows in enumerate(group_rows(label, len(m))):
        if m[a] > 1:
            states[rows] = _k_means(joined[rows], int(m[a]), rng)
    return states


def _unit(rows: FloatArray) -> FloatArray:
    """Rows of length 1: k-means then compares directions."""
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(length > 0, length, 1.0))


def _k_means(rows: FloatArray, k: int, rng: np.random.Generator) -> IntArray:
    from scipy.cluster.vq import kmeans2, vq

    sample = rows if len(rows) <= SAMPLE else rows[rng.choice(len(rows), SAMPLE, replace=False)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is a state less, nothing worse
        centres, _ = kmeans2(sample, k, iter=N_ROUNDS, minit="++", seed=rng)
    return np.asarray(vq(rows, centres)[0], dtype=np.int64)


def counted(
    bank: Treebank, trees: TrainingTrees, states: IntArray, m: IntArray
) -> LatentParameters:
    """Relative frequencies of trees whose nodes have known states."""
    table = NodeTable(bank)
    rules, n_phrases = bank.inventory.rules.astype(np.int64), len(bank.inventory.phrases)
    empty = LatentParameters(
        m, rules, trees.symbol_of_pair, np.zeros(int(m.sum())), np.empty(0), np.empty(0)
    )
    x = np.flatnonzero(table.rule >= 0)
    a, b, c = rules[table.rule[x]].T
    del a
    inner = (states[x] * m[b] + states[table.left[x]]) * m[c] + states[table.right[x]]
    at = empty.rule_start[table.rule[x]] + inner
    rule_counts = np.bincount(at, minlength=int(empty.rule_start[-1])).astype(float)
    leaf = np.flatnonzero(table.word >= 0)
    codes = (table.label[leaf] - n_phrases) * len(bank.inventory.words) + table.word[leaf]
    pair = np.searchsorted(trees.pairs, codes)
    at = empty.word_start[pair] + states[leaf]
    word_counts = np.bincount(at, minlength=int(empty.word_start[-1])).astype(float)
    top = bank.offsets[1:] - 1
    at = empty.state_start[table.label[top]] + states[top]
    root = np.bincount(at, minlength=int(empty.state_start[-1])).astype(float)
    return LatentParameters(
        m, rules, trees.symbol_of_pair, root, rule_counts, word_counts
    ).normalised()
