"""What all language models offer: words and numbers, next words, sentences, samples.

A model gives the probability of the first word of a row, given the others: the word before it, the
one before that, and so on; `NOTHING` where there is none (`moments.ngrams` has rows like that, and
counts of them).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import ModelFormatError, SapwoodError
from sapwood.core.model_files import SavedModel
from sapwood.lm.data.plain_text import (
    END,
    NOTHING,
    RESERVED,
    RESERVED_HINT,
    SPECIAL,
    START,
    KnownWords,
    Rows,
    ngrams_of,
)


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
        """Words of a row that it looks at, the predicted one included."""

    @abstractmethod
    def log_probs(self, rows: Rows) -> FloatArray:
        """Natural logarithm of the probability of the first word of each row given the others.

        Parameters
        ----------
        rows : [n, any]
            Columns beyond its order are not looked at; missing ones are NOTHING.
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
        if not RESERVED.isdisjoint(words):
            place = next(i for i, word in enumerate(words) if word in RESERVED)
            msg = (
                f"word {place + 1} of the sentence is {words[place]!r}, a symbol that is reserved "
                "for the start or end of a sentence"
            )
            raise SapwoodError(msg, hint=RESERVED_HINT)
        found = [self.numbers[word.encode()] for word in words]
        before = [NOTHING] * (self.order - 1) if self.is_stream else [START]
        after = [] if self.is_stream else [END]
        sequence = np.array([*before, *found, *after], np.uint32)
        return ngrams_of(sequence, self.order, len(before) if self.is_stream else 0)

    def log_prob(self, words: Sequence[str]) -> float:
        """Natural logarithm of a sentence's probability, its end included where there are ends."""
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
    """The words of a file, which may be damaged."""
    if not isinstance(words, list) or tuple(words[: len(SPECIAL)]) != SPECIAL:
        msg = "its words do not start with the special ones"
        raise ModelFormatError(msg)
    if not all(isinstance(word, str) for word in words) or len(set(words)) < len(words):
        msg = "its words are not all different texts"
        raise ModelFormatError(msg)
    return tuple(words)


def require_same_words(models: Iterable[LanguageModel]) -> None:
    """Refuse models that do not share words and the kind of text."""
    first, *others = models
    for other in others:
        if other.words != first.words or other.is_stream != first.is_stream:
            msg = "the models were not learnt from the same words, so they cannot be mixed"
            raise SapwoodError(msg, hint="train them from the same counts, with the same min-count")


def require_finite(arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Refuse weights that are no numbers."""
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            msg = f"{name} has values that are not finite"
            raise ModelFormatError(msg)
