"""Dependency parsers: tags, UAS, LAS, complete trees, speed, training time, memory, lists.

python benchmarks/dependency_parsing.py --corpus ud_english_ewt --methods first second best
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any

import machine

import sapwood as sw
from sapwood.corpus.arcs.bank import ArcBank
from sapwood.evaluate.attachment import attachment

HEADER = (
    "corpus", "method", "UAS", "LAS", "complete", "UPOS", "XPOS", "gold tags: UAS", "LAS",
    "train CPU s", "train MB", "file MB", "sentences/CPU s",
)  # fmt: skip


def trained(train: Path, method: str, path: Path, options: list[str]) -> dict[str, Any]:
    """The report of a training in a process of its own."""
    command = [sys.executable, "-m", "sapwood", "depend", "train", str(train), "-o", str(path)]
    command += ["--method", method, "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def parsed(parser: sw.ArcParser, gold: ArcBank) -> tuple[ArcBank, float]:
    """Parses of the sentences, and CPU seconds on one thread."""
    given = list(gold) if parser.use_tags else [gold.sentence(k) for k in range(len(gold))]
    parser.parse(given[0])  # kernels loaded
    with machine.Clock() as clock:
        found = [parse.arcs for parse in parser.parse_many(given)]
    return ArcBank.of(found), clock.thread


def oracle(parser: sw.ArcParser, gold: ArcBank, k: int, limit: int) -> float:
    """UAS in percent of the best tree in each list of k."""
    n_right = n_words = 0
    for right in islice(gold, limit):
        lists = parser.parse(list(right.words)).k_best(k)
        n_right += max(
            sum(x == y for x, y in zip(best.arcs.heads, right.heads, strict=True)) for best in lists
        )
        n_words += len(right)
    return 100 * n_right / n_words


def row(corpus: str, method: str, folder: Path, options: list[str]) -> tuple[str, ...]:
    """Train and parse."""
    train, dev = (machine.corpus_file(corpus, part, "conllu") for part in ("train", "dev"))
    path, gold = folder / f"{corpus}-{method}.sapwood", sw.read_arcs(dev)
    report = trained(train, method, path, options)
    model = sw.load(path)
    found, seconds = parsed(sw.ArcParser(model), gold)
    scores = attachment(gold, found)
    given = attachment(gold, parsed(sw.ArcParser(model, use_tags=True), gold)[0])
    names = [[bank.xpos_names[x] for x in bank.xpos] for bank in (gold, found)]
    xpos = 100 * sum(a == b for a, b in zip(*names, strict=True)) / gold.n_tokens
    figures = [scores.uas, scores.las, scores.complete, scores.upos, xpos, given.uas, given.las]
    return (
        corpus, method, *(f"{figure:.2f}" for figure in figures), f"{report['cpu_seconds']:.0f}",
        f"{report['peak_memory_mb'] or 0:.0f}", f"{path.stat().st_size / 1e6:.0f}",
        f"{len(gold) / seconds:.0f}",
    )  # fmt: skip


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpus", nargs="+", default=["ud_english_ewt"])
    options.add_argument("--methods", nargs="+", default=["first", "second", "best"])
    options.add_argument("--jobs", default="1", help="threads of training")
    options.add_argument("--budget", default=None, help="of best")
    options.add_argument("--oracle", type=int, default=0, help="sentences whose 50-best are made")
    given = options.parse_args()
    rows, lists = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for corpus in given.corpus:
            for method in given.methods:
                budget = ["--budget", given.budget] if given.budget and method == "best" else []
                rows.append(row(corpus, method, folder, ["--jobs", given.jobs, *budget]))
                print(*rows[-1], file=sys.stderr, flush=True)
                if given.oracle:
                    parser = sw.ArcParser(sw.load(folder / f"{corpus}-{method}.sapwood"))
                    gold = sw.read_arcs(machine.corpus_file(corpus, "dev", "conllu"))
                    best = [f"{oracle(parser, gold, k, given.oracle):.2f}" for k in (1, 10, 50)]
                    lists.append((corpus, method, *best))
    machine.print_table(HEADER, rows)
    if lists:
        machine.print_table(("corpus", "method", "best of 1: UAS", "of 10", "of 50"), lists)


if __name__ == "__main__":
    main()
