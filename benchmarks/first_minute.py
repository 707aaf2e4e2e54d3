"""From nothing to the tree of a typed sentence: `pip install .` and the first commands.

Every cache is empty: of pip, of byte code and of compiled kernels. Each step has its seconds, its
CPU seconds (with those of the processes that it starts), the megabytes of the packages that pip
fetched, from the network or from an index on this machine, and those added to the environment.
Needs access to a package index, and some 600 MB in a temporary folder, which is removed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import machine

SHORT = "The girl saw the boy with the telescope."
LONG = (
    "The museum that we visited in Paris opens at nine, but the guide who met us there said that "
    "most people come late in the afternoon."
)
DIED = "the command failed:"


def megabytes(folder: Path) -> float:
    """The size of all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


UNITS = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0}


def fetched(output: str) -> float:
    r"""The megabytes of the packages that pip says that it has fetched.

    >>> fetched("Downloading a-1-py3-none-any.whl (2.5 MB)\\n  Downloading b.whl.metadata (5 kB)")
    2.505
    """
    sizes = re.findall(r"Downloading \S+ \(([\d.]+) (bytes|kB|MB)\)", output)
    local = map(Path, re.findall(r"Processing (\S+\.whl)", output))
    return sum(float(size) * UNITS[unit] for size, unit in sizes) + sum(
        path.stat().st_size / 1e6 for path in local if path.exists()
    )


def steps(home: Path) -> Iterator[tuple[str, list[str], str]]:
    """Name, command and standard input of every step, in order."""
    python = str(home / "venv" / "bin" / "python")
    sapwood = str(home / "venv" / "bin" / "sapwood")
    parse = [sapwood, "parse", "english", "--raw"]
    yield "python -m venv", [sys.executable, "-m", "venv", str(home / "venv")], ""
    yield "pip install .", [python, "-m", "pip", "install", str(machine.ROOT)], ""
    yield "sapwood parse english, a typed sentence, the first command", parse, SHORT
    yield "the same again", parse, SHORT
    yield "a sentence of 27 words, which compiles the kernels", parse, LONG
    yield "a typed sentence, kernels compiled", parse, SHORT
    yield "once more", parse, SHORT
    yield (
        "sapwood depend parse english-ud",
        [sapwood, "depend", "parse", "english-ud", "--raw"],
        SHORT,
    )
    yield "sapwood demo", [sapwood, "demo"], ""
    yield "sapwood demo, again", [sapwood, "demo"], ""


def main() -> None:
    """Print a row for each step, and the tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="make the environment here, and keep it")
    given = parser.parse_args()
    machine.print_facts("The first minute", threads=machine.n_cores())
    with tempfile.TemporaryDirectory(prefix="first-minute-") as scratch:
        home = given.keep or Path(scratch)
        rows = list(_run(home.resolve()))
    header = ("step", "seconds", "CPU seconds", "MB fetched", "MB added")
    machine.print_table(header, rows)


def _run(home: Path) -> Iterator[tuple[str, str, str, str, str]]:
    """The rows of the table; the environment is made in a folder."""
    working = home / "working"
    working.mkdir(parents=True, exist_ok=True)
    kept = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "NUMBA"))
    }
    environment = kept | {
        "PIP_CACHE_DIR": str(home / "downloads"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }
    whole = [0.0, 0.0]
    for name, command, text in steps(home):
        before_mb = megabytes(home / "venv")
        started, before = perf_counter(), machine.cpu_of_all()[1]
        done = subprocess.run(
            command, cwd=working, env=environment, input=text, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        seconds, cpu = perf_counter() - started, machine.cpu_of_all()[1] - before
        if done.returncode:
            sys.exit(f"{DIED} {' '.join(command)}\n{done.stdout}{done.stderr}")
        if text == SHORT:
            print(done.stdout.strip(), "\n", flush=True)
        sizes = fetched(done.stdout), megabytes(home / "venv") - before_mb
        yield (name, f"{seconds:.1f}", f"{cpu:.2f}", *(f"{size:.1f}" for size in sizes))
        whole = [whole[0] + seconds, whole[1] + cpu]
        if command[-3:] == ["parse", "english", "--raw"] and "first command" in name:
            print(f"from nothing to the first tree: {whole[0]:.1f} s, {whole[1]:.1f} CPU s\n")


if __name__ == "__main__":
    main()
