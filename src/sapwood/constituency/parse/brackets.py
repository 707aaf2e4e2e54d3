"""Posteriors of brackets: labels of the treebank over words, whatever a grammar's symbols are.

Members of an ensemble meet in brackets. A joint symbol (`S|VP`) stands for several brackets, an
intermediate one (`@VP:>PP`) for none.

Notation
--------
    code    (label * (n + 1) + start) * (n + 1) + end, a bracket as one number;
            its label is 2 * number of the label + (1 for the tag of a word)
    p       posterior of a bracket: the sum of those of the items whose chain has the label
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol
from sapwood.core.arrays import FloatArray, IntArray, ranges

if TYPE_CHECKING:
    from sapwood.constituency.parse.charts import ForestPosteriors
    from sapwood.constituency.parse.kernels.forest import Forest


class ItemLabels(NamedTuple):
    """All labels of all items of a forest."""

    item: IntArray  # the item of each row
    code: IntArray  # the bracket
    is_tag: npt.NDArray[np.bool_]  # whether it is the tag of a word


class BracketPosteriors(NamedTuple):
    """Brackets and tags with their posteriors; codes rise."""

    code: IntArray
    p: FloatArray

    def of(self, code: IntArray) -> FloatArray:
        """Posteriors of given brackets; 0 for those that are not there."""
        if not len(self.code):
            return np.zeros(len(code))
        at = np.minimum(np.searchsorted(self.code, code), len(self.code) - 1)
        return np.where(self.code[at] == code, self.p[at], 0.0)


NO_BRACKETS = BracketPosteriors(np.empty(0, np.int64), np.empty(0))


class LabelledForest(NamedTuple):
    """A forest whose items are scored by the brackets that they stand for."""

    posteriors: ForestPosteriors  # of the members that share the chart
    labels: ItemLabels
    brackets: BracketPosteriors  # of all members

    @property
    def label_posteriors(self) -> FloatArray:
        """The posterior of each label of each item under all members."""
        return self.brackets.of(self.labels.code)


class LabelTable(NamedTuple):
    """The labels that each symbol stands for."""

    start: IntArray  # [n_symbols + 1]: where the labels of a symbol start
    label: IntArray  # numbers of the labels, outermost first
    is_tag: npt.NDArray[np.bool_]  # whether each is the tag of a word, which is no bracket


def label_table(
    symbols: Sequence[Symbol], n_phrases: int, numbers: Mapping[str, int]
) -> LabelTable:
    """Look up the labels of all symbols of a grammar."""
    chains = [symbol.chain if symbol.context is None else () for symbol in symbols]
    start = np.append(0, np.cumsum([len(chain) for chain in chains]))
    label = np.array([numbers[name] for chain in chains for name in chain], dtype=np.int64)
    is_tag = np.zeros(len(label), np.bool_)
    is_tag[start[n_phrases + 1 :] - 1] = True  # the innermost label of a tag symbol
    return LabelTable(start, label, is_tag)


def item_labels(forest: Forest, n: int, table: LabelTable) -> ItemLabels:
    """The labels of the items of a forest over n words."""
    symbol = forest.symbol.astype(np.int64)
    first, end = table.start[symbol], table.start[symbol + 1]
    item, place = np.repeat(np.arange(len(symbol)), end - first), ranges(first, end)
    label = table.label[place] * 2 + table.is_tag[place]  # a tag may be named like a phrase
    code = (label * (n + 1) + forest.start[item]) * (n + 1) + forest.end[item]
    return ItemLabels(item, code, table.is_tag[place])


def sum_by_bracket(rows: ItemLabels, items: FloatArray) -> BracketPosteriors:
    """Sum the posteriors of items into those of brackets."""
    code, place = np.unique(rows.code, return_inverse=True)
    return BracketPosteriors(
        code, np.asarray(np.bincount(place, items[rows.item], len(code)), float)
    )


def average_brackets(
    parts: Sequence[BracketPosteriors], weights: Sequence[float]
) -> BracketPosteriors:
    """The weighted mean of posteriors; a bracket that is missing somewhere has 0 there."""
    code, place = np.unique(np.concatenate([part.code for part in parts]), return_inverse=True)
    weighted = [part.p * w for part, w in zip(parts, weights, strict=True)]
    return BracketPosteriors(
        code, np.asarray(np.bincount(place, np.concatenate(weighted), len(code)), float)
    )


def sharpen(p: FloatArray, sharpness: float) -> FloatArray:
    """Means of posteriors as probabilities: p^a / (p^a + (1 - p)^a)."""
    if sharpness == 1.0:
        return p
    inner = np.clip(p, 0.0, 1.0)
    yes, no = inner**sharpness, (1.0 - inner) ** sharpness
    return np.asarray(yes / (yes + no))


def normalise_tags(p: FloatArray, start: IntArray, is_tag: npt.NDArray[np.bool_]) -> FloatArray:
    """Posteriors with those of the tags of each word divided by their sum: a word has one tag.

    Sums differ from 1 where posteriors were cut off, sharpened, or those of pruned tags are gone.
    """
    total = np.bincount(start[is_tag], p[is_tag])
    normalised = p.copy()
    normalised[is_tag] /= np.where(total > 0.0, total, 1.0)[start[is_tag]]
    return normalised


def split_codes(
    code: IntArray, n: int
) -> tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Split codes into columns: label, start, end, and whether it is a tag."""
    rest, end = np.divmod(code, n + 1)
    label, start = np.divmod(rest, n + 1)
    return label // 2, start, end, label % 2 == 1
