"""Weighted grammars from strings: Figures 1 and 2 (random targets) and Figure 3 (Dyck) again.

python benchmarks/hankel.py --part figure-1       KL by size of the sample, 50 targets of 2 states
python benchmarks/hankel.py --part figure-2       of 3 states and 6 symbols
python benchmarks/hankel.py --part dyck           L1 by basis, ten samples
"""

from __future__ import annotations

import argparse
import json
import sys

import machine  # first: it pins BLAS to one thread
from papers.hankel_study import (
    QUICK_METHODS,
    RANDOM_METHODS,
    SIZES,
    study_dyck,
    study_random,
)

FIGURES = {"figure-1": (2, 2), "figure-2": (3, 6)}


def random_tables(states: int, symbols: int, args: argparse.Namespace) -> None:
    """KL of the methods, and how near the solvers came."""
    rows = study_random(
        states, symbols, targets=args.targets, em_iterations=args.em_iterations,
        methods=args.methods, sizes=args.sizes, seconds=args.seconds,
        own_seeds=args.own_seeds,
        tell=lambda row: print(json.dumps(row), file=sys.stderr, flush=True),
    )  # fmt: skip
    found = {(row["method"], row["samples"]): row for row in rows}
    methods = list(dict.fromkeys(row["method"] for row in rows))
    print(f"{states} states, {symbols} symbols: KL up to length 10, geometric means over")
    print(
        f"{rows[0]['targets']} targets that end with probability 1, of {rows[0]['drawn']:,} drawn\n"
    )
    machine.print_table(
        ("method", *(f"{x:.0e}" if x < SIZES[-1] else "exact" for x in args.sizes), "s a fit"),
        [
            (
                name,
                *(f"{found[name, size]['kl']:.1e}" for size in args.sizes),
                f"{sum(found[name, x]['seconds'] for x in args.sizes) / len(args.sizes):.2f}",
            )
            for name in methods
        ],
    )
    if tuple(args.sizes) != SIZES:
        return
    print("How near solvers came: medians over targets, and the worst gap of all\n")
    machine.print_table(
        ("method", "feasible, 1e3", "1e6", "1e9", "gap, 1e3", "gap, 1e6", "gap, 1e9", "worst gap"),
        [
            (
                name,
                *(f"{found[name, size]['feasibility']:.0e}" for size in (1e3, 1e6, 1e9)),
                *(f"{found[name, size]['gap']:.0e}" for size in (1e3, 1e6, 1e9)),
                f"{max(found[name, size]['worst_gap'] for size in SIZES):.0e}",
            )
            for name in methods
            if found[name, SIZES[0]]["feasibility"] >= 0
        ],
    )


def dyck_table(repeats: int) -> None:
    """L1 up to lengths 7 and 11."""
    print(f"Dyck, 4,000 strings, 4 states; means over {repeats} samples\n")
    machine.print_table(
        ("method", "basis factor", "basis", "L1 to 7", "L1 to 11", "s a fit"),
        [
            (
                row["method"], f"{row['factor']:g}", row["basis"], f"{row['l1_7']:.4f}",
                f"{row['l1_11']:.4f}", f"{row['seconds']:.2f}",
            )
            for row in study_dyck(repeats=repeats)
        ],
    )  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=(*FIGURES, "dyck", "all"), default="all")
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--methods", nargs="*", choices=RANDOM_METHODS, default=QUICK_METHODS)
    parser.add_argument("--sizes", nargs="*", type=float, default=SIZES, help="of samples")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no target later")
    parser.add_argument(
        "--own-seeds", action="store_true", help="the same targets and samples whatever the sizes"
    )
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--em-iterations", type=int, default=200)
    args = parser.parse_args()
    machine.print_facts("Weighted grammars from strings")
    for figure, (states, symbols) in FIGURES.items():
        if args.part in (figure, "all"):
            random_tables(states, symbols, args)
    if args.part in ("dyck", "all"):
        dyck_table(args.repeats)


if __name__ == "__main__":
    main()
