"""Tables 1 and 2 on strings of tags: sizes of problems, errors, brackets, and how far bases go.

python benchmarks/hankel_tags.py --corpora ptb
python benchmarks/hankel_tags.py --corpora ud_english_ewt
"""

from __future__ import annotations

import argparse
from typing import Any

import machine  # first: it pins BLAS to one thread
from papers.hankel_corpora import Plan, study_tags

import sapwood as sw

PAPER = 30 * 29  # entries of the largest basis of the paper
PLANS = ("admm:0.0005", "admm:0.002", "factored:0.002", "factored:0.02", "factored:0.1")


def trees_of(corpus: str, split: str) -> Any:
    """Phrase trees, or dependency trees."""
    if corpus == "ptb":
        return sw.read_trees(machine.corpus_file(corpus, split))
    return sw.read_arcs(machine.corpus_file(corpus, split, "conllu"))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="*", default=("ptb", "ud_english_ewt"))
    parser.add_argument("--plans", nargs="*", default=PLANS, metavar="SOLVER:FACTOR")
    parser.add_argument("--states", nargs="*", type=int, default=(5, 10))
    args = parser.parse_args()
    machine.print_facts("Weighted grammars from strings of tags")
    plans = [Plan(name, float(factor)) for name, factor in (x.split(":") for x in args.plans)]
    for corpus in args.corpora:
        found = study_tags(
            *(trees_of(corpus, split) for split in ("train", "dev")),
            plans=plans, states=args.states,
        )  # fmt: skip
        print(
            f"{corpus}: strings of at most 10 tags; L1 and F1 of `new` strings are those of dev\n"
        )
        print_tables(found)


def print_tables(found: dict[str, list[dict[str, Any]]]) -> None:
    """Sizes and errors of what was learnt without trees; brackets of others."""
    for x in found["runs"]:
        if "error" in x:
            print(f"{x['solver']}, factor {x['factor']:g}, {x['states']} states: {x['error']}\n")
    machine.print_table(
        (
            "solver", "basis", "30 x 29 times", "matrix", "entries held", "strings", "constraints",
            "states", "steps", "feasible", "gap", "CPU s", "peak MB", "L1", "L1 new", "F1 new",
        ),
        [
            (
                x["solver"], x["basis"], f"{x['entries'] / PAPER:.1f}", x["matrix"],
                f"{x['listed']:,}", f"{x['observed']:,}", f"{x['constraints']:,}", x["states"],
                x["steps"], f"{x['feasibility']:.0e}", f"{x['gap']:.0e}",
                f"{x['cpu_seconds']:.1f}", f"{x['peak_memory_mb']:.0f}", f"{x['l1']:.2e}",
                f"{x['l1_new']:.2e}", f"{x['f1']:.1f}",
            )
            for x in found["runs"]
            if "error" not in x
        ],
    )  # fmt: skip
    machine.print_table(
        ("brackets (dev)", "L1", "precision", "recall", "F1"),
        [
            (
                x["model"], f"{x['l1']:.2e}" if "l1" in x else "", f"{x['precision']:.1f}",
                f"{x['recall']:.1f}", f"{x['f1']:.1f}",
            )
            for x in found["brackets"]
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
