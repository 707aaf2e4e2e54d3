"""The project that a server holds: opened when it starts, or made by the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any

from sapwood.annotation.order import LEARN
from sapwood.annotation.settings import NO_START
from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import explain_disk_errors
from sapwood.web.guard import Limits, Refusal
from sapwood.web.models import ModelStore
from sapwood.web.networks import NetworkTrainings

if TYPE_CHECKING:
    from sapwood.annotation.desk import Desk
    from sapwood.annotation.project import Project
    from sapwood.annotation.settings import ProjectSettings
    from sapwood.annotation.state import ProjectSentence
    from sapwood.web import schemas_annotation as forms


class OpenProject:
    """The project of a server.

    Parameters
    ----------
    folder
        Where it is or will be; None for a server without a project.
    """

    def __init__(self, folder: Path | None, store: ModelStore, limits: Limits) -> None:
        self.folder, self.store, self.limits = folder, store, limits
        self._desk: Desk | None = None
        self.networks = NetworkTrainings(store, limits)
        self._lock = RLock()
        if folder is not None and folder.exists():
            if not folder.is_dir():
                msg = f"{folder}: a file, expected the folder of a project"
                raise SapwoodError(msg, hint="name a folder, which may be new")
            with explain_disk_errors(folder):
                is_empty = not any(folder.iterdir())
            if not is_empty:
                from sapwood.annotation.project import Project

                self._use(Project.open(folder))

    def stop(self) -> None:
        """End trainings, and close the project, so that another process can open it."""
        self.networks.stop()
        with self._lock:
            if self._desk is not None:
                self._desk.close()

    @property
    def desk(self) -> Desk:
        """The desk of the project; refused with 404 where there is none."""
        if self._desk is None:
            msg = "this server has no project of annotation"
            hint = "make one by /api/project/create"
            if self.folder is None:
                hint = "start it with a folder: sapwood serve --project FOLDER"
            raise Refusal(404, msg, hint)
        return self._desk

    def summary(self, window: str = "") -> dict[str, Any]:
        """The project in short; `exists` is false where there is none yet."""
        name = None if self.folder is None else self.folder.resolve().name
        if self._desk is None:
            return {"exists": False, "folder_name": name}
        return self._desk.summary(window) | {"folder_name": name}

    def create(self, asked: forms.CreateProjectRequest) -> dict[str, Any]:
        """Make the project, with its first sentences; nothing is made where something is wrong."""
        from sapwood.annotation.settings import START_TREES, ProjectSettings
        from sapwood.web.desks import kind_of_model, plain_annotator

        if self.folder is None:
            hint = "start it with one: sapwood serve --project FOLDER"
            raise Refusal(422, "this server has no folder for a project", hint)
        with self._lock:
            if self._desk is not None:
                raise Refusal(422, "the project of this server is there already", "import into it")
            start = asked.start
            name = start.model if start.treebank is None else START_TREES
            settings = ProjectSettings(
                asked.title, asked.kind, asked.direction, name, start.label_map
            ).check()
            if name not in {NO_START, START_TREES}:
                self.store.get(name, kind_of_model(settings))
            annotator, sentences, messages = plain_annotator(settings), [], []
            for content, format in _contents(asked):
                found = annotator.read(
                    content, format, asked.document, as_accepted=asked.as_accepted
                )
                sentences += found.sentences
                messages += found.messages
            self._make(settings, sentences, start.treebank)
        return self.summary() | {"import": {"added": len(sentences), "messages": messages}}

    def _make(
        self, settings: ProjectSettings, sentences: Sequence[ProjectSentence], treebank: str | None
    ) -> None:
        """Make the folder and open it; where that fails, it is as before."""
        from sapwood.annotation.project import Project
        from sapwood.annotation.settings import START_TREES, write_file

        assert self.folder is not None
        was_there = self.folder.exists()
        project = Project.create(self.folder, settings)
        try:
            if treebank is not None:
                write_file(self.folder / START_TREES, [treebank.encode()])
            project.add(sentences)
            self._use(project)
        except Exception:
            project.close()
            rmtree(self.folder, ignore_errors=True)
            if was_there:
                self.folder.mkdir()
            raise

    def _use(self, project: Project) -> None:
        from sapwood.web.desks import open_desk

        self._desk = open_desk(project, self.store)
        self.networks.offer(self._desk)
        Thread(target=_warm, args=(self._desk,), daemon=True).start()

    def add(self, asked: forms.ImportRequest) -> dict[str, Any]:
        """Add sentences to the project."""
        return self.desk.add(
            asked.content, asked.format, asked.document, as_accepted=asked.as_accepted
        )

    def export(self, format: str) -> tuple[str, str]:
        """The accepted trees in a format, and the name of a file for them."""
        from sapwood.annotation.state import TREES
        from sapwood.web.desks import arcs_of_trees

        desk = self.desk
        known = {one.name: one for one in desk.annotator.export_formats}
        name = format or next(iter(known))
        if name == "conllu" and desk.project.settings.kind == TREES:
            return arcs_of_trees(desk.project.accepted()), "trees.conllu"
        text = desk.export(name)
        return text, f"trees{known[name].suffix}"

    def change_settings(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change the settings of the project, and return its summary."""
        desk = self.desk
        desk.project.change_settings(**changes)
        if changes.get("order") == LEARN:
            desk.queue.renew()
        return self.summary()

    def learning(self) -> dict[str, Any]:
        """The model that is learnt as one goes, and the learning curve."""
        desk = self.desk
        return desk.model_state() if desk.learning is None else desk.learning.report()

    def learn(self, *, with_network: bool) -> dict[str, Any]:
        """Learn the model again now, or train a network; one that is being trained is ended."""
        desk = self.desk
        if with_network:
            self.networks.switch(desk)
            return self.learning()
        if desk.learning is None or not desk.project.n_accepted:
            raise Refusal(422, "there is nothing to learn from yet", "accept a tree first")
        desk.learning.begin()
        return self.learning()


def _warm(desk: Desk) -> None:
    """Suggest a tree, so that kernels are compiled before a window asks."""
    found = desk.next_sentence(None)["id"]
    if found is not None:
        with suppress(SapwoodError):
            desk.view(found)


def _contents(asked: forms.CreateProjectRequest) -> Iterator[tuple[str, str]]:
    """The texts of a request, and their formats."""
    lines = None if asked.sentences is None else "\n".join(asked.sentences)
    for content, format in ((asked.text, "text"), (lines, "raw"), (asked.treebank, asked.format)):
        if content is not None and content.strip():
            yield content, format
