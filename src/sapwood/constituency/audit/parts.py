"""Differences between an annotation and a suggested one, in parts that can be applied alone.

A part is an edit of the annotated tree:

    label      a bracket has another label
    tag        a word has another tag
    boundary   brackets are replaced by others over other words: something is attached elsewhere
    missing    brackets are added
    extra      brackets are removed

A suggested bracket that crosses annotated ones is in one part with them, so that the result of any
parts is a tree. Two parts may remove the same bracket.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Any, NamedTuple

from sapwood.constituency.audit.located import Annotation, Bracket

KINDS = ("label", "tag", "boundary", "missing", "extra", "variation")


class Edit(NamedTuple):
    """A part of the difference between two annotations."""

    kind: str
    removed: tuple[Bracket, ...]  # of a tag: the tag over its word
    added: tuple[Bracket, ...]
    is_tag: bool = False

    @property
    def span(self) -> tuple[int, int]:
        """The words that the edit is about."""
        brackets = self.removed + self.added
        return min(b[1] for b in brackets), max(b[2] for b in brackets)

    @property
    def old(self) -> str | None:
        """The annotated labels; None without any."""
        return " ".join(label for label, _, _ in self.removed) or None

    @property
    def new(self) -> str | None:
        """The suggested labels; None without any."""
        return " ".join(label for label, _, _ in self.added) or None

    def as_dict(self) -> dict[str, Any]:
        """The changes of the edit, as plain data."""
        removed, added = (list(map(list, some)) for some in (self.removed, self.added))
        return {"removed": removed, "added": added, "is_tag": self.is_tag}


def edits_between(annotated: Annotation, other: Annotation) -> list[Edit]:
    """The edits that together turn one annotation into another of the same words.

    Examples
    --------
    >>> a = Annotation(("D", "N", "V"), (("S", 0, 3), ("NP", 0, 2)))
    >>> b = Annotation(("D", "J", "V"), (("S", 0, 3), ("VP", 1, 3)))
    >>> for edit in edits_between(a, b):
    ...     print(edit.kind, edit.removed, edit.added)
    tag (('N', 1, 2),) (('J', 1, 2),)
    boundary (('NP', 0, 2),) (('VP', 1, 3),)
    """
    edits = [
        Edit("tag", ((old, i, i + 1),), ((new, i, i + 1),), is_tag=True)
        for i, (old, new) in enumerate(zip(annotated.tags, other.tags, strict=True))
        if old != new
    ]
    removed = _without(annotated.brackets, other.brackets)
    added = _without(other.brackets, annotated.brackets)
    by_span: dict[tuple[int, int], list[Bracket]] = defaultdict(list)
    for bracket in added:
        by_span[bracket[1:]].append(bracket)
    rest: list[Bracket] = []
    for bracket in removed:
        if partners := by_span[bracket[1:]]:
            edits.append(Edit("label", (bracket,), (partners.pop(0),)))
        else:
            rest.append(bracket)
    return edits + list(_minimal_edits(rest, chain(*by_span.values())))


def _without(brackets: Sequence[Bracket], others: Sequence[Bracket]) -> list[Bracket]:
    left, kept = Counter(others), []
    for bracket in brackets:
        if left[bracket]:
            left[bracket] -= 1
        else:
            kept.append(bracket)
    return kept


def _minimal_edits(removed: Iterable[Bracket], added: Iterable[Bracket]) -> Iterator[Edit]:
    """An edit for each added bracket with those that it replaces, and for each other removed one.

    Two edits may remove the same bracket, where both of what they add cross it. An edit that
    rebuilds half a sentence would hide which of its brackets is the error.
    """
    n_removed, n_added = Counter(removed), Counter(added)
    moved = dict(_moved(n_removed, n_added))
    left = set(n_removed)
    for bracket, n in n_added.items():
        replaced = Counter({
            other: count for other, count in n_removed.items()
            if crosses(bracket, other) or moved.get(bracket) == other
        })  # fmt: skip
        left -= replaced.keys()
        kind = "boundary" if replaced else "missing"
        yield Edit(kind, tuple(replaced.elements()), (bracket,) * n)
    for bracket, n in n_removed.items():
        if bracket in left:
            yield Edit("extra", (bracket,) * n, ())


def _moved(
    removed: Collection[Bracket], added: Collection[Bracket]
) -> Iterator[tuple[Bracket, Bracket]]:
    """Added brackets that are a removed one with another end or start, the closest pairs first."""
    pairs = sorted(
        (abs(one[1] - other[1]) + abs(one[2] - other[2]), one, other)
        for one, other in product(added, removed)
        if one[0] == other[0] and (one[1] == other[1] or one[2] == other[2])
    )
    paired = set[Bracket]()
    for _, one, other in pairs:
        if one not in paired and other not in paired:
            paired |= {one, other}
            yield one, other


def crosses(one: Bracket, other: Bracket) -> bool:
    """Whether two brackets cannot be in one tree."""
    return one[1] < other[1] < one[2] < other[2] or other[1] < one[1] < other[2] < one[2]


def apply_edits(annotated: Annotation, other: Annotation, edits: Iterable[Edit]) -> Annotation:
    """An annotation with some of its edits applied; `other` is what all of them lead to.

    Labels over the same words are in the order of the annotation, new ones where they are in
    the other.
    """
    tags = list(annotated.tags)
    chains, wanted = chains_of(annotated.brackets), chains_of(other.brackets)
    removed, added = Counter[Bracket](), Counter[Bracket]()
    for edit in edits:
        if edit.is_tag:
            tags[edit.added[0][1]] = edit.added[0][0]
            continue
        if edit.kind == "label":
            (label, i, j), (new, _, _) = edit.removed[0], edit.added[0]
            labels = chains[i, j]
            labels[labels.index(label)] = new
            continue
        removed |= Counter(edit.removed)  # the larger count: two edits may remove the same bracket
        added |= Counter(edit.added)
    for label, i, j in removed.elements():
        chains[i, j].remove(label)
    for label, i, j in added.elements():
        labels = chains.setdefault((i, j), [])
        order = wanted.get((i, j), [label])
        before = order[: order.index(label)] if label in order else []
        at = max((k + 1 for k, name in enumerate(labels) if name in before), default=0)
        labels.insert(at, label)
    ordered = sorted(chains, key=lambda span: (span[0], -span[1]))
    brackets = tuple((label, i, j) for i, j in ordered for label in chains[i, j])
    return Annotation(tuple(tags), brackets)


def chains_of(brackets: Iterable[Bracket]) -> dict[tuple[int, int], list[str]]:
    """The labels over each span, outermost first."""
    chains: dict[tuple[int, int], list[str]] = {}
    for label, i, j in brackets:
        chains.setdefault((i, j), []).append(label)
    return chains
