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
[d] * (number of positions). It is summed over all trees by the dynamic programs of `tree_sums`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np

from sapwood.arrays import FloatArray
from sapwood.errors import SapwoodError
from sapwood.identify.dual import Array, einsum, solve
from sapwood.identify.tree_sums import Apart, Constituents, Dependents, Joint, Sums

Parameters = Mapping[str, Array]


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
    n_words = parameters["words" if "words" in parameters else next(iter(parameters))].shape[0]
    found = []
    for places in positions:
        _check_positions(places, length)
        seen = tuple(place in places for place in range(1, length + 1))
        joint = (sums.total(seen) / sums.count(length)).reshape(*(n_words,) * len(places))
        letters = "".join(chr(ord("a") + axis) for axis in range(len(places)))
        letter = dict(zip(sorted(places), letters, strict=True))
        found.append(einsum(f"{letters}->{''.join(letter[place] for place in places)}", joint))
    return found


def _check_positions(positions: tuple[int, ...], length: int) -> None:
    if not positions or len(set(positions)) < len(positions):
        msg = f"positions {positions}: expected at least one, each once"
        raise SapwoodError(msg, hint=f"name different positions from 1 to {length}")
    outside = [place for place in positions if not 1 <= place <= length]
    if outside:
        msg = f"position {outside[0]} does not exist in a sentence of {length} words"
        raise SapwoodError(msg, hint=f"name positions from 1 to {length}, or a longer sentence")


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


def _family(
    name: str, tables: Callable[[int, int], dict[str, Table]], sums: Callable[..., Sums]
) -> Family:
    """A family whose sums take its tables by name."""
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
