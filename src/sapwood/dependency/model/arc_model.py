"""`ArcModel`: what a dependency parser has learnt: tags, which arcs, and relations, by features.

Parts of it ask one after the other: the tagger gives words their tags; the pruner leaves each word
some heads; members score trees over these arcs, each in its own way; the labels name the arcs of
the tree that is left. All of them are log-linear models of hashed features. Where there is an
encoder, a neural network, it gives the tags, leaves the heads, and has a say in the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import ModelFormatError, SapwoodError, count
from sapwood.core.model_files import FileContents, SavedModel, require_type
from sapwood.dependency.model.dependency import DependencyModel
from sapwood.dependency.model.tables import FeatureTable, TagLexicon, WordClusters
from sapwood.networks.biaffine import ArcSizes
from sapwood.networks.network import Network, Shapes

ORDERS = (1, 2)
ENCODER = "encoder"  # before the names of arrays of the encoder
LATENT = "latent."  # before the names of arrays of the latent member


class ArcMember(NamedTuple):
    """One scorer of trees.

    Attributes
    ----------
    order
        1 for single arcs, 2 for arcs with siblings and heads of heads.
    weight
        Of its posteriors in the mean.
    """

    order: int
    weight: float
    table: FeatureTable


class LatentMember(NamedTuple):
    """A model with hidden states, which weighs all trees over the arcs that members leave.

    Attributes
    ----------
    model
        In the basis of its states.
    trust
        The posteriors of the members, to this power, are its prior weights of arcs.
    weight
        Of its posteriors in the mean with those of the members.
    """

    model: DependencyModel
    trust: float
    weight: float


class EncoderMember(NamedTuple):
    """A network that reads the sentence.

    Attributes
    ----------
    weight
        Of its posteriors in the mean with those of the members.
    """

    network: Network
    weight: float


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
        Numbers of the lower-case words that are features themselves, sorted.
    lexicon
        The tags that words may have.
    clusters
        Of words, where vectors of words were given.
    tagger, pruner, labels
        Tables of weights of features.
    members
        Scorers of trees, whose posteriors are averaged.
    encoder
        A network beside them; None for none.
    latent
        A model with hidden states behind them; None for none.
    record
        How the model was made.
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
            msg = "a dependency parser without relations cannot name its arcs"
            raise ModelFormatError(msg)
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
        """Scorers of trees, the network among them."""
        return len(self.members) + (self.encoder is not None)

    def to_file(self) -> FileContents:
        """Names in the header, tables and numbers of words in arrays."""
        arrays: dict[str, npt.NDArray[Any]] = {"familiar": self.familiar}
        arrays |= {f"lexicon.{name}": array for name, array in self.lexicon._asdict().items()}
        for name in ("tagger", "pruner", "labels"):
            arrays |= getattr(self, name).to_arrays(name)
        for place, member in enumerate(self.members):
            arrays |= member.table.to_arrays(f"member{place}")
        if self.clusters is not None:
            arrays |= {f"clusters.{name}": x for name, x in self.clusters._asdict().items()}
        header = {
            "tags": [list(pair) for pair in self.tags],
            "relations": list(self.relations),
            "members": [{"order": x.order, "weight": x.weight} for x in self.members],
            "record": dict(self.record),
        }
        if self.latent is not None:
            tables, said = self.latent.model.to_file()
            arrays |= {f"{LATENT}{name}": table for name, table in tables.items()}
            facts = {"trust": self.latent.trust, "weight": self.latent.weight}
            header["latent"] = facts | {"model": said}
        if self.encoder is not None:
            arrays |= self.encoder.network.to_arrays(ENCODER)
            header["encoder"] = {"weight": self.encoder.weight}
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        arrays, header = contents
        tables = {
            name: FeatureTable.from_arrays(name, arrays) for name in ("tagger", "pruner", "labels")
        }
        members = tuple(
            ArcMember(
                int(said["order"]),
                float(said["weight"]),
                FeatureTable.from_arrays(f"member{place}", arrays),
            )
            for place, said in enumerate(header["members"])
        )
        lexicon = TagLexicon(*(arrays[f"lexicon.{name}"] for name in TagLexicon._fields))
        return cls(
            tags=tuple((_text(upos), _text(xpos)) for upos, xpos in header["tags"]),
            relations=tuple(map(_text, header["relations"])),
            familiar=arrays["familiar"],
            lexicon=lexicon,
            members=members,
            clusters=_clusters(arrays),
            latent=_latent(arrays, header.get("latent")),
            encoder=_encoder(arrays, header),
            record=dict(header.get("record", {})),
            **tables,
        )


def _latent(arrays: Mapping[str, npt.NDArray[Any]], said: Any) -> LatentMember | None:
    if said is None:
        return None
    tables = {
        name.removeprefix(LATENT): table
        for name, table in arrays.items()
        if name.startswith(LATENT)
    }
    if not isinstance(said["model"], dict):
        msg = f"the latent member is {said['model']!r}, expected an object"
        raise ModelFormatError(msg)
    model = DependencyModel.from_file(FileContents(tables, said["model"]))
    return LatentMember(model, float(said["trust"]), float(said["weight"]))


def _encoder(
    arrays: Mapping[str, npt.NDArray[Any]], header: Mapping[str, Any]
) -> EncoderMember | None:
    if "encoder" not in header:
        return None

    def shapes(found: Mapping[str, npt.NDArray[Any]], n_states: int) -> Shapes:
        sizes = ArcSizes(found["arc.U"].shape[-1], len(found["relation.U"]) - 1)
        return sizes.shapes(n_states, len(header["relations"]))

    network = Network.from_arrays(ENCODER, arrays, len(header["tags"]), shapes)
    return EncoderMember(network, float(header["encoder"]["weight"]))


def _text(name: object) -> str:
    if not isinstance(name, str) or not name:
        msg = f"{name!r} is no name of a tag or relation"
        raise ModelFormatError(msg)
    return name


def _clusters(arrays: Mapping[str, npt.NDArray[Any]]) -> WordClusters | None:
    if "clusters.words" not in arrays:
        return None
    return WordClusters(*(arrays[f"clusters.{name}"] for name in WordClusters._fields))
