"""`Cluster`: an engine of Dask workers, processes of this machine or of many.

Everything that is sent is pickled here, and its bytes are counted: shards when they are placed,
common arguments once for all tasks, and the returned totals. A shard is the result of a task that
holds its bytes, so that Dask can make it again when its worker is lost.

Every thread gets the same number of neighbouring shards, in blocks of 2^k that are one task each,
since every task has a cost. The sum of a block is a branch of `tree_sum`, and the sum of these sums
is the rest of the tree: the bits are those of any other engine.
"""

from __future__ import annotations

import logging
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from shutil import rmtree
from time import monotonic, sleep
from traceback import format_exc
from typing import Any, TypeVar
from uuid import uuid4
from weakref import finalize

from sapwood import __version__
from sapwood.core.errors import SapwoodError, SapwoodTypeError, count, describe
from sapwood.core.outputs import working_folder
from sapwood.execute.engine import (
    Engine,
    PickledShard,
    Placed,
    Stream,
    load_shard,
    ordered_map,
    read_ahead,
    resolve_jobs,
    tree_sum,
)

R = TypeVar("R")

BLOCK = 8  # the most shards of a block: little to do again when its worker is lost
BIG = 10_000  # bytes: larger arguments are sent once and kept, not with every task
CLOSING = 1.0  # seconds that a worker has to end; it may be in the middle of a task
PATIENCE = 5.0  # seconds that a scheduler has to answer, and again to name a worker
RETURN = 60.0  # seconds in which a worker must be back after all workers were lost


@dataclass
class Traffic:
    """Pickled bytes sent between this process and its cluster."""

    placed: int = 0
    common: int = 0
    streamed: int = 0
    returned: int = 0


