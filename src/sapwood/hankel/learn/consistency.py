"""The constraints of a Hankel matrix, yield by yield: sections 4.1 and 5.1 of WCFG.

Rows are contexts, columns inside strings (y) and pairs (y1, y2) of them. An entry is the weight of
its yield w = x y z with some brackets:

    M[i, j]     a bracket around w[i:j]                        entries (<x; z>, (y))
    N[i, k, j]  one that consists of w[i:k] and w[k:j]         entries (<x; z>, (y1, y2))

The Hankel constraints (25) make N one number whichever of its parts is cut out. What remains is a
flow:

    inside (26)    M[i, j] = sum over k of N[i, k, j]
    outside (27)   M[i, j] = sum over h of N[h, i, j] + sum over h of N[i, j, h],  not of the whole
    observed (24)  M[0, |w|] = p(w);  without it, the yield is free

Composed contexts <x, x'; z> and <x; z', z> keep an operation open. With (y) they repeat an N, with
a pair they are the weight of two operations, one below the other: R[i, k, m, j] where the right
part of N[i, k, j] is split at m, L[i, m, k, j] where the left one is, with (26) and (27) once more:

    N[i, k, j] = sum over m of R[i, k, m, j],  and of L[i, m, k, j]
    N[k, m, j] = sum over i of R[i, k, m, j] + sum over h of L[k, m, j, h],  not of the whole

Any N that is a flow has such R and L, so that these rows constrain nothing; they only weigh in the
nuclear norm. They are rows only if composed contexts are requested.

Solutions are a null space over the N (and R, L) of one length, whatever the symbols are; entries of
a yield are sums of them. Yields with entries at the same places have the same null space.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import available_memory, require_memory
from sapwood.hankel.learn.moments import Basis, Inside
from sapwood.linalg.low_rank import Blocks, Problem

LONGEST_YIELD = 14  # yields of more symbols are left free: their systems grow with the cube of it
LISTED_BYTES = 1000  # of memory for each entry of a problem that lists them
DENSE_BYTES = 80  # of memory for each entry of a dense problem, all solvers' copies included
# (i, j) of an M, (i, k, j) of an N, (i, k, m, j, 1) of an R, (i, m, k, j, 0) of an L
Place = tuple[int, ...]


def problem_of(
    basis: Basis,
    observed: Mapping[Inside, float],
    *,
    only_observed: bool,
    slack: float = 0.0,
    composed: bool = False,
) -> Problem:
    """The completion of a Hankel matrix with columns for insides and for pairs of insides.

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
    composed
        Whether composed contexts are rows too, after the others; not with `only_observed`.

    Returns
    -------
    A problem whose first columns are the insides, and then (y1, y2) at s + y1 * s + y2.
    """
    s = len(basis.insides)
    p = len(basis.contexts) + (len(composed_contexts(basis)) if composed else 0)
    cells: dict[Inside, list[tuple[Place, int, int]]] = defaultdict(list)
    entries = _entries_of(basis, observed) if only_observed else _all_entries(basis, composed)
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
        is_seen = words in observed and len(words) <= LONGEST_YIELD
        shape = (len(words), is_seen, tuple(place for place, _, _ in found))
        groups[shape].append((numbers, observed.get(words, 0.0) if is_seen else 0.0))
    made = []
    for (length, is_seen, places), members in groups.items():
        if length <= LONGEST_YIELD:
            free, unit = shape_of(length, places)
            if not is_seen and unit.any():  # an unobserved unit is free
                free = np.hstack([free, (unit / np.linalg.norm(unit))[:, None]])
                unit = np.zeros_like(unit)
            entries_of = np.array([numbers for numbers, _ in members])
            made.append(Blocks(entries_of, free, unit, np.array([z for _, z in members])))
    if not only_observed:
        rows, columns = (np.indices((p, q))[axis].ravel() for axis in (0, 1))
    return Problem((p, q), np.asarray(rows), np.asarray(columns), made, slack)


def composed_contexts(basis: Basis) -> list[tuple[Inside, Inside, Inside, int]]:
    """Contexts with an open operation: <x, x'; z> as (x, x', z, 1), <x; z', z> as (x, z', z, 0).

    Examples
    --------
    >>> composed_contexts(Basis(("a",), (((), ()), (("a",), ())), (("a",),)))
    [((), ('a',), (), 1)]
    """
    found = []
    for x, z in basis.contexts:
        found += [(x[:k], x[k:], z, 1) for k in range(len(x))]
        found += [(x, z[:k], z[k:], 0) for k in range(1, len(z) + 1)]
    return found


def _all_entries(basis: Basis, composed: bool) -> Iterator[tuple[Inside, Place, int, int]]:
    s = len(basis.insides)
    columns: list[tuple[Inside, int, int]] = [(y, 0, c) for c, y in enumerate(basis.insides)]
    columns += [
        (y + z, len(y), s + a * s + b)
        for a, y in enumerate(basis.insides)
        for b, z in enumerate(basis.insides)
    ]
    for row, (before, behind) in enumerate(basis.contexts):
        i = len(before)
        for inside, cut, column in columns:
            j = i + len(inside)
            yield before + inside + behind, (i, i + cut, j) if cut else (i, j), row, column
    if not composed:
        return
    for row, (x, beside, z, is_right) in enumerate(composed_contexts(basis), len(basis.contexts)):
        i, size = len(x), len(beside)
        for inside, cut, column in columns:
            words = x + beside + inside + z if is_right else x + inside + beside + z
            j = i + size + len(inside)
            k = i + (size if is_right else len(inside))
            if not cut:
                yield words, (i, k, j), row, column
            elif is_right:
                yield words, (i, k, k + cut, j, 1), row, column
            else:
                yield words, (i, i + cut, k, j, 0), row, column


def is_known(basis: Basis, observed: Iterable[Inside]) -> bool:
    """Whether any of the observed strings has a place in the matrix of a basis.

    Where none has, the matrix of the least nuclear norm is zero.

    Examples
    --------
    >>> basis = Basis(("a",), (((), ()), (("a",), ())), (("a",),))
    >>> is_known(basis, [("a", "a")]), is_known(basis, [("a",) * 4])
    (True, False)
    """
    short = (words for words in observed if len(words) <= LONGEST_YIELD)
    return next(_entries_of(basis, short), None) is not None


def _entries_of(
    basis: Basis, observed: Iterable[Inside]
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
    The two trees of three symbols have the observed mass in common:

    >>> free, unit = shape_of(3, ((0, 1, 3), (0, 2, 3)))
    >>> unit.round(9).tolist(), np.abs(free).round(3).tolist()
    ([0.5, 0.5], [[0.707], [0.707]])
    """
    deep = any(len(place) == 5 for place in places)
    particular, null = _flows(length, deep)
    reading = np.array([_reading(length, place, deep) for place in places])
    left, values, _ = np.linalg.svd(reading @ null, full_matrices=False)
    free = left[:, values > 1e-10]  # flows are of size 1, whatever the yield
    unit = reading @ particular
    unit = unit - free @ (free.T @ unit)
    unit[np.abs(unit) < 1e-12] = 0.0
    return free, unit


