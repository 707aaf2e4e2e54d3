"""Numbers of trees over n words, and samples from models whose trees are uniform.

A topology is drawn uniformly among the binary trees, or the projective dependency trees, of a
given number of words; then states and words are drawn downwards from the root.

Notation (IDENT, section 3)
---------------------------
    C(n)   binary trees over n words, C(n) = sum over m of C(m) C(n - m);        1, 1, 2, 5, 14, ..
    D(n)   projective dependency trees over n words;                           1, 2, 7, 30, 143, ..
    F(n)   analyses of n words on one side of a head, D(n) = sum over m of F(m) F(n - 1 - m)

Tables hold the outcome on the first axis and the condition on the last: columns sum to 1. All
sentences of a batch are drawn together, one level of all their trees at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import comb
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import BoolArray, FloatArray, IntArray
from sapwood.core.errors import SapwoodError

NO_HEAD = -1


def n_binary_trees(n: int) -> int:
    """Number of binary trees over n words: C(n), a Catalan number.

    >>> [n_binary_trees(n) for n in (1, 2, 3, 4, 5)]
    [1, 1, 2, 5, 14]
    """
    return comb(2 * n - 2, n - 1) // n


def n_dependency_trees(n: int) -> int:
    """Number of projective dependency trees over n words: D(n).

    >>> [n_dependency_trees(n) for n in (1, 2, 3, 4, 5)]
    [1, 2, 7, 30, 143]
    """
    return comb(3 * n - 2, n - 1) // n


@cache
def n_sides(n: int) -> int:
    """Number of analyses of n words on one side of a head: F(n).

    >>> [n_sides(n) for n in (0, 1, 2, 3)]
    [1, 1, 3, 12]
    """
    return 1 if n == 0 else sum(n_dependency_trees(m) * n_sides(n - m) for m in range(1, n + 1))


def sample_words(
    family: str, parameters: Mapping[str, FloatArray], n: int, length: int, rng: np.random.Generator
) -> IntArray:
    """Draw sentences of one length from a model of any of the six families.

    The parameters are tables: `root`, `rules` [left, right, parent] or `left` and `right` or
    `child`, and `words`; for dependencies `root`, and `left` and `right` or `argument`. Returns
    word numbers, [n, length]. Cost: O(n length) draws, vectorised over the nodes of a level.

    >>> tables = {"root": np.array([1.0, 0.0]), "argument": np.array([[0.0, 1.0], [1.0, 0.0]])}
    >>> rows = sample_words("dep-ie", tables, 20, 2, np.random.default_rng(0))
    >>> sorted({tuple(row) for row in rows.tolist()})  # the root is word 0, its dependent word 1
    [(0, 1), (1, 0)]
    """
    if length < 1:
        raise SapwoodError(f"a sentence has at least one word, not {length}")
    if family in ("pcfg", "pcfg-i", "pcfg-ie"):
        rules = parameters.get("rules")
        if rules is None:  # both children given their parent, [k, k, k]
            one, two = (parameters["child" if family == "pcfg-ie" else side] for side in SIDES)
            rules = one[:, None, :] * two[None, :, :]
        return _sample_constituents(rules, parameters, n, length, rng)
    if family in ("dep-i", "dep-ie", "dep-ies"):
        left, right = (parameters.get(side, parameters.get("argument")) for side in SIDES)
        if left is None or right is None:
            raise SapwoodError(f"{family} needs the tables left and right, or argument")
        return _sample_dependents(parameters["root"], left, right, (n, length), rng)
    msg = f"unknown model family {family!r}"
    raise SapwoodError(msg, hint="families are pcfg, pcfg-i, pcfg-ie, dep-i, dep-ie, dep-ies")


SIDES = ("left", "right")


class Columns:
    """The columns of a table of distributions, prepared for drawing."""

    def __init__(self, table: FloatArray) -> None:
        cumulative = np.cumsum(table, axis=0)
        self.n_outcomes, n_columns = table.shape
        # One rising list: the cumulative sums of column x lie between x and x + 1.
        self.steps = (cumulative / cumulative[-1] + np.arange(n_columns)).T.ravel()

    def draw(self, given: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw one outcome from each of the given columns."""
        u = rng.random(len(given)) + given
        out = np.searchsorted(self.steps, u, side="right") - given * self.n_outcomes
        # Rounding may take a draw of nearly 1 over the last step.
        return np.asarray(np.minimum(out, self.n_outcomes - 1))


