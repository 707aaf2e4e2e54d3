"""`FeatureGrammar`: a plain grammar whose pruned charts are scored by features of spans.

A log-linear model after Hall, Durrett and Klein (2014): which tree of the chart is right is read
off the words at and around the ends and splits of spans. It knows how probable a tree is *given*
the sentence, so no trees can be drawn from it; probabilities of trees and sentences together are
those of the plain grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.transform import Transform
from sapwood.errors import SapwoodError
from sapwood.models.kinds import FileContents, SavedModel
from sapwood.models.latent_grammar import LatentGrammar
from sapwood.models.tree_model import TreeModel


@dataclass(frozen=True, eq=False, repr=False)
class FeatureGrammar(TreeModel, SavedModel):
    """A plain grammar with weights of features; see `sapwood.kernels.span_features`.

    Attributes
    ----------
    grammar
        The plain grammar: symbols, rules, words, and the chart that it leaves.
    feature_weights
        The table of weights; its size is a power of two.
    is_familiar : [n_words]
        Words of the lexicon that are features themselves; the others stand for their class.
    record
        How the model was made.
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
        n_words = len(self.grammar.lexicon.words)
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
