"""Counting n-grams: additive, in memory bounded by a setting, the same wherever it is done.

    text -> shards -> words and their counts -> vocabulary, commonest first
                   -> n-grams of each shard, sorted: a run on disk
    runs -> merged, a range of n-grams at a time -> counts

The counts do not depend on the engine, the number of jobs or the memory.
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

from sapwood.core.errors import CorpusError, SapwoodError, describe
from sapwood.core.outputs import write_bytes
from sapwood.core.progress import counted, step
from sapwood.corpora.files import Source
from sapwood.execute import Engine, Threads, ordered_map, peak_memory
from sapwood.lm.data.ngrams import (
    MAX_ORDER,
    Counts,
    Keys,
    NgramCounts,
    bits_for,
    count_rows,
    is_parquet,
    load_counts,
    merge_runs,
    table_of,
)
from sapwood.lm.data.text import (
    SPECIAL,
    UNKNOWN,
    KnownWords,
    Rows,
    TextShard,
    count_words,
    cut_text,
    shard_ngrams,
)

DEFAULT_MEMORY = 2 << 30
_BYTES_A_ROW = 120  # while rows are merged: as measured, with what allocators keep
_BASE = 320 << 20  # bytes that Python, its libraries and the words take besides
_BYTES_A_SHARD = 80 << 20  # while a shard is counted
_WRITING = 96 << 20  # bytes of the libraries that write a file of counts, and of their buffers
_FENCE = 256  # rows of a run behind one key that is kept in memory
CountsLike = NgramCounts | str | Path | Iterable[Iterable[str]]


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
        Bytes that counting may use in this process, the words of the text not included.
    """

    order: int = 3
    is_stream: bool = False
    memory: int = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MAX_ORDER:
            raise SapwoodError(f"n-grams of order {self.order}: expected 1 to {MAX_ORDER}")


class CountJob(NamedTuple):
    """What counting a shard needs besides the shard."""

    ids: KnownWords  # number of each word
    bits: int  # of a word's number
    settings: CountSettings
    folder: Path  # of the runs


class SortedRun(NamedTuple):
    """A sorted run on disk. It is read, not mapped: a search would leave all of a map in memory."""

    path: Path
    width: int  # numbers of a key
    fences: npt.NDArray[np.uint64]  # the first number of every `_FENCE`-th key
    n_rows: int

    @classmethod
    def at(cls, path: Path, width: int) -> SortedRun:
        """The run of an existing file."""
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
    """The type of a row of a run: a key, and how often it was seen in one shard."""
    return np.dtype([("key", np.uint64, (width,)), ("count", np.uint32)])


