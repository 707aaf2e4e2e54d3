"""The words that a model knows, classes of unknown words, and hashed properties of any word.

PROPERTIES    the properties by letter: form, lower-case form, suffixes and prefixes by length,
              shape; then what a model knows: the word if it is familiar or its class, tag,
              universal tag, the tag as a number below 64, its cluster among few and among many
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, lru_cache
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray
from sapwood.core.model_files import choice_reader
from sapwood.corpora.tree import escape

Words = npt.NDArray[np.uint64]
PROPERTIES = "FL12345abcdHWXPCKJ"
N_WORD_PROPERTIES = len(PROPERTIES)
COLUMN = {name: column for column, name in enumerate(PROPERTIES)}
N_OF_FORM = COLUMN["W"]  # properties of the form alone
STYLES = ("english", "generic")
read_style = choice_reader("style of unknown words", STYLES)
UNKNOWN = "<unk>"
_ENGLISH_SUFFIXES = (
    "ing", "ed", "ly", "ion", "er", "est", "ity", "al", "ous", "ive", "able", "ment", "ness",
    "ism", "ist", "ic", "ish", "ful", "less", "ies", "es", "s", "y",
)  # fmt: skip


@lru_cache(maxsize=50_000)
def signatures(word: str, *, is_first: bool, style: str) -> tuple[str, ...]:
    """Signatures of a word, from the most specific to `<unk>`, the signature of all words.

    The style `english` knows English suffixes, `generic` takes the last letters of any alphabet. A
    capital on the first word of a sentence is no evidence.

    Examples
    --------
    >>> signatures("Walking", is_first=False, style="english")
    ('<unk-Capital-ing>', '<unk-Capital>', '<unk>')
    >>> signatures("1990-91", is_first=False, style="generic")
    ('<unk-digits-dash>', '<unk-digits>', '<unk>')
    """
    shape = _class_shape(word, is_first)
    out = [f"<unk-{shape}{ending}>" for ending in _endings(word, shape, style)]
    return (*out, f"<unk-{shape}>", UNKNOWN)


def _class_shape(word: str, is_first: bool) -> str:
    if not any(char.isalnum() for char in word):
        return "symbol"
    if any(char.isdigit() for char in word):
        return "mixed" if any(char.isalpha() for char in word) else "digits"
    if word.isupper() and len(word) > 1:
        return "CAPITALS"
    if word[0].isupper():
        return "First" if is_first else "Capital"
    return "inner" if any(char.isupper() for char in word) else "lower"


def _endings(word: str, shape: str, style: str) -> list[str]:
    """The endings that refine a shape, longest first, each starting with a dash."""
    dash = "-dash" if "-" in word else ""
    if shape in {"symbol", "digits", "CAPITALS"}:
        return [dash] if dash else []
    lower = word.lower()
    if style == "english":
        suffix = next(
            (s for s in _ENGLISH_SUFFIXES if len(word) > len(s) + 2 and lower.endswith(s)), ""
        )
        found = [dash + "-" + suffix] if suffix else []
        return found + ([dash] if dash else [])
    suffixes = [f"{dash}-{lower[-size:]}" for size in (4, 3, 2, 1) if len(word) > size + 1]
    return suffixes + ([dash] if dash else [])


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """Rows of known words, then of classes of unknown words, with `<unk>` among them.

    Examples
    --------
    >>> known = Vocabulary(("the", "dog"), ("<unk>", "<unk-lower>"), "english")
    >>> known.rows(["The", "dog", "sleeps", "The", "!"]).tolist()
    [0, 1, 3, 2, 2]
    """

    words: tuple[str, ...]
    classes: tuple[str, ...]
    style: str  # of the classes, see `signatures`

    def __repr__(self) -> str:
        return f"<Vocabulary: {len(self.words):,} words, {len(self.classes):,} classes of others>"

    def __len__(self) -> int:
        return len(self.words) + len(self.classes)

    def __getitem__(self, row: int) -> str:
        n_words = len(self.words)
        return self.words[row] if row < n_words else self.classes[row - n_words]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The row of each word and class, by name."""
        return {name: row for row, name in enumerate(self.words + self.classes)}

    def row(self, word: str, *, is_first: bool) -> int:
        """The row of a word: its own, else, at the start of a sentence, that of its small-letter
        form, else that of its class. The name of a class is its own.
        """  # noqa: D205
        known = self.numbers.get(escape(word))
        if known is None and is_first and word[:1].isupper():
            known = self.numbers.get(word[:1].lower() + word[1:])
        return self.class_row(word, is_first=is_first) if known is None else known

    def class_row(self, word: str, *, is_first: bool) -> int:
        """The row of the most specific known class of a word."""
        rows = self.numbers
        chain = signatures(word, is_first=is_first, style=self.style)
        return next((rows[name] for name in chain if name in rows), rows[UNKNOWN])

    def rows(self, words: list[str]) -> IntArray:
        """The rows of the words of a sentence."""
        found = [self.row(word, is_first=place == 0) for place, word in enumerate(words)]
        return np.array(found, np.int64)


