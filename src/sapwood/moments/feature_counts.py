"""How often each feature of each template occurs: additive over shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.features.nodes import Column, NodeTable
from sapwood.features.space import feature_keys
from sapwood.features.templates import Template

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FeatureCounts:
    """Rising keys and counts per template; `+` joins shards.

    Attributes
    ----------
    keys, counts
        One array per template.
    """

    keys: tuple[Column, ...]
    counts: tuple[FloatArray, ...]

    @classmethod
    def of(cls, table: NodeTable, templates: Sequence[Template]) -> FeatureCounts:
        """Count the features of all nodes of a shard."""
        found = [np.unique(feature_keys(table, f), return_counts=True) for f in templates]
        return cls(tuple(k for k, _ in found), tuple(n.astype(float) for _, n in found))

    def __add__(self, other: FeatureCounts) -> FeatureCounts:
        joined = [
            _merge(*columns)
            for columns in zip(self.keys, self.counts, other.keys, other.counts, strict=True)
        ]
        return FeatureCounts(tuple(k for k, _ in joined), tuple(n for _, n in joined))


def _merge(
    keys: Column, counts: FloatArray, more_keys: Column, more_counts: FloatArray
) -> tuple[Column, FloatArray]:
    joined, inverse = np.unique(np.concatenate([keys, more_keys]), return_inverse=True)
    total = np.bincount(inverse, np.concatenate([counts, more_counts]), len(joined))
    return joined, total.astype(float)
