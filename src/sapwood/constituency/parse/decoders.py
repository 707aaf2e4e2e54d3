"""Decoders, which choose the tree to return for a sentence.

The first three decoders score items and edges, and use the same dynamic program:

    f1         maximise expected F1: the sum over brackets of posterior minus half of F1
    goodman    maximise the sum of constituent posteriors (Goodman 1996)
    max-rule   maximise the product of rule posteriors (Petrov and Klein 2007)

With a network among the members, the decoder f1 searches all trees over the words, not only the
trees in a pruned chart.
Viterbi maximises the probability of one derivation and fills its own charts. A sentence without a
parse gets the best sequence of partial trees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol, restore_words
from sapwood.constituency.grammar.constraints import Constraints, has_labels
from sapwood.constituency.parse.charts import (
    SMALLEST,
    PrunedForest,
    leaf_vectors,
    sentence_log,
    tag_weights,
)
from sapwood.constituency.parse.posteriors import split_codes
from sapwood.core.arrays import FloatArray, IntArray, cell
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import ROOT, Tree

if TYPE_CHECKING:
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.parse.charts import ForestPosteriors
    from sapwood.constituency.parse.kernels.coarse import Tags
    from sapwood.constituency.parse.kernels.forest import Forest
    from sapwood.constituency.parse.posteriors import (
        BracketPosteriors,
        ItemLabels,
        LabelledForest,
    )
    from sapwood.constituency.parse.prepared import PreparedGrammar

Nodes = list[tuple[int, int, int, int]]  # (symbol, left place, right place, start), children first
# F1 = 2 correct / (gold + predicted) is largest for the tree that maximises
# correct - (F1 / 2) predicted: half of an F1 of 88 %, and dev F1 is flat from 0.4 to 0.5.
BRACKET_COST = 0.44
TAG_GAIN = 0.1  # tags are no brackets: their gain only breaks ties between trees
_NO_LABEL = Symbol((), context=())  # of a span without a label, which `restore` removes
LEAST_POSTERIOR = 1e-12  # smaller posteriors of spectral models are noise


class Gains(NamedTuple):
    """The gain of each item and edge in the score of a tree, and of each root item."""

    items: FloatArray
    edges: FloatArray
    roots: FloatArray


def f1_gains(parsed: LabelledForest) -> Gains:
    """Return the gains of expected F1; edges and roots have gain 0."""
    found, labels = parsed.posteriors, parsed.labels
    items = bracket_gains(labels, parsed.brackets.of(labels.code), len(found.items))
    return Gains(items, np.zeros(len(found.edges)), np.zeros(len(found.pruned.roots)))


def bracket_gains(rows: ItemLabels, p: FloatArray, n_items: int) -> FloatArray:
    """Return the gain of each item from its brackets' posteriors; 0 for intermediate items."""
    gain = np.where(rows.is_tag, TAG_GAIN * p, p - BRACKET_COST)
    return np.asarray(np.bincount(rows.item, gain, n_items), float)


def goodman_gains(found: ForestPosteriors) -> Gains:
    """Return constituent posteriors as gains; negative posteriors count as 0."""
    items = np.maximum(found.items, 0.0)
    return Gains(items, np.zeros(len(found.edges)), np.zeros(len(found.pruned.roots)))


def max_rule_gains(found: ForestPosteriors) -> Gains:
    """Return log absolute rule posteriors as gains; spectral posteriors may be negative."""
    items = np.log(np.maximum(np.abs(found.items), LEAST_POSTERIOR))
    is_leaf = found.pruned.forest.end - found.pruned.forest.start == 1
    edges = np.log(np.maximum(np.abs(found.edges), LEAST_POSTERIOR))
    return Gains(np.where(is_leaf, items, 0.0), edges, items[found.pruned.roots])


