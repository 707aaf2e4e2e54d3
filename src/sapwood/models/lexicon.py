"""`Lexicon`: which tags a word may have, with a weight per tag and state; unknown words included.

Notation
--------
    x          row of the lexicon: a word, or a class of unknown words (a signature)
    entry      one tag of a row; entries of row x are row_start[x] .. row_start[x + 1]
    q[a -> x]  weight vector of an entry, one number per state of its tag
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, IntArray
from sapwood.corpus.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False, repr=False)
class Lexicon:
    """Weighted tags for every row of a vocabulary: its words, and its classes of unknown words.

    Attributes
    ----------
    vocabulary
        What the rows stand for.
    row_start
        Shape [n_rows + 1]; where the entries of a row start.
    entry_tag
        Shape [n_entries]; tags counted from 0.
    weights
        Weight vectors of all entries, one after the other.
    weight_start
        Shape [n_entries + 1]; where the vector of an entry starts.
    """

    vocabulary: Vocabulary
    row_start: npt.NDArray[np.uint32]
    entry_tag: npt.NDArray[np.uint32]
    weights: FloatArray
    weight_start: npt.NDArray[np.int64] = field(repr=False)

    def __repr__(self) -> str:
        return f"<Lexicon: {self.vocabulary!r}, {len(self.entry_tag):,} tags of these>"

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are known."""
        return self.vocabulary.words

    @property
    def n_rows(self) -> int:
        """Words and classes together."""
        return len(self.vocabulary)

    @cached_property
    def entry_row(self) -> IntArray:
        """The row of each entry, shape [n_entries]."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.row_start))

    @cached_property
    def _entry_keys(self) -> tuple[IntArray, int]:
        """A number for row and tag of each entry, rising; and the number of tags."""
        n_tags = int(self.entry_tag.max()) + 1
        return self.entry_row * n_tags + self.entry_tag, n_tags

    def find_entries(
        self, rows: npt.NDArray[np.int64], tags: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Entries of pairs of row and tag; -1 where a row is negative or does not list the tag."""
        keys, n_tags = self._entry_keys
        wanted = rows * n_tags + tags
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = (keys[place] == wanted) & (rows >= 0) & (tags >= 0) & (tags < n_tags)
        return np.where(hit, place, -1)

    def entries(self, row: int) -> slice:
        """The entries of a row."""
        return slice(int(self.row_start[row]), int(self.row_start[row + 1]))
