"""From a sentence to its pruned forest, with posteriors of members (SPECTRAL, Figure 5).

The plain grammar fills the full chart, inside and outside; labelled spans of low posterior are
pruned. A latent grammar then runs its vectors, and a `FeatureGrammar` the scores of its features,
over the pruned forest. Members with the same plain grammar use the same forest: the member with the
fewest states prunes it once more, so that larger members compute only probable items.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.grammar.constraints import (
    NO_CLASSES,
    NO_FACTORS,
    CellClasses,
    Constraints,
    constrained_words,
    phrase_classes,
    word_entries,
)
from sapwood.core.arrays import FloatArray, IntArray, cell

if TYPE_CHECKING:
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.parse.kernels.coarse import Chart, Tags
    from sapwood.constituency.parse.kernels.forest import Forest
    from sapwood.constituency.parse.posteriors import ChartGroup
    from sapwood.constituency.parse.prepared import PlainTables, PreparedGrammar

# Size of the buffer of a thread: 32 MB, enough for 90 words with the rules of the Penn sample.
# Longer sentences allocate and free their memory, which is 5 % slower at 100 words.
KEPT_NUMBERS = 4_000_000
SMALLEST = 5e-324  # smallest positive number: keeps every item of positive posterior
# Tags a thousand times rarer than a word's best one change no dev score and double the time.
TAG_RATIO = 1e-3
# A sentence without a parse is charted again without a beam and with this threshold.
LAST_THRESHOLD = 1e-10


class Pruning(NamedTuple):
    """The thresholds of pruning, which are parameters of `Parser`."""

    threshold: float
    beam: float
    middle: float


class PrunedForest(NamedTuple):
    """The labelled spans of a sentence that survived pruning, and the rules that join them."""

    words: list[str]  # the sentence
    forest: Forest  # items and edges, see `sapwood.constituency.parse.kernels.forest`
    # [n_leaves]: the lexicon's entry of each tag; tags come first among the items
    entries: IntArray
    # [n_cells]: power of two of each span, under which the plain grammar's weights are about 1
    scale: IntArray
    roots: IntArray  # items that may be the root of the sentence
    factors: FloatArray = NO_FACTORS  # [n_leaves]: factors of the tags' weights; empty for none
    constraints: Constraints | None = None  # satisfied by all trees of the forest


class ForestPosteriors(NamedTuple):
    """Posteriors of the items and edges of a pruned forest under a grammar."""

    pruned: PrunedForest
    prepared: PreparedGrammar  # the grammar, or the first of several
    items: FloatArray  # [n_items]: posterior of each labelled span
    # [n_edges]: posterior of each rule over its span; empty where a plain grammar only prunes
    edges: FloatArray
    log_prob: float  # log-probability of the sentence
    n_negative: int = 0  # items with a negative posterior (spectral models only)


class _Scratch(threading.local):
    """Buffers for charts that each thread reuses, since allocation costs more than the sums."""

    def __init__(self) -> None:
        self.kept: dict[str, FloatArray] = {}

    def get(self, name: str, size: int) -> FloatArray:
        """Return an uninitialised buffer of at least `size` numbers."""
        if size > KEPT_NUMBERS:
            return np.empty(size)
        buffer = self.kept.get(name)
        if buffer is None or len(buffer) < size:
            buffer = self.kept[name] = np.empty(min(KEPT_NUMBERS, size * 3 // 2))
        return buffer

    def forget(self) -> None:
        """Drop the buffers in a forked process, where copying their pages would take longer."""
        self.kept = {name: np.empty(len(buffer)) for name, buffer in self.kept.items()}


_scratch = _Scratch()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_scratch.forget)


def plain_inside(
    plain: PlainTables, tags: Tags, beam: float = 0.0, classes: CellClasses = NO_CLASSES
) -> Chart:
    """Return the plain grammar's inside chart, valid until the thread charts its next sentence.

    A beam of 0 gives the full chart; see `sapwood.constituency.parse.kernels.coarse.fill`. Phrases
    that constraints exclude are left out.
    """
    from sapwood.constituency.parse.kernels.coarse import Chart, Runs, fill

    n, n_phrases = len(tags.scale), len(plain.root)
    room = _scratch.get("inside", chart_room(plain, n))
    active = _scratch.get("active", n * (n + 1) * n_phrases // 4 + 1).view(np.uint32)
    columns = fill(plain.rules, tags, room, active, plain.visits[:n_phrases], beam, *classes)
    return Chart(*columns[:-2], *(Runs(*runs) for runs in columns[-2:]))


def chart_room(plain: PlainTables, n: int) -> int:
    """Return the size of the inside chart, or the outside chart, of n words, in floats."""
    slots = len(plain.rules.left_of) + len(plain.rules.right_of)
    return n * (n + 1) // 2 * len(plain.root) + (n + 1) * (n + 1) * slots


def tag_weights(
    prepared: PreparedGrammar,
    words: list[str],
    least_ratio: float = 0.0,
    right: IntArray | None = None,
    constraints: Constraints | None = None,
) -> Tags:
    """Return the plain weights of each word's tags, scaled to at most 1.

    Tags below a minimum ratio to the word's best tag are left out, except the gold tags, shape [n].
    Constrained words have only the tags that the constraints allow.
    """
    from sapwood.constituency.parse.kernels.coarse import Tags

    lexicon = prepared.grammar.lexicon
    rows = lexicon.vocabulary.rows(words)
    first, end = (lexicon.row_start[rows + side].astype(np.int64) for side in (0, 1))
    position = np.repeat(np.arange(len(words)), end - first)
    entry = np.arange(len(position)) + (end - np.cumsum(end - first))[position]
    if least_ratio > 0.0:
        kept = prepared.plain.entry_ratio[entry] >= least_ratio
        if right is not None:
            kept |= lexicon.entry_tag[entry] == right[position]
        entry, position = entry[kept], position[kept]
    factor = NO_FACTORS
    if constraints is not None:
        entry, position, factor = _constrain_entries(
            prepared.grammar, words, entry, position, constraints
        )
    weight = prepared.grammar.coarse.lexical[entry]
    if len(factor):
        weight = weight * factor
    peak = np.zeros(len(words))
    np.maximum.at(peak, position, weight)
    _, scale = np.frexp(peak)
    scale = scale.astype(np.int64)
    start = np.searchsorted(position, np.arange(len(words) + 1)).astype(np.uint32)
    weight = np.ldexp(weight, -scale[position])
    return Tags(start, lexicon.entry_tag[entry], weight, scale, entry, factor)


def _constrain_entries(
    grammar: LatentGrammar,
    words: list[str],
    entry: IntArray,
    position: IntArray,
    constraints: Constraints,
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the lexicon entries, with the entries of constrained words replaced, and factors."""
    constrained = constrained_words(constraints)
    kept = ~np.isin(position, constrained)
    entries, places, factors = [entry[kept]], [position[kept]], [np.ones(int(kept.sum()))]
    for place in constrained:
        found, factor = word_entries(grammar, words[place], place, constraints)
        order = np.argsort(grammar.lexicon.entry_tag[found], kind="stable")
        entries.append(found[order])
        places.append(np.full(len(found), place))
        factors.append(factor[order])
    where = np.concatenate(places)
    order = np.argsort(where, kind="stable")
    return np.concatenate(entries)[order], where[order], np.concatenate(factors)[order]


