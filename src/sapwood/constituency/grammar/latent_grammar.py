"""`LatentGrammar`: one object for plain PCFGs, latent-variable PCFGs and spectral ones.

Notation (SPECTRAL, section 6)
------------------------------
    m(a)            n_states[a]           number of hidden states of symbol a; all 1: a plain PCFG
    C[a -> b c]     tensor(r)             [m(a), m(b), m(c)]
    x               row of the lexicon    a word, or a class of unknown words (a signature)
    c_inf[a -> x]   entry of the lexicon  [m(a)], one tag a of row x
    c_1[a]          root_vector(a)        [m(a)]

By Theorem 3 an ordinary L-PCFG is the special case in which these are probabilities; a spectral
model holds the same arrays up to an invertible change of basis per symbol, so they may be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import Symbol, Transform
from sapwood.constituency.grammar.member import Arrays, Can, Member
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import (
    FileContents,
    HeaderReader,
    read_flag,
    read_names,
    read_symbols,
    settings_reader,
)
from sapwood.corpora.vocabulary import UNKNOWN, Vocabulary, read_style

if TYPE_CHECKING:
    from sapwood.corpora.tree import Tree


@dataclass(frozen=True, eq=False, repr=False)
class Lexicon:
    """Weighted tags for every row of a vocabulary: its words, and its classes of unknown words."""

    vocabulary: Vocabulary
    row_start: npt.NDArray[np.uint32]  # shape [n_rows + 1]; where the entries of a row start
    entry_tag: npt.NDArray[np.uint32]  # shape [n_entries]; tags counted from 0
    weights: FloatArray  # weight vectors of all entries, one after the other
    # shape [n_entries + 1]; where the vector of an entry starts
    weight_start: npt.NDArray[np.int64] = field(repr=False)

    def __repr__(self) -> str:
        return f"<Lexicon: {self.vocabulary!r}, {len(self.entry_tag):,} tags of these>"

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are known."""
        return self.vocabulary.words

    @property
    def n_rows(self) -> int:
        """Number of words and classes of unknown words."""
        return len(self.row_start) - 1

    @cached_property
    def entry_row(self) -> IntArray:
        """The row of each entry, shape [n_entries]."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.row_start))

    @cached_property
    def _entry_keys(self) -> tuple[IntArray, int]:
        """A number for row and tag of each entry, rising; and the number of tags."""
        n_tags = int(self.entry_tag.max()) + 1
        return self.entry_row * n_tags + self.entry_tag, n_tags

    def find_entries(
        self, rows: npt.NDArray[np.int64], tags: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Entries of pairs of row and tag; -1 where a row is negative or does not list the tag."""
        keys, n_tags = self._entry_keys
        wanted = rows * n_tags + tags
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        hit = (keys[place] == wanted) & (rows >= 0) & (tags >= 0) & (tags < n_tags)
        return np.where(hit, place, -1)

    def entries(self, row: int) -> slice:
        """The entries of a row."""
        return slice(int(self.row_start[row]), int(self.row_start[row + 1]))


_SUM_TOLERANCE = 1e-6  # probabilities are estimated from counts: a larger gap is a broken model


@dataclass(frozen=True, eq=False)
class CoarseWeights:
    """A plain PCFG over the same symbols and rules, which prunes the charts of a latent grammar."""

    root: FloatArray  # [n_symbols]
    rules: FloatArray  # [n_rules]
    lexical: FloatArray  # [n_entries]


