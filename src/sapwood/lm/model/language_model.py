"""`LanguageModel`: what all language models offer, and checks of their files.

A model gives the probability of the first word of a row, given the others: the word before it, the
one before that, and so on; `NOTHING` where there is none (see `lm.data.ngrams`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import SavedModel, require_type
from sapwood.lm.data.ngrams import (
    END,
    NOTHING,
    SPECIAL,
    START,
    KnownWords,
    Rows,
    ngrams_of,
    refuse_reserved_words,
)

SINGLE_TOLERANCE = 1e-3  # of a sum, in files of single precision
HALF_TOLERANCE = 1e-2  # of a sum, in files of half precision


class LanguageModel(SavedModel):
    """A distribution of the next word.

    Attributes
    ----------
    words : [V]
        `SPECIAL`, then all others.
    is_stream
        Whether text is one stream of words, without starts and ends of sentences.
    record
        How it was made: method, sizes of the text, settings.
    """

    words: tuple[str, ...]
    is_stream: bool
    record: Mapping[str, Any]

    @property
    @abstractmethod
    def order(self) -> int:
        """The number of words of a row that the model reads, the predicted one included."""

    @abstractmethod
    def log_probs(self, rows: Rows) -> FloatArray:
        """Natural logarithm of the probability of the first word of each row given the others.

        Parameters
        ----------
        rows : [n, any]
            Columns beyond the order are not read; missing words are NOTHING.
        """

    @cached_property
    def numbers(self) -> KnownWords:
        """The number of each word, by its bytes."""
        return KnownWords(self.words)

    @cached_property
    def can_follow(self) -> npt.NDArray[np.bool_]:
        """Which words can be predicted: [V]."""
        allowed = np.ones(len(self.words), bool)
        allowed[[NOTHING, START]] = False
        allowed[END] = not self.is_stream
        return allowed

    def rows_of(self, words: Sequence[str]) -> Rows:
        """A row for each word of a sentence, and for its end.

        Raises
        ------
        SapwoodError
            If one of the words is a reserved symbol such as `<s>`.
        """
        refuse_reserved_words(words)
        found = [self.numbers[word.encode()] for word in words]
        before = [NOTHING] * (self.order - 1) if self.is_stream else [START]
        after = [] if self.is_stream else [END]
        sequence = np.array([*before, *found, *after], np.uint32)
        return ngrams_of(sequence, self.order, len(before) if self.is_stream else 0)

    def log_prob(self, words: Sequence[str]) -> float:
        """Natural log-probability of a sentence, with its end unless the text is a stream."""
        return float(self.log_probs(self.rows_of(words)).sum())

    def next_log_probs(self, context: Sequence[str]) -> FloatArray:
        """Log-probability of every word after some words: [V]; -inf where none can follow."""
        last = self.rows_of([*context, "x"])[len(context)]  # "x" is replaced by every word
        rows = np.repeat(last[None, :], len(self.words), axis=0)
        rows[:, 0] = np.arange(len(self.words))
        result = np.full(len(self.words), -np.inf)
        result[self.can_follow] = self.log_probs(rows[self.can_follow])
        return result

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        max_length: int = 1000,
        check: Callable[[], None] | None = None,
    ) -> Iterator[list[str]]:
        """Draw sentences; of a stream, pieces of `max_length` words.

        Parameters
        ----------
        check
            A function that is called before each word; it can raise an error to stop the sampling.
        """
        for _ in range(n):
            words: list[str] = []
            while len(words) < max_length:
                if check is not None:
                    check()
                p = np.exp(self.next_log_probs(words[-self.order :] if self.is_stream else words))
                drawn = int(rng.choice(len(p), p=p / p.sum()))
                if drawn == END:
                    break
                words.append(self.words[drawn])
            yield words


def require_words(words: object) -> tuple[str, ...]:
    """The words of a file, after checking them."""
    if not isinstance(words, list) or tuple(words[: len(SPECIAL)]) != SPECIAL:
        raise ModelFormatError("its words do not start with the special ones")
    if not all(isinstance(word, str) for word in words) or len(set(words)) < len(words):
        raise ModelFormatError("its words are not all different texts")
    return tuple(words)


def require_finite(arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Refuse weights that are no numbers."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelFormatError(f"{name} has values that are not finite")


def require_distribution(
    p: npt.NDArray[np.floating], name: str, *, tolerance: float = SINGLE_TOLERANCE
) -> None:
    """Refuse numbers that are no probabilities which sum to 1 along the last axis."""
    # One pass finds NaN and negative numbers; sums find infinite ones.
    if p.size and not p.min() >= 0:
        msg = f"{name} has values below 0 or that are not numbers, expected probabilities"
        raise ModelFormatError(msg)
    sums = p.sum(axis=-1, dtype=np.float64)
    wrong = ~(np.abs(sums - 1) <= tolerance)
    if wrong.any():
        raise ModelFormatError(
            f"{name} sums to {float(sums[wrong].flat[0]):.4g}, expected probabilities that sum to 1"
        )


def require_shares(weight: FloatArray, name: str) -> None:
    """Refuse weights outside of 0 to 1."""
    if weight.size and not (weight.min() >= 0 and weight.max() <= 1):
        raise ModelFormatError(f"{name} has values outside of 0 to 1")


def require_shape(
    array: npt.NDArray[Any], name: str, kind: npt.DTypeLike, shape: tuple[int, ...]
) -> None:
    """Refuse an array that kernels could not take."""
    require_type(array, name, kind, len(shape))
    if array.shape != shape:
        raise ModelFormatError(f"{name} is of shape {array.shape}, expected {shape}")
