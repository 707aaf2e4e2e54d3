"""`python -m tests.kills`: kill commands at every step and at random moments, and look.

Commands end with SIGKILL before each step that changes files (open, write, rename, ...), in the
middle of each write, and at random moments. A file with a final name must be complete, or as it was
before; the next run must end well with the output of an undisturbed run, byte for byte, and use
what a checkpoint or `--resume` had kept. A new command is a line in `jobs.py`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

from tests.kills.jobs import JOBS, prepare, serve
from tests.kills.kill import Bench, Moment, warm


def main() -> int:
    """Run as the arguments say; status 1 when something was found."""
    options = _options()
    chosen = [job for name, job in JOBS.items() if name.startswith(options.job)]
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        home = Path(name)
        prepared = home / "prepared"
        prepared.mkdir()
        prepare(prepared)
        server = serve(prepared)
        try:
            while not (prepared / "url").exists():
                sleep(0.05)
            report = _kill_all(chosen, prepared, home, options)
        finally:
            server.terminate()
            server.wait()
    if options.json:
        print(json.dumps(report, indent=1))
    return int(any(row["faults"] for row in report))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000, help="in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--job", default="", help="only jobs whose names start so: train.em")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _kill_all(chosen: list, prepared: Path, home: Path, options: argparse.Namespace) -> list[dict]:
    rng = random.Random(options.seed)
    share = -(-options.kills // len(chosen))
    report = []
    for job in chosen:
        started = monotonic()
        warm(job, _copy(prepared, home / "work"))
        bench = Bench(job, prepared, home / "work")
        faults: dict[str, str] = {}
        left: Counter[int] = Counter()
        kinds: Counter[str] = Counter()
        for moment in itertools.islice(_moments(bench, rng, share), share):
            for fault in bench.kill(moment):
                faults.setdefault(fault, str(moment))
            left[len(bench.left_over())] += 1
            kinds["step" if moment.step else "time"] += 1
        row = {
            "job": job.name,
            "kills": sum(kinds.values()),
            "at_steps": kinds["step"],
            "at_times": kinds["time"],
            "steps": len(bench.right.steps),
            "seconds": round(monotonic() - started, 1),
            "left_over": max(left, default=0),
            "faults": [f"{when}: {fault}" for fault, when in faults.items()],
        }
        report.append(row)
        print(_line(row), file=sys.stderr, flush=True)
    return report


def _moments(bench: Bench, rng: random.Random, n: int) -> Iterator[Moment]:
    """All steps if there is room for them, else some; the rest at random times."""
    steps = bench.moments()
    yield from steps if len(steps) <= 2 * n // 3 else rng.sample(steps, 2 * n // 3)
    while True:
        yield Moment(seconds=rng.uniform(0.0, bench.right.seconds))


def _copy(prepared: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(prepared, folder))


def _line(row: dict) -> str:
    text = (
        f"{row['job']:<26}{row['kills']:>5} kills  {row['at_steps']:>4} at its {row['steps']:>4} "
        f"steps  {row['at_times']:>4} at random  {row['seconds']:>7} s  {len(row['faults'])} faults"
    )
    return "\n".join([text, *(f"    {fault}" for fault in row["faults"])])


if __name__ == "__main__":
    sys.exit(main())
