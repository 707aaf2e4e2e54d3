"""Every binary tree over some words, as its spans."""

from __future__ import annotations

from itertools import product


def binary_spans(i: int, j: int) -> list[list[tuple[int, int]]]:
    """The spans of each binary tree over the words [i, j), those of words included.

    Examples
    --------
    >>> binary_spans(0, 3)
    [[(0, 3), (0, 1), (1, 3), (1, 2), (2, 3)], [(0, 3), (0, 2), (0, 1), (1, 2), (2, 3)]]
    """
    if j - i == 1:
        return [[(i, j)]]
    return [
        [(i, j), *left, *right]
        for k in range(i + 1, j)
        for left, right in product(binary_spans(i, k), binary_spans(k, j))
    ]
