"""A bounded pool of threads for requests, with a short queue and a time limit.

Kernels run without Python's lock, so threads share the cores and the models. A thread cannot be
stopped from outside: work that has run out of time, or whose client is gone, ends when it next
checks the time, and keeps its thread until then. Work that never checks the time must be short;
long work that needs no model runs in a process, see `sapwood.web.apart`.
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
MOST_SECONDS = 60  # largest value of Retry-After


class _GivenUp(Exception):  # noqa: N818 - control flow, not an error
    """Raised in work whose answer nobody waits for."""


class Pool:
    """A bounded pool of threads.

    Attributes
    ----------
    n_busy
        Requests that run or wait, including those that were given up but have not ended yet.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.n_busy = 0
        self.mean = 0.05  # seconds of a request, about
        self._is_stopped = False
        self._lock = Lock()
        self._threads = ThreadPoolExecutor(limits.workers, thread_name_prefix="sapwood-work")

    async def run(self, work: Callable[[Check], Found], gone: asyncio.Event | None = None) -> Found:
        """Run some work in a thread and return its result.

        Parameters
        ----------
        work
            Takes a function that it must call now and then, which raises when time is up.
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
            thread.cancel()  # has an effect only while the work is still in the queue
            future.cancel()
            if left is not None:
                left.cancel()
        msg = f"the request took longer than the {limits.seconds:g} s that it may take"
        raise Refusal(408, msg, "ask for less, or start the server with a larger --max-seconds")

    def _leave(self, done: Future[Found], began: float) -> None:
        """Count the work as ended and update the mean time; called in its thread."""
        with self._lock:
            self.n_busy -= 1
            if not done.cancelled():
                self.mean += 0.1 * (monotonic() - began - self.mean)

    def stop(self) -> None:
        """Begin nothing more, and give up what looks at the clock."""
        self._is_stopped = True
        self._threads.shutdown(wait=False, cancel_futures=True)
