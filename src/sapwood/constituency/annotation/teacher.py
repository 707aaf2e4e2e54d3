"""The models of a project of phrase trees: the one it starts from, and those learnt as one goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

from sapwood.annotation.learning import OWN_MODEL, Lesson
from sapwood.annotation.project import Accepted
from sapwood.constituency.annotation.cross_fitting import grammar_curve
from sapwood.constituency.annotation.grammar import AnnotationGrammar
from sapwood.constituency.annotation.network import (
    KeptNetwork,
    kept_network,
    network_weight,
    with_network,
)
from sapwood.constituency.annotation.start import start_model
from sapwood.core.errors import SapwoodError, count
from sapwood.corpora.tree import Tree

if TYPE_CHECKING:
    from sapwood.constituency.grammar.ensemble import Model

MOST_SENTENCES = 1_000  # that a start model parses, where its labels cannot simply be renamed


class TreeTeacher:
    """Learns grammars of the accepted trees, beside the start model.

    Parameters
    ----------
    start
        The start model, its labels those of the project; None for none.
    name
        Of the start model.
    network
        The file of the project's network, which may not be there; it is read when it changes.
    """

    def __init__(
        self, start: Model | None = None, name: str | None = None, network: Path | None = None
    ) -> None:
        self.grammar, self._name = AnnotationGrammar(start), name
        self._start_weight = 0.0  # of the start model in the last lesson
        self._file, self._stamp = network, (0, 0)  # time and size of the network's file
        self._network: KeptNetwork | None = None
        self._network_weight = 0.0

    def learn(self, accepted: Sequence[Accepted]) -> Lesson:
        """The model of the accepted trees, and of the start model as far as it helps."""
        self.grammar.update({place_of(one.id): Tree.parse(one.tree) for one in accepted})
        found = self.grammar.learn()
        self._start_weight = found.start_weight
        name = OWN_MODEL
        if found.start_weight > 0.0 and self._name is not None:
            name = self._name if found.start_weight == 1.0 else f"{self._name} and {OWN_MODEL}"
        began = process_time()
        self._look_for_network()
        if self._network is None:
            return Lesson(found.model, name, found.n_trees, found.seconds, found.message)
        model = with_network(found.model, self._network.model, self._network_weight)
        message = (
            f"{found.message} A network of {count(self._network.n_trees, 'tree')} has a weight of "
            f"{self._network_weight:.0%}."
        )
        seconds = found.seconds + process_time() - began
        return Lesson(model, f"{name}, with a network", found.n_trees, seconds, message)

    def _look_for_network(self) -> None:
        """Read the project's network where there is another one than before, and weigh it."""
        try:
            found = None if self._file is None else self._file.stat()
        except OSError:
            found = None
        stamp = (0, 0) if found is None else (found.st_mtime_ns, found.st_size)
        if stamp == self._stamp:
            return
        assert self._file is not None
        self._stamp, self._network = stamp, None if found is None else kept_network(self._file)
        if self._network is not None:
            held_out = [place_of(one) for one in self._network.held_out]
            parts = (self.grammar, self._network.model, held_out, self._start_weight)
            self._network_weight = network_weight(*parts)

    def save(self, lesson: Lesson, file: Path) -> None:
        """Write a model, so that the project can begin with it when it is opened again."""
        lesson.model.save(file, force=True)

    def measure(
        self, accepted: Sequence[Accepted], check: Callable[[], None]
    ) -> dict[str, Any] | None:
        """The learning curve by cross-fitting over documents; None where trees are too few.

        Parameters
        ----------
        check
            Called now and then; raises an error to give up.
        """
        documents = [one.document for one in accepted]
        curve = grammar_curve(self.grammar, documents, start_weight=self._start_weight, check=check)
        if curve is None:
            return None
        found = curve.as_dict()
        return {"points": found["points"], "expected": found["expected"], "measure": "F1"}


def place_of(sentence_id: str) -> int:
    """The number in the id of a sentence, by which trees stand in the order of the document."""
    return int(sentence_id[1:])


def make_start(
    source: Model | Iterable[Tree],
    label_map: Mapping[str, str | None],
    sentences: Iterable[Sequence[str]],
) -> Model:
    """The model that a project starts from, with its own labels.

    Parameters
    ----------
    source
        A model, or the trees of another treebank.
    """
    words = [list(one) for one in sentences][:MOST_SENTENCES]
    trees = None
    if not hasattr(source, "as_ensemble"):
        trees = list(source)
        if not trees:
            raise SapwoodError(
                "the treebank to start from has no tree", hint="give trees in brackets"
            )
    return start_model(source if trees is None else trees, label_map, words)
