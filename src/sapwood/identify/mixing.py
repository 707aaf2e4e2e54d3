"""Compound parameters, and how the topologies of a sentence mix them into its moments.

The topology of a sentence is drawn uniformly and never seen, so a moment of its words is a weighted
sum over topologies. Many topologies give the same *compound parameter* Psi_c: only the paths
between the observed words and the root matter. With M[o, c] the fraction of topologies under which
moment o is Psi_c,

    mu_o = sum over c of  M[o, c] Psi_c          (IDENT, section 5.1)

M does not depend on the data. Psi_c is a weighted sum of moments, whatever the parameters are,
exactly when the unit vector e_c is in the row space of M.

Notation
--------
    L, L_max    sentence length, and the largest one used
    w0, w1, ..  marks for the words before, between and behind the observed positions; the count of
                topologies is the coefficient of w0^g0 w1^g1 .., with g the numbers of those words
    C(w)        binary trees by leaves, w + w^2 + 2 w^3 + 5 w^4 + ..
    D(w)        projective dependency trees by words, w + 2 w^2 + 7 w^3 + 30 w^4 + ..
    F(w)        dependents on one side of a head, 1 / (1 - D(w)); D(w) = w F(w)^2

Constituency, rows (i < j; k), columns `TriplePaths`. The three leaves meet in two branchings. Each
internal node of a path has a further subtree on the left or on the right, so a path of p free steps
with u to its left and v to its right counts (C(u) + C(v))^p.

Dependency, rows (i < j), columns `PairPaths`. A descendant at depth q of a node, with u between
the two and v behind it, counts F(u)^2 F(v)^2 (D(u) F(v) + D(v) F(u))^(q-1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from sapwood.core.arrays import BoolArray, FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.topologies import n_binary_trees, n_dependency_trees

# Relative to the largest singular value of M. Those that should be 0 come out below 1e-15.
MIXING_TOLERANCE = 1e-9
# Longest sentences, by the number of words in a moment: triples beyond 12 take gigabytes; of pairs
# beyond 13 some singular values fall below the tolerance though they are not 0.
LONGEST_MIXED = {3: 12, 2: 13}


class TripleRow(NamedTuple):
    """E[x_i (x) x_j (eta . x_k)] for sentences of one length; positions count from 1."""

    length: int
    i: int
    j: int
    k: int


class TriplePaths(NamedTuple):
    """A compound parameter of PCFG-IE: which word leaves first, and five path lengths."""

    outgroup: int  # 0, 1 or 2: x_i, x_j or the contracted x_k
    root: int  # steps from the root to the top branching, from 0 up; all others count from 1
    out: int  # from the top branching to the outgroup
    inner: int  # from the top branching to the lower one
    # from the lower branching to the other two words, in the order i, j, k
    first: int
    second: int


class PairRow(NamedTuple):
    """E[x_i (x) x_j] for sentences of one length; positions count from 1."""

    length: int
    i: int
    j: int


class PairPaths(NamedTuple):
    """A compound parameter A^first diag(pi) A'^second of DEP-IES: steps from the common head."""

    first: int
    second: int


@dataclass(frozen=True, eq=False)
class MixingMatrix:
    """M with the names of its rows and columns."""

    # `TripleRow` and `TriplePaths`, or `PairRow` and `PairPaths`
    rows: tuple[Any, ...]
    columns: tuple[Any, ...]
    matrix: FloatArray  # [n_rows, n_columns]: fractions of topologies; rows add up to 1

    @cached_property
    def singular_values(self) -> FloatArray:
        """Singular values of M in falling order."""
        return self._svd[0]

    @property
    def rank(self) -> int:
        """Number of singular values above rounding error."""
        s = self.singular_values
        return int((s > MIXING_TOLERANCE * s[0]).sum())

    @cached_property
    def is_recoverable(self) -> BoolArray:
        """Whether the moments determine each compound parameter: e_c is in the row space."""
        basis = self._svd[1][: self.rank]
        return np.asarray((basis**2).sum(axis=0) > 1 - MIXING_TOLERANCE)

    def weights(self, column: Any) -> FloatArray:
        """The shortest y with M' y = e_c, so that Psi_c = sum over rows of  y[o] mu_o."""
        c = self.columns.index(column)
        if not self.is_recoverable[c]:
            msg = f"these moments do not determine the compound parameter {column}"
            raise SapwoodError(msg, hint="`is_recoverable` lists those that they do")
        target = np.zeros(len(self.columns))
        target[c] = 1.0
        return np.asarray(np.linalg.lstsq(self.matrix.T, target, rcond=MIXING_TOLERANCE)[0])

    @cached_property
    def _svd(self) -> tuple[FloatArray, FloatArray]:
        _, s, basis = np.linalg.svd(self.matrix, full_matrices=False)
        return s, basis


