"""Types of arrays and helpers for them: ragged rows and banks, rows by key, chart cells.

Ragged rows are concatenated in a flat array: row r is `flat[start[r] : start[r + 1]]`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from itertools import pairwise
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, overload

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import count

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]
T_co = TypeVar("T_co", covariant=True)


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


def pieces(sizes: npt.ArrayLike) -> Iterator[tuple[slice, slice]]:
    """Groups of neighbouring ragged rows that fit into a cache: slices of rows and of numbers.

    >>> list(pieces([20_000, 20_000, 5]))
    [(slice(0, 1, None), slice(0, 20000, None)), (slice(1, 3, None), slice(20000, 40005, None))]
    """
    starts, first = starts_of(sizes), 0
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


@dataclass(frozen=True, eq=False)
class FieldRows:
    """Arrays with a row for each of some items; `+` appends the rows of the next shard."""

    def __add__(self, other: Self) -> Self:
        both = {each.name: [getattr(one, each.name) for one in (self, other)]
                for each in fields(self)}  # fmt: skip
        return replace(self, **{name: np.concatenate(pair) for name, pair in both.items()})


class RaggedBank(ABC, Generic[T_co]):
    """A sequence of items, each some rows of columns; slices share everything and copy nothing.

    A subclass is a frozen dataclass with a field for each of `COLUMNS`, and with `offsets`: the
    first row of each item, and the number of rows at the end.
    """

    COLUMNS: ClassVar[tuple[str, ...]]
    NAME: ClassVar[str]  # of the bank, in messages
    ITEM: ClassVar[str]  # of one item, in messages
    offsets: IntArray

    @abstractmethod
    def item(self, index: int) -> T_co:
        """One item, as people see it."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[T_co]:
        return (self.item(index) for index in range(len(self)))

    @overload
    def __getitem__(self, place: int) -> T_co: ...

    @overload
    def __getitem__(self, place: slice | Sequence[int] | npt.NDArray[Any]) -> Self: ...

    def __getitem__(self, place: Any) -> T_co | Self:
        """One item for a number; a bank for a slice, numbers in a list, or an array of them."""
        if isinstance(place, slice):
            first, last, step = place.indices(len(self))
            if step == 1:
                return self.run(first, max(first, last))
            return self.select(np.arange(first, last, step))
        if isinstance(place, (int, np.integer)) and not isinstance(place, bool):
            return self.item(int(self._numbers([place])[0]))
        return self.select(place)

    def select(self, places: Sequence[int] | npt.NDArray[Any]) -> Self:
        """A copy of some items, given by numbers or by one truth value an item."""
        items = self._numbers(places)
        first, end = self.offsets[items], self.offsets[items + 1]
        return self._cut(starts_of(end - first), ranges(first, end), items)

    def run(self, first: int, last: int) -> Self:
        """The items from one number up to another, as views."""
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return self._cut(offsets, rows, slice(first, last))

    def runs(self, n: int) -> list[Self]:
        """Cut into at most n runs of items with about equally many rows."""
        return [self.run(first, last) for first, last in shard_cuts(self.offsets, n)]

    def rows(self, index: int) -> slice:
        """The rows of one item."""
        return slice(int(self.offsets[index]), int(self.offsets[index + 1]))

    def _cut(
        self, offsets: IntArray, rows: slice | IntArray, items: slice | IntArray, **more: Any
    ) -> Self:
        """The bank of some items; `more` are other fields of these items."""
        cut = {name: getattr(self, name)[rows] for name in self.COLUMNS}
        bank: Self = replace(self, offsets=offsets, **cut, **more)  # type: ignore[type-var]
        return bank

    def _numbers(self, places: object) -> IntArray:
        """Numbers of items from a list or array of numbers, or from one truth value an item."""
        numbers, n = np.asarray(places), len(self)
        if numbers.ndim == 1 and numbers.dtype == bool and len(numbers) == n:
            return np.flatnonzero(numbers)
        if numbers.ndim == 1 and not len(numbers):
            return np.empty(0, np.int64)
        if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer):
            raise TypeError(
                f"a {self.NAME} is indexed by numbers, a slice, or a list of numbers, "
                f"not {places!r:.80}"
            )
        wrong = numbers[(numbers < -n) | (numbers >= n)]
        if len(wrong):
            raise IndexError(
                f"the {self.NAME} has {count(n, self.ITEM)}, so there is no {self.ITEM} {wrong[0]}"
            )
        return numbers.astype(np.int64) % n

    def _digest(self, names: Sequence[Any], *tables: npt.NDArray[Any]) -> str:
        """A hash of names, other tables, the items and their order."""
        made = sha256(json.dumps(names).encode())
        columns: Iterable[npt.NDArray[Any]] = (getattr(self, name) for name in self.COLUMNS)
        for table in (*tables, self.offsets, *columns):
            made.update(f"{table.dtype.str} {table.shape}".encode())
            made.update(np.ascontiguousarray(table).tobytes())
        return made.hexdigest()


def shard_cuts(offsets: IntArray, n: int) -> list[tuple[int, int]]:
    """First item, and one past the last, of at most n shards with about equally many rows."""
    targets = np.linspace(0, offsets[-1], max(1, n) + 1)
    return list(pairwise(np.unique(np.searchsorted(offsets, targets)).tolist()))
