"""`WordEmbedding`: eigenwords from plain text, by CCA of words and neighbours or SVD of bigrams.

Notation (Dhillon et al. 2011 and 2012; square roots as Stratos et al. 2015 have them)
-------------------------------------------------------------------------------------
    N_d        word, and the word d places behind it                        [n, n] sparse counts
    C_wc       word against neighbours: blocks N_1', N_2', .., N_1, N_2, .. [n, 2 h n]
    C_ww, C_cc how often words and neighbours occur                         diagonal
    a          1/2: all counts are taken to this power before anything else

    cca        U = C_ww^-1/2 times left singular vectors of C_ww^-1/2 C_wc C_cc^-1/2
    two-step   first CCA of the left neighbours of a word and its right ones, then of the word and
               the k best directions of both
    bigram     left singular vectors of N_1, words given the next one
    lr-mvl     two-step with all words on each side, exponentially smoothed: from vectors A, smooths
               L and R of the vectors around each position; CCA of L and R gives states; CCA of
               words and states gives a new A, and so on (Dhillon, Foster and Ungar 2011, LR-MVL)

The first three are computed from the N_d, which add up over shards; the text is read twice and is
never in memory as a whole. LR-MVL reads word numbers from a temporary file in every iteration.

Notation of smooths (Dhillon, Foster and Ungar 2011)
----------------------------------------------------
    A       vectors of words                                                        [n, k]
    L_t     smooths of the words before position t, one for each rate a, in one row    [r k]
            L_t = (1 - a) L_(t-1) + a A[w_(t-1)],   0 at the start of a sentence
    R_t     smooths of the words after position t, from the end of the sentence back    [r k]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FieldSums, FloatArray, IntArray, starts_of
from sapwood.core.errors import SapwoodError, as_items, as_sentence, require_memory
from sapwood.core.learner import Estimator, between, one_of, parameter, positional, whole
from sapwood.core.progress import Advance, step
from sapwood.corpora.eigenwords import ContextMap, Eigenwords, smooth_contexts
from sapwood.corpora.sentences import split_words
from sapwood.corpora.vocabulary import STYLES, Vocabulary, choose_vocabulary
from sapwood.execute import Engine, tree_sum
from sapwood.linalg.svd import block_svd, cca
from sapwood.lm.data.counting import TextShard, cut_text
from sapwood.lm.learn import EMBEDDING_METHODS

SHARD_LINES = 5_000  # shards depend on the text alone, so that jobs never change a vector
Text = str | Path | Iterable[Any]
Sentences = Sequence[Sequence[str]]
SMOOTHS_AT_ONCE = 2_000_000  # of the smooths of one side that are in memory at a time


class _Source:
    """Text that can be read more than once, in shards of sentences.

    What cannot be read twice is unpacked into a folder.
    """

    def __init__(self, text: Text, folder: Path) -> None:
        if isinstance(text, (str, Path)):
            text = [text]
        items = list(as_items(text, "sentences, or paths of text files"))
        self.files: list[TextShard] = []
        self.sentences: list[list[str]] = []
        if items and all(isinstance(item, (str, Path)) for item in items):
            self.files = cut_text(items, folder)
        else:
            self.sentences = [as_sentence(words) for words in items]
        self.n_bytes = sum(shard.stop - shard.start for shard in self.files)
        self.n_read = 0  # of these bytes, since `shards` was called last

    def shards(self) -> Iterator[list[list[str]]]:
        self.n_read = 0
        sentences = chain(self.sentences, self._lines())
        while shard := list(islice(sentences, SHARD_LINES)):
            yield shard

    def _lines(self) -> Iterator[list[str]]:
        for shard in self.files:
            for line in self._read(shard):
                if words := split_words(line):
                    yield words

    def _read(self, shard: TextShard) -> list[str]:
        self.n_read += shard.stop - shard.start
        return shard.read().decode().split("\n")


class NumberedText(NamedTuple):
    """The rows of the words of a text, shard by shard, in files of a temporary folder."""

    files: tuple[Path, ...]

    @classmethod
    def write(
        cls, source: _Source, engine: Engine, known: Vocabulary, folder: Path
    ) -> NumberedText:
        """Write the rows of the words of a text, so that every word is looked up once."""
        files: list[Path] = []
        with step("numbering words", total=source.n_bytes or None) as advance:
            for rows, offsets in engine.stream(vocabulary_rows, source.shards(), known):
                files.append(folder / f"{len(files)}.npz")
                np.savez(files[-1], rows=rows, offsets=offsets)
                advance(source.n_read)
        return cls(tuple(files))

    def shards(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Rows and offsets of sentences, one shard after the other."""
        for file in self.files:
            with np.load(file) as arrays:
                yield arrays["rows"].astype(np.int64), arrays["offsets"]


