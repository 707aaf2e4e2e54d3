"""Long work of the page, such as training: one run at a time, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from sapwood.core.errors import count
from sapwood.web.guard import Limits, Refusal
from sapwood.web.models import TREES, LoadedModel, ModelStore
from sapwood.web.processes import END_SECONDS, close_streams, start_process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sapwood.corpora.tree import Tree

RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
MEMORY_FACTOR = 4  # the memory limit of a run over that of a request


class BackgroundRun:
    """One run and its progress so far; the record has `report`, `error` and `hint` at least."""

    noun: ClassVar[str] = "run"
    smaller: ClassVar[str] = "take a smaller treebank"  # what needs less memory

    def __init__(self, name: str, record: dict[str, Any]) -> None:
        self.name = name
        self.state = RUNNING
        self.began = monotonic()
        self.record = record | {"report": None, "error": None, "hint": None}
        self.ended: float | None = None

    def add_event(self, event: dict[str, Any]) -> None:
        """Add an event of the process to the record."""
        kind = event.pop("event", None)
        if kind == "phase":
            self.record["phases"].append({"name": event["name"], "at": round(self.seconds, 2)})
        elif kind == "done":
            self.record["report"] = event["answer"]
        elif kind == "failed":
            self.record |= {"error": event["error"], "hint": event["hint"]}
        elif kind == "memory":
            hint = f"{self.smaller}, or serve with a larger --max-memory"
            error = f"the {self.noun} needs more memory than it may take"
            self.record |= {"error": error, "hint": hint}
        else:
            self.add_other(kind, event)

    def add_other(self, kind: str | None, event: dict[str, Any]) -> None:
        """Add an event that only some runs have."""

    def discard(self) -> None:
        """Remove the files of a run without a result."""

    @property
    def seconds(self) -> float:
        """Seconds since the run began, until it ended."""
        return (self.ended or monotonic()) - self.began

    def as_dict(self) -> dict[str, Any]:
        """The answer about its status."""
        return self.record | {"state": self.state, "seconds": round(self.seconds, 2)}


Run = TypeVar("Run", bound=BackgroundRun)


class BackgroundRuns(Generic[Run]):
    """Starts runs one at a time, and keeps the record of the last one."""

    noun: ClassVar[str] = "run"
    one: ClassVar[str] = "a run"

    def __init__(self, store: ModelStore, limits: Limits) -> None:
        self.store, self.limits = store, limits
        self.last: Run | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lock = RLock()
        self._is_stopped = False

    def check_free(self) -> None:
        """Refuse a new run with 503 when the server stops, with 409 while another one runs."""
        if self._is_stopped:
            raise Refusal(503, "the server is stopping")
        if self.last is not None and self.last.state == RUNNING:
            msg = f"another {self.noun} is running; there is one at a time"
            raise Refusal(409, msg, "cancel it, or wait until it has ended")

    def begin(self, run: Run, function: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Begin a run in a process that calls a function of `FUNCTIONS`; returns its record."""
        with self._lock:
            self._process = start_process(
                function, arguments, folder=self.store.folder,
                memory=MEMORY_FACTOR * self.limits.memory, is_quiet=True,
            )  # fmt: skip
            self.last = run
            Thread(target=self._listen, args=(run, self._process), daemon=True).start()
            return run.as_dict()

    def _listen(self, run: Run, process: subprocess.Popen[str]) -> None:
        """Read the events of the process until it ends, and record how it ended."""
        limit = self.limits.training
        message = f"it took longer than the {limit:g} s that {self.one} may take"
        clock = Timer(limit, partial(self._end, run, FAILED, message))
        clock.daemon = True
        clock.start()
        assert process.stdout is not None
        with suppress(ValueError):  # closed while it was read
            for line in process.stdout:
                run.add_event(json.loads(line))
        status = process.wait()
        clock.cancel()
        close_streams(process)
        with self._lock:
            run.ended = monotonic()
            if run.state != RUNNING:
                run.discard()
                return
            if run.record["report"] is None:
                run.state = FAILED
                run.record["error"] = (
                    run.record["error"] or f"the process ended with status {status}"
                )
                run.discard()
                return
            self.keep(run)
            run.state = DONE

    def keep(self, run: Run) -> None:
        """Keep the result of a run."""

    def cancel(self) -> dict[str, Any]:
        """End the run that is under way; refused with 404 when there is none."""
        with self._lock:
            if self.last is None or self.last.state != RUNNING:
                raise Refusal(404, f"no {self.noun} is running")
            self._end(self.last, CANCELLED, None)
            return self.last.as_dict()

    def _end(self, run: Run, state: str, error: str | None) -> None:
        with self._lock:
            if run.state != RUNNING or self._process is None:
                return
            run.state, run.ended = state, monotonic()
            run.record["error"] = error
            self._process.kill()

    def status(self) -> dict[str, Any]:
        """The record of the run under way or the last one; `state` is None without any."""
        return {"state": None} if self.last is None else self.last.as_dict()

    def stop(self) -> None:
        """End the run that is under way; no other can be started."""
        with self._lock:
            self._is_stopped = True
            process = self._process
            if self.last is not None:
                self._end(self.last, CANCELLED, "the server stopped")
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)


