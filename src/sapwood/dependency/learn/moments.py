"""Learners of hidden states: shared parameters, additive statistics, memory estimates.

All statistics are sums over words, so that shards are cut by size and added in any number. The
constants of memory are measured: `benchmarks/memory_estimates.py` prints estimates and peaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FieldSums, FloatArray, IntArray
from sapwood.core.errors import (
    CorpusError,
    SapwoodError,
    as_items,
    as_sentence,
    count,
    require_memory,
)
from sapwood.core.learner import (
    FLAG,
    MAX_STATES,
    Estimator,
    at_least,
    between,
    former_callback,
    one_of,
    parameter,
    positional,
    whole,
)
from sapwood.corpora.vocabulary import STYLES, choose_vocabulary
from sapwood.dependency.data.bank import ArcBank, ArcBankLike, as_arc_bank
from sapwood.dependency.model.dependency import (
    TAG_COLUMNS,
    DependencyModel,
    Seen,
    chains,
    word_positions,
)
from sapwood.dependency.model.latent import LatentArcs, SeenTrees
from sapwood.execute import Engine, Placed
from sapwood.linalg.dependency_operators import ChainMoments, TripleMoments

SEEN = ("tags", "words", "both")
UNSEEN_COUNT = 0.5  # count of symbols that were never seen
EM_KERNEL_BYTES = 80e6  # of Numba and the compiled kernels of EM
# bytes a token; arrays of the vectors of all symbols, and of the words of a shard
_TOKEN_BYTES, _TABLE_COPIES, _VECTOR_COPIES = 100, 20, 8
SHARD_WORDS = 50_000  # shards do not depend on the jobs, so sums do not either


class WordParameters(Estimator):
    """Parameters of all learners of hidden states of words."""

    n_states: int = positional(
        default=8, domain=whole(1, MAX_STATES), words="Hidden states of a word.", kw_only=False
    )
    min_count: int = parameter(
        5, whole(1), "Words seen less often are replaced by their class of unknown words."
    )
    style: str = parameter(
        "generic",
        one_of(STYLES),
        "Classes of unknown words: by English suffixes, or by the last letters of any language.",
    )
    seed: int = parameter(0, whole(0), "Seed of the random numbers.")

    def _place(self, trees: SeenTrees, n_symbols: int) -> tuple[Engine, Placed, ArcCounts]:
        """The engine, the shards placed on it, and their counts."""
        engine = self._engine()
        placed = engine.place(trees.shards(SHARD_WORDS))
        return engine, placed, engine.total(ArcCounts.of, placed, n_symbols)


class ArcParameters(WordParameters):
    """Parameters of learners from dependency trees."""

    seen: str = parameter("tags", one_of(SEEN), "What is observed of a word: tags, words or both.")
    tag_column: str = parameter(
        "upos", one_of(TAG_COLUMNS), "The tags: universal ones, or those of the language."
    )
    valence: bool = parameter(
        False,
        FLAG,
        "Whether the numbers of a word's left and right children are observed too, so that the "
        "shape of a tree counts, unlike in the paper's model.",
    )

    def _see(self, trees: ArcBankLike) -> tuple[ArcBank, Seen]:
        """The trees, and the observed symbols of their words."""
        bank = as_arc_bank(trees)
        if not len(bank):
            raise CorpusError(
                "no dependency trees: nothing can be learnt", hint="is the file empty?"
            )
        if bank.head.min() < 0:
            raise CorpusError(
                "some sentences have no heads", hint="give trees, not plain sentences"
            )
        tags = () if self.seen == "words" else getattr(bank, f"{self.tag_column}_names")
        known = None
        if self.seen != "tags":
            pairs, n = np.unique(word_positions(bank), return_counts=True)
            counts = {(bank.words[pair // 2], bool(pair % 2)): int(times)
                      for pair, times in zip(pairs.tolist(), n, strict=True)}  # fmt: skip
            known = choose_vocabulary(counts, self.min_count, self.style)
        return bank, Seen(tags, known, self.tag_column, self.valence)

    def _model(
        self, seen: Seen, arcs: LatentArcs, bank: ArcBank, record: dict[str, Any]
    ) -> DependencyModel:
        """The model, with a symbol for unknown tags, half as frequent as a word seen once.

        Words need none: classes of unknown words are among their symbols.
        """
        if seen.tags:
            seen = seen.with_unknown_tag()
            arcs = arcs.with_unknown(UNSEEN_COUNT / (bank.n_tokens + UNSEEN_COUNT))
        return DependencyModel(seen, arcs, {"trees": len(bank), "words": bank.n_tokens} | record)


class ChainParameters(WordParameters):
    """Parameters of learners from plain sentences."""

    def _read(
        self, sentences: Iterable[Sequence[str]]
    ) -> tuple[list[list[str]], Seen, SeenTrees, dict[str, int]]:
        """Lists of words, their observed symbols, their chains, and their sizes."""
        kept = [as_sentence(words) for words in as_items(sentences, "sentences, lists of words")]
        if not kept:
            raise SapwoodError("no sentences: nothing can be learnt", hint="give lists of words")
        counts = Counter((word, not index) for words in kept for index, word in enumerate(words))
        known = choose_vocabulary(counts, self.min_count, self.style)
        trees = chains([known.rows(words) for words in kept])
        return kept, Seen((), known), trees, {"sentences": len(kept), "words": len(trees.head)}


class SpectralParameters(Estimator):
    """Parameters of spectral learners."""

    projection: str = parameter(
        "cca",
        one_of(("cca", "svd")),
        "How symbols become vectors: `cca` of words and the words at the other ends of their arcs, "
        "or `svd` of the counts themselves, in which rare words hardly count.",
    )
    power: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "The projection takes counts to this power, so that frequent pairs do not outweigh all "
        "others; 1 takes the counts themselves.",
    )
    ridge: float = parameter(
        0.3,
        at_least(0),
        "Correlations below this are left out of inverses, smoothly: with 0 the estimate is "
        "consistent; larger values lower the noise and, in the end, remove all correlations.",
    )
    shrinkage: float = parameter(
        10.0,
        at_least(0),
        "C of the smoothing: the vector of a symbol that was seen n times has the weight "
        "n / (n + C), and a vector without information has the rest.",
    )


class ArcEMParameters(Estimator):
    """Parameters and results of EM."""

    iterations: int = parameter(100, whole(1), "The most EM iterations.")
    tolerance: float = parameter(
        1e-4, at_least(0), "EM ends when an iteration gains less than this, in nats a word."
    )
    smoothing: float = parameter(
        0.01,
        between(0, 1),
        "Added to every expected count, a prior: with 0, the likelihood itself never falls; else "
        "its sum with the log of the prior.",
    )
    start: str = parameter(
        "random",
        one_of(("random", "spectral")),
        "Initial values of EM: noise, or the spectral estimate turned into probabilities.",
    )
    on_iteration: Callable[..., Any] | None = former_callback("on_iteration")

    @property
    def log_likelihoods_(self) -> list[float]:
        """The log-likelihood before the first M-step and after each."""
        return [row["log_likelihood"] for row in self.info_.history]

    @property
    def bounds_(self) -> list[float]:
        """The log-likelihood and the log of the prior, which never fall together."""
        return [row["bound"] for row in self.info_.history]

    @property
    def iterations_(self) -> int:
        """Number of M-steps that were taken."""
        return int(self.info_.iterations)


@dataclass(frozen=True, eq=False)
class ArcCounts(FieldSums):
    """Counts of symbols, and of pairs of symbols at the two ends of an arc; `+` joins shards.

    Attributes
    ----------
    n_trees
        Number of roots.
    symbols, roots : [n]
        Of all words, and of roots.
    left, right : sparse [n, n]
        Symbol of a head, symbol of its child on that side. Words with several columns of symbols
        count once for every pair of columns.
    """

    n_trees: float
    symbols: FloatArray
    roots: FloatArray
    left: Any
    right: Any

    @classmethod
    def zero(cls, n_symbols: int) -> ArcCounts:
        """The counts of no trees."""
        shape = (n_symbols, n_symbols)
        none = np.zeros(n_symbols)
        return cls(0.0, none, none, sparse.csr_array(shape), sparse.csr_array(shape))

    @classmethod
    def of(cls, trees: SeenTrees, n_symbols: int) -> ArcCounts:
        """The counts of a shard."""
        up, seen = trees.up(), trees.seen
        rows = np.arange(len(up))
        shows = [_indicator(rows, column, (len(rows), n_symbols)) for column in seen.T]
        show = sum(shows[1:], shows[0])
        arcs = _arcs(up)
        left, right = (show.T @ (side @ show) for side in arcs)
        symbols = np.asarray(show.sum(axis=0)).ravel()
        roots = np.asarray(show[up < 0].sum(axis=0)).ravel()
        return cls(float((up < 0).sum()), symbols, roots, left, right)


@dataclass(frozen=True, eq=False)
class TripleSums(FieldSums):
    """Sums over all pairs of a left and a right child of a head; `+` joins shards.

    Attributes
    ----------
    n
        Triples.
    left, right, head_left, head_right, left_right, third
        Sums of products of vectors, as in `TripleMoments`.
    by_symbol : [n_symbols, k, k]
        Left times right, for each symbol of the head; [0, k, k] if it is not needed.
    """

    n: float
    left: FloatArray
    right: FloatArray
    head_left: FloatArray
    head_right: FloatArray
    left_right: FloatArray
    third: FloatArray
    by_symbol: FloatArray

    @classmethod
    def zero(cls, k: int, n_symbols: int = 0) -> TripleSums:
        """The sums over no trees."""
        shapes = ((k,), (k,), (k, k), (k, k), (k, k), (k, k, k), (n_symbols, k, k))
        return cls(0.0, *(np.zeros(shape) for shape in shapes))

    @classmethod
    def of(cls, trees: SeenTrees, U: FloatArray, n_symbols: int = 0) -> TripleSums:
        """The sums over a shard.

        The sum over pairs is the product of two sums, so that heads with many children take no
        longer.

        Parameters
        ----------
        U : [n, k]
            Vectors of symbols; that of a word is the sum over its columns.
        n_symbols
            How many symbols to keep apart for `by_symbol`.
        """
        vectors = word_vectors(trees.seen, U)
        left_arcs, right_arcs = _arcs(trees.up())
        n_left, n_right = (np.asarray(arcs.sum(axis=1)).ravel() for arcs in (left_arcs, right_arcs))
        heads = np.flatnonzero((n_left > 0) & (n_right > 0))
        n_left, n_right = n_left[heads, None], n_right[heads, None]
        head, k = vectors[heads], U.shape[1]
        left, right = left_arcs[heads] @ vectors, right_arcs[heads] @ vectors
        pairs = (left[:, :, None] * right[:, None, :]).reshape(len(heads), k * k)
        by_symbol = np.zeros((n_symbols, k * k))
        for column in trees.seen[heads].T if n_symbols else ():
            shows = _indicator(np.arange(len(heads)), column, (len(heads), n_symbols))
            by_symbol += shows.T @ pairs
        return cls(
            float((n_left * n_right).sum()),
            (n_right * left).sum(axis=0), (n_left * right).sum(axis=0),
            head.T @ (n_right * left), head.T @ (n_left * right), left.T @ right,
            (head.T @ pairs).reshape(k, k, k), by_symbol.reshape(n_symbols, k, k),
        )  # fmt: skip

    def moments(self) -> TripleMoments:
        """Means over the triples."""
        if not self.n:
            msg = "no word has children on both sides, or both a head and children"
            hint = "give more trees, or use EMDependency, which learns from any"
            raise SapwoodError(msg, hint=hint)
        sums = (self.left, self.right, self.head_left, self.head_right, self.left_right, self.third)
        return TripleMoments(*(each / self.n for each in sums))


@dataclass(frozen=True, eq=False)
class ChainSums(FieldSums):
    """Sums over chains of three words, each a child of the previous; `+` joins shards.

    Attributes
    ----------
    n
        Triples.
    first, second_first, third_first, third
        Sums of products of vectors, as in `ChainMoments`.
    """

    n: float
    first: FloatArray
    second_first: FloatArray
    third_first: FloatArray
    third: FloatArray

    @classmethod
    def of(cls, sentences: SeenTrees, U: FloatArray) -> ChainSums:
        """The sums over a shard, whose heads are not looked at."""
        vectors, k = word_vectors(sentences.seen, U), U.shape[1]
        rows = np.arange(len(vectors))
        behind = np.repeat(sentences.offsets[1:], np.diff(sentences.offsets)) - rows
        at = rows[behind > 2]
        first, second, third = (vectors[at + step] for step in range(3))
        pairs = (third[:, :, None] * first[:, None, :]).reshape(len(at), k * k)
        return cls(
            float(len(at)), first.sum(axis=0), second.T @ first, third.T @ first,
            (second.T @ pairs).reshape(k, k, k),
        )  # fmt: skip

    @classmethod
    def of_paths(cls, trees: SeenTrees, U: FloatArray, side: int) -> ChainSums:
        """The sums over all paths of a shard: a head, its child, and a child of that on one side.

        As with `TripleSums`, the sum over the children of a word is taken first.
        """
        vectors, k, up = word_vectors(trees.seen, U), U.shape[1], trees.up()
        below = _arcs(up)[side]
        n_below = np.asarray(below.sum(axis=1)).ravel()
        at = np.flatnonzero((n_below > 0) & (up >= 0))
        n = n_below[at, None]
        first, second, third = vectors[up[at]], vectors[at], below[at] @ vectors
        pairs = (third[:, :, None] * first[:, None, :]).reshape(len(at), k * k)
        return cls(
            float(n.sum()), (n * first).sum(axis=0), (n * second).T @ first, third.T @ first,
            (second.T @ pairs).reshape(k, k, k),
        )  # fmt: skip

    def moments(self) -> ChainMoments:
        """Means over the triples."""
        if not self.n:
            msg = "no sentence has three words: states cannot be distinguished"
            raise SapwoodError(msg, hint="give more sentences, or use EMHMM, which learns from any")
        sums = (self.first, self.second_first, self.third_first, self.third)
        return ChainMoments(*(each / self.n for each in sums))


@dataclass(frozen=True, eq=False)
class StateCounts(FieldSums):
    """Expected counts of all tables: the moments of EM; `+` joins shards.

    Attributes
    ----------
    root, steps, symbols
        In the shapes of the tables of `LatentArcs`.
    log_likelihood
        Of the possible trees, under the model that the counts were taken with.
    n_impossible
        Trees of probability 0, which are in none of the other numbers.
    """

    root: FloatArray
    steps: FloatArray
    symbols: FloatArray
    log_likelihood: float
    n_impossible: float

    @classmethod
    def of(cls, trees: SeenTrees, model: LatentArcs) -> StateCounts:
        """The E-step on a shard."""
        from sapwood.dependency.kernels.latent_arcs import expect_tree_states

        two = np.ascontiguousarray(np.broadcast_to(model.steps, (2, *model.steps.shape[1:])))
        root, steps, symbols = (np.zeros(t.shape) for t in (model.root, two, model.symbols))
        logs = np.empty(trees.n_trees)
        expect_tree_states(
            *trees, model.root, two, model.symbols, root, steps, symbols, logs,
        )  # fmt: skip
        is_possible = np.isfinite(logs)
        return cls(
            root, steps if model.n_sides == 2 else steps[1:], symbols,
            float(logs[is_possible].sum()), float((~is_possible).sum()),
        )  # fmt: skip


def word_vectors(seen: Any, U: FloatArray) -> FloatArray:
    """Vectors of words: sums of the rows of their symbols, zero for words without symbols."""
    padded = np.vstack([U, np.zeros(U.shape[1])])  # the last row, -1, is that of no symbol
    return np.asarray(sum((padded[column] for column in seen.T), np.zeros((len(seen), U.shape[1]))))


def _arcs(up: IntArray) -> tuple[Any, Any]:
    """Left and right arcs as sparse matrices, [head, child]."""
    child = np.flatnonzero(up >= 0)
    is_right = child > up[child]
    shape = (len(up), len(up))
    return (
        _indicator(up[child[~is_right]], child[~is_right], shape),
        _indicator(up[child[is_right]], child[is_right], shape),
    )


def _indicator(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """A sparse matrix with a 1 in column k of row i; negative columns are skipped."""
    kept = columns >= 0
    ones = np.ones(int(kept.sum()))
    return sparse.csr_array((ones, (rows[kept], columns[kept])), shape=shape)


def require_latent_memory(
    bank: ArcBank, engine: Engine, n_symbols: int, n_states: int, kernels: float = 0.0
) -> None:
    """Refuse to learn hidden states if the tables of symbols and states do not fit into memory."""
    require_memory(
        kernels + latent_bytes(bank.n_tokens, n_symbols, n_states, engine.jobs_here),
        f"training on {count(len(bank), 'sentence')} with {count(n_states, 'state')}",
        "use fewer states (--states), give fewer sentences, or use one thread (--jobs 1)",
    )


def latent_bytes(n_tokens: int, n_symbols: int, n_states: int, jobs: int) -> float:
    """Estimated bytes for learning hidden states of words, by moments or by EM."""
    tables = n_symbols * n_states + n_states**3
    vectors = min(n_tokens, jobs * SHARD_WORDS) * n_states  # of the shards being counted
    copies = (_TABLE_COPIES + jobs) * tables + _VECTOR_COPIES * vectors
    return _TOKEN_BYTES * n_tokens + 8 * copies
