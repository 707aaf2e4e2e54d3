"""Expected counts under a latent grammar, the moments of EM; and what joining states would cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.latent_parameters import LatentParameters
from sapwood.constituency.learn.templates import NodeTable
from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.errors import SapwoodError


class Groups(NamedTuple):
    """Phrases in an order, with where each group of nodes of one rule starts, and the end.

    No node of a group lies below another, unless the groups are whole rules.
    """

    nodes: IntArray
    starts: IntArray


class TreeShard:
    """Trees with their nodes sorted for the kernels; made once, used in every iteration."""

    def __init__(self, bank: Treebank, pairs: IntArray) -> None:
        """Index the trees of a shard."""
        from sapwood.constituency.learn.kernels.treebank_em import heights_and_depths

        table = NodeTable(bank)
        self.label, self.rule = table.label, table.rule
        self.left, self.right = table.left, table.right
        self.roots = bank.offsets[1:] - 1
        is_leaf = table.word >= 0
        self.leaves = np.flatnonzero(is_leaf)
        height, depth = heights_and_depths(bank.offsets, table.left, table.right, table.parent)
        phrases = np.flatnonzero(~is_leaf)
        self.up = _grouped(phrases, self.rule[phrases], height[phrases])
        self.down = _grouped(phrases, self.rule[phrases], depth[phrases])
        self.by_rule = Groups(
            phrases[np.argsort(self.rule[phrases], kind="stable")],
            starts_of(np.bincount(self.rule[phrases], minlength=len(bank.inventory.rules))),
        )
        n_words, n_phrases = len(bank.inventory.words), len(bank.inventory.phrases)
        codes = (self.label[self.leaves] - n_phrases) * n_words + table.word[self.leaves]
        self.pair = np.full(len(self.label), -1)
        self.pair[self.leaves] = np.searchsorted(pairs, codes)


@dataclass(frozen=True, eq=False)
class ExpectedCounts:
    """Expected counts in the layout of the parameters; `+` joins shards."""

    # expected counts of `LatentParameters.rules`, `.words` and `.root`
    rules: FloatArray
    words: FloatArray
    root: FloatArray
    log_likelihood: float  # of the trees, under the parameters that the counts were taken with

    def __add__(self, other: ExpectedCounts) -> ExpectedCounts:
        return ExpectedCounts(
            self.rules + other.rules,
            self.words + other.words,
            self.root + other.root,
            self.log_likelihood + other.log_likelihood,
        )

    @classmethod
    def of(cls, shard: TreeShard, parameters: LatentParameters) -> ExpectedCounts:
        """The E-step on one shard."""
        from sapwood.constituency.learn.kernels import treebank_em as kernel

        g, t = parameters, shard
        beta, alpha, down, log_likelihood, root = vectors(shard, parameters)
        rules = np.empty_like(g.rules)
        kernel.rule_counts(
            *t.by_rule, t.label, t.left, t.right, g.n_states, g.rule_start, g.rules,
            beta, down, alpha, rules,
        )  # fmt: skip
        words = np.zeros_like(g.words)
        leaf = _leaf_starts(shard, parameters)
        kernel.leaf_sums(t.leaves, t.label, g.n_states, leaf, beta, alpha, words)
        return cls(rules, words, root, log_likelihood)


def _grouped(nodes: IntArray, rule: IntArray, level: IntArray) -> Groups:
    """Nodes by level and rule."""
    order = np.lexsort((rule, level))
    rule, level = rule[order], level[order]
    is_first = np.ones(len(nodes), bool)
    is_first[1:] = (rule[1:] != rule[:-1]) | (level[1:] != level[:-1])
    return Groups(nodes[order], np.append(np.flatnonzero(is_first), len(nodes)))


def _leaf_starts(shard: TreeShard, parameters: LatentParameters) -> IntArray:
    return np.where(shard.pair >= 0, parameters.word_start[shard.pair], -1)


def vectors(
    shard: TreeShard, parameters: LatentParameters
) -> tuple[FloatArray, FloatArray, FloatArray, float, FloatArray]:
    """Inside and outside vectors of all nodes, with scales, log-likelihood and root counts."""
    from sapwood.constituency.learn.kernels import treebank_em as kernel

    g, t = parameters, shard
    m = int(g.n_states.max())
    if m > kernel.MAX_STATES:
        msg = f"a symbol has {m} states, and EM takes at most {kernel.MAX_STATES}"
        raise SapwoodError(msg, hint="train with fewer states")
    beta, alpha = np.empty((len(t.label), m)), np.empty((len(t.label), m))
    down = np.empty(len(t.label))
    leaf = _leaf_starts(shard, parameters)
    kernel.inside_leaves(t.leaves, t.label, g.n_states, leaf, g.words, beta, down)
    kernel.inside(
        *t.up, t.label, t.rule, t.left, t.right, g.n_states, g.rule_start, g.rules, beta, down
    )
    root = np.zeros_like(g.root)
    log_likelihood = float(np.log(down).sum()) + kernel.outside_roots(
        t.roots, t.label, g.n_states, g.state_start, g.root, beta, alpha, root
    )
    kernel.outside(
        *t.down, t.label, t.rule, t.left, t.right, g.n_states, g.rule_start, g.rules,
        beta, down, alpha,
    )  # fmt: skip
    return beta, alpha, down, log_likelihood, root


def merge_losses(
    shard: TreeShard, parameters: LatentParameters, pairs: IntArray, share: FloatArray
) -> FloatArray:
    """Log-likelihood that one shard would lose if each pair of states were joined, alone, about.

    Parameters
    ----------
    pairs : [n_pairs, 3]
        Symbol and two of its states, in the order of the symbols.
    share : [n_pairs]
        How frequent the first state is among the two.
    """
    from sapwood.constituency.learn.kernels import treebank_em as kernel

    beta, alpha, *_ = vectors(shard, parameters)
    symbol, first, second = np.ascontiguousarray(pairs.T)
    start = np.searchsorted(symbol, np.arange(len(parameters.n_states) + 1))
    loss = np.zeros(len(pairs))
    kernel.merge_losses(shard.label, start, first, second, share, alpha, beta, loss)
    return loss
