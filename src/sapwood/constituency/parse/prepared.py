"""`PreparedGrammar`: a grammar with all that is arranged for the kernels, once, and then only read.

It is complete when it is made, so that any number of threads can use it. The tables live as long
as their grammar; whoever prepares the same grammar again gets the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol, root_chain
from sapwood.constituency.grammar.coarse import expected_visits
from sapwood.core.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.grammar.feature_grammar import SpanFeatures
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.grammar.member import Member
    from sapwood.constituency.parse.kernels.coarse import CoarseRules
    from sapwood.constituency.parse.kernels.forest import PairTable
    from sapwood.constituency.parse.kernels.trees import TreeGrammar

Integers = npt.NDArray[np.integer[Any]]
Chains = Mapping[tuple[str, ...], int]
Tensors = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], FloatArray]


class PlainTables(NamedTuple):
    """The plain grammar that prunes, arranged; grammars that prune alike share it."""

    root: FloatArray
    rules: CoarseRules
    pairs: PairTable  # rules by their children, for building forests
    # where the rules of each phrase start, and the rules in this order
    by_parent: tuple[IntArray, IntArray]
    visits: FloatArray  # [n_symbols]: how often each symbol occurs in a random tree, up to a factor
    # [n_entries]: how probable each entry's tag is for its word, relative to the word's best tag
    entry_share: FloatArray


class PreparedGrammar(NamedTuple):
    """A grammar and its tables."""

    member: Member  # what was prepared, and all that a pickle of it holds
    grammar: LatentGrammar  # its chart grammar: the member itself, or the plain one beside it
    plain: PlainTables
    # starts, ranks and weights of the rules' tensors, for the kernels of latent grammars
    tensors: Tensors
    chains: Chains  # numbers of all that symbols restore to, inside a tree or on top of it
    trees: TreeGrammar  # the grammar arranged for summing over the derivations of trees
    # what scores the spans of a `FeatureGrammar`; None for others
    features: SpanFeatures | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return prepare, (self.member,)


# The tables hold no grammars, which would keep each other alive.
_Tables = tuple[PlainTables, Tensors, Chains, "TreeGrammar"]
_kept: WeakKeyDictionary[LatentGrammar, _Tables] = WeakKeyDictionary()
_features: WeakKeyDictionary[Member, SpanFeatures | None] = WeakKeyDictionary()
_keeping = RLock()


def prepare(member: Member, chart_owner: PreparedGrammar | None = None) -> PreparedGrammar:
    """A member with the tables of its chart grammar, made now unless they are there.

    Parameters
    ----------
    chart_owner
        A prepared member whose chart grammar prunes alike (`shares_chart`): its tables are shared.
    """
    grammar = member.chart_grammar
    with _keeping:
        if member not in _features:
            _features[member] = member.features()
        tables = _kept.get(grammar)
        if tables is None:
            plain = _plain_tables(grammar) if chart_owner is None else chart_owner.plain
            tables = _kept[grammar] = (plain, *_own_tables(grammar))
        return PreparedGrammar(member, grammar, *tables, _features[member])


def prepare_grammars(model: Model) -> list[PreparedGrammar]:
    """The chart grammars of all members, those of a group with shared tables."""
    prepared: dict[int, PreparedGrammar] = {}
    for group in model.groups:
        for place in group:
            prepared[place] = prepare(model.grammars[place], prepared.get(group[0]))
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
        _entry_share(g, visits),
    )


def _entry_share(g: LatentGrammar, visits: FloatArray) -> FloatArray:
    sizes = np.diff(g.lexicon.row_start)
    row, best = np.repeat(np.arange(len(sizes)), sizes), np.zeros(len(sizes))
    joint = g.coarse.lexical * visits[g.n_phrases + g.lexicon.entry_tag.astype(int)]
    np.maximum.at(best, row, joint)
    return np.asarray(joint / np.maximum(best, 5e-324)[row])


def _own_tables(g: LatentGrammar) -> tuple[Tensors, Chains, TreeGrammar]:
    from sapwood.constituency.parse.kernels.trees import TreeGrammar

    chains, inner, root = number_chains(g.symbols)
    lexicon = g.lexicon
    trees = TreeGrammar(
        g.n_phrases, inner, root,
        lexicon.row_start.astype(np.int64), lexicon.entry_tag.astype(np.int64),
        lexicon.weight_start, lexicon.weights,
        g.n_states, g.tensor_start, g.rule_rank, g.rule_weights, g.state_start, g.root,
    )  # fmt: skip
    starts, ranks = g.tensor_start[:-1].astype(np.uint64), g.rule_rank.astype(np.uint64)
    return (starts, ranks, g.rule_weights), chains, trees


def number_chains(
    symbols: Sequence[Symbol], known: Chains | None = None
) -> tuple[Chains, IntArray, IntArray]:
    """What each symbol restores to, as a node inside a tree and as its root."""
    from sapwood.constituency.parse.kernels.trees import HIDDEN, UNKNOWN

    top = [root_chain(symbol) for symbol in symbols]
    if known is None:
        found = dict.fromkeys((*(symbol.chain for symbol in symbols), *top))
        known = {chain: number for number, chain in enumerate(found)}
    inner = [known.get(s.chain, UNKNOWN) if s.context is None else HIDDEN for s in symbols]
    root = [known.get(chain, UNKNOWN) for chain in top]
    return known, np.array(inner, np.int64), np.array(root, np.int64)


def coarse_rules(rules: Integers, weights: FloatArray, n_phrases: int, n_tags: int) -> CoarseRules:
    """Arrange scalar rules for the full-chart kernels.

    Parameters
    ----------
    rules : [n_rules, 3]
        Symbols a, b, c; tags are numbered from n_phrases on.
    weights : [n_rules]
        One weight a rule; rules of weight 0 are left out.
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
    """Pair numbers [shape], starts, parents and weights of the rules under a mask."""
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
    from sapwood.constituency.parse.kernels.forest import NONE, PairTable

    number_of = np.flatnonzero(kept)
    rules = rules[number_of]
    lefts, left = np.unique(rules[:, 1], return_inverse=True)
    rights, right = np.unique(rules[:, 2], return_inverse=True)
    left_slot, right_slot = (np.full(n_symbols, NONE, np.uint32) for _ in range(2))
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
