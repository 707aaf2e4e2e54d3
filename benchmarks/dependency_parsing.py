"""Dependency parsers: tags, UAS, LAS, complete trees, speed, training time, memory, lists.

python benchmarks/dependency_parsing.py --corpus ud_english_ewt --methods first second best
python benchmarks/dependency_parsing.py --methods best --encoder all-MiniLM-L6-v2
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import machine
import numpy as np

import sapwood as sw
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.evaluate import attachment
from sapwood.dependency.parse.reranking import arc_parser

HEADER = (
    "corpus", "method", "UAS", "LAS", "complete", "UPOS", "XPOS", "gold tags: UAS", "LAS",
    "train CPU s", "train MB", "file MB", "sentences/CPU s",
)  # fmt: skip
ALONE = 1 - 1e-6  # weight of a network that is nearly alone
SIZES = (1, 10, 50)  # of lists


def trained(train: Path, method: str, path: Path, options: list[str]) -> dict[str, Any]:
    """The report of a training in a process of its own."""
    command = [sys.executable, "-m", "sapwood", "depend", "train", str(train), "-o", str(path)]
    command += ["--method", method, "--json", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def parsed(model: Any, gold: ArcBank, *, use_tags: bool = False) -> tuple[ArcBank, float]:
    """Parses of the sentences, and CPU seconds on one thread."""
    parser = arc_parser(model, use_tags=use_tags)
    given = list(gold) if use_tags else [gold.sentence(k) for k in range(len(gold))]
    parser.parse(given[0])  # kernels loaded
    with machine.Clock() as clock:
        found = [parse.arcs for parse in parser.parse_many(given)]
    return ArcBank.of(found), clock.thread


def oracles(model: Any, gold: ArcBank, sizes: tuple[int, ...]) -> list[float]:
    """UAS in percent of the best tree in lists of each size."""
    parser = sw.ArcParser(getattr(model, "parser", model))  # a reranker's lists are its parser's
    n_right = np.zeros(len(sizes), np.int64)
    for s in range(len(gold)):
        found = parser.parse(gold.sentence(s)).k_best_heads(max(sizes))[1]
        right = (found == gold.head[gold.offsets[s] : gold.offsets[s + 1]]).sum(axis=1)
        n_right += [right[:size].max() for size in sizes]
    return list(100 * n_right / gold.n_tokens)


def figures_of(model: Any, gold: ArcBank) -> tuple[list[str], str]:
    """Scores without and with gold tags, and the speed."""
    found, seconds = parsed(model, gold)
    scores = attachment(gold, found)
    given = attachment(gold, parsed(model, gold, use_tags=True)[0])
    names = [[bank.xpos_names[x] for x in bank.xpos] for bank in (gold, found)]
    xpos = 100 * sum(a == b for a, b in zip(*names, strict=True)) / gold.n_tokens
    figures = [scores.uas, scores.las, scores.complete, scores.upos, xpos, given.uas, given.las]
    return [f"{figure:.2f}" for figure in figures], f"{len(gold) / seconds:.0f}"


def rows(
    corpus: str, method: str, folder: Path, options: list[str], *, alone: bool
) -> Iterator[tuple[str, ...]]:
    """Train and parse; with `alone`, also by the network of `best` and by the other parts of it."""
    train, dev = (machine.corpus_file(corpus, part, "conllu") for part in ("train", "dev"))
    path, gold = folder / f"{corpus}-{method}.sapwood", sw.read_arcs(dev)
    report = trained(train, method, path, options)
    model = sw.load(path)
    figures, speed = figures_of(model, gold)
    costs = (
        f"{report['cpu_seconds']:.0f}", f"{report['peak_memory_mb'] or 0:.0f}",
        f"{path.stat().st_size / 1e6:.0f}",
    )  # fmt: skip
    yield corpus, method, *figures, *costs, speed
    if alone and getattr(model, "encoder", None) is not None:
        network = replace(model, encoder=model.encoder._replace(weight=ALONE))
        others = {"network alone": network, "features alone": replace(model, encoder=None)}
        for name, part in others.items():
            figures, speed = figures_of(part, gold)
            yield corpus, f"{method}, {name}", *figures, "", "", "", speed


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--corpus", nargs="+", default=["ud_english_ewt"])
    options.add_argument("--methods", nargs="+", default=["first", "second", "best"])
    options.add_argument("--jobs", default="1", help="threads of training")
    options.add_argument("--budget", default=None, help="of best")
    options.add_argument("--encoder", default=None, help="folder of an encoder, for best")
    options.add_argument("--oracle", type=int, default=0, help="sentences whose 50-best are made")
    options.add_argument("--alone", action="store_true", help="the parts of best by themselves too")
    given = options.parse_args()
    lists = []

    def printed(folder: Path) -> Iterator[tuple[str, ...]]:
        for corpus, method in product(given.corpus, given.methods):
            chosen = ["--jobs", given.jobs]
            for name in ("budget", "encoder") if method == "best" else ():
                value = getattr(given, name)
                chosen += [f"--{name}", value] if value else []
            yield from rows(corpus, method, folder, chosen, alone=given.alone)
            if given.oracle:
                model = sw.load(folder / f"{corpus}-{method}.sapwood")
                gold = sw.read_arcs(machine.corpus_file(corpus, "dev", "conllu"))
                best = oracles(model, gold[: given.oracle], SIZES)
                lists.append((corpus, method, *(f"{figure:.2f}" for figure in best)))
                print(*lists[-1], file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as name:
        machine.print_table(HEADER, printed(Path(name)))
    if lists:
        machine.print_table(("corpus", "method", *(f"best of {k}: UAS" for k in SIZES)), lists)


if __name__ == "__main__":
    main()
