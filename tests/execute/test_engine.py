"""Engines of threads: sums, streams, spilling; results never depend on the number of jobs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import reduce
from operator import add

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import SapwoodError
from sapwood.execute import (
    Stored,
    Threads,
    as_engine,
    map_reduce,
    ordered_map,
    resolve_jobs,
    tree_sum,
)


def pairwise_sum(parts: list[str]) -> str:
    """The slow twin: level by level, an odd one at the end goes up as it is."""
    while len(parts) > 1:
        odd = parts[len(parts) // 2 * 2 :]
        parts = [f"({a}{b})" for a, b in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0]


class Term(str):
    def __add__(self, other: str) -> Term:
        return Term(f"({self!s}{other!s})")


@given(st.integers(1, 70))
def test_the_shape_of_a_sum_is_pairs_of_pairs(n: int) -> None:
    names = [chr(97 + k) for k in range(n)]
    assert tree_sum(map(Term, names)) == pairwise_sum(names)


def test_no_shards() -> None:
    with pytest.raises(SapwoodError, match="no shards"):
        Threads().total(len, Threads().place([]))
    with pytest.raises(SapwoodError, match="no shards"):
        map_reduce(len, [])


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_sums_are_the_same_bits_for_any_number_of_threads(jobs: int) -> None:
    rng = np.random.default_rng(0)
    shards = [rng.standard_normal(50) * 10.0 ** rng.integers(-8, 8) for _ in range(37)]
    engine = Threads(jobs)
    total = engine.total(np.multiply, engine.place(shards), 3.0)
    assert total.tobytes() == tree_sum([3.0 * s for s in shards]).tobytes()
    assert np.allclose(total, reduce(add, shards) * 3.0)


@pytest.mark.parametrize("spills", [False, True])
def test_results_stay_until_they_are_summed(tmp_path, spills) -> None:
    with Threads(2, spill=tmp_path if spills else None) as engine:
        squares = engine.map(np.multiply, engine.place([1, 2, 3]), 2)
        assert len(squares) == 3
        assert all(isinstance(item, Stored) == spills for item in squares.items)
        assert list(engine.gather(squares)) == [2, 4, 6]
        assert engine.total(np.add, squares, 1) == 15
        assert engine.total(np.add, engine.map(np.negative, squares), 0) == -12
    assert list(tmp_path.iterdir()) == []


def test_stored_shards_are_loaded_where_they_are_needed() -> None:
    class OnDisk:
        def load(self) -> str:
            return "abc"

    engine = Threads()
    assert engine.total(len, engine.place([OnDisk(), "de"])) == 5


@pytest.mark.parametrize("jobs", [1, 2])
def test_progress_is_reported(jobs) -> None:
    engine, seen = Threads(jobs), []
    engine.report = lambda *counts: seen.append(counts)
    engine.total(len, engine.map(str, engine.place([1, 2, 3])))
    assert seen == [(1, 3), (2, 3), (3, 3)] * 2


def test_an_engine_or_a_number_of_threads() -> None:
    engine = Threads(2)
    assert as_engine(engine) is engine
    assert as_engine(3).jobs == 3


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
