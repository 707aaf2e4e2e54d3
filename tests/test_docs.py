"""Every Python block of the README and the documentation runs as pasted."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PAGES = [HOME / "README.md", *sorted((HOME / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
# Blocks that name a treebank of the reader's own cannot run here.
OWN_FILES = ('"train.mrg"', '"your/')


def blocks() -> list[tuple[str, str]]:
    found = [(page, code) for page in PAGES for code in BLOCK.findall(page.read_text())]
    return [
        (f"{page.relative_to(HOME)} {place}", code)
        for place, (page, code) in enumerate(found)
        if not any(name in _without_comments(code) for name in OWN_FILES)
    ]


def _without_comments(code: str) -> str:
    return re.sub(r"#.*", "", code)


@pytest.mark.parametrize(("name", "code"), blocks(), ids=lambda value: str(value)[:40])
def test_the_block_runs(
    name: str,
    code: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    exec(compile(code, name, "exec"), {"__name__": "block"})
    assert "Traceback" not in capsys.readouterr().err


def test_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (HOME / "README.md").read_text()
    exec(compile(BLOCK.findall(page)[0], "README.md", "exec"), {"__name__": "block"})
    # numbers change with the weights of a model; labels and words of a clear sentence do not
    shown, page = (re.sub(r"\d+", "N", text) for text in (capsys.readouterr().out.strip(), page))
    assert shown.replace("\n", "\n    ") in page


def test_cells_of_the_notebooks_run_in_order_and_are_kept_without_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in sorted((HOME / "examples").glob("*.ipynb")):
        names: dict[str, object] = {}
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        for cell in cells:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), path.name, "exec"), names)
                assert not cell["outputs"]
        assert len(capsys.readouterr().out.splitlines()) > 10


@pytest.mark.parametrize("path", sorted((HOME / "examples").glob("*.ipynb")), ids=lambda p: p.stem)
@pytest.mark.parametrize("is_missing", [True, False])
def test_the_first_cell_of_a_notebook_installs_sapwood_where_it_is_missing(
    path: Path, is_missing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    if is_missing:
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append(command))
    monkeypatch.chdir(path.parent)
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next(cell for cell in cells if cell["cell_type"] == "code")
    exec(compile("".join(first["source"]), path.name, "exec"), {})
    assert [command[1:4] for command in ran] == [["-m", "pip", "install"]] * is_missing
    assert all(command[-1] == ".." for command in ran)  # the clone that the notebook lies in


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([\w./-]*)(?:#([^)]*))?\)", page.read_text()):
            there = page.parent / target if target else page
            assert there.exists(), f"{page.name} links to {target}"
            if anchor:
                assert anchor in _anchors(there), f"{page.name} links to {target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """What the headings of a page are called in addresses."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", title.lower()).strip() for title in titles)
    return {re.sub(r"[-\s]+", "-", title) for title in plain}
