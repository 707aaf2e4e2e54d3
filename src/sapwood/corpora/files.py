"""Opening what a user names: files, several files, globs, folders, compressed files, stdin.

Memory that the trees and words of files need is estimated from the sizes of the files by measured
factors: `benchmarks/memory_estimates.py --only read` prints estimates and peaks.
"""

from __future__ import annotations

import codecs
import glob
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any, NamedTuple

from sapwood.core.errors import (
    CorpusError,
    SapwoodError,
    SapwoodTypeError,
    describe,
    require_memory,
)
from sapwood.core.progress import note

Source = str | Path | IO[str]
_MODULES = {".gz": "gzip", ".xz": "lzma", ".bz2": "bz2"}  # imported when a file needs them
COMPRESSED = tuple(_MODULES)
TEXT_SUFFIXES = (".txt", ".tok", ".text")  # of plain text in folders
# Of one line, or of one tree. The longest real sentences have some thousands: more is a file
# without line ends, a damaged one, or one that expands without end, and must not fill the memory.
MAX_CHARACTERS = 10_000_000
LINES_NOTED = 1000  # lines between two reports of progress
XML_START = 200  # bytes in which an XML file names its encoding
_XML_ENCODING = re.compile(rb"""<\?xml[^>]*\bencoding=["']([A-Za-z][\w.-]*)["']""")
_OTHER_SCRIPTS = ("gb18030", "big5", "euc_jp", "shift_jis", "euc_kr", "koi8-r", "windows-1251")
_NAME_IT = "name its encoding with --encoding, if it is text"
# Bytes of memory for each byte of text: trees as objects and as packed arrays, dependency trees as
# packed arrays with their text, and words as lists.
TREE_BYTES, PACKED_TREE_BYTES, PACKED_ARC_BYTES, WORD_BYTES = 20.0, 11.0, 2.5, 3.0
EXPANSION = 4  # bytes of text for each byte of a compressed file: of plain text, the least measured
FEWER_TREES = "give fewer trees at a time"
FEWER_SENTENCES = "give fewer sentences at a time"
MemoryNeed = tuple[float, str] | tuple[float, str, str]  # see `require_reading_memory`


def expand(
    sources: Source | Iterable[Source],
    suffixes: tuple[str, ...],
    *,
    is_wanted: Callable[[Path], bool] | None = None,
    left_out: list[str] | None = None,
    memory: MemoryNeed | None = None,
) -> list[Source]:
    """The files that paths, globs and folders name, sorted.

    Parameters
    ----------
    sources
        One or several of: path, glob, folder, `-` (stdin), open text file.
    suffixes
        The file endings that count inside a folder, compressed or not, in any case.
    is_wanted
        A test for such files of a folder; None takes all of them.
    left_out
        When given, the other files of folders are appended, hidden ones apart.
    memory
        The factor, the hint and the contents of files for `require_reading_memory`; None asks for
        no memory.
    """
    is_one = isinstance(sources, (str, Path)) or hasattr(sources, "read")
    several: Any = [sources] if is_one else sources
    if isinstance(several, bytes) or not isinstance(several, Iterable):
        msg = f"expected the path of a file or folder, or several, not {describe(several)}"
        raise SapwoodTypeError(msg, hint="give a list")
    rest: list[str] = []
    found = [file for one in several for file in _expand_one(one, suffixes, is_wanted, rest)]
    if left_out is not None:
        left_out += rest
    if memory is not None:
        require_reading_memory(found, *memory)
    return found


def _expand_one(
    source: Any,  # a Source, or what else a caller gave
    suffixes: tuple[str, ...],
    is_wanted: Callable[[Path], bool] | None,
    left_out: list[str],
) -> list[Source]:
    if hasattr(source, "read") or str(source) == "-":
        return [source]
    if not isinstance(source, (str, os.PathLike)):
        msg = f"expected the path of a file or folder, not {describe(source)}"
        raise SapwoodTypeError(msg, hint="give a string or a pathlib.Path")
    with _explain_failures(str(source)):  # a name too long for a path, an unknown ~user
        path = Path(source).expanduser()
        path.exists()
    if path.is_dir():
        return _in_folder(path, suffixes, is_wanted, left_out)
    if path.exists():
        return [path]
    if glob.has_magic(str(path)):
        found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns too
        if not found:
            msg = "no file matches this pattern"
            raise CorpusError(msg, file=str(source), hint="check the folder and the ending")
        parts = (_expand_one(name, suffixes, is_wanted, left_out) for name in found)
        return [file for part in parts for file in part]
    if str(source).lstrip().startswith("("):
        msg = "expected the path of a file or folder, found brackets"
        hint = "read brackets first: [sapwood.Tree.parse(s) for s in strings]"
        raise CorpusError(msg, file=str(source)[:80], hint=hint)
    msg = "no such file or folder"
    raise CorpusError(msg, file=str(source), hint="check the path; quote globs, `-` means stdin")