def sentence_log(scale: IntArray, n: int, total: float) -> float:
    """Return the log of the absolute weight of an n-word sentence, including its power of two."""
    return log(abs(total)) + int(scale[n - 1]) * log(2.0) if total else -inf


def pruned_forests(
    prepared: PreparedGrammar,
    words: list[str],
    threshold: float,
    beam: float = 0.0,
    constraints: Constraints | None = None,
) -> Iterator[ForestPosteriors]:
    """Yield the plain grammar's posteriors over pruned charts of two or more words.

    The second forest is hardly pruned; members without a parse in the first forest use it.
    Threshold and beam are those of `Parser`.
    Trees that do not satisfy the constraints are left out.
    """
    threshold = max(threshold, SMALLEST)  # an item of posterior 0 is in no tree
    ratio = TAG_RATIO if threshold > SMALLEST or beam > 0.0 else 0.0  # no pruning means none at all
    attempts = ((ratio, beam, threshold), (0.0, 0.0, min(threshold, LAST_THRESHOLD)))
    for least_ratio, width, least_posterior in attempts:
        tags = tag_weights(prepared, words, least_ratio, constraints=constraints)
        plain = plain_posteriors(prepared, words, tags, least_posterior, width, constraints)
        if plain is not None:
            yield plain


def first_forest(
    prepared: PreparedGrammar,
    words: list[str],
    pruning: Pruning,
    constraints: Constraints | None = None,
) -> ForestPosteriors | None:
    """Return the plain posteriors over the first pruned chart with a parse; None without any."""
    if len(words) == 1:
        return one_word_posteriors(prepared, words[0], constraints)
    return next(pruned_forests(prepared, words, *pruning[:2], constraints), None)


