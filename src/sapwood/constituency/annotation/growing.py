"""`GrowingTreebank`: sums of counts to which trees are added, and from which they are removed.

A tree is binarised and packed once, when it is added. Its counts are whole numbers that are added
to the sums, and subtracted when the tree is removed, so that no other tree is read again and

    sums(add t, then remove t) = sums                                  exactly
    sums(add s, then add t)    = sums(add t, then add s)               exactly

The binarisation depends on the tree alone: the rules for heads are fixed beforehand.
Learners see symbols, words and rules in the order of their names, so that what is learnt depends on
the trees and their keys, but not on the order in which they came or on trees that are gone.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sapwood.constituency.data.transform import (
    COLUMNS,
    HEADS,
    Inventory,
    Packer,
    Symbol,
    Transform,
    binarise,
)
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.training_data import TreebankCounts
from sapwood.core.arrays import Int32Array, IntArray, starts_of
from sapwood.core.errors import SapwoodError, SapwoodValueError
from sapwood.corpora.tree import Tree

Key = str | int  # of a tree: all of one kind, so that they have an order
_NONE = np.empty(0, np.int32)


class _HeadPacker(Packer):
    """A packer that also notes on which side the head of each binary node lies."""

    def __init__(self, transform: Transform) -> None:
        super().__init__((), transform)
        self.sides: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.heads = array("i")

    def pack(self, tree: Tree) -> tuple[dict[str, Int32Array], Int32Array]:
        """The rows of one tree, and the head sides of those that are in-terminals."""
        self.heads = array("i")
        self._add(tree)
        return self.take_rows(), np.array(self.heads, np.int32)

    def _production(
        self,
        chain: tuple[str, ...],
        ancestors: tuple[str, ...],
        kids: list[tuple[int, int, str]],
    ) -> int:
        built = super()._production(chain, ancestors, kids)
        key = (chain, tuple(label for _, _, label in kids))
        if key not in self.sides:
            steps = binarise(self.transform, chain, ancestors, key[1])
            self.sides[key] = tuple(step.head for step in steps)
        self.heads.extend(self.sides[key])
        return built


class PackedTree(NamedTuple):
    """One binary tree in rows, with the growing treebank's numbers of symbols, words and rules."""

    columns: dict[str, Int32Array]
    heads: Int32Array  # head side of each in-terminal

    @property
    def n_words(self) -> int:
        """Number of words of the tree."""
        return int(self.columns["end"][-1])


@dataclass
class TreeSums:
    """Counts over trees, by the growing treebank's numbers; nothing that is 0 is kept."""

    symbols: Counter[int] = field(default_factory=Counter)
    roots: Counter[int] = field(default_factory=Counter)
    rules: Counter[tuple[int, int]] = field(default_factory=Counter)  # a rule and its head side
    # a tag, a word, and whether the word stands first in its sentence
    lexical: Counter[tuple[int, int, bool]] = field(default_factory=Counter)

    @classmethod
    def of(cls, tree: PackedTree) -> TreeSums:
        """Count the rows of one tree."""
        columns = tree.columns
        labels, words = columns["label"].tolist(), columns["word"].tolist()
        rules = [rule for rule in columns["rule"].tolist() if rule >= 0]
        leaves = zip(labels, words, columns["start"].tolist(), strict=True)
        return cls(
            Counter(labels),
            Counter(labels[-1:]),
            Counter(zip(rules, tree.heads.tolist(), strict=True)),
            Counter((tag, word, at == 0) for tag, word, at in leaves if word >= 0),
        )

    def __iadd__(self, other: TreeSums) -> TreeSums:
        for name, counts in vars(other).items():
            getattr(self, name).update(counts)
        return self

    def __isub__(self, other: TreeSums) -> TreeSums:
        for name, counts in vars(other).items():
            own = getattr(self, name)
            own.subtract(counts)
            for key in counts:
                if not own[key]:
                    del own[key]
        return self


