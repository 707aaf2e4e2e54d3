"""Treebanks cut into shards by hand, and their features."""

from __future__ import annotations

from typing import Any

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.features import FeatureRows, NodeProjection


class CutTreebank(Treebank):
    """A treebank that is cut into n shards, whatever its size."""

    n_shards = 1

    def shards(self, n: int | None = None) -> list[Treebank]:
        return super().shards(self.n_shards if n is None else n)


def shards_of(bank: Treebank, n: int) -> Treebank:
    """The same trees, in n shards."""
    columns: dict[str, Any] = {name: getattr(bank, name) for name in Treebank.COLUMNS}
    cut = CutTreebank(bank.inventory, bank.offsets, **columns)
    object.__setattr__(cut, "n_shards", n)
    return cut


def rows_of(projection: NodeProjection) -> FeatureRows:
    """The features of a treebank that is one shard."""
    (rows,) = projection.features.rows.items
    return rows
