"""The whole application in this process, and real servers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from sapwood.web.app import ServerState, make_app
from sapwood.web.guard import Guard, Limits
from sapwood.web.models import ModelStore

BASE = "http://127.0.0.1"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def guarded(store: ModelStore, limits: Limits | None = None, **options: Any) -> Guard:
    """The whole application around a store."""
    limits = limits or Limits()
    return Guard(make_app(ServerState(store, limits)), limits, **options)


class Client:
    """Asks an application in this process, and remembers cookies."""

    def __init__(self, application: Guard, base: str = BASE) -> None:
        self.asker = httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url=base, timeout=60
        )

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self.asker.request(method, path, **options))

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)

    def delete(self, path: str) -> httpx.Response:
        return self.request("DELETE", path)


class Server(NamedTuple):
    """`sapwood serve` in a process of its own."""

    process: subprocess.Popen[str]
    address: str

    @property
    def port(self) -> int:
        found = re.search(r":(\d+)/", self.address)
        assert found
        return int(found[1])

    def ask(self, path: str, **question: Any) -> Any:
        answer = httpx.post(f"{self.address}api/{path}", json=question, timeout=60)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def children(self) -> list[int]:
        """Processes that it has started."""
        done = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return [int(line) for line in done.stdout.split()]


# A Sapwood without models of real language: most tests are about the small bundled ones.
SMALL = """
from pathlib import Path
from sapwood.core import model_names
from sapwood.__main__ import main
model_names.FOLDER = Path("nowhere")
main()
"""


@contextmanager
def running(*arguments: str, folder: Path, is_small: bool = True) -> Iterator[Server]:
    """A server that is ready to answer, with its temporary files in a folder.

    Parameters
    ----------
    is_small
        Whether the models of real language that come with Sapwood are left out.
    """
    program = ["-c", SMALL] if is_small else ["-m", "sapwood"]
    process = subprocess.Popen(
        [sys.executable, *program, "serve", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=os.environ | {"TMPDIR": str(folder)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://")
        yield Server(process, address)
    finally:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def ask(client: Client, path: str, status: int = 200, **question: Any) -> Any:
    """The JSON of an answer with the expected status."""
    answer = client.post(f"/api/{path}", json=question)
    assert answer.status_code == status, answer.text
    return answer.json()
