"""Weights of dependency trees with hidden states, assignment by assignment.

Notation (DEP, equation 2)
--------------------------
    root[h]            weight of state h at a root
    steps[d][g][h]     weight of state g of a child on side d (0 left, 1 right) of a head in state h
    symbols[x][h]      weight of symbol x in state h
    heads              the head of each position; -1 is the root

Every assignment of states is weighed, and every projective tree where trees are summed: up to about
five words. Numbers may be of any kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from tests.reference.topologies import Heads, projective_trees

from sapwood.core.arrays import FloatArray

Seen = Sequence[Sequence[int]]  # the symbols of each word
Tables = tuple[FloatArray, FloatArray, FloatArray]  # root, steps, symbols


def tree_weight(heads: Heads, seen: Seen, tables: Tables) -> Any:
    """Sum over all states of all words."""
    k = len(tables[0])
    return sum(
        assignment_weight(heads, seen, states, tables)
        for states in product(range(k), repeat=len(heads))
    )


def assignment_weight(heads: Heads, seen: Seen, states: Sequence[int], tables: Tables) -> Any:
    """One factor for each root, arc and symbol."""
    root, steps, symbols = tables
    weight: Any = 1.0
    for i, up in enumerate(heads):
        weight *= root[states[i]] if up < 0 else steps[int(i > up)][states[i], states[up]]
        for x in seen[i]:
            weight *= symbols[x, states[i]]
    return weight


def expected_counts(heads: Heads, seen: Seen, tables: Tables) -> Tables:
    """How often each entry of the tables is used, on average over the states given the symbols."""
    root, steps, symbols = (np.zeros_like(table) for table in tables)
    total = tree_weight(heads, seen, tables)
    for states in product(range(len(tables[0])), repeat=len(heads)):
        share = assignment_weight(heads, seen, states, tables) / total
        for i, up in enumerate(heads):
            if up < 0:
                root[states[i]] += share
            else:
                steps[int(i > up), states[i], states[up]] += share
            for x in seen[i]:
                symbols[x, states[i]] += share
    return root, steps, symbols


def operator_weight(
    heads: Heads, roots: FloatArray, step: Callable[[int, FloatArray], FloatArray],
    start: Callable[[int], FloatArray], times: Callable[[FloatArray, FloatArray], FloatArray],
) -> float:  # fmt: skip
    """The recursion in any basis, by functions.

    Parameters
    ----------
    step
        From a side and a child's vector to what the child tells its head.
    start
        The vector of a position's own symbols.
    times
        The product of two vectors; children from left to right.
    """

    def below(i: int) -> FloatArray:
        v = start(i)
        for j, up in enumerate(heads):
            if up == i:
                v = times(v, step(int(j > i), below(j)))
        return v

    weights = [float(roots @ below(i)) for i, up in enumerate(heads) if up < 0]
    return float(np.prod(weights))


def projective_sums(seen: Seen, arcs: FloatArray, tables: Tables) -> tuple[Any, FloatArray]:
    """Weight of all projective trees, and the part of it that goes through each arc.

    Parameters
    ----------
    arcs : [n + 1, n]
        Weight of each arc, by its head (0 is the root, then the words) and its word.

    Returns
    -------
    total, and [n + 1, n]
    """
    n = len(seen)
    total: Any = 0.0
    through = np.zeros((n + 1, n))
    for heads in projective_trees(n):
        weight = tree_weight(heads, seen, tables)
        for i, up in enumerate(heads):
            weight *= arcs[up + 1, i]
        total += weight
        for i, up in enumerate(heads):
            through[up + 1, i] += weight
    return total, through
