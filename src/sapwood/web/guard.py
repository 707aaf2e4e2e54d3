"""Checks of every request (host, origin, token, body), its limits, and the headers of answers.

- **Host**: a page elsewhere can point a name of its own at this machine (DNS rebinding), but its
  requests then carry that name. Only the server's own names are answered; a numeric address
  cannot be pointed elsewhere, so it is accepted as well.
- **Origin**: requests from pages of other sites name their origin and are refused. Bodies must be
  of a type that browsers do not send to another site without a preflight request.
- **Token**: where the server can be reached from other machines, each request carries one: in the
  address, in the header `Authorization: Bearer ...`, or in the cookie that the first one sets.
- **Body**: read here, whole, within limits of size and time, so that neither a slow nor a vanished
  client holds anything else up.

The limits of requests are here too, the errors that clients get, and the pool of threads that keeps
the limits. Kernels run without Python's lock, so threads share the cores and the models. A thread
cannot be stopped from outside: work that has run out of time, or whose client is gone, ends when it
next checks the time, and keeps its thread until then. Work that never checks the time must be
short; long work that needs no model runs in a process, see `sapwood.web.processes`.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import math
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from math import ceil
from threading import Lock
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import parse_qs

from sapwood.core.errors import CorpusError, SapwoodError, count
from sapwood.report import to_json

MEGABYTE = 1 << 20
BRACKETS_A_WORD = 20  # of a tree, on average; treebanks have less than half as many
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
    body: dict[str, Any] = {"error": str(error), "hint": error.hint}
    if isinstance(error, CorpusError):
        body |= {"error": error.message, "line": error.line, "column": error.column}
    return body


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
        """Refuse more constraints than a sentence of this length can use."""
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
    """Raised in work whose client has gone."""


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
        """Start no more work, and end the work that looks at the clock."""
        self._is_stopped = True
        self._threads.shutdown(wait=False, cancel_futures=True)


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "sapwood-token"
N_BODIES = 8  # bodies of the largest size that may be in memory at once
FIELDS = "/docs on this server lists the fields of every request"
MOST_NAMES = 32  # names in a JSON object
MOST_MARKS = 200_000  # commas and brackets in JSON
# Lists whose items may be other than texts: numbers, null, lists or objects.
NESTED = frozenset({"tags", "spans", "forbidden", "heads", "relations"})
OBJECTS = frozenset({"action", "start", "label_map"})  # names whose values may be objects
MOST_ENTRIES = 1_000  # of such an object
GONE = "sapwood.gone"
JSON, BYTES = "application/json", "application/octet-stream"
SAFE_METHODS = frozenset({"GET", "HEAD"})
LOOPBACK = ("localhost", "127.0.0.1", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
FAULT = Refusal(
    500,
    "a fault of the server; it is logged where the server runs",
    "report it, with the request",
)


class Guard:
    """ASGI middleware that checks requests before the application sees them.

    Parameters
    ----------
    names
        Host names of this server, besides those of loopback.
    takes_numbers
        Whether every numeric address is accepted, as when the server listens on all of them.
    token
        None where only this machine can reach the server.
    """

    def __init__(
        self,
        application: Application,
        limits: Limits,
        *,
        names: Iterable[str] = (),
        takes_numbers: bool = False,
        token: str | None = None,
    ) -> None:
        self.application, self.limits, self.token = application, limits, token
        self.names = {name.lower() for name in (*LOOPBACK, *names)}
        self.takes_numbers = takes_numbers
        self.held = 0  # bytes of all bodies that have arrived and are still in use

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or pass it to the application."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        cookie: list[tuple[bytes, bytes]] = []
        is_started = False

        async def say(message: Message) -> None:
            nonlocal is_started
            if message["type"] == "http.response.start":
                is_started = True
                known = {name for name, _ in message["headers"]}
                more = [pair for pair in (*HEADERS, *cookie) if pair[0] not in known]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        try:
            self._check_host(headers)
            self._check_origin(scope, headers)
            if self._check_token(scope, headers):
                value = f"{COOKIE}={self.token}; HttpOnly; SameSite=Strict; Path=/"
                cookie.append((b"set-cookie", value.encode()))
            body = await self._read(scope, headers, receive)
        except Refusal as refusal:
            await refuse(refusal, say)
            return
        gone = scope[GONE] = asyncio.Event()
        watch = asyncio.ensure_future(_watch(receive, gone))
        is_read = False

        async def give() -> Message:
            nonlocal is_read
            if is_read:
                await gone.wait()
                return {"type": "http.disconnect"}
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            await self.application(scope, give, say)
        except Exception:
            log_fault(scope)
            if not is_started:
                await refuse(FAULT, say)
        finally:
            self.held -= len(body)
            watch.cancel()

    # -- host, origin, token ----------------------------------------------------------------------

    def _check_host(self, headers: dict[str, str]) -> None:
        host = _host_of(headers.get("host", ""))
        if host in self.names or (self.takes_numbers and _is_number(host)):
            return
        msg = f"this server does not answer for the host {host[:80]!r}"
        hint = "use the address that `sapwood serve` printed, or --host NAME"
        raise Refusal(421, msg, hint)

    def _check_origin(self, scope: Scope, headers: dict[str, str]) -> None:
        origin, host = headers.get("origin"), headers.get("host", "")
        if origin is not None and origin.lower() not in {f"http://{host}", f"https://{host}"}:
            msg = "requests of other sites' pages are not answered"
            raise Refusal(403, msg, "open the address that `sapwood serve` printed")
        # A link from elsewhere may lead here; whatever else another site's page sends may not.
        is_visit = scope["method"] in SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") == "cross-site" and not is_visit:
            raise Refusal(403, "requests of other sites' pages are not answered")

    def _check_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        """Whether the token came in the address, so that a cookie should be set."""
        if self.token is None:
            return False
        wanted = self.token.encode()
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if hmac.compare_digest(given.encode(), wanted):
            return True
        others = [headers.get("authorization", "").removeprefix("Bearer "), _cookie_of(headers)]
        if any(hmac.compare_digest(other.encode("latin-1", "replace"), wanted) for other in others):
            return False
        msg = "the address has no token, or a wrong one"
        raise Refusal(401, msg, "use the whole address that `sapwood serve` printed")

    # -- body -------------------------------------------------------------------------------------

    async def _read(self, scope: Scope, headers: dict[str, str], receive: Receive) -> bytes:
        if scope["method"] in SAFE_METHODS:
            return b""
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self.limits.body:
            raise self._too_large()
        try:
            body = await asyncio.wait_for(self._whole(receive), self.limits.seconds)
        except TimeoutError:
            msg = f"the body did not arrive within {self.limits.seconds:g} s"
            raise Refusal(408, msg, "send it faster", {"Connection": "close"}) from None
        try:
            _check_body(body, headers.get("content-type", ""))
        except Refusal:
            self.held -= len(body)
            raise
        return body

    def _too_large(self) -> Refusal:
        msg = f"a body of more than {self.limits.body / MEGABYTE:g} MB"
        hint = "send less, or start the server with a larger --max-body"
        return Refusal(413, msg, hint, {"Connection": "close"})

    async def _whole(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the client left before its request was whole")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                self.held += len(parts[-1])
                if size > self.limits.body:
                    raise self._too_large()
                if (most := N_BODIES * self.limits.body) < self.held:
                    msg = f"all requests together hold more than {most / MEGABYTE:g} MB"
                    headers = {"Retry-After": "1", "Connection": "close"}
                    raise Refusal(503, msg, "come back in 1 s", headers)
                if not message.get("more_body", False):
                    return b"".join(parts)
        except BaseException:
            self.held -= size
            raise


def log_fault(scope: Scope) -> None:
    """Print the error that is being handled, with its traceback, on stderr."""
    print(f"error: {scope['method']} {scope['path'][:200]!r}", file=sys.stderr)
    traceback.print_exc()


def _check_body(body: bytes, content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if body and kind not in {JSON, BYTES}:
        msg = f"a body of type {kind[:80] or 'unknown'!r}; {JSON} was expected"
        raise Refusal(415, msg, f"send the header Content-Type: {JSON}")
    if kind == JSON:
        _check_json(body)


def _check_json(body: bytes) -> None:
    """Refuse a body that is not JSON, nests too deep, or contains a lone surrogate.

    Requests are flat: a few names with texts, numbers or lists of texts, and the constraints on a
    tree, whose items are lists or objects. Anything else is refused here, because validating each
    of a million names or items would take seconds.
    """
    n = sum(map(body.count, (b",", b"[", b"{")))
    if n > MOST_MARKS:  # counted inside strings too; parsing more takes seconds
        msg = f"the body has {n:,} commas and brackets, at most {MOST_MARKS:,} are taken"
        raise Refusal(422, msg, "send less in one request")
    try:
        whole = json.loads(body, parse_constant=_no_number)
        if isinstance(whole, dict) and len(whole) <= MOST_NAMES:
            for name, value in whole.items():
                _check_value(name, value)
    except (ValueError, RecursionError) as error:
        msg = "the body is no JSON" + (
            f": {error}"[:200] if isinstance(error, json.JSONDecodeError) else ""
        )
        raise Refusal(400, msg, 'send an object such as {"sentence": "the dog sleeps ."}') from None
    if not isinstance(whole, dict):
        msg = f"the body is {type(whole).__name__}, an object was expected"
        raise Refusal(422, msg, 'send an object such as {"sentence": "the dog sleeps ."}')
    if len(whole) > MOST_NAMES:
        msg = f"the body has {len(whole):,} names, at most {MOST_NAMES} are taken"
        raise Refusal(422, msg, FIELDS)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _check_value(name: str, value: object) -> None:
    name.encode()  # raises for a lone surrogate
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, float) and not math.isfinite(value):
        _no_number("an infinite number")
    elif isinstance(value, dict) and name in OBJECTS and len(value) <= MOST_ENTRIES:
        for key, item in value.items():
            _check_value(key, item)
    elif isinstance(value, dict):
        msg = f'"{name[:80]}" is an object, expected a text, a number or a list of texts'
        raise Refusal(422, msg, FIELDS)
    elif isinstance(value, list):
        for place, item in enumerate(value, 1):
            if name in NESTED:
                _check_nested(name, item)
                continue
            if not isinstance(item, str):
                msg = f'item {place} of "{name[:80]}" is {str(item)[:60]}, expected a text'
                raise Refusal(422, msg, FIELDS)
            item.encode()


def _check_nested(name: str, item: object) -> None:
    """Check an item of a list of constraints: a scalar, or a list or object of scalars."""
    inner = [*item, *item.values()] if isinstance(item, dict) else item
    for value in inner if isinstance(inner, list) else [inner]:
        if isinstance(value, list | dict):
            raise Refusal(422, f'"{name}" has lists inside of its items', FIELDS)
        _check_value(name, value)


async def _watch(receive: Receive, gone: asyncio.Event) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


def _host_of(header: str) -> str:
    """The name in a Host header, without its port.

    Examples
    --------
    >>> _host_of("localhost:8000"), _host_of("[::1]:8000"), _host_of("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower()


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _cookie_of(headers: dict[str, str]) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


async def refuse(refusal: Refusal, send: Send) -> None:
    """Answer with a refusal."""
    body = to_json(refusal.body()).encode()
    headers = {"Content-Type": JSON, "Content-Length": str(len(body))} | refusal.headers
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
