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
S = TypeVar("S")
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
    pool = ThreadPoolExecutor(n_jobs)
    stream: Stream[R] = Stream(
        lambda item: pool.submit(task, item), Future.result, items, room=ahead * n_jobs
    )
    try:
        yield from stream
    finally:
        stream.close()
        # Nothing that has not started is worth waiting for.
        pool.shutdown(wait=True, cancel_futures=True)


class Stream(Generic[R]):
    """A thread that sends items off, so that a slow source never holds back results that are ready.

    Parameters
    ----------
    send
        Starts the work on an item, and returns what its result can be asked of.
    receive
        Waits for that result.
    room
        How many items may be read and not yet received.
    """

    def __init__(
        self,
        send: Callable[[T], S],
        receive: Callable[[S], R],
        items: Iterable[T],
        *,
        room: int,
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
        """The next result, and those behind it that need no waiting; none at the end."""
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
        """Stop sending."""
        self.closed = True
        self.room.release()
