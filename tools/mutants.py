"""Check that the tests notice mistakes: make one known mistake at a time and run its tests.

    python tools/mutants.py                     all of tests/mutants/*.toml, two at a time
    python tools/mutants.py --room kernels      those of one folder of src/sapwood
    python tools/mutants.py --only ID           one; may be repeated
    python tools/mutants.py --list              what there is
    python tools/mutants.py --json              a report for machines on stdout

A mutant is an exact text of one source file, a wrong one in its place, and the tests that must fail
then. A list has a table for each source file, with the tests of its mutants:

    ["constituency/parse/kernels/trees.py"]
    tests = "tests/constituency/kernels/test_trees.py::test_weights_by_factored_tensors"
    trees-swapped-children.old = 'start[y], m[y], start[z], m[z],'
    trees-swapped-children.new = 'start[z], m[z], start[y], m[y],'

A mutant may also have `.tests` of its own. It is killed when they fail, hang or crash, and survives
when they pass. Some change nothing that can be observed; they say why (`equivalent`), and must
survive.

Sources and tests are copied to a folder of their own, where all named tests run once as they are:
they must pass, and that compiles every kernel. Each mutant then works on a copy whose files keep
their times, so that Numba's cache holds for all kernels but those of the changed file.

Exit status: 0 when all were noticed, 1 when not, 2 when the list is out of date or the tests fail
without any mistake.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("src/sapwood")
LISTS = Path("tests/mutants")
COPIED = (
    "src", "tests", "pyproject.toml", "docs", "benchmarks", "examples", "tools", "README.md",
    "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CITATION.cff",
    "LICENSE", "Makefile", "mkdocs.yml", "constraints.txt", ".github",
)  # fmt: skip
PASSED, FAILED = 0, 1  # exit statuses of pytest; all others mean that no test was heard
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes
    ----------
    id
        Its name in reports.
    file
        Where it is made, below `src/sapwood`.
    old, new
        The text that is replaced, which must occur exactly once, and what replaces it.
    tests
        Test files or nodes, at least one of which must fail.
    equivalent
        Why no test can fail, for a change that is none; else empty.
    """

    id: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def room(self) -> str:
        """The folder of the package it is made in."""
        return self.file.split("/", maxsplit=1)[0]


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed, hung or crashed; survived; broken: no test was heard."""

    id: str
    file: str
    status: str
    seconds: float
    killed_by: str
    equivalent: str

    @property
    def is_killed(self) -> bool:
        """Whether the tests noticed it."""
        return self.status in {"killed", "hung", "crashed"}

    @property
    def is_right(self) -> bool:
        """Whether it was noticed, or passed unnoticed as it was argued to."""
        return self.status == "survived" if self.equivalent else self.is_killed


# -- the list -------------------------------------------------------------------------------------


def read_mutants(root: Path = ROOT) -> list[Mutant]:
    """All mutants, file by file; a mutant without tests of its own has those of its source file."""
    mutants = []
    for path in sorted((root / LISTS).glob("*.toml")):
        for file, entries in tomllib.loads(path.read_text(encoding="utf-8")).items():
            shared = entries.pop("tests", ())
            for name, entry in entries.items():
                tests = entry.pop("tests", shared)
                tests = (tests,) if isinstance(tests, str) else tuple(tests)
                mutants.append(Mutant(name, file, tests=tests, **entry))
    return mutants


def list_problems(mutants: Sequence[Mutant], root: Path = ROOT) -> list[str]:
    """What is out of date in a list: one line each."""
    names = [mutant.id for mutant in mutants]
    twice = [
        f"{name}: two mutants of this name" for name in sorted({*names}) if names.count(name) > 1
    ]
    return twice + [f"{m.id}: {problem}" for m in mutants for problem in _problems(m, root)]


def _problems(mutant: Mutant, root: Path) -> Iterator[str]:
    path = root / PACKAGE / mutant.file
    if not path.is_file():
        yield f"there is no {PACKAGE / mutant.file}"
    elif (found := path.read_text(encoding="utf-8").count(mutant.old)) != 1:
        yield f"its old text occurs {found} times in {mutant.file}; expected once"
    if mutant.old == mutant.new:
        yield "its new text is the old one"
    if not mutant.tests:
        yield "it names no test"
    for test in mutant.tests:
        file, _, node = test.partition("::")
        name = node.partition("[")[0]
        if not (root / file).is_file():
            yield f"there is no {file}"
        elif name and name not in _test_names(root / file):
            yield f"there is no test {name} in {file}"


@cache
def _test_names(path: Path) -> frozenset[str]:
    """Functions of a test file, those in classes as `Class::name`."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
            names |= {node.name, *(f"{node.name}::{name}" for name in inner)}
    return frozenset(names)


# -- one mutant -----------------------------------------------------------------------------------


def copy_project(root: Path, folder: Path) -> None:
    """Sources and tests with their times, which are the keys of Numba's cache."""
    folder.mkdir()
    for name in COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name)
        elif (root / name).is_file():
            shutil.copy2(root / name, folder / name)


