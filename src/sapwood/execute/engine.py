"""`Engine`: where work runs. The mathematics says what is summed, and never learns where it was.

    placed = engine.place(shards)                  once: shards stay where they are put
    tables = engine.map(NodeTable, placed)         so do results, one for each shard
    counts = engine.total(count, tables, grammar)  sum of count(table, grammar) over all shards

A sum is taken in pairs, then in pairs of pairs, and so on: its shape depends on the number of
shards alone, so that floating-point sums are the same on any number of threads or machines.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from shutil import rmtree
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from sapwood.errors import SapwoodError
from sapwood.execute.parallel import ordered_map, resolve_jobs
from sapwood.outputs import append_bytes, working_folder

T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Stored(Protocol):
    """A shard that lies on disk and is read when a task needs it."""

    def load(self) -> Any:
        """The shard itself."""


class Placed:
    """Shards, or results for them, that stay where an engine has put them."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)


class Engine(ABC):
    """Runs tasks over shards and streams.

    Tasks are functions of a shard and of what all shards have in common. On a cluster they, the
    shards and the results travel, so that a task is a function with a name, not a lambda.
    """

    jobs: int  # threads that it has
    jobs_here: int  # of them, those of this process, for work that is not worth sending off
    report: Callable[[int, int], None] | None = (
        None  # told how many shards are done, and of how many
    )

    @abstractmethod
    def place(self, shards: Iterable[Any]) -> Placed:
        """Put shards where they will be worked on; a `Stored` one is loaded there."""

    @abstractmethod
    def map(self, task: Callable[..., Any], placed: Placed, *common: Any) -> Placed:
        """`task(shard, *common)` for every shard; results stay where the shards are."""

    @abstractmethod
    def gather(self, placed: Placed) -> Iterator[Any]:
        """Results one after the other, in order, to the caller: for what is small."""

    @abstractmethod
    def total(self, task: Callable[..., R], placed: Placed, *common: Any) -> R:
        """Sum of `task(shard, *common)` over all shards."""

    @abstractmethod
    def stream(
        self, task: Callable[..., R], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[R]:
        """`task(item, *common)` for a stream of items, in order, with bounded memory."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything that was placed."""

    def __deepcopy__(self, memo: object) -> Self:
        return self  # copies of an estimator work in the same place

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def as_engine(where: Engine | int | None) -> Engine:
    """An engine, or threads: so many, or for None and 0 all cores."""
    return where if isinstance(where, Engine) else Threads(where)


class Threads(Engine):
    """Threads of this process: the kernels release the interpreter lock.

    Parameters
    ----------
    jobs
        How many; None and 0 mean all cores.
    spill
        A folder in which results for shards are kept instead of in memory, so that no more than
        one a thread is there at a time; in a folder of its own that `close` removes.

    Examples
    --------
    >>> with Threads(2) as engine:
    ...     words = engine.place(["ab", "c", "def"])
    ...     engine.total(len, words)
    6
    """

    def __init__(self, jobs: int | None = 1, *, spill: str | Path | None = None) -> None:
        self.jobs = self.jobs_here = resolve_jobs(jobs)
        self._spill = None if spill is None else working_folder(Path(spill), "shards-")
        self._n_spilt = 0

    def place(self, shards: Iterable[Any]) -> Placed:
        """Shards as they are."""
        return Placed(shards)

    def map(self, task: Callable[..., Any], placed: Placed, *common: Any) -> Placed:
        """Results in memory, or in the folder for them."""
        first, folder = self._n_spilt, self._spill
        self._n_spilt += len(placed)

        def keep(numbered: tuple[int, Any]) -> Any:
            number, item = numbered
            result = task(load_shard(item), *common)
            return (
                result if folder is None else PickledShard.write(result, folder / f"{number:08d}")
            )

        return Placed(self._in_order(keep, list(enumerate(placed.items, first))))

    def gather(self, placed: Placed) -> Iterator[Any]:
        """Results from memory or disk."""
        return map(load_shard, placed.items)

    def total(self, task: Callable[..., R], placed: Placed, *common: Any) -> R:
        """The sum, with as few parts at a time as there are threads and levels of pairs."""
        return tree_sum(self._in_order(lambda item: task(load_shard(item), *common), placed.items))

    def stream(
        self, task: Callable[..., R], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[R]:
        """Results in order, at most `ahead` items a thread in flight."""
        run = task if not common else lambda item: task(item, *common)
        return ordered_map(run, items, jobs=self.jobs, ahead=ahead)

    def close(self) -> None:
        """Remove the folder of results."""
        if self._spill is not None:
            rmtree(self._spill, ignore_errors=True)

    def _in_order(self, task: Callable[[Any], R], shards: Sequence[Any]) -> Iterator[R]:
        """Results one after the other, reported as they come."""
        results = ordered_map(task, shards, jobs=self.jobs, ahead=1)
        for n_done, result in enumerate(results, 1):
            if self.report is not None:
                self.report(n_done, len(shards))
            yield result


class PickledShard:
    """A result for a shard on disk; private to its engine, and gone with it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def write(cls, result: Any, path: Path) -> PickledShard:
        """Put a result there."""
        append_bytes(path, pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL))
        return cls(path)

    def load(self) -> Any:
        """The result."""
        return pickle.loads(self.path.read_bytes())


def load_shard(item: Any) -> Any:
    """A shard, from disk where that is where it lies."""
    return item.load() if isinstance(item, Stored) else item


def tree_sum(parts: Iterable[R], levels: Iterable[int] = repeat(0)) -> R:
    """Sum in pairs, then in pairs of pairs: the shape depends on the number of parts alone.

    Parameters
    ----------
    levels
        A part of level k is such a sum of 2^k parts already, at the place of a multiple of 2^k.

    Examples
    --------
    >>> tree_sum(["a", "b", "c", "d", "e"]), tree_sum(["ab", "cd", "e"], [1, 1, 0])
    ('abcde', 'abcde')
    """
    waiting: list[tuple[int, Any]] = []  # sums of 2^level parts, levels falling
    for part, rank in zip(parts, levels, strict=False):
        level, total = rank, part
        while waiting and waiting[-1][0] == level:
            level, total = level + 1, waiting.pop()[1] + total
        waiting.append((level, total))
    if not waiting:
        msg = "nothing to do: no shards were given"
        raise SapwoodError(msg)
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1] + total
    return total
