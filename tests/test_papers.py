"""The pages of the papers: their tables are those that the scripts make; a stale one is seen."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    path, before = ROOT / "benchmarks" / "papers" / "run.py", list(sys.path)
    spec = importlib.util.spec_from_file_location("run", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["run"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = before
    del sys.modules["run"]


def test_no_table_is_stale(run: ModuleType) -> None:
    assert [line for paper in run.PAPERS for line in run.stale(paper)] == []


def test_what_is_stale_or_missing_is_seen(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one(is_fast: bool) -> object:
        return run.Table(("a", "b"), [("x", 1 + is_fast)])

    monkeypatch.setattr(run, "PAGES", tmp_path)
    monkeypatch.setattr(run, "makers", lambda paper: {"one": one})
    page = tmp_path / "some.md"
    page.write_text("<!-- table one -->\n<!-- end one -->\n\nafter\n")
    assert list(run.stale("some")) == ["docs/papers/some.md: the table one is stale"]
    run.write("some", "one", run.make("some", "one", is_fast=True), is_fast=True)
    assert "| x | 2 |" in page.read_text()
    assert page.read_text().endswith("-->\n\nafter\n")
    assert list(run.stale("some")) == []
    run.write("some", "one", run.make("some", "one", is_fast=False), is_fast=False)
    assert "| x | 1 |" in page.read_text()
    assert "| x | 2 |" not in page.read_text()
    page.write_text(page.read_text().replace(": full, ", ": fast, "))
    assert list(run.stale("some")) == ["docs/papers/some.md: the table one is stale"]
    page.write_text("<!-- table one -->\nlater\n<!-- end one: not made -->\n")
    assert list(run.stale("some")) == []
    page.write_text("<!-- table two -->\n")
    assert len(list(run.stale("some"))) == 2


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "papers").glob("*.md")), ids=str)
def test_what_a_page_names_is_there(page: Path) -> None:
    """Tests by name, and files."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in TESTS, name
    for name in re.findall(r"`((?:tests|benchmarks|examples)/[\w/.]+)(?: [^`]*)?`", text):
        assert (ROOT / name).exists(), name
    rooms = "constituency|core|corpora|dependency|execute|hankel|identify|linalg|lm|networks"
    for name in re.findall(rf"`((?:{rooms})/[\w/]+\.py)`", text):
        assert (ROOT / "src" / "sapwood" / name).exists(), name


def test_a_table_that_nobody_makes_is_an_error(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "dep.nothing"])
    monkeypatch.setattr(run, "make_all", lambda *_, **__: pytest.fail("a table was made"))
    with pytest.raises(SystemExit, match="2"):
        run.main()
    assert "no table dep.nothing" in capsys.readouterr().err