def _series(coefficients: list[int], axis: int, n_axes: int) -> IntArray:
    """A power series in one variable, as an array with an axis for every variable."""
    size = len(coefficients)
    series = np.zeros((size,) * n_axes, dtype=np.int64)
    series[tuple(slice(None) if a == axis else 0 for a in range(n_axes))] = coefficients
    return series


def _times(left: IntArray, right: IntArray) -> IntArray:
    """Product of two series, up to the same powers; `right` should be the sparse one."""
    product = np.zeros_like(left)
    size = left.shape[0]
    for place in zip(*np.nonzero(right), strict=True):
        to = tuple(slice(int(p), None) for p in place)
        source = tuple(slice(0, size - int(p)) for p in place)
        product[to] += right[place] * left[source]
    return product


def _power(series: IntArray, exponent: int) -> IntArray:
    result = np.zeros_like(series)
    result[(0,) * series.ndim] = 1
    for _ in range(exponent):
        result = _times(result, series)
    return result


def _inverse(series: IntArray) -> IntArray:
    """1 / (1 - series), for a series without constant term."""
    total = _power(series, 0)
    term = total
    for _ in range(series.ndim * (series.shape[0] - 1)):
        term = _times(term, series)
        total = total + term
    return total


def _places(total: int, n: int) -> Iterator[tuple[int, ...]]:
    """All tuples of n natural numbers that sum to at most a total."""
    if n == 0:
        yield ()
        return
    for first in range(total + 1):
        yield from ((first, *rest) for rest in _places(total - first, n - 1))


# For each outgroup position (0 leftmost, 2 rightmost; the middle word never leaves first): the
# marks to the left and right of the paths `root, out, inner, first, second`.
_SIDES = {
    0: ((0, 3), (0, 1), (1, 3), (1, 2), (2, 3)),
    2: ((0, 3), (2, 3), (0, 2), (0, 1), (1, 2)),
}


@lru_cache(maxsize=4)
def triple_mixing(max_length: int) -> MixingMatrix:
    """M of PCFG-IE for sentences of 3 to `max_length` words, and rows (i < j; k).

    3 C(L_max + 1, 4) rows, 3 C(L_max + 2, 5) columns.

    Cost: about 1 s at L_max = 10.

    Examples
    --------
    >>> triple_mixing(3).matrix
    array([[0.5, 0. , 0.5],
           [0.5, 0.5, 0. ],
           [0. , 0.5, 0.5]])
    """
    _check_length(max_length, 3)
    rows = tuple(
        TripleRow._make(
            (length, *places[:contracted], *places[contracted + 1 :], places[contracted])
        )
        for length in range(3, max_length + 1)
        for places in combinations(range(1, length + 1), 3)
        for contracted in (2, 1, 0)
    )
    columns = tuple(
        TriplePaths(outgroup, root, 1 + out, 1 + inner, 1 + first, 1 + second)
        for outgroup in range(3)
        for root, out, inner, first, second in _places(max_length - 3, 5)
    )
    column_at = {column: place for place, column in enumerate(columns)}
    spots = _spots(rows, max_length)
    matrix = np.zeros((len(rows), len(columns)))
    for position, free, counts in _triple_counts(max_length - 3):
        for contracted in range(3):
            at, gaps, trees = spots[contracted]
            matrix[at, column_at[_column(position, contracted, free)]] += counts[gaps] / trees
    return MixingMatrix(rows, columns, matrix)


def _spots(
    rows: tuple[TripleRow, ...], max_length: int
) -> list[tuple[IntArray, tuple[IntArray, ...], FloatArray]]:
    """By contracted word: numbers of rows, their numbers of words around, and of topologies."""
    row_at = {row: place for place, row in enumerate(rows)}
    gaps = np.array(list(_places(max_length - 3, 4)))
    length = 3 + gaps.sum(axis=1)
    places = np.cumsum(1 + gaps[:, :3], axis=1)  # positions of the three words
    trees = np.array([n_binary_trees(int(n)) for n in length], dtype=float)
    spots = []
    for contracted in range(3):
        i, j = (places[:, at] for at in range(3) if at != contracted)
        named = np.stack([length, i, j, places[:, contracted]], axis=1).tolist()
        at = np.array([row_at[TripleRow(*row)] for row in named])
        spots.append((at, tuple(gaps.T), trees))
    return spots


def _triple_counts(excess: int) -> Iterator[tuple[int, tuple[int, ...], IntArray]]:
    """Outgroup position, free steps of the five paths, and counts by numbers of words."""
    leaves = [0] + [n_binary_trees(n) for n in range(1, excess + 1)]
    one = _power(_series(leaves, 0, 4), 0)
    for position, sides in _SIDES.items():
        steps = [_series(leaves, left, 4) + _series(leaves, right, 4) for left, right in sides]
        powers = [[_power(step, p) for p in range(excess + 1)] for step in steps]
        yield from ((position, free, counts) for free, counts in _products(powers, one, excess))


