"""Plain text of any size, cut into shards and read as word numbers: a tokenised sentence a line.

A shard is a range of bytes of a file and ends with a line, so that it can be read by itself,
anywhere the file can be reached. Compressed files and stdin, which cannot be read twice or from the
middle, are first unpacked into a folder. Where shards are cut depends on the text alone.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.outputs import append_bytes
from sapwood.corpora.files import (
    COMPRESSED,
    MAX_CHARACTERS,
    TEXT_SUFFIXES,
    Source,
    expand,
    likely_encodings,
)
from sapwood.corpora.sentences import N_CHARACTERS, N_LINES, refuse_other_kinds

# The first words of every vocabulary; NOTHING stands where there is no word.
NOTHING, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<nothing>", "<s>", "</s>", "<unk>")
RESERVED = frozenset(SPECIAL[:UNKNOWN])  # no text may have these as words
RESERVED_HINT = "leave it out: one sentence a line has its start and end by itself"
Rows = npt.NDArray[np.uint32]  # [n, order]: n-grams, the last word first
SHARD_BYTES = 4_000_000  # some 700,000 words: a second of work, and 100 MB while it is done
ZST = ".zst"
_TAIL = 1 << 16
_RESERVED = frozenset(word.encode() for word in RESERVED)
MOST_WORDS = 1 << 16  # different words of a shard that there is room for at first


@dataclass(frozen=True)
class TextShard:
    """Some lines of a file that is not compressed."""

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
        shards += _cut_file(path, name)
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
        for _ in refuse_other_kinds(islice(lines, N_LINES), source, name):
            pass


def _cut_file(path: Path, name: str) -> Iterator[TextShard]:
    try:
        size, file = path.stat().st_size, path.open("rb")
    except OSError as error:
        raise CorpusError(f"cannot read: {error.strerror}", file=name) from error
    with file:
        start = 0
        while start < size:
            file.seek(min(size, start + SHARD_BYTES))
            if len(file.readline(MAX_CHARACTERS + 1)) > MAX_CHARACTERS:
                msg = f"a line of more than {MAX_CHARACTERS:,} bytes, the most that is read"
                line = 1 + _n_lines(path, file.tell() - MAX_CHARACTERS)
                hint = "one sentence a line is expected: is the file what it claims?"
                raise CorpusError(msg, file=name, line=line, hint=hint)
            stop = file.tell()
            yield TextShard(path, start, stop, name)
            start = stop


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


class KnownWords(dict[bytes, int]):
    """Numbers of words and of starts and ends of sentences; any other word is the unknown one."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__((word.encode(), i) for i, word in enumerate(words) if i != NOTHING)

    def __missing__(self, word: bytes) -> int:
        return UNKNOWN


def ngrams_of(found: npt.NDArray[np.uint32], order: int, n_lead: int = 0) -> Rows:
    """The n-gram that ends at each of some words, except starts of sentences and the lead.

    Examples
    --------
    >>> ngrams_of(np.array([START, 4, 5, END], np.uint32), 3).tolist()
    [[4, 1, 0], [5, 4, 1], [2, 5, 4]]
    """
    place = np.arange(len(found))
    age = place - np.maximum.accumulate(np.where(found == START, place, 0))
    rows = np.zeros((len(found), order), np.uint32)
    for j in range(min(order, len(found))):
        rows[j:, j] = np.where(age[j:] >= j, found[: len(found) - j], NOTHING)
    kept: Rows = rows[(found != START) & (place >= n_lead)]
    return kept


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


def refuse_reserved_words(words: Sequence[str]) -> None:
    """Refuse a sentence that has a reserved symbol such as `</s>` among its words."""
    if not RESERVED.isdisjoint(words):
        place = next(i for i, word in enumerate(words) if word in RESERVED)
        raise SapwoodError(
            f"word {place + 1} of the sentence is {words[place]!r}, a symbol that is reserved "
            "for the start or end of a sentence",
            hint=RESERVED_HINT,
        )


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


def shard_ngrams(
    shard: TextShard, data: bytes, ids: KnownWords, order: int, *, is_stream: bool
) -> Rows:
    """The n-gram that ends at each word of a shard with the text `data`, and at each line's end."""
    from sapwood.lm.kernels.text import LINE_END

    data += b"\n"  # the last line may have no end
    words, _, tokens = number_shard(data)
    refuse_reserved(shard, data, words)
    own = np.fromiter(map(ids.__getitem__, words), np.uint32, len(words))
    if is_stream:
        lead = np.fromiter(map(ids.__getitem__, shard.lead), np.uint32, len(shard.lead))
        stream = np.concatenate([lead, own[tokens[tokens != LINE_END]]])
        return ngrams_of(stream, order, len(lead))
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
    return ngrams_of(found, order)
