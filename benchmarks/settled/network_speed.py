"""What a word costs when the network of spans is trained, by part; and how fast it reads sentences.

Batches are as large as those of the whole treebank, however few trees are read. The least of the
passes counts, but for the first, in which kernels are loaded.

python -m benchmarks.settled.network_speed --corpora ptb craft --trees 1500 --passes 3 --jobs 1 2
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from threading import get_ident
from time import perf_counter, process_time, thread_time
from typing import Any

import numpy as np
from benchmarks import machine

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.span_network import SpanNetwork
from sapwood.constituency.learn.encoder import RightTrees, SpanLesson
from sapwood.constituency.parse.spans import SpanReader
from sapwood.networks.encoder import EncoderSizes
from sapwood.networks.spans import SpanSizes
from sapwood.networks.training import NetworkPlan

WORDS = {"ptb": 81_793, "craft": 493_380}  # in train, which the size of batches follows
# what is timed: the function, where it is looked up, and what is called within it
PARTS = {
    "LSTMs, steps forwards": ("sapwood.networks.kernels.lstm", "read_steps"),
    "LSTMs, steps backwards": ("sapwood.networks.kernels.lstm", "slopes_of_steps"),
    "LSTMs, all else forwards": ("sapwood.networks.encoder", "bilstm"),
    "LSTMs, all else backwards": ("sapwood.networks.encoder", "bilstm_gradient"),
    "fenceposts": ("sapwood.constituency.learn.encoder", "fenceposts"),
    "scores of labels": ("sapwood.constituency.learn.encoder", "span_scores"),
    "sums over trees": ("sapwood.constituency.learn.encoder", "label_shares"),
    "spans backwards": ("sapwood.constituency.learn.encoder", "span_gradient"),
    "sums of shares": ("sapwood.networks.training", "_step"),
    "Adam": ("sapwood.networks.kernels.adam", "move_rows"),
}
N_READ = 300  # sentences


class Parts:
    """CPU seconds of parts of a task, each without those within it."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._inner = defaultdict(float)  # by thread: of calls within the one that runs
        for name, (module, function) in PARTS.items():
            place = import_module(module)
            setattr(place, function, self._timed(name, getattr(place, function)))

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*args: Any) -> Any:
            thread, start = get_ident(), thread_time()
            outer, self._inner[thread] = self._inner[thread], 0.0
            found = function(*args)
            took = thread_time() - start
            self.seconds[name] += took - self._inner[thread]
            self._inner[thread] = outer + took
            return found

        return call


class Passes:
    """Seconds of each pass, on the processors and on the clock, and of its parts."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.rows = [self._now()]

    def note(self, *_: object) -> None:
        """A pass is over."""
        self.rows.append(self._now())

    def _now(self) -> list[float]:
        return [process_time(), perf_counter(), *self.parts.seconds.values()]

    def least(self) -> list[float]:
        """Those of the pass that took the processors least; not of the first."""
        return list(min(np.diff(self.rows, axis=0)[1:].tolist()))


def lesson_of(trees: RightTrees, corpus: str, passes: int) -> SpanLesson:
    """What a network learns from, with batches as large as those of all of the corpus."""
    batch = NetworkPlan.usual(WORDS[corpus]).words
    plan = NetworkPlan(passes, words=batch)
    return SpanLesson(trees, plan, (EncoderSizes(), SpanSizes()))


def product_gflops(rows: int, at_once: int) -> float:
    """Rate of a step's product with the weights of 200 cells, so many rows in one call."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, np.float32) for shape in ((rows, 200), (200, 800)))
    out, loops = np.empty((rows, 800), np.float32), max(1, 4000 // rows)
    pieces = [slice(start, start + at_once) for start in range(0, rows, at_once)]

    def multiply() -> None:
        for _ in range(loops):
            for piece in pieces:
                np.matmul(a[piece], b, out=out[piece])

    return 2 * a.size * b.shape[1] * loops / machine.seconds_of(multiply, 5).least / 1e9


def sentences_a_second(model: SpanNetwork, sentences: list[list[str]]) -> float:
    """How many sentences are read in a CPU second, one at a time."""
    reader = SpanReader(model)
    seconds = machine.seconds_of(lambda: [reader.read(words) for words in sentences])
    return len(sentences) / seconds.least


def main() -> None:
    """Train on a few trees, and print what a word costs."""
    reads = argparse.ArgumentParser(description=__doc__)
    reads.add_argument("--corpora", nargs="+", choices=WORDS, default=["ptb", "craft"])
    reads.add_argument("--trees", type=int, default=1500)
    reads.add_argument("--passes", type=int, default=3, help="two or more")
    reads.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    given = reads.parse_args()
    machine.print_facts("The network: seconds of a word", max(given.jobs))
    parts, rows, by_part, speeds = Parts(), [], [], []
    for corpus in given.corpora:
        bank = Treebank.from_trees(machine.gold_trees(corpus, "train", given.trees))
        trees = RightTrees.of([bank])
        n_words = len(trees.tag)
        for jobs in given.jobs:
            lesson, passes = lesson_of(trees, corpus, given.passes), Passes(parts)
            network = lesson.learn(lesson.gradient, jobs, passes.note)
            cpu, clock, *inner = (1e6 * seconds / n_words for seconds in passes.least())
            rows.append((corpus, jobs, lesson.plan.words, f"{cpu:.0f}", f"{clock:.0f}"))
            if jobs == 1:
                inner.append(cpu - sum(inner))
                by_part.append([corpus, *(f"{part:.1f}" for part in inner)])
        model = SpanNetwork(sw.PCFG().fit(bank).model_, network, trees.labels, trees.tags, {})
        speeds.append((corpus, f"{sentences_a_second(model, trees.sentences[:N_READ]):.0f}"))
    machine.print_table(
        ("corpus", "threads", "words a batch", "CPU us a word", "us on the clock"), rows
    )
    header = ("CPU us a word, one thread", *(row[0] for row in by_part))
    names = [*PARTS, "all else"]
    columns = zip(*(row[1:] for row in by_part), strict=True)
    machine.print_table(
        header, [[name, *row] for name, row in zip(names, columns, strict=True)] if by_part else []
    )
    machine.print_table(("corpus", "sentences read, a CPU s"), speeds)
    products = [
        (rows, at_once, f"{product_gflops(rows, at_once):.0f}")
        for rows, at_once in ((400, 400), (16, 16), (16, 4), (8, 8), (8, 4))
    ]
    machine.print_table(("rows of a product", "in one call", "GFlop/s"), products)


if __name__ == "__main__":
    main()
