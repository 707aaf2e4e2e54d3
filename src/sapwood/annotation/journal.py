"""The journal of a project: one action per line, on the disk before it is answered.

A process that is killed while it writes leaves a line without its end, which was never answered:
it is cut off when the journal is opened again. Everything else of a project follows from the
journal and the imported sentences.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sapwood.annotation.state import Action, SentenceState
from sapwood.core.errors import CorpusError, count
from sapwood.core.outputs import explain_disk_errors

UNDO, REDO = "undo", "redo"


@dataclass(frozen=True)
class Entry:
    """One action of the journal.

    Attributes
    ----------
    n
        Its number, from 1 on.
    time
        Seconds since 1970.
    window
        The window or program that asked for it.
    sentence
        The id of the sentence that it changed.
    action
        The request; `{"type": "undo", "of": n}` and `redo` name the entry that they are about.
    before, after
        The states of the sentence.
    """

    n: int
    time: float
    window: str
    sentence: str
    action: Action
    before: SentenceState
    after: SentenceState

    def as_dict(self) -> dict[str, Any]:
        """The entry as one object of JSON."""
        return {
            "n": self.n, "time": self.time, "window": self.window, "sentence": self.sentence,
            "revision": self.before.revision, "action": dict(self.action),
            "before": self.before.as_dict(), "after": self.after.as_dict(),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """The entry of an object of JSON."""
        return cls(
            int(row["n"]), float(row["time"]), str(row["window"]), str(row["sentence"]),
            dict(row["action"]), SentenceState.from_dict(row["before"]),
            SentenceState.from_dict(row["after"]),
        )  # fmt: skip

    @property
    def about(self) -> int:
        """The number of the action that is done, undone or done again."""
        return int(self.action["of"]) if self.is_of_history else self.n

    @property
    def is_of_history(self) -> bool:
        """Whether the entry undoes another one, or does it again."""
        return self.action["type"] in {UNDO, REDO}


def json_line(row: Mapping[str, Any]) -> bytes:
    """An object as one line of JSON, its letters as they are."""
    return (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def read_rows(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The objects of a file, one per line, and the size of what is whole.

    A last line without its end is no part of the file.

    Raises
    ------
    CorpusError
        Where a line that has an end is no object of JSON.
    """
    if not path.exists():
        return [], 0
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    rows = []
    for number, line in enumerate(whole.split(b"\n")[:-1], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise _damaged(path, number)
        rows.append(row)
    return rows, len(whole)


def _damaged(path: Path, line: int) -> CorpusError:
    hint = "another program has changed the file: restore it from a copy"
    return CorpusError("expected an object of JSON", file=str(path), line=line, hint=hint)


class Journal:
    """The journal's file, open for appending.

    Attributes
    ----------
    entries
        The entries that were there when it was opened.
    note
        What was cut off then; None where the file was whole.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.note: str | None = None
        rows, size = read_rows(path)
        self.entries: list[Entry] = []
        for number, row in enumerate(rows, 1):
            try:
                entry = Entry.from_dict(row)
            except (KeyError, TypeError, ValueError):
                raise _damaged(path, number) from None
            if entry.n != number:
                msg = f"action {entry.n} stands where action {number} was expected"
                hint = "another program has changed the file: restore it from a copy"
                raise CorpusError(msg, file=str(path), line=number, hint=hint)
            self.entries.append(entry)
        with explain_disk_errors(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            self._size = size
            cut = os.fstat(self._handle).st_size - size
            if cut:
                os.ftruncate(self._handle, size)
                os.fsync(self._handle)
                self.note = (
                    f"the last {count(cut, 'byte')} of {path.name} were a line without its end, "
                    "of an action that was never answered; they were cut off"
                )
        self.n = len(self.entries)

    def append(self, entry: Entry) -> None:
        """Write an entry and flush it to the disk; where that fails, the file stays as it was."""
        line = json_line(entry.as_dict())
        with explain_disk_errors(self.path):
            try:
                written = 0
                while written < len(line):
                    written += os.write(self._handle, line[written:])
                os.fsync(self._handle)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(self._handle, self._size)
                raise
        self._size += len(line)
        self.n = entry.n

    def close(self) -> None:
        """Close the file of the journal."""
        os.close(self._handle)