@dataclass(frozen=True, eq=False, repr=False)
class LatentGrammar(Member):
    """A grammar with hidden states in tensor form; see the notation of this module.

    Attributes
    ----------
    phrases, tags
        Symbols of in-terminals and of pre-terminals; tags are numbered after phrases.
    n_states : [n_symbols]
        Hidden states of each symbol.
    root : [sum of n_states]
        Root vectors, one after the other.
    rules : [n_rules, 3]
        Symbols a, b, c of each binary rule.
    rule_weights
        Tensors of all rules, one after the other, each stored as [m(a), m(b), m(c)], or as factors.
    lexicon
        Words, classes of unknown words, and their emission vectors.
    coarse
        The plain PCFG that prunes charts; for a plain PCFG its own weights.
    transform
        How treebank trees become trees of this grammar.
    is_probabilistic
        Whether all weights are probabilities (not for spectral models).
    record
        How the model was made: method, sizes, times.
    rule_rank : [n_rules]
        0 for a whole tensor; k for a sum of k outer products, stored as factors [k, m(a)],
        [k, m(b)] and [k, m(c)], as rarely seen rules of spectral models are.
    symbols, n_phrases, n_symbols
        All symbols in the order of their numbers; how many are phrases, and how many there are.
    state_start : [n_symbols + 1]
        Where the states of each symbol start.
    tensor_start : [n_rules + 1]
        Where the tensor of each rule starts.
    is_plain
        Whether every symbol has a single state: a plain PCFG.
    """

    phrases: tuple[Symbol, ...]
    tags: tuple[Symbol, ...]
    n_states: npt.NDArray[np.int64]
    root: FloatArray
    rules: npt.NDArray[np.int32]
    rule_weights: FloatArray
    lexicon: Lexicon
    coarse: CoarseWeights
    transform: Transform = field(default_factory=Transform)
    is_probabilistic: bool = True
    record: Mapping[str, Any] = field(default_factory=dict)
    rule_rank: IntArray = field(default_factory=lambda: np.empty(0, np.int64))
    symbols: tuple[Symbol, ...] = field(init=False)
    n_phrases: int = field(init=False)
    n_symbols: int = field(init=False)
    state_start: IntArray = field(init=False)
    tensor_start: IntArray = field(init=False)
    is_plain: bool = field(init=False)
    HEADER: ClassVar[dict[str, HeaderReader]] = {
        "phrases": read_symbols, "tags": read_symbols, "words": read_names, "classes": read_names,
        "style": read_style, "transform": settings_reader(Transform),
        "is_probabilistic": read_flag,
    }  # fmt: skip

    def __post_init__(self) -> None:
        symbols, own = self.phrases + self.tags, vars(self)
        own.update(symbols=symbols, n_phrases=len(self.phrases), n_symbols=len(symbols))
        if not self.rule_rank.any():  # nothing factored, or not given
            own["rule_rank"] = np.zeros(len(self.rules), np.int64)
        _check_types(self)
        _check_symbols(self)
        _check_rules(self)
        m, k = self.n_states[self.rules], self.rule_rank
        sizes = np.where(k == 0, m.prod(axis=1), k * m.sum(axis=1))
        own["state_start"] = np.append(0, np.cumsum(self.n_states))
        own["tensor_start"] = np.append(0, np.cumsum(sizes))
        own["is_plain"] = bool((self.n_states == 1).all())
        fits = self.root.shape == (self.state_start[-1],)
        _require(fits, "the root vectors do not fit the states")
        expected, found = int(self.tensor_start[-1]), self.rule_weights
        message = f"expected {expected} rule weights, found {found.size}"
        _require(found.shape == (expected,), message)
        _check_lexicon(self)
        _check_numbers(self)
        if self.is_probabilistic:
            _check_probabilities(self)

    def __repr__(self) -> str:
        method = self.record.get("method", "of unknown origin")
        return (
            f"<{type(self).__name__} ({method}): {self.n_phrases:,} phrases, {len(self.tags):,} "
            f"tags, {len(self.rules):,} rules, {len(self.lexicon.words):,} words; "
            f"{self.n_states.max(initial=1)} hidden states at most>"
        )

    def _repr_html_(self) -> str:
        """The table that a notebook shows."""
        from sapwood.corpora.draw import table_html

        order = np.argsort(-self.n_states, kind="stable")[:12].tolist()
        states = ", ".join(f"{self.symbols[a]} {self.n_states[a]}" for a in order)
        facts = {
            "method": self.record.get("method", "unknown"),
            "phrases": f"{self.n_phrases:,}",
            "tags": f"{len(self.tags):,}",
            "rules": f"{len(self.rules):,}",
            "words": f"{len(self.lexicon.words):,}",
            "hidden states": states + (", ..." if self.n_symbols > len(order) else ""),
        }
        return table_html(type(self).__name__, facts)

    @cached_property
    def likeliest_entries(self) -> IntArray:
        """The entry of the lexicon in which each tag has the highest coarse weight; -1 for none."""
        best = np.full(len(self.tags), -1, np.int64)
        order = np.argsort(self.coarse.lexical, kind="stable")
        best[self.lexicon.entry_tag[order]] = order  # of several entries the last one stays
        return best

    def tensor(self, rule: int) -> FloatArray:
        """C[a -> b c] of one rule, shape [m(a), m(b), m(c)]."""
        start, stop = self.tensor_start[rule], self.tensor_start[rule + 1]
        m, k = self.n_states[self.rules[rule]], int(self.rule_rank[rule])
        stored = self.rule_weights[start:stop]
        if k == 0:
            return stored.reshape(m)
        factors = np.split(stored, k * np.cumsum(m)[:2])
        a, b, c = (part.reshape(k, -1) for part in factors)
        return np.asarray(np.einsum("th,tp,tq->hpq", a, b, c))

    def root_vector(self, symbol: int) -> FloatArray:
        """c_1[a] of one symbol, shape [m(a)]."""
        return self.root[self.state_start[symbol] : self.state_start[symbol + 1]]

    @property
    def can(self) -> Can:
        """Abilities of the grammar; one with weights of any sign has no probabilities."""
        is_known = self.is_probabilistic
        return Can(
            sample=is_known, probabilities=is_known, rules=True,
            derivations=is_known or self.is_plain,
        )  # fmt: skip

    @property
    def chart_grammar(self) -> LatentGrammar:
        """The grammar itself, which fills its own charts."""
        return self

    @property
    def n_weights(self) -> int:
        """Number of weights of its rules."""
        return len(self.rule_weights)

    def pack(self, arrays: Arrays) -> Arrays:
        """Arrays for a file of an ensemble: weights of hidden states take 16 bits a number."""
        from sapwood.constituency.grammar.ensemble import pack_weights

        if self.is_plain:
            return arrays
        whole = {k: v for k, v in arrays.items() if k not in ("rule_weights", "lexicon_weights")}
        return whole | pack_weights(self)

    def rounded(self) -> Self:
        """The grammar with its weights rounded as a file of an ensemble stores them."""
        from sapwood.constituency.grammar.ensemble import pack_weights, unpack_weights

        if self.is_plain:
            return self
        arrays = self.to_file().arrays | pack_weights(self)
        found = unpack_weights(arrays, self.n_phrases, is_probabilistic=self.is_probabilistic)
        lexicon = replace(self.lexicon, weights=found["lexicon_weights"])
        return replace(self, rule_weights=found["rule_weights"], lexicon=lexicon)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw trees from a probabilistic grammar."""
        from sapwood.constituency.grammar.random_trees import sample_trees

        return sample_trees(self, n, np.random.default_rng(seed))

    def to_file(self) -> FileContents:
        """Contents of a file: arrays and header."""
        lexicon, coarse = self.lexicon, self.coarse
        arrays: dict[str, npt.NDArray[Any]] = {
            "n_states": self.n_states, "root": self.root, "rules": self.rules,
            "rule_weights": self.rule_weights, "lexicon_row_start": lexicon.row_start,
            "lexicon_entry_tag": lexicon.entry_tag, "lexicon_weights": lexicon.weights,
        }  # fmt: skip
        if self.rule_rank.any():
            arrays["rule_rank"] = self.rule_rank
        # A plain grammar is its own coarse grammar: do not store it twice. A spectral one of single
        # states is not: its weights may have any sign.
        if not (self.is_plain and self.is_probabilistic):
            arrays |= {
                "coarse_root": coarse.root, "coarse_rules": coarse.rules,
                "coarse_lexical": coarse.lexical,
            }  # fmt: skip
        header = {
            "phrases": [list(symbol) for symbol in self.phrases],
            "tags": [list(symbol) for symbol in self.tags],
            "words": list(lexicon.words),
            "classes": list(lexicon.vocabulary.classes),
            "style": lexicon.vocabulary.style,
            "transform": self.transform.as_dict(),
            "is_probabilistic": self.is_probabilistic,
            "record": dict(self.record),
        }
        return FileContents(arrays, header)

    @classmethod
    def from_file(cls, contents: FileContents) -> Self:
        """Make a grammar from the contents of a file."""
        arrays, header = contents
        phrases, tags = (
            tuple(Symbol(*row) for row in header[kind]) for kind in ("phrases", "tags")
        )
        n_states, entry_tag = arrays["n_states"], arrays["lexicon_entry_tag"]
        lexicon = Lexicon(
            Vocabulary(header["words"], header["classes"], header["style"]),
            arrays["lexicon_row_start"],
            entry_tag,
            arrays["lexicon_weights"],
            np.append(0, np.cumsum(n_states[len(phrases) + entry_tag.astype(np.int64)])),
        )
        coarse = CoarseWeights(
            arrays.get("coarse_root", arrays["root"]),
            arrays.get("coarse_rules", arrays["rule_weights"]),
            arrays.get("coarse_lexical", arrays["lexicon_weights"]),
        )
        grammar = cls(
            phrases, tags, n_states, arrays["root"], arrays["rules"], arrays["rule_weights"],
            lexicon, coarse, header["transform"], header["is_probabilistic"], header["record"],
            arrays.get("rule_rank", np.empty(0, np.int64)),
        )  # fmt: skip
        _check_magnitudes(grammar)
        return grammar


# Kernels trust a grammar that passes these checks: they index arrays by the grammar's numbers.
_MOST_WEIGHT = 1e30  # products of such weights over a sentence are still finite
MAX_STATES = 4096  # of a symbol; sizes of tensors then stay far below 2^63


def _require(condition: bool | np.bool_, message: str) -> None:
    if not condition:
        raise ModelFormatError(
            message, hint="the model is damaged or was built by hand: train it again"
        )


def _check_types(g: LatentGrammar) -> None:
    """Types and axes; kernels are compiled for these, and unsigned numbers are never negative."""
    lexicon, coarse = g.lexicon, g.coarse
    for name, array, kind in (
        ("n_states", g.n_states, np.int64),
        ("rules", g.rules, np.int32),
        ("rule_rank", g.rule_rank, np.int64),
        ("root", g.root, np.float64),
        ("rule_weights", g.rule_weights, np.float64),
        ("lexicon row_start", lexicon.row_start, np.uint32),
        ("lexicon entry_tag", lexicon.entry_tag, np.uint32),
        ("lexicon weight_start", lexicon.weight_start, np.int64),
        ("lexicon weights", lexicon.weights, np.float64),
        ("coarse root", coarse.root, np.float64),
        ("coarse rules", coarse.rules, np.float64),
        ("coarse lexical", coarse.lexical, np.float64),
    ):
        _require(array.dtype == kind, f"{name} is of type {array.dtype}, not {np.dtype(kind)}")
        n_axes = 2 if name == "rules" else 1
        _require(array.ndim == n_axes, f"{name} has {array.ndim} axes, not {n_axes}")


def _check_symbols(g: LatentGrammar) -> None:
    _require(len(g.tags) > 0, "the grammar has no tags, so no word can be read")
    for kind, symbols in (("phrase", g.phrases), ("tag", g.tags)):
        _require(len(set(symbols)) == len(symbols), f"a {kind} symbol is listed twice")
    is_tag = all(symbol.context is None for symbol in g.tags)
    _require(is_tag, "an intermediate symbol stands among the tags")
    fits = g.n_states.shape == (g.n_symbols,)
    _require(fits, f"n_states has {len(g.n_states)} entries for {g.n_symbols} symbols")
    _require((g.n_states >= 1).all(), "a symbol has no state")
    most = g.n_states.max()
    _require(most <= MAX_STATES, f"a symbol has {most:,} states, more than {MAX_STATES:,}")


def _check_rules(g: LatentGrammar) -> None:
    _require(g.rules.ndim == 2 and g.rules.shape[1:] == (3,), "rules must be rows of three symbols")
    if len(g.rules):
        fits = g.rules.min() >= 0 and g.rules.max() < g.n_symbols
        _require(fits, "a rule names an unknown symbol")
        _require(g.rules[:, 0].max() < g.n_phrases, "a tag has a binary rule")
        n_distinct = len(np.unique(g.rules, axis=0))
        _require(n_distinct == len(g.rules), f"{len(g.rules) - n_distinct} rules are listed twice")
    _require(g.rule_rank.shape == (len(g.rules),), "the ranks of the rules do not fit the rules")
    _require((g.rule_rank >= 0).all(), "a rule has a negative rank")
    fits = (g.rule_rank <= g.rule_weights.size).all()
    _require(fits, "a rule has a higher rank than there are rule weights")
    is_whole = not g.rule_rank.any()
    _require(is_whole or not g.is_probabilistic, "a probabilistic grammar has a factored rule")


def _check_lexicon(g: LatentGrammar) -> None:
    lexicon = g.lexicon
    n_rows = len(lexicon.words) + len(lexicon.vocabulary.classes)
    fits = lexicon.row_start.shape == (n_rows + 1,)
    _require(fits, "the lexicon's rows do not fit its words")
    _require(_rises(lexicon.row_start, len(lexicon.entry_tag)), "the lexicon's rows overlap")
    is_known = lexicon.entry_tag.max(initial=0) < len(g.tags)
    _require(is_known, "the lexicon names an unknown tag")
    sizes, starts = (
        g.n_states[g.n_phrases + lexicon.entry_tag.astype(np.int64)],
        lexicon.weight_start,
    )
    fits = starts.shape == (len(sizes) + 1,) and (np.diff(starts) == sizes).all()
    _require(fits, "the lexicon's vectors do not fit the states of their tags")
    _require(_rises(starts, len(lexicon.weights)), "the lexicon's vectors overlap")
    keys = lexicon.entry_row * len(g.tags) + lexicon.entry_tag
    _require((np.diff(keys) > 0).all(), "the tags of a word are not in rising order")
    _require(UNKNOWN in lexicon.vocabulary.classes, f"the lexicon has no class {UNKNOWN}")


def _rises(starts: npt.NDArray[Any], end: int) -> bool:
    is_rising = (np.diff(starts.astype(np.int64)) >= 0).all()
    return bool(starts[0] == 0 and starts[-1] == end and is_rising)


def _check_numbers(g: LatentGrammar) -> None:
    coarse = g.coarse
    for name, array, size in (
        ("root", coarse.root, g.n_symbols),
        ("rules", coarse.rules, len(g.rules)),
        ("lexical", coarse.lexical, len(g.lexicon.entry_tag)),
    ):
        fits = array.shape == (size,)
        _require(fits, f"expected {size} coarse {name} weights, found {array.size}")
        _require((array >= 0).all(), f"a coarse {name} weight is negative")
        _require(array.max(initial=0.0) < np.inf, f"a coarse {name} weight is not finite")
    for name, array in (("root", g.root), ("rule", g.rule_weights), ("lexical", g.lexicon.weights)):
        low, high = array.min(initial=0.0), array.max(initial=0.0)  # NaN where there is one
        _require(np.isfinite(low) and np.isfinite(high), f"a {name} weight is not a finite number")


def _check_magnitudes(g: LatentGrammar) -> None:
    """Refuse weights of a file that no learner makes and whose products are not finite."""
    plain = (g.coarse.root, g.coarse.rules, g.coarse.lexical)
    for array in (*plain, g.root, g.rule_weights, g.lexicon.weights):
        largest = max(-array.min(initial=0.0), array.max(initial=0.0))
        _require(largest <= _MOST_WEIGHT, f"a weight of {largest:g} is beyond {_MOST_WEIGHT:g}")


def _check_probabilities(g: LatentGrammar) -> None:
    """Root, rules and emissions must sum to 1 per symbol and state; an unused state to 0."""
    for name, array in (("root", g.root), ("rule", g.rule_weights), ("lexical", g.lexicon.weights)):
        least = array.min(initial=0.0)
        _require(least >= 0, f"a {name} probability is negative: {least:.3g}")
    total = g.root.sum()
    _require(abs(total - 1) < _SUM_TOLERANCE, f"root probabilities sum to {total:.6g}, not 1")
    sums = state_sums(g)
    for off in np.flatnonzero((np.abs(sums - 1) > _SUM_TOLERANCE) & (sums != 0))[:1]:
        a = int(np.searchsorted(g.state_start, off, side="right") - 1)
        name = f"{g.symbols[a]} in state {off - g.state_start[a]}"
        _require(False, f"probabilities of {name} sum to {sums[off]:.6g}, not 1")


def state_sums(g: LatentGrammar) -> npt.NDArray[np.float64]:
    """Total weight of the rules and words of each symbol and state, shape [sum of n_states]."""
    sums = np.zeros(int(g.state_start[-1]))
    if len(g.rules):
        m = g.n_states[g.rules]
        rows = np.repeat(m[:, 1] * m[:, 2], m[:, 0])  # of the tensors, one for each state of a
        before = np.cumsum(m[:, 0]) - m[:, 0]
        state = np.arange(len(rows)) + np.repeat(g.state_start[g.rules[:, 0]] - before, m[:, 0])
        by_row = np.add.reduceat(g.rule_weights, np.cumsum(rows) - rows)
        np.add.at(sums, state, by_row)
    lexicon = g.lexicon
    order = np.argsort(lexicon.entry_tag, kind="stable")
    ends = np.searchsorted(lexicon.entry_tag[order], np.arange(1, len(g.tags)))
    for a, entries in enumerate(np.split(order, ends), g.n_phrases):
        states = slice(g.state_start[a], g.state_start[a + 1])
        number = lexicon.weight_start[entries][:, None] + np.arange(g.n_states[a])
        sums[states] += lexicon.weights[number].sum(axis=0)
    return sums
