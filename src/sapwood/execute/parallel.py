"""Map-reduce over shards and ordered maps over streams, with threads.

The kernels release the interpreter lock, so threads are enough for all cores of one machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from operator import add
from queue import SimpleQueue
from threading import Semaphore, Thread
from typing import Any, Generic, TypeVar

from sapwood.arguments import as_count
from sapwood.errors import SapwoodError

T = TypeVar("T")
R = TypeVar("R")


def resolve_jobs(jobs: int | None) -> int:
    """How many threads to use: the number given, or all the cores this process may run on."""
    if jobs is None or jobs == 0:
        affinity = getattr(os, "sched_getaffinity", None)  # not on every platform
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    return as_count(jobs, "jobs")  # 0, all cores, was answered above


def map_reduce(task: Callable[[T], R], shards: Sequence[T], *, jobs: int | None = 1) -> R:
    """Sum of `task(shard)` over all shards, always added in the order of the shards.

    The order makes floating-point sums the same for any number of jobs.

    Examples
    --------
    >>> map_reduce(len, ["ab", "c", "def"], jobs=2)
    6
    """
    if not shards:
        msg = "nothing to do: no shards were given"
        raise SapwoodError(msg)
    results: Iterator[Any] = ordered_map(task, shards, jobs=jobs)
    return reduce(add, results)  # type: ignore[no-any-return]


def ordered_map(
    task: Callable[[T], R], items: Iterable[T], *, jobs: int | None = 1, ahead: int = 16
) -> Iterator[R]:
    """Apply a task to a stream, yielding results in order with bounded memory.

    Parameters
    ----------
    task
        Called from several threads at once when jobs > 1.
    items
        Read as needed: at most `ahead` items per job are in flight.
    """
    n_jobs = resolve_jobs(jobs)
    if n_jobs == 1:
        yield from map(task, items)
        return
    stream = _Stream(task, items, n_jobs, ahead)
    try:
        yield from stream
    finally:
        stream.close()


class _Stream(Generic[R]):
    """A thread that feeds a pool, so that a slow source never holds back results that are ready."""

    def __init__(self, task: Callable[[T], R], items: Iterable[T], n_jobs: int, ahead: int) -> None:
        self.pool = ThreadPoolExecutor(n_jobs)
        self.waiting: SimpleQueue[Future[R] | None] = SimpleQueue()
        self.room = Semaphore(ahead * n_jobs)
        self.closed = False
        self.failure: BaseException | None = None
        Thread(target=self._feed, args=(task, items), daemon=True).start()

    def _feed(self, task: Callable[[T], R], items: Iterable[T]) -> None:
        try:
            for item in items:
                self.room.acquire()
                if self.closed:
                    return
                self.waiting.put(self.pool.submit(task, item))
        except BaseException as error:
            self.failure = error
        finally:
            self.waiting.put(None)

    def __iter__(self) -> Iterator[R]:
        while (future := self.waiting.get()) is not None:
            result = future.result()
            self.room.release()
            yield result
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Stop feeding; nothing that has not started is worth waiting for."""
        self.closed = True
        self.room.release()
        self.pool.shutdown(wait=True, cancel_futures=True)
