"""`Ensemble`: several grammars that parse together.

Each member gives every labelled span a posterior; the ensemble's is their weighted mean. Members
with the same symbols, rules and plain grammar form a *group* and share one pruned chart; a member
that needs no chart is a group of its own. Groups may differ in their binarisation: between
groups only brackets are compared, which are the treebank's own labels over words.

A file of an ensemble has the weights of members with hidden states in 16 bits a number. Members
disagree about far more than the third digit of a weight, so it is rounded: a number is kept as its
sign and the logarithm of its ratio to the largest number of its block,

    w = sign * scale[block] * 2^(-code / CODES_PER_HALVING),

which is right to 1 part in 3,000 down to a ratio of 2^-32; smaller numbers become 0.

- **Probabilities**: a block is all rules and words of a symbol in a state, and its scale is not
  stored: it makes them sum to 1.
- **Weights of any sign**: a block is the tensor of a rule, or the vector of a word with a tag. Its
  scale is its largest number, in single precision.

EM leaves few rules of a state above 0: where there are many zeros, a bit a number marks them, and
only the others have codes. To pack unpacked numbers again changes nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol, Transform
from sapwood.constituency.grammar.latent_grammar import MAX_STATES, LatentGrammar
from sapwood.constituency.grammar.member import Can, Member, TreeModel
from sapwood.core.arrays import PIECE, FloatArray, IntArray, pieces, ranges, starts_of
from sapwood.core.errors import (
    ModelFormatError,
    SapwoodError,
    SapwoodTypeError,
    SapwoodWarning,
    as_count,
    describe,
    join_words,
)
from sapwood.core.model_files import FileContents, HeaderReader, SavedModel, read_flag, read_model

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree

COMBINATIONS = ("mean", "product")
# arrays that members with a common chart share in files
_SHARED = {
    "rules", "lexicon_row_start", "lexicon_entry_tag", "coarse_root", "coarse_rules",
    "coarse_lexical",
}  # fmt: skip
_HELD = "network.pretrained."  # before the names of arrays of a pretrained encoder
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
    is_compact
        Whether files of it are compact ones, see `sapwood.constituency.grammar.compact`.
    grammars
        The members' chart grammars; trees are made of the first one's symbols.
    chart_owners
        For each member, the index of the first one whose plain grammar is the same.
    groups
        Indices of members that share a chart; the first member's group first.
    """

    members: tuple[Member, ...]
    weights: FloatArray
    combine: str = "mean"
    sharpness: float = 1.0
    record: Mapping[str, Any] = field(default_factory=dict)
    is_compact: bool = False
    grammars: tuple[LatentGrammar, ...] = field(init=False)
    chart_owners: tuple[int, ...] = field(init=False)
    groups: tuple[tuple[int, ...], ...] = field(init=False)
    is_ensemble: ClassVar[bool] = True
    HEADER: ClassVar[dict[str, HeaderReader]] = {"compact": read_flag}

    def __post_init__(self) -> None:
        _check(self)
        grammars = tuple(member.chart_grammar for member in self.members)
        owners: list[int] = []
        groups: dict[tuple[int, int], list[int]] = {}
        for index, (member, grammar) in enumerate(zip(self.members, grammars, strict=True)):
            first = (k for k in dict.fromkeys(owners) if shares_chart(grammars[k], grammar))
            owners.append(next(first, index))
            apart = -1 if member.has_rules else index
            groups.setdefault((owners[-1], apart), []).append(index)
        several = tuple(tuple(group) for group in groups.values())
        vars(self).update(grammars=grammars, chart_owners=tuple(owners), groups=several)

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
        """Abilities of the ensemble: some members draw trees, and all must hold probabilities."""
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

        Weights of members with hidden states and of features take 16 bits a number; in a compact
        file all weights do, or fewer.
        """
        from sapwood.constituency.grammar.compact import pack_compact

        contents = [member.to_file() for member in self.members]
        arrays: dict[str, npt.NDArray[Any]] = {"weights": self.weights}
        members = []
        for place, member in enumerate(self.members):
            (own, description), owner = contents[place], self.chart_owners[place]
            own = member.pack(own)
            if self.is_compact:
                before = None if owner == place else self.grammars[owner]
                own = pack_compact(own, member.chart_grammar, before)
            if owner != place:
                shared = _SHARED & contents[owner].arrays.keys()
                own = {k: v for k, v in own.items() if k not in shared}
                description = {k: v for k, v in description.items() if k not in _SHARED_WORDS}
            held = [name for name in own if name.startswith(_HELD)]
            for other in range(place if held else 0):  # a pretrained encoder is stored once
                stored = _arrays_of(arrays, other)
                if all(np.array_equal(own[name], stored.get(name, ())) for name in held):
                    own = {name: array for name, array in own.items() if name not in held}
                    description = description | {"held_by": other}
                    break
            arrays |= {f"{place}.{name}": array for name, array in own.items()}
            members.append({"kind": type(member).__name__, "like": owner} | description)
        header = {
            "members": members, "combine": self.combine, "sharpness": self.sharpness,
            "record": dict(self.record),
        }  # fmt: skip
        return FileContents(arrays, header | ({"compact": True} if self.is_compact else {}))

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Make an ensemble from the contents of a file."""
        from sapwood.constituency.grammar.compact import unpack_compact

        arrays, header = contents
        is_compact = header.get("compact", False)
        members: list[Member] = []
        for place, stored in enumerate(header["members"]):
            own, owner, description = _arrays_of(arrays, place), stored["like"], stored
            if is_compact and owner > place:
                raise ModelFormatError(f"member {place} is like {owner}, which comes later")
            if owner != place:
                shared, words = _arrays_of(arrays, owner), header["members"][owner]
                own = {k: v for k, v in shared.items() if k in _SHARED} | own
                description = {k: words[k] for k in _SHARED_WORDS} | description
            if "held_by" in description:
                others = _arrays_of(arrays, description["held_by"])
                own |= {name: array for name, array in others.items() if name.startswith(_HELD)}
            kind = description.get("kind", "LatentGrammar")  # files of version 0.1 have no kind
            if is_compact:
                before = None if owner == place else members[owner].chart_grammar
                own = unpack_compact(own, description, before)
            own = _unpacked(own, description)
            members.append(read_model(kind, FileContents(own, description)))
        return cls(
            tuple(members), arrays["weights"], header["combine"], header.get("sharpness", 1.0),
            header["record"], is_compact,
        )  # fmt: skip


