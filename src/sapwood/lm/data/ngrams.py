"""Counts of n-grams: additive, in memory bounded by a setting, the same wherever they are made.

    text -> shards -> words and their counts -> vocabulary, commonest first
                   -> n-grams of each shard, sorted: a run on disk
    runs -> merged, a range of n-grams at a time -> counts

An n-gram is counted for every word of the text, with as many words before it as there are, up to
order - 1; missing ones are `NOTHING`. Rows are sorted by their last word, then by the one before,
and so on: all n-grams with a common ending lie together, so that one pass over the table gives the
counts of every lower order, and how many different words an ending follows.

Notation
--------
    w[i, j]     word j places before the last of n-gram i               [n, order]
    c[i]        how often it was seen                                   [n]
    key         w[i, 0], w[i, 1], ... as the digits of a number, most significant first
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.outputs import write_bytes
from sapwood.corpora.files import Source
from sapwood.execute import Engine, Threads, ordered_map, peak_memory
from sapwood.lm.data.numbered_words import number_shard, read_ids, refuse_reserved
from sapwood.lm.data.plain_text import (
    END,
    SPECIAL,
    UNKNOWN,
    KnownWords,
    Rows,
    TextShard,
    cut_text,
    ngrams_of,
)
from sapwood.progress import counted, step

MAX_ORDER = 5
DEFAULT_MEMORY = 2 << 30
_BYTES_A_ROW = 120  # while rows are merged: as measured, with what allocators keep
_BASE = 320 << 20  # bytes that Python, its libraries and the words take besides
_BYTES_A_SHARD = 80 << 20  # while a shard is counted
_WRITING = 96 << 20  # bytes of the libraries that write a file of counts, and of their buffers
_FENCE = 256  # rows of a run behind one key that is kept in memory

Keys = npt.NDArray[np.uint64]  # [n, 1 or 2]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NgramCounts:
    """How often n-grams occur in a text.

    Attributes
    ----------
    words : [V]
        Special words first, then those of the text, commonest first.
    word_counts : [V]
        How often each occurs.
    rows : [n, order]
        Words of each n-gram, the last one first; sorted.
    counts : [n]
    is_stream
        Whether the text is one stream of words, rather than sentences with starts and ends.
    """

    words: tuple[str, ...]
    word_counts: Counts
    rows: Rows
    counts: Counts
    is_stream: bool = False

    @property
    def order(self) -> int:
        """The most words of an n-gram."""
        return int(self.rows.shape[1])

    @property
    def n_tokens(self) -> int:
        """Words of the text, without starts and ends of sentences."""
        return int(self.word_counts[UNKNOWN:].sum())

    def __repr__(self) -> str:
        return (
            f"<NgramCounts: {len(self.rows):,} {self.order}-grams of {self.n_tokens:,} tokens, "
            f"{len(self.words) - len(SPECIAL):,} words>"
        )

    def cut_words(self, min_count: int) -> NgramCounts:
        """The same text with words below a count as the unknown word.

        Examples
        --------
        >>> counts = count_sentences([["a", "b"], ["a", "c"]], order=2)
        >>> counts.cut_words(2).words
        ('<nothing>', '<s>', '</s>', '<unk>', 'a')
        """
        n_kept = len(SPECIAL) + int((self.word_counts[len(SPECIAL) :] >= min_count).sum())
        if n_kept == len(self.words):
            return self
        # Words come commonest first, so that those cut off are the last.
        rows = np.where(self.rows >= n_kept, np.uint32(UNKNOWN), self.rows)
        bits = bits_for(n_kept)
        keys, counts = merge_runs([(pack(rows, bits), self.counts)])
        word_counts = self.word_counts[:n_kept].copy()
        word_counts[UNKNOWN] += self.word_counts[n_kept:].sum()
        rows = unpack(keys, self.order, bits)
        return NgramCounts(self.words[:n_kept], word_counts, rows, counts, self.is_stream)

    def shorten(self, order: int) -> NgramCounts:
        """The same text in n-grams of a lower order."""
        if order > self.order:
            msg = f"the counts are of order {self.order}, expected at least {order}"
            raise SapwoodError(msg, hint=f"count again with --order {order}")
        rows = self.rows[:, :order]
        firsts = first_of_runs(rows)
        return NgramCounts(
            self.words, self.word_counts, np.ascontiguousarray(rows[firsts]),
            np.add.reduceat(self.counts, firsts) if len(firsts) else self.counts, self.is_stream,
        )  # fmt: skip


def first_of_runs(rows: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Where a sorted table has a row that differs from the one before."""
    if not len(rows):
        return np.zeros(0, np.int64)
    differs = (rows[1:] != rows[:-1]).any(axis=1)
    return np.concatenate([[0], 1 + np.flatnonzero(differs)])


