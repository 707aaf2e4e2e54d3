"""Training from the page: one at a time, in a process of its own."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sapwood.core.errors import count
from sapwood.web.models import TREES, LoadedModel
from sapwood.web.runs import BackgroundRun, BackgroundRuns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sapwood.corpora.tree import Tree

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
    from sapwood.web.initial_models import bundled_trees

    if file is None:
        return bundled_trees()
    return list(read_trees(file)) if file.exists() else ()
