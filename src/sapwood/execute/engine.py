"""`Engine`: runs tasks over shards and streams. Learners define the sum, engines where it runs.

    placed = engine.place(shards)                  once: shards stay where they are put
    tables = engine.map(NodeTable, placed)         results, one for each shard, stay there too
    counts = engine.total(count, tables, grammar)  sum of count(table, grammar) over all shards

A sum is taken in pairs, then in pairs of pairs, and so on: its shape depends on the number of
shards alone, so that floating-point sums are the same on any number of threads or machines.

Kernels release the interpreter lock, so threads are enough for all cores of one machine.
"""

from __future__ import annotations

import os
import pickle
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice, repeat
from operator import add
from pathlib import Path
from queue import SimpleQueue
from shutil import rmtree
from threading import Semaphore, Thread
from time import perf_counter, process_time
from typing import Any, Generic, Protocol, Self, TypeVar, runtime_checkable

from sapwood.core.errors import SapwoodError, as_count
from sapwood.core.outputs import append_bytes, working_folder

T = TypeVar("T")
S = TypeVar("S")
R = TypeVar("R")

WINDOW = 64  # items of a stream that are worked on together, at most


def resolve_jobs(jobs: int | None) -> int:
    """Number of threads to use: the given one, or for None and 0 all cores of this process."""
    if jobs is None or jobs == 0:
        affinity = getattr(os, "sched_getaffinity", None)  # not on every platform
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    return jobs if type(jobs) is int and jobs > 0 else as_count(jobs, "jobs")


def peak_memory() -> int | None:
    """Peak memory of this process in bytes; None where the platform does not say."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_memory_mb() -> float | None:
    """Peak memory of this process in MB; None where the platform does not say."""
    peak = peak_memory()
    return None if peak is None else round(peak / 2**20, 1)


def reset_peak_memory() -> None:
    """Let the peak start again from what is held now, where the system can (Linux)."""
    with suppress(OSError):  # elsewhere it stays the peak of the process so far
        Path("/proc/self/clear_refs").write_text("5")


@dataclass(frozen=True)
class Meter:
    """Wall-clock and processor seconds since it was made, and the peak memory of the process."""

    wall: float = field(default_factory=perf_counter)
    cpu: float = field(default_factory=process_time)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds so far."""
        return perf_counter() - self.wall

    @property
    def cpu_seconds(self) -> float:
        """Processor seconds of all threads so far."""
        return process_time() - self.cpu

    def as_dict(self) -> dict[str, float | None]:
        """The report's keys `seconds`, `cpu_seconds` (all threads) and `peak_memory_mb`."""
        return {
            "seconds": round(self.seconds, 3),
            "cpu_seconds": round(self.cpu_seconds, 3),
            "peak_memory_mb": peak_memory_mb(),
        }


def map_reduce(task: Callable[[T], R], shards: Sequence[T], *, jobs: int | None = 1) -> R:
    """Sum of `task(shard)`, added in the order of the shards, whatever the number of jobs.

    Examples
    --------
    >>> map_reduce(len, ["ab", "c", "def"], jobs=2)
    6
    """
    if not shards:
        raise SapwoodError("nothing to do: no shards were given")
    results: Iterator[Any] = ordered_map(task, shards, jobs=jobs)
    return reduce(add, results)  # type: ignore[no-any-return]


def ordered_map(
    task: Callable[[T], R], items: Iterable[T], *, jobs: int | None = 1, ahead: int = 16
) -> Iterator[R]:
    """Apply a task to a stream, in order; at most `ahead` items per job are in flight."""
    n_jobs = resolve_jobs(jobs)
    if n_jobs == 1:
        yield from map(task, items)
        return
    pool, context = ThreadPoolExecutor(n_jobs), copy_context()  # with the listener to progress

    def send(item: T) -> Future[R]:
        return pool.submit(context.copy().run, task, item)

    stream: Stream[R] = Stream(send, Future.result, items, room=ahead * n_jobs)
    try:
        yield from stream
    finally:
        stream.close()
        # Garbage collection may end this in a thread of the pool, which cannot wait for itself.
        with suppress(RuntimeError):
            pool.shutdown(wait=True, cancel_futures=True)