def _splits(first: list[int], second: list[int], length: int, *, least: int) -> Columns:
    """Distribution of the size m of a first part, P(m | n) ~ first[m] second[n - m]."""
    table = np.zeros((length + 1, length + 1))
    for n in range(length + 1):
        for m in range(least, n + 1):
            table[m, n] = float(first[m] * second[n - m])
        if not table[:, n].any():
            table[0, n] = 1.0  # no whole of this size is ever split
    return Columns(table)


def _sample_constituents(
    rules: FloatArray,
    parameters: Mapping[str, FloatArray],
    n: int,
    length: int,
    rng: np.random.Generator,
) -> IntArray:
    k = len(parameters["root"])
    trees = [0, *(n_binary_trees(m) for m in range(1, length + 1))]
    split = _splits(trees, trees, length, least=1)
    children, words = Columns(rules.reshape(k * k, k)), Columns(parameters["words"])
    out = np.empty((n, length), dtype=np.int64)
    row, start = np.arange(n), np.zeros(n, dtype=np.int64)
    size = np.full(n, length)
    state = Columns(parameters["root"][:, None]).draw(np.zeros(n, dtype=np.int64), rng)
    while len(row):
        leaf = size == 1
        out[row[leaf], start[leaf]] = words.draw(state[leaf], rng)
        row, start, size, state = (part[~leaf] for part in (row, start, size, state))
        m = split.draw(size, rng)
        left, right = np.divmod(children.draw(state, rng), k)
        row, start = np.tile(row, 2), np.concatenate([start, start + m])
        size, state = np.concatenate([m, size - m]), np.concatenate([left, right])
    return out


class _Spans(NamedTuple):
    """Spans of words [start, start + size) of sentences, each on one side of a head."""

    row: IntArray
    start: IntArray
    size: IntArray
    head: IntArray  # word number
    is_right: BoolArray

    def where(self, keep: BoolArray) -> _Spans:
        row, start, size, head, is_right = self
        return _Spans(row[keep], start[keep], size[keep], head[keep], is_right[keep])


def _sample_dependents(
    root: FloatArray,
    left: FloatArray,
    right: FloatArray,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> IntArray:
    n, length = shape
    trees = [0, *(n_dependency_trees(m) for m in range(1, length + 1))]
    sides = [n_sides(m) for m in range(length + 1)]
    first = _splits(trees, sides, length, least=1)  # the first dependent of a side
    before = _splits(sides, [0, *sides], length, least=0)  # words before the head of a phrase
    tables = (Columns(left), Columns(right), Columns(root[:, None]))
    out = np.empty(shape, dtype=np.int64)
    whole = np.zeros(n, dtype=np.int64)
    phrases = _Spans(np.arange(n), whole, np.full(n, length), whole + NO_HEAD, whole > 0)
    while len(phrases.row):
        word = _draw_words(tables, phrases, rng)
        m = before.draw(phrases.size, rng)
        out[phrases.row, phrases.start + m] = word
        behind = phrases.size - 1 - m
        spans = _Spans(
            np.tile(phrases.row, 2),
            np.concatenate([phrases.start, phrases.start + m + 1]),
            np.concatenate([m, behind]),
            np.tile(word, 2),
            np.arange(2 * len(m)) >= len(m),
        )
        phrases = _dependents(first, spans, rng)
    return out


def _draw_words(
    tables: tuple[Columns, Columns, Columns], spans: _Spans, rng: np.random.Generator
) -> IntArray:
    left, right, root = tables
    word = np.empty(len(spans.row), dtype=np.int64)
    is_root = spans.head == NO_HEAD
    for table, chosen in (
        (root, is_root), (left, ~is_root & ~spans.is_right), (right, ~is_root & spans.is_right),
    ):  # fmt: skip
        given = np.where(is_root, 0, spans.head)[chosen]
        word[chosen] = table.draw(given, rng)
    return word


def _dependents(first: Columns, spans: _Spans, rng: np.random.Generator) -> _Spans:
    """Cut each side of a head into the phrases of its dependents."""
    found = []
    spans = spans.where(spans.size > 0)
    while len(spans.row):
        m = first.draw(spans.size, rng)
        found.append(spans._replace(size=m))
        rest = spans._replace(start=spans.start + m, size=spans.size - m)
        spans = rest.where(rest.size > 0)
    return (
        _Spans(*(np.concatenate(parts) for parts in zip(*found, strict=True))) if found else spans
    )
