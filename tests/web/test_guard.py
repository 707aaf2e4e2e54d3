"""Who is answered, and what is too much."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.web.servers import BASE, Client, guarded

from sapwood.web.guard import COOKIE, Check, Guard, Limits, Pool, Refusal
from sapwood.web.models import ModelStore

QUESTION = {"sentence": "they sleep ."}


def small(store: ModelStore, **limits: Any) -> Client:
    return Client(guarded(store, Limits(**limits)))


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:80", 200), ("localhost", 200), ("[::1]:9", 200), ("LOCALHOST:1", 200),
     ("evil.example", 421), ("127.0.0.1.evil.example", 421), ("192.168.0.7", 421), ("", 421)],
)  # fmt: skip
def test_hosts(client: Client, host: str, status: int) -> None:
    assert client.get("/api/models", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 200), ({"Origin": BASE}, 200), ({"Origin": "http://evil.example"}, 403),
     ({"Origin": "null"}, 403), ({"Origin": "http://127.0.0.1:81"}, 403),
     ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-origin"}, 200)],
)  # fmt: skip
def test_origins(client: Client, headers: dict[str, str], status: int) -> None:
    assert client.post("/api/parse", json=QUESTION, headers=headers).status_code == status


def test_a_link_from_elsewhere_may_lead_here(client: Client) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/parse", headers=headers).status_code == 200


def test_tokens(store: ModelStore) -> None:
    client = Client(guarded(store, token="secret", takes_numbers=True), "http://10.0.0.5")
    assert client.get("/api/models").status_code == 401
    assert client.get("/api/models?token=wrong").status_code == 401
    answer = client.get("/api/models", headers={"Authorization": "Bearer secret"})
    assert (answer.status_code, answer.headers.get("set-cookie")) == (200, None)
    first = client.get("/?token=secret")
    assert first.status_code == 200
    cookie = first.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=secret")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/static/main.js").status_code == 200  # by the cookie
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 421


def test_every_answer_forbids_inline_code(client: Client) -> None:
    for answer in (client.get("/"), client.get("/api/models"), client.get("/nothing")):
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_bodies(store: ModelStore) -> None:
    client = small(store, body=1000)
    long = client.post("/api/parse", json={"sentence": "x " * 1000})
    assert (long.status_code, long.json()["hint"]) == (
        413, "send less, or start the server with a larger --max-body",
    )  # fmt: skip

    async def parts() -> AsyncIterator[bytes]:  # without a length that could tell
        for _ in range(20):
            yield b"x" * 100

    kind = {"Content-Type": "application/json"}
    assert client.post("/api/parse", content=parts(), headers=kind).status_code == 413
    assert (
        client.post("/api/parse", content="{}", headers={"Content-Type": "text/plain"}).status_code
        == 415
    )
    for body in (
        b"{",
        b"",
        b"\xff\xfe",
        b'{"sentence": "\\ud800"}',
        b"[" * 500,
        b'{"k": NaN}',
        b"1" * 999,
    ):
        assert client.post("/api/parse", content=body, headers=kind).status_code in {400, 422}, body
    assert client.post("/api/parse", json=[1]).status_code == 422
    longer = {"Content-Type": "application/octet-stream", "Content-Length": str(2**23 + 1)}
    answer = Client(guarded(store)).post("/api/treebanks", content=b"", headers=longer)
    assert answer.status_code == 413  # more than the 8 MB of `sapwood serve` without options


def test_limits_have_names(store: ModelStore) -> None:
    client = small(store, words=5, sentences=2, k=3)
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("parse", {"words": ["a"] * 6}, "--max-words"),
        ("draw", {"sentence": "a b c d e f"}, "--max-words"),
        ("parse", {"sentence": "a", "k": 4}, "--max-k"),
        ("score", {"sentences": ["a", "b", "c"]}, "--max-sentences"),
        ("sample", {"n": 3}, "--max-sentences"),
    ]
    for path, question, option in asked:
        answer = client.post(f"/api/{path}", json=question)
        assert answer.status_code == 422
        assert option in answer.json()["hint"]


# -- the pool -------------------------------------------------------------------------------------


def run(work: Callable[[Check], Any], limits: Limits) -> Any:
    async def main() -> Any:
        pool = Pool(limits)
        try:
            return await pool.run(work)
        finally:
            pool.stop()

    return asyncio.run(main())


def test_time_is_up() -> None:
    def work(check: Check) -> None:
        while True:
            check()
            time.sleep(0.01)

    with pytest.raises(Refusal, match="longer than") as refusal:
        run(work, Limits(seconds=0.1))
    assert refusal.value.status == 408


def test_a_full_queue_says_when_to_come_back() -> None:
    async def main() -> list[Any]:
        pool, stop = Pool(Limits(workers=1, queue=1, seconds=5)), threading.Event()
        tasks = [asyncio.ensure_future(pool.run(lambda _: stop.wait(5))) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(Refusal) as refusal:
            await pool.run(lambda _: None)
        stop.set()
        found = await asyncio.gather(*tasks)
        assert await pool.run(lambda _: 7) == 7  # there is room again
        assert pool.n_busy == 0
        pool.stop()
        return [refusal.value.status, refusal.value.headers["Retry-After"], *found]

    assert asyncio.run(main()) == [503, "1", True, True]


def test_work_of_a_client_that_left_is_not_begun() -> None:
    async def main() -> None:
        pool, stop, gone = Pool(Limits(workers=1, queue=5)), threading.Event(), asyncio.Event()
        done: list[int] = []
        first = asyncio.ensure_future(pool.run(lambda _: stop.wait(5)))
        await asyncio.sleep(0.02)
        second = asyncio.ensure_future(pool.run(lambda _: done.append(1), gone))
        await asyncio.sleep(0.02)
        gone.set()
        with pytest.raises(Refusal):
            await second
        stop.set()
        await first
        assert not done
        assert pool.n_busy == 0
        pool.stop()

    asyncio.run(main())


def ask(application: Any, *messages: dict[str, Any], **limits: Any) -> tuple[Guard, list[Any]]:
    """The guard and what it sends when these messages come in, and nothing behind them."""
    guard, sent = Guard(application, Limits(**limits)), []
    coming = [{"type": "http.request", **message} for message in messages]
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST", "path": "/", "headers": headers, "query_string": b"",
    }  # fmt: skip

    async def receive() -> dict[str, Any]:
        if not coming:
            await asyncio.sleep(60)
        return coming.pop(0)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    return guard, sent


async def echo(scope: Any, receive: Any, send: Any) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def test_a_body_ends_with_the_first_message_that_announces_no_other() -> None:
    for messages in (
        [{"body": b'{"a": 1}'}],
        [{"body": b'{"a": 1}', "more_body": False}],
        [{"body": b'{"a":', "more_body": True}, {"body": b" 1}"}],
    ):
        guard, sent = ask(echo, *messages, seconds=2.0)
        assert [message.get("body") for message in sent] == [None, b'{"a": 1}']
        assert guard.held == 0
    _, sent = ask(echo, {"body": b'{"a":', "more_body": True}, seconds=0.1)
    assert sent[0]["status"] == 408


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_fault_is_told_unless_the_answer_has_begun(
    has_begun: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("oops")

    guard, sent = ask(broken, {"body": b"{}"})
    started = [message["status"] for message in sent if message["type"] == "http.response.start"]
    assert started == [200 if has_begun else 500]
    assert guard.held == 0
    assert "oops" in capsys.readouterr().err