def plain_posteriors(
    prepared: PreparedGrammar,
    words: list[str],
    tags: Tags,
    threshold: float,
    beam: float = 0.0,
    constraints: Constraints | None = None,
) -> ForestPosteriors | None:
    """Prune the plain grammar's chart by its posteriors; None without a parse."""
    from sapwood.constituency.parse.kernels import forest as kernel
    from sapwood.constituency.parse.kernels.coarse import partition, plain_outside

    plain, n = prepared.plain, len(words)
    classes = NO_CLASSES if constraints is None else phrase_classes(prepared.grammar, constraints)
    chart = plain_inside(plain, tags, beam, classes)
    total = partition(chart, plain.root)
    if not total > 0.0:
        return None
    room = _scratch.get("outside", chart_room(plain, n))
    alpha, tag_alpha = plain_outside(plain.rules, tags, chart, plain.root, room)
    tag_posterior = tags.weight * tag_alpha
    kept = tag_posterior >= threshold
    phrases = kernel.phrase_posteriors(chart, alpha)
    n_phrases = prepared.grammar.n_phrases
    *columns, items = kernel.prune(plain.pairs, n_phrases, tags, phrases, tag_posterior, threshold)
    forest = kernel.Forest(*columns)
    roots = root_items(forest, n)
    roots = roots[prepared.grammar.coarse.root[forest.symbol[roots]] > 0]
    edges = np.empty(0)
    if prepared.grammar.is_plain:
        leaf_weight = np.zeros(len(items))
        leaf_weight[: int(kept.sum())] = tags.weight[kept]  # tags come first, in the same order
        edges = kernel.edge_posteriors(
            forest, chart.beta, chart.scale, alpha, leaf_weight, tags.scale, n,
            prepared.grammar.coarse.rules,
        )  # fmt: skip
    factors = tags.factor[kept] if len(tags.factor) else NO_FACTORS
    pruned = PrunedForest(
        words, forest, tags.entry[kept], chart.scale, roots, factors, constraints
    )  # fmt: skip
    return ForestPosteriors(
        prepared=prepared,
        pruned=pruned,
        items=items,
        edges=edges,
        log_prob=sentence_log(chart.scale, n, total),
    )


def root_items(forest: Forest, n: int) -> IntArray:
    """Return the items that cover the whole sentence."""
    first = np.searchsorted(forest.end - forest.start, n)  # items are sorted by width
    return np.arange(first, len(forest.symbol))


