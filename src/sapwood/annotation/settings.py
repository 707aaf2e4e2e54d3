"""The settings of a project, which are the file `project.json` of its folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from sapwood.annotation.order import ORDERS
from sapwood.annotation.state import TREE_KINDS, TREES
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.core.outputs import open_output

PROJECT_FORMAT = 1
ABOUT = "project.json"
DIRECTIONS = ("auto", "ltr", "rtl")
TITLE_CHARACTERS = 200  # characters
NO_START = "nothing"  # the first model of a project that starts without any
START_TREES = "start.trees"  # the treebank that a project starts from, beside `project.json`
START_MODEL = "start.sapwood"  # the model of that, or a start model with the project's labels


@dataclass(frozen=True)
class ProjectSettings:
    """The settings that `project.json` holds.

    Attributes
    ----------
    direction
        `ltr`, `rtl`, or `auto` for that of the words.
    start
        The start model: its name, `nothing`, or `start.trees` for the treebank in that file.
    label_map
        Labels of the start model, and what they are called in the project; None removes a phrase.
    order
        The order of work: that of the document, random, or by how much is to be learnt.
    learn_every
        Number of newly accepted sentences after which the model is learnt again.
    """

    title: str
    kind: str = TREES
    direction: str = "auto"
    start: str = NO_START
    label_map: Mapping[str, str | None] = field(default_factory=dict)
    order: str = "document"
    learn_every: int = 5
    format: int = PROJECT_FORMAT

    def check(self) -> Self:
        """The settings themselves; refused where one of them has no meaning."""
        _check_choice("kind", self.kind, TREE_KINDS)
        _check_choice("order", self.order, ORDERS)
        _check_choice("direction", self.direction, DIRECTIONS)
        if not 1 <= len(self.title.strip()) <= TITLE_CHARACTERS:
            msg = f"a title of {len(self.title.strip())} characters"
            raise SapwoodError(msg, hint=f"give one of 1 to {TITLE_CHARACTERS}")
        if self.format > PROJECT_FORMAT:
            msg = (
                f"a project of format {self.format}; this version of Sapwood reads {PROJECT_FORMAT}"
            )
            raise SapwoodError(msg, hint="update Sapwood")
        return self


def _check_choice(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        msg = f"the {name} of the project is {value!r:.60}"
        raise SapwoodError(msg, hint=f"give one of {', '.join(known)}")


def write_file(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file of a project, whole or not at all."""
    with open_output(path, force=True) as file:
        for line in lines:
            file.write(line.decode())


def write_settings(folder: Path, settings: ProjectSettings) -> None:
    """Write the settings of a project into its folder."""
    text = json.dumps(asdict(settings), ensure_ascii=False, indent=2)
    write_file(folder / ABOUT, [f"{text}\n".encode()])


def read_settings(folder: Path) -> ProjectSettings:
    """Read the settings of a project from its folder."""
    try:
        row = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        known = set(ProjectSettings.__dataclass_fields__)
        return ProjectSettings(
            **{name: value for name, value in row.items() if name in known}
        ).check()
    except (OSError, ValueError, TypeError, AttributeError) as error:
        hint = "restore it from a copy"
        raise CorpusError(
            f"not the settings of a project ({error})", file=ABOUT, hint=hint
        ) from error
