"""Run the benchmarks one after the other and write one report: `make bench`.

The default takes minutes; `--full` adds what takes an hour (all settings on all of craft dev).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

HERE = Path(__file__).resolve().parent
# An argument METHOD.sapwood is a model of ptb's train part, trained with the method's defaults.
MODEL = ".sapwood"
# script and arguments: the default, and the full one
PLAN = (
    ("machine.py", (), ()),
    ("startup.py", (), ()),
    ("reading.py", (), ()),
    ("coarse_chart.py", (), ()),
    ("unary_layer.py", (), ()),
    ("pcfg_table.py", ("--corpus", "ptb"), ("--corpus", "both")),
    ("robustness.py", (), ()),
    ("out_of_domain.py", ("--limit", "300"), ()),
    ("streaming.py", ("-n", "20000"), ()),
    ("parsing.py", ("spectral.sapwood",), ("spectral.sapwood", "best.sapwood")),
    ("pivot_gap.py", ("--states", "8", "--part", "dev"), ("--variants", "--em")),
    ("ensembles.py", ("--minutes", "1"), ()),
    ("identify.py", (), ("--long", "--wide", "--floats")),
    ("unmixing.py", ("--part", "exact"), ()),
)


def trained(name: str, folder: Path) -> str:
    """A model file of the folder, made where it is not there yet."""
    sys.path.insert(0, str(HERE))  # `python -m benchmarks` does not start in this folder
    import machine

    path = folder / name
    if not path.exists():
        train, method = machine.corpus_file("ptb", "train"), name.removesuffix(MODEL)
        options = ["-o", str(path), "--method", method]
        places = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "sapwood", "train", str(train), *options]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": places})
    return str(path)


def run(script: str, arguments: tuple[str, ...], folder: Path) -> tuple[str, bool]:
    """What a script prints, and whether it ended well."""
    filled = [trained(each, folder) if each.endswith(MODEL) else each for each in arguments]
    start = perf_counter()
    command = [sys.executable, str(HERE / script), *filled]
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
            text, is_good = run(script, full if given.full else quick, given.out.parent)
            failures += not is_good
            report.write(text + "\n")
            report.flush()
            print(text, flush=True)
    print(f"written to {given.out}", file=sys.stderr)
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
