"""Signals wait for the end of a call, whoever handles them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sapwood.core.compiling import SIGNALS, defer_signals

KINDS = (*SIGNALS[:3], int(signal.SIGINT))


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Every handler is the same afterwards."""
    before = [signal.getsignal(number) for number in SIGNALS]
    yield
    after = [signal.getsignal(number) for number in SIGNALS]
    for number, handler in zip(SIGNALS, before, strict=True):
        signal.signal(number, handler)
    assert after == before


@pytest.fixture
def heard(handlers: None, request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """Signals that somebody's own handlers have heard of."""
    notes: list[Any] = []
    kept = {number: signal.getsignal(number) for number in KINDS}
    for number in KINDS:
        signal.signal(number, lambda number, _: notes.append(number))
    yield notes
    for number, handler in kept.items():
        signal.signal(number, handler)


def work(log: list[Any], *numbers: int) -> str:
    for number in numbers:
        signal.raise_signal(number)
        log.append("goes on")
    return "result"


def test_a_call_is_a_call() -> None:
    assert defer_signals(divmod, 7, 2) == (3, 1)
    assert defer_signals(int, "11", base=2) == 3
    with pytest.raises(ZeroDivisionError):
        defer_signals(divmod, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_handler_runs_at_the_end(heard: list[Any], kind: int) -> None:
    assert defer_signals(work, heard, kind, kind) == "result"
    assert heard == ["goes on", "goes on", kind, kind]


def test_an_interrupt_is_raised_at_the_end() -> None:
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        defer_signals(work, log, signal.SIGINT)
    assert log == ["goes on"]


def test_an_interrupt_is_raised_after_a_failure_too() -> None:
    def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ValueError

    with pytest.raises(KeyboardInterrupt):
        defer_signals(fail)


def test_calls_inside_one_another_wait_for_the_outer_one() -> None:
    log: list[Any] = []

    def outer() -> None:
        defer_signals(work, log, signal.SIGINT)
        log.append("and on")

    with pytest.raises(KeyboardInterrupt):
        defer_signals(outer)
    assert log == ["goes on", "and on"]


@pytest.mark.parametrize("choice", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_the_system_does_by_itself_stays(choice: Any) -> None:
    before = signal.signal(signal.SIGINT, choice)
    try:
        assert defer_signals(signal.getsignal, signal.SIGINT) == choice
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_nothing() -> None:
    found: list[Any] = []
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(
        target=lambda: found.append(defer_signals(signal.getsignal, signal.SIGINT))
    )
    thread.start()
    thread.join()
    assert found == [before]


def test_an_interrupt_before_the_call_is_raised_at_once() -> None:
    log: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        defer_signals(work, log, *[signal.raise_signal(signal.SIGINT) or signal.SIGINT])
    assert log == []
