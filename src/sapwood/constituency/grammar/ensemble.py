"""`Ensemble`: several grammars that parse together.

Each member gives every labelled span a posterior; the ensemble's is their weighted mean. Members
with the same symbols, rules and plain grammar form a *group* and share one pruned chart; a member
that needs no chart is a group by itself. Groups may differ in how trees were made binary: between
groups only brackets are compared, which are the treebank's own labels over words.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol, Transform
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.grammar.member import Can, Member, TreeModel
from sapwood.constituency.grammar.packing import unpack_weights
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import (
    SapwoodError,
    SapwoodTypeError,
    SapwoodWarning,
    as_count,
    describe,
    join_words,
)
from sapwood.core.model_files import FileContents, SavedModel, read_flag, read_model

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree


COMBINATIONS = ("mean", "product")
# arrays that members with a common chart share in files
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
        The models that are mixed. Trees are looked for in the chart of the first one's group, or,
        where a member needs no chart, among all trees over the words.
    weights : [n_members]
        The weight of each member; they sum to 1.
    combine
        `mean` averages posteriors; `product` takes their geometric mean within a group.
    sharpness
        a in p^a / (p^a + (1 - p)^a), which turns the mean of posteriors into a probability: a mean
        of several is too cautious. 1 leaves it as it is.
    grammars
        The members' chart grammars; trees are made of the first one's symbols.
    """

    members: tuple[Member, ...]
    weights: FloatArray
    combine: str = "mean"
    sharpness: float = 1.0
    record: Mapping[str, Any] = field(default_factory=dict)
    grammars: tuple[LatentGrammar, ...] = field(init=False)
    is_ensemble: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self)
        vars(self)["grammars"] = tuple(member.chart_grammar for member in self.members)

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
            raise SapwoodTypeError(
                f"the weights of an ensemble are numbers, not {describe(weights)}"
            )
        total = given.sum()
        return cls(tuple(members), given / total if total > 0 else given)

    def __repr__(self) -> str:
        members = ", ".join(
            f"{member.record.get('method', 'unnamed')} {weight:.2f}"
            for member, weight in zip(self.members, self.weights, strict=True)
        )
        return f"<Ensemble of {len(self.members)}: {members}>"

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        from sapwood.corpora.draw import table_html

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
    def can(self) -> Can:
        """What the ensemble can do: some members draw trees, and all must hold probabilities."""
        each = [member.can for member in self.members]
        return Can(
            sample=any(can.sample for can in each),
            probabilities=all(can.probabilities for can in each),
            rules=any(member.has_rules for member in self.members),
            derivations=len(each) == 1 and each[0].derivations,
        )

    @property
    def is_probabilistic(self) -> bool:
        """Whether all members hold probabilities."""
        return self.can.probabilities

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Indices of members that share a chart; the first member's group first."""
        groups: dict[tuple[int, int], list[int]] = {}
        for index, member in enumerate(self.members):
            apart = -1 if member.has_rules else index
            groups.setdefault((self.chart_owners[index], apart), []).append(index)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def chart_owners(self) -> tuple[int, ...]:
        """For each member, the index of the first one whose plain grammar is the same."""
        owners: list[int] = []
        for index, grammar in enumerate(self.grammars):
            first = (k for k in dict.fromkeys(owners) if shares_chart(self.grammars[k], grammar))
            owners.append(next(first, index))
        return tuple(owners)

    def as_ensemble(self) -> Ensemble:
        """The ensemble itself, as for a single member."""
        return self

    def heaviest_groups(self) -> Ensemble:
        """The first groups, up to more than half of the weight; their charts are what takes time.

        The other members are left out.
        """
        kept: list[int] = []
        for group in self.groups:
            kept += group
            if self.weights[kept].sum() > 0.5:
                break
        weights = self.weights[kept]
        members = tuple(self.members[k] for k in kept)
        return replace(self, members=members, weights=weights / weights.sum())

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
        """File contents: the members one after the other, with shared arrays stored once.

        Weights of members with hidden states and of features take 16 bits a number, see
        `sapwood.constituency.grammar.packing`: members disagree about far more than the rounding.
        """
        contents = [member.to_file() for member in self.members]
        arrays: dict[str, npt.NDArray[Any]] = {"weights": self.weights}
        members = []
        for place, member in enumerate(self.members):
            (own, description), owner = contents[place], self.chart_owners[place]
            own = member.pack(own)
            if owner != place:
                shared = _SHARED & contents[owner].arrays.keys()
                own = {k: v for k, v in own.items() if k not in shared}
                description = {k: v for k, v in description.items() if k not in _SHARED_WORDS}
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
            members.append({"kind": type(member).__name__, "like": owner} | description)
        header = {
            "members": members, "combine": self.combine, "sharpness": self.sharpness,
            "record": dict(self.record),
        }  # fmt: skip
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Make an ensemble from the contents of a file."""
        arrays, header = contents
        members = []
        for place, stored in enumerate(header["members"]):
            own, owner, description = _arrays_of(arrays, place), stored["like"], stored
            if owner != place:
                shared, words = _arrays_of(arrays, owner), header["members"][owner]
                own = {k: v for k, v in shared.items() if k in _SHARED} | own
                description = {k: words[k] for k in _SHARED_WORDS} | description
            kind = description.get("kind", "LatentGrammar")  # files of version 0.1 have no kind
            own = _unpacked(own, description)
            members.append(read_model(kind, FileContents(own, description)))
        return cls(
            tuple(members), arrays["weights"], header["combine"], header.get("sharpness", 1.0),
            header["record"],
        )  # fmt: skip


def _unpacked(own: dict[str, npt.NDArray[Any]], description: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a member as models have them; files of version 0.1 have single precision."""
    if "feature_weights" in own:
        own = own | {"feature_weights": own["feature_weights"].astype(np.float32, copy=False)}
    if "rule_codes" in own:
        is_probabilistic = read_flag(description["is_probabilistic"], "is_probabilistic")
        weights = unpack_weights(
            own, len(description["phrases"]), is_probabilistic=is_probabilistic
        )
        return own | weights
    return own | {"rule_weights": own["rule_weights"].astype(np.float64, copy=False)}


