"""How often each sentence occurs, by length: the moments of models with hidden trees.

Pairs and triples of words at given positions are sums over distinct sentences, so they add up as
the counts do. Positions are counted from 1, as in IDENT. Expected counts under a model with uniform
hidden trees are the moments of its EM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.identify.model.uniform_trees import UniformTreeModel


@dataclass(frozen=True, eq=False)
class SentenceCounts:
    """Distinct sentences with their counts; `+` joins shards; without rows it is neutral."""

    n_words: int  # d, the size of the vocabulary
    # by length: word numbers of the distinct sentences, [n_distinct, length], in rising order
    rows: Mapping[int, IntArray] = field(default_factory=dict)
    # by length: how often each occurs, [n_distinct]. Exact probabilities do as well
    counts: Mapping[int, FloatArray] = field(default_factory=dict)

    @classmethod
    def of(cls, sentences: Iterable[Sequence[int]], n_words: int) -> SentenceCounts:
        """Count sentences of any lengths, given as word numbers; empty ones are left out."""
        by_length: dict[int, list[Sequence[int]]] = {}
        for sentence in sentences:
            if len(sentence):
                by_length.setdefault(len(sentence), []).append(sentence)
        parts = (cls.of_rows(np.array(by_length[n]), n_words) for n in sorted(by_length))
        return sum(parts, start=cls(n_words))

    @classmethod
    def of_rows(
        cls, rows: IntArray, n_words: int, counts: FloatArray | None = None
    ) -> SentenceCounts:
        """Count sentences of one length, [n, length]; `counts` where rows stand for several."""
        given = np.ones(len(rows)) if counts is None else counts
        distinct, inverse = _distinct(np.asarray(rows, dtype=np.int64), n_words)
        total = np.bincount(inverse, given, len(distinct)).astype(float)
        return cls(n_words, {rows.shape[1]: distinct}, {rows.shape[1]: total})

    def __add__(self, other: SentenceCounts) -> SentenceCounts:
        rows, counts = dict(self.rows), dict(self.counts)
        for n in other.rows:
            if n not in rows:
                rows[n], counts[n] = other.rows[n], other.counts[n]
                continue
            both = SentenceCounts.of_rows(
                np.concatenate([rows[n], other.rows[n]]),
                self.n_words,
                np.concatenate([counts[n], other.counts[n]]),
            )
            rows[n], counts[n] = both.rows[n], both.counts[n]
        return SentenceCounts(
            self.n_words, dict(sorted(rows.items())), dict(sorted(counts.items()))
        )

    @property
    def lengths(self) -> list[int]:
        """Lengths that occur, rising."""
        return sorted(self.rows)

    def n_sentences(self, length: int) -> float:
        """Sentences of one length."""
        return float(self.counts[length].sum()) if length in self.counts else 0.0

    @property
    def total(self) -> float:
        """Sentences of all lengths."""
        return float(sum(counts.sum() for counts in self.counts.values()))

    def up_to(self, max_length: int, *, least: int = 1) -> SentenceCounts:
        """Only the sentences of some lengths."""
        kept = [n for n in self.lengths if least <= n <= max_length]
        return SentenceCounts(
            self.n_words, {n: self.rows[n] for n in kept}, {n: self.counts[n] for n in kept}
        )

    def shards(self, n_shards: int) -> list[SentenceCounts]:
        """Parts that add up to the whole."""
        if n_shards <= 1:
            return [self]
        return [
            SentenceCounts(
                self.n_words,
                {n: rows[part::n_shards] for n, rows in self.rows.items()},
                {n: counts[part::n_shards] for n, counts in self.counts.items()},
            )
            for part in range(n_shards)
        ]

    def words(self) -> FloatArray:
        """Distribution of the words of all sentences at all positions, [d]."""
        total = np.zeros(self.n_words)
        for n, rows in self.rows.items():
            total += np.bincount(rows.ravel(), np.repeat(self.counts[n], n), self.n_words)
        return np.asarray(total / total.sum())

    def joint(self, length: int, positions: Sequence[int]) -> FloatArray:
        """Joint distribution of the words at some positions, [d] * number of positions."""
        d, shape = self.n_words, (self.n_words,) * len(positions)
        code = self._code(length, positions)
        total = np.bincount(code, self.counts[length], d ** len(positions))
        return np.asarray(total / self.counts[length].sum()).reshape(shape)

    def contracted(
        self, length: int, pair: tuple[int, int], third: int, eta: FloatArray
    ) -> FloatArray:
        """E[x_i (x) x_j (eta . x_k)], [d, d], without the tensor that it is a slice of."""
        weight = self.counts[length] * eta[self.rows[length][:, third - 1]]
        total = np.bincount(self._code(length, pair), weight, self.n_words**2)
        shape = (self.n_words, self.n_words)
        return np.asarray(total / self.counts[length].sum()).reshape(shape)

    def _code(self, length: int, positions: Sequence[int]) -> IntArray:
        code = np.zeros(len(self.rows[length]), dtype=np.int64)
        for place in positions:
            code = code * self.n_words + self.rows[length][:, place - 1]
        return code


def _distinct(rows: IntArray, n_words: int) -> tuple[IntArray, IntArray]:
    """Distinct rows in rising order, and the number of each given row among them."""
    length = rows.shape[1]
    if n_words**length >= 2**62:  # too many sentences to number them
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        return distinct, inverse.ravel()
    code = rows @ (n_words ** np.arange(length - 1, -1, -1))
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return rows[first], inverse


@dataclass(frozen=True, eq=False)
class UniformCounts:
    """Expected counts in the layout of the model's tables; `+` joins shards."""

    tables: Mapping[str, FloatArray]  # expected counts of each entry of each table
    # of the sentences given their lengths, under the model that the counts were taken with
    log_likelihood: float
    # sentences that the model gives probability 0; they are in none of the other numbers
    n_impossible: float

    def __add__(self, other: UniformCounts) -> UniformCounts:
        return UniformCounts(
            {name: table + other.tables[name] for name, table in self.tables.items()},
            self.log_likelihood + other.log_likelihood,
            self.n_impossible + other.n_impossible,
        )

    @classmethod
    def zero(cls, model: UniformTreeModel) -> UniformCounts:
        """No sentences."""
        return cls({name: np.zeros(t.shape) for name, t in model.tables.items()}, 0.0, 0.0)

    @classmethod
    def of(cls, sentences: SentenceCounts, model: UniformTreeModel) -> UniformCounts:
        """The E-step on some sentences."""
        total = cls.zero(model)
        for length in sentences.lengths:
            counts = sentences.counts[length]
            tables, logs = model.expect(sentences.rows[length], counts)
            is_possible = np.isfinite(logs)
            total = total + cls(
                tables,
                float((logs[is_possible] * counts[is_possible]).sum()),
                float(counts[~is_possible].sum()),
            )
        return total
