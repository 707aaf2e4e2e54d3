"""Posteriors of brackets, averaged over the members of an ensemble.

Members that prune alike form a group and share one chart. Groups, and members that need no chart,
are averaged over brackets, which are labels of the treebank over words: a joint symbol (`S|VP`)
counts as several brackets, an intermediate one (`@VP:>PP`) as none. The ensemble knows no kinds
of members.

A network needs no chart: the weight of a tree is the sum of the scores of its labelled spans.
Binary trees represent all trees: a span that has no label only joins its neighbours, and scores 0
however they are joined.

Notation
--------
    code    (label * (n + 1) + start) * (n + 1) + end, a bracket as one number;
            its label is 2 * number of the label + (1 for the tag of a word)
    p       posterior of a bracket: the sum of those of the items whose chain has the label
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol
from sapwood.constituency.grammar.constraints import Constraints
from sapwood.constituency.grammar.discriminative import SpanNetwork
from sapwood.constituency.grammar.ensemble import Ensemble
from sapwood.constituency.parse.charts import (
    ForestPosteriors,
    Pruning,
    feature_log_sum,
    first_forest,
    group_posteriors,
    sentence_posteriors,
)
from sapwood.constituency.parse.prepared import prepare, sentence_log_weight
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.corpora.tree import escape
from sapwood.networks.network import Real, SentenceEncoder
from sapwood.networks.scores import score_words_and_spans

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.grammar.member import BracketReader
    from sapwood.constituency.parse.kernels.forest import Forest
    from sapwood.constituency.parse.prepared import PreparedGrammar


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
        """Posteriors of brackets by their codes; 0 for brackets that are not listed."""
        if not len(self.code):
            return np.zeros(len(code))
        at = np.minimum(np.searchsorted(self.code, code), len(self.code) - 1)
        return np.where(self.code[at] == code, self.p[at], 0.0)


NO_BRACKETS = BracketPosteriors(np.empty(0, np.int64), np.empty(0))


class LabelledForest(NamedTuple):
    """A forest whose items are scored by their brackets."""

    posteriors: ForestPosteriors  # of the members that share the chart
    labels: ItemLabels
    brackets: BracketPosteriors  # of all members


class LabelTable(NamedTuple):
    """The treebank labels of each symbol."""

    start: IntArray  # [n_symbols + 1]: where the labels of a symbol start
    label: IntArray  # numbers of the labels, outermost first
    is_tag: npt.NDArray[np.bool_]  # whether each is the tag of a word, which is no bracket

    def rows(self, symbol: IntArray) -> tuple[IntArray, IntArray]:
        """The labels of symbols: for each label, the index of its symbol, and its row here."""
        first, n_labels = self.start[symbol], self.start[symbol + 1] - self.start[symbol]
        index = np.repeat(np.arange(len(symbol)), n_labels)
        before = np.cumsum(n_labels) - n_labels
        return index, np.arange(len(index)) + (first - before)[index]


def label_table(
    symbols: Sequence[Symbol], n_phrases: int, numbers: Mapping[str, int]
) -> LabelTable:
    """Labels of all symbols of a grammar, by the numbers of the labels."""
    chains = [symbol.chain if symbol.context is None else () for symbol in symbols]
    start = np.append(0, np.cumsum([len(chain) for chain in chains]))
    label = np.array([numbers[name] for chain in chains for name in chain], dtype=np.int64)
    is_tag = np.zeros(len(label), np.bool_)
    is_tag[start[n_phrases + 1 :] - 1] = True  # the innermost label of a tag symbol
    return LabelTable(start, label, is_tag)


def item_labels(forest: Forest, n: int, table: LabelTable) -> ItemLabels:
    """The labels of the items of a forest over n words."""
    item, place = table.rows(forest.symbol.astype(np.int64))
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
    """Posteriors, in which the tags of each word are normalised to sum to 1.

    Sums differ from 1 where posteriors were clipped or sharpened, or where tags were pruned.
    """
    total = np.bincount(start[is_tag], p[is_tag])
    normalised = p.copy()
    normalised[is_tag] /= np.where(total > 0.0, total, 1.0)[start[is_tag]]
    return normalised


def split_codes(
    code: IntArray, n: int
) -> tuple[IntArray, IntArray, IntArray, npt.NDArray[np.bool_]]:
    """Label, start, end of brackets, and whether each is a tag, from their codes."""
    rest, end = np.divmod(code, n + 1)
    label, start = np.divmod(rest, n + 1)
    return label // 2, start, end, label % 2 == 1


class SentenceLog(NamedTuple):
    """Log-probabilities of a sentence under a group."""

    owner: int  # the group's chart owner, see `Ensemble.chart_owners`
    weight: float  # of the group
    log_prob: float
    plain_log_prob: float | None  # under the plain grammar, where there is a chart of it


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
        Readers of members without a chart, with their weights.
    labels
        Names of the labels in brackets.
    chains
        Labels that were seen over the same words, outermost first, by the set of them.
    """

    def __init__(self, model: Model) -> None:
        self.ensemble = model.as_ensemble()
        chains = (symbol.chain for one in self.ensemble.grammars for symbol in one.symbols)
        self.labels = tuple(dict.fromkeys(label for chain in chains for label in chain))
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self.chains = unary_chains(self.ensemble.grammars)
        self.groups: list[ChartGroup] = []
        self.readers: list[tuple[BracketReader, float]] = []
        # plain grammars beside members without charts, with the weights of these, by chart owner
        self._beside: dict[int, tuple[LatentGrammar, float]] = {}
        for group in self.ensemble.groups:
            if self.ensemble.weights[list(group)].sum() == 0 and group[0] > 0:
                continue
            member = self.ensemble.members[group[0]]
            if member.has_rules:
                self.groups.append(ChartGroup(self.ensemble, group, self._numbers))
                continue
            weight = float(self.ensemble.weights[group[0]])
            self.readers.append((member.reader(self._numbers), weight))
            owner = self.ensemble.chart_owners[group[0]]
            plain, others = self._beside.get(owner, (self.ensemble.grammars[group[0]], 0.0))
            self._beside[owner] = plain, others + weight

    def __reduce__(self) -> tuple[Any, ...]:
        return PreparedEnsemble, (self.ensemble,)  # tables are made again where they are needed

    @cached_property
    def first_group(self) -> ChartGroup:
        """Members that share the first chart; the first plain grammar where none needs a chart."""
        if self.groups:
            return self.groups[0]
        return ChartGroup(Ensemble.of(self.ensemble.grammars[:1]), (0,), self._numbers)

    def read_many(
        self, sentences: Sequence[tuple[list[str], Constraints | None]]
    ) -> list[list[BracketPosteriors]]:
        """Posteriors of sentences by each of the members without a chart."""
        by_reader = [reader.read_many(sentences) for reader, _ in self.readers]
        return [
            [BracketPosteriors(*found[k]) for found in by_reader] for k in range(len(sentences))
        ]

    def bracket_posteriors(
        self,
        words: list[str],
        pruning: Pruning,
        constraints: Constraints | None = None,
        read: Sequence[BracketPosteriors] | None = None,
    ) -> SentencePosteriors | None:
        """Posteriors of a sentence, given constraints; None when no member finds a parse.

        `read` are those by the members without a chart, where they are known.
        """
        found = [group.read(words, pruning, constraints) for group in self.groups]
        return self.average(words, found, constraints, read)

    def average(
        self,
        words: list[str],
        found: Sequence[SentencePosteriors | None],
        constraints: Constraints | None = None,
        read: Sequence[BracketPosteriors] | None = None,
    ) -> SentencePosteriors | None:
        """Average brackets over groups and readers; the forest is that of the first group.

        Groups without a parse (None) are left out of the average. Readers read the sentence now
        unless `read` has their posteriors.
        """
        pairs = zip(self.groups, found, strict=True)
        parsed = [(group.weight, one) for group, one in pairs if one is not None]
        if not parsed and not self.readers:
            return None
        weights = [weight for weight, _ in parsed] + [weight for _, weight in self.readers]
        parts = [one.brackets for _, one in parsed]
        parts += self.read_many([(words, constraints)])[0] if read is None else read
        mean = parts[0]
        if len(parts) > 1:
            mean = average_brackets(parts, [weight / sum(weights) for weight in weights])
        sharp = mean._replace(p=sharpen(mean.p, self.ensemble.sharpness))
        forest = next((one.forest for _, one in parsed if one.forest is not None), None)
        forest = None if forest is None else forest._replace(brackets=sharp)
        return SentencePosteriors(
            sharp, forest, tuple(log for _, one in parsed for log in one.logs)
        )

    def sentence_log_prob(
        self,
        words: list[str],
        found: SentencePosteriors,
        pruning: Pruning,
        constraints: Constraints | None = None,
    ) -> float:
        """Log-probability of a sentence: the weighted mean over members, as in `Ensemble.log_prob`.

        A member without a chart has the log-probability of its plain grammar, which is charted
        now unless a group has charted it.
        """
        logs = [(log.weight, log.log_prob) for log in found.logs]
        charted = {log.owner: log.plain_log_prob for log in found.logs}
        for owner, (plain, weight) in self._beside.items():
            log_prob = charted.get(owner)
            if log_prob is None:
                chart = first_forest(prepare(plain), words, pruning, constraints)
                log_prob = None if chart is None else chart.log_prob
            logs += [(weight, log_prob)] if log_prob is not None else []
        weights, log_probs = np.array(logs).reshape(-1, 2).T
        with np.errstate(divide="ignore"):  # a first group may have no weight
            return float(np.logaddexp.reduce(np.log(weights) + log_probs))

    def constraint_log_prob(
        self, words: list[str], constraints: Constraints, pruning: Pruning
    ) -> float:
        """Log of the members' weighted mean probability that a tree satisfies constraints."""
        logs = [(weight, reader.log_ratio(words, constraints)) for reader, weight in self.readers]
        for group in self.groups:
            weights = zip(group.members, group.weights.tolist(), strict=True)
            logs += [(w, group.log_ratio(member, words, constraints, pruning))
                     for member, w in weights if w > 0.0]  # fmt: skip
        columns = np.array(logs).T
        with np.errstate(divide="ignore"):
            mean = np.logaddexp.reduce(np.log(columns[0] / columns[0].sum()) + columns[1])
        return float(min(mean, 0.0)) if not np.isnan(mean) else -np.inf

    def forest(
        self,
        words: list[str],
        brackets: BracketPosteriors,
        pruning: Pruning,
        constraints: Constraints | None = None,
    ) -> LabelledForest | None:
        """The forest of the first group, with given posteriors of its brackets."""
        found = self.first_group.read(words, pruning, constraints)
        forest = None if found is None else found.forest
        return None if forest is None else forest._replace(brackets=brackets)


