"""IDENT: Figure 2 by exact ranks, the mixing matrix, exact and sampled unmixing."""

from __future__ import annotations

from run import Table, benchmark


def figure_2(is_fast: bool) -> Table:
    """Which family can be learnt from which moments, beside the paper's answer."""
    size = "3" if is_fast else "5"
    length = "4" if is_fast else "5"
    arguments = ("--words", size, "--states", size, "--length", length)
    return benchmark("identify.py", *arguments)[0]


def mixing(is_fast: bool) -> Table:
    """Sizes and ranks of the mixing matrix, and which compound parameters it gives."""
    del is_fast
    return benchmark("unmixing.py", "--part", "exact")[0]


def unmixing(is_fast: bool) -> Table:
    """Largest error of any parameter from exact moments."""
    del is_fast
    return benchmark("unmixing.py", "--part", "exact")[1]


def samples(is_fast: bool) -> Table:
    """Median L1 error of T or A by number of sentences."""
    sizes = ("--models", "4", "--sizes", "10000,100000") if is_fast else ("--models", "12")
    return benchmark("unmixing.py", "--part", "samples", *sizes)[0]


TABLES = {"figure-2": figure_2, "mixing": mixing, "unmixing": unmixing, "samples": samples}
