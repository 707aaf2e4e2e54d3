"""Counting the n-grams of plain text of any size: a tokenised sentence a line, in bounded memory.

    text -> shards -> words and their counts -> vocabulary, commonest first
                   -> n-grams of each shard, sorted: a run on disk
    runs -> merged, a range of n-grams at a time -> counts

A shard is a range of bytes of a file and ends with a line, so that it can be read by itself,
anywhere the file can be reached. Compressed files and stdin, which cannot be read twice or from the
middle, are first unpacked into a folder. Where shards are cut depends on the text alone, and the
counts do not depend on the engine, the number of jobs or the memory.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError, SapwoodError, describe
from sapwood.core.outputs import append_bytes, write_bytes
from sapwood.core.progress import counted, step
from sapwood.corpora.files import (
    COMPRESSED,
    MAX_CHARACTERS,
    TEXT_SUFFIXES,
    Source,
    expand,
    likely_encodings,
)
from sapwood.corpora.sentences import N_CHARACTERS, N_LINES, refuse_other_kinds
from sapwood.execute import Engine, Placed, Threads, ordered_map, peak_memory
from sapwood.lm.data.ngrams import (
    END,
    MAX_ORDER,
    RESERVED,
    RESERVED_HINT,
    SPECIAL,
    START,
    UNKNOWN,
    Counts,
    Keys,
    KnownWords,
    NgramCounts,
    Rows,
    Words,
    count_ngram_keys,
    load_counts,
    merge_runs,
    table_of,
)

SHARD_BYTES = 4_000_000  # some 700,000 words: a second of work, and 100 MB while it is done
ZST = ".zst"
_TAIL = 1 << 16
_RESERVED = frozenset(word.encode() for word in RESERVED)
MOST_WORDS = 1 << 16  # different words of a shard that there is room for at first
DEFAULT_MEMORY = 2 << 30
_BYTES_A_ROW = 120  # while rows are merged: as measured, with what allocators keep
_BASE = 320 << 20  # bytes that Python, its libraries and the words take besides
_BYTES_A_SHARD = 80 << 20  # while a shard is counted
_WRITING = 96 << 20  # bytes of the libraries that write a file of counts, and of their buffers
_FENCE = 256  # rows of a run behind one key that is kept in memory
TextLike = str | Path | Iterable[Iterable[str]]
CountsLike = NgramCounts | TextLike


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


@dataclass(frozen=True)
class TextShard:
    """Some lines of a file that is not compressed."""

    number: int  # in the text
    path: Path
    start: int  # first byte
    stop: int
    name: str  # of the file in messages
    # the last words before the shard, for n-grams that reach across its border
    lead: tuple[bytes, ...] = ()

    def read(self) -> bytes:
        """The bytes of the shard, checked to be UTF-8 text."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.start)
                data = file.read(self.stop - self.start)
        except OSError as error:
            msg = f"cannot read: {error.strerror or error}"
            raise CorpusError(msg, file=self.name, hint="has the file been moved?") from error
        if len(data) < self.stop - self.start:
            raise CorpusError("has become shorter", file=self.name, hint="count it again")
        self._require_text(data)
        return data

    def _require_text(self, data: bytes) -> None:
        at = data.find(b"\0")
        try:
            data.decode()
        except UnicodeDecodeError as error:
            at = error.start if at < 0 else min(at, error.start)
        if at < 0:
            return
        likely = likely_encodings(data[max(0, at - _TAIL) : at + _TAIL])
        hint = "is it text at all, and not compressed under another name?"
        if data.startswith(b"PAR1"):
            hint = "it seems to be a file of counts: give it by itself to `sapwood lm train`"
        elif likely:
            hint = f"it may be {' or '.join(likely)}; convert it: iconv -f {likely[0]} -t utf-8"
        msg = f"not UTF-8 text (byte {data[at]:#04x})"
        raise CorpusError(msg, file=self.name, line=self.line_of(at), hint=hint)

    def line_of(self, at: int) -> int:
        """The line of the file in which a byte of the shard is."""
        with self.path.open("rb") as file:
            return 1 + file.read(self.start + at).count(b"\n")


