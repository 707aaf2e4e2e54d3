"""RNA: base pairs found by grammars learnt from structures, and by RNAfold in the same run.

RNAfold is that of the package ViennaRNA (pip install ViennaRNA); without it, its row is left out.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path

import machine  # first: it pins BLAS to one thread

from sapwood.corpus.files import open_text
from sapwood.corpus.rna import Structure, read_structures
from sapwood.report.hankel_study import study_rna


def structures(split: str, limit: int | None) -> list[Structure]:
    """Some structures of a split, drawn with a fixed seed."""
    folder = os.environ.get("SAPWOOD_DATA")
    if not folder:
        sys.exit("SAPWOOD_DATA is not set: name the folder that holds rna_rfam/")
    path = Path(folder) / "rna_rfam" / f"{split}.dbn.xz"
    with open_text(path) as file:
        found = list(read_structures(file, str(path)))
    return found if limit is None else random.Random(0).sample(found, min(limit, len(found)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=int, default=None, help="structures to learn from")
    parser.add_argument("--dev", type=int, default=800, help="structures to judge by")
    parser.add_argument("--methods", default="pcfg:1,spectral:8,spectral:16,em:8,em:16")
    parser.add_argument("--wcfg", default="8,16", help="states of weighted grammars")
    args = parser.parse_args()
    machine.print_facts("RNA structures")
    try:
        import RNA

        def fold(bases: str) -> str:
            return RNA.fold(bases)[0]
    except ImportError:
        print("ViennaRNA is not installed: no RNAfold\n")
        fold = None
    train, dev = structures("train", args.train), structures("dev", args.dev)
    print(f"{len(train):,} structures to learn from, {len(dev):,} of other families to judge by\n")
    methods = [(x.split(":")[0], int(x.split(":")[1])) for x in args.methods.split(",") if x]
    wcfg = [int(x) for x in args.wcfg.split(",") if x]
    rows = study_rna(train, dev, methods=methods, wcfg_states=wcfg, fold=fold)
    bins = list(rows[0]["by_length"])
    machine.print_table(
        ("model", "precision", "recall", "F1", *(f"F1 {x}" for x in bins), "train s", "a second"),
        [
            (
                f"{x['model']}" + (f", {x['states']}" if x["states"] else ""),
                *(f"{x[name]:.1f}" for name in ("precision", "recall", "f1")),
                *(f"{x['by_length'][name]:.1f}" for name in bins),
                f"{x['train_seconds']:.0f}",
                f"{x['per_second']:.1f}",
            )
            for x in rows
        ],
    )


if __name__ == "__main__":
    main()
