"""Grammars prepared for the kernels, and log-probabilities of trees and sentences under them.

A `PreparedGrammar` is complete when it is made, so that any number of threads can use it. The
tables live as long as their grammar; preparing the same grammar again gives the same tables.

Trees are summed over their derivations (SPECTRAL, Figure 4), sentences over all their trees (Figure
5, inside only).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol, Transform, pack_binary_trees
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.constraints import NO_CLASSES, Constraints, phrase_classes
from sapwood.constituency.grammar.random_trees import expected_visits
from sapwood.constituency.parse.charts import (
    SMALLEST,
    forest_inside,
    one_word_weights,
    plain_inside,
    plain_posteriors,
    sentence_log,
    tag_weights,
)
from sapwood.core.arrays import FloatArray, IntArray, SignedLog
from sapwood.core.errors import as_sentence
from sapwood.corpora.tree import ROOT, Tree, as_tree, clean, is_tree

if TYPE_CHECKING:
    from sapwood.constituency.grammar.discriminative import SpanFeatures
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.grammar.member import Member
    from sapwood.constituency.parse.decoders import Decoded, Nodes
    from sapwood.constituency.parse.kernels.coarse import CoarseRules
    from sapwood.constituency.parse.kernels.forest import PairTable
    from sapwood.constituency.parse.kernels.latent import RuleTensors
    from sapwood.constituency.parse.kernels.trees import TreeGrammar

Integers = npt.NDArray[np.integer[Any]]
Chains = Mapping[tuple[str, ...], int]
MOST_NONZERO = 0.25  # share of numbers other than 0 up to which lists of them are read faster


class PlainTables(NamedTuple):
    """Tables of the plain grammar that prunes; grammars that prune alike share them."""

    root: FloatArray
    rules: CoarseRules
    pairs: PairTable  # rules by their children, for building forests
    # where the rules of each phrase start, and the rules in this order
    by_parent: tuple[IntArray, IntArray]
    visits: FloatArray  # [n_symbols]: how often each symbol occurs in a random tree, up to a factor
    # [n_entries]: probability of each entry's tag given the word, divided by that of the best tag
    entry_ratio: FloatArray


class PreparedGrammar(NamedTuple):
    """A grammar and its tables."""

    member: Member  # a pickle holds the member only
    grammar: LatentGrammar  # its chart grammar: the member itself, or the plain one beside it
    plain: PlainTables
    tensors: RuleTensors  # for the kernels of latent grammars
    chains: Chains  # numbers of the chains that symbols restore to, inside a tree or as its root
    trees: TreeGrammar  # tables for sums over the derivations of trees
    features: SpanFeatures | None = None  # of a `FeatureGrammar` only

    def __reduce__(self) -> tuple[Any, ...]:
        return prepare, (self.member,)


# The tables hold no grammars, which would keep each other alive.
_Tables = tuple[PlainTables, "RuleTensors", Chains, "TreeGrammar"]
_kept: WeakKeyDictionary[LatentGrammar, _Tables] = WeakKeyDictionary()
_keeping = RLock()


def prepare(
    member: Member,
    chart_owner: PreparedGrammar | None = None,
    grammar: LatentGrammar | None = None,
) -> PreparedGrammar:
    """A member with the tables of its chart grammar, which are made once.

    A chart owner is a prepared member that prunes alike (`shares_chart`): its tables are shared.
    The chart grammar may be given where it is at hand.
    """
    grammar = member.chart_grammar if grammar is None else grammar
    with _keeping:
        tables = _kept.get(grammar)
        if tables is None:
            plain = _plain_tables(grammar) if chart_owner is None else chart_owner.plain
            tables = _kept[grammar] = (plain, *_own_tables(grammar))
        return PreparedGrammar(member, grammar, *tables, member.features)


def prepare_grammars(model: Model) -> list[PreparedGrammar]:
    """The chart grammars of all members, those of a group with shared tables."""
    prepared: dict[int, PreparedGrammar] = {}
    for group in model.groups:
        for place in group:
            grammar = model.grammars[place]
            prepared[place] = prepare(grammar, prepared.get(group[0]), grammar)
    return [prepared[place] for place in range(len(prepared))]


def _plain_tables(g: LatentGrammar) -> PlainTables:
    order = np.argsort(g.rules[:, 0], kind="stable")
    start = np.searchsorted(g.rules[order, 0], np.arange(g.n_phrases + 1))
    visits = expected_visits(g.coarse.root, g.rules, g.coarse.rules)
    return PlainTables(
        g.coarse.root[: g.n_phrases],
        coarse_rules(g.rules, g.coarse.rules, g.n_phrases, len(g.tags)),
        pair_table(g.rules, g.coarse.rules > 0, g.n_symbols),
        (start, order),
        visits,
        _entry_ratio(g, visits),
    )


def _entry_ratio(g: LatentGrammar, visits: FloatArray) -> FloatArray:
    sizes = np.diff(g.lexicon.row_start)
    row, best = np.repeat(np.arange(len(sizes)), sizes), np.zeros(len(sizes))
    joint = g.coarse.lexical * visits[g.n_phrases + g.lexicon.entry_tag.astype(int)]
    np.maximum.at(best, row, joint)
    return np.asarray(joint / np.maximum(best, 5e-324)[row])


def _own_tables(g: LatentGrammar) -> tuple[RuleTensors, Chains, TreeGrammar]:
    from sapwood.constituency.parse.kernels.trees import TreeGrammar

    chains, inner, root = number_chains(g.symbols)
    lexicon = g.lexicon
    trees = TreeGrammar(
        g.n_phrases, inner, root,
        lexicon.row_start.astype(np.int64), lexicon.entry_tag.astype(np.int64),
        lexicon.weight_start, lexicon.weights,
        g.n_states, g.tensor_start, g.rule_rank, g.rule_weights, g.state_start, g.root,
    )  # fmt: skip
    return _tensors_of(g), chains, trees


def _tensors_of(g: LatentGrammar) -> RuleTensors:
    """The tensors of a grammar's rules; those that are nearly all zeros as lists, too."""
    from sapwood.constituency.parse.kernels.latent import RuleTensors

    weights, sizes = g.rule_weights, np.diff(g.tensor_start)
    counts = np.zeros(len(sizes), np.int64)
    place = np.empty(0, np.int64)
    if (g.rule_rank == 0).any() and not g.is_plain:
        place = np.flatnonzero(weights)
        counts = np.diff(np.searchsorted(place, g.tensor_start))
        is_listed = (g.rule_rank == 0) & (counts <= MOST_NONZERO * sizes)
        place = place[np.repeat(is_listed, counts)]
        counts[~is_listed] = 0
    rule = np.repeat(np.arange(len(sizes)), counts)
    _, m_left, m_right = g.n_states[g.rules[rule]].astype(np.int64).T
    rest, right = np.divmod(place - g.tensor_start[rule], m_right)
    parent, left = np.divmod(rest, m_left)
    return RuleTensors(
        g.tensor_start[:-1].astype(np.uint64), g.rule_rank.astype(np.uint64), weights,
        np.append(0, np.cumsum(counts)).astype(np.uint64),
        parent.astype(np.uint16), left.astype(np.uint16), right.astype(np.uint16), weights[place],
    )  # fmt: skip


