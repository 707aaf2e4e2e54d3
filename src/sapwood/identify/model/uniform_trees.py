"""`UniformTreeModel`: a model of plain sentences whose hidden trees are uniform.

Notation (IDENT, section 3)
---------------------------
    pi   root       distribution of the state (or word) at the root            [k] or [d]
    T    child      state of a child given its parent's, left and right alike  [k, k]
    O    words      word given its state                                       [d, k]
    A    argument   word of a dependent given its head's; A pi = pi            [d, d]

    pcfg-ie   root, child, words            dep-ies   root, argument

In every table the outcome comes first and what it is given last: columns sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from sapwood.core.arguments import describe
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import ModelFormatError, SapwoodError, count
from sapwood.core.model_files import FileContents, SavedModel, read_names, read_record, require_type
from sapwood.core.topologies import n_binary_trees, n_dependency_trees, sample_words

SUM_TOLERANCE = 1e-8
TABLES = {"pcfg-ie": ("root", "child", "words"), "dep-ies": ("root", "argument")}


@dataclass(frozen=True, eq=False, repr=False)
class UniformTreeModel(SavedModel):
    """A PCFG-IE or a DEP-IES with its words.

    Attributes
    ----------
    family
        `pcfg-ie` or `dep-ies`.
    vocabulary : [d]
    tables
        The parameters by name; see the notation of this module.
    record
        How it was made.

    Examples
    --------
    >>> swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> model = UniformTreeModel("dep-ies", ("a", "b"), {"root": np.full(2, 0.5), "argument": swap})
    >>> model.log_probs([["a", "b"], ["a", "a"]]).round(4).tolist()  # the two words always differ
    [-0.6931, -inf]
    """

    family: str
    vocabulary: tuple[str, ...]
    tables: Mapping[str, FloatArray]
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if tuple(self.tables) != TABLES.get(self.family):
            msg = f"{self.family}: tables {', '.join(self.tables)}"
            raise SapwoodError(msg, hint=f"expected one of {TABLES}")
        for name, table in self.tables.items():
            is_proper = (table >= 0).all() and np.allclose(
                table.sum(axis=0), 1, rtol=0, atol=SUM_TOLERANCE
            )
            if not is_proper:
                msg = f"{self.family}: the columns of {name} must be distributions"
                raise SapwoodError(msg)
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
        """The model of a file."""
        arrays, header = contents
        family = header["family"]
        if family not in TABLES:
            msg = f"the family is {describe(family)}, expected one of {', '.join(TABLES)}"
            raise ModelFormatError(msg)
        for name in TABLES[family]:
            require_type(arrays[name], name, np.float64, 1 if name == "root" else 2)
        return cls(
            family,
            read_names(header["vocabulary"], "words"),
            {name: arrays[name] for name in TABLES[family]},
            read_record(header.get("record", {})),
        )

    @property
    def n_states(self) -> int:
        """Hidden states; words, where they are the states."""
        return len(self.tables["root"])

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each word."""
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
            run, n_trees, emitting = uniform_brackets.expected_counts, n_binary_trees, {"words"}
        else:
            run, n_trees = uniform_arcs.expected_counts, n_dependency_trees
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
