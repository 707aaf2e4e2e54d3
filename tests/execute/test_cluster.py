"""Engines on workers of Dask: the bits of threads, things sent once, workers that die."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.core.errors import CorpusError, SapwoodError, SapwoodTypeError
from sapwood.execute import Cluster, Threads, Traffic, tree_sum
from sapwood.execute.cluster import pickle_to_send

pytestmark = pytest.mark.dask
WAIT = 60.0  # seconds; only a broken engine ever waits this long
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

rng = np.random.default_rng(0)
SHARDS = [rng.standard_normal(50) * 10.0 ** rng.integers(-8, 8) for _ in range(37)]
FACTORS = rng.standard_normal(5000)


def scale(shard: np.ndarray, factors: np.ndarray) -> np.ndarray:
    return shard * factors[:50]


def scale_slowly(shard: np.ndarray, factors: np.ndarray) -> np.ndarray:
    time.sleep(0.02)
    return scale(shard, factors)


def first_of(shard: np.ndarray, factors: list[np.ndarray]) -> np.ndarray:
    return scale(shard, factors[0])


def complain(shard: object) -> object:
    raise CorpusError("expected a bracket", file="a.mrg", line=3, column=7, hint="look there")


class OnDisk:
    """A shard that counts in a file how often it was loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> str:
        with self.path.open("a") as file:
            file.write("x")
        return "abc"


def pids(engine: Cluster) -> list[int]:
    found: list[int] = list(engine._client.run(os.getpid).values())
    return found


def kill_one(engine: Cluster) -> None:
    os.kill(pids(engine)[0], signal.SIGKILL)


