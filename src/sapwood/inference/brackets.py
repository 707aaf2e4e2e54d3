"""Brackets: labels of the treebank over words, whatever symbols a grammar makes of them.

Notation
--------
    code    (label * (n + 1) + start) * (n + 1) + end, a bracket as one number
    p       posterior of a bracket: the sum of those of the items whose chain has the label

A joint symbol (`S|VP`) stands for several brackets, an intermediate one (`@VP:>PP`) for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, IntArray, ranges, starts_of
from sapwood.corpus.transform import Symbol

if TYPE_CHECKING:
    from sapwood.kernels.forest import Forest


class LabelTable(NamedTuple):
    """The labels that each symbol stands for.

    Attributes
    ----------
    start : [n_symbols + 1]
        Where the labels of a symbol start.
    label
        Numbers of the labels, outermost first.
    is_tag
        Whether each is the tag of a word, which is no bracket.
    """

    start: IntArray
    label: IntArray
    is_tag: npt.NDArray[np.bool_]


def label_table(
    symbols: Sequence[Symbol], n_phrases: int, numbers: Mapping[str, int]
) -> LabelTable:
    """Look up the labels of all symbols of a grammar."""
    chains = [() if symbol.is_intermediate else symbol.chain for symbol in symbols]
    start = starts_of([len(chain) for chain in chains])
    label = np.array([numbers[name] for chain in chains for name in chain], dtype=np.int64)
    is_tag = np.zeros(len(label), np.bool_)
    is_tag[start[n_phrases + 1 :] - 1] = True  # the innermost label of a tag symbol
    return LabelTable(start, label, is_tag)


class ItemLabels(NamedTuple):
    """All labels of all items of a forest.

    Attributes
    ----------
    item
        The item of each row.
    code
        The bracket.
    is_tag
        Whether it is the tag of a word.
    """

    item: IntArray
    code: IntArray
    is_tag: npt.NDArray[np.bool_]


NO_LABELS = ItemLabels(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


def item_labels(forest: Forest, n: int, table: LabelTable) -> ItemLabels:
    """The labels of the items of a forest over n words."""
    symbol = forest.symbol.astype(np.int64)
    first, end = table.start[symbol], table.start[symbol + 1]
    item, place = np.repeat(np.arange(len(symbol)), end - first), ranges(first, end)
    label = table.label[place] * 2 + table.is_tag[place]  # a tag may be named like a phrase
    code = (label * (n + 1) + forest.start[item]) * (n + 1) + forest.end[item]
    return ItemLabels(item, code, table.is_tag[place])


class Brackets(NamedTuple):
    """Brackets and tags with their posteriors; codes rise, with 2 label + (1 for a tag)."""

    code: IntArray
    p: FloatArray

    def of(self, code: IntArray) -> FloatArray:
        """Posteriors of given brackets; 0 for those that are not there."""
        if not len(self.code):
            return np.zeros(len(code))
        at = np.minimum(np.searchsorted(self.code, code), len(self.code) - 1)
        return np.where(self.code[at] == code, self.p[at], 0.0)


NO_BRACKETS = Brackets(np.empty(0, np.int64), np.empty(0))


def brackets_of(rows: ItemLabels, items: FloatArray) -> Brackets:
    """Sum the posteriors of items into those of brackets."""
    code, place = np.unique(rows.code, return_inverse=True)
    return Brackets(code, np.asarray(np.bincount(place, items[rows.item], len(code)), float))


def mixed(parts: Sequence[Brackets], weights: Sequence[float]) -> Brackets:
    """The weighted mean of several; a bracket that is missing somewhere has 0 there."""
    code, place = np.unique(np.concatenate([part.code for part in parts]), return_inverse=True)
    weighted = [part.p * w for part, w in zip(parts, weights, strict=True)]
    return Brackets(
        code, np.asarray(np.bincount(place, np.concatenate(weighted), len(code)), float)
    )


def sharpened(p: FloatArray, sharpness: float) -> FloatArray:
    """Means of posteriors as probabilities: p^a / (p^a + (1 - p)^a)."""
    if sharpness == 1.0:
        return p
    inner = np.clip(p, 0.0, 1.0)
    yes, no = inner**sharpness, (1.0 - inner) ** sharpness
    return np.asarray(yes / (yes + no))


def tag_shares(p: FloatArray, start: IntArray, is_tag: npt.NDArray[np.bool_]) -> FloatArray:
    """Posteriors with those of the tags of each word divided by their sum: a word has one tag.

    Sums differ from 1 where posteriors were cut off, sharpened, or those of pruned tags are gone.
    """
    total = np.bincount(start[is_tag], p[is_tag])
    shares = p.copy()
    shares[is_tag] /= np.where(total > 0.0, total, 1.0)[start[is_tag]]
    return shares


def decoded(code: IntArray, n: int) -> tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Label, start, end and whether it is a tag, of each code."""
    rest, end = np.divmod(code, n + 1)
    label, start = np.divmod(rest, n + 1)
    return label // 2, start, end, label % 2 == 1
