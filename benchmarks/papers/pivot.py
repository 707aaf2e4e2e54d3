"""PIVOT: exact and sampled matrices, Frank-Wolfe, Table 1 on the Penn sample, Table 2 on Brown."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
from run import ROOT, Table, benchmark
from tests.theorems import test_pivot as theorem

M = theorem.M


def matrices(is_fast: bool) -> Table:
    """Theorem 2: the largest error from exact Q, and the median error of r from pairs."""
    truth = {seed: theorem.model(seed) for seed in theorem.SEEDS}
    worst = {"one view, least squares": 0.0, "both views, EM (Figure 2)": 0.0}
    for true in truth.values():
        ours = theorem.decompose_one_view(true.joint, M)
        printed = theorem.decompose_both_views(true.joint, M, gap=1e-13)
        for name, found in zip(worst, (ours, printed), strict=True):
            error = theorem.worst_error(found.r, found.s, found.pi, true)
            worst[name] = max(worst[name], error)
    sizes = (10_000, 100_000, 1_000_000) if is_fast else (10_000, 100_000, 1_000_000, 10_000_000)
    sampled = [f"{theorem.median_error(theorem.by_pivots, n):.4f}" for n in sizes]
    rows = [
        ("one view, least squares", f"{worst['one view, least squares']:.0e}", *sampled),
        ("both views, EM (Figure 2)", f"{worst['both views, EM (Figure 2)']:.0e}", *sampled),
    ]
    return Table(("method for s", "exact Q, largest error", *(f"r, {n:.0e}" for n in sizes)), rows)


def frank_wolfe(is_fast: bool) -> Table:
    """How far the printed solver is from the exact one, after so many steps."""
    B, Y = theorem.least_squares_problem()  # noqa: N806
    best = theorem.simplex_least_squares(B, Y)
    rows = []
    for steps in (100, 1_000) if is_fast else (100, 1_000, 5_000):
        found = theorem.frank_wolfe(B, Y, gap=0.0, max_steps=steps).weights
        rows.append((steps, f"{np.abs(found - best).max():.0e}"))
    return Table(("Frank-Wolfe steps", "largest error of a weight"), rows)


def parsing(is_fast: bool) -> Table:
    """Table 1 on the Penn sample: F1 on dev, and in brackets the best iteration of EM."""
    import machine

    states = ("8",) if is_fast else ("8", "16", "24", "32")
    command = [
        sys.executable, "-m", "sapwood", "compare", str(machine.corpus_file("ptb", "train")),
        str(machine.corpus_file("ptb", "dev")), "--methods", "em,spectral,pivot,pivot-em",
        "--states", ",".join(states), "--jobs", "1", "--json",
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
    found = {(row["method"], str(row["states"])): row for row in json.loads(done.stdout)}
    published = {
        "em": ("86.69", "88.32", "88.35", "88.56"),
        "spectral": ("85.60", "87.77", "88.53", "88.82"),
        "pivot": ("83.56", "86.00", "86.87", "86.40"),
        "pivot-em": ("86.83", "88.14", "88.64", "88.55"),
    }
    rows = []
    for method, known in published.items():
        cells = []
        for m in states:
            row = found[method, m]
            best = f" ({row['best_iteration']})" if row.get("best_iteration") else ""
            cells.append(f"{row['f1']:.2f}{best}")
        rows.append((method, *cells, *known[: len(states)]))
    header = ("method", *(f"ours, m = {m}" for m in states), *(f"paper, m = {m}" for m in states))
    return Table(header, rows, "`sapwood compare`, Penn sample, dev; the paper has WSJ 22")


def brown(is_fast: bool) -> Table:
    """Table 2: perplexity of Brown's second half of dev and of test."""
    most = 16 if is_fast else 256
    table = benchmark("language_models.py", "--parts", "paper", "--states", str(most))[0]
    states = ("2", "4", "8", "16", "32", "128", "256")
    published = {
        "em": dict(zip(states, (737, 599, 488, 468, 430, 388, 365), strict=True)),
        "pivot": dict(zip(states, (852, 718, 605, 559, 537, 426, 597), strict=True)),
        "pivot-em": dict(zip(states, (758, 582, 502, 425, 374, 310, 327), strict=True)),
        "Kneser-Ney 2": {"": 408},
        "Kneser-Ney 3": {"": 386},
    }
    header = (*table.header[:2], "paper, dev", *table.header[2:])
    rows = [
        (*row[:2], published[row[0]][str(row[1])], *row[2:])
        for row in table.rows
        if str(row[1]) in published[row[0]]
    ]
    return Table(header, rows, table.note)


TABLES = {"matrices": matrices, "frank-wolfe": frank_wolfe, "parsing": parsing, "brown": brown}
