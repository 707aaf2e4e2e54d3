"""One kill: a job is ended at some moment, what it left is looked at, and it is run again.

Children are forked from a process that has everything loaded and compiled, so that a run takes
fractions of a second. Between two steps that change files nothing on the disk changes, so dying
before each of them, and in the middle of each write, is dying at every moment that matters.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import json
import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NoReturn

from tests.kills.jobs import Job

PATIENCE = 300.0  # seconds for a run that is not killed: more is a hang


CHANGING = (
    "open", "replace", "rename", "link", "unlink", "remove", "truncate", "ftruncate", "mkdir",
    "rmdir", "fsync", "setxattr", "chmod", "fchmod",
)  # fmt: skip
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


@dataclass(frozen=True)
class Run:
    """How a run ended, what it wrote to stdout and stderr, and its steps."""

    status: int
    out: str
    err: str
    steps: list[tuple[str, str]]
    seconds: float


@dataclass(frozen=True)
class Moment:
    """When to kill: before a step, in the middle of it if it is a write, or after a while."""

    step: int | None = None
    is_torn: bool = False
    seconds: float | None = None

    def __str__(self) -> str:
        if self.step is None:
            return f"after {self.seconds:.3f} s"
        return f"{'within' if self.is_torn else 'before'} step {self.step}"


def warm(job: Job, folder: Path) -> None:
    """Run a job in this process, so that its children need not load or compile anything."""
    silent = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent):
        try:
            job.run(folder)
        except SystemExit as end:
            if end.code:
                silent.seek(0)
                raise RuntimeError(
                    f"{job.name} fails undisturbed: {silent.read()[-2000:]}"
                ) from end


def run(job: Job, folder: Path, moment: Moment | None = None) -> Run:
    """Run a job in a child of its own, and kill it at the moment given."""
    return wait(*start(job, folder, folder.parent / f"{folder.name}.log", moment))


def start(
    job: Job, folder: Path, log: Path, moment: Moment | None = None
) -> tuple[int, Path, float, Moment]:
    """Start a job in a child of its own; what `wait` needs."""
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir()
    for name in ("out", "err", "steps"):  # here: the child may die at once
        (log / name).touch()
    started, moment = monotonic(), moment or Moment()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _in_child(job, folder, log, moment)
    return child, log, started, moment


def wait(child: int, log: Path, started: float, moment: Moment) -> Run:
    """Wait for a child, and kill it at its moment: how it ended."""
    status = _wait(child, moment.seconds)
    seconds = monotonic() - started
    out, err = ((log / name).read_text(errors="replace") for name in ("out", "err"))
    lines = (log / "steps").read_text().splitlines()
    steps = [tuple(json.loads(line)) for line in lines if line.endswith("]")]
    return Run(status, out, err, steps, seconds)


def _in_child(job: Job, folder: Path, log: Path, moment: Moment) -> None:
    status = 70
    try:
        for stream, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(log / name, os.O_WRONLY), stream)
        notes = os.open(log / "steps", os.O_WRONLY)

        def note(name: str, where: str) -> None:
            os.write(notes, json.dumps([name, where]).encode() + b"\n")

        Steps(moment.step, is_torn=moment.is_torn, note=note).install()
        job.run(folder)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 70
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int, seconds: float | None) -> int:
    """The exit status, negative for a signal."""
    until = monotonic() + (PATIENCE if seconds is None else seconds)
    pause = 0.001
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        left = until - monotonic()
        if left <= 0:
            os.kill(child, signal.SIGKILL)
            until = float("inf")
        sleep(max(0.0, min(pause, left)))
        pause = min(2 * pause, 0.02)


class Bench:
    """A job with what an undisturbed run of it gives."""

    def __init__(self, job: Job, prepared: Path, folder: Path) -> None:
        self.job, self.prepared, self.folder = job, prepared, folder
        self._clear()
        self.before = self._contents()
        self.right = run(job, folder)
        if self.right.status:
            raise RuntimeError(f"{job.name} fails undisturbed: {self.right.err[-2000:]}")
        self.after = self._contents()

    def _clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.prepared, self.folder)

    def _contents(self) -> dict[str, bytes]:
        paths = {name: self.folder / name for name in self.job.outputs}
        return {name: path.read_bytes() for name, path in paths.items() if path.is_file()}

    def moments(self) -> list[Moment]:
        """Before each step of the undisturbed run, and within each write."""
        places = enumerate((name for name, _ in self.right.steps), 1)
        torn = [Moment(k, is_torn=True) for k, name in places if name == "write"]
        return [Moment(k) for k in range(1, len(self.right.steps) + 1)] + torn

    def kill(self, moment: Moment) -> list[str]:
        """Kill a run and run again; everything that is not as it must be."""
        self._clear()
        killed = run(self.job, self.folder, moment)
        faults = list(self._half_written("after the kill"))
        has_times = self.job.has_times
        if not has_times and not self.right.out.startswith(killed.out):
            faults.append("stdout before the kill is no beginning of the right output")
        n_kept = self._n_kept()
        again = run(self.job, self.folder)
        if again.status:
            faults.append(f"the next run ends with status {again.status}: {again.err[-1500:]}")
            return faults
        faults += self._half_written("after the next run")
        missing = set(self.after) - set(self._contents())
        if missing:
            faults.append(f"the next run did not write {', '.join(sorted(missing))}")
        if not has_times and again.out != self.right.out:
            faults.append("the next run writes something else to stdout")
        if self.job.told is not None and killed.status < 0:
            used = self.job.told(again.err, again.steps)
            if used < n_kept:
                faults.append(f"{n_kept} were done and kept, and the next run used {used} of them")
        return faults

    def _half_written(self, when: str) -> Any:
        """Outputs that are neither as before nor complete."""
        for name, data in self._contents().items():
            if data in (self.before.get(name), self.after.get(name)):
                continue
            if self.job.progress is not None and name == self.job.progress[0]:
                continue  # a stage on the way, which is looked at by itself
            complete = self.job.is_complete
            if complete is None or not _is_true(complete, self.folder / name):
                yield f"{name} is neither absent nor complete {when} ({len(data):,} bytes)"

    def _n_kept(self) -> int:
        """What the killed run has kept of its work; none when its output is already there."""
        if self.job.progress is None:
            return 0
        name, count = self.job.progress
        path = self.folder / name
        return count(path) if path.exists() else 0

    def left_over(self) -> list[str]:
        """Files that neither the preparation nor an output explains."""
        known = {path.relative_to(self.prepared) for path in self.prepared.rglob("*")}
        found = (path for path in self.folder.rglob("*") if path.is_file())
        names = {path.relative_to(self.folder) for path in found}
        return sorted(str(name) for name in names - known if str(name) not in self.job.outputs)


def _is_true(check: Any, path: Path) -> bool:
    try:
        return bool(check(path))
    except Exception:
        return False


# -- steps that change files ----------------------------------------------------------------------


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
