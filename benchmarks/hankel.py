"""Weighted grammars from strings: Figures 1 and 2 (random targets) and Figure 3 (Dyck) again.

python benchmarks/hankel.py --part random --targets 5     KL by size of the sample
python benchmarks/hankel.py --part dyck --repeats 10      L1 by basis
"""

from __future__ import annotations

import argparse

import machine  # first: it pins BLAS to one thread

from sapwood.report.hankel_study import SIZES, study_dyck, study_random


def random_tables(targets: int, em_iterations: int) -> None:
    """KL of all methods, for both sizes of targets."""
    for states, symbols in ((2, 2), (3, 6)):
        rows = study_random(states, symbols, targets=targets, em_iterations=em_iterations)
        found = {(row["method"], row["samples"]): row for row in rows}
        methods = list(dict.fromkeys(row["method"] for row in rows))
        print(f"{states} states, {symbols} symbols: KL up to length 10, geometric means over")
        print(f"{targets} targets that end with probability 1, of {rows[0]['drawn']:,} drawn\n")
        machine.print_table(
            ("method", *(f"{size:.0e}" for size in SIZES), "s a fit"),
            [
                (
                    name,
                    *(f"{found[name, size]['kl']:.1e}" for size in SIZES),
                    f"{found[name, SIZES[0]]['seconds']:.2f}",
                )
                for name in methods
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
    parser.add_argument("--part", choices=("random", "dyck", "all"), default="all")
    parser.add_argument("--targets", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--em-iterations", type=int, default=200)
    args = parser.parse_args()
    machine.print_facts("Weighted grammars from strings")
    if args.part != "dyck":
        random_tables(args.targets, args.em_iterations)
    if args.part != "random":
        dyck_table(args.repeats)


if __name__ == "__main__":
    main()
