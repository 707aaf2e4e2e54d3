"""How often a treebank annotates a word in the same way in the same context.

What the treebank does again and again in one context is its convention, however improbable parsers
find it. Contexts are looser than those of variation nuclei: one neighbour of the word, its relation
and the relations of its dependents, or these alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import log
from typing import NamedTuple

from sapwood.dependency.audit.edits import Edit
from sapwood.dependency.audit.located import Annotation, LocatedSentence
from sapwood.dependency.data.transform import lift_heads

_EDGE = ""  # in the place of a word before the first and behind the last


class AnnotatedWords(NamedTuple):
    """The words of a sentence with an annotation, and what contexts look at.

    Attributes
    ----------
    words
        In lower case, with an empty one on both sides: word k, from 1 on, is at k.
    lifted
        Heads of a projective tree (`lift_heads`).
    dependents
        For each word the relations of its dependents, without subtypes: each once, sorted.
    is_capital
        Whether each word begins with a capital.
    """

    words: Sequence[str]
    annotation: Annotation
    lifted: Sequence[int]
    dependents: Sequence[str]
    is_capital: Sequence[bool]

    @classmethod
    def of(
        cls, words: Sequence[str], annotation: Annotation, lifted: Sequence[int]
    ) -> AnnotatedWords:
        """What contexts look at in a sentence."""
        below: list[set[str]] = [set() for _ in range(len(words) + 1)]
        for head, relation in zip(annotation.heads, annotation.relations, strict=True):
            below[head].add(relation.partition(":")[0])
        lower = [_EDGE, *(word.lower() for word in words), _EDGE]
        dependents = [" ".join(sorted(names)) for names in below[1:]]
        return cls(lower, annotation, lifted, dependents, [word[:1].isupper() for word in words])

    def is_crossing(self, k: int) -> bool:
        """Whether the arc of word k crosses other arcs and is therefore lifted."""
        return self.annotation.heads[k - 1] != self.lifted[k - 1]

    def arc(self, k: int, head: int, relation: str) -> str:
        """Key of an arc for counting: relation, side of the head, whether it crosses arcs."""
        is_crossing = head == self.annotation.heads[k - 1] and self.is_crossing(k)
        return f"{relation} {'<' if head > k else '>'}{' crossing' if is_crossing else ''}"

    def annotation_of(self, kind: str, k: int) -> str:
        """The tag, the relation or the arc of word k."""
        upos, heads, relations = self.annotation
        if kind == "tag":
            return upos[k - 1]
        relation = relations[k - 1]
        return relation if kind == "relation" else self.arc(k, heads[k - 1], relation)

    def contexts(self, kind: str, k: int) -> tuple[Hashable, ...]:
        """The contexts in which the annotation of word k is counted."""
        words, (upos, heads, relations) = self.words, self.annotation
        word, before, behind, below = words[k], words[k - 1], words[k + 1], self.dependents[k - 1]
        tags = upos[k - 2] if k > 1 else _EDGE, upos[k] if k < len(upos) else _EDGE
        if kind == "tag":
            relation = relations[k - 1].partition(":")[0]
            own: tuple[Hashable, ...] = (
                (word, relation), (word, below), (relation, below),
                (*tags, self.is_capital[k - 1], k == 1),
            )  # fmt: skip
        else:
            head = heads[k - 1]
            tag, above = (upos[k - 1], upos[head - 1]) if head else (upos[k - 1], "ROOT")
            own = (word, tag), (word, tag, above), (tag, above, below), (*tags, tag, above)
            if kind == "relation":
                side = "<" if head > k else ">"
                own = tuple((*context, side) for context in own)
        return (before, word), (word, behind), *own


class Contexts:
    """Annotations of all words by their contexts.

    Parameters
    ----------
    sentences
        The sentences, whose own annotations are counted.
    """

    def __init__(self, sentences: Sequence[LocatedSentence]) -> None:
        self._counts: Counter[int] = Counter()
        self._crossing: Counter[tuple[str, ...]] = Counter()
        self._arcs: Counter[tuple[str, ...]] = Counter()
        self._sentences = sentences
        for one in sentences:
            lifted = lift_heads(one.annotation.heads)
            here = AnnotatedWords.of(one.words, one.annotation, lifted)
            for k in range(1, len(one.words) + 1):
                for kind in ("tag", "relation", "head"):
                    self._counts.update(_keys(here, kind, k, here.annotation_of(kind, k)))
                patterns = [(), *_patterns(here, k)]
                self._arcs.update(patterns)
                if here.is_crossing(k):
                    self._crossing.update(patterns)

    def is_usual_crossing(self, number: int, here: AnnotatedWords, k: int) -> bool:
        """Whether arcs like that of word k cross others at least as often as arcs do on average.

        Alike are arcs of the same word, or of the same tag, with the same relation and the head on
        the same side. The word itself is not counted.
        """
        own = self._own(number)
        mine = set(_patterns(own, k))
        for pattern in _patterns(here, k):
            is_mine = pattern in mine
            n = self._arcs[pattern] - is_mine
            n_crossing = self._crossing[pattern] - (is_mine and own.is_crossing(k))
            if n_crossing and n_crossing * self._arcs[()] >= n * self._crossing[()]:
                return True
        return False

    def _own(self, number: int) -> AnnotatedWords:
        """A sentence with the annotation that was counted."""
        one = self._sentences[number]
        return AnnotatedWords.of(one.words, one.annotation, lift_heads(one.annotation.heads))

    def signals(
        self, number: int, here: AnnotatedWords, edits: Sequence[Edit]
    ) -> list[list[float]]:
        """How many other words are annotated as one is, and as is suggested, in each context.

        Parameters
        ----------
        number
            The number of the sentence.
        here
            The sentence, whose annotation need not be the one that was counted.
        """
        counted, rows = self._own(number), []
        for edit in edits:
            k = edit.words[0]
            kind = "tag" if edit.is_tag else "head" if edit.kind == "head" else "relation"
            new = edit.tag or edit.relations[0]
            if kind == "head":
                new = here.arc(k, edit.heads[0], edit.relations[0])
            own = set(_keys(counted, kind, k, counted.annotation_of(kind, k)))  # the word itself
            row = list[float]()
            for a, b in zip(
                _keys(here, kind, k, here.annotation_of(kind, k)), _keys(here, kind, k, new),
                strict=True,
            ):  # fmt: skip
                n_old, n_new = self._counts[a] - (a in own), self._counts[b] - (b in own)
                row += [log((n_new + 0.5) / (n_old + 0.5)), log(1 + n_old), log(1 + n_new)]
            rows.append(row)
        return rows


def _patterns(here: AnnotatedWords, k: int) -> list[tuple[str, ...]]:
    """Arcs that are like that of word k: by its form and by its tag."""
    upos, heads, relations = here.annotation
    side = "<" if heads[k - 1] > k else ">"
    return [(one, relations[k - 1], side) for one in (f"word {here.words[k]}", upos[k - 1])]


def _keys(here: AnnotatedWords, kind: str, k: int, value: str) -> list[int]:
    """Keys of an annotation of word k in each of its contexts; hashes take less memory."""
    return [hash((kind, value, *numbered)) for numbered in enumerate(here.contexts(kind, k))]
