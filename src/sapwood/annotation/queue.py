"""Which sentence comes next: the order of the document, a random one, or what teaches most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from sapwood.annotation.order import (
    DOCUMENT,
    RANDOM,
    Ranked,
    Reason,
    WaitingSentence,
    random_order,
    rank,
    sentence_counts,
)
from sapwood.annotation.project import Project
from sapwood.annotation.state import ACCEPTED, NEW, STARTED, SentenceState

N_CANDIDATES = 120  # sentences of a sample whose expected errors are computed
N_RANKED = 40  # of them that are put in an order
MOST_RANKED_WORDS = 100  # longer sentences are left for later

Waiting = list[tuple[str, SentenceState]]
Errors = Callable[[Sequence[Sequence[str]]], "list[float] | None"]


class WorkQueue:
    """The sentences that wait, in the order of work of a project.

    Parameters
    ----------
    errors
        Returns the number of errors that are expected in the trees of sentences.
    """

    def __init__(self, project: Project, errors: Errors) -> None:
        self.project, self._errors = project, errors
        self._ranked: list[Ranked] = []
        self._lock = RLock()

    def next(self, after: str | None) -> dict[str, Any]:
        """The sentence that comes next, and why; its `id` is None where none is left."""
        waiting = self._waiting()
        others = [row for row in waiting if row[0] != after]
        if not others:
            return {"id": None, "why": None}
        order = self.project.settings.order
        score: float | None = None
        parts: tuple[Reason, ...] = ()
        if order == DOCUMENT:
            place = -1 if after is None else self.project.place(after)
            behind = (row for row in others if self.project.place(row[0]) > place)
            found = next(behind, others[0])
        elif order == RANDOM:
            first = random_order([name for name, _ in others])[0]
            found = next(row for row in others if row[0] == first)
        else:
            best = self._best(others)
            found = next(row for row in others if row[0] == best.id)
            parts, score = best.parts, best.score
        name, state = found
        why = {"order": order, "score": score, "words": len(state.words)}
        return {"id": name, "why": why | {"parts": [part._asdict() for part in parts]}}

    def _waiting(self) -> Waiting:
        return [
            (one.id, state)
            for one, state in self.project.states()
            if state.status in {NEW, STARTED}
        ]

    def _best(self, others: Waiting) -> Ranked:
        """The sentence that teaches most, of those that were ranked last and still wait."""
        names = {name for name, _ in others}
        for _ in range(2):
            with self._lock:
                found = next((one for one in self._ranked if one.id in names), None)
            if found is not None:
                return found
            self.renew(others)
        name, state = others[0]
        return Ranked(name, float(len(state.words)), ())

    def renew(self, waiting: Waiting | None = None) -> None:
        """Rank a sample of the sentences that wait; done again when a model was learnt."""
        waiting = self._waiting() if waiting is None else waiting
        rows = {name: state.words for name, state in waiting}
        names = random_order([name for name in rows if len(rows[name]) <= MOST_RANKED_WORDS])
        sample = (names or list(rows))[:N_CANDIDATES]
        errors = self._errors([rows[name] for name in sample])
        known = errors if errors is not None else [None] * len(sample)
        candidates = [
            WaitingSentence(name, rows[name], one) for name, one in zip(sample, known, strict=True)
        ]
        accepted = (one.words for _, one in self.project.states() if one.status == ACCEPTED)
        ranked = rank(
            candidates, sentence_counts(accepted), sentence_counts(rows.values()), N_RANKED
        )
        with self._lock:
            self._ranked = ranked
