"""The Jacobian of a moment map, over the reals or modulo a prime.

Notation (IDENT, section 4.2)
-----------------------------
    theta    non-redundant parameters: all outcomes but the last of every column         [n]
    mu       the moments as one vector                                                   [m]
    J        derivatives of mu by theta                                                  [m, n]

Directions are numbered table by table, then outcome by outcome, then column by column. Along one,
an outcome grows by 1 and the last outcome of its column falls by 1.

Directions that are known in advance (section 3; see `families` for the tables)
-------------------------------------------------------------------------------
    G       change of basis of the hidden states, columns sum to 1; G = I + t X with 1'X = 0  [k, k]
    F       joint distribution of an argument and its head, A diag(root)                      [d, d]
    E       a change of F                                                                     [d, d]

A symmetry is a set of directions that is known in advance, for all tables or within one table. Each
is checked before a report names it: the exact Jacobian times every direction of a symmetry of all
tables is zero, and the directions of a symmetry within a table contain the change of that table
along every unseen direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.identify.model.dual import AnyArray, Array, Dual, Field, Residues, einsum
from sapwood.identify.model.families import Parameters, Table, stationary

N_DIRECTIONS = 64  # differentiated together: few enough to keep all spans in memory
OPERATIONS = "+, -, *, @, / by an integer, indexing, sum, reshape, T, einsum and solve"


@dataclass(frozen=True)
class MomentMap:
    """A family of models as its moments, for identifiability checks."""

    name: str
    tables: Mapping[str, Table]
    # the moments as a function of the tables, written with the operations of `Dual`: +, -, *, @,
    # division by integers, indexing, `sum`, `reshape`, `T`, `einsum` and `solve`. It is called
    # with floats and with integers modulo a prime, so it may hold no floating-point constants
    moments: Callable[[Parameters], Array | Sequence[Array]]

    @property
    def n_parameters(self) -> int:
        """n, the non-redundant parameters."""
        return sum(table.n_free for table in self.tables.values())


def draw_reals(tables: Mapping[str, Table], rng: np.random.Generator) -> dict[str, FloatArray]:
    """A random point of the parameter space."""
    return {name: table.draw(rng) for name, table in tables.items()}


def draw_residues(
    tables: Mapping[str, Table], field: Residues, rng: np.random.Generator
) -> dict[str, AnyArray]:
    """A random point modulo a prime, with columns that sum to 1."""
    point = {}
    for name, table in tables.items():
        values = rng.integers(0, field.prime, (table.n_outcomes, table.n_columns))
        if table.n_outcome_axes:
            values[-1] = (1 - values[:-1].sum(axis=0)) % field.prime
        point[name] = values.reshape(table.shape)
    return point


def jacobian(
    model: MomentMap, point: Mapping[str, AnyArray], field: Field, *, chunk: int = N_DIRECTIONS
) -> AnyArray:
    """Derivatives of all moments by all non-redundant parameters at one point, [m, n].

    Over `Reals()`, or over `Residues()` for exact ranks; `chunk` directions are carried along at
    once.

    Cost: that of the moments, times n.
    """
    n = model.n_parameters
    columns = []
    for first in range(0, max(n, 1), chunk):
        directions = range(first, min(first + chunk, n))
        columns.append(_tangents(model, _lift(model.tables, point, field, directions)))
    return np.concatenate(columns, axis=1)


def _lift(
    tables: Mapping[str, Table], point: Mapping[str, AnyArray], field: Field, directions: range
) -> dict[str, Dual]:
    """The tables with their derivatives along some of the directions."""
    lifted, start = {}, 0
    for name, table in tables.items():
        value = field.array(point[name])
        tangent = np.zeros((len(directions), *table.shape), dtype=value.dtype)
        flat = tangent.reshape(len(directions), table.n_outcomes, table.n_columns)
        for row, direction in enumerate(directions):
            if start <= direction < start + table.n_free:
                outcome, column = divmod(direction - start, table.n_columns)
                flat[row, outcome, column] = 1
                if table.n_outcome_axes:
                    flat[row, -1, column] = -1
        lifted[name] = Dual(value, field.normalise(tangent), field)
        start += table.n_free
    return lifted


def _tangents(model: MomentMap, tables: dict[str, Dual]) -> AnyArray:
    try:
        found = model.moments(tables)
    except TypeError as error:
        msg = f"the moments of {model.name!r} cannot be differentiated: {error}"
        raise SapwoodError(msg, hint=f"write them with {OPERATIONS}") from error
    arrays = [found] if isinstance(found, (Dual, np.ndarray)) else list(found)
    one = next(iter(tables.values()))
    flat = [one.lift(each).reshape(-1).tangent.T for each in arrays]
    return np.concatenate(flat, axis=0)


def changes(tables: Mapping[str, Table], direction: AnyArray) -> dict[str, AnyArray]:
    """A vector of non-redundant parameters as a change of each table; columns sum to 0."""
    out, start = {}, 0
    for name, table in tables.items():
        part = direction[start : start + table.n_free]
        if table.n_outcome_axes:
            part = part.reshape(table.n_outcomes - 1, table.n_columns)
            part = np.concatenate([part, -part.sum(axis=0, keepdims=True)])
        out[name] = part.reshape(table.shape)
        start += table.n_free
    return out


def direction_of(tables: Mapping[str, Table], change: Mapping[str, AnyArray]) -> AnyArray:
    """A change of each table as a vector of non-redundant parameters."""
    parts = [change[name].reshape(-1)[: table.n_free] for name, table in tables.items()]
    return np.concatenate(parts)


Point = Mapping[str, Dual]
Change = dict[str, Dual]


@dataclass(frozen=True)
class Symmetry:
    """Directions that leave the moments as they are, at least for some moments."""

    text: str  # the effect of moving along them
    # the directions at a point, as changes of its tables
    changes: Callable[[Point], Iterator[Change]]
    # the only table that the changes name, where what happens to the others is left open
    within: str | None = None


def symmetry_directions(
    symmetry: Symmetry, point: Mapping[str, AnyArray], field: Residues
) -> list[dict[str, AnyArray]]:
    """The directions of a symmetry at a point modulo a prime."""
    lifted = {
        name: Dual(value, np.zeros((0, *value.shape), np.int64), field)
        for name, value in point.items()
    }
    return [
        {name: each.value for name, each in change.items()} for change in symmetry.changes(lifted)
    ]


def basis_changes(point: Point) -> Iterator[Change]:
    """Take root to G root, rules to (G x G) rules G^-1, words to words G^-1."""
    rules = point["rules"]
    for x in _generators(point["root"].shape[0]):
        moved = einsum("de,eca->dca", x, rules) + einsum("de,bea->bda", x, rules)
        yield {
            "root": x @ point["root"],
            "rules": moved - einsum("bce,ea->bca", rules, x),  # type: ignore[dict-item]
            "words": -(point["words"] @ x),
        }


def word_bases(point: Point) -> Iterator[Change]:
    """Multiply the words by G^-1, which keeps the space of the states' emissions."""
    for x in _generators(point["root"].shape[0]):
        yield {"words": point["words"] @ x}