def number_chains(
    symbols: Sequence[Symbol], known: Chains | None = None
) -> tuple[Chains, IntArray, IntArray]:
    """Numbers of chains, and the chain that each symbol restores to, inside a tree and as root."""
    from sapwood.constituency.parse.kernels.trees import HIDDEN, UNKNOWN_CHAIN

    top = [_root_chain(symbol) for symbol in symbols]
    if known is None:
        found = dict.fromkeys((*(symbol.chain for symbol in symbols), *top))
        known = {chain: number for number, chain in enumerate(found)}
    inner = [known.get(s.chain, UNKNOWN_CHAIN) if s.context is None else HIDDEN for s in symbols]
    root = [known.get(chain, UNKNOWN_CHAIN) for chain in top]
    return known, np.array(inner, np.int64), np.array(root, np.int64)


def _root_chain(symbol: Symbol) -> tuple[str, ...]:
    """The labels from the root of the restored tree down to the last one of a symbol on top of it.

    Examples
    --------
    >>> _root_chain(Symbol(("S", "VP"))), _root_chain(Symbol(("TOP", "S")))
    (('TOP', 'S', 'VP'), ('TOP', 'S'))
    """
    if symbol.context is not None:
        return (ROOT,)
    return symbol.chain if symbol.chain[0] == ROOT else (ROOT, *symbol.chain)


