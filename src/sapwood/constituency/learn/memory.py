"""How much memory learners of grammars need, estimated before they start.

Estimates are sums over the large arrays: numbers in rule tensors, features of nodes, charts of the
training sentences. The constants are measured: `benchmarks/memory_estimates.py` prints the
estimate and the measured peak of every learner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sapwood.constituency.data.treebank import SHARD_NODES
from sapwood.constituency.learn.em_steps import NODES_PER_STATE
from sapwood.constituency.learn.spectral import states_by_label

if TYPE_CHECKING:
    from sapwood.constituency.learn.pcfg import TrainingData

KERNELS = 150e6  # bytes of Numba, SciPy and compiled kernels
# bytes a node: trees as EM sorts them, and the keys and numbers of its features
SORTED_NODE, FEATURE_NODE = 200, 900
FEATURES = 1.5  # distinct features a node, inside and outside together
COPIES = 8  # of all probabilities that EM holds at once, besides one for each thread
CHART_RULE = 3.2  # bytes a token and rule in the pruned charts of the CRF, with their features
NETWORK, NETWORK_TOKEN = 200e6, 1_000  # bytes of a network and its batches, and a token it reads
RANK = 4  # numbers of factors of a rare rule, for each of its instances and states


def em_bytes(data: TrainingData, n_states: int) -> float:
    """Bytes that EM needs, given the largest number of states of a label."""
    m = np.minimum(n_states, np.maximum(1, data.counts.symbols // NODES_PER_STATE))
    pair_tag = len(data.inventory.phrases) + data.counts.pairs // len(data.inventory.words)
    numbers = float(m[data.inventory.rules.astype(np.int64)].prod(axis=1).sum())
    numbers += float(m[pair_tag].sum())
    copies = COPIES + data.engine.jobs_here
    return KERNELS + SORTED_NODE * _nodes(data) + 8 * copies * numbers


def projection_bytes(data: TrainingData, n_states: int) -> float:
    """Bytes of the features of all nodes and of their singular vectors."""
    features = FEATURES * _nodes(data)
    return KERNELS + FEATURE_NODE * _nodes(data) + 8 * 6 * features * n_states


def spectral_bytes(data: TrainingData, n_states: int) -> float:
    """Bytes of spectral learning: the projection, and the tensors of frequent rules."""
    n_symbols = len(data.counts.symbols)
    m = states_by_label(np.ones((n_symbols, n_states)), data.counts.symbols, n_states)
    sizes, n = m[data.inventory.rules.astype(np.int64)], data.counts.rules.astype(np.int64)
    factors = RANK * n * sizes.sum(axis=1)  # of a rare rule, in place of a whole tensor
    tensors = float(np.minimum(factors, sizes.prod(axis=1)).sum())
    return projection_bytes(data, n_states) + 8 * (2 + data.engine.jobs_here) * tensors


def projected_em_bytes(data: TrainingData, n_states: int) -> float:
    """Bytes of learning that begins with the projection of all nodes and ends with EM."""
    return projection_bytes(data, n_states) + em_bytes(data, n_states) - KERNELS


def charts_bytes(data: TrainingData, n_weights: int) -> float:
    """Bytes of the pruned charts of all sentences, and of the weights with their sums."""
    charts = CHART_RULE * data.sizes["tokens"] * len(data.inventory.rules)
    return KERNELS + charts + 28 * n_weights


def network_bytes(data: TrainingData) -> float:
    """Bytes of the sentences that a network reads, and of its weights and activations."""
    return KERNELS + NETWORK + NETWORK_TOKEN * data.sizes["tokens"]


def _nodes(data: TrainingData) -> int:
    """Nodes that are in memory at once; a binary tree over n words has 2n - 1."""
    nodes = 2 * data.sizes["tokens"] - data.n_trees
    if data.engine.has_shards_here:
        return nodes
    return min(nodes, data.engine.jobs_here * SHARD_NODES)
