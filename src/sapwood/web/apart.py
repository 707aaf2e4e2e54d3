"""Heavy requests that need no model: each is answered by a process of its own.

A process can be ended at any moment, has a memory limit of its own, and runs with a low priority,
so that a heavy request takes neither the memory nor the processor away from other requests. The
order is one line of JSON on stdin, the answer is one line of JSON on stdout. The process ends when
its stdin is closed, so that it never outlives the server.
"""

from __future__ import annotations

import _thread
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.web.limits import MEGABYTE, Limits, Refusal, explain
from sapwood.web.worker import end_with_server, limit_memory, tell

POLL = 0.05  # seconds between two checks of the time
GRACE = 5.0  # seconds to wait for a killed process to end
NICENESS = 10
OUT_OF_MEMORY = b'{"event": "memory"}\n'
NO_MEMORY = (-signal.SIGABRT, -getattr(signal, "SIGKILL", signal.SIGABRT))


class Processes:
    """Starts a process for each heavy request, and kills it when nobody waits for the answer.

    Parameters
    ----------
    folder
        The server's folder, which a process removes when the server is gone.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = Lock()
        self._is_stopped = False

    def ask(self, name: str, arguments: dict[str, Any], check: Any) -> Any:
        """Call a function of `FUNCTIONS` in a new process and return its result.

        Parameters
        ----------
        arguments
            The keyword arguments of the function.
        check
            Raises an error when time is up or the client has left; the process is killed then.

        Raises
        ------
        SapwoodError
            The error of Sapwood that the function raised.
        Refusal
            422 where the memory limit is reached.
        """
        order = {
            "function": name, "arguments": arguments, "memory": self.limits.memory,
            "folder": str(self.folder),
        }  # fmt: skip
        process = self._start()
        try:
            found = self._wait(process, json.dumps(order) + "\n", check)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            with self._lock:
                self._running.discard(process)
        return self._read(name, found, process.returncode)

    def _start(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._is_stopped:
                raise Refusal(503, "the server is stopping")
            process = subprocess.Popen(
                [sys.executable, "-m", "sapwood.web.apart"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                start_new_session=True,  # so that Ctrl-C reaches the server alone
            )
            self._running.add(process)
            return process

    def _wait(self, process: subprocess.Popen[str], order: str, check: Any) -> str:
        """The line that the process prints; its stdin stays open until the process has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        found: list[str] = []
        is_read = Lock()
        is_read.acquire()

        def read(stdout: Any = process.stdout) -> None:
            with suppress(ValueError):  # closed while it was read
                found.append(stdout.readline())
            is_read.release()

        _thread.start_new_thread(read, ())
        with suppress(BrokenPipeError):  # it has ended already: its status says why
            process.stdin.write(order)
            process.stdin.flush()
        while not is_read.acquire(timeout=POLL):
            check()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        return found[0] if found else ""

    def _read(self, name: str, found: str, status: int) -> Any:
        memory = f"the {self.limits.memory / MEGABYTE:,.0f} MB of memory that a request may take"
        hint = "ask for less, or start the server with a larger --max-memory"
        if not found and status in NO_MEMORY:
            raise Refusal(422, f"the answer needs more than {memory}", hint)
        if not found:
            msg = f"the process for {name!r} ended with status {status}"
            raise RuntimeError(msg)
        told = json.loads(found)
        if told["event"] == "failed":
            place = {key: told[key] for key in ("line", "column") if key in told}
            kind = CorpusError if place else SapwoodError
            raise kind(told["error"], hint=told["hint"], **place)
        if told["event"] == "memory":
            raise Refusal(422, f"the answer needs more than {memory}", hint)
        return told["answer"]

    def stop(self) -> None:
        """Kill every process; none can be started any more."""
        with self._lock:
            self._is_stopped = True
            running = list(self._running)
        for process in running:
            process.kill()
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)


# -- in the process -------------------------------------------------------------------------------


def identify(family: str, **size: Any) -> Any:
    """Whether a family of models can be learnt from moments, as a report."""
    from sapwood.report import identify_family

    return identify_family(family, **size).to_dict()


def identify_table(words: int, states: int, length: int) -> Any:
    """Deficits of all families and moments at one size."""
    from sapwood.identify.size import identify_size

    return {"rows": identify_size(words, states, length)}


def check_upload(data: str, trees: str) -> Any:
    """Check the treebank in a file, and write its good trees to another file."""
    from sapwood.corpora.formats import write_trees
    from sapwood.web.model_store import LEAST_TREES, check_treebank

    report, found = check_treebank(Path(data).read_bytes())
    if len(found) >= LEAST_TREES:
        write_trees(found, trees)
    return report


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "identify": identify,
    "identify/table": identify_table,
    "upload": check_upload,
}


def main() -> None:
    """Call the function that the order on stdin names, and print its result."""
    order = json.loads(sys.stdin.readline())
    _thread.start_new_thread(end_with_server, (order["folder"],))
    limit_memory(order["memory"])
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    try:
        tell("done", answer=FUNCTIONS[order["function"]](**order["arguments"]))
    except SapwoodError as error:
        tell("failed", **explain(error))
    except MemoryError:
        os.write(
            1, OUT_OF_MEMORY
        )  # a constant, since there may be no memory left to build a message
        os._exit(0)
    sys.stdout.close()
    os._exit(0)  # at once, without waiting for the thread that reads stdin


if __name__ == "__main__":
    main()
