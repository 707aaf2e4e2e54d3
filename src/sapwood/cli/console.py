"""Streams, errors, phases and interrupts of all commands.

Data goes to stdout, everything else to stderr. Nothing heavy is imported here.
"""

from __future__ import annotations

import _thread
import errno
import io
import os
import re
import select
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from pathlib import Path
from time import perf_counter, sleep
from types import FrameType
from typing import IO, Any

import typer
from typer.core import TyperGroup

from sapwood.cli.display import abandon, display, is_terminal
from sapwood.core.compiling import compile_watchers
from sapwood.core.errors import SapwoodError, count
from sapwood.core.outputs import remove_unfinished
from sapwood.progress import step

FAILED = 1
INTERRUPTED = 130
MEMORY_HINT = "give less data, fewer --states or fewer --jobs; for parse, a lower --memory-limit"


# Controls of terminals but for tabs and line ends, and the colours that drawings have.
_CONTROL = re.compile(r"\x1b\[(?:0|1;36|2|32|36)m|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean_controls(text: str, *, colours: bool = False) -> str:
    r"""Text whose control characters are written as escapes, so that a terminal does not obey them.

    Names of files, words, labels and records of models come from files and may hold any character.

    Parameters
    ----------
    colours
        Whether the colours of Sapwood's own drawings stay.

    Examples
    --------
    >>> clean_controls("a\x1b]0;title\x07\tb\n")
    'a\\x1b]0;title\\x07\tb\n'
    """

    def escape(found: re.Match[str]) -> str:
        is_colour = len(found[0]) > 1
        return found[0] if colours and is_colour else repr(found[0])[1:-1]

    return _CONTROL.sub(escape, text)


class TerminalText(io.TextIOWrapper):
    """Standard output of a terminal, without control characters that come from files."""

    plain: io.TextIOWrapper  # the stream before, which closes the buffer of both if it is freed

    def write(self, text: str) -> int:
        """Write text without the control characters that a terminal would obey."""
        return super().write(clean_controls(text, colours=True))


def set_up_output() -> None:
    """Make stdout and stderr UTF-8, whatever the locale; names that are not UTF-8 are escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        terminal = TerminalText(
            sys.stdout.buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        terminal.plain = sys.stdout
        sys.stdout = terminal


def echo(text: str) -> None:
    """Write one line for people, on stderr; where nobody can read it, the work goes on."""
    display.line(clean_controls(text))


def warn(doubts: Iterable[tuple[str, str]]) -> None:
    """Write warnings, each with its hint."""
    for message, hint in doubts:
        echo(f"warning: {message}")
        echo(f"hint: {hint}")


def is_colourful(stream: IO[str]) -> bool:
    """Whether colours are wanted there: a terminal, and no NO_COLOR in the environment."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Boundary(TyperGroup):
    """The group of all commands: turns what goes wrong into one line and an exit status."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the arguments; `--help` and `--version` print here, perhaps into a broken pipe."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            abandon_stdout()
            raise typer.Exit(0) from None
        except OSError as error:
            fail(error)
            raise typer.Exit(FAILED) from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command; usage errors are left to Typer."""
        note_options(self)
        try:
            with display.listening():
                result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a failure can still be handled
        except BrokenPipeError:
            abandon_stdout()
            raise typer.Exit(0) from None  # whoever reads us has seen enough: not a failure
        except KeyboardInterrupt:
            echo("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if was_interrupted():  # libraries turn the interrupt into errors of their own
                echo("interrupted")
                raise typer.Exit(INTERRUPTED) from None
            # Usage errors have no base class that every supported version of Typer exports.
            is_usage = isinstance(error, (typer.Exit, typer.Abort)) or hasattr(error, "exit_code")
            if ctx.params.get("debug") or is_usage:
                raise
            fail(error)
            raise typer.Exit(FAILED) from None
        return result


def fail(error: Exception) -> None:
    """Write an error and its hint on stderr."""
    for line in error_lines(error):
        echo(line)
    # Failures of all other files have a name by the time they get here.
    if isinstance(error, OSError) and error.filename is None and error.strerror is not None:
        abandon_stdout()


def error_lines(error: Exception) -> list[str]:
    """The message and the hint of an error, one line each."""
    hint: str | None
    if isinstance(error, SapwoodError):
        message, hint = str(error), error.hint
    elif isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        message, hint = "out of memory", MEMORY_HINT
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename or 'cannot write to stdout'}: {error.strerror}"
        hint = "check the path, the permissions and the room on the disk"
    else:
        message = f"unexpected {type(error).__name__}: {error}"
        hint = "this is a fault of Sapwood; `sapwood --debug COMMAND ...` shows where it happened"
    lines = [f"error: {message}", f"hint: {hint}"] if hint else [f"error: {message}"]
    return [name_options(" ".join(line.split())) for line in lines]


# Parameters whose names would not be understood on the command line, as options; those of all
# commands are added when one is run.
_OPTIONS = {"n_states": "--states", "n_blocks": "--blocks", "n_jobs": "--jobs"}


def name_options(text: str) -> str:
    """A message of the library in which parameters have the names of options: `--min-count`."""
    pattern = "|".join(rf"(?<![\w'./-]){re.escape(name)}(?![\w'=/(-]|\.\w)" for name in _OPTIONS)
    return re.sub(pattern, lambda found: _OPTIONS[found[0]], text)


def note_options(command: Any) -> None:
    """Remember the options of a command, or of all commands of a group."""
    for one in command.params:
        if "_" in one.name and (long := [name for name in one.opts if name.startswith("--")]):
            _OPTIONS[one.name] = long[0]
    for part in getattr(command, "commands", {}).values():
        note_options(part)


def abandon_stdout() -> None:
    """Point stdout to nowhere, so that flushing it at exit cannot fail again."""
    abandon(sys.stdout)


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """One line instead of Python's two with a line of source, and a line for the hint, if any."""
    text, hint = getattr(message, "message", str(message)), getattr(message, "hint", None)
    echo(f"warning: {name_options(' '.join(text.split()))}")
    if hint:
        echo(f"hint: {hint}")


class Phases:
    """Numbered phases of a long run: `1/3 reading  3,396 trees  81,793 words  1.0 s`."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.n_done = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[list[str]]:
        """Time one phase; what is appended to the list stands between its name and its seconds."""
        title = f"{self.n_done + 1}/{self.total} {name}"
        notes: list[str] = []
        started = perf_counter()
        with step(title):
            yield notes
        self.n_done += 1
        echo("  ".join([title, *notes, f"{perf_counter() - started:.1f} s"]))

    def save(self, model: Any, out: Path, *, force: bool) -> None:
        """Write a model to its file, as a phase."""
        with self.phase("writing") as notes:
            model.save(out, force=force)
            notes.append(str(out))


def echo_seconds(steps: Mapping[str, float]) -> None:
    """Write the seconds of the steps of a phase, if it has any, on a line below it."""
    if steps:
        echo("    " + "  ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items()))


_interrupted = threading.Event()
_DROPPED = b"\0"  # no signal has this number
GRACE = 3.0  # seconds that an interrupted command has to end by itself


def handle_interrupts() -> None:
    """Make sure that Ctrl-C ends the program within seconds, whatever it is doing.

    Python raises `KeyboardInterrupt` between two byte codes, of which a kernel that runs for long
    has none; and call-backs, such as those of garbage collection, drop exceptions. So a thread of
    its own hears of the signal at once. It raises exceptions that were dropped again, and ends the
    process if it is still there after a while.
    """
    reading, writing = os.pipe()

    def hear_of_dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            os.write(writing, _DROPPED)
        else:
            sys.__unraisablehook__(unraisable)

    def interrupt(number: int, frame: FrameType | None) -> None:
        _interrupted.set()
        raise KeyboardInterrupt

    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    sys.unraisablehook = hear_of_dropped
    _thread.start_new_thread(_await_interrupt, (reading,))  # not counted among our threads
    signal.signal(signal.SIGINT, interrupt)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed: what went wrong after that is no fault of anybody."""
    return _interrupted.is_set()


def _await_interrupt(reading: int) -> None:
    end = inf
    while True:
        wait = max(0.0, end - perf_counter()) if end < inf else None
        if not select.select([reading], [], [], wait)[0]:
            remove_unfinished()
            os._exit(INTERRUPTED)
        found = os.read(reading, 1)
        if found == _DROPPED:
            sleep(0.05)  # until the call-back is over
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        elif found == bytes([signal.SIGINT]):
            end = min(end, perf_counter() + GRACE)


class CompileNotice:
    """Watches the compiler: a changing line on a terminal, else one at the start and the end."""

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.done: set[str] = set()
        self.seconds = 0.0
        self._began: dict[str, float] = {}

    def watch(self, name: str, is_start: bool) -> None:
        """Take note that the compilation of a kernel starts or ends."""
        with display.lock:  # kernels are compiled in any thread
            if is_start:
                self._began[name] = perf_counter()
                self._show(name)
            else:
                self.done.add(name)
                seconds = perf_counter() - self._began.pop(name, perf_counter())
                self.seconds += seconds
                display.pause += seconds  # no step is slower for it
                if not self._began:
                    display.overlay("")

    def _show(self, name: str) -> None:
        done = self.done - {name}  # some are compiled for two types of numbers
        place = f"{len(done) + 1}" + (f" of {self.total}" if self.total else "")
        if is_terminal(sys.stderr):
            display.overlay(f"compiling once for this machine: kernel {place}, {name} ...")
        elif not self.done and len(self._began) == 1:
            echo("compiling kernels, once for this machine ...")

    def finish(self) -> None:
        """Write how many kernels were compiled, if any."""
        if self.done:
            echo(f"compiled {count(len(self.done), 'kernel')} in {self.seconds:.1f} s")


notice = CompileNotice()


def announce_compiling() -> None:
    """Let the user know whenever a command has to compile something."""
    compile_watchers.append(notice.watch)
