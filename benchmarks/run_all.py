"""Run the benchmarks one after the other and write one report: `make bench`.

The default takes minutes; `--full` adds what takes an hour (all settings on all of craft dev).
Beside the report there is a file of the same numbers by name, with the machine and the commit:

    {"commit": ..., "machine": {...}, "benchmarks": {"parsing": {"plain | F1": 75.4, ...}, ...}}

`python benchmarks/compare.py OLD.json NEW.json` says what changed between two of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).resolve().parent
# An argument METHOD.sapwood is a model of ptb's train part, trained with the method's defaults.
MODEL = ".sapwood"
# script and arguments: the default, and the full one
PLAN = (
    ("machine.py", (), ()),
    ("startup.py", (), ()),
    ("first_minute.py", (), ()),
    ("page.py", ("--seconds", "10"), ()),
    ("page_hours.py", ("--hours", "0.02"), ()),
    ("reading.py", (), ()),
    ("robustness.py", (), ()),
    ("streaming.py", ("-n", "20000"), ()),
    ("parsing.py", ("spectral.sapwood",), ("spectral.sapwood", "best.sapwood")),
    ("constraints.py", ("spectral.sapwood", "--limit", "60"), ("em.sapwood",)),
    (
        "annotation.py",
        ("words", "--seeds", "0", "--pool", "600", "--trees", "100"),
        ("words", "--corpus", "ptb", "craft", "icepahc", "gum_open"),
    ),
    ("annotation_latency.py", ("--trees", "20", "200"), ()),
    ("running_text.py", ("--documents", "100", "--sentences", "2000", "--characters", "2000"), ()),
    ("english_models.py", ("--tokens",), ()),
    ("surprisal.py", ("--states", "8", "--words", "500"), ()),
    (
        "audit.py",
        ("--corpora", "ptb", "--rates", "0.02", "--trees", "600", "--seeds", "1"),
        ("--corpora", "ptb,craft,icepahc,gum_open"),
    ),
    ("audit_arcs.py", ("--sentences", "300", "--rates", "0.02", "--seeds", "1"), ()),
    ("spectral.py", ("--corpus", "ptb", "--states", "8,16"), ()),
    ("em.py", ("--states", "8,16"), ("--table",)),
    ("memory_table.py", ("--sizes", "1kB", "3MB", "--seconds", "20"), ()),
    ("memory_estimates.py", ("--only", "trees"), ()),
    ("larger_than_memory.py", ("--corpus", "ptb", "--copies", "1", "2"), ()),
    ("engine.py", ("--copies", "4", "--parts", "files", "kills"), ()),
    ("ensembles.py", ("--minutes", "1"), ()),
    ("defaults.py", ("--corpora", "ptb", "--train", "--budget", "60"), ()),
    ("small_treebanks.py", ("--sizes", "25", "--draws", "1"), ()),
    ("twin_states.py", (), ("--corpora", "ptb")),
    ("dependency_parsing.py", ("--corpus", "ud_french_sequoia"), ("--oracle", "300")),
    ("arc_networks.py", ("--corpus", "ud_vietnamese_vtb", "--words", "4000"), ()),
    ("ladder.py", ("--trees", "500", "--passes", "4"), ("--folds", "5")),
    ("identify.py", (), ("--long", "--wide", "--floats")),
    ("unmixing.py", ("--part", "exact"), ()),
    (
        "dependency_reranking.py",
        ("--corpora", "ptb_nltk_dep", "--limit", "900"),
        ("--limit", "2000"),
    ),
    (
        "language_models.py",
        ("--parts", "brown", "iteration", "--states", "32"),
        ("--parts", "brown", "news", "iteration"),
    ),
    ("language_scale.py", ("--millions", "1", "2", "--states", "32"), ()),
    ("latent_dependencies.py", ("--states", "1,8", "--copies", "1,10"), ()),
    ("hankel.py", ("--targets", "2", "--repeats", "2", "--em-iterations", "40"), ()),
    ("hankel_tags.py", ("--corpora", "ptb", "--states", "5"), ()),
    (
        "hankel_rna.py",
        ("--train", "300", "--dev", "60", "--methods", "pcfg:1", "spectral:8", "--wcfg", "em:4"),
        (),
    ),
)


def trained(name: str, folder: Path) -> str:
    """A model file of the folder, made where it is not there yet."""
    import machine

    path = folder / name
    if not path.exists():
        train, method = machine.corpus_file("ptb", "train"), name.removesuffix(MODEL)
        options = ["-o", str(path), "--method", method]
        places = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "sapwood", "train", str(train), *options]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": places})
    return str(path)


def run(
    script: str, arguments: tuple[str, ...], folder: Path
) -> tuple[str, dict[str, float], bool]:
    """What a script prints, its numbers by name, and whether it ended well."""
    filled = [trained(each, folder) if each.endswith(MODEL) else each for each in arguments]
    with tempfile.TemporaryDirectory() as scratch:
        tables = Path(scratch) / "tables"
        tables.touch()
        start = perf_counter()
        command = [sys.executable, str(HERE / script), *filled]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            env=os.environ | {"SAPWOOD_TABLES": str(tables)},
        )  # fmt: skip
        seconds = perf_counter() - start
        numbers: dict[str, float] = {}
        for line in tables.read_text(encoding="utf-8").splitlines():
            for name, number in numbers_of(json.loads(line)).items():
                known = sum(each.split(" #")[0] == name for each in numbers)
                numbers[f"{name} #{known + 1}" if known else name] = number
    shown = " ".join(["python", f"benchmarks/{script}", *arguments])
    note = f"`{shown}`, {seconds:.0f} s wall"
    if done.returncode != 0:
        note += f", FAILED with status {done.returncode}\n\n{done.stderr.strip()}"
    return f"{done.stdout.strip()}\n\n{note}\n", numbers, done.returncode == 0


def numbers_of(table: dict[str, Any]) -> dict[str, float]:
    """The numbers of a table by name: its row's first cells, as many as tell rows apart; column.

    Of a cell with two numbers, such as the least and the median of some times, the first.

    Examples
    --------
    >>> numbers_of({"header": ["method", "states", "F1"], "rows": [["em", "8", "85.1"]]})
    {'em | states': 8.0, 'em | F1': 85.1}
    >>> rows = [["em", "8", "85.1"], ["em", "16", "no tree"]]
    >>> numbers_of({"header": ["method", "states", "F1"], "rows": rows})
    {'em | 8 | F1': 85.1}
    """
    rows = table["rows"]
    n_named = next((n for n in range(1, len(table["header"])) if _are_unique(rows, n)), 1)
    found = {}
    for row in rows:
        for column, cell in list(zip(table["header"], row, strict=True))[n_named:]:
            number = re.match(r"[-+]?[\d,]*\.?\d+(e[-+]?\d+)?(?![\w.])", cell.strip("* "))
            if number:
                name = " | ".join([*row[:n_named], column])
                found[name] = float(number[0].replace(",", ""))
    return found


def _are_unique(rows: list[list[str]], n: int) -> bool:
    return len({tuple(row[:n]) for row in rows}) == len(rows)


def commit() -> str:
    """The commit of this checkout; with a + where files were changed since."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty=+", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> int:
    """Write the report and repeat it on stdout."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path("build") / "benchmarks.md")
    options.add_argument("--only", nargs="*", metavar="NAME", help="scripts, without `.py`")
    options.add_argument("--full", action="store_true")
    given = options.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    failures = 0
    sys.path.insert(0, str(HERE))  # `python -m benchmarks` does not start in this folder
    import machine

    benchmarks: dict[str, dict[str, float]] = {}
    report_of = {"commit": commit(), "machine": machine.facts(), "benchmarks": benchmarks}
    with given.out.open("w", encoding="utf-8") as report:
        for script, quick, full in PLAN:
            if given.only and script.removesuffix(".py") not in given.only:
                continue
            text, numbers, is_good = run(script, full if given.full else quick, given.out.parent)
            failures += not is_good
            if is_good:
                benchmarks[script.removesuffix(".py")] = numbers
            report.write(text + "\n")
            report.flush()
            print(text, flush=True)
    beside = given.out.with_suffix(".json")
    beside.write_text(json.dumps(report_of, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {given.out} and {beside}", file=sys.stderr)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
