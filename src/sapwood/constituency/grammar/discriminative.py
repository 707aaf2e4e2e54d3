"""Discriminative models beside a plain grammar: `FeatureGrammar` and `SpanNetwork`.

A feature grammar scores the chart of its plain grammar by weights of span features; a span network
gives spans of words their labels without a chart. Both know trees given their sentences; the plain
grammar has the probabilities of sentences.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Transform
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.grammar.member import Arrays, BracketReader, Can, Member
from sapwood.core.errors import SapwoodError
from sapwood.core.model_files import FileContents, HeaderReader, called, read_chains, read_names
from sapwood.corpora.tree import escape
from sapwood.corpora.vocabulary import signatures
from sapwood.networks.network import Network
from sapwood.networks.scores import SpanSizes

if TYPE_CHECKING:
    from sapwood.constituency.parse.kernels.forest import Forest

Features = npt.NDArray[np.uint32]
_FIRST_CLASS = 1 << 40  # rows of classes are numbered from here, apart from those of words
_BORDER = tuple(range(1 << 41, (1 << 41) + 6))  # properties of the ends of a sentence
MOST_CACHED = 30_000  # words whose properties are cached, about 0.5 kB each


@dataclass(frozen=True, eq=False, repr=False)
class _Discriminative(Member):
    """A model of trees given their sentences, beside a plain grammar."""

    grammar: LatentGrammar
    HEADER: ClassVar[dict[str, HeaderReader]] = LatentGrammar.HEADER

    def __post_init__(self) -> None:
        if not self.grammar.is_plain:
            raise SapwoodError("the grammar of the model has hidden states, expected a plain one")

    @property
    def transform(self) -> Transform:
        """How treebank trees become trees of the plain grammar."""
        return self.grammar.transform

    @property
    def can(self) -> Can:
        """Abilities of the model: it scores trees given their sentences, without derivations."""
        is_known = self.grammar.is_probabilistic
        return Can(sample=False, probabilities=is_known, rules=self.has_rules, derivations=False)

    @property
    def chart_grammar(self) -> LatentGrammar:
        """The plain grammar, which has the probabilities of trees and sentences."""
        return self.grammar

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Make a model from the contents of a file."""
        grammar = LatentGrammar.from_file(contents)
        return cls(grammar, *cls.read_own(contents), grammar.record)  # type: ignore[call-arg]

    @classmethod
    @abstractmethod
    def read_own(cls, contents: FileContents) -> tuple[Any, ...]:
        """The fields between the plain grammar and the record, from the contents of a file."""


@dataclass(frozen=True, eq=False, repr=False)
class FeatureGrammar(_Discriminative):
    """A plain grammar with weights of features of spans, as its kernel `span_features` has them.

    Attributes
    ----------
    grammar
        The plain grammar: symbols, rules, words, and the pruned chart.
    feature_weights
        The table of weights; its size is a power of two.
    is_familiar : [n_words]
        Words of the lexicon that are features themselves; the others are replaced by their class.
    """

    feature_weights: npt.NDArray[np.float32]
    is_familiar: npt.NDArray[np.bool_]
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = self.feature_weights
        size = weights.size
        if weights.shape != (size,) or size < 1 or size & (size - 1):
            raise SapwoodError(
                f"the table of feature weights has {size} numbers, expected a power of two"
            )
        if weights.dtype != np.float32 or not np.isfinite(weights).all():
            raise SapwoodError(
                f"feature weights must be finite numbers of type float32, not {weights.dtype}"
            )
        n_words = len(self.grammar.lexicon.vocabulary.words)
        if self.is_familiar.shape != (n_words,):
            raise SapwoodError(f"{len(self.is_familiar)} marks of words, expected {n_words}")

    def __repr__(self) -> str:
        method = self.record.get("method", "of unknown origin")
        n = len(self.feature_weights)
        return f"<FeatureGrammar ({method}): {n:,} weights of features over {self.grammar!r}>"

    @property
    def n_weights(self) -> int:
        """Number of weights of rules and features."""
        return self.grammar.n_weights + len(self.feature_weights)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def features(self) -> SpanFeatures:  # type: ignore[override]
        """The features that score a chart."""
        return SpanFeatures(self)

    def pack(self, arrays: Arrays) -> Arrays:
        """Arrays for a file of an ensemble: feature weights in half precision."""
        return arrays | {"feature_weights": _as_halves(self.feature_weights)}

    def rounded(self) -> Self:
        """The model with its feature weights rounded as a file of an ensemble stores them."""
        return replace(self, feature_weights=_as_halves(self.feature_weights).astype(np.float32))

    def to_file(self) -> FileContents:
        """File contents: the plain grammar, the weights, and the words that are features."""
        arrays, header = self.grammar.to_file()
        own = {"feature_weights": self.feature_weights, "is_familiar": self.is_familiar}
        return FileContents(arrays | own, header | {"record": dict(self.record)})

    @classmethod
    def read_own(cls, contents: FileContents) -> tuple[Any, ...]:
        """The weights, and the words that are features."""
        return contents.arrays["feature_weights"], contents.arrays["is_familiar"]