class GrowingTreebank:
    """A treebank of one transform that trees are added to and removed from, each at its own cost.

    Parameters
    ----------
    transform
        The binarisation; its `heads` are `penn` or `generic`, since `auto` would depend on
        the trees that came first.

    Examples
    --------
    >>> grown = GrowingTreebank(Transform(heads="generic"))
    >>> grown.add(1, Tree.parse("(TOP (S (NP (NN dogs)) (VP (VB bark))))"))
    >>> grown.add(2, Tree.parse("(TOP (S (NP (NN cats)) (VP (VB bark) (RB now))))"))
    >>> grown.remove(1)
    >>> grown.bank()
    <Treebank: 1 tree, 3 words; 3 phrase labels, 3 tags>
    """

    def __init__(self, transform: Transform) -> None:
        if transform.heads == "auto":
            raise SapwoodValueError(
                "the heads of a treebank that grows cannot be 'auto': binary trees would depend "
                "on which trees came first",
                hint=f"give heads={' or '.join(repr(name) for name in HEADS[1:])}",
            )
        self.transform, self.sums = transform, TreeSums()
        self._packer = _HeadPacker(transform)
        self._trees: dict[Key, PackedTree] = {}

    def __len__(self) -> int:
        return len(self._trees)

    def add(self, key: Key, tree: Tree) -> None:
        """Add a cleaned tree; one that has the same key is replaced."""
        packed = PackedTree(*self._packer.pack(tree))
        if key in self._trees:
            self.remove(key)
        self._trees[key] = packed
        self.sums += TreeSums.of(packed)

    def remove(self, key: Key) -> None:
        """Remove a tree: its counts are subtracted, and no other tree is read."""
        if key not in self._trees:
            raise SapwoodValueError(
                f"there is no tree with the key {key!r}", hint="it may have been removed already"
            )
        self.sums -= TreeSums.of(self._trees.pop(key))

    def names(self) -> dict[str, Counter[Any]]:
        """The sums by names instead of numbers; equal for equal trees, however they came."""
        phrases, tags, words = self._names()
        every = {**dict(enumerate(phrases)), **{-1 - k: tag for k, tag in enumerate(tags)}}
        rules = list(self._packer.rules)
        sums = self.sums
        return {
            "symbols": Counter({every[a]: n for a, n in sums.symbols.items()}),
            "roots": Counter({every[a]: n for a, n in sums.roots.items()}),
            "rules": Counter(
                {(*(every[a] for a in rules[r]), side): n for (r, side), n in sums.rules.items()}
            ),
            "lexical": Counter(
                {(every[a], words[x], first): n for (a, x, first), n in sums.lexical.items()}
            ),
        }

    def counts(self) -> tuple[Inventory, TreebankCounts]:
        """The inventory and the counts that learners take, from the sums alone."""
        numbers = self._numbering()
        sums, inventory = self.sums, numbers.inventory
        symbols, roots = np.zeros(len(inventory.symbols)), np.zeros(len(inventory.symbols))
        rules = np.zeros(len(inventory.rules))
        for a, n in sums.symbols.items():
            symbols[numbers.symbols[a]] = n
        for a, n in sums.roots.items():
            roots[numbers.symbols[a]] = n
        for (r, _), n in sums.rules.items():
            rules[numbers.rules[r]] += n
        n_words, n_phrases = len(inventory.words), len(inventory.phrases)
        codes = {
            int(((numbers.symbols[a] - n_phrases) * n_words + numbers.words[x]) * 2 + first): n
            for (a, x, first), n in sums.lexical.items()
        }
        lexical = np.array(sorted(codes), np.int64)
        count = np.array([codes[code] for code in lexical.tolist()], float)
        return inventory, TreebankCounts(rules, symbols, roots, lexical, count)

    def bank(self, without: set[Key] | None = None) -> Treebank:
        """The packed trees in the order of their keys, for learners that look at trees.

        Parameters
        ----------
        without
            Keys of trees that are left out, such as those of a fold. The inventory is that of all
            trees.
        """
        if not self._trees:
            raise SapwoodError("there is no tree to learn from", hint="accept some trees first")
        numbers = self._numbering()
        kept = [
            self._trees[key]
            for key in sorted(self._trees, key=key_order)
            if key not in (without or ())
        ]
        columns = {
            name: np.concatenate([_NONE, *(tree.columns[name] for tree in kept)])
            for name in COLUMNS
        }
        label, rule, word = (columns[name] for name in ("label", "rule", "word"))
        found = {
            "label": numbers.symbols[label],
            "rule": np.where(rule >= 0, numbers.rules[rule], -1),
            "word": np.where(word >= 0, numbers.words[word], -1),
        }
        columns |= {name: column.astype(np.int32) for name, column in found.items()}
        offsets = starts_of(np.array([len(tree.columns["label"]) for tree in kept], np.int64))
        return Treebank(numbers.inventory, offsets, *(columns[name] for name in COLUMNS))

    def _names(self) -> tuple[list[Symbol], list[Symbol], list[str]]:
        packer = self._packer
        return list(packer.phrases), list(packer.tags), list(packer.word_numbers)

    def _numbering(self) -> _Numbering:
        """Numbers of what occurs now, in the order of names."""
        phrases, tags, words = self._names()
        present = self.sums.symbols
        kept_phrases = sorted(
            (a for a in present if a >= 0), key=lambda a: _symbol_order(phrases[a])
        )
        kept_tags = sorted((-1 - a for a in present if a < 0), key=lambda a: _symbol_order(tags[a]))
        kept_words = sorted({x for _, x, _ in self.sums.lexical}, key=lambda x: words[x])
        of_tag = _lookup(kept_tags, len(tags)) + len(kept_phrases)
        # tags are -1, -2, ...: they count from the end
        symbols = np.concatenate([_lookup(kept_phrases, len(phrases)), of_tag[::-1]])
        every = list(self._packer.rules)
        kept = sorted(
            (tuple(symbols[list(every[r])].tolist()), r) for r in {r for r, _ in self.sums.rules}
        )
        sides = self.sums.rules
        inventory = Inventory(
            phrases=tuple(phrases[a] for a in kept_phrases),
            tags=tuple(tags[a] for a in kept_tags),
            words=tuple(words[x] for x in kept_words),
            rules=np.array([rule for rule, _ in kept], np.int32).reshape(-1, 3),
            transform=self.transform,
            rule_heads=np.array([sides[r, 1] > sides[r, 0] for _, r in kept], np.int32),
        )
        of_rule = _lookup([r for _, r in kept], len(every))
        return _Numbering(inventory, symbols, _lookup(kept_words, len(words)), of_rule)


class _Numbering(NamedTuple):
    """An inventory of what occurs, and its numbers by those of the growing treebank."""

    inventory: Inventory
    symbols: IntArray  # those of tags, -1, -2, ..., count from the end
    words: IntArray
    rules: IntArray


def _lookup(kept: list[int], n: int) -> IntArray:
    """New numbers by old ones: the place among those that are kept."""
    numbers = np.zeros(n, np.int64)
    numbers[kept] = np.arange(len(kept))
    return numbers


def _symbol_order(symbol: Symbol) -> tuple[Any, ...]:
    return symbol.chain, symbol.ancestors, symbol.context is not None, symbol.context or ()


def key_order(key: Key) -> tuple[str, Key]:
    """The order of keys; numbers come before texts."""
    return type(key).__name__, key
