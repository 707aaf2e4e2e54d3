"""Spectral grammars: accuracy, time and memory by number of states, and where training time goes.

Each number of states runs in a fresh process, from the treebank file to the saved model, and then
parses dev. `--phases` counts the operations and bytes of each phase of training and compares them
with what the machine can do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

import machine
import numpy as np

import sapwood as sw

OVERSAMPLE, N_POWER = 10, 3  # of decompose.svd.block_svd
N_TEMPLATES = 8  # on either side


def measure(corpus: str, states: int, given: argparse.Namespace) -> dict[str, Any]:
    """Train, save and parse dev once."""
    started = process_time()
    bank = sw.read_treebank(machine.corpus_file(corpus, "train"))
    scaled = not given.unscaled
    estimator = sw.SpectralLPCFG(states, seed=given.seed, scaled=scaled).fit(bank)
    model = estimator.model_
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sapwood"
        model.save(path)
        megabytes = path.stat().st_size / 1e6
    trained, train_peak = process_time() - started, machine.peak_mb()
    gold = machine.gold_trees(corpus, "dev", given.limit)
    sentences = [tree.words() for tree in gold]
    rows = {}
    for name, options in (("default", {}), ("unpruned", {"threshold": 1e-6, "beam": 0.0})):
        if name == "unpruned" and not given.unpruned:
            continue
        parser = sw.Parser(model, decoder="goodman", **options)  # as in the papers
        parser.parse(sentences[0])
        begun = process_time()
        trees = [parse.tree for parse in parser.parse_many(sentences)]
        seconds = process_time() - begun
        report = sw.evaluate.bracketing(gold, trees)
        rows[name] = {
            "f1": report.f1, "strict_f1": report.strict.f1,
            "tagging_accuracy": report.strict.tagging_accuracy,
            "sentences_per_second": len(gold) / seconds, "fallbacks": parser.stats.fallbacks,
            "negative_items": parser.stats.negative_items / len(gold),
        }  # fmt: skip
    return {
        "corpus": corpus, "states": states, "sentences": len(gold), "train_cpu_seconds": trained,
        "model_mb": megabytes, "train_peak_mb": train_peak, "peak_mb": machine.peak_mb(),
        "phases": dict(estimator.info_.seconds), **rows,
    }  # fmt: skip


def measured(corpus: str, states: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run `measure` in a fresh process."""
    command = [sys.executable, __file__, "--one", corpus, str(states), "--seed", str(given.seed)]
    command += ["--limit", str(given.limit)] if given.limit else []
    command += ["--unpruned"] if given.unpruned else []
    command += ["--unscaled"] if given.unscaled else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def line(result: dict[str, Any]) -> tuple[str, ...]:
    """One row of the table."""
    row = result["default"]
    cells = [
        result["corpus"], str(result["states"]), f"{row['f1']:.2f}", f"{row['strict_f1']:.2f}",
        f"{row['tagging_accuracy']:.2f}", f"{row['sentences_per_second']:.0f}",
        f"{result['train_cpu_seconds']:.1f}", f"{result['train_peak_mb']:.0f}",
        f"{result['model_mb']:.0f}", f"{row['negative_items']:.1f}", str(row["fallbacks"]),
    ]  # fmt: skip
    if "unpruned" in result:
        slow = result["unpruned"]
        cells.append(f"{slow['f1']:.2f} at {slow['sentences_per_second']:.0f}/s")
    return tuple(cells)


def phase_table(corpus: str, states: int) -> None:
    """Operations and bytes of each phase against the machine's limits."""
    bank = sw.read_treebank(machine.corpus_file(corpus, "train"))
    sw.SpectralLPCFG(2).fit(bank[:200])  # compiles the kernels
    begun = process_time()
    estimator = sw.SpectralLPCFG(states).fit(bank)
    total = process_time() - begun
    info, model = estimator.info_, estimator.model_
    gflops, copy = machine.gemm_gflops(), machine.copy_gbs()
    nodes, k = len(bank.label), states + OVERSAMPLE
    products = 2 * N_POWER + 2
    features = info.n_inside + info.n_outside
    m = model.n_states[model.rules]
    counts = np.bincount(bank.rule[bank.rule >= 0], minlength=len(model.rules))
    whole = model.rule_rank == 0
    work = {  # phase: (floating-point operations, bytes)
        "features": (0, nodes * 2 * N_TEMPLATES * (8 * 4 + 4)),  # keys made, sorted and looked up
        "svd": (
            products * (4.0 * nodes * N_TEMPLATES * k + 2.0 * features / 2 * k * k),
            products * nodes * 2 * N_TEMPLATES * k * 8.0,
        ),
        "projection": (4.0 * nodes * N_TEMPLATES * states, nodes * 2 * N_TEMPLATES * states * 8.0),
        "tensors": (
            float((2 * counts * m.prod(axis=1))[whole].sum()),
            8.0 * model.rule_weights.size + 3 * 8.0 * states * nodes,
        ),
    }
    print(f"\n{corpus}, {states} states: {total:.1f} CPU s to fit; GEMM {gflops:.0f} GFlop/s, "
          f"copy {copy:.0f} GB/s.\n")  # fmt: skip
    rows = []
    for phase, seconds in info.seconds.items():
        flops, n_bytes = work.get(phase, (0, 0))
        at_gemm, at_copy = flops / gflops / 1e9, n_bytes / copy / 1e9
        bound = max(at_gemm, at_copy)
        away = f"x {seconds / bound:.1f}" if bound else "not counted"
        rows.append((phase, f"{seconds:.2f}", f"{at_gemm:.3f}", f"{at_copy:.3f}", away))
    header = ("phase", "seconds", "operations at GEMM speed", "bytes at copy speed", "away from it")
    machine.print_table(header, rows)


def main() -> None:
    """Print one table for each corpus."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--corpus", choices=("ptb", "craft", "icepahc", "both"), default="both")
    options.add_argument("--states", default="8,16,24,32")
    options.add_argument("--limit", type=int, help="first sentences of dev only")
    options.add_argument(
        "--unpruned", action="store_true", help="also parse almost without pruning"
    )
    options.add_argument("--unscaled", action="store_true", help="features without their scaling")
    options.add_argument("--phases", action="store_true", help="where training time goes")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], int(given.one[1]), given)))
        return
    machine.print_facts("Spectral grammars")
    for corpus in ("ptb", "craft") if given.corpus == "both" else (given.corpus,):
        sizes = [int(size) for size in given.states.split(",")]
        if given.phases:
            for states in sizes:
                phase_table(corpus, states)
            continue
        results = [measured(corpus, states, given) for states in sizes]
        print(f"{corpus} dev, {results[0]['sentences']:,} sentences; CPU seconds, one thread:\n")
        header = [
            "corpus", "states", "F1 (EVALB)", "F1 (strict)", "tags", "sentences/s", "train, s",
            "train peak MB", "model MB", "negative items a sentence", "no parse",
        ]  # fmt: skip
        machine.print_table(
            header + (["almost unpruned F1"] if given.unpruned else []), map(line, results)
        )


if __name__ == "__main__":
    main()
