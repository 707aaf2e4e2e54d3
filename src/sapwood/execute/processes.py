"""`Processes`: streams of many small items on all cores.

Kernels release the interpreter lock, but a sentence of ten words spends most of its time outside of
them, where threads wait for each other. Forks of this process do not wait, and they share all that
it has loaded without a copy: tables, kernels, models.

`stream_results` avoids sending the model back: a parse refers to the parser that made it,
and so to a whole model. Objects that both sides hold are pickled as their positions in a list.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from io import BytesIO
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, TypeVar

from sapwood.core.errors import SapwoodError
from sapwood.execute.engine import Engine, Stream, Threads, read_ahead

R = TypeVar("R")
P = TypeVar("P")

CAN_FORK = sys.platform == "linux"  # elsewhere, libraries of the system may not survive it
ALONE = 0.02  # seconds of work per process that are done here first; kernels are loaded then
BATCH_SECONDS = 0.03  # work that is sent off together, where items are waiting
BATCH_ITEMS = 64  # the most items that are


class Processes(Threads):
    """Threads of this process, and for streams forks of it.

    The first items of a stream are worked on here, so that short streams start no process and
    kernels are loaded once. Items that are ready are sent together. A lost process ends the stream
    with an error, after all earlier results. Where the system cannot fork safely, threads do the
    work. For `jobs`, None and 0 mean all cores.

    Examples
    --------
    >>> with Processes(2) as engine:
    ...     list(engine.stream(pow, [1, 2, 3], 2))
    [1, 4, 9]
    """

    def stream(
        self, task: Callable[..., R], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[R]:
        """Yield results in order, with bounded memory; only items and results are sent."""
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
        source = read_ahead(items, BATCH_ITEMS)
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
            ideal = int(BATCH_SECONDS / max(pace, BATCH_SECONDS / BATCH_ITEMS))
            size = max(1, min(2 * size, ideal))


class _Reply(NamedTuple):
    """The results of a batch, or its first error."""

    results: list[Any]  # up to the first item that failed
    error: Exception | None
    seconds: float


class _Worker:
    """A fork of this process that runs one task on batches until the parent ends it."""

    def __init__(self, task: Callable[[Any], Any]) -> None:
        self.connection, there = Pipe()
        # Ctrl-C is for the parent alone, from the first moment.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with warnings.catch_warnings():
                # Other threads may hold locks at the fork, but none that a task needs.
                warnings.simplefilter("ignore", DeprecationWarning)
                self.pid = os.fork()
            if self.pid == 0:
                _serve(there, task)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        there.close()

    def run(self, batch: list[Any]) -> _Reply:
        """Send a batch, and wait for the reply."""
        try:
            self.connection.send(batch)
            reply: _Reply = self.connection.recv()
        except (EOFError, OSError) as error:
            msg = f"process {self.pid}, one of the workers, has ended unexpectedly"
            hint = "if memory is short, use fewer of them (--jobs)"
            raise SapwoodError(msg, hint=hint) from error
        return reply

    def end(self) -> None:
        """Stop the process at once; a thread that waits for its reply gets an error."""
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)


def _serve(connection: Connection, task: Callable[[Any], Any]) -> NoReturn:
    """Run the task on batches from the connection; a worker never returns from here."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _close_files(keep={2, connection.fileno()})
        gc.freeze()  # garbage collection would copy the memory that all processes share
        while True:
            connection.send(_run(connection.recv(), task))
    except EOFError:  # the other side is gone, or done
        os._exit(0)
    finally:
        os._exit(1)


def _close_files(keep: set[int]) -> None:
    """Detach from inherited files: locks and pipes must end with their owner."""
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


def stream_results(
    engine: Engine,
    task: Callable[[Any, P], R],
    items: Iterable[Any],
    parser: P,
    shared: Callable[[P], Sequence[object]],
    *,
    ahead: int = 16,
) -> Iterator[R]:
    """Results of `task(item, parser)` in the order of the items, wherever the engine runs.

    `shared` lists the large objects of a parser that results refer to, always in the same order.
    They are not sent: each result refers to the objects of the parser given here.
    """
    if type(engine) is Threads:  # which share memory
        return engine.stream(task, items, parser, ahead=ahead)
    objects = shared(parser)
    found = engine.stream(partial(_pack_result, task, shared), items, parser, ahead=ahead)
    return (unpack_with(packed, objects) for packed in found)


def _pack_result(
    task: Callable[[Any, P], R], shared: Callable[[P], Sequence[object]], item: Any, parser: P
) -> bytes:
    return pack_without(task(item, parser), shared(parser))


def pack_without(item: object, shared: Sequence[object]) -> bytes:
    """Pickle an object, with the shared objects in it replaced by their positions.

    Examples
    --------
    >>> table, copy = list(range(1000)), list(range(1000))
    >>> packed = pack_without(["row 7 of", table], [table])
    >>> unpack_with(packed, [copy])[1] is copy
    True
    """
    file = BytesIO()
    _Pickler(file, shared).dump(item)
    return file.getvalue()


def unpack_with(packed: bytes, shared: Sequence[object]) -> Any:
    """Unpickle the result of `pack_without`; positions become the shared objects of this side."""
    return _Unpickler(BytesIO(packed), shared).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: BytesIO, shared: Sequence[object]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.position = {id(item): position for position, item in enumerate(shared)}

    def persistent_id(self, item: object) -> int | None:
        return self.position.get(id(item))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BytesIO, shared: Sequence[object]) -> None:
        super().__init__(file)
        self.shared = shared

    def persistent_load(self, position: int) -> object:
        return self.shared[position]
