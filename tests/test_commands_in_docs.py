"""Every command of the README and the guides works as pasted, in order, in an empty folder.

A page is read from top to bottom: lines that are indented by four and start with a command are run
by a shell, Python blocks by Python, all in one folder. Where the page goes on with "prints" and
another indented block, that is what the last command must print; "prints (times will differ)" lets
numbers differ, and the words count. A block that starts with "error:" is what a command that fails
must say. Any other block is in `SHOWN`, with the reason why nothing runs it.

The README is run by the fast suite; all guides, of which most train something, by the slow one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.conftest import Run

import sapwood as sw

HOME = Path(__file__).parents[1]
GUIDES = [
    *sorted((HOME / "docs" / "guides").glob("*.md")),
    HOME / "docs" / "reference" / "command-line.md",
]
PYTHON = "python"
COMMANDS = ("sapwood", "echo", "cat", "head", "pip", "make", PYTHON)
# Not run: nothing is installed, downloaded or left running by a test.
LEFT_OUT = re.compile(r"(pip|make) |sapwood (data fetch|serve) ")
# Training for as long as a page says would take most of an hour; what is shown does not change.
BUDGET = "2s"
FAILS = "# fails"  # how a page marks a command that is refused
ERROR = "error:"
# Blocks that this file does not run, by page and first words, and why.
PRETRAINED = "needs an encoder that is not ours; tests/cli/test_encoder_options.py has a tiny one"
ELSEWHERE = "tests/web/test_server.py asks a server so"
MACHINES = "needs the machines that it names"
SHOWN = {
    "json-api.md": {"curl": ELSEWHERE, "const answer": ELSEWHERE, '{"tree":': ELSEWHERE},
    "language-models.md": {"duckdb": "another program"},
    "many-machines.md": {
        "sapwood train train.mrg -o model.sapwood --method em --states 16 --scheduler": MACHINES,
        "dask scheduler": MACHINES,
        "#!/bin/bash": MACHINES,
        "distributed:": "a configuration of theirs",
    },
    "other-libraries.md": {
        "import spacy": "tests/integrations/test_spacy.py, where spaCy is installed",
        "import pandas": "pandas is not installed where tests run",
        "phrases <- read.delim": "R is not installed where tests run",
        "library(httr2)": "R is not installed where tests run",
        "library(reticulate)": "R is not installed where tests run",
        "table   <- sapwood": "R is not installed where tests run",
    },
    "pretrained-encoder.md": {
        "sapwood train": PRETRAINED,
        "import sapwood": PRETRAINED,
    },
    "speed-and-memory.md": {
        "$ echo": "what it says of compiling is said once for a machine",
        "ENV NUMBA_CACHE_DIR": "lines of a Dockerfile",
    },
    "surprisal.md": {
        "grammar  <- read.delim": "R is not installed where tests run",
        "import csv": "pandas is not installed where tests run",
    },
    "tutorial.md": {"right ": "a sum of numbers that commands above it print"},
}


class Step(NamedTuple):
    """Something to run, and what the page says that it prints; None where it says nothing."""

    kind: str  # shell, or python
    text: str
    expected: str | None = None
    is_exact: bool = True


def steps(page: str) -> list[Step]:
    """Everything that a page asks its reader to run, in order."""
    found: list[Step] = []
    prints = None
    for kind, text in _blocks(page):
        if kind == "prose":
            prints = re.search(r"\bprints( \([^)]* differ\))?\W*$", text)
        elif kind == "indented" and text.split(maxsplit=1)[0] not in COMMANDS:
            if found and text.startswith(ERROR):
                found[-1] = found[-1]._replace(expected=text)
            elif prints and found:  # blank lines cut what is printed into blocks
                whole = "\n\n".join(filter(None, (found[-1].expected, text)))
                found[-1] = found[-1]._replace(expected=whole, is_exact=not prints[1])
        elif kind == "indented":
            lines = re.sub(r"\\\n\s*", "", text).splitlines()
            found += [Step("shell", line) for line in lines]
        else:
            found.append(Step("python", text))
    return found


def _blocks(page: str) -> Iterator[tuple[str, str]]:
    """Runs of lines of one kind: prose, indented, or a fenced block of Python."""
    parts = re.split(r"^```python\n(.*?)^```\n", page, flags=re.DOTALL | re.MULTILINE)
    for place, part in enumerate(parts):
        if place % 2:
            yield "python", part
            continue
        for is_indented, group in groupby(part.splitlines(), lambda line: line.startswith("    ")):
            lines = list(group)
            if any(line.strip() for line in lines):
                text = "\n".join(line[4:] if is_indented else line for line in lines)
                yield "indented" if is_indented else "prose", text.strip("\n")


def quick(command: str) -> str:
    """The command with a budget for a test."""
    if re.match(r"sapwood train ", command) and "--method" not in command:
        command = re.sub(r" --budget \S+", "", command)
        return re.sub(r"^sapwood train", f"sapwood train --budget {BUDGET}", command)
    return command


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """An environment in which `sapwood` and `python` are those that are tested."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in (("sapwood", "-m sapwood "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
        (programs / name).chmod(0o755)
    return os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(Path(sw.__file__).parents[1]),
        "NO_COLOR": "1",
        "COLUMNS": "100",
        "MPLBACKEND": "agg",
    }


