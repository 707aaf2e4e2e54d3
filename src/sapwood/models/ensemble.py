"""`Ensemble`: several grammars that parse together.

Each member gives every labelled span a posterior; the ensemble's is their weighted mean. Members
with the same symbols, rules and plain grammar form a *group* and share one pruned chart; a network,
which needs no chart, is one by itself. Groups may differ in how trees were made binary: between
groups only brackets are compared, which are the treebank's own labels over words.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.arguments import as_count, describe
from sapwood.arrays import FloatArray
from sapwood.corpus.transform import Symbol, Transform
from sapwood.errors import SapwoodError, SapwoodTypeError, SapwoodWarning, join_words
from sapwood.models.kinds import FileContents, SavedModel, read_flag, read_model
from sapwood.models.latent_grammar import FeatureGrammar, LatentGrammar
from sapwood.models.packing import pack_weights, unpack_weights
from sapwood.models.span_network import SpanNetwork
from sapwood.models.tree_model import TreeModel

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree


COMBINATIONS = ("mean", "product")
# what members that share a chart have in common, in files
_SHARED = {
    "rules", "lexicon_row_start", "lexicon_entry_tag", "coarse_root", "coarse_rules",
    "coarse_lexical",
}  # fmt: skip
_SHARED_WORDS = ("phrases", "tags", "words", "classes", "style", "transform")


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(TreeModel, SavedModel):
    """Latent grammars with weights, and other models of trees.

    Attributes
    ----------
    members
        The grammars. Trees are looked for in the chart of the first one's group, or, where there
        is a network, among all trees over the words.
    weights : [n_members]
        How much each counts; they sum to 1.
    combine
        `mean` averages posteriors; `product` takes their geometric mean within a group.
    sharpness
        a in p^a / (p^a + (1 - p)^a), which turns the mean of posteriors into a probability: a mean
        of several is too cautious. 1 leaves it as it is.
    grammars
        The members, or the plain grammars behind them; trees are made of the first one's symbols.
    """

    members: tuple[Member, ...]
    weights: FloatArray
    combine: str = "mean"
    sharpness: float = 1.0
    record: Mapping[str, Any] = field(default_factory=dict)
    grammars: tuple[LatentGrammar, ...] = field(init=False)

    def __post_init__(self) -> None:
        _check(self)
        vars(self)["grammars"] = tuple(grammar_of(member) for member in self.members)

    @classmethod
    def of(cls, members: Sequence[Member], weights: Sequence[float] | None = None) -> Ensemble:
        """An ensemble of grammars, equal in weight unless weights are given.

        Examples
        --------
        >>> import sapwood as sw
        >>> bank = sw.bundled_treebank("dev")
        >>> two = sw.Ensemble.of([sw.PCFG().fit(bank).model_, sw.SpectralLPCFG(4).fit(bank).model_])
        >>> two.weights
        array([0.5, 0.5])
        """
        given = np.ones(len(members)) if weights is None else np.asarray(weights)
        if not np.issubdtype(given.dtype, np.number):
            msg = f"the weights of an ensemble are numbers, not {describe(weights)}"
            raise SapwoodTypeError(msg)
        total = given.sum()
        return cls(tuple(members), given / total if total > 0 else given)

    def __repr__(self) -> str:
        members = ", ".join(
            f"{member.record.get('method', 'unnamed')} {weight:.2f}"
            for member, weight in zip(self.members, self.weights, strict=True)
        )
        return f"<Ensemble of {len(self.members)}: {members}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from sapwood.corpus.markup import table_html

        rows = {
            f"{place} {member.record.get('method', 'unnamed')}": f"{weight:.0%}"
            for place, (member, weight) in enumerate(
                zip(self.members, self.weights.tolist(), strict=True), 1
            )
        }
        return table_html(f"Ensemble of {len(self.members)}, with weights", rows)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Symbols of the first grammar."""
        return self.grammars[0].symbols

    @property
    def transform(self) -> Transform:
        """How treebank trees become trees of the first grammar."""
        return self.grammars[0].transform

    @property
    def is_probabilistic(self) -> bool:
        """Whether all members hold probabilities."""
        return has_probabilities(self)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Members that share a chart, as places in `members`; the first one's group first."""
        groups: dict[tuple[int, int], list[int]] = {}
        for place, member in enumerate(self.members):
            apart = place if isinstance(member, SpanNetwork) else -1
            groups.setdefault((self.likes[place], apart), []).append(place)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def likes(self) -> tuple[int, ...]:
        """Of each member, the first one whose plain grammar is the same."""
        likes: list[int] = []
        for place, grammar in enumerate(self.grammars):
            first = (k for k in dict.fromkeys(likes) if shares_chart(self.grammars[k], grammar))
            likes.append(next(first, place))
        return tuple(likes)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw trees, each from a member with probabilities that is picked by its weight.

        Members without probabilities of trees (spectral, crf, encoder) are left out, with a
        warning that names them; `generative_part` gives the others.
        """
        part = generative_part(self)
        if part is not self:
            warnings.warn(describe_draw(self, part), SapwoodWarning, stacklevel=2)
            return part.sample(n, seed=seed)
        rng = np.random.default_rng(seed)
        picked = rng.choice(
            len(self.members), size=as_count(n, "the number of trees"), p=self.weights
        )
        drawn = [
            iter(grammar.sample(int((picked == k).sum()), seed=rng))
            for k, grammar in enumerate(self.grammars)
        ]
        return [next(drawn[k]) for k in picked]

    def to_file(self) -> FileContents:
        """The members one after the other; what some of them have in common comes once.

        Weights of members with hidden states and of features take 16 bits a number, see
        `sapwood.models.packing`: their rounding is far below what members disagree about.
        """
        contents = [member.to_file() for member in self.members]
        arrays: dict[str, npt.NDArray[Any]] = {"weights": self.weights}
        members = []
        for place, member in enumerate(self.members):
            (own, said), like = contents[place], self.likes[place]
            own = _packed(member, own)
            if like != place:
                shared = _SHARED & contents[like].arrays.keys()
                own = {k: v for k, v in own.items() if k not in shared}
                said = {k: v for k, v in said.items() if k not in _SHARED_WORDS}
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
            members.append({"kind": type(member).__name__, "like": like} | said)
        header = {
            "members": members, "combine": self.combine, "sharpness": self.sharpness,
            "record": dict(self.record),
        }  # fmt: skip
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """The ensemble of a file."""
        arrays, header = contents
        members = []
        for place, description in enumerate(header["members"]):
            own, said, like = _arrays_of(arrays, place), description, description["like"]
            if like != place:
                shared, words = _arrays_of(arrays, like), header["members"][like]
                own = {k: v for k, v in shared.items() if k in _SHARED} | own
                said = {k: words[k] for k in _SHARED_WORDS} | said
            kind = said.get("kind", "LatentGrammar")  # version 0.1 does not say
            members.append(read_model(kind, FileContents(_unpacked(own, said), said)))
        return cls(
            tuple(members), arrays["weights"], header["combine"], header.get("sharpness", 1.0),
            header["record"],
        )  # fmt: skip


def _packed(member: Member, own: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a member as a file of an ensemble has them."""
    if isinstance(member, FeatureGrammar):
        return own | {"feature_weights": _halves(member.feature_weights)}
    if not isinstance(member, LatentGrammar) or member.is_plain:
        return own
    whole = {k: v for k, v in own.items() if k not in ("rule_weights", "lexicon_weights")}
    return whole | pack_weights(member)