def unary_chains(grammars: Sequence[LatentGrammar]) -> dict[frozenset[str], tuple[str, ...]]:
    """Labels that the grammars have over the same words, outermost first, by their set."""
    every = (symbol.chain for grammar in grammars for symbol in grammar.symbols)
    above = (chain[:k] for chain in every for k in range(1, len(chain) + 1))
    return {frozenset(chain): chain for chain in above}


class ChartGroup:
    """Members that share a chart, those with fewer states first."""

    def __init__(self, ensemble: Ensemble, group: Sequence[int], numbers: dict[str, int]) -> None:
        used = [k for k in group if ensemble.weights[k] > 0] or group[:1]
        by_size = sorted(used, key=lambda k: int(ensemble.grammars[k].n_states.sum()))
        self.members: list[PreparedGrammar] = []
        for k in by_size:
            owner = self.members[0] if self.members else None
            self.members.append(prepare(ensemble.members[k], owner, ensemble.grammars[k]))
        first = self.members[0]
        self.weights = ensemble.weights[by_size]
        self.weight = float(self.weights.sum())
        self.combine = ensemble.combine
        self.owner = ensemble.chart_owners[group[0]]
        self.table = label_table(first.grammar.symbols, first.grammar.n_phrases, numbers)

    def read(
        self, words: list[str], pruning: Pruning, constraints: Constraints | None = None
    ) -> SentencePosteriors | None:
        """Posteriors of the group; None when no member has a parse."""
        return self._labelled(*sentence_posteriors(self, words, pruning, constraints))

    def log_ratio(
        self,
        member: PreparedGrammar,
        words: list[str],
        constraints: Constraints,
        pruning: Pruning,
    ) -> float:
        """Log-probability under one member that a tree satisfies constraints."""
        constraints = replace(constraints, is_strict=True)
        if member.features is None:
            found, free = (sentence_log_weight(member, words, x) for x in (constraints, None))
            return found.log - free.log if found.sign == free.sign == 1 else -np.inf
        charts = [first_forest(member, words, pruning, x) for x in (constraints, None)]
        logs = [-np.inf if x is None else x.log_prob if len(words) == 1
                else feature_log_sum(member, x) for x in charts]  # fmt: skip
        return min(0.0, logs[0] - logs[1]) if np.isfinite(logs[1]) else -np.inf

    def read_pruned(self, plain: ForestPosteriors) -> SentencePosteriors | None:
        """Posteriors of the group over a pruned forest; None for no parse."""
        return self._labelled(group_posteriors(self, plain, 0.0), plain.log_prob)

    def _labelled(
        self, found: ForestPosteriors | None, plain_log_prob: float | None
    ) -> SentencePosteriors | None:
        if found is None:
            return None
        rows = item_labels(found.pruned.forest, len(found.pruned.words), self.table)
        brackets = sum_by_bracket(rows, np.clip(found.items, 0.0, 1.0))
        log = SentenceLog(self.owner, self.weight, found.log_prob, plain_log_prob)
        return SentencePosteriors(brackets, LabelledForest(found, rows, brackets), (log,))


