"""Hankel blocks of prefixes and suffixes of strings: the moments of weighted automata.

Notation
--------
    u, v             a prefix (row) and a suffix (column)        [p], [s]
    H[u, v]          f(u v)                                      [p, s]
    H_sigma[u, v]    f(u sigma v)                                [p, s] for each symbol

A string of m symbols has m + 1 cuts, so that there are no more entries than symbols and strings:
both blocks are kept as lists of entries. Memory grows with the symbols of all different strings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
import scipy.sparse as sp

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.hankel.learn.moments import Inside
from sapwood.linalg.hankel import StepEntries

BYTES_A_CUT = 160  # of memory for each symbol of a string while blocks are made: an estimate


@dataclass(frozen=True, eq=False)
class PrefixBlocks:
    """The two blocks in the basis of the commonest prefixes and suffixes.

    Attributes
    ----------
    matrix : [p, s]
        H; the empty prefix and the empty suffix come first.
    steps
        H_sigma of all symbols, as entries.
    """

    matrix: sp.csr_array
    steps: StepEntries

    @classmethod
    def of(
        cls, observed: Mapping[Inside, float], symbols: tuple[str, ...], factor: float
    ) -> PrefixBlocks:
        """Blocks of observed strings.

        Parameters
        ----------
        factor
            The share of all prefixes, and of all suffixes, that is taken, the commonest first.

        Examples
        --------
        >>> blocks = PrefixBlocks.of({("a",): 0.75, ("a", "b"): 0.25}, ("a", "b"), 1.0)
        >>> blocks.matrix.toarray().tolist()
        [[0.0, 0.75, 0.0, 0.25], [0.75, 0.0, 0.25, 0.0], [0.25, 0.0, 0.0, 0.0]]
        """
        number = {symbol: place for place, symbol in enumerate(symbols)}
        starts = starts_of([len(x) for x in observed])
        words = np.fromiter((number[w] for x in observed for w in x), np.int64, starts[-1])
        weight = np.fromiter(observed.values(), float, len(observed))
        # The cuts of a string stand one after the other, one more than it has symbols.
        sizes = np.diff(starts) + 1
        is_last = np.zeros(len(words) + len(sizes), bool)
        is_last[starts_of(sizes)[1:] - 1] = True
        rows, p = _choose(*number_cuts(words, starts, len(symbols), weight), factor)
        at_end = number_cuts(words, starts, len(symbols), weight, from_end=True)
        columns, s = _choose(*at_end, factor)
        value = np.repeat(weight, sizes)
        kept = (rows >= 0) & (columns >= 0)
        entries = (value[kept], (rows[kept], columns[kept]))
        matrix = sp.csr_array(sp.coo_array(entries, shape=(p, s)))
        # A step reads the symbol behind its cut: its suffix begins at the next cut.
        before = np.flatnonzero(~is_last)
        kept = (rows[before] >= 0) & (columns[before + 1] >= 0)
        before = before[kept]
        steps = StepEntries(rows[before], columns[before + 1], words[kept], value[before])
        return cls(matrix, steps)


def number_cuts(
    words: IntArray, starts: IntArray, n_symbols: int, weight: FloatArray, *, from_end: bool = False
) -> tuple[IntArray, FloatArray]:
    """Number the prefix before each cut of some strings, or the suffix behind it.

    Equal ones have one number. Numbers rise with the length, and among equal lengths in the order
    of the symbols.

    Parameters
    ----------
    words, starts
        Symbols of all strings, and where each string starts.
    weight
        Of each string.

    Returns
    -------
    The number at each cut, and the total weight of each number.

    Examples
    --------
    >>> numbers, total = number_cuts(np.array([0, 0, 1]), np.array([0, 1, 3]), 2, np.ones(2))
    >>> numbers.tolist(), total.tolist()
    ([0, 1, 0, 1, 2], [2.0, 2.0, 1.0])
    """
    lengths = np.diff(starts)
    first_cut = starts[:-1] + np.arange(len(lengths)) + (lengths if from_end else 0)
    step = -1 if from_end else 1
    numbers = np.zeros(len(words) + len(lengths), np.int64)
    totals, n_numbers = [np.array([weight.sum()])], 1
    here, n_here, depth = np.zeros(len(lengths), np.int64), 1, 0
    alive = np.arange(len(lengths))
    while True:
        longer = lengths[alive] > depth
        alive, here = alive[longer], here[longer]
        if len(alive) <= 1:
            break
        symbol = words[starts[alive + 1] - 1 - depth if from_end else starts[alive] + depth]
        depth += 1
        key = symbol * n_here + here if from_end else here * n_symbols + symbol
        found, here = np.unique(key, return_inverse=True)
        n_here = len(found)
        numbers[first_cut[alive] + step * depth] = n_numbers + here
        totals.append(np.bincount(here, weight[alive], n_here))
        n_numbers += n_here
    for string in alive:  # the last string that is so long shares nothing with any other
        rest = np.arange(lengths[string] - depth)
        numbers[first_cut[string] + step * (depth + 1 + rest)] = n_numbers + rest
        totals.append(np.full(len(rest), weight[string]))
    return numbers, np.concatenate(totals)


def _choose(numbers: IntArray, total: FloatArray, factor: float) -> tuple[IntArray, int]:
    """The place in the basis of what stands at each cut, -1 for none; and the size of the basis."""
    size = ceil(factor * len(total) - 1e-9)
    chosen = np.argsort(-total, kind="stable")[:size]
    chosen = np.concatenate([[0], chosen[chosen != 0]])  # the empty one is always there, and first
    place = np.full(len(total), -1)
    place[chosen] = np.arange(len(chosen))
    return place[numbers], len(chosen)
