"""From a sentence to its forest, with the posteriors of a model (SPECTRAL, Figure 5).

The plain grammar fills the full chart, inside and outside; labelled spans below a posterior are
dropped. A latent grammar then runs its vectors over what is left, a `FeatureGrammar` the scores of
its spans.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, IntArray, cell, ranges, starts_of

if TYPE_CHECKING:
    from sapwood.corpus.treebank import Treebank
    from sapwood.inference.prepared import PlainTables, PreparedGrammar, SpanFeatures
    from sapwood.kernels.coarse import Chart, Tags
    from sapwood.kernels.forest import Forest
    from sapwood.models.latent_grammar import LatentGrammar

KEPT_NUMBERS = 16_000_000  # 128 MB a buffer; longer sentences get memory of their own
SMALLEST = 5e-324  # the least positive number: keeps every item of positive posterior
# Tags a thousand times rarer than a word's best one change no dev score and double the time.
TAG_SHARE = 1e-3
# Where that finds no parse, everything is tried again with no beam and this threshold.
LAST_THRESHOLD = 1e-10
RIGHT = 2.0  # marks the items of a given tree: no posterior is so large


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
    """A sentence's forest, with what a model says of its items and edges.

    Attributes
    ----------
    prepared
        The model: the plain grammar that pruned the chart, or whoever then ran over it.
    words
        The sentence.
    forest
        Items and edges, see `sapwood.kernels.forest`.
    entries : [n_leaves]
        The lexicon's entry of each tag; tags stand first among the items.
    items : [n_items]
        Posterior of each labelled span.
    edges : [n_edges]
        Posterior of each rule at its place; empty until somebody has worked it out.
    scale : [n_cells]
        Power of two of each span, under which the plain grammar's weights are about 1.
    roots
        Items that may be the root of the sentence.
    log_prob
        Log-probability of the sentence.
    n_negative
        Items whose posterior came out negative (spectral models only).
    labels, label_p, brackets
        Labels of the items, their posteriors, and those of all brackets, by all who looked at the
        sentence; empty until they are brought together.
    """

    prepared: PreparedGrammar
    words: list[str]
    forest: Forest
    entries: IntArray
    items: FloatArray
    edges: FloatArray
    scale: IntArray
    roots: IntArray
    log_prob: float
    n_negative: int = 0
    labels: ItemLabels = NO_LABELS
    label_p: FloatArray = NO_BRACKETS.p
    brackets: Brackets = NO_BRACKETS


# -- the plain grammar's charts ---------------------------------------------------------------


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


_scratch = _Scratch()


def plain_inside(plain: PlainTables, tags: Tags, beam: float = 0.0) -> Chart:
    """Inside chart of the plain grammar; valid until this thread charts its next sentence.

    Parameters
    ----------
    beam
        See `sapwood.kernels.coarse.fill`; 0 gives the full chart.
    """
    from sapwood.kernels.coarse import Chart, Runs, fill

    n, n_phrases = len(tags.scale), len(plain.root)
    room = _scratch.get("inside", chart_room(plain, n))
    active = _scratch.get("active", n * (n + 1) * n_phrases // 4 + 1).view(np.uint32)
    columns = fill(plain.rules, tags, room, active, plain.visits[:n_phrases], beam)
    return Chart(*columns[:-2], *(Runs(*runs) for runs in columns[-2:]))


def plain_outside(plain: PlainTables, tags: Tags, chart: Chart) -> tuple[FloatArray, FloatArray]:
    """Outside weights of phrases and of tags, likewise; times the inside weights, posteriors."""
    from sapwood.kernels.coarse import outside

    room = _scratch.get("outside", chart_room(plain, chart.n))
    alpha, tag_alpha = outside(plain.rules, tags, chart, plain.root, room)
    return alpha, tag_alpha


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
    from sapwood.kernels.coarse import Tags

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


# -- forests ----------------------------------------------------------------------------------


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
    from sapwood.kernels import forest as kernel
    from sapwood.kernels.coarse import partition

    plain, n = prepared.plain, len(words)
    chart = plain_inside(plain, tags, beam)
    total = partition(chart, plain.root)
    if not total > 0.0:
        return None
    alpha, tag_alpha = plain_outside(plain, tags, chart)
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
    from sapwood.kernels.forest import Forest, prune

    n, n_phrases = len(words), prepared.grammar.n_phrases
    label, start, end = (x[nodes].astype(np.int64) for x in (bank.label, bank.start, bank.end))
    is_phrase = label < n_phrases
    tag_of = np.empty(n, np.int64)
    tag_of[start[~is_phrase]] = label[~is_phrase] - n_phrases
    tags = tag_weights(prepared, words, TAG_SHARE, tag_of)
    chart = plain_inside(prepared.plain, tags, threshold)
    alpha, tag_alpha = plain_outside(prepared.plain, tags, chart)
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
    from sapwood.kernels.forest import Forest

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


# -- what a model says of a forest ----------------------------------------------------------------


Starts = npt.NDArray[np.uint64]


def posteriors(prepared: PreparedGrammar, left: ParseForest) -> ParseForest | None:
    """Posteriors of a model over what its plain grammar has left; None for no parse."""
    if left.prepared is not prepared:
        left = left._replace(prepared=prepared)
    if prepared.features is not None:
        return _by_features(prepared.features, left)
    return left if prepared.grammar.is_plain else _by_vectors(left)


def _by_features(features: SpanFeatures, left: ParseForest) -> ParseForest | None:
    from sapwood.kernels.span_features import log_linear_posteriors, scores

    of_items, of_edges = features.of(left.forest, left.words)
    total, items, edges = log_linear_posteriors(
        left.forest, left.roots, scores(of_items, features.weights),
        scores(of_edges, features.weights),
    )  # fmt: skip
    return None if total == -np.inf else left._replace(items=items, edges=edges)


def _by_vectors(left: ParseForest) -> ParseForest | None:
    from sapwood.kernels.latent import outside

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
    from sapwood.kernels.latent import inside

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