def coarse_rules(rules: Integers, weights: FloatArray, n_phrases: int, n_tags: int) -> CoarseRules:
    """Arrange rules a, b, c [n_rules, 3] with one weight each for the full-chart kernels.

    Tags are numbered from n_phrases on; rules of weight 0 are left out.
    """
    from sapwood.constituency.parse.kernels.coarse import CoarseRules

    kept = weights != 0.0
    (a, b, c), w = rules[kept].T.astype(np.int64), weights[kept]
    tag_b, tag_c = b >= n_phrases, c >= n_phrases
    t, u = b - n_phrases, c - n_phrases
    tt = _by_pair(t, u, a, w, tag_b & tag_c, (n_tags, n_tags))
    ta = _by_pair(t, c, a, w, tag_b & ~tag_c, (n_tags, n_phrases))
    at = _by_pair(u, b, a, w, ~tag_b & tag_c, (n_tags, n_phrases))
    aa = _phrase_pairs(a, b, c, w, ~tag_b & ~tag_c, n_phrases)
    return CoarseRules(n_phrases, *tt, *ta, *at, *aa)


def _by_pair(
    first: IntArray,
    second: IntArray,
    a: IntArray,
    w: FloatArray,
    mask: npt.NDArray[np.bool_],
    shape: tuple[int, int],
) -> list[Any]:
    """Pair numbers [shape], starts, parents and weights of the rules that the mask selects."""
    keys = first[mask] * shape[1] + second[mask]
    number, start, order = _group(keys, shape[0] * shape[1])
    return [number.reshape(shape), start, _unsigned(a[mask][order]), w[mask][order]]


