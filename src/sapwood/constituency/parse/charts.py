"""From a sentence to its forest, with the posteriors of a model (SPECTRAL, Figure 5) or of several.

The plain grammar fills the full chart, inside and outside; labelled spans below a posterior are
dropped. A latent grammar then runs its vectors over what is left, a `FeatureGrammar` the scores of
its spans. Members of an ensemble that prune alike form a group and share one chart: the one with
the fewest states runs over it first and prunes it once more, so that the larger ones see little
more than what is worth a thought. Groups meet in brackets: labels of the treebank over words,
whatever symbols a grammar makes of them. A network has posteriors of brackets without a chart.

Notation
--------
    code    (label * (n + 1) + start) * (n + 1) + end, a bracket as one number
    p       posterior of a bracket: the sum of those of the items whose chain has the label

A joint symbol (`S|VP`) stands for several brackets, an intermediate one (`@VP:>PP`) for none.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol
from sapwood.constituency.grammar.ensemble import Ensemble
from sapwood.constituency.parse.prepared import prepare
from sapwood.constituency.parse.spans import chains_of
from sapwood.core.arrays import FloatArray, IntArray, cell, ranges, starts_of

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.feature_grammar import SpanFeatures
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.grammar.member import BracketReader
    from sapwood.constituency.parse.kernels.coarse import Chart, Tags
    from sapwood.constituency.parse.kernels.forest import Forest
    from sapwood.constituency.parse.prepared import PlainTables, PreparedGrammar

# Numbers of a buffer that a thread keeps: 32 MB, for 90 words with the rules of the Penn sample.
# Longer sentences get memory of their own and give it back, which is 5 % slower at 100 words.
KEPT_NUMBERS = 4_000_000
SMALLEST = 5e-324  # the least positive number: keeps every item of positive posterior
# Tags a thousand times rarer than a word's best one change no dev score and double the time.
TAG_SHARE = 1e-3
# Where that finds no parse, everything is tried again with no beam and this threshold.
LAST_THRESHOLD = 1e-10
RIGHT = 2.0  # marks the items of a given tree: no posterior is so large


class ItemLabels(NamedTuple):
    """All labels of all items of a forest."""

    item: IntArray  # the item of each row
    code: IntArray  # the bracket
    is_tag: npt.NDArray[np.bool_]  # whether it is the tag of a word


NO_LABELS = ItemLabels(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


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


class ParseForest(NamedTuple):
    """A sentence's forest, with what a model says of its items and edges."""

    # the model: the plain grammar that pruned the chart, or whoever then ran over it
    prepared: PreparedGrammar
    words: list[str]  # the sentence
    forest: Forest  # items and edges, see `sapwood.constituency.parse.kernels.forest`
    # [n_leaves]: the lexicon's entry of each tag; tags stand first among the items
    entries: IntArray
    items: FloatArray  # [n_items]: posterior of each labelled span
    # [n_edges]: posterior of each rule at its place; empty until somebody has worked it out
    edges: FloatArray
    # [n_cells]: power of two of each span, under which the plain grammar's weights are about 1
    scale: IntArray
    roots: IntArray  # items that may be the root of the sentence
    log_prob: float  # log-probability of the sentence
    n_negative: int = 0  # items whose posterior came out negative (spectral models only)
    # labels of the items, their posteriors, and those of all brackets, by all who looked at the
    # sentence; empty until they are brought together
    labels: ItemLabels = NO_LABELS
    label_p: FloatArray = NO_BRACKETS.p
    brackets: Brackets = NO_BRACKETS


