"""Types of arrays, and functions that many modules need: ragged rows, rows by key, chart cells.

Ragged rows stand one after the other in a flat array: row r is `flat[start[r] : start[r + 1]]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]


def starts_of(sizes: npt.ArrayLike) -> IntArray:
    """Offsets of ragged rows of the given sizes; the last offset is the end.

    >>> starts_of([2, 0, 3])
    array([0, 2, 2, 5])
    """
    sizes = np.asarray(sizes, np.int64)
    starts = np.zeros(len(sizes) + 1, np.int64)  # twice as fast as concatenation
    sizes.cumsum(out=starts[1:])
    return starts


def ranges(starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> IntArray:
    """The numbers from each start up to its end, one range after the other.

    >>> ranges(np.array([5, 7, 0]), np.array([8, 7, 2]))
    array([5, 6, 7, 0, 1])
    """
    starts, sizes = np.asarray(starts, np.int64), np.asarray(ends - starts, np.int64)
    at = starts_of(sizes)
    return np.asarray(np.arange(at[-1]) + np.repeat(starts - at[:-1], sizes))


PIECE = 1 << 15  # numbers that fit into a processor's cache, intermediate results included


def pieces(starts: IntArray) -> Iterator[tuple[slice, slice]]:
    """Groups of neighbouring ragged rows that fit into a cache: slices of rows and of numbers.

    >>> list(pieces(starts_of([20_000, 20_000, 5])))
    [(slice(0, 1, None), slice(0, 20000, None)), (slice(1, 3, None), slice(20000, 40005, None))]
    """
    first = 0
    while first < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[first] + PIECE, side="right")) - 1
        end = max(end, first + 1)
        yield slice(first, end), slice(int(starts[first]), int(starts[end]))
        first = end


def group_rows(keys: npt.NDArray[Any], n_keys: int) -> list[IntArray]:
    """Row numbers by key, in order; keys below 0 belong to no group.

    >>> [rows.tolist() for rows in group_rows(np.array([2, 0, -1, 2]), 3)]
    [[1], [], [0, 3]]
    """
    rows = np.flatnonzero(keys >= 0)
    rows = rows[np.argsort(keys[rows], kind="stable")]
    return np.split(rows, np.searchsorted(keys[rows], np.arange(1, n_keys)))[:n_keys]


def sum_rows(rows: FloatArray, keys: npt.NDArray[Any], n_keys: int) -> FloatArray:
    """Sum of the rows of each key, shape [n_keys, n_columns]; zero for a key that never occurs.

    >>> sum_rows(np.array([[1.0, 4.0], [3.0, 0.0]]), np.array([1, 1]), 2).tolist()
    [[0.0, 0.0], [4.0, 4.0]]
    """
    total = np.zeros((n_keys, rows.shape[1]))
    np.add.at(total, keys, rows)
    return total


def cell(start: Any, end: Any, n: Any) -> Any:
    """Index of the span [start, end) of n words in a chart: by start, then by end.

    Takes numbers or arrays of signed integers; an n-word chart has n (n + 1) / 2 cells.

    >>> [cell(i, j, 3) for i in range(3) for j in range(i + 1, 4)]
    [0, 1, 2, 3, 4, 5]
    """
    return start * (2 * n - start + 1) // 2 + (end - start - 1)


def place_among(numbers: npt.NDArray[Any], known: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Index of each number in a sorted array; -1 for numbers that are not in it.

    >>> place_among(np.array([5, 6]), np.array([2, 5], np.uint32))
    array([ 1, -1])
    """
    if not len(known):
        return np.full(len(numbers), -1)
    index = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    return np.where(known[index] == numbers, index, -1)


class SignedLog(NamedTuple):
    """A number as `sign * exp(log)`: the sign is 1, -1, or 0 for zero, whose log is -inf."""

    log: float
    sign: int


@dataclass(frozen=True, eq=False)
class FieldSums:
    """Statistics that are added field by field, so that `+` joins those of shards."""

    def __add__(self, other: Self) -> Self:
        names = (each.name for each in fields(self))
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})
