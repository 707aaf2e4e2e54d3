"""Sentences of a project and their states: plain data, as the files of the project keep them.

A state has what a person decided about a sentence. `constraints` are what was set by hand, in the
terms of the family (phrases and tags, or heads, relations and tags). `base` is a whole tree that
later suggestions keep wherever the constraints allow it: a tree that was imported, chosen among
alternatives, or accepted before the sentence was opened again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from sapwood.core.errors import SapwoodError

TREES, DEPENDENCIES = "trees", "dependencies"
TREE_KINDS = (TREES, DEPENDENCIES)
NEW, STARTED, ACCEPTED, SKIPPED = "new", "started", "accepted", "skipped"
STATUSES = (NEW, STARTED, ACCEPTED, SKIPPED)
Action = Mapping[str, Any]


class ConflictError(SapwoodError):
    """A change that was asked for a state of a sentence that is no longer the current one.

    Attributes
    ----------
    sentence
        The id of the sentence.
    state
        Its current state.
    """

    def __init__(self, message: str, *, sentence: str, state: SentenceState, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.sentence, self.state = sentence, state


@dataclass(frozen=True)
class ProjectSentence:
    """A sentence as it was imported.

    Attributes
    ----------
    words
        Its words at the import; a state has those after words were split and joined.
    text
        The sentence as it was written, where it came from running text.
    tree
        The tree that came with it: brackets, or CoNLL-U.
    is_accepted
        Whether that tree was accepted at the import.
    note
        What is known of it besides, such as the finding of an audit.
    """

    id: str
    document: str
    words: tuple[str, ...]
    text: str | None = None
    tree: str | None = None
    is_accepted: bool = False
    note: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The sentence as one object of JSON; what is empty is left out."""
        found: dict[str, Any] = {"id": self.id, "document": self.document, "words": [*self.words]}
        extras = {"text": self.text, "tree": self.tree, "note": self.note}
        found |= {name: value for name, value in extras.items() if value is not None}
        return found | ({"is_accepted": True} if self.is_accepted else {})

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """The sentence of an object of JSON."""
        return cls(
            str(row["id"]), str(row["document"]), tuple(row["words"]), row.get("text"),
            row.get("tree"), bool(row.get("is_accepted", False)), row.get("note"),
        )  # fmt: skip

    def first_state(self) -> SentenceState:
        """The state before any action."""
        if self.is_accepted:
            return SentenceState(0, ACCEPTED, self.words, tree=self.tree, base=self.tree)
        return SentenceState(0, NEW, self.words, base=self.tree)


@dataclass(frozen=True)
class SentenceState:
    """What was decided about a sentence.

    Attributes
    ----------
    revision
        Grows by one with every change, also with those that undo others.
    constraints
        What was set by hand, as plain data of the family.
    tree
        The accepted tree; None where the sentence is not accepted.
    base
        A tree that suggestions keep wherever the constraints allow it; None where there is none.
    """

    revision: int
    status: str
    words: tuple[str, ...]
    constraints: Mapping[str, Any] = field(default_factory=dict)
    tree: str | None = None
    base: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The state as one object of JSON."""
        return {
            "revision": self.revision, "status": self.status, "words": [*self.words],
            "constraints": dict(self.constraints), "tree": self.tree, "base": self.base,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """The state of an object of JSON."""
        return cls(
            int(row["revision"]), str(row["status"]), tuple(row["words"]),
            dict(row["constraints"]), row["tree"], row["base"],
        )  # fmt: skip

    def is_like(self, other: SentenceState) -> bool:
        """Whether two states differ in nothing but their revision."""
        return replace(self, revision=other.revision) == other

    def with_revision(self, revision: int) -> SentenceState:
        """The same decisions under another revision."""
        return replace(self, revision=revision)
