"""SPECTRAL: exact moments, the error by number of trees, and what Theorem 8 asks for."""

from __future__ import annotations

import numpy as np
from run import Table
from tests.theorems import test_spectral as theorem


def exact(is_fast: bool) -> Table:
    """Theorems 3 and 6: the largest sum of errors over all trees with up to three rules."""
    seeds = range(2 if is_fast else 5)
    rows = []
    for m in (2, 3):
        toys = [theorem.random_lpcfg(seed, m, n_rules=9) for seed in seeds]
        forms = [
            theorem.observable_form(theorem.moments(theorem.sums(toy, 1.0)), m) for toy in toys
        ]
        gaps = [
            theorem.l1_gap(toy, theorem.learnt(form, m), most=3)
            for toy, form in zip(toys, forms, strict=True)
        ]
        rows.append((m, len(gaps), f"{max(gaps):.0e}"))
    return Table(("states", "random grammars", "largest L1 error"), rows)


def ladder(is_fast: bool) -> Table:
    """Theorem 8 in practice: L1 over trees with one binary rule, medians of three grammars."""
    sizes = (1_000, 10_000, 100_000) if is_fast else (1_000, 10_000, 100_000, 1_000_000)
    rows = []
    for m in (2, 3):
        for title, is_one in (("every node", False), ("one node per tree, as printed", True)):
            found = [
                np.median([theorem.sampled_error(s, m, n, one_node=is_one) for s in range(3)])
                for n in sizes
            ]
            rows.append((m, title, *(f"{value:.3f}" for value in found)))
        toys = [theorem.random_lpcfg(seed, m) for seed in range(3)]
        limits = [
            theorem.l1_gap(
                toy,
                theorem.learnt(
                    theorem.observable_form(theorem.moments(theorem.one_node_sums(toy)), m), m
                ),
            )
            for toy in toys
        ]
        rows[-1] = (*rows[-1], f"{np.median(limits):.3f}")
        rows[-2] = (*rows[-2], "0")
    return Table(("states", "counted", *(f"{n:.0e} trees" for n in sizes), "limit"), rows)


def bounds(is_fast: bool) -> Table:
    """Theorem 8 as a number of trees, all constants 1, beside the error that 1e4 trees leave."""
    from sapwood.constituency.evaluate.sample_bounds import (
        BoundInputs,
        hidden_constants,
        sample_bounds,
    )

    rows = []
    for seed in range(2 if is_fast else 3):
        toy = theorem.random_lpcfg(seed, 2)
        found = hidden_constants(toy.grammar(is_probabilistic=True))
        asked = sample_bounds(
            BoundInputs(
                n_states=2, n_phrases=3, n_tags=4, n_words=8, n_binary=1, epsilon=0.1, delta=0.05,
                sigma=found.sigma, xi=found.xi, gamma=found.gamma,
            )
        )  # fmt: skip
        error = theorem.sampled_error(seed, 2, 10_000)
        row = (seed, f"{found.sigma:.0e}", f"{found.xi:.0e}", f"{found.gamma:.0e}")
        rows.append((*row, f"{asked.trees:.0e}", f"{error:.3f}"))
    header = ("grammar", "sigma", "xi", "gamma", "trees asked for, error 0.1", "error at 1e4 trees")
    return Table(header, rows)


TABLES = {"exact": exact, "ladder": ladder, "bounds": bounds}
