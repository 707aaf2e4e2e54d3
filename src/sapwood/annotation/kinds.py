"""What a project asks of a kind of trees: the contract that the families keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from sapwood.annotation.learning import Lesson
from sapwood.annotation.project import Accepted
from sapwood.annotation.state import Action, ProjectSentence, SentenceState

N_LISTED_TREES = 16  # trees among which the probabilities of alternatives are shared out
N_ALTERNATIVES = 4  # of them that are shown, the current tree included
MOST_PARSED_WORDS = 150  # of a sentence that is parsed
LEAST_PROBABILITY = 1e-6  # of a part of a tree that the parser pruned


class Alternative(NamedTuple):
    """One of the best trees of a sentence, given what was set by hand.

    Attributes
    ----------
    probability
        Of the tree given the sentence and what was set by hand; None where it is not known.
    changes
        Number of phrases, tags or arcs that the current tree has not.
    """

    tree: str
    probability: float | None
    changes: int


@dataclass(frozen=True)
class Suggestion:
    """The tree that a window shows of a sentence.

    Attributes
    ----------
    tree
        Brackets or CoNLL-U.
    rows
        What the page draws: nodes of a phrase tree, or arcs.
    alternatives
        The best trees, the one that is shown first.
    is_fallback
        Whether no model has a whole tree with all that was set by hand.
    """

    tree: str
    rows: Sequence[dict[str, Any]]
    alternatives: Sequence[Alternative] = ()
    is_fallback: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


class Label(NamedTuple):
    """A name that completes what a person types, with its probability; None where unknown."""

    label: str
    probability: float | None


class ExportFormat(NamedTuple):
    """A format in which accepted trees are written.

    Attributes
    ----------
    suffix
        Of a file, with its dot.
    """

    name: str
    title: str
    suffix: str


class Imported(NamedTuple):
    """Sentences that were read from a text, and what was left out."""

    sentences: list[ProjectSentence]
    messages: list[str]


class Annotator(Protocol):
    """A kind of trees: how they are edited, suggested, read and written."""

    kind: str
    export_formats: Sequence[ExportFormat]

    def use(self, lesson: Lesson) -> None:
        """Suggest by a model that was learnt."""

    def edit(self, state: SentenceState, action: Action, shown: str) -> SentenceState:
        """The state after an action on the tree that is shown."""

    def suggest(self, state: SentenceState) -> Suggestion:
        """The tree of a sentence with all that was set by hand, and alternatives."""

    def show(self, state: SentenceState) -> Suggestion:
        """The accepted tree of a sentence, without alternatives."""

    def complete(self, state: SentenceState, place: dict[str, Any]) -> list[Label]:
        """Names for a place of a tree, the most probable first."""

    def given(self, state: SentenceState) -> dict[str, Any]:
        """What was set by hand, with an entry for every kind of it."""

    def names(self) -> dict[str, list[str]]:
        """`labels`, `tags` and `relations` that the model or the accepted trees have."""

    def note_tree(self, sentence_id: str, tree: str | None) -> None:
        """Take note of the accepted tree of a sentence; None where it has none any more."""

    def warnings(self, sentence_id: str, tree: str) -> list[dict[str, Any]]:
        """Parts of a tree whose words were annotated otherwise before."""

    def guideline(self, label: str, *, is_tag: bool) -> dict[str, Any]:
        """What a label looked like in the accepted trees: examples, and states of the model."""

    def expected_errors(self, sentences: Sequence[Sequence[str]]) -> list[float] | None:
        """The number of errors expected in the trees of sentences; None without a model."""

    def read(self, content: str, format: str, document: str, *, as_accepted: bool) -> Imported:
        """Sentences of a text in a format."""

    def export(self, accepted: Sequence[Accepted], format: str) -> str:
        """Accepted trees in a format."""