class Stream(Generic[R]):
    """A thread that sends items off, so that a slow source never holds back finished results.

    Parameters
    ----------
    send, receive
        Starts the work on an item, and returns a handle; waits for the result of a handle.
    room
        Number of items that may be read and not yet received.
    """

    def __init__(
        self, send: Callable[[T], S], receive: Callable[[S], R], items: Iterable[T], *, room: int
    ) -> None:
        self.receive = receive
        self.waiting: SimpleQueue[tuple[S] | None] = SimpleQueue()
        self.room = Semaphore(room)
        self.closed = False
        self.failure: BaseException | None = None
        Thread(target=self._feed, args=(send, items), daemon=True).start()

    def _feed(self, send: Callable[[T], Any], items: Iterable[T]) -> None:
        try:
            for item in items:
                self.room.acquire()
                if self.closed:
                    return
                self.waiting.put((send(item),))
        except BaseException as error:
            self.failure = error
        finally:
            self.waiting.put(None)

    def __iter__(self) -> Iterator[R]:
        while taken := self.take(1):
            yield taken[0]

    def take(self, most: int) -> list[R]:
        """The next result, and later ones that are ready, up to a number; none at the end."""
        taken: list[R] = []
        while len(taken) < most and not (taken and self.waiting.empty()):
            sent = self.waiting.get()
            if sent is None:
                self.waiting.put(None)  # for the next call
                break
            taken.append(self.receive(sent[0]))
            self.room.release()
        if self.failure is not None and not taken:
            raise self.failure
        return taken

    def close(self) -> None:
        """Stop reading and sending items."""
        self.closed = True
        self.room.release()


def read_ahead(items: Iterable[T], room: int) -> Stream[T]:
    """Read items in a thread, at most `room` of them before they are taken."""
    return Stream(lambda item: item, lambda item: item, items, room=room)


class Windows(Generic[T]):
    """A stream cut into lists of the items that are ready; a single one is a list of its own.

    The first lists are short, so that their results come soon. Unless all items are in memory, a
    thread reads at most one list ahead; `close` ends it.

    Examples
    --------
    >>> list(Windows([1, 2, 3, 4, 5, 6], most=3))
    [[1], [2, 3], [4, 5, 6]]
    """

    def __init__(self, items: Iterable[T], most: int = WINDOW) -> None:
        self._most = most
        self._source: Stream[T] | None = None
        if isinstance(items, (list, tuple)):
            rest = iter(items)
            self._take: Callable[[int], list[T]] = lambda n: list(islice(rest, n))
        else:
            self._source = read_ahead(items, most)
            self._take = self._source.take

    def __iter__(self) -> Iterator[list[T]]:
        size = 1
        while window := self._take(size):
            yield window
            size = min(2 * size, self._most)

    def close(self) -> None:
        """End the thread that reads ahead."""
        if self._source is not None:
            self._source.close()


@runtime_checkable
class Stored(Protocol):
    """A shard that lies on disk and is read when a task needs it."""

    def load(self) -> Any:
        """Read the shard from disk."""


