"""Checks of every request (host, origin, token, body), and the headers of every answer.

- **Host**: a page elsewhere can point a name of its own at this machine (DNS rebinding), but its
  requests then carry that name. Only the server's own names are answered; a numeric address
  cannot be pointed elsewhere, so it is accepted as well.
- **Origin**: requests from pages of other sites name their origin and are refused. Bodies must be
  of a type that browsers do not send to another site without a preflight request.
- **Token**: where the server can be reached from other machines, each request carries one: in the
  address, in the header `Authorization: Bearer ...`, or in the cookie that the first one sets.
- **Body**: read here, whole, within limits of size and time, so that neither a slow nor a vanished
  client holds anything else up.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import math
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

from sapwood.report import to_json
from sapwood.web.limits import MEGABYTE, Limits, Refusal

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "sapwood-token"
N_BODIES = 8  # bodies of the largest size that may be in memory at once
FIELDS = "/docs on this server lists the fields of every question"
MOST_NAMES = 32  # names in a JSON object
MOST_MARKS = 200_000  # commas and brackets in JSON
# Lists whose items may be other than texts: numbers, null, lists or objects.
NESTED = frozenset({"tags", "spans", "forbidden", "heads", "relations"})
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
    "report it, with what was asked",
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
