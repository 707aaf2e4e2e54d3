"""`ArcModel`, the parameters of a dependency parser, and `ArcRerankModel` with a reranker's.

The parts of a parser work one after the other: the tagger tags; the pruner keeps a few candidate
heads of each word; members score trees over these arcs; the label model names the arcs of the
chosen tree. All of them are log-linear models of hashed features. Where there is an encoder, a
neural network, it also tags, it prunes, and its posteriors are averaged with those of the others.

    reranker:  score(tree) = dense . (list and latent features)  +  sum of weights of tag triples
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, Self, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import ModelFormatError, SapwoodError, count, describe
from sapwood.core.model_files import (
    FileContents,
    SavedModel,
    read_flag,
    read_model,
    read_record,
    require_type,
)
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.model.dependency import TAG_COLUMNS, DependencyModel
from sapwood.dependency.model.tables import FeatureTable, TagLexicon, WordClusters
from sapwood.networks.network import Network
from sapwood.networks.scores import ArcSizes

ORDERS = (1, 2)
_ENCODER, _LATENT = "encoder", "latent."  # prefixes of the names of arrays


class ArcMember(NamedTuple):
    """A scorer of trees."""

    order: int  # 1 for single arcs, 2 for arcs with siblings and heads of heads
    weight: float  # ensemble weight of its posteriors
    table: FeatureTable


class LatentMember(NamedTuple):
    """A model with hidden states, which weighs all trees over the arcs that were kept."""

    model: DependencyModel  # in the basis of its states
    trust: float  # the power of the members' posteriors that is its prior of arcs
    weight: float  # ensemble weight of its posteriors


class EncoderMember(NamedTuple):
    """A network that reads the sentence."""

    network: Network
    weight: float  # ensemble weight of its posteriors


@dataclass(frozen=True, eq=False, repr=False)
class ArcModel(SavedModel):
    """A dependency parser's parameters; `sapwood.ArcParser` parses with them.

    Attributes
    ----------
    tags
        Pairs of universal tag and tag of the treebank.
    relations
        Names of relations.
    familiar
        Hashes of the lower-case words that are features themselves, sorted.
    lexicon
        The tags that words may have.
    clusters
        Clusters of words, where vectors of words were given.
    tagger, pruner, labels
        Weights of features.
    members, encoder, latent
        Scorers of trees, whose posteriors are averaged; None for no network, no hidden states.
    record
        How the model was trained.
    """

    tags: tuple[tuple[str, str], ...]
    relations: tuple[str, ...]
    familiar: npt.NDArray[np.uint32]
    lexicon: TagLexicon
    tagger: FeatureTable
    pruner: FeatureTable
    labels: FeatureTable
    members: tuple[ArcMember, ...]
    clusters: WordClusters | None = None
    record: Mapping[str, Any] = field(default_factory=dict)
    latent: LatentMember | None = None
    encoder: EncoderMember | None = None

    def __post_init__(self) -> None:
        if not self.members:
            msg = "a dependency parser without members has nothing to score trees with"
            raise SapwoodError(msg, hint="give at least one")
        if not self.relations:
            raise ModelFormatError("a dependency parser without relations cannot name its arcs")
        self.lexicon.check(len(self.tags))
        if self.clusters is not None:
            self.clusters.check()
        require_type(self.familiar, "familiar", np.uint32, 1)
        for member in self.members:
            if member.order not in ORDERS or not 0 < member.weight < np.inf:
                msg = f"a member of order {member.order} and weight {member.weight}, expected "
                raise SapwoodError(msg + "order 1 or 2 and a positive weight")
        if self.latent is not None and not (
            self.latent.model.is_probabilistic
            and 0 <= self.latent.trust < np.inf
            and 0 < self.latent.weight <= 1
        ):
            msg = "a latent member has probabilities, a trust of 0 or more and a weight up to 1"
            raise ModelFormatError(msg)
        if self.encoder is not None and not 0 < self.encoder.weight < 1:
            msg = f"an encoder of weight {self.encoder.weight}, expected one between 0 and 1"
            raise ModelFormatError(msg)
        if self.labels.spare < len(self.relations):
            msg = f"{count(len(self.relations), 'relation')}, but room for {self.labels.spare}"
            raise SapwoodError(msg)

    def __repr__(self) -> str:
        method = self.record.get("method", "of unknown origin")
        sizes = [
            count(self.n_members, "member"), count(len(self.tags), "tag"),
            count(len(self.relations), "relation"),
        ]  # fmt: skip
        return f"<ArcModel ({method}): {', '.join(sizes)}>"

    @property
    def n_members(self) -> int:
        """Number of scorers of trees, including the network."""
        return len(self.members) + (self.encoder is not None)

    def to_file(self) -> FileContents:
        """Names in the header, tables and hashes of words in arrays."""
        arrays: dict[str, npt.NDArray[Any]] = {"familiar": self.familiar}
        arrays |= {f"lexicon.{name}": array for name, array in self.lexicon._asdict().items()}
        for name in ("tagger", "pruner", "labels"):
            arrays |= getattr(self, name).to_arrays(name)
        for index, member in enumerate(self.members):
            arrays |= member.table.to_arrays(f"member{index}")
        if self.clusters is not None:
            arrays |= {f"clusters.{name}": x for name, x in self.clusters._asdict().items()}
        header = {
            "tags": [list(pair) for pair in self.tags],
            "relations": list(self.relations),
            "members": [{"order": x.order, "weight": x.weight} for x in self.members],
            "record": dict(self.record),
        }
        if self.latent is not None:
            tables, model = self.latent.model.to_file()
            arrays |= {f"{_LATENT}{name}": table for name, table in tables.items()}
            settings = {"trust": self.latent.trust, "weight": self.latent.weight}
            header["latent"] = settings | {"model": model}
        if self.encoder is not None:
            arrays |= self.encoder.network.to_arrays(_ENCODER)
            header["encoder"] = {"weight": self.encoder.weight}
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        arrays, header = contents
        tables = {
            name: FeatureTable.from_arrays(name, arrays) for name in ("tagger", "pruner", "labels")
        }
        members = []
        for index, member in enumerate(header["members"]):
            table = FeatureTable.from_arrays(f"member{index}", arrays)
            members.append(ArcMember(int(member["order"]), float(member["weight"]), table))
        lexicon = TagLexicon(*(arrays[f"lexicon.{name}"] for name in TagLexicon._fields))
        return cls(
            tags=tuple((_text(upos), _text(xpos)) for upos, xpos in header["tags"]),
            relations=tuple(map(_text, header["relations"])),
            familiar=arrays["familiar"],
            lexicon=lexicon,
            members=tuple(members),
            clusters=_clusters(arrays),
            latent=_latent(arrays, header.get("latent")),
            encoder=_encoder(arrays, header),
            record=dict(header.get("record", {})),
            **tables,
        )


def _latent(arrays: Mapping[str, npt.NDArray[Any]], header: Any) -> LatentMember | None:
    if header is None:
        return None
    if not isinstance(header["model"], dict):
        raise ModelFormatError(f"the latent member is {header['model']!r}, expected an object")
    tables = {k.removeprefix(_LATENT): x for k, x in arrays.items() if k.startswith(_LATENT)}
    model = DependencyModel.from_file(FileContents(tables, header["model"]))
    return LatentMember(model, float(header["trust"]), float(header["weight"]))


def _encoder(
    arrays: Mapping[str, npt.NDArray[Any]], header: Mapping[str, Any]
) -> EncoderMember | None:
    if "encoder" not in header:
        return None
    network = Network.from_arrays(
        _ENCODER,
        arrays,
        len(header["tags"]),
        lambda found, n_states: ArcSizes(
            found["arc.U"].shape[-1], len(found["relation.U"]) - 1
        ).shapes(n_states, len(header["relations"])),
    )
    return EncoderMember(network, float(header["encoder"]["weight"]))


def _text(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ModelFormatError(f"{name!r} is no name of a tag or relation")
    return name


def _clusters(arrays: Mapping[str, npt.NDArray[Any]]) -> WordClusters | None:
    if "clusters.words" not in arrays:
        return None
    return WordClusters(*(arrays[f"clusters.{name}"] for name in WordClusters._fields))


MAX_LIST_TREES = 100_000
MAX_WEIGHT = 1e100  # sums of such weights are still numbers
LIST_FEATURES = ("score", "expected heads")  # of each tree of a list
LATENT_FEATURES = 3  # of a tree, by a latent model


@runtime_checkable
class LatentScorer(Protocol):
    """A latent model of trees, such as `DependencyModel`."""

    def features(self, trees: ArcBank) -> FloatArray:
        """Log-probability of each tree, the same a word, and whether its weight is positive."""


@dataclass(frozen=True, eq=False, repr=False)
class ArcRerankModel(SavedModel):
    """The parameters of a reranker, with its parser and latent models.

    Attributes
    ----------
    column
        The column of the tags of features: `upos` or `xpos`.
    weights : [2^bits]
        Weights of hashed triples of tags.
    dense : [n_list_features + 3 n_latent]
        Weights of features of lists and latent models.
    latent
        Models whose log-probabilities are features.
    parser, n_best
        The parser that proposes trees, and their number; None where lists come from elsewhere.
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
        if self.column not in TAG_COLUMNS:
            msg = f"tags stand in {describe(self.column)}, expected one of {', '.join(TAG_COLUMNS)}"
            raise ModelFormatError(msg)
        for model in self.latent:
            if not isinstance(cast("object", model), LatentScorer):
                msg = f"a latent model of a reranker has features of trees, not {describe(model)}"
                raise ModelFormatError(msg, hint="give what estimators of latent trees learn")
        for name in ("weights", "dense"):
            array = getattr(self, name)
            require_type(array, name, np.float64, 1)
            if not (np.abs(array) < MAX_WEIGHT).all():  # nan neither
                msg = f"{name} has numbers that are not finite or beyond {MAX_WEIGHT:g}"
                raise ModelFormatError(msg)
        if len(self.weights) < 2 or 1 << self.bits != len(self.weights):
            msg = f"{len(self.weights)} weights of hashed features, expected a power of 2"
            raise ModelFormatError(msg)
        expected = len(LIST_FEATURES) + LATENT_FEATURES * len(self.latent)
        if len(self.dense) != expected:
            raise ModelFormatError(f"{len(self.dense)} dense weights, expected {expected}")
        if not isinstance(self.n_best, int) or not 1 <= self.n_best <= MAX_LIST_TREES:
            msg = (
                f"n_best is {describe(self.n_best)}, expected a number from 1 to {MAX_LIST_TREES:,}"
            )
            raise ModelFormatError(msg)

    def __repr__(self) -> str:
        parser = "no parser" if self.parser is None else type(self.parser).__name__
        return f"<ArcRerankModel: {parser}, {count(len(self.latent), 'latent model')}>"

    @property
    def bits(self) -> int:
        """Logarithm of the number of hashed features."""
        return len(self.weights).bit_length() - 1

    def to_file(self) -> FileContents:
        """Weights, then the parser and the latent models, one after the other."""
        arrays: dict[str, npt.NDArray[Any]] = {"weights": self.weights, "dense": self.dense}
        parts = []
        models = [*([] if self.parser is None else [self.parser]), *self.latent]
        for index, model in enumerate(models):
            own, header = cast("SavedModel", model).to_file()
            arrays |= {f"{index}.{name}": array for name, array in own.items()}
            parts.append({"kind": type(model).__name__, "said": header})
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
        for index, part in enumerate(header["parts"]):
            start = f"{index}."
            own = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
            if part["kind"] == cls.__name__:
                raise ModelFormatError("a reranker inside a reranker")
            models.append(read_model(part["kind"], FileContents(own, part["said"])))
        parser = models.pop(0) if read_flag(header["has_parser"], "has_parser") else None
        return cls(
            column=header["column"], weights=arrays["weights"], dense=arrays["dense"],
            latent=tuple(models), parser=parser, n_best=header["n_best"],
            record=read_record(header["record"]),
        )  # fmt: skip
