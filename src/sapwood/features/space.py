"""`FeatureSpace`: numbers and scales for features, block by block of labels.

Notation
--------
    M(a)       nodes with label a          n(f)   nodes with feature f
    phi_f = sqrt(M(a) / (n(f) + kappa))    value of an active feature; kappa shrinks rare ones

Features are numbered so that those of one label stand together: each label has its own block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.features.nodes import Column, NodeTable
from sapwood.features.templates import Template

FloatArray = npt.NDArray[np.float64]


def feature_keys(table: NodeTable, template: Template) -> Column:
    """One number for label and value of every node."""
    return (template(table) + 1) * len(table.inventory.symbols) + table.label


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """All features of one side, inside or outside.

    Attributes
    ----------
    templates
        The templates, in order.
    keys
        Rising keys of each template's features.
    number
        The number of each of those features.
    weight : [n_features]
        Value of a feature where it is active.
    count : [n_features]
        How many nodes have it.
    start : [n_symbols + 1]
        Where the block of each label starts.
    """

    templates: tuple[Template, ...]
    keys: tuple[Column, ...]
    number: tuple[Column, ...]
    weight: FloatArray
    count: FloatArray
    start: Column

    @classmethod
    def build(
        cls,
        templates: Sequence[Template],
        keys: Sequence[Column],
        counts: Sequence[FloatArray],
        symbol_count: FloatArray,
        kappa: float,
        *,
        scaled: bool = True,
    ) -> FeatureSpace:
        """Number and scale features that were counted over all shards."""
        n_symbols = len(symbol_count)
        all_keys, all_counts = np.concatenate(keys), np.concatenate(counts)
        label = all_keys % n_symbols
        order = np.argsort(label, kind="stable")
        number = np.empty(len(order), np.int64)
        number[order] = np.arange(len(order))
        count, label = all_counts[order], label[order]
        weight = np.sqrt(symbol_count[label] / (count + kappa)) if scaled else np.ones(len(order))
        cuts = np.cumsum([len(k) for k in keys])[:-1]
        start = np.searchsorted(label, np.arange(n_symbols + 1))
        return cls(
            tuple(templates), tuple(keys), tuple(np.split(number, cuts)), weight, count, start
        )

    @property
    def n_features(self) -> int:
        """Features of all labels and templates."""
        return len(self.weight)

    def rows(
        self, keys: Sequence[Column], places: Sequence[npt.NDArray[np.uint32]]
    ) -> npt.NDArray[np.uint32]:
        """Feature numbers of every node, shape [n_nodes, n_templates].

        Parameters
        ----------
        keys
            For each template, keys that were among those counted.
        places
            Which of them each node has.
        """
        ids = np.empty((len(places[0]), len(self.templates)), np.uint32)
        for t, (key, place) in enumerate(zip(keys, places, strict=True)):
            ids[:, t] = self.number[t][np.searchsorted(self.keys[t], key)][place]
        return ids
