"""Errors of Sapwood, and the checks of arguments and of memory that raise them.

Every error says what was found, where, and what to do about it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
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
        """Advice on the error; also a note, so that tracebacks show it."""
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        others = [note for note in getattr(self, "__notes__", []) if not note.startswith(_HINT)]
        self._hint = hint
        self.__notes__ = [*others, *([f"{_HINT}{hint}"] if hint else [])]

    def __reduce__(self) -> tuple[Any, ...]:
        # workers send errors back, and the default pickling loses keyword-only arguments
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
        position = [str(x) for x in (self.file, self.line, self.column) if x is not None]
        return f"{':'.join(position)}: {self.message}" if position else self.message


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

    An event of probability p is absent from n examples with probability (1 - p)^n. For n = 20 that
    is 5 % at p = 0.14, so that a construction of one example in seven may never have been seen; and
    a probability of 1/2 is estimated with a standard error of sqrt(1 / 4n) = 0.11. Below 20
    examples not even the commonest choices of a grammar are known to one digit.
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
    """A number with its noun in singular or plural, for messages.

    >>> count(3396, "tree"), count(1, "tree")
    ('3,396 trees', '1 tree')
    """
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def join_words(items: Iterable[str]) -> str:
    """A list of items as part of a sentence.

    >>> join_words(["em"]), join_words(["em", "pivot", "crf"])
    ('em', 'em, pivot and crf')
    """
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


N_NEAREST = 5  # names that a hint lists
_LONGEST = 40  # characters of a name that are compared


def nearest_names(name: str, known: Iterable[str]) -> str:
    """The known names that are spelt most like a name, in quotes, for hints.

    They are those with the smallest edit distance, regardless of case.

    >>> nearest_names("dt", ["CD", ",", "DT", "NN"]), nearest_names("x", ["b", "a"])
    ("'DT', ',', 'CD', 'NN'", "'a', 'b'")
    """
    small = name.lower()

    def order(other: str) -> tuple[int, int, str]:
        return edit_distance(small, other.lower()), edit_distance(name, other), other

    return ", ".join(map(repr, nsmallest(N_NEAREST, known, key=order)))


def edit_distance(one: str, other: str) -> int:
    """The number of letters that must be inserted, deleted or replaced to make one name another.

    Only the start of long names is compared.

    >>> edit_distance("kitten", "sitting"), edit_distance("", "NP")
    (3, 2)
    """
    row = list(range(len(other[:_LONGEST]) + 1))
    for i, x in enumerate(one[:_LONGEST], 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(other[:_LONGEST], 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row[-1]


_BLANK = re.compile(r"[ \t\r\n\f\v]")  # separates words in treebanks and in lines of text


def describe(item: object) -> str:
    """A few words that name a wrong argument, for messages.

    >>> describe(None), describe("a dog"), describe([1, 2])
    ('None', "the string 'a dog'", 'a list ([1, 2])')
    """
    if item is None:
        return "None"
    shown = repr(item)
    shown = shown if len(shown) <= 40 else f"{shown[:37]}..."
    if isinstance(item, str):
        return f"the string {shown}"
    name = type(item).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name} ({shown})"


def as_items(items: object, expected: str) -> Iterable[Any]:
    """The items of an iterable; a string, which would fall into letters, is refused."""
    if isinstance(items, Iterable) and not isinstance(items, (str, bytes)):
        return items
    raise SapwoodTypeError(f"expected {expected}, not {describe(items)}", hint="give a list")


def as_count(n: object, name: str) -> int:
    """A whole number from 0 up, NumPy's included."""
    try:
        number = n.__index__()  # type: ignore[attr-defined]
    except AttributeError:
        raise SapwoodTypeError(f"{name} must be a whole number, not {describe(n)}") from None
    if number < 0 or isinstance(n, bool):
        raise SapwoodValueError(f"{name} must be a whole number from 0 up, not {n!r}")
    return int(number)


def as_sentence(words: object) -> list[str]:
    """The words of a sentence; words that could not stand in a line of text are refused.

    >>> as_sentence(("dogs", "bark"))
    ['dogs', 'bark']
    """
    if isinstance(words, str):
        msg = "a sentence is a list of words, not a string"
        hint = "use sentence.split(), or Parser.parse_text for text that is not tokenised"
        raise SapwoodTypeError(msg, hint=hint)
    if isinstance(words, bytes) or not isinstance(words, Iterable):
        msg = f"a sentence is a list of words, not {describe(words)}"
        raise SapwoodTypeError(msg, hint="give a list of strings")
    sentence = list(words)
    if not sentence:
        msg = "an empty sentence has no tree and no probability"
        raise SapwoodValueError(msg, hint="give at least one word")
    for number, word in enumerate(sentence, 1):
        check_word(word, f"word {number} of the sentence")
    return sentence


def check_word(word: object, place: str) -> None:
    """Refuse a word that could not be read again from a line of text or from brackets."""
    if not isinstance(word, str):
        msg = f"{place}: a word is a string, not {describe(word)}"
        raise SapwoodTypeError(msg, hint="give a sentence as a list of strings")
    if not word or _BLANK.search(word):
        found = f"the word {word!r} holds a blank" if word else "a word is empty"
        msg = f"{place}: {found}"
        raise SapwoodValueError(msg, hint="split it, or join its parts with _ or a no-break space")


UNKNOWN_SYSTEM = 8 << 30  # bytes assumed where the system reports nothing
_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Free bytes for this process: of the machine, the container or `ulimit -v`, the least."""
    found = [_machine_memory(), _container_memory(), _process_memory()]
    return max(0, min((n for n in found if n is not None), default=UNKNOWN_SYSTEM))


def require_memory(needed: float, work: str, hint: str, *amounts: tuple[int, str]) -> None:
    """Refuse work, the subject of the message, that needs more bytes of memory than are free.

    The message names the amounts of things that are worked on, given as numbers with nouns.
    """
    free = available_memory()
    if needed > free:
        work = " ".join([work, " with ".join(count(*amount) for amount in amounts)]).rstrip()
        gigabytes = f"{needed / 1e9:,.1f} GB of memory, and {free / 1e9:,.1f} GB are free"
        raise SapwoodError(f"{work} needs about {gigabytes}", hint=hint)


def _machine_memory() -> int | None:
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return None


def _container_memory() -> int | None:
    with suppress(OSError, ValueError):
        limit = (_CGROUP / "memory.max").read_text().strip()
        if limit != "max":
            used = int((_CGROUP / "memory.current").read_text())
            cached = 0  # pages of files, which the system gives back when it needs them
            for line in (_CGROUP / "memory.stat").read_text().splitlines():
                if line.startswith("inactive_file "):
                    cached = int(line.split()[1])
            return int(limit) - used + cached
    return None


def _process_memory() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return limit - pages * os.sysconf("SC_PAGE_SIZE")
    return limit
