"""The project that a server holds: opened when it starts, or made by the page."""

from __future__ import annotations

from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from sapwood.annotation.settings import NOTHING
from sapwood.annotation.state import TREES as PHRASES
from sapwood.web.guard import Limits, Refusal
from sapwood.web.models import ARCS, TREES, ModelStore

if TYPE_CHECKING:
    from sapwood.annotation.desk import Desk
    from sapwood.annotation.project import Project
    from sapwood.web import schemas_annotation as forms

ENDINGS = {"brackets": "mrg", "conllu": "conllu", "json": "jsonl", "words": "txt"}


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
        self._lock = RLock()
        if folder is not None and folder.exists() and any(folder.iterdir()):
            from sapwood.annotation.project import Project

            self._use(Project.open(folder))

    def stop(self) -> None:
        """Close the project, so that another process can open it."""
        with self._lock:
            if self._desk is not None:
                self._desk.project.close()

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
        return self._desk.summary(window) | {"folder_name": name, "orders": ["document"]}

    def create(self, asked: forms.CreateProjectRequest) -> dict[str, Any]:
        """Make the project, with its first sentences."""
        from sapwood.annotation.project import Project
        from sapwood.annotation.settings import Settings

        if self.folder is None:
            hint = "start it with one: sapwood serve --project FOLDER"
            raise Refusal(422, "this server has no folder for a project", hint)
        with self._lock:
            if self._desk is not None:
                raise Refusal(422, "the project of this server is there already", "import into it")
            if asked.start.model != NOTHING:
                self.store.get(asked.start.model, TREES if asked.kind == PHRASES else ARCS)
            settings = Settings(
                asked.title, asked.kind, asked.direction, asked.start.model, asked.start.label_map
            )
            self._use(Project.create(self.folder, settings))
            for content, format in (
                (asked.text, "text"),
                (None if asked.sentences is None else "\n".join(asked.sentences), "raw"),
                (asked.treebank, asked.format),
            ):
                if content is not None and content.strip():
                    self.desk.add(content, format, asked.document, as_accepted=asked.as_accepted)
        return self.summary()

    def _use(self, project: Project) -> None:
        from sapwood.annotation.desk import Desk
        from sapwood.constituency.annotation.annotator import TreeAnnotator
        from sapwood.dependency.annotation.annotator import ArcAnnotator

        start, label_map = project.settings.start, dict(project.settings.label_map)
        annotator: TreeAnnotator | ArcAnnotator
        if project.settings.kind == PHRASES:
            annotator = TreeAnnotator()
            if start != NOTHING:
                annotator.use(self.store.get(start, TREES).parser(), label_map)
        else:
            annotator = ArcAnnotator()
            if start != NOTHING:
                annotator.use(self.store.get(start, ARCS).model, label_map)
        self._desk = Desk(project, annotator)

    def add(self, asked: forms.ImportRequest) -> dict[str, Any]:
        """Add sentences to the project."""
        return self.desk.add(
            asked.content, asked.format, asked.document, as_accepted=asked.as_accepted
        )

    def export(self, format: str) -> tuple[str, str]:
        """The accepted trees in a format, and the name of a file for them."""
        format = format or ("brackets" if self.desk.project.settings.kind == "trees" else "conllu")
        text = self.desk.export(format)
        return text, f"trees.{ENDINGS.get(format, 'txt')}"

    def change_settings(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Change the settings of the project, and return its summary."""
        self.desk.project.change_settings(**changes)
        return self.summary()

    def guideline(self, label: str, sentence_id: str) -> dict[str, Any]:
        """What a label looked like in earlier trees."""
        return {"label": label, "n": 0, "examples": [], "states": []}

    def learning(self) -> dict[str, Any]:
        """The model that is learnt as one goes."""
        return self.desk.model_state() | {"points": [], "expected": None}

    def learn(self, *, with_network: bool) -> dict[str, Any]:
        """Learn the model again now."""
        return self.learning()
