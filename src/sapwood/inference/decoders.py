"""Decoders: which tree of a forest to return.

The first three score items and edges and share one dynamic program:

    f1         maximise expected F1: the sum over brackets of posterior minus half of F1
    goodman    maximise the sum of constituent posteriors (Goodman 1996)
    max-rule   maximise the product of rule posteriors (Petrov and Klein 2007)

Viterbi maximises the probability of one derivation and has charts of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, cell
from sapwood.errors import SapwoodError
from sapwood.inference.charts import ParseForest, sentence_weight, tag_weights
from sapwood.inference.posteriors import leaf_vectors

if TYPE_CHECKING:
    from sapwood.inference.brackets import ItemLabels
    from sapwood.inference.prepared import PreparedGrammar
    from sapwood.kernels.coarse import Tags
    from sapwood.kernels.forest import Forest

Nodes = list[tuple[int, int, int, int]]  # (symbol, left place, right place, start), children first
DECODERS = ("f1", "goodman", "max-rule", "viterbi")
# F1 = 2 correct / (gold + given) is largest for the tree that maximises correct - (F1 / 2) given:
# half of an F1 of 88 %, and dev F1 is flat from 0.4 to 0.5.
BRACKET_COST = 0.44
TAG_GAIN = 0.1  # tags are no brackets: they only decide between trees that are equal otherwise
FLOOR = 1e-12  # below this a posterior of a spectral model is noise


class Gains(NamedTuple):
    """What each item and edge adds to the score of a tree, and what being the root adds."""

    items: FloatArray
    edges: FloatArray
    roots: FloatArray


def f1_gains(parsed: ParseForest) -> Gains:
    """What each item adds to expected F1; edges and roots add nothing."""
    rows = parsed.labels
    items = bracket_gains(rows, parsed.brackets.of(rows.code), len(parsed.items))
    return Gains(items, np.zeros(len(parsed.edges)), np.zeros(len(parsed.roots)))


def bracket_gains(rows: ItemLabels, p: FloatArray, n_items: int) -> FloatArray:
    """Posteriors p of the brackets of each item, less their cost; intermediate items add 0."""
    gain = np.where(rows.is_tag, TAG_GAIN * p, p - BRACKET_COST)
    return np.asarray(np.bincount(rows.item, gain, n_items), float)


def goodman_gains(parsed: ParseForest) -> Gains:
    """Sum of constituent posteriors; negative ones count as 0."""
    items = np.maximum(parsed.items, 0.0)
    return Gains(items, np.zeros(len(parsed.edges)), np.zeros(len(parsed.roots)))


def max_rule_gains(parsed: ParseForest) -> Gains:
    """Sum of log rule posteriors; absolute, with a floor, since spectral ones may be negative."""
    items = np.log(np.maximum(np.abs(parsed.items), FLOOR))
    is_leaf = parsed.forest.end - parsed.forest.start == 1
    edges = np.log(np.maximum(np.abs(parsed.edges), FLOOR))
    return Gains(np.where(is_leaf, items, 0.0), edges, items[parsed.roots])


def derivation_gains(parsed: ParseForest) -> Gains:
    """Log-probability of a derivation of a plain grammar."""
    forest, grammar = parsed.forest, parsed.grammar
    _, weight = leaf_vectors(parsed)  # one state, so one number an item
    is_leaf = forest.end - forest.start == 1
    n, i = len(parsed.words), forest.start.astype(np.int64)
    with np.errstate(divide="ignore"):  # weight 0 is log-probability -inf
        items = np.where(
            is_leaf, np.log(weight) + parsed.scale[cell(i, i + 1, n)] * np.log(2.0), 0.0
        )
        edges = np.log(grammar.rule_weights[forest.rule])
        roots = np.log(grammar.root[forest.symbol[parsed.roots]])
    return Gains(items, edges, roots)


GAINS = {
    "f1": f1_gains,
    "goodman": goodman_gains,
    "max-rule": max_rule_gains,
    "viterbi": derivation_gains,  # of plain grammars only
}


class Decoded(NamedTuple):
    """A tree of a forest as nodes, and the decoder's score of it."""

    score: float
    nodes: Nodes


def best_tree(parsed: ParseForest, gains: Gains) -> Decoded | None:
    """The tree of highest total gain; None when pruning left no whole tree."""
    from sapwood.kernels.forest import best_derivations, follow

    if not len(parsed.roots):
        return None
    best, choice = best_derivations(parsed.forest, gains.items, gains.edges)
    totals = best[parsed.roots] + gains.roots
    place = int(np.argmax(totals))
    if not totals[place] > -np.inf:  # nor what is not a number: there is nothing to follow
        return None
    nodes = nodes_of(parsed.forest, *follow(parsed.forest, choice, int(parsed.roots[place])))
    return Decoded(float(totals[place]), nodes)


