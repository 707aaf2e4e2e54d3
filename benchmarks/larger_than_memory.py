"""Learning from a treebank that is larger than memory: shards on disk, peak memory, time.

A corpus is repeated so many times, with noise: one word in fifty becomes a word that no other copy
has, so that words, features and lexicon grow as those of a larger treebank do. Each size and method
runs in a process of its own. With --workers, shards are worked on by so many processes of Dask, and
the peak memory of the largest of them is printed beside that of the driver.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import machine

import sapwood as sw
from sapwood.constituency.data.treebank import StoredTreebank
from sapwood.execute import Cluster, Engine, Threads
from sapwood.execute.engine import peak_memory_mb

NOISE = 0.02


def noisy_copies(corpus: str, n_copies: int) -> Iterator[sw.Tree]:
    """The trees of a corpus again and again, never quite the same."""
    bank = sw.read_treebank(machine.corpus_file(corpus, "train"))
    for copy in range(n_copies):
        rng = random.Random(copy)
        for tree in bank:
            yield tree if copy == 0 else disturb(tree, rng, copy)


def disturb(tree: sw.Tree, rng: random.Random, copy: int) -> sw.Tree:
    """A tree with some words that no other copy has."""
    if tree.is_preterminal:
        is_noise = rng.random() < NOISE
        return sw.Tree(tree.label, [f"{tree.word}{copy}"]) if is_noise else tree
    return sw.Tree(tree.label, [disturb(child, rng, copy) for child in tree.children])


def learner(method: str) -> sw.SpectralLPCFG | sw.EMLPCFG:
    """What is trained."""
    return sw.SpectralLPCFG(8) if method == "spectral" else sw.EMLPCFG(4, iterations=3)


def measure(corpus: str, n_copies: int, method: str, jobs: int, workers: int) -> None:
    """Print one row, in a process of its own."""
    learner(method).fit(sw.bundled_treebank("dev")[:50])  # kernels loaded
    with TemporaryDirectory() as folder:
        with machine.Clock() as packing:
            bank = StoredTreebank.write(noisy_copies(corpus, n_copies), folder)
        disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        packed_peak = machine.peak_mb()
        machine.forget_peak()
        engine: Engine = Threads(jobs, spill=folder)
        if workers:
            engine = Cluster(jobs=workers, spill=folder)
        of_worker = "-"
        with engine, machine.Clock() as clock:
            model = learner(method).set_params(engine=engine).fit(bank).model_
            if isinstance(engine, Cluster):
                of_worker = f"{max(engine._client.run(peak_memory_mb).values()):.0f}"
        print(
            method, n_copies, f"{bank.n_trees:,}", f"{bank.n_tokens:,}", len(bank.shards()),
            f"{packing.wall:.0f}", f"{packed_peak:.0f}", f"{disk / 2**20:.0f}", f"{clock.wall:.0f}",
            f"{clock.cpu:.0f}", f"{machine.peak_mb():.0f}", of_worker,
            f"{len(model.lexicon.words):,}", f"{model.rule_weights.nbytes / 2**20:.0f}", sep="\t",
        )  # fmt: skip


TITLES = (
    "method", "copies", "trees", "words", "shards", "packing s", "packing MB", "disk MB",
    "training s", "CPU s", "training MB", "worker MB", "lexicon", "model MB",
)  # fmt: skip


def main() -> None:
    """Run all sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", default="craft")
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--methods", nargs="+", default=["spectral", "em"])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=0, help="of Dask; 0 for threads")
    parser.add_argument("--one", action="store_true", help="in this process; for the script itself")
    given = parser.parse_args()
    if given.one:
        measure(given.corpus, given.copies[0], given.methods[0], given.jobs, given.workers)
        return
    print(*TITLES, sep="\t", flush=True)
    for method in given.methods:
        for n in given.copies:
            command = [sys.executable, __file__, "--one", "--corpus", given.corpus]
            command += ["--copies", str(n), "--methods", method, "--jobs", str(given.jobs)]
            command += ["--workers", str(given.workers)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
