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

Everything is made of the N_d, which add; text is read twice and never held.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from sapwood.arguments import as_items, as_sentence
from sapwood.arrays import FloatArray
from sapwood.corpus.plain_text import TextShard, cut_text
from sapwood.corpus.sentences import split_words
from sapwood.corpus.vocabulary import STYLES
from sapwood.decompose.cca import cca
from sapwood.decompose.svd import block_svd
from sapwood.errors import SapwoodError
from sapwood.estimators.arcs.observe import choose_vocabulary
from sapwood.estimators.base import Estimator, between, one_of, parameter, positional, whole
from sapwood.execute import Engine, tree_sum
from sapwood.models.eigenwords import Eigenwords
from sapwood.moments.contexts import ContextCounts, WordCounts
from sapwood.progress import step

METHODS = ("cca", "two-step", "bigram")
SHARD_LINES = 5_000  # shards depend on the text alone, so that jobs never change a vector
OVERSAMPLE, N_POWER = 20, 5
Text = str | Path | Iterable[Any]


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
        one_of(METHODS),
        "`cca` of words and neighbours; `two-step`, in which neighbours are first reduced to what "
        "left and right ones say of each other, for rare words; `bigram` for the plain SVD of "
        "pairs of words.",
    )
    window: int = parameter(2, whole(1, 10), "Neighbours on each side; `bigram` has one.")
    min_count: int = parameter(
        5, whole(1), "Words seen less often share the vectors of their classes."
    )
    power: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "Counts are taken to this power first, so that common pairs do not outweigh all others; 1 "
        "for none.",
    )
    style: str = parameter(
        "generic", one_of(STYLES), "How unknown words are classed: by English endings, or by any."
    )
    seed: int = parameter(0, whole(0), "Of the random projections.")

    def fit(self, text: Text) -> Self:
        """Learn from text.

        Parameters
        ----------
        text
            Lists of words, one a sentence; or one or several paths of files with a tokenised
            sentence a line (also `.gz`, `.xz`, `.bz2`, `.zst`), globs, folders of text, or `-`.
        """
        self._check_parameters()
        n_distances = {"cca": self.window, "two-step": 2 * self.window, "bigram": 1}[self.method]
        with TemporaryDirectory(prefix="sapwood-") as folder:
            source, engine = _Source(text, Path(folder)), self._engine()
            words = _total("counting words", engine, WordCounts.of, source)
            known = choose_vocabulary(words.counts, self.min_count, self.style)
            counts = _total(
                "counting neighbours", engine, ContextCounts.of, source, known, n_distances
            )
        if not counts.pairs[0].nnz:
            msg = "no sentence has two words: nothing stands beside anything"
            raise SapwoodError(msg, hint="give tokenised text, one sentence a line")
        found = self._decompose(counts)
        record = {
            "method": self.method, "sentences": counts.n_sentences,
            "words": int(counts.words.sum()), "window": self.window, "min_count": self.min_count,
            "seed": self.seed,
        }  # fmt: skip
        vectors, strengths = (part.astype(np.float32) for part in found)
        self.model_ = Eigenwords(known, vectors, strengths, record)
        return self

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


def _directions(
    M: Any,  # noqa: N803 - as in the formula
    rows: FloatArray,
    columns: FloatArray,
    k: int,
    rng: np.random.Generator,
) -> Directions:
    """C_ww^-1/2 U of the scaled matrix, by random projection."""
    scaled = _scale(M, rows, columns)
    n, d = scaled.shape
    if k > min(n, d):
        msg = f"dimension {k}; the text allows at most {min(n, d):,}, its words and classes"
        raise SapwoodError(msg, hint="ask for fewer, give more text, or lower min_count")
    found = block_svd(
        lambda X: scaled @ X, lambda Y: scaled.T @ Y,  # noqa: N803 - as in the formula
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


def _scale(M: Any, rows: FloatArray, columns: FloatArray) -> Any:  # noqa: N803
    left, right = (sparse.diags_array(_inverse_root(x)) for x in (rows, columns))
    return (left @ M @ right).tocsr()


def _inverse_root(variance: FloatArray) -> FloatArray:
    return np.where(variance > 0, np.where(variance > 0, variance, 1.0) ** -0.5, 0.0)


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


def _total(what: str, engine: Engine, task: Any, source: _Source, *common: Any) -> Any:
    """Sum over the shards of a stream, of which a few are in memory at a time."""

    def parts() -> Iterator[Any]:
        with step(what, total=source.n_bytes or None) as advance:
            for part in engine.stream(task, source.shards(), *common):
                yield part
                advance(source.n_read)

    try:
        return tree_sum(parts())
    except SapwoodError as error:
        if "no shards" not in str(error):
            raise
        msg = "no sentences: nothing can be learnt"
        raise SapwoodError(msg, hint="give tokenised text, one sentence a line") from error