def nodes_of(
    forest: Forest,
    item: npt.NDArray[np.int64],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
) -> Nodes:
    """Items of a derivation as nodes."""
    columns = (forest.symbol[item], left, right, forest.start[item])
    return list(zip(*(column.tolist() for column in columns), strict=True))


# -- Viterbi ----------------------------------------------------------------------------------


def viterbi_tree(parsed: ParseForest) -> Decoded | None:
    """The best single derivation, exact over the full chart for a plain grammar.

    For a latent grammar, the best tree together with its hidden states, over the pruned forest. The
    score is the log-probability of the derivation.
    """
    grammar = parsed.grammar
    if parsed.prepared.features is not None:
        msg = "the viterbi decoder follows derivations of a grammar, and this model scores spans"
        raise SapwoodError(msg, hint="use the decoder f1, goodman or max-rule")
    if not grammar.is_probabilistic and not grammar.is_plain:
        msg = "the viterbi decoder needs probabilities, and this model holds weights of either sign"
        raise SapwoodError(msg, hint="use the decoder goodman or max-rule")
    if not grammar.is_plain:
        return _viterbi_latent(parsed)
    if len(parsed.words) == 1:
        return best_tree(parsed, derivation_gains(parsed))
    return _viterbi_plain(parsed.prepared, parsed.words)


def _viterbi_plain(prepared: PreparedGrammar, words: list[str]) -> Decoded | None:
    from sapwood.kernels import viterbi

    tags = tag_weights(prepared, words)
    delta, scale = viterbi.best_weights(prepared.plain.rules, tags)
    n = len(words)
    totals = prepared.plain.root * delta[n - 1]
    root = int(np.argmax(totals)) if len(totals) else 0
    if not len(totals) or totals[root] <= 0:
        return None
    nodes = trace(prepared, tags, delta, scale, root, 0, n)
    return Decoded(sentence_weight(scale, n, float(totals[root])).log, nodes)


def trace(
    prepared: PreparedGrammar,
    tags: Tags,
    delta: FloatArray,
    scale: npt.NDArray[np.int64],
    symbol: int,
    i: int,
    j: int,
) -> Nodes:
    """The best derivation of a symbol over a span, from the plain grammar's Viterbi chart."""
    from sapwood.kernels import viterbi

    grammar = prepared.grammar
    columns = viterbi.trace(
        delta, scale, tags, symbol, i, j, *prepared.plain.by_parent, grammar.rules,
        grammar.coarse.rules, grammar.n_phrases,
    )  # fmt: skip
    return list(zip(*(column.tolist() for column in columns), strict=True))


class BestStates(NamedTuple):
    """The best derivation of every item and state, see `sapwood.kernels.viterbi.best_states`."""

    start: npt.NDArray[np.uint64]  # [n_items + 1], where the states of each item start
    delta: FloatArray
    choice: npt.NDArray[np.uint32]
    arguments: Any  # of the kernels


def best_states(parsed: ParseForest) -> BestStates:
    """Run Viterbi over all items and states of a latent grammar's forest."""
    from sapwood.kernels import viterbi

    forest, grammar = parsed.forest, parsed.grammar
    start, delta = leaf_vectors(parsed)
    choice = np.zeros(len(delta), np.uint32)
    tensor_start = grammar.tensor_start.astype(np.uint64)
    arguments = (
        forest, len(parsed.words), parsed.scale, start, tensor_start, grammar.rule_weights,
        delta, choice,
    )  # fmt: skip
    viterbi.best_states(*arguments)
    return BestStates(start, delta, choice, arguments)


def _viterbi_latent(parsed: ParseForest) -> Decoded | None:
    from sapwood.kernels import viterbi
    from sapwood.kernels.forest import follow

    forest, grammar = parsed.forest, parsed.grammar
    start, delta, _, arguments = best_states(parsed)
    best, root, state = 0.0, -1, 0
    for item in parsed.roots:
        values = (
            grammar.root_vector(int(forest.symbol[item]))
            * delta[int(start[item]) : int(start[item + 1])]
        )
        h = int(np.argmax(values))
        if values[h] > best:
            best, root, state = float(values[h]), int(item), h
    if root < 0:
        return None
    used = viterbi.follow_states(*(*arguments, root, state))
    score = sentence_weight(parsed.scale, len(parsed.words), best).log
    return Decoded(score, nodes_of(forest, *follow(forest, used, root)))