def _in_folder(
    folder: Path,
    suffixes: tuple[str, ...],
    is_wanted: Callable[[Path], bool] | None,
    left_out: list[str],
) -> list[Source]:
    endings = tuple(suffix + more for suffix in suffixes for more in ("", *COMPRESSED))
    wanted: list[Source] = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        named = path.name.lower().endswith(endings)
        if named and (is_wanted is None or is_wanted(path)):
            wanted.append(path)
        elif not path.name.startswith("."):
            left_out.append(str(path))
    if not wanted:
        names = ", ".join(suffixes)
        msg = f"the folder holds no file ending in {names} (or those with .gz, .xz, .bz2)"
        raise CorpusError(msg, file=str(folder), hint="name the files, or use a glob")
    return wanted


@contextmanager
def open_text(
    source: Source, encoding: str = "utf-8", newline: str | None = None
) -> Iterator[IO[str]]:
    r"""Open one source as text, decompressing by its ending; failures become CorpusError.

    An open text file is taken as it is; an XML file that names its encoding is read by that. Line
    ends are read as `\n`; with a `newline` of "", as they are.
    """
    _check_encoding(encoding)
    if not isinstance(source, (str, Path)):
        with _explain_failures(source_name(source), encoding):
            yield source
        return
    if str(source) == "-":
        with _explain_failures("<stdin>", encoding):
            text = _decode(sys.stdin.buffer, encoding, newline)
            try:
                yield text
            finally:
                with suppress(ValueError):  # stdin itself was closed in the meantime
                    text.detach()  # or stdin would be closed with it
        return
    path = Path(source)
    opener: Any = import_module(_MODULES.get(path.suffix.lower(), "io")).open
    with (
        _explain_failures(str(source), encoding),
        opener(path, "rb") as file,
        _decode(file, encoding, newline) as text,
    ):
        yield text


@contextmanager
def open_lines(
    source: Source, encoding: str = "utf-8", newline: str | None = None
) -> Iterator[tuple[str, Iterator[str]]]:
    """Open one source as `open_text` does: its name, for messages, and its lines."""
    with open_text(source, encoding, newline) as file:
        name = source_name(source)
        yield name, lines_of(file, name)


def _check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)  # codecs.lookup() also finds those of bytes, such as base64
    except (LookupError, ValueError) as error:
        msg = f"no encoding is called {encoding!r}"
        hint = "for example utf-8, latin-1, windows-1252, utf-16, gb18030, big5"
        raise SapwoodError(msg, hint=hint) from error


def _decode(file: Any, encoding: str, newline: str | None) -> io.TextIOWrapper:
    """Bytes as text, by the encoding that an XML file names in its first line, if it does."""
    start = file.peek(XML_START) if hasattr(file, "peek") else b""
    named = _XML_ENCODING.match(start)
    encoding = named[1].decode() if named else encoding
    _check_encoding(encoding)
    # utf-8-sig also accepts files without a byte-order mark
    is_utf_8 = codecs.lookup(encoding).name == "utf-8"
    return io.TextIOWrapper(file, encoding="utf-8-sig" if is_utf_8 else encoding, newline=newline)


def lines_of(file: IO[str], name: str) -> Iterator[str]:
    r"""The lines of an open file, none longer than `MAX_CHARACTERS`.

    Every reader takes its lines from here, so that none holds more than a line of what a
    compressed file expands to.

    Examples
    --------
    >>> list(lines_of(io.StringIO("(S (X a))\n(S"), "trees.mrg"))
    ['(S (X a))\n', '(S']
    """
    number, where = 0, _position(file)
    while line := file.readline(MAX_CHARACTERS + 1):
        number += 1
        if number % LINES_NOTED == 0 and where is not None:
            note(*where(), unit="")
        if len(line) > MAX_CHARACTERS:
            msg = f"a line of more than {MAX_CHARACTERS:,} characters, the most that is read"
            hint = "one tree or sentence a line is expected: is the file what it claims?"
            raise CorpusError(msg, file=name, line=number, hint=hint)
        yield line


def _position(file: IO[str]) -> Callable[[], tuple[int, int]] | None:
    """A function that gives the bytes read so far and the size of a file; None for other sources.

    A compressed file is measured as it lies on the disk.
    """
    try:
        number = file.fileno()
        facts = os.fstat(number)
    except (OSError, ValueError):  # no file of the system
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return lambda: (os.lseek(number, 0, os.SEEK_CUR), facts.st_size)


def source_name(source: Source) -> str:
    """The name of a source in error messages."""
    if isinstance(source, (str, Path)):
        return "<stdin>" if str(source) == "-" else str(source)
    return str(getattr(source, "name", "<text>"))


