"""Phrase trees in a project: what is suggested, completed, read and written."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from sapwood.annotation.actions import span_of, whole_number
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
from sapwood.annotation.state import TREES, Action, ProjectSentence, SentenceState
from sapwood.constituency.annotation.edits import edit_tree
from sapwood.constituency.annotation.errors_expected import errors_of_sentences
from sapwood.constituency.annotation.given import GivenPhrases, TreeLayout
from sapwood.constituency.annotation.guideline import label_states
from sapwood.constituency.annotation.known import KnownTrees
from sapwood.constituency.annotation.suggest import (
    Suggester,
    node_rows,
    suggest_flat,
)
from sapwood.constituency.parse.parser import Parser
from sapwood.core.errors import CorpusError, SapwoodError, count
from sapwood.corpora.conventions import PENN, make_tokenizer
from sapwood.corpora.tokenize import Tokenizer
from sapwood.corpora.tree import Tree, clean, escape


class TreeAnnotator:
    """Phrase trees in a project.

    Parameters
    ----------
    suggester
        Makes trees of sentences by a model; None before there is one. It may be set again.
    """

    kind = TREES
    export_formats: Sequence[ExportFormat] = (
        ExportFormat("brackets", "Penn brackets, one tree per line", ".mrg"),
        ExportFormat("conllu", "CoNLL-U, by head rules", ".conllu"),
        ExportFormat("json", "JSON, one tree per line", ".jsonl"),
        ExportFormat("latex", "LaTeX, for the package forest", ".tex"),
        ExportFormat("words", "words, one sentence per line", ".txt"),
    )

    def __init__(self, suggester: Suggester | None = None) -> None:
        self.suggester = suggester
        self.known = KnownTrees()
        self._states: dict[str, list[dict[str, Any]]] = {}  # of labels, by the model of now

    def use(self, lesson: Lesson) -> None:
        """Suggest by a model that was learnt."""
        self.suggester = Suggester(Parser(lesson.model))
        self._states = {}

    def edit(self, state: SentenceState, action: Action, shown: str) -> SentenceState:
        """The state after an action on the tree that is shown."""
        return edit_tree(state, action, shown)

    def given(self, state: SentenceState) -> dict[str, Any]:
        """What was set by hand: `spans`, `forbidden` and `tags`."""
        found = GivenPhrases.of(state)
        return {
            "spans": [list(one) for one in found.spans],
            "forbidden": [list(one) for one in found.forbidden],
            "tags": [*found.tags],
        }

    # -- suggestions ------------------------------------------------------------------------------

    def suggest(self, state: SentenceState) -> Suggestion:
        """The tree of a sentence with all that was set by hand, and alternatives."""
        flat = TreeLayout.flat(state.words, [self.known.usual_tag(word) for word in state.words])
        if self.suggester is None:
            return suggest_flat(state, flat)
        return self.suggester.suggest(state, flat)

    def show(self, state: SentenceState) -> Suggestion:
        """The accepted tree of a sentence, without alternatives."""
        assert state.tree is not None
        layout = TreeLayout.of(Tree.parse(state.tree))
        return Suggestion(state.tree, node_rows(layout, GivenPhrases.of(state)))

    def complete(self, state: SentenceState, place: dict[str, Any]) -> list[Label]:
        """Labels for a phrase over some words, or tags for a word, the most probable first."""
        n = len(state.words)
        if place.get("word") is None:
            span_of(place, n)
        else:
            whole_number(place, "word", 0, n - 1)
        known: list[Label] = []
        if self.suggester is not None:
            known = self.suggester.complete(state, place)
        names = {one.label for one in known}
        counts = self._counts(state, place)
        kind = "labels" if place.get("word") is None else "tags"
        others = sorted(set(self.names()[kind]) - names, key=lambda x: (-counts[x], x))
        return [*known, *(Label(name, None) for name in others)]

    def _counts(self, state: SentenceState, place: dict[str, Any]) -> Counter[str]:
        """How often names were used, those of the same word before all others."""
        if place.get("word") is None:
            return self.known.labels
        of_word = self.known.tags_of(state.words[place["word"]])
        return self.known.tags + Counter({tag: 10**6 * n for tag, n in of_word.items()})

    def names(self) -> dict[str, list[str]]:
        """`labels` and `tags` that the model or the accepted trees have; no `relations`."""
        labels, tags = set(self.known.labels), set(self.known.tags)
        if self.suggester is not None:
            labels |= self.suggester.labels
            tags |= self.suggester.tags
        return {"labels": sorted(labels), "tags": sorted(tags), "relations": []}

    def note_tree(self, sentence_id: str, tree: str | None) -> None:
        """Take note of the accepted tree of a sentence; None where it has none any more."""
        self.known.put(sentence_id, tree)

    def warnings(self, sentence_id: str, tree: str) -> list[dict[str, Any]]:
        """Spans of a tree whose words were annotated otherwise before."""
        return self.known.warnings(sentence_id, tree)

    def guideline(self, label: str, *, is_tag: bool) -> dict[str, Any]:
        """Examples of a label in the accepted trees, and its states in the model."""
        if self.suggester is not None and label not in self._states:
            self._states[label] = label_states(self.suggester.parser.model, label)
        return self.known.examples(label, is_tag=is_tag) | {"states": self._states.get(label, [])}

    def expected_errors(self, sentences: Sequence[Sequence[str]]) -> list[float] | None:
        """The number of errors expected in the trees of sentences; None without a model."""
        if self.suggester is None:
            return None
        return errors_of_sentences(self.suggester.parser, sentences)

    # -- reading and writing ----------------------------------------------------------------------

    def read(self, content: str, format: str, document: str, *, as_accepted: bool) -> Imported:
        """Sentences of a text in a format: `text`, `raw`, `brackets` or `findings`."""
        if format == TEXT:
            return read_text(content, document, self.tokenizer, escape)
        if format == RAW:
            return read_raw(content, document, escape)
        if format == "brackets":
            return _read_brackets(content, document, is_accepted=as_accepted)
        if format == FINDINGS:
            return read_findings(content, _tree_of_finding)
        msg = f"trees are not read from {format!r:.40}"
        raise SapwoodError(msg, hint="give text, raw, brackets or findings")

    @property
    def tokenizer(self) -> Tokenizer:
        """The function from running text to words: that of the model, else that of Penn."""
        if self.suggester is not None:
            return self.suggester.parser.tokenizer
        return make_tokenizer(PENN)

    def export(self, accepted: Sequence[Accepted], format: str) -> str:
        """Accepted trees in a format of `export_formats`."""
        if format == "brackets":
            return "".join(f"{one.tree}\n" for one in accepted)
        if format == "words":
            return "".join(f"{' '.join(one.words)}\n" for one in accepted)
        if format == "latex":
            return "".join(f"{Tree.parse(one.tree).to_latex()}\n\n" for one in accepted)
        if format == "json":
            return "".join(f"{_json_row(one)}\n" for one in accepted)
        msg = f"trees are not written as {format!r:.40}"
        raise SapwoodError(
            msg, hint=f"give one of {', '.join(one.name for one in self.export_formats)}"
        )


def _json_row(one: Accepted) -> str:
    layout = TreeLayout.of(Tree.parse(one.tree))
    phrases = [{"label": label, "start": i, "end": j} for i, j, label in layout.phrases()]
    row = {"id": one.id, "words": [*one.words], "tags": [*layout.tags], "phrases": phrases}
    return json.dumps(row | {"tree": one.tree}, ensure_ascii=False)


def _tree_of_finding(text: str) -> tuple[tuple[str, ...], str]:
    kept = clean(Tree.parse(text), keep_functions=True)
    if kept is None:
        raise SapwoodError("the tree has empty elements alone", hint="leave it out")
    return tuple(escape(word) for word in kept.words()), str(TreeLayout.of(kept).tree())


def _read_brackets(content: str, document: str, *, is_accepted: bool) -> Imported:
    from sapwood.corpora.formats import read_lines

    skipped: list[CorpusError] = []
    found: list[ProjectSentence] = []
    problems: list[str] = []
    n_empty = 0
    for number, tree in enumerate(read_lines(io.StringIO(content), document, skipped=skipped), 1):
        kept = clean(tree, keep_functions=True)
        if kept is None:
            n_empty += 1
            continue
        problem = why_left_out(kept.words())
        if problem is not None:
            problems.append(f"tree {number} {problem}, and was left out")
            continue
        text = str(TreeLayout.of(kept).tree())
        words = tuple(escape(word) for word in kept.words())
        found.append(ProjectSentence("", document, words, tree=text, is_accepted=is_accepted))
    if n_empty:
        problems.append(f"{count(n_empty, 'tree')} of empty elements alone")
    return Imported(found, shorten([*map(str, skipped), *problems]))
