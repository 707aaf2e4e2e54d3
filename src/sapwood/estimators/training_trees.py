"""`TrainingTrees`: a treebank prepared once for all the E-steps of a training."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import Treebank
from sapwood.execute import map_reduce
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import ExpectedCounts, TreeShard
from sapwood.moments.merge_losses import MergeLosses

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NODES_PER_STATE = 20  # a label gets no more states than its count divided by this
# Shards depend on the data alone, so that jobs never change a sum. Every shard has counts of all
# rules, so that smaller ones cost more time than more threads win.
SHARD_NODES = 100_000


class TrainingTrees:
    """A treebank prepared for EM: shards, pairs of tag and word, and limits on states.

    Parameters
    ----------
    n_shards
        Into how many parts the trees are cut; None for as many as their number asks for.
    """

    def __init__(self, bank: Treebank, n_shards: int | None = None) -> None:
        inventory = bank.inventory
        self.bank = bank
        n_words, n_phrases = len(inventory.words), len(inventory.phrases)
        leaf = bank.word >= 0
        codes = (bank.label[leaf].astype(np.int64) - n_phrases) * n_words + bank.word[leaf]
        self.pairs, self.pair_count = np.unique(codes, return_counts=True)
        self.symbol_of_pair = n_phrases + self.pairs // n_words
        n_shards = n_shards or -(-len(bank.label) // SHARD_NODES)
        self.shards = [TreeShard(shard, self.pairs) for shard in bank.shards(n_shards)]
        count = np.bincount(bank.label, minlength=len(inventory.symbols))
        self.limit = np.maximum(1, count // NODES_PER_STATE)

    def plain_parameters(self) -> LatentParameters:
        """Relative frequencies, one state a symbol."""
        bank, n_symbols = self.bank, len(self.bank.inventory.symbols)
        roots = np.bincount(bank.label[bank.offsets[1:] - 1], minlength=n_symbols)
        rules = np.bincount(bank.rule[bank.rule >= 0], minlength=len(bank.inventory.rules))
        return LatentParameters(
            np.ones(n_symbols, np.int64), bank.inventory.rules.astype(np.int64),
            self.symbol_of_pair, roots.astype(float), rules.astype(float),
            self.pair_count.astype(float),
        ).normalised()  # fmt: skip

    def expect(self, parameters: LatentParameters, jobs: int) -> ExpectedCounts:
        """The E-step over all shards."""
        task = partial(ExpectedCounts.of, parameters=parameters)
        counts: ExpectedCounts = map_reduce(task, self.shards, jobs=jobs)
        return counts

    def merge_losses(
        self, parameters: LatentParameters, pairs: IntArray, share: FloatArray, jobs: int
    ) -> FloatArray:
        """Log-likelihood that joining each pair of states would cost, about.

        Parameters
        ----------
        pairs : [n_pairs, 3]
            Symbol and two of its states, in the order of the symbols.
        share : [n_pairs]
            How frequent the first state is among the two.
        """
        task = partial(MergeLosses.of, parameters=parameters, pairs=pairs, share=share)
        losses: MergeLosses = map_reduce(task, self.shards, jobs=jobs)
        return losses.loss
