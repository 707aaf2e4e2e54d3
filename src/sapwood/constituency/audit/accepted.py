"""The tree with those parts of a finding that were accepted, where not all of them were."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from sapwood.auditing.decisions import DecidedPart, Decision
from sapwood.constituency.audit.located import Annotation, Bracket, annotation_of, as_brackets
from sapwood.constituency.audit.parts import KINDS, Edit, apply_edits, crosses
from sapwood.corpora.tree import Tree, clean

_AGAIN = "run the audit again"


def accepted_brackets(decision: Decision) -> Tree:
    """The tree with the accepted parts of a decision, or the suggested one where all are.

    Raises
    ------
    CorpusError
        Where the brackets of these parts alone are no tree.
    """
    suggested = Tree.parse(decision.suggested_tree)
    accepted = decision.accepted_parts()
    if accepted is None:
        return suggested
    annotated = Tree.parse(decision.annotated_tree)
    old, new = (_annotation(decision, tree) for tree in (annotated, suggested))
    edits = [_edit_of(decision, part, k, len(old.tags)) for k, part in enumerate(decision.parts)]
    made = _apply(decision, old, new, [edits[k] for k in accepted])
    crossing = next((pair for pair in combinations(made.brackets, 2) if crosses(*pair)), None)
    if crossing:
        names = " and ".join(str(k + 1) for k in accepted)
        one, other = (_text(bracket, annotated.words()) for bracket in crossing)
        what = f"accepts no tree with part {names} alone: {one} crosses {other}"
        raise decision.refuse(what, "accept all parts that change these brackets, or none of them")
    return as_brackets(annotated.words(), made)


def _annotation(decision: Decision, tree: Tree) -> Annotation:
    cleaned = clean(tree)
    if cleaned is None:
        raise decision.refuse("has a tree without words", _AGAIN)
    return annotation_of(cleaned)


def _apply(decision: Decision, old: Annotation, new: Annotation, edits: list[Edit]) -> Annotation:
    """The annotation with some edits, whose removed brackets must be there."""
    tags = [(tag, i, i + 1) for i, tag in enumerate(old.tags)]
    removed = {is_tag: Counter[Bracket]() for is_tag in (False, True)}
    for edit in edits:
        removed[edit.is_tag].update(edit.removed)
    if removed[False] - Counter(old.brackets) or removed[True] - Counter(tags):
        raise decision.refuse("changes brackets that are not in its tree", _AGAIN)
    return apply_edits(old, new, edits)


def _edit_of(decision: Decision, part: DecidedPart, k: int, n_words: int) -> Edit:
    """The changes of a part, checked: a decisions file may have been edited by hand."""
    removed, added = (_brackets(part.edit.get(name), n_words) for name in ("removed", "added"))
    is_tag = part.edit.get("is_tag")
    if part.kind in KINDS and removed is not None and added is not None and type(is_tag) is bool:
        sizes = len(removed), len(added)
        spans = {bracket[1:] for bracket in removed + added}
        is_one = sizes == (1, 1) and len(spans) == 1
        is_word = all(j == i + 1 for i, j in spans)
        if any(sizes) and (is_one or part.kind != "label") and ((is_one and is_word) or not is_tag):
            return Edit(part.kind, removed, added, is_tag)
    raise decision.refuse(f"has a part {k + 1} that is no edit of its words", _AGAIN)


def _brackets(found: object, n_words: int) -> tuple[Bracket, ...] | None:
    """Brackets from plain data; None where these are none."""
    if not isinstance(found, list):
        return None
    brackets = list[Bracket]()
    for one in found:
        if not isinstance(one, list) or len(one) != 3:
            return None
        label, i, j = one
        is_label = isinstance(label, str) and bool(label) and not set(label) & set("() \t\r\n")
        if not is_label or type(i) is not int or type(j) is not int or not 0 <= i < j <= n_words:
            return None
        brackets.append((label, i, j))
    return tuple(brackets)


def _text(bracket: Bracket, words: list[str]) -> str:
    label, i, j = bracket
    return f"({label} {' '.join(words[i:j])})"