def _unpacked(own: dict[str, npt.NDArray[Any]], description: dict[str, Any]) -> dict[str, Any]:
    """The arrays of a member as models have them; files of version 0.1 have single precision."""
    if "feature_weights" in own:
        own = own | {"feature_weights": own["feature_weights"].astype(np.float32, copy=False)}
    if "rule_codes" in own:
        n_phrases, is_probabilistic = len(description["phrases"]), description["is_probabilistic"]
        return own | unpack_weights(own, n_phrases, is_probabilistic=is_probabilistic)
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


CODES_PER_HALVING = 1024
ZERO_CODE = 2**15 - 1  # the code of 0
MANY_ZEROS = 1 / 16  # the fraction of zeros from which on a bit a number takes less than codes
Codes = npt.NDArray[np.uint16]
Arrays = dict[str, npt.NDArray[Any]]


class _Layout(NamedTuple):
    """Sizes of the blocks of a grammar's weights, and the states that they belong to."""

    # sizes of tensors, of their rows (one for each state of the parent), and of words' vectors
    tensor: IntArray
    row: IntArray
    vector: IntArray
    # symbol and state of each row, and of the first number of words' vectors
    state_of_row: IntArray
    state_of_word: IntArray
    n_states: int

    @classmethod
    def of(
        cls, n_states: IntArray, rules: IntArray, rank: IntArray | None, tags: IntArray
    ) -> _Layout:
        """From states of symbols, rules, their ranks where some are factored, entries' symbols."""
        m, end = n_states[rules], np.cumsum(n_states)
        start = end - n_states
        whole = m.prod(axis=1)
        tensor = whole if rank is None else np.where(rank == 0, whole, rank * m.sum(axis=1))
        row, before = np.repeat(m[:, 1] * m[:, 2], m[:, 0]), np.cumsum(m[:, 0]) - m[:, 0]
        state_of_row = np.arange(len(row)) + np.repeat(start[rules[:, 0]] - before, m[:, 0])
        return cls(tensor, row, n_states[tags], state_of_row, start[tags], int(end[-1]))


