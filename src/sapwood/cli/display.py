"""Lines on stderr, and on a terminal one line of progress that changes while work runs.

Every write goes through one object, so that the changing line is wiped before anything else is
written. Off a terminal, a plain line tells every half minute how far the work is.
"""

from __future__ import annotations

import _thread
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, RLock
from time import perf_counter, sleep
from typing import IO

from sapwood.progress import Event, listening

PERIOD = 0.2  # seconds between two drawings, and before a step is worth showing
PLAIN_PERIOD = 30.0  # seconds between two lines where there is no terminal
LEAST_SHARE, LEAST_SECONDS = 0.005, 1.0  # that must be done before the time left is estimated
USUAL_WIDTH = 80  # characters of a terminal that does not tell its size
WIPE = "\r\x1b[K"


class Display:
    """Shows events on stderr.

    Parameters
    ----------
    clock
        Tells the seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self.clock = clock
        self.is_open = False  # whether events are taken notice of
        self.is_live = True  # whether a changing line may be shown on a terminal
        self.is_silent = False
        self.lock = RLock()
        self._overlay, self._overlaid = "", 0.0  # shown instead of any progress, and since when
        self.pause = 0.0  # seconds of work that belongs to no step, such as compiling
        self._event: Event | None = None
        self._began: list[tuple[float, float]] = []  # of the steps in work: time, and `pause` then
        self._share = (0.0, 0.0)  # when the step with a total began, and the largest share of it
        self._drawn, self._last, self._last_plain = "", 0.0, 0.0
        self._wake: Condition | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Show the progress of the work inside; the line is cleared at the end in any case."""
        self.is_open = True
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
            return  # of a step that ended late, such as one whose error was just shown
        with self.lock:
            now, depth = self.clock(), len(event.path) - event.is_over
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
            self.wipe()
            self._write(text + "\n")

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
                if at_once or (now - self._last >= PERIOD and now - began >= PERIOD):
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
        """The event in words, with the share that is done and the time that is left."""
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
        except OSError:  # nobody can read it: the work goes on
            abandon(sys.stderr)

    def _start_ticking(self) -> None:
        """Let a thread draw while nothing is heard of the work."""
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
    is_typed = source == "-" and sys.stdin.isatty()
    if is_typed or (out is None and sys.stdout.isatty()):
        display.is_silent = True
    elif out is None and not _is_file(sys.stdout):
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


def _is_file(stream: IO[str]) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


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
