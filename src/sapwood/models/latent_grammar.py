"""`LatentGrammar`: one object for plain PCFGs, latent-variable PCFGs and spectral ones.

Notation (SPECTRAL, section 6)
------------------------------
    m(a)            n_states[a]           number of hidden states of symbol a; all 1 for a plain
    PCFG C[a -> b c]     tensor(r)             [m(a), m(b), m(c)]
    c_inf[a -> x]   lexicon               [m(a)] per entry (row x, tag a)
    c_1[a]          root_vector(a)        [m(a)]

By Theorem 3 an ordinary L-PCFG is the special case in which these are probabilities; a spectral
model holds the same arrays up to an invertible change of basis per symbol, so they may be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, starts_of
from sapwood.corpus.transform import Symbol, Transform
from sapwood.corpus.vocabulary import Vocabulary
from sapwood.models import headers
from sapwood.models.kinds import FileContents, SavedModel
from sapwood.models.lexicon import Lexicon
from sapwood.models.tree_model import TreeModel

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree

SUM_TOLERANCE = 1e-6  # probabilities are estimated from counts: a larger gap is a broken model


@dataclass(frozen=True, eq=False)
class CoarseWeights:
    """A plain PCFG over the same symbols and rules, which prunes the charts of a latent grammar.

    Attributes
    ----------
    root : [n_symbols]
    rules : [n_rules]
    lexical : [n_entries]
    """

    root: FloatArray
    rules: FloatArray
    lexical: FloatArray


@dataclass(frozen=True, eq=False, repr=False)
class LatentGrammar(TreeModel, SavedModel):
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
    rule_rank: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        if not self.rule_rank.any():  # nothing factored, and perhaps nothing said
            object.__setattr__(self, "rule_rank", np.zeros(len(self.rules), np.int64))
        from sapwood.models.invariants import check_grammar

        check_grammar(self)

    def __repr__(self) -> str:
        method = self.record.get("method", "of unknown origin")
        return (
            f"<{type(self).__name__} ({method}): {self.n_phrases:,} phrases, {len(self.tags):,} "
            f"tags, {len(self.rules):,} rules, {len(self.lexicon.words):,} words; "
            f"{self.n_states.max(initial=1)} hidden states at most>"
        )

    # -- sizes and parts ----------------------------------------------------------------------

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols in the order of their numbers."""
        return self.phrases + self.tags

    @property
    def n_phrases(self) -> int:
        """How many symbols are phrases; tags are numbered from here on."""
        return len(self.phrases)

    @property
    def n_symbols(self) -> int:
        """Phrases and tags together."""
        return len(self.phrases) + len(self.tags)

    @property
    def is_plain(self) -> bool:
        """Whether every symbol has a single state: a plain PCFG."""
        return bool((self.n_states == 1).all())

    @cached_property
    def state_start(self) -> npt.NDArray[np.int64]:
        """Where the states of each symbol start, shape [n_symbols + 1]."""
        return starts_of(self.n_states)

    @cached_property
    def tensor_start(self) -> npt.NDArray[np.int64]:
        """Where the tensor of each rule starts, shape [n_rules + 1]."""
        m = self.n_states[self.rules]
        return starts_of(
            np.where(self.rule_rank == 0, m.prod(axis=1), self.rule_rank * m.sum(axis=1))
        )

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

    # -- samples, files ------------------------------------------------------------------------

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw trees from a probabilistic grammar."""
        from sapwood.models.sampling import sample_trees

        return sample_trees(self, n, np.random.default_rng(seed))

    def to_file(self) -> FileContents:
        """Arrays, and what is said of them."""
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
        """The grammar of a file."""
        arrays, said = contents
        phrases, tags = (headers.read_symbols(said[kind], kind) for kind in ("phrases", "tags"))
        n_states, entry_tag = arrays["n_states"], arrays["lexicon_entry_tag"]
        vocabulary = Vocabulary(
            headers.read_names(said["words"], "words"),
            headers.read_names(said["classes"], "classes"),
            headers.read_style(said["style"]),
        )
        lexicon = Lexicon(
            vocabulary,
            arrays["lexicon_row_start"],
            entry_tag,
            arrays["lexicon_weights"],
            starts_of(n_states[len(phrases) + entry_tag.astype(np.int64)]),
        )
        coarse = CoarseWeights(
            arrays.get("coarse_root", arrays["root"]),
            arrays.get("coarse_rules", arrays["rule_weights"]),
            arrays.get("coarse_lexical", arrays["lexicon_weights"]),
        )
        return cls(
            phrases, tags, n_states, arrays["root"], arrays["rules"], arrays["rule_weights"],
            lexicon, coarse, headers.read_transform(said["transform"]),
            headers.read_flag(said["is_probabilistic"], "is_probabilistic"),
            headers.read_record(said["record"]), arrays.get("rule_rank", np.empty(0, np.int64)),
        )  # fmt: skip