@lru_cache(maxsize=64)
def _flows(length: int, deep: bool) -> tuple[FloatArray, FloatArray]:
    """A solution of one unit of observation, and the null space, for yields of a length.

    Over the N, and with `deep` over R and L behind them.
    """
    from scipy.linalg import null_space

    if length == 1:
        return np.ones(1), np.zeros((1, 0))
    number = _numbering(length, deep)
    spans = [(i, j) for i in range(length) for j in range(i + 2, length + 1)]
    whole = (0, length)
    equations = []
    for span in spans:
        inside = _sum(number, _splits(span))
        above = () if span == whole else _above(length, span)
        equations.append(inside - _sum(number, above))
    if deep:
        equations += _deep_equations(length, number)
    matrix = np.array(equations)
    goal = np.array([float(span == whole) for span in spans] + [0.0] * (len(matrix) - len(spans)))
    return np.linalg.lstsq(matrix, goal, rcond=None)[0], null_space(matrix)


def _deep_equations(length: int, number: Mapping[Place, int]) -> list[FloatArray]:
    """(26) and (27) between N and R, L."""
    found = []
    for i, k, j in (place for place in number if len(place) == 3):
        one = _sum(number, [(i, k, j)])
        if j - k > 1:
            found.append(one - _sum(number, [(i, k, m, j, 1) for m in range(k + 1, j)]))
        if k - i > 1:
            found.append(one - _sum(number, [(i, m, k, j, 0) for m in range(i + 1, k)]))
        if (i, j) != (0, length):
            above: list[Place] = [(h, i, k, j, 1) for h in range(i)]
            above += [(i, k, j, h, 0) for h in range(j + 1, length + 1)]
            found.append(one - _sum(number, above))
    return found


@lru_cache(maxsize=64)
def _numbering(length: int, deep: bool) -> dict[Place, int]:
    """The number of each N[i, k, j]; then of R and L."""
    places: list[Place] = [
        (i, k, j) for i in range(length) for j in range(i + 2, length + 1) for k in range(i + 1, j)
    ]
    if deep:
        places += [(*four, side) for four in combinations(range(length + 1), 4) for side in (0, 1)]
    return {place: number for number, place in enumerate(places)}


def _sum(number: Mapping[Place, int], places: Sequence[Place]) -> FloatArray:
    out = np.zeros(len(number))
    out[[number[place] for place in places]] = 1.0
    return out


def _splits(span: tuple[int, int]) -> Sequence[Place]:
    return [(span[0], k, span[1]) for k in range(span[0] + 1, span[1])]


def _above(length: int, span: tuple[int, int]) -> Sequence[Place]:
    """The N that a span is a part of."""
    i, j = span
    return [(h, i, j) for h in range(i)] + [(i, j, h) for h in range(j + 1, length + 1)]


def _reading(length: int, place: Place, deep: bool) -> FloatArray:
    """An entry as a sum of N, or as an R or L."""
    if length == 1:
        return np.ones(1)
    number = _numbering(length, deep)
    if len(place) != 2:
        return _sum(number, [place])
    i, j = place
    return _sum(number, _splits((i, j)) if j - i > 1 else _above(length, (i, j)))


def refuse_oversize(p: int, s: int) -> None:
    """Refuse a dense problem of p contexts and s inside strings that does not fit into memory.

    Raises
    ------
    SapwoodError
        With what it needs, what there is, and the basis that would fit.
    """
    fits = int((available_memory() / DENSE_BYTES) ** (1 / 3))
    require_memory(
        DENSE_BYTES * p * (s + s * s),
        f"a basis of {p:,} contexts x {s:,} inside strings, with every symbol among both,",
        f"about {fits:,} x {fits:,} would fit: lower --basis, replace rare symbols by one, or take "
        "--solver factored, --method wfa or --method em",
    )


def refuse_long_list(basis: Basis, observed: Mapping[Inside, float]) -> None:
    """Refuse a problem that lists more entries than fit into memory.

    Raises
    ------
    SapwoodError
        With what it needs, what there is, and the number of entries that would fit.
    """
    n = sum(1 for _ in _entries_of(basis, observed))
    fits = available_memory() // LISTED_BYTES
    require_memory(
        n * LISTED_BYTES,
        f"a basis of {basis} with {n:,} entries of strings that were seen",
        f"about {fits:,} entries would fit: lower --basis, or leave out the longest strings",
    )
