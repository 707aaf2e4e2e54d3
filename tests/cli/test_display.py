"""Progress as people see it: on a terminal one line that changes, elsewhere a line at times."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import perf_counter, sleep
from types import SimpleNamespace

import pytest

from sapwood.cli.console import LOADING_PERIOD, PLAIN_PERIOD, WIPE, Display, in_time
from sapwood.progress import step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def display(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Display]:
    found = Display(clock)
    monkeypatch.setattr(found, "_start_ticking", lambda: None)
    with found.listening():
        yield found


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    streams = SimpleNamespace(stderr=stream, stdout=io.StringIO())
    monkeypatch.setattr("sapwood.cli.console.sys", streams)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def last(terminal: Terminal) -> str:
    """What the changing line shows."""
    return terminal.getvalue().split("\n")[-1].split(WIPE)[-1]


def test_what_how_far_and_how_long(display: Display, clock: Clock, terminal: Terminal) -> None:
    with step("2/3 training"), step("", total=200) as members:
        members(80, what="network 1 of 2", size=120)
        with step("network", total=15, unit="pass") as passes:
            clock.now += 60
            passes(5)
    assert (
        "2/3 training  network 1 of 2: pass 6 of 15  60 %  about 40 s left" in terminal.getvalue()
    )
    assert "EM" not in terminal.getvalue()


def test_the_line_is_gone_before_anything_else(
    display: Display, clock: Clock, terminal: Terminal
) -> None:
    with step("reading", total=4, unit="tree") as advance:
        clock.now += 2
        advance(1)
        assert last(terminal) == "reading: tree 2 of 4  25 %  about 6 s left"
        display.line("    em 16  3.0 s")
        assert terminal.getvalue().endswith(f"{WIPE}    em 16  3.0 s\n")
    assert last(terminal) == ""


def test_seconds_go_on_while_something_is_compiled(
    display: Display, clock: Clock, terminal: Terminal
) -> None:
    with step("reading", total=4, unit="tree") as advance:
        clock.now += 2
        advance(1)
        display.overlay("kernel 1, forest.prune ...")
        assert last(terminal) == "kernel 1, forest.prune ..."
        clock.now += 3
        display.refresh()  # as the thread that ticks does
        assert last(terminal) == "kernel 1, forest.prune ...  3 s"
        display.overlay("")
        assert last(terminal) == ""
        clock.now += 1
        display.refresh()
        assert last(terminal).startswith("reading: tree 2 of 4")


def test_the_clock_ticks_for_a_text_without_a_step(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.setattr("sapwood.cli.console.PERIOD", 0.01)
    seconds = count(100)
    display = Display(lambda: next(seconds))  # each look at the clock is a second later
    display.overlay("kernel 1 ...")
    deadline = perf_counter() + 10
    while len(re.findall(r"kernel 1 \.\.\.  \d+ s", terminal.getvalue())) < 3:
        assert perf_counter() < deadline
        sleep(0.01)
    display.overlay("")
    assert last(terminal) == ""


def test_steps_of_a_moment_show_nothing(display: Display, clock: Clock, terminal: Terminal) -> None:
    with step("reading", total=4) as advance:
        clock.now += 0.1
        advance(2)
    assert terminal.getvalue() == ""


def test_seconds_pass_while_nothing_is_heard(
    display: Display, clock: Clock, terminal: Terminal
) -> None:
    with step("decomposing"):
        clock.now += 7
        display.refresh()
        assert last(terminal) == "decomposing  7 s"


def test_a_command_that_reports_nothing_yet_is_loading(
    clock: Clock, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    display = Display(clock)
    monkeypatch.setattr(display, "_start_ticking", lambda: None)
    with display.listening():
        clock.now += LOADING_PERIOD - 0.1
        display.refresh()
        assert terminal.getvalue() == ""  # most commands load faster
        clock.now += 1.2
        display.refresh()
        assert last(terminal) == "loading ...  2 s"
        with step("1/3 reading"):
            assert last(terminal) == ""
            clock.now += 3
            display.refresh()
            assert last(terminal) == "1/3 reading  3 s"  # without the seconds of loading
        clock.now += 60
        display.refresh()
        assert last(terminal) == ""


@pytest.mark.parametrize("writes", [lambda display: display.line("a line"), Display.end_loading])
def test_loading_ends_with_the_first_output(
    clock: Clock, terminal: Terminal, monkeypatch: pytest.MonkeyPatch,
    writes: Callable[[Display], None],
) -> None:  # fmt: skip
    display = Display(clock)
    monkeypatch.setattr(display, "_start_ticking", lambda: None)
    with display.listening():
        clock.now += 2
        display.refresh()
        writes(display)
        clock.now += 2
        display.refresh()
        assert last(terminal) == ""


def test_nothing_is_shown_of_loading_before_a_pipe(clock: Clock, terminal: Terminal) -> None:
    """It may end on the same terminal, where output would be glued to the line."""
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w") as stdout:
        sys.modules["sapwood.cli.console"].sys.stdout = stdout  # type: ignore[attr-defined]
        display = Display(clock)
        with display.listening():
            clock.now += 2
            display.refresh()
    assert terminal.getvalue() == ""


def test_parts_without_a_name_have_no_rate(
    display: Display, clock: Clock, terminal: Terminal
) -> None:
    with step("training") as advance:
        clock.now += 3
        advance(5000)
        assert last(terminal) == "training  3 s"


def test_compiling_takes_no_time_of_a_step(
    display: Display, clock: Clock, terminal: Terminal
) -> None:
    with step("passes", total=4) as advance:
        clock.now += 50
        display.pause += 48
        advance(1)
        assert last(terminal) == "passes  25 %  about 6 s left"


def test_a_line_never_wraps(display: Display, clock: Clock, terminal: Terminal) -> None:
    with step("x" * 300):
        clock.now += 1
        display.refresh()
        assert len(last(terminal)) == 79


def test_off_a_terminal_a_line_every_half_minute(
    display: Display, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    streams = SimpleNamespace(stderr=stream, stdout=io.StringIO())
    monkeypatch.setattr("sapwood.cli.console.sys", streams)
    with step("2/3 training"), step("network", total=300, unit="pass") as advance:
        for k in range(300):
            clock.now += 1
            advance(k + 1)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 300 / PLAIN_PERIOD
    assert lines[0] == "    2/3 training  network: pass 31 of 300  10 %  about 4 min 30 s left"
    assert WIPE not in stream.getvalue()


def test_late_news_of_failed_steps_are_not_shown(clock: Clock, terminal: Terminal) -> None:
    found = Display(clock)
    with found.listening():
        inner = step("inner")
        inner.__enter__()
    clock.now += 5
    inner.__exit__(None, None, None)
    found.refresh()
    assert terminal.getvalue() == ""


def test_times_in_words() -> None:
    assert [in_time(x) for x in (0.2, 59.6, 61, 3599, 7300)] == [
        "0 s", "1 min 0 s", "1 min 1 s", "59 min 59 s", "2 h 1 min"
    ]  # fmt: skip


SENTENCES = 400


def watch(command: str, env: dict[str, str]) -> str:
    """All that a terminal of 100 columns gets from a shell command."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    run = subprocess.Popen(
        ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
        env=env | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 1 << 16)
        except OSError:  # its last writer has gone
            break
    os.close(master)
    assert run.wait() == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    path = tmp_path / "sentences.txt"
    path.write_text("the dog saw a cat in the garden .\n" * SENTENCES)
    return path


