"""Words, their neighbours and smooths of their contexts in plain text: statistics that add.

Notation of smooths (Dhillon, Foster and Ungar 2011)
----------------------------------------------------
    A       vectors of words                                                        [n, k]
    L_t     smooths of the words before place t, one for each rate a, in one row    [r k]
            L_t = (1 - a) L_(t-1) + a A[w_(t-1)],   0 at the start of a sentence
    R_t     the same of the words behind it, from the end of the sentence
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FieldSums, FloatArray, IntArray, starts_of
from sapwood.core.errors import SapwoodError, as_items, as_sentence
from sapwood.core.progress import Advance, step
from sapwood.corpora.eigenwords import smooth_contexts
from sapwood.corpora.sentences import split_words
from sapwood.corpora.vocabulary import Vocabulary
from sapwood.execute import Engine, tree_sum
from sapwood.lm.data.counting import TextShard, cut_text

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
        raise SapwoodError(msg, hint="give tokenised text, one sentence a line") from error


@dataclass(frozen=True, eq=False)
class ContextCounts:
    """How often words occur, and pairs of them at each distance; `+` joins shards.

    Attributes
    ----------
    n_sentences
    words : [n]
        Rows of a vocabulary.
    pairs
        For distances 1, 2, ...: sparse [n, n], a word and the word so many places behind it, in the
        same sentence.
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
    """Rows of the words of a shard, one sentence after the other, and where sentences start."""
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
