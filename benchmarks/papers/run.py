"""Run the papers again: `make papers` writes their tables into docs/papers.

    python benchmarks/papers/run.py                    all tables, a quarter of an hour on two cores
    python benchmarks/papers/run.py --fast             smaller ones, some five minutes
    python benchmarks/papers/run.py --only dep wcfg.figure-3
    python benchmarks/papers/run.py --jobs 1           one table after the other
    python benchmarks/papers/run.py --check            fails where a page has a stale table

A table of a page stands between two comments; the second says how it was made:

    <!-- table ladder -->
    ...
    <!-- end ladder: full, 3f2a91c07d55 -->

or `not made`, where nobody has had the time yet; the page then says where else numbers are.

The number is a digest of the function that makes the table and of its size: who changes the
function must run it again. What the function calls is not part of it.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGES = ROOT / "docs" / "papers"
NOT_MADE = "not made"
NUMBER = re.compile(r"[-+.<>~* ]*\d[^:]*$")
PAPERS = ("spectral", "pivot", "dep", "wcfg", "ident")
LONGEST = {("pivot", "parsing"), ("wcfg", "figure-1"), ("wcfg", "figure-2"), ("pivot", "brown")}


class Table(NamedTuple):
    """What a page shows: numbers, and a line about them."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""


Maker = Callable[[bool], Table]  # given whether it must be fast


def benchmark(script: str, *arguments: str) -> list[Table]:
    """The tables that a script of the folder above prints."""
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch) / "tables"
        found.touch()
        places = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {"SAPWOOD_TABLES": str(found), "PYTHONPATH": places}
        command = [sys.executable, str(HERE.parent / script), *arguments]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        lines = found.read_text(encoding="utf-8").splitlines()
    tables = [Table(**json.loads(line)) for line in lines]
    note = f"`benchmarks/{script} {shlex.join(arguments)}`"
    return [table._replace(note=note) for table in tables]


def makers(paper: str) -> dict[str, Maker]:
    """The tables of a paper by name."""
    for folder in (HERE, HERE.parent, ROOT):  # machine.py, and the models of tests/theorems
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    # by its file: the folder above has scripts of the same name
    spec = importlib.util.spec_from_file_location(f"paper_{paper}", HERE / f"{paper}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found: dict[str, Maker] = module.TABLES
    return found


def digest(maker: Maker, *, is_fast: bool) -> str:
    """What must stay the same for a table to be up to date."""
    text = f"{inspect.getsource(maker)}{'fast' if is_fast else 'full'}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def place_of(name: str) -> re.Pattern[str]:
    """Where a table stands in a page; its size and its digest are groups."""
    return re.compile(
        rf"<!-- table {name} -->\n.*?<!-- end {name}(?:: (fast|full|not made)(?:, (\w+))?)? -->",
        re.DOTALL,
    )


def page_of(paper: str) -> Path:
    """The page that tells of a paper."""
    return PAGES / f"{paper}.md"


def stale(paper: str) -> Iterator[str]:
    """What is wrong with the tables of a page, a line each."""
    text = page_of(paper).read_text(encoding="utf-8")
    known = makers(paper)
    for name in set(re.findall(r"<!-- table ([\w-]+) -->", text)) - set(known):
        yield f"docs/papers/{paper}.md: nothing makes the table {name}"
    for name, maker in known.items():
        found = place_of(name).search(text)
        if found is None:
            yield f"docs/papers/{paper}.md: the table {name} is missing"
        elif found[1] != NOT_MADE and found[2] != digest(maker, is_fast=found[1] == "fast"):
            yield f"docs/papers/{paper}.md: the table {name} is stale"


def markdown(table: Table) -> str:
    """A Markdown table, columns of numbers to the right but for the first; the note below it."""
    numbers = []
    for i in range(len(table.header)):
        cells = [cell for row in table.rows if (cell := str(row[i]))]
        numbers.append(2 * sum(map(bool, map(NUMBER.match, cells))) > len(cells))
    sides = ["---", *("---:" if is_number else "---" for is_number in numbers[1:])]
    lines = ["| " + " | ".join(table.header) + " |", "|" + "|".join(sides) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in table.rows]
    return "\n".join(lines) + (f"\n\n{table.note}\n" if table.note else "\n")


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    import resource  # which Windows has not; the check of tables works there too

    own, others = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def make(paper: str, name: str, *, is_fast: bool) -> Table:
    """Make a table; its note says what it took."""
    start = cpu_seconds()
    table = makers(paper)[name](is_fast)
    spent = f"{cpu_seconds() - start:.0f} CPU s, {_size(is_fast)} size"
    return table._replace(note=f"{table.note}; {spent}." if table.note else f"{spent}.")


def _size(is_fast: bool) -> str:
    return "fast" if is_fast else "full"


def write(paper: str, name: str, table: Table, *, is_fast: bool) -> None:
    """Put a table into its page."""
    body = markdown(table)
    print(f"## {paper}.{name}\n\n{body}", flush=True)
    mark = f"<!-- end {name}: {_size(is_fast)}, {digest(makers(paper)[name], is_fast=is_fast)} -->"
    page = page_of(paper)
    text, n = place_of(name).subn(
        lambda _: f"<!-- table {name} -->\n{body}\n{mark}", page.read_text(encoding="utf-8")
    )
    if n != 1:
        sys.exit(f"{page}: expected the table {name} once, found it {n} times")
    page.write_text(text, encoding="utf-8")


def make_all(tables: Sequence[tuple[str, str]], jobs: int, *, is_fast: bool) -> None:
    """Make tables, some side by side, and write each as soon as it is there."""
    began = perf_counter()
    first = sorted(tables, key=lambda table: table not in LONGEST)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        places = {pool.submit(make, *table, is_fast=is_fast): table for table in first}
        for done in as_completed(places):
            write(*places[done], done.result(), is_fast=is_fast)
            minutes = (perf_counter() - began) / 60
            print(f"{'.'.join(places[done])}: after {minutes:.1f} minutes", file=sys.stderr)


def main() -> int:
    """Write the tables, or say which are stale."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--fast", action="store_true", help="smaller sizes")
    options.add_argument("--only", nargs="+", metavar="PAPER[.TABLE]", default=PAPERS)
    options.add_argument("--jobs", type=int, default=2, help="tables made side by side")
    options.add_argument("--check", action="store_true", help="fail where a table is stale")
    given = options.parse_args()
    if given.check:
        wrong = [line for paper in PAPERS for line in stale(paper)]
        for paper in PAPERS:
            text = page_of(paper).read_text(encoding="utf-8")
            for name in re.findall(rf"<!-- end ([\w-]+): {NOT_MADE} -->", text):
                print(f"docs/papers/{paper}.md: the table {name} is not made yet")
        print("\n".join(wrong) or "no table is stale")
        return min(len(wrong), 1)
    tables = [(paper, name) for paper in PAPERS for name in makers(paper)]
    unknown = set(given.only) - {*PAPERS, *map(".".join, tables)}
    if unknown:
        options.error(
            f"no table {sorted(unknown)[0]}; there are {', '.join(map('.'.join, tables))}"
        )
    asked = [table for table in tables if {table[0], ".".join(table)} & set(given.only)]
    make_all(asked, given.jobs, is_fast=given.fast)
    return 0


if __name__ == "__main__":
    sys.exit(main())
