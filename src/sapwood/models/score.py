"""Weights of given trees (SPECTRAL, Figure 4) and of sentences (Figure 5, inside only)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sapwood.corpus.clean import clean
from sapwood.corpus.penn import as_trees
from sapwood.corpus.tree import Tree, as_tree
from sapwood.corpus.treebank import Treebank
from sapwood.errors import SapwoodError

if TYPE_CHECKING:
    from sapwood.kernels.coarse import Chart, Tags
    from sapwood.kernels.forest import Forest
    from sapwood.models.latent_grammar import LatentGrammar

FloatArray = npt.NDArray[np.float64]
KEPT_NUMBERS = 16_000_000  # 128 MB a buffer; longer sentences get memory of their own
SMALLEST = 5e-324  # the least positive number: keeps every item of positive posterior


def tree_log_weights(grammar: LatentGrammar, trees: Treebank | Sequence[Tree]) -> FloatArray:
    """Log of the absolute weight of each tree; -inf where the grammar cannot build it."""
    from sapwood.kernels.trees import log_weights

    if isinstance(trees, Treebank):
        bank = trees.retransform(grammar.transform)
    else:
        cleaned = [clean(as_tree(tree)) for tree in as_trees(trees)]
        kept = [tree for tree in cleaned if tree is not None]
        if not kept:
            return np.full(len(cleaned), -np.inf)
        out = np.full(len(cleaned), -np.inf)
        bank = Treebank.from_trees(kept, grammar.transform)
        out[[tree is not None for tree in cleaned]] = tree_log_weights(grammar, bank)
        return out
    label, rule, leaf = _in_numbers_of(grammar, bank)
    weights, _ = log_weights(
        bank.offsets, label, rule, bank.left, bank.right, grammar.n_states,
        grammar.tensor_start, grammar.rule_rank, grammar.rule_weights, leaf,
        grammar.lexicon.weights, grammar.state_start, grammar.root,
    )  # fmt: skip
    return np.asarray(weights)


def _in_numbers_of(grammar: LatentGrammar, bank: Treebank) -> tuple[Any, Any, Any]:
    """Labels and rules of a treebank as numbered by a grammar (-1: unknown), and leaf vectors."""
    ours, theirs = grammar.numbers, bank.inventory
    symbol = np.array(
        [ours.phrases.get(s, -1) for s in theirs.phrases]
        + [ours.tags.get(s, -1) for s in theirs.tags]
    )
    rule = np.array(
        [ours.rules.get(tuple(row), -1) for row in symbol[theirs.rules].tolist()] or [-1]
    )
    label = symbol[bank.label]
    return label, np.where(bank.rule >= 0, rule[bank.rule], -1), _leaf_starts(grammar, bank, label)


def _leaf_starts(
    grammar: LatentGrammar, bank: Treebank, label: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Where each leaf's emission vector lies in the lexicon; -1 when tag and word never meet."""
    lexicon, words = grammar.lexicon, bank.inventory.words
    leaf = np.flatnonzero(bank.word >= 0)
    first = bank.start[leaf] == 0
    distinct, inverse = np.unique(bank.word[leaf] * 2 + first, return_inverse=True)
    rows = np.array(
        [lexicon.row(words[code // 2], is_first=bool(code % 2)) for code in distinct.tolist()]
    )
    entry = lexicon.find_entries(rows[inverse], label[leaf] - grammar.n_phrases)
    out = np.full(len(bank.word), -1, np.int64)
    out[leaf] = np.where(entry >= 0, lexicon.weight_start[entry], -1)
    return out


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


def sentence_log_weight(grammar: LatentGrammar, words: list[str]) -> float:
    """Log of the absolute weight of a sentence, over all trees and states; -inf for no parse."""
    from sapwood.kernels import coarse, forest

    if not words:
        msg = "an empty sentence has no probability"
        raise SapwoodError(msg, hint="give at least one word")
    if len(words) == 1:
        return _log_abs(one_word_weights(grammar, words[0])[1].sum())
    tags = tag_weights(grammar, words)
    chart = coarse_inside(grammar, tags)
    root = grammar.coarse.root[: grammar.n_phrases]
    if grammar.is_plain:
        return sentence_log_prob(chart.scale, chart.n, coarse.partition(chart, root))
    alpha, tag_alpha = coarse_outside(grammar, tags, chart)
    packed, _ = forest.build(
        grammar.pair_table, grammar.n_symbols, len(words), chart.beta * alpha,
        tags.start, tags.tag, tags.weight * tag_alpha, SMALLEST,
    )  # fmt: skip
    _, _, total = inside_vectors(grammar, words, packed, chart.scale)
    return sentence_log_prob(chart.scale, chart.n, total)


def _log_abs(value: float) -> float:
    return log(abs(value)) if value else -np.inf


def sentence_log_prob(scale: npt.NDArray[np.int64], n: int, total: float) -> float:
    """Undo the scaling of the weight of a sentence of n words."""
    # the cell of the whole sentence: start 0, length n
    return _log_abs(total) + float(scale[n - 1]) * log(2.0)


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
    begin = lexicon.row_start[rows].astype(np.int64)
    size = lexicon.row_start[rows + 1].astype(np.int64) - begin
    first = np.cumsum(size) - size
    entry = np.arange(size.sum()) + np.repeat(begin - first, size)
    position = np.repeat(np.arange(len(words)), size)
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
    start = np.concatenate([[0], np.cumsum(sizes)])
    n_leaves = int(np.searchsorted(packed.end - packed.start, 1, side="right"))
    i, tag = packed.start[:n_leaves].astype(np.int64), packed.symbol[:n_leaves].astype(np.int64)
    lexicon = grammar.lexicon
    entry = lexicon.find_entries(lexicon.rows(words)[i], tag - grammar.n_phrases)
    place = np.repeat(lexicon.weight_start[entry] - start[:n_leaves], sizes[:n_leaves])
    down = -scale[i * (2 * len(words) - i + 1) // 2]  # the cells of single words
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
