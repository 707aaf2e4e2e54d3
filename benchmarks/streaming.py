"""A long stream of sentences in flat memory, and on two threads.

Short sentences of a treebank are repeated up to the wanted number; trees are made into text, as the
command line does, and thrown away. With `--text`, `sapwood parse` itself parses the first lines of
a file, each as it stands, and memory is that of all its processes, shared pages counted once.

python benchmarks/streaming.py --model mix.sapwood --text news.txt.xz --jobs 2
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import machine

import sapwood as sw
from sapwood.corpora.files import open_text

LOOK = 500  # trees after which memory is looked at


def sentences_of(corpus: str, longest: int) -> list[list[str]]:
    """Sentences of up to so many words, of a corpus or of the bundled test trees."""
    if corpus == "bundled":
        bank = sw.bundled_treebank("test")
        every = [bank.words(index) for index in range(bank.n_trees)]
    else:
        every = [tree.words() for tree in machine.gold_trees(corpus, "dev")]
    return [words for words in every if len(words) <= longest]


def memory_mb() -> float:
    """Resident memory now; the peak where the system does not tell."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return machine.peak_mb()
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def stream(
    model: sw.LatentGrammar | sw.Ensemble, lines: list[list[str]], n: int, jobs: int, every: int
) -> Iterator[tuple[int, float, machine.Clock]]:
    """Parse n sentences; after each `every`, how many are done, memory, and time since before."""
    parser = sw.Parser(model)
    parses = parser.parse_many(islice(cycle(lines), n), jobs=jobs)
    done = 0
    while done < n:
        with machine.Clock() as clock:
            for parse in islice(parses, every):
                done += len(str(parse.tree)) > 0
        yield done, memory_mb(), clock


def shared_mb(process: int) -> float:
    """Memory of a process and those that it has started; pages that several share count once."""
    folder = Path("/proc") / str(process)
    try:
        said = (folder / "smaps_rollup").read_text().split()
        children = (folder / "task" / str(process) / "children").read_text().split()
    except OSError:  # it has ended meanwhile
        return 0.0
    own = float(said[said.index("Pss:") + 1]) / 1000
    return own + sum(shared_mb(int(child)) for child in children)


def print_command(given: argparse.Namespace) -> None:
    """What `sapwood parse` takes for the first lines of a text, along the stream."""
    with TemporaryDirectory() as scratch:
        lines = Path(scratch) / "lines.txt"
        with open_text(given.text) as text, lines.open("w", encoding="utf-8") as out:
            n_words = sum(out.write(line) and len(line.split()) for line in islice(text, given.n))
        what = f"{given.n:,} lines of {given.text.name}, {n_words:,} words"
        print(f"model {given.model.name}, {what}:\n")
        command = ("parse", given.model, lines, "--jobs", given.jobs)
        began, rows, peak = perf_counter(), [], 0.0
        with subprocess.Popen(
            [sys.executable, "-m", "sapwood", *map(str, command)], stdout=subprocess.PIPE
        ) as running:
            assert running.stdout is not None
            for done, _ in enumerate(running.stdout, 1):
                if done % LOOK == 0:
                    now = shared_mb(running.pid)
                    peak = max(peak, now)
                if done % given.every == 0:
                    wall = perf_counter() - began
                    rows.append((f"{done:,}", f"{now:.0f}", f"{peak:.0f}", f"{wall:.0f}",
                                 f"{done / wall:.0f}"))  # fmt: skip
                    print(*rows[-1], file=sys.stderr, flush=True)
        machine.print_table(("sentences", "MB now", "peak MB", "wall s", "sentences/s"), rows)


def main() -> None:
    """Print memory along the stream, then one thread against two."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--model", type=Path, help="a model file; else the bundled grammar")
    options.add_argument("--text", type=Path, help="lines of words for `sapwood parse`")
    options.add_argument("--corpus", choices=("bundled", *machine.CORPORA), default="bundled")
    options.add_argument("--longest", type=int, default=15, help="words of a sentence")
    options.add_argument("-n", type=int, default=100_000)
    options.add_argument("--every", type=int, default=10_000)
    options.add_argument("--jobs", type=int, default=1)
    given = options.parse_args()
    if given.text:
        machine.print_facts("A stream of sentences", threads=given.jobs)
        print_command(given)
        return
    model = sw.load(given.model) if given.model else sw.bundled_grammar()
    lines = sentences_of(given.corpus, given.longest)
    list(stream(model, lines, 200, 2, 200))  # kernels loaded, threads tried
    machine.print_facts("A stream of sentences", threads=given.jobs)
    name = given.model.stem if given.model else "bundled"
    print(f"model {name}; {given.corpus} sentences of up to {given.longest} words, repeated:\n")
    machine.forget_peak()
    rows, wall, cpu = [], 0.0, 0.0
    for done, memory, clock in stream(model, lines, given.n, given.jobs, given.every):
        wall, cpu = wall + clock.wall, cpu + clock.cpu
        rows.append(
            (f"{done:,}", f"{memory:.0f}", f"{machine.peak_mb():.0f}", f"{wall:.0f}", f"{cpu:.0f}",
             f"{given.every / clock.wall:.0f}")
        )  # fmt: skip
    header = ("sentences", "MB now", "peak MB", "wall s", "CPU s", "sentences/s")
    machine.print_table(header, rows)
    print_scaling(model, lines, min(given.n, given.every))


def print_scaling(model: sw.LatentGrammar | sw.Ensemble, lines: list[list[str]], n: int) -> None:
    """One thread against two, by turns, the better of two runs each."""
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(2):
        for jobs in (1, 2):
            ((_, _, clock),) = stream(model, lines, n, jobs, n)
            best[jobs] = min(best[jobs], clock.wall)
    rows = [(str(j), f"{n / t:.0f}", f"{best[1] / t:.2f}") for j, t in best.items()]
    print(f"{n:,} sentences; load average {os.getloadavg()[0]:.1f} on {machine.n_cores()} cores:\n")
    machine.print_table(("threads", "sentences/s", "times as fast"), rows)


if __name__ == "__main__":
    main()
