"""Signals that wait: Python's handlers must not run where their exceptions would be lost.

A handler such as that of Ctrl-C runs between any two byte codes of the main thread. Compiled
functions run some byte code too: when they are compiled or loaded, and when arrays that they return
become objects. An exception there is swallowed, turns into another one, or ends the process.
"""

from __future__ import annotations

import signal
from _signal import getsignal  # `signal` puts names to numbers: 20 us a call
from _signal import signal as set_handler
from _thread import get_ident
from collections.abc import Callable
from threading import main_thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Those that people write handlers for; Ctrl-C last, since it is the one that may come again.
NAMES = ("SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK", "SIGINT")
SIGNALS = tuple(int(getattr(signal, name)) for name in NAMES if hasattr(signal, name))
_is_undisturbed = False  # the main thread, at present


def undisturbed(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, and give signals that arrive meanwhile to their handlers at its end.

    Handlers written in Python are stood in for, whoever installed them; what the system does by
    itself (end the process, ignore the signal) stays. Outside the main thread, where no handler
    ever runs, this is a plain call, and so is a call inside another one: several kernels that are
    quick can be put in one.

    Cost: 1 to 4 us.

    Examples
    --------
    >>> def work():
    ...     signal.raise_signal(signal.SIGTERM)
    ...     print("done")
    >>> before = signal.signal(signal.SIGTERM, lambda *_: print("told to end"))
    >>> undisturbed(work)
    done
    told to end
    >>> _ = signal.signal(signal.SIGTERM, before)
    """
    global _is_undisturbed  # noqa: PLW0603 - the main thread alone writes it
    if _is_undisturbed or get_ident() != main_thread().ident:
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
        _is_undisturbed = True
        return function(*args, **kwargs)
    finally:
        _is_undisturbed = False
        for number, handler in handlers.items():
            set_handler(number, handler)
        for number in noted:
            handlers[number](number, None)