class Placed:
    """Shards, or one result for each, that stay where an engine has put them."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)

    def __len__(self) -> int:
        return len(self.items)


class Engine(ABC):
    """Runs tasks over shards and streams.

    Tasks are functions of a shard and of common arguments. On a cluster they are sent with the
    shards and the results, so a task must be a function with a name, not a lambda.
    """

    jobs: int  # number of threads, here and elsewhere
    jobs_here: int  # threads of this process, for work that is not worth sending off
    has_shards_here: bool = False  # whether shards and results are in the memory of this process
    # called with the number of shards that are done, and with the number of all
    report: Callable[[int, int], None] | None = None

    @abstractmethod
    def place(self, shards: Iterable[Any]) -> Placed:
        """Put shards where they will be worked on; a `Stored` one is loaded there."""

    @abstractmethod
    def map(self, task: Callable[..., Any], placed: Placed, *common: Any) -> Placed:
        """`task(shard, *common)` for every shard; results stay where the shards are."""

    @abstractmethod
    def gather(self, placed: Placed) -> Iterator[Any]:
        """Yield results, which should be small, in the order of the shards."""

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
        """Free everything that was placed."""

    def __deepcopy__(self, memo: object) -> Self:
        return self  # copies of an estimator share its engine

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def as_engine(where: Engine | int | None) -> Engine:
    """The engine itself, or for a number of jobs an engine of threads."""
    return where if isinstance(where, Engine) else Threads(where)


class Threads(Engine):
    """Threads of this process: the kernels release the interpreter lock.

    Parameters
    ----------
    jobs
        Number of threads; None and 0 mean all cores.
    spill
        A folder in which results for shards are kept instead of in memory, in a folder of its own
        that `close` removes.

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
        self._n_spilt, self.has_shards_here = 0, spill is None

    def place(self, shards: Iterable[Any]) -> Placed:
        """Keep the shards as they are."""
        return Placed(shards)

    def map(self, task: Callable[..., Any], placed: Placed, *common: Any) -> Placed:
        """One result for each shard, in memory or in the folder for results."""
        first, folder = self._n_spilt, self._spill
        self._n_spilt += len(placed)

        def keep(numbered: tuple[int, Any]) -> Any:
            number, item = numbered
            result = task(load_shard(item), *common)
            if folder is None:
                return result
            return PickledShard.write(result, folder / f"{number:08d}")

        return Placed(self._in_order(keep, list(enumerate(placed.items, first))))

    def gather(self, placed: Placed) -> Iterator[Any]:
        """Yield the results from memory or disk."""
        for item in placed.items:
            yield load_shard(item)

    def total(self, task: Callable[..., R], placed: Placed, *common: Any) -> R:
        """The sum, with at most one part per thread and level of the tree in memory."""
        return tree_sum(self._in_order(lambda item: task(load_shard(item), *common), placed.items))

    def stream(
        self, task: Callable[..., R], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[R]:
        """Yield results in order, with at most `ahead` items per thread in flight."""
        run = task if not common else lambda item: task(item, *common)
        yield from ordered_map(run, items, jobs=self.jobs, ahead=ahead)

    def close(self) -> None:
        """Remove the folder for results."""
        if self._spill is not None:
            rmtree(self._spill, ignore_errors=True)

    def _in_order(self, task: Callable[[Any], R], shards: Sequence[Any]) -> Iterator[R]:
        """Yield results in the order of the shards, and report each."""
        results = ordered_map(task, shards, jobs=self.jobs, ahead=1)
        for n_done, result in enumerate(results, 1):
            if self.report is not None:
                self.report(n_done, len(shards))
            yield result


class PickledShard:
    """A result for a shard, pickled in the folder of its engine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def write(cls, result: Any, path: Path) -> PickledShard:
        """Pickle a result to a path."""
        append_bytes(path, pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL))
        return cls(path)

    def load(self) -> Any:
        """Read the result from disk."""
        return pickle.loads(self.path.read_bytes())


def load_shard(item: Any) -> Any:
    """The shard itself, read from disk if it is stored there."""
    return item.load() if isinstance(item, Stored) else item


def tree_sum(parts: Iterable[R], levels: Iterable[int] = repeat(0)) -> R:
    """Sum in pairs, then in pairs of pairs: the order depends on the number of parts alone.

    A part of level k is already such a sum of 2^k parts, whose first index is a multiple of 2^k.

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
        raise SapwoodError("nothing to do: no shards were given")
    _, total = waiting.pop()
    while waiting:
        total = waiting.pop()[1] + total
    return total
