"""Real servers: clients that die, bodies that never end, signals in a training; the guides."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

import httpx
import pytest
from tests.web.servers import running

pytestmark = pytest.mark.slow

WISH = {"method": "em", "states": 32, "dev": "none"}
HEAD = "POST /api/parse HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def gone(processes: list[int], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(is_alive, processes)):
        time.sleep(0.05)
    return not any(map(is_alive, processes))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_in_a_training_leaves_nothing_behind(number: int, tmp_path: Path) -> None:
    with running(folder=tmp_path) as server:
        server.ask("train", **WISH)
        children = server.children()
        assert len(children) == 1
        time.sleep(1.0)  # in the middle of it
        os.kill(server.process.pid, number)
        server.process.wait(10)
        assert gone(children)
        time.sleep(0.2)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_leaves_nothing_behind(number: int, tmp_path: Path) -> None:
    kind = {"Content-Type": "application/octet-stream"}
    with running(folder=tmp_path) as server:
        address = f"{server.address}api/treebanks"

        def upload() -> None:
            with suppress(httpx.HTTPError):
                httpx.post(address, content=b"(" * 8_000_000, headers=kind, timeout=60)

        clients = [Thread(target=upload) for _ in range(6)]
        for client in clients:
            client.start()
        end = time.monotonic() + 20
        while len(children := server.children()) < 2:  # both are at work
            assert time.monotonic() < end
            time.sleep(0.05)
        os.kill(server.process.pid, number)
        server.process.wait(10)
        for client in clients:
            client.join()
        assert gone(children)
        assert not list(tmp_path.iterdir())


def test_what_a_killed_server_left_is_swept_by_the_next_one(tmp_path: Path) -> None:
    with running(folder=tmp_path) as server:
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(10)
    (left,) = tmp_path.iterdir()
    os.utime(left / "lock", (time.time() - 100,) * 2)
    with running(folder=tmp_path):
        assert left not in list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_clients_that_leave_or_dawdle_hold_nothing_up(tmp_path: Path) -> None:
    with running("--max-seconds", "2", "--workers", "1", "--queue", "4", folder=tmp_path) as server:
        server.ask("parse", sentence="they sleep .")
        half = []
        for _ in range(40):  # more than workers and queue together
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(f"{HEAD}Content-Length: 1000\r\n\r\n{{".encode())
            half.append(client)
        for client in half[:20]:  # some reset the connection
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.close()
        for _ in range(20):  # and some leave with their answers under way
            body = b'{"sentence": "they sleep ."}'
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            client.close()
        began = time.monotonic()
        assert server.ask("parse", sentence="they sleep .")["tree"]
        assert time.monotonic() - began < 1.0
        half[20].settimeout(5)
        assert b"408" in half[20].recv(1000)  # told, after two seconds
        for client in half[20:]:
            client.close()
        assert server.ask("parse", sentence="they sleep .")["tree"]


def test_an_address_for_others_has_a_token(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sapwood", "serve", "--host", "0.0.0.0", "--max-seconds", "5"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        port, token = address.split(":")[2].split("/")[0], address.split("token=")[1]
        here = f"http://127.0.0.1:{port}/api/models"
        assert httpx.get(here).status_code == 401
        assert httpx.get(here, params={"token": token}).status_code == 200
    finally:
        process.terminate()
        _, told = process.communicate(timeout=15)
    assert "warning: other machines can reach this server" in told


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "sapwood", "serve", "--port", port],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr
    assert "hint: leave --port out" in done.stderr


def test_an_address_of_no_machine() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sapwood", "serve", "--host", "no.such.host.invalid"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "hint: name an address of this machine" in done.stderr


GUIDES = Path(__file__).parents[2] / "docs" / "guides"
ADDRESS = "http://127.0.0.1:8000/"


def test_requests_of_other_languages(tmp_path: Path) -> None:
    pages = ("json-api.md", "see-what-was-learnt.md")
    text = "\n".join((GUIDES / page).read_text(encoding="utf-8") for page in pages)
    found = re.findall(r"^    (curl (?:.|\n      )*)$", text, re.MULTILINE)  # some take more lines
    requests = [["bash", "-c", command] for command in found]
    scripts = re.findall(r"```js\n(.*?)```", text, re.DOTALL)
    requests += [["node", "--input-type=module", "-e", code] for code in scripts]
    assert len(requests) == 5
    answers = []
    with running(folder=tmp_path) as server:
        for command in requests:
            program = command[-1].split()[0] if command[0] == "bash" else command[0]
            if shutil.which(program) is None:
                continue
            asked = [part.replace(ADDRESS, server.address) for part in command]
            done = subprocess.run(asked, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert ('"surprisal"' if "surprisal" in command[-1] else "(TOP (S (NP") in done.stdout
            answers.append(done.stdout)
    reply = re.search(r'^    (\{"tree": .*?)\n\n', text, re.DOTALL | re.MULTILINE)
    assert reply is not None
    names = set(re.findall(r'"(\w+)":', reply[1]))
    assert len(names) > 8
    assert any(names <= set(re.findall(r'"(\w+)":', answer)) for answer in answers)
