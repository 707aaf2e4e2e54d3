"""Clusters of words by their vectors: words that stand in the same places share features."""

from __future__ import annotations

import warnings

import numpy as np

from sapwood.corpora.eigenwords import Eigenwords
from sapwood.corpora.word_properties import hash_of
from sapwood.dependency.model.tables import WordClusters

FEW, MANY = 48, 512  # clusters: of the first kind they are like tags, of the second like topics
N_ROUNDS = 12  # of k-means: features change little behind that


def cluster_words(vectors: Eigenwords, seed: int = 0) -> WordClusters:
    """Two clusterings of the words that have vectors of their own, by k-means of directions.

    Of few words there are fewer clusters: four words to each, or two.
    A word that is only known with capitals stands for its small letters too.

    Examples
    --------
    >>> import sapwood as sw
    >>> text = [["the", "dog", "eats"], ["the", "cat", "eats"], ["a", "car", "stops"]] * 5
    >>> found = cluster_words(sw.WordEmbedding(2).fit(text).model_)
    >>> number = np.array([hash_of(word) for word in ("dog", "cat", "a")])
    >>> dog, cat, a = found.of(number, number)[:, 0]
    >>> dog == cat, dog == a
    (np.True_, np.False_)
    """
    words = vectors.vocabulary.words
    points = vectors.vectors[: len(words)] * vectors.strengths
    points = points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    both = np.stack(
        [_k_means(points, min(k, -(-len(words) // n)), seed) for k, n in ((FEW, 4), (MANY, 2))],
        axis=1,
    )
    found = {hash_of(word.lower()): row for word, row in zip(words, both, strict=True)}
    found |= {hash_of(word): row for word, row in zip(words, both, strict=True)}
    numbers = sorted(found)
    rows = np.array([found[number] for number in numbers], np.int32)
    return WordClusters(np.array(numbers, np.uint32), rows.reshape(-1, 2))


def _k_means(points: np.ndarray, k: int, seed: int) -> np.ndarray:
    """The cluster of each point."""
    from scipy.cluster.vq import kmeans2

    unlike = np.unique(points, axis=0)
    k = min(k, len(unlike))
    starts = np.random.default_rng(seed).choice(len(unlike), k, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is one less, nothing worse
        return np.asarray(kmeans2(points, unlike[starts], iter=N_ROUNDS, minit="matrix")[1])