def _as_halves(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    most = np.finfo(np.float16).max
    return np.clip(weights, -most, most).astype(np.float16)


class SpanFeatures:
    """Features of the items and edges of a forest, and their weights in a `FeatureGrammar`."""

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
        """Properties of each word and of both ends, shape [n + 2, N_PROPERTIES]."""
        rows = [self._properties(word, place == 0) for place, word in enumerate(words)]
        return np.array([_BORDER, *rows, _BORDER], np.uint64)

    def _properties(self, word: str, is_first: bool) -> tuple[int, ...]:
        key = (word, is_first)
        found = self._seen.get(key)
        if found is None:
            if len(self._seen) >= MOST_CACHED:  # a long stream of text always brings new words
                self._seen.clear()
            found = self._seen[key] = self._compute_properties(escape(word), is_first)
        return found

    def _compute_properties(self, word: str, is_first: bool) -> tuple[int, ...]:
        chain = signatures(word, is_first=is_first, style=self._vocabulary.style)
        lower = word.lower()
        row = self._familiar.get(word)
        if row is None and is_first:
            row = self._familiar.get(word[:1].lower() + word[1:])
        if row is None:
            row = _FIRST_CLASS + self._vocabulary.class_row(word, is_first=is_first)
        case = chain[-2]  # capitals, digits or punctuation
        texts = (f"{lower[-3:]} {case}", lower[-2:], case, lower, lower[:2])
        return (row, *(crc32(text.encode()) for text in texts))


_PREFIX = "network"  # of its arrays in files


@dataclass(frozen=True, eq=False, repr=False)
class SpanNetwork(_Discriminative):
    """A network that gives the spans of a sentence posteriors of labels.

    It scores all trees over the words, also those that the plain grammar does not allow.

    Attributes
    ----------
    grammar
        The plain grammar of the same treebank.
    network
        Its weights.
    labels
        Labels of a span, outermost first where several cover the same words.
    tags
        Tags of words.
    record
        How the model was made.
    """

    network: Network
    labels: tuple[tuple[str, ...], ...]
    tags: tuple[str, ...]
    record: Mapping[str, Any] = field(default_factory=dict)
    has_rules: ClassVar[bool] = False
    HEADER: ClassVar[dict[str, HeaderReader]] = LatentGrammar.HEADER | {
        "span_labels": called("labels of spans", read_chains),
        "span_tags": called("tags of spans", read_names),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, n, known in (
            ("label.b", len(self.labels), self.network.weights["label.b"]),
            ("tag.b", len(self.tags), self.network.weights["tag.b"]),
        ):
            if known.shape != (n,):
                raise SapwoodError(
                    f"{n} names for the network's {name}, which has {len(known)} numbers"
                )
        symbols = self.grammar.symbols
        known_labels = {label for symbol in symbols for label in symbol.chain}
        used = {label for chain in self.labels for label in chain} | set(self.tags)
        if unknown := sorted(used - known_labels):
            raise SapwoodError(
                f"the network has the label {unknown[0]!r}, which its grammar does not have"
            )

    def __repr__(self) -> str:
        n = self.n_weights - self.grammar.n_weights
        method = self.record.get("method", "of unknown origin")
        return f"<SpanNetwork ({method}): {n:,} weights beside {self.grammar!r}>"

    @property
    def n_weights(self) -> int:
        """Number of weights of the network and of the rules of the plain grammar."""
        return self.grammar.n_weights + self.network.n_weights

    def reader(self, label_numbers: Mapping[str, int]) -> BracketReader:
        """A reader of sentences with the network."""
        from sapwood.constituency.parse.posteriors import NetworkReader

        return NetworkReader(self, label_numbers)

    def to_file(self) -> FileContents:
        """File contents: the plain grammar, the weights, and the names of labels and tags."""
        arrays, header = self.grammar.to_file()
        names = {"span_labels": [list(chain) for chain in self.labels], "span_tags": [*self.tags]}
        own = {"record": dict(self.record)} | names
        if self.network.given is not None:
            own["given"] = self.network.given.record.as_header()
        return FileContents(arrays | self.network.to_arrays(_PREFIX), header | own)

    @classmethod
    def read_own(cls, contents: FileContents) -> tuple[Any, ...]:
        """The network, and the names of labels and tags."""
        chains, tags = (contents.header[name] for name in ("span_labels", "span_tags"))
        network = Network.from_arrays(
            _PREFIX,
            contents.arrays,
            len(tags),
            lambda arrays, n_states: SpanSizes(
                len(arrays["span.b"]), is_normalised="span.gain" in arrays
            ).shapes(n_states, len(chains)),
            contents.header.get("given"),
        )
        return network, chains, tags
