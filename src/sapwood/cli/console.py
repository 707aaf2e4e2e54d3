"""What commands write on stderr: lines, numbered phases, and progress.

Every write goes through one object, so that the changing line of a terminal is wiped before
anything else is written. Without a terminal, a plain line every half minute shows the progress.
Nothing heavy is imported here.
"""

from __future__ import annotations

import _thread
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, RLock
from time import perf_counter, sleep
from typing import IO, Any

from sapwood.core.compiling import compile_watchers
from sapwood.core.errors import count
from sapwood.core.progress import Event, listening, step

FAILED = 1  # the exit status of a command that could not do its work
PERIOD = 0.2  # seconds between two drawings, and before a step is shown
LOADING_PERIOD = 1.0  # seconds before a line for a command that has reported nothing
PLAIN_PERIOD = 30.0  # seconds between two lines where there is no terminal
LEAST_SHARE, LEAST_SECONDS = 0.005, 1.0  # that must be done before the time left is estimated
USUAL_WIDTH = 80  # characters of a terminal of unknown size
WIPE = "\r\x1b[K"
LOADING = Event("loading ...")  # what a command does until it reports a step or writes something


class Display:
    """Shows events on stderr.

    Parameters
    ----------
    clock
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock = clock
        self.is_open = False  # whether events are shown
        self.is_live = True  # whether a changing line may be shown on a terminal
        self.is_silent = False
        self.lock = RLock()
        self._overlay, self._overlaid = "", 0.0  # shown instead of any progress, and since when
        self.pause = 0.0  # seconds of work that belongs to no step, such as compiling
        self._event: Event | None = None
        self._began: list[tuple[float, float]] = []  # of the steps in work: time, and `pause` then
        self._share = (0.0, 0.0)  # when the step with a total began, and its largest fraction done
        self._drawn, self._last, self._last_plain = "", 0.0, 0.0
        self._wake: Condition | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Show the progress of the work inside; the line is cleared at the end in any case."""
        self.is_open = True
        if is_terminal(sys.stderr) and not _is_pipe(sys.stdout):  # which may end on the terminal
            with self.lock:
                self._event, self._began = LOADING, [(self.clock(), self.pause)]
                self._start_ticking()
        try:
            with listening(self.listen):
                yield
        finally:
            with self.lock:
                self.is_open, self._event, self._began = False, None, []
                self.wipe()

    def listen(self, event: Event) -> None:
        """Take an event of progress, and show it."""
        if not self.is_open:
            return  # an event of a step that ended after the command
        with self.lock:
            self.end_loading()
            now, depth = self.clock(), event.depth - event.is_over
            if not self._began:
                self._last_plain = now
            del self._began[depth:]
            self._began += [(now, self.pause)] * (depth - len(self._began))
            self._event = event.outer if event.is_over else event
            if self._event is None:
                self.wipe()
                return
            self.refresh()
            self._start_ticking()

    def line(self, text: str) -> None:
        """Write a whole line."""
        with self.lock:
            self.end_loading()
            self.wipe()
            self._write(text + "\n")

    def end_loading(self) -> None:
        """End the line that says that the command is loading."""
        with self.lock:
            if self._event is LOADING:
                self._event, self._began = None, []
                self.wipe()

    def wipe(self) -> None:
        """Clear the changing line, if there is one."""
        with self.lock:
            if self._drawn:
                self._drawn = ""
                self._write(WIPE)

    def overlay(self, text: str) -> None:
        """Show a text and its seconds on a terminal instead of any progress; empty ends that."""
        with self.lock:
            self._overlay, self._overlaid = text, self.clock()
            if text:
                self.refresh(at_once=True)
                self._start_ticking()
            else:
                self.wipe()

    def refresh(self, *, at_once: bool = False) -> None:
        """Draw the line of progress again if its period is over."""
        with self.lock:
            now = self.clock()
            if is_terminal(sys.stderr) and self.is_live:
                began = self._began[0][0] if self._began else self._overlaid
                wait = LOADING_PERIOD if self._event is LOADING else PERIOD
                if at_once or (now - self._last >= PERIOD and now - began >= wait):
                    self._draw(now)
            elif self._event and not self.is_silent and now - self._last_plain >= PLAIN_PERIOD:
                self._last_plain = now
                self._write(f"    {self.text(now)}\n")

    def _draw(self, now: float) -> None:
        seconds = in_time(now - self._overlaid) if now - self._overlaid >= 1 else ""
        text = f"{self._overlay}  {seconds}".rstrip() if self._overlay else ""
        text = text or (self.text(now) if self._event else "")
        if self.is_silent or not text or text == self._drawn:
            return
        self._last, self._drawn = now, text
        self._write(WIPE + text[: _width(sys.stderr) - 1])

    def text(self, now: float) -> str:
        """The event in words, with the fraction done and the remaining time."""
        event = self._event
        assert event is not None
        levels = in_words(event)
        known = next((k for k, part in enumerate(event.path) if part.total), None)
        began, paused = self._began[-1 if known is None else known]
        seconds = now - began - (self.pause - paused)
        share = event.share
        if share is None:
            has_rate = event.unit and event.total is None and event.done and seconds > 0
            rate = f"{event.done / seconds:,.0f}/s" if has_rate else in_time(seconds)
            return "  ".join([*levels, rate])
        if self._share[0] == began:
            share = max(share, self._share[1])  # between two parts it falls for a moment
        self._share = began, share
        levels.append(f"{100 * share:.0f} %")
        if share >= LEAST_SHARE and seconds >= LEAST_SECONDS:
            levels.append(f"about {in_time(seconds * (1 - share) / share)} left")
        return "  ".join(levels)

    def _write(self, text: str) -> None:
        try:
            print(text, end="", file=sys.stderr, flush=True)
        except OSError:  # stderr is closed: the work goes on
            abandon(sys.stderr)

    def _start_ticking(self) -> None:
        """Start the thread that redraws between events."""
        if self._wake is None:
            self._wake = Condition(self.lock)
            _thread.start_new_thread(self._tick, (self._wake,))  # not counted among our threads
        self._wake.notify()

    def _tick(self, wake: Condition) -> None:
        while True:
            with wake:
                wake.wait_for(lambda: self._event is not None or self._overlay)
                self.refresh()
            sleep(PERIOD)

    def forget(self) -> None:
        """Start again in a fork, which has none of our threads and shows nothing of its own."""
        self.__init__(self.clock)  # type: ignore[misc]
        self.is_silent = True


