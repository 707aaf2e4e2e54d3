"""`WordEmbedding`: eigenwords from plain text, by CCA of words and neighbours or SVD of bigrams.

Notation (Dhillon et al. 2011 and 2012; square roots as Stratos et al. 2015 have them)
-------------------------------------------------------------------------------------
    N_d        word, and the word d places behind it                        [n, n] sparse counts
    C_wc       word against neighbours: blocks N_1', N_2', .., N_1, N_2, .. [n, 2 h n]
    C_ww, C_cc how often words and neighbours occur                         diagonal
    a          1/2: all counts are taken to this power before anything else

    cca        U = C_ww^-1/2 times left singular vectors of C_ww^-1/2 C_wc C_cc^-1/2
    two-step   first CCA of what is left of a word and what is right of it, then of the word and
               the k best directions of both
    bigram     left singular vectors of N_1, words given the next one
    lr-mvl     two-step with all words on each side, exponentially smoothed: from vectors A, smooths
               L and R of the vectors around each place; CCA of L and R gives states; CCA of words
               and states gives a new A; again and again (Dhillon, Foster and Ungar 2011, LR-MVL)

The first three are made of the N_d, which add; text is read twice and never held. LR-MVL reads the
numbers of the words from a temporary file, once for every iteration.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError, require_memory
from sapwood.core.learner import Estimator, between, one_of, parameter, positional, whole
from sapwood.core.progress import step
from sapwood.corpora.eigenwords import ContextMap, Eigenwords
from sapwood.corpora.vocabulary import STYLES, choose_vocabulary
from sapwood.execute import Engine, tree_sum
from sapwood.linalg.svd import block_svd, cca
from sapwood.lm.learn import EMBEDDING_METHODS
from sapwood.lm.learn.contexts import (
    ContextCounts,
    NumberedText,
    SmoothMoments,
    Text,
    _Source,
    _total,
    count_vocabulary,
)

RATES = (1.0, 0.5, 0.1)  # of LR-MVL's smooths: the nearest word alone, a few, and many words
# Measured constants: `benchmarks/memory_estimates.py` prints estimates and measured peaks. A text
# of n words has about PAIRS * n^PAIRS_POWER different pairs of words at each distance.
PAIRS, PAIRS_POWER, PAIR_BYTES, VECTOR_COPIES, LIBRARIES = 8, 0.8, 60, 5, 150e6
RIDGE = 1e-6  # of the covariances of states, as a share of their mean
OVERSAMPLE, N_POWER = 20, 5


class WordEmbedding(Estimator):
    """Vectors of words from plain text, in closed form.

    Attributes
    ----------
    model_
        `Eigenwords`.
    """

    dimension: int = positional(
        default=50, domain=whole(1, 2000), words="Numbers in a vector.", kw_only=False
    )
    method: str = parameter(
        "cca",
        one_of(EMBEDDING_METHODS),
        "`cca` of words and neighbours; `two-step`, in which neighbours are first reduced to what "
        "left and right ones say of each other, for rare words; `bigram` for the plain SVD of "
        "pairs of words; `lr-mvl` for two steps again and again, with exponential smooths of all "
        "words on each side, which also gives vectors of words in their context.",
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
        "generic", one_of(STYLES), "How unknown words are classed: by English endings, or by any."
    )
    seed: int = parameter(0, whole(0), "Seed of the random projections.")

    def fit(self, text: Text) -> Self:
        """Learn vectors of the words of a text.

        Parameters
        ----------
        text
            Lists of words, one a sentence; or one or several paths of files with a tokenised
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
                raise SapwoodError(msg, hint="give tokenised text, one sentence a line")
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
