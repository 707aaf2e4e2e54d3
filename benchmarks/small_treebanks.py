"""Which method suits a treebank of a few dozen or a few hundred trees.

Trees are drawn at random from the train part of a corpus, without its last 196 trees, which are
parsed; dev trees are not used. The commands are those that a user runs: `sapwood train` with a
method or with none, `sapwood parse`, `sapwood evaluate`.

python benchmarks/small_treebanks.py --draws 3
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import machine
import numpy as np
from defaults import run

HELD_OUT = 196  # trees at the end of the train part
METHODS: dict[str, tuple[str, ...]] = {
    "pcfg": ("--method", "pcfg"),
    "spectral, 2 states": ("--method", "spectral", "--states", "2"),
    "spectral, 8 states": ("--method", "spectral", "--states", "8"),
    "em, 4 states": ("--method", "em", "--states", "4"),
    "the default mix": (),
}


def f1_of(trees: Path, held: Path, options: tuple[str, ...], folder: Path) -> tuple[float, float]:
    """Strict F1 on held-out trees of a model trained with some options, and its CPU seconds."""
    model, words, found = folder / "model.sapwood", folder / "words.txt", folder / "found.mrg"
    seconds, _ = run("train", trees, "-o", model, "--force", *options)
    run("words", held, out=words)
    run("parse", model, words, out=found)
    run("evaluate", held, found, "--json", out=folder / "score.json")
    return json.loads((folder / "score.json").read_text("utf-8"))["strict"]["f1"], seconds


def main() -> None:
    """Print F1 and CPU seconds by number of trees and method."""
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--corpus", choices=machine.CORPORA, default="ptb")
    options.add_argument("--sizes", type=int, nargs="+", default=[25, 50, 100, 200])
    options.add_argument("--draws", type=int, default=3, help="random treebanks of each size")
    given = options.parse_args()
    machine.print_facts("Small treebanks", threads=1)
    every = machine.gold_trees(given.corpus, "train")
    pool, held_out = every[:-HELD_OUT], every[-HELD_OUT:]
    print(f"{given.corpus}: {given.draws} draws of {len(pool):,} trees, F1 on {HELD_OUT} others\n")
    rows = []
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        held, trees = folder / "held.mrg", folder / "trees.mrg"
        held.write_text("".join(f"{tree}\n" for tree in held_out), encoding="utf-8")
        for n in given.sizes:
            scores: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
            for draw in range(given.draws):
                places = np.random.default_rng([draw, n]).choice(len(pool), n, replace=False)
                drawn = "".join(f"{pool[place]}\n" for place in places)
                trees.write_text(drawn, encoding="utf-8")
                for name, chosen in METHODS.items():
                    scores[name].append(f1_of(trees, held, chosen, folder))
            for name, found in scores.items():
                each = [f1 for f1, _ in found]
                spread = f"{min(each):.1f} to {max(each):.1f}"
                cpu = mean(seconds for _, seconds in found)
                rows.append((str(n), name, f"{mean(each):.1f}", spread, f"{cpu:.0f}"))
                print(*rows[-1], sep="\t", flush=True)
    print()
    machine.print_table(("trees", "method", "F1", "lowest to highest", "train, CPU s"), rows)


if __name__ == "__main__":
    main()
