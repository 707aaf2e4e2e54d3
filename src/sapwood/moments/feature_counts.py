"""How often each feature of each template occurs: additive over shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import Treebank
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
    def of(cls, nodes: NodeKeys) -> FeatureCounts:
        """Of the nodes of a shard."""
        return nodes.counts

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


@dataclass(frozen=True, eq=False)
class NodeKeys:
    """What templates say of every node of a shard, before features have numbers.

    Attributes
    ----------
    shard
        The nodes.
    counts
        The distinct keys of each template.
    places
        For each template, which of its keys each node has.
    """

    shard: Treebank
    counts: FeatureCounts
    places: tuple[npt.NDArray[np.uint32], ...]

    @classmethod
    def of(
        cls, shard: Treebank, templates: Sequence[Template], row_of_word: Column | None = None
    ) -> NodeKeys:
        """Look at all nodes of a shard.

        Parameters
        ----------
        row_of_word
            Numbers that stand for words; None for the words' own.
        """
        table = NodeTable(shard, row_of_word)
        keys, counts, places = [], [], []
        for template in templates:
            key, place, n = np.unique(
                feature_keys(table, template), return_inverse=True, return_counts=True
            )
            keys.append(key)
            counts.append(n.astype(float))
            places.append(place.astype(np.uint32))
        return cls(shard, FeatureCounts(tuple(keys), tuple(counts)), tuple(places))
