"""WCFG: Lemma 1 from exact blocks, Figures 1 to 3 and Tables 1 and 2 on open data."""

from __future__ import annotations

import numpy as np
from run import Table, benchmark
from tests.theorems import test_weighted_grammars as theorem

import sapwood as sw


def lemma(is_fast: bool) -> Table:
    """Lemma 1: largest error of a string's value from exact Hankel blocks."""
    rows = []
    for name, (target, rank, size) in theorem.TARGETS.items():
        basis = theorem.full_basis(target.symbols, size)
        found = sw.SpectralWCFG(rank).fit_moments(basis, *theorem.blocks(target, basis)).model_
        most = (4 if len(target.symbols) > 2 else 8) - is_fast
        every = theorem.strings_up_to(target.symbols, most)
        worst = np.abs(found.values(every) - target.values(every)).max()
        rows.append((name, rank, len(every), f"{worst:.0e}"))
    return Table(("target", "rank", "strings", "largest error"), rows)


def figure_1(is_fast: bool) -> Table:
    """KL by size of the sample, 2 states and 2 symbols."""
    size = ("1", "--em-iterations", "40") if is_fast else ("10",)
    return benchmark("hankel.py", "--part", "figure-1", "--targets", *size)[0]


def figure_2(is_fast: bool) -> Table:
    """KL by size of the sample, 3 states and 6 symbols."""
    size = ("1", "--em-iterations", "40") if is_fast else ("10",)
    return benchmark("hankel.py", "--part", "figure-2", "--targets", *size)[0]


def maximum(is_fast: bool) -> Table:
    """Figure 2 again, with EM to the maximum of the likelihood and with trees."""
    methods = ("supervised", "admm + values", "em", "em, to the maximum", "em, supervised")
    arguments = ("--targets", "1" if is_fast else "5", "--sizes", "1e4", "1e6", "--methods")
    return benchmark("hankel.py", "--part", "figure-2", *arguments, *methods)[0]


def maximum_1(is_fast: bool) -> Table:
    """Figure 1 again, with EM to the maximum of the likelihood and with trees."""
    methods = ("supervised", "admm + values", "em", "em, to the maximum", "em, supervised")
    arguments = ("--targets", "1" if is_fast else "5", "--sizes", "1e4", "1e6", "--methods")
    return benchmark("hankel.py", "--part", "figure-1", *arguments, *methods)[0]


def figure_3(is_fast: bool) -> Table:
    """L1 on the Dyck language by basis."""
    return benchmark("hankel.py", "--part", "dyck", "--repeats", "1" if is_fast else "5")[0]


def tags(is_fast: bool) -> Table:
    """Tables 1 and 2: sizes of problems and errors, strings of tags of the Penn sample."""
    plans = ("admm:0.0005", "factored:0.002") if is_fast else (
        "admm:0.0005", "admm:0.002", "factored:0.002", "factored:0.02",
    )  # fmt: skip
    arguments = ("--corpora", "ptb", "--states", "5", "10", "--plans", *plans)
    table = benchmark("hankel_tags.py", *arguments)[0]
    wanted = ("solver", "basis", "matrix", "strings", "constraints", "states", "CPU s", "L1")
    places = [list(table.header).index(name) for name in wanted]
    return Table(wanted, [[row[place] for place in places] for row in table.rows], table.note)


TABLES = {
    "lemma": lemma, "figure-1": figure_1, "figure-2": figure_2, "maximum": maximum,
    "maximum-1": maximum_1,
    "figure-3": figure_3, "tags": tags,
}  # fmt: skip
