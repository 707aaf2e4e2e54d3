"""`NodeTable`: what feature templates may look at, as columns over all nodes of a shard."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import Treebank

Column = npt.NDArray[np.int64]
LEFT, RIGHT, ROOT = 0, 1, 2


class NodeTable:
    """Columns of a treebank with rows numbered over all its trees; -1 stands for "there is none".

    Attributes
    ----------
    label, rule, word, start, end
        As in `Treebank`.
    left, right, parent
        Rows of the children and of the parent.
    """

    def __init__(self, bank: Treebank, row_of_word: npt.NDArray[np.int64] | None = None) -> None:
        self.bank = bank
        self.inventory = bank.inventory
        first = np.repeat(bank.offsets[:-1], np.diff(bank.offsets))
        self.label = bank.label.astype(np.int64)
        self.rule = bank.rule.astype(np.int64)
        self.left, self.right, self.parent = (
            np.where(column >= 0, column + first, -1)
            for column in (bank.left, bank.right, bank.parent)
        )
        self.start, self.end = bank.start.astype(np.int64), bank.end.astype(np.int64)
        self.word = bank.word.astype(np.int64)
        if row_of_word is not None:  # rare words stand for their class
            self.word = np.where(self.word >= 0, row_of_word[self.word], -1)

    def __len__(self) -> int:
        return len(self.label)

    def at(self, column: Column, rows: Column) -> Column:
        """Values of a column at other rows; -1 where there is no such row."""
        return np.where(rows >= 0, column[rows], -1)

    @cached_property
    def side(self) -> Column:
        """Whether a node is a left child, a right child, or a root."""
        side = np.full(len(self), ROOT, dtype=np.int64)
        side[self.left[self.left >= 0]] = LEFT
        side[self.right[self.right >= 0]] = RIGHT
        return side

    @cached_property
    def n_words(self) -> Column:
        """Length of each node's sentence."""
        bank = self.bank
        return np.repeat(bank.end[bank.offsets[1:] - 1], np.diff(bank.offsets)).astype(np.int64)

    @cached_property
    def base_tag(self) -> Column:
        """Number of the treebank tag behind each symbol of the inventory."""
        bases = [symbol.chain[-1] for symbol in self.inventory.symbols]
        number = {name: place for place, name in enumerate(dict.fromkeys(bases))}
        return np.array([number[name] for name in bases], dtype=np.int64)

    @cached_property
    def head(self) -> Column:
        """Tag of each node's head word."""
        from sapwood.kernels.heads import head_tags

        heads = self.inventory.rule_heads
        return np.asarray(
            head_tags(self.label, self.rule, self.left, self.right, heads, self.base_tag)
        )

    @cached_property
    def head_above(self) -> Column:
        """First head tag above each node that differs from its own."""
        from sapwood.kernels.heads import heads_above

        return np.asarray(heads_above(self.head, self.parent))
