"""Tables 1 and 2 on strings of tags: sizes of problems, errors, brackets, and how far bases go."""

from __future__ import annotations

import argparse

import machine  # first: it pins BLAS to one thread

import sapwood as sw
from sapwood.report.hankel_study import study_tags


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factors", default="0.0005,0.002,0.005")
    parser.add_argument("--states", default="5,10")
    parser.add_argument("--solver", default="admm")
    args = parser.parse_args()
    machine.print_facts("Weighted grammars from strings of tags")
    train, dev = (list(sw.read_trees(machine.corpus_file("ptb", x))) for x in ("train", "dev"))
    found = study_tags(
        train, dev, solver=args.solver,
        factors=[float(x) for x in args.factors.split(",")],
        states=[int(x) for x in args.states.split(",")],
    )  # fmt: skip
    print(f"Penn sample, at most 10 symbols, solver {args.solver}\n")
    machine.print_table(
        ("basis", "matrix", "strings", "steps", "gap", "feasibility", "s", "peak MB"),
        [
            (
                x["basis"], x["matrix"], f"{x['observed']:,}", x["steps"], f"{x['gap']:.0e}",
                f"{x['feasibility']:.0e}", f"{x['seconds']:.1f}", f"{x['peak_mb']:.0f}",
            )
            for x in found["sizes"]
            if "basis" in x
        ],
    )  # fmt: skip
    machine.print_table(
        ("basis and states", "expected L1", "bracketing F1 (dev)"),
        [
            (f"{x['basis']}, {x['states']}", f"{x['l1']:.2e}", f"{x['f1']:.1f}")
            for x in found["l1"]
            if "basis" in x
        ],
    )
    machine.print_table(
        ("brackets (dev)", "precision", "recall", "F1"),
        [
            (x["model"], f"{x['precision']:.1f}", f"{x['recall']:.1f}", f"{x['f1']:.1f}")
            for x in found["brackets"]
        ],
    )


if __name__ == "__main__":
    main()
