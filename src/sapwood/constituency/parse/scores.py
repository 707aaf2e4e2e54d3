"""Log-probabilities of trees (SPECTRAL, Figure 4) and of sentences (Figure 5, inside only)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.parse.charts import (
    SMALLEST,
    inside_vectors,
    one_word_weights,
    plain_inside,
    plain_posteriors,
    sentence_log,
    tag_weights,
)
from sapwood.constituency.parse.prepared import PreparedGrammar, number_chains, prepare_grammars
from sapwood.core.arguments import as_sentence
from sapwood.core.arrays import FloatArray, IntArray, SignedLog
from sapwood.corpora.formats import as_trees
from sapwood.corpora.tree import Tree, as_tree, clean, is_tree

if TYPE_CHECKING:
    from sapwood.constituency.data.transform import Symbol
    from sapwood.constituency.grammar.ensemble import Model
    from sapwood.constituency.parse.decoders import Nodes

AT_ONCE = 1000  # trees that a kernel is given


class _Rows(NamedTuple):
    """Trees in binary form, as the kernel's `Trees`, before a grammar numbers their symbols."""

    # as there
    offsets: IntArray
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    label: npt.NDArray[np.integer[Any]]  # place of each row's symbol in `symbols`
    symbols: Sequence[Symbol]
    word: IntArray  # place of each leaf's word in `words`; any number for an in-terminal
    words: Sequence[tuple[str, bool]]  # words, and whether they stand first in a sentence


def signed_log_prob(model: Model, item: Tree | Sequence[str]) -> SignedLog:
    """Weight of a tree or a sentence; of an ensemble the weighted mean."""
    if is_tree(item):
        logs, signs = signed_log_probs(model, [as_tree(item)])
    else:
        words = as_sentence(item)
        found = [sentence_log_weight(prepared, words) for prepared in prepare_grammars(model)]
        logs, signs = _mean(model, [(np.array([one.log]), np.array([one.sign])) for one in found])
    return SignedLog(float(logs[0]), int(signs[0]))


def signed_log_probs(
    model: Model, trees: Treebank | Sequence[Tree]
) -> tuple[FloatArray, FloatArray]:
    """Logs of the absolute weights of trees, and their signs: -inf and 0 without derivation.

    A tree's weight is the sum over all binary trees of the grammar's symbols that `restore` turns
    into it, whatever they were annotated with and however they are binary. A treebank is taken as
    it is; trees are cleaned first. Of an ensemble the weighted mean.
    """
    if isinstance(trees, Treebank):
        return _row_log_probs(model, _rows_of(trees))
    cleaned = [clean(as_tree(tree)) for tree in as_trees(trees)]
    logs, signs = np.full(len(cleaned), -np.inf), np.zeros(len(cleaned))
    is_kept = [tree is not None for tree in cleaned]
    if any(is_kept):
        bank = Treebank.from_trees(tree for tree in cleaned if tree is not None)
        logs[is_kept], signs[is_kept] = _row_log_probs(model, _rows_of(bank))
    return logs, signs


def derivation_log_probs(
    model: Model, symbols: Sequence[Symbol], words: Sequence[str], trees: Sequence[Nodes]
) -> tuple[FloatArray, FloatArray]:
    """The same of the trees that derivations of a sentence restore to."""
    table = np.array([row for nodes in trees for row in nodes], np.int64)
    used, label = np.unique(table[:, 0], return_inverse=True)
    rows = _Rows(
        np.arange(len(trees) + 1) * (2 * len(words) - 1), table[:, 1].astype(np.int32),
        table[:, 2].astype(np.int32), label, [symbols[number] for number in used],
        table[:, 3], [(word, place == 0) for place, word in enumerate(words)],
    )  # fmt: skip
    return _row_log_probs(model, rows)


def _rows_of(bank: Treebank) -> _Rows:
    """The rows of a treebank; the first word of a sentence is looked up as such."""
    leaf = np.flatnonzero(bank.word >= 0)
    code = bank.word[leaf].astype(np.int64) * 2 + (bank.start[leaf] == 0)
    distinct, word = np.unique(code, return_inverse=True), np.zeros(len(bank.word), np.int64)
    word[leaf] = distinct[1]
    names = bank.inventory.words
    words = [(names[code // 2], bool(code % 2)) for code in distinct[0].tolist()]
    symbols = bank.inventory.symbols
    return _Rows(bank.offsets, bank.left, bank.right, bank.label, symbols, word, words)


def _row_log_probs(model: Model, rows: _Rows) -> tuple[FloatArray, FloatArray]:
    """Weights of trees by each grammar of a model, in parts: Ctrl-C waits for a kernel to end."""
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
                Trees(rows.offsets[k : k + AT_ONCE + 1], rows.left, rows.right, chain,
                      top[k : k + AT_ONCE], word),
                prepared.trees, prepared.plain.pairs,
            )
            for k in range(0, max(1, len(top)), AT_ONCE)
        ]  # fmt: skip
        logs, signs = (np.concatenate(part) for part in zip(*parts, strict=True))
        found.append((logs, signs))
    return _mean(model, found)


def sentence_log_weight(prepared: PreparedGrammar, words: list[str]) -> SignedLog:
    """Weight of a sentence over all its trees and states; log -inf for no parse."""
    from sapwood.constituency.parse.kernels.coarse import partition

    n, scale, total = len(words), np.zeros(1, np.int64), 0.0
    if n == 1:
        total = one_word_weights(prepared.grammar, words[0])[1].sum()
    elif prepared.grammar.is_plain:
        chart = plain_inside(prepared.plain, tag_weights(prepared, words))
        scale, total = chart.scale, partition(chart, prepared.plain.root)
    else:
        plain = plain_posteriors(prepared, words, tag_weights(prepared, words), SMALLEST)
        if plain is not None:
            scale, total = plain.pruned.scale, inside_vectors(prepared, plain.pruned)[2]
    sign = 0 if total == 0 else 1 if total > 0 else -1
    return SignedLog(sentence_log(scale, n, total), sign)


def _mean(
    model: Model, found: list[tuple[FloatArray, FloatArray]]
) -> tuple[FloatArray, FloatArray]:
    """The weighted mean of what the chart grammars of a model have found."""
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
        # what overflows is not a number, and has no sign
        return np.log(np.abs(mean)) + safe, np.sign(np.nan_to_num(mean))
