"""Log-probabilities of trees (SPECTRAL, Figure 4) and of sentences (Figure 5, inside only)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sapwood.arrays import FloatArray, IntArray
from sapwood.corpus.clean import clean
from sapwood.corpus.penn import as_trees
from sapwood.corpus.tree import Tree, as_tree, is_tree
from sapwood.corpus.treebank import Treebank
from sapwood.corpus.vocabulary import Vocabulary
from sapwood.corpus.words import as_sentence
from sapwood.inference.charts import (
    SMALLEST,
    one_word_weights,
    plain_forest,
    plain_inside,
    sentence_weight,
    tag_weights,
)
from sapwood.inference.posteriors import inside_vectors
from sapwood.inference.prepared import PreparedGrammar, chain_numbers, prepare_grammars
from sapwood.models.ensemble import Ensemble
from sapwood.models.tree_model import SignedLog, TreeModel

if TYPE_CHECKING:
    from sapwood.kernels.trees import Trees

AT_ONCE = 1000  # trees that a kernel is given


# -- of any model -----------------------------------------------------------------------------


def signed_log_prob(model: TreeModel, item: Tree | Sequence[str]) -> SignedLog:
    """Weight of a tree or a sentence; of an ensemble the weighted mean."""
    if is_tree(item):
        logs, signs = signed_log_probs(model, [as_tree(item)])
        return SignedLog(float(logs[0]), int(signs[0]))
    words = as_sentence(item)
    found = [sentence_log_weight(prepared, words) for prepared in prepare_grammars(model)]
    if not isinstance(model, Ensemble):
        return found[0]
    logs, signs = np.array(found).T
    mean, sign = log_mean(logs[:, None], signs[:, None], model.weights)
    return SignedLog(float(mean[0]), int(sign[0]))


def signed_log_probs(
    model: TreeModel, trees: Treebank | Sequence[Tree]
) -> tuple[FloatArray, FloatArray]:
    """Logs of the absolute weights of trees, and their signs; likewise."""
    found = [tree_log_weights(prepared, trees) for prepared in prepare_grammars(model)]
    if not isinstance(model, Ensemble):
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


# -- of a grammar -----------------------------------------------------------------------------


def tree_log_weights(
    prepared: PreparedGrammar, trees: Treebank | Sequence[Tree]
) -> tuple[FloatArray, FloatArray]:
    """Log of the absolute weight of each tree, and its sign; -inf and 0 for one without derivation.

    A tree's weight is the sum over all binary trees of the grammar's symbols that `restore` turns
    into it, whatever they were annotated with and however they are binary. A treebank is taken as
    it is; trees are cleaned first.
    """
    if isinstance(trees, Treebank):
        return _row_log_weights(prepared, _rows_of(prepared, trees))
    cleaned = [clean(as_tree(tree)) for tree in as_trees(trees)]
    kept = [tree for tree in cleaned if tree is not None]
    logs, signs = np.full(len(cleaned), -np.inf), np.zeros(len(cleaned))
    if kept:
        is_kept = [tree is not None for tree in cleaned]
        bank = Treebank.from_trees(kept, prepared.grammar.transform)
        logs[is_kept], signs[is_kept] = tree_log_weights(prepared, bank)
    return logs, signs


def _row_log_weights(prepared: PreparedGrammar, rows: Trees) -> tuple[FloatArray, FloatArray]:
    """The same for the rows of a treebank, in parts, since Ctrl-C waits for a kernel to end."""
    from sapwood.kernels.trees import log_weights

    offsets, chains = rows.offsets, rows.root_chain
    parts = [
        log_weights(
            rows._replace(offsets=offsets[k : k + AT_ONCE + 1], root_chain=chains[k : k + AT_ONCE]),
            prepared.trees,
            prepared.plain.pairs,
        )
        for k in range(0, max(1, len(chains)), AT_ONCE)
    ]
    logs, signs = (np.concatenate(part) for part in zip(*parts, strict=True))
    return logs, signs


def _rows_of(prepared: PreparedGrammar, bank: Treebank) -> Trees:
    """The rows of a treebank with chains and words as a grammar numbers them."""
    from sapwood.kernels.trees import Trees

    inner, root = chain_numbers(prepared.chains, bank.inventory.symbols)
    words = _word_rows(prepared.grammar.lexicon.vocabulary, bank)
    return Trees(
        bank.offsets, bank.left, bank.right, inner[bank.label],
        root[bank.label[bank.offsets[1:] - 1]], words,
    )  # fmt: skip


def _word_rows(known: Vocabulary, bank: Treebank) -> IntArray:
    """The row of each leaf's word; the first word of a sentence is looked up as such."""
    words = bank.inventory.words
    leaf = np.flatnonzero(bank.word >= 0)
    code = bank.word[leaf].astype(np.int64) * 2 + (bank.start[leaf] == 0)
    distinct, inverse = np.unique(code, return_inverse=True)
    rows = [known.row(words[code // 2], is_first=bool(code % 2)) for code in distinct.tolist()]
    out = np.zeros(len(bank.word), np.int64)
    out[leaf] = np.array(rows, np.int64)[inverse]
    return out


def sentence_log_weight(prepared: PreparedGrammar, words: list[str]) -> SignedLog:
    """Weight of a sentence over all its trees and states; log -inf for no parse."""
    from sapwood.kernels.coarse import partition

    n = len(words)
    if n == 1:
        return SignedLog.of(one_word_weights(prepared.grammar, words[0])[1].sum())
    tags = tag_weights(prepared, words)
    if prepared.grammar.is_plain:
        chart = plain_inside(prepared.plain, tags)
        return sentence_weight(chart.scale, n, partition(chart, prepared.plain.root))
    parsed = plain_forest(prepared, words, tags, SMALLEST)
    if parsed is None:
        return SignedLog(-np.inf, 0)
    return sentence_weight(parsed.scale, n, inside_vectors(parsed)[2])
