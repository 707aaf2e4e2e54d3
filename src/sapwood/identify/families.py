"""Six families of parsing models with uniform random trees, and their exact moments.

Notation (IDENT, section 3)
---------------------------
    d          word types                   k         hidden states (pcfg families only)
    root       pi, the distribution at the root                      [k], or words: [d]
    rules      B, (left, right) children given their parent          [k, k, k]
    left       T_1 or A_left, a left child given its parent          [k, k], or words: [d, d]
    right      T_2 or A_right, a right child given its parent        [k, k], or words: [d, d]
    child      T = T_1 = T_2                                         [k, k]
    argument   A = A_left = A_right                                  [d, d]
    words      O, a word given its state                             [d, k]

In every table the outcome comes first and what it is given last: columns sum to 1.

    pcfg       root, rules, words             dep-i      root, left, right
    pcfg-i     root, left, right, words       dep-ie     root, argument
    pcfg-ie    root, child, words             dep-ies    argument; root is its stationary vector

A moment is the joint distribution of the words at some positions of a sentence of given length:
[d] * (number of positions). It is summed over all trees by a dynamic program over spans. A span is
known by which of its positions are seen; one without any contributes only its number of trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from math import comb, prod
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from sapwood.errors import SapwoodError
from sapwood.identify.dual import Array, Dual, einsum, solve

FloatArray = npt.NDArray[np.float64]
Parameters = Mapping[str, Array]
Seen = tuple[bool, ...]  # for each position of a span, whether its word is observed


@dataclass(frozen=True)
class Table:
    """A conditional distribution: the first axes are what comes out, the others what is given.

    Attributes
    ----------
    shape
        Of the whole table.
    n_outcome_axes
        How many of the axes, from the front, sum to 1 together; 0 for numbers that are free.

    Examples
    --------
    >>> Table((3, 3, 3), 2).n_free  # pairs of children given their parent
    24
    """

    shape: tuple[int, ...]
    n_outcome_axes: int = 1

    @property
    def n_outcomes(self) -> int:
        """Things that can come out."""
        return prod(self.shape[: self.n_outcome_axes])

    @property
    def n_columns(self) -> int:
        """Things that it can be given."""
        return prod(self.shape[self.n_outcome_axes :])

    @property
    def n_free(self) -> int:
        """Non-redundant parameters: the last outcome of each column is one less the others."""
        return (self.n_outcomes - 1) * self.n_columns if self.n_outcome_axes else self.n_columns

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """A table with every column uniform on the simplex; free numbers are normal."""
        if not self.n_outcome_axes:
            return np.asarray(rng.standard_normal(self.shape))
        columns = rng.dirichlet(np.ones(self.n_outcomes), self.n_columns)
        return np.asarray(columns.T.reshape(self.shape))


class Sums(Protocol):
    """Sums over all trees of one length."""

    def count(self, length: int) -> int:
        """Number of trees."""

    def total(self, seen: Seen) -> Array:
        """Weight of all trees by the words that are seen, [d ^ number of them]."""


@dataclass(frozen=True)
class Family:
    """A family of models: its tables for given sizes, and its sums over trees.

    Attributes
    ----------
    name
        As on the command line.
    has_states
        Whether its sizes include a number of hidden states.
    tables
        The tables for a number of words and one of states.
    sums
        The dynamic program for given parameters.
    """

    name: str
    has_states: bool
    tables: Callable[[int, int], dict[str, Table]]
    sums: Callable[[Parameters], Sums]


def family_of(name: str) -> Family:
    """The family of a name.

    Examples
    --------
    >>> family_of("pcfg-ie").tables(4, 2)["words"]
    Table(shape=(4, 2), n_outcome_axes=1)
    """
    if name not in FAMILIES:
        msg = f"unknown model family {name!r}"
        raise SapwoodError(msg, hint=f"families are {', '.join(FAMILIES)}")
    return FAMILIES[name]


def random_parameters(
    family: Family, n_words: int, n_states: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    """Tables with every column uniform on the simplex."""
    tables = family.tables(n_words, n_states)
    return {name: table.draw(rng) for name, table in tables.items()}


def moment(
    family: Family, parameters: Parameters, length: int, positions: tuple[int, ...]
) -> FloatArray:
    """Joint distribution of the words at some positions, counted from 1.

    Returns
    -------
    FloatArray
        [d] * len(positions), axes in the order of the positions; dual where parameters are dual.

    Cost: a span of q seen positions takes O(k^3 d^q) for the pcfg families and O(d^(q+1)) for the
    others; with at most q seen there are O(length^(q+1)) spans.

    Examples
    --------
    >>> tables = {"root": np.array([0.5, 0.5]), "child": np.eye(2), "words": np.eye(2)}
    >>> moment(family_of("pcfg-ie"), tables, 3, (1, 3))  # one state, never left
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    return cast(FloatArray, moments(family, parameters, length, [positions])[0])


