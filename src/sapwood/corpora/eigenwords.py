"""`Eigenwords`: vectors of words, from the words that stand around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import (
    ModelFormatError,
    SapwoodError,
    as_count,
    as_sentence,
    check_word,
    describe,
)
from sapwood.core.model_files import FileContents, SavedModel, read_names, require_type
from sapwood.corpora.vocabulary import UNKNOWN, Vocabulary, read_style

Vectors = npt.NDArray[np.float32]


class Neighbour(NamedTuple):
    """A word near another, and the cosine of the angle between their vectors."""

    word: str
    cosine: float


class ContextMap(NamedTuple):
    """How the words around a position predict its hidden state (LR-MVL)."""

    rates: Vectors  # [r], of the exponential smooths: the weight of the nearest word
    left: Vectors  # [r k, k], from the smooths of the words before to a state
    right: Vectors  # [r k, k], from the smooths of the words after to a state


@dataclass(frozen=True, eq=False, repr=False)
class Eigenwords(SavedModel):
    """A vector for every word, known or not: an unknown word has that of its class.

    Attributes
    ----------
    vocabulary
        Words, then classes of unknown words by their shape.
    vectors : [n, k]
        One row per word; columns by falling strength.
    strengths : [k]
        Singular values, falling: canonical correlations, for CCA.
    record
        Provenance.
    context
        Maps from contexts to states; only the method `lr-mvl` learns them.

    Examples
    --------
    >>> known = Vocabulary(("cat", "dog", "of"), ("<unk>",), "generic")
    >>> vectors = np.array([[1, 0.1], [1, 0.2], [-1, 1], [0, 1]], np.float32)
    >>> words = Eigenwords(known, vectors, np.ones(2, np.float32))
    >>> words.nearest("cat", 1)[0].word
    'dog'
    >>> words.of(["a", "dog"]).tolist()
    [[0.0, 1.0], [1.0, 0.20000000298023224]]
    """

    vocabulary: Vocabulary
    vectors: Vectors
    strengths: Vectors
    record: dict[str, Any] = field(default_factory=dict)
    context: ContextMap | None = None

    def __post_init__(self) -> None:
        require_type(self.vectors, "vectors", np.float32, 2)
        require_type(self.strengths, "strengths", np.float32, 1)
        n, k = self.vectors.shape
        if n != len(self.vocabulary) or k != len(self.strengths):
            msg = (
                f"vectors are of shape {self.vectors.shape}, expected "
                f"({len(self.vocabulary)}, {len(self.strengths)})"
            )
            raise ModelFormatError(msg)
        if UNKNOWN not in self.vocabulary.classes:
            raise ModelFormatError(f"the class {UNKNOWN} is missing, which any word belongs to")
        if not (np.isfinite(self.vectors).all() and np.isfinite(self.strengths).all()):
            raise ModelFormatError("vectors have numbers that are not finite")
        if self.context is not None:
            self._check_context(self.context)

    def _check_context(self, context: ContextMap) -> None:
        shape = (len(context.rates) * self.dimension, self.dimension)
        for name, array in zip(context._fields, context, strict=True):
            require_type(array, f"context.{name}", np.float32, 1 if name == "rates" else 2)
            if not np.isfinite(array).all():
                raise ModelFormatError(f"context.{name} has numbers that are not finite")
            if name != "rates" and array.shape != shape:
                msg = f"context.{name} is of shape {array.shape}, expected {shape}"
                raise ModelFormatError(msg)
        if not ((context.rates > 0) & (context.rates <= 1)).all():
            msg = f"context.rates are {context.rates.tolist()}, expected numbers from 0 to 1"
            raise ModelFormatError(msg)

    def __repr__(self) -> str:
        return f"<Eigenwords: {len(self.vocabulary.words):,} words, dimension {self.dimension}>"

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""
        return int(self.vectors.shape[1])

    def of(self, words: Sequence[str]) -> Vectors:
        """Vectors of the words of a sentence, [n, k]; a capital at its start is no evidence."""
        return np.asarray(self.vectors[self.vocabulary.rows(as_sentence(words))])

    def in_context(self, words: Sequence[str]) -> Vectors:
        """Vectors of the words of a sentence in context, [n, 3 k]; only of the method `lr-mvl`.

        Each row is the vector of the word, and the states that the words before it and behind it
        predict (LR-MVL's context-specific embedding).
        """
        if self.context is None:
            msg = f"vectors of the method {self.record.get('method', 'of unknown name')!r} know "
            msg += "nothing of contexts"
            raise SapwoodError(msg, hint="learn them with WordEmbedding(method='lr-mvl')")
        own = self.of(words).astype(float)
        rates = tuple(self.context.rates.astype(float).tolist())
        left, right = smooth_contexts(own, np.array([0, len(own)]), rates)
        states = (own, left @ self.context.left, right @ self.context.right)
        return np.hstack(states).astype(np.float32)

    def knows(self, word: str) -> bool:
        """Whether a word has a vector of its own."""
        return word in self.vocabulary.numbers and word not in self.vocabulary.classes

    def nearest(self, word: str, n: int = 10) -> list[Neighbour]:
        """The words with the largest cosines, nearest first; directions are weighted by strength.

        An unknown word has the neighbours of its class.
        """
        check_word(word, "nearest")
        row = self.vocabulary.row(word, is_first=False)
        cosines = self._units @ self._units[row]
        cosines[row] = -np.inf
        cosines[len(self.vocabulary.words) :] = -np.inf  # classes are no words
        best = _largest(cosines, as_count(n, "n"))
        return [Neighbour(self.vocabulary.words[x], float(cosines[x])) for x in best.tolist()]

    @cached_property
    def _units(self) -> Vectors:
        scaled = self.vectors * self.strengths
        lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
        return np.asarray(scaled / np.where(lengths > 0, lengths, 1.0), np.float32)

    def to_file(self) -> FileContents:
        """The arrays and header of a model file."""
        known = self.vocabulary
        header = {
            "words": list(known.words), "classes": list(known.classes), "style": known.style,
            "record": self.record,
        }  # fmt: skip
        arrays = {"vectors": self.vectors, "strengths": self.strengths}
        if self.context is not None:
            arrays |= {f"context.{name}": x for name, x in self.context._asdict().items()}
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The vectors of a model file, after a check of its words."""
        arrays, header = contents
        words, classes = (read_names(header[name], name) for name in ("words", "classes"))
        if len(set(words + classes)) < len(words) + len(classes):
            raise ModelFormatError(f"a word is listed twice among {describe(words[:3])}")
        known = Vocabulary(words, classes, read_style(header["style"]))
        record = header.get("record", {})
        context = None
        if "context.rates" in arrays:
            context = ContextMap(*(arrays[f"context.{name}"] for name in ContextMap._fields))
        return cls(known, arrays["vectors"], arrays["strengths"], record, context)


def smooth_contexts(
    vectors: FloatArray, offsets: IntArray, rates: Sequence[float]
) -> tuple[FloatArray, FloatArray]:
    """Exponential smooths of the vectors before and behind each position, [n, r k] each.

        L_t = (1 - a) L_(t-1) + a x_(t-1),    0 at the start of a sentence; R from its end

    `vectors` are those of all words, [n, k], `offsets` the starts of sentences and the end; each
    rate a gives a block of columns.

    Examples
    --------
    >>> left, right = smooth_contexts(np.array([[1.0], [2.0], [4.0]]), np.array([0, 3]), [0.5])
    >>> left.ravel().tolist(), right.ravel().tolist()
    ([0.0, 0.5, 1.25], [2.0, 2.0, 0.0])
    """
    left = _smooth_before(vectors, offsets, rates)
    right = _smooth_before(vectors[::-1], len(vectors) - offsets[::-1], rates)
    return left, right[::-1]


def _smooth_before(vectors: FloatArray, offsets: IntArray, rates: Sequence[float]) -> FloatArray:
    n, k = vectors.shape
    out = np.zeros((n, len(rates), k))
    rate = np.asarray(rates, float)[:, None]
    sizes = np.diff(offsets)
    order = np.argsort(-sizes, kind="stable")
    starts, falling = offsets[:-1][order], -sizes[order]
    for t in range(1, int(sizes.max(initial=0))):
        at = starts[: np.searchsorted(falling, -t)] + t  # of all sentences with a word t
        out[at] = (1 - rate) * out[at - 1] + rate * vectors[at - 1, None]
    return out.reshape(n, len(rates) * k)


def _largest(values: npt.NDArray[Any], n: int) -> IntArray:
    """Indices of the n largest finite numbers, in falling order."""
    n = min(n, int(np.isfinite(values).sum()))
    if not n:
        return np.empty(0, np.int64)
    some = np.argpartition(-values, n - 1)[:n]
    return np.asarray(some[np.lexsort((some, -values[some]))])