def gold_forest(
    prepared: PreparedGrammar, words: list[str], bank: Treebank, nodes: slice, threshold: float
) -> tuple[PrunedForest, FloatArray, FloatArray]:
    """Return a training sentence's forest with its gold tree, and 0/1 marks of gold elements.

    The gold tree is given by its rows in a treebank with the symbol numbers of the grammar. Items
    and edges of the gold tree have mark 1.
    """
    from sapwood.constituency.parse.kernels.coarse import plain_outside
    from sapwood.constituency.parse.kernels.forest import Forest, prune

    n, n_phrases = len(words), prepared.grammar.n_phrases
    label, start, end = (x[nodes].astype(np.int64) for x in (bank.label, bank.start, bank.end))
    is_phrase = label < n_phrases
    tag_of = np.empty(n, np.int64)
    tag_of[start[~is_phrase]] = label[~is_phrase] - n_phrases
    tags = tag_weights(prepared, words, TAG_RATIO, tag_of)
    chart = plain_inside(prepared.plain, tags, threshold)
    room = _scratch.get("outside", chart_room(prepared.plain, n))
    alpha, tag_alpha = plain_outside(prepared.plain.rules, tags, chart, prepared.plain.root, room)
    posterior, tag_posterior = chart.beta * alpha, tags.weight * tag_alpha
    # gold items have posterior 1
    posterior[cell(start[is_phrase], end[is_phrase], n), label[is_phrase]] = 1.0
    first = tags.start.astype(np.int64)
    position = np.repeat(np.arange(n), first[1:] - first[:-1])
    tag_posterior[tags.tag == tag_of[position]] = 1.0
    kept = np.flatnonzero(posterior >= threshold)
    starts = np.searchsorted(kept, np.arange(len(posterior) + 1) * n_phrases).astype(np.uint64)
    phrases = starts, (kept % n_phrases).astype(np.uint32), posterior.ravel()[kept]
    *columns, _ = prune(prepared.plain.pairs, n_phrases, tags, phrases, tag_posterior, threshold)
    forest, entries = Forest(*columns), tags.entry[tag_posterior >= threshold]
    pruned = PrunedForest(words, forest, entries, chart.scale, root_items(forest, n))
    code = (forest.symbol.astype(np.int64) * (n + 1) + forest.start) * (n + 1) + forest.end
    gold = np.sort((label * (n + 1) + start) * (n + 1) + end)  # np.isin takes 30 times as long
    right = gold[np.minimum(np.searchsorted(gold, code), len(gold) - 1)] == code
    # adjacent gold spans that cover a gold span are its children
    edges = right[forest.head] & right[forest.left] & right[forest.right]
    return pruned, right.astype(float), edges.astype(float)


def one_word_posteriors(
    prepared: PreparedGrammar, word: str, constraints: Constraints | None = None
) -> ForestPosteriors | None:
    """Return posteriors of the tags that can be a whole sentence; None if the word has none."""
    from sapwood.constituency.parse.kernels.forest import Forest

    symbols, weights, entries, factors = one_word_weights(prepared.grammar, word, constraints)
    total = float(weights.sum())
    kept = weights != 0
    if total == 0.0:
        return None
    n_items = int(kept.sum())
    zeros, none = np.zeros(n_items, np.uint32), np.empty(0, np.uint32)
    forest = Forest(symbols[kept].astype(np.uint32), zeros, zeros + 1, none, none, none, none)
    items = weights[kept] / total
    pruned = PrunedForest(
        [word], forest, entries[kept], np.zeros(1, np.int64), np.arange(n_items),
        factors[kept] if len(factors) else factors, constraints,
    )  # fmt: skip
    log_prob, n_negative = float(np.log(abs(total))), int((items < 0).sum())
    return ForestPosteriors(pruned, prepared, items, np.empty(0), log_prob, n_negative)


def one_word_weights(
    grammar: LatentGrammar, word: str, constraints: Constraints | None = None
) -> tuple[IntArray, FloatArray, IntArray, FloatArray]:
    """Return the tags (as symbols) that can be a sentence, with weights, entries and factors."""
    lexicon, state_start = grammar.lexicon, grammar.state_start
    row = lexicon.vocabulary.row(word, is_first=True)
    entries = np.arange(lexicon.row_start[row], lexicon.row_start[row + 1], dtype=np.int64)
    factors = NO_FACTORS
    if constraints is not None:
        entries, factors = word_entries(grammar, word, 0, constraints)
    symbols = grammar.n_phrases + lexicon.entry_tag[entries].astype(np.int64)
    weights = np.array(
        [
            grammar.root[state_start[a] : state_start[a + 1]]
            @ lexicon.weights[lexicon.weight_start[e] : lexicon.weight_start[e + 1]]
            for a, e in zip(symbols.tolist(), entries.tolist(), strict=True)
        ]
    )
    if len(factors):
        weights = weights * factors
    return symbols, weights, entries, factors


Starts = npt.NDArray[np.uint64]


