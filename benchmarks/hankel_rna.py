"""RNA: base pairs found by grammars learnt from structures, and by RNAfold in the same run.

RNAfold is that of the package ViennaRNA (pip install ViennaRNA); without it, its row is left out.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import machine  # first: it pins BLAS to one thread
from papers.hankel_corpora import rnafold, study_rna

from sapwood.corpora.files import open_text
from sapwood.hankel.data import Structure, read_structures

METHODS = ("pcfg:1", "spectral:8", "spectral:16", "em:8", "em:16", "best:32")


def structures(path: Path, limit: int | None) -> list[Structure]:
    """The structures of a file; when there are more than the limit, a sample with a fixed seed."""
    with open_text(path) as file:
        found = list(read_structures(file, str(path)))
    return found if limit is None else random.Random(0).sample(found, min(limit, len(found)))


def pair(text: str) -> tuple[str, int]:
    """A method and its number of states."""
    name, states = text.split(":")
    return name, int(states)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--files", nargs=2, type=Path, metavar=("TRAIN", "DEV"), help="dot-brackets; else Rfam"
    )
    parser.add_argument("--train", type=int, default=None, help="structures to learn from")
    parser.add_argument("--dev", type=int, default=None, help="structures to judge by")
    parser.add_argument("--methods", nargs="*", type=pair, default=[pair(x) for x in METHODS])
    parser.add_argument("--wcfg", nargs="*", type=pair, default=[("spectral", 4), ("em", 12)])
    parser.add_argument("--wcfg-train", type=int, default=1500, help="structures for --wcfg")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for best")
    args = parser.parse_args()
    machine.print_facts("RNA structures")
    if rnafold() is None:
        print("ViennaRNA is not installed: no RNAfold\n")
    files = args.files or [machine.corpus_file("rna_rfam", x, "dbn") for x in ("train", "dev")]
    train, dev = structures(files[0], args.train), structures(files[1], args.dev)
    random.Random(1).shuffle(train)  # those for --wcfg are the first
    print(
        f"{len(train):,} structures to learn from, {min(args.wcfg_train, len(train)):,} for wcfg,"
    )
    print(f"{len(dev):,} of other families to judge by\n")
    rows = []
    for row in study_rna(
        train, dev, methods=args.methods, wcfg=args.wcfg, wcfg_train=args.wcfg_train,
        budget=args.budget,
    ):  # fmt: skip
        rows.append(row)
        print(row, file=sys.stderr, flush=True)  # what is known when somebody is out of patience
    bins = list(rows[0]["by_length"])
    sizes = ", ".join(f"{rows[0]['sequences'][x]:,} of {x}" for x in bins)
    print(f"sequences by length in bases: {sizes}\n")
    machine.print_table(
        (
            "model", "precision", "recall", "F1", *(f"F1 {x}" for x in bins), "train CPU s",
            "a CPU second",
        ),
        [
            (
                f"{x['model']}" + (f", {x['states']}" if x["states"] else ""),
                *(f"{x[name]:.1f}" for name in ("precision", "recall", "f1")),
                *(f"{x['by_length'][name]:.1f}" for name in bins),
                f"{x['train_seconds']:.0f}",
                f"{x['per_second']:.1f}",
            )
            for x in rows
            if "error" not in x
        ],
    )  # fmt: skip
    for x in rows:
        if "error" in x:
            print(f"{x['model']}, {x['states']}: {x['error']}\n")


if __name__ == "__main__":
    main()