@pytest.fixture
def both(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with two workers, also after a test that has killed some."""
    cluster._client.wait_for_workers(2, timeout=WAIT)
    cluster.report = None
    return cluster


# -- the same bits --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 37])
def test_sums_are_the_same_bits_as_on_threads(both, n) -> None:
    threads = Threads(2)
    expected = threads.total(scale, threads.place(SHARDS[:n]), FACTORS)
    total = both.total(scale, both.place(SHARDS[:n]), FACTORS)
    assert total.tobytes() == expected.tobytes()


class Term(str):
    def __add__(self, other: str) -> Term:
        return Term(f"({self!s}{other!s})")


@given(st.integers(1, 70))
@settings(max_examples=5)
def test_the_shape_of_a_sum_is_that_of_a_tree_of_pairs(cluster, n) -> None:
    names = [chr(97 + k) for k in range(n)]
    assert cluster.total(Term, cluster.place(names)) == tree_sum(map(Term, names))


def test_results_stay_on_the_workers(both) -> None:
    placed = both.place(SHARDS)
    scaled = both.map(scale, placed, FACTORS)
    assert len(scaled) == len(placed) == 37
    for result, shard in zip(both.gather(scaled), SHARDS, strict=True):
        assert result.tobytes() == scale(shard, FACTORS).tobytes()
    twice = both.total(scale, scaled, FACTORS)
    assert (
        twice.tobytes() == tree_sum([scale(scale(s, FACTORS), FACTORS) for s in SHARDS]).tobytes()
    )


def test_no_shards(both) -> None:
    with pytest.raises(SapwoodError, match="no shards"):
        both.total(len, both.place([]))
    assert list(both.gather(both.map(len, both.place([])))) == []


def test_shards_on_disk_are_loaded_at_each_use(both, tmp_path) -> None:
    path = tmp_path / "loads"
    placed = both.place([OnDisk(path), "de"])
    assert not path.exists()
    assert both.total(len, placed) == both.total(len, placed) == 5
    assert path.read_text() == "xx"
    assert list(both.gather(placed)) == ["abc", "de"]


def test_results_lie_on_disk_where_that_is_asked_for(both, tmp_path) -> None:
    with Cluster(both._local.scheduler_address, spill=tmp_path) as guest:
        scaled = guest.map(scale, guest.place(SHARDS), FACTORS)
        assert len(list(tmp_path.glob("*/*"))) == 37
        for result, shard in zip(guest.gather(scaled), SHARDS, strict=True):
            assert result.tobytes() == scale(shard, FACTORS).tobytes()
        twice = guest.total(scale, guest.map(scale, scaled, FACTORS), FACTORS)
    expected = tree_sum([scale(scale(scale(s, FACTORS), FACTORS), FACTORS) for s in SHARDS])
    assert twice.tobytes() == expected.tobytes()
    assert list(tmp_path.iterdir()) == []


def test_neighbours_are_placed_together(both) -> None:
    """So that most sums are made where their terms are."""
    placed = both.place(SHARDS)
    homes = both._client.who_has(placed.items)
    order = [homes[block.key] for block in placed.items]
    assert placed.sizes == [8, 8, 2, 2, 4, 8, 4, 1]  # 18 and 19
    assert sum(a != b for a, b in pairwise(order)) == 1


# -- streams --------------------------------------------------------------------------------------


def test_reading_stays_close_to_the_results(both) -> None:
    ahead, n_read, n_done, widest = 4, 0, 0, 0

    def source() -> Iterator[int]:
        nonlocal n_read, widest
        for item in range(60):
            n_read += 1
            widest = max(widest, n_read - n_done)
            yield item

    for _ in both.stream(abs, source(), ahead=ahead):
        n_done += 1
    # those on their way; batches that are handed out, wait, or are filled; one just being read
    assert widest <= ahead * both.jobs + 3 * (ahead // 2) + 1
    assert n_done == 60


def test_closing_early_stops_the_source(both) -> None:
    n_read = 0

    def source() -> Iterator[int]:
        nonlocal n_read
        for item in range(100_000):
            n_read += 1
            yield item

    stream = both.stream(abs, source(), ahead=2)
    assert next(stream) == 0
    stream.close()
    time.sleep(0.1)
    before = n_read
    time.sleep(0.1)
    assert n_read == before < 20


# -- workers that die -----------------------------------------------------------------------------


def test_a_worker_is_killed_in_the_middle_of_a_sum(both) -> None:
    expected = tree_sum([scale(shard, FACTORS) for shard in SHARDS])
    placed = both.place(SHARDS)
    victim = pids(both)[0]
    n_reported = []

    def kill_after_the_first(n_done: int, n: int) -> None:
        if not n_reported:
            os.kill(victim, signal.SIGKILL)
        n_reported.append(n_done)

    both.report = kill_after_the_first
    total = both.total(scale_slowly, placed, FACTORS)
    both.report = None
    assert total.tobytes() == expected.tobytes()
    assert n_reported[-1] == 37


def test_workers_are_killed_between_two_sums(both) -> None:
    """Shards and results for them are made again; at the end no worker is one of the first ones."""
    expected = tree_sum([scale(scale(shard, FACTORS), FACTORS) for shard in SHARDS])
    scaled = both.map(scale, both.place(SHARDS), FACTORS)
    for _ in range(2):
        kill_one(both)
        assert both.total(scale, scaled, FACTORS).tobytes() == expected.tobytes()


def test_all_workers_are_killed(both) -> None:
    expected = tree_sum([scale(shard, FACTORS) for shard in SHARDS])
    placed = both.place(SHARDS)
    for pid in pids(both):
        os.kill(pid, signal.SIGKILL)
    assert both.total(scale, placed, FACTORS).tobytes() == expected.tobytes()


def test_shards_are_placed_while_there_is_no_worker(both) -> None:
    for pid in pids(both):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not both._client.nthreads())
    assert both.total(len, both.place(["ab", "c", "def"])) == 6


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def die(shard: object) -> None:
    os._exit(1)


def test_a_task_that_kills_its_workers_is_given_up(both) -> None:
    with pytest.raises(SapwoodError, match="4 workers ended while it ran") as caught:
        both.total(die, both.place([1]))
    assert "memory" in (caught.value.hint or "")


# -- traffic --------------------------------------------------------------------------------------


def common_bytes(engine: Cluster, *args: Any) -> int:
    before = engine.traffic.common
    engine.total(*args)
    return engine.traffic.common - before


def test_bytes_are_counted_and_sent_once(both) -> None:
    both.traffic = Traffic()
    placed = both.place(SHARDS[:2])
    assert both.traffic == Traffic(placed=sum(len(pickle_to_send([shard])) for shard in SHARDS[:2]))
    factors = FACTORS.copy()
    task, once = len(pickle_to_send(scale)), len(pickle_to_send(factors))
    assert once > 40_000
    assert common_bytes(both, scale, placed, factors) == task + once
    assert common_bytes(both, scale, placed, factors) == task
    assert both.traffic.placed == sum(len(pickle_to_send([shard])) for shard in SHARDS[:2])
    assert both.traffic.returned == 2 * len(pickle_to_send(SHARDS[0]))
    factors[0] += 1.0  # the same object, but no longer what was sent
    assert common_bytes(both, scale, placed, factors) == task + once
    n_kept = len(both._kept)
    del factors
    assert len(both._kept) == n_kept - 1


def test_what_cannot_be_watched_is_sent_again(both) -> None:
    placed, factors = both.place(SHARDS[:2]), [FACTORS]
    n_kept = len(both._kept)
    expected = len(pickle_to_send(first_of)) + len(pickle_to_send(factors))
    assert common_bytes(both, first_of, placed, factors) == expected
    assert common_bytes(both, first_of, placed, factors) == expected
    assert len(both._kept) == n_kept


def test_streams_are_counted(both) -> None:
    both.traffic = Traffic()
    assert list(both.stream(pow, [3], 2)) == [9]
    assert both.traffic == Traffic(
        common=len(pickle_to_send(pow)) + len(pickle_to_send(2)),
        streamed=len(pickle_to_send([3])),
        returned=len(pickle_to_send(([9], None))),
    )


@pytest.mark.parametrize("n", [3, 37])
def test_progress_is_reported(both, n) -> None:
    seen: list[tuple[int, int]] = []
    placed = both.place(SHARDS[:n])
    both.report = lambda *counts: seen.append(counts)
    both.total(scale, placed, FACTORS)
    both.report = None
    assert seen == sorted(seen)
    assert seen[-1] == (n, n)
    assert len(seen) == min(n, 8)


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["map", "total"])
def test_errors_come_back_as_they_are(both, method) -> None:
    with pytest.raises(CorpusError, match=r"^a\.mrg:3:7: expected a bracket") as caught:
        getattr(both, method)(complain, both.place([1, 2, 3]))
    assert caught.value.hint == "look there"
    assert both.total(len, both.place(["ab"])) == 2  # and the cluster goes on


def test_what_cannot_travel_is_named(both) -> None:
    lock = threading.Lock()
    placed = both.place([1, 2])
    with pytest.raises(SapwoodTypeError, match=r"^a lock \(.*\) cannot be sent"):
        both.total(pow, placed, lock)
    with pytest.raises(SapwoodTypeError, match="cannot be sent"):
        both.place([lock])
    with pytest.raises(SapwoodTypeError, match="cannot be sent"):
        both.total(lambda _: lock, placed)
    with pytest.raises(SapwoodTypeError, match="cannot be sent"):
        list(both.stream(abs, [1, lock]))


def test_shards_of_another_engine(both) -> None:
    placed = Threads().place([1, 2])
    for method in (both.map, both.total):
        with pytest.raises(SapwoodTypeError, match="placed by another engine"):
            method(abs, placed)


def test_large_tasks_raise_no_warning(both) -> None:
    assert both.total(len, both.place([b"x" * 12_000_000])) == 12_000_000  # warnings are errors


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "tcp://127.0.0.1:x"])
def test_no_scheduler(address) -> None:
    started = time.monotonic()
    with pytest.raises(SapwoodError, match=f"no scheduler answers at {address}") as caught:
        Cluster(address)
    assert "dask scheduler" in (caught.value.hint or "")
    assert time.monotonic() - started < 10


def test_a_cluster_that_runs_already(both) -> None:
    with Cluster(both._local.scheduler_address) as guest:
        assert guest.jobs == 2
        assert 1 <= guest.jobs_here <= 2
        assert guest.total(len, guest.place(["ab", "c", "def"])) == 6
    assert both.total(len, both.place(["ab"])) == 2  # the guest has left it as it was


def test_workers_of_another_version(both, monkeypatch) -> None:
    monkeypatch.setattr("sapwood.execute.cluster.__version__", "9.9")
    with pytest.raises(SapwoodError, match=r"expected Sapwood 9\.9") as caught:
        Cluster(both._local.scheduler_address)
    assert "sapwood==9.9" in (caught.value.hint or "")


WORKER = """
import asyncio, sys
import sapwood
sapwood.__version__ = "0.0.1"
from distributed import Worker

async def main():
    async with Worker(sys.argv[1], nthreads=1, dashboard=False) as worker:
        await worker.finished()

asyncio.run(main())
"""


def test_a_worker_of_another_version_that_joins_late() -> None:
    from distributed import LocalCluster

    local = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with local, Cluster(local.scheduler_address) as engine:
        assert engine.total(len, engine.place(["ab", "c"])) == 3
        late = Popen([sys.executable, "-c", WORKER, local.scheduler_address], stderr=DEVNULL)
        try:
            engine._client.wait_for_workers(2, timeout=WAIT)
            for work in (
                lambda: engine.total(len, engine.place(["ab"] * 40)),
                lambda: list(engine.stream(time.sleep, [0.02] * 60)),
            ):
                with pytest.raises(SapwoodError, match=r"a worker has Sapwood 0\.0\.1") as caught:
                    work()
                assert "on every worker" in (caught.value.hint or "")
        finally:
            late.kill()
            late.wait()


class Answers:
    """A client whose workers answer one after the other."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def wait_for_workers(self, n: int, timeout: float) -> None:
        pass

    def run(self, *_: object, **__: object) -> dict[str, object]:
        return {"tcp://w": self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]}


