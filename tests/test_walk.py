"""The walk through the sources: what counts as a call, and as a switch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools import walk as tool

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two rooms: `start` calls `step` in a loop, which calls `leaf` next to it."""
    package = tmp_path / "toywalk"
    for room, text in {
        "lower": "def step(x):\n    return leaf(x)\n\ndef leaf(x):\n    return x + 1\n",
        "upper": (
            "from toywalk.lower.code import leaf, step\n"
            "def start(n):\n"
            "    total = sum(step(x) for x in range(n))\n"
            "    return sorted([total], key=leaf) and finish(total)\n"
            "def finish(x):\n    return leaf(x)\n"
        ),
    }.items():
        (package / room).mkdir(parents=True)
        (package / room / "code.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return package


def test_every_call_is_followed_once_in_order(toy: Path) -> None:
    from toywalk.upper.code import start

    recorder = tool.Recorder(toy)
    with recorder.recording():
        assert start(3) == 7
    calls = [f"{caller.function} {callee.function}" for caller, callee in recorder.calls]
    # The generator stands in start, and sorted is not ours: leaf is called by start.
    assert calls == ["start step", "step leaf", "start leaf", "start finish", "finish leaf"]


def test_switches_are_moves_of_the_reader() -> None:
    upper = [tool.Place("upper/code.py", name) for name in ("start", "finish")]
    lower = [tool.Place("lower/code.py", name) for name in ("step", "leaf")]
    calls = [
        (upper[0], lower[0]),  # down
        (lower[0], lower[1]),  # stays
        (upper[0], lower[1]),  # back up, and down
        (upper[0], upper[1]),  # up
    ]
    found = tool.figures(calls)
    assert found["file_switches"] == found["room_switches"] == 4
    assert (found["files"], found["rooms"], found["functions"], found["calls"]) == (2, 2, 4, 4)


def test_files_of_one_room_are_different_files() -> None:
    one, other = tool.Place("models/a.py", "f"), tool.Place("models/b.py", "g")
    found = tool.figures([(one, other)])
    assert (found["file_switches"], found["room_switches"]) == (1, 0)


@pytest.mark.parametrize(
    ("file", "room"),
    [
        ("constituency/parse/kernels/coarse.py", "constituency/parse"),
        ("constituency/parse/charts.py", "constituency/parse"),
        ("dependency/report.py", "dependency/report"),
        ("core/kernels/adagrad.py", "core"),
        ("cli/lm/train.py", "cli"),
        ("core/progress.py", "core"),
        ("report.py", "report.py"),
    ],
)
def test_rooms_are_folders_of_families_and_shared_folders(file: str, room: str) -> None:
    assert tool.Place(file, "f").room == room


def test_a_page_is_cut_at_its_marks() -> None:
    table = tool.page_table({"one": {"file_switches": 3, "files": 2, "rooms": 1}})
    assert table.endswith("| one | 3 | 2 | 1 |\n")
    page = f"before\n\n{tool.BEGIN}\n{table}{tool.END}\nafter\n"
    assert tool.between_marks(page)[1] == table
    assert "".join(tool.between_marks(page)) == page


@pytest.mark.compiled
def test_the_architecture_page_has_the_numbers_of_the_walk() -> None:
    tool = [sys.executable, ROOT / "tools" / "walk.py", "--check"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stdout + done.stderr
