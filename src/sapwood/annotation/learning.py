"""Learning as one goes: a model that is learnt again in a thread beside the work.

A teacher keeps what it has read of the accepted trees between two lessons, so that a tree is added
without reading the others. Learning starts when enough sentences were accepted, changed or opened
again since the last time, and once more where that is so when it ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock, Thread
from typing import Any, NamedTuple, Protocol

from sapwood.annotation.project import Accepted, Project
from sapwood.core.errors import SapwoodError

NONE, READY, LEARNING = "none", "ready", "learning"
FIRST_TREES = 5  # accepted trees that the first model needs
OWN_MODEL = "the project's own trees"  # what the page calls a model of the accepted trees
KEPT = "the model that was learnt last"
CURVE_GROWTH = 1.2  # the curve is measured again when the number of trees has grown by this factor
MOST_GIVEN_UP = 3  # measurements in a row that give way to learning
LEARNING_NICENESS = 10  # of the thread, so that answers come first


class Lesson(NamedTuple):
    """A model that was learnt.

    Attributes
    ----------
    model
        What the annotator suggests by.
    name
        What the page calls it.
    seconds
        CPU seconds that it took.
    """

    model: Any
    name: str
    n_trees: int
    seconds: float
    message: str


class Teacher(Protocol):
    """Learns models of the accepted trees of a project."""

    def learn(self, accepted: Sequence[Accepted]) -> Lesson:
        """The model of the accepted trees that are there now."""

    def save(self, lesson: Lesson, file: Path) -> None:
        """Write a model, so that the project can begin with it when it is opened again."""

    def measure(
        self, accepted: Sequence[Accepted], check: Callable[[], None]
    ) -> dict[str, Any] | None:
        """The learning curve: `points`, `expected` and `measure`; None where trees are too few.

        Parameters
        ----------
        check
            Called now and then; raises an error to give up.
        """


class NetworkTraining(Protocol):
    """Trains a network beside the work, where somebody asks for it."""

    def status(self) -> dict[str, Any]:
        """`state` (`none`, `running`, `ready`, `failed` or `cancelled`), `message` and more."""


class _GiveUp(Exception):  # noqa: N818 - control flow, not an error
    """Raised in a measurement that something else should go before."""


class Learning:
    """The state of learning in a project that is open.

    Parameters
    ----------
    use
        Called with each model that was learnt, before it is reported as ready.
    file
        Where the last model is kept; None to keep none.
    """

    def __init__(
        self,
        project: Project,
        teacher: Teacher,
        use: Callable[[Lesson], None],
        *,
        name: str | None,
        file: Path | None = None,
    ) -> None:
        self.project, self.teacher, self._use, self._file = project, teacher, use, file
        self.network: NetworkTraining | None = None  # None where networks are not offered
        self.start_name = name
        self.last: Lesson | None = None
        self.error: str | None = None
        self.curve: dict[str, Any] = {"points": [], "expected": None, "measure": None}
        self._n_learnt = 0  # changes of accepted trees that the last model has seen
        self._n_measured = self._n_given_up = 0  # trees of the last curve; curves given up since
        self._thread: Thread | None = None
        self._is_stopped = self._is_asked = self._is_running = False
        self._has_kept = file is not None and file.exists()
        self._lock = RLock()

    @property
    def is_running(self) -> bool:
        """Whether a model is being learnt."""
        return self._is_running

    def state(self) -> dict[str, Any]:
        """The model that makes suggestions, and whether another one is being learnt."""
        last = self.last
        has_model = last is not None or self.start_name is not None or self._has_kept
        network = None if self.network is None else self.network.status()
        is_busy = self.is_running or (network is not None and network["state"] == "running")
        said = [self.error or (None if last is None else last.message)]
        said += [] if network is None else [network["message"]]
        return {
            "name": self._first_name if last is None else last.name,
            "n_trees": 0 if last is None else last.n_trees,
            "state": LEARNING if is_busy else READY if has_model else NONE,
            "seconds": None if last is None else round(last.seconds, 3),
            "message": " ".join(filter(None, said)) or None,
            "network": network,
        }

    @property
    def _first_name(self) -> str | None:
        return KEPT if self._has_kept else self.start_name

    def report(self) -> dict[str, Any]:
        """The state, with the learning curve."""
        return self.state() | self.curve

    def is_due(self) -> bool:
        """Whether enough has changed since the last model was learnt."""
        project = self.project
        if self._is_asked:
            return True
        if project.n_accepted < FIRST_TREES:
            return False
        n_changes = project.n_changes - self._n_learnt
        is_first = self.last is None and not self._has_kept
        return is_first or n_changes >= project.settings.learn_every

    def note_change(self) -> None:
        """Start learning where it is due."""
        if self.is_due():
            self._start()

    def begin(self) -> None:
        """Start learning now, or once more where it runs already."""
        with self._lock:
            self._is_asked = True
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._is_running or self._is_stopped:
                return
            self._is_running = True
            self._thread = Thread(target=self._run, name="sapwood-learning", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        with suppress(OSError, AttributeError):  # on Linux, the niceness of this thread alone
            os.setpriority(os.PRIO_PROCESS, 0, LEARNING_NICENESS)
        while not self._is_stopped:
            with self.project.lock:
                n_changes, accepted = self.project.n_changes, self.project.accepted()
            self._n_learnt, self._is_asked = n_changes, False
            try:
                lesson = self.teacher.learn(accepted)
                self._use(lesson)
                self.last, self.error = lesson, None
                if self._file is not None and not self._is_stopped:
                    self.teacher.save(lesson, self._file)
                self._measure(accepted)
            except SapwoodError as error:  # the next change tries again
                hint = f" ({error.hint})" if error.hint else ""
                self.error = f"learning failed: {error}{hint}"
            except Exception as error:  # a thread has nobody else to tell
                self.error = f"learning failed: {type(error).__name__}: {error}"
            with self._lock:  # so that nobody asks in vain just before the end
                if not self._is_asked and (self.error is not None or not self.is_due()):
                    self._is_running = False
                    return
        self._is_running = False

    def _measure(self, accepted: Sequence[Accepted]) -> None:
        """Measure the learning curve where there are a fifth more trees than the last time."""
        if len(accepted) < CURVE_GROWTH * self._n_measured:
            return

        def check() -> None:
            if self._is_stopped or (self.is_due() and self._n_given_up < MOST_GIVEN_UP):
                raise _GiveUp

        try:
            check()
            self.curve = self.teacher.measure(accepted, check) or self.curve
            self._n_measured, self._n_given_up = len(accepted), 0
        except _GiveUp:
            self._n_given_up += 1

    def wait(self, seconds: float | None = None) -> None:
        """Wait until no model is being learnt."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def stop(self) -> None:
        """Start no more; what runs ends by itself, and its model is not used."""
        self._is_stopped = True
