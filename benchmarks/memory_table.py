"""Time and memory of every command that reads data, with 1 kB, 3 MB and 300 MB of input.

    SAPWOOD_DATA=/path/to/data python benchmarks/memory_table.py
    python benchmarks/memory_table.py --sizes 3MB --only 'hankel' --seconds 60

Each command runs in a process of its own that may take 8 GB (`ulimit -v`). A command that is at
work after the time limit is stopped: what counts then is how much memory it had taken. Fine are a
result, a refusal in one line, and work in bounded memory; a traceback, a death by a signal and a
MemoryError are faults. The inputs repeat the corpora, with other words in each copy of the text.
"""

from __future__ import annotations

import argparse
import lzma
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

SIZES = {"1kB": 1_000, "3MB": 3_000_000, "300MB": 300_000_000}
LIMIT = 8 << 30  # bytes of address space
COMMANDS = {
    "train pcfg": "train TREES -o OUT --method pcfg",
    "train em": "train TREES -o OUT --method em --states 2 --iterations 5",
    "train spectral": "train TREES -o OUT --method spectral --states 4",
    "train pivot": "train TREES -o OUT --method pivot --states 4",
    "train cluster": "train TREES -o OUT --method cluster --states 4 --iterations 2",
    "train crf": "train TREES -o OUT --method crf --iterations 1",
    "train encoder": "train TREES -o OUT --method encoder --iterations 1",
    "train best": "train TREES -o OUT --method best --budget 20s",
    "compare": "compare TREES SMALL --methods pcfg",
    "evaluate": "evaluate TREES TREES",
    "stats": "stats TREES",
    "split": "split TREES -o OUT",
    "words": "words TREES -o OUT",
    "data convert": "data convert TREES -o OUT",
    "parse": "parse bundled TEXT -o OUT",
    "score": "score bundled TEXT",
    "unmix": "unmix dep-ies TEXT",
    "embed": "embed TEXT -o OUT --dimension 8",
    "lm count": "lm count TEXT -o OUT",
    "lm train kn": "lm train TEXT -o OUT --method kn",
    "lm train em": "lm train TEXT -o OUT --method em --states 4",
    "hankel learn": "hankel learn TEXT -o OUT --states 4",
    "hankel learn factored": "hankel learn TEXT -o OUT --states 4 --solver factored",
    "hankel learn em": "hankel learn TEXT -o OUT --states 4 --method em",
    "hankel learn wfa": "hankel learn TEXT -o OUT --states 4 --method wfa",
    "hankel learn trees": "hankel learn TREES -o OUT --states 4 --supervised",
    "depend train first": "depend train ARCS -o OUT --method first --passes 1",
    "depend train second": "depend train ARCS -o OUT --method second --passes 1",
    "depend evaluate": "depend evaluate ARCS ARCS",
    "depend convert": "depend convert ARCS -o OUT",
    "depend draw": "depend draw ARCS -o OUT",
}


def main() -> None:
    """Print a row for each command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--only", default="", help="commands that start so")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one command")
    options = parser.parse_args()
    print("| command | input | seconds | peak MB | outcome |")
    print("|---|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        inputs = {size: dict(make_inputs(folder, size)) for size in options.sizes}
        small = dict(make_inputs(folder, "1kB"))["TREES"]
        for title, line in COMMANDS.items():
            if not title.startswith(options.only):
                continue
            for size in options.sizes:
                known = inputs[size] | {"SMALL": small, "OUT": folder / "out"}
                given = [str(known.get(word, word)) for word in line.split()]
                seconds, peak, outcome = run(given, options.seconds)
                print(f"| {title} | {size} | {seconds:.1f} | {peak:,.0f} | {outcome} |", flush=True)
                for old in folder.glob("out*"):
                    subprocess.run(["rm", "-rf", str(old)], check=True)


def make_inputs(folder: Path, size: str) -> Iterator[tuple[str, Path]]:
    """Trees, arcs and text of about so many bytes."""
    data = Path(os.environ["SAPWOOD_DATA"])
    for name, source, unit in (
        ("TREES", data / "craft" / "train.mrg.xz", b"\n"),
        ("ARCS", data / "ud_english_ewt" / "train.conllu.xz", b"\n\n"),
        ("TEXT", data / "wikinews_en" / "train.txt.xz", b"\n"),
    ):
        path = (
            folder
            / f"{name.lower()}-{size}{ {'TREES': '.mrg', 'ARCS': '.conllu'}.get(name, '.txt') }"
        )
        if not path.exists():
            with lzma.open(source) as packed:
                whole = packed.read()
            with path.open("wb") as file:
                copy = 0
                while (left := SIZES[size] - file.tell()) > 0:
                    cut = (
                        whole if left >= len(whole) else whole[: whole.find(unit, left) + len(unit)]
                    )
                    if name == "TEXT" and copy:  # other words in every copy
                        cut = cut.replace(b"e ", b"e%d " % copy)
                    file.write(cut or whole)
                    copy += 1
        yield name, path


def run(arguments: list[str], limit: float) -> tuple[float, float, str]:
    """Seconds, peak in MB, and how a command ended."""
    started, peak = monotonic(), 0.0
    with tempfile.TemporaryFile("w+") as errors:
        within = ["/bin/sh", "-c", 'ulimit -v "$0"; exec "$@"', str(LIMIT // 1024)]
        child = subprocess.Popen(
            [*within, sys.executable, "-m", "sapwood", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        while child.poll() is None and monotonic() - started < limit:
            peak = max(peak, memory_of(child.pid))
            sleep(0.05)
        seconds = monotonic() - started
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return seconds, peak, "at work"
        errors.seek(0)
        told = errors.read()
    if child.returncode == 0:
        return seconds, peak, "done"
    lines = [line for line in told.splitlines() if line.startswith("error:")]
    if child.returncode < 0 or "unexpected" in told or "Traceback" in told or not lines:
        last = (told.strip().splitlines() or [""])[-1]
        return seconds, peak, f"FAULT {child.returncode}: {last[:120]}"
    return seconds, peak, f"refused: {lines[-1].removeprefix('error: ')[:160]}"


def memory_of(pid: int) -> float:
    """Peak of a process in MB."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


if __name__ == "__main__":
    main()
