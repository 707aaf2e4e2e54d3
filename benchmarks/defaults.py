"""What `sapwood train` makes of a treebank when nothing is said: F1 on dev, time, size, speed.

The commands are run as they stand, in processes of their own: train without dev trees, then parse
the sentences of dev once, on one core. Nothing is chosen on dev.

python benchmarks/defaults.py --corpora ptb craft
python benchmarks/defaults.py --corpora ptb --train --method pcfg
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import machine

import sapwood as sw
from sapwood.corpora.tree import clean_all

HEADER = (
    "corpus", "learnt", "F1, EVALB", "strict", "train, CPU s", "train, s", "MB", "parse, CPU s",
    "sentences a CPU s",
)  # fmt: skip


def run(*arguments: object, out: Path | None = None) -> tuple[float, float]:
    """CPU and wall seconds of a command."""
    command = [sys.executable, "-m", "sapwood", *map(str, arguments)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    with (out or Path("/dev/null")).open("w", encoding="utf-8") as target:
        subprocess.run(command, check=True, stdout=target)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, perf_counter() - began


def row_of(corpus: str, options: list[str], folder: Path) -> tuple[str, ...]:
    """Train, parse and score one treebank."""
    model, words, found = folder / f"{corpus}.sapwood", folder / "words.txt", folder / "found.mrg"
    train, wall = run(
        "train", machine.corpus_file(corpus, "train"), "-o", model, "--force", *options
    )
    dev = machine.corpus_file(corpus, "dev")
    run("words", dev, out=words)
    parse, _ = run("parse", model, words, "--jobs", 1, out=found)
    score = folder / "score.json"
    run("evaluate", dev, found, "--json", out=score)
    scores = json.loads(score.read_text("utf-8"))
    n = sum(1 for _ in clean_all(sw.read_trees(dev)))
    learnt = sw.load(model)
    members = ", ".join(str(one.record["method"]) for one in getattr(learnt, "members", (learnt,)))
    return (
        corpus, members, f"{scores['all']['f1']:.2f}", f"{scores['strict']['f1']:.2f}",
        f"{train:.0f}", f"{wall:.0f}", f"{model.stat().st_size / 1e6:.0f}", f"{parse:.0f}",
        f"{n / parse:.0f}",
    )  # fmt: skip


def main() -> None:
    """Print one table."""
    given = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    given.add_argument("--corpora", nargs="+", default=["ptb", "craft"])
    given.add_argument("--keep", type=Path, help="a folder that the models stay in")
    given.add_argument("--train", nargs=argparse.REMAINDER, default=[], help="options of train")
    asked = given.parse_args()
    machine.print_facts(
        "Trained with nothing said" + " but " * bool(asked.train) + " ".join(asked.train)
    )
    with TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for corpus in asked.corpora:
            machine.print_table(HEADER, [row_of(corpus, asked.train, folder)])


if __name__ == "__main__":
    main()
