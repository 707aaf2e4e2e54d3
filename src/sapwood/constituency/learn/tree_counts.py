"""Counts of rules, symbols, roots and words in a treebank: the moments of a plain PCFG."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Inventory
from sapwood.constituency.data.treebank import Treebank
from sapwood.core.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class TreeCounts:
    """Additive counts over one inventory: `+` joins shards, `zero` is neutral."""

    rules: FloatArray  # [n_rules]
    symbols: FloatArray  # [n_symbols]
    roots: FloatArray  # [n_symbols]
    # distinct codes `(tag * n_words + word) * 2 + is_first`, rising; tags counted from 0
    lexical: npt.NDArray[np.int64]
    lexical_count: FloatArray  # how often each code occurs

    @property
    def pairs(self) -> npt.NDArray[np.int64]:
        """Distinct codes `tag * n_words + word`, rising."""
        return np.unique(self.lexical // 2)

    @classmethod
    def zero(cls, inventory: Inventory) -> TreeCounts:
        """No trees."""
        n_symbols = len(inventory.symbols)
        return cls(
            np.zeros(len(inventory.rules)), np.zeros(n_symbols), np.zeros(n_symbols),
            np.empty(0, np.int64), np.empty(0),
        )  # fmt: skip

    @classmethod
    def of(cls, bank: Treebank) -> TreeCounts:
        """Count a treebank or a shard of one."""
        inventory = bank.inventory
        n_symbols = len(inventory.phrases) + len(inventory.tags)
        leaf = bank.word >= 0
        tag = bank.label[leaf].astype(np.int64) - len(inventory.phrases)
        codes = (tag * len(inventory.words) + bank.word[leaf]) * 2 + (bank.start[leaf] == 0)
        lexical, count = np.unique(codes, return_counts=True)
        return cls(
            np.bincount(bank.rule[~leaf], minlength=len(inventory.rules)).astype(float),
            np.bincount(bank.label, minlength=n_symbols).astype(float),
            np.bincount(bank.label[bank.offsets[1:] - 1], minlength=n_symbols).astype(float),
            lexical,
            count.astype(float),
        )

    def __add__(self, other: TreeCounts) -> TreeCounts:
        codes = np.concatenate([self.lexical, other.lexical])
        lexical, inverse = np.unique(codes, return_inverse=True)
        count = np.bincount(
            inverse, np.concatenate([self.lexical_count, other.lexical_count]), len(lexical)
        )
        return TreeCounts(
            self.rules + other.rules,
            self.symbols + other.symbols,
            self.roots + other.roots,
            lexical,
            count.astype(float),
        )
