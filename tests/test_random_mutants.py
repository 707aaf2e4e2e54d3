"""Random mutants change one place, the same one for a seed, and name the tests of their module."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = '''\
"""A module whose docstring has 1 + 1."""

LIMIT: int = 7


def clip(values, *, strict=False):
    """Values below 3 are kept, `< 3`."""
    kept = []
    for value in values:
        if value < LIMIT and not strict:
            kept.append(max(value, 0) + 1.5)  # é, a letter of two bytes before code: no
    return kept


def refuse(number):
    if number == LIMIT: raise ValueError(f"{number + 1} is 1 too many")
'''


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("random_mutants")


def project(folder: Path, test: str) -> Path:
    for name, text in (
        ("src/sapwood/__init__.py", ""),
        ("src/sapwood/sums/clip.py", SOURCE),
        ("tests/test_other.py", "def test_nothing():\n    assert True\n"),
        ("tests/sums/test_clip.py", test),
        ("pyproject.toml", "[tool.pytest.ini_options]\npythonpath = ['src']\n"),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_each_change_is_one_valid_change_of_code_that_runs(tool: ModuleType) -> None:
    found = [change.name for change in tool.changes(ast.parse(SOURCE))]
    for part in ("value < LIMIT  ->  value <= LIMIT", "max(value, 0)  ->  min(value, 0)",
                 "kept.append(max(value, 0) + 1.5)  ->  pass",
                 "7  ->  8", "1.5  ->  3.0", "False  ->  True", "not strict  ->  strict",
                 "value < LIMIT and (not strict)  ->  value < LIMIT or not strict",
                 "number == LIMIT  ->  not number == LIMIT"):  # fmt: skip
        assert any(part in name for name in found), part
    assert not any("number + 1" in name for name in found)  # part of a message
    texts = [change.apply(SOURCE) for change in tool.changes(ast.parse(SOURCE))]
    assert len(set(texts)) == len(texts)
    plain = ast.dump(ast.parse(SOURCE))
    assert all(ast.dump(ast.parse(text)) != plain for text in texts)


def test_a_seed_draws_the_same_mutants_with_the_tests_of_their_module(
    tool: ModuleType, tmp_path: Path
) -> None:
    root = project(tmp_path, "from sapwood.sums.clip import clip\n")
    drawn = tool.draw(root, "sums", 4, 1)
    assert drawn == tool.draw(root, "sums", 4, 1) != tool.draw(root, "sums", 4, 2)
    # the file that is named after the module, and those that import or mirror nothing of it never
    assert {mutant.tests for mutant in drawn} == {("tests/sums/test_clip.py",)}


def test_the_closest_tests_of_a_module_come_first(tool: ModuleType, tmp_path: Path) -> None:
    root = project(tmp_path, "")
    for name, text in (
        (
            "src/sapwood/sums/learn/fit.py",
            '"""One.\n\n>>> x\n1\n"""\n\nx = 1\n\n\nclass Fit: ...\n',
        ),
        (
            "src/sapwood/sums/report.py",
            "def tell():\n    from sapwood.sums.learn import cut, fit\n",
        ),
        ("src/sapwood/other.py", "import sapwood.sums.report\n"),
        ("tests/sums/learn/test_fit.py", "# a long file that is named after the module\n"),
        ("tests/sums/learn/test_steps.py", "from sapwood.sums.learn.fit import x\n"),
        ("tests/sums/model/test_model.py", ""),
        ("tests/other/learn/test_far.py", "from sapwood import other\n"),
        ("tests/other/learn/test_farther.py", "import numpy\n"),
        ("tests/cli/test_named.py", "model = sw.Fit\n"),
        ("tests/cli/test_sum.py", "run('sums learn')\n"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    assert tool.draw(root, "sums/learn", 1, 0)[0].tests == (
        "src/sapwood/sums/learn/fit.py",  # examples
        "tests/sums/learn/test_fit.py", "tests/sums/learn/test_steps.py",
        "tests/cli/test_named.py", "tests/sums/test_clip.py",
        "tests/cli/test_sum.py", "tests/other/learn/test_far.py",
    )  # fmt: skip


@pytest.mark.slow
def test_a_good_test_kills_and_a_bad_one_does_not(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "from sapwood.sums.clip import clip, refuse\n\n\ndef test_clip():\n    assert {}\n"
    root = project(tmp_path / "bad", line.format("clip([])== []"))
    assert tool.main(["sums", "-n", "3", "--seed", "3", "--root", str(root)]) == 1
    assert "lives: sums/clip.py:" in capsys.readouterr().out
    good = "clip([5, 7, -3], strict=False) == [6.5, 1.5] and clip([1], strict=True) == []"
    root = project(tmp_path / "good", line.format(good) + "    refuse(1)\n")
    assert tool.main(["sums/clip.py", "-n", "3", "--seed", "3", "--root", str(root)]) == 0


@pytest.mark.slow
def test_a_test_that_fails_anyway_notices_nothing(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(tmp_path, "import sapwood.sums.clip\n\n\ndef test_no():\n    assert False\n")
    assert (
        tool.main(["sums", "sums/clip.py", "-n", "2", "--root", str(root), "--only", "clip.py:"])
        == 1
    )
    out = capsys.readouterr().out
    assert "sums: killed 0 of 2 (0 %), 0 hung" in out


def test_a_folder_that_is_not_there(tool: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="there is no src/sapwood/nowhere"):
        tool.main(["nowhere", "--root", str(project(tmp_path, ""))])
