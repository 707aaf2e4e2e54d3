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
from sapwood.inference.charts import ParseForest, PrunedChart, posteriors, pruned_charts
from sapwood.models.ensemble import Ensemble

if TYPE_CHECKING:
    from sapwood.models.ensemble import Model

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
    """The first group's forest with the group's posteriors, and the brackets of all groups."""

    parsed: ParseForest
    rows: ItemLabels
    brackets: Brackets


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
        # Whoever has no weight is not asked; trees are made of the first group's symbols even so.
        self.groups = [group for k, group in enumerate(groups) if group.weight > 0 or k == 0]

    def prepare(self) -> None:
        """Arrange the rules of all groups, before threads start."""
        for group in self.groups:
            grammar = group.members[0]
            _ = (grammar.coarse_rules, grammar.pair_table, grammar.entry_share)

    def forest(self, words: list[str], pruning: Pruning) -> MixedForest | None:
        """Posteriors of a sentence of two or more words; None when the first group finds none."""
        first, *others = self.groups
        parsed = first.parse(words, pruning)
        if parsed is None:
            return None
        return self.join(words, parsed, [group.parse(words, pruning) for group in others])

    def join(
        self, words: list[str], parsed: ParseForest, others: Sequence[ParseForest | None]
    ) -> MixedForest:
        """The first group's forest, with brackets averaged over it and the other groups."""
        n, first = len(words), self.groups[0]
        rows = item_labels(parsed.forest, n, first.table)
        parts, weights = [brackets_of(rows, np.clip(parsed.items, 0.0, 1.0))], [first.weight]
        for group, other in zip(self.groups[1:], others, strict=True):
            if other is not None:
                theirs = item_labels(other.forest, n, group.table)
                parts.append(brackets_of(theirs, np.clip(other.items, 0.0, 1.0)))
                weights.append(group.weight)
        total = sum(weights)
        joint = parts[0] if len(parts) == 1 else mixed(parts, [w / total for w in weights])
        return MixedForest(
            parsed, rows, joint._replace(p=sharpened(joint.p, self.ensemble.sharpness))
        )


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