def posteriors(prepared: PreparedGrammar, plain: ForestPosteriors) -> ForestPosteriors | None:
    """Return a member's posteriors over the forest of its plain grammar; None without a parse.

    A member without hidden states and features has the posteriors of its plain grammar.
    """
    if prepared.features is not None:
        total, items, edges = _feature_posteriors(prepared, plain)
        if total == -np.inf:
            return None
        return ForestPosteriors(plain.pruned, prepared, items, edges, plain.log_prob)
    if not prepared.grammar.is_plain:
        return _by_vectors(prepared, plain.pruned)
    return plain if plain.prepared is prepared else plain._replace(prepared=prepared)


def _feature_posteriors(
    prepared: PreparedGrammar, plain: ForestPosteriors
) -> tuple[float, FloatArray, FloatArray]:
    """Return the log partition sum of a feature model over a forest, and its posteriors."""
    from sapwood.constituency.parse.kernels.span_features import log_linear_posteriors, scores

    pruned, features = plain.pruned, prepared.features
    assert features is not None
    of_items, of_edges = features.of(pruned.forest, pruned.words)
    item_scores = scores(of_items, features.weights)
    if len(pruned.factors):
        item_scores[: len(pruned.factors)] += np.log(pruned.factors)
    total, items, edges = log_linear_posteriors(
        pruned.forest, pruned.roots, item_scores, scores(of_edges, features.weights)
    )
    return total, items, edges


def feature_log_sum(prepared: PreparedGrammar, plain: ForestPosteriors) -> float:
    """Return the log partition sum of a feature model over the trees of a forest."""
    return _feature_posteriors(prepared, plain)[0]


def _by_vectors(prepared: PreparedGrammar, pruned: PrunedForest) -> ForestPosteriors | None:
    from sapwood.constituency.parse.kernels.latent import latent_outside

    forest, n, grammar = pruned.forest, len(pruned.words), prepared.grammar
    start, beta, total = forest_inside(prepared, pruned)
    if total == 0.0 or not np.isfinite(total):
        return None
    alpha = np.zeros_like(beta)
    for vector, states in _root_slices(grammar, forest, start, pruned.roots):
        alpha[vector] = grammar.root[states] / total
    largest = int(grammar.n_states.max())
    edges = latent_outside(forest, n, pruned.scale, start, prepared.tensors, beta, alpha, largest)
    items = np.add.reduceat(alpha * beta, start[:-1].astype(np.int64))
    if not (np.isfinite(items).all() and np.isfinite(edges).all()):
        return None  # the weights overflowed
    log_prob, n_negative = sentence_log(pruned.scale, n, total), int((items < 0).sum())
    return ForestPosteriors(pruned, prepared, items, edges, log_prob, n_negative)


def forest_inside(
    prepared: PreparedGrammar, pruned: PrunedForest
) -> tuple[Starts, FloatArray, float]:
    """Return the offsets of the items' inside vectors, all vectors, and the total weight."""
    from sapwood.constituency.parse.kernels.latent import latent_inside

    forest, n, grammar = pruned.forest, len(pruned.words), prepared.grammar
    start, beta = leaf_vectors(grammar, pruned)
    largest = int(grammar.n_states.max())
    latent_inside(forest, n, pruned.scale, start, prepared.tensors, beta, largest)
    total = 0.0
    for vector, states in _root_slices(grammar, forest, start, root_items(forest, n)):
        total += float(grammar.root[states] @ beta[vector])
    return start, beta, total


def _root_slices(
    grammar: LatentGrammar, forest: Forest, start: Starts, items: IntArray
) -> Iterator[tuple[slice, slice]]:
    """Yield each item's slice of all vectors, and its slice of the root weights."""
    state_start = grammar.state_start
    for item, symbol in zip(items.tolist(), forest.symbol[items].tolist(), strict=True):
        vector = slice(int(start[item]), int(start[item + 1]))
        yield vector, slice(int(state_start[symbol]), int(state_start[symbol + 1]))


