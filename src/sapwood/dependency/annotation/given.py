"""What was set by hand about a dependency tree, and trees that have all of it.

Words are counted from 0 in states and actions; heads are numbers of words from 1 on, 0 the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from sapwood.annotation.state import SentenceState
from sapwood.core.errors import SapwoodError, join_words
from sapwood.dependency.data.bank import EMPTY, UNPARSED, Arcs

ROOT_RELATION, OTHER = "root", "dep"


@dataclass(frozen=True)
class GivenArcs:
    """Heads, relations and tags that were set by hand, None where nothing was.

    Attributes
    ----------
    open
        Words whose part of a tree that is kept otherwise is not kept.
    """

    heads: tuple[int | None, ...]
    relations: tuple[str | None, ...]
    tags: tuple[str | None, ...]
    open: tuple[int, ...] = ()

    @classmethod
    def of(cls, state: SentenceState) -> Self:
        """What was set by hand in a state."""
        found, nothing = state.constraints, (None,) * len(state.words)
        return cls(
            tuple(found.get("heads") or nothing), tuple(found.get("relations") or nothing),
            tuple(found.get("tags") or nothing), tuple(found.get("open", ())),
        )  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Plain data for the state; what is empty is left out."""
        found: dict[str, Any] = {}
        for name in ("heads", "relations", "tags"):
            column = getattr(self, name)
            if any(entry is not None for entry in column):
                found[name] = [*column]
        return found | ({"open": [*self.open]} if self.open else {})

    def with_head(self, word: int, head: int | None) -> Self:
        """The same with another head of a word.

        Raises
        ------
        SapwoodError
            Where another word was made the root by hand, or words would depend on each other.
        """
        changed = replace(self, heads=_put(self.heads, word, head))
        if head == 0:
            others = [k for k, one in enumerate(self.heads) if one == 0 and k != word]
            if others:
                msg = f"word {others[0] + 1} was made the root by hand, and a tree has one root"
                raise SapwoodError(msg, hint="give that word a head, or free it first")
        elif self.relations[word] == ROOT_RELATION:
            changed = replace(changed, relations=_put(self.relations, word, None))
        if circle := find_circle([one or 0 for one in changed.heads], word):
            names = join_words(str(one) for one in circle)
            msg = f"words {names} would depend on each other in a circle"
            raise SapwoodError(msg, hint="free the head of one of them first")
        return changed

    def with_relation(self, word: int, relation: str | None) -> Self:
        """The same with another relation of a word; the root's makes the word the root."""
        changed = replace(self, relations=_put(self.relations, word, relation))
        if relation == ROOT_RELATION:
            return changed.with_head(word, 0)
        if relation is not None and self.heads[word] == 0:
            msg = f"word {word + 1} was made the root by hand, whose relation is {ROOT_RELATION}"
            raise SapwoodError(msg, hint="give the word a head first")
        return changed

    def with_tag(self, word: int, tag: str | None) -> Self:
        """The same with another tag of a word."""
        return replace(self, tags=_put(self.tags, word, tag))

    def freed(self, word: int) -> Self:
        """The same with nothing set by hand for a word."""
        opened = tuple(dict.fromkeys((*self.open, word)))
        kept = replace(self, heads=_put(self.heads, word, None), open=opened)
        return kept.with_relation(word, None).with_tag(word, None)


def _put(column: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*column[:place], value, *column[place + 1 :])


def find_circle(heads: Sequence[int], word: int) -> list[int]:
    """The numbers of the words of a circle through a word, from 1 on; none where there is none."""
    at, seen = word + 1, list[int]()
    while at > 0 and at not in seen:
        seen.append(at)
        at = heads[at - 1]
    return sorted(seen) if at == word + 1 else []


def chain(words: Sequence[str]) -> Arcs:
    """A tree in which each word depends on the one before it."""
    return Arcs(tuple(words), tuple(range(len(words))))


def obeying(arcs: Arcs, given: GivenArcs) -> Arcs:
    """A tree that has all that was set by hand, and is a given one otherwise.

    Where a new head closes a circle, the highest word of the circle that was not set by hand goes
    to the old head of the word.
    """
    heads, relations = list(arcs.heads), list(arcs.relations)
    order = sorted(range(len(heads)), key=lambda k: given.heads[k] != 0)  # the root first
    for word in order:
        head = given.heads[word]
        if head is None or head == heads[word]:
            continue
        old = heads[word]
        if head == 0:  # the root until now depends on the new one
            path = path_up(heads, word)
            root = path[-1] - 1
            heads[root] = word + 1
        heads[word] = head
        circle = find_circle(heads, word)
        if circle:
            path = path_up(heads, head - 1, word)
            free = next(one - 1 for one in reversed(path) if given.heads[one - 1] is None)
            heads[free] = old
    for word, head in enumerate(heads):
        asked = given.relations[word]
        if asked is not None:
            relations[word] = asked
        elif head == 0:
            relations[word] = ROOT_RELATION
        elif relations[word] == ROOT_RELATION:
            relations[word] = OTHER
    return with_tags(replace(arcs, heads=tuple(heads), relations=tuple(relations)), given.tags)


def path_up(heads: Sequence[int], word: int, last: int = -1) -> list[int]:
    """The numbers of the words from a word up to the root, or up to below another one."""
    path, at = [word + 1], heads[word]
    while at > 0 and at != last + 1:
        path.append(at)
        at = heads[at - 1]
    return path


def with_tags(arcs: Arcs, tags: Sequence[str | None]) -> Arcs:
    """The tree with some other tags, in the column that `tag_column` names."""
    name = tag_column(arcs)
    column = getattr(arcs, name)
    changed = tuple(new or old for new, old in zip(tags, column, strict=True))
    return replace(arcs, upos=changed) if name == "upos" else replace(arcs, xpos=changed)


def tag_column(arcs: Arcs) -> str:
    """The column whose tags are shown: universal tags, unless only the treebank's are there."""
    return "upos" if {*arcs.upos} != {EMPTY} or {*arcs.xpos} == {EMPTY} else "xpos"


def unmet(arcs: Arcs, given: GivenArcs) -> str | None:
    """What was set by hand and the tree has not, in words; None where it has all."""
    tags = getattr(arcs, tag_column(arcs))
    for name, asked, found in (
        ("head", given.heads, arcs.heads), ("relation", given.relations, arcs.relations),
        ("tag", given.tags, tags),
    ):  # fmt: skip
        for place, (one, other) in enumerate(zip(asked, found, strict=True), 1):
            if one is not None and one != other:
                return f"the {name} {other} of word {place}"
    return None


def unparsed(words: Sequence[str]) -> Arcs:
    """A sentence without heads."""
    return Arcs(tuple(words), (UNPARSED,) * len(words))
