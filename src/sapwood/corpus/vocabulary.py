"""`Vocabulary`: the words that a model knows, and what it takes any other word for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from sapwood.arrays import IntArray
from sapwood.corpus.tree import escape
from sapwood.corpus.words import UNKNOWN, signatures


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """Rows of known words, then of classes of unknown ones.

    Attributes
    ----------
    words, classes
        The rows in order; to look up any word, the plainest class `<unk>` must be there.
    style
        How unknown words are classed, see `sapwood.corpus.words.signatures`.

    Examples
    --------
    >>> known = Vocabulary(("the", "dog"), ("<unk>", "<unk-lower>"), "english")
    >>> known.rows(["The", "dog", "sleeps", "The", "!"]).tolist()
    [0, 1, 3, 2, 2]
    """

    words: tuple[str, ...]
    classes: tuple[str, ...]
    style: str

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
        """The row of the most telling class of a word that is known."""
        rows = self.numbers
        chain = signatures(word, is_first=is_first, style=self.style)
        return next((rows[name] for name in chain if name in rows), rows[UNKNOWN])

    def rows(self, words: list[str]) -> IntArray:
        """The rows of a sentence."""
        found = [self.row(word, is_first=place == 0) for place, word in enumerate(words)]
        return np.array(found, np.int64)