BUNDLED, NONE, HOLD_OUT = "bundled", "none", "hold-out"
HELD_OUT = 10  # every tenth tree is held out


class TrainingRun(BackgroundRun):
    """One training and its progress so far."""

    noun: ClassVar[str] = "training"
    smaller: ClassVar[str] = "train with fewer states or a smaller treebank"

    def __init__(self, name: str, wish: dict[str, Any], out: Path) -> None:
        record = {
            "training": name, **wish, "phases": [], "read": None, "iterations": [], "grades": [],
            "trials": [], "model": None,
        }  # fmt: skip
        super().__init__(name, record)
        self.out = out

    def add_other(self, kind: str | None, event: dict[str, Any]) -> None:
        """Add an iteration, a score on dev trees, a candidate, or what was read."""
        if kind == "iteration":
            self.record["iterations"].append([event["n"], event["states"], event["log"]])
        elif kind == "grade":
            self.record["grades"].append([event["n"], event["f1"]])
        elif kind == "trial":
            self.record["trials"].append(event)
        elif kind == "read":
            self.record["read"] = event

    def discard(self) -> None:
        """Remove the model file."""
        self.out.unlink(missing_ok=True)


class Trainings(BackgroundRuns[TrainingRun]):
    """Runs trainings one at a time, and keeps the record of the last one."""

    noun: ClassVar[str] = "training"
    one: ClassVar[str] = "a training"

    def start(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Begin a training in a process of its own.

        Raises
        ------
        Refusal
            409 while another one runs; 404 for a treebank that is not here.
        """
        with self._lock:
            self.check_free()
            name = self.store.fresh_name("trained")
            run = TrainingRun(name, wish, self.store.folder / f"{name}.sapwood")
            return self.begin(run, "train", self._order(wish, run.out))

    def _order(self, wish: dict[str, Any], out: Path) -> dict[str, Any]:
        """The order for the process: paths are the server's own, never names from the client."""
        treebank, dev = wish["treebank"], wish["dev"]
        is_bundled = treebank == BUNDLED
        trees = None if is_bundled else str(self.store.find_treebank(treebank))
        if dev in {BUNDLED, NONE, HOLD_OUT}:
            file = None if dev == BUNDLED else ""
        else:
            file = str(self.store.find_treebank(dev))
        return {
            "trees": trees, "dev": file, "every": HELD_OUT if dev == HOLD_OUT else 0,
            "method": wish["method"], "states": wish["states"], "budget": wish["budget"],
            "iterations": wish["iterations"], "seed": wish["seed"], "out": str(out),
        }  # fmt: skip

    def keep(self, run: TrainingRun) -> None:
        """Add the model to those of the server."""
        from sapwood.core.model_files import load

        record = run.record
        treebank = record["treebank"]
        file = None if treebank == BUNDLED else self.store.find_treebank(treebank)
        trees = record["read"]["trees"] if record["read"] else 0
        self.store.add(
            LoadedModel(
                run.name, partial(load, run.out), kind=TREES, file=run.out,
                trees=partial(_trees_of, file), traits=record["report"].get("traits"),
                about=f"{record['method']}, trained here on {count(trees, 'tree')}",
            )
        )  # fmt: skip
        record["model"] = run.name


def _trees_of(file: Path | None) -> Sequence[Tree]:
    """The trees of an uploaded file, or the bundled trees; none where the file was removed."""
    from sapwood.corpora.formats import read_trees
    from sapwood.web.models import bundled_trees

    if file is None:
        return bundled_trees()
    return list(read_trees(file)) if file.exists() else ()