def derivation_gains(found: ForestPosteriors) -> Gains:
    """Return the log-probabilities of a plain grammar's rules as gains."""
    pruned, grammar = found.pruned, found.prepared.grammar
    forest, i = pruned.forest, pruned.forest.start.astype(np.int64)
    _, weight = leaf_vectors(grammar, pruned)  # one state, so one number per item
    is_leaf = forest.end - forest.start == 1
    scale = pruned.scale[cell(i, i + 1, len(pruned.words))]
    with np.errstate(divide="ignore"):  # weight 0 is log-probability -inf
        items = np.where(is_leaf, np.log(weight) + scale * np.log(2.0), 0.0)
        edges = np.log(grammar.rule_weights[forest.rule])
        roots = np.log(grammar.root[forest.symbol[pruned.roots]])
    return Gains(items, edges, roots)


GAINS: dict[str, Callable[[LabelledForest], Gains]] = {
    "f1": f1_gains,
    "goodman": lambda parsed: goodman_gains(parsed.posteriors),
    "max-rule": lambda parsed: max_rule_gains(parsed.posteriors),
    "viterbi": lambda parsed: derivation_gains(parsed.posteriors),  # for plain grammars only
}
DECODERS = tuple(GAINS)


class Decoded(NamedTuple):
    """The decoder's score of a tree, and its nodes."""

    score: float
    nodes: Nodes
    symbols: Sequence[Symbol] | None = None  # of the nodes; None for the forest's grammar


def decode(parsed: LabelledForest, decoder: str) -> tuple[Tree, Decoded] | None:
    """Return the tree of highest score under a decoder; None if the forest has no tree."""
    found = parsed.posteriors
    if decoder == "viterbi":
        best = viterbi_tree(found)
    else:
        best = forest_tree(found.pruned, GAINS[decoder](parsed))
    if best is None:
        return None
    return restore_words(found.prepared.grammar.symbols, found.pruned.words, best.nodes), best


def forest_tree(pruned: PrunedForest, gains: Gains) -> Decoded | None:
    """Return the tree of highest total gain; None if the forest has no tree."""
    from sapwood.constituency.parse.kernels.forest import backtrace_items, best_derivations

    if not len(pruned.roots):
        return None
    best, choice = best_derivations(pruned.forest, gains.items, gains.edges)
    totals = best[pruned.roots] + gains.roots
    place = int(np.argmax(totals))
    if not totals[place] > -np.inf:  # neither is NaN: there is no derivation
        return None
    nodes = nodes_of(
        pruned.forest, *backtrace_items(pruned.forest, choice, int(pruned.roots[place]))
    )
    return Decoded(float(totals[place]), nodes)


def nodes_of(
    forest: Forest,
    item: npt.NDArray[np.int64],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
) -> Nodes:
    """Return the items of a derivation as nodes."""
    columns = (forest.symbol[item], left, right, forest.start[item])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def viterbi_tree(found: ForestPosteriors) -> Decoded | None:
    """Return the best single derivation, over the full chart for a plain grammar.

    For a latent grammar, the derivation includes the hidden states, and only the pruned forest is
    searched. The score is the log-probability of the derivation.
    """
    prepared, pruned, grammar = found.prepared, found.pruned, found.prepared.grammar
    if prepared.features is not None:
        raise SapwoodError(
            "the viterbi decoder follows derivations of a grammar, and this model scores spans",
            hint="use the decoder f1, goodman or max-rule",
        )
    if not grammar.is_probabilistic and not grammar.is_plain:
        raise SapwoodError(
            "the viterbi decoder needs probabilities, and this model holds weights of either sign",
            hint="use the decoder goodman or max-rule",
        )
    if not grammar.is_plain:
        return _viterbi_latent(grammar, pruned)
    if len(pruned.words) == 1 or pruned.constraints is not None:
        return forest_tree(pruned, derivation_gains(found))
    return _viterbi_plain(prepared, pruned.words)


def _viterbi_plain(prepared: PreparedGrammar, words: list[str]) -> Decoded | None:
    from sapwood.constituency.parse.kernels import viterbi

    tags = tag_weights(prepared, words)
    delta, scale = viterbi.best_weights(prepared.plain.rules, tags)
    n = len(words)
    totals = prepared.plain.root * delta[n - 1]
    root = int(np.argmax(totals)) if len(totals) else 0
    if not len(totals) or totals[root] <= 0:
        return None
    nodes = backtrace(prepared, tags, delta, scale, (root, 0, n))
    return Decoded(sentence_log(scale, n, float(totals[root])), nodes)


