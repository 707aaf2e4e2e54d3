"""From a sentence to the forest that the plain grammar leaves of its chart.

The plain grammar fills the full chart, inside and outside; labelled spans below a posterior are
dropped. What else there is of a model runs over what is left, see `sapwood.inference.posteriors`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, IntArray, cell, ranges
from sapwood.inference.brackets import NO_BRACKETS, NO_LABELS, Brackets, ItemLabels
from sapwood.models.tree_model import SignedLog

if TYPE_CHECKING:
    from sapwood.corpus.treebank import Treebank
    from sapwood.inference.prepared import PlainTables, PreparedGrammar
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
    labels, brackets
        Labels of the items, and posteriors of brackets by all who looked at the sentence; empty
        until they are brought together.
    """

    prepared: PreparedGrammar
    words: list[str]
    forest: Forest
    items: FloatArray
    edges: FloatArray
    scale: IntArray
    roots: IntArray
    log_prob: float
    n_negative: int = 0
    labels: ItemLabels = NO_LABELS
    brackets: Brackets = NO_BRACKETS

    @property
    def grammar(self) -> LatentGrammar:
        """Whose symbols the items are made of."""
        return self.prepared.grammar


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
        See `sapwood.kernels.coarse.inside`; 0 gives the full chart.
    """
    from sapwood.kernels import coarse

    n, n_phrases = len(tags.scale), len(plain.root)
    room = _scratch.get("inside", coarse.chart_room(plain.rules, n))
    active = _scratch.get("active", n * (n + 1) * n_phrases // 4 + 1).view(np.uint32)
    chart: Chart = coarse.inside(plain.rules, tags, room, active, plain.visits[:n_phrases], beam)
    return chart


def plain_outside(plain: PlainTables, tags: Tags, chart: Chart) -> tuple[FloatArray, FloatArray]:
    """Outside weights of phrases and of tags, likewise; times the inside weights, posteriors."""
    from sapwood.kernels import coarse

    room = _scratch.get("outside", coarse.chart_room(plain.rules, chart.n))
    alpha, tag_alpha = coarse.outside(plain.rules, tags, chart, plain.root, room)
    return alpha, tag_alpha


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
    return Tags(start, lexicon.entry_tag[entry], np.ldexp(weight, -scale[position]), scale)


def sentence_weight(scale: IntArray, n: int, total: float) -> SignedLog:
    """Undo the scaling of the weight of a sentence of n words."""
    return SignedLog.of(total, power=int(scale[cell(0, n, n)]))


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
    from sapwood.kernels import coarse

    plain, n = prepared.plain, len(words)
    chart = plain_inside(plain, tags, beam)
    total = coarse.partition(chart, plain.root)
    if not total > 0.0:
        return None
    alpha, tag_alpha = plain_outside(plain, tags, chart)
    tag_posterior = tags.weight * tag_alpha
    forest, items = _build(prepared, tags, chart.beta * alpha, tag_posterior, threshold)
    roots = root_items(forest, n)
    roots = roots[prepared.grammar.coarse.root[forest.symbol[roots]] > 0]
    edges = np.empty(0)
    if prepared.grammar.is_plain:
        kept = tag_posterior >= threshold
        edges = _plain_edges(prepared.grammar, forest, chart, tags, alpha, kept)
    log_prob = sentence_weight(chart.scale, n, total).log
    return ParseForest(prepared, words, forest, items, edges, chart.scale, roots, log_prob)


def _build(
    prepared: PreparedGrammar,
    tags: Tags,
    posterior: FloatArray,
    tag_posterior: FloatArray,
    threshold: float,
) -> tuple[Forest, FloatArray]:
    from sapwood.kernels import forest

    return forest.build(
        prepared.plain.pairs, prepared.grammar.n_symbols, len(tags.scale), posterior,
        tags.start, tags.tag, tag_posterior, threshold,
    )  # fmt: skip


def _plain_edges(
    grammar: LatentGrammar,
    forest: Forest,
    chart: Chart,
    tags: Tags,
    alpha: FloatArray,
    kept: npt.NDArray[np.bool_],
) -> FloatArray:
    from sapwood.kernels.forest import edge_posteriors

    leaf_weight = np.zeros(len(forest.symbol))
    leaf_weight[: int(kept.sum())] = tags.weight[kept]  # tags stand first, in the same order
    return np.asarray(
        edge_posteriors(
            forest, chart.beta, chart.scale, alpha, leaf_weight, tags.scale, chart.n,
            grammar.coarse.rules,
        )
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
    forest, items = _build(prepared, tags, posterior, tag_posterior, threshold)
    right, roots = items == RIGHT, root_items(forest, n)
    parsed = ParseForest(prepared, words, forest, items, np.empty(0), chart.scale, roots, 0.0)
    return parsed, right.astype(float), _right_edges(forest, right).astype(float)


def _right_edges(forest: Forest, right: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Edges of the right tree: spans of a tree that tile another one of it are its children."""
    return np.asarray(right[forest.head] & right[forest.left] & right[forest.right])


def one_word_forest(prepared: PreparedGrammar, word: str) -> ParseForest | None:
    """The tags that can be a whole sentence; None when the word has none."""
    from sapwood.kernels.forest import Forest

    symbols, weights = one_word_weights(prepared.grammar, word)
    total = float(weights.sum())
    kept = weights != 0
    if total == 0.0:
        return None
    n_items = int(kept.sum())
    zeros, none = np.zeros(n_items, np.uint32), np.empty(0, np.uint32)
    forest = Forest(symbols[kept].astype(np.uint32), zeros, zeros + 1, none, none, none, none)
    items = weights[kept] / total
    return ParseForest(
        prepared, [word], forest, items, np.empty(0), np.zeros(1, np.int64), np.arange(n_items),
        float(np.log(abs(total))), int((items < 0).sum()),
    )  # fmt: skip


def one_word_weights(grammar: LatentGrammar, word: str) -> tuple[IntArray, FloatArray]:
    """Tags (as symbol numbers) that can be a whole sentence, and their weights."""
    lexicon = grammar.lexicon
    entries = lexicon.entries(lexicon.vocabulary.row(word, is_first=True))
    symbols = grammar.n_phrases + lexicon.entry_tag[entries].astype(np.int64)
    weights = np.array(
        [
            grammar.root_vector(int(a))
            @ lexicon.weights[lexicon.weight_start[e] : lexicon.weight_start[e + 1]]
            for a, e in zip(symbols, range(entries.start, entries.stop), strict=True)
        ]
    )
    return symbols, weights
