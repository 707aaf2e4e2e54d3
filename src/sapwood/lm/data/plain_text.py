"""Plain text of any size, cut into shards: tokens apart by blanks, a sentence a line.

A shard is a range of bytes of a file and ends with a line, so that it can be read by itself,
anywhere the file can be reached. What cannot be read twice or from the middle (compressed files,
stdin) is first unpacked into a folder. Where shards are cut depends on the text alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.outputs import append_bytes
from sapwood.corpora.files import COMPRESSED, MAX_CHARACTERS, Source, expand, likely_encodings
from sapwood.corpora.sentences import N_CHARACTERS, N_LINES, refuse_other_kinds

# The first words of every vocabulary; NOTHING stands where there is no word.
NOTHING, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<nothing>", "<s>", "</s>", "<unk>")
RESERVED = frozenset(SPECIAL[:UNKNOWN])  # no text may have these as words
RESERVED_HINT = "leave it out: one sentence a line has its start and end by itself"
Rows = npt.NDArray[np.uint32]  # [n, order]: n-grams, the last word first

SHARD_BYTES = 4_000_000  # some 700,000 words: a second of work, and 100 MB while it is done
TEXT_SUFFIXES = (".txt", ".tok", ".text")
ZST = ".zst"
_TAIL = 1 << 16


@dataclass(frozen=True)
class TextShard:
    """Some lines of a file."""

    path: Path  # the file, not compressed
    # bytes of it
    start: int
    stop: int
    name: str  # what messages call it
    # the last words before the shard, for n-grams that reach across its border
    lead: tuple[bytes, ...] = ()

    def read(self) -> bytes:
        """The text, known to be UTF-8."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.start)
                data = file.read(self.stop - self.start)
        except OSError as error:
            msg = f"cannot read: {error.strerror or error}"
            raise CorpusError(msg, file=self.name, hint="has the file been moved?") from error
        if len(data) < self.stop - self.start:
            msg = "has become shorter"
            raise CorpusError(msg, file=self.name, hint="count it again")
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
        How many words before each shard it should know; words of the file before count too.
    """
    shards: list[TextShard] = []
    for number, source in enumerate(expand(sources, TEXT_SUFFIXES)):
        if hasattr(source, "read"):
            msg = "expected the path of a text"
            raise SapwoodError(msg, hint="write the text to a file first")
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
            raise SapwoodError(msg, hint="pip install zstandard, or unpack it: zstd -d") from error
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
        msg = f"cannot read: {error.strerror}"
        raise CorpusError(msg, file=name) from error
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
            if start == shard.start:
                return tuple(words[-n:])
            if len(words) > n:  # the first may be cut
                return tuple(words[-n:])
            room *= 8


class KnownWords(dict[bytes, int]):
    """Numbers of words and of starts and ends of sentences; any other word is the unknown one."""

    def __init__(self, words: Iterable[str]) -> None:
        super().__init__((word.encode(), i) for i, word in enumerate(words) if i != NOTHING)

    def __missing__(self, word: bytes) -> int:
        return UNKNOWN


def ngrams_of(found: npt.NDArray[np.uint32], order: int, n_lead: int = 0) -> Rows:
    """The n-gram that ends at each word, starts of sentences and the lead left out.

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
