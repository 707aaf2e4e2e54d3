"""Differences between an annotated dependency tree and a suggested one, as edits that keep a tree.

    head        words hang on other heads, with the relations to them
    relation    a word has another relation to the same head
    tag         a word has another universal tag
    variation   the same words are annotated so elsewhere, and models have no objection

A word whose new head hangs below it cannot move alone: all words that have to move with it are in
one edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sapwood.dependency.audit.located import Annotation
from sapwood.dependency.audit.posteriors import Judgement
from sapwood.dependency.data.bank import heads_problem
from sapwood.dependency.data.transform import lift_heads

KINDS = ("head", "relation", "tag", "variation")
UNTAGGED = "_"


class Edit(NamedTuple):
    """New heads and relations, or the new tag, of some words.

    Attributes
    ----------
    words
        Places from 1 on, the least probable arc first.
    heads, relations
        The new ones of each word; empty for a tag.
    old, new
        What is annotated and what is suggested of the first word, for people.
    """

    kind: str
    words: tuple[int, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    tag: str | None
    old: str
    new: str

    @property
    def span(self) -> tuple[int, int]:
        """The first word as a span, half open, from 0 on."""
        return self.words[0] - 1, self.words[0]

    @property
    def is_tag(self) -> bool:
        """Whether the edit is about a tag."""
        return self.tag is not None

    def as_dict(self) -> dict[str, Any]:
        """What the edit changes, as plain data."""
        return {
            "words": list(self.words), "heads": list(self.heads),
            "relations": list(self.relations), "tag": self.tag,
        }  # fmt: skip


def edits_between(
    words: Sequence[str],
    annotated: Annotation,
    judgement: Judgement,
    lifted: Sequence[int] | None = None,
) -> list[Edit]:
    """The edits that lead from an annotation to the best tree of the models.

    Models learn from projective trees, in which arcs that cross others are lifted. Which relation
    they expect of an annotated word is therefore asked of its lifted head.

    Parameters
    ----------
    lifted
        `lift_heads` of the annotated heads, if known.

    Examples
    --------
    >>> here = Annotation(("X", "VERB", "ADV"), (2, 0, 1), ("nsubj", "root", "advmod"))
    >>> best = Annotation(("NOUN", "VERB", "ADV"), (2, 0, 2), ("nsubj", "root", "advmod"))
    >>> none = ({}, {}, {})
    >>> judgement = Judgement(none, none, none, best, here.heads, none)
    >>> for edit in edits_between(["dogs", "bark", "now"], here, judgement):
    ...     print(edit.kind, edit.words, edit.old, "->", edit.new)
    tag (1,) X -> NOUN
    head (3,) advmod of dogs 1 -> advmod of bark 2
    """
    best, edits = judgement.best, list[Edit]()
    lifted = lift_heads(annotated.heads) if lifted is None else lifted
    for k, (old, new) in enumerate(zip(annotated.upos, best.upos, strict=True)):
        if old not in {new, UNTAGGED}:
            edits.append(tag_edit("tag", k + 1, annotated, new))
    for k, old in enumerate(annotated.relations):
        likely: str | None = best.relations[k]
        if best.heads[k] not in {annotated.heads[k], lifted[k]}:
            likely = _likely_relation(judgement, annotated, k, lifted[k])
        if likely is not None and likely != old:
            edits.append(relation_edit("relation", k + 1, annotated, likely))
    moved = [k + 1 for k, head in enumerate(annotated.heads) if head != best.heads[k]]
    for group in _groups(annotated.heads, best.heads, moved):
        group.sort(key=lambda w: (p_head(judgement, annotated.heads, lifted, w - 1), w))
        first = group[0]
        edits.append(
            Edit(
                "head", tuple(group), tuple(best.heads[w - 1] for w in group),
                tuple(best.relations[w - 1] for w in group), None,
                arc_text(words, annotated, first), arc_text(words, best, first),
            )
        )  # fmt: skip
    return edits


def p_head(judgement: Judgement, heads: Sequence[int], lifted: Sequence[int], k: int) -> float:
    """Probability of the annotated head of word k, from 0 on, or of the head it is lifted to."""
    p = judgement.heads[k]
    return sum(p.get(head, 0.0) for head in {heads[k], lifted[k]})


def _likely_relation(
    judgement: Judgement, annotated: Annotation, k: int, lifted: int
) -> str | None:
    """The most probable relation to the annotated head, where models prefer another head.

    None where the head is the root, or where the annotation has moved the word since it was judged.
    """
    if not annotated.heads[k]:
        return None
    found = judgement.relations_to(k, lifted)
    likely = {name: p for name, p in found.items() if name != "root"}
    return max(likely, key=lambda name: (likely[name], name), default=None)


def arc_text(words: Sequence[str], annotation: Annotation, word: int) -> str:
    """An arc for people: its relation, and the head with its place."""
    head = annotation.heads[word - 1]
    relation = annotation.relations[word - 1]
    return f"{relation} of {words[head - 1]} {head}" if head else relation


def tag_edit(kind: str, word: int, annotated: Annotation, new: str) -> Edit:
    """An edit of the tag of a word."""
    return Edit(kind, (word,), (), (), new, annotated.upos[word - 1], new)


def relation_edit(kind: str, word: int, annotated: Annotation, new: str) -> Edit:
    """An edit of the relation of a word to its head."""
    head, old = annotated.heads[word - 1], annotated.relations[word - 1]
    return Edit(kind, (word,), (head,), (new,), None, old, new)


def _groups(old: Sequence[int], new: Sequence[int], moved: list[int]) -> list[list[int]]:
    """Groups of words that can move alone, from old heads to new ones."""
    groups: list[list[int]] = []
    left = set(moved)
    for word in moved:
        if word not in left:
            continue
        group = _closure(word, old, new)
        for other in [some for some in groups if group & set(some)]:  # they share a word
            groups.remove(other)
            group |= set(other)
        if heads_problem(_with(old, new, group)) is not None:
            return [sorted(moved)]
        groups.append(sorted(group))
        left -= group
    return groups


def _closure(word: int, old: Sequence[int], new: Sequence[int]) -> set[int]:
    """The words whose heads have to change with a word's head to keep one root and no cycle."""
    group = {word}
    while True:
        heads = _with(old, new, group)
        roots = [w for w, head in enumerate(heads, 1) if head == 0]
        more = {w for w in roots if new[w - 1] != 0} if len(roots) > 1 else set()
        if not roots:
            more = {new.index(0) + 1}
        for start in group:
            path, at = list[int](), start
            while at and at not in path:
                path.append(at)
                at = heads[at - 1]
            if at:  # a circle, which the best tree does not have
                more |= {w for w in path[path.index(at) :] if old[w - 1] != new[w - 1]}
        if more <= group:
            return group
        group |= more


def _with(old: Sequence[int], new: Sequence[int], moved: Iterable[int]) -> list[int]:
    heads = list(old)
    for word in moved:
        heads[word - 1] = new[word - 1]
    return heads


def apply_edits(annotated: Annotation, edits: Iterable[Edit]) -> Annotation:
    """Apply edits to an annotation; edits that would break the tree are skipped.

    An edit that fits only after a later one is applied after it.
    """
    upos = list(annotated.upos)
    heads, relations = list(annotated.heads), list(annotated.relations)
    waiting = list(edits)
    while True:
        rest = []
        for edit in waiting:
            if edit.tag is not None:
                upos[edit.words[0] - 1] = edit.tag
                continue
            changed = list(heads)
            for word, head in zip(edit.words, edit.heads, strict=True):
                changed[word - 1] = head
            if heads_problem(changed) is not None:
                rest.append(edit)
                continue
            heads = changed
            for word, relation in zip(edit.words, edit.relations, strict=True):
                relations[word - 1] = relation
        if len(rest) == len(waiting) or not rest:
            return Annotation(tuple(upos), tuple(heads), tuple(relations))
        waiting = rest