@pytest.mark.parametrize("pipe", ["", " | cat"])
def test_trees_never_share_a_line_with_progress(
    environment: dict[str, str], model: Path, sentences: Path, pipe: str
) -> None:
    """A pipe may end on the very terminal that stderr is."""
    shown = watch(
        f"{sys.executable} -m sapwood parse {model} {sentences} --jobs 1{pipe}", environment
    )
    # of a line that was wiped, such as one about loading, nothing is to be seen
    trees = [line.split(WIPE)[-1] for line in shown.split("\n") if "(NN dog)" in line]
    assert len(trees) == SENTENCES
    assert all(tree.startswith("(") and tree.endswith(")") for tree in trees)


def test_into_a_file_the_terminal_shows_how_far_it_is(
    environment: dict[str, str], model: Path, sentences: Path, tmp_path: Path
) -> None:
    text = sentences.read_text() * 10
    sentences.write_text(text)
    out = tmp_path / "trees.mrg"
    shown = watch(
        f"{sys.executable} -m sapwood parse {model} {sentences} --jobs 1 > {out}", environment
    )
    assert re.search(r"parsing: line [\d,]+ of 4,000  \d+ %", shown), shown
    assert out.read_text().count("\n") == 10 * SENTENCES
    assert shown.split(WIPE)[-1].startswith("4,000 sentences")
