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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.arrays import starts_of
from sapwood.corpus.transform import Symbol, Transform, root_chain
from sapwood.corpus.tree import Tree, as_tree, is_tree
from sapwood.corpus.words import as_sentence
from sapwood.models import headers
from sapwood.models.kinds import FileContents, SavedModel
from sapwood.models.lexicon import Lexicon

if TYPE_CHECKING:
    from sapwood.corpus.treebank import Treebank
    from sapwood.kernels.coarse import CoarseRules
    from sapwood.kernels.forest import PairTable
    from sapwood.kernels.trees import TreeGrammar
    from sapwood.models.score import SignedLog

FloatArray = npt.NDArray[np.float64]
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
class LatentGrammar(SavedModel):
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

    # -- prepared for the kernels, made once --------------------------------------------------

    @cached_property
    def tensors(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], FloatArray]:
        """Starts, ranks and weights of the rules' tensors, for the kernels of latent grammars."""
        starts, ranks = self.tensor_start[:-1].astype(np.uint64), self.rule_rank.astype(np.uint64)
        return starts, ranks, self.rule_weights

    @cached_property
    def chains(self) -> dict[tuple[str, ...], int]:
        """Numbers of all that symbols restore to, inside a tree or on top of it."""
        found = [chain for s in self.symbols for chain in (s.chain, root_chain(s))]
        return {chain: number for number, chain in enumerate(dict.fromkeys(found))}

    @cached_property
    def tree_grammar(self) -> TreeGrammar:
        """The grammar arranged for summing over the derivations of trees."""
        from sapwood.models.score import tree_grammar

        return tree_grammar(self)

    @cached_property
    def coarse_rules(self) -> CoarseRules:
        """The plain grammar's rules arranged for the full-chart kernels."""
        from sapwood.models.rule_index import coarse_rules

        return coarse_rules(self.rules, self.coarse.rules, self.n_phrases, len(self.tags))

    @cached_property
    def pair_table(self) -> PairTable:
        """The rules arranged by their children, for building forests."""
        from sapwood.models.rule_index import pair_table

        return pair_table(self.rules, self.coarse.rules > 0, self.n_symbols)

    @cached_property
    def visits(self) -> FloatArray:
        """How often each symbol occurs in a random tree of the plain grammar, up to a factor."""
        from sapwood.models.coarse import expected_visits

        return expected_visits(self.coarse.root, self.rules, self.coarse.rules)

    @cached_property
    def entry_share(self) -> FloatArray:
        """How probable each entry's tag is for its word, relative to the word's best tag."""
        joint = (
            self.coarse.lexical * self.visits[self.n_phrases + self.lexicon.entry_tag.astype(int)]
        )
        rows = np.repeat(np.arange(self.lexicon.n_rows), np.diff(self.lexicon.row_start))
        best = np.zeros(self.lexicon.n_rows)
        np.maximum.at(best, rows, joint)
        return np.asarray(joint / np.maximum(best, 5e-324)[rows])

    def __getstate__(self) -> dict[str, Any]:
        fields = type(
            self
        ).__dataclass_fields__  # what is prepared is made again where it is needed
        return {key: value for key, value in self.__dict__.items() if key in fields}

    # -- probabilities, samples, files --------------------------------------------------------

    def log_prob(self, item: Tree | Sequence[str]) -> float:
        """Log-probability of a tree (with its words), or of a sentence (summed over its trees).

        Sums over hidden states and over all derivations: whatever binary tree of this grammar
        restores to the tree counts. The weights of a spectral model are no probabilities; this is
        the log of their absolute value, and `signed_log_prob` tells the sign too. A sentence of a
        latent grammar is summed over the whole chart; `Parser.parse` is faster and prunes.

        Parameters
        ----------
        item
            A `Tree`, cleaned or not, or a list of words.
        """
        return self.signed_log_prob(item).log

    def signed_log_prob(self, item: Tree | Sequence[str]) -> SignedLog:
        """As `log_prob`, with the sign of the weight: -1 happens with spectral models only.

        Examples
        --------
        >>> import sapwood as sw
        >>> model = sw.PCFG().fit(sw.bundled_treebank("dev")).model_
        >>> weight = model.signed_log_prob("the dog sleeps .".split())
        >>> weight.sign, weight.log == model.log_prob("the dog sleeps .".split())
        (1, True)
        """
        from sapwood.models.score import SignedLog, sentence_log_weight, tree_log_weights

        if is_tree(item):
            logs, signs = tree_log_weights(self, [as_tree(item)])
            return SignedLog(float(logs[0]), int(signs[0]))
        return sentence_log_weight(self, as_sentence(item))

    def log_probs(self, trees: Treebank | Sequence[Tree]) -> FloatArray:
        """Log-probabilities of many trees at once, shape [n_trees]; see `log_prob`."""
        return self.signed_log_probs(trees)[0]

    def signed_log_probs(self, trees: Treebank | Sequence[Tree]) -> tuple[FloatArray, FloatArray]:
        """As `log_probs`, with the signs of the weights: 1, -1, or 0 for a log of -inf."""
        from sapwood.models.score import tree_log_weights

        return tree_log_weights(self, trees)

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
            "classes": list(lexicon.classes),
            "style": lexicon.style,
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
        lexicon = Lexicon(
            headers.read_names(said["words"], "words"),
            headers.read_names(said["classes"], "classes"),
            headers.read_style(said["style"]),
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
