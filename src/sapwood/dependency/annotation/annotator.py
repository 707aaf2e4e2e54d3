"""Dependency trees in a project: what is suggested, completed, read and written."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from sapwood.annotation.actions import whole_number
from sapwood.annotation.imports import (
    FINDINGS,
    RAW,
    TEXT,
    read_findings,
    read_raw,
    read_text,
    shorten,
    why_left_out,
)
from sapwood.annotation.kinds import ExportFormat, Imported, Label, Suggestion
from sapwood.annotation.learning import Lesson
from sapwood.annotation.project import Accepted
from sapwood.annotation.state import DEPENDENCIES, Action, ProjectSentence, SentenceState
from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora.conventions import UD, convention_of, make_tokenizer
from sapwood.corpora.files import Reading
from sapwood.corpora.tokenize import Tokenizer
from sapwood.dependency.annotation.edits import edit_arcs, without_id
from sapwood.dependency.annotation.given import GivenArcs
from sapwood.dependency.annotation.known import KnownArcs
from sapwood.dependency.annotation.suggest import ArcSuggester, arc_rows, suggest_chain
from sapwood.dependency.data.bank import Arcs
from sapwood.dependency.data.reader import is_headless, read_conllu

CONLLU = "conllu"


class ArcAnnotator:
    """Dependency trees in a project.

    Parameters
    ----------
    suggester
        Makes trees of sentences by a model; None before there is one. It may be set again.
    """

    kind = DEPENDENCIES
    export_formats: Sequence[ExportFormat] = (
        ExportFormat(CONLLU, "CoNLL-U", ".conllu"),
        ExportFormat("json", "JSON, one tree per line", ".jsonl"),
        ExportFormat("words", "words, one sentence per line", ".txt"),
    )

    def __init__(self, suggester: ArcSuggester | None = None) -> None:
        self.suggester = suggester
        self.known = KnownArcs()

    def use(self, lesson: Lesson) -> None:
        """Suggest by a model that was learnt."""
        self.suggester = lesson.model

    def edit(self, state: SentenceState, action: Action, shown: str) -> SentenceState:
        """The state after an action on the tree that is shown."""
        return edit_arcs(state, action, shown)

    def given(self, state: SentenceState) -> dict[str, Any]:
        """What was set by hand: `heads`, `relations` and `tags`, with null for a free word."""
        found = GivenArcs.of(state)
        return {name: [*getattr(found, name)] for name in ("heads", "relations", "tags")}

    # -- suggestions ------------------------------------------------------------------------------

    def suggest(self, state: SentenceState) -> Suggestion:
        """The tree of a sentence with all that was set by hand, and alternatives."""
        if self.suggester is None:
            return suggest_chain(state)
        return self.suggester.suggest(state)

    def show(self, state: SentenceState) -> Suggestion:
        """The accepted tree of a sentence, without alternatives."""
        assert state.tree is not None
        return Suggestion(state.tree, arc_rows(Arcs.parse(state.tree), GivenArcs.of(state)))

    def complete(self, state: SentenceState, place: dict[str, Any]) -> list[Label]:
        """Relations of a word to a head, or tags of a word, the most probable first."""
        n = len(state.words)
        whole_number(place, "word", 0, n - 1)
        if place.get("head") is not None:
            whole_number(place, "head", 0, n)
        known = [] if self.suggester is None else self.suggester.complete(state, place)
        counts = self.known.tags if place.get("head") is None else self.known.relations
        seen = {one.label for one in known}
        others = sorted(set(counts) - seen, key=lambda name: (-counts[name], name))
        return [*known, *(Label(name, None) for name in others)]

    def names(self) -> dict[str, list[str]]:
        """`tags` and `relations` that the model or the accepted trees have; no `labels`."""
        relations, tags = set(self.known.relations), set(self.known.tags)
        if self.suggester is not None:
            relations |= self.suggester.relations
            tags |= self.suggester.tags
        return {"labels": [], "tags": sorted(tags), "relations": sorted(relations)}

    def note_tree(self, sentence_id: str, tree: str | None) -> None:
        """Take note of the accepted tree of a sentence; None where it has none any more."""
        self.known.put(sentence_id, tree)

    def warnings(self, sentence_id: str, tree: str) -> list[dict[str, Any]]:
        """Words of a tree that had other relations before."""
        return self.known.warnings(sentence_id, tree)

    def guideline(self, label: str, *, is_tag: bool) -> dict[str, Any]:
        """Examples of a relation or a tag in the accepted trees."""
        return self.known.examples(label, is_tag=is_tag) | {"states": []}

    def expected_errors(self, sentences: Sequence[Sequence[str]]) -> list[float] | None:
        """The number of wrong heads that are expected; None without a model."""
        if self.suggester is None:
            return None
        return [self.suggester.expected_errors(words) for words in sentences]

    # -- reading and writing ----------------------------------------------------------------------

    @property
    def tokenizer(self) -> Tokenizer:
        """The function from running text to words: that of the model, else that of UD."""
        model = None if self.suggester is None else self.suggester.parser.model
        return make_tokenizer(convention_of(model, UD))

    def read(self, content: str, format: str, document: str, *, as_accepted: bool) -> Imported:
        """Sentences of a text in a format: `text`, `raw`, `conllu` or `findings`."""
        if format == TEXT:
            return read_text(content, document, self.tokenizer, str)
        if format == RAW:
            return read_raw(content, document, str)
        if format == CONLLU:
            return _read_conllu(content, document, is_accepted=as_accepted)
        if format == FINDINGS:
            return read_findings(content, _tree_of_finding)
        msg = f"dependency trees are not read from {format!r:.40}"
        raise SapwoodError(msg, hint="give text, raw, conllu or findings")

    def export(self, accepted: Sequence[Accepted], format: str) -> str:
        """Accepted trees in a format of `export_formats`."""
        if format == CONLLU:
            return "".join(f"# sent_id = {one.id}\n{one.tree}\n\n" for one in accepted)
        if format == "words":
            return "".join(f"{' '.join(one.words)}\n" for one in accepted)
        if format == "json":
            return "".join(f"{_json_row(one)}\n" for one in accepted)
        msg = f"dependency trees are not written as {format!r:.40}"
        raise SapwoodError(
            msg, hint=f"give one of {', '.join(one.name for one in self.export_formats)}"
        )


def _json_row(one: Accepted) -> str:
    arcs = Arcs.parse(one.tree)
    names = ("words", "upos", "xpos", "heads", "relations")
    row = {"id": one.id} | {name: list(getattr(arcs, name)) for name in names}
    return json.dumps(row, ensure_ascii=False)


def _tree_of_finding(text: str) -> tuple[tuple[str, ...], str]:
    arcs = without_id(Arcs.parse(text))
    return arcs.words, str(arcs)


def _read_conllu(content: str, document: str, *, is_accepted: bool) -> Imported:
    skipped: list[CorpusError] = []
    found: list[ProjectSentence] = []
    problems: list[str] = []
    lines, reading = io.StringIO(content), Reading(document, skipped)
    read = read_conllu(lines, reading, has_heads=not is_headless(content))
    for number, one in enumerate(read, 1):
        arcs = without_id(one.arcs())
        problem = why_left_out(arcs.words)
        if problem is not None:
            problems.append(f"sentence {number} {problem}, and was left out")
            continue
        tree = str(arcs) if arcs.is_parsed else None
        found.append(
            ProjectSentence(
                "", document, arcs.words, tree=tree, is_accepted=is_accepted and bool(tree)
            )
        )
    return Imported(found, shorten([*map(str, skipped), *problems]))