def _products(
    powers: list[list[IntArray]], start: IntArray, excess: int
) -> Iterator[tuple[tuple[int, ...], IntArray]]:
    """Products of one power of each step, for all exponents that add up to at most `excess`."""
    if not powers:
        yield (), start
        return
    for p in range(excess + 1):
        partial = _times(start, powers[0][p])
        for rest, counts in _products(powers[1:], partial, excess - p):
            yield (p, *rest), counts


def _column(position: int, contracted: int, free: tuple[int, ...]) -> TriplePaths:
    """The compound parameter of an outgroup position, when one of the words is contracted."""
    root, out, inner, first, second = free
    role = {at: place for place, at in enumerate(a for a in range(3) if a != contracted)}
    role[contracted] = 2
    one, two = (role[at] for at in range(3) if at != position)
    ends = (first, second) if one < two else (second, first)
    return TriplePaths(role[position], root, 1 + out, 1 + inner, 1 + ends[0], 1 + ends[1])


@lru_cache(maxsize=4)
def pair_mixing(max_length: int) -> MixingMatrix:
    """M of DEP-IES for sentences of 2 to `max_length` words, and rows (i < j).

    Examples
    --------
    >>> M = pair_mixing(3)
    >>> M.rows[-2], M.columns
    (PairRow(length=3, i=1, j=3), (PairPaths(first=0, second=1), PairPaths(first=1, second=0), \
PairPaths(first=0, second=2), PairPaths(first=1, second=1), PairPaths(first=2, second=0)))
    >>> 7 * M.matrix[-2]
    array([2., 2., 1., 1., 1.])
    """
    _check_length(max_length, 2)
    rows = tuple(
        PairRow(length, i, j)
        for length in range(2, max_length + 1)
        for i, j in combinations(range(1, length + 1), 2)
    )
    columns = tuple(
        PairPaths(first, total - first)
        for total in range(1, max_length)
        for first in range(total + 1)
    )
    row_at = {row: place for place, row in enumerate(rows)}
    matrix = np.zeros((len(rows), len(columns)))
    dependencies = _Dependencies(max_length - 2)
    for c, paths in enumerate(columns):
        counts = dependencies.pairs(paths)
        for before, between, behind in zip(*np.nonzero(counts), strict=True):
            length = 2 + int(before + between + behind)
            if length > max_length:
                continue
            row = PairRow(length, int(before) + 1, int(before + between) + 2)
            matrix[row_at[row], c] += counts[before, between, behind] / n_dependency_trees(length)
    return MixingMatrix(rows, columns, matrix)


class _Dependencies:
    """Series that count projective trees around two words; marks 0, 1, 2 as in the notation."""

    def __init__(self, excess: int) -> None:
        trees = [0] + [n_dependency_trees(n) for n in range(1, excess + 1)]
        self.tree = [_series(trees, mark, 3) for mark in range(3)]
        self.side = [_inverse(tree) for tree in self.tree]
        word = ([0, 1] + [0] * excess)[: excess + 1]
        self.word = [_series(word, mark, 3) for mark in range(3)]
        # Everything above a phrase: heads to its left and right, each with its other dependents.
        self.above = _inverse(self._step(0, 2))

    def _step(self, u: int, v: int) -> IntArray:
        """One head on a path, with the other dependents on its two sides."""
        return _times(self.tree[u], self.side[v]) + _times(self.tree[v], self.side[u])

    def _subtree(self, steps: int, u: int, v: int) -> IntArray:
        """Series of a phrase with a word `steps` below its head; u: words before, v: after."""
        around = _times(self.side[u], self.side[v])
        return _times(around, _power(self._step(u, v), steps))

    def pairs(self, paths: PairPaths) -> IntArray:
        """Trees whose words i and j are so far below their common head."""
        p, q = paths
        if p == 0:  # x_i is the head
            below = _times(self.side[0], self._side(q, 1, 2))
        elif q == 0:
            below = _times(self.side[2], self._side(p, 1, 0))
        else:
            between = _times(_times(self._side(p, 1, 0), self._side(q, 1, 2)), self.word[1])
            below = between + self._before(p, q, 0, 2) + self._before(q, p, 2, 0)
        return _times(below, self.above)

    def _side(self, depth: int, u: int, v: int) -> IntArray:
        """Series of one side of a head with a word at a depth; u: words between, v: beyond."""
        around = _times(self.side[u], self.side[v])
        return _times(self._subtree(depth - 1, u, v), around)

    def _before(self, near: int, far: int, u: int, v: int) -> IntArray:
        """The head stands before both words: u before the near one, 1 between, v behind the far."""
        head = _times(self.tree[u], self.side[v])  # its word, its other side, and u dependents
        words = _times(self._subtree(near - 1, u, 1), self._subtree(far - 1, 1, v))
        return _times(_times(words, self.side[1]), head)


def _check_length(max_length: int, least: int) -> None:
    longest = LONGEST_MIXED[least]
    if not least <= max_length <= longest:
        msg = f"a mixing matrix needs a longest sentence of {least} to {longest}, not {max_length}"
        raise SapwoodError(msg)
