"""The list of mutants is up to date, and the tool that runs it tells dead ones from living ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools import mutants as tool

MOST = 150  # every one of them has to follow the lines that it names


def test_the_list_is_up_to_date() -> None:
    """Refactored code takes its mutants along: see CONTRIBUTING.md."""
    assert tool.list_problems(tool.read_mutants()) == []


def test_the_list_stays_short() -> None:
    """It is for theorems, kernels, gradients and files; `tools/random_mutants.py` draws others."""
    mutants = tool.read_mutants()
    assert len(mutants) <= MOST
    argued = [mutant for mutant in mutants if mutant.equivalent]
    assert len(argued) <= len(mutants) // 20  # an exception, not a way out


# -- the tool, on a project of two functions --------------------------------------------------

SOURCE = "def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return a * 2\n"
TESTS = "from sapwood.sums import add, twice\n\n\ndef test_add():\n    assert add(2, 3) == 5\n"
TABLE = "['sums.py']\n"
ENTRY = "{0}.old = '{1}'\n{0}.new = '{2}'\n{0}.tests = '{3}'\n"
HERE = "tests/test_sums.py::test_add"


def project(folder: Path, *entries: tuple[str, ...], why: str = "") -> Path:
    for name, text in (
        ("src/sapwood/__init__.py", ""),
        ("src/sapwood/sums.py", SOURCE),
        ("tests/test_sums.py", TESTS),
        ("tests/mutants/all.toml", TABLE + "".join(ENTRY.format(*e) for e in entries) + why),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['src']\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


KILLED = ("minus", "a + b", "a - b", HERE)
LIVING = ("thrice", "a * 2", "a * 3", HERE)


def test_dead_and_living_mutants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = project(tmp_path, KILLED, LIVING)
    assert tool.main(["--root", str(root), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert {row["id"]: row["status"] for row in told["mutants"]} == {
        "minus": "killed",
        "thrice": "survived",
    }
    assert (told["killed"], told["all"], told["wrong"]) == (1, 2, ["thrice"])
    assert told["mutants"][0]["killed_by"] == HERE
    assert (root / "src/sapwood/sums.py").read_text(encoding="utf-8") == SOURCE


@pytest.mark.slow
def test_what_is_argued_to_change_nothing_must_live(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(tmp_path / "none", KILLED, LIVING)
    assert tool.main(["--root", str(root), "--only", "minus"]) == 0
    root = project(tmp_path / "one", LIVING, why="thrice.equivalent = 'nobody calls it'\n")
    assert tool.main(["--root", str(root)]) == 0
    assert "killed 0 of 0, 1 argued equivalent" in capsys.readouterr().out
    root = project(tmp_path / "two", KILLED, why="minus.equivalent = 'so it was thought'\n")
    assert tool.main(["--root", str(root)]) == 1


def test_tests_that_fail_by_themselves_kill_nobody(tmp_path: Path) -> None:
    root = project(tmp_path, KILLED)
    (root / "tests/test_sums.py").write_text("def test_add():\n    assert False\n")
    assert tool.main(["--root", str(root)]) == 2


@pytest.mark.slow
def test_a_mutant_that_hangs_is_dead(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        ("loop", "return a + b", "return add(a, b) if [1 for _ in iter(int, 1)] else 0", HERE),
    )
    base = tmp_path / "scratch" / "base"
    base.parent.mkdir()
    tool.copy_project(root, base)
    assert tool.try_mutant(tool.read_mutants(root)[0], base, 10.0).status == "hung"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (("x", "a ** b", "a", HERE), "occurs 0 times"),
        (("x", "return", "yield", HERE), "occurs 2 times"),
        (("x", "a + b", "a + b", HERE), "is the old one"),
        (("x", "a + b", "a", "tests/test_sums.py::test_sub"), "no test test_sub"),
        (("x", "a + b", "a", "tests/test_product.py"), "no tests/test_product.py"),
    ],
    ids=["gone", "twice", "no change", "no test", "no file"],
)
def test_what_is_out_of_date_is_told(tmp_path: Path, entry: tuple[str, ...], problem: str) -> None:
    root = project(tmp_path, entry)
    (found,) = tool.list_problems(tool.read_mutants(root), root)
    assert problem in found
    assert tool.main(["--root", str(root)]) == 2


def test_names_are_used_once(tmp_path: Path) -> None:
    again = ENTRY.format(KILLED[0], *LIVING[1:])
    root = project(tmp_path, KILLED, why=f"['other.py']\n{again}")
    assert "minus: two mutants of this name" in tool.list_problems(tool.read_mutants(root), root)
