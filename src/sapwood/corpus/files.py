"""Opening what a user names: files, several files, globs, folders, compressed files, stdin."""

from __future__ import annotations

import glob
import io
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from sapwood.arguments import as_items, as_path
from sapwood.errors import CorpusError

Source = str | Path | IO[str]
COMPRESSED = (".gz", ".xz", ".bz2")
# Of one line, or of one tree. The longest real sentences have some thousands: more is a file
# without line ends, a damaged one, or one that expands without end, and must not fill the memory.
MAX_CHARACTERS = 10_000_000


def expand(sources: Source | Iterable[Source], suffixes: tuple[str, ...]) -> list[Source]:
    """Replace globs and folders by the files they stand for, sorted.

    Parameters
    ----------
    sources
        One or several of: path, glob, folder, `-` (stdin), open text file.
    suffixes
        The file endings that count inside a folder, compressed or not.
    """
    if isinstance(sources, (str, Path)) or hasattr(sources, "read"):
        sources = [cast("Source", sources)]
    sources = list(as_items(sources, "the path of a file or folder, or several"))
    return [file for source in sources for file in _expand_one(source, suffixes)]


def _expand_one(source: Source, suffixes: tuple[str, ...]) -> list[Source]:
    if hasattr(source, "read") or str(source) == "-":
        return [source]
    source = as_path(source, "a file or folder")
    with _explained(str(source)):  # a name too long for a path, an unknown ~user
        path = Path(source).expanduser()
        path.exists()
    if path.is_dir():
        return _in_folder(path, suffixes)
    if path.exists():
        return [path]
    if glob.has_magic(str(path)):
        found = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns too
        if not found:
            msg = "no file matches this pattern"
            raise CorpusError(msg, file=str(source), hint="check the folder and the ending")
        return [file for name in found for file in _expand_one(name, suffixes)]
    msg = "no such file or folder"
    raise CorpusError(msg, file=str(source), hint="check the path; quote globs, `-` means stdin")


def _in_folder(folder: Path, suffixes: tuple[str, ...]) -> list[Source]:
    wanted = tuple(suffix + ending for suffix in suffixes for ending in ("", *COMPRESSED))
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name.endswith(wanted))
    if not files:
        endings = ", ".join(suffixes)
        msg = f"the folder holds no file ending in {endings} (or those with .gz, .xz, .bz2)"
        raise CorpusError(msg, file=str(folder), hint="name the files, or use a glob")
    return list(files)


@contextmanager
def open_text(source: Source) -> Iterator[IO[str]]:
    """Open one source as UTF-8 text, decompressing by its ending; failures become CorpusError."""
    if not isinstance(source, (str, Path)):
        with _explained(source_name(source)):
            yield source
        return
    if str(source) == "-":
        with _explained("<stdin>"):
            text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig")
            try:
                yield text
            finally:
                with suppress(ValueError):  # stdin itself was closed in the meantime
                    text.detach()  # or stdin would be closed with it
        return
    with _explained(str(source)), _open_path(Path(source)) as file:
        yield file


def lines_of(file: IO[str], name: str) -> Iterator[str]:
    r"""The lines of an open file, none longer than `MAX_CHARACTERS`.

    Every reader takes its lines from here, so that none holds more than a line of what a
    compressed file expands to.

    Raises
    ------
    CorpusError
        At a longer line, before all of it is read.

    Examples
    --------
    >>> list(lines_of(io.StringIO("(S (X a))\n(S"), "trees.mrg"))
    ['(S (X a))\n', '(S']
    """
    number = 0
    while line := file.readline(MAX_CHARACTERS + 1):
        number += 1
        if len(line) > MAX_CHARACTERS:
            msg = f"a line of more than {MAX_CHARACTERS:,} characters, the most that is read"
            hint = "one tree or sentence a line is expected: is the file what it claims?"
            raise CorpusError(msg, file=name, line=number, hint=hint)
        yield line


def source_name(source: Source) -> str:
    """The name that error messages use."""
    if isinstance(source, (str, Path)):
        return "<stdin>" if str(source) == "-" else str(source)
    return str(getattr(source, "name", "<text>"))


def _open_path(path: Path) -> IO[str]:
    # utf-8-sig also accepts files without a byte-order mark
    if path.suffix == ".gz":
        import gzip

        return gzip.open(path, "rt", encoding="utf-8-sig")
    if path.suffix == ".xz":
        import lzma

        return lzma.open(path, "rt", encoding="utf-8-sig")
    if path.suffix == ".bz2":
        import bz2

        return bz2.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Turn the many ways in which reading can fail into one error that says what to do."""
    try:
        yield
    except UnicodeDecodeError as error:
        msg = f"not UTF-8 text (byte {error.object[error.start]:#04x}: {error.reason})"
        raise CorpusError(msg, file=name, hint="convert it: iconv -f LATIN1 -t UTF-8") from error
    except (EOFError, OSError, RuntimeError, zlib.error) as error:
        raise _read_failure(name, error) from error
    except Exception as error:
        if type(error).__name__ != "LZMAError":  # lzma stays unimported unless a file needs it
            raise
        raise _read_failure(name, error) from error


def _read_failure(name: str, error: Exception) -> CorpusError:
    msg = f"cannot read: {getattr(error, 'strerror', None) or error}"
    return CorpusError(msg, file=name, hint="is the file complete, readable, and what it claims?")
