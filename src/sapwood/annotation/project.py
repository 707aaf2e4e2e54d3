"""A project of annotation: a folder that one process holds, and that is whole after every action.

    project.json      title, kind of trees, direction of writing, first model, order of work
    sentences.jsonl   the sentences as they were imported, in the order of the document
    journal.jsonl     every action, on the disk before it is answered
    trees.mrg         the accepted trees in the order of the document, or trees.conllu

The trees follow from the sentences and the journal, and are written again where they differ from
them when the project is opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Self

from sapwood.annotation.history import History
from sapwood.annotation.journal import REDO, UNDO, Entry, Journal, json_line, read_rows
from sapwood.annotation.settings import (
    ABOUT,
    ProjectSettings,
    read_settings,
    write_file,
    write_settings,
)
from sapwood.annotation.state import (
    ACCEPTED,
    STATUSES,
    TREES,
    Action,
    ConflictError,
    ProjectSentence,
    SentenceState,
)
from sapwood.core.errors import CorpusError, SapwoodError, count
from sapwood.core.outputs import hold_output, working_folder

SENTENCES, JOURNAL = "sentences.jsonl", "journal.jsonl"
MODEL = "model.sapwood"  # the model that was learnt last; may be deleted
NETWORK = "network.sapwood"  # the network that was trained last; may be deleted

Change = Callable[[SentenceState], SentenceState]


class Accepted(NamedTuple):
    """An accepted sentence with its tree."""

    id: str
    words: tuple[str, ...]
    tree: str
    document: str


class Project:
    """A project that is open in this process; all methods may be called from several threads.

    Attributes
    ----------
    folder
        Where its files are.
    messages
        What was found and mended when it was opened.
    trouble
        Why the file of trees could not be written; None where it is as the journal says.
    n_changes
        Number of changes of accepted trees since the project was opened.
    """

    def __init__(self, folder: Path, settings: ProjectSettings, held: ExitStack) -> None:
        self.folder, self.settings, self._held = folder, settings, held
        self.messages: list[str] = []
        self.trouble: str | None = None
        self.lock = RLock()
        rows, _ = read_rows(folder / SENTENCES)
        try:
            self.sentences = [ProjectSentence.from_dict(row) for row in rows]
        except (KeyError, TypeError, ValueError):
            hint = "another program has changed the file: restore it from a copy"
            raise CorpusError("not sentences of a project", file=SENTENCES, hint=hint) from None
        self._place = {one.id: place for place, one in enumerate(self.sentences)}
        self._states: dict[str, SentenceState] = {}
        self._counts = dict.fromkeys(STATUSES, 0)
        self._n_words = 0  # of accepted sentences
        for one in self.sentences:
            self._set(one.id, one.first_state())
        self._journal = Journal(folder / JOURNAL)
        held.callback(self._journal.close)
        if self._journal.note:
            self.messages.append(self._journal.note)
        self._history = History()
        self._windows: dict[str, str] = {}  # the window that has changed each sentence last
        self.n_changes = 0
        self._replay(self._journal.entries)

    # -- making and opening -----------------------------------------------------------------------

    @classmethod
    def create(cls, folder: str | Path, settings: ProjectSettings) -> Self:
        """Make a project in a folder that is new or empty, and open it.

        Raises
        ------
        SapwoodError
            Where the folder has files, or cannot be made.
        """
        path = Path(folder).expanduser()
        settings.check()
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            what = "a project" if (path / ABOUT).exists() else "other files"
            if not path.is_dir():
                what = "a file of that name"
            msg = f"{path}: cannot make a project where there is {what}"
            raise SapwoodError(msg, hint="name a folder that is new or empty")
        if not path.parent.is_dir():
            msg = f"{path}: its folder {path.parent} does not exist"
            raise SapwoodError(msg, hint=f"make it first: mkdir -p {path.parent}")
        made = working_folder(path.parent, f".{path.name}-") if not path.exists() else path
        write_settings(made, settings)
        if made is not path:
            made.chmod(0o755)
            made.rename(path)
        return cls.open(path)

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a project, and mend what a killed process has left.

        Raises
        ------
        SapwoodError
            Where there is none, another process holds it, or a file of it was damaged.
        """
        path = Path(folder).expanduser()
        if not (path / ABOUT).is_file():
            msg = f"{path}: no project of annotation there ({ABOUT} is missing)"
            hint = "name the folder of a project, or one that is new: the page makes it"
            raise SapwoodError(msg, hint=hint)
        with ExitStack() as held:
            try:
                held.enter_context(hold_output(path / ABOUT))
            except SapwoodError as error:
                msg = f"{path}: another process holds this project"
                raise SapwoodError(
                    msg, hint="stop the other `sapwood serve`, or open its page"
                ) from error
            project = cls(path, read_settings(path), held)
            project._mend_trees()
            project._held = held.pop_all()
        return project

    def close(self) -> None:
        """Let other processes open the project."""
        with self.lock:
            self._held.close()

    def __enter__(self) -> Self:
        """Return the project, which is closed behind the block."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _replay(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            state = self._states.get(entry.sentence)
            if state is None or state != entry.before:
                msg = f"action {entry.n} does not follow from what stands before it"
                hint = "another program has changed the files: restore them from a copy"
                raise CorpusError(msg, file=JOURNAL, line=entry.n, hint=hint)
            self._set(entry.sentence, entry.after)
            self._windows[entry.sentence] = entry.window
            self._history.record(entry)

    def _set(self, sentence_id: str, state: SentenceState) -> None:
        """Change the state of a sentence in memory, and count."""
        before = self._states.get(sentence_id)
        for one, sign in ((before, -1), (state, 1)):
            if one is not None:
                self._counts[one.status] += sign
                self._n_words += sign * len(one.words) * (one.tree is not None)
        self._states[sentence_id] = state

    # -- reading ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.sentences)

    def sentence(self, sentence_id: str) -> ProjectSentence:
        """The sentence of an id as it was imported."""
        return self.sentences[self.place(sentence_id)]

    def place(self, sentence_id: str) -> int:
        """The place of a sentence in the document, from 0 on; refused where there is none."""
        found = self._place.get(sentence_id)
        if found is None:
            msg = f"the project has no sentence {sentence_id!r:.60}"
            raise SapwoodError(msg, hint="/api/project/sentences lists the sentences")
        return found

    def state(self, sentence_id: str) -> SentenceState:
        """The current state of a sentence."""
        self.place(sentence_id)
        return self._states[sentence_id]

    def last_window(self, sentence_id: str) -> str | None:
        """The window that has changed a sentence last; None where nobody has."""
        return self._windows.get(sentence_id)

    def states(self) -> Iterator[tuple[ProjectSentence, SentenceState]]:
        """All sentences with their states, in the order of the document."""
        for one in list(self.sentences):
            yield one, self._states[one.id]

    def accepted(self) -> list[Accepted]:
        """The accepted sentences with their trees, in the order of the document."""
        return [
            Accepted(one.id, state.words, state.tree, one.document)
            for one, state in self.states()
            if state.tree is not None
        ]

    @property
    def n_accepted(self) -> int:
        """The number of accepted sentences."""
        return self._counts[ACCEPTED]

    @property
    def revision(self) -> int:
        """The number of actions so far."""
        return self._journal.n

    def summary(self) -> dict[str, Any]:
        """Numbers of sentences by status, of accepted words, and of actions."""
        return {
            "title": self.settings.title, "kind": self.settings.kind,
            "direction": self.settings.direction, "order": self.settings.order,
            "counts": {
                "sentences": len(self), **self._counts, "words_accepted": self._n_words,
            },
            "revision": self.revision,
            "messages": [*self.messages, *([self.trouble] if self.trouble else [])],
        }  # fmt: skip

    # -- changing ---------------------------------------------------------------------------------

    def apply(
        self, sentence_id: str, revision: int, action: Action, change: Change, *, window: str = ""
    ) -> SentenceState:
        """Change the state of a sentence, and return the new one.

        Parameters
        ----------
        revision
            The one that the window has seen.
        action
            The request, for the journal.
        change
            Makes the new state from the current one.

        Raises
        ------
        ConflictError
            Where the sentence has another revision by now.
        """
        with self.lock:
            state = self.state(sentence_id)
            if state.revision != revision:
                msg = f"sentence {sentence_id} has been changed in another window meanwhile"
                raise ConflictError(
                    msg, sentence=sentence_id, state=state,
                    hint="look at it as it is now, and make the change again",
                )  # fmt: skip
            after = change(state).with_revision(revision + 1)
            return self._write(window, sentence_id, action, after)

    def undo(self, window: str = "") -> tuple[str, SentenceState]:
        """Undo the last action of a window; returns the sentence's id and its new state."""
        with self.lock:
            entry = self._history.next_undo(window)
            if entry is None:
                raise SapwoodError("there is nothing to undo", hint="no action stands before")
            return self._turn(entry, UNDO, window)

    def redo(self, window: str = "") -> tuple[str, SentenceState]:
        """Do the last action again that a window has undone; returns as `undo`."""
        with self.lock:
            entry = self._history.next_redo(window)
            if entry is None:
                raise SapwoodError("there is nothing to do again", hint="undo something first")
            return self._turn(entry, REDO, window)

    def history(self, window: str = "") -> dict[str, Any]:
        """Whether there is something to undo and to do again, and what."""
        with self.lock:
            entries = {UNDO: self._history.next_undo(window), REDO: self._history.next_redo(window)}
        return {
            name: {"can": entry is not None, "label": None if entry is None else _label(entry)}
            for name, entry in entries.items()
        }

    def _turn(self, entry: Entry, kind: str, window: str) -> tuple[str, SentenceState]:
        """Go from one side of an entry to the other."""
        ends = (entry.before, entry.after)
        target, expected = ends if kind == UNDO else ends[::-1]
        state = self.state(entry.sentence)
        if not state.is_like(expected):
            verb = "undone" if kind == UNDO else "done again"
            msg = f"{_label(entry)} of sentence {entry.sentence} cannot be {verb}: "
            msg += "another window has changed the sentence since"
            raise ConflictError(
                msg, sentence=entry.sentence, state=state,
                hint="undo the later change there first, or edit the sentence",
            )  # fmt: skip
        after = target.with_revision(state.revision + 1)
        action = {"type": kind, "of": entry.n}
        return entry.sentence, self._write(window, entry.sentence, action, after)

    def _write(
        self, window: str, sentence_id: str, action: Action, after: SentenceState
    ) -> SentenceState:
        """Append to the journal, then change the state and the file of trees."""
        before = self._states[sentence_id]
        entry = Entry(
            self._journal.n + 1, round(time.time(), 3), window, sentence_id, action, before, after
        )
        self._journal.append(entry)
        self._set(sentence_id, after)
        self._windows[sentence_id] = window
        self._history.record(entry)
        self.n_changes += before.tree != after.tree
        if before.tree != after.tree or self.trouble is not None:
            self._write_trees()
        return after

    # -- sentences and settings -------------------------------------------------------------------

    def add(self, sentences: Iterable[ProjectSentence]) -> list[str]:
        """Add sentences after the others; they get ids of the project, which are returned."""
        with self.lock:
            n = len(self.sentences)
            added = [replace(one, id=f"s{k}") for k, one in enumerate(sentences, n + 1)]
            if not added:
                return []
            write_file(
                self.folder / SENTENCES,
                (json_line(one.as_dict()) for one in self.sentences + added),
            )
            for one in added:
                self._place[one.id] = len(self.sentences)
                self._set(one.id, one.first_state())
                self.sentences.append(one)
            if any(one.is_accepted for one in added):
                self.n_changes += 1
                self._write_trees()
            return [one.id for one in added]

    def change_settings(self, **changes: Any) -> None:
        """Change some settings and write them; the kind of trees stays."""
        with self.lock:
            settings = replace(self.settings, **changes).check()
            write_settings(self.folder, settings)
            self.settings = settings

    # -- the file of trees ------------------------------------------------------------------------

    @property
    def trees_file(self) -> Path:
        """The file of the accepted trees."""
        return self.folder / ("trees.mrg" if self.settings.kind == TREES else "trees.conllu")

    def _rows(self, trees: Mapping[str, SentenceState]) -> Iterator[bytes]:
        for one in self.sentences:
            tree = trees[one.id].tree
            if tree is not None:
                yield row_of(self.settings.kind, one.id, tree).encode()

    def _write_trees(self) -> None:
        """Write the trees; where the disk refuses, the next action tries again."""
        try:
            write_file(self.trees_file, self._rows(self._states))
            self.trouble = None
        except SapwoodError as error:  # the journal has everything
            self.trouble = f"{error}; the journal has all trees, and the next action tries again"

    def _mend_trees(self) -> None:
        """Rewrite the trees that differ from the journal; keep what others wrote there."""
        now = b"".join(self._rows(self._states))
        file = self.trees_file
        found = file.read_bytes() if file.exists() else None
        if found == now:
            return
        if found and not self._is_earlier(found, now):
            k = 1
            while (copy := file.with_name(f"{file.stem}-edited-{k}{file.suffix}")).exists():
                k += 1
            write_file(copy, [found])
            self.messages.append(
                f"{file.name} was changed by another program; what it held is in {copy.name}, "
                f"and {file.name} has the {count(len(self.accepted()), 'tree')} of the journal"
            )
        self._write_trees()

    def _is_earlier(self, found: bytes, now: bytes) -> bool:
        """Whether the file has the trees from before the last action or the last import."""
        states = dict(self._states)
        if self._journal.entries:
            last = self._journal.entries[-1]
            states[last.sentence] = last.before
        expected = b"".join(self._rows(states))
        return found == expected or any(b.startswith(found) for b in (expected, now))


def row_of(kind: str, sentence_id: str, tree: str) -> str:
    """A tree as it is in the file of trees, with its line ends."""
    return f"{tree}\n" if kind == TREES else f"# sent_id = {sentence_id}\n{tree}\n\n"


def _label(entry: Entry) -> str:
    """An action in a few words."""
    action = entry.action
    name = action.get("label") or action.get("tag") or action.get("relation")
    return f"{action['type']} {name}" if name else str(action["type"])
