"""Short work before anything is compiled: kernels that run as the plain Python that they are.

To compile the kernels of one parse takes some fifteen seconds, once for a machine; to parse a short
sentence without compiling takes tenths of a second. So whoever asks for one short answer announces
it, and kernels that were never compiled on this machine are interpreted until that has taken a
while in all. Kernels that were compiled before are loaded as always.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from time import perf_counter

MOST_SECONDS = 2.0  # of a process, after which everything is compiled
_spent = 0.0


class _Thread(local):
    is_short = False  # whether the thread does short work
    n_calls = 0  # of kernels that were interpreted


_thread = _Thread()


@contextmanager
def short_work(*, is_short: bool = True) -> Iterator[None]:
    """Interpret kernels inside, where none of them is compiled yet and there is little to do."""
    global _spent  # noqa: PLW0603 - the seconds of a process; a lost addition does no harm
    if not is_short or _spent >= MOST_SECONDS or _thread.is_short:
        yield
        return
    _thread.is_short, before, began = True, _thread.n_calls, perf_counter()
    try:
        yield
    finally:
        _thread.is_short = False
        if _thread.n_calls > before:
            _spent += perf_counter() - began


def is_interpreted() -> bool:
    """Whether a kernel that was never compiled is to be interpreted now."""
    return _thread.is_short


def count_call() -> None:
    """Note that a kernel was interpreted."""
    _thread.n_calls += 1
