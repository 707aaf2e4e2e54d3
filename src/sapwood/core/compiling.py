"""Support for calls of compiled code; `jit` has the decorators of the kernels themselves.

Importing this module does not import Numba, so that commands and parsers are loaded quickly.
"""

from __future__ import annotations

import signal
from _signal import getsignal  # `signal` puts names to numbers: 20 us a call
from _signal import signal as set_handler
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local, main_thread
from time import perf_counter
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Called with a kernel's name and True before it is compiled, and with False when it is ready.
compile_watchers: list[Callable[[str, bool], None]] = []

# Signals that people write handlers for; Ctrl-C last, since it is the one that may come again.
NAMES = ("SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK", "SIGINT")
SIGNALS = tuple(int(getattr(signal, name)) for name in NAMES if hasattr(signal, name))
_is_deferring = False  # whether signals wait in the main thread at present


def defer_signals(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function; signals that arrive meanwhile reach their handlers when it has returned.

    A handler such as that of Ctrl-C runs between any two byte codes of the main thread, also while
    Numba compiles or loads a kernel, where an exception can end the process.

    Only handlers written in Python wait; actions of the system (end the process, ignore the signal)
    stay. Outside the main thread, where no handler ever runs, this is a plain call, and so is a
    call inside another one.

    >>> def work():
    ...     signal.raise_signal(signal.SIGTERM)
    ...     print("done")
    >>> before = signal.signal(signal.SIGTERM, lambda *_: print("told to end"))
    >>> defer_signals(work)
    done
    told to end
    >>> _ = signal.signal(signal.SIGTERM, before)
    """
    global _is_deferring  # noqa: PLW0603 - the main thread alone writes it
    if _is_deferring or get_ident() != main_thread().ident:
        return function(*args, **kwargs)
    noted: list[int] = []
    handlers: dict[int, Any] = {}

    def note(number: int, _: object) -> None:
        noted.append(number)

    try:
        for number in SIGNALS:
            if callable(handler := getsignal(number)):
                handlers[number] = handler
                set_handler(number, note)
        _is_deferring = True
        return function(*args, **kwargs)
    finally:
        _is_deferring = False
        for number, handler in handlers.items():
            set_handler(number, handler)
        for number in noted:
            handlers[number](number, None)


MOST_SECONDS = 2.0  # of interpretation in a process; after that every kernel is compiled
QUICK_SECONDS = 0.3  # likewise, where kernels that are there need not be loaded
_spent = 0.0


class _KernelCalls(local):
    is_short = False  # whether the thread does short work
    is_only_one = False  # whether that is probably all its work: see `only_work`
    n_calls = 0  # of kernels that were interpreted


kernel_calls = _KernelCalls()


def may_interpret(is_kept: Callable[[], bool]) -> bool:
    """Whether a kernel is interpreted in short work, given whether it was compiled before."""
    return (kernel_calls.is_only_one and _spent < QUICK_SECONDS) or not is_kept()


@contextmanager
def only_work() -> Iterator[None]:
    """Interpret kernels in short work even where compiled ones are there.

    To load the kernels of a network takes half a second, to read one short sentence with it in
    plain Python a tenth. Results may differ in their last digits.
    """
    kernel_calls.is_only_one = True
    try:
        yield
    finally:
        kernel_calls.is_only_one = False


@contextmanager
def short_work(*, is_short: bool = True) -> Iterator[None]:
    """Interpret kernels that were never compiled on this machine, as the plain Python they are.

    To compile the kernels of one parse takes some thirteen seconds, once for a machine; to parse a
    short sentence without compiling takes tenths of a second. Kernels that were compiled before
    are loaded as always, and all are compiled once interpretation has taken `MOST_SECONDS`.
    """
    global _spent  # noqa: PLW0603 - the seconds of a process; a lost addition does no harm
    if not is_short or _spent >= MOST_SECONDS or kernel_calls.is_short:
        yield
        return
    kernel_calls.is_short, before, began = True, kernel_calls.n_calls, perf_counter()
    try:
        yield
    finally:
        kernel_calls.is_short = False
        if kernel_calls.n_calls > before:
            _spent += perf_counter() - began
