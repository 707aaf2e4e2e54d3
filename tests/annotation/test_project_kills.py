"""A process that holds a project is killed at any moment: nothing is lost that it has answered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from numpy.random import default_rng

from sapwood.annotation.project import Project
from sapwood.annotation.settings import ProjectSettings
from sapwood.annotation.state import ProjectSentence

N_ROUNDS, N_SENTENCES, N_ACTIONS = 8, 5, 40

# Accepts, opens again and undoes, and prints the number of each action that it has answered.
WORK = """
import sys
from dataclasses import replace
from sapwood.annotation.project import Project

def change(n):
    tree = None if n % 3 == 0 else f"(TOP (S (X{n} a) (X b)))"
    return lambda state: replace(state, status="accepted" if tree else "started", tree=tree)

project = Project.open(sys.argv[1])
print(project.revision, flush=True)
while True:
    n = project.revision + 1
    name = f"s{n % 5 + 1}"
    if n % 7 == 0:
        project.undo()
    else:
        project.apply(name, project.state(name).revision, {"type": "set", "n": n}, change(n))
    print(n, flush=True)
"""


def check_project(folder: Path, answered: int) -> None:
    """Whether a project has what was answered, and the file of trees is that of the journal."""
    with Project.open(folder) as project:
        assert project.revision >= answered
        trees = [state.tree for _, state in project.states() if state.tree is not None]
        text = project.trees_file.read_text(encoding="utf-8")
        assert text == "".join(f"{tree}\n" for tree in trees)
        assert not any("another program" in message for message in project.messages)
    left = {file.name for file in folder.iterdir()}
    assert not [name for name in left if "edited" in name]


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_process_loses_nothing_that_it_has_answered(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    with Project.create(folder, ProjectSettings("Kills")) as project:
        project.add(ProjectSentence("", "text", ("a", "b")) for _ in range(N_SENTENCES))
    rng, answered = default_rng(0), 0
    for _ in range(N_ROUNDS):
        process = subprocess.Popen(
            [sys.executable, "-c", WORK, str(folder)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(int(rng.integers(1, N_ACTIONS))):
            line = process.stdout.readline()
            assert line, "the process has ended by itself"
            assert int(line) >= answered
            answered = int(line)
        process.kill()
        rest = process.stdout.read().split()
        answered = int(rest[-1]) if rest else answered
        process.wait()
        process.stdout.close()
        check_project(folder, answered)
    assert answered > N_ROUNDS


def test_the_check_finds_a_project_that_forgets(tmp_path: Path) -> None:
    """The mutant: a journal without its last line."""
    folder = tmp_path / "project"
    with Project.create(folder, ProjectSettings("Kills")) as project:
        project.add([ProjectSentence("", "text", ("a", "b"))])
        project.apply("s1", 0, {"type": "set"}, lambda state: state)
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"")
    with pytest.raises(AssertionError):
        check_project(folder, 1)