def _total(what: str, engine: Engine, task: Any, source: _Source, *common: Any) -> Any:
    """The sum of a task over the shards of a text, of which a few are in memory at a time."""

    def parts(advance: Advance) -> Iterator[Any]:
        for part in engine.stream(task, source.shards(), *common):
            yield part
            advance(source.n_read)

    try:
        with step(what, total=source.n_bytes or None) as advance:
            return tree_sum(parts(advance))
    except SapwoodError as error:
        if "no shards" not in str(error):
            raise
        msg = "no sentences: nothing can be learnt"
        raise SapwoodError(msg, hint="give tokenised text, one sentence per line") from error


@dataclass(frozen=True, eq=False)
class ContextCounts:
    """How often words occur, and pairs of them at each distance; `+` joins shards.

    Attributes
    ----------
    n_sentences
    words : [n]
        Rows of a vocabulary.
    pairs
        For each distance d = 1, 2, ...: sparse [n, n] counts of a word and the word d positions
        after it in the same sentence.
    """

    n_sentences: int
    words: FloatArray
    pairs: tuple[Any, ...]

    @classmethod
    def zero(cls, n_words: int, n_distances: int) -> ContextCounts:
        """The counts of an empty text."""
        none = sparse.csr_array((n_words, n_words))
        return cls(0, np.zeros(n_words), (none,) * n_distances)

    @classmethod
    def of(cls, sentences: Sentences, vocabulary: Vocabulary, n_distances: int) -> ContextCounts:
        """The counts of a shard of sentences."""
        n = len(vocabulary)
        if not sentences:
            return cls.zero(n, n_distances)
        rows, offsets = vocabulary_rows(sentences, vocabulary)
        behind = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(len(rows)) - 1
        pairs = []
        for distance in range(1, n_distances + 1):
            at = np.flatnonzero(behind >= distance)
            ones = np.ones(len(at))
            pairs.append(sparse.csr_array((ones, (rows[at], rows[at + distance])), shape=(n, n)))
        return cls(len(sentences), np.bincount(rows, minlength=n).astype(float), tuple(pairs))

    def __add__(self, other: ContextCounts) -> ContextCounts:
        pairs = tuple(a + b for a, b in zip(self.pairs, other.pairs, strict=True))
        return ContextCounts(self.n_sentences + other.n_sentences, self.words + other.words, pairs)


def vocabulary_rows(sentences: Sentences, vocabulary: Vocabulary) -> tuple[IntArray, IntArray]:
    """Vocabulary rows of all words of a shard, and the offsets of its sentences."""
    rows = np.concatenate([_rows(words, vocabulary) for words in sentences])
    return rows.astype(np.int32), starts_of([len(words) for words in sentences])


def _rows(words: Sequence[str], vocabulary: Vocabulary) -> Any:
    """Rows of the words of a sentence; a known word, as most are, takes one look-up."""
    numbers = vocabulary.numbers
    found = [numbers.get(word, -1) for word in words]
    if -1 in found or words[0][:1].isupper():
        return vocabulary.rows(list(words))
    return np.array(found, np.int64)


def count_vocabulary(sentences: Iterable[Sequence[str]]) -> Counter[tuple[str, bool]]:
    """How often each word of a shard occurs first in its sentence (True), and elsewhere."""
    first: Counter[str] = Counter()
    rest: Counter[str] = Counter()
    for words in sentences:
        first.update(words[:1])
        rest.update(words[1:])
    counts = Counter({(word, True): n for word, n in first.items()})
    counts.update({(word, False): n for word, n in rest.items()})
    return counts