def moments(
    family: Family, parameters: Parameters, length: int, positions: Iterable[tuple[int, ...]]
) -> list[Array]:
    """Moments of several sets of positions; spans that they share are summed once."""
    sums = family.sums(parameters)
    n_words = _n_words(parameters)
    return [_moment(sums, n_words, length, each) for each in positions]


def _moment(sums: Sums, n_words: int, length: int, positions: tuple[int, ...]) -> Array:
    _check_positions(positions, length)
    seen = tuple(place in positions for place in range(1, length + 1))
    total = sums.total(seen) / sums.count(length)
    joint = total.reshape(*(n_words,) * len(positions))
    letters = "".join(chr(ord("a") + place) for place in range(len(positions)))
    rank = {place: letter for place, letter in zip(sorted(positions), letters, strict=True)}
    return einsum(f"{letters}->{''.join(rank[place] for place in positions)}", joint)


def _check_positions(positions: tuple[int, ...], length: int) -> None:
    if not positions or len(set(positions)) < len(positions):
        msg = f"positions {positions}: expected at least one, each once"
        raise SapwoodError(msg, hint=f"name different positions from 1 to {length}")
    outside = [place for place in positions if not 1 <= place <= length]
    if outside:
        msg = f"position {outside[0]} does not exist in a sentence of {length} words"
        raise SapwoodError(msg, hint=f"name positions from 1 to {length}, or a longer sentence")


def _n_words(parameters: Parameters) -> int:
    name = "words" if "words" in parameters else next(iter(parameters))
    return parameters[name].shape[0]


# -- constituency -----------------------------------------------------------------------------


def catalan(n: int) -> int:
    """Binary trees with n + 1 leaves."""
    return comb(2 * n, n) // (n + 1)


class _Joint:
    """Children drawn together: rules [b, c, a]."""

    def __init__(self, rules: Array) -> None:
        self.rules = rules
        self.left, self.right = rules.sum(1), rules.sum(0)

    def pair(self, left: Array, right: Array) -> Array:
        return einsum("bca,bx,cy->axy", self.rules, left, right)


class _Apart:
    """Children drawn independently given their parent: left [b, a] and right [c, a]."""

    def __init__(self, left: Array, right: Array) -> None:
        self.left, self.right = left, right

    def pair(self, left: Array, right: Array) -> Array:
        above_left = einsum("ba,bx->ax", self.left, left)
        return einsum("ax,ay->axy", above_left, einsum("ca,cy->ay", self.right, right))


