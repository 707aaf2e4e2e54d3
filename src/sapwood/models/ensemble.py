"""`Ensemble`: several latent grammars that parse together.

Each member gives every labelled span a posterior; the ensemble's is their weighted mean. Members
with the same symbols, rules and plain grammar form a *group* and share one pruned chart. Groups may
differ in how trees were made binary: between groups only brackets are compared, which are the
treebank's own labels over words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.arguments import as_count, describe
from sapwood.corpus.transform import Symbol, Transform
from sapwood.corpus.tree import Tree, is_tree
from sapwood.corpus.words import as_sentence
from sapwood.errors import SapwoodError, SapwoodTypeError
from sapwood.models import headers
from sapwood.models.kinds import FileContents, SavedModel, read_model
from sapwood.models.latent_grammar import LatentGrammar

if TYPE_CHECKING:
    from sapwood.corpus.treebank import Treebank
    from sapwood.models.score import SignedLog

FloatArray = npt.NDArray[np.float64]
COMBINATIONS = ("mean", "product")
# what members that share a chart have in common, in files
_SHARED = {
    "rules", "lexicon_row_start", "lexicon_entry_tag", "coarse_root", "coarse_rules",
    "coarse_lexical",
}  # fmt: skip
_SHARED_WORDS = ("phrases", "tags", "words", "classes", "style", "transform")


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble(SavedModel):
    """Latent grammars with weights.

    Attributes
    ----------
    members
        The grammars. Trees are looked for in the chart of the first one's group.
    weights : [n_members]
        How much each counts; they sum to 1.
    combine
        `mean` averages posteriors; `product` takes their geometric mean within a group.
    sharpness
        a in p^a / (p^a + (1 - p)^a), which turns the mean of posteriors into a probability: a mean
        of several is too cautious. 1 leaves it as it is.
    record
        How the ensemble was made.
    """

    members: tuple[LatentGrammar, ...]
    weights: FloatArray
    combine: str = "mean"
    sharpness: float = 1.0
    record: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def of(
        cls, members: Sequence[LatentGrammar], weights: Sequence[float] | None = None
    ) -> Ensemble:
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

    @property
    def first(self) -> LatentGrammar:
        """The grammar whose symbols and chart the ensemble's trees are made of."""
        return self.members[0]

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Symbols of the first grammar."""
        return self.first.symbols

    @property
    def transform(self) -> Transform:
        """How treebank trees become trees of the first grammar."""
        return self.first.transform

    @property
    def is_probabilistic(self) -> bool:
        """Whether all members hold probabilities."""
        return all(member.is_probabilistic for member in self.members)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Members that share a chart, as places in `members`; the first one's group first."""
        groups: list[list[int]] = []
        for place, member in enumerate(self.members):
            for group in groups:
                if shares_chart(self.members[group[0]], member):
                    group.append(place)
                    break
            else:
                groups.append([place])
        return tuple(tuple(group) for group in groups)

    @cached_property
    def labels(self) -> dict[str, int]:
        """Numbers of all labels and tags of all members."""
        chains = (symbol.chain for member in self.members for symbol in member.symbols)
        return {name: n for n, name in enumerate(dict.fromkeys(x for c in chains for x in c))}

    # -- probabilities, samples, files --------------------------------------------------------

    def log_prob(self, item: Tree | Sequence[str]) -> float:
        """Log of the weighted mean of the members' weights of a tree or of a sentence."""
        return self.signed_log_prob(item).log

    def signed_log_prob(self, item: Tree | Sequence[str]) -> SignedLog:
        """As `log_prob`, with the sign of the mean: -1 happens with spectral members only."""
        from sapwood.models.score import SignedLog

        item = item if is_tree(item) else as_sentence(item)
        found = [member.signed_log_prob(item) for member in self.members]
        logs, signs = np.array(found).T
        mean, sign = _log_mean(logs[:, None], signs[:, None], self.weights)
        return SignedLog(float(mean[0]), int(sign[0]))

    def log_probs(self, trees: Treebank | Sequence[Tree]) -> FloatArray:
        """Log-probabilities of many trees at once, shape [n_trees]."""
        return self.signed_log_probs(trees)[0]

    def signed_log_probs(self, trees: Treebank | Sequence[Tree]) -> tuple[FloatArray, FloatArray]:
        """As `log_probs`, with the signs of the means."""
        found = [member.signed_log_probs(trees) for member in self.members]
        logs, signs = (np.array(part) for part in zip(*found, strict=True))
        return _log_mean(logs, signs, self.weights)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw trees, each from a member picked by its weight."""
        if not self.is_probabilistic:
            wrong = next(m for m in self.members if not m.is_probabilistic)
            msg = f"a member ({wrong.record.get('method', 'unnamed')}) holds weights of either sign"
            raise SapwoodError(msg, hint="sample from an ensemble of em, cluster or pivot models")
        rng = np.random.default_rng(seed)
        picked = rng.choice(
            len(self.members), size=as_count(n, "the number of trees"), p=self.weights
        )
        drawn = [
            iter(member.sample(int((picked == k).sum()), seed=rng))
            for k, member in enumerate(self.members)
        ]
        return [next(drawn[k]) for k in picked]

    def to_file(self) -> FileContents:
        """The members one after the other; what those of a group have in common comes once.

        Tensors of latent rules are in single precision: their rounding is far below what members
        disagree about, and the file is half as large.
        """
        first = {place: group[0] for group in self.groups for place in group}
        contents = [member.to_file() for member in self.members]
        arrays: dict[str, npt.NDArray[Any]] = {"weights": self.weights}
        members = []
        for place, member in enumerate(self.members):
            (own, said), like = contents[place], first[place]
            if like != place:
                shared = _SHARED & contents[like].arrays.keys()
                own = {k: v for k, v in own.items() if k not in shared}
                said = {k: v for k, v in said.items() if k not in _SHARED_WORDS}
            if not member.is_plain:
                own["rule_weights"] = own["rule_weights"].astype(np.float32)
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
            own["rule_weights"] = own["rule_weights"].astype(np.float64, copy=False)
            kind = said.get("kind", "LatentGrammar")  # version 0.1 does not say
            members.append(read_model(kind, FileContents(own, said)))
        return cls(
            tuple(members), arrays["weights"], header["combine"], header.get("sharpness", 1.0),
            headers.read_record(header["record"]),
        )  # fmt: skip


def _arrays_of(arrays: Mapping[str, npt.NDArray[Any]], place: object) -> dict[str, Any]:
    """The arrays of one member of an ensemble's file."""
    start = f"{place}."
    return {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}