@dataclass(frozen=True, eq=False)
class SmoothMoments(FieldSums):
    """Sums over the places of a text; `+` joins shards.

    Attributes
    ----------
    words : [n]
        How often each word occurs.
    left, right, across : [r k, r k]
        L' L, R' R and L' R.
    word_left, word_right : [n, r k]
        Sums of the smooths on each side of every word.
    """

    words: FloatArray
    left: FloatArray
    right: FloatArray
    across: FloatArray
    word_left: FloatArray
    word_right: FloatArray

    @classmethod
    def of(
        cls,
        shard: tuple[IntArray, IntArray],
        A: FloatArray,
        rates: tuple[float, ...],
    ) -> SmoothMoments:
        """The sums over a shard: rows of its words, and where its sentences start and end.

        Smooths of a few sentences are in memory at a time, and longer sentences are cut, so that
        memory does not grow with the text.
        """
        n, width = len(A), A.shape[1] * len(rates)
        shapes = [(n,), (width, width), (width, width), (width, width), (n, width), (n, width)]
        sums = [np.zeros(shape) for shape in shapes]
        for rows, offsets in _chunks(*shard, max(SMOOTHS_AT_ONCE // width, 1)):
            L, R = smooth_contexts(A[rows], offsets, rates)
            places = np.arange(len(rows) + 1)
            show = sparse.csr_array((np.ones(len(rows)), rows, places), shape=(len(rows), n))
            parts = (np.bincount(rows, minlength=n), L.T @ L, R.T @ R, L.T @ R, show.T @ L,
                     show.T @ R)  # fmt: skip
            sums = [total + part for total, part in zip(sums, parts, strict=True)]
        return cls(*sums)


def _chunks(rows: IntArray, offsets: IntArray, size: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Groups of whole sentences of a limited number of words; longer sentences in pieces."""
    cuts = np.concatenate([np.arange(a, b, size) for a, b in pairwise(offsets)] + [offsets[-1:]])
    first = 0
    while first < len(cuts) - 1:
        last = max(int(np.searchsorted(cuts, cuts[first] + size, "right")) - 1, first + 1)
        yield rows[cuts[first] : cuts[last]], cuts[first : last + 1] - cuts[first]
        first = last


RATES = (1.0, 0.5, 0.1)  # of LR-MVL's smooths: the nearest word alone, a few, and many words
# Measured constants: `benchmarks/memory_estimates.py` prints estimates and measured peaks. A text
# of n words has about PAIRS * n^PAIRS_POWER different pairs of words at each distance.
PAIRS, PAIRS_POWER, PAIR_BYTES, VECTOR_COPIES, LIBRARIES = 8, 0.8, 60, 5, 150e6
RIDGE = 1e-6  # ridge of the covariances of states, relative to their mean
OVERSAMPLE, N_POWER = 20, 5


class WordEmbedding(Estimator):
    """Vectors of words from plain text, in closed form.

    Attributes
    ----------
    model_
        `Eigenwords`.
    """

    dimension: int = positional(
        default=50, domain=whole(1, 2000), words="Dimension of a vector.", kw_only=False
    )
    method: str = parameter(
        "cca",
        one_of(EMBEDDING_METHODS),
        "`cca` of words and neighbours; `two-step`, in which neighbours are first reduced to what "
        "left and right ones predict of each other, for rare words; `bigram` for the plain SVD of "
        "pairs of words; `lr-mvl` for iterated two-step CCA with exponentially smoothed contexts "
        "of all words on each side, which also gives vectors of words in their context.",
    )
    window: int = parameter(
        2, whole(1, 10), "Neighbours on each side; `bigram` has one, `lr-mvl` all of them."
    )
    iterations: int = parameter(5, whole(1, 100), "Passes of `lr-mvl` over the text.")
    min_count: int = parameter(
        5, whole(1), "Words seen less often share the vectors of their classes."
    )
    power: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "Counts are taken to this power first, so that common pairs do not outweigh all others; 1 "
        "for none. `lr-mvl` has no such counts.",
    )
    style: str = parameter(
        "generic",
        one_of(STYLES),
        "Classes of unknown words: by English suffixes, or by the last letters of any language.",
    )
    seed: int = parameter(0, whole(0), "Seed of the random projections.")

    def fit(self, text: Text) -> Self:
        """Learn vectors of the words of a text.

        Parameters
        ----------
        text
            Lists of words, one per sentence; or one or several paths of files with a tokenised
            sentence a line (also `.gz`, `.xz`, `.bz2`, `.zst`), globs, folders of text, or `-`.
        """
        distances = {"cca": self.window, "two-step": 2 * self.window, "bigram": 1, "lr-mvl": 1}
        n_distances = distances[self.method]
        with TemporaryDirectory(prefix="sapwood-") as folder:
            source, engine = _Source(text, Path(folder)), self._engine()
            words = _total("counting words", engine, count_vocabulary, source)
            known = choose_vocabulary(words, self.min_count, self.style)
            n_tokens = sum(words.values())
            require_memory(
                self.memory_needed(n_tokens, len(known), n_distances),
                f"learning {self.dimension:,} dimensions of {len(known):,} words",
                "use a smaller --dimension or --window, a larger --min-count, or less text",
            )
            counts = _total(
                "counting neighbours", engine, ContextCounts.of, source, known, n_distances
            )
            if not counts.pairs[0].nnz:
                msg = "no sentence has two words: nothing stands beside anything"
                raise SapwoodError(msg, hint="give tokenised text, one sentence per line")
            context = None
            if self.method == "lr-mvl":
                numbered = NumberedText.write(source, engine, known, Path(folder))
                found, context = self._iterate(numbered, counts.words, engine)
            else:
                found = self._decompose(counts)
        record = {
            "method": self.method, "sentences": counts.n_sentences,
            "words": int(counts.words.sum()), "window": self.window, "min_count": self.min_count,
            "seed": self.seed,
        }  # fmt: skip
        vectors, strengths = (part.astype(np.float32) for part in found)
        self.model_ = Eigenwords(known, vectors, strengths, record, context)
        return self

    def memory_needed(self, n_tokens: int, n_words: int, n_distances: int) -> float:
        """Bytes of the counts of pairs of words, and of the vectors that are decomposed, about."""
        pairs = n_distances * min(PAIRS * float(n_tokens) ** PAIRS_POWER, float(n_words) ** 2)
        n_contexts = {"bigram": 1, "lr-mvl": 4 * len(RATES)}.get(self.method, 2 * self.window)
        vectors = n_words * (1 + n_contexts) * (self.dimension + OVERSAMPLE)
        return float(LIBRARIES + PAIR_BYTES * pairs + 8 * VECTOR_COPIES * vectors)

    def _iterate(
        self, text: NumberedText, words: FloatArray, engine: Engine
    ) -> tuple[Directions, ContextMap]:
        """LR-MVL: from random vectors of words, states by context and words by state in turn."""
        n, k = len(words), self.dimension
        _check_dimension(k, n)
        start = np.random.default_rng(self.seed).standard_normal((n, k))
        found = Directions(_centre(start, words), np.ones(k))
        with step("LR-MVL", total=self.iterations + 1, unit="pass") as advance:
            for done in range(1, self.iterations + 1):
                vectors = found.vectors
                sums = tree_sum(engine.stream(SmoothMoments.of, text.shards(), vectors, RATES))
                found = word_directions(sums, state_maps(sums, k), k)
                advance(done)
            # contexts are smooths of the last vectors, which have not been read with yet
            sums = tree_sum(engine.stream(SmoothMoments.of, text.shards(), found.vectors, RATES))
            advance(self.iterations + 1)
        left, right = (each.astype(np.float32) for each in state_maps(sums, k))
        return found, ContextMap(np.array(RATES, np.float32), left, right)

    def _decompose(self, counts: ContextCounts) -> Directions:
        damped = [_damp(pairs, self.power) for pairs in counts.pairs]
        rng = np.random.default_rng(self.seed)
        if self.method == "bigram":
            ones = np.ones(len(counts.words))
            return _directions(damped[0], ones, ones, self.dimension, rng)
        words = counts.words**self.power
        left, right = ([pairs.T for pairs in damped[: self.window]], damped[: self.window])
        if self.method == "cca":
            context = sparse.hstack([*left, *right], format="csr")
            sums = np.tile(words, 2 * self.window)
            return _directions(context, words, sums, self.dimension, rng)
        return _two_steps(damped, words, self.window, self.dimension, rng)


class Directions(NamedTuple):
    """Vectors of words, and singular values."""

    vectors: FloatArray
    strengths: FloatArray


def state_maps(sums: SmoothMoments, k: int) -> tuple[FloatArray, FloatArray]:
    """Maps from the smooths of each side to states of unit variance, by CCA of both sides."""
    found = cca(sums.across, sums.left, sums.right, k, ridge=RIDGE)
    scale = np.sqrt(sums.words.sum())  # moments are sums, not means
    return scale * found.left, scale * found.right


def word_directions(sums: SmoothMoments, maps: tuple[FloatArray, FloatArray], k: int) -> Directions:
    """CCA of words and the states of both sides; vectors have mean 0 and unit variance.

    So a smooth, which starts at 0, does not tell how far the start of the sentence is.
    """
    left, right = maps
    states = np.hstack([sums.word_left @ left, sums.word_right @ right])
    across = left.T @ sums.across @ right
    second = np.block([
        [left.T @ sums.left @ left, across], [across.T, right.T @ sums.right @ right],
    ])  # fmt: skip
    found = cca(states, sums.words, second, k, ridge=RIDGE)
    vectors = np.sqrt(sums.words.sum()) * found.left
    return Directions(_centre(vectors, sums.words), found.correlations)


def _centre(vectors: FloatArray, words: FloatArray) -> FloatArray:
    """Vectors minus their mean over the words of the text."""
    return np.asarray(vectors - words @ vectors / words.sum())


def _check_dimension(k: int, most: int) -> None:
    if k > most:
        msg = f"dimension {k}; the text allows at most {most:,}, its words and classes"
        raise SapwoodError(msg, hint="ask for fewer, give more text, or lower min_count")


def _directions(
    M: Any,
    rows: FloatArray,
    columns: FloatArray,
    k: int,
    rng: np.random.Generator,
) -> Directions:
    """C_ww^-1/2 U of the scaled matrix, by random projection."""
    scaled = _scale(M, rows, columns)
    n, d = scaled.shape
    _check_dimension(k, min(n, d))
    found = block_svd(
        lambda X: scaled @ X, lambda Y: scaled.T @ Y,
        np.array([0, n]), np.array([0, d]), k, rng=rng, oversample=OVERSAMPLE, n_power=N_POWER,
    )  # fmt: skip
    # signs are arbitrary: the largest entry of each direction is made positive
    signs = np.sign(found.U[np.abs(found.U).argmax(axis=0), np.arange(k)])
    return Directions(_inverse_root(rows)[:, None] * found.U * signs, found.s[0])


def _two_steps(
    damped: list[Any], words: FloatArray, window: int, k: int, rng: np.random.Generator
) -> Directions:
    """Left against right neighbours, then words against the best directions of both."""
    # the neighbour i to the left and the one j to the right are i + j apart
    blocks = [[damped[i + j + 1] for j in range(window)] for i in range(window)]
    sums = np.tile(words, window)
    both = sparse.block_array(blocks, format="csr")
    left = _directions(both, sums, sums, k, rng).vectors
    right = _directions(both.T.tocsr(), sums, sums, k, rng).vectors
    from_left = sparse.hstack([pairs.T for pairs in damped[:window]], format="csr") @ left
    from_right = sparse.hstack(damped[:window], format="csr") @ right
    states = np.hstack([from_left, from_right])  # C_ws, [n, 2k]
    across = left.T @ (both @ right)
    second = np.block([
        [_second_moment(damped, words, left, window), across],
        [across.T, _second_moment([pairs.T for pairs in damped], words, right, window)],
    ])  # fmt: skip
    found = cca(states, words, second, k, ridge=1e-6)
    return Directions(found.left, found.correlations)


def _second_moment(
    damped: list[Any], words: FloatArray, phi: FloatArray, window: int
) -> FloatArray:
    """Phi' C phi for neighbours on one side, the farther of two before the nearer."""
    parts = np.split(phi, window)
    total = sum(part.T @ (words[:, None] * part) for part in parts)
    for i in range(window):
        for j in range(i):
            cross = parts[i].T @ (damped[i - j - 1] @ parts[j])
            total = total + cross + cross.T
    return np.asarray(total)


def _damp(pairs: Any, power: float) -> Any:
    out = pairs.tocsr(copy=True)
    out.data **= power
    return out


def _scale(M: Any, rows: FloatArray, columns: FloatArray) -> Any:
    left, right = (sparse.diags_array(_inverse_root(x)) for x in (rows, columns))
    return (left @ M @ right).tocsr()


def _inverse_root(variance: FloatArray) -> FloatArray:
    return np.where(variance > 0, np.where(variance > 0, variance, 1.0) ** -0.5, 0.0)