class Cluster(Engine):
    """Workers of Dask distributed, which the extra `dask` installs.

    Without an address, worker processes of one thread each are started here, and ended by `close`.
    They import the main script again: it starts its work under `if __name__ == "__main__":`.

    Parameters
    ----------
    scheduler
        Address of the scheduler of a cluster, such as `tcp://10.0.0.1:8786`.
    jobs
        Number of workers to start here; None and 0 mean one for each core. A cluster that runs
        already is used as it is.
    spill
        A folder that all workers reach, in which results for shards are kept instead of in their
        memory, in a folder of its own that `close` removes.

    Examples
    --------
    >>> with Cluster(jobs=2) as engine:  # doctest: +SKIP
    ...     words = engine.place(["ab", "c", "def"])
    ...     engine.total(len, words)
    6
    """

    def __init__(
        self,
        scheduler: str | None = None,
        jobs: int | None = None,
        *,
        spill: str | Path | None = None,
    ) -> None:
        try:
            import distributed  # noqa: F401 - only whether it is there
        except ImportError as error:
            msg = "the engine dask needs Dask distributed, which is not installed"
            raise SapwoodError(msg, hint="pip install distributed") from error
        self.traffic = Traffic()
        self._kept: dict[int, tuple[bytes, Any]] = {}  # by identity: as sent, and where
        if scheduler is None:
            self._local, self._client = _start(resolve_jobs(jobs))
        else:
            self._local, self._client = None, _reach(scheduler)
        self._spill = None if spill is None else working_folder(Path(spill), "shards-")
        self.jobs = len(self._threads())
        self.jobs_here = min(self.jobs, resolve_jobs(None))

    def place(self, shards: Iterable[Any]) -> Placed:
        """Send neighbouring shards to the same worker; stored shards stay on disk."""
        shards, threads = list(shards), self._threads()
        blocks, sizes = [], []
        for number, home in enumerate(threads):
            ends = (len(shards) * k // len(threads) for k in (number, number + 1))
            for start, size in _branches(*ends):
                packed = pickle_to_send(shards[start : start + size])
                self.traffic.placed += len(packed)
                blocks.append(self._submit(pickle.loads, packed, home=home))
                sizes.append(size)
        placed = _Blocks(blocks, sizes)
        self._await(placed)
        # lifted only now: while all workers are lost, Dask finds no other home for them
        homes = dict.fromkeys(block.key for block in blocks)
        with _losses():
            self._client.sync(self._client.scheduler.set_restrictions, worker=homes)
        return placed

    def map(self, task: Callable[..., Any], placed: Placed, *common: Any) -> Placed:
        """One result for each shard, on the workers where the shards are."""
        shards, call = _Blocks.check(placed), self._share(task, *common)
        blocks = self._compute(
            _lazy(_map_block, self._spill, block, *call) for block in shards.items
        )
        results = _Blocks(blocks, shards.sizes)
        self._await(results)
        return results

    def gather(self, placed: Placed) -> Iterator[Any]:
        """Yield results block by block, with two blocks in flight."""

        def fetch(block: Any) -> Any:
            return self._receive(self._submit(_pickle_block, block))

        for block in ordered_map(fetch, _Blocks.check(placed).items, jobs=2, ahead=1):
            yield from block

    def total(self, task: Callable[..., R], placed: Placed, *common: Any) -> R:
        """The sum, computed on the workers: only the sum comes back."""
        shards, call = _Blocks.check(placed), self._share(task, *common)
        parts = [_lazy(_sum_block, block, *call) for block in shards.items]
        whole = tree_sum(parts, [size.bit_length() - 1 for size in shards.sizes])
        *blocks, packed = self._compute([*parts, _lazy(pickle_to_send, whole)])
        self._await(_Blocks(blocks, shards.sizes), is_kept=False)
        total: R = self._receive(packed)
        return total

    def stream(
        self, task: Callable[..., R], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[R]:
        """Yield results in order, with at most `ahead` items per thread in flight.

        Items that are ready are sent together; an item that others would wait for is sent alone.
        """
        call = self._share(task, *common)

        def send(batch: list[Any]) -> Any:
            packed = pickle_to_send(batch)
            self.traffic.streamed += len(packed)
            return self._submit(_run_batch, packed, *call)

        size = max(1, ahead // 2)  # one batch is worked on while the next one comes
        source = read_ahead(items, size)
        batches = iter(partial(source.take, size), [])
        stream: Stream[Any] = Stream(
            send, self._receive, batches, room=max(1, ahead // size) * self.jobs
        )
        try:
            for results, error in stream:
                yield from results
                if error is not None:
                    raise error
        finally:
            source.close()
            stream.close()

    def close(self) -> None:
        """Leave the cluster, and end it if it was started here."""
        self._kept.clear()
        self._client.close(timeout=PATIENCE)
        if self._local is not None:
            with suppress(TimeoutError):  # at the latest, workers end with this process
                self._local.sync(_end_workers, self._local, callback_timeout=PATIENCE)
                self._local.close(timeout=PATIENCE)
        if self._spill is not None:
            rmtree(self._spill, ignore_errors=True)

    def _threads(self) -> list[str]:
        """The address of a worker for each thread there is, at least one."""
        with _losses():
            _await_worker(self._client, RETURN)
            return [worker for worker, n in self._client.nthreads().items() for _ in range(n)]

    def _share(self, *items: Any) -> list[Any]:
        """Common arguments in the form that tasks take: small ones pickled, big ones kept.

        A big argument that was sent before, and has not changed since, is not sent again; it stays
        on the cluster as long as the object lives here.
        """
        shared = []
        for item in items:
            packed = pickle_to_send(item)
            there, future = self._kept.get(id(item), (None, None))
            if there == packed:
                shared.append(future)
                continue
            self.traffic.common += len(packed)
            if len(packed) < BIG:
                shared.append(_Pickled(packed))
                continue
            shared.append(self._submit(pickle.loads, packed))
            with suppress(TypeError):  # a list or dict cannot be watched: it is sent again
                if there is None:
                    finalize(item, self._kept.pop, id(item), None).atexit = False
                self._kept[id(item)] = packed, shared[-1]
        return shared

    def _submit(self, function: Callable[..., Any], *args: Any, home: str | None = None) -> Any:
        where = {} if home is None else {"workers": [home], "allow_other_workers": True}
        with _quiet(), _losses():
            return self._client.submit(with_version(function), *args, pure=False, **where)

    def _compute(self, tasks: Iterable[Any]) -> list[Any]:
        with _quiet(), _losses():
            futures: list[Any] = self._client.compute(list(tasks))
        return futures

    def _await(self, placed: _Blocks, *, is_kept: bool = True) -> None:
        """Wait for results for shards, and report as they come."""
        from distributed import as_completed

        size_of = {block.key: size for block, size in zip(placed.items, placed.sizes, strict=True)}
        n_done = 0
        for block in as_completed(placed.items, loop=self._client.loop):
            if block.status != "finished":
                self._result(block)
            if not is_kept:
                block.release()
            n_done += size_of[block.key]
            if self.report is not None:
                self.report(n_done, len(placed))

    def _receive(self, future: Any) -> Any:
        packed = self._result(future)
        self.traffic.returned += len(packed)
        return pickle.loads(packed)

    def _result(self, future: Any) -> Any:
        from distributed import KilledWorker

        try:
            with _losses():
                return future.result()
        except KilledWorker as error:
            n = error.allowed_failures + 1
            msg = f"a task was given up: {count(n, 'worker')} ended while it ran"
            hint = "look for memory: give workers more of it, or start fewer on a machine"
            raise SapwoodError(msg, hint=hint) from error


class _Blocks(Placed):
    """Futures of lists of neighbouring shards."""

    def __init__(self, blocks: list[Any], sizes: list[int]) -> None:
        super().__init__(blocks)
        self.sizes = sizes

    def __len__(self) -> int:
        return sum(self.sizes)

    @classmethod
    def check(cls, placed: Placed) -> _Blocks:
        """The blocks themselves; shards that another engine has placed are refused."""
        if isinstance(placed, cls):
            return placed
        msg = "these shards were placed by another engine"
        raise SapwoodTypeError(msg, hint="place them with the engine that is to work on them")


def _branches(start: int, end: int) -> Iterator[tuple[int, int]]:
    """First index and size of the branches of a sum in pairs that make up a range.

    Examples
    --------
    >>> list(_branches(6, 21))
    [(6, 2), (8, 8), (16, 4), (20, 1)]
    """
    while start < end:
        size = min(start & -start or BLOCK, BLOCK)  # the largest power of two that divides it
        while start + size > end:
            size //= 2
        yield start, size
        start += size


@dataclass(frozen=True)
class _Pickled:
    """A small argument that is sent with every task; Dask must not inspect it."""

    content: bytes


def _map_block(spill: Path | None, block: list[Any], *call: Any) -> list[Any]:
    results = _results(block, call)
    if spill is None:
        return list(results)
    # A name of its own: the same block may be made twice at the same time.
    return [PickledShard.write(result, spill / uuid4().hex) for result in results]


def _sum_block(block: list[Any], *call: Any) -> Any:
    return tree_sum(_results(block, call))


def _pickle_block(block: list[Any]) -> bytes:
    return pickle_to_send(list(map(load_shard, block)))


def _results(block: list[Any], call: Iterable[Any]) -> Iterator[Any]:
    task, *common = map(_open, call)
    return (task(load_shard(shard), *common) for shard in block)


def _run_batch(packed: bytes, *call: Any) -> bytes:
    """The results up to the first item that fails, and its error."""
    task, *common = map(_open, call)
    results = []
    for item in pickle.loads(packed):
        try:
            results.append(task(item, *common))
        except Exception as error:
            error.add_note(format_exc())  # tracebacks do not travel
            return pickle_to_send((results, error))
    return pickle_to_send((results, None))


def _open(item: Any) -> Any:
    return pickle.loads(item.content) if isinstance(item, _Pickled) else item


def pickle_to_send(item: Any) -> bytes:
    """Pickle an object for sending, functions without a name included."""
    import cloudpickle

    try:
        packed: bytes = cloudpickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # any class may raise anything
        reason = " ".join(str(error).split())
        msg = f"{describe(item)} cannot be sent to other processes: {reason}"
        hint = "give functions and data without open files, locks or connections"
        raise SapwoodTypeError(msg, hint=hint) from error
    return packed


def _start(n_workers: int) -> tuple[Any, Any]:
    """Start a cluster on this machine, and a client of it."""
    from dask import config
    from distributed import Client, LocalCluster

    # otherwise a worker that is lost twice may not be replaced again
    config.set({"distributed.deploy.lost-worker-timeout": "1 day"})
    quick = {
        # Giving memory back to the system at once makes sums of large arrays a third slower.
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
        "distributed.worker.profile.enabled": False,
    }
    try:
        with _interrupts_for_us(), config.set(quick):
            cluster = LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,  # kernels run one by one, and so do sums
                processes=True,
                dashboard_address="127.0.0.1:0",  # any free one: the usual one may be taken
                scheduler_kwargs={"dashboard": False},
                memory_limit=0,  # Dask would stop workers that hold as much as the settings allow
                silence_logs=logging.CRITICAL,
            )
    except RuntimeError as error:
        msg = f"workers cannot be started here: {error}"
        hint = 'your script must start its work under `if __name__ == "__main__":`'
        raise SapwoodError(msg, hint=hint) from error
    return cluster, Client(cluster, set_as_default=False)


async def _end_workers(cluster: Any) -> None:
    from asyncio import gather

    await gather(*(worker.close(timeout=CLOSING) for worker in cluster.workers.values()))


def _reach(address: str) -> Any:
    """Connect to the scheduler at an address, whose workers must have this version of Sapwood."""
    import asyncio

    from distributed import Client

    # Another kind of server may never answer: Dask's own limit does not cover the first message.
    knock = asyncio.wait_for(_knock(address), 2 * PATIENCE)
    try:
        with ThreadPoolExecutor(1) as apart:  # in this thread, a loop may be running
            apart.submit(asyncio.run, knock).result()
    except Exception as error:  # another kind of server may answer anything
        msg = f"no scheduler answers at {address}"
        hint = "start one with `dask scheduler`, and give the address that it prints"
        raise SapwoodError(msg, hint=hint) from error
    for name in ("distributed.client", "distributed.utils", "distributed.comm"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # what they log is raised as an error
    client = Client(address, timeout=PATIENCE, set_as_default=False)
    try:
        with _losses():
            _check_workers(client)
    except BaseException:
        client.close(timeout=PATIENCE)
        raise
    return client


async def _knock(address: str) -> None:
    """Connect and leave, since a client that cannot connect takes long to be dropped."""
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(address, PATIENCE, **Security().get_connection_args("client"))
    await comm.close()


def _check_workers(client: Any) -> None:
    """Refuse a cluster with a worker of another version; later workers meet `with_version`.

    A worker that cannot be reached, gone or busy, is queried again.
    """
    end = monotonic() + PATIENCE
    while True:
        _await_worker(client, PATIENCE)
        found = client.run(_version, on_error="return")
        for worker, version in found.items():
            if not isinstance(version, OSError) and version != __version__:
                msg = f"worker {worker} has {version!r}, expected Sapwood {__version__}"
                raise SapwoodError(msg, hint=f"pip install sapwood=={__version__} on every worker")
        silent = [worker for worker, version in found.items() if isinstance(version, OSError)]
        if not silent:
            return
        if monotonic() > end:
            msg = f"worker {silent[0]} does not answer ({found[silent[0]]})"
            raise SapwoodError(msg, hint="end it, or see whether it can be reached from here")
        sleep(PATIENCE / 50)


@cache
def with_version(function: Callable[..., Any], version: str = __version__) -> Callable[..., Any]:
    """The same function, refused by a worker that has another version of Sapwood.

    Workers can join at any time, so every task checks. The check is sent with the task as
    code and not by name, because the worker's own version may lack it.
    """
    packed = pickle_to_send(function)

    def call(*args: Any) -> Any:
        import pickle

        from sapwood import __version__ as installed
        from sapwood.core.errors import SapwoodError

        if installed != version:
            msg = f"a worker has Sapwood {installed}, expected {version}"
            raise SapwoodError(msg, hint=f"pip install sapwood=={version} on every worker")
        return pickle.loads(packed)(*args)

    call.__name__ = function.__name__  # which Dask shows
    return call


@contextmanager
def _losses() -> Iterator[None]:
    """Turn the errors that Dask raises when the scheduler is gone into one line."""
    from distributed import CancelledError
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except (CancelledError, CommClosedError, ClosedClientError) as error:
        msg = "the scheduler has ended, or lost the data that it was sent"
        raise SapwoodError(msg, hint="see whether it runs, and start again") from error


def _await_worker(client: Any, seconds: float) -> None:
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError as error:
        address = client.scheduler.address
        msg = f"the scheduler at {address} has no workers"
        raise SapwoodError(msg, hint=f"start some with `dask worker {address}`") from error


def _version() -> str:
    return __version__


@contextmanager
def _interrupts_for_us() -> Iterator[None]:
    """Block Ctrl-C in threads and processes that are started meanwhile."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which would unblock the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's warning of large tasks, which hold the bytes of shards on purpose."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        yield


def _lazy(function: Callable[..., Any], *args: Any) -> Any:
    """A call to be made on the cluster, which can be an argument of others, and be added."""
    from dask import delayed

    return delayed(with_version(function), pure=False)(*args)