def backtrace(
    prepared: PreparedGrammar,
    tags: Tags,
    delta: FloatArray,
    scale: IntArray,
    item: tuple[int, int, int],
) -> Nodes:
    """Return the best derivation of a symbol over a span from the plain Viterbi chart."""
    from sapwood.constituency.parse.kernels import viterbi

    grammar = prepared.grammar
    columns = viterbi.backtrace_chart(
        delta, scale, tags, *item, *prepared.plain.by_parent, grammar.rules,
        grammar.coarse.rules, grammar.n_phrases,
    )  # fmt: skip
    return list(zip(*(column.tolist() for column in columns), strict=True))


def latent_viterbi(
    grammar: LatentGrammar, pruned: PrunedForest
) -> tuple[npt.NDArray[np.uint64], FloatArray, tuple[Any, ...]]:
    """Compute the Viterbi weights of all items and states of a latent grammar's forest.

    Returns the offsets of the items' states, the weights, and the arguments of the kernels.
    """
    from sapwood.constituency.parse.kernels import viterbi

    forest = pruned.forest
    start, delta = leaf_vectors(grammar, pruned)
    choice = np.zeros(len(delta), np.uint32)
    tensor_start = grammar.tensor_start.astype(np.uint64)
    arguments = (
        forest, len(pruned.words), pruned.scale, start, tensor_start, grammar.rule_weights,
        delta, choice,
    )  # fmt: skip
    viterbi.best_states(*arguments)
    return start, delta, arguments


def _viterbi_latent(grammar: LatentGrammar, pruned: PrunedForest) -> Decoded | None:
    from sapwood.constituency.parse.kernels import viterbi
    from sapwood.constituency.parse.kernels.forest import backtrace_items

    forest = pruned.forest
    start, delta, arguments = latent_viterbi(grammar, pruned)
    best, root, state = 0.0, -1, 0
    for item in pruned.roots:
        weights = grammar.root_vector(int(forest.symbol[item]))
        values = weights * delta[int(start[item]) : int(start[item + 1])]
        h = int(np.argmax(values))
        if values[h] > best:
            best, root, state = float(values[h]), int(item), h
    if root < 0:
        return None
    used = viterbi.backtrace_states(*(*arguments, root, state))
    score = sentence_log(pruned.scale, len(pruned.words), best)
    return Decoded(score, nodes_of(forest, *backtrace_items(forest, used, root)))


# A sentence without a parse is cut into pieces, neighbouring labelled spans, so that
#
#     sum over pieces of  log delta[i, j, a] + log P(a) - PRICE
#
# is largest: delta is the likeliest derivation of the span under the plain grammar, and P(a) is how
# common the symbol is, so that a piece is weighed as if drawn by itself. The price keeps pieces
# few: without it, frequent tags win over the phrases that they are in; were few pieces all that
# counts, odd phrases would win over common ones. Intermediate symbols are no pieces.
#
# Chosen on trees of train parts that grammars of a hundred to a thousand trees have no parse for.
PRICE = 4.0
NO_TAG = -1e6  # log-weight of a word without a tag, which becomes a piece alone


class _Spans(NamedTuple):
    """The best symbol of every span and its log-weight, shape [n, n + 1]; -inf without any."""

    weight: FloatArray
    symbol: npt.NDArray[np.int64]


def join_pieces(prepared: PreparedGrammar, words: list[str]) -> Tree:
    """Join the best pieces of a sentence: `(TOP (S piece piece))`, or `(TOP piece)`."""
    pieces = [piece for tree in _pieces(prepared, words) for piece in tree.children]
    if len(pieces) == 1:
        return Tree._trusted(ROOT, tuple(pieces))
    return Tree._trusted(ROOT, (Tree._trusted(root_label(prepared.grammar), tuple(pieces)),))


def root_label(grammar: LatentGrammar) -> str:
    """Return the most frequent root label of sentences of two or more words."""
    roots = grammar.coarse.root[: grammar.n_phrases]
    return grammar.phrases[int(roots.argmax())].chain[-1] if len(roots) else "X"


