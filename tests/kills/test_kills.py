"""Kills of every command that writes, and whether they would find one that writes badly."""

from __future__ import annotations

import json
import os
import sys

import pytest
from tests.kills.jobs import JOBS
from tests.programs import run_program

N_KILLS = int(os.environ.get("SAPWOOD_KILLS", "60"))
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs fork and SIGKILL")


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_half_and_loses_nothing() -> None:
    done = run_program("tests.kills.__main__", "--kills", str(N_KILLS))
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert not [f"{row['job']}: {fault}" for row in report for fault in row["faults"]]
    assert {row["job"] for row in report} == set(JOBS)
    assert sum(row["kills"] for row in report) >= N_KILLS
    assert done.returncode == 0


BAD = """
from tests.kills import jobs
def in_place(folder):
    with (folder / "out").open("w") as file:
        for n in range(5):
            file.write(f"{n}\\n" * 3000)
def forgetful(folder):
    part = folder / "out.part"
    with part.open("w") as file:
        for n in range(5):
            file.write(f"{n}\\n" * 3000)
            file.flush()
    part.replace(folder / "out")
told = lambda err, steps: 0
jobs.JOBS.clear()
jobs.JOBS["in_place"] = jobs.Job("in_place", in_place, ("out",))
jobs.JOBS["forgetful"] = jobs.Job(
    "forgetful", forgetful, ("out",), progress=("out.part", jobs.n_lines), told=told
)
"""


def test_kills_find_what_is_written_in_place_and_what_is_forgotten() -> None:
    done = run_program("tests.kills.__main__", "--kills", "24", code=BAD)
    assert done.stdout, done.stderr
    assert done.returncode == 1
    in_place, forgetful = json.loads(done.stdout)
    assert "neither absent nor complete after the kill" in " ".join(in_place["faults"])
    assert "the next run used 0 of them" in " ".join(forgetful["faults"])
    assert in_place["at_steps"] >= in_place["steps"] > 2


@pytest.mark.slow
def test_two_commands_that_write_one_file_do_not_mix_their_outputs() -> None:
    """One round of every command against itself; `python -m tests.kills.pairs` has every pair."""
    done = run_program("tests.kills.pairs", "--rounds", "1", "--alike")
    rows = json.loads(done.stdout)
    assert not [row for row in rows if row["faults"]]
    assert len(rows) > 15