class _Constituents:
    """Binary trees: weight[a, x] of a span with state a and the words x that are seen in it."""

    def __init__(self, root: Array, children: _Joint | _Apart, words: Array) -> None:
        self.root, self.children, self.words = root, children, words
        self._spans: dict[Seen, Array] = {}

    def count(self, length: int) -> int:
        return catalan(length - 1)

    def total(self, seen: Seen) -> Array:
        return einsum("a,ax->x", self.root, self._span(seen))

    def _span(self, seen: Seen) -> Array:
        if seen not in self._spans:
            self._spans[seen] = self.words.T if len(seen) == 1 else self._split(seen)
        return self._spans[seen]

    def _split(self, seen: Seen) -> Array:
        """Weight[a, x] = sum over the split m and the states b, c of the two children."""
        left, right, both = [], [], []
        for m in range(1, len(seen)):
            if not any(seen[m:]):
                left.append(self._span(seen[:m]) * self.count(len(seen) - m))
            elif not any(seen[:m]):
                right.append(self._span(seen[m:]) * self.count(m))
            else:
                pair = self.children.pair(self._span(seen[:m]), self._span(seen[m:]))
                both.append(pair.reshape(pair.shape[0], -1))
        # Spans with one child seen are added up before they are multiplied with the table.
        if left:
            both.append(einsum("ba,bx->ax", self.children.left, _sum(left)))
        if right:
            both.append(einsum("ca,cy->ay", self.children.right, _sum(right)))
        return cast(Array, _sum(both))


# -- dependencies -----------------------------------------------------------------------------


@cache
def half_trees(n: int) -> int:
    """Ways in which n words on one side of a head can hang below it."""
    return 1 if n == 0 else sum(half_trees(m) * dependency_trees(n - m) for m in range(n))


@cache
def dependency_trees(n: int) -> int:
    """Projective dependency trees over n words.

    Examples
    --------
    >>> [dependency_trees(n) for n in range(1, 6)]
    [1, 2, 7, 30, 143]
    """
    return sum(half_trees(left) * half_trees(n - 1 - left) for left in range(n))


class _Dependents:
    """Projective trees: weights by the word of the head, then the words seen below it."""

    def __init__(self, root: Array, left: Array, right: Array) -> None:
        self.root = root.reshape(-1, 1)
        self.tables = {"left": left, "right": right, "root": self.root}
        self._subtrees: dict[tuple[str, Seen], Array] = {}
        self._halves: dict[tuple[str, Seen], Array] = {}

    def count(self, length: int) -> int:
        return dependency_trees(length)

    def total(self, seen: Seen) -> Array:
        return self._subtree("root", seen)[0]

    def _half(self, side: str, seen: Seen) -> Array:
        """Weight[h, x] of all that hangs on one side of a head with word h."""
        if (side, seen) not in self._halves:
            n = len(seen)
            cuts = range(n) if side == "right" else range(1, n + 1)
            terms = [self._farthest(side, seen, m) for m in cuts]
            self._halves[side, seen] = _sum(terms)
        return self._halves[side, seen]

    def _farthest(self, side: str, seen: Seen, m: int) -> Array:
        """The half by its farthest argument, whose subtree lies outside the cut m."""
        far, near = (seen[m:], seen[:m]) if side == "right" else (seen[:m], seen[m:])
        if not any(far):
            return self._half(side, near) * dependency_trees(len(far))
        subtree = self._subtree(side, far)
        if not any(near):
            return subtree * half_trees(len(near))
        inner = self._half(side, near)
        first, last = (inner, subtree) if side == "right" else (subtree, inner)
        return _beside(first, last)

    def _subtree(self, table: str, seen: Seen) -> Array:
        """Weight[h, x] of all trees over a span whose top is an argument of a head with word h.

        A top that is not seen is summed out; one that is seen stays as an axis among the others.
        """
        if (table, seen) not in self._subtrees:
            hidden = [self._body(seen, c) for c in range(len(seen)) if not seen[c]]
            terms = [self._seen_top(table, seen, c) for c in range(len(seen)) if seen[c]]
            if hidden:
                flat = [body.reshape(body.shape[0], -1) for body in hidden]
                terms.append(einsum("yh,yx->hx", self.tables[table], _sum(flat)))
            self._subtrees[table, seen] = _sum(terms)
        return self._subtrees[table, seen]

    def _seen_top(self, table: str, seen: Seen, c: int) -> Array:
        joint = einsum("yh,yuv->huyv", self.tables[table], self._body(seen, c))
        return joint.reshape(joint.shape[0], -1)

    def _body(self, seen: Seen, c: int) -> Array:
        """Weight[y, u, v] of both halves of a head at c with word y."""
        left, right = seen[:c], seen[c + 1 :]
        u = self._half("left", left) if any(left) else self._blank(half_trees(len(left)))
        v = self._half("right", right) if any(right) else self._blank(half_trees(len(right)))
        return einsum("yu,yv->yuv", u, v)

    def _blank(self, count: int) -> Array:
        ones = np.full((self.root.shape[0], 1), count)
        return self.root.lifted(ones) if isinstance(self.root, Dual) else ones.astype(float)