def _pieces(prepared: PreparedGrammar, words: list[str]) -> list[Tree]:
    from sapwood.constituency.parse.kernels.viterbi import best_weights

    tags = tag_weights(prepared, words)
    delta, scale = best_weights(prepared.plain.rules, tags)
    spans = _best_spans(prepared, tags, delta, scale)
    out = []
    for i, j in _best_cut(spans.weight):
        item = (int(spans.symbol[i, j]), i, j)
        nodes = backtrace(prepared, tags, delta, scale, item)
        out.append(restore_words(prepared.grammar.symbols, words, nodes))
    return out


def _best_spans(
    prepared: PreparedGrammar, tags: Tags, delta: FloatArray, scale: npt.NDArray[np.int64]
) -> _Spans:
    grammar, visits = prepared.grammar, prepared.plain.visits
    n, n_phrases = len(tags.scale), grammar.n_phrases
    spans = _Spans(np.full((n, n + 1), -np.inf), np.full((n, n + 1), n_phrases))
    with np.errstate(divide="ignore"):  # weight 0 is log-weight -inf
        visits = np.maximum(visits, SMALLEST)  # items in no tree stay possible
        log_prior = np.log(visits / visits.sum())
        log_tag = np.log(tags.weight) + log_prior[n_phrases + tags.tag.astype(np.int64)]
        log_delta = np.log(delta) + log_prior[:n_phrases]
    if n_phrases:
        log_delta[:, [symbol.context is not None for symbol in grammar.phrases]] = -np.inf
        start, last = np.triu_indices(n)  # in the order of the cells
        best = log_delta.argmax(axis=1)
        spans.symbol[start, last + 1] = best
        weight = log_delta[np.arange(len(best)), best] + scale * np.log(2.0)
        spans.weight[start, last + 1] = weight
    for i in range(n):  # no phrase covers a single word
        place = _best_tag(grammar, tags, log_tag, i)
        spans.weight[i, i + 1], spans.symbol[i, i + 1] = NO_TAG, n_phrases
        if place is not None:
            spans.weight[i, i + 1] = log_tag[place] + tags.scale[i] * np.log(2.0)
            spans.symbol[i, i + 1] = n_phrases + int(tags.tag[place])
    return spans


def _best_tag(grammar: LatentGrammar, tags: Tags, log_tag: FloatArray, i: int) -> int | None:
    """Return the index of a word's best tag; a one-word sentence prefers a phrase.

    The phrase must contain the word's best tag, so that the tag does not change.
    """
    places = np.arange(int(tags.start[i]), int(tags.start[i + 1]))
    places = places[log_tag[places] > -np.inf]
    if not len(places):
        return None
    best = int(places[log_tag[places].argmax()])
    if len(tags.scale) > 1:
        return best
    chains = {place: grammar.tags[int(tags.tag[place])].chain for place in places.tolist()}
    phrases = [
        place for place, chain in chains.items() if len(chain) > 1 and chain[-1] == chains[best][-1]
    ]
    return max(phrases, key=lambda place: float(log_tag[place]), default=best)


def _best_cut(weight: FloatArray) -> list[tuple[int, int]]:
    """Return the adjacent spans over the sentence with the largest total weight minus price.

    total[j] = max over i < j of  total[i] + weight[i, j] - PRICE
    """
    n = len(weight)
    total, back = np.zeros(n + 1), np.zeros(n + 1, np.int64)
    for j in range(1, n + 1):
        values = total[:j] + weight[:j, j] - PRICE
        back[j] = int(values.argmax())
        total[j] = values[back[j]]
    spans, j = [], n
    while j > 0:
        spans.append((int(back[j]), j))
        j = int(back[j])
    return spans[::-1]


