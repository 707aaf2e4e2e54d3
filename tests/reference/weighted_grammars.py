"""Weighted grammars by enumeration and by the definitions, for tests of the charts.

A tree is a symbol number, or a pair of trees. `inside_vector` and `outside_vector` are equations
(8)-(11) of WCFG word for word; everything else sums over all trees of a string.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sapwood.core.arrays import FloatArray

BinaryTree = Any  # int | tuple[BinaryTree, BinaryTree]


def binary_trees(words: Sequence[int]) -> Iterator[BinaryTree]:
    """All binary trees over some symbols.

    >>> list(binary_trees([7, 8, 9]))
    [(7, (8, 9)), ((7, 8), 9)]
    """
    if len(words) == 1:
        yield words[0]
    for k in range(1, len(words)):
        for left in binary_trees(words[:k]):
            for right in binary_trees(words[k:]):
                yield left, right


def tree_vector(tree: BinaryTree, terminals: FloatArray, binary: FloatArray) -> FloatArray:
    """Inside vector of a tree."""
    if not isinstance(tree, tuple):
        return np.asarray(terminals[tree])
    left, right = (tree_vector(child, terminals, binary) for child in tree)
    return np.asarray(np.einsum("abc,b,c->a", binary, left, right))


def inside_vector(words: Sequence[int], terminals: FloatArray, binary: FloatArray) -> FloatArray:
    """Equations (8) and (9)."""
    if len(words) == 1:
        return np.asarray(terminals[words[0]])
    total = np.zeros(len(binary))
    for k in range(1, len(words)):
        left = inside_vector(words[:k], terminals, binary)
        right = inside_vector(words[k:], terminals, binary)
        total += np.einsum("abc,b,c->a", binary, left, right)
    return total


def outside_vector(
    before: Sequence[int],
    behind: Sequence[int],
    initial: FloatArray,
    terminals: FloatArray,
    binary: FloatArray,
) -> FloatArray:
    """Equations (10) and (11): outside vector of the context <before; behind>."""
    if not before and not behind:
        return np.asarray(initial)
    total = np.zeros(len(initial))
    for k in range(len(before)):
        above = outside_vector(before[:k], behind, initial, terminals, binary)
        beside = inside_vector(before[k:], terminals, binary)
        total += np.einsum("a,abc,b->c", above, binary, beside)
    for k in range(1, len(behind) + 1):
        above = outside_vector(before, behind[k:], initial, terminals, binary)
        beside = inside_vector(behind[:k], terminals, binary)
        total += np.einsum("a,abc,c->b", above, binary, beside)
    return total


def tree_spans(tree: BinaryTree, start: int = 0) -> tuple[list[tuple[int, int]], int]:
    """Spans of all nodes of a tree, and where it ends."""
    if not isinstance(tree, tuple):
        return [(start, start + 1)], start + 1
    left, middle = tree_spans(tree[0], start)
    right, end = tree_spans(tree[1], middle)
    return [*left, *right, (start, end)], end


def best_gain(gain: FloatArray) -> float:
    """The largest sum of gains of the spans of any tree."""
    words = list(range(len(gain)))
    return max(
        sum(float(gain[i, j]) for i, j in tree_spans(tree)[0]) for tree in binary_trees(words)
    )
