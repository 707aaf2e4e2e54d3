"""The steps of a process that change files, counted; and its death at one of them.

Between two such steps nothing on the disk changes, so dying before each of them, and in the middle
of each write, is dying at every moment that matters.
"""

from __future__ import annotations

import builtins
import io
import os
import signal
from collections.abc import Callable
from typing import Any, NoReturn

CHANGING = (
    "open", "replace", "rename", "link", "unlink", "remove", "truncate", "ftruncate", "mkdir",
    "rmdir", "fsync", "setxattr", "chmod", "fchmod",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Steps:
    """Counts steps and ends the process when one of them is due.

    Parameters
    ----------
    last
        The step, counted from 1, before which the process dies; None for never.
    is_torn
        Whether a write that is the last step is done half before.
    note
        Called with the name of each step and its first argument.
    """

    def __init__(
        self,
        last: int | None = None,
        *,
        is_torn: bool = False,
        note: Callable[[str, str], None] = lambda name, where: None,
    ) -> None:
        self.last = last
        self.is_torn = is_torn
        self.note = note
        self.n_done = 0

    def step(self, name: str, where: object) -> bool:
        """Count one; whether it is the last, which the caller may still do half."""
        self.n_done += 1
        self.note(name, str(where))
        return self.n_done == self.last

    def install(self) -> None:
        """Put the count into everything of Python that changes files; for good."""
        steps, plain_open = self, io.open

        class File(io.FileIO):
            """A file whose writes are steps."""

            def write(self, data: Any) -> int | None:
                if steps.step("write", self.name):
                    if steps.is_torn:
                        super().write(memoryview(data).cast("B")[: len(data) // 2])
                    die()
                return super().write(data)

            def truncate(self, size: int | None = None) -> int:
                if steps.step("truncate", self.name):
                    die()
                return super().truncate(size)

        def watched_open(file: Any, mode: str = "r", buffering: int = -1, *args: Any, **kw: Any):
            if not set(mode) & set("wax+"):
                return plain_open(file, mode, buffering, *args, **kw)
            if not isinstance(file, int) and steps.step("open", file):
                die()
            return _layered(File(file, mode.replace("b", "").replace("t", "")), mode, args, kw)

        io.open = builtins.open = watched_open  # type: ignore[assignment]
        for name in CHANGING:
            if hasattr(os, name):
                setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kw: Any) -> Any:
            changes = name != "open" or args[1] & _WRITING
            if changes and self.step(name, args[0]):
                die()
            return call(*args, **kw)

        return watched


def _layered(raw: io.FileIO, mode: str, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
    """What `open` puts around a raw file."""
    buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
    if "b" in mode:
        return buffered
    names = ("encoding", "errors", "newline")
    given = dict(zip(names, args, strict=False)) | {k: v for k, v in kw.items() if k in names}
    return io.TextIOWrapper(buffered, **given)


def die() -> NoReturn:
    """As when the power goes or somebody kills the process: nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError  # not reached
