"""`PreparedEnsemble`: posteriors of a sentence, averaged over the members of an ensemble.

Members that prune alike form a group and share one chart: the one with the fewest states runs over
it first and prunes it once more, so that the larger ones see little more than what is probable.
Groups, and members that need no chart, meet in brackets. The ensemble knows no kinds of members.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sapwood.constituency.grammar.ensemble import Ensemble
from sapwood.constituency.parse.brackets import (
    BracketPosteriors,
    LabelledForest,
    average_brackets,
    item_labels,
    label_table,
    sharpen,
    sum_by_bracket,
)
from sapwood.constituency.parse.charts import (
    ForestPosteriors,
    one_word_posteriors,
    posteriors,
    pruned_forests,
)
from sapwood.constituency.parse.prepared import prepare
from sapwood.constituency.parse.spans import chains_of

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.grammar.member import BracketReader

FLOOR = 1e-6  # least posterior in a product: one member alone cannot rule a rule out


class Pruning(NamedTuple):
    """How much of a chart is dropped, see `Parser`."""

    # under the plain grammar
    threshold: float
    beam: float
    # least posterior under the smallest of several members for the others to look at an item
    middle: float


class SentenceLog(NamedTuple):
    """Log-probabilities of a sentence under a group."""

    owner: int  # the group's chart owner, see `Ensemble.chart_owners`
    weight: float  # of the group
    log_prob: float
    plain_log_prob: float | None  # under the plain grammar, where that was charted


class SentencePosteriors(NamedTuple):
    """Posteriors of the brackets of a sentence, and the first forest where there is one."""

    brackets: BracketPosteriors
    forest: LabelledForest | None = None
    logs: tuple[SentenceLog, ...] = ()


class PreparedEnsemble:
    """A model prepared for parsing; a single member is an ensemble of one.

    Attributes
    ----------
    ensemble
        The model.
    groups
        Members that share a chart. Groups with zero weight are skipped, except the first: output
        trees use its symbols.
    readers
        What reads sentences without a chart, with weights.
    labels
        Names of the labels in brackets.
    """

    def __init__(self, model: Model) -> None:
        self.ensemble = model.as_ensemble()
        chains = (symbol.chain for one in self.ensemble.grammars for symbol in one.symbols)
        self.labels = tuple(dict.fromkeys(label for chain in chains for label in chain))
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self.groups: list[ChartGroup] = []
        self.readers: list[tuple[BracketReader, float]] = []
        # plain grammars beside members without charts, with the weights of these, by chart owner
        self._beside: dict[int, tuple[LatentGrammar, float]] = {}
        for group in self.ensemble.groups:
            if self.ensemble.weights[list(group)].sum() == 0 and group[0] > 0:
                continue
            member = self.ensemble.members[group[0]]
            reader = member.reader(self._numbers)
            if reader is None:
                self.groups.append(ChartGroup(self.ensemble, group, self._numbers))
                continue
            weight = float(self.ensemble.weights[group[0]])
            self.readers.append((reader, weight))
            owner = self.ensemble.chart_owners[group[0]]
            plain, others = self._beside.get(owner, (member.chart_grammar, 0.0))
            self._beside[owner] = plain, others + weight

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedEnsemble, (self.ensemble,)  # tables are made again where they are needed

    @cached_property
    def first_group(self) -> ChartGroup:
        """Members that share the first chart; the first plain grammar where none needs a chart."""
        if self.groups:
            return self.groups[0]
        return ChartGroup(Ensemble.of(self.ensemble.grammars[:1]), (0,), self._numbers)

    @cached_property
    def chains(self) -> dict[frozenset[str], tuple[str, ...]]:
        """Labels that were seen over the same words, outermost first, by the set of them."""
        return chains_of(self.ensemble.grammars)

    def bracket_posteriors(self, words: list[str], pruning: Pruning) -> SentencePosteriors | None:
        """Posteriors of a sentence; None when no member finds a parse."""
        return self.average(words, [group.read(words, pruning) for group in self.groups])

    def average(
        self, words: list[str], found: Sequence[SentencePosteriors | None]
    ) -> SentencePosteriors | None:
        """Average brackets over groups and readers; the forest is that of the first group.

        Parameters
        ----------
        found
            What each group has found: None for no parse, which has no part in the average.
        """
        pairs = zip(self.groups, found, strict=True)
        heard = [(group.weight, one) for group, one in pairs if one is not None]
        if not heard and not self.readers:
            return None
        weights = [weight for weight, _ in heard] + [weight for _, weight in self.readers]
        parts = [one.brackets for _, one in heard]
        parts += [BracketPosteriors(*reader.read(words)) for reader, _ in self.readers]
        joint = parts[0]
        if len(parts) > 1:
            joint = average_brackets(parts, [weight / sum(weights) for weight in weights])
        sharp = joint._replace(p=sharpen(joint.p, self.ensemble.sharpness))
        forests = (one.forest for _, one in heard if one.forest is not None)
        forest = next(forests, None)
        return SentencePosteriors(
            sharp,
            None if forest is None else forest._replace(brackets=sharp),
            tuple(log for _, one in heard for log in one.logs),
        )

    def sentence_log_prob(
        self, words: list[str], found: SentencePosteriors, pruning: Pruning
    ) -> float:
        """Log-probability of a sentence: the weighted mean over members, as in `Ensemble.log_prob`.

        That of a member without a chart is its plain grammar's, which is charted now unless a
        group has charted it.
        """
        logs = [(log.weight, log.log_prob) for log in found.logs]
        charted = {log.owner: log.plain_log_prob for log in found.logs}
        for owner, (plain, weight) in self._beside.items():
            log_prob = charted.get(owner)
            if log_prob is None:
                log_prob = _plain_log_prob(plain, words, pruning)
            logs += [(weight, log_prob)] if log_prob is not None else []
        weights, log_probs = np.array(logs).reshape(-1, 2).T
        with np.errstate(divide="ignore"):  # a first group may have no weight
            return float(np.logaddexp.reduce(np.log(weights) + log_probs))

    def forest(
        self, words: list[str], brackets: BracketPosteriors, pruning: Pruning
    ) -> LabelledForest | None:
        """The forest of the first group, with given posteriors of its brackets."""
        found = self.first_group.read(words, pruning)
        forest = None if found is None else found.forest
        return None if forest is None else forest._replace(brackets=brackets)


def _plain_log_prob(grammar: LatentGrammar, words: list[str], pruning: Pruning) -> float | None:
    """Log-probability of a sentence under a plain grammar; None when it finds no parse."""
    prepared = prepare(grammar)
    if len(words) == 1:
        plain = one_word_posteriors(prepared, words[0])
    else:
        plain = next(pruned_forests(prepared, words, pruning.threshold, pruning.beam), None)
    return None if plain is None else plain.log_prob


class ChartGroup:
    """Members that share a chart, those with fewer states first."""

    def __init__(self, ensemble: Ensemble, group: Sequence[int], numbers: dict[str, int]) -> None:
        heard = [k for k in group if ensemble.weights[k] > 0] or group[:1]
        by_size = sorted(heard, key=lambda k: int(ensemble.grammars[k].n_states.sum()))
        first = prepare(ensemble.members[by_size[0]])
        others = [prepare(ensemble.members[k], chart_owner=first) for k in by_size[1:]]
        self.members = [first, *others]
        self.weights = ensemble.weights[by_size]
        self.weight = float(self.weights.sum())
        self.combine = ensemble.combine
        self.owner = ensemble.chart_owners[group[0]]
        self.table = label_table(first.grammar.symbols, first.grammar.n_phrases, numbers)

    def read(self, words: list[str], pruning: Pruning) -> SentencePosteriors | None:
        """Posteriors of the group; None when no member has a parse."""
        if len(words) == 1:
            return self._labelled(self._one_word(words[0]), None)
        plain_log_prob = None
        for plain in pruned_forests(self.members[0], words, pruning.threshold, pruning.beam):
            plain_log_prob = plain.log_prob if plain_log_prob is None else plain_log_prob
            found = self._posteriors(plain, pruning.middle)
            if found is not None:
                return self._labelled(found, plain_log_prob)
        return None

    def read_pruned(self, plain: ForestPosteriors) -> SentencePosteriors | None:
        """Posteriors of the group over a forest that was pruned before; None for no parse."""
        return self._labelled(self._posteriors(plain, 0.0), plain.log_prob)

    def _labelled(
        self, found: ForestPosteriors | None, plain_log_prob: float | None
    ) -> SentencePosteriors | None:
        if found is None:
            return None
        rows = item_labels(found.pruned.forest, len(found.pruned.words), self.table)
        brackets = sum_by_bracket(rows, np.clip(found.items, 0.0, 1.0))
        log = SentenceLog(self.owner, self.weight, found.log_prob, plain_log_prob)
        return SentencePosteriors(brackets, LabelledForest(found, rows, brackets), (log,))

    def _one_word(self, word: str) -> ForestPosteriors | None:
        found = [one_word_posteriors(member, word) for member in self.members]
        parts = [part for part in found if part is not None]
        if not parts:
            return None
        # Members that give a tag no weight at all leave it out; then only the first is heard.
        first = parts[0].pruned.forest.symbol
        is_same = all(np.array_equal(part.pruned.forest.symbol, first) for part in parts)
        if len(parts) == 1 or not is_same:
            return parts[0]
        weights = [float(w) for part, w in zip(found, self.weights, strict=True) if part]
        return combine_posteriors(parts, weights, "mean")

    def _posteriors(self, plain: ForestPosteriors, middle: float) -> ForestPosteriors | None:
        parts, weights = [], []
        for k, (member, weight) in enumerate(zip(self.members, self.weights, strict=True)):
            part = posteriors(member, plain)
            if part is None:
                continue
            if k == 0 and len(self.members) > 1 and middle > 0.0:
                plain, part = prune_more(part, middle, plain, part)
            parts.append(part)
            weights.append(float(weight))
        if not parts or len(self.members) == 1:
            return parts[0] if parts else None
        return combine_posteriors(parts, weights, self.combine)


def prune_more(
    by: ForestPosteriors, least: float, *parts: ForestPosteriors
) -> list[ForestPosteriors]:
    """Posteriors over the same forest without the items below a posterior under one of them."""
    forest = by.pruned.forest
    items = np.abs(by.items) >= least
    edges = items[forest.head] & items[forest.left] & items[forest.right]
    number = (np.cumsum(items) - 1).astype(np.uint32)
    kept = forest._replace(
        symbol=forest.symbol[items], start=forest.start[items], end=forest.end[items],
        head=number[forest.head[edges]], left=number[forest.left[edges]],
        right=number[forest.right[edges]], rule=forest.rule[edges],
    )  # fmt: skip
    roots, entries = by.pruned.roots, by.pruned.entries
    pruned = by.pruned._replace(
        forest=kept, roots=number[roots[items[roots]]].astype(np.int64),
        entries=entries[items[: len(entries)]],
    )  # fmt: skip
    return [
        one._replace(
            pruned=pruned,
            items=one.items[items],
            edges=one.edges[edges] if len(one.edges) else one.edges,
        )
        for one in parts
    ]


def combine_posteriors(
    parts: Sequence[ForestPosteriors], weights: Sequence[float], combine: str
) -> ForestPosteriors:
    """The weighted mean, or product, of posteriors over the same forest."""
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
