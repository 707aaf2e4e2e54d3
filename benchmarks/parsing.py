"""What `--fast` costs and gains: F1, calibration and sentences/s of model files, and in haste.

python benchmarks/parsing.py model.sapwood ensemble.sapwood --corpus ptb
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import machine

import sapwood as sw
from sapwood.evaluate.bracketing import bracketing
from sapwood.evaluate.reliability import calibration, graded

MAKERS: dict[str, Callable[[Any], sw.Parser]] = {"default": sw.Parser, "fast": sw.Parser.fast}


def measure(parser: sw.Parser, gold: list[sw.Tree], repeats: int) -> tuple[float, float, float]:
    """F1, sentences per CPU second of one thread (the best of several runs), calibration error."""
    parser.parse(gold[0].words())  # kernels loaded
    best, parses = float("inf"), []
    for _ in range(repeats):
        with machine.Clock() as clock:
            parses = [parser.parse(tree.words()) for tree in gold]
        best = min(best, clock.thread)
    f1 = bracketing(gold, [parse.tree for parse in parses]).f1
    return f1, len(gold) / best, calibration_error(parses, gold)


def calibration_error(parses: list[Any], gold: list[sw.Tree]) -> float:
    """Expected calibration error of the phrases of the parsed trees."""
    pairs = []
    for parse, right in zip(parses, gold, strict=True):
        known = {(c.label, c.start, c.end): c.probability for c in parse.marginals}
        spans = [span for span in parse.tree.spans()[1:] if span in known]
        tags = {(tag, i, i + 1) for i, tag in enumerate(parse.tree.tags())}
        phrases = [(*span, known[span]) for span in spans if span not in tags]
        pairs += graded(right, phrases)
    return calibration(*zip(*pairs, strict=True)).ece


def rows_of(path: Path, gold: list[sw.Tree], repeats: int) -> list[tuple[str, ...]]:
    """Two rows: the default, and fast with the difference to it."""
    model = sw.load(path)
    rows, first = [], (0.0, 1.0)
    for name, maker in MAKERS.items():
        f1, rate, ece = measure(maker(model), gold, repeats)
        first = (f1, rate) if name == "default" else first
        rows.append(
            (path.stem, name, f"{f1:.2f}", f"{f1 - first[0]:+.2f}", f"{rate:.0f}",
             f"{rate / first[1]:.1f}", f"{ece:.4f}")
        )  # fmt: skip
    return rows


def main() -> None:
    """Print one table."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("models", nargs="+", type=Path)
    options.add_argument("--corpus", choices=sorted(machine.CORPORA), default="ptb")
    options.add_argument("--limit", type=int, help="first sentences of dev only")
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args()
    gold = machine.gold_trees(given.corpus, "dev", given.limit)
    machine.print_facts("Parsing: default and fast")
    print(f"{given.corpus} dev, {len(gold)} sentences, CPU time of one thread:\n")
    rows = [row for path in given.models for row in rows_of(path, gold, given.repeats)]
    header = ("model", "parser", "F1", "difference", "sentences/s", "times as fast", "ECE")
    machine.print_table(header, rows)
    print("The settings of fast were chosen on ptb dev.")


if __name__ == "__main__":
    main()