LEAST_SPAN_POSTERIOR = 1e-3  # smaller posteriors are left out: their sums change no tree
BATCH_WORDS = 400  # words that a network reads at a time: about 8 MB of activations
EXCLUDED = -1e4  # score of a label or span that constraints exclude: its exponential is 0


def span_posteriors(
    scores: Real, lengths: Sequence[int], is_bare: npt.NDArray[np.bool_] | None = None
) -> tuple[float, Real]:
    """Log of the sum over all trees of sentences, and posteriors of labels, [n_spans, n_labels].

    Scores [n_spans, n_labels] are those of the spans of one sentence after the other.
    `is_bare` tells which spans may have no label; all where it is None.
    """
    from sapwood.constituency.parse.kernels.span_trees import span_marginals
    from sapwood.networks.kernels.span_layer import row_maxima

    top = row_maxima(scores)
    top = np.maximum(top, 0 if is_bare is None else np.where(is_bare, 0, top))
    posterior = scores - top[:, None]
    np.exp(posterior, out=posterior)
    # a product is quicker than a sum of short rows; a span without a label has score 0
    bare = np.exp(-np.maximum(top, 0))
    bare = bare if is_bare is None else bare * is_bare
    total = posterior @ np.ones(posterior.shape[1], posterior.dtype) + bare
    weight = (np.log(total) + top).astype(np.float64)
    log_total, first = 0.0, 0
    for n in lengths:
        spans = slice(first, first + n * (n + 1) // 2)
        log_sum, weight[spans] = span_marginals(weight[spans], n)
        log_total, first = log_total + log_sum, spans.stop
    posterior *= (weight / total).astype(posterior.dtype)[:, None]
    return log_total, posterior


class NetworkReader:
    """A `BracketReader`: posteriors of a network as codes of brackets."""

    def __init__(self, model: SpanNetwork, numbers: Mapping[str, int]) -> None:
        self._model = model
        self._encoder = SentenceEncoder(model.network)
        start = np.append(0, np.cumsum([len(chain) for chain in model.labels]))
        labels = (2 * numbers[name] for chain in model.labels for name in chain)
        label = np.fromiter(labels, np.int64)
        self._chains = LabelTable(start, label, np.zeros(len(label), np.bool_))
        self._tags = np.array([2 * numbers[name] + 1 for name in model.tags], np.int64)

    def read(
        self, words: list[str], constraints: Constraints | None = None
    ) -> tuple[IntArray, FloatArray]:
        """Codes of brackets and tags, see `posteriors`, and their posteriors."""
        return self.read_many([(words, constraints)])[0]

    def read_many(
        self, sentences: Sequence[tuple[list[str], Constraints | None]]
    ) -> list[tuple[IntArray, FloatArray]]:
        """The result of `read` for each sentence, encoded in batches of similar length."""
        order = sorted(range(len(sentences)), key=lambda k: -len(sentences[k][0]))
        found: dict[int, tuple[IntArray, FloatArray]] = {}
        for batch in _cut(order, [len(sentences[k][0]) for k in order]):
            for k, (_, posterior, tags) in zip(
                batch, self._posteriors([sentences[k] for k in batch]), strict=True
            ):
                found[k] = self._codes(posterior, tags)
        return [found[k] for k in range(len(sentences))]

    def _codes(self, posterior: Real, tags: Real) -> tuple[IntArray, FloatArray]:
        """Codes and posteriors of a sentence from those of labels over spans, and of its tags."""
        n = len(tags)
        # half the time of np.nonzero of a matrix
        kept = np.flatnonzero(posterior >= LEAST_SPAN_POSTERIOR)
        span, chain = np.divmod(kept, posterior.shape[1])
        word, tag = np.nonzero(tags >= LEAST_SPAN_POSTERIOR)
        row, place = self._chains.rows(chain)  # a span has all labels of its chain
        label = np.concatenate([self._chains.label[place], self._tags[tag]])
        start, last = np.triu_indices(n)  # in the order of the spans
        i = np.concatenate([start[span][row], word])
        j = np.concatenate([last[span][row], word]) + 1
        p = np.concatenate([posterior[span, chain][row], tags[word, tag]]).astype(float)
        code, place = np.unique((label * (n + 1) + i) * (n + 1) + j, return_inverse=True)
        return code, np.minimum(np.bincount(place, p, len(code)), 1.0)

    def _posteriors(
        self, sentences: Sequence[tuple[list[str], Constraints | None]]
    ) -> Iterator[tuple[float, Real, Real]]:
        """Log of the sum over trees, posteriors of labels over spans, and those of tags.

        Sentences are sorted longest first.
        """
        scored = score_words_and_spans(
            self._encoder,
            [[escape(word) for word in words] for words, _ in sentences],
            [None if one is None else self._tag_factors(one) for _, one in sentences],
        )
        for (words, constraints), (scores, tags) in zip(sentences, scored, strict=True):
            yield *self._span_posteriors(scores, len(words), constraints), tags

    def _span_posteriors(
        self, scores: Real, n: int, constraints: Constraints | None
    ) -> tuple[float, Real]:
        """Log of the sum over the trees that constraints allow, and posteriors of labels."""
        if constraints is None or not (constraints.required or constraints.forbidden):
            return span_posteriors(scores, [n])
        of_cell, allowed = constraints.cell_classes([*self._model.labels, None])
        is_allowed = allowed[of_cell]
        scores = np.where(is_allowed[:, :-1], scores, scores.dtype.type(EXCLUDED))
        log_sum, posterior = span_posteriors(scores, [n], is_allowed[:, -1])
        return log_sum, posterior * is_allowed[:, :-1]

    def log_ratio(self, words: list[str], constraints: Constraints) -> float:
        """Log-probability that the tree of a sentence satisfies constraints; -inf for never."""
        ((free, _, of_words),) = self._posteriors([(words, None)])
        log_tags = 0.0
        for place, tags in enumerate(constraints.tags):
            if tags is not None:
                p = of_words[place]
                mass = sum(float(p[self._number_of[x]]) * q for x, q in tags.items()
                           if x in self._number_of)  # fmt: skip
                log_tags += float(np.log(mass)) if mass > 0.0 else -np.inf
        if not (constraints.required or constraints.forbidden):
            return log_tags
        if any(tags is not None for tags in constraints.tags):  # scores of spans depend on them
            ((free, _, _),) = self._posteriors([(words, constraints.tags_alone())])
        ((log_sum, _, _),) = self._posteriors([(words, constraints)])
        return min(0.0, log_sum - free if log_sum - free > EXCLUDED / 2 else -np.inf) + log_tags

    @cached_property
    def _number_of(self) -> dict[str, int]:
        return {tag: number for number, tag in enumerate(self._model.tags)}

    def _tag_factors(self, constraints: Constraints) -> Real | None:
        """The factors of the tag probabilities, root and end of sentence included."""
        if all(tags is None for tags in constraints.tags):
            return None
        factors = np.ones((constraints.n + 2, len(self._number_of)), np.float32)
        for place, tags in enumerate(constraints.tags):
            known = {} if tags is None else {x: q for x, q in tags.items() if x in self._number_of}
            if known:
                factors[place + 1] = 0.0
                factors[place + 1, [self._number_of[x] for x in known]] = list(known.values())
        return factors

    def megabytes(self, n: int) -> float:
        """Memory that a sentence of n words needs, in millions of bytes."""
        n_labels, hidden = self._model.network.weights["label.W"].T.shape
        return float(n * (n + 1) / 2 * 4 * (2 * hidden + 3 * n_labels) / 1e6)


def _cut(order: list[int], lengths: list[int]) -> Iterator[list[int]]:
    """Group sentences, longest first, into batches with a limited number of words.

    Examples
    --------
    >>> list(_cut([2, 0, 1], [300, 90, 20]))
    [[2, 0], [1]]
    """
    first, n_words = 0, 0
    for place, n in enumerate(lengths):
        if n_words and n_words + n > BATCH_WORDS:
            yield order[first:place]
            first, n_words = place, 0
        n_words += n
    if order:
        yield order[first:]
