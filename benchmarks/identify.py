"""Identifiability: Figure 2 by exact ranks, how long it takes, and where floating point misleads.

The first table holds every family, every kind of moments, words up to 5, states up to the words and
length up to 5. `--long` adds sentences of 10 words, `--wide` more words and states. `--floats`
compares exact ranks with those of tolerances in floating point, at one random point each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import machine
import numpy as np

from sapwood.identify import check
from sapwood.identify.check import family_map
from sapwood.identify.model.dual import Reals
from sapwood.identify.model.families import FAMILIES, NAMED
from sapwood.identify.model.jacobian import draw_reals, jacobian
from sapwood.identify.report import Cell, Size, figure, paper_answer, sizes

LONG = 10  # words
LARGE = ((6, 6), (8, 4), (8, 8))  # words and states
WIDE_LENGTHS = (3, 4, 5)
WIDE = ((4, 4), (6, 6), (8, 8))  # words and states of the comparison with floating point


def deficits(cell: Cell) -> str:
    """Deficits by length, each for the smallest and the largest size: `3: 1-6`."""
    parts = []
    for length in cell.lengths:
        found = [n for size, n in cell.deficits.items() if size.length == length]
        numbers = sorted(n for n in found if n is not None)
        if numbers:
            low, high = numbers[0], numbers[-1]
            parts.append(f"{length}: {low}" if low == high else f"{length}: {low}-{high}")
    return ", ".join(parts)


def print_figure(words: int, states: int, length: int) -> None:
    """Every cell beside the paper's, and the time for all of them."""
    with machine.Clock() as clock:
        cells = figure(words, states, length)
    rows = [
        (cell.family, cell.moments, cell.answer, paper_answer(cell.family, cell.moments),
         "differs" if cell.differences() else "", deficits(cell))
        for cell in cells
    ]  # fmt: skip
    header = ("family", "moments", "identifiable", "in the paper", "", "deficit by length")
    print(f"\nWords up to {words}, states up to words and {states}, length up to {length}.\n")
    machine.print_table(header, rows)
    n_checks = sum(deficit is not None for cell in cells for deficit in cell.deficits.values())
    print(f"\n{n_checks} questions, {clock.cpu:.1f} CPU s, {machine.peak_mb():.0f} MB.")


def print_long(words: int, states: int) -> None:
    """Pairs and triples of sentences of 10 words, exact rank only."""
    rows = []
    for family, found in FAMILIES.items():
        for moments in ("pairs", "triples-e1", "triples"):
            with machine.Clock() as clock:
                report = check(
                    family, words=words, states=states if found.has_states else None,
                    length=LONG, moments=moments, n_points=0,
                )  # fmt: skip
            rows.append((
                family, moments, f"{report.numbers:,}", str(report.parameters), str(report.rank),
                str(report.deficit), f"{clock.cpu:.2f}",
            ))  # fmt: skip
    print(f"\nSentences of {LONG} words, {words} words, {states} states.\n")
    header = ("family", "moments", "numbers", "parameters", "rank", "deficit", "CPU s")
    machine.print_table(header, rows)


def print_wide() -> None:
    """Deficits for more words and states than the figure has, by length."""
    rows = []
    for family, found in FAMILIES.items():
        for moments in (name for name in NAMED if name != "all"):
            row = [family, moments]
            for words, states in LARGE:
                question = {"words": words, "states": states if found.has_states else None}
                row.append("/".join(
                    str(check(family, **question, length=n, moments=moments, n_points=0).deficit)
                    for n in WIDE_LENGTHS
                ))  # fmt: skip
            rows.append(row)
    print(f"\nDeficits of larger sizes, at length {' / '.join(map(str, WIDE_LENGTHS))}.\n")
    header = ("family", "moments", *(f"{d} words, {k} states" for d, k in LARGE))
    machine.print_table(header, rows)


def questions() -> Iterator[tuple[str, Size, str]]:
    """All questions of the comparison with floating point."""
    for family, found in FAMILIES.items():
        wide = {Size(d, k if found.has_states else None, n) for d, k in WIDE for n in (3, 4, 6)}
        small = set(sizes(5, 5 if found.has_states else None, 5))
        for size in sorted(small | wide, key=lambda each: (each.words, each.length, str(each))):
            for moments in NAMED:
                is_large = moments == "all" and size.words**size.length > 5**6
                if not is_large and (size.length > 2 or "3" not in moments):
                    yield family, size, moments


def float_spectrum(family: str, size: Size, moments: str, rng: np.random.Generator) -> np.ndarray:
    """Relative singular values of the Jacobian at one random point."""
    model = family_map(family, **size._asdict(), moments=moments)
    matrix = jacobian(model, draw_reals(model.tables, rng), Reals())
    values = np.linalg.svd(np.linalg.qr(matrix, mode="r"), compute_uv=False)
    return np.pad(values / values[0], (0, model.n_parameters - len(values)))


def print_floats(seed: int) -> None:
    """How often the rank in floating point is wrong, by the tolerance, and the worst gaps."""
    rng = np.random.default_rng(seed)
    tolerances = {"NumPy's": None, "1e-8": 1e-8, "1e-10": 1e-10, "1e-12": 1e-12}
    wrong, n, gaps = dict.fromkeys(tolerances, 0), 0, []
    for family, size, moments in questions():
        report = check(family, **size._asdict(), moments=moments, n_points=0)
        values = float_spectrum(family, size, moments, rng)
        n += 1
        for name, fixed in tolerances.items():
            usual = max(report.numbers, report.parameters) * np.finfo(float).eps
            wrong[name] += int((values > (fixed or usual)).sum()) != report.rank
        dropped = values[report.rank] if report.deficit else 0.0
        gaps.append((values[report.rank - 1], dropped, family, size, moments))
    print(
        f"\n{n} questions at one random point each: wrong ranks in floating point by tolerance.\n"
    )
    machine.print_table(tuple(tolerances), [tuple(str(count) for count in wrong.values())])
    print("\nThe smallest singular values that count, relative to the largest:\n")
    rows = [
        (f"{kept:.1e}", f"{dropped:.1e}", family, str(size.words), str(size.states or ""),
         str(size.length), moments)
        for kept, dropped, family, size, moments in sorted(gaps, key=lambda gap: gap[0])[:5]
    ]  # fmt: skip
    header = ("kept", "dropped", "family", "words", "states", "length", "moments")
    machine.print_table(header, rows)


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    options.add_argument("--words", type=int, default=5)
    options.add_argument("--states", type=int, default=5)
    options.add_argument("--length", type=int, default=5)
    options.add_argument("--long", action="store_true", help="sentences of 10 words")
    options.add_argument("--wide", action="store_true", help="more words and states")
    options.add_argument("--floats", action="store_true", help="ranks in floating point")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    machine.print_facts("Identifiability")
    print_figure(given.words, given.states, given.length)
    if given.long:
        print_long(given.words, min(given.states, given.words))
    if given.wide:
        print_wide()
    if given.floats:
        print_floats(given.seed)


if __name__ == "__main__":
    main()
