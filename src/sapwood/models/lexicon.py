"""`Lexicon`: which tags a word may have, with a weight per tag and state; unknown words included.

Notation
--------
    x          row of the lexicon: a word, or a class of unknown words (a signature)
    entry      one tag of a row; entries of row x are row_start[x] .. row_start[x + 1]
    q[a -> x]  weight vector of an entry, one number per state of its tag
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.corpus.tree import escape
from sapwood.corpus.words import UNKNOWN, signatures

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Lexicon:
    """Rows of weighted tags for known words, then for classes of unknown words.

    Attributes
    ----------
    words, classes
        The rows in order; the plainest class `<unk>` is always there.
    style
        How unknown words are classed, see `sapwood.corpus.words.signatures`.
    row_start
        Shape [n_rows + 1]; where the entries of a row start.
    entry_tag
        Shape [n_entries]; tags counted from 0.
    weights
        Weight vectors of all entries, one after the other.
    weight_start
        Shape [n_entries + 1]; where the vector of an entry starts.
    """

    words: tuple[str, ...]
    classes: tuple[str, ...]
    style: str
    row_start: npt.NDArray[np.uint32]
    entry_tag: npt.NDArray[np.uint32]
    weights: FloatArray
    weight_start: npt.NDArray[np.int64] = field(repr=False)

    def __repr__(self) -> str:
        return f"<Lexicon: {len(self.words):,} words, {len(self.classes):,} classes of others>"

    @property
    def n_rows(self) -> int:
        """Words and classes together."""
        return len(self.words) + len(self.classes)

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.words + self.classes)}

    @cached_property
    def _entry_keys(self) -> tuple[npt.NDArray[np.int64], int]:
        """A number for row and tag of each entry, rising; and the number of tags."""
        n_tags = int(self.entry_tag.max()) + 1
        entry_row = np.repeat(np.arange(self.n_rows), np.diff(self.row_start))
        return entry_row * n_tags + self.entry_tag, n_tags

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}

    def row(self, word: str, *, is_first: bool) -> int:
        """The row of a word: its own, else, at the start of a sentence, that of its small-letter
        form, else that of the most telling class that is known. The name of a class is its own.
        """  # noqa: D205
        rows = self._rows
        known = rows.get(escape(word))
        if known is None and is_first and word[:1].isupper():
            known = rows.get(word[:1].lower() + word[1:])
        if known is not None:
            return known
        return self.class_row(signatures(word, is_first=is_first, style=self.style))

    def class_row(self, chain: Sequence[str]) -> int:
        """The row of the most telling class of a chain of signatures that is known."""
        rows = self._rows
        return next((rows[name] for name in chain if name in rows), rows[UNKNOWN])

    def find_entries(
        self, rows: npt.NDArray[np.int64], tags: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Entries of pairs of row and tag; -1 where a row is negative or does not list the tag."""
        keys, n_tags = self._entry_keys
        wanted = rows * n_tags + tags
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = (keys[place] == wanted) & (rows >= 0) & (tags >= 0) & (tags < n_tags)
        return np.where(hit, place, -1)

    def rows(self, words: list[str]) -> npt.NDArray[np.int64]:
        """The rows of a sentence."""
        return np.array(
            [self.row(word, is_first=place == 0) for place, word in enumerate(words)],
            dtype=np.int64,
        )

    def entries(self, row: int) -> slice:
        """The entries of a row."""
        return slice(int(self.row_start[row]), int(self.row_start[row + 1]))
