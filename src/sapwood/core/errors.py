"""Exceptions of Sapwood: each says what was found, where, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_HINT = "hint: "


class SapwoodError(Exception):
    """Any failure that Sapwood can explain.

    Parameters
    ----------
    message
        What was wrong, with the value found and what was expected.
    hint
        What to do about it, in one line.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    @property
    def hint(self) -> str | None:
        """What to do about the error; also a note, so that tracebacks show it."""
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        others = [note for note in getattr(self, "__notes__", []) if not note.startswith(_HINT)]
        self._hint = hint
        self.__notes__ = [*others, *([f"{_HINT}{hint}"] if hint else [])]

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword-only arguments do not survive the default pickling, and workers must hand errors
        # on.
        return _rebuild, (type(self), self.__dict__.copy())

    def __str__(self) -> str:
        return self.message


class CorpusError(SapwoodError):
    """A corpus that cannot be read; knows the file, line and column where reading stopped."""

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.file = file
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = ":".join(
            str(part) for part in (self.file, self.line, self.column) if part is not None
        )
        return f"{place}: {self.message}" if place else self.message


class ModelFormatError(SapwoodError):
    """A model file that is truncated, foreign, too new, or breaks an invariant of its model."""


class SapwoodTypeError(SapwoodError, TypeError):
    """An argument of another type than the function takes."""


class SapwoodValueError(SapwoodError, ValueError):
    """An argument of the right type that the function cannot take."""


class NotFittedError(SapwoodError, AttributeError):
    """A result was asked of an estimator that has not been fitted yet."""


class NotIdentifiableError(SapwoodError):
    """A request for parameters that the given statistics cannot determine; carries its report."""

    def __init__(self, message: str, *, report: Any, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.report = report


class SapwoodWarning(UserWarning):
    """A degraded path was taken; the message counts how often and says why."""


class FewDataWarning(SapwoodWarning):
    """A model was learnt from fewer than `FEWEST` trees, sentences or strings.

    The bound follows from what a sample of n examples leaves out: an event of probability p is
    absent from it with probability (1 - p)^n. For n = 20 that is 5 % at p = 0.14, so that a
    construction of one example in seven may never have been seen; and a probability of 1/2 is
    estimated with a standard error of sqrt(1 / 4n) = 0.11. Below 20 examples not even the
    commonest choices of a grammar are known to one digit.

    Parameters
    ----------
    message
        How much was learnt from how little.
    hint
        What to do about it, in one line.
    """

    FEWEST = 20

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {_HINT}{self.hint}"


def _rebuild(kind: type[SapwoodError], state: dict[str, Any]) -> SapwoodError:
    error = kind.__new__(kind)
    Exception.__init__(error, state["message"])
    error.__dict__.update(state)
    return error


def count(n: int, noun: str) -> str:
    """A number with its noun, for messages.

    Examples
    --------
    >>> count(3396, "tree"), count(1, "tree")
    ('3,396 trees', '1 tree')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def join_words(items: Iterable[str]) -> str:
    """Several items in a sentence.

    Examples
    --------
    >>> join_words(["em"]), join_words(["em", "pivot", "crf"])
    ('em', 'em, pivot and crf')
    """
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last
