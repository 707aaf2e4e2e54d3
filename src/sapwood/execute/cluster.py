"""`Cluster`: an engine of Dask workers, processes of this machine or of many.

Everything that travels is pickled here, and its bytes are counted: shards when they are placed,
what tasks have in common once for all of them, totals on their way back. A shard is the result of
a task that holds its bytes, so that Dask can make it again when the worker it lay on is lost.

Neighbouring shards travel as one block of 2^k, which is one task of Dask where a shard each would
cost it milliseconds a shard. The sum of a block is a branch of `tree_sum`, and the sum of these
sums the rest of the tree: the bits are those of any other engine.
"""

from __future__ import annotations

import logging
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from traceback import format_exc
from typing import Any, TypeVar
from weakref import finalize

from sapwood import __version__
from sapwood.arguments import describe
from sapwood.errors import SapwoodError, SapwoodTypeError
from sapwood.execute.engine import Engine, Placed, load_shard, tree_sum
from sapwood.execute.parallel import Stream, ordered_map, resolve_jobs

R = TypeVar("R")

BLOCKS = 4  # of each thread: enough to even out their work, and few tasks
BIG = 10_000  # bytes: what is larger is sent once and kept, not with every task
CLOSING = 1.0  # seconds that a worker has to end; it may be in the middle of a task
PATIENCE = 5.0  # seconds that a scheduler has to answer, and again to name a worker
RETURN = 60.0  # seconds in which one must be back after all workers were lost


