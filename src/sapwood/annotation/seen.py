"""Annotations seen before: the same words in the same context that are annotated otherwise.

Variation nuclei (Dickinson and Meurers 2003, see `sapwood.auditing.nuclei`) of the sentence that is
being annotated, against all accepted ones. Sentences are added and removed one at a time; none is
read again. What a string of words was annotated as is kept by the words and their two neighbours;
`NIL` stands for no constituent, and is found by the pairs of neighbouring words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from sapwood.auditing.nuclei import MAX_LENGTH, NIL, Span

N_EXAMPLES = 5  # places that are listed for one span
EDGE = ""  # the neighbour of a sentence's first and last word
_Key = tuple[str, ...]


class SeenPlace(NamedTuple):
    """A place where words were annotated before."""

    id: str
    start: int
    end: int
    annotation: str


class Variation(NamedTuple):
    """A span whose words were annotated otherwise before.

    Attributes
    ----------
    own
        Its annotation now.
    counts
        Number of earlier places by their annotation.
    examples
        Some of those that differ, most frequent annotation first.
    """

    start: int
    end: int
    own: str
    counts: Counter[str]
    examples: tuple[SeenPlace, ...]

    def text(self, words: Sequence[str]) -> str:
        """The warning in one sentence."""
        said = " ".join(words[self.start : self.end])
        others = [
            f"{name_of(label)} ({n})" for label, n in self.counts.most_common() if label != self.own
        ]
        now = f"{said!r} is {name_of(self.own)} here"
        return f"{now}, and was {', '.join(others)} between the same words before."


def name_of(annotation: str) -> str:
    """An annotation in words.

    >>> name_of("NP|NN"), name_of("NIL")
    ('NP over NN', 'no phrase')
    """
    return "no phrase" if annotation == NIL else annotation.replace("|", " over ")


class SeenAnnotations:
    """Accepted sentences by their words, for warnings of inconsistency.

    Annotations give each span its labels: `S|VP` for a phrase, outermost first, with the tag at the
    end for a word. Every word should have one.

    Examples
    --------
    >>> seen = SeenAnnotations()
    >>> words = ["a", "red", "car", "stops"]
    >>> tags = {(0, 1): "D", (1, 2): "J", (2, 3): "N", (3, 4): "V", (0, 3): "NP"}
    >>> seen.add("first", words, tags)
    >>> found = seen.variations(words, tags | {(2, 3): "V"})
    >>> found[0].text(words)
    "'car' is V here, and was N (1) between the same words before."
    >>> seen.remove("first")
    >>> seen.variations(words, tags | {(2, 3): "V"})
    []
    """

    def __init__(self) -> None:
        self._sentences: dict[str, tuple[tuple[str, ...], dict[Span, str]]] = {}
        self._places: defaultdict[_Key, set[tuple[str, int]]] = defaultdict(set)
        self._pairs: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._sentences)

    def add(self, id: str, words: Sequence[str], annotations: Mapping[Span, str]) -> None:
        """Add an accepted sentence; one of the same id is replaced."""
        if id in self._sentences:
            self.remove(id)
        self._sentences[id] = tuple(words), dict(annotations)
        for key, i, _ in _keys(words, annotations):
            self._places[key].add((id, i))
        for pair in pairwise(words):
            self._pairs[pair].add(id)

    def remove(self, id: str) -> None:
        """Remove a sentence, without reading the others."""
        words, annotations = self._sentences.pop(id)
        for key, i, _ in _keys(words, annotations):
            self._places[key].discard((id, i))
            if not self._places[key]:
                del self._places[key]
        for pair in set(pairwise(words)):
            self._pairs[pair].discard(id)
            if not self._pairs[pair]:
                del self._pairs[pair]

    def variations(
        self, words: Sequence[str], annotations: Mapping[Span, str], *, id: str | None = None
    ) -> list[Variation]:
        """Spans of a sentence whose words were annotated otherwise, those with most places first.

        Parameters
        ----------
        id
            The sentence itself, where it was accepted before; its own places do not count.
        """
        found = []
        spans = {(i, j) for _, i, j in _keys(words, annotations)}
        for (i, j), own in [(span, annotations[span]) for span in sorted(spans)]:
            if one := self._variation(words, i, j, own, id):
                found.append(one)
        for i, j in self._missing(words, annotations):
            if one := self._variation(words, i, j, NIL, id):
                found.append(one)
        return sorted(found, key=lambda one: (-_n_others(one), one.start, one.end))

    def _missing(
        self, words: Sequence[str], annotations: Mapping[Span, str]
    ) -> Iterator[tuple[int, int]]:
        """Spans that are no constituent here, and whose words were one before."""
        n = len(words)
        for i in range(n):
            for j in range(i + 2, min(i + MAX_LENGTH, n) + 1):
                if j - i < n and (i, j) not in annotations and _key(words, i, j) in self._places:
                    yield i, j

    def _variation(
        self, words: Sequence[str], i: int, j: int, own: str, id: str | None
    ) -> Variation | None:
        places = [
            SeenPlace(name, start, start + j - i, self._annotation(name, start, j - i))
            for name, start in self._occurrences(tuple(words), i, j)
            if name != id
        ]
        counts = Counter(place.annotation for place in places)
        others = [label for label in counts if label != own]
        # where the annotation of now is the usual one, the others are to be mended, not this one
        if not others or counts[own] >= sum(counts[label] for label in others):
            return None
        others.sort(key=lambda label: (-counts[label], label))
        listed = [
            place for label in others for place in sorted(places) if place.annotation == label
        ]
        return Variation(i, j, own, counts, tuple(listed[:N_EXAMPLES]))

    def _annotation(self, id: str, start: int, length: int) -> str:
        return self._sentences[id][1].get((start, start + length), NIL)

    def _occurrences(self, words: tuple[str, ...], i: int, j: int) -> set[tuple[str, int]]:
        """Places of a span's words between the same neighbours, whether constituents or not."""
        key = _key(words, i, j)
        if j - i == 1:
            return self._places.get(key, set())
        pairs = pairwise(words[i:j])
        rarest = min((self._pairs.get(pair, set()) for pair in pairs), key=len)
        found = set()
        for name in rarest:
            there = self._sentences[name][0]
            for start in range(len(there) - (j - i) + 1):
                if there[start] == words[i] and _key(there, start, start + j - i) == key:
                    found.add((name, start))
        return found


def _n_others(one: Variation) -> int:
    return sum(n for label, n in one.counts.items() if label != one.own)


def _key(words: Sequence[str], i: int, j: int) -> _Key:
    left = words[i - 1] if i else EDGE
    right = words[j] if j < len(words) else EDGE
    return (left, *words[i:j], right)


def _keys(words: Sequence[str], annotations: Mapping[Span, str]) -> Iterator[tuple[_Key, int, int]]:
    """The annotated spans that may be repeated; a whole sentence has no context at all."""
    for i, j in annotations:
        if 0 < j - i <= MAX_LENGTH and j - i < len(words):
            yield _key(words, i, j), i, j
