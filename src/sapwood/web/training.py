"""Training from the page: one at a time, in a process of its own."""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any

from sapwood.core.errors import count
from sapwood.web.limits import Limits, Refusal
from sapwood.web.models import TREES, LoadedModel, ModelStore
from sapwood.web.processes import END_SECONDS, close_streams, start_process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sapwood.corpora.tree import Tree

BUNDLED, NONE, HOLD_OUT = "bundled", "none", "hold-out"
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
HELD_OUT = 10  # every tenth tree is held out
MEMORY_FACTOR = 4  # the memory limit of a training over that of a request


class TrainingRun:
    """One training and its progress so far."""

    def __init__(self, name: str, wish: dict[str, Any], out: Path) -> None:
        self.name, self.out = name, out
        self.state = RUNNING
        self.began = monotonic()
        self.record: dict[str, Any] = {
            "training": name, **wish, "phases": [], "read": None, "iterations": [], "grades": [],
            "trials": [], "report": None, "model": None, "error": None, "hint": None,
        }  # fmt: skip
        self.ended: float | None = None

    def add_event(self, event: dict[str, Any]) -> None:
        """Add an event of the training process to the record."""
        kind = event.pop("event", None)
        if kind == "phase":
            self.record["phases"].append({"name": event["name"], "at": round(self.seconds, 2)})
        elif kind == "iteration":
            self.record["iterations"].append([event["n"], event["states"], event["log"]])
        elif kind == "grade":
            self.record["grades"].append([event["n"], event["f1"]])
        elif kind == "trial":
            self.record["trials"].append(event)
        elif kind == "read":
            self.record["read"] = event
        elif kind == "done":
            self.record["report"] = event["answer"]
        elif kind == "failed":
            self.record |= {"error": event["error"], "hint": event["hint"]}
        elif kind == "memory":
            hint = "train with fewer states or a smaller treebank, or serve with a larger "
            hint += "--max-memory"
            error = "the training needs more memory than it may take"
            self.record |= {"error": error, "hint": hint}

    @property
    def seconds(self) -> float:
        """Seconds since the training began, until it ended."""
        return (self.ended or monotonic()) - self.began

    def as_dict(self) -> dict[str, Any]:
        """The answer of `/api/train`."""
        return self.record | {"state": self.state, "seconds": round(self.seconds, 2)}


class Trainings:
    """Runs trainings one at a time, and keeps the record of the last one."""

    def __init__(self, store: ModelStore, limits: Limits) -> None:
        self.store, self.limits = store, limits
        self.last: TrainingRun | None = None
        self._process: subprocess.Popen[str] | None = None
        self._lock = RLock()
        self._is_stopped = False

    def start(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Begin a training in a process of its own.

        Raises
        ------
        Refusal
            409 while another one runs; 404 for a treebank that is not here.
        """
        with self._lock:
            if self._is_stopped:
                raise Refusal(503, "the server is stopping")
            if self.last is not None and self.last.state == RUNNING:
                msg = "another training is running; there is one at a time"
                raise Refusal(409, msg, "cancel it, or wait until it has ended")
            name = self.store.fresh_name("trained")
            run = TrainingRun(name, wish, self.store.folder / f"{name}.sapwood")
            self._process = start_process(
                "train", self._order(wish, run.out), folder=self.store.folder,
                memory=MEMORY_FACTOR * self.limits.memory, is_quiet=True,
            )  # fmt: skip
            self.last = run
            Thread(target=self._listen, args=(run, self._process), daemon=True).start()
            return run.as_dict()

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

    def _listen(self, run: TrainingRun, process: subprocess.Popen[str]) -> None:
        """Read the events of the process until it ends, and record how it ended."""
        limit = self.limits.training
        message = f"it took longer than the {limit:g} s that a training may take"
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
                run.out.unlink(missing_ok=True)
                return
            if run.record["report"] is None:
                run.state = FAILED
                run.record["error"] = (
                    run.record["error"] or f"the process ended with status {status}"
                )
                run.out.unlink(missing_ok=True)
                return
            self._add_model(run)
            run.state = DONE

    def _add_model(self, run: TrainingRun) -> None:
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

    def cancel(self) -> dict[str, Any]:
        """End the running training.

        Raises
        ------
        Refusal
            404 when none runs.
        """
        with self._lock:
            if self.last is None or self.last.state != RUNNING:
                raise Refusal(404, "no training is running")
            self._end(self.last, CANCELLED, None)
            return self.last.as_dict()

    def _end(self, run: TrainingRun, state: str, error: str | None) -> None:
        with self._lock:
            if run.state != RUNNING or self._process is None:
                return
            run.state, run.ended = state, monotonic()
            run.record["error"] = error
            self._process.kill()

    def status(self) -> dict[str, Any]:
        """The record of the running or last training; `state` is None where there was none."""
        return {"state": None} if self.last is None else self.last.as_dict()

    def stop(self) -> None:
        """End the running training; no other can be started."""
        with self._lock:
            self._is_stopped = True
            process = self._process
            if self.last is not None:
                self._end(self.last, CANCELLED, "the server stopped")
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(END_SECONDS)


def _trees_of(file: Path | None) -> Sequence[Tree]:
    """The trees of an uploaded file, or the bundled trees; none where the file was removed."""
    from sapwood.corpora.formats import read_trees
    from sapwood.web.initial_models import bundled_trees

    if file is None:
        return bundled_trees()
    return list(read_trees(file)) if file.exists() else ()