def run_page(path: Path, folder: Path, environment: dict[str, str], most_trees: int = 2000) -> None:
    folder.mkdir()
    for step in steps(path.read_text(encoding="utf-8")):
        if step.kind == "shell" and LEFT_OUT.match(step.text):
            continue
        text = quick(step.text).replace("sample bundled -n 2000", f"sample bundled -n {most_trees}")
        command = ["bash", "-o", "pipefail", "-c", text]
        done = subprocess.run(
            [sys.executable, "-c", step.text] if step.kind == "python" else command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = f"{path.name}: {step.text}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        assert (done.returncode != 0) == step.text.rstrip().endswith(FAILS), said
        assert "Traceback" not in done.stderr, said
        if step.expected is not None:
            read = _plain if step.is_exact else _masked
            output = done.stderr if step.expected.startswith(ERROR) else done.stdout
            assert read(step.expected) in read(output), said


def _plain(text: str) -> str:
    """Lines without the blanks at their ends."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _masked(text: str) -> str:
    """Words alone: one sign for every number, one blank for many."""
    return re.sub(r"[ \t]+", " ", re.sub(r"[+-]?\d[\d.,e+-]*", "N", _plain(text)))


@pytest.mark.parametrize("most_trees", [500, pytest.param(2000, marks=pytest.mark.slow)])
def test_the_readme(tmp_path: Path, shell: dict[str, str], most_trees: int) -> None:
    run_page(HOME / "README.md", tmp_path / "fresh", shell, most_trees)


@pytest.mark.slow
@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_the_guide(path: Path, tmp_path: Path, shell: dict[str, str]) -> None:
    run_page(path, tmp_path / "fresh", shell)


def shown_blocks(page: str) -> Iterator[str]:
    """Blocks that nothing runs and that no command is said to print."""
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if language != PYTHON:
            yield text
    known = "\n\n".join(step.expected for step in steps(page) if step.expected)
    for kind, text in _blocks(page):
        if kind == "indented" and text.split(maxsplit=1)[0] not in COMMANDS and text not in known:
            yield text


@pytest.mark.parametrize("path", [HOME / "README.md", *GUIDES], ids=lambda path: path.stem)
def test_every_block_is_run_or_listed(path: Path) -> None:
    listed = SHOWN.get(path.name, {})
    found = [text.lstrip() for text in shown_blocks(path.read_text(encoding="utf-8"))]
    for text in found:
        assert any(text.startswith(start) for start in listed), f"nothing runs {text!r}"
    for start in listed:
        assert any(text.startswith(start) for text in found), f"{start!r} is not there any more"


# -- without running anything ---------------------------------------------------------------------


def pages() -> list[Path]:
    return [HOME / "README.md", HOME / "CONTRIBUTING.md", *sorted((HOME / "docs").rglob("*.md"))]


def test_every_command_named_anywhere_exists(cli: Run) -> None:
    help_of = cache(lambda *words: cli(*words, "--help"))
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for words in re.findall(
            r"(?:^|`|\| )sapwood ((?:[a-z]+ ?){1,2}[^`\n]*)", text, re.MULTILINE
        ):
            has_two = words.startswith(("data ", "depend ", "hankel ", "lm "))
            shown = help_of(*words.split()[: 1 + has_two])
            assert not shown.status, f"{path.name}: sapwood {words}"
            known = set(re.findall(r"(?<!\w)--?[a-z][a-z-]*", shown.out))
            options = re.findall(r"(?<=\s)--?[a-z][a-z-]*", re.split(r"[|#>]", words)[0])
            assert set(options) <= known, f"{path.name}: sapwood {words}"


def test_what_pages_install_can_be_installed() -> None:
    """Packages of the extras by name, which works anywhere; `.` only where the clone is named."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    packages = {re.split("[>=[]", one)[0] for several in extras.values() for one in several}
    n_found = 0
    for path in pages():
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(r"pip install (?:-e )?('[^']+'|[\w. -]+)", text):
            n_found += 1
            target, around = found[1], text[max(0, found.start() - 400) : found.end() + 40]
            if not (match := re.fullmatch(r"'?\.(?:\[([a-z,]+)\])?'?", target.strip())):
                assert set(target.split()) <= packages, f"{path.name}: pip install {target}"
                continue
            assert set((match[1] or "web").split(",")) <= set(extras), path.name
            is_there = path.name == "CONTRIBUTING.md" or "clone" in around
            assert is_there, f"{path.name}: pip install {target} works in the clone only"
    assert n_found


def test_the_reader_of_pages() -> None:
    page = (
        "Text\n\n    sapwood one   # why\n    echo a \\\n      b\n\nprints\n\n    yes\n      si\n\n"
        "    oui\n\n"
        "```python\nimport x\n\nx()\n```\n\nMore\n\n    (S a)\n\n    echo c\n\n"
        "prints (times will differ)\n\n    3 s\n"
    )
    assert steps(page) == [
        Step("shell", "sapwood one   # why"),
        Step("shell", "echo a b", "yes\n  si\n\noui"),
        Step("python", "import x\n\nx()\n"),
        Step("shell", "echo c", "3 s", is_exact=False),
    ]
    assert _masked("a  1,000.5 s\n-3e-5 ") == _masked("a 7   s\n2")
    assert quick("sapwood train a --budget 10m -o b") == "sapwood train --budget 2s a -o b"
    assert quick("sapwood train a --method em") == "sapwood train a --method em"


def test_a_page_that_does_not_work_is_found(tmp_path: Path, shell: dict[str, str]) -> None:
    page = tmp_path / "page.md"
    for number, (text, is_right) in enumerate(
        {
            "    echo 1\n\nprints\n\n    1\n": True,
            "    echo 1\n\nprints\n\n    2\n": False,
            "    cat nowhere\n": False,
            "    cat nowhere  # fails\n": True,
            "    echo 1  # fails\n": False,
            "    cat nowhere  # fails\n\nBut\n\n    error: no\n": False,
            "```python\n1 / 0\n```\n": False,
        }.items()
    ):
        page.write_text(text)
        folder = tmp_path / str(number)
        if is_right:
            run_page(page, folder, shell)
        else:
            with pytest.raises(AssertionError):
                run_page(page, folder, shell)