def write_run(numbered: tuple[int, TextShard], job: CountJob) -> SortedRun:
    """Count a shard into a sorted run on disk, unless there is a run of the same text.

    The name of a run has the checksum of its text: the text may have changed since it was counted,
    even where its size and its words are the same.
    """
    number, shard = numbered
    data, order = shard.read(), job.settings.order
    path = job.folder / f"run-{number:06d}-{sha256(data).hexdigest()[:16]}"
    width = -(-order // (64 // job.bits))
    if not path.exists():
        ngrams = shard_ngrams(shard, data, job.ids, order, is_stream=job.settings.is_stream)
        keys, counts = count_rows(ngrams, job.bits)
        rows = np.empty(len(keys), row_type(width))
        rows["key"], rows["count"] = keys, counts
        write_bytes(path, rows.tobytes())
    return SortedRun.at(path, width)


def count_runs(
    sources: Source | Iterable[Source],
    folder: Path,
    settings: CountSettings,
    engine: Engine,
    words: tuple[str, ...] | None = None,
) -> SortedRuns:
    """Count a text into sorted runs in a folder, using the runs of an interrupted earlier call.

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
    job = CountJob(KnownWords(words), bits_for(len(words)), settings, folder)
    placed = engine.place(list(enumerate(shards)))
    with step("counting n-grams", total=1):
        runs = list(engine.gather(engine.map(write_run, placed, job)))
    order, is_stream, memory = settings.order, settings.is_stream, settings.memory
    return SortedRuns(words, runs, job.bits, order, is_stream, memory, engine.jobs_here)


def _within(memory: int, engine: Engine) -> Engine:
    """The engine, with no more threads in this process than there is memory for."""
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
    hint = "write one sentence on each line, with blanks between its tokens"
    return CorpusError("no words: the text is empty", hint=hint)


def _remove_other_runs(
    folder: Path, shards: list[TextShard], words: tuple[str, ...], settings: CountSettings
) -> None:
    """Remove runs in a folder that are of another text or order."""
    text = repr([(s.start, s.stop, s.name, s.lead) for s in shards]) + repr(words)
    digest = sha256(f"{text} {settings.order} {settings.is_stream}".encode()).hexdigest()
    note = folder / "text.json"
    if note.exists() and json.loads(note.read_text()).get("sha256") == digest:
        return
    for run in folder.glob("run-*"):
        run.unlink()
    write_bytes(note, json.dumps({"sha256": digest}).encode(), force=True)


class SortedRuns(NamedTuple):
    """The n-grams of a text in sorted runs."""

    words: tuple[str, ...]  # as those of `NgramCounts`
    runs: list[SortedRun]
    bits: int  # of a word's number in the keys
    order: int
    is_stream: bool
    memory: int  # bytes that merging may use
    jobs: int = 1  # ranges of keys that are merged at the same time

    def portions(self) -> Iterator[tuple[Rows, Counts]]:
        """Rows and counts in order, a range of keys at a time, as large as memory allows."""
        cuts = self._cuts()
        parts = ordered_map(
            self._merge, zip(cuts, [*cuts[1:], None], strict=True), jobs=self.jobs, ahead=1
        )
        yield from counted(parts, "merging", total=len(cuts), unit="range of keys")

    def _merge(self, range_: tuple[int, int | None]) -> tuple[Rows, Counts]:
        parts = [run.between(*range_) for run in self.runs]
        return merge_runs(parts, self.order, self.bits)

    def _cuts(self) -> list[int]:
        """Where ranges of about equal size start: first numbers of keys."""
        given = self.memory
        # The memory of counting is still held; allocators give little of it back.
        held = max(_BASE, (peak_memory() or 0) + _WRITING)
        # As many ranges as there are jobs are merged while one is written.
        most = max(1, max(given - held, given // 8) // (_BYTES_A_ROW * (self.jobs + 1)))
        n_ranges = -(-sum(run.n_rows for run in self.runs) // most)
        fences = np.sort(np.concatenate([run.fences for run in self.runs]))
        places = np.arange(1, n_ranges) * len(fences) // max(1, n_ranges)
        return [0, *np.unique(fences[places]).tolist()]

    def whole(self) -> NgramCounts:
        """All counts, in memory."""
        rows, counts = (np.concatenate(parts) for parts in zip(*self.portions(), strict=True))
        return table_of(self.words, rows, counts, is_stream=self.is_stream)


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


def count_sentence_ngrams(sentences: Iterable[Iterable[str]], order: int = 3) -> NgramCounts:
    """Count n-grams of sentences in memory.

    Examples
    --------
    >>> count_sentence_ngrams([["a", "b"], ["a"]], order=2).counts.tolist()
    [1, 1, 2, 1]
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="sapwood-") as here:
        path = Path(here, "text")
        write_bytes(path, ("\n".join(" ".join(words) for words in sentences) + "\n").encode())
        return count_text(path, CountSettings(order=order))


def as_counts(source: CountsLike, order: int, engine: Engine | None = None) -> NgramCounts:
    """Counts of an order from counts, a file of counts, the path of a text, or sentences.

    Examples
    --------
    >>> as_counts([["the", "dog"], ["the", "cat"]], 2)
    <NgramCounts: 5 2-grams of 4 tokens, 3 words>
    """
    if isinstance(source, NgramCounts):
        return source.shorten(order)
    if isinstance(source, (str, Path)):
        if is_parquet(source):
            return load_counts(Path(source)).shorten(order)
        return count_text(source, CountSettings(order=order), engine=engine)
    hint = "give counts, the path of a text, or sentences as lists of words"
    found = list(source) if isinstance(source, Iterable) and not isinstance(source, dict) else None
    if not found or not all(_is_sentence(item) for item in found):
        raise SapwoodError(f"expected counts or text, found {describe(source)}", hint=hint)
    return count_sentence_ngrams(found, order)


def _is_sentence(item: object) -> bool:
    return isinstance(item, (list, tuple)) and all(
        isinstance(word, str) and len(word.split()) == 1 for word in item
    )