def cut_text(
    sources: Source | Iterable[Source], folder: Path, *, n_lead: int = 0
) -> list[TextShard]:
    """Shards of files, globs, folders and stdin, in order.

    Parameters
    ----------
    folder
        Where compressed text and stdin are unpacked.
    n_lead
        Number of words before each shard that are kept with it, across files.
    """
    shards: list[TextShard] = []
    for number, source in enumerate(expand(sources, TEXT_SUFFIXES)):
        if hasattr(source, "read"):
            raise SapwoodError("expected the path of a text", hint="write the text to a file first")
        path, name = Path(str(source)), "<stdin>" if str(source) == "-" else str(source)
        if name == "<stdin>" or path.suffix.lower() in (*COMPRESSED, ZST):
            target = folder / f"text-{number:05d}"
            _unpack(path, name, target)
            path = target
        _refuse_treebank(path, str(source), name)
        shards += _cut_file(path, name, len(shards))
    if n_lead:
        lead: tuple[bytes, ...] = ()
        for i, shard in enumerate(shards):
            shards[i] = replace(shard, lead=lead)
            lead = (*lead, *_last_words(shard, n_lead))[-n_lead:]
    return shards


def _unpack(path: Path, name: str, target: Path) -> None:
    target.unlink(missing_ok=True)
    append_bytes(target, b"")
    try:
        with _open_bytes(path, name) as file:
            while data := file.read(1 << 20):
                append_bytes(target, data)
    except SapwoodError:
        raise
    except Exception as error:  # each of the libraries has its own
        msg = f"cannot read: {getattr(error, 'strerror', None) or error}"
        hint = "is the file complete, readable, and what it claims?"
        raise CorpusError(msg, file=name, hint=hint) from error


def _open_bytes(path: Path, name: str) -> IO[bytes] | Any:
    if name == "<stdin>":
        return nullcontext(sys.stdin.buffer)  # which stays open
    if path.suffix.lower() == ZST:
        try:
            return import_module("zstandard").open(path, "rb")
        except ImportError as error:
            msg = f"{path}: reading .zst needs the package zstandard"
            raise SapwoodError(
                msg, hint="pip install zstandard, or unpack_rows it: zstd -d"
            ) from error
    modules = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}
    return import_module(modules[path.suffix.lower()]).open(path)


def _refuse_treebank(path: Path, source: str, name: str) -> None:
    """Refuse trees, CoNLL-U and JSON, whose brackets and columns would be learnt as words."""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = iter(lambda: file.readline(N_CHARACTERS), "")
        for _ in refuse_other_kinds(islice(lines, N_LINES), source):
            pass


def _cut_file(path: Path, name: str, first: int) -> Iterator[TextShard]:
    """The shards of a file, numbered from `first`."""
    try:
        size, file = path.stat().st_size, path.open("rb")
    except OSError as error:
        raise CorpusError(f"cannot read: {error.strerror}", file=name) from error
    with file:
        number, start = first, 0
        while start < size:
            file.seek(min(size, start + SHARD_BYTES))
            if len(file.readline(MAX_CHARACTERS + 1)) > MAX_CHARACTERS:
                msg = f"a line of more than {MAX_CHARACTERS:,} bytes, the most that is read"
                line = 1 + _n_lines(path, file.tell() - MAX_CHARACTERS)
                hint = "one sentence per line is expected: is the file what it claims?"
                raise CorpusError(msg, file=name, line=line, hint=hint)
            stop = file.tell()
            yield TextShard(number, path, start, stop, name)
            number, start = number + 1, stop


def _n_lines(path: Path, stop: int) -> int:
    with path.open("rb") as file:
        return sum(
            file.read(min(1 << 20, stop - at)).count(b"\n") for at in range(0, stop, 1 << 20)
        )


def _last_words(shard: TextShard, n: int) -> tuple[bytes, ...]:
    """The last n words of a shard, or all that it has."""
    room = _TAIL
    with shard.path.open("rb") as file:
        while True:
            start = max(shard.start, shard.stop - room)
            file.seek(start)
            words = file.read(shard.stop - start).split()
            if start == shard.start or len(words) > n:  # else the first may be cut
                return tuple(words[-n:])
            room *= 8


