"""`ArcRerankModel`: weights that choose among the trees that a parser proposes.

    score(tree) = dense . (what the list and latent models say)  +  sum of weights of tag triples

The parser and the latent models whose log-probabilities are features are part of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, Self, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from sapwood.core.arguments import describe
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import ModelFormatError, count
from sapwood.core.model_files import (
    FileContents,
    SavedModel,
    read_flag,
    read_model,
    read_record,
    require_type,
)
from sapwood.dependency.data.bank import ArcBank

COLUMNS = ("upos", "xpos")
MOST_TREES = 100_000  # of a list
LARGEST = 1e100  # weight whose sums are still numbers
LIST_FEATURES = ("score", "expected heads")  # what a list says of each of its trees
LATENT_FEATURES = 3  # what a latent model says of a tree


@runtime_checkable
class LatentScorer(Protocol):
    """A latent model of trees, such as `DependencyModel`."""

    def features(self, trees: ArcBank) -> FloatArray:
        """Of each tree: log-probability, the same a word, and whether it is positive."""


@dataclass(frozen=True, eq=False, repr=False)
class ArcRerankModel(SavedModel):
    """What a reranker has learnt.

    Attributes
    ----------
    column
        Where the tags of features stand: `upos` or `xpos`.
    weights : [2^bits]
        Of hashed triples of tags.
    dense : [n_list_features + 3 n_latent]
        Weights of what lists and latent models say.
    latent
        Models whose log-probabilities are features.
    parser
        What proposes trees; None where lists come from elsewhere.
    n_best
        Trees that the parser proposes.
    record
        How it was trained.
    """

    column: str
    weights: FloatArray
    dense: FloatArray
    latent: tuple[LatentScorer, ...] = ()
    parser: SavedModel | None = None
    n_best: int = 50
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.column not in COLUMNS:
            msg = f"tags stand in {describe(self.column)}, expected one of {', '.join(COLUMNS)}"
            raise ModelFormatError(msg)
        for model in self.latent:
            if not isinstance(cast("object", model), LatentScorer):
                msg = f"a latent model of a reranker has features of trees, not {describe(model)}"
                raise ModelFormatError(msg, hint="give what estimators of latent trees learn")
        for name in ("weights", "dense"):
            array = getattr(self, name)
            require_type(array, name, np.float64, 1)
            if not (np.abs(array) < LARGEST).all():  # nan neither
                msg = f"{name} has numbers that are not finite or beyond {LARGEST:g}"
                raise ModelFormatError(msg)
        if len(self.weights) < 2 or 1 << self.bits != len(self.weights):
            msg = f"{len(self.weights)} weights of hashed features, expected a power of 2"
            raise ModelFormatError(msg)
        expected = len(LIST_FEATURES) + LATENT_FEATURES * len(self.latent)
        if len(self.dense) != expected:
            msg = f"{len(self.dense)} dense weights, expected {expected}"
            raise ModelFormatError(msg)
        if not isinstance(self.n_best, int) or not 1 <= self.n_best <= MOST_TREES:
            msg = f"n_best is {describe(self.n_best)}, expected a number from 1 to {MOST_TREES:,}"
            raise ModelFormatError(msg)

    def __repr__(self) -> str:
        parser = "no parser" if self.parser is None else type(self.parser).__name__
        return f"<ArcRerankModel: {parser}, {count(len(self.latent), 'latent model')}>"

    @property
    def bits(self) -> int:
        """How many bits number the hashed features."""
        return len(self.weights).bit_length() - 1

    def to_file(self) -> FileContents:
        """Weights, then the parser and the latent models, one after the other."""
        arrays: dict[str, npt.NDArray[Any]] = {"weights": self.weights, "dense": self.dense}
        parts = []
        models = [*([] if self.parser is None else [self.parser]), *self.latent]
        for place, model in enumerate(models):
            own, said = cast("SavedModel", model).to_file()
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
            parts.append({"kind": type(model).__name__, "said": said})
        header = {
            "column": self.column, "n_best": self.n_best, "has_parser": self.parser is not None,
            "parts": parts, "record": dict(self.record),
        }  # fmt: skip
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        arrays, header = contents
        models = []
        for place, part in enumerate(header["parts"]):
            start = f"{place}."
            own = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
            if part["kind"] == cls.__name__:
                msg = "a reranker inside a reranker"
                raise ModelFormatError(msg)
            models.append(read_model(part["kind"], FileContents(own, part["said"])))
        parser = models.pop(0) if read_flag(header["has_parser"], "has_parser") else None
        return cls(
            column=header["column"], weights=arrays["weights"], dense=arrays["dense"],
            latent=tuple(models), parser=parser, n_best=header["n_best"],
            record=read_record(header["record"]),
        )  # fmt: skip
