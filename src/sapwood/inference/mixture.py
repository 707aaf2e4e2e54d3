"""Posteriors of several grammars over one sentence, from as few charts as possible.

Members of a group share one chart. The member with the fewest states runs over it first and
prunes it once more, so that the larger ones see little more than what is worth a thought. Groups
meet in brackets: labels of the treebank over words, whatever symbols a grammar makes of them.

Notation
--------
    code    (label * (n + 1) + start) * (n + 1) + end, a bracket as one number
    p       posterior of a bracket: the sum of those of the items whose chain has the label

A joint symbol (`S|VP`) stands for several brackets, an intermediate one (`@VP:>PP`) for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, IntArray, ranges, starts_of
from sapwood.corpus.transform import Symbol
from sapwood.inference.charts import (
    Brackets,
    ItemLabels,
    ParseForest,
    one_word_forest,
    posteriors,
    pruned_forests,
)
from sapwood.inference.prepared import prepare
from sapwood.models.ensemble import Ensemble

if TYPE_CHECKING:
    from sapwood.kernels.forest import Forest
    from sapwood.models.ensemble import Model

FLOOR = 1e-6  # least posterior in a product: one member alone cannot rule a rule out


class Pruning(NamedTuple):
    """How much of a chart is dropped, see `Parser`.

    Attributes
    ----------
    threshold, beam
        Under the plain grammar.
    middle
        Least posterior under the smallest of several members for the others to look at an item.
    """

    threshold: float
    beam: float
    middle: float


class Mixer:
    """A model prepared for parsing; a single grammar is an ensemble of one.

    Attributes
    ----------
    ensemble
        What parses.
    groups
        Its members with their weights, by chart; in each, those with fewer states first.
    labels
        Names of the labels in brackets.
    """

    def __init__(self, model: Model) -> None:
        self.ensemble = model if isinstance(model, Ensemble) else Ensemble.of([model])
        chains = (symbol.chain for one in self.ensemble.grammars for symbol in one.symbols)
        self.labels = tuple(dict.fromkeys(label for chain in chains for label in chain))
        numbers = {label: number for number, label in enumerate(self.labels)}
        groups = [_Group(self.ensemble, places, numbers) for places in self.ensemble.groups]
        # Whoever has no weight is not asked, but for the first, whose symbols trees are made of.
        self.groups = [group for k, group in enumerate(groups) if group.weight > 0 or k == 0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Mixer, (self.ensemble,)  # whose tables are made again where they are needed

    def forest(self, words: list[str], pruning: Pruning) -> ParseForest | None:
        """Posteriors of a sentence of two or more words; None when no group finds a parse."""
        return self.join(words, [group.parse(words, pruning) for group in self.groups])

    def join(self, words: list[str], found: Sequence[ParseForest | None]) -> ParseForest | None:
        """The forest of the first group that has one, with brackets averaged over all that do."""
        pairs = [
            (group, parsed)
            for group, parsed in zip(self.groups, found, strict=True)
            if parsed is not None
        ]
        if not pairs:
            return None
        tables = [item_labels(parsed.forest, len(words), group.table) for group, parsed in pairs]
        parts = [
            brackets_of(rows, np.clip(parsed.items, 0.0, 1.0))
            for rows, (_, parsed) in zip(tables, pairs, strict=True)
        ]
        total = sum(group.weight for group, _ in pairs)
        joint = parts[0]
        if len(parts) > 1:
            joint = mixed(parts, [group.weight / total for group, _ in pairs])
        sharp = joint._replace(p=sharpened(joint.p, self.ensemble.sharpness))
        label_p = sharp.of(tables[0].code)
        return pairs[0][1]._replace(labels=tables[0], label_p=label_p, brackets=sharp)


class _Group:
    """Members that share a chart."""

    def __init__(self, ensemble: Ensemble, places: Sequence[int], numbers: dict[str, int]) -> None:
        heard = [k for k in places if ensemble.weights[k] > 0] or places[:1]
        by_size = sorted(heard, key=lambda k: int(ensemble.grammars[k].n_states.sum()))
        first = prepare(ensemble.members[by_size[0]])
        others = [prepare(ensemble.members[k], like=first) for k in by_size[1:]]
        self.members = [first, *others]
        self.weights = ensemble.weights[by_size]
        self.weight = float(self.weights.sum())
        self.combine = ensemble.combine
        one = first.grammar
        self.table: LabelTable = label_table(one.symbols, one.n_phrases, numbers)

    def parse(self, words: list[str], pruning: Pruning) -> ParseForest | None:
        """Posteriors of the group; None when no member has a parse."""
        for left in pruned_forests(self.members[0], words, pruning.threshold, pruning.beam):
            parsed = self.over(left, pruning.middle)
            if parsed is not None:
                return parsed
        return None

    def one_word(self, word: str) -> ParseForest | None:
        """Posteriors of the tags of a word that is a whole sentence; None when it has none."""
        found = [one_word_forest(member, word) for member in self.members]
        pairs = [(part, w) for part, w in zip(found, self.weights, strict=True) if part]
        if not pairs:
            return None
        parts, weights = zip(*pairs, strict=True)
        # Members that give a tag no weight at all leave it out; then only the first is heard.
        first = parts[0].forest.symbol
        is_same = all(np.array_equal(part.forest.symbol, first) for part in parts)
        return combined(parts, weights, "mean") if len(parts) > 1 and is_same else parts[0]

    def over(self, left: ParseForest, middle: float) -> ParseForest | None:
        """Posteriors of the group over what the plain grammar has left."""
        parts, weights = [], []
        for k, (member, weight) in enumerate(zip(self.members, self.weights, strict=True)):
            part = posteriors(member, left)
            if part is None:
                continue
            if k == 0 and len(self.members) > 1 and middle > 0.0:
                left, part = _narrow(part, middle, left, part)
            parts.append(part)
            weights.append(float(weight))
        if not parts or len(self.members) == 1:
            return parts[0] if parts else None
        return combined(parts, weights, self.combine)


def _narrow(by: ParseForest, least: float, *forests: ParseForest) -> list[ParseForest]:
    """Forests over the same items without those below a posterior under one of them."""
    forest = by.forest
    items = np.abs(by.items) >= least
    edges = items[forest.head] & items[forest.left] & items[forest.right]
    number = (np.cumsum(items) - 1).astype(np.uint32)
    kept = forest._replace(
        symbol=forest.symbol[items], start=forest.start[items], end=forest.end[items],
        head=number[forest.head[edges]], left=number[forest.left[edges]],
        right=number[forest.right[edges]], rule=forest.rule[edges],
    )  # fmt: skip
    roots = number[by.roots[items[by.roots]]].astype(np.int64)
    return [
        one._replace(
            forest=kept, roots=roots, items=one.items[items],
            entries=one.entries[items[: len(one.entries)]],
            edges=one.edges[edges] if len(one.edges) else one.edges,
        )
        for one in forests
    ]  # fmt: skip


def combined(parts: Sequence[ParseForest], weights: Sequence[float], combine: str) -> ParseForest:
    """One forest with the posteriors of several over the same items and edges."""
    share = np.asarray(weights) / sum(weights)
    items = np.array([np.clip(part.items, 0.0, 1.0) for part in parts])
    edges = np.array([np.clip(part.edges, 0.0, 1.0) for part in parts])
    if combine == "product":
        items, edges = (np.log(np.maximum(x, FLOOR)) for x in (items, edges))
    items, edges = share @ items, share @ edges
    if combine == "product":
        items, edges = np.exp(items), np.exp(edges)
    logs = np.array([part.log_prob for part in parts])
    return parts[0]._replace(
        items=items, edges=edges,
        log_prob=float(np.log(share @ np.exp(logs - logs.max())) + logs.max()),
        n_negative=sum(part.n_negative for part in parts),
    )  # fmt: skip


# -- brackets -----------------------------------------------------------------------------------


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
    chains = [symbol.chain if symbol.context is None else () for symbol in symbols]
    start = starts_of([len(chain) for chain in chains])
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
