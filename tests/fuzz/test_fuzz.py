"""The first inputs of every reader, and whether the hunt finds what it should."""

from __future__ import annotations

import json
import os
import random
import sys
import time
import warnings
from pathlib import Path

import pytest
from tests.fuzz import hunt, seeds
from tests.fuzz.hunt import portions
from tests.fuzz.readers import READERS, input_of
from tests.programs import run_program

from sapwood.core.errors import CorpusError, SapwoodError
from sapwood.corpora import fetch, formats

N_FAST = 12  # inputs of each reader in the fast suite
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork")


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_what_is_right(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not reader.read(reader.make(random.Random(0), 0), tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_takes_or_refuses_what_is_spoilt(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # strange numbers in a model overflow
        for index in range(N_FAST):
            try:
                reader.read(input_of(reader, 0, index), tmp_path)
            except SapwoodError as error:
                message = str(error)
                assert "\n" not in message


@pytest.mark.slow
def test_ten_thousand_inputs() -> None:
    done = run_program("tests.fuzz.__main__", "--inputs", "10000", "--seed", "1")
    report = json.loads(done.stdout)
    assert not [found["what"] for row in report for found in row["findings"]]
    assert {row["reader"] for row in report} == set(READERS)
    assert sum(row["inputs"] for row in report) >= 10_000
    assert done.returncode == 0


# -- the hunt itself ------------------------------------------------------------------------------


def read_badly(data: bytes, folder: Path) -> None:
    """What a reader must not do, by the first letter of its input."""
    if data[:1] == b"r":
        raise CorpusError("no")
    if data[:1] == b"e":
        raise KeyError(data)
    if data[:1] == b"k":
        os.abort()
    if data[:1] == b"h":
        while True:
            pass
    if data[:1] == b"w":
        time.sleep(3600)
    if data[:1] == b"m":
        bytearray(3 << 30)


PLANTED = """
import tests.fuzz.hunt as hunt
from tests.fuzz import readers
from tests.fuzz.test_fuzz import read_badly
hunt.CPU_SECONDS, hunt.PATIENCE = 0.3, 5.0
hunt.WALL_SECONDS = 3.0 if "{letter}" == "w" else hunt.WALL_SECONDS
def make(rng, n_edits):
    return rng.choice((b"t", b"r", b"{letter}")) + b"-" * 50 if n_edits else b"t"
readers.READERS.clear()
readers.READERS["planted"] = readers.Reader("planted", make, read_badly, 1)
"""


@pytest.mark.parametrize(
    ("letter", "what"),
    [
        ("e", "KeyError at test_fuzz.py"),
        ("k", "SIGABRT"),
        ("h", "hang"),
        pytest.param("w", "waits for ever", marks=pytest.mark.slow),
        ("m", "MemoryError"),
    ],
)
def test_the_hunt_finds_and_keeps_every_kind_of_fault(
    letter: str, what: str, tmp_path: Path
) -> None:
    options = ("--inputs", "8", "--findings", str(tmp_path))
    done = run_program("tests.fuzz.__main__", *options, code=PLANTED.replace("{letter}", letter))
    assert done.returncode == 1, done.stderr
    (row,) = json.loads(done.stdout)
    (found,) = row["findings"]
    assert found["what"].startswith(what)
    assert row["taken"] + row["refused"] + found["times"] == 8
    (kept,) = tmp_path.iterdir()
    assert (kept / "input").read_bytes() == letter.encode() + b"-" * 50
    assert (kept / "smallest").read_bytes()[:1] == letter.encode()
    assert len((kept / "smallest").read_bytes()) < 50 or letter in "hw"  # each try takes long
    assert what in (kept / "report.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("is_waiting", [False, True])
def test_slow_work_is_no_wait(monkeypatch: pytest.MonkeyPatch, *, is_waiting: bool) -> None:
    """A process that gets little of a busy machine goes on; one that uses nothing is ended."""
    monkeypatch.setattr(hunt, "WALL_SECONDS", 0.4)
    room = hunt.Room()
    ends = time.monotonic() + (20.0 if is_waiting else 0.9)

    def work() -> None:
        while time.monotonic() < ends:
            if is_waiting:
                time.sleep(1)

    status = hunt.in_child(room, work)
    room.close()
    assert os.WIFSIGNALED(status) is is_waiting


def test_inputs_are_the_same_wherever_they_are_asked_for() -> None:
    for reader in READERS.values():
        assert input_of(reader, 3, 5) == input_of(reader, 3, 5)
    brackets = READERS["brackets"]
    assert len({input_of(brackets, 0, index) for index in range(50)}) > 40


def test_every_notation_and_every_original_has_a_reader() -> None:
    assert set(seeds.NOTATIONS) == set(formats.FORMATS)
    assert set(seeds.ORIGINALS) == set(fetch.CONVERTERS) - set(formats.FORMATS)


def test_every_reader_has_its_portion() -> None:
    seen: dict[str, list[int]] = {}
    for name, numbers in portions({"a": 1, "b": 3}, 100, at_once=10):
        seen.setdefault(name, []).extend(numbers)
    assert seen == {"a": list(range(25)), "b": list(range(75))}
