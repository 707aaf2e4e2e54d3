"""Weights of given trees (SPECTRAL, Figure 4) and of sentences (Figure 5, inside only)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import cell, ranges, starts_of
from sapwood.corpus.clean import clean
from sapwood.corpus.penn import as_trees
from sapwood.corpus.transform import Symbol, root_chain
from sapwood.corpus.tree import Tree, as_tree
from sapwood.corpus.treebank import Treebank
from sapwood.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.kernels.coarse import Chart, Tags
    from sapwood.kernels.forest import Forest
    from sapwood.kernels.trees import TreeGrammar, Trees
    from sapwood.models.latent_grammar import LatentGrammar

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
KEPT_NUMBERS = 16_000_000  # 128 MB a buffer; longer sentences get memory of their own
AT_ONCE = 1000  # trees that a kernel is given
SMALLEST = 5e-324  # the least positive number: keeps every item of positive posterior


def tree_log_weights(
    grammar: LatentGrammar, trees: Treebank | Sequence[Tree]
) -> tuple[FloatArray, FloatArray]:
    """Log of the absolute weight of each tree, and its sign; -inf and 0 for one without derivation.

    A tree's weight is the sum over all binary trees of the grammar's symbols that `restore` turns
    into it, whatever they were annotated with and however they are binary. A treebank is taken as
    it is; trees are cleaned first.
    """
    if isinstance(trees, Treebank):
        return _row_log_weights(grammar, _rows_of(grammar, trees))
    cleaned = [clean(as_tree(tree)) for tree in as_trees(trees)]
    kept = [tree for tree in cleaned if tree is not None]
    logs, signs = np.full(len(cleaned), -np.inf), np.zeros(len(cleaned))
    if kept:
        is_kept = [tree is not None for tree in cleaned]
        bank = Treebank.from_trees(kept, grammar.transform)
        logs[is_kept], signs[is_kept] = tree_log_weights(grammar, bank)
    return logs, signs


def _row_log_weights(grammar: LatentGrammar, rows: Trees) -> tuple[FloatArray, FloatArray]:
    """The same for the rows of a treebank, in parts, since Ctrl-C waits for a kernel to end."""
    from sapwood.kernels.trees import log_weights

    offsets, chains = rows.offsets, rows.root_chain
    parts = [
        log_weights(
            rows._replace(offsets=offsets[k : k + AT_ONCE + 1], root_chain=chains[k : k + AT_ONCE]),
            grammar.tree_grammar,
            grammar.pair_table,
        )
        for k in range(0, max(1, len(chains)), AT_ONCE)
    ]
    logs, signs = (np.concatenate(part) for part in zip(*parts, strict=True))
    return logs, signs


def tree_grammar(grammar: LatentGrammar) -> TreeGrammar:
    """A grammar arranged for the kernel that sums over the derivations of trees."""
    from sapwood.kernels.trees import TreeGrammar

    lexicon = grammar.lexicon
    return TreeGrammar(
        grammar.n_phrases, *_chain_numbers(grammar.chains, grammar.symbols),
        lexicon.row_start.astype(np.int64), lexicon.entry_tag.astype(np.int64),
        lexicon.weight_start, lexicon.weights,
        grammar.n_states, grammar.tensor_start, grammar.rule_rank, grammar.rule_weights,
        grammar.state_start, grammar.root,
    )  # fmt: skip


def _chain_numbers(
    chains: Mapping[tuple[str, ...], int], symbols: Sequence[Symbol]
) -> tuple[IntArray, IntArray]:
    """What each symbol restores to, as a node inside a tree and as its root."""
    from sapwood.kernels.trees import HIDDEN, UNKNOWN

    inner = [HIDDEN if s.is_intermediate else chains.get(s.chain, UNKNOWN) for s in symbols]
    root = [chains.get(root_chain(s), UNKNOWN) for s in symbols]
    return np.array(inner, np.int64), np.array(root, np.int64)


def _rows_of(grammar: LatentGrammar, bank: Treebank) -> Trees:
    """The rows of a treebank with chains and words as a grammar numbers them."""
    from sapwood.kernels.trees import Trees

    inner, root = _chain_numbers(grammar.chains, bank.inventory.symbols)
    return Trees(
        bank.offsets, bank.left, bank.right, inner[bank.label],
        root[bank.label[bank.offsets[1:] - 1]], _lexicon_rows(grammar, bank),
    )  # fmt: skip


def _lexicon_rows(grammar: LatentGrammar, bank: Treebank) -> IntArray:
    """The lexicon's row of each leaf; the first word of a sentence is looked up as such."""
    words = bank.inventory.words
    leaf = np.flatnonzero(bank.word >= 0)
    code = bank.word[leaf].astype(np.int64) * 2 + (bank.start[leaf] == 0)
    distinct, inverse = np.unique(code, return_inverse=True)
    rows = [
        grammar.lexicon.row(words[code // 2], is_first=bool(code % 2)) for code in distinct.tolist()
    ]
    out = np.zeros(len(bank.word), np.int64)
    out[leaf] = np.array(rows, np.int64)[inverse]
    return out


class SignedLog(NamedTuple):
    """A number as `sign * exp(log)`: the sign is 1, -1, or 0 for zero, whose log is -inf."""

    log: float
    sign: int

    @classmethod
    def of(cls, value: float, power: int = 0) -> SignedLog:
        """The number `value * 2**power`."""
        if value == 0.0:
            return cls(-np.inf, 0)
        return cls(log(abs(value)) + power * log(2.0), 1 if value > 0 else -1)


class Rooms(threading.local):
    """Scratch space for charts, kept by each thread: fresh memory costs more than the sums."""

    def __init__(self) -> None:
        self.kept: dict[str, FloatArray] = {}

    def get(self, name: str, size: int) -> FloatArray:
        """A buffer of at least this many numbers; its contents are whatever was there."""
        if size > KEPT_NUMBERS:
            return np.empty(size)
        room = self.kept.get(name)
        if room is None or len(room) < size:
            room = self.kept[name] = np.empty(min(KEPT_NUMBERS, size * 3 // 2))
        return room


_rooms = Rooms()


def coarse_inside(grammar: LatentGrammar, tags: Tags, beam: float = 0.0) -> Chart:
    """Inside chart of the plain grammar; valid until this thread charts its next sentence.

    Parameters
    ----------
    beam
        See `sapwood.kernels.coarse.inside`; 0 gives the full chart.
    """
    from sapwood.kernels import coarse

    rules = grammar.coarse_rules
    n = len(tags.scale)
    room = _rooms.get("inside", coarse.chart_room(rules, n))
    active = _rooms.get("active", n * (n + 1) * grammar.n_phrases // 4 + 1).view(np.uint32)
    prior = grammar.visits[: grammar.n_phrases]
    chart: Chart = coarse.inside(rules, tags, room, active, prior, beam)
    return chart


def coarse_outside(
    grammar: LatentGrammar, tags: Tags, chart: Chart
) -> tuple[FloatArray, FloatArray]:
    """Outside weights of phrases and of tags, likewise; times the inside weights, posteriors."""
    from sapwood.kernels import coarse

    rules, root = grammar.coarse_rules, grammar.coarse.root[: grammar.n_phrases]
    room = _rooms.get("outside", coarse.chart_room(rules, chart.n))
    alpha, tag_alpha = coarse.outside(rules, tags, chart, root, room)
    return alpha, tag_alpha


def sentence_log_weight(grammar: LatentGrammar, words: list[str]) -> SignedLog:
    """Weight of a sentence over all its trees and states; log -inf for no parse."""
    from sapwood.kernels import coarse, forest

    if not words:
        msg = "an empty sentence has no probability"
        raise SapwoodError(msg, hint="give at least one word")
    if len(words) == 1:
        return SignedLog.of(one_word_weights(grammar, words[0])[1].sum())
    tags = tag_weights(grammar, words)
    chart = coarse_inside(grammar, tags)
    root = grammar.coarse.root[: grammar.n_phrases]
    if grammar.is_plain:
        return sentence_weight(chart.scale, chart.n, coarse.partition(chart, root))
    alpha, tag_alpha = coarse_outside(grammar, tags, chart)
    packed, _ = forest.build(
        grammar.pair_table, grammar.n_symbols, len(words), chart.beta * alpha,
        tags.start, tags.tag, tags.weight * tag_alpha, SMALLEST,
    )  # fmt: skip
    _, _, total = inside_vectors(grammar, words, packed, chart.scale)
    return sentence_weight(chart.scale, chart.n, total)


def sentence_weight(scale: IntArray, n: int, total: float) -> SignedLog:
    """Undo the scaling of the weight of a sentence of n words."""
    # the cell of the whole sentence: start 0, length n
    return SignedLog.of(total, power=int(scale[n - 1]))


def tag_weights(
    grammar: LatentGrammar,
    words: list[str],
    least_share: float = 0.0,
    right: npt.NDArray[np.int64] | None = None,
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

    lexicon = grammar.lexicon
    rows = lexicon.rows(words)
    first, end = (lexicon.row_start[rows + side].astype(np.int64) for side in (0, 1))
    entry = ranges(first, end)
    position = np.repeat(np.arange(len(words)), end - first)
    if least_share > 0.0:
        kept = grammar.entry_share[entry] >= least_share
        if right is not None:
            kept |= lexicon.entry_tag[entry] == right[position]
        entry, position = entry[kept], position[kept]
    weight = grammar.coarse.lexical[entry]
    peak = np.zeros(len(words))
    np.maximum.at(peak, position, weight)
    _, scale = np.frexp(peak)
    scale = scale.astype(np.int64)
    start = np.searchsorted(position, np.arange(len(words) + 1)).astype(np.uint32)
    return Tags(start, lexicon.entry_tag[entry], np.ldexp(weight, -scale[position]), scale)


def inside_vectors(
    grammar: LatentGrammar, words: list[str], packed: Forest, scale: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], FloatArray, float]:
    """Inside vectors of a forest: where each item's starts, the vectors, the sentence's weight."""
    from sapwood.kernels import latent

    n = len(words)
    start, beta = leaf_vectors(grammar, words, packed, scale)
    latent.inside(packed, n, scale, start, *grammar.tensors, beta, int(grammar.n_states.max()))
    total = 0.0
    for item in root_items(packed, n):
        vector = beta[int(start[item]) : int(start[item + 1])]
        total += float(grammar.root_vector(int(packed.symbol[item])) @ vector)
    return start, beta, total


def leaf_vectors(
    grammar: LatentGrammar, words: list[str], packed: Forest, scale: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint64], FloatArray]:
    """Vectors of all items of a forest, with only those of the tags filled in.

    Each is the emission vector of its tag and word, divided by the power of two of its span.
    """
    sizes = grammar.n_states[packed.symbol]
    start = starts_of(sizes)
    n_leaves = int(np.searchsorted(packed.end - packed.start, 1, side="right"))
    i, tag = packed.start[:n_leaves].astype(np.int64), packed.symbol[:n_leaves].astype(np.int64)
    lexicon = grammar.lexicon
    entry = lexicon.find_entries(lexicon.rows(words)[i], tag - grammar.n_phrases)
    place = np.repeat(lexicon.weight_start[entry] - start[:n_leaves], sizes[:n_leaves])
    down = -scale[cell(i, i + 1, len(words))]
    vectors = np.zeros(int(start[-1]))
    leaves = slice(0, int(start[n_leaves]))  # tags stand first
    emission = lexicon.weights[place + np.arange(leaves.stop)]
    vectors[leaves] = np.ldexp(emission, np.repeat(down, sizes[:n_leaves]))
    return start.astype(np.uint64), vectors


def root_items(packed: Forest, n: int) -> npt.NDArray[np.int64]:
    """Items that cover the whole sentence."""
    first = np.searchsorted(packed.end - packed.start, n)  # items stand in order of width
    return np.arange(first, len(packed.symbol))


def one_word_weights(grammar: LatentGrammar, word: str) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Tags (as symbol numbers) that can be a whole sentence, and their weights."""
    lexicon = grammar.lexicon
    entries = lexicon.entries(lexicon.row(word, is_first=True))
    symbols = grammar.n_phrases + lexicon.entry_tag[entries].astype(np.int64)
    weights = np.array(
        [
            grammar.root_vector(int(a))
            @ lexicon.weights[lexicon.weight_start[e] : lexicon.weight_start[e + 1]]
            for a, e in zip(symbols, range(entries.start, entries.stop), strict=True)
        ]
    )
    return symbols, weights
