"""Finished folds in files, so that an interrupted audit continues with the missing folds."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import open_output, write_bytes

T = TypeVar("T")
NOTE = "audit.json"
_SPOILT = (
    OSError, EOFError, ValueError, KeyError, IndexError, NotImplementedError, BadZipFile,
    zlib.error,
)  # fmt: skip


class FinishedFolds:
    """The folds of one audit that are finished, each in a file of a folder.

    Parameters
    ----------
    folder
        Made when the first fold is kept; None keeps nothing.
    origin
        Everything that the folds depend on, for JSON; folds of another origin are refused.
    """

    def __init__(self, folder: Path | None, origin: Mapping[str, Any]) -> None:
        self.folder, self.origin = folder, dict(origin)
        if folder is not None and (folder / NOTE).exists():
            self._check_origin(folder)

    def _check_origin(self, folder: Path) -> None:
        try:
            before = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = None
        if before != self.origin:
            changed = [
                k
                for k in self.origin
                if not isinstance(before, dict) or before.get(k) != self.origin[k]
            ]
            raise SapwoodError(
                f"{folder}: holds the folds of another audit ({', '.join(changed)} differ)",
                hint=f"delete {folder} to start again, or repeat the command that began it",
            )

    def load(self, k: int, unpack: Callable[[bytes], T]) -> T | None:
        """The saved result of a fold; None where it is not finished."""
        path = None if self.folder is None else self.folder / f"fold-{k + 1}.npz"
        if path is None or not path.exists():
            return None
        try:
            return unpack(path.read_bytes())
        except _SPOILT as error:
            msg = f"{path}: cannot be read as a finished fold ({error})"
            raise SapwoodError(
                msg, hint="delete this file; its fold is then learnt again"
            ) from error

    def keep(self, k: int, data: bytes) -> None:
        """Save the result of a fold."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / NOTE).exists():
            with open_output(self.folder / NOTE) as file:
                file.write(json.dumps(self.origin, indent=2) + "\n")
        write_bytes(self.folder / f"fold-{k + 1}.npz", data)


def remove_folds(folder: Path) -> None:
    """Remove the files of all folds of an audit, and their folder if nothing else is in it."""
    if not (folder / NOTE).exists():
        return
    for path in [*folder.glob("fold-*.npz"), folder / NOTE]:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def hash_items(items: Iterable[object]) -> str:
    """A hash of objects in order, by their representations."""
    made = hashlib.sha256()
    for item in items:
        made.update(repr(item).encode())
    return made.hexdigest()
