"""Steps before and behind the scoring of trees: tags, arcs worth scoring, relations."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.corpora.word_properties import COLUMN, Words
from sapwood.dependency.model.tables import FeatureTable, TagLexicon
from sapwood.dependency.parse.forests import IntArray, PartFeatures

LEAST_SHARE = 2e-3  # of the likeliest head's posterior: heads below are left out
MOST_HEADS = 8  # of a word
LONG, FEWEST_HEADS = 150, 3  # longer sentences have fewer: pairs of siblings are O(arcs^2)
KEPT_LENGTH = 100  # of sentences whose arcs are kept for the next of the same length
N_POSITIONS = 9  # of a part that is labelled: head, modifier and so on, see `features.arcs`


# -- tags -----------------------------------------------------------------------------------------


class TagForest(NamedTuple):
    """The tags that the words of a sentence may have; see `tag_lattice` in `arc_features`."""

    starts: IntArray
    edges: IntArray
    tag: IntArray
    features: PartFeatures


def tag_forest(rows: Words, types: IntArray, lexicon: TagLexicon, table: FeatureTable) -> TagForest:
    """All sequences of tags of a sentence.

    Parameters
    ----------
    types : [n]
        The words' rows of the lexicon.
    """
    from sapwood.dependency.parse.kernels.arc_features import tag_lattice

    base = PartFeatures.of(_single_words(len(types)), rows, table).places
    starts, edges, tag, places, n_features = tag_lattice(
        types, lexicon.starts, lexicon.candidates, rows, COLUMN["L"], base, table.mask
    )
    no_length = np.zeros(len(places), np.uint32)
    return TagForest(starts, edges, tag, PartFeatures(places, n_features, no_length))


@lru_cache(maxsize=256)
def _single_words(n: int) -> IntArray:
    """A part for each word, of the kind that looks at nothing else."""
    from sapwood.dependency.parse.kernels.arc_forest import NONE

    parts = np.zeros((n, 4), np.int32)
    parts[:, 0], parts[:, 1] = NONE, np.arange(1, n + 1)
    return parts


def best_tags(forest: TagForest, weights: npt.NDArray[np.float32]) -> IntArray:
    """The best sequence of tags."""
    from sapwood.dependency.parse.kernels.arc_forest import best_tree

    scores = forest.features.scores(weights)
    _, found = best_tree(forest.starts, forest.edges, forest.tag, scores)
    tags: IntArray = np.ascontiguousarray(found[::-1])
    return tags


def tag_posteriors(
    forest: TagForest, weights: npt.NDArray[np.float32], sizes: IntArray, n_tags: int
) -> FloatArray:
    """Posteriors of the tags of each word, shape [n, n_tags].

    Parameters
    ----------
    sizes : [n]
        How many tags each word may have.
    """
    from sapwood.dependency.parse.kernels.arc_forest import posteriors

    _, expected = posteriors(forest.starts, forest.edges, forest.features.scores(weights))
    tag = forest.tag[:-1]
    out = np.zeros((len(sizes), n_tags))
    out[np.repeat(np.arange(len(sizes)), sizes), tag] = expected[: len(tag)]
    return out


# -- arcs that are worth scoring ------------------------------------------------------------------


def all_arcs(n: int) -> IntArray:
    """A part for each arc of n words, by head, then by modifier."""
    return _kept_arcs(n) if n <= KEPT_LENGTH else _kept_arcs.__wrapped__(n)


@lru_cache(maxsize=KEPT_LENGTH)
def _kept_arcs(n: int) -> IntArray:
    head, modifier = np.nonzero(~np.eye(n + 1, dtype=bool)[:, 1:])
    parts = np.full((len(head), 4), -1, np.int32)
    parts[:, 0], parts[:, 1], parts[:, 2] = 0, head, modifier + 1
    return parts


def head_posteriors(n: int, scores: FloatArray) -> FloatArray:
    """Posteriors of the heads of each word on its own, shape [n + 1, n]."""
    parts = all_arcs(n)
    out = np.full((n + 1, n), -np.inf)
    out[parts[:, 1], parts[:, 2] - 1] = scores
    out -= out.max(axis=0)
    np.exp(out, out=out)
    out /= out.sum(axis=0)
    return out


def likely_arcs(rows: Words, table: FeatureTable, *, right: IntArray | None = None) -> IntArray:
    """The arcs that the pruner leaves, shape [2, n_arcs]: heads, modifiers.

    The arcs from each word to the next are always there, so that there is a tree.

    Parameters
    ----------
    right : [n + 1]
        Heads that are kept in any case.
    """
    n = len(rows) - 4
    scores = PartFeatures.of(all_arcs(n), rows, table).scores(table.weights)
    return keep_likely(head_posteriors(n, scores), right=right)


def keep_likely(share: npt.NDArray[Any], *, right: IntArray | None = None) -> IntArray:
    """The arcs worth scoring by the posteriors of heads, [n + 1, n]; see `likely_arcs`."""
    n = share.shape[1]
    times = max(n / LONG, 1.0)
    keep = share >= LEAST_SHARE * times**2 * share.max(axis=0)
    most = max(int(MOST_HEADS / times), FEWEST_HEADS)
    if n >= most:
        keep &= share >= np.partition(share, -most, axis=0)[-most]
    word = np.arange(n)
    keep[word, word] = True
    if right is not None:
        keep[right[1:], word] = True
    head, modifier = np.nonzero(keep)
    return np.stack([head, modifier + 1]).astype(np.int32)


# -- relations ------------------------------------------------------------------------------------


def labelled_parts(heads: IntArray) -> IntArray:
    """A part for each arc of a tree, with the words around it in the tree.

    Examples
    --------
    >>> labelled_parts(np.array([0, 2, 0, 2], np.int32))[:, 1:].tolist()
    [[2, 1, 0, -1, 3, -1, -1, 1, 3], [0, 2, 0, -1, -1, 1, 3, 2, 2], [2, 3, 0, 1, -1, -1, -1, 1, 3]]
    """
    from sapwood.dependency.parse.kernels.arc_forest import GRAND

    n = len(heads) - 1
    parts = np.full((n, 1 + N_POSITIONS), -1, np.int32)
    word = np.arange(1, n + 1)
    parts[:, 0], parts[:, 1], parts[:, 2], parts[:, 3] = GRAND, heads[1:], word, heads[heads[1:]]
    order = np.argsort(heads[1:], kind="stable")  # words by head, in their order
    sisters = heads[1:][order[1:]] == heads[1:][order[:-1]]
    parts[order[1:][sisters], 4] = order[:-1][sisters] + 1
    parts[order[:-1][sisters], 5] = order[1:][sisters] + 1
    np.minimum.at(first := np.full(n + 1, n + 1), heads[1:], word)
    np.maximum.at(last := np.full(n + 1, -1), heads[1:], word)
    parts[:, 6] = np.where(first[1:] <= n, first[1:], -1)
    parts[:, 7] = last[1:]
    parts[:, 8], parts[:, 9] = first[heads[1:]], last[heads[1:]]
    return parts


def label_features(heads: IntArray, rows: Words, table: FeatureTable) -> npt.NDArray[np.uint32]:
    """Features of the arcs of a tree for its relations."""
    return PartFeatures.of(labelled_parts(heads), rows, table).places


def label_posteriors(
    features: npt.NDArray[np.uint32], weights: npt.NDArray[np.float32], n_labels: int
) -> npt.NDArray[np.float32]:
    """Posteriors of relations of each arc, shape [n, n_labels]."""
    from sapwood.dependency.parse.kernels.arc_features import label_scores

    scores: npt.NDArray[np.float32] = label_scores(features, weights, n_labels)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