def _phrase_pairs(
    a: IntArray,
    b: IntArray,
    c: IntArray,
    w: FloatArray,
    mask: npt.NDArray[np.bool_],
    n_phrases: int,
) -> list[Any]:
    left_of, left = np.unique(b[mask], return_inverse=True)
    right_of, right = np.unique(c[mask], return_inverse=True)
    keys, pair = np.unique(left * max(1, len(right_of)) + right, return_inverse=True)
    order, start = _sorted_by(pair, len(keys))
    _, first = _sorted_by(keys // max(1, len(right_of)), len(left_of))
    pair_right = keys % max(1, len(right_of))
    slots = [_unsigned(left_of), _unsigned(right_of)]
    slots += [_slot_of(phrases, n_phrases) for phrases in (left_of, right_of)]
    rules = [_unsigned(a[mask][order]), w[mask][order]]
    return [*slots, first, _unsigned(pair_right), start, *rules]


def _slot_of(phrases: IntArray, n_phrases: int) -> npt.NDArray[np.uint32]:
    from sapwood.constituency.parse.kernels.coarse import NO_SLOT

    slot = np.full(n_phrases, NO_SLOT, np.uint32)
    slot[phrases] = np.arange(len(phrases))
    return slot


def pair_table(rules: Integers, kept: npt.NDArray[np.bool_], n_symbols: int) -> PairTable:
    """Arrange rules by their pair of children, for building forests."""
    from sapwood.constituency.parse.kernels.forest import NO_ITEM, PairTable

    number_of = np.flatnonzero(kept)
    rules = rules[number_of]
    lefts, left = np.unique(rules[:, 1], return_inverse=True)
    rights, right = np.unique(rules[:, 2], return_inverse=True)
    left_slot, right_slot = (np.full(n_symbols, NO_ITEM, np.uint32) for _ in range(2))
    left_slot[lefts], right_slot[rights] = np.arange(len(lefts)), np.arange(len(rights))
    number, start, order = _group(left * len(rights) + right, len(lefts) * len(rights))
    pair = number.reshape(len(lefts), len(rights))
    numbers, parents = _unsigned(number_of[order]), _unsigned(rules[order, 0])
    return PairTable(left_slot, right_slot, pair, start, numbers, parents)


def _group(keys: IntArray, n_keys: int) -> tuple[Any, Any, Any]:
    """Number the distinct keys: (number + 1 of each key or 0, starts, order of the rows)."""
    distinct, inverse = np.unique(keys, return_inverse=True)
    order, start = _sorted_by(inverse, len(distinct))
    number = np.zeros(n_keys, np.uint32)
    number[distinct] = np.arange(1, len(distinct) + 1)
    return number, start, order


def _sorted_by(keys: IntArray, n_keys: int) -> tuple[Any, Any]:
    """Order that groups equal keys, and where each group starts."""
    start = np.zeros(n_keys + 1, np.uint32)
    start[1:] = np.cumsum(np.bincount(keys, minlength=n_keys))
    return np.argsort(keys, kind="stable"), start


def _unsigned(column: IntArray) -> npt.NDArray[np.uint32]:
    # Numba checks signed indices for wrap-around at every access: 2-3 times slower in the charts.
    return np.ascontiguousarray(column, dtype=np.uint32)


_ANY_TRANSFORM = Transform(heads="generic")  # the weight of a tree does not depend on it
TREES_PER_CALL = 1000  # trees that a kernel is given: Ctrl-C waits for a kernel to end


class _Rows(NamedTuple):
    """Trees in binary form, as the kernel's `Trees`, before a grammar numbers their symbols."""

    offsets: IntArray
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    label: npt.NDArray[np.integer[Any]]  # index of each row's symbol in `symbols`
    symbols: Sequence[Symbol]
    word: IntArray  # index of each leaf's word in `words`; any number for an in-terminal
    words: Sequence[tuple[str, bool]]  # words, and whether they are first in a sentence


def signed_log_prob(model: Model, item: Tree | Sequence[str]) -> SignedLog:
    """Weight of a tree or a sentence; the weighted mean over the members of an ensemble."""
    if is_tree(item):
        logs, signs = signed_log_probs(model, [as_tree(item)])
    else:
        words = as_sentence(item)
        found = [sentence_log_weight(prepared, words) for prepared in prepare_grammars(model)]
        logs, signs = _mean(model, [(np.array([one.log]), np.array([one.sign])) for one in found])
    return SignedLog(float(logs[0]), int(signs[0]))


def signed_log_probs(
    model: Model, trees: Treebank | Iterable[Tree]
) -> tuple[FloatArray, FloatArray]:
    """Logs of the absolute weights of trees, and their signs: -inf and 0 without derivation.

    A tree's weight is the sum over all binary trees of the grammar's symbols that `restore` turns
    into it, whatever their annotation and binarisation. Trees are cleaned first, a treebank is not.
    An ensemble has the weighted mean of its members.
    """
    if isinstance(trees, Treebank):
        return _row_log_probs(model, _rows_of(trees))
    cleaned = [clean(tree) for tree in trees]
    logs, signs = np.full(len(cleaned), -np.inf), np.zeros(len(cleaned))
    is_kept = [tree is not None for tree in cleaned]
    if any(is_kept):
        packed = pack_binary_trees((tree for tree in cleaned if tree is not None), _ANY_TRANSFORM)
        bank = Treebank(*packed)
        logs[is_kept], signs[is_kept] = _row_log_probs(model, _rows_of(bank))
    return logs, signs


def derivation_log_probs(
    model: Model, symbols: Sequence[Symbol], words: Sequence[str], trees: Sequence[Decoded]
) -> tuple[FloatArray, FloatArray]:
    """Log-weights and signs, see `signed_log_probs`, of trees of a sentence, given as nodes.

    `symbols` are those of trees that have none of their own.
    """
    nodes: Nodes = []
    for tree in trees:
        first = 0 if tree.symbols is None else len(symbols)
        nodes += [(first + a, b, c, i) for a, b, c, i in tree.nodes] if first else tree.nodes
        symbols = symbols if tree.symbols is None else (*symbols, *tree.symbols)
    table = np.array(nodes, np.int64)
    used, label = np.unique(table[:, 0], return_inverse=True)
    rows = _Rows(
        np.arange(len(trees) + 1) * (2 * len(words) - 1), table[:, 1].astype(np.int32),
        table[:, 2].astype(np.int32), label, [symbols[number] for number in used],
        table[:, 3], [(word, place == 0) for place, word in enumerate(words)],
    )  # fmt: skip
    return _row_log_probs(model, rows)


def _rows_of(bank: Treebank) -> _Rows:
    """Rows of a treebank; the first words of sentences are marked."""
    leaf = np.flatnonzero(bank.word >= 0)
    code = bank.word[leaf].astype(np.int64) * 2 + (bank.start[leaf] == 0)
    distinct, word = np.unique(code, return_inverse=True), np.zeros(len(bank.word), np.int64)
    word[leaf] = distinct[1]
    names = bank.inventory.words
    words = [(names[code // 2], bool(code % 2)) for code in distinct[0].tolist()]
    symbols = bank.inventory.symbols
    return _Rows(bank.offsets, bank.left, bank.right, bank.label, symbols, word, words)


def _row_log_probs(model: Model, rows: _Rows) -> tuple[FloatArray, FloatArray]:
    """Weighted mean of the weights of trees over the grammars of a model."""
    from sapwood.constituency.parse.kernels.trees import Trees, log_weights

    found = []
    for prepared in prepare_grammars(model):
        _, inner, root = number_chains(rows.symbols, prepared.chains)
        vocabulary = prepared.grammar.lexicon.vocabulary
        entry = [vocabulary.row(word, is_first=is_first) for word, is_first in rows.words]
        chain, word = inner[rows.label], np.array(entry, np.int64)[rows.word]
        top = root[rows.label[rows.offsets[1:] - 1]]
        parts = [
            log_weights(
                Trees(rows.offsets[k : k + TREES_PER_CALL + 1], rows.left, rows.right, chain,
                      top[k : k + TREES_PER_CALL], word),
                prepared.trees, prepared.plain.pairs,
            )
            for k in range(0, max(1, len(top)), TREES_PER_CALL)
        ]  # fmt: skip
        logs, signs = zip(*parts, strict=True)
        found.append((np.concatenate(logs), np.concatenate(signs)))
    return _mean(model, found)


def sentence_log_weight(
    prepared: PreparedGrammar, words: list[str], constraints: Constraints | None = None
) -> SignedLog:
    """Weight of a sentence over all its trees and states, or those that satisfy constraints.

    The log is -inf where there is none.
    """
    from sapwood.constituency.parse.kernels.coarse import partition

    n, scale, total = len(words), np.zeros(1, np.int64), 0.0
    if n == 1:
        total = one_word_weights(prepared.grammar, words[0], constraints)[1].sum()
    elif prepared.grammar.is_plain:
        tags = tag_weights(prepared, words, constraints=constraints)
        classes = (
            NO_CLASSES if constraints is None else phrase_classes(prepared.grammar, constraints)
        )
        chart = plain_inside(prepared.plain, tags, classes=classes)
        scale, total = chart.scale, partition(chart, prepared.plain.root)
    else:
        tags = tag_weights(prepared, words, constraints=constraints)
        plain = plain_posteriors(prepared, words, tags, SMALLEST, 0.0, constraints)
        if plain is not None:
            scale, total = plain.pruned.scale, forest_inside(prepared, plain.pruned)[2]
    sign = 0 if total == 0 else 1 if total > 0 else -1
    return SignedLog(sentence_log(scale, n, total), sign)


def _mean(
    model: Model, found: list[tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    """The weighted mean of logs and signs over the chart grammars of a model."""
    if len(found) == 1:
        return found[0]
    logs, signs = (np.array(part) for part in zip(*found, strict=True))
    return log_mean(logs, signs, model.weights)


def log_mean(
    logs: FloatArray, signs: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log and sign of sum over k of weights[k] signs[k] exp(logs[k]); -inf and 0 where all are."""
    top = logs.max(axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    mean = weights @ (signs * np.exp(logs - safe))
    with np.errstate(divide="ignore"):
        # an overflow is not a number, and has no sign
        return np.log(np.abs(mean)) + safe, np.sign(np.nan_to_num(mean))
