"""The desk: a project, its kind of trees, and what a window shows of a sentence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from threading import RLock
from time import perf_counter
from typing import Any
from unicodedata import bidirectional

from sapwood.annotation.actions import WITH_TREE
from sapwood.annotation.kinds import Annotator, Suggestion
from sapwood.annotation.learning import Learning, Teacher
from sapwood.annotation.project import MODEL, Project
from sapwood.annotation.settings import WORK_ORDERS
from sapwood.annotation.state import ACCEPTED, NEW, STARTED, Action, SentenceState
from sapwood.core.errors import SapwoodError

N_KEPT_VIEWS = 200  # suggestions that are kept in memory, of the sentences shown last
RIGHT_TO_LEFT = frozenset({"R", "AL"})


class Desk:
    """Edits, suggestions and summaries of a project.

    Parameters
    ----------
    annotator
        The family's part: edits, suggestions, formats.
    teacher
        Learns models of the accepted trees; None for suggestions by one model, or none.
    name
        Of the model that the annotator begins with; None where it has none.
    """

    def __init__(
        self,
        project: Project,
        annotator: Annotator,
        teacher: Teacher | None = None,
        *,
        name: str | None = None,
    ) -> None:
        self.project, self.annotator, self.name = project, annotator, name
        self.learning: Learning | None = None
        if teacher is not None:
            file = project.folder / MODEL
            self.learning = Learning(project, teacher, annotator.use, name=name, file=file)
        self._shown: OrderedDict[tuple[str, int], Suggestion] = OrderedDict()
        self._lock = RLock()
        self._names_at = -1
        self.note_names()

    def note_names(self) -> None:
        """Tell annotator and learning of the accepted trees, where they have changed."""
        if self._names_at != self.project.n_changes:
            self._names_at = self.project.n_changes
            self.annotator.learn_names(self.project.accepted())
            if self.learning is not None:
                self.learning.note_change()

    # -- views ------------------------------------------------------------------------------------

    def view(self, sentence_id: str, window: str = "") -> dict[str, Any]:
        """All that a window shows of a sentence; see the API's `SentenceView`."""
        state = self.project.state(sentence_id)
        return self._view(sentence_id, state, window, self._suggestion(sentence_id, state))

    def _suggestion(
        self, sentence_id: str, state: SentenceState, *, is_shown: bool = False
    ) -> Suggestion:
        """The tree of a state: made now, or for an action, the one that was shown last."""
        key = (sentence_id, state.revision)
        if is_shown:
            with self._lock:
                if key in self._shown:
                    return self._shown[key]
        began = perf_counter()
        if state.status == ACCEPTED:
            made = self.annotator.show(state)
        else:
            made = self.annotator.suggest(state)
        made.extra["seconds"] = round(perf_counter() - began, 4)
        with self._lock:
            self._shown[key] = made
            self._shown.move_to_end(key)
            while len(self._shown) > N_KEPT_VIEWS:
                self._shown.popitem(last=False)
        return made

    def _view(
        self, sentence_id: str, state: SentenceState, window: str, found: Suggestion
    ) -> dict[str, Any]:
        words = state.words
        is_trees = self.project.settings.kind == "trees"
        return {
            "id": sentence_id,
            "number": self.project.place(sentence_id) + 1,
            "revision": state.revision,
            "window": self.project.last_window(sentence_id),
            "status": state.status,
            "words": list(words),
            "direction": self.direction(words),
            "tree": found.tree,
            "nodes": list(found.rows) if is_trees else None,
            "arcs": None if is_trees else list(found.rows),
            "given": self.annotator.given(state),
            "alternatives": [
                {"number": k, **one._asdict()} for k, one in enumerate(found.alternatives, 1)
            ],
            "is_fallback": found.is_fallback,
            "seconds": found.extra.get("seconds", 0.0),
            "warnings": [],
            "note": self.project.sentence(sentence_id).note,
            "project": self.summary(window),
        }

    def direction(self, words: Sequence[str]) -> str:
        """The direction of writing of a sentence: `ltr` or `rtl`."""
        wanted = self.project.settings.direction
        if wanted != "auto":
            return wanted
        letters = [bidirectional(sign) for word in words for sign in word[:20]]
        n_right = sum(one in RIGHT_TO_LEFT for one in letters)
        return (
            "rtl" if 2 * n_right > sum(one in {"L", *RIGHT_TO_LEFT} for one in letters) else "ltr"
        )

    # -- actions ----------------------------------------------------------------------------------

    def edit(
        self, sentence_id: str, revision: int, action: Action, window: str = ""
    ) -> dict[str, Any]:
        """Apply an action to a sentence, and return the new view."""
        kept = dict(action)

        def change(state: SentenceState) -> SentenceState:
            shown = self._suggestion(sentence_id, state, is_shown=True)
            if action.get("type") == "choose" and not action.get("tree"):
                kept["tree"] = _chosen(shown, action.get("alternative"))
            tree = str(kept.get("tree") or shown.tree)
            after = self.annotator.edit(state, kept, shown.tree)
            if action.get("type") in WITH_TREE:
                kept["tree"] = tree
            return after

        self.project.apply(sentence_id, revision, kept, change, window=window)
        self.note_names()
        return self.view(sentence_id, window)

    def undo(self, window: str = "") -> dict[str, Any]:
        """Undo the last action, and return the view of its sentence."""
        sentence_id, _ = self.project.undo(window)
        self.note_names()
        return self.view(sentence_id, window)

    def redo(self, window: str = "") -> dict[str, Any]:
        """Do the last undone action again, and return the view of its sentence."""
        sentence_id, _ = self.project.redo(window)
        self.note_names()
        return self.view(sentence_id, window)

    def complete(self, sentence_id: str, place: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Names for a place of a sentence's tree, the most probable first."""
        found = self.annotator.complete(self.project.state(sentence_id), dict(place))
        return [one._asdict() for one in found]

    # -- the whole project ------------------------------------------------------------------------

    def summary(self, window: str = "") -> dict[str, Any]:
        """The project in short: counts, model, undo and redo, names."""
        found = self.project.summary() | self.project.history(window)
        return found | self.annotator.names() | {
            "exists": True, "model": self.model_state(), "orders": list(WORK_ORDERS),
            "start": self.project.settings.start,
            "formats": [one._asdict() for one in self.annotator.export_formats],
        }  # fmt: skip

    def model_state(self) -> dict[str, Any]:
        """The model that makes suggestions, and whether another one is being learnt."""
        if self.learning is not None:
            return self.learning.state()
        state = "none" if self.name is None else "ready"
        none = {"n_trees": 0, "seconds": None, "message": None}
        return {"name": self.name, "state": state, **none}

    def close(self) -> None:
        """End learning, and close the project."""
        if self.learning is not None:
            self.learning.stop()
        self.project.close()

    def rows(self, offset: int, limit: int, status: str | None, query: str) -> dict[str, Any]:
        """Sentences in the order of the document, by status and words."""
        wanted = query.casefold()
        found = [
            (number, one, state)
            for number, (one, state) in enumerate(self.project.states(), 1)
            if (not status or state.status == status)
            and (not wanted or wanted in " ".join(state.words).casefold())
        ]
        return {
            "total": len(found),
            "rows": [
                {
                    "id": one.id, "number": number, "status": state.status,
                    "n_words": len(state.words), "text": " ".join(state.words)[:300],
                    "document": one.document, "reason": (one.note or {}).get("kind"),
                }
                for number, one, state in found[offset : offset + limit]
            ],
        }  # fmt: skip

    def next_sentence(self, after: str | None) -> dict[str, Any]:
        """The sentence that should be annotated next, and why; `id` is None where none is left."""
        waiting = [
            (number, one.id, state)
            for number, (one, state) in enumerate(self.project.states())
            if state.status in {NEW, STARTED} and one.id != after
        ]
        if not waiting:
            return {"id": None, "why": None}
        if self.project.settings.order == "random":
            started = (row for row in waiting if row[2].status == STARTED)
            found = next(started, min(waiting, key=lambda row: sha256(row[1].encode()).digest()))
        else:
            start = -1 if after is None else self.project.place(after)
            found = next((row for row in waiting if row[0] > start), waiting[0])
        order, words = self.project.settings.order, len(found[2].words)
        return {
            "id": found[1], "why": {"order": order, "score": None, "words": words, "parts": []},
        }  # fmt: skip

    def export(self, format: str) -> str:
        """The accepted trees in a format."""
        return self.annotator.export(self.project.accepted(), format)

    def add(
        self, content: str, format: str, document: str, *, as_accepted: bool = False
    ) -> dict[str, Any]:
        """Import sentences from a text."""
        found = self.annotator.read(content, format, document, as_accepted=as_accepted)
        if not found.sentences and not found.messages:
            raise SapwoodError("no sentence found", hint="give text, or trees in their format")
        added = self.project.add(found.sentences)
        self.note_names()
        return {"added": len(added), "skipped": len(found.messages), "messages": found.messages}


def _chosen(shown: Suggestion, number: object) -> str:
    """The tree of an alternative of a view, which is counted from 1."""
    n = len(shown.alternatives)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= n:
        msg = f"there is no alternative {number!r:.20}"
        raise SapwoodError(msg, hint=f"the tree has {n}, counted from 1" if n else "there are none")
    return shown.alternatives[number - 1].tree