def _unpacked(own: dict[str, npt.NDArray[Any]], said: dict[str, Any]) -> dict[str, Any]:
    """The same as models have them; files of version 0.1 have single precision."""
    if "feature_weights" in own:
        own = own | {"feature_weights": own["feature_weights"].astype(np.float32, copy=False)}
    if "rule_codes" in own:
        is_probabilistic = read_flag(said["is_probabilistic"], "is_probabilistic")
        weights = unpack_weights(own, len(said["phrases"]), is_probabilistic=is_probabilistic)
        return own | weights
    return own | {"rule_weights": own["rule_weights"].astype(np.float64, copy=False)}


def as_written(member: Member) -> Member:
    """A member with its weights rounded as in a file of an ensemble.

    What is graded is then what will be loaded.
    """
    if isinstance(member, FeatureGrammar):
        return replace(member, feature_weights=_halves(member.feature_weights).astype(np.float32))
    if not isinstance(member, LatentGrammar) or member.is_plain:
        return member
    arrays = member.to_file().arrays | pack_weights(member)
    found = unpack_weights(arrays, member.n_phrases, is_probabilistic=member.is_probabilistic)
    lexicon = replace(member.lexicon, weights=found["lexicon_weights"])
    return replace(member, rule_weights=found["rule_weights"], lexicon=lexicon)


def _halves(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float16]:
    most = np.finfo(np.float16).max
    return np.clip(weights, -most, most).astype(np.float16)


def _arrays_of(arrays: Mapping[str, npt.NDArray[Any]], place: object) -> dict[str, Any]:
    """The arrays of one member of an ensemble's file."""
    start = f"{place}."
    return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}


Member = LatentGrammar | FeatureGrammar | SpanNetwork
Model = Member | Ensemble


def grammar_of(member: Member) -> LatentGrammar:
    """The grammar that a member is, or the plain one behind it."""
    return member if isinstance(member, LatentGrammar) else member.grammar


