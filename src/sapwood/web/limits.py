"""Limits of requests, the errors that clients get, and the pool of threads that keeps the limits.

Kernels run without Python's lock, so threads share the cores and the models. A thread cannot be
stopped from outside: work that has run out of time, or whose client is gone, ends when it next
checks the time, and keeps its thread until then. Work that never checks the time must be short;
long work that needs no model runs in a process, see `sapwood.web.processes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from sapwood.core.errors import CorpusError, SapwoodError, count

MEGABYTE = 1 << 20
BRACKETS_A_WORD = 20  # of a tree, on average: no treebank has half as many
CHARACTERS_A_WORD = 500  # of a tree, on average, with brackets, labels and blanks
LONGEST_WORD = 2_000  # characters
PHRASES_A_WORD = 4  # that may be required of a tree, and as many that may be forbidden


class Refusal(Exception):  # noqa: N818 - the request is at fault, not the server
    """A request that is refused, with the HTTP status and the message of the answer.

    Parameters
    ----------
    status
        HTTP status code.
    hint
        What the client can do about it.
    """

    def __init__(
        self,
        status: int,
        message: str,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        return {"error": self.message, "hint": self.hint}


def error_body(error: SapwoodError) -> dict[str, Any]:
    """The JSON body for an error of Sapwood, with line and column where there are any."""
    told: dict[str, Any] = {"error": str(error), "hint": error.hint}
    if isinstance(error, CorpusError):
        told |= {"error": error.message, "line": error.line, "column": error.column}
    return told


@dataclass(frozen=True)
class Limits:
    """The limits of a server, which are options of `sapwood serve`.

    Attributes
    ----------
    body
        Bytes of a request's body.
    words, sentences
        Words of one sentence, and sentences of one request.
    k
        Trees of a list of the best.
    seconds
        Seconds that a request may take, waiting included, and that its body may take to arrive.
    workers, queue
        Requests that are worked on at once, and those that may wait.
    training
        Seconds that a training may take.
    memory
        Bytes of address space of the process that answers a heavy request.
    """

    body: int = 8 * MEGABYTE
    words: int = 150
    sentences: int = 500
    k: int = 50
    seconds: float = 20.0
    workers: int = 2
    queue: int = 32
    training: float = 3600.0
    memory: int = 1024 * MEGABYTE

    def check_words(self, words: Sequence[str]) -> None:
        """Refuse a sentence that is too long or has no words."""
        if not words:
            raise Refusal(422, "the sentence has no words", "give at least one")
        if len(words) > self.words:
            msg = f"a sentence of {len(words):,} words; at most {self.words:,} are taken"
            raise Refusal(422, msg, "cut it, or start the server with a larger --max-words")
        longest = max(map(len, words))
        if longest > LONGEST_WORD:
            msg = f"a word of {longest:,} characters; at most {LONGEST_WORD:,} are taken"
            raise Refusal(422, msg, "separate words by blanks")

    def check_phrases(self, phrases: Sequence[object], n_words: int) -> None:
        """Refuse more constraints than a sentence of this length can have use for."""
        most = PHRASES_A_WORD * n_words
        if len(phrases) > most:
            what = f"{len(phrases):,} phrases for a sentence of {count(n_words, 'word')}"
            raise Refusal(422, f"{what}; at most {most:,} are taken", "leave some of them out")

    def check_brackets(self, text: str) -> None:
        """Refuse a tree by the size of its text, before it is read."""
        for n, most, what in (
            (text.count("("), BRACKETS_A_WORD * self.words, "brackets"),
            (len(text), CHARACTERS_A_WORD * self.words, "characters"),
        ):
            if n > most:
                msg = f"a tree of {n:,} {what}; at most {most:,} are taken"
                raise Refusal(422, msg, "cut it, or start the server with a larger --max-words")

    def check_sentences(self, n: int) -> None:
        """Refuse too many sentences."""
        if n > self.sentences:
            msg = f"{count(n, 'sentence')} in one request; at most {self.sentences:,} are taken"
            raise Refusal(422, msg, "send fewer, or start the server with a larger --max-sentences")

    def check_k(self, k: int) -> None:
        """Refuse a list that is too long."""
        if k > self.k:
            msg = f"a list of {k:,} trees; at most {self.k:,} are given"
            raise Refusal(422, msg, "ask for fewer, or start the server with a larger --max-k")

    def as_dict(self) -> dict[str, Any]:
        """The limits that the page shows."""
        return {
            "body": self.body, "words": self.words, "sentences": self.sentences, "k": self.k,
            "seconds": self.seconds, "training": self.training,
        }  # fmt: skip


Found = TypeVar("Found")
Check = Callable[[], None]
MOST_RETRY_SECONDS = 60  # largest value of Retry-After


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
            wait = min(max(1, ceil(self.mean * self.n_busy / limits.workers)), MOST_RETRY_SECONDS)
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
