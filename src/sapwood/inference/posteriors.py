"""Posteriors over the forest that a plain grammar has left of a chart (SPECTRAL, Figure 5).

A latent grammar runs its vectors over it, a `FeatureGrammar` the scores of its spans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, cell, starts_of
from sapwood.inference.charts import ParseForest, root_items, sentence_weight

if TYPE_CHECKING:
    from sapwood.inference.prepared import PreparedGrammar, SpanFeatures

Starts = npt.NDArray[np.uint64]


def posteriors(prepared: PreparedGrammar, left: ParseForest) -> ParseForest | None:
    """Posteriors of a model over what its plain grammar has left; None for no parse."""
    if left.prepared is not prepared:
        left = left._replace(prepared=prepared)
    if prepared.features is not None:
        return _by_features(prepared.features, left)
    return left if prepared.grammar.is_plain else _by_vectors(left)


def _by_vectors(left: ParseForest) -> ParseForest | None:
    from sapwood.kernels import latent

    forest, n, grammar = left.forest, len(left.words), left.grammar
    start, beta, total = inside_vectors(left)
    if total == 0.0 or not np.isfinite(total):
        return None
    alpha = np.zeros_like(beta)
    for item in left.roots:
        vector = grammar.root_vector(int(forest.symbol[item]))
        alpha[int(start[item]) : int(start[item + 1])] = vector / total
    largest = int(grammar.n_states.max())
    edges = latent.outside(
        forest, n, left.scale, start, *left.prepared.tensors, beta, alpha, largest
    )
    items = np.add.reduceat(alpha * beta, start[:-1].astype(np.int64))
    if not (np.isfinite(items).all() and np.isfinite(edges).all()):
        return None  # weights beyond all bounds: nothing can be said about what is in the tree
    log_prob, n_negative = sentence_weight(left.scale, n, total).log, int((items < 0).sum())
    return left._replace(items=items, edges=edges, log_prob=log_prob, n_negative=n_negative)


def inside_vectors(left: ParseForest) -> tuple[Starts, FloatArray, float]:
    """Inside vectors of a forest: where each item's starts, the vectors, the sentence's weight."""
    from sapwood.kernels import latent

    forest, n, grammar = left.forest, len(left.words), left.grammar
    start, beta = leaf_vectors(left)
    largest = int(grammar.n_states.max())
    latent.inside(forest, n, left.scale, start, *left.prepared.tensors, beta, largest)
    total = 0.0
    for item in root_items(forest, n):
        vector = beta[int(start[item]) : int(start[item + 1])]
        total += float(grammar.root_vector(int(forest.symbol[item])) @ vector)
    return start, beta, total


def leaf_vectors(left: ParseForest) -> tuple[Starts, FloatArray]:
    """Vectors of all items of a forest, with only those of the tags filled in.

    Each is the emission vector of its tag and word, divided by the power of two of its span.
    """
    forest, words, grammar = left.forest, left.words, left.grammar
    sizes = grammar.n_states[forest.symbol]
    start = starts_of(sizes)
    n_leaves = int(np.searchsorted(forest.end - forest.start, 1, side="right"))
    i, tag = forest.start[:n_leaves].astype(np.int64), forest.symbol[:n_leaves].astype(np.int64)
    lexicon = grammar.lexicon
    entry = lexicon.find_entries(lexicon.vocabulary.rows(words)[i], tag - grammar.n_phrases)
    place = np.repeat(lexicon.weight_start[entry] - start[:n_leaves], sizes[:n_leaves])
    down = -left.scale[cell(i, i + 1, len(words))]
    vectors = np.zeros(int(start[-1]))
    leaves = slice(0, int(start[n_leaves]))  # tags stand first
    emission = lexicon.weights[place + np.arange(leaves.stop)]
    vectors[leaves] = np.ldexp(emission, np.repeat(down, sizes[:n_leaves]))
    return start.astype(np.uint64), vectors


def _by_features(features: SpanFeatures, left: ParseForest) -> ParseForest | None:
    from sapwood.kernels import span_features as kernel

    forest, weights = left.forest, features.weights
    of_items, of_edges = features.of(forest, left.words)
    total, items, edges = kernel.log_linear_posteriors(
        forest, left.roots, kernel.scores(of_items, weights), kernel.scores(of_edges, weights)
    )
    return None if total == -np.inf else left._replace(items=items, edges=edges)
