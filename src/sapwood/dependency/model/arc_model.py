"""`ArcModel`, the parameters of a dependency parser, and `ArcRerankModel` with a reranker's.

The parts of a parser work one after the other: the tagger tags; the pruner keeps a few candidate
heads of each word; members score trees over these arcs; the label model names the arcs of the
chosen tree. All of them are log-linear models of hashed features. Where there is an encoder, a
neural network, it also tags, it prunes, and its posteriors are averaged with those of the others.

Files name the words and properties of a template by their letters (`PLACES`, `PROPERTIES`), so that
a later version may order columns differently. Files of versions up to 0.2 have column numbers
instead, which are read with the letters of that time.

    reranker:  score(tree) = dense . (list and latent features)  +  sum of weights of tag triples
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from sapwood.corpora.vocabulary import N_WORD_PROPERTIES, PROPERTIES, index_among
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.kernels.arc_layout import (
    BETWEEN,
    N_ATOMS,
    N_BETWEEN,
    PART_KINDS,
    PLACES,
    Templates,
)
from sapwood.dependency.model.compact import (
    decode_tags,
    decode_weights,
    encode_tags,
    encode_weights,
)
from sapwood.dependency.model.dependency import TAG_COLUMNS, DependencyModel
from sapwood.networks.network import Network, Shapes
from sapwood.networks.scores import ArcSizes

ORDERS = (1, 2)
_ENCODER, _LATENT = "encoder", "latent."  # prefixes of the names of arrays
# types and numbers of axes of the arrays of a table of features, as its file has them
_TABLE_TYPES: dict[str, tuple[npt.DTypeLike, int]] = {
    "bounds": (np.int32, 1), "values": (np.float16, 1), "places": (np.uint32, 1),
    "letters": (np.uint8, 3), "atoms": (np.int32, 3),
}  # fmt: skip
# types of arrays of numbers of words and tags
_NUMBER_TYPES: dict[str, tuple[npt.DTypeLike, int]] = {
    "familiar": (np.uint32, 1), "lexicon.words": (np.uint32, 1), "lexicon.starts": (np.int32, 1),
    "lexicon.candidates": (np.int32, 1),
}  # fmt: skip
_CLUSTER_TYPES: dict[str, tuple[npt.DTypeLike, int]] = {
    "clusters.words": (np.uint32, 1), "clusters.cluster": (np.int32, 2),
}  # fmt: skip
# The letters that column numbers in files of versions up to 0.2 count; these must never change.
PLACES_OF_NUMBERS, PROPERTIES_OF_NUMBERS = "hmslrfeot", "FL12345abcdHWXPCKJ"
_BETWEEN_LETTER, _UNUSED = ord("b"), 0  # in place of the letter of a word
N_CLUSTERINGS = 2
MAX_NETWORKS = 100
MAX_TABLE_SIZE = 1 << 26  # 256 MB, four times the largest table that is learnt
DENSE_FRACTION = 1 / 3  # of nonzero weights: above it, indices would take more room than zeros


class FeatureTable(NamedTuple):
    """Weights of the features that some templates make.

    Attributes
    ----------
    weights
        A power of two of them, and `spare` more; all are float16 numbers, as in files.
    """

    templates: Templates
    weights: npt.NDArray[np.float32]
    spare: int = 0

    def to_arrays(self, name: str, *, is_compact: bool = False) -> dict[str, npt.NDArray[Any]]:
        """The arrays of a file; sparse if most weights are zero."""
        arrays: dict[str, npt.NDArray[Any]] = {
            f"{name}.letters": _letters_of(self.templates.atoms, PLACES, PROPERTIES),
            f"{name}.bounds": self.templates.bounds,
            f"{name}.size": np.array([len(self.weights), self.spare], np.int64),
        }
        if is_compact:
            return arrays | encode_weights(name, self.weights)
        values, places = self.weights.astype(np.float16), np.flatnonzero(self.weights)
        if len(places) < DENSE_FRACTION * len(values):
            arrays[f"{name}.places"] = places.astype(np.uint32)
            values = values[places]
        return arrays | {f"{name}.values": values}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The table of a file, which may be damaged."""
        _require_types(arrays, {f"{name}.{part}": kind for part, kind in _TABLE_TYPES.items()})
        bounds = arrays[f"{name}.bounds"]
        atoms = _atoms_of_file(name, arrays, bounds)
        size, spare = (int(number) for number in arrays[f"{name}.size"])
        n_hashed = size - spare
        is_power = n_hashed >= 16 and not n_hashed & (n_hashed - 1)
        if not is_power or n_hashed > MAX_TABLE_SIZE or not 0 <= spare <= MAX_TABLE_SIZE:
            expected = f"expected a power of two from 16 to {MAX_TABLE_SIZE:,}"
            raise ModelFormatError(f"{name} has {n_hashed} weights and {spare} more, {expected}")
        if f"{name}.codes" in arrays:
            weights = decode_weights(name, arrays, size)
            return cls(Templates(atoms, np.array(bounds)), weights, spare)
        values = arrays[f"{name}.values"].astype(np.float32)
        if not np.isfinite(values).all():
            raise ModelFormatError(f"{name} has weights that are not finite")
        places = arrays.get(f"{name}.places")
        if places is not None:
            if len(places) != len(values) or (len(places) and places.max() >= size):
                msg = f"{name} has {len(values)} weights for {len(places)} places below {size}"
                raise ModelFormatError(msg)
            values, some = np.zeros(size, np.float32), values
            values[places] = some
        if len(values) != size:
            raise ModelFormatError(f"{name} has {len(values)} weights, expected {size}")
        return cls(Templates(atoms, np.array(bounds)), values, spare)


