"""Benchmarks: what they import is there, what pages cite exists, and two runs can be compared."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from benchmarks import compare, run_all

from sapwood.core.model_files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "benchmarks"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
OF_PAPERS = sorted(f"papers/{path.name}" for path in (FOLDER / "papers").glob("*.py"))
# Left out of `make bench`: one needs a GPU, one another checkout, one an encoder's folder, and one
# is a part of annotation.py.
TOOLS = {
    "__main__.py", "run_all.py", "compare.py", "latent_bigrams_gpu.py", "against.py",
    "pretrained_encoder.py", "annotation_actions.py",
}  # fmt: skip
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


# -- the scripts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS + OF_PAPERS)
def test_what_a_script_imports_is_there(script: str) -> None:
    for node in ast.walk(ast.parse((FOLDER / script).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sapwood"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                is_there = hasattr(module, alias.name) or importlib.util.find_spec(
                    f"{node.module}.{alias.name}"
                )
                assert is_there, f"{script}, line {node.lineno}: no {node.module}.{alias.name}"


def test_all_of_them_are_run() -> None:
    assert {script for script, _, _ in run_all.PLAN} | TOOLS == set(SCRIPTS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_cites_is_there(page: Path) -> None:
    for script in re.findall(r"benchmarks/(\w+\.py)", page.read_text(encoding="utf-8")):
        assert script in SCRIPTS


def test_every_benchmark_backs_a_page() -> None:
    cited = {
        name for page in PAGES for name in re.findall(r"benchmarks/(\w+\.py)", page.read_text())
    }
    assert set(SCRIPTS) - cited - TOOLS <= {"machine.py"}  # which says what the others ran on


# -- numbers by name ------------------------------------------------------------------------------


def test_numbers_are_named_by_row_and_column() -> None:
    header = ["corpus", "setting", "F1", "CPU s", "no parse"]
    rows = [
        ["ptb", "head", "**75.4**", "1.234 / 1.300", "-"],
        ["ptb", "right", "1,072.5", "3", "none"],
    ]
    assert run_all.numbers_of({"header": header, "rows": rows}) == {
        "ptb | head | F1": 75.4, "ptb | head | CPU s": 1.234,
        "ptb | right | F1": 1072.5, "ptb | right | CPU s": 3.0,
    }  # fmt: skip


def test_a_run_is_written_with_machine_and_commit(tmp_path: Path) -> None:
    out = tmp_path / "bench.md"
    command = [sys.executable, str(FOLDER / "run_all.py"), "--only", "machine", "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    found = json.loads(out.with_suffix(".json").read_text())
    assert found["machine"]["cores"] >= 1
    assert found["commit"]
    names = found["benchmarks"]["machine"]
    assert len(names) == 3
    assert all(value > 0 for value in names.values())
    assert "limit of one thread" in out.read_text()


# -- two runs -------------------------------------------------------------------------------------


def run_of(**numbers: float) -> dict[str, Any]:
    return {"commit": "c", "machine": {"processor": "p"}, "benchmarks": {"x": numbers}}


@pytest.mark.parametrize(
    ("name", "old", "new", "is_change"),
    [
        ("em | train, s", 10.0, 10.8, False),
        ("em | train, s", 10.0, 12.0, True),
        ("em | sentences/s", 100.0, 85.0, True),
        ("em | F1", 85.10, 85.11, False),
        ("em | F1", 85.10, 85.00, True),
        ("em | train peak MB", 100.0, 103.0, False),
        ("em | train peak MB", 100.0, 110.0, True),
        ("em | no parse", 0.0, 1.0, True),
    ],
)
def test_changes_are_beyond_noise(name: str, old: float, new: float, is_change: bool) -> None:
    found = compare.changes(run_of(**{name: old}), run_of(**{name: new}), compare.Limits())
    assert [(change.old, change.new) for change in found] == ([(old, new)] if is_change else [])


def test_times_of_another_machine_are_not_compared() -> None:
    old, new = (
        run_of(**{"a | CPU s": 1.0, "a | F1": 80.0}),
        run_of(**{"a | CPU s": 9.0, "a | F1": 70.0}),
    )
    new["machine"] = {"processor": "q"}
    assert [str(change) for change in compare.changes(old, new, compare.Limits())] == [
        "x: a | F1: 80 -> 70 (-12.5%)"
    ]


def test_what_only_one_run_has_is_said() -> None:
    assert compare.one_sided(run_of(a=1), run_of(b=1)) == [
        "only in the old run: x: a", "only in the new run: x: b",
    ]  # fmt: skip


def test_two_files_on_the_command_line(tmp_path: Path) -> None:
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, f1 in zip(paths, (80.0, 81.0), strict=True):
        path.write_text(json.dumps(run_of(**{"a | F1": f1})))
    command = [sys.executable, str(FOLDER / "compare.py"), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "x: a | F1: 80 -> 81 (+1.2%)" in done.stdout
    assert "1 of 1 numbers changed beyond noise" in done.stdout
    paths[1].write_text("[]")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is no file of `make bench`" in done.stderr


# -- two checkouts --------------------------------------------------------------------------------


@pytest.fixture
def against(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, imported as it is when it runs: with its folder on the path."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("against")


def test_the_parts_in_which_two_model_files_differ_are_named(
    tmp_path: Path, against: ModuleType
) -> None:
    paths = [tmp_path / f"{k}.sapwood" for k in range(3)]
    header = {"kind": "X", "sha256": "a", "model": {"record": {"method": "em", "seed": 0}}}
    other = {"kind": "X", "sha256": "b", "model": {"record": {"method": "em", "seed": 1}}}
    rows = np.arange(6.0)
    write_atomically(paths[0], {"rules": rows, "words": rows}, header)
    write_atomically(paths[1], {"rules": rows, "words": rows}, header)
    write_atomically(paths[2], {"rules": rows, "words": rows + 1.0}, other)
    assert against.differences(paths[0], paths[1]) == "all bytes"
    assert (
        against.differences(paths[0], paths[2]) == "all but array words, model.record.seed (of 5)"
    )


def test_ratios_are_of_this_checkout_over_the_other(against: ModuleType) -> None:
    pairs = [(1.0, 1.1), (2.0, 2.0), (1.5, 1.2)]
    assert against.row("x", pairs, "")[1:5] == ("1.000 / 1.500", "1.100 / 1.200", "1.100", "1.000")


def test_a_checkout_is_compared_with_itself() -> None:
    command = [sys.executable, str(FOLDER / "against.py"), "--other", str(ROOT / "src")]
    options = ["--parts", "start", "--only", "import sapwood", "--repeats", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("| import sapwood")]
    assert 0.1 < float(line.split("|")[4]) < 10