def leaf_vectors(grammar: LatentGrammar, pruned: PrunedForest) -> tuple[Starts, FloatArray]:
    """Return the vectors of all items of a forest, filled for tags and zero for phrases.

    The vector of a tag is its emission vector, divided by the power of two of its span.
    """
    forest, n_leaves = pruned.forest, len(pruned.entries)
    sizes = grammar.n_states[forest.symbol]
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    vectors, stop = np.zeros(int(start[-1])), int(start[n_leaves])
    i, m = forest.start[:n_leaves].astype(np.int64), sizes[:n_leaves]
    place = np.repeat(grammar.lexicon.weight_start[pruned.entries] - start[:n_leaves], m)
    n_before = i * len(pruned.words) - i * (i - 1) // 2  # cells of spans that start further left
    down = np.repeat(-pruned.scale[n_before], m)
    vectors[:stop] = np.ldexp(grammar.lexicon.weights[place + np.arange(stop)], down)
    if len(pruned.factors):
        vectors[:stop] *= np.repeat(pruned.factors, m)
    return start.astype(np.uint64), vectors


LEAST_FACTOR = 1e-6  # minimum posterior in a product: no single member can rule out a rule


def prune_more(
    by: ForestPosteriors, least: float, *parts: ForestPosteriors
) -> list[ForestPosteriors]:
    """Drop the items whose posterior under a member is below a threshold."""
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
        factors=by.pruned.factors[items[: len(by.pruned.factors)]],
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
    """Return the weighted mean, or product, of posteriors over the same forest."""
    weight = np.asarray(weights) / sum(weights)
    items = np.array([np.clip(part.items, 0.0, 1.0) for part in parts])
    edges = np.array([np.clip(part.edges, 0.0, 1.0) for part in parts])
    if combine == "product":
        items, edges = (np.log(np.maximum(x, LEAST_FACTOR)) for x in (items, edges))
    items, edges = weight @ items, weight @ edges
    if combine == "product":
        items, edges = np.exp(items), np.exp(edges)
    logs = np.array([part.log_prob for part in parts])
    return parts[0]._replace(
        items=items, edges=edges,
        log_prob=float(np.log(weight @ np.exp(logs - logs.max())) + logs.max()),
        n_negative=sum(part.n_negative for part in parts),
    )  # fmt: skip


def sentence_posteriors(
    group: ChartGroup, words: list[str], pruning: Pruning, constraints: Constraints | None = None
) -> tuple[ForestPosteriors | None, float | None]:
    """Return members' mean posteriors over their chart, and the plain sentence log-probability.

    The posteriors are None if no member has a parse. The plain log-probability is None for a
    sentence of one word, which has no chart.
    """
    if len(words) == 1:
        return _one_word_mean(group, words[0], constraints), None
    plain_log_prob = None
    for plain in pruned_forests(group.members[0], words, *pruning[:2], constraints):
        plain_log_prob = plain.log_prob if plain_log_prob is None else plain_log_prob
        found = group_posteriors(group, plain, pruning.middle)
        if found is not None:
            return found, plain_log_prob
    return None, plain_log_prob


def _one_word_mean(
    group: ChartGroup, word: str, constraints: Constraints | None
) -> ForestPosteriors | None:
    found = [one_word_posteriors(member, word, constraints) for member in group.members]
    parts = [part for part in found if part is not None]
    if not parts:
        return None
    # Members drop tags of weight 0. If the tags of members differ, only the first member is used.
    first = parts[0].pruned.forest.symbol
    is_same = all(np.array_equal(part.pruned.forest.symbol, first) for part in parts)
    if len(parts) == 1 or not is_same:
        return parts[0]
    weights = [float(w) for part, w in zip(found, group.weights, strict=True) if part]
    return combine_posteriors(parts, weights, "mean")


def group_posteriors(
    group: ChartGroup, plain: ForestPosteriors, middle: float
) -> ForestPosteriors | None:
    """Return all members' posteriors over a pruned forest, after the first prunes it once more."""
    parts, weights = [], []
    for k, (member, weight) in enumerate(zip(group.members, group.weights, strict=True)):
        part = posteriors(member, plain)
        if part is None:
            continue
        if k == 0 and len(group.members) > 1 and middle > 0.0:
            plain, part = prune_more(part, middle, plain, part)
        parts.append(part)
        weights.append(float(weight))
    if not parts or len(group.members) == 1:
        return parts[0] if parts else None
    return combine_posteriors(parts, weights, group.combine)