def _require_types(
    arrays: Mapping[str, npt.NDArray[Any]], types: Mapping[str, tuple[npt.DTypeLike, int]]
) -> None:
    """Refuse arrays of other types or numbers of axes; arrays may be absent."""
    for name, (kind, n_axes) in types.items():
        if name in arrays:
            require_type(arrays[name], name, kind, n_axes)


def _letters_of(
    atoms: npt.NDArray[np.int32], places: str, properties: str
) -> npt.NDArray[np.uint8]:
    """Letters of a word, its shift by 0 to 4, and letters of a property; shape [n, N_ATOMS, 3].

    Properties of the material between two words are digits. Unused atoms are zeros.
    """
    place, column = atoms[..., 0], atoms[..., 1]
    is_between = place == BETWEEN
    word = _codes(places)[np.where((place < 0) | is_between, 0, place // 5)]
    of_word = _codes(properties)[np.where((place < 0) | is_between, 0, column)]
    letters = np.stack(
        [
            np.where(is_between, _BETWEEN_LETTER, word),
            np.where(is_between, 0, place % 5),
            np.where(is_between, ord("0") + column, of_word),
        ],
        axis=-1,
    )
    letters[place < 0] = _UNUSED
    return letters.astype(np.uint8)


def _atoms_of_file(
    name: str, arrays: Mapping[str, npt.NDArray[Any]], bounds: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Atoms as kernels read them, from letters or, in older files, from column numbers."""
    if f"{name}.letters" in arrays:
        letters = arrays[f"{name}.letters"]
        if letters.shape[1:] != (N_ATOMS, 3):
            expected = f"expected {N_ATOMS} x 3 for each template"
            raise ModelFormatError(f"{name}.letters has the shape {letters.shape}, {expected}")
    else:
        numbers = arrays[f"{name}.atoms"]
        _check_templates(name, numbers, bounds)
        letters = _letters_of(numbers, PLACES_OF_NUMBERS, PROPERTIES_OF_NUMBERS)
    word, shift, of_word = (letters[..., k].astype(np.int32) for k in range(3))
    is_unused, is_between = word == _UNUSED, word == _BETWEEN_LETTER
    row, column = _index_of_codes(PLACES)[word], _index_of_codes(PROPERTIES)[of_word]
    is_unknown = (row < 0) | (column < 0) | (shift > 4)
    if (is_unknown & ~is_unused & ~is_between).any():
        first = bytes(letters[is_unknown & ~is_unused & ~is_between][0])
        message = f"{name} has a template of {first!r}, expected a word of {PLACES}, a shift up to "
        raise ModelFormatError(f"{message}4, and a property of {PROPERTIES}")
    place = np.where(is_between, BETWEEN, 5 * row + shift)
    column = np.where(is_between, of_word - ord("0"), column)
    atoms = np.where(is_unused[..., None], -1, np.stack([place, column], axis=-1)).astype(np.int32)
    _check_templates(name, atoms, bounds)
    return atoms


def _codes(letters: str) -> npt.NDArray[np.uint8]:
    return np.frombuffer(letters.encode("ascii"), np.uint8)


def _index_of_codes(letters: str) -> npt.NDArray[np.int32]:
    """Index of each letter by its code; -1 for codes that are no letters."""
    index = np.full(256, -1, np.int32)
    index[_codes(letters)] = np.arange(len(letters))
    return index


def _check_templates(
    name: str, atoms: npt.NDArray[np.int32], bounds: npt.NDArray[np.int32]
) -> None:
    """Refuse templates that would read outside a sentence: kernels do not check."""
    n = len(atoms)
    is_right: Any = atoms.shape[1:] == (N_ATOMS, 2) and len(bounds) == len(PART_KINDS) + 1
    is_right = is_right and bounds[0] == 0 and bounds[-1] == n and (np.diff(bounds) >= 0).all()
    place, column = atoms[..., 0], atoms[..., 1]
    used = place >= 0
    between = place == BETWEEN
    is_right = is_right and ((place < 5 * len(PLACES)) | between)[used].all()
    is_right = is_right and (column[used] >= 0).all() and (column[used] < N_WORD_PROPERTIES).all()
    is_right = is_right and (column[between] < N_BETWEEN).all()
    if not is_right:
        raise ModelFormatError(f"{name} has templates that no part of a sentence fits")


class WordClusters(NamedTuple):
    """Clusters of words, where vectors of words were given.

    Attributes
    ----------
    words : [n_words]
        Hashes of forms and of lower-case words, sorted.
    cluster : [n_words, N_CLUSTERINGS]
        Cluster of each word, among few and among many.
    """

    words: npt.NDArray[np.uint32]
    cluster: npt.NDArray[np.int32]

    def check(self) -> None:
        """Refuse clusters that do not go with their words."""
        arrays = {f"clusters.{name}": array for name, array in self._asdict().items()}
        _require_types(arrays, _CLUSTER_TYPES)
        is_right = self.cluster.shape == (len(self.words), N_CLUSTERINGS)
        is_right = is_right and bool((np.diff(self.words.astype(np.int64)) > 0).all())
        if not is_right or (len(self.words) and self.cluster.min() < 0):
            msg = f"clusters of shape {self.cluster.shape} for {len(self.words)} words, expected "
            raise ModelFormatError(msg + "two for each, and words in the order of their numbers")

    def of(self, forms: npt.NDArray[Any], lower: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Clusters of words, from 1 on, by their forms or else in lower case; 0 for others.

        >>> known = WordClusters(np.array([2, 5], np.uint32), np.array([[0, 3], [1, 7]], np.int32))
        >>> known.of(np.array([9, 2, 8]), np.array([5, 5, 8])).tolist()
        [[2, 8], [1, 4], [0, 0]]
        """
        index = index_among(forms, self.words)
        index = np.where(index >= 0, index, index_among(lower, self.words))
        padded = np.vstack([self.cluster + 1, np.zeros((1, N_CLUSTERINGS), np.int32)])
        return padded[index].astype(np.int64)


class TagLexicon(NamedTuple):
    """Which tags a word may have.

    Attributes
    ----------
    words : [n_words]
        Hashes of lower-case words, sorted.
    starts, candidates : [n_words + 2], ...
        Tags of unknown words first, then of each word.
    """

    words: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int32]
    candidates: npt.NDArray[np.int32]

    def types(self, words: npt.NDArray[Any]) -> npt.NDArray[np.int32]:
        """Row of each word, given by its hash; 0 for unknown ones."""
        return (index_among(words, self.words) + 1).astype(np.int32)

    def check(self, n_tags: int) -> None:
        """Refuse tags that do not exist, and words without tags; types were checked before."""
        starts, found = self.starts, self.candidates
        is_right = len(starts) == len(self.words) + 2 and starts[0] == 0
        is_right = is_right and starts[-1] == len(found) and bool((np.diff(starts) > 0).all())
        is_right = is_right and bool((np.diff(self.words.astype(np.int64)) > 0).all())
        if not is_right or found.min() < 0 or found.max() >= n_tags:
            raise ModelFormatError("the lexicon of tags does not give every word tags that exist")


class ArcMember(NamedTuple):
    """A scorer of trees."""

    order: int  # 1 for single arcs, 2 for arcs with siblings and heads of heads
    weight: float  # ensemble weight of its posteriors
    table: FeatureTable


class LatentMember(NamedTuple):
    """A model with hidden states, which weighs all trees over the arcs that were kept."""

    model: DependencyModel  # in the basis of its states
    trust: float  # its prior of arcs is the members' posteriors to this power
    weight: float  # ensemble weight of its posteriors


class EncoderMember(NamedTuple):
    """A network that reads the sentence, or several whose posteriors are averaged."""

    network: Network
    weight: float  # ensemble weight of the networks' posteriors
    others: tuple[Network, ...] = ()  # with other seeds; they read the same given vectors

    @property
    def networks(self) -> tuple[Network, ...]:
        """All networks, the first one first."""
        return self.network, *self.others


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
    is_compact
        Whether files of it are compact ones, see `sapwood.dependency.model.compact`.
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
    is_compact: bool = False

    def __post_init__(self) -> None:
        if not self.members:
            msg = "a dependency parser without members has nothing to score trees with"
            raise SapwoodError(msg, hint="give at least one")
        if not self.relations:
            raise ModelFormatError("a dependency parser without relations cannot name its arcs")
        numbers = {"familiar": self.familiar}
        numbers |= {f"lexicon.{name}": array for name, array in self.lexicon._asdict().items()}
        _require_types(numbers, _NUMBER_TYPES)
        self.lexicon.check(len(self.tags))
        if self.clusters is not None:
            self.clusters.check()
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
        """Number of scorers of trees, including the networks."""
        return len(self.members) + (0 if self.encoder is None else len(self.encoder.networks))

    def to_file(self) -> FileContents:
        """Names in the header, tables and hashes of words in arrays."""
        arrays: dict[str, npt.NDArray[Any]] = {"familiar": self.familiar}
        arrays |= {f"lexicon.{name}": array for name, array in self.lexicon._asdict().items()}
        if self.is_compact:
            starts, candidates = arrays.pop("lexicon.starts"), arrays.pop("lexicon.candidates")
            arrays |= encode_tags(starts, candidates, len(self.tags))
        tables = {name: getattr(self, name) for name in ("tagger", "pruner", "labels")}
        tables |= {f"member{index}": member.table for index, member in enumerate(self.members)}
        for name, table in tables.items():
            arrays |= table.to_arrays(name, is_compact=self.is_compact)
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
            of_networks, header["encoder"] = _encoder_entries(self.encoder)
            arrays |= of_networks
        return FileContents(arrays, header | ({"compact": True} if self.is_compact else {}))

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The model of a file."""
        arrays, header = contents
        is_compact = read_flag(header.get("compact", False), "compact")
        tables = {
            name: FeatureTable.from_arrays(name, arrays) for name in ("tagger", "pruner", "labels")
        }
        members = []
        for index, member in enumerate(header["members"]):
            table = FeatureTable.from_arrays(f"member{index}", arrays)
            members.append(ArcMember(int(member["order"]), float(member["weight"]), table))
        words = arrays["lexicon.words"]
        if is_compact:
            of_words = decode_tags(arrays, len(words) + 1, len(header["tags"]))
        else:
            of_words = arrays["lexicon.starts"], arrays["lexicon.candidates"]
        return cls(
            tags=tuple((_text(upos), _text(xpos)) for upos, xpos in header["tags"]),
            relations=tuple(map(_text, header["relations"])),
            familiar=arrays["familiar"],
            lexicon=TagLexicon(words, *of_words),
            members=tuple(members),
            clusters=_clusters(arrays),
            latent=_latent(arrays, header.get("latent")),
            encoder=_encoder(arrays, header),
            record=dict(header.get("record", {})),
            is_compact=is_compact,
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
    entry = header["encoder"]
    n_others = entry.get("others", 0)
    if not isinstance(n_others, int) or not 0 <= n_others < MAX_NETWORKS:
        msg = f"{describe(n_others)} other networks, expected a number below {MAX_NETWORKS}"
        raise ModelFormatError(msg)

    def head_shapes(found: Mapping[str, npt.NDArray[Any]], n_states: int) -> Shapes:
        sizes = ArcSizes(found["arc.U"].shape[-1], len(found["relation.U"]) - 1)
        return sizes.shapes(n_states, len(header["relations"]))

    given, networks = entry.get("given"), list[Network]()
    for k in range(1 + n_others):
        name = f"{_ENCODER}{k or ''}"
        networks.append(Network.from_arrays(name, arrays, len(header["tags"]), head_shapes, given))
        given = networks[0].given
    return EncoderMember(networks[0], float(entry["weight"]), tuple(networks[1:]))


def _encoder_entries(member: EncoderMember) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """The arrays of all networks, and the entry of the header that says how to read them.

    The vectors that all of them are given stand with the first network.
    """
    arrays = member.network.to_arrays(_ENCODER)
    entry: dict[str, Any] = {"weight": member.weight}
    for k, network in enumerate(member.others):
        arrays |= replace(network, given=None).to_arrays(f"{_ENCODER}{k + 1}")
    if member.others:
        entry["others"] = len(member.others)
    if (given := member.network.given) is not None:
        entry["given"] = given.record.as_header()
    return arrays, entry


def _text(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise ModelFormatError(f"{name!r} is no name of a tag or relation")
    return name


def _clusters(arrays: Mapping[str, npt.NDArray[Any]]) -> WordClusters | None:
    if "clusters.words" not in arrays:
        return None
    return WordClusters(*(arrays[f"clusters.{name}"] for name in WordClusters._fields))


MAX_LIST_TREES = 100_000
MAX_WEIGHT = 1e100  # sums of weights up to this are finite
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
            msg = f"tags are in the column {describe(self.column)}, expected "
            raise ModelFormatError(msg + " or ".join(TAG_COLUMNS))
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