def _beside(first: Array, last: Array) -> Array:
    joint = einsum("hx,hy->hxy", first, last)
    return joint.reshape(joint.shape[0], -1)


def _sum(terms: list[Any]) -> Any:
    return reduce(lambda x, y: x + y, terms)


# -- the six families -------------------------------------------------------------------------


def stationary(argument: Array) -> Array:
    """The distribution that a column-stochastic table leaves as it is.

    Solves (I - A) root = 0 with the last equation, which follows from the others, replaced by
    sum of root = 1.

    Examples
    --------
    >>> stationary(np.array([[0.5, 0.25], [0.5, 0.75]]))
    array([0.33333333, 0.66666667])
    """
    size = argument.shape[0]
    is_last = np.arange(size) == size - 1
    keep = (~is_last).astype(np.int64)[:, None]
    fixed = np.where(is_last[:, None], 1, np.eye(size, dtype=np.int64))
    return solve(fixed - argument * keep, is_last.astype(np.int64))


def _pcfg_tables(d: int, k: int) -> dict[str, Table]:
    return {"root": Table((k,)), "rules": Table((k, k, k), 2), "words": Table((d, k))}


def _pcfg_i_tables(d: int, k: int) -> dict[str, Table]:
    one = Table((k, k))
    return {"root": Table((k,)), "left": one, "right": one, "words": Table((d, k))}


def _pcfg_ie_tables(d: int, k: int) -> dict[str, Table]:
    return {"root": Table((k,)), "child": Table((k, k)), "words": Table((d, k))}


def _dep_i_tables(d: int, _: int) -> dict[str, Table]:
    return {"root": Table((d,)), "left": Table((d, d)), "right": Table((d, d))}


def _dep_ie_tables(d: int, _: int) -> dict[str, Table]:
    return {"root": Table((d,)), "argument": Table((d, d))}


def _dep_ies_tables(d: int, _: int) -> dict[str, Table]:
    return {"argument": Table((d, d))}


def _pcfg_sums(given: Parameters) -> Sums:
    return _Constituents(given["root"], _Joint(given["rules"]), given["words"])


def _pcfg_i_sums(given: Parameters) -> Sums:
    return _Constituents(given["root"], _Apart(given["left"], given["right"]), given["words"])


def _pcfg_ie_sums(given: Parameters) -> Sums:
    return _Constituents(given["root"], _Apart(given["child"], given["child"]), given["words"])


def _dep_i_sums(given: Parameters) -> Sums:
    return _Dependents(given["root"], given["left"], given["right"])


def _dep_ie_sums(given: Parameters) -> Sums:
    return _Dependents(given["root"], given["argument"], given["argument"])


def _dep_ies_sums(given: Parameters) -> Sums:
    argument = given["argument"]
    return _Dependents(stationary(argument), argument, argument)


FAMILIES = {
    family.name: family
    for family in (
        Family("pcfg", True, _pcfg_tables, _pcfg_sums),
        Family("pcfg-i", True, _pcfg_i_tables, _pcfg_i_sums),
        Family("pcfg-ie", True, _pcfg_ie_tables, _pcfg_ie_sums),
        Family("dep-i", False, _dep_i_tables, _dep_i_sums),
        Family("dep-ie", False, _dep_ie_tables, _dep_ie_sums),
        Family("dep-ies", False, _dep_ies_tables, _dep_ies_sums),
    )
}
