"""Streams on forks of this process: the order, errors and ends of those on threads."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sapwood.core.errors import SapwoodError
from sapwood.execute import Processes, processes

pytestmark = pytest.mark.skipif(not processes.CAN_FORK, reason="threads do the work here")
WAIT = 60  # seconds, on a crowded machine


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send everything but the first item off."""
    monkeypatch.setattr(processes, "ALONE", -1.0)


def own_id(item: int) -> tuple[int, int]:
    return item, os.getpid()


def test_few_items_need_no_process() -> None:
    assert list(Processes(2).stream(own_id, range(3))) == [(k, os.getpid()) for k in range(3)]


@pytest.mark.parametrize("jobs", [2, 3])
@pytest.mark.usefixtures("at_once")
def test_results_come_in_order_from_all_processes(jobs: int) -> None:
    def task(item: int, pause: float) -> tuple[int, int]:
        time.sleep(pause * (item % 3))
        return own_id(item)

    found = list(Processes(jobs).stream(task, range(120), 0.001))
    assert [item for item, _ in found] == list(range(120))
    workers = {pid for _, pid in found[1:]}
    assert len(workers) == jobs
    assert os.getpid() not in workers
    for pid in workers:  # all are gone, and were waited for
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.usefixtures("at_once")
def test_an_error_of_the_task_comes_in_its_place() -> None:
    def task(item: int) -> int:
        if item == 30:
            msg = "item 30 is broken"
            raise SapwoodError(msg, hint="mend it")
        return item

    stream = Processes(2).stream(task, range(100))
    assert [next(stream) for _ in range(30)] == list(range(30))
    with pytest.raises(SapwoodError, match="item 30 is broken") as caught:
        next(stream)
    assert caught.value.hint == "mend it"


@pytest.mark.usefixtures("at_once")
def test_an_error_of_the_source_comes_after_the_results_before_it() -> None:
    def source() -> Iterator[int]:
        yield from range(10)
        msg = "the file ends too early"
        raise OSError(msg)

    stream = Processes(2).stream(str, source())
    assert [next(stream) for _ in range(10)] == list("0123456789")
    with pytest.raises(OSError, match="too early"):
        next(stream)


@pytest.mark.usefixtures("at_once")
def test_a_lost_process_is_an_error_behind_what_came_before() -> None:
    def task(item: int) -> int:
        if item == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    found: list[int] = []
    with pytest.raises(SapwoodError, match="has ended by itself") as caught:
        found.extend(Processes(2).stream(task, range(100)))
    assert found == list(range(len(found)))  # but for what travelled with the item
    assert 1 <= len(found) <= 20
    assert "--jobs" in (caught.value.hint or "")


@pytest.mark.usefixtures("at_once")
def test_closing_early_ends_everything_whatever_it_is_doing() -> None:
    before, n_read = threading.active_count(), 0

    def source() -> Iterator[int]:
        nonlocal n_read
        for item in range(100_000):
            n_read += 1
            yield item

    def task(item: int) -> int:
        time.sleep(WAIT if item > 2 else 0.0)
        return os.getpid()

    stream = Processes(2).stream(task, source())
    workers = [next(stream) for _ in range(3)][1:]
    started = time.monotonic()
    stream.close()
    assert time.monotonic() - started < WAIT / 2
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    while threading.active_count() > before:
        assert time.monotonic() - started < WAIT
        time.sleep(0.005)
    assert n_read <= 2 * processes.MOST


@pytest.mark.usefixtures("at_once")
def test_a_blocked_source_does_not_hold_back_results() -> None:
    answered = threading.Semaphore(0)

    def source() -> Iterator[str]:
        for word in ("first", "second", "third"):
            yield word
            assert answered.acquire(timeout=WAIT), "a result was held back"

    stream = Processes(2).stream(str.upper, source())
    for word in ("FIRST", "SECOND", "THIRD"):
        assert next(stream) == word
        answered.release()
    assert list(stream) == []


@pytest.mark.usefixtures("at_once")
def test_workers_let_go_of_files_and_of_ctrl_c() -> None:
    reading, writing = os.pipe()

    def task(item: int) -> str:
        os.kill(os.getpid(), signal.SIGINT)  # which is not for workers
        with suppress(OSError):
            os.write(writing, b"x")
        return "alive"

    with Processes(2) as engine:
        stream = engine.stream(lambda item: task(item) if item else "here", range(5))
        assert [next(stream) for _ in range(5)] == ["here", *["alive"] * 4]
        os.close(writing)
        assert os.read(reading, 1) == b""  # the other end is closed though workers live
        stream.close()
    os.close(reading)
