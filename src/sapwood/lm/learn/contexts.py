"""Words and their neighbours in plain text: counts that add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.corpora.vocabulary import Vocabulary

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True, eq=False)
class ContextCounts:
    """How often words occur, and pairs of them at each distance; `+` joins shards.

    Attributes
    ----------
    n_sentences
        How many.
    words : [n]
        Rows of a vocabulary.
    pairs
        For distances 1, 2, ...: sparse [n, n], a word and the word so many places behind it, in the
        same sentence.
    """

    n_sentences: int
    words: FloatArray
    pairs: tuple[Any, ...]

    @classmethod
    def zero(cls, n_words: int, n_distances: int) -> ContextCounts:
        """Of no text."""
        none = sparse.csr_array((n_words, n_words))
        return cls(0, np.zeros(n_words), (none,) * n_distances)

    @classmethod
    def of(cls, sentences: Sentences, vocabulary: Vocabulary, n_distances: int) -> ContextCounts:
        """Of a shard."""
        n = len(vocabulary)
        if not sentences:
            return cls.zero(n, n_distances)
        rows, offsets = number_words(sentences, vocabulary)
        behind = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(rows)) - 1
        pairs = []
        for distance in range(1, n_distances + 1):
            at = np.flatnonzero(behind >= distance)
            ones = np.ones(len(at))
            pairs.append(sparse.csr_array((ones, (rows[at], rows[at + distance])), shape=(n, n)))
        return cls(len(sentences), np.bincount(rows, minlength=n).astype(float), tuple(pairs))

    def __add__(self, other: ContextCounts) -> ContextCounts:
        pairs = tuple(a + b for a, b in zip(self.pairs, other.pairs, strict=True))
        return ContextCounts(self.n_sentences + other.n_sentences, self.words + other.words, pairs)


def number_words(sentences: Sentences, vocabulary: Vocabulary) -> tuple[IntArray, IntArray]:
    """Rows of the words of a shard, one sentence after the other, and where sentences start."""
    rows = np.concatenate([_rows(words, vocabulary) for words in sentences])
    return rows.astype(np.int32), starts_of([len(words) for words in sentences])


def _rows(words: Sequence[str], vocabulary: Vocabulary) -> Any:
    """Rows of a sentence; words that are known, which most are, take a look-up each."""
    numbers = vocabulary.numbers
    found = [numbers.get(word, -1) for word in words]
    if -1 in found or words[0][:1].isupper():
        return vocabulary.rows(list(words))
    return np.array(found, np.int64)


@dataclass(frozen=True, eq=False)
class WordCounts:
    """How often each word occurs first in its sentence, and elsewhere; `+` joins shards."""

    counts: Counter[tuple[str, bool]]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> WordCounts:
        """Of a shard."""
        first: Counter[str] = Counter()
        rest: Counter[str] = Counter()
        for words in sentences:
            first.update(words[:1])
            rest.update(words[1:])
        counts = Counter({(word, True): n for word, n in first.items()})
        counts.update({(word, False): n for word, n in rest.items()})
        return cls(counts)

    def __add__(self, other: WordCounts) -> WordCounts:
        return WordCounts(self.counts + other.counts)
