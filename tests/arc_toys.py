"""Dependency trees of a small language of our own, for tests."""

from __future__ import annotations

from functools import cache

import numpy as np

from sapwood.dependency.data.bank import ArcBank, Arcs

NOUNS = ("dog", "cat", "park", "tree", "child", "teacher", "song", "window")
VERBS = ("sees", "hears", "likes", "finds", "sings", "calls")
ADJECTIVES = ("old", "small", "red", "happy")
PREPOSITIONS = ("in", "with", "near")


class _Sentence:
    """Words with heads, one after the other."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.rows: list[list] = []

    def add(self, words, upos: str, xpos: str, relation: str) -> int:
        word = words if isinstance(words, str) else str(self.rng.choice(words))
        self.rows.append([word, upos, xpos, 0, relation])
        return len(self.rows)

    def hang(self, head: int, *words: int) -> None:
        for word in words:
            self.rows[word - 1][3] = head

    def phrase(self, relation: str) -> int:
        """A determiner, perhaps an adjective, a noun, perhaps a preposition with another phrase."""
        first = [self.add(("the", "a"), "DET", "DT", "det")]
        if self.rng.random() < 0.4:
            first.append(self.add(ADJECTIVES, "ADJ", "JJ", "amod"))
        noun = self.add(NOUNS, "NOUN", "NN", relation)
        self.hang(noun, *first)
        if self.rng.random() < 0.25:
            case = self.add("of", "ADP", "IN", "case")
            below = self.phrase("nmod")
            self.hang(below, case)
            self.hang(noun, below)
        return noun


def sentence(rng: np.random.Generator) -> Arcs:
    """One sentence: subject, verb, perhaps an object, phrases with prepositions, a full stop."""
    made = _Sentence(rng)
    subject = made.phrase("nsubj")
    verb = made.add(VERBS, "VERB", "VBZ", "root")
    made.hang(verb, subject)
    if rng.random() < 0.7:
        made.hang(verb, made.phrase("obj"))
    while rng.random() < 0.3:
        case = made.add(PREPOSITIONS, "ADP", "IN", "case")
        place = made.phrase("obl")
        made.hang(place, case)
        made.hang(verb, place)
    made.hang(verb, made.add(".", "PUNCT", ".", "punct"))
    words, upos, xpos, heads, relations = zip(*made.rows, strict=True)
    return Arcs(words, heads, relations, upos, xpos)


@cache
def bank(n: int = 120, seed: int = 0) -> ArcBank:
    """Sentences of the language."""
    rng = np.random.default_rng(seed)
    return ArcBank.of([sentence(rng) for _ in range(n)])