class NumberedWords(NamedTuple):
    """The words of a shard, numbered in the order in which they are first seen."""

    words: list[bytes]
    counts: npt.NDArray[np.int64]  # how often each word is seen
    # the number of each word of the text; `LINE_END` of `kernels.text` where a line ends
    tokens: npt.NDArray[np.uint32]


def number_shard(data: bytes) -> NumberedWords:
    r"""The words of a text as numbers; ends of lines are kept.

    Examples
    --------
    >>> found = number_shard(b"the dog\nthe cat\n")
    >>> found.words, found.counts.tolist()
    ([b'the', b'dog', b'cat'], [2, 1, 1])
    """
    from sapwood.lm.kernels.text import number_words

    text = np.frombuffer(data, np.uint8)
    tokens = np.empty(len(text) + 1, np.uint32)
    most = MOST_WORDS
    while True:
        starts, sizes, counts = np.empty((3, most), np.int64)
        table = np.zeros(4 * most, np.uint32)
        n_words, n_tokens = number_words(text, table, starts, sizes, counts, tokens)
        if n_words >= 0:
            break
        most *= 4
    places = zip(starts[:n_words].tolist(), sizes[:n_words].tolist(), strict=True)
    words = [data[start : start + size] for start, size in places]
    return NumberedWords(words, counts[:n_words].copy(), tokens[:n_tokens])


def refuse_reserved(shard: TextShard, data: bytes, words: Iterable[bytes]) -> None:
    """Refuse the text of a shard that has a reserved symbol among its words, with its line."""
    if marks := _RESERVED.intersection(words):
        mark = min(marks)
        msg = f"found {mark.decode()} as a word: it stands for the start or end of a sentence"
        found = re.search(rb"(?<!\S)" + re.escape(mark) + rb"(?!\S)", data)
        line = None if found is None else shard.line_of(found.start())
        raise CorpusError(msg, file=shard.name, line=line, hint=RESERVED_HINT)


def count_words(shard: TextShard) -> Counter[bytes]:
    """How often each word occurs in a shard."""
    data = shard.read()
    words, counts, _ = number_shard(data)
    refuse_reserved(shard, data, words)
    return Counter(dict(zip(words, counts.tolist(), strict=True)))


def shard_words(
    shard: TextShard, data: bytes, ids: KnownWords, *, is_stream: bool
) -> tuple[Words, int]:
    """The words of a shard with the text `data` by number, and how many of them lead to it.

    Sentences have their starts and ends; a stream has none, but the last words before the shard.
    """
    from sapwood.lm.kernels.text import LINE_END

    data += b"\n"  # the last line may have no end
    words, _, tokens = number_shard(data)
    refuse_reserved(shard, data, words)
    own = np.fromiter(map(ids.__getitem__, words), np.uint32, len(words))
    if is_stream:
        lead = np.fromiter(map(ids.__getitem__, shard.lead), np.uint32, len(shard.lead))
        stream = np.concatenate([lead, own[tokens[tokens != LINE_END]]])
        return stream, len(lead)
    is_end = tokens == LINE_END
    # Blank lines are no sentences: an end that follows another, or the start of the text, is none.
    is_kept = ~is_end
    is_kept[1:] |= ~is_end[:-1]
    is_end = is_end[is_kept]
    found = np.full(len(is_end) + int(is_end.sum()), START, np.uint32)
    # Each sentence is moved by one place more than the one before, for its start.
    place = np.arange(len(is_end)) + np.cumsum(is_end) - is_end + 1
    found[place[is_end]] = END
    found[place[~is_end]] = own[tokens[tokens != LINE_END]]
    return found, 0


class CountJob(NamedTuple):
    """What counting a shard needs besides the shard."""

    ids: KnownWords  # number of each word
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
    """The NumPy type of a row of a run: a key and its count in one shard."""
    return np.dtype([("key", np.uint64, (width,)), ("count", np.uint32)])


