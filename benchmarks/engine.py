"""Engines: the same model files on threads and on Dask, time and bytes of EM, workers that die.

The bundled treebank, copied tenfold. Every method is trained on one, two and three threads and on a
cluster of two workers on this machine: the files must be the same, byte for byte. EM is timed on
two threads and on the two workers, in turns. At the end a worker is killed in the middle of EM, of
spectral training and of the rest.

`best` stops by the clock; without a budget, and on a few trees, it is compared too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import machine

import sapwood as sw
from sapwood.constituency.data.treebank import sample_path
from sapwood.constituency.learn.registry import METHODS, Settings
from sapwood.execute import Cluster, Engine, Threads
from sapwood.progress import Event

WORKERS = 2
MOST = 1.5  # times as long on workers as on threads
FEW = 300  # trees for `best`


def train(method: str, bank: sw.Treebank, engine: Engine, **settings: Any) -> bytes:
    """The model file of a method."""
    few = {"n_states": 4, "iterations": 4, "budget": None, "engine": engine} | settings
    learner = METHODS[method].fit(Settings(few), bank)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        learner.model_.save(path)
        return path.read_bytes()


def compare_files(bank: sw.Treebank, methods: list[str], cluster: Cluster) -> bool:
    """Print digests of the model files of all methods; whether they are the same everywhere."""
    print("\nModel files, by the first digits of their SHA-256.\n")
    rows, is_good = [], True
    for method in methods:
        trees = bank[:FEW] if method == "best" else bank
        with measure_traffic(cluster) as moved:
            files = [train(method, trees, e) for e in (Threads(1), Threads(2), Threads(3), cluster)]
        is_same = len(set(files)) == 1
        is_good &= is_same
        digests = [sha256(file).hexdigest()[:8] for file in files]
        rows.append([method, *digests, megabytes(moved), "yes" if is_same else "NO"])
    titles = ("method", "1 thread", "2 threads", "3 threads", "2 workers", "moved", "same")
    machine.print_table(titles, rows)
    return is_good


def time_em(bank: sw.Treebank, cluster: Cluster, states: int, rounds: int) -> bool:
    """Print how long EM's iterations take, and what they move; whether workers keep up."""
    engines: dict[str, Engine] = {"threads": Threads(WORKERS), "workers": cluster}
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, engine in engines.items():
            clock = _Iterations(perf_counter)
            sw.EMLPCFG(states, iterations=8, engine=engine, listen=clock.note).fit(bank)
            seconds[name] += [b - a for a, b in clock.pairs(states)]
    counter = _Iterations(lambda: count_bytes(cluster))  # in a run of its own: to ask takes time
    sw.EMLPCFG(states, iterations=4, engine=cluster, listen=counter.note).fit(bank)
    print(f"\nIterations of EM with {states} states, {rounds} runs of each in turns.\n")
    machine.print_table(
        ("where", "iterations", "median s", "least s"),
        [[name, len(s), f"{median(s):.3f}", f"{min(s):.3f}"] for name, s in seconds.items()],
    )
    ratio = median(seconds["workers"]) / median(seconds["threads"])
    least = min(seconds["workers"]) / min(seconds["threads"])
    print(
        f"\nworkers / threads: {ratio:.2f} by medians, {least:.2f} by the least; wanted <= {MOST}"
    )
    for name in count_bytes(cluster):
        each = [after[name] - before[name] for before, after in counter.pairs(states)]
        print(f"bytes {name} an iteration: {median(each):,.0f} (at most {max(each):,})")
    return ratio <= MOST


class _Iterations:
    """What was measured at the end of each iteration."""

    def __init__(self, measure: Callable[[], Any]) -> None:
        self.measure = measure
        self.ends: list[tuple[int, Any]] = []

    def note(self, event: Event) -> None:
        """Measure after an E-step."""
        if "log_likelihood" in event.facts:
            self.ends.append((event.facts["states"], self.measure()))

    def pairs(self, states: int) -> Iterator[tuple[Any, Any]]:
        """Neighbours at one level: between levels, states are split and merged too."""
        for before, after in pairwise(self.ends):
            if before[0] == after[0] == states:
                yield before[1], after[1]