Model = LatentGrammar | Ensemble


def members_of(model: Model) -> tuple[LatentGrammar, ...]:
    """The grammars of an ensemble, or the one that a grammar is."""
    return model.members if isinstance(model, Ensemble) else (model,)


def shares_chart(one: LatentGrammar, other: LatentGrammar) -> bool:
    """Whether two grammars prune alike: same transform, symbols, rules, words, plain grammar."""
    if one.transform != other.transform or one.lexicon.style != other.lexicon.style:
        return False
    if one.coarse is other.coarse and one.lexicon.words is other.lexicon.words:
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
        and one.lexicon.words == other.lexicon.words
        and one.lexicon.classes == other.lexicon.classes
        and all(np.array_equal(a, b) for a, b in arrays)
    )


def _log_mean(
    logs: FloatArray, signs: FloatArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Log and sign of sum over k of weights[k] signs[k] exp(logs[k]); -inf and 0 where all are."""
    top = logs.max(axis=0)
    safe = np.where(np.isfinite(top), top, 0.0)
    mean = weights @ (signs * np.exp(logs - safe))
    with np.errstate(divide="ignore"):
        # what overflows is not a number, and has no sign
        return np.log(np.abs(mean)) + safe, np.sign(np.nan_to_num(mean))


def _check_member(member: object) -> None:
    if not isinstance(member, LatentGrammar):
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
    if not 0.0 < ensemble.sharpness < np.inf:
        msg = f"sharpness must be a number above 0, not {ensemble.sharpness}"
        raise SapwoodError(msg)
    if ensemble.combine not in COMBINATIONS:
        msg = f"combine must be one of {', '.join(COMBINATIONS)}, not {ensemble.combine!r}"
        raise SapwoodError(msg)
