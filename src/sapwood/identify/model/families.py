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
[d] * (number of positions), summed over all trees by dynamic programs over spans.

Names of moments (section 4.1)
------------------------------
    12, 123        phi_12, phi_123: the words at these positions, jointly
    123e1          phi_123e1: the same where the last of the positions has word number 1
    pairs          phi_**: every two positions
    triples        phi_***: every three positions
    triples-e1     phi_***e1: every three positions, each in turn having word number 1
    all            the whole sentence

The paper lets positions repeat. A repeated position adds only a margin of moments already observed,
unless the sentence is too short for pairs or triples, which then observe all of its positions.

Other positions are named by their digits: `13` for 1 and 3, `1,10` where a position has two digits,
`14e2` for the words at 1 where 4 has word 2, and `+` between several: `12+13`, `pairs+123e1`.

Sums over all trees of one length (appendix C.1)
------------------------------------------------
    seen             for each position of a span, whether its word is observed
    a, b, c          hidden states of a span and of its left and right child
    h, y             words of a head and of its argument
    x, u, v          words that are seen, several positions as one axis
    weight[a, x]     of all trees over a span, by its state (its head's word) and the words seen

Sums over a span depend only on which of its positions are seen, so equal spans are summed once. A
span without a seen position contributes its number of trees, as columns of tables sum to 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.topologies import n_binary_trees, n_dependency_trees, n_sides
from sapwood.identify.model.dual import Array, Dual, einsum, solve

NAMED = ("12", "pairs", "123e1", "123", "triples-e1", "triples", "all")
SYNTAX = "names are 12, pairs, 123e1, 123, triples-e1, triples, all, or positions: 13, 1,10, 12+13"
_POSITIONS = re.compile(r"(\d+|\d+(?:,\d+)+)(?:e(\d+))?")


class Observation(NamedTuple):
    """Joint distribution of the words at some positions.

    With a picked word (counted from 1) only the part where the last position has that word.
    """

    positions: tuple[int, ...]
    picked: int | None = None

    def size(self, n_words: int) -> int:
        """Number of entries of the distribution."""
        return int(n_words ** (len(self.positions) - (self.picked is not None)))


def observations(name: str, length: int) -> list[Observation]:
    """The observations that a name stands for, in sentences of a length.

    Examples
    --------
    >>> observations("123e1", 4)
    [Observation(positions=(1, 2, 3), picked=1)]
    >>> [each.positions for each in observations("pairs", 3)]
    [(1, 2), (1, 3), (2, 3)]
    """
    found = [each for part in name.split("+") for each in _part(part.strip(), name, length)]
    return list(dict.fromkeys(found))


def _part(part: str, name: str, length: int) -> list[Observation]:
    every = range(1, length + 1)
    if part == "all":
        return [Observation(tuple(every))]
    if part in ("pairs", "triples"):
        size = min(2 if part == "pairs" else 3, length)
        return [Observation(places) for places in combinations(every, size)]
    if part == "triples-e1":
        return [
            Observation((*(place for place in places if place != last), last), 1)
            for places in combinations(every, min(3, length))
            for last in reversed(places)
        ]
    match = _POSITIONS.fullmatch(part)
    if not match:
        raise SapwoodError(f"unknown moments {name!r}", hint=SYNTAX)
    digits, picked = match.groups()
    places = tuple(map(int, digits.split(",") if "," in digits else digits))
    _check(places, f"moments {part!r}", length)
    return [Observation(places, int(picked) if picked else None)]


def _check(positions: tuple[int, ...], named: str, length: int) -> None:
    if not positions or len(set(positions)) < len(positions):
        hint = "name each position once; 1,10 is how to write 1 and 10"
        raise SapwoodError(f"{named} name a position twice, or none", hint=hint)
    outside = [position for position in positions if not 1 <= position <= length]
    if outside:
        msg = f"{named} see position {outside[0]} of sentences of {length} words"
        hint = f"use positions from 1 to {length} (1,10 is how to write 1 and 10), or more --length"
        raise SapwoodError(msg, hint=hint)


Seen = tuple[bool, ...]


class Joint:
    """Children drawn together: rules [b, c, a]."""

    def __init__(self, rules: Array) -> None:
        self.rules = rules
        self.left, self.right = rules.sum(1), rules.sum(0)

    def pair(self, left: Array, right: Array) -> Array:
        """Weight[a, x, y] of two children that are both seen."""
        return einsum("bca,bx,cy->axy", self.rules, left, right)


class Apart:
    """Children drawn independently given their parent: left [b, a] and right [c, a]."""

    def __init__(self, left: Array, right: Array) -> None:
        self.left, self.right = left, right

    def pair(self, left: Array, right: Array) -> Array:
        """Weight[a, x, y] of two children that are both seen."""
        above_left = einsum("ba,bx->ax", self.left, left)
        return einsum("ax,ay->axy", above_left, einsum("ca,cy->ay", self.right, right))


class Constituents:
    """Binary trees: weight[a, x] of a span with state a and the words x that are seen in it."""

    def __init__(self, root: Array, children: Joint | Apart, words: Array) -> None:
        self.root, self.children, self.words = root, children, words
        self._spans: dict[Seen, Array] = {}

    def count(self, length: int) -> int:
        """Number of binary trees over a sentence."""
        return n_binary_trees(length)

    def total(self, seen: Seen) -> Array:
        """Weight[x] of all trees over a sentence."""
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


class Dependents:
    """Projective trees: weights by the word of the head, then the words seen below it."""

    def __init__(self, root: Array, left: Array, right: Array) -> None:
        self.root = root.reshape(-1, 1)
        self.tables = {"left": left, "right": right, "root": self.root}
        self._subtrees: dict[tuple[str, Seen], Array] = {}
        self._halves: dict[tuple[str, Seen], Array] = {}

    def count(self, length: int) -> int:
        """Number of projective trees over a sentence."""
        return n_dependency_trees(length)

    def total(self, seen: Seen) -> Array:
        """Weight[x] of all trees over a sentence."""
        return self._subtree("root", seen)[0]

    def _half(self, side: str, seen: Seen) -> Array:
        """Weight[h, x] of all dependents on one side of a head with word h."""
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
            return self._half(side, near) * n_dependency_trees(len(far))
        subtree = self._subtree(side, far)
        if not any(near):
            return subtree * n_sides(len(near))
        inner = self._half(side, near)
        first, last = (inner, subtree) if side == "right" else (subtree, inner)
        joint = einsum("hx,hy->hxy", first, last)
        return joint.reshape(joint.shape[0], -1)

    def _subtree(self, table: str, seen: Seen) -> Array:
        """Weight[h, x] of all trees over a span whose top is an argument of a head with word h.

        A top that is not seen is summed out; one that is seen stays as an axis among the others.
        """
        if (table, seen) not in self._subtrees:
            hidden = [self._body(seen, c) for c in range(len(seen)) if not seen[c]]
            shown = [self._body(seen, c) for c in range(len(seen)) if seen[c]]
            joint = [einsum("yh,yuv->huyv", self.tables[table], body) for body in shown]
            terms = [each.reshape(each.shape[0], -1) for each in joint]
            if hidden:
                flat = [body.reshape(body.shape[0], -1) for body in hidden]
                terms.append(einsum("yh,yx->hx", self.tables[table], _sum(flat)))
            self._subtrees[table, seen] = _sum(terms)
        return self._subtrees[table, seen]

    def _body(self, seen: Seen, c: int) -> Array:
        """Weight[y, u, v] of both halves of a head at c with word y."""
        left, right = seen[:c], seen[c + 1 :]
        n_left, n_right = n_sides(len(left)), n_sides(len(right))
        d = self.root.shape[0]
        if any(left) and any(right):
            return einsum("yu,yv->yuv", self._half("left", left), self._half("right", right))
        if any(left):
            return (self._half("left", left) * n_right).reshape(d, -1, 1)
        if any(right):
            return (self._half("right", right) * n_left).reshape(d, 1, -1)
        ones = np.full((d, 1, 1), n_left * n_right)
        return self.root.lift(ones) if isinstance(self.root, Dual) else ones.astype(float)


Sums = Constituents | Dependents  # over all trees of one length


def _sum(terms: list[Any]) -> Any:
    return reduce(lambda x, y: x + y, terms)


Parameters = Mapping[str, Array]


@dataclass(frozen=True)
class Table:
    """The shape of a conditional distribution: outcomes on the first axes, conditions behind.

    Examples
    --------
    >>> Table((3, 3, 3), 2).n_free  # pairs of children given their parent
    24
    """

    shape: tuple[int, ...]
    # how many axes, from the front, sum to 1 together; 0 for unconstrained numbers
    n_outcome_axes: int = 1

    @property
    def n_outcomes(self) -> int:
        """Number of outcomes of a column."""
        return prod(self.shape[: self.n_outcome_axes])

    @property
    def n_columns(self) -> int:
        """Number of conditions, one column each."""
        return prod(self.shape[self.n_outcome_axes :])

    @property
    def n_free(self) -> int:
        """Number of non-redundant parameters: `n_outcomes` - 1 in each column."""
        return (self.n_outcomes - 1) * self.n_columns if self.n_outcome_axes else self.n_columns

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """A table with every column uniform on the simplex; free numbers are normal."""
        if not self.n_outcome_axes:
            return np.asarray(rng.standard_normal(self.shape))
        columns = rng.dirichlet(np.ones(self.n_outcomes), self.n_columns)
        return np.asarray(columns.T.reshape(self.shape))


@dataclass(frozen=True)
class Family:
    """A family of models: its tables for given sizes, and its sums over trees."""

    name: str
    has_states: bool  # whether its sizes include a number of hidden states
    # the tables for a number of words and one of states
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


def moments(
    family: Family, parameters: Parameters, length: int, positions: Iterable[tuple[int, ...]]
) -> list[Array]:
    """Moments of several sets of positions; common spans are summed once."""
    sums = family.sums(parameters)
    n_words = parameters["words" if "words" in parameters else next(iter(parameters))].shape[0]
    found = []
    for places in positions:
        _check(places, f"positions {places}", length)
        seen = tuple(place in places for place in range(1, length + 1))
        joint = (sums.total(seen) / sums.count(length)).reshape(*(n_words,) * len(places))
        letters = "".join(chr(ord("a") + axis) for axis in range(len(places)))
        letter = dict(zip(sorted(places), letters, strict=True))
        found.append(einsum(f"{letters}->{''.join(letter[place] for place in places)}", joint))
    return found


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


def _family(
    name: str, tables: Callable[[int, int], dict[str, Table]], sums: Callable[..., Sums]
) -> Family:
    """Make a family whose sums take its tables by name."""
    return Family(name, "words" in tables(1, 1), tables, lambda given: sums(**given))


FAMILIES = {
    family.name: family
    for family in (
        _family(
            "pcfg",
            lambda d, k: {
                "root": Table((k,)), "rules": Table((k, k, k), 2), "words": Table((d, k)),
            },
            lambda root, rules, words: Constituents(root, Joint(rules), words),
        ),
        _family(
            "pcfg-i",
            lambda d, k: {
                "root": Table((k,)), "left": Table((k, k)), "right": Table((k, k)),
                "words": Table((d, k)),
            },
            lambda root, left, right, words: Constituents(root, Apart(left, right), words),
        ),
        _family(
            "pcfg-ie",
            lambda d, k: {"root": Table((k,)), "child": Table((k, k)), "words": Table((d, k))},
            lambda root, child, words: Constituents(root, Apart(child, child), words),
        ),
        _family(
            "dep-i",
            lambda d, _: {"root": Table((d,)), "left": Table((d, d)), "right": Table((d, d))},
            Dependents,
        ),
        _family(
            "dep-ie",
            lambda d, _: {"root": Table((d,)), "argument": Table((d, d))},
            lambda root, argument: Dependents(root, argument, argument),
        ),
        _family(
            "dep-ies",
            lambda d, _: {"argument": Table((d, d))},
            # its root may be among the tables, and follows from the others
            lambda argument, root=None: Dependents(stationary(argument), argument, argument),
        ),
    )
}  # fmt: skip
