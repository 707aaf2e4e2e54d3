"""What joining pairs of states would cost in likelihood: the moments of split and merge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import TreeShard, vectors

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MergeLosses:
    """Log-likelihood lost by each pair alone, to first order; `+` joins shards.

    Attributes
    ----------
    loss : [n_pairs]
    """

    loss: FloatArray

    def __add__(self, other: MergeLosses) -> MergeLosses:
        return MergeLosses(self.loss + other.loss)

    @classmethod
    def of(
        cls, shard: TreeShard, parameters: LatentParameters, pairs: IntArray, share: FloatArray
    ) -> MergeLosses:
        """Losses on one shard.

        Parameters
        ----------
        pairs : [n_pairs, 3]
            Symbol and two of its states, in the order of the symbols.
        share : [n_pairs]
            How frequent the first state is among the two.
        """
        from sapwood.kernels.treebank_em import merge_losses

        beta, alpha, *_ = vectors(shard, parameters)
        symbol, first, second = np.ascontiguousarray(pairs.T)
        start = np.searchsorted(symbol, np.arange(len(parameters.n_states) + 1))
        loss = np.zeros(len(pairs))
        merge_losses(shard.label, start, first, second, share, alpha, beta, loss)
        return cls(loss)
