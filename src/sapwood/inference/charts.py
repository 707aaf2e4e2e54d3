"""From a sentence to a pruned forest with posteriors.

Two passes. The plain grammar fills the full chart; labelled spans below a posterior are dropped. A
latent grammar then runs its vectors over what is left (SPECTRAL, Figure 5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sapwood.arrays import cell
from sapwood.models.feature_grammar import FeatureGrammar
from sapwood.models.score import (
    SMALLEST,
    coarse_inside,
    coarse_outside,
    inside_vectors,
    one_word_weights,
    root_items,
    sentence_weight,
    tag_weights,
)

if TYPE_CHECKING:
    from sapwood.corpus.treebank import Treebank
    from sapwood.kernels.coarse import Chart, Tags
    from sapwood.kernels.forest import Forest
    from sapwood.models.latent_grammar import LatentGrammar

FloatArray = npt.NDArray[np.float64]
# Tags a thousand times rarer than a word's best one change no dev score and double the time.
TAG_SHARE = 1e-3
# Where that finds no parse, everything is tried again with no beam and this threshold.
LAST_THRESHOLD = 1e-10
RIGHT = 2.0  # marks the items of a given tree: no posterior is so large


@dataclass(frozen=True, eq=False)
class ParseForest:
    """What decoders need: a forest and the posterior of each of its items and edges.

    Attributes
    ----------
    forest
        Items and edges, see `sapwood.kernels.forest`.
    items : [n_items]
        Posterior of each labelled span.
    edges : [n_edges]
        Posterior of each rule at its place.
    scale : [n_cells]
        Power of two of each span, under which the plain grammar's weights are about 1.
    roots
        Items that may be the root of the sentence.
    log_prob
        Log-probability of the sentence.
    n_negative
        Items whose posterior came out negative (spectral models only).
    """

    forest: Forest
    items: FloatArray
    edges: FloatArray
    scale: npt.NDArray[np.int64]
    roots: npt.NDArray[np.int64]
    log_prob: float
    n_negative: int = 0


@dataclass(frozen=True, eq=False)
class PrunedChart:
    """What the plain grammar leaves of a sentence's chart, for latent grammars to run over.

    Attributes
    ----------
    words
        The sentence, of two or more words.
    forest
        Items and edges that reach the posterior.
    items : [n_items]
        Their posteriors under the plain grammar.
    edges : [n_edges]
        Likewise, where the grammar itself is plain; else empty.
    scale, roots
        As in a `ParseForest`.
    log_prob
        Log-probability of the sentence under the plain grammar.
    """

    words: list[str]
    forest: Forest
    items: FloatArray
    edges: FloatArray
    scale: npt.NDArray[np.int64]
    roots: npt.NDArray[np.int64]
    log_prob: float


def parse_forest(
    grammar: LatentGrammar, words: list[str], threshold: float, beam: float = 0.0
) -> ParseForest | None:
    """Chart a sentence of two or more words; None when the grammar has no parse for it.

    Parameters
    ----------
    threshold
        Labelled spans whose posterior under the plain grammar is lower are dropped.
    beam
        Phrases much less probable than the best one over their span are dropped while the chart is
        filled; 0 fills the full chart.
    """
    for chart in pruned_charts(grammar, words, threshold, beam):
        parsed = posteriors(grammar, chart)
        if parsed is not None:
            return parsed
    return None


def pruned_charts(
    grammar: LatentGrammar, words: list[str], threshold: float, beam: float = 0.0
) -> Iterator[PrunedChart]:
    """The chart pruned as asked, then, for who finds no parse in it, one that is hardly pruned."""
    threshold = max(threshold, SMALLEST)  # an item of posterior 0 can never be part of a tree
    share = TAG_SHARE if threshold > SMALLEST or beam > 0.0 else 0.0  # no pruning means none at all
    attempts = ((share, beam, threshold), (0.0, 0.0, min(threshold, LAST_THRESHOLD)))
    for least_share, width, least_posterior in attempts:
        tags = tag_weights(grammar, words, least_share)
        chart = _pruned(grammar, words, tags, width, least_posterior)
        if chart is not None:
            yield chart


def _pruned(
    grammar: LatentGrammar, words: list[str], tags: Tags, beam: float, threshold: float
) -> PrunedChart | None:
    """The plain grammar's chart with the given tags and pruning; None when it finds no parse."""
    from sapwood.kernels import coarse, forest

    n = len(words)
    chart = coarse_inside(grammar, tags, beam)
    total = coarse.partition(chart, grammar.coarse.root[: grammar.n_phrases])
    if not total > 0.0:
        return None
    alpha, tag_alpha = coarse_outside(grammar, tags, chart)
    tag_posterior = tags.weight * tag_alpha
    packed, items = forest.build(
        grammar.pair_table, grammar.n_symbols, n, chart.beta * alpha,
        tags.start, tags.tag, tag_posterior, threshold,
    )  # fmt: skip
    roots = root_items(packed, n)
    roots = roots[grammar.coarse.root[packed.symbol[roots]] > 0]
    edges = np.empty(0)
    if grammar.is_plain:
        edges = _plain_edges(grammar, packed, chart, tags, alpha, tag_posterior >= threshold)
    log_prob = sentence_weight(chart.scale, n, total).log
    return PrunedChart(words, packed, items, edges, chart.scale, roots, log_prob)