def apply_mutant(mutant: Mutant, folder: Path) -> None:
    """Change one file, and forget what was compiled from it."""
    path = folder / PACKAGE / mutant.file
    text = path.read_text(encoding="utf-8")
    path.unlink()  # it may be a link to the file of another copy
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def run_pytest(
    folder: Path,
    tests: Iterable[str],
    timeout: float,
    *,
    jobs: int = 0,
    flags: Sequence[str] = (),
) -> tuple[int | None, str]:
    """Exit status and output of tests in a copy; the status is None when time ran out."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", str(jobs), *flags]
    command += ["-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, *tests], cwd=folder, env=_environment(folder), text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with whatever the tests have started
        process.communicate()
        return None, ""
    return process.returncode, output


def _environment(folder: Path) -> dict[str, str]:
    """The copy comes before an installed package, for what tests start as well."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTEST_"))}
    return kept | {"PYTHONPATH": str(folder / "src"), "OPENBLAS_NUM_THREADS": "1"}


def try_mutant(mutant: Mutant, base: Path, timeout: float, flags: Sequence[str] = ()) -> Result:
    """Run the tests of a mutant in a copy of `base`, which was compiled before."""
    started = perf_counter()
    with tempfile.TemporaryDirectory(dir=base.parent) as scratch:
        folder = Path(scratch) / "project"
        shutil.copytree(base, folder, copy_function=os.link)
        apply_mutant(mutant, folder)
        code, output = run_pytest(folder, mutant.tests, timeout, flags=flags)
    status = _status(code)
    by = _FAILURE.findall(output)
    if status == "broken":
        print(output, file=sys.stderr)
    seconds = round(perf_counter() - started, 1)
    return Result(mutant.id, mutant.file, status, seconds, by[0] if by else "", mutant.equivalent)


def _status(code: int | None) -> str:
    if code is not None and code < 0:  # by a signal: a kernel that writes where it must not
        return "crashed"
    return {None: "hung", PASSED: "survived", FAILED: "killed"}.get(code, "broken")


# -- all of them ----------------------------------------------------------------------------------


def compile_kernels(folder: Path) -> None:
    """Compile the kernels of a copy that were not compiled yet, where it has any."""
    warm = [sys.executable, "-m", "sapwood", "doctor", "--warm"]
    if (folder / PACKAGE / "cli" / "warming.py").is_file():
        subprocess.run(warm, cwd=folder, env=_environment(folder), check=True, capture_output=True)


def try_in_copies(
    mutants: Sequence[Mutant], root: Path, jobs: int, timeout: float
) -> list[Result] | None:
    """Run the tests without any mistake, then each mutant; None when they fail by themselves."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        base = Path(scratch) / "base"
        copy_project(root, base)
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        code, output = run_pytest(base, tests, timeout * 10, jobs=jobs)
        if code != PASSED:
            print(output, file=sys.stderr)
            print("error: the tests fail, or hang, without any mistake", file=sys.stderr)
            return None
        return try_all(mutants, base, jobs, timeout)


def try_all(
    mutants: Sequence[Mutant], base: Path, jobs: int, timeout: float, flags: Sequence[str] = ()
) -> list[Result]:
    """Results in the order of the list, each printed as it comes."""

    def task(mutant: Mutant) -> Result:
        result = try_mutant(mutant, base, timeout, flags)
        mark = "" if result.is_right else "  <--"
        line = f"{result.status:9}{result.seconds:6.1f} s  {result.id}  {result.killed_by}{mark}"
        print(line, file=sys.stderr, flush=True)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        try:
            return list(pool.map(task, mutants))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C ends it after those that run
            raise


def report(results: Sequence[Result]) -> dict[str, Any]:
    """Counts, names of those that passed unnoticed, and all results."""
    real = [result for result in results if not result.equivalent]
    return {
        "all": len(real),
        "killed": sum(result.is_killed for result in real),
        "equivalent": len(results) - len(real),
        "wrong": [result.id for result in results if not result.is_right],
        "mutants": [asdict(result) for result in results],
    }


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", action="append", metavar="ID", help="one mutant; repeatable")
    parser.add_argument("--room", help="mutants in one folder of src/sapwood")
    parser.add_argument("--list", action="store_true", help="name the mutants and stop")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument(
        "--timeout", type=float, default=240.0, help="seconds after which tests hang (240)"
    )
    parser.add_argument("--root", type=Path, default=ROOT, help="the project")
    return parser.parse_args(argv)


def _chosen(mutants: list[Mutant], only: list[str] | None, room: str | None) -> list[Mutant]:
    chosen = [m for m in mutants if room in (None, m.room) and (only is None or m.id in only)]
    missing = sorted({*(only or ())} - {m.id for m in chosen})
    if missing or not chosen:
        what = ", ".join(missing) or f"in room {room}"
        sys.exit(f"error: no mutant {what}\nhint: --list names them all")
    return chosen


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    options = _arguments(argv)
    root = options.root.resolve()
    mutants = _chosen(read_mutants(root), options.only, options.room)
    if options.list:
        print("\n".join(f"{m.id:44} {m.file}" for m in mutants))
        return 0
    problems = list_problems(mutants, root)
    if problems:
        print("\n".join(problems), file=sys.stderr)
        return 2
    results = try_in_copies(mutants, root, options.jobs, options.timeout)
    if results is None:
        return 2
    told = report(results)
    if options.json:
        print(json.dumps(told, indent=2))
    else:
        print(f"killed {told['killed']} of {told['all']}, {told['equivalent']} argued equivalent")
        for name in told["wrong"]:
            print(f"wrong: {name}")
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
