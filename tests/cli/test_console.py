"""The plumbing of the command line: errors and phases."""

from __future__ import annotations

import json
import re

import pytest

import sapwood as sw
from sapwood.cli.console import Phases, clean_controls, echo, error_lines, show_warning
from sapwood.constituency.report.training import Meter
from sapwood.core.errors import CorpusError, FewDataWarning, SapwoodError
from sapwood.report import to_json


def test_phases_are_numbered_and_timed(capsys: pytest.CaptureFixture[str]) -> None:
    phases = Phases(2)
    with phases.phase("reading") as notes:
        notes.append("3 trees")
    with phases.phase("training"):
        pass
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert re.fullmatch(r"1/2 reading  3 trees  \d+\.\d s", first)
    assert re.fullmatch(r"2/2 training  \d+\.\d s", second)
    assert out == ""


def test_a_failed_phase_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no"), Phases(1).phase("reading"):
        raise ValueError("no")  # noqa: EM101
    assert capsys.readouterr().err == ""


def test_meter_has_the_keys_of_the_report() -> None:
    figures = Meter().as_dict()
    assert set(figures) == {"seconds", "cpu_seconds", "peak_memory_mb"}
    assert figures["peak_memory_mb"] > 1


@pytest.mark.parametrize(
    ("error", "lines"),
    [
        (SapwoodError("bad", hint="do\nthis"), ["error: bad", "hint: do this"]),
        (SapwoodError("bad"), ["error: bad"]),
        (CorpusError("bad", file="f", line=2, column=3), ["error: f:2:3: bad"]),
    ],
)
def test_errors_are_one_line_each(error: SapwoodError, lines: list[str]) -> None:
    assert error_lines(error) == lines


def test_parameters_are_named_as_options() -> None:
    error = SapwoodError("n_states 9 is too many", hint="lower n_states, or see my_n_states.txt")
    assert error_lines(error) == [
        "error: --states 9 is too many", "hint: lower --states, or see my_n_states.txt",
    ]  # fmt: skip


def test_os_errors_name_the_file() -> None:
    assert error_lines(FileNotFoundError(2, "No such file", "x"))[0] == "error: x: No such file"


def test_json_has_no_infinities() -> None:
    item = {"a": [float("inf"), float("nan"), 1.5], "b": ("é", None, True)}
    assert json.loads(to_json(item)) == {"a": [None, None, 1.5], "b": ["é", None, True]}


def test_warnings_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_warning(UserWarning("two\nlines"), UserWarning, "file.py", 3)
    assert capsys.readouterr().err == "warning: two lines\n"
    show_warning(FewDataWarning("one tree only", "give more"), FewDataWarning, "file.py", 3)
    assert capsys.readouterr().err == "warning: one tree only\nhint: give more\n"


def test_messages_hold_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    echo("a\x1b[31mb\x9b2Jc\rd\te")
    assert capsys.readouterr().err == "a\\x1b[31mb\\x9b2Jc\\rd\te\n"


def test_drawings_keep_their_own_colours_only() -> None:
    drawn = sw.Tree.parse("(S (X a))").draw(colour=True)
    assert "\x1b[" in drawn
    assert clean_controls(drawn, colours=True) == drawn
    assert "\x1b" not in clean_controls(drawn)
    assert clean_controls("\x1b[8mhidden", colours=True) == "\\x1b[8mhidden"


@pytest.mark.parametrize("error", [MemoryError(), OSError(12, "Cannot allocate memory")])
def test_a_lack_of_memory_is_one_line_with_a_hint(error: Exception) -> None:
    message, hint = error_lines(error)
    assert message == "error: out of memory"
    assert hint.startswith("hint: give less data")