def write_run(shard: TextShard, job: CountJob) -> list[SortedRun]:
    """Count a shard into a sorted run on disk, unless an earlier call has written this run.

    The name of a run has the checksum of its text: the text may have changed since it was counted,
    even where its size and its words are the same.
    """
    data, order = shard.read(), job.settings.order
    path = job.folder / f"run-{shard.number:06d}-{sha256(data).hexdigest()[:16]}"
    width = -(-order // (64 // job.ids.bits))
    if not path.exists():
        words, n_lead = shard_words(shard, data, job.ids, is_stream=job.settings.is_stream)
        keys, counts = count_ngram_keys(words, n_lead, order, job.ids.bits)
        rows = np.empty(len(keys), row_type(width))
        rows["key"], rows["count"] = keys, counts
        write_bytes(path, rows.tobytes())
    return [SortedRun.at(path, width)]


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
    if not 1 <= settings.order <= MAX_ORDER:
        raise SapwoodError(f"n-grams of order {settings.order}: expected 1 to {MAX_ORDER}")
    engine = _within(settings.memory, engine)
    n_lead = settings.order - 1 if settings.is_stream else 0
    shards = cut_text(sources, folder, n_lead=n_lead)
    if not shards:
        raise _no_text()
    placed = engine.place(shards)
    if words is None:
        with step("finding words", total=1):  # the shards are read once
            words = find_words(placed, engine)
    _remove_other_runs(folder, shards, words, settings)
    job = CountJob(KnownWords(words), settings, folder)
    with step("counting n-grams", total=1):
        runs = engine.total(write_run, placed, job)
    # The memory of counting is still held; allocators give little of it back.
    held = max(_BASE, (peak_memory() or 0) + _WRITING)
    memory = max(settings.memory - held, settings.memory // 8)
    order, is_stream = settings.order, settings.is_stream
    return SortedRuns(words, runs, job.ids.bits, order, is_stream, memory, engine.jobs_here)


def _within(memory: int, engine: Engine) -> Engine:
    """The engine, with no more threads in this process than there is memory for."""
    most = max(1, (memory - _BASE) // _BYTES_A_SHARD)
    if not isinstance(engine, Threads) or engine.jobs <= most:
        return engine
    fewer = Threads(most)
    fewer.report = engine.report
    return fewer


def find_words(shards: Placed, engine: Engine) -> tuple[str, ...]:
    """All words of a text, commonest first."""
    found = engine.total(count_words, shards)
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
        # As many ranges as there are jobs are merged while one is written.
        most = max(1, self.memory // (_BYTES_A_ROW * (self.jobs + 1)))
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
    with TemporaryDirectory(prefix="sapwood-") as here:
        path = Path(here, "text")
        write_bytes(path, ("\n".join(" ".join(words) for words in sentences) + "\n").encode())
        return count_text(path, CountSettings(order=order))


def read_counts(
    sources: list[str], order: int, engine: Engine, *, is_stream: bool = False, min_count: int = 1
) -> NgramCounts:
    """Counts of an order from a file of counts or from text; rarer words are the unknown word."""
    if len(sources) == 1 and is_parquet(sources[0]):
        counts = load_counts(Path(sources[0]), order, min_count)
        if is_stream and not counts.is_stream:
            msg = f"{sources[0]}: counted with ends of sentences, not as a stream"
            raise SapwoodError(msg, hint="leave --stream out, or count with --stream")
        return counts
    return count_text(sources, CountSettings(order, is_stream), engine=engine).cut_words(min_count)


def as_counts(source: TextLike, order: int, engine: Engine | None = None) -> NgramCounts:
    """Counts of an order from a file of counts, the path of a text, or sentences.

    Examples
    --------
    >>> as_counts([["the", "dog"], ["the", "cat"]], 2)
    <NgramCounts: 5 2-grams of 4 tokens, 3 words>
    """
    if isinstance(source, (str, Path)):
        if is_parquet(source):
            return load_counts(Path(source), order)
        return count_text(source, CountSettings(order=order), engine=engine)
    hint = "give counts, the path of a text, or sentences as lists of words"
    found = list(source) if isinstance(source, Iterable) and not isinstance(source, dict) else None
    if not found or not all(_is_sentence(item) for item in found):
        raise SapwoodError(f"expected counts or text, found {describe(source)}", hint=hint)
    return count_sentence_ngrams(found, order)


def is_parquet(path: str | Path) -> bool:
    """Whether a file starts as those of Parquet do."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == b"PAR1"


def _is_sentence(item: object) -> bool:
    return isinstance(item, (list, tuple)) and all(
        isinstance(word, str) and len(word.split()) == 1 for word in item
    )
