"""Which sentence to annotate next: the document's order, random, or by how much is to be learnt.

Annotators are paid by the word, so what a sentence teaches is measured by the word:

    score(s) = errors(s) / words(s) * (1 + NEW_WORDS * new(s)) * variety(s)

    errors(s)    expected number of wrong and missing parts of the parser's tree: the sum of 1 - p
                 over its brackets, and of p over all others, p being calibrated posteriors
    new(s)       fraction of its words that no annotated sentence has and another sentence that
                 waits has: what they teach is needed again
    variety(s)   mean over its words of 1 / (1 + times that sentences chosen before it in the same
                 batch have the word): after a sentence is chosen, its like can wait

After Hwa (2004), who takes sentences by the entropy of their trees, with lengths taken out, and
Settles and Craven (2008), who weigh by how typical a sentence is. Without a model, errors(s) is
words(s).
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sapwood.core.errors import SapwoodValueError, count

DOCUMENT, RANDOM, LEARN = "document", "random", "learn"
ORDERS = (DOCUMENT, RANDOM, LEARN)
NEW_WORDS = 1.0  # how much a sentence of new words alone is worth beside one of known words
N_WORDS_SHOWN = 3  # new words that are named


class WaitingSentence(NamedTuple):
    """A sentence that waits.

    `errors` is the number of errors that are expected in the parser's tree (None without a model).
    """

    id: str
    words: Sequence[str]
    errors: float | None = None


class Reason(NamedTuple):
    """One reason of a score, in words."""

    name: str  # `errors`, `length`, `new words` or `variety`
    value: float
    text: str


class Ranked(NamedTuple):
    """A sentence with its score and the reasons."""

    id: str
    score: float
    parts: tuple[Reason, ...]


def random_order(ids: Sequence[str], seed: int = 0) -> list[str]:
    """A random order, the same for the same sentences and seed.

    A sentence keeps its place relative to all others when sentences come or go.

    Examples
    --------
    >>> random_order(["a", "b", "c", "d"]), random_order(["d", "b", "a"])
    (['d', 'c', 'b', 'a'], ['d', 'b', 'a'])
    """
    # random() is the one part of the module that Python promises never to change
    return sorted(ids, key=lambda name: (random.Random(f"{seed}:{name}").random(), name))


def sentence_counts(sentences: Iterable[Sequence[str]]) -> Counter[str]:
    """In how many sentences each word is, without regard to capitals.

    >>> sentence_counts([["The", "the", "dog"], ["a", "dog"]])["dog"]
    2
    """
    return Counter(word for words in sentences for word in _types(words))


def rank(
    candidates: Sequence[WaitingSentence],
    annotated: Counter[str],
    waiting: Counter[str],
    n: int | None = None,
) -> list[Ranked]:
    """The n sentences that teach most, best first, and why.

    Parameters
    ----------
    candidates
        Sentences that may be chosen: all that wait, or a sample of them.
    annotated, waiting
        `sentence_counts` of the sentences that are annotated, and of all that wait.
    n
        How many to choose; None ranks all.

    Notes
    -----
    Greedy; scores only fall while others are chosen, so that few are computed again.

    Examples
    --------
    >>> rows = [WaitingSentence("a", ["x", "x"], 0.2), WaitingSentence("b", ["y", "z"], 1.0)]
    >>> found = rank(rows, sentence_counts([]), sentence_counts(row.words for row in rows))
    >>> [row.id for row in found], found[0].parts[0].text
    (['b', 'a'], '1.0 errors expected in the 2 words')
    """
    if n is not None and n < 0:
        raise SapwoodValueError(f"cannot choose {n} sentences", hint="give a number from 0 up")
    value = [_teaches(one, annotated, waiting) for one in candidates]
    chosen: Counter[str] = Counter()
    ahead = [(-v, k) for k, v in enumerate(value)]
    heapq.heapify(ahead)
    found: list[Ranked] = []
    while ahead and (n is None or len(found) < n):
        stored, k = heapq.heappop(ahead)
        one = candidates[k]
        score = value[k] * _variety(one.words, chosen)
        if -score > stored + 1e-12 and ahead and (-score, k) > ahead[0]:
            heapq.heappush(ahead, (-score, k))
            continue
        found.append(Ranked(one.id, score, _explain(one, annotated, waiting, chosen)))
        chosen.update(_types(one.words))
    return found


def _types(words: Sequence[str]) -> set[str]:
    return {word.lower() for word in words}


def _new_words(words: Sequence[str], annotated: Counter[str], waiting: Counter[str]) -> list[str]:
    """Words that no annotated sentence has, and another one that waits has."""
    named = dict.fromkeys(word.lower() for word in words)
    return [word for word in named if not annotated[word] and waiting[word] > 1]


def _teaches(one: WaitingSentence, annotated: Counter[str], waiting: Counter[str]) -> float:
    """The score of a sentence that is chosen first."""
    n = max(len(one.words), 1)
    new = len(_new_words(one.words, annotated, waiting)) / n
    return (n if one.errors is None else one.errors) / n * (1.0 + NEW_WORDS * new)


def _variety(words: Sequence[str], chosen: Counter[str]) -> float:
    named = _types(words)
    return sum(1.0 / (1.0 + chosen[word]) for word in named) / max(len(named), 1)


def _explain(
    one: WaitingSentence, annotated: Counter[str], waiting: Counter[str], chosen: Counter[str]
) -> tuple[Reason, ...]:
    n, parts = len(one.words), []
    if one.errors is None:
        parts.append(Reason("length", n, f"{count(n, 'word')}, and no model to expect errors by"))
    else:
        expected = f"{one.errors:.1f} errors expected in the {count(n, 'word')}"
        parts += [Reason("errors", one.errors, expected), Reason("length", n, count(n, "word"))]
    new = _new_words(one.words, annotated, waiting)
    if new:
        named = ", ".join(new[:N_WORDS_SHOWN]) + (", ..." if len(new) > N_WORDS_SHOWN else "")
        text = f"{count(len(new), 'new word')} that other sentences have too: {named}"
        parts.append(Reason("new words", len(new), text))
    variety = _variety(one.words, chosen)
    if variety < 1.0:
        text = f"{1 - variety:.0%} like the sentences that come before it"
        parts.append(Reason("variety", variety, text))
    return tuple(parts)
