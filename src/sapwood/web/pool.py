"""Where requests are worked on: few threads, a short queue, and a clock.

Kernels run without Python's lock, so threads share the cores and the models. A thread cannot be
stopped from outside: work that has run out of time, or whose client is gone, is given up where it
looks at the clock, and keeps its place in the pool until then. Work that never looks at the clock
must be short; long work that needs no model runs in a process, see `sapwood.web.apart`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from sapwood.web.limits import Limits, Refusal

Found = TypeVar("Found")
Check = Callable[[], None]
MOST_SECONDS = 60  # that anybody is told to come back after


class _GivenUp(Exception):  # noqa: N818 - a way out, not a fault
    """Nobody waits for the answer any more."""


class Pool:
    """A bounded pool of threads.

    Attributes
    ----------
    n_busy
        Requests that run or wait, those that were given up included until they end.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.n_busy = 0
        self.mean = 0.05  # seconds of a request, about
        self._is_stopped = False
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(limits.workers, thread_name_prefix="sapwood-work")

    async def run(self, work: Callable[[Check], Found], gone: asyncio.Event | None = None) -> Found:
        """Do some work in a thread.

        Parameters
        ----------
        work
            Takes a function to call now and then, which raises an error when time is up.
        gone
            Set when the client has left.

        Raises
        ------
        Refusal
            503 when the queue is full, 408 when time is up.
        """
        limits = self.limits
        if self._is_stopped:
            raise Refusal(503, "the server is stopping")
        if self.n_busy >= limits.workers + limits.queue:
            wait = min(max(1, ceil(self.mean * self.n_busy / limits.workers)), MOST_SECONDS)
            msg = (
                f"{self.n_busy} requests are being worked on or waiting, which is all there may be"
            )
            raise Refusal(503, msg, f"come back in {wait} s", {"Retry-After": str(wait)})
        with self._lock:
            self.n_busy += 1
        began = monotonic()
        end = began + limits.seconds
        is_over = False

        def check() -> None:
            if is_over or self._is_stopped or monotonic() > end:
                raise _GivenUp

        thread = self._threads.submit(work, check)
        thread.add_done_callback(lambda done: self._leave(done, began))
        future = asyncio.wrap_future(thread)
        left = None if gone is None else asyncio.ensure_future(gone.wait())
        waiting: set[asyncio.Future[Any]] = {future} if left is None else {future, left}
        try:
            await asyncio.wait(waiting, timeout=limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if future.done():
                return future.result()
        except _GivenUp:
            pass
        finally:
            is_over = True
            thread.cancel()  # which only helps while it waits
            future.cancel()
            if left is not None:
                left.cancel()
        msg = f"the request took longer than the {limits.seconds:g} s that it may take"
        raise Refusal(408, msg, "ask for less, or start the server with a larger --max-seconds")

    def _leave(self, done: Future[Found], began: float) -> None:
        """Count work as ended, in the thread that did it."""
        with self._lock:
            self.n_busy -= 1
            if not done.cancelled():
                self.mean += 0.1 * (monotonic() - began - self.mean)

    def stop(self) -> None:
        """Begin nothing more, and give up what looks at the clock."""
        self._is_stopped = True
        self._threads.shutdown(wait=False, cancel_futures=True)
