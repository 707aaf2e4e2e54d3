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

N_CONTEXTS = 5  # of each kind of annotation
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
    """

    words: Sequence[str]
    annotation: Annotation
    lifted: Sequence[int]
    dependents: Sequence[str]

    @classmethod
    def of(
        cls, words: Sequence[str], annotation: Annotation, lifted: Sequence[int]
    ) -> AnnotatedWords:
        """What contexts look at in a sentence."""
        below: list[set[str]] = [set() for _ in range(len(words) + 1)]
        for head, relation in zip(annotation.heads, annotation.relations, strict=True):
            below[head].add(relation.partition(":")[0])
        lower = [_EDGE, *(word.lower() for word in words), _EDGE]
        return cls(lower, annotation, lifted, [" ".join(sorted(names)) for names in below[1:]])

    def arc(self, k: int, head: int, relation: str) -> str:
        """What is counted of an arc: relation, side of the head, and whether it crosses others."""
        is_crossing = head == self.annotation.heads[k - 1] != self.lifted[k - 1]
        return f"{relation} {'<' if head > k else '>'}{' crossing' if is_crossing else ''}"

    def annotated(self, kind: str, k: int) -> str:
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
        if kind == "tag":
            relation = relations[k - 1].partition(":")[0]
            own: tuple[Hashable, ...] = (word, relation), (word, "", below), (relation, below)
        else:
            head = heads[k - 1]
            tag, above = upos[k - 1], upos[head - 1] if head else "ROOT"
            own = (word, tag), (word, tag, above), (tag, above, below)
            if kind == "relation":
                side = "<" if head > k else ">"
                own = tuple((*context, side) for context in own)
        return (before, word), (word, behind, ""), *own


class Contexts:
    """Annotations of all words by their contexts.

    Parameters
    ----------
    sentences
        The sentences, whose own annotations are counted.
    """

    def __init__(self, sentences: Sequence[LocatedSentence]) -> None:
        self._counts: Counter[int] = Counter()
        self._sentences = sentences
        for one in sentences:
            lifted = lift_heads(one.annotation.heads)
            here = AnnotatedWords.of(one.words, one.annotation, lifted)
            for k in range(1, len(one.words) + 1):
                for kind in ("tag", "relation", "head"):
                    self._counts.update(_keys(here, kind, k, here.annotated(kind, k)))

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
        one = self._sentences[number]
        counted = AnnotatedWords.of(one.words, one.annotation, lift_heads(one.annotation.heads))
        rows = []
        for edit in edits:
            k = edit.words[0]
            kind = "tag" if edit.is_tag else "head" if edit.kind == "head" else "relation"
            new = edit.tag or edit.relations[0]
            if kind == "head":
                new = here.arc(k, edit.heads[0], edit.relations[0])
            own = set(_keys(counted, kind, k, counted.annotated(kind, k)))  # the word itself
            row = list[float]()
            for a, b in zip(
                _keys(here, kind, k, here.annotated(kind, k)), _keys(here, kind, k, new),
                strict=True,
            ):  # fmt: skip
                n_old, n_new = self._counts[a] - (a in own), self._counts[b] - (b in own)
                row += [log((n_new + 0.5) / (n_old + 0.5)), log(1 + n_old), log(1 + n_new)]
            rows.append(row)
        return rows


def _keys(here: AnnotatedWords, kind: str, k: int, value: str) -> list[int]:
    """Keys of an annotation of word k in each of its contexts; hashes take less memory."""
    return [hash((kind, value, context)) for context in here.contexts(kind, k)]