display = Display()
os.register_at_fork(after_in_child=display.forget)


@contextmanager
def data_on_stdout(out: Path | None, source: str) -> Iterator[None]:
    """Keep progress apart from data that a command writes to stdout all the time.

    A terminal that shows the data, or where they are typed, shows no progress. A pipe may end on
    the same terminal, where a changing line would be glued to the data: whole lines are written
    then.
    """
    before = display.is_live, display.is_silent
    display.end_loading()
    is_typed = source == "-" and sys.stdin.isatty()
    if is_typed or (out is None and sys.stdout.isatty()):
        display.is_silent = True
    elif out is None and not stat.S_ISREG(_mode(sys.stdout)):
        display.is_live = False
    try:
        yield
    finally:
        display.is_live, display.is_silent = before


def in_words(event: Event) -> list[str]:
    """The steps of an event: what each is, and the numbers of the parts in work.

    Examples
    --------
    >>> outer = Event("network 1 of 2", 80, 200)
    >>> in_words(Event("network", 11.4, 15, "pass", outer))
    ['network 1 of 2: pass 12 of 15']
    """
    found: list[str] = []
    for one in event.path:
        part = _part(one)
        is_said = bool(found) and found[-1].startswith(one.what)
        if one.what and not is_said:
            found.append(f"{one.what}: {part}" if part else one.what)
        elif part and found:
            found[-1] += f"{', ' if ': ' in found[-1] else ': '}{part}"
    return found


def _part(event: Event) -> str:
    """The number of the current part, such as `pass 12 of 15`; empty for parts without a name."""
    if not event.unit or event.total == 1:
        return ""
    number = int(event.done) + 1
    if event.total is None:
        return f"{event.unit} {number:,}"
    return f"{event.unit} {min(number, int(event.total)):,} of {int(event.total):,}"


def in_time(seconds: float) -> str:
    """Format a duration in seconds for people.

    Examples
    --------
    >>> in_time(7.4), in_time(200), in_time(5000)
    ('7 s', '3 min 20 s', '1 h 23 min')
    """
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def is_terminal(stream: IO[str]) -> bool:
    """Whether a line there can be changed."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _is_pipe(stream: IO[str]) -> bool:
    return stat.S_ISFIFO(_mode(stream)) or stat.S_ISSOCK(_mode(stream))


def _mode(stream: IO[str]) -> int:
    """The kind of file of a stream, as in `st_mode`; 0 for none."""
    try:
        return os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return 0


def _width(stream: IO[str]) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


def abandon(stream: IO[str]) -> None:
    """Point a stream to nowhere, so that flushing it at exit cannot fail again."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # not a real file: nothing will be flushed
        pass


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


def echo(text: str) -> None:
    """Write one line for people on stderr; a closed stderr does not end the work."""
    display.line(clean_controls(text))


def warn(doubts: Iterable[tuple[str, str]]) -> None:
    """Write warnings, each with its hint."""
    for message, hint in doubts:
        echo(f"warning: {message}")
        echo(f"hint: {hint}")


def is_colourful(stream: IO[str]) -> bool:
    """Whether to write colours: to a terminal, unless the environment has NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@dataclass
class Phases:
    """Numbered phases of a long run: `1/3 reading  3,396 trees  81,793 words  1.0 s`."""

    total: int
    n_done: int = 0

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


def echo_encoder_trial(found: Mapping[str, Any], score: str, key: str) -> None:
    """Write the scores of two short trainings, with and without a pretrained encoder."""
    verdict = "used" if found["is_taken"] else "left out: it does not help on this treebank"
    echo(
        f"    {found['name']}: {score} {found[f'{key}_with']:.2f} with it and "
        f"{found[f'{key}_without']:.2f} without, on held-out sentences: {verdict}"
    )


def echo_seconds(steps: Mapping[str, float]) -> None:
    """Write the seconds of the steps of a phase, if it has any, on a line below it."""
    if steps:
        echo("    " + "  ".join(f"{name} {seconds:.1f} s" for name, seconds in steps.items()))


class CompileNotice:
    """Watches the compiler: a changing line on a terminal, else one at the start and the end."""

    def __init__(self, total: int | None = None) -> None:
        self.total = total
        self.done: set[str] = set()
        self.seconds = 0.0
        self._began: dict[str, float] = {}

    def watch(self, name: str, is_start: bool) -> None:
        """Record that the compilation of a kernel starts or ends."""
        with display.lock:  # kernels are compiled in any thread
            if is_start:
                self._began[name] = perf_counter()
                self._show(name)
            else:
                self.done.add(name)
                seconds = perf_counter() - self._began.pop(name, perf_counter())
                self.seconds += seconds
                display.pause += seconds  # so that compiling does not count as work of a step
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
    """Show on stderr when a command compiles a kernel."""
    compile_watchers.append(notice.watch)
