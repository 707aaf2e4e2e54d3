"""`FeatureGrammar`: a plain grammar whose pruned charts are scored by features of spans.

A log-linear model after Hall, Durrett and Klein (2014): which tree of the chart is right is read
off the words at and around the ends and splits of spans. It knows how probable a tree is *given*
the sentence; probabilities of trees and sentences together are those of the plain grammar.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from sapwood.corpus.tree import escape
from sapwood.corpus.words import signatures
from sapwood.errors import SapwoodError
from sapwood.models.kinds import FileContents
from sapwood.models.latent_grammar import LatentGrammar

_OF_CLASS = 1 << 40  # rows of classes are numbered from here, apart from those of words
_BORDER = tuple(range(1 << 41, (1 << 41) + 6))  # what is before and behind a sentence: no word
MOST_SEEN = 100_000  # words whose properties are remembered


@dataclass(frozen=True, eq=False, repr=False)
class FeatureGrammar(LatentGrammar):
    """A plain grammar with weights of features; see `sapwood.kernels.span_features`.

    Attributes
    ----------
    feature_weights
        The table of weights; its size is a power of two.
    is_familiar : [n_words]
        Words of the lexicon that are features themselves; the others stand for their class.
    """

    feature_weights: npt.NDArray[np.float32] = field(
        default_factory=lambda: np.zeros(1, np.float32)
    )
    is_familiar: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = self.feature_weights
        size = weights.size
        if weights.shape != (size,) or size < 1 or size & (size - 1):
            msg = f"the table of feature weights has {size} numbers, expected a power of two"
            raise SapwoodError(msg)
        if weights.dtype != np.float32 or not np.isfinite(weights).all():
            msg = f"feature weights must be finite numbers of type float32, not {weights.dtype}"
            raise SapwoodError(msg)
        if self.is_familiar.shape != (len(self.lexicon.words),):
            msg = f"{len(self.is_familiar)} marks of words, expected {len(self.lexicon.words)}"
            raise SapwoodError(msg)

    def to_file(self) -> FileContents:
        """The plain grammar, the table of weights, and which words are features."""
        arrays, header = super().to_file()
        own = {"feature_weights": self.feature_weights, "is_familiar": self.is_familiar}
        return FileContents(arrays | own, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The grammar of a file, with its features."""
        plain = LatentGrammar.from_file(contents)
        given: dict[str, Any] = {field.name: getattr(plain, field.name) for field in fields(plain)}
        given |= {name: contents.arrays[name] for name in ("feature_weights", "is_familiar")}
        return cls(**given)

    @property
    def mask(self) -> np.uint64:
        """Size of the table less 1."""
        return np.uint64(len(self.feature_weights) - 1)

    @cached_property
    def _familiar(self) -> dict[str, int]:
        words = self.lexicon.words
        return {words[row]: row for row in np.flatnonzero(self.is_familiar).tolist()}

    @cached_property
    def _seen(self) -> dict[tuple[str, bool], tuple[int, ...]]:
        return {}

    def word_properties(self, words: list[str]) -> npt.NDArray[np.uint64]:
        """What features see of each word, shape [n + 2, N_PROPERTIES]; borders included."""
        rows = [self._properties(word, place == 0) for place, word in enumerate(words)]
        return np.array([_BORDER, *rows, _BORDER], np.uint64)

    def _properties(self, word: str, is_first: bool) -> tuple[int, ...]:
        key = (word, is_first)
        if key not in self._seen:
            if len(self._seen) >= MOST_SEEN:  # a long stream of text never ends to bring new words
                self._seen.clear()
            self._seen[key] = self._looked_up(escape(word), is_first)
        return self._seen[key]

    def _looked_up(self, word: str, is_first: bool) -> tuple[int, ...]:
        chain = signatures(word, is_first=is_first, style=self.lexicon.style)
        lower = word.lower()
        row = self._familiar.get(word)
        if row is None and is_first:
            row = self._familiar.get(word[:1].lower() + word[1:])
        if row is None:
            row = _OF_CLASS + self.lexicon.class_row(chain)
        case = chain[-2]  # its capitals, digits or signs
        texts = (f"{lower[-3:]} {case}", lower[-2:], case, lower, lower[:2])
        return (row, *(crc32(text.encode()) for text in texts))
