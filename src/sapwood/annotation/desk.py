"""The desk: a project, its kind of trees, and what a window shows of a sentence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import RLock
from time import perf_counter
from typing import Any
from unicodedata import bidirectional

from sapwood.annotation.actions import WITH_TREE
from sapwood.annotation.kinds import Annotator, Suggestion
from sapwood.annotation.learning import Learning, Lesson, Teacher
from sapwood.annotation.order import LEARN, ORDERS
from sapwood.annotation.project import MODEL, Project
from sapwood.annotation.queue import WorkQueue
from sapwood.annotation.state import ACCEPTED, Action, SentenceState
from sapwood.core.errors import SapwoodError, count

N_KEPT_VIEWS = 200  # suggestions that are kept in memory, of the sentences shown last
TREE_CHARACTERS = 500  # of a tree a word, with brackets, labels and the columns of CoNLL-U
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
            self.learning = Learning(project, teacher, self._use, name=name, file=file)
        self._shown: OrderedDict[tuple[str, int], Suggestion] = OrderedDict()
        self._lock = RLock()
        self._noted: dict[str, str] = {}  # the accepted trees that the annotator knows
        self.queue = WorkQueue(project, annotator.expected_errors)
        self._note_all()

    def _note_all(self) -> None:
        """Tell the annotator and learning of all accepted trees."""
        for one in self.project.accepted():
            self._note_tree(one.id, one.tree)
        self._note_change()

    def _note(self, sentence_id: str) -> None:
        """Tell the annotator and learning of a sentence whose state has changed."""
        self._note_tree(sentence_id, self.project.state(sentence_id).tree)
        self._note_change()

    def _note_tree(self, sentence_id: str, tree: str | None) -> None:
        with self._lock:
            if self._noted.get(sentence_id) == tree:
                return
            self.annotator.note_tree(sentence_id, tree)
            self._noted.pop(sentence_id, None)
            if tree is not None:
                self._noted[sentence_id] = tree

    def _note_change(self) -> None:
        if self.learning is not None:
            self.learning.note_change()

    def _use(self, lesson: Lesson) -> None:
        """Suggest by a model that was learnt, and order the work again."""
        self.annotator.use(lesson)
        if self.project.settings.order == LEARN:
            self.queue.renew()

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
        with self._lock:
            warnings = self.annotator.warnings(sentence_id, found.tree)
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
            "warnings": warnings,
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
        _check_length(str(action.get("tree") or ""), self.project.state(sentence_id).words)

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
        self._note(sentence_id)
        return self.view(sentence_id, window)

    def undo(self, window: str = "") -> dict[str, Any]:
        """Undo the last action, and return the view of its sentence."""
        sentence_id, _ = self.project.undo(window)
        self._note(sentence_id)
        return self.view(sentence_id, window)

    def redo(self, window: str = "") -> dict[str, Any]:
        """Do the last undone action again, and return the view of its sentence."""
        sentence_id, _ = self.project.redo(window)
        self._note(sentence_id)
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
            "exists": True, "model": self.model_state(), "orders": list(ORDERS),
            "start": self.project.settings.start,
            "can_network": self.learning is not None and self.learning.network is not None,
            "formats": [one._asdict() for one in self.annotator.export_formats],
        }  # fmt: skip

    def model_state(self) -> dict[str, Any]:
        """The model that makes suggestions, and whether another one is being learnt."""
        if self.learning is not None:
            return self.learning.state()
        state = "none" if self.name is None else "ready"
        none = {"n_trees": 0, "seconds": None, "message": None, "network": None}
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
        return self.queue.next(after)

    def guideline(self, label: str, *, is_tag: bool = False) -> dict[str, Any]:
        """What a label looked like in the accepted trees, and its states in the model."""
        with self._lock:
            return self.annotator.guideline(label, is_tag=is_tag)

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
        self._note_all()
        return {"added": len(added), "skipped": len(found.messages), "messages": found.messages}


def _check_length(tree: str, words: Sequence[str]) -> None:
    """Refuse the text of a tree that is far too long for its sentence, before it is read."""
    most = TREE_CHARACTERS * (len(words) + 10) + sum(map(len, words))
    if len(tree) > most:
        msg = f"a tree of {len(tree):,} characters for a sentence of {count(len(words), 'word')}"
        raise SapwoodError(msg, hint=f"at most {most:,} are taken: give the tree of this sentence")


def _chosen(shown: Suggestion, number: object) -> str:
    """The tree of an alternative of a view, which is counted from 1."""
    n = len(shown.alternatives)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= n:
        msg = f"there is no alternative {number!r:.20}"
        raise SapwoodError(msg, hint=f"the tree has {n}, counted from 1" if n else "there are none")
    return shown.alternatives[number - 1].tree
