"""EM and clusters: seconds per iteration against the machine's limit, accuracy, time and memory.

Without options: the speed of one iteration by number of states. `--table` trains each method in a
fresh process, from the treebank file to the model, and parses dev. `--slow` adds the long runs to
the table, `--craft` times a training of 16 states on CRAFT with two threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any, NamedTuple

import machine
import numpy as np

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.em_states import copy_states
from sapwood.constituency.learn.em_steps import (
    NODES_PER_STATE,
    LatentParameters,
    TrainingTrees,
    maximise_tree_counts,
)
from sapwood.constituency.learn.kernels import treebank_em
from sapwood.constituency.learn.registry import METHODS, EMParameters
from sapwood.execute import Threads
from sapwood.progress import Event

# row of the table: a method, and what is set
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("pcfg", {}),
    "em 4": ("em", {"n_states": 4}),
    "em 8": ("em", {"n_states": 8}),
    "em 16": ("em", {"n_states": 16}),
    "em 16, merge 0.5": ("em", {"n_states": 16, "merge": 0.5}),
    "cluster 16": ("cluster", {"n_states": 16}),
    "cluster 16 + 10 EM": ("cluster", {"n_states": 16, "iterations": 10}),
    "pivot 8": ("pivot", {"n_states": 8}),
    "pivot 16": ("pivot", {"n_states": 16}),
    "pivot 8 + 2 EM": ("pivot-em", {"n_states": 8, "iterations": 2}),
    "pivot 16 + 2 EM": ("pivot-em", {"n_states": 16, "iterations": 2}),
    "pivot 8 + 10 EM": ("pivot-em", {"n_states": 8}),
    "pivot 16 + 10 EM": ("pivot-em", {"n_states": 16}),
    "matsuzaki 16": ("em", {"n_states": 16, "start": "matsuzaki", "iterations": 50}),
}
SLOW = ("matsuzaki 16",)
SMOOTHING = tuple(EMParameters.parameters()[f"{x}_smoothing"].default for x in ("rule", "word"))
CRAFT_STATES, CRAFT_ITERATIONS, CRAFT_JOBS = 16, 20, 2


# -- one iteration --------------------------------------------------------------------------------


PHASES = {"inside": "inside", "outside": "outside", "rule_counts": "rule sums"}  # by kernel


class Speed(NamedTuple):
    """Least CPU seconds of an iteration, those of its phases, and their work."""

    expectation: float
    maximisation: float
    phases: dict[str, float]
    flops: dict[str, float]
    tensor_bytes: float


def flops_of(bank: Treebank, parameters: LatentParameters) -> dict[str, float]:
    """Floating-point operations of the phases of an E-step.

    A node whose rule has a x b x c states takes a b c multiply-adds in each phase. Inside and rule
    sums also take b c products for its pair of children, outside b c multiply-adds for each child.
    """
    m = parameters.n_states[parameters.symbols_of]
    count = np.bincount(bank.rule[bank.rule >= 0], minlength=len(m))
    pair = count * m[:, 1] * m[:, 2]
    products, pairs = 2.0 * (pair * m[:, 0]).sum(), float(pair.sum())
    extra = {"inside": pairs, "outside": 4 * pairs, "rule_counts": pairs}
    return {kernel: products + extra[kernel] for kernel in PHASES}


def timed(task: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    """A task that notes its CPU seconds."""

    def run(*given: Any) -> Any:
        with machine.Clock() as clock:
            result = task(*given)
        times.append(clock.thread)
        return result

    return run


def phase_seconds(expect: Callable[[], object], repeats: int) -> dict[str, float]:
    """Least CPU seconds of each phase of an E-step."""
    kernels = {name: getattr(treebank_em, name) for name in PHASES}
    times: dict[str, list[float]] = {name: [] for name in PHASES}
    for name, kernel in kernels.items():
        setattr(treebank_em, name, timed(kernel, times[name]))
    for _ in range(repeats):
        expect()
    for name, kernel in kernels.items():
        setattr(treebank_em, name, kernel)
    return {name: min(noted) for name, noted in times.items()}


def speed(bank: Treebank, states: int, repeats: int) -> Speed:
    """Measure an iteration, from copies of the plain grammar."""
    trees = TrainingTrees(sw.PCFG().prepare(bank, Threads()))
    plain = trees.plain_parameters()
    sizes = np.minimum(trees.limit, states)
    copies = [np.zeros(size, np.int64) for size in sizes.tolist()]
    parameters = copy_states(plain, copies, np.random.default_rng(0))
    counts = trees.expect(parameters)
    maximise_tree_counts(parameters, counts, *SMOOTHING)  # all kernels are compiled now

    def expect() -> object:
        return trees.expect(parameters)

    maximise = lambda: maximise_tree_counts(parameters, counts, *SMOOTHING)  # noqa: E731
    return Speed(
        machine.seconds_of(expect, repeats).least,
        machine.seconds_of(maximise, repeats).least,
        phase_seconds(expect, repeats), flops_of(bank, parameters), 8.0 * parameters.rules.size,
    )  # fmt: skip


def speed_table(given: argparse.Namespace) -> None:
    """Seconds of one iteration, and of its phases, by number of states."""
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.limit]
    gemm = machine.gemm_gflops()
    print(f"{given.corpus} train, {bank.n_trees:,} trees, {bank.n_tokens:,} words; least CPU "
          f"seconds of {given.repeats}; GEMM {gemm:.1f} GFlop/s:\n")  # fmt: skip
    rows, phases = [], []
    for states in map(int, given.states.split(",")):
        found = speed(bank, states, given.repeats)
        flops = sum(found.flops.values())
        rate = flops / found.expectation / 1e9
        rows.append((
            states, f"{found.tensor_bytes / 1e6:.0f}", f"{flops / 1e9:.2f}",
            f"{found.expectation:.3f}", f"{found.maximisation:.3f}",
            f"{found.expectation + found.maximisation:.3f}", f"{rate:.2f}",
            f"{100 * rate / gemm:.0f} %",
        ))  # fmt: skip
        phases += phase_rows(states, found, gemm)
    header = (
        "states", "tensors, MB", "GFlop of an E-step", "E-step, s", "M-step, s", "iteration, s",
        "E-step, GFlop/s", "of GEMM",
    )  # fmt: skip
    machine.print_table(header, rows)
    print("The phases; the M-step reads all numbers twice and writes them once:\n")
    machine.print_table(("states, phase", "GFlop", "s", "rate", "of GEMM"), phases)


def phase_rows(states: int, found: Speed, gemm: float) -> list[tuple[str, ...]]:
    """Work, seconds and rate of each phase of an iteration."""
    rows = []
    for kernel, phase in PHASES.items():
        flops, seconds = found.flops[kernel], found.phases[kernel]
        rate = flops / seconds / 1e9
        rows.append((
            f"{states}, {phase}", f"{flops / 1e9:.2f}", f"{seconds:.3f}", f"{rate:.1f} GFlop/s",
            f"{100 * rate / gemm:.0f} %",
        ))  # fmt: skip
    rest = found.expectation - sum(found.phases.values())
    moved = 3 * found.tensor_bytes / found.maximisation / 1e9
    return [
        *rows, (f"{states}, rest of the E-step", "", f"{rest:.3f}", "", ""),
        (f"{states}, M-step", "", f"{found.maximisation:.3f}", f"{moved:.1f} GB/s", ""),
    ]  # fmt: skip


# -- accuracy -------------------------------------------------------------------------------------


def measure(method: str, given: argparse.Namespace) -> dict[str, Any]:
    """Train with a method and parse dev once."""
    started = process_time()
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))[: given.limit]
    name, values = ROWS[method]
    learner = METHODS[name].make(**METHODS[name].pick({"seed": given.seed, **values}))
    estimator = learner.fit(bank)
    trained, peak = process_time() - started, machine.peak_mb()
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    parser = sw.Parser(estimator.model_, decoder="goodman")  # as in the papers
    sentences = [tree.words() for tree in gold]
    parser.parse(sentences[0])
    with machine.Clock() as clock:
        trees = [parse.tree for parse in parser.parse_many(sentences)]
    info = getattr(estimator, "info_", None)
    return {
        "method": method, "sentences": len(gold), "f1": sw.evaluate.bracketing(gold, trees).f1,
        "iterations": info.iterations if info else 0, "train_cpu_seconds": trained,
        "train_peak_mb": peak, "sentences_per_second": len(gold) / clock.cpu,
        "fallbacks": parser.stats.fallbacks,
    }  # fmt: skip


def measured(method: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run `measure` in a fresh process."""
    command = [sys.executable, __file__, "--one", method, "--seed", str(given.seed)]
    command += ["--corpus", given.corpus]
    command += ["--limit", str(given.limit)] if given.limit else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def accuracy_table(given: argparse.Namespace) -> None:
    """One row for each method."""
    names = [name for name in ROWS if given.slow or name not in SLOW]
    results = [measured(name, given) for name in names]
    print(f"{given.corpus} dev, {results[0]['sentences']:,} sentences; CPU seconds, one thread:\n")
    header = (
        "method", "F1 (EVALB)", "iterations", "train, s", "train peak MB", "sentences/s",
        "no parse",
    )  # fmt: skip
    rows = [
        (
            r["method"], f"{r['f1']:.2f}", r["iterations"], f"{r['train_cpu_seconds']:.1f}",
            f"{r['train_peak_mb']:.0f}", f"{r['sentences_per_second']:.0f}", r["fallbacks"],
        )
        for r in results
    ]  # fmt: skip
    machine.print_table(header, rows)