def unconstrained_tree(
    brackets: BracketPosteriors,
    words: Sequence[str],
    names: Sequence[str],
    chains: Mapping[frozenset[str], tuple[str, ...]],
    constraints: Constraints | None = None,
) -> tuple[Tree, Decoded]:
    """Return the tree of highest expected F1 among all trees over the words, and its score.

    `chains` orders the labels over the same words, outermost first. Sets of labels that are not in
    `chains` are ordered by posterior.
    """
    from sapwood.constituency.parse.kernels.span_trees import best_spans

    n = len(words)
    label, start, end, is_tag = split_codes(brackets.code, n)
    tags, score = _likeliest_tags(brackets.p, label, start, is_tag, n)
    is_used = ~is_tag & (brackets.p > BRACKET_COST)
    whole = np.flatnonzero(~is_tag & (end - start == n))
    if n > 1 and len(whole) and not is_used[whole].any():
        is_used[whole[brackets.p[whole].argmax()]] = True  # the whole sentence needs a label
    used = np.flatnonzero(is_used)
    used = used[np.argsort(-brackets.p[used], kind="stable")]
    gain = np.zeros((n, n + 1))
    np.add.at(gain, (start[used], end[used]), brackets.p[used] - BRACKET_COST)
    labels_of: dict[tuple[int, int], list[str]] = {}
    for i, j, k in zip(start[used].tolist(), end[used].tolist(), label[used].tolist(), strict=True):
        labels_of.setdefault((i, j), []).append(names[k])
    required = {} if constraints is None else constraints.required_labels()
    if constraints is not None:
        score -= _require(constraints, brackets, names, gain, labels_of)
        tags = _constrained_tags(tags, names, constraints)
    nodes, rows, symbols = Nodes(), dict[tuple[int, int], int](), dict[Symbol, int]()
    first, last = np.triu_indices(n)  # in the order of the cells
    for i, j, k in best_spans(gain[first, last + 1], n)[::-1].tolist():  # children before parents
        found = labels_of.get((i, j), [])
        score += gain[i, j]
        ordered = chains.get(frozenset(found), tuple(found))
        if required and not has_labels(ordered, required.get((i, j), ())):
            outer = required[i, j]
            ordered = (*outer, *(name for name in ordered if name not in outer))
        chain = ordered if k else (*ordered, names[tags[i]])
        symbol = symbols.setdefault(Symbol(chain) if chain else _NO_LABEL, len(symbols))
        left, right = (rows[i, k], rows[k, j]) if k else (-1, -1)
        rows[i, j] = len(nodes)
        nodes.append((symbol, left, right, i))
    best = Decoded(float(score), nodes, tuple(symbols))
    return restore_words(tuple(symbols), words, nodes), best


def _require(
    constraints: Constraints,
    brackets: BracketPosteriors,
    names: Sequence[str],
    gain: FloatArray,
    labels_of: dict[tuple[int, int], list[str]],
) -> float:
    """Add gains so large that the best tree has all required phrases; returns their sum.

    A phrase without a label gets the most probable one.
    """
    n = constraints.n
    label, start, end, is_tag = split_codes(brackets.code, n)
    for i, j, labels in constraints.required:
        found = labels_of.setdefault((i, j), [])
        found += [name for name in labels if name not in found]
        if not found:
            here = np.flatnonzero((start == i) & (end == j) & ~is_tag)
            here = here[np.argsort(-brackets.p[here], kind="stable")]
            best = (*(names[k] for k in label[here].tolist()), *names)
            allowed = (x for x in best if x != ROOT and constraints.allows(i, j, (x,)))
            found.append(next(allowed))
        gain[i, j] += n + 1.0
    return (n + 1.0) * len(constraints.required)


def _constrained_tags(tags: list[int], names: Sequence[str], constraints: Constraints) -> list[int]:
    """Return the tags, with excluded tags replaced by the most probable allowed tags."""
    numbers = {name: number for number, name in enumerate(names)}
    return [
        tag if given is None or given.get(names[tag], 0.0) > 0.0
        else numbers[max(given, key=lambda name: given[name])]
        for tag, given in zip(tags, constraints.tags, strict=True)
    ]  # fmt: skip


def _likeliest_tags(
    p: FloatArray, label: IntArray, start: IntArray, is_tag: npt.NDArray[np.bool_], n: int
) -> tuple[list[int], float]:
    """Return the most probable tag of each word (label 0 without any), and their score."""
    order = np.flatnonzero(is_tag)
    order = order[np.argsort(p[order], kind="stable")]
    tags, best = np.zeros(n, np.int64), np.zeros(n)
    tags[start[order]], best[start[order]] = label[order], p[order]  # the last value stays
    return tags.tolist(), TAG_GAIN * float(best.sum())
