"""Expected counts under a model with uniform hidden trees: the moments of its EM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class UniformCounts:
    """Expected counts in the layout of the model's tables; `+` joins shards.

    Attributes
    ----------
    tables
        Expected counts of each entry of each table.
    log_likelihood
        Of the sentences given their lengths, under the model that the counts were taken with.
    n_impossible
        Sentences that the model gives probability 0; they are in none of the other numbers.
    """

    tables: Mapping[str, FloatArray]
    log_likelihood: float
    n_impossible: float

    def __add__(self, other: UniformCounts) -> UniformCounts:
        return UniformCounts(
            {name: table + other.tables[name] for name, table in self.tables.items()},
            self.log_likelihood + other.log_likelihood,
            self.n_impossible + other.n_impossible,
        )

    @classmethod
    def zero(cls, model: UniformTreeModel) -> UniformCounts:
        """No sentences."""
        return cls({name: np.zeros(t.shape) for name, t in model.tables.items()}, 0.0, 0.0)

    @classmethod
    def of(cls, sentences: SentenceCounts, model: UniformTreeModel) -> UniformCounts:
        """The E-step on some sentences."""
        total = cls.zero(model)
        for length in sentences.lengths:
            counts = sentences.counts[length]
            tables, logs = model.expect(sentences.rows[length], counts)
            is_possible = np.isfinite(logs)
            total = total + cls(
                tables,
                float((logs[is_possible] * counts[is_possible]).sum()),
                float(counts[~is_possible].sum()),
            )
        return total
