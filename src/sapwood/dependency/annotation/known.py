"""The accepted dependency trees of a project: their names, examples, and inconsistencies."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sapwood.annotation.seen import SeenAnnotations
from sapwood.dependency.annotation.given import tag_column
from sapwood.dependency.data.bank import EMPTY, Arcs

N_ARC_WARNINGS = 5  # that are shown of one tree
N_ARC_EXAMPLES = 12  # places where a relation was used


class KnownArcs:
    """Accepted dependency trees, added and removed one at a time.

    Attributes
    ----------
    relations, tags
        How often each relation and each tag was used.
    """

    def __init__(self) -> None:
        self.relations: Counter[str] = Counter()
        self.tags: Counter[str] = Counter()
        self._trees: dict[str, Arcs] = {}
        self._seen = SeenAnnotations()

    def put(self, sentence_id: str, text: str | None) -> None:
        """Add the tree of a sentence in place of the old one; None for no tree."""
        old = self._trees.pop(sentence_id, None)
        if old is not None:
            self._count(old, -1)
            self._seen.remove(sentence_id)
        if text is not None:
            arcs = self._trees[sentence_id] = Arcs.parse(text)
            self._count(arcs, 1)
            self._seen.add(sentence_id, arcs.words, _annotations(arcs))

    def _count(self, arcs: Arcs, sign: int) -> None:
        for relation, tag in zip(arcs.relations, getattr(arcs, tag_column(arcs)), strict=True):
            self.relations[relation] += sign
            self.tags[tag] += sign * (tag != EMPTY)
        self.relations, self.tags = +self.relations, +self.tags

    def warnings(self, sentence_id: str, text: str) -> list[dict[str, Any]]:
        """Words that had other relations before between the same neighbours, for the page."""
        arcs = Arcs.parse(text)
        found = self._seen.variations(arcs.words, _annotations(arcs), id=sentence_id)
        return [
            {
                "kind": "inconsistent", "text": one.text(arcs.words), "start": one.start,
                "end": one.end,
                "examples": [
                    {
                        "id": place.id, "label": place.annotation, "start": place.start,
                        "end": place.end, "text": " ".join(self._trees[place.id].words),
                    }
                    for place in one.examples
                ],
            }
            for one in found[:N_ARC_WARNINGS]
        ]  # fmt: skip

    def examples(self, name: str, *, is_tag: bool) -> dict[str, Any]:
        """Places where a relation or a tag was used, one for each word first."""
        rows, known = list[tuple[bool, int, str, int]](), set[str]()
        for sentence_id, arcs in list(self._trees.items()):
            column = getattr(arcs, tag_column(arcs)) if is_tag else arcs.relations
            for k, other in enumerate(column):
                if other == name:
                    word = arcs.words[k].lower()
                    rows.append((word in known, len(arcs), sentence_id, k))
                    known.add(word)
        examples = [
            self._example(sentence_id, k, is_tag=is_tag)
            for _, _, sentence_id, k in sorted(rows)[:N_ARC_EXAMPLES]
        ]
        return {"label": name, "n": len(rows), "examples": examples}

    def _example(self, sentence_id: str, word: int, *, is_tag: bool) -> dict[str, Any]:
        """A word, and for a relation also its head with what is between them."""
        arcs = self._trees[sentence_id]
        head = arcs.heads[word] - 1
        ends = (word, word) if is_tag or head < 0 else sorted((word, head))
        start, end = ends[0], ends[1] + 1
        return {
            "id": sentence_id, "text": " ".join(arcs.words), "start": start, "end": end,
            "words": " ".join(arcs.words[start:end]),
        }  # fmt: skip


def _annotations(arcs: Arcs) -> dict[tuple[int, int], str]:
    return {(k, k + 1): relation for k, relation in enumerate(arcs.relations)}
