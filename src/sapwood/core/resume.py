"""Unfinished output that the next run resumes: `OUT.part`, and its origin in `OUT.part.json`.

A record is the output of one line of input. Records are appended as they come; a restart keeps the
complete ones, cuts off a torn last one, and skips the input of all complete ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import IO, Any, TypeVar

from sapwood.core.errors import SapwoodError, count
from sapwood.core.outputs import (
    explain_disk_errors,
    find_target,
    give_name,
    hold_output,
    open_output,
)

PIECE = 1 << 20  # characters or bytes read at once
T = TypeVar("T")
EVERY = 0.25  # seconds between flushes: the work that a killed run may lose


class UnfinishedOutput:
    """An unfinished output file, to which records are appended."""

    def __init__(self, file: IO[str], n_done: int) -> None:
        self.n_done = n_done
        self._file = file
        self._flushed = perf_counter()

    def write(self, record: str) -> None:
        """Append one record, and flush the file now and then."""
        self._file.write(record)
        if perf_counter() - self._flushed > EVERY:
            self._file.flush()
            self._flushed = perf_counter()


def part_and_note(path: Path) -> tuple[Path, Path]:
    """Paths of the records of an unfinished output, and of the note on their origin."""
    path = find_target(path).path  # beside the file itself, not beside a link to it
    return path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.json")


@contextmanager
def open_part(
    path: Path,
    origin: Mapping[str, Any],
    *,
    is_block: bool,
    tell: Callable[[str], None],
    force: bool = False,
) -> Iterator[UnfinishedOutput]:
    """Open `path.part` to append records; it becomes `path` when the block ends well.

    Parameters
    ----------
    origin
        Everything the records depend on, for JSON; a part with another origin is refused.
    is_block
        Whether a record is a block that ends with an empty line, rather than one line.
    tell
        Called with a line on how many records were there, or are kept after a failure.
    force
        Whether files may be replaced that Sapwood did not write.
    """
    part, note = part_and_note(path)
    with hold_output(path), explain_disk_errors(part):
        _check_origin(part, note, origin, force=force)
        with part.open("a", encoding="utf-8", newline="\n") as file:
            n_done, size = complete_records(part, is_block=is_block)
            file.truncate(size)
            opened = UnfinishedOutput(file, n_done)
            if n_done:
                tell(f"going on after {count(n_done, 'line')}, which are in {part}")
            try:
                yield opened
                file.flush()
            except BaseException:
                with suppress(OSError):
                    file.flush()
                n_kept, _ = complete_records(part, is_block=is_block)
                kept = f"{count(n_kept, 'line')} done, in {part}"
                tell(f"{kept}; the same command goes on there")
                raise
        give_name(part, path)
        note.unlink(missing_ok=True)


def skip_done(items: Iterator[T], n_done: int) -> Iterator[T]:
    """Skip the items whose records are complete already."""
    n_skipped = sum(1 for _ in islice(items, n_done))
    if n_skipped < n_done:
        msg = f"{count(n_done, 'record')} are there already, for {count(n_skipped, 'sentence')}"
        raise SapwoodError(msg, hint="delete the unfinished output and its note to begin anew")
    return items


def complete_records(part: Path, *, is_block: bool) -> tuple[int, int]:
    """Number of complete records of a file, and the offset at which the last of them ends."""
    n = size = offset = 0
    is_start = True
    with part.open("rb") as file:
        while piece := file.readline(PIECE):  # a foreign file may be one endless line
            offset += len(piece)
            is_end = piece.endswith(b"\n")
            if is_end and (not is_block or (is_start and piece == b"\n")):
                n, size = n + 1, offset
            is_start = is_end
    return n, size


def sha256(path: Path) -> str:
    """SHA-256 checksum of a file, as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_origin(part: Path, note: Path, origin: Mapping[str, Any], *, force: bool) -> None:
    """Refuse a part of another origin; write down the origin of a new one."""
    begin = f"delete {part} and {note.name} to begin anew, or choose another -o"
    if not part.exists():
        with open_output(note, force=force) as file:
            file.write(json.dumps(origin, indent=2) + "\n")
        return
    try:
        with note.open(encoding="utf-8") as file:
            before = json.loads(file.read(PIECE))  # a whole note is far shorter
    except (OSError, ValueError, RecursionError):
        msg = f"{part}: nothing says what made it ({note.name} is missing or not readable)"
        raise SapwoodError(msg, hint=begin) from None
    before = before if isinstance(before, dict) else {}
    for key in {**before, **origin}:
        old, new = before.get(key), origin.get(key)
        if old != new:
            is_sum = isinstance(old, str) and isinstance(new, str) and len(old) == len(new) == 64
            change = "its contents have changed" if is_sum else f"then {old}, now {new}"
            msg = f"{part}: begun with another {key}: {change}"
            raise SapwoodError(msg, hint=f"use what it was begun with; or {begin}")