def test_a_worker_that_cannot_be_reached_is_asked_again(monkeypatch) -> None:
    from sapwood import __version__
    from sapwood.execute.cluster import _check_workers

    monkeypatch.setattr("sapwood.execute.cluster.PATIENCE", 0.2)
    _check_workers(Answers(OSError("busy"), OSError("busy"), __version__))
    with pytest.raises(SapwoodError, match=r"has '0\.0\.1'"):
        _check_workers(Answers(OSError("busy"), "0.0.1"))
    with pytest.raises(SapwoodError, match=r"tcp://w does not answer \(busy\)"):
        _check_workers(Answers(OSError("busy")))


def test_a_scheduler_that_is_lost_is_one_line(both, monkeypatch) -> None:
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    for error in (CommClosedError("ConnectionPool closing."), ClosedClientError("closed")):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(both._client, "nthreads", fail)
            with pytest.raises(SapwoodError, match="the scheduler has ended"):
                both.place(["ab"])
        with monkeypatch.context() as patch:
            patch.setattr(both._client, "submit", fail)
            with pytest.raises(SapwoodError, match="the scheduler has ended"):
                list(both.stream(len, ["ab"]))


@pytest.mark.parametrize("words", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_an_address_where_something_else_answers(monkeypatch, words: bytes) -> None:
    monkeypatch.setattr("sapwood.execute.cluster.PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            while True:
                try:
                    connection = other.accept()[0]
                except OSError:
                    return
                connection.sendall(words)
                kept.append(connection)  # and never says anything more

        kept: list[socket.socket] = []
        threading.Thread(target=answer, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(SapwoodError, match="no scheduler answers at tcp://127"):
            Cluster(f"tcp://127.0.0.1:{other.getsockname()[1]}")
        assert time.monotonic() - began < WAIT
    for connection in kept:
        connection.close()


def test_a_scheduler_without_workers(monkeypatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("sapwood.execute.cluster.PATIENCE", 1.0)
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as empty,
        pytest.raises(SapwoodError, match="has no workers") as caught,
    ):
        Cluster(empty.scheduler_address)
    assert f"dask worker {empty.scheduler_address}" in (caught.value.hint or "")


def test_without_dask(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SapwoodError, match="not installed") as caught:
        Cluster(jobs=1)
    assert caught.value.hint == "pip install distributed"


def test_workers_do_not_hear_of_ctrl_c(both) -> None:
    workers = pids(both)
    for pid in workers:
        os.kill(pid, signal.SIGINT)
    time.sleep(1.0)
    assert all(is_running(pid) for pid in workers)
    assert both.total(len, both.place(["ab", "c", "def"])) == 6


PROGRAM = """
import os, time
from sapwood.execute import Cluster
if __name__ == "__main__":
    with Cluster(jobs=2) as engine:
        placed = engine.place([600, 600])
        print(*engine._client.run(os.getpid).values(), flush=True)
        engine.total(time.sleep, placed)
"""


def test_ctrl_c_leaves_no_processes(tmp_path) -> None:
    """As a terminal sends it: to the program and to its workers."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [sys.executable, str(script)]
    with Popen(command, start_new_session=True, stdout=PIPE, stderr=PIPE, text=True) as program:
        workers = [int(pid) for pid in program.stdout.readline().split()]
        time.sleep(0.2)
        os.killpg(program.pid, signal.SIGINT)
        try:
            _, errors = program.communicate(timeout=WAIT)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)  # or this test waits until it has slept
    assert len(workers) == 2
    assert program.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert not [pid for pid in workers if is_running(pid)]


def is_running(pid: int) -> bool:
    """Whether there is such a process, other than one that has ended and waits to be counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_engines_are_shared_by_copies(both) -> None:
    from copy import deepcopy

    assert deepcopy({"engine": both})["engine"] is both
    assert pickle.loads(pickle_to_send(SHARDS[0])).tobytes() == SHARDS[0].tobytes()