# -- a larger treebank ----------------------------------------------------------------------------


def craft_table(given: argparse.Namespace) -> None:
    """Wall seconds of some iterations with all states at once, on several threads."""
    bank = sw.read_treebank(machine.corpus_file("craft", "train"))[: given.limit]
    times: list[float] = []

    def note(event: Event) -> None:
        if "log_likelihood" in event.facts:
            times.append(perf_counter())

    estimator = sw.EMLPCFG(
        CRAFT_STATES, start="matsuzaki", iterations=CRAFT_ITERATIONS, n_jobs=CRAFT_JOBS,
        seed=given.seed, listen=note,
    )  # fmt: skip
    started = perf_counter()
    estimator.fit(bank)
    whole = perf_counter() - started
    steps = np.diff(times)
    print(f"craft train, {bank.n_trees:,} trees, {bank.n_tokens:,} words; {CRAFT_STATES} states, "
          f"{CRAFT_JOBS} threads, wall seconds:\n")  # fmt: skip
    machine.print_table(
        ("iterations", "all, s", "one, least s", "one, median s", "peak MB"),
        [(
            estimator.info_.iterations, f"{whole:.1f}", f"{steps.min():.2f}",
            f"{np.median(steps):.2f}", f"{machine.peak_mb():.0f}",
        )],
    )  # fmt: skip


