r"""Corrections in the text of CoNLL-U: cells of heads, relations and tags; every other byte stays.

Comments, multiword tokens, empty nodes, lemmas, features, enhanced dependencies and line ends are
not touched. Where a universal tag changes, the tag of the language and the features may have to
follow, and enhanced dependencies where a head does: that is left to people.
"""

from __future__ import annotations

import re

from sapwood.auditing.decisions import Decision, Replacement, line_starts
from sapwood.core.errors import CorpusError
from sapwood.dependency.data.bank import (
    FORM,
    HEAD,
    ID,
    N_CONLLU_COLUMNS,
    RELATION,
    UPOS,
    Arcs,
)

_CELLS = (UPOS, HEAD, RELATION)


class ArcCorrector:
    """Gives the replacements of decisions in the texts of CoNLL-U files."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._starts: list[int] = []

    def __call__(self, text: str, decision: Decision) -> list[Replacement]:
        """The replacements that make the annotated tree of a decision the suggested one."""
        if text is not self._text:
            self._text, self._starts = text, [*line_starts(text), len(text)]
        old, new = Arcs.parse(decision.annotated_tree), Arcs.parse(decision.suggested_tree)
        if old.words != new.words:
            raise self._error(decision, "suggests a tree of other words")
        before = [_cells(row) for row in old.all_rows()]
        after = [_cells(row) for row in new.all_rows()]
        found, place = [], 0
        for number in range(decision.line - 1, len(self._starts) - 1):
            at = self._starts[number]
            line = text[at : self._starts[number + 1]]
            if not line.strip() or place == len(before):
                break
            cells = list(re.finditer(r"[^\t\r\n]+", line))
            if len(cells) != N_CONLLU_COLUMNS:
                break
            if not cells[ID][0].lstrip("\ufeff").isdecimal():
                continue
            here = [cells[k][0] for k in _CELLS]
            if cells[FORM][0] != old.words[place] or here != before[place]:
                break
            for k, cell in zip(_CELLS, after[place], strict=True):
                if cells[k][0] != cell:
                    found.append(Replacement(at + cells[k].start(), at + cells[k].end(), cell))
            place += 1
        if place < len(before):
            raise self._error(decision, "is about a sentence that is not here as it was annotated")
        return found

    def _error(self, decision: Decision, what: str) -> CorpusError:
        msg = f"decision {decision.id} {what}"
        return CorpusError(msg, file=decision.file, line=decision.line, hint="run the audit again")


def _cells(row: list[str]) -> list[str]:
    return [row[k] for k in _CELLS]
