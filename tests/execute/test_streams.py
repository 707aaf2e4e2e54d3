"""Streams of every engine: the same order, errors in their places, and no result held back."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from sapwood.core.errors import SapwoodError
from sapwood.execute import Engine, Processes, Threads, Windows, processes

WAIT = 60  # seconds, on a crowded machine
KINDS = ["one thread", "threads", "processes", pytest.param("cluster", marks=pytest.mark.dask)]


@pytest.fixture(params=KINDS)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setattr(processes, "ALONE", -1.0)  # all items but the first one are sent off
    if request.param == "cluster":
        import cloudpickle

        cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
        cluster: Engine = request.getfixturevalue("cluster")
        return cluster
    return {"one thread": Threads(1), "threads": Threads(3), "processes": Processes(2)}[
        request.param
    ]


def refuse_30(item: int) -> int:
    if item == 30:
        raise SapwoodError("item 30 is broken", hint="mend it")
    return item


@pytest.mark.parametrize("ahead", [1, 3, 16])
def test_results_are_in_order(engine: Engine, ahead: int) -> None:
    assert list(engine.stream(pow, range(50), 2, ahead=ahead)) == [k * k for k in range(50)]


def test_an_error_of_the_task_comes_in_its_place(engine: Engine) -> None:
    stream = engine.stream(refuse_30, range(100))
    assert [next(stream) for _ in range(30)] == list(range(30))
    with pytest.raises(SapwoodError, match="item 30 is broken") as caught:
        next(stream)
    assert caught.value.hint == "mend it"


def test_an_error_of_the_source_comes_after_the_results_before_it(engine: Engine) -> None:
    def source() -> Iterator[int]:
        yield from range(10)
        raise OSError("the file ends too early")

    stream = engine.stream(str, source())
    assert [next(stream) for _ in range(10)] == list("0123456789")
    with pytest.raises(OSError, match="too early"):
        next(stream)


def test_a_blocked_source_does_not_hold_back_results(engine: Engine) -> None:
    """A person types one sentence at a time: each tree must come before the next sentence does."""
    answered = threading.Semaphore(0)

    def source() -> Iterator[str]:
        for word in ("first", "second", "third"):
            yield word
            assert answered.acquire(timeout=WAIT), "a result was held back"

    stream = engine.stream(str.upper, source())
    for word in ("FIRST", "SECOND", "THIRD"):
        assert next(stream) == word
        answered.release()
    assert list(stream) == []


def test_windows_hold_what_is_there() -> None:
    answered = threading.Event()

    def source() -> Iterator[int]:
        for k in range(3):
            answered.clear()
            yield k
            assert answered.wait(WAIT)

    found = []
    for window in Windows(source()):
        found.append(window)
        answered.set()
    assert found == [[0], [1], [2]]
    sizes = [len(window) for window in Windows([*range(300)])]
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64, 64, 45]


def test_windows_keep_an_error_of_the_source_for_its_place() -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise OSError("the file ends too early")

    windows, found = iter(Windows(source())), []
    while len(found) < 5:
        found += next(windows)
    assert found == [0, 1, 2, 3, 4]
    with pytest.raises(OSError, match="too early"):
        next(windows)
