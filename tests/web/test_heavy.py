"""Heavy questions stay apart: parses are answered meanwhile, and nothing works behind a 408."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.servers import Client

import sapwood as sw
from sapwood.core.outputs import OLD, lock
from sapwood.web.app import ServerState, make_app, static_files
from sapwood.web.guard import Guard
from sapwood.web.limits import MEGABYTE, Limits
from sapwood.web.loaded_models import TREES, LoadedModel
from sapwood.web.model_store import ModelStore
from sapwood.web.server import LOCK, PREFIX, Place, sweep

BYTES = {"Content-Type": "application/octet-stream"}
LONG = b"(S (NP oops\n" * 300_000  # to check it takes many seconds


@pytest.fixture
def server_state(tmp_path: Path) -> Iterator[ServerState]:
    folder = tmp_path / "server_state"
    folder.mkdir()
    server_state = ServerState(ModelStore(folder), Limits())
    server_state.store.add(LoadedModel("bundled", sw.bundled_grammar, kind=TREES))
    yield server_state
    server_state.stop()


@pytest.fixture
def own(server_state: ServerState) -> Client:
    return Client(Guard(make_app(server_state), server_state.limits))


@pytest.fixture
def started(
    server_state: ServerState, monkeypatch: pytest.MonkeyPatch
) -> list[subprocess.Popen[str]]:
    """The processes that were started for heavy questions."""
    found: list[subprocess.Popen[str]] = []
    start = server_state.processes._start

    def start_and_note() -> subprocess.Popen[str]:
        found.append(start())
        return found[-1]

    monkeypatch.setattr(server_state.processes, "_start", start_and_note)
    return found


def test_parses_do_not_wait_for_heavy_questions(server_state: ServerState, own: Client) -> None:
    async def main() -> None:
        stop = threading.Event()
        places = server_state.limits.workers + server_state.limits.queue
        heavy = [asyncio.ensure_future(server_state.heavy.run(lambda _: stop.wait(5)))
                 for _ in range(places)]  # fmt: skip
        await asyncio.sleep(0.02)
        full = await own.asker.post("/api/score", json={"sentences": ["they sleep ."]})
        assert full.status_code == 503
        parsed = await own.asker.post("/api/parse", json={"sentence": "they sleep ."})
        assert parsed.status_code == 200
        stop.set()
        await asyncio.wait(heavy)

    own.post("/api/score", json={"sentences": ["they sleep ."]})  # the model is loaded
    asyncio.run(main())


def test_a_model_is_loaded_apart_from_parses(server_state: ServerState, own: Client) -> None:
    loading = threading.Event()

    def load() -> Any:
        loading.wait(5)
        return sw.bundled_grammar()

    server_state.store.add(LoadedModel("slow", load, kind=TREES))

    async def main() -> None:
        question = {"sentence": "they sleep ."}
        other = question | {"model": "slow"}
        slow = [asyncio.ensure_future(own.asker.post("/api/parse", json=other))
                for _ in range(server_state.limits.workers)]  # fmt: skip
        await asyncio.sleep(0.05)
        quick = await own.asker.post("/api/parse", json=question)
        assert quick.status_code == 200
        assert not any(one.done() for one in slow)
        loading.set()
        assert [(await one).status_code for one in slow] == [200] * len(slow)

    own.post("/api/parse", json={"sentence": "they sleep ."})
    asyncio.run(main())


def test_the_process_behind_a_408_is_gone(
    own: Client, server_state: ServerState, started: list[subprocess.Popen[str]]
) -> None:
    server_state.heavy.limits = Limits(seconds=1.5)
    answer = own.post("/api/treebanks", content=LONG, headers=BYTES)
    assert answer.status_code == 408
    end = time.monotonic() + 2.0
    while server_state.heavy.n_busy and time.monotonic() < end:
        time.sleep(0.01)
    assert [process.poll() is not None for process in started] == [True]
    assert server_state.heavy.n_busy == 0
    assert not list(server_state.store.folder.iterdir())


def test_the_process_of_a_client_that_left_is_gone(
    own: Client, server_state: ServerState, started: list[subprocess.Popen[str]]
) -> None:
    async def main() -> None:
        gone = asyncio.Event()
        asked = {"words": 6, "states": 5, "length": 6}
        work = server_state.heavy.run(
            lambda check: server_state.processes.ask("identify/table", asked, check), gone
        )
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0.3)
        gone.set()
        await asyncio.wait([task])
        assert task.exception() is not None
        await asyncio.sleep(0.3)
        assert [process.poll() is not None for process in started] == [True]

    asyncio.run(main())


def test_the_memory_of_a_heavy_question_is_bounded(server_state: ServerState, own: Client) -> None:
    server_state.processes.limits = Limits(memory=160 * MEGABYTE)
    answer = own.post("/api/treebanks", content=b"(" * 8_000_000, headers=BYTES)
    assert answer.status_code == 422
    assert "the 160 MB of memory that a request may take" in answer.json()["error"]
    assert "--max-memory" in answer.json()["hint"]


def test_errors_of_a_process_keep_their_place(own: Client) -> None:
    answer = own.post("/api/treebanks", content=b"(S (X a))\n(S (X \xff))", headers=BYTES)
    assert (answer.status_code, answer.json()["line"]) == (422, 2)
    wrong = own.post("/api/identify", json={"family": "nonsense", "words": 2, "length": 3})
    assert wrong.status_code == 422
    assert set(wrong.json()) == {"error", "hint"}


def test_a_stopped_server_starts_no_process(own: Client, server_state: ServerState) -> None:
    server_state.processes.stop()
    asked = {"family": "dep-i", "words": 2, "length": 2}
    assert own.post("/api/identify", json=asked).status_code == 503


# -- faults ---------------------------------------------------------------------------------------


def test_faults_are_logged_with_their_traceback(
    server_state: ServerState, own: Client, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> Any:
        msg = "the store broke"
        raise RuntimeError(msg)

    server_state.store.add(LoadedModel("broken", fail, kind=TREES))
    answer = own.post("/api/parse", json={"sentence": "a", "model": "broken"})
    assert answer.status_code == 500
    assert "logged" in answer.json()["error"]
    told = capfd.readouterr().err
    assert "error: POST '/api/parse'" in told
    assert "Traceback" in told
    assert "RuntimeError: the store broke" in told


def test_a_fault_of_the_application_itself_is_answered(capfd: pytest.CaptureFixture[str]) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    assert Client(Guard(broken, Limits())).get("/x").status_code == 500
    assert "ZeroDivisionError" in capfd.readouterr().err


# -- what a server keeps --------------------------------------------------------------------------


def test_names_that_do_not_exist_are_not_remembered(own: Client) -> None:
    before = own.get("/static/main.js")
    assert before.status_code == 200
    for number in range(20):
        assert own.get(f"/static/{'x' * 1000}{number}.js").status_code == 404
    assert static_files.cache_info().currsize == 1


def test_answers_are_sent_at_once() -> None:
    async def main() -> int:
        found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def note(_: Any, writer: asyncio.StreamWriter) -> None:
            sock = writer.get_extra_info("socket")
            found.set_result(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        with Place().bind() as bound:
            async with await asyncio.start_server(note, sock=bound):
                _, writer = await asyncio.open_connection(*bound.getsockname())
                value = await found
                writer.close()
        return value

    assert asyncio.run(main())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_folders_of_dead_servers_are_swept(tmp_path: Path) -> None:
    def folder(name: str, age: float) -> Path:
        made = tmp_path / f"{PREFIX}{name}"
        made.mkdir()
        (made / LOCK).touch()
        os.utime(made / LOCK, (time.time() - age,) * 2)
        return made

    dead, young, held = folder("dead", OLD + 5), folder("young", 0.0), folder("held", OLD + 5)
    (dead / "treebank-1.mrg").touch()
    foreign = tmp_path / f"{PREFIX}foreign"
    foreign.mkdir()
    with (held / LOCK).open("rb") as file:
        assert lock(file.fileno())
        sweep(tmp_path)
    assert not dead.exists()
    assert all(one.exists() for one in (young, held, foreign))
