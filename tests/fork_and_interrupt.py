"""Run commands in forks of a process that has everything loaded, and interrupt them.

One JSON request a line on stdin: `argv`, `folder` (to run in), `delay` (seconds until Ctrl-C; null
for never), `terminal` (whether Ctrl-C is typed there, or sent as a signal). One answer a line on
stdout: `status` (as a shell says it), `seconds`, `text` (what was written).
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

CTRL_C = b"\x03"
PATIENCE = 60.0  # seconds, on a crowded machine


def load_everything() -> None:
    """Import what commands import, and load every compiled kernel."""
    from sapwood.cli import main
    from sapwood.cli.warming import warm_up

    warm_up()
    _ = main


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Fork, wait, interrupt, and read what comes."""
    started, says_started = os.pipe()
    pid, terminal = pty.fork()
    if pid == 0:
        run_command(request, says_started)
    os.close(says_started)
    os.read(started, 1)  # on a crowded machine the fork alone may take longer than the delay
    os.close(started)
    began = perf_counter()
    text, interrupt_at = b"", began + (PATIENCE if request["delay"] is None else request["delay"])
    while perf_counter() - began < 2 * PATIENCE:
        wait = max(0.0, interrupt_at - perf_counter())
        ready, _, _ = select.select([terminal], [], [], min(wait, PATIENCE))
        if ready:
            try:
                text += os.read(terminal, 1 << 16)
            except OSError:  # the other side is closed
                break
        elif perf_counter() >= interrupt_at:
            if request["terminal"]:
                os.write(terminal, CTRL_C)
            else:
                os.kill(pid, signal.SIGINT)
            interrupt_at = began + 2 * PATIENCE
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {
        "status": code if code >= 0 else 128 - code, "seconds": perf_counter() - began,
        "text": text.decode(errors="replace"),
    }  # fmt: skip


def run_command(request: dict[str, Any], says_started: int) -> None:
    """Be the command, as a fresh process would be, and write a byte when it starts."""
    from sapwood.__main__ import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    sys.argv = ["sapwood", *request["argv"]]
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, closefd=False) for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    os.write(says_started, b"s")
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException:
        traceback.print_exc()
        os._exit(99)


def serve() -> None:
    load_everything()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    serve()
