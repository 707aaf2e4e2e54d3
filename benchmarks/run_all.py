"""Run the benchmarks one after the other and write one report: `make bench`.

The default takes minutes; `--full` adds what takes an hour (all settings on all of craft dev).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).resolve().parent
# script and arguments: the default, and the full one
PLAN = (
    ("machine.py", (), ()),
    ("startup.py", (), ()),
    ("reading.py", (), ()),
    ("coarse_chart.py", (), ()),
    ("unary_layer.py", (), ()),
    ("pcfg_table.py", ("--corpus", "ptb"), ("--corpus", "both")),
    ("robustness.py", (), ()),
)


def run(script: str, arguments: tuple[str, ...]) -> tuple[str, bool]:
    """What a script prints, and whether it ended well."""
    start = perf_counter()
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = " ".join(["python", f"benchmarks/{script}", *arguments])
    note = f"`{shown}`, {perf_counter() - start:.0f} s wall"
    if done.returncode != 0:
        note += f", FAILED with status {done.returncode}\n\n{done.stderr.strip()}"
    return f"{done.stdout.strip()}\n\n{note}\n", done.returncode == 0


def main() -> int:
    """Write the report and repeat it on stdout."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=Path("build") / "benchmarks.md")
    options.add_argument("--only", nargs="*", metavar="NAME", help="scripts, without `.py`")
    options.add_argument("--full", action="store_true")
    given = options.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    failures = 0
    with given.out.open("w", encoding="utf-8") as report:
        for script, quick, full in PLAN:
            if given.only and script.removesuffix(".py") not in given.only:
                continue
            text, is_good = run(script, full if given.full else quick)
            failures += not is_good
            report.write(text + "\n")
            report.flush()
            print(text, flush=True)
    print(f"written to {given.out}", file=sys.stderr)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