def pack_weights(grammar: LatentGrammar) -> Arrays:
    """The weights of rules and words of a grammar with hidden states, packed."""
    rank = grammar.rule_rank if grammar.rule_rank.any() else None
    tags = grammar.n_phrases + grammar.lexicon.entry_tag.astype(np.int64)
    layout = _Layout.of(grammar.n_states, grammar.rules.astype(np.int64), rank, tags)
    rules, words = grammar.rule_weights, grammar.lexicon.weights
    if grammar.is_probabilistic:
        largest = np.zeros(layout.n_states)
        of_words = ranges(layout.state_of_word, layout.state_of_word + layout.vector)
        np.maximum.at(largest, layout.state_of_row, _largest(rules, layout.row))
        np.maximum.at(largest, of_words, words)
        of_rules = np.repeat(largest[layout.state_of_row], layout.row)
        return _codes("rule", rules, of_rules) | _codes("lexicon", words, largest[of_words])
    packed: Arrays = {}
    for name, numbers, sizes in (
        ("rule", rules, layout.tensor), ("lexicon", words, layout.vector)
    ):  # fmt: skip
        scale = _largest(np.abs(numbers), sizes).astype(np.float32)
        packed |= _codes(name, numbers, np.repeat(scale.astype(np.float64), sizes))
        packed[f"{name}_scale"] = scale
    return packed


def unpack_weights(
    arrays: Mapping[str, npt.NDArray[Any]], n_phrases: int, *, is_probabilistic: bool
) -> Arrays:
    """Unpack the arrays of `pack_weights`: rule weights and lexicon weights.

    Raises
    ------
    ModelFormatError, LookupError
        Where the numbers do not fit the rules and words, or are not there.
    """
    tags = n_phrases + arrays["lexicon_entry_tag"].astype(np.int64)
    rules_of = arrays["rules"].astype(np.int64)
    _check_states(arrays["n_states"], rules_of, arrays.get("rule_rank"))
    try:
        layout = _Layout.of(arrays["n_states"], rules_of, arrays.get("rule_rank"), tags)
    except (IndexError, ValueError) as error:
        raise ModelFormatError(f"packed weights cannot be placed: {error}") from error
    sizes = {"rule": layout.tensor, "lexicon": layout.vector}
    rules, words = (_Kept.of(arrays, name, int(sizes[name].sum())) for name in sizes)
    if not is_probabilistic:
        for name, part in (("rule", rules), ("lexicon", words)):
            scale = arrays[f"{name}_scale"]
            if scale.dtype != np.float32 or scale.shape != sizes[name].shape:
                raise ModelFormatError(
                    f"{scale.size} scales of type {scale.dtype}, expected {len(sizes[name])}"
                )
            part.numbers *= np.repeat(scale.astype(np.float64), part.counts(sizes[name]))
    else:
        total = np.zeros(layout.n_states)
        for part, at, states in _by_state(layout, rules, words):
            total += np.bincount(states, part.numbers[at], len(total))
        scale = 1.0 / np.where(total > 0, total, 1.0)
        for part, at, states in _by_state(layout, rules, words):
            part.numbers[at] *= scale[states]
    return {"rule_weights": rules.whole(), "lexicon_weights": words.whole()}


def _check_states(n_states: IntArray, rules: IntArray, rank: IntArray | None) -> None:
    """Refuse wrong numbers of states before arrays of such sizes are made."""
    states_fit = n_states.dtype == np.int64 and n_states.ndim == 1
    states_fit = states_fit and bool(((n_states >= 1) & (n_states <= MAX_STATES)).all())
    rules_fit = rules.ndim == 2 and rules.shape[1] == 3
    rules_fit = rules_fit and bool(((rules >= 0) & (rules < len(n_states))).all())
    ranks_fit = rank is None or rank.shape == rules.shape[:1]
    if rank is not None and ranks_fit and rank.size:
        ranks_fit = 0 <= rank.min() <= rank.max() <= MAX_STATES
    if not (states_fit and rules_fit and ranks_fit):
        raise ModelFormatError(
            "packed weights have numbers of states, rules or ranks that no grammar has"
        )


