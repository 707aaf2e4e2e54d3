"""Says that kernels are being compiled: once for a machine, and too long to be silent about."""

from __future__ import annotations

import sys
from threading import Lock
from time import perf_counter

from sapwood.cli.console import echo, wipe
from sapwood.errors import count
from sapwood.kernels import compile_watchers


class CompileNotice:
    """Watches the compiler: a changing line on a terminal, else one at the start; one at the end.

    Parameters
    ----------
    total
        How many kernels there are, where all of them will be compiled.
    """

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.done: set[str] = set()
        self.seconds = 0.0
        self._began: dict[str, float] = {}
        self._lock = Lock()  # kernels are compiled in any thread

    def watch(self, name: str, is_start: bool) -> None:
        """Hear that a kernel is about to be compiled, or is ready."""
        with self._lock:
            if is_start:
                self._began[name] = perf_counter()
                self._show(name)
            else:
                self.done.add(name)
                self.seconds += perf_counter() - self._began.pop(name, perf_counter())
                if sys.stderr.isatty():
                    wipe()

    def _show(self, name: str) -> None:
        done = self.done - {name}  # some are compiled for two types of numbers
        place = f"{len(done) + 1}" + (f" of {self.total}" if self.total else "")
        if sys.stderr.isatty():
            text = f"\rcompiling once for this machine: kernel {place}, {name} ..."
            print(text, end="", file=sys.stderr, flush=True)
        elif not self.done and len(self._began) == 1:
            echo("compiling kernels, once for this machine ...")

    def finish(self) -> None:
        """Say how much there was to compile, if anything."""
        if self.done:
            echo(f"compiled {count(len(self.done), 'kernel')} in {self.seconds:.1f} s")


notice = CompileNotice()


def announce_compiling() -> None:
    """Let the user know whenever a command has to compile something."""
    compile_watchers.append(notice.watch)
