"""Variation nuclei: the same words in the same context that are annotated differently.

After Dickinson and Meurers (2003, 2005): a nucleus is a string of words that occurs more than once
and is not always annotated alike; one word on each side, the same in all places, makes errors more
likely than ambiguity. Places where the string is no constituent count as annotated `NIL`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import NamedTuple

NIL = "NIL"  # of a string of words that is no constituent
MAX_LENGTH = 8  # words of a nucleus: longer ones are seldom repeated
Span = tuple[int, int]
Place = tuple[int, int]  # a sentence, and the first word there


class Repeated(NamedTuple):
    """A span whose words and neighbours also occur elsewhere."""

    start: int
    end: int
    key: int  # of the words with their neighbours

    @property
    def span(self) -> Span:
        """The first word, and the position after the last."""
        return self.start, self.end


class Nuclei:
    """Spans that are repeated with one word of context on each side, and their annotations.

    Parameters
    ----------
    sentences
        The words of each sentence.
    annotations
        For each sentence the annotation of its spans: labels of a phrase or the tag of a word.
        Every word should have one; other spans that are missing are `NIL`.

    Examples
    --------
    >>> words = ["a", "red", "car", "stops"]
    >>> tags = [{(0, 1): "D", (1, 2): "J", (2, 3): "N", (3, 4): "V"} for _ in range(3)]
    >>> tags[2][2, 3] = "V"
    >>> nuclei = Nuclei([words] * 3, tags)
    >>> nuclei.others(2, 2, 3)
    [(0, 2, 'N'), (1, 2, 'N')]
    """

    def __init__(
        self, sentences: Sequence[Sequence[str]], annotations: Sequence[Mapping[Span, str]]
    ) -> None:
        self.annotations = annotations
        numbers: dict[str, int] = {}
        self._ids = [[numbers.setdefault(word, len(numbers)) for word in s] for s in sentences]
        annotated = {
            self._key(k, i, j)
            for k, spans in enumerate(annotations)
            for (i, j) in spans
            if j - i <= MAX_LENGTH
        }
        once, twice = set[int](), set[int]()  # most strings occur once: no lists are kept of them
        for k in range(len(sentences)):
            for _, _, key in self._keys_in(k, annotated):
                (twice if key in once else once).add(key)
        self._places: dict[int, dict[str, list[Place]]] = defaultdict(dict)
        for k, spans in enumerate(annotations):
            for i, j, key in self._keys_in(k, twice):
                self._places[key].setdefault(spans.get((i, j), NIL), []).append((k, i))
        self.repeated = [
            [Repeated(*one) for one in self._keys_in(k, twice)] for k in range(len(sentences))
        ]

    def _key(self, k: int, i: int, j: int) -> int:
        ids = self._ids[k]
        left = ids[i - 1] if i else -1
        right = ids[j] if j < len(ids) else -1
        return hash((j - i, left, *ids[i:j], right))

    def _keys_in(self, k: int, known: Container[int]) -> Iterator[tuple[int, int, int]]:
        """Spans of a sentence whose key is known."""
        n = len(self._ids[k])
        for i in range(n):
            for j in range(i + 1, min(i + MAX_LENGTH, n) + 1):
                # a whole sentence has no context at all
                if j - i < n and (key := self._key(k, i, j)) in known:
                    yield i, j, key

    def _elsewhere(self, k: int, i: int, j: int) -> Iterator[tuple[str, int, list[Place]]]:
        """Annotations of the words of a span: how many other places have each, and all places."""
        own = self.annotations[k].get((i, j), NIL)
        for label, places in self._places.get(self._key(k, i, j), {}).items():
            yield label, len(places) - (label == own), places

    def others(
        self, k: int, i: int, j: int, *, last: str | None = None, most: int | None = None
    ) -> list[tuple[int, int, str]]:
        """Other places with the words of a span and its neighbours: sentence, start, annotation.

        Parameters
        ----------
        last
            An annotation whose places come last.
        most
            How many places to give; None gives all.
        """
        stop = None if most is None else most + 1  # one of them may be the span itself
        ordered = merge(
            *(
                [(label == last, *place, label) for place in places[:stop] if place != (k, i)]
                for label, _, places in self._elsewhere(k, i, j)
            )
        )
        return [place[1:] for place in islice(ordered, most)]

    def counts(self, k: int, i: int, j: int) -> Counter[str]:
        """Number of other places of a span by their annotation."""
        return Counter({label: n for label, n, _ in self._elsewhere(k, i, j) if n})


PASSAGE_WORDS = 8  # words of a passage that is annotated twice
_INSIDE = 2  # words of context on each side of what is compared


def count_differences(
    sentences: Sequence[Sequence[str]], annotations: Sequence[Mapping[Span, str]]
) -> tuple[int, int]:
    """Number of annotated spans inside passages that occur twice, and of those that differ.

    A passage is a run of words, long enough that its annotation should always be the same. Each
    place is compared with the one before it, by the spans that start after the first words.
    """
    last: dict[int, tuple[int, int]] = {}
    ids: dict[str, int] = {}
    n = n_different = 0
    for k, words in enumerate(sentences):
        numbers = [-1] * _INSIDE + [ids.setdefault(w, len(ids)) for w in words] + [-1] * _INSIDE
        by_start: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        for (i, j), label in annotations[k].items():
            by_start[i].append((i, j, label))
        for at in range(len(numbers) - PASSAGE_WORDS + 1):
            key = hash(tuple(numbers[at : at + PASSAGE_WORDS]))
            before, last[key] = last.get(key), (k, at)
            if before is None or before[0] == k:
                continue
            shift = before[1] - at
            end = (
                at + PASSAGE_WORDS - 2 * _INSIDE
            )  # in words, as is `at` for the word after the context
            here = {(i, j): label for i, j, label in by_start.get(at, ()) if j <= end}
            there = annotations[before[0]]
            ends = range(at + 1, end + 1)
            spans = set(here) | {(at, j) for j in ends if (at + shift, j + shift) in there}
            for i, j in spans:
                n += 1
                n_different += here.get((i, j), NIL) != there.get((i + shift, j + shift), NIL)
    return n, n_different
