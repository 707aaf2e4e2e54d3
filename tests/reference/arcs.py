"""Every projective dependency tree of a short sentence, and their parts, one by one.

Notation
--------
    heads     of the words, the root's place 0 before them: `(0, 2, 0)` is word 1 below word 2
    parts     as `sapwood.dependency.kernels.arc_forest` has them: (kind, head, modifier,
    third)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from math import exp, inf, log

Heads = tuple[int, ...]
Part = tuple[str, int, int, int]
NOBODY = -1


def projective_trees(n: int) -> Iterator[Heads]:
    """All trees of n words with one word at the root and no crossing arcs.

    Examples
    --------
    >>> [sum(1 for _ in projective_trees(n)) for n in range(1, 6)]
    [1, 2, 7, 30, 143]
    """
    for below in product(range(n + 1), repeat=n):
        heads = (0, *below)
        words = range(1, n + 1)
        is_tree = below.count(0) == 1 and all(_leads_up(heads, m) for m in words)
        if is_tree and all(_covers(heads, m) for m in words):
            yield heads


def _leads_up(heads: Heads, word: int) -> bool:
    for _ in heads:
        word = heads[word]
    return word == 0


def _covers(heads: Heads, modifier: int) -> bool:
    """Whether everything between a word and its head is below the head."""
    head = heads[modifier]
    low, high = sorted((head, modifier))
    return head == 0 or all(_is_below(heads, word, head) for word in range(low + 1, high))


def _is_below(heads: Heads, word: int, above: int) -> bool:
    while word not in (0, above):
        word = heads[word]
    return word == above


def parts_of(heads: Heads) -> Iterator[Part]:
    """All parts of a tree: arcs, siblings, heads of heads, ends of sides, sides without a word."""
    for head in range(len(heads)):
        below = [m for m in range(1, len(heads)) if heads[m] == head]
        left = [m for m in reversed(below) if m < head]
        for side, row in enumerate((left, [m for m in below if m > head])):
            inner = NOBODY
            for m in row:
                yield "arc", head, m, NOBODY
                yield "sibling", head, m, inner
                inner = m
                if head:
                    yield "grand", head, m, heads[head]
            if head:
                yield ("last", head, row[-1], NOBODY) if row else ("none", head, side, NOBODY)


def tree_scores(
    n: int, arcs: Collection[tuple[int, int]], scores: Mapping[Part, float]
) -> dict[Heads, float]:
    """The score of every tree over some arcs: the sum over its parts; others count nothing."""
    return {
        heads: sum(scores.get(part, 0.0) for part in parts_of(heads))
        for heads in projective_trees(n)
        if all((heads[m], m) in arcs for m in range(1, n + 1))
    }


def posteriors(scores: Mapping[Heads, float]) -> tuple[float, dict[Part, float]]:
    """Log of the sum over trees of exp(score), and the posterior of every part."""
    if not scores:
        return -inf, {}
    top = max(scores.values())
    total = top + log(sum(exp(score - top) for score in scores.values()))
    out: dict[Part, float] = {}
    for heads, score in scores.items():
        for part in parts_of(heads):
            out[part] = out.get(part, 0.0) + exp(score - total)
    return total, out
