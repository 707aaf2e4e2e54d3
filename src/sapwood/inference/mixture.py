"""Posteriors of several grammars over one sentence, from as few charts as possible.

Members of a group share one chart. The member with the fewest states runs over it first and
prunes it once more, so that the larger ones see little more than what is worth a thought.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.inference.brackets import (
    Brackets,
    ItemLabels,
    LabelTable,
    brackets_of,
    item_labels,
    label_table,
    mixed,
    sharpened,
)
from sapwood.inference.charts import (
    ParseForest,
    PrunedChart,
    one_word_forest,
    posteriors,
    pruned_charts,
)
from sapwood.models.ensemble import Ensemble

if TYPE_CHECKING:
    from sapwood.models.ensemble import Model
    from sapwood.models.latent_grammar import LatentGrammar

FloatArray = npt.NDArray[np.float64]
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


class MixedForest(NamedTuple):
    """The forest of the first group that has a parse, and the brackets of all groups.

    Attributes
    ----------
    parsed
        The forest with the posteriors of its group.
    rows
        Labels of its items.
    brackets
        Brackets of all groups with the mean of their posteriors.
    grammar
        Whose symbols the items are made of.
    """

    parsed: ParseForest
    rows: ItemLabels
    brackets: Brackets
    grammar: LatentGrammar


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
        numbers = self.ensemble.labels
        self.labels = tuple(numbers)
        groups = [_Group(self.ensemble, places, numbers) for places in self.ensemble.groups]
        # Whoever has no weight is not asked, but for the first, whose symbols trees are made of.
        self.groups = [group for k, group in enumerate(groups) if group.weight > 0 or k == 0]

    def prepare(self) -> None:
        """Arrange the rules of all groups, before threads start."""
        for group in self.groups:
            grammar = group.members[0]
            _ = (grammar.coarse_rules, grammar.pair_table, grammar.entry_share)

    def forest(self, words: list[str], pruning: Pruning) -> MixedForest | None:
        """Posteriors of a sentence of two or more words; None when no group finds a parse."""
        return self.join(words, [group.parse(words, pruning) for group in self.groups])

    def join(self, words: list[str], found: Sequence[ParseForest | None]) -> MixedForest | None:
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
        leader, parsed = pairs[0]
        return MixedForest(parsed, tables[0], sharp, leader.members[0])


class _Group:
    """Members that share a chart."""

    def __init__(self, ensemble: Ensemble, places: Sequence[int], numbers: dict[str, int]) -> None:
        heard = [k for k in places if ensemble.weights[k] > 0] or places[:1]
        by_size = sorted(heard, key=lambda k: int(ensemble.members[k].n_states.sum()))
        self.members = [ensemble.members[k] for k in by_size]
        self.weights = ensemble.weights[by_size]
        self.weight = float(self.weights.sum())
        self.combine = ensemble.combine
        one = self.members[0]
        self.table: LabelTable = label_table(one.symbols, one.n_phrases, numbers)

    def parse(self, words: list[str], pruning: Pruning) -> ParseForest | None:
        """Posteriors of the group; None when no member has a parse."""
        charts = pruned_charts(self.members[0], words, pruning.threshold, pruning.beam)
        for chart in charts:
            parsed = self.over(chart, pruning.middle)
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

    def over(self, chart: PrunedChart, middle: float) -> ParseForest | None:
        """Posteriors of the group over a chart that is there already."""
        parts, weights = [], []
        for k, (member, weight) in enumerate(zip(self.members, self.weights, strict=True)):
            part = posteriors(member, chart)
            if part is None:
                continue
            if k == 0 and len(self.members) > 1 and middle > 0.0:
                chart, kept_items, kept_edges = _narrowed(chart, part, middle)
                part = _part_of(part, chart, kept_items, kept_edges)
            parts.append(part)
            weights.append(float(weight))
        if not parts or len(self.members) == 1:
            return parts[0] if parts else None
        return combined(parts, weights, self.combine)


def _narrowed(
    chart: PrunedChart, parsed: ParseForest, least: float
) -> tuple[PrunedChart, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """The chart without items below a posterior, and which of its items and edges are left."""
    forest = parsed.forest
    items = np.abs(parsed.items) >= least
    edges = items[forest.head] & items[forest.left] & items[forest.right]
    number = (np.cumsum(items) - 1).astype(np.uint32)
    kept = forest._replace(
        symbol=forest.symbol[items], start=forest.start[items], end=forest.end[items],
        head=number[forest.head[edges]], left=number[forest.left[edges]],
        right=number[forest.right[edges]], rule=forest.rule[edges],
    )  # fmt: skip
    roots = number[chart.roots[items[chart.roots]]].astype(np.int64)
    plain_edges = chart.edges[edges] if len(chart.edges) else chart.edges
    smaller = replace(
        chart, forest=kept, items=chart.items[items], edges=plain_edges, roots=roots
    )  # fmt: skip
    return smaller, items, edges


def _part_of(
    parsed: ParseForest,
    chart: PrunedChart,
    items: npt.NDArray[np.bool_],
    edges: npt.NDArray[np.bool_],
) -> ParseForest:
    return replace(
        parsed, forest=chart.forest, roots=chart.roots, items=parsed.items[items],
        edges=parsed.edges[edges],
    )  # fmt: skip


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
    return replace(
        parts[0], items=items, edges=edges,
        log_prob=float(np.log(share @ np.exp(logs - logs.max())) + logs.max()),
        n_negative=sum(part.n_negative for part in parts),
    )  # fmt: skip