def pivot_table(given: argparse.Namespace) -> None:
    """States for which pivots are found, beside the limit on EM's states, weighed by nodes."""
    bank = sw.read_treebank(machine.corpus_file(given.corpus, "train"))
    count = np.bincount(bank.label, minlength=len(bank.inventory.symbols))
    rows = []
    for m in (int(size) for size in given.states.split(",")):
        limit = np.minimum(np.maximum(1, count // NODES_PER_STATE), m)
        found = sw.PivotLPCFG(m, seed=given.seed).fit(bank).info_.states
        means = [f"{np.average(states, weights=count):.2f}" for states in (limit, found)]
        rows.append((m, *means))
    machine.print_table(("states asked for", "limit on EM's", "pivots found"), rows)


def main() -> None:
    """Print the tables that were asked for."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--corpus", choices=("ptb", "craft", "icepahc"), default="ptb")
    options.add_argument("--states", default="8,16,32")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--limit", type=int, help="first trees of train and dev only")
    options.add_argument("--table", action="store_true", help="accuracy, time and memory")
    options.add_argument("--slow", action="store_true", help="the table with the long runs")
    options.add_argument("--craft", action="store_true", help="time a training on CRAFT")
    options.add_argument("--pivots", action="store_true", help="how many pivots labels find")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--one", choices=ROWS, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given)))
        return
    machine.print_facts("EM and clusters", threads=CRAFT_JOBS if given.craft else 1)
    if given.craft:
        craft_table(given)
    elif given.pivots:
        pivot_table(given)
    elif given.table or given.slow:
        accuracy_table(given)
    else:
        speed_table(given)


if __name__ == "__main__":
    main()