@dataclass
class Traffic:
    """Bytes, pickled, between this process and its cluster so far."""

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
        Where the scheduler of a cluster listens, such as `tcp://10.0.0.1:8786`.
    jobs
        How many workers to start here; None and 0 mean one for each core. A cluster that runs
        already is used as it is.

    Examples
    --------
    >>> with Cluster(jobs=2) as engine:  # doctest: +SKIP
    ...     words = engine.place(["ab", "c", "def"])
    ...     engine.total(len, words)
    6
    """

    def __init__(self, scheduler: str | None = None, jobs: int | None = None) -> None:
        _check_installed()
        self.traffic = Traffic()
        self._kept: dict[int, tuple[bytes, Any]] = {}  # by identity: digest, and where it is
        if scheduler is None:
            self._local, self._client = _start(resolve_jobs(jobs))
        else:
            self._local, self._client = None, _reach(scheduler)
        self.jobs = len(self._threads())
        self.jobs_here = min(self.jobs, resolve_jobs(None))

    def place(self, shards: Iterable[Any]) -> Placed:
        """Neighbours to the same worker, where their sums meet; shards on disk as they are."""
        shards, threads = list(shards), self._threads()
        size = 1
        while 2 * size * BLOCKS * len(threads) <= len(shards):
            size *= 2
        starts = range(0, len(shards), size)
        blocks = []
        for number, start in enumerate(starts):
            packed = pack(shards[start : start + size])
            self.traffic.placed += len(packed)
            home = threads[number * len(threads) // len(starts)]
            blocks.append(self._submit(pickle.loads, packed, home=home))
        self._await(blocks, len(shards))
        # Only now: Dask finds no other home for them while all workers are lost.
        homes = dict.fromkeys(block.key for block in blocks)
        self._client.sync(self._client.scheduler.set_restrictions, worker=homes)
        return _Blocks(blocks, len(shards))

    def map(self, task: Callable[..., Any], placed: Placed, *common: Any) -> Placed:
        """Results on the workers where the shards are."""
        call = self._share(task, *common)
        blocks = self._compute(_lazy(_map_block, block, *call) for block in placed.items)
        self._await(blocks, len(placed))
        return _Blocks(blocks, len(placed))

    def gather(self, placed: Placed) -> Iterator[Any]:
        """Results block by block, two of them on their way at a time."""

        def fetch(block: Any) -> Any:
            return self._receive(self._submit(_pack_block, block))

        for block in ordered_map(fetch, placed.items, jobs=2, ahead=1):
            yield from block

    def total(self, task: Callable[..., R], placed: Placed, *common: Any) -> R:
        """The sum, made on the workers: it alone comes back."""
        call = self._share(task, *common)
        parts = [_lazy(_sum_block, block, *call) for block in placed.items]
        *blocks, packed = self._compute([*parts, _lazy(pack, tree_sum(parts))])
        self._await(blocks, len(placed), is_kept=False)
        total: R = self._receive(packed)
        return total

    def stream(
        self, task: Callable[..., R], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[R]:
        """Results in order, at most `ahead` items a thread on their way.

        Items that are there already travel together; one that others may have to wait for goes
        alone.
        """
        call = self._share(task, *common)

        def send(batch: list[Any]) -> Any:
            packed = pack(batch)
            self.traffic.streamed += len(packed)
            return self._submit(_run_batch, packed, *call)

        size = max(1, ahead // 2)  # one batch is worked on while the next one comes
        source: Stream[Any] = Stream(_itself, _itself, items, room=size)
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
            self._local.sync(_end_workers, self._local)
            self._local.close(timeout=PATIENCE)

    def _threads(self) -> list[str]:
        """The address of a worker for each thread there is, at least one."""
        _await_worker(self._client, RETURN)
        return [worker for worker, n in self._client.nthreads().items() for _ in range(n)]

    def _share(self, *items: Any) -> list[Any]:
        """What all tasks need, in the form that they take: small things packed, big ones kept.

        What was sent before and is still the same, arrays may have changed in place, is not sent
        again; it stays on the cluster as long as the object lives here.
        """
        shared = []
        for item in items:
            packed = pack(item)
            digest = blake2b(packed).digest()
            there, future = self._kept.get(id(item), (None, None))
            if there == digest:
                shared.append(future)
                continue
            self.traffic.common += len(packed)
            if len(packed) < BIG:
                shared.append(_Packed(packed))
                continue
            shared.append(self._submit(pickle.loads, packed))
            with suppress(TypeError):  # a list or dict cannot be watched: it is sent again
                if there is None:
                    finalize(item, self._kept.pop, id(item), None).atexit = False
                self._kept[id(item)] = digest, shared[-1]
        return shared

    def _submit(self, function: Callable[..., Any], *args: Any, home: str | None = None) -> Any:
        where = {} if home is None else {"workers": [home], "allow_other_workers": True}
        with _quiet():
            return self._client.submit(function, *args, pure=False, **where)

    def _compute(self, tasks: Iterable[Any]) -> list[Any]:
        with _quiet():
            futures: list[Any] = self._client.compute(list(tasks))
        return futures

    def _await(self, blocks: list[Any], n_shards: int, *, is_kept: bool = True) -> None:
        """Wait for the blocks of so many shards, and report as they come."""
        from distributed import as_completed

        for n_done, block in enumerate(as_completed(blocks, loop=self._client.loop), 1):
            if block.status != "finished":
                self._result(block)
            if not is_kept:
                block.release()
            if self.report is not None:
                self.report(n_done * n_shards // len(blocks), n_shards)

    def _receive(self, future: Any) -> Any:
        packed = self._result(future)
        self.traffic.returned += len(packed)
        return pickle.loads(packed)

    def _result(self, future: Any) -> Any:
        from distributed import CancelledError, KilledWorker

        try:
            return future.result()
        except KilledWorker as error:
            n = error.allowed_failures + 1
            msg = f"a task was given up: {n} workers ended while it ran"
            hint = "look for memory: give workers more of it, or start fewer on a machine"
            raise SapwoodError(msg, hint=hint) from error
        except CancelledError as error:
            msg = "the scheduler has ended, or forgotten what it was given"
            raise SapwoodError(msg, hint="see whether it runs, and start again") from error


class _Blocks(Placed):
    """Futures of lists of shards."""

    def __init__(self, blocks: list[Any], n_shards: int) -> None:
        super().__init__(blocks)
        self.n_shards = n_shards

    def __len__(self) -> int:
        return self.n_shards


# -- on the workers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Packed:
    """Something small that goes with every task; Dask must not look into it."""

    content: bytes


def _map_block(block: list[Any], *call: Any) -> list[Any]:
    return list(_results(block, call))


def _sum_block(block: list[Any], *call: Any) -> Any:
    return tree_sum(_results(block, call))


def _pack_block(block: list[Any]) -> bytes:
    return pack(list(map(load_shard, block)))


def _results(block: list[Any], call: Iterable[Any]) -> Iterator[Any]:
    task, *common = map(_open, call)
    return (task(load_shard(shard), *common) for shard in block)


def _run_batch(packed: bytes, *call: Any) -> bytes:
    """Results, up to the first item that fails, and its error."""
    task, *common = map(_open, call)
    results = []
    for item in pickle.loads(packed):
        try:
            results.append(task(item, *common))
        except Exception as error:
            error.add_note(format_exc())  # tracebacks do not travel
            return pack((results, error))
    return pack((results, None))


def _itself(item: R) -> R:
    return item


def _open(item: Any) -> Any:
    return pickle.loads(item.content) if isinstance(item, _Packed) else item


def pack(item: Any) -> bytes:
    """Pickle something that is to travel."""
    import cloudpickle

    try:
        packed: bytes = cloudpickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # whatever the method of some class raises
        reason = " ".join(str(error).split())
        msg = f"{describe(item)} cannot be sent to other processes: {reason}"
        hint = "give functions and data without open files, locks or connections"
        raise SapwoodTypeError(msg, hint=hint) from error
    return packed


# -- finding and starting clusters ----------------------------------------------------------------


def _check_installed() -> None:
    try:
        import distributed  # noqa: F401 - only whether it is there
    except ImportError as error:
        msg = "the engine dask needs Dask distributed, which is not installed"
        raise SapwoodError(msg, hint="pip install distributed") from error


def _start(n_workers: int) -> tuple[Any, Any]:
    """A cluster on this machine, and a client of it."""
    from dask import config
    from distributed import Client, LocalCluster

    # Else a worker that is lost twice may not be replaced again. Read whenever one is lost.
    config.set({"distributed.deploy.lost-worker-timeout": "1 day"})
    try:
        with _interrupts_for_us():
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
        hint = 'a script of yours starts its work under `if __name__ == "__main__":`'
        raise SapwoodError(msg, hint=hint) from error
    return cluster, Client(cluster, set_as_default=False)


async def _end_workers(cluster: Any) -> None:
    from asyncio import gather

    await gather(*(worker.close(timeout=CLOSING) for worker in cluster.workers.values()))


def _reach(address: str) -> Any:
    """A client of the scheduler at an address, which has workers that know Sapwood."""
    from distributed import Client

    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # also whatever is made of the words of another kind of server
        msg = f"no scheduler answers at {address}"
        hint = "start one with `dask scheduler`, and give the address that it prints"
        raise SapwoodError(msg, hint=hint) from error
    try:
        _check_workers(client)
    except BaseException:
        client.close(timeout=PATIENCE)
        raise
    return client


def _check_workers(client: Any) -> None:
    _await_worker(client, PATIENCE)
    found = client.run(_version, on_error="return")
    for worker, version in found.items():
        if version != __version__ and not isinstance(version, OSError):  # such a worker is gone
            msg = f"worker {worker} has {version!r}, expected Sapwood {__version__}"
            raise SapwoodError(msg, hint=f"pip install sapwood=={__version__} on every worker")


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
    """Threads and processes that are started meanwhile never hear of Ctrl-C, which is for us."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which lets go of the signal when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Dask's warning of large tasks, which hold the bytes of shards on purpose."""
    from dask import config

    with config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
        yield


def _lazy(function: Callable[..., Any], *args: Any) -> Any:
    """A call to be made on the cluster; such calls can be arguments of others, and be added."""
    from dask import delayed

    return delayed(function, pure=False)(*args)
