"""Models of plain sentences whose hidden trees are uniform, and counts of such sentences.

Notation (IDENT, section 3)
---------------------------
    pi   root       distribution of the state (or word) at the root            [k] or [d]
    T    child      state of a child given its parent's, left and right alike  [k, k]
    O    words      word given its state                                       [d, k]
    A    argument   word of a dependent given its head's; A pi = pi            [d, d]

    pcfg-ie   root, child, words            dep-ies   root, argument

In every table the outcome comes first and what it is given last: columns sum to 1.

`SentenceCounts` has the distinct sentences by length: pairs and triples of words at positions,
counted from 1 as in IDENT, are sums over them, so they add up as the counts do. `UniformCounts` are
expected counts under a model, the statistics of its EM.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import ModelFormatError, SapwoodError, count, describe
from sapwood.core.model_files import FileContents, SavedModel, read_names, read_record, require_type
from sapwood.core.topologies import n_binary_trees, n_dependency_trees, sample_words

COLUMN_TOLERANCE = 1e-8
FAMILY_TABLES = {"pcfg-ie": ("root", "child", "words"), "dep-ies": ("root", "argument")}


@dataclass(frozen=True, eq=False, repr=False)
class UniformTreeModel(SavedModel):
    """A PCFG-IE or a DEP-IES with its words.

    Examples
    --------
    >>> swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> model = UniformTreeModel("dep-ies", ("a", "b"), {"root": np.full(2, 0.5), "argument": swap})
    >>> model.log_probs([["a", "b"], ["a", "a"]]).round(4).tolist()  # the two words always differ
    [-0.6931, -inf]
    """

    family: str  # `pcfg-ie` or `dep-ies`
    vocabulary: tuple[str, ...]  # [d]
    tables: Mapping[str, FloatArray]  # the parameters by name, see the notation
    record: Mapping[str, Any] = field(default_factory=dict)  # provenance

    def __post_init__(self) -> None:
        if tuple(self.tables) != FAMILY_TABLES.get(self.family):
            msg = f"{self.family}: tables {', '.join(self.tables)}"
            raise SapwoodError(msg, hint=f"expected one of {FAMILY_TABLES}")
        for name, table in self.tables.items():
            is_proper = (table >= 0).all() and np.allclose(
                table.sum(axis=0), 1, rtol=0, atol=COLUMN_TOLERANCE
            )
            if not is_proper:
                raise SapwoodError(f"{self.family}: the columns of {name} must be distributions")
        n_words, k = len(list(self.tables.values())[-1]), self.n_states
        if len(self.vocabulary) != n_words:
            msg = f"{self.family}: {len(self.vocabulary)} words named, {n_words} in its tables"
            raise SapwoodError(msg)
        for name, table in self.tables.items():
            size = {"root": (k,), "words": (n_words, k)}.get(name, (k, k))
            if table.shape != size:
                msg = f"{self.family}: {name} is of shape {table.shape}, expected {size}"
                raise SapwoodError(msg)

    def __repr__(self) -> str:
        sizes = f"{count(len(self.vocabulary), 'word')}, {count(self.n_states, 'state')}"
        return f"<UniformTreeModel ({self.family}): {sizes}>"

    def to_file(self) -> FileContents:
        """The tables, the family, the words and the record."""
        header = {
            "family": self.family, "vocabulary": list(self.vocabulary),
            "record": dict(self.record),
        }  # fmt: skip
        return FileContents(dict(self.tables), header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a model file, after a check of its arrays."""
        arrays, header = contents
        family = header["family"]
        if family not in FAMILY_TABLES:
            msg = f"the family is {describe(family)}, expected one of {', '.join(FAMILY_TABLES)}"
            raise ModelFormatError(msg)
        for name in FAMILY_TABLES[family]:
            require_type(arrays[name], name, np.float64, 1 if name == "root" else 2)
        return cls(
            family,
            read_names(header["vocabulary"], "words"),
            {name: arrays[name] for name in FAMILY_TABLES[family]},
            read_record(header.get("record", {})),
        )

    @property
    def n_states(self) -> int:
        """Number of hidden states; of words in families without hidden states."""
        return len(self.tables["root"])

    @cached_property
    def number(self) -> dict[str, int]:
        """The row of each word in the tables."""
        return {word: place for place, word in enumerate(self.vocabulary)}

    def log_probs(self, sentences: Iterable[Sequence[str]]) -> FloatArray:
        """Log-probability of each sentence given its length; -inf with a word not known."""
        found = []
        for words in sentences:
            ids = [self.number.get(word, -1) for word in words]
            is_known = bool(ids) and min(ids) >= 0
            found.append(self.expect(np.array([ids]), np.ones(1))[1][0] if is_known else -np.inf)
        return np.array(found)

    def expect(
        self, rows: IntArray, weight: FloatArray
    ) -> tuple[dict[str, FloatArray], FloatArray]:
        """Expected counts of all tables over sentences of one length, and log-probabilities."""
        from sapwood.identify.model.kernels import uniform_arcs, uniform_brackets

        if "words" in self.tables:
            run, n_trees, emitting = (
                uniform_brackets.uniform_bracket_counts,
                n_binary_trees,
                {"words"},
            )
        else:
            run, n_trees = uniform_arcs.uniform_arc_counts, n_dependency_trees
            emitting = {"root", "argument"}
        # Words of the mean probability 1, so that long sentences do not underflow.
        d, length = len(self.vocabulary), rows.shape[1]
        tables = (t * d if name in emitting else t for name, t in self.tables.items())
        sums = {name: np.zeros(table.shape) for name, table in self.tables.items()}
        logs = np.empty(len(rows))
        run(
            np.ascontiguousarray(rows), weight, *map(np.ascontiguousarray, tables),
            *sums.values(), logs,
        )  # fmt: skip
        return sums, logs - length * np.log(d) - np.log(float(n_trees(length)))

    def sample(
        self, lengths: Iterable[int], *, seed: int | np.random.Generator = 0
    ) -> list[list[str]]:
        """Draw a sentence of each of the given lengths."""
        rng = np.random.default_rng(seed)
        wanted = np.fromiter(lengths, dtype=np.int64)
        out: list[list[str]] = [[] for _ in wanted]
        for length in np.unique(wanted).tolist():
            places = np.flatnonzero(wanted == length)
            rows = sample_words(self.family, self.tables, len(places), length, rng)
            for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                out[place] = [self.vocabulary[word] for word in row]
        return out


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
        """Count sentences of any lengths, given as word numbers; empty sentences are skipped."""
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
        """Count sentences of one length, [n, length]; `counts` says how often each row occurs."""
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
        """Lengths of the sentences, in rising order."""
        return sorted(self.rows)

    def n_sentences(self, length: int) -> float:
        """Number of sentences of one length."""
        return float(self.counts[length].sum()) if length in self.counts else 0.0

    @property
    def total(self) -> float:
        """Number of sentences of all lengths."""
        return float(sum(counts.sum() for counts in self.counts.values()))

    def up_to(self, max_length: int, *, least: int = 1) -> SentenceCounts:
        """Keep only the sentences of lengths in a range."""
        kept = [n for n in self.lengths if least <= n <= max_length]
        return SentenceCounts(
            self.n_words, {n: self.rows[n] for n in kept}, {n: self.counts[n] for n in kept}
        )

    def shards(self, n_shards: int) -> list[SentenceCounts]:
        """Split the counts into parts that add up to the whole."""
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

    def contract(
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
        """The empty statistics, in the shapes of a model."""
        return cls({name: np.zeros(t.shape) for name, t in model.tables.items()}, 0.0, 0.0)

    @classmethod
    def of(cls, sentences: SentenceCounts, model: UniformTreeModel) -> UniformCounts:
        """The E-step: expected counts of some sentences under a model."""
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
