"""The constraints of a Hankel matrix, yield by yield: sections 4.1 and 5.1 of WCFG.

Rows are contexts, columns inside strings (y) and pairs (y1, y2) of them. An entry is the weight of
its yield w = x y z with some brackets:

    M[i, j]     a bracket around w[i:j]                        entries (<x; z>, (y))
    N[i, k, j]  one that consists of w[i:k] and w[k:j]         entries (<x; z>, (y1, y2))

The Hankel constraints (25) make N one number whichever of its parts is cut out, so that rows of
composed contexts would repeat what columns of pairs hold, and are left out. What remains is a flow:

    inside (26)    M[i, j] = sum over k of N[i, k, j]
    outside (27)   M[i, j] = sum over h of N[h, i, j] + sum over h of N[i, j, h],  not of the whole
    observed (24)  M[0, |w|] = p(w);  without it, the yield is free

Solutions are a null space over the N of one length, whatever the symbols are; entries of a yield
are sums of N. Yields with entries at the same places share everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from sapwood.arrays import FloatArray
from sapwood.decompose.lowrank import Blocks, Problem
from sapwood.errors import SapwoodError
from sapwood.moments.hankel import Basis, Inside

LONGEST = 14  # yields of more symbols are left free: their systems grow with the cube of it
BYTES = 80  # of memory for each entry of a dense problem, all solvers' copies included
Place = tuple[int, ...]  # (i, j) of an M, (i, k, j) of an N


def problem_of(
    basis: Basis, observed: Mapping[Inside, float], *, only_observed: bool, slack: float = 0.0
) -> Problem:
    """The problem of completing a Hankel matrix with columns for insides and for pairs of them.

    Parameters
    ----------
    basis
        Closed.
    observed
        Probabilities of strings.
    only_observed
        Whether entries of yields that were not observed are left out, not only left free.
    slack
        mu of (29).

    Returns
    -------
    A problem whose first columns are the insides, and then (y1, y2) at s + y1 * s + y2.
    """
    p, s = basis.shape
    cells: dict[Inside, list[tuple[Place, int, int]]] = defaultdict(list)
    entries = _entries_of(basis, observed) if only_observed else _all_entries(basis)
    for words, place, row, column in entries:
        cells[words].append((place, row, column))
    groups: dict[tuple[int, bool, tuple[Place, ...]], list[tuple[list[int], float]]]
    groups = defaultdict(list)
    rows: Any = []
    columns: Any = []
    q = s + s * s
    for words, found in cells.items():
        found.sort()
        numbers = []
        for _, row, column in found:
            numbers.append(len(rows) if only_observed else row * q + column)
            rows.append(row)
            columns.append(column)
        is_seen = words in observed and len(words) <= LONGEST
        shape = (len(words), is_seen, tuple(place for place, _, _ in found))
        groups[shape].append((numbers, observed.get(words, 0.0) if is_seen else 0.0))
    made = []
    for (length, is_seen, places), members in groups.items():
        if length <= LONGEST:
            free, unit = shape_of(length, places)
            if not is_seen and unit.any():  # what would be observed may be anything
                free = np.hstack([free, (unit / np.linalg.norm(unit))[:, None]])
                unit = np.zeros_like(unit)
            entries_of = np.array([numbers for numbers, _ in members])
            made.append(Blocks(entries_of, free, unit, np.array([z for _, z in members])))
    if not only_observed:
        rows, columns = (np.indices((p, q))[axis].ravel() for axis in (0, 1))
    return Problem((p, q), np.asarray(rows), np.asarray(columns), made, slack)


def _all_entries(basis: Basis) -> Iterator[tuple[Inside, Place, int, int]]:
    s = len(basis.insides)
    columns: list[tuple[Inside, int, int]] = [(y, 0, c) for c, y in enumerate(basis.insides)]
    columns += [
        (y + z, len(y), s + a * s + b)
        for a, y in enumerate(basis.insides)
        for b, z in enumerate(basis.insides)
    ]
    for row, (before, behind) in enumerate(basis.contexts):
        i = len(before)
        for inside, k, column in columns:
            j = i + len(inside)
            yield before + inside + behind, (i, i + k, j) if k else (i, j), row, column


def _entries_of(
    basis: Basis, observed: Mapping[Inside, float]
) -> Iterator[tuple[Inside, Place, int, int]]:
    row_of, column_of, s = basis.row, basis.column, len(basis.insides)
    for words in observed:
        n = len(words)
        for i in range(n):
            for j in range(i + 1, n + 1):
                row = row_of.get((words[:i], words[j:]))
                if row is None:
                    continue
                if (column := column_of.get(words[i:j])) is not None:
                    yield words, (i, j), row, column
                for k in range(i + 1, j):
                    left, right = column_of.get(words[i:k]), column_of.get(words[k:j])
                    if left is not None and right is not None:
                        yield words, (i, k, j), row, s + left * s + right


@lru_cache(maxsize=4096)
def shape_of(length: int, places: tuple[Place, ...]) -> tuple[FloatArray, FloatArray]:
    """Free directions Q and the unit c of the entries at some places of a yield.

    Examples
    --------
    The two trees of three symbols share what was observed:

    >>> free, unit = shape_of(3, ((0, 1, 3), (0, 2, 3)))
    >>> unit.round(9).tolist(), np.abs(free).round(3).tolist()
    ([0.5, 0.5], [[0.707], [0.707]])
    """
    particular, null = _flows(length)
    reading = np.array([_reading(length, place) for place in places])
    left, values, _ = np.linalg.svd(reading @ null, full_matrices=False)
    free = left[:, values > 1e-10]  # flows are of size 1, whatever the yield
    unit = reading @ particular
    unit = unit - free @ (free.T @ unit)
    unit[np.abs(unit) < 1e-12] = 0.0
    return free, unit


@lru_cache(maxsize=64)
def _flows(length: int) -> tuple[FloatArray, FloatArray]:
    """A solution N of one unit of observation, and the null space, for yields of a length."""
    from scipy.linalg import null_space

    if length == 1:
        return np.ones(1), np.zeros((1, 0))
    spans = [(i, j) for i in range(length) for j in range(i + 2, length + 1)]
    whole = (0, length)
    equations = []
    for span in spans:
        inside = _inside_sum(length, span)
        equations.append(inside if span == whole else inside - _outside_sum(length, span))
    matrix = np.array(equations)
    goal = np.array([float(span == whole) for span in spans])
    return np.linalg.lstsq(matrix, goal, rcond=None)[0], null_space(matrix)


@lru_cache(maxsize=64)
def _numbering(length: int) -> dict[Place, int]:
    """The number of each N[i, k, j]."""
    places = [
        (i, k, j) for i in range(length) for j in range(i + 2, length + 1) for k in range(i + 1, j)
    ]
    return {place: number for number, place in enumerate(places)}


def _inside_sum(length: int, span: tuple[int, int]) -> FloatArray:
    i, j = span
    number = _numbering(length)
    out = np.zeros(len(number))
    out[[number[i, k, j] for k in range(i + 1, j)]] = 1.0
    return out


def _outside_sum(length: int, span: tuple[int, int]) -> FloatArray:
    i, j = span
    number = _numbering(length)
    out = np.zeros(len(number))
    above = [(h, i, j) for h in range(i)] + [(i, j, h) for h in range(j + 1, length + 1)]
    out[[number[place] for place in above]] = 1.0
    return out


def _reading(length: int, place: Place) -> FloatArray:
    """An entry as a sum of N."""
    if length == 1:
        return np.ones(1)
    if len(place) == 3:
        out = np.zeros(len(_numbering(length)))
        out[_numbering(length)[place]] = 1.0
        return out
    i, j = place
    return _inside_sum(length, (i, j)) if j - i > 1 else _outside_sum(length, (i, j))


def refuse_oversize(basis: Basis, memory: int) -> None:
    """Refuse a dense problem that does not fit into memory, with the basis that would.

    Raises
    ------
    SapwoodError
        With both numbers.
    """
    p, s = basis.shape
    needed = BYTES * p * (s + s * s)
    if needed > memory:
        fits = int((memory / BYTES) ** (1 / 3))
        msg = (
            f"a basis of {basis} makes a matrix of {p:,} x {s + s * s:,}, which takes "
            f"{needed / 1e9:,.1f} GB; {memory / 1e9:,.1f} GB are there"
        )
        hint = f"about {fits:,} x {fits:,} would fit: lower --basis, or take --solver factored"
        raise SapwoodError(msg, hint=hint)