def count_bytes(cluster: Cluster) -> dict[str, int]:
    """What was moved so far, between workers too."""
    between = cluster._client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return asdict(cluster.traffic) | {"between workers": sum(between.values())}


@contextmanager
def measure_traffic(cluster: Cluster) -> Iterator[dict[str, int]]:
    """What is moved meanwhile, filled in at the end."""
    before, moved = asdict(cluster.traffic), {}
    yield moved
    moved |= {name: n - before[name] for name, n in asdict(cluster.traffic).items()}


def megabytes(moved: dict[str, int]) -> str:
    """All that was moved, in one number."""
    return f"{sum(moved.values()) / 1e6:.1f} MB"


def kill_workers(bank: sw.Treebank, methods: list[str], cluster: Cluster) -> bool:
    """Kill a worker in the middle of each method; whether the model files stay the same."""
    print("\nA worker killed in the middle.\n")
    rows, is_good = [], True
    for method in methods:
        n_tasks = _count_reports(cluster, method, bank)
        expected = train(method, bank, Threads(2))
        cluster._client.wait_for_workers(WORKERS, timeout=60)
        with _Killer(cluster, n_tasks // 2) as killer:
            is_same = train(method, bank, cluster) == expected
        is_good &= is_same and killer.victim is not None
        rows.append([method, f"{n_tasks // 2} of {n_tasks}", "yes" if is_same else "NO"])
    machine.print_table(("method", "killed after blocks", "same file"), rows)
    return is_good


def _count_reports(cluster: Cluster, method: str, bank: sw.Treebank) -> int:
    n = 0

    def count(*_: int) -> None:
        nonlocal n
        n += 1

    cluster.report = count
    train(method, bank, cluster)
    cluster.report = None
    return n


class _Killer:
    """Ends a worker with SIGKILL after so many blocks of shards."""

    def __init__(self, cluster: Cluster, after: int) -> None:
        self.cluster = cluster
        self.left = after
        self.victim: int | None = None
        self.pids = list(cluster._client.run(os.getpid).values())

    def __enter__(self) -> _Killer:
        self.cluster.report = self.count
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.report = None

    def count(self, *_: int) -> None:
        self.left -= 1
        if self.left == 0:
            self.victim = self.pids[0]
            os.kill(self.victim, signal.SIGKILL)


def main() -> int:
    """Run everything."""
    every = [method for method in METHODS if method != "best"]
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--copies", type=int, default=10, help="of the bundled treebank")
    options.add_argument("--states", type=int, default=16, help="for the time of EM")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--methods", nargs="+", default=[*every, "best"])
    options.add_argument("--parts", nargs="+", default=["files", "time", "kills"])
    given = options.parse_args()
    warnings.simplefilter("ignore")  # too few pivots for so many states
    machine.print_facts("Engines", threads=WORKERS)
    bank = sw.read_treebank([sample_path("train")] * given.copies)
    print(f"{bank.n_trees:,} trees, {bank.n_tokens:,} words, {len(bank.shards())} shards")
    started = perf_counter()
    with Cluster(jobs=WORKERS) as cluster:
        print(f"{WORKERS} workers, started in {perf_counter() - started:.1f} s")
        is_good = "files" not in given.parts or compare_files(bank, given.methods, cluster)
        if "time" in given.parts:
            is_good &= time_em(bank, cluster, given.states, given.rounds)
        if "kills" in given.parts:
            chosen = [method for method in given.methods if method != "best"]
            is_good &= kill_workers(bank, chosen, cluster)
    print("\nAll is as it should be." if is_good else "\nNOT as it should be.")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