def _plain_edges(
    grammar: LatentGrammar,
    packed: Forest,
    chart: Chart,
    tags: Tags,
    alpha: FloatArray,
    kept: npt.NDArray[np.bool_],
) -> FloatArray:
    from sapwood.kernels.forest import edge_posteriors

    leaf_weight = np.zeros(len(packed.symbol))
    leaf_weight[: int(kept.sum())] = tags.weight[
        kept
    ]  # tag items stand first, in the order of the tags
    return np.asarray(
        edge_posteriors(
            packed, chart.beta, chart.scale, alpha, leaf_weight, tags.scale, chart.n,
            grammar.coarse.rules,
        )
    )  # fmt: skip


def right_chart(
    grammar: LatentGrammar, words: list[str], bank: Treebank, nodes: slice, threshold: float
) -> tuple[PrunedChart, FloatArray, FloatArray]:
    """The pruned chart of a training sentence, with the right tree in it whatever its posterior.

    Parameters
    ----------
    bank, nodes
        Where the right tree lies; the treebank numbers symbols as the grammar does.

    Returns
    -------
    The chart, and which of its items and of its edges are right: 1 or 0.
    """
    from sapwood.kernels import forest

    n, n_phrases = len(words), grammar.n_phrases
    label, start, end = (x[nodes].astype(np.int64) for x in (bank.label, bank.start, bank.end))
    is_phrase = label < n_phrases
    tag_of = np.empty(n, np.int64)
    tag_of[start[~is_phrase]] = label[~is_phrase] - n_phrases
    tags = tag_weights(grammar, words, TAG_SHARE, tag_of)
    chart = coarse_inside(grammar, tags, threshold)
    alpha, tag_alpha = coarse_outside(grammar, tags, chart)
    posterior, tag_posterior = chart.beta * alpha, tags.weight * tag_alpha
    i, j = start[is_phrase], end[is_phrase]
    posterior[cell(i, j, n), label[is_phrase]] = RIGHT
    first = tags.start.astype(np.int64)
    position = np.repeat(np.arange(n), first[1:] - first[:-1])
    tag_posterior[tags.tag == tag_of[position]] = RIGHT
    packed, items = forest.build(
        grammar.pair_table, grammar.n_symbols, n, posterior, tags.start, tags.tag, tag_posterior,
        threshold,
    )  # fmt: skip
    right = items == RIGHT
    roots = np.flatnonzero((packed.start == 0) & (packed.end == n))
    pruned = PrunedChart(words, packed, items, np.empty(0), chart.scale, roots, 0.0)
    return pruned, right.astype(float), _right_edges(packed, right).astype(float)


def _right_edges(packed: Forest, right: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Edges of the right tree: spans of a tree that tile another one of it are its children."""
    return np.asarray(right[packed.head] & right[packed.left] & right[packed.right])


def posteriors(grammar: LatentGrammar, chart: PrunedChart) -> ParseForest | None:
    """Posteriors of a grammar over a chart that its plain grammar pruned; None for no parse."""
    if isinstance(grammar, FeatureGrammar):
        return _feature_posteriors(grammar, chart)
    if grammar.is_plain:
        return ParseForest(
            chart.forest, chart.items, chart.edges, chart.scale, chart.roots, chart.log_prob
        )
    from sapwood.kernels import latent

    packed, n = chart.forest, len(chart.words)
    start, beta, total = inside_vectors(grammar, chart.words, packed, chart.scale)
    if total == 0.0 or not np.isfinite(total):
        return None
    alpha = np.zeros_like(beta)
    for item in chart.roots:
        vector = grammar.root_vector(int(packed.symbol[item]))
        alpha[int(start[item]) : int(start[item + 1])] = vector / total
    largest = int(grammar.n_states.max())
    edges = latent.outside(packed, n, chart.scale, start, *grammar.tensors, beta, alpha, largest)
    items = np.add.reduceat(alpha * beta, start[:-1].astype(np.int64))
    if not (np.isfinite(items).all() and np.isfinite(edges).all()):
        return None  # weights beyond all bounds: nothing can be said about what is in the tree
    return ParseForest(
        packed, items, edges, chart.scale, chart.roots,
        sentence_weight(chart.scale, n, total).log, int((items < 0).sum()),
    )  # fmt: skip


def _feature_posteriors(grammar: FeatureGrammar, chart: PrunedChart) -> ParseForest | None:
    from sapwood.kernels import span_features as kernel

    forest, seen, weights = (
        chart.forest,
        grammar.word_properties(chart.words),
        grammar.feature_weights,
    )
    of_items = kernel.item_features(forest.symbol, forest.start, forest.end, seen, grammar.mask)
    of_edges = kernel.edge_features(forest, seen, grammar.mask)
    total, items, edges = kernel.log_linear_posteriors(
        forest, chart.roots, kernel.scores(of_items, weights), kernel.scores(of_edges, weights)
    )
    if total == -np.inf:
        return None
    return ParseForest(forest, items, edges, chart.scale, chart.roots, chart.log_prob)


def one_word_forest(grammar: LatentGrammar, word: str) -> ParseForest | None:
    """The tags that can be a whole sentence; None when the word has none."""
    from sapwood.kernels.forest import Forest

    symbols, weights = one_word_weights(grammar, word)
    total = float(weights.sum())
    kept = weights != 0
    if total == 0.0:
        return None
    n_items = int(kept.sum())
    zeros, none = np.zeros(n_items, np.uint32), np.empty(0, np.uint32)
    forest = Forest(symbols[kept].astype(np.uint32), zeros, zeros + 1, none, none, none, none)
    items = weights[kept] / total
    return ParseForest(
        forest, items, np.empty(0), np.zeros(1, np.int64), np.arange(n_items),
        float(np.log(abs(total))), int((items < 0).sum()),
    )  # fmt: skip