def _by_state(
    layout: _Layout, rules: _Kept, words: _Kept
) -> Iterator[tuple[_Kept, slice, IntArray]]:
    """States of all numbers that have codes, piece by piece: part, slice of it, states."""
    counts = rules.counts(layout.row)
    for rows, at in pieces(counts):
        yield rules, at, np.repeat(layout.state_of_row[rows], counts[rows])
    for vectors, at in pieces(layout.vector):
        first = layout.state_of_word[vectors]
        states = ranges(first, first + layout.vector[vectors])
        if words.places is None:
            yield words, at, states
        else:
            low, high = np.searchsorted(words.places, (at.start, at.stop))
            yield words, slice(low, high), states[words.places[low:high] - at.start]


def _largest(numbers: FloatArray, sizes: IntArray) -> FloatArray:
    """The largest number of each block; no block is empty."""
    if not len(sizes):
        return np.empty(0)
    return np.asarray(np.maximum.reduceat(numbers, starts_of(sizes)[:-1]))


def _codes(name: str, numbers: FloatArray, largest: FloatArray) -> Arrays:
    """Codes of numbers, and, where there are many zeros, the bits that mark the other numbers."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # zeros, and next to them
        steps = np.rint(CODES_PER_HALVING * np.log2(largest / np.abs(numbers)))
    kept = (numbers != 0.0) & (largest > 0.0) & (steps < ZERO_CODE)
    code = np.where(kept, np.maximum(steps, 0.0) + (numbers < 0) * (ZERO_CODE + 1.0), ZERO_CODE)
    if kept.size - kept.sum() <= MANY_ZEROS * kept.size:
        return {f"{name}_codes": code.astype(np.uint16)}
    return {f"{name}_codes": code[kept].astype(np.uint16), f"{name}_kept": np.packbits(kept)}


@dataclass
class _Kept:
    """Numbers that have codes, divided by their blocks' scales, and their indices among all."""

    numbers: FloatArray
    places: IntArray | None  # None where all have codes
    size: int

    @classmethod
    def of(cls, arrays: Mapping[str, npt.NDArray[Any]], name: str, size: int) -> _Kept:
        """Decode the arrays of `_codes` for a known number of weights."""
        codes, bits, places = arrays[f"{name}_codes"], arrays.get(f"{name}_kept"), None
        if bits is not None:
            if bits.dtype != np.uint8 or bits.shape != (-(-size // 8),):
                raise ModelFormatError(
                    f"{bits.size} marks of packed weights of type {bits.dtype}, expected {size}"
                )
            places = np.flatnonzero(np.unpackbits(bits, count=size))
        expected = size if places is None else len(places)
        if codes.dtype != np.uint16 or codes.shape != (expected,):
            raise ModelFormatError(
                f"{codes.size} packed weights of type {codes.dtype}, expected {expected}"
            )
        numbers, table = np.empty(expected), _numbers()
        for at in range(0, expected, PIECE):  # every code is a place in the table
            np.take(table, codes[at : at + PIECE], out=numbers[at : at + PIECE], mode="clip")
        return cls(numbers, places, size)

    def counts(self, sizes: IntArray) -> IntArray:
        """Number of codes in each block."""
        if self.places is None:
            return sizes
        return np.diff(np.searchsorted(self.places, starts_of(sizes)))

    def whole(self) -> FloatArray:
        """All numbers, zeros included."""
        if self.places is None:
            return self.numbers
        numbers = np.zeros(self.size)
        numbers[self.places] = self.numbers
        return numbers


@cache
def _numbers() -> FloatArray:
    """The numbers of all codes, [2^16], divided by the block's scale."""
    ratios = np.exp2(-np.arange(ZERO_CODE + 1.0) / CODES_PER_HALVING)
    ratios[ZERO_CODE] = 0.0
    return np.concatenate([ratios, -ratios])