class Reading(NamedTuple):
    """The name of a file and the options of its reader of trees."""

    name: str  # in errors
    skipped: list[CorpusError] | None = (
        None  # receives the errors of broken trees; None raises them
    )
    keep_functions: bool = False  # whether labels carry functions that a format keeps apart
    started: list[int] | None = None  # holds the line on which the last tree in brackets starts

    def note(self, error: CorpusError, line: int | None = None) -> None:
        """Give an error its file and line, then append it to `skipped`, or raise it."""
        error.file, error.line = self.name, error.line or line
        if self.skipped is None:
            raise error
        self.skipped.append(error)


@contextmanager
def _explain_failures(name: str, encoding: str = "utf-8") -> Iterator[None]:
    """Turn every failure of reading into a CorpusError that says what to do."""
    try:
        yield
    except UnicodeError as error:
        raise _not_text(name, encoding, error) from error
    except (EOFError, OSError, RuntimeError, zlib.error) as error:
        raise _read_failure(name, error) from error
    except Exception as error:
        if type(error).__name__ != "LZMAError":  # lzma stays unimported unless a file needs it
            raise
        raise _read_failure(name, error) from error


class EncodingError(CorpusError):
    """A file whose bytes are not text in the expected encoding; knows the likely ones."""

    likely: list[str]


def _not_text(name: str, encoding: str, error: UnicodeError) -> EncodingError:
    encoding = getattr(error, "encoding", None) or encoding
    title = "UTF-8" if codecs.lookup(encoding).name == "utf-8" else encoding
    if not isinstance(error, UnicodeDecodeError):  # UTF-16 without a mark at its start
        msg, likely = f"not {title} text ({error})", []
    else:
        msg = f"not {title} text (byte {error.object[error.start]:#04x}: {error.reason})"
        likely = likely_encodings(error.object)
    hint = f"it may be {' or '.join(likely)}: --encoding {likely[0]}" if likely else _NAME_IT
    found = EncodingError(msg, file=name, hint=hint)
    found.likely = likely
    return found


def likely_encodings(data: bytes) -> list[str]:
    """Likely encodings of bytes that are not UTF-8, best first; empty for binary data.

    Examples
    --------
    >>> likely_encodings("(N café)".encode("latin-1"))
    ['latin-1']
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return ["utf-16"]
    if b"\0" in data:
        return []
    high = [byte for byte in data if byte >= 0x80]
    n_letters = len(high) + sum(chr(byte).isalpha() for byte in data if byte < 0x80)
    if 4 * len(high) < n_letters:  # letters of Western Europe among many of ASCII
        return ["windows-1252" if any(byte < 0xA0 for byte in high) else "latin-1"]
    return [name for name in _OTHER_SCRIPTS if _can_decode(data, name)]


def _can_decode(data: bytes, encoding: str) -> bool:
    try:
        codecs.getincrementaldecoder(encoding)().decode(data)  # which may end inside a character
    except UnicodeDecodeError:
        return False
    return True


def _read_failure(name: str, error: Exception) -> CorpusError:
    msg = f"cannot read: {getattr(error, 'strerror', None) or error}"
    hint = "is the file complete, readable, and what it claims?"
    if isinstance(error, FileNotFoundError):
        msg, hint = "no such file", "check the path; `-` means stdin"
    elif isinstance(error, IsADirectoryError):
        msg, hint = "a folder, expected a file", "name a file in it"
    elif isinstance(error, PermissionError):
        hint = "check the permissions of the file and of its folder"
    return CorpusError(msg, file=name, hint=hint)


def peek_line(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    r"""The first line that is not blank, or "" without one, and all lines from the start.

    Examples
    --------
    >>> first, lines = peek_line(iter(["\n", "(S\n", "\n"]))
    >>> first, list(lines)
    ('(S\n', ['\n', '(S\n', '\n'])
    """
    n_blank = 0  # only counted: a file may be blank without end
    for line in lines:
        if line.strip():
            return line, chain(repeat("\n", n_blank), [line], lines)
        n_blank += 1
    return "", repeat("\n", n_blank)


def require_reading_memory(
    files: Iterable[Source], factor: float, hint: str = FEWER_TREES, what: str = "trees"
) -> None:
    """Refuse to read files whose contents would not fit into memory; the hint says what to do.

    `factor` is the number of bytes of memory for each byte of text. Sources of unknown size (stdin,
    pipes, open files) are not counted.
    """
    sizes = {source: text_bytes(source) for source in files}
    size = sum(sizes.values())
    largest = max(sizes, key=lambda source: sizes[source], default="")
    named = f"{largest}: " if len(sizes) == 1 else f"{largest} and others: "
    require_memory(factor * size, f"{named}reading {size / 1e6:,.0f} MB of {what}", hint)


def text_bytes(source: Source) -> int:
    """Bytes of the text of a file, estimated for a compressed one; 0 for other sources."""
    path = Path(source).expanduser() if isinstance(source, (str, Path)) else None
    if path is None or not path.is_file():
        return 0
    size = path.stat().st_size
    return size * EXPANSION if path.suffix.lower() in COMPRESSED else size