def _arrays_of(arrays: Mapping[str, npt.NDArray[Any]], place: object) -> dict[str, Any]:
    """The arrays of one member of an ensemble's file."""
    start = f"{place}."
    return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}


Model = Member | Ensemble


def generative_part(model: Model) -> Model:
    """The members of a model that define a probability of every tree, with their weights.

    Trees can be drawn from these alone. A model all of whose members are such is returned itself.
    Where the ensemble gives none of them any weight, they are equal in weight.
    """
    usable = [member.can.sample for member in model.members]
    if not any(usable):
        names = dict.fromkeys(member.method for member in model.members)
        have = "has" if len(names) == 1 else "have"
        raise SapwoodError(
            f"trees are drawn by their probabilities, and {join_words(names)} {have} none",
            hint="use a model of --method pcfg, em, pivot or cluster",
        )
    if all(usable):
        return model
    kept = [index for index, is_usable in enumerate(usable) if is_usable]
    weights = model.weights[kept].tolist()
    return Ensemble.of([model.members[k] for k in kept], weights if sum(weights) > 0 else None)


def describe_draw(model: Model, part: Model) -> str:
    """A message: the members that trees are drawn from, and the members that are left out."""
    weighted = zip(part.members, part.weights.tolist(), strict=True)
    drawn = (f"{member.method} ({weight:.0%})" for member, weight in weighted)
    without = [one for one in model.members if all(one is not other for other in part.members)]
    others = join_words(dict.fromkeys(member.method for member in without))
    return (
        f"trees are drawn from {join_words(drawn)}, the members with probabilities of trees; "
        f"left out: {others}"
    )


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


MOST_SHARPNESS = 100.0  # larger powers of posteriors underflow


def _check(ensemble: Ensemble) -> None:
    members: tuple[object, ...] = ensemble.members
    if not members:
        raise SapwoodError("an ensemble needs at least one grammar")
    strange = [describe(member) for member in members if not isinstance(member, Member)]
    if strange:
        raise SapwoodTypeError(
            f"members of an ensemble are grammars, not {strange[0]}",
            hint="give what estimators hold as model_",
        )
    n, weights = len(members), ensemble.weights
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise SapwoodError(
            f"an ensemble of {n} grammars needs {n} weights of 0 or more, not {weights.tolist()}"
        )
    if abs(weights.sum() - 1.0) > 1e-6:
        raise SapwoodError(
            f"the weights of an ensemble sum to 1, not to {weights.sum():g}",
            hint="Ensemble.of(members, weights) divides them by their sum",
        )
    if not 0.0 < ensemble.sharpness <= MOST_SHARPNESS:
        raise SapwoodError(
            f"sharpness must be above 0 and at most {MOST_SHARPNESS:g}, not {ensemble.sharpness}"
        )
    if ensemble.combine not in COMBINATIONS:
        raise SapwoodError(
            f"combine must be one of {', '.join(COMBINATIONS)}, not {ensemble.combine!r}"
        )
