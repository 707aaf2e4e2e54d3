"""Networks for a project of phrase trees: trained when asked, one at a time, in its own process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sapwood.annotation.project import NETWORK
from sapwood.annotation.state import TREES
from sapwood.core.errors import SapwoodError, count
from sapwood.web.guard import Refusal
from sapwood.web.runs import CANCELLED, DONE, FAILED, RUNNING, BackgroundRun, BackgroundRuns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sapwood.annotation.desk import Desk
    from sapwood.annotation.project import Accepted

LEAST_TREES = 100  # accepted trees that a network needs
STATES = {RUNNING: "running", DONE: "ready", FAILED: "failed", CANCELLED: "cancelled"}


class NetworkRun(BackgroundRun):
    """The training of one network on the accepted trees of a project.

    Parameters
    ----------
    held_out
        Ids of sentences that the network is not trained on.
    passes
        Over the trees.
    expected
        CPU seconds that are expected before the first pass has ended.
    """

    noun: ClassVar[str] = "training of a network"
    smaller: ClassVar[str] = "accept shorter sentences"

    def __init__(
        self, desk: Desk, out: Path, held_out: Sequence[str], passes: int, expected: float
    ) -> None:
        n_trees = desk.project.n_accepted - len(held_out)
        super().__init__("network", {"phases": [], "trees": n_trees, "passes": passes, "done": 0})
        self.desk, self.out, self.held_out, self.expected = desk, out, held_out, expected

    def add_other(self, kind: str | None, event: dict[str, Any]) -> None:
        """Note that a pass over the trees has ended."""
        if kind == "iteration":
            self.record["done"] = event["n"]

    def discard(self) -> None:
        """Remove the file of a network that was not finished, and its trees."""
        for file in (self.out, _trees_for(self.out)):
            file.unlink(missing_ok=True)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the last pass is expected to end; None where the training is over."""
        if self.state != RUNNING:
            return None
        done, passes = self.record["done"], self.record["passes"]
        whole = self.seconds * passes / done if done else self.expected
        return max(0.0, whole - self.seconds)

    def message(self) -> str | None:
        """A sentence about the training; None where it has ended with a network."""
        trees = count(self.record["trees"], "tree")
        if self.state == RUNNING:
            done, passes = self.record["done"], self.record["passes"]
            left = _duration(self.seconds_left or 0.0)
            return f"A network is trained on {trees}: {done} of {passes} passes, {left} to come."
        if self.record["error"] and self.state != CANCELLED:
            hint = f" ({self.record['hint']})" if self.record["hint"] else ""
            return f"The network could not be trained: {self.record['error']}{hint}."
        return "The training of the network was ended." if self.state == CANCELLED else None


class NetworkTrainings(BackgroundRuns[NetworkRun]):
    """Trains networks for a project, and hands each one over to its learning.

    Attributes
    ----------
    passes
        Over the trees; None for as many as their number of words asks for.
    """

    noun: ClassVar[str] = NetworkRun.noun
    one: ClassVar[str] = "the training of a network"
    passes: int | None = None

    def offer(self, desk: Desk) -> None:
        """Offer networks in a project of phrase trees."""
        if desk.learning is not None and desk.project.settings.kind == TREES:
            desk.learning.network = self

    def switch(self, desk: Desk) -> None:
        """Begin the training of a network, or end the one that runs.

        Raises
        ------
        Refusal
            422 for dependencies, and where too few trees were accepted.
        """
        if desk.learning is None or desk.learning.network is None:
            msg = "networks are trained here for phrase trees alone"
            hint = "export the trees, and train a parser of dependencies: sapwood depend train"
            raise Refusal(422, msg, hint)
        with self._lock:
            if self.last is not None and self.last.state == RUNNING:
                self._end(self.last, CANCELLED, None)
                return
            self.check_free()
            accepted = desk.project.accepted()
            if len(accepted) < LEAST_TREES:
                msg = f"a network needs {LEAST_TREES} accepted trees; there are {len(accepted)}"
                raise Refusal(422, msg, f"accept {LEAST_TREES - len(accepted)} more")
            run = self._plan(desk, accepted)
            self.begin(run, "train", {
                "trees": str(_trees_for(run.out)), "dev": "", "every": 0, "method": "encoder",
                "states": 1, "budget": 1.0, "iterations": run.record["passes"], "seed": 0,
                "out": str(run.out),
            })  # fmt: skip

    def _plan(self, desk: Desk, accepted: Sequence[Accepted]) -> NetworkRun:
        """A training on most of the trees, which are written to a file for it."""
        from sapwood.constituency.annotation.network import hold_out
        from sapwood.constituency.learn.encoder import seconds_a_pass
        from sapwood.networks.training import NetworkPlan

        held_out = hold_out([one.id for one in accepted])
        left_out = set(held_out)
        used = [one for one in accepted if one.id not in left_out]
        n_words = sum(len(one.words) for one in used)
        passes = NetworkPlan.usual(n_words, self.passes).passes
        out = self.store.folder / f"network-{os.getpid()}.sapwood"
        _trees_for(out).write_text("".join(f"{one.tree}\n" for one in used), encoding="utf-8")
        return NetworkRun(desk, out, held_out, passes, passes * seconds_a_pass(n_words))

    def keep(self, run: NetworkRun) -> None:
        """Keep the network in the folder of the project, and learn with it."""
        from sapwood.constituency.annotation.network import keep_network

        project, learning = run.desk.project, run.desk.learning
        assert learning is not None
        try:
            keep_network(run.out, project.folder / NETWORK, run.record["trees"], run.held_out)
        except (SapwoodError, OSError) as error:
            run.record["error"] = str(error)
            return
        finally:
            run.discard()
        learning.begin()

    def status(self) -> dict[str, Any]:
        """The network that is trained or was trained last: its state, progress and time to come."""
        run = self.last
        if run is None:
            return {"state": "none", "message": None}
        left = run.seconds_left
        return {
            "state": "failed" if run.record["error"] and run.state == DONE else STATES[run.state],
            "message": run.message(), "n_trees": run.record["trees"],
            "done": run.record["done"], "passes": run.record["passes"],
            "seconds": round(run.seconds, 1),
            "seconds_left": None if left is None else round(left, 1),
        }  # fmt: skip


def _trees_for(out: Path) -> Path:
    return out.with_suffix(".mrg")


def _duration(seconds: float) -> str:
    """A time to come in words.

    >>> _duration(7.0), _duration(40.0), _duration(200.0)
    ('some seconds', 'less than a minute', 'about 3 minutes')
    """
    if seconds < 60:
        return "some seconds" if seconds < 10 else "less than a minute"
    minutes = round(seconds / 60)
    return "about a minute" if minutes == 1 else f"about {minutes} minutes"