def choose_vocabulary(
    counts: dict[tuple[str, bool], int], min_count: int, style: str
) -> Vocabulary:
    """Words seen at least `min_count` times, and the classes of other words seen as often.

    Counts are by word and by whether it stands first in its sentence.

    Examples
    --------
    >>> choose_vocabulary({("a", False): 9, ("xy", False): 1, ("uz", True): 2}, 3, "generic").classes
    ('<unk-lower>', '<unk>')
    """  # noqa: E501 - one statement, one line
    total: Counter[str] = Counter()
    for (word, _), n in counts.items():
        total[word] += n
    known = tuple(sorted(word for word, n in total.items() if n >= min_count))
    classes: Counter[str] = Counter()
    for (word, is_first), n in counts.items():
        if total[word] < min_count:
            for name in signatures(word, is_first=is_first, style=style):
                classes[name] += n
    kept = sorted(name for name, n in classes.items() if n >= min_count and name != UNKNOWN)
    return Vocabulary(known, (*kept, UNKNOWN), style)


def form_properties(
    forms: Sequence[str], familiar: npt.NDArray[np.uint32]
) -> tuple[Words, IntArray]:
    """Properties of words that can be read off their letters, and their indices among known words.

    Parameters
    ----------
    familiar
        Sorted hashes of the lower-case forms of known words.

    Returns
    -------
    properties, indices : [n, N_OF_FORM], [n]
        The index of an unknown word is -1.

    Examples
    --------
    >>> (dogs, cats), indices = form_properties(["dogs", "Cats"], np.array([hash_of("cats")]))
    >>> dogs[COLUMN["1"]] == cats[COLUMN["1"]], dogs[COLUMN["3"]] == cats[COLUMN["3"]]
    (np.True_, np.False_)
    >>> indices.tolist()
    [-1, 0]
    """
    rows = []
    for form in forms:
        lower = form.lower()
        affixes = [lower[-k:] for k in range(1, 6)] + [lower[:k] for k in range(1, 5)]
        rows.append([_hash(text) for text in (form, lower, *affixes, _shape(form))])
    properties = np.array(rows, np.uint64).reshape(-1, N_OF_FORM)
    return properties, index_among(properties[:, COLUMN["L"]], familiar)


def index_among(hashes: npt.NDArray[Any], known: npt.NDArray[np.uint32]) -> IntArray:
    """Index of each hash in a sorted array; -1 for hashes that are not in it.

    >>> index_among(np.array([5, 6]), np.array([2, 5], np.uint32))
    array([ 1, -1])
    """
    if not len(known):
        return np.full(len(hashes), -1)
    index = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.where(known[index] == hashes, index, -1)


def _hash(text: str) -> int:
    return crc32(text.encode("utf-8", "surrogatepass")) | 4


@cache
def hash_of(text: str) -> int:
    """A hash of a text that is the same on every machine, and at least 4."""
    return _hash(text)


def _shape(form: str) -> str:
    """The shape of a word: kinds of characters, at most two of a kind in a row.

    >>> _shape("McDonald's"), _shape("2026-11-16")
    ('XxXxx.x', 'dd-dd-dd')
    """
    kinds = (
        "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c for c in form
    )
    text = re.sub(r"(.)\1+", r"\1\1", "".join(kinds).replace("'", "."))
    return text[:12]
