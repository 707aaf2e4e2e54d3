"""`TrainingTrees`: trees indexed once for all the E-steps of a training."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sapwood.estimators.maximise import normalise
from sapwood.estimators.training_data import TrainingData
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import ExpectedCounts, TreeShard
from sapwood.moments.merge_losses import MergeLosses

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
NODES_PER_STATE = 20  # a label gets no more states than its count divided by this


class TrainingTrees:
    """Trees as EM takes them: sorted for its kernels, with pairs of tag and word numbered.

    Attributes
    ----------
    pairs : [n_pairs]
        Rising codes `tag * n_words + word` of the pairs of tag and word.
    symbol_of_pair : [n_pairs]
    limit : [n_symbols]
        The most states of a label: no more than its nodes can tell apart.
    """

    def __init__(self, data: TrainingData) -> None:
        self.engine, self.inventory, self.counts = data.engine, data.inventory, data.counts
        self.pairs = data.counts.pairs
        n_words, n_phrases = len(data.inventory.words), len(data.inventory.phrases)
        self.symbol_of_pair = n_phrases + self.pairs // n_words
        self.limit = np.maximum(1, data.counts.symbols // NODES_PER_STATE).astype(np.int64)
        self.shards = data.once(
            "sorted trees", lambda: self.engine.map(TreeShard, data.shards, self.pairs)
        )

    def plain_parameters(self) -> LatentParameters:
        """Relative frequencies, one state a symbol."""
        counts, pair = self.counts, np.searchsorted(self.pairs, self.counts.lexical // 2)
        return normalise(
            LatentParameters(
                np.ones(len(counts.symbols), np.int64), self.inventory.rules.astype(np.int64),
                self.symbol_of_pair, counts.roots, counts.rules,
                np.bincount(pair, counts.lexical_count, len(self.pairs)).astype(float),
            )
        )  # fmt: skip

    def expect(self, parameters: LatentParameters) -> ExpectedCounts:
        """The E-step over all shards."""
        return self.engine.total(ExpectedCounts.of, self.shards, parameters)

    def merge_losses(
        self, parameters: LatentParameters, pairs: IntArray, share: FloatArray
    ) -> FloatArray:
        """Log-likelihood that joining each pair of states would cost, about.

        Parameters
        ----------
        pairs : [n_pairs, 3]
            Symbol and two of its states, in the order of the symbols.
        share : [n_pairs]
            How frequent the first state is among the two.
        """
        return self.engine.total(MergeLosses.of, self.shards, parameters, pairs, share).loss
