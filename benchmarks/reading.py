"""How fast treebanks are read: decompress, read brackets, clean, make binary and pack."""

from __future__ import annotations

import argparse
import gc
import io
import subprocess
import sys
from pathlib import Path

import machine

PHASES = ("decompress", "read", "clean", "transform + pack")
SPLITS = (("ptb", "train"), ("craft", "train"), ("icepahc", "train"))


def phase_seconds(path: Path, repeats: int) -> dict[str, machine.Seconds]:
    """CPU seconds of each phase, run one after the other with everything kept in memory.

    The garbage collector rests: it would walk all trees kept again and again, which the stream of
    `read_treebank` never makes it do.
    """
    from sapwood.constituency.data.treebank import Treebank
    from sapwood.corpora.files import open_text
    from sapwood.corpora.formats import read_trees
    from sapwood.corpora.tree import clean_all

    times: dict[str, list[float]] = {phase: [] for phase in PHASES}
    gc.disable()
    for _ in range(repeats):
        with machine.Clock() as clock, open_text(path) as file:
            text = file.read()
        times["decompress"].append(clock.cpu)
        with machine.Clock() as clock:
            raw = list(read_trees(io.StringIO(text)))
        times["read"].append(clock.cpu)
        with machine.Clock() as clock:
            cleaned = list(clean_all(raw))
        times["clean"].append(clock.cpu)
        with machine.Clock() as clock:
            Treebank.from_trees(cleaned)
        times["transform + pack"].append(clock.cpu)
        del raw, cleaned
        gc.collect()
    gc.enable()
    return {phase: machine.summary(values) for phase, values in times.items()}


def stream(corpus: str, split: str, repeats: int) -> None:
    """Print, in a process of its own, what `read_treebank` takes as users call it."""
    import sapwood as sw

    path = machine.corpus_file(corpus, split)
    sw.Treebank.from_trees([sw.Tree.parse("(S (A a) (B b))")])  # imports are not what is measured
    before = machine.peak_mb()
    bank = sw.read_treebank(path)
    peak = machine.peak_mb()
    n_trees, n_tokens = bank.n_trees, bank.n_tokens
    del bank
    taken = machine.seconds_of(lambda: sw.read_treebank(path), repeats)
    print(n_trees, n_tokens, taken.least, taken.median, peak, before)


def streamed(corpus: str, split: str, repeats: int) -> list[float]:
    """Run `stream` in a fresh process: trees, tokens, least and median seconds, peak, before."""
    command = [sys.executable, __file__, "--stream", corpus, split, "--repeats", str(repeats)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(number) for number in done.stdout.split()]


def main() -> None:
    """Print two tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--stream", nargs=2, help=argparse.SUPPRESS)
    options.add_argument("--corpora", default="ptb,craft,icepahc", help="comma-separated")
    given = options.parse_args()
    if given.stream:
        stream(*given.stream, given.repeats)
        return
    wanted = [item for item in SPLITS if item[0] in given.corpora.split(",")]
    files = {item: machine.corpus_file(*item) for item in wanted}
    machine.print_facts("Reading treebanks")
    print(f"`read_treebank`, streaming, CPU seconds (least / median of {given.repeats}):\n")
    rows = []
    for item in wanted:
        n_trees, n_tokens, least, median, peak, before = streamed(*item, given.repeats)
        sizes = f"{n_trees:,.0f}", f"{n_tokens:,.0f}"
        speeds = f"{n_trees / least:,.0f}", f"{n_tokens / least:,.0f}"
        memory = f"{peak:.0f} ({before:.0f})"
        rows.append(("/".join(item), *sizes, machine.Seconds(least, median), *speeds, memory))
    header = ("corpus", "trees", "tokens", "CPU s", "trees/s", "tokens/s", "peak MB (before)")
    machine.print_table(header, rows)
    print("Phase by phase, trees kept in memory, garbage collector off (CPU s, least / median):\n")
    rows = []
    for item, path in files.items():
        phases = phase_seconds(path, given.repeats)
        total = sum(phase.least for phase in phases.values())
        rows.append(("/".join(item), *phases.values(), f"{total:.2f}"))
    machine.print_table(("corpus", *PHASES, "sum of least"), rows)


if __name__ == "__main__":
    main()