class _Scratch(threading.local):
    """Memory for charts, kept by each thread: fresh memory costs more than the sums."""

    def __init__(self) -> None:
        self.kept: dict[str, FloatArray] = {}

    def get(self, name: str, size: int) -> FloatArray:
        """A buffer of at least this many numbers; its contents are whatever was there."""
        if size > KEPT_NUMBERS:
            return np.empty(size)
        buffer = self.kept.get(name)
        if buffer is None or len(buffer) < size:
            buffer = self.kept[name] = np.empty(min(KEPT_NUMBERS, size * 3 // 2))
        return buffer

    def forget(self) -> None:
        """Start anew in a fork: to copy what is there takes longer than to ask for memory."""
        self.kept = {name: np.empty(len(buffer)) for name, buffer in self.kept.items()}


_scratch = _Scratch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_scratch.forget)


def plain_inside(plain: PlainTables, tags: Tags, beam: float = 0.0) -> Chart:
    """Inside chart of the plain grammar; valid until this thread charts its next sentence.

    A beam of 0 gives the full chart, see `sapwood.constituency.parse.kernels.coarse.fill`.
    """
    from sapwood.constituency.parse.kernels.coarse import Chart, Runs, fill

    n, n_phrases = len(tags.scale), len(plain.root)
    room = _scratch.get("inside", chart_room(plain, n))
    active = _scratch.get("active", n * (n + 1) * n_phrases // 4 + 1).view(np.uint32)
    columns = fill(plain.rules, tags, room, active, plain.visits[:n_phrases], beam)
    return Chart(*columns[:-2], *(Runs(*runs) for runs in columns[-2:]))


def chart_room(plain: PlainTables, n: int) -> int:
    """How many numbers the charts of an n-word sentence need in either direction."""
    slots = len(plain.rules.left_of) + len(plain.rules.right_of)
    return n * (n + 1) // 2 * len(plain.root) + (n + 1) * (n + 1) * slots


def tag_weights(
    prepared: PreparedGrammar,
    words: list[str],
    least_share: float = 0.0,
    right: IntArray | None = None,
) -> Tags:
    """Coarse weights of the tags of each word, scaled to at most 1.

    Parameters
    ----------
    least_share
        Tags less probable than this, relative to the word's best tag, are left out.
    right : [n]
        Tags of the words that are kept however improbable.
    """
    from sapwood.constituency.parse.kernels.coarse import Tags

    lexicon = prepared.grammar.lexicon
    rows = lexicon.vocabulary.rows(words)
    first, end = (lexicon.row_start[rows + side].astype(np.int64) for side in (0, 1))
    entry = ranges(first, end)
    position = np.repeat(np.arange(len(words)), end - first)
    if least_share > 0.0:
        kept = prepared.plain.entry_share[entry] >= least_share
        if right is not None:
            kept |= lexicon.entry_tag[entry] == right[position]
        entry, position = entry[kept], position[kept]
    weight = prepared.grammar.coarse.lexical[entry]
    peak = np.zeros(len(words))
    np.maximum.at(peak, position, weight)
    _, scale = np.frexp(peak)
    scale = scale.astype(np.int64)
    start = np.searchsorted(position, np.arange(len(words) + 1)).astype(np.uint32)
    weight = np.ldexp(weight, -scale[position])
    return Tags(start, lexicon.entry_tag[entry], weight, scale, entry)


def sentence_log(scale: IntArray, n: int, total: float) -> float:
    """Log of the absolute weight of a sentence of n words, its power of two included."""
    return log(abs(total)) + int(scale[n - 1]) * log(2.0) if total else -inf


def pruned_forests(
    prepared: PreparedGrammar, words: list[str], threshold: float, beam: float = 0.0
) -> Iterator[ParseForest]:
    """The chart pruned as asked, then, for who finds no parse in it, one that is hardly pruned.

    Parameters
    ----------
    words
        Two or more.
    threshold
        Labelled spans whose posterior under the plain grammar is lower are dropped.
    beam
        Phrases much less probable than the best one over their span are dropped while the chart is
        filled; 0 fills the full chart.
    """
    threshold = max(threshold, SMALLEST)  # an item of posterior 0 can never be part of a tree
    share = TAG_SHARE if threshold > SMALLEST or beam > 0.0 else 0.0  # no pruning means none at all
    attempts = ((share, beam, threshold), (0.0, 0.0, min(threshold, LAST_THRESHOLD)))
    for least_share, width, least_posterior in attempts:
        tags = tag_weights(prepared, words, least_share)
        parsed = plain_forest(prepared, words, tags, least_posterior, width)
        if parsed is not None:
            yield parsed


def plain_forest(
    prepared: PreparedGrammar, words: list[str], tags: Tags, threshold: float, beam: float = 0.0
) -> ParseForest | None:
    """What the plain grammar leaves, with its posteriors; None when it finds no parse."""
    from sapwood.constituency.parse.kernels import forest as kernel
    from sapwood.constituency.parse.kernels.coarse import outside, partition

    plain, n = prepared.plain, len(words)
    chart = plain_inside(plain, tags, beam)
    total = partition(chart, plain.root)
    if not total > 0.0:
        return None
    room = _scratch.get("outside", chart_room(plain, n))
    alpha, tag_alpha = outside(plain.rules, tags, chart, plain.root, room)
    tag_posterior = tags.weight * tag_alpha
    kept = tag_posterior >= threshold
    *columns, items = kernel.prune(plain.pairs, tags, chart.beta * alpha, tag_posterior, threshold)
    forest = kernel.Forest(*columns)
    roots = root_items(forest, n)
    roots = roots[prepared.grammar.coarse.root[forest.symbol[roots]] > 0]
    edges = np.empty(0)
    if prepared.grammar.is_plain:
        leaf_weight = np.zeros(len(items))
        leaf_weight[: int(kept.sum())] = tags.weight[kept]  # tags stand first, in the same order
        edges = kernel.edge_posteriors(
            forest, chart.beta, chart.scale, alpha, leaf_weight, tags.scale, n,
            prepared.grammar.coarse.rules,
        )  # fmt: skip
    return ParseForest(
        prepared, words, forest, tags.entry[kept], items, edges, chart.scale, roots,
        sentence_log(chart.scale, n, total),
    )  # fmt: skip


def root_items(forest: Forest, n: int) -> IntArray:
    """Items that cover the whole sentence."""
    first = np.searchsorted(forest.end - forest.start, n)  # items stand in order of width
    return np.arange(first, len(forest.symbol))


def right_forest(
    prepared: PreparedGrammar, words: list[str], bank: Treebank, nodes: slice, threshold: float
) -> tuple[ParseForest, FloatArray, FloatArray]:
    """The forest of a training sentence, with the right tree in it whatever its posterior.

    Parameters
    ----------
    bank, nodes
        Where the right tree lies; the treebank numbers symbols as the grammar does.

    Returns
    -------
    The forest, and which of its items and of its edges are right: 1 or 0.
    """
    from sapwood.constituency.parse.kernels.coarse import outside
    from sapwood.constituency.parse.kernels.forest import Forest, prune

    n, n_phrases = len(words), prepared.grammar.n_phrases
    label, start, end = (x[nodes].astype(np.int64) for x in (bank.label, bank.start, bank.end))
    is_phrase = label < n_phrases
    tag_of = np.empty(n, np.int64)
    tag_of[start[~is_phrase]] = label[~is_phrase] - n_phrases
    tags = tag_weights(prepared, words, TAG_SHARE, tag_of)
    chart = plain_inside(prepared.plain, tags, threshold)
    room = _scratch.get("outside", chart_room(prepared.plain, n))
    alpha, tag_alpha = outside(prepared.plain.rules, tags, chart, prepared.plain.root, room)
    posterior, tag_posterior = chart.beta * alpha, tags.weight * tag_alpha
    posterior[cell(start[is_phrase], end[is_phrase], n), label[is_phrase]] = RIGHT
    first = tags.start.astype(np.int64)
    position = np.repeat(np.arange(n), first[1:] - first[:-1])
    tag_posterior[tags.tag == tag_of[position]] = RIGHT
    *columns, items = prune(prepared.plain.pairs, tags, posterior, tag_posterior, threshold)
    forest, right = Forest(*columns), items == RIGHT
    parsed = ParseForest(
        prepared, words, forest, tags.entry[tag_posterior >= threshold], items, np.empty(0),
        chart.scale, root_items(forest, n), 0.0,
    )  # fmt: skip
    # spans of a tree that tile another one of it are its children
    edges = right[forest.head] & right[forest.left] & right[forest.right]
    return parsed, right.astype(float), edges.astype(float)


def one_word_forest(prepared: PreparedGrammar, word: str) -> ParseForest | None:
    """The tags that can be a whole sentence; None when the word has none."""
    from sapwood.constituency.parse.kernels.forest import Forest

    symbols, weights, entries = one_word_weights(prepared.grammar, word)
    total = float(weights.sum())
    kept = weights != 0
    if total == 0.0:
        return None
    n_items = int(kept.sum())
    zeros, none = np.zeros(n_items, np.uint32), np.empty(0, np.uint32)
    forest = Forest(symbols[kept].astype(np.uint32), zeros, zeros + 1, none, none, none, none)
    items = weights[kept] / total
    return ParseForest(
        prepared, [word], forest, entries[kept], items, np.empty(0), np.zeros(1, np.int64),
        np.arange(n_items), float(np.log(abs(total))), int((items < 0).sum()),
    )  # fmt: skip


def one_word_weights(grammar: LatentGrammar, word: str) -> tuple[IntArray, FloatArray, IntArray]:
    """Tags (as symbol numbers) that can be a whole sentence, their weights, and their entries."""
    lexicon, state_start = grammar.lexicon, grammar.state_start
    row = lexicon.vocabulary.row(word, is_first=True)
    entries = np.arange(lexicon.row_start[row], lexicon.row_start[row + 1], dtype=np.int64)
    symbols = grammar.n_phrases + lexicon.entry_tag[entries].astype(np.int64)
    weights = np.array(
        [
            grammar.root[state_start[a] : state_start[a + 1]]
            @ lexicon.weights[lexicon.weight_start[e] : lexicon.weight_start[e + 1]]
            for a, e in zip(symbols.tolist(), entries.tolist(), strict=True)
        ]
    )
    return symbols, weights, entries


Starts = npt.NDArray[np.uint64]


def posteriors(prepared: PreparedGrammar, left: ParseForest) -> ParseForest | None:
    """Posteriors of a model over what its plain grammar has left; None for no parse."""
    if left.prepared is not prepared:
        left = left._replace(prepared=prepared)
    if prepared.features is not None:
        return _by_features(prepared.features, left)
    return left if prepared.grammar.is_plain else _by_vectors(left)


def _by_features(features: SpanFeatures, left: ParseForest) -> ParseForest | None:
    from sapwood.constituency.parse.kernels.span_features import log_linear_posteriors, scores

    of_items, of_edges = features.of(left.forest, left.words)
    total, items, edges = log_linear_posteriors(
        left.forest, left.roots, scores(of_items, features.weights),
        scores(of_edges, features.weights),
    )  # fmt: skip
    return None if total == -np.inf else left._replace(items=items, edges=edges)


def _by_vectors(left: ParseForest) -> ParseForest | None:
    from sapwood.constituency.parse.kernels.latent import outside

    forest, n, grammar = left.forest, len(left.words), left.prepared.grammar
    start, beta, total = inside_vectors(left)
    if total == 0.0 or not np.isfinite(total):
        return None
    alpha = np.zeros_like(beta)
    for place, at in _root_places(left, start, left.roots):
        alpha[place] = grammar.root[at] / total
    largest = int(grammar.n_states.max())
    edges = outside(forest, n, left.scale, start, *left.prepared.tensors, beta, alpha, largest)
    items = np.add.reduceat(alpha * beta, start[:-1].astype(np.int64))
    if not (np.isfinite(items).all() and np.isfinite(edges).all()):
        return None  # weights beyond all bounds: nothing can be said about what is in the tree
    log_prob, n_negative = sentence_log(left.scale, n, total), int((items < 0).sum())
    return left._replace(items=items, edges=edges, log_prob=log_prob, n_negative=n_negative)


def inside_vectors(left: ParseForest) -> tuple[Starts, FloatArray, float]:
    """Inside vectors of a forest: where each item's starts, the vectors, the sentence's weight."""
    from sapwood.constituency.parse.kernels.latent import inside

    forest, n, grammar = left.forest, len(left.words), left.prepared.grammar
    start, beta = leaf_vectors(left)
    largest = int(grammar.n_states.max())
    inside(forest, n, left.scale, start, *left.prepared.tensors, beta, largest)
    total = 0.0
    for place, at in _root_places(left, start, root_items(forest, n)):
        total += float(grammar.root[at] @ beta[place])
    return start, beta, total


def _root_places(
    left: ParseForest, start: Starts, items: IntArray
) -> Iterator[tuple[slice, slice]]:
    """Where the vectors of some items lie among those of all, and in the root of the grammar."""
    state_start = left.prepared.grammar.state_start
    for item, symbol in zip(items.tolist(), left.forest.symbol[items].tolist(), strict=True):
        place = slice(int(start[item]), int(start[item + 1]))
        yield place, slice(int(state_start[symbol]), int(state_start[symbol + 1]))


def leaf_vectors(left: ParseForest) -> tuple[Starts, FloatArray]:
    """Vectors of all items of a forest, with only those of the tags filled in.

    Each is the emission vector of its tag and word, divided by the power of two of its span.
    """
    forest, grammar, n_leaves = left.forest, left.prepared.grammar, len(left.entries)
    sizes = grammar.n_states[forest.symbol]
    start = starts_of(sizes)
    vectors, stop = np.zeros(int(start[-1])), int(start[n_leaves])
    i, m = forest.start[:n_leaves].astype(np.int64), sizes[:n_leaves]
    place = np.repeat(grammar.lexicon.weight_start[left.entries] - start[:n_leaves], m)
    down = np.repeat(-left.scale[cell(i, i + 1, len(left.words))], m)
    vectors[:stop] = np.ldexp(grammar.lexicon.weights[place + np.arange(stop)], down)
    return start.astype(np.uint64), vectors


FLOOR = 1e-6  # least posterior in a product: one member alone cannot rule a rule out


class Pruning(NamedTuple):
    """How much of a chart is dropped, see `Parser`."""

    # under the plain grammar
    threshold: float
    beam: float
    # least posterior under the smallest of several members for the others to look at an item
    middle: float


class Mixer:
    """A model prepared for parsing; a single grammar is an ensemble of one.

    Attributes
    ----------
    ensemble
        What parses.
    groups
        Its members with their weights, by chart; in each, those with fewer states first.
    readers
        Networks with their weights.
    labels
        Names of the labels in brackets.
    """

    def __init__(self, model: Model) -> None:
        self.ensemble = model.as_ensemble()
        chains = (symbol.chain for one in self.ensemble.grammars for symbol in one.symbols)
        self.labels = tuple(dict.fromkeys(label for chain in chains for label in chain))
        self._numbers = {label: number for number, label in enumerate(self.labels)}
        self.groups: list[_Group] = []
        self.readers: list[tuple[BracketReader, float]] = []
        # plain grammars behind networks, with the weights of all networks before each
        self._behind: dict[int, tuple[LatentGrammar, float]] = {}
        for places in self.ensemble.groups:
            # who has no weight is not asked, but for the first, whose symbols trees are made of
            if self.ensemble.weights[list(places)].sum() == 0 and places[0] > 0:
                continue
            member = self.ensemble.members[places[0]]
            reader = member.reader(self._numbers)
            if reader is None:
                self.groups.append(_Group(self.ensemble, places, self._numbers))
                continue
            weight = float(self.ensemble.weights[places[0]])
            self.readers.append((reader, weight))
            owner = self.ensemble.chart_owners[places[0]]
            plain, known = self._behind.get(owner, (member.chart_grammar, 0.0))
            self._behind[owner] = plain, known + weight

    def __reduce__(self) -> tuple[Any, ...]:
        return Mixer, (self.ensemble,)  # whose tables are made again where they are needed

    @cached_property
    def home(self) -> _Group:
        """Members that share the first chart; the first plain grammar where nobody needs any."""
        if self.groups:
            return self.groups[0]
        return _Group(Ensemble.of(self.ensemble.grammars[:1]), (0,), self._numbers)

    @cached_property
    def chains(self) -> dict[frozenset[str], tuple[str, ...]]:
        """The labels of a span, outermost first, by which they are."""
        return chains_of(self.ensemble.grammars)

    def believe(self, words: list[str], pruning: Pruning) -> Beliefs | None:
        """Posteriors of a sentence of two or more words; None when nobody finds a parse."""
        return self.join(words, [group.parse(words, pruning) for group in self.groups])

    def join(self, words: list[str], found: Sequence[ParseForest | None]) -> Beliefs | None:
        """The forest of the first group that has one, with brackets averaged over all that do."""
        pairs = [
            (group, parsed)
            for group, parsed in zip(self.groups, found, strict=True)
            if parsed is not None
        ]
        if not pairs and not self.readers:
            return None
        tables = [item_labels(parsed.forest, len(words), group.table) for group, parsed in pairs]
        parts = [
            brackets_of(rows, np.clip(parsed.items, 0.0, 1.0))
            for rows, (_, parsed) in zip(tables, pairs, strict=True)
        ]
        parts += [Brackets(*reader.read(words)) for reader, _ in self.readers]
        weights = [group.weight for group, _ in pairs] + [weight for _, weight in self.readers]
        joint = parts[0]
        if len(parts) > 1:
            joint = mixed(parts, [weight / sum(weights) for weight in weights])
        sharp = joint._replace(p=sharpened(joint.p, self.ensemble.sharpness))
        forest = _with_brackets(pairs[0][1], tables[0], sharp) if pairs else None
        logs = tuple((group.weight, parsed.log_prob) for group, parsed in pairs)
        return Beliefs(sharp, forest, logs)

    def sentence_log_prob(self, words: list[str], beliefs: Beliefs, pruning: Pruning) -> float:
        """Log-probability of a sentence: the weighted mean over members, as in `Ensemble.log_prob`.

        That of a network is its plain grammar's, which is charted now.
        """
        logs = list(beliefs.logs)
        for plain, weight in self._behind.values():
            prepared = prepare(plain)
            if len(words) == 1:
                left = one_word_forest(prepared, words[0])
            else:
                left = next(pruned_forests(prepared, words, pruning.threshold, pruning.beam), None)
            logs += [(weight, left.log_prob)] if left is not None else []
        weights, found = np.array(logs).reshape(-1, 2).T
        with np.errstate(divide="ignore"):  # a first group may have no weight
            return float(np.logaddexp.reduce(np.log(weights) + found))

    def chart(self, words: list[str], brackets: Brackets, pruning: Pruning) -> ParseForest | None:
        """The forest of the first plain grammar, with what others believe of its brackets."""
        one = len(words) == 1
        parsed = self.home.one_word(words[0]) if one else self.home.parse(words, pruning)
        if parsed is None:
            return None
        rows = item_labels(parsed.forest, len(words), self.home.table)
        return _with_brackets(parsed, rows, brackets)


def _with_brackets(parsed: ParseForest, rows: ItemLabels, brackets: Brackets) -> ParseForest:
    return parsed._replace(labels=rows, label_p=brackets.of(rows.code), brackets=brackets)


class Beliefs(NamedTuple):
    """What a model thinks of a sentence: brackets, and the first forest where there is one."""

    brackets: Brackets
    forest: ParseForest | None
    logs: tuple[tuple[float, float], ...]  # weights and sentence log-probabilities of its groups


class _Group:
    """Members that share a chart."""

    def __init__(self, ensemble: Ensemble, places: Sequence[int], numbers: dict[str, int]) -> None:
        heard = [k for k in places if ensemble.weights[k] > 0] or places[:1]
        by_size = sorted(heard, key=lambda k: int(ensemble.grammars[k].n_states.sum()))
        first = prepare(ensemble.members[by_size[0]])
        others = [prepare(ensemble.members[k], chart_owner=first) for k in by_size[1:]]
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
