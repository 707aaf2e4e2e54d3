"""The models of a project of dependency trees that are learnt as one goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from sapwood.annotation.learning import OWN_MODEL, Lesson
from sapwood.annotation.project import Accepted
from sapwood.core.errors import count
from sapwood.dependency.annotation.suggest import ArcSuggester
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.learn.crf import ArcCRF

if TYPE_CHECKING:
    from sapwood.dependency.model.arc_model import ArcModel

LEAST_MEASURED = 20  # sentences of the first learning curve
MOST_COMPARED = 200  # sentences by which the start model and the own one are compared


class ArcTeacher:
    """Learns parsers of the accepted trees, and compares them with the start model.

    Parameters
    ----------
    start
        Suggests by the start model, under the project's names; None for none.
    name
        Of the start model.
    """

    def __init__(self, start: ArcSuggester | None = None, name: str | None = None) -> None:
        self._start, self._name = start, name

    def learn(self, accepted: Sequence[Accepted]) -> Lesson:
        """The better of the start model and a model of the accepted trees.

        They are compared on every other accepted sentence, for which a model is learnt from the
        sentences between.
        """
        began = process_time()
        trees = [Arcs.parse(one.tree) for one in accepted]
        suggester = ArcSuggester(_learn(trees), {})
        name, message = OWN_MODEL, f"Learnt from {count(len(trees), 'tree')}."
        if self._start is not None:
            held = trees[1::2][-MOST_COMPARED:]
            of_start = _accuracy(self._start, held)
            of_own = _accuracy(ArcSuggester(_learn(trees[::2]), {}), held)
            message += f" Right arcs: {of_own:.0%} by half of them, {of_start:.0%} by {self._name}."
            if of_start > of_own:
                suggester, name = self._start, self._name or "start"
        return Lesson(suggester, name, len(trees), process_time() - began, message)

    def save(self, lesson: Lesson, file: Path) -> None:
        """Write a model, so that the project can begin with it when it is opened again."""
        if lesson.model is not self._start:
            lesson.model.parser.model.save(file, force=True)

    def measure(
        self, accepted: Sequence[Accepted], check: Callable[[], None]
    ) -> dict[str, Any] | None:
        """The labelled attachment score on held-out accepted sentences, by number of trees.

        Every fifth sentence is held out; parsers are learnt from a quarter, a half and all of the
        others. None where trees are too few.
        """
        trees = [Arcs.parse(one.tree) for one in accepted]
        if len(trees) < LEAST_MEASURED:
            return None
        held, others = trees[::5][-MOST_COMPARED:], [t for k, t in enumerate(trees) if k % 5]
        n_words, points = sum(map(len, held)), []
        for size in sorted({len(others) // 4, len(others) // 2, len(others)}):
            check()
            score = _accuracy(ArcSuggester(_learn(others[:size]), {}), held)
            error = 1.96 * (score * (1 - score) / n_words) ** 0.5
            points.append({
                "trees": size, "words": sum(map(len, others[:size])), "score": 100 * score,
                "low": 100 * (score - error), "high": 100 * (score + error),
            })  # fmt: skip
        return {"points": points, "expected": None, "measure": "LAS"}


def _learn(trees: Sequence[Arcs]) -> ArcModel:
    return ArcCRF(1, passes=2, folds=2).fit(list(trees)).model_


def _accuracy(suggester: ArcSuggester, trees: Sequence[Arcs]) -> float:
    """The fraction of words with the right head and relation."""
    n_right = n_words = 0
    for arcs in trees:
        found = suggester.parse(arcs.words)
        rows = zip(arcs.heads, arcs.relations, found.heads, found.relations, strict=True)
        n_right += sum((a, b) == (c, d) for a, b, c, d in rows)
        n_words += len(arcs)
    return n_right / n_words