def members_of(model: Model) -> tuple[Member, ...]:
    """The members of an ensemble, or the one that a model is."""
    return model.members if isinstance(model, Ensemble) else (model,)


def grammars_of(model: TreeModel) -> tuple[LatentGrammar, ...]:
    """The grammars of all members, or the one that a model is or has."""
    assert isinstance(model, Model)
    return model.grammars if isinstance(model, Ensemble) else (grammar_of(model),)


def has_probabilities(model: Model) -> bool:
    """Whether weights of trees and sentences are probabilities; those of spectral models are not.

    A `FeatureGrammar` and a `SpanNetwork` have those of their plain grammars.
    """
    return all(grammar.is_probabilistic for grammar in grammars_of(model))


def generative_part(model: Model) -> LatentGrammar | Ensemble:
    """The members of a model that define a probability of every tree, with their weights.

    Trees can be drawn from these alone. A model all of whose members are such is returned itself.
    Where the ensemble gives none of them any weight, they are equal in weight.
    """
    members = members_of(model)
    usable = [isinstance(one, LatentGrammar) and one.is_probabilistic for one in members]
    if not any(usable):
        names = dict.fromkeys(method_of(member) for member in members)
        have = "has" if len(names) == 1 else "have"
        msg = f"trees are drawn by their probabilities, and {join_words(names)} {have} none"
        raise SapwoodError(msg, hint="use a model of --method pcfg, em, pivot or cluster")
    if not isinstance(model, Ensemble):
        assert isinstance(model, LatentGrammar)
        return model
    if all(usable):
        return model
    kept = [place for place, is_usable in enumerate(usable) if is_usable]
    weights = model.weights[kept].tolist()
    return Ensemble.of([members[k] for k in kept], weights if sum(weights) > 0 else None)


def describe_draw(model: Ensemble, part: LatentGrammar | Ensemble) -> str:
    """Which members trees are drawn from, and which cannot give any, for messages."""
    kept = members_of(part)
    weights = part.weights.tolist() if isinstance(part, Ensemble) else [1.0]
    shares = (f"{method_of(m)} ({w:.0%})" for m, w in zip(kept, weights, strict=True))
    without = [one for one in model.members if all(one is not other for other in kept)]
    others = join_words(dict.fromkeys(method_of(member) for member in without))
    return (
        f"trees are drawn from {join_words(shares)}, the members with probabilities of trees; "
        f"left out: {others}"
    )


def method_of(member: Member) -> str:
    """The name of the method that a member was learnt by."""
    return str(member.record.get("method", "an unnamed model"))


def shares_chart(one: LatentGrammar, other: LatentGrammar) -> bool:
    """Whether two grammars prune alike: same transform, symbols, rules, words, plain grammar."""
    if one.transform != other.transform:
        return False
    words, other_words = one.lexicon.vocabulary, other.lexicon.vocabulary
    if one.coarse is other.coarse and words is other_words:
        return True
    arrays = (
        (one.rules, other.rules),
        (one.coarse.root, other.coarse.root),
        (one.coarse.rules, other.coarse.rules),
        (one.coarse.lexical, other.coarse.lexical),
        (one.lexicon.row_start, other.lexicon.row_start),
        (one.lexicon.entry_tag, other.lexicon.entry_tag),
    )
    return (
        one.phrases == other.phrases
        and one.tags == other.tags
        and words == other_words
        and all(np.array_equal(a, b) for a, b in arrays)
    )


MOST_SHARPNESS = 100.0  # a power of posteriors that still leaves numbers


def _check_member(member: object) -> None:
    if not isinstance(member, Member):
        msg = f"members of an ensemble are grammars, not {describe(member)}"
        raise SapwoodTypeError(msg, hint="give what estimators hold as model_")


def _check(ensemble: Ensemble) -> None:
    n = len(ensemble.members)
    for member in ensemble.members:
        _check_member(member)
    if n == 0:
        msg = "an ensemble needs at least one grammar"
        raise SapwoodError(msg)
    weights = ensemble.weights
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        msg = f"an ensemble of {n} grammars needs {n} weights of 0 or more, not {weights.tolist()}"
        raise SapwoodError(msg)
    if abs(weights.sum() - 1.0) > 1e-6:
        msg = f"the weights of an ensemble sum to 1, not to {weights.sum():g}"
        raise SapwoodError(msg, hint="Ensemble.of(members, weights) divides them by their sum")
    if not 0.0 < ensemble.sharpness <= MOST_SHARPNESS:
        msg = f"sharpness must be above 0 and at most {MOST_SHARPNESS:g}, not {ensemble.sharpness}"
        raise SapwoodError(msg)
    if ensemble.combine not in COMBINATIONS:
        msg = f"combine must be one of {', '.join(COMBINATIONS)}, not {ensemble.combine!r}"
        raise SapwoodError(msg)
