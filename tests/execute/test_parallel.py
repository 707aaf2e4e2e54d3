"""Ordered maps and reductions: the same results on one thread or several, with bounded reading."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import SapwoodError
from sapwood.execute import map_reduce, ordered_map, resolve_jobs

WAIT = 10.0  # seconds; only a broken stream ever waits this long


@given(st.lists(st.integers(), max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_results_come_in_order_whatever_the_jobs(items: list[int], jobs: int, ahead: int) -> None:
    assert list(ordered_map(str, items, jobs=jobs, ahead=ahead)) == [str(item) for item in items]


def test_a_slow_first_item_does_not_change_the_order() -> None:
    release = threading.Event()

    def task(item: int) -> int:
        if item == 0:
            assert release.wait(WAIT)
        elif item == 3:
            release.set()
        return item

    assert list(ordered_map(task, range(4), jobs=2)) == [0, 1, 2, 3]


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_sums_are_added_in_the_order_of_the_shards(jobs: int) -> None:
    shards = [1e16, 1.0, -1e16, 1.0] * 5
    assert map_reduce(float, shards, jobs=jobs) == sum(shards[1:], shards[0])
    assert map_reduce(str, list("abc"), jobs=jobs) == "abc"


@pytest.mark.parametrize("jobs", [1, 2])
def test_reading_stays_close_to_the_results(jobs: int) -> None:
    """Never more than `ahead` items per job are read and not yet handed out."""
    ahead, n_read, n_done = 3, 0, 0
    widest = 0

    def source() -> Iterator[int]:
        nonlocal n_read, widest
        for item in range(60):
            n_read += 1
            widest = max(widest, n_read - n_done)
            yield item

    for _ in ordered_map(lambda item: item, source(), jobs=jobs, ahead=ahead):
        time.sleep(0.001)  # a slow reader: the source would run far ahead if it could
        n_done += 1
    # one more is in the hands of the source, one in those of the reader
    assert widest <= ahead * jobs + 2
    assert n_read == n_done == 60


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_endless_source_is_no_problem(jobs: int) -> None:
    def endless() -> Iterator[int]:
        item = 0
        while True:
            yield item
            item += 1

    stream = ordered_map(lambda item: item * item, endless(), jobs=jobs)
    assert [next(stream) for _ in range(5)] == [0, 1, 4, 9, 16]
    stream.close()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_the_task_reaches_the_reader_in_its_place(jobs: int) -> None:
    def task(item: int) -> int:
        if item == 3:
            msg = "item 3 is broken"
            raise ValueError(msg)
        return item

    stream = ordered_map(task, range(10), jobs=jobs)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="item 3 is broken"):
        next(stream)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_the_source_comes_after_the_results_before_it(jobs: int) -> None:
    def source() -> Iterator[int]:
        yield 1
        yield 2
        msg = "the file ends too early"
        raise OSError(msg)

    stream = ordered_map(str, source(), jobs=jobs)
    assert [next(stream), next(stream)] == ["1", "2"]
    with pytest.raises(OSError, match="too early"):
        next(stream)


def test_closing_early_stops_the_source_and_the_threads() -> None:
    before = threading.active_count()
    n_read = 0

    def source() -> Iterator[int]:
        nonlocal n_read
        for item in range(100_000):
            n_read += 1
            yield item

    stream = ordered_map(str, source(), jobs=2, ahead=2)
    assert next(stream) == "0"
    _wait_for(lambda: n_read == 6)  # room for 4, and 1 that was given back: the next one waits
    stream.close()
    _wait_for(lambda: threading.active_count() <= before)
    assert n_read <= 10


def _wait_for(condition: object) -> None:
    end = time.monotonic() + WAIT
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_blocked_source_does_not_hold_back_results() -> None:
    """A person types one sentence at a time: each tree must come before the next sentence does."""
    answered = threading.Event()

    def source() -> Iterator[str]:
        yield "first"
        assert answered.wait(WAIT), "the first result was held back"
        yield "second"

    stream = ordered_map(str.upper, source(), jobs=2)
    assert next(stream) == "FIRST"
    answered.set()
    assert list(stream) == ["SECOND"]


def test_closing_does_not_wait_for_a_blocked_source() -> None:
    blocked = threading.Event()

    def source() -> Iterator[int]:
        yield 1
        blocked.wait(WAIT)
        yield 2

    stream = ordered_map(str, source(), jobs=2)
    assert next(stream) == "1"
    started = time.monotonic()
    stream.close()
    assert time.monotonic() - started < WAIT / 2
    blocked.set()


def test_jobs_are_counted() -> None:
    assert resolve_jobs(3) == 3
    assert 1 <= resolve_jobs(None) == resolve_jobs(0) <= (os.cpu_count() or 1)
    with pytest.raises(SapwoodError, match="not -1"):
        resolve_jobs(-1)


def test_no_shards_are_an_error() -> None:
    with pytest.raises(SapwoodError, match="no shards"):
        map_reduce(len, [])