def _generators(k: int) -> Iterator[AnyArray]:
    """A basis of the matrices X whose columns sum to 0."""
    for row in range(k - 1):
        for column in range(k):
            x = np.zeros((k, k), dtype=np.int64)
            x[row, column], x[-1, column] = 1, -1
            yield x


def order_of_pairs(point: Point) -> Iterator[Change]:
    """F -> F + E with E = -E': a pair is as often (head, argument) as the other way round."""
    d = point["root"].shape[0]
    for row in range(d):
        for column in range(row):
            e = np.zeros((d, d), dtype=np.int64)
            e[row, column], e[column, row] = 1, -1
            root = e.sum(axis=0)
            change = _conditional(point["argument"], point["root"], e, root)
            yield {"root": point["root"].lift(root), "argument": change}


def side_of_pairs(point: Point) -> Iterator[Change]:
    """F_right -> F_right + E and F_left -> F_left - E', the margins of heads staying equal."""
    d = point["root"].shape[0]
    for row in range(d):
        for column in range(d):
            if row == column:
                continue
            e = np.zeros((d, d), dtype=np.int64)
            e[row, column] = 2
            e[row, row] = e[column, column] = -1
            root = e.sum(axis=0)
            yield {
                "root": point["root"].lift(root),
                "left": _conditional(point["left"], point["root"], -e.T, root),
                "right": _conditional(point["right"], point["root"], e, root),
            }


def circulations(point: Point) -> Iterator[Change]:
    """F -> F + E with E = -E' and E 1 = 0: add a circulation along a cycle of words."""
    argument = point["argument"]
    root = stationary(argument)
    assert isinstance(root, Dual)
    d = argument.shape[0]
    for first in range(1, d):
        for second in range(1, first):
            e = np.zeros((d, d), dtype=np.int64)
            for row, column in ((0, first), (first, second), (second, 0)):
                e[row, column] += 1
                e[column, row] -= 1
            yield {"argument": _conditional(argument, root, e, np.zeros(d, np.int64))}


def _conditional(table: Dual, root: Dual, joint: AnyArray, margin: AnyArray) -> Dual:
    """Change of A = F diag(root)^-1: (E - A diag(change of root)) diag(root)^-1."""
    field = root.field
    inverse = field.inverse(np.diag(root.value))
    change = field.normalise(joint - table.value * field.array(margin))
    return Dual(field.matmul(change, inverse), np.zeros((0, *table.shape), np.int64), field)


_WORDS = Symmetry("changes of basis of the hidden states", word_bases, within="words")
# In the order in which a report tries them.
SYMMETRIES: dict[str, tuple[Symmetry, ...]] = {
    "pcfg": (Symmetry("changes of basis of the hidden states", basis_changes), _WORDS),
    "pcfg-i": (_WORDS,),
    "pcfg-ie": (_WORDS,),
    "dep-i": (
        Symmetry(
            "trades between a left argument of one word and a right argument of the other",
            side_of_pairs,
        ),
    ),
    "dep-ie": (Symmetry("exchanges of head and argument in a pair of words", order_of_pairs),),
    "dep-ies": (Symmetry("circulations of heads and arguments in a cycle of words", circulations),),
}
