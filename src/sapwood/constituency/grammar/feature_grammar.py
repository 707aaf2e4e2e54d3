"""`FeatureGrammar`: a plain grammar whose charts are scored by weights of span features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Transform
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.grammar.member import Arrays, Can, Member
from sapwood.core.errors import SapwoodError
from sapwood.core.model_files import FileContents
from sapwood.corpora.tree import escape
from sapwood.corpora.vocabulary import signatures

if TYPE_CHECKING:
    from sapwood.constituency.parse.kernels.forest import Forest

Features = npt.NDArray[np.uint32]
_OF_CLASS = 1 << 40  # rows of classes are numbered from here, apart from those of words
_BORDER = tuple(range(1 << 41, (1 << 41) + 6))  # what is before and behind a sentence: no word
MOST_SEEN = 30_000  # words whose properties are remembered, about 0.5 kB each


@dataclass(frozen=True, eq=False, repr=False)
class FeatureGrammar(Member):
    """A plain grammar with weights of features of spans, as its kernel `span_features` has them.

    Attributes
    ----------
    grammar
        The plain grammar: symbols, rules, words, and the chart that it leaves.
    feature_weights
        The table of weights; its size is a power of two.
    is_familiar : [n_words]
        Words of the lexicon that are features themselves; the others stand for their class.
    """

    grammar: LatentGrammar
    feature_weights: npt.NDArray[np.float32]
    is_familiar: npt.NDArray[np.bool_]
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.grammar.is_plain:
            msg = "the grammar behind a model of features has hidden states, expected a plain one"
            raise SapwoodError(msg)
        weights = self.feature_weights
        size = weights.size
        if weights.shape != (size,) or size < 1 or size & (size - 1):
            msg = f"the table of feature weights has {size} numbers, expected a power of two"
            raise SapwoodError(msg)
        if weights.dtype != np.float32 or not np.isfinite(weights).all():
            msg = f"feature weights must be finite numbers of type float32, not {weights.dtype}"
            raise SapwoodError(msg)
        n_words = len(self.grammar.lexicon.vocabulary.words)
        if self.is_familiar.shape != (n_words,):
            msg = f"{len(self.is_familiar)} marks of words, expected {n_words}"
            raise SapwoodError(msg)

    def __repr__(self) -> str:
        method = self.record.get("method", "of unknown origin")
        n = len(self.feature_weights)
        return f"<FeatureGrammar ({method}): {n:,} weights of features over {self.grammar!r}>"

    @property
    def transform(self) -> Transform:
        """How treebank trees become trees of the plain grammar."""
        return self.grammar.transform

    @property
    def can(self) -> Can:
        """What the model can do: it scores trees given their sentences, without derivations."""
        is_known = self.grammar.is_probabilistic
        return Can(sample=False, probabilities=is_known, rules=True, derivations=False)

    @property
    def chart_grammar(self) -> LatentGrammar:
        """The plain grammar."""
        return self.grammar

    @property
    def n_weights(self) -> int:
        """How many weights its rules and features have."""
        return self.grammar.n_weights + len(self.feature_weights)

    def features(self) -> SpanFeatures:
        """The features that score a chart."""
        return SpanFeatures(self)

    def pack(self, arrays: Arrays) -> Arrays:
        """Feature weights take 16 bits a number."""
        return arrays | {"feature_weights": _as_halves(self.feature_weights)}

    def rounded(self) -> Self:
        """The model with its feature weights rounded as a file of an ensemble stores them."""
        return replace(self, feature_weights=_as_halves(self.feature_weights).astype(np.float32))

    def to_file(self) -> FileContents:
        """The plain grammar, the table of weights, and which words are features."""
        arrays, header = self.grammar.to_file()
        own = {"feature_weights": self.feature_weights, "is_familiar": self.is_familiar}
        return FileContents(arrays | own, header | {"record": dict(self.record)})

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        grammar, arrays = LatentGrammar.from_file(contents), contents.arrays
        return cls(grammar, arrays["feature_weights"], arrays["is_familiar"], grammar.record)


def _as_halves(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    most = np.finfo(np.float16).max
    return np.clip(weights, -most, most).astype(np.float16)


class SpanFeatures:
    """What the features of a `FeatureGrammar` see of words, and their weights."""

    def __init__(self, model: FeatureGrammar) -> None:
        self.weights = model.feature_weights
        self.mask = np.uint64(len(model.feature_weights) - 1)
        self._vocabulary = model.grammar.lexicon.vocabulary
        words = self._vocabulary.words
        self._familiar = {words[row]: row for row in np.flatnonzero(model.is_familiar).tolist()}
        self._seen: dict[tuple[str, bool], tuple[int, ...]] = {}

    def of(self, forest: Forest, words: list[str]) -> tuple[Features, Features]:
        """The features of all items and of all edges, as indices into the table of weights."""
        from sapwood.constituency.parse.kernels import span_features as kernel

        seen = self.word_properties(words)
        items = kernel.item_features(forest.symbol, forest.start, forest.end, seen, self.mask)
        return items, kernel.edge_features(forest, seen, self.mask)

    def word_properties(self, words: list[str]) -> npt.NDArray[np.uint64]:
        """What features see of each word, shape [n + 2, N_PROPERTIES]; borders included."""
        rows = [self._properties(word, place == 0) for place, word in enumerate(words)]
        return np.array([_BORDER, *rows, _BORDER], np.uint64)

    def _properties(self, word: str, is_first: bool) -> tuple[int, ...]:
        key = (word, is_first)
        found = self._seen.get(key)
        if found is None:
            if len(self._seen) >= MOST_SEEN:  # a long stream of text never ends to bring new words
                self._seen.clear()
            found = self._seen[key] = self._looked_up(escape(word), is_first)
        return found

    def _looked_up(self, word: str, is_first: bool) -> tuple[int, ...]:
        chain = signatures(word, is_first=is_first, style=self._vocabulary.style)
        lower = word.lower()
        row = self._familiar.get(word)
        if row is None and is_first:
            row = self._familiar.get(word[:1].lower() + word[1:])
        if row is None:
            row = _OF_CLASS + self._vocabulary.class_row(word, is_first=is_first)
        case = chain[-2]  # its capitals, digits or signs
        texts = (f"{lower[-3:]} {case}", lower[-2:], case, lower, lower[:2])
        return (row, *(crc32(text.encode()) for text in texts))
