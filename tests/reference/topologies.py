"""Moments of parsing models with uniform trees, tree by tree and sentence by sentence.

Notation (IDENT, section 3)
---------------------------
    root[a]             weight of state a at the root (of word a, for dependencies)
    rules(a, b, c)      weight of the children b, c of a parent a
    words[x][a]         weight of word x in state a
    left[y][h]          weight of the left argument y of a head h; right[y][h] likewise

Every sentence is weighed in every tree, over every assignment of states: up to about five words.
Trees are listed without recursion over spans where that is possible, so that a mistake in a dynamic
program cannot repeat itself here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

Number = Any  # int, float or Fraction
Words = tuple[int, ...]
Binary = Any  # a position, or a pair of subtrees
Heads = tuple[int, ...]  # the head of each position; -1 is the root
Rules = Callable[[int, int, int], Number]
Matrix = Sequence[Sequence[Number]]


def binary_trees(start: int, end: int) -> list[Binary]:
    """Every binary tree over the positions [start, end), as nested pairs."""
    if end - start == 1:
        return [start]
    return [
        (left, right)
        for split in range(start + 1, end)
        for left in binary_trees(start, split)
        for right in binary_trees(split, end)
    ]


def projective_trees(length: int) -> Iterator[Heads]:
    """Every projective dependency tree: all assignments of heads, less those that are none."""
    for heads in product(range(-1, length), repeat=length):
        if heads.count(-1) == 1 and is_projective(heads):
            yield heads


def is_projective(heads: Heads) -> bool:
    """Whether each word hangs below the root, and each arc spans only words below its head."""
    ancestors = [_ancestors(heads, place) for place in range(len(heads))]
    if any(-1 not in above for above in ancestors):
        return False
    return all(
        head in ancestors[between]
        for place, head in enumerate(heads)
        if head >= 0
        for between in range(min(head, place) + 1, max(head, place))
    )


def _ancestors(heads: Heads, place: int) -> set[int]:
    above: set[int] = set()
    while place >= 0 and heads[place] not in above:
        place = heads[place]
        above.add(place)
    return above


def constituency_weight(
    tree: Binary, sentence: Words, state: int, rules: Rules, words: Matrix
) -> Number:
    """Weight of a sentence below a node of a given state, states below it summed out."""
    if isinstance(tree, int):
        return words[sentence[tree]][state]
    states = range(len(words[0]))
    return sum(
        rules(state, b, c)
        * constituency_weight(tree[0], sentence, b, rules, words)
        * constituency_weight(tree[1], sentence, c, rules, words)
        for b in states
        for c in states
    )


def dependency_weight(
    heads: Heads, sentence: Words, root: Sequence[Number], left: Matrix, right: Matrix
) -> Number:
    """Weight of a sentence in one dependency tree."""
    weight: Number = 1
    for place, head in enumerate(heads):
        word = sentence[place]
        if head < 0:
            weight = weight * root[word]
        else:
            weight = weight * (left if place < head else right)[word][sentence[head]]
    return weight


def constituency_distribution(
    length: int, root: Sequence[Number], rules: Rules, words: Matrix
) -> dict[Words, Number]:
    """Probability of every sentence of a length: the mean over all binary trees."""
    trees = binary_trees(0, length)
    states = range(len(root))
    return {
        sentence: sum(
            root[a] * constituency_weight(tree, sentence, a, rules, words)
            for tree in trees
            for a in states
        )
        / len(trees)
        for sentence in product(range(len(words)), repeat=length)
    }


def dependency_distribution(
    length: int, root: Sequence[Number], left: Matrix, right: Matrix
) -> dict[Words, Number]:
    """Probability of every sentence of a length: the mean over all projective trees."""
    trees = list(projective_trees(length))
    return {
        sentence: sum(dependency_weight(heads, sentence, root, left, right) for heads in trees)
        / len(trees)
        for sentence in product(range(len(root)), repeat=length)
    }


def marginal(distribution: Mapping[Words, Number], positions: Sequence[int]) -> dict[Words, Number]:
    """Joint distribution of the words at some positions, counted from 1."""
    sums: dict[Words, Number] = {}
    for sentence, weight in distribution.items():
        key = tuple(sentence[place - 1] for place in positions)
        sums[key] = sums.get(key, 0) + weight
    return sums
