"""`Processes`: streams of many small items on all cores.

Kernels release the interpreter lock, but a sentence of ten words spends most of its time outside of
them, where threads wait for each other. Forks of this process do not, and they have all that it has
loaded without a copy: tables, kernels, models.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, TypeVar

from sapwood.core.errors import SapwoodError
from sapwood.execute.engine import Stream, Threads

R = TypeVar("R")

CAN_FORK = sys.platform == "linux"  # elsewhere, libraries of the system may not survive it
ALONE = 0.02  # seconds of work for each process that are worth its start; kernels are loaded then
BATCH = 0.03  # seconds of work that are sent off together, where items are waiting
MOST = 64  # items that are


class Processes(Threads):
    """Threads of this process, and for streams forks of it.

    The first items of a stream are worked on here: whoever has only a few pays for no process, and
    what they need is loaded once. Items that are there already travel together. A process that is
    lost ends the stream with an error, behind all results that came before. Where the system cannot
    fork safely, threads do the work.

    Parameters
    ----------
    jobs
        How many; None and 0 mean all cores.

    Examples
    --------
    >>> with Processes(2) as engine:
    ...     list(engine.stream(pow, [1, 2, 3], 2))
    [1, 4, 9]
    """

    def stream(
        self, task: Callable[..., R], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[R]:
        """Results in order, with bounded memory; items and results travel, the task does not."""
        if self.jobs == 1 or not CAN_FORK:
            return super().stream(task, items, *common, ahead=ahead)
        run = task if not common else lambda item: task(item, *common)
        return _stream(run, iter(items), self.jobs)


def _stream(task: Callable[[Any], R], items: Iterator[Any], jobs: int) -> Iterator[R]:
    worked, is_loaded = 0.0, False
    for item in items:
        start = perf_counter()
        result = task(item)
        worked += perf_counter() - start if is_loaded else 0.0
        is_loaded = True
        yield result
        if worked > ALONE * jobs:
            break
    else:
        return
    size = 1
    free: SimpleQueue[_Worker] = SimpleQueue()
    pool = ThreadPoolExecutor(jobs)

    def run(batch: list[Any]) -> _Reply:
        worker = free.get()
        try:
            return worker.run(batch)
        finally:
            free.put(worker)

    with ExitStack() as stack:
        stack.callback(pool.shutdown, cancel_futures=True)
        for _ in range(jobs):  # before there are threads of ours
            worker = _Worker(task)
            stack.callback(worker.end)
            free.put(worker)
        source: Stream[Any] = Stream(_itself, _itself, items, room=MOST)
        stack.callback(source.close)
        replies: Stream[_Reply] = Stream(
            lambda batch: pool.submit(run, batch), Future.result,
            iter(lambda: source.take(size), []), room=2 * jobs,
        )  # fmt: skip
        stack.callback(replies.close)
        for reply in replies:
            yield from reply.results
            if reply.error is not None:
                raise reply.error
            pace = reply.seconds / len(reply.results)
            size = max(1, min(2 * size, int(BATCH / max(pace, BATCH / MOST))))


def _itself(item: Any) -> Any:
    return item


class _Reply(NamedTuple):
    """What became of a batch."""

    results: list[Any]  # up to the first item that failed
    error: Exception | None
    seconds: float


class _Worker:
    """A fork of this process that does one thing, over and over, until it is told to end."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self.connection, there = Pipe()
        # Ctrl-C is for this process alone, and is so from the first moment.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with warnings.catch_warnings():
                # Other threads may hold locks at this moment; none that a task needs.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
            if self.pid == 0:
                _serve(there, task)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        there.close()

    def run(self, batch: list[Any]) -> _Reply:
        """Have a batch worked on."""
        try:
            self.connection.send(batch)
            reply: _Reply = self.connection.recv()
        except (EOFError, OSError) as error:
            msg = f"process {self.pid}, one of those that do the work, has ended by itself"
            hint = "if memory is short, use fewer of them (--jobs)"
            raise SapwoodError(msg, hint=hint) from error
        return reply

    def end(self) -> None:
        """Stop it, whatever it is doing; who waits for a reply hears of it."""
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def _serve(connection: Connection, task: Callable[[Any], Any]) -> NoReturn:
    """Be a worker; never returns to what this process was doing before it was one."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _let_go(keep={2, connection.fileno()})
        gc.freeze()  # to look through what all have in common would copy it
        while True:
            connection.send(_run(connection.recv(), task))
    except EOFError:  # the other side is gone, or done
        os._exit(0)
    finally:
        os._exit(1)


def _let_go(keep: set[int]) -> None:
    """Files that this process has inherited: locks and pipes must end with their owner."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number not in keep:
            os.dup2(null, number)  # not closed: the number would be given to another file


def _run(batch: list[Any], task: Callable[[Any], Any]) -> _Reply:
    start = perf_counter()
    results: list[Any] = []
    for item in batch:
        try:
            results.append(task(item))
        except Exception as error:
            return _Reply(results, error, 0.0)
    return _Reply(results, None, perf_counter() - start)