def bits_for(n_words: int) -> int:
    """Bits of a word's number."""
    return max(1, (n_words - 1).bit_length())


def pack(rows: Rows, bits: int) -> Keys:
    """Numbers that sort as the rows do, in one column of 64 bits or two.

    Examples
    --------
    >>> pack(np.array([[1, 2], [3, 0]], np.uint32), 4).ravel().tolist()
    [18, 48]
    """
    n_a_column = 64 // bits
    columns = []
    for start in range(0, rows.shape[1], n_a_column):
        key = np.zeros(len(rows), np.uint64)
        for j in range(start, min(start + n_a_column, rows.shape[1])):
            key = (key << np.uint64(bits)) | rows[:, j].astype(np.uint64)
        columns.append(key)
    return np.stack(columns, axis=1)


def unpack(keys: Keys, order: int, bits: int) -> Rows:
    """The rows that were packed."""
    n_a_column, mask = 64 // bits, np.uint64((1 << bits) - 1)
    rows = np.empty((len(keys), order), np.uint32)
    for start in range(0, order, n_a_column):
        stop, key = min(start + n_a_column, order), keys[:, start // n_a_column]
        for j in range(start, stop):
            rows[:, j] = (key >> np.uint64(bits * (stop - 1 - j))) & mask
    return rows


def merge_runs(runs: Iterable[tuple[Keys, npt.NDArray[Any]]]) -> tuple[Keys, Counts]:
    """Sorted, every key once, counts summed; these may be of any whole numbers."""
    keys, counts = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    # Stable sorting finds runs that are sorted already.
    order = (
        np.argsort(keys[:, 0], kind="stable")
        if keys.shape[1] == 1
        else np.lexsort(tuple(keys[:, j] for j in reversed(range(keys.shape[1]))))
    )
    keys = keys[order]
    firsts = first_of_runs(keys)
    seen = counts[order]
    total = np.add.reduceat(seen, firsts, dtype=np.int64) if len(firsts) else seen
    return keys[firsts], total


def count_keys(keys: Keys) -> tuple[Keys, Counts]:
    """Every key once, sorted, and how often it is there."""
    if keys.shape[1] > 1:
        return merge_runs([(keys, np.ones(len(keys), np.int64))])
    column = np.sort(keys[:, 0])[:, None]  # sorting values is several times as fast as places
    firsts = first_of_runs(column)
    return column[firsts], np.diff(firsts, append=len(column))


def count_words(shard: TextShard) -> Counter[bytes]:
    """How often each word occurs in a shard."""
    data = shard.read()
    words, counts, _ = number_shard(data)
    found = Counter(dict(zip(words, counts.tolist(), strict=True)))
    refuse_reserved(shard, data, found)
    return found


class Job(NamedTuple):
    """What counting a shard needs besides the shard.

    Attributes
    ----------
    ids
        Number of each word.
    order, bits
        Of n-grams, and of a word's number.
    is_stream
        Whether n-grams reach over ends of lines.
    folder
        Where runs are put.
    """

    ids: KnownWords
    order: int
    bits: int
    is_stream: bool
    folder: Path


class Run(NamedTuple):
    """A sorted run on disk. It is read, not mapped: a search would leave all of a map in memory.

    Attributes
    ----------
    path
    width
        Numbers of a key.
    fences
        The first number of every `_FENCE`-th key.
    n_rows
    """

    path: Path
    width: int
    fences: npt.NDArray[np.uint64]
    n_rows: int

    @classmethod
    def at(cls, path: Path, width: int) -> Run:
        """A run that is there."""
        rows = np.fromfile(path, row_type(width))
        return cls(path, width, rows["key"][::_FENCE, 0].copy(), len(rows))

    def between(self, low: int, high: int | None) -> tuple[Keys, npt.NDArray[np.uint32]]:
        """Keys whose first number is at least `low` and below `high`, and their counts."""
        start = _FENCE * max(0, int(np.searchsorted(self.fences, low)) - 1)
        stop = self.n_rows
        if high is not None:
            stop = min(stop, _FENCE * int(np.searchsorted(self.fences, high)))
        kind = row_type(self.width)
        rows = np.fromfile(self.path, kind, stop - start, offset=kind.itemsize * start)
        first = np.ascontiguousarray(rows["key"][:, 0])
        end = len(rows) if high is None else int(np.searchsorted(first, high))
        rows = rows[int(np.searchsorted(first, low)) : end]
        return rows["key"], rows["count"]


def row_type(width: int) -> np.dtype[Any]:
    """A row of a run: a key, and how often it was seen in one shard."""
    return np.dtype([("key", np.uint64, (width,)), ("count", np.uint32)])


def write_run(numbered: tuple[int, TextShard], job: Job) -> Run:
    """Count a shard into a sorted run on disk; one of the same text that is there is taken.

    The name of a run has the checksum of its text: the text may have changed since it was counted,
    even where its size and its words are the same.
    """
    number, shard = numbered
    checksum = sha256(shard.read()).hexdigest()[:16]
    path = job.folder / f"run-{number:06d}-{checksum}"
    width = -(-job.order // (64 // job.bits))
    if not path.exists():
        found = read_ids(shard, job.ids, is_stream=job.is_stream)
        keys, counts = count_keys(pack(ngrams_of(found, job.order, len(shard.lead)), job.bits))
        rows = np.empty(len(keys), row_type(width))
        rows["key"], rows["count"] = keys, counts
        write_bytes(path, rows.tobytes())
    return Run.at(path, width)


@dataclass(frozen=True)
class CountSettings:
    """How a text is counted.

    Attributes
    ----------
    order
        Words of an n-gram, 1 to 5.
    is_stream
        Whether the text is one stream of words without ends of sentences.
    memory
        Bytes that counting may use in this process; the words of the text are not reckoned with.
    """

    order: int = 3
    is_stream: bool = False
    memory: int = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MAX_ORDER:
            msg = f"n-grams of order {self.order}: expected 1 to {MAX_ORDER}"
            raise SapwoodError(msg)


def count_runs(
    sources: Source | Iterable[Source],
    folder: Path,
    settings: CountSettings,
    engine: Engine,
    words: tuple[str, ...] | None = None,
) -> Runs:
    """Sorted runs of a text in a folder; runs of an earlier try at the same text are used.

    Parameters
    ----------
    words
        The vocabulary to count in, all others being the unknown word; None for the text's own.
    """
    engine = _within(settings.memory, engine)
    n_lead = settings.order - 1 if settings.is_stream else 0
    shards = cut_text(sources, folder, n_lead=n_lead)
    if words is None:
        with step("finding words", total=1):  # the shards are read once
            words = find_words(shards, engine)
    elif not shards:
        raise _no_text()
    _remove_other_runs(folder, shards, words, settings)
    job = Job(KnownWords(words), settings.order, bits_for(len(words)), settings.is_stream, folder)
    placed = engine.place(list(enumerate(shards)))
    with step("counting n-grams", total=1):
        runs = list(engine.gather(engine.map(write_run, placed, job)))
    return Runs(words, runs, job.bits, settings, engine.jobs_here)


def _within(memory: int, engine: Engine) -> Engine:
    """The engine with no more threads of this process than there is memory for."""
    most = max(1, (memory - _BASE) // _BYTES_A_SHARD)
    if not isinstance(engine, Threads) or engine.jobs <= most:
        return engine
    fewer = Threads(most)
    fewer.report = engine.report
    return fewer


def find_words(shards: list[TextShard], engine: Engine) -> tuple[str, ...]:
    """All words of a text, commonest first."""
    found = engine.total(count_words, engine.place(shards)) if shards else Counter()
    found.pop(SPECIAL[UNKNOWN].encode(), 0)
    if not found:
        raise _no_text()
    # Words of equal count by their bytes, so that the order is the text's own.
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return (*SPECIAL, *(word.decode() for word, _ in ordered))


def _no_text() -> CorpusError:
    hint = "give tokens apart by blanks, a sentence a line"
    return CorpusError("no words: the text is empty", hint=hint)


def _remove_other_runs(
    folder: Path, shards: list[TextShard], words: tuple[str, ...], settings: CountSettings
) -> None:
    """Remove runs in a folder that are of another text or order."""
    told = repr([(s.start, s.stop, s.name, s.lead) for s in shards]) + repr(words)
    digest = sha256(f"{told} {settings.order} {settings.is_stream}".encode()).hexdigest()
    note = folder / "text.json"
    if note.exists() and json.loads(note.read_text()).get("sha256") == digest:
        return
    for run in folder.glob("run-*"):
        run.unlink()
    write_bytes(note, json.dumps({"sha256": digest}).encode(), force=True)


class Runs(NamedTuple):
    """A text in sorted runs.

    Attributes
    ----------
    words
        See `NgramCounts`.
    runs
    bits
        Of a word's number in their keys.
    settings
    jobs
        Ranges of keys that are merged at the same time.
    """

    words: tuple[str, ...]
    runs: list[Run]
    bits: int
    settings: CountSettings
    jobs: int = 1

    def merged(self) -> Iterator[tuple[Rows, Counts]]:
        """Rows and counts in order, a range of keys at a time, as large as memory allows."""
        cuts = self._cuts()
        parts = ordered_map(
            self._merge, zip(cuts, [*cuts[1:], None], strict=True), jobs=self.jobs, ahead=1
        )
        yield from counted(parts, "merging", total=len(cuts), unit="range of keys")

    def _merge(self, range_: tuple[int, int | None]) -> tuple[Rows, Counts]:
        keys, counts = merge_runs(run.between(*range_) for run in self.runs)
        return unpack(keys, self.settings.order, self.bits), counts

    def _cuts(self) -> list[int]:
        """Where ranges of about equal size start: first numbers of keys."""
        given = self.settings.memory
        # What was counted with is still held; allocators give little of it back.
        held = max(_BASE, (peak_memory() or 0) + _WRITING)
        # As many ranges as there are jobs are merged while one is written.
        most = max(1, max(given - held, given // 8) // (_BYTES_A_ROW * (self.jobs + 1)))
        n_ranges = -(-sum(run.n_rows for run in self.runs) // most)
        fences = np.sort(np.concatenate([run.fences for run in self.runs]))
        places = np.arange(1, n_ranges) * len(fences) // max(1, n_ranges)
        return [0, *np.unique(fences[places]).tolist()]

    def whole(self) -> NgramCounts:
        """All of it in memory."""
        rows, counts = (np.concatenate(parts) for parts in zip(*self.merged(), strict=True))
        return table_of(self.words, rows, counts, is_stream=self.settings.is_stream)


def table_of(words: tuple[str, ...], rows: Rows, counts: Counts, *, is_stream: bool) -> NgramCounts:
    """Counts of n-grams with those of words, each of which ends as many n-grams as it is seen."""
    seen = np.bincount(rows[:, 0], counts, len(words)).astype(np.int64)
    seen[END] = 0
    return NgramCounts(words, seen, rows, counts, is_stream)


def count_text(
    sources: Source | Iterable[Source],
    settings: CountSettings | None = None,
    *,
    words: tuple[str, ...] | None = None,
    engine: Engine | None = None,
) -> NgramCounts:
    r"""Count the n-grams of a text.

    Parameters
    ----------
    sources
        Files, globs, folders, `-`; also compressed.
    words
        The vocabulary to count in, all others being the unknown word; None for the text's own.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     text = Path(here, "text.txt")
    ...     _ = text.write_text("the dog barks\nthe cat sleeps\n")
    ...     count_text(text, CountSettings(order=2))
    <NgramCounts: 7 2-grams of 6 tokens, 5 words>
    """
    from tempfile import TemporaryDirectory

    settings, engine = settings or CountSettings(), engine or Threads(1)
    with TemporaryDirectory(prefix="sapwood-") as here:
        return count_runs(sources, Path(here), settings, engine, words).whole()


def count_sentences(sentences: Iterable[Iterable[str]], order: int = 3) -> NgramCounts:
    """Count n-grams of sentences in memory.

    Examples
    --------
    >>> count_sentences([["a", "b"], ["a"]], order=2).counts.tolist()
    [1, 1, 2, 1]
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="sapwood-") as here:
        path = Path(here, "text")
        write_bytes(path, ("\n".join(" ".join(words) for words in sentences) + "\n").encode())
        return count_text(path, CountSettings(order=order))


def share_seen(counts: NgramCounts, others: NgramCounts) -> float:
    """Share of the n-grams of one text that also occur in another, both in the same words."""
    bits = bits_for(len(counts.words))
    mine, theirs = pack(counts.rows, bits), pack(others.shorten(counts.order).rows, bits)
    both = np.concatenate([mine, theirs])
    _, seen = merge_runs([(both, np.ones(len(both), np.int64))])
    return float((seen > 1).sum() / max(1, len(mine)))
