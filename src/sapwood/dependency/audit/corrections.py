r"""Corrections in the text of CoNLL-U: cells of heads, relations and tags; every other byte stays.

Comments, multiword tokens, empty nodes, lemmas, features, enhanced dependencies and line ends are
not touched. Where a universal tag changes, the tag of the language and the features may have to
follow, and enhanced dependencies where a head does: that is left to people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeGuard

from sapwood.auditing.decisions import Decision, Replacement, line_starts
from sapwood.dependency.data.bank import (
    FORM,
    HEAD,
    ID,
    N_CONLLU_COLUMNS,
    RELATION,
    UPOS,
    Arcs,
    heads_problem,
)

_CELLS = (UPOS, HEAD, RELATION)
_AGAIN = "run the audit again"


class PartEdit(NamedTuple):
    """The change of one part of a finding: heads and relations of words, or one word's tag."""

    words: list[int]
    heads: list[int]
    relations: list[str]
    tag: str | None


class ArcCorrector:
    """Gives the replacements of decisions in the texts of CoNLL-U files."""

    def __init__(self) -> None:
        self._text: str | None = None
        self._starts: list[int] = []

    def __call__(self, text: str, decision: Decision) -> list[Replacement]:
        """The replacements that make the annotated tree of a decision the suggested one."""
        if text is not self._text:
            self._text, self._starts = text, [*line_starts(text), len(text)]
        if decision.annotated_tree.startswith("("):
            hint = "`sapwood audit --apply` corrects these"
            raise decision.refuse("is about a phrase tree", hint)
        old = Arcs.parse(decision.annotated_tree)
        new = accepted_arcs(old, decision)
        if old.words != new.words:
            raise decision.refuse("suggests a tree of other words", _AGAIN)
        before = [_cells(row) for row in old.all_rows()]
        after = [_cells(row) for row in new.all_rows()]
        found, place = [], 0
        first = decision.line - 1 if decision.line > 0 else len(self._starts)
        for number in range(first, len(self._starts) - 1):
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
            what = "is about a sentence that is not here as it was annotated"
            raise decision.refuse(what, _AGAIN)
        return found


def accepted_arcs(old: Arcs, decision: Decision) -> Arcs:
    """The tree with the accepted parts of a decision; the suggested tree if all are accepted.

    Raises
    ------
    CorpusError
        Where these parts alone make no tree; it names the part that is missing, if one is.
    """
    accepted = decision.accepted_parts()
    if accepted is None:
        return Arcs.parse(decision.suggested_tree)
    edits = [_edit_of(decision, k, len(old.words)) for k in range(len(decision.parts))]
    heads = _heads_with(old.heads, edits, accepted)
    problem = heads_problem(heads)
    if problem is not None:
        rest = [k for k in range(len(edits)) if k not in accepted]
        more = [k for k in rest if not heads_problem(_heads_with(old.heads, edits, [*accepted, k]))]
        names = " and ".join(str(k + 1) for k in accepted)
        what = f"accepts no tree with part {names} alone: {problem.message}"
        also = f"accept part {more[0] + 1} as well" if more else "accept all of its parts"
        raise decision.refuse(what, f"{also}, or none of these")
    relations, upos = list(old.relations), list(old.upos)
    for k in accepted:
        edit = edits[k]
        for word, relation in zip(edit.words, edit.relations, strict=False):
            relations[word - 1] = relation
        if edit.tag is not None:
            upos[edit.words[0] - 1] = edit.tag
    return replace(old, heads=tuple(heads), relations=tuple(relations), upos=tuple(upos), rows=())


def _heads_with(
    heads: Sequence[int], edits: Sequence[PartEdit], accepted: Iterable[int]
) -> list[int]:
    """Heads with some edits applied."""
    changed = list(heads)
    for k in accepted:
        for word, head in zip(edits[k].words, edits[k].heads, strict=False):
            changed[word - 1] = head
    return changed


def _edit_of(decision: Decision, k: int, n_words: int) -> PartEdit:
    """What a part changes, checked: a decisions file may have been changed by hand."""
    edit = decision.parts[k].edit
    words, heads = (_numbers(edit.get(name), n_words) for name in ("words", "heads"))
    relations, tag = edit.get("relations"), edit.get("tag")
    if words and all(words) and heads is not None and _are_names(relations):
        if isinstance(tag, str) and tag and not heads and not relations:
            return PartEdit(words, [], [], tag)
        if tag is None and len(words) == len(heads) == len(relations):
            return PartEdit(words, heads, relations, None)
    raise decision.refuse(f"has a part {k + 1} that is no edit of its words", _AGAIN)


def _numbers(found: object, most: int) -> list[int] | None:
    """Word or head positions from plain data; None if the data are no positions."""
    if not isinstance(found, list):
        return None
    return found if all(type(one) is int and 0 <= one <= most for one in found) else None


def _are_names(found: object) -> TypeGuard[list[str]]:
    return isinstance(found, list) and all(isinstance(one, str) and one for one in found)


def _cells(row: list[str]) -> list[str]:
    return [row[k] for k in _CELLS]
