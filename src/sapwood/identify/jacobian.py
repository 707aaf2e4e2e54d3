"""The Jacobian of a moment map, over the reals or modulo a prime.

Notation (IDENT, section 4.2)
-----------------------------
    theta    non-redundant parameters: all outcomes but the last of every column         [n]
    mu       the moments as one vector                                                   [m]
    J        derivatives of mu by theta                                                  [m, n]

Directions are numbered table by table, then outcome by outcome, then column by column. Along one,
an outcome grows by 1 and the last outcome of its column falls by 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.arrays import FloatArray
from sapwood.errors import SapwoodError
from sapwood.identify.dual import AnyArray, Array, Dual, Field, Residues
from sapwood.identify.families import Parameters, Table

CHUNK = 64  # directions differentiated together: few enough to keep all spans in memory
OPERATIONS = "+, -, *, @, / by an integer, indexing, sum, reshape, T, einsum and solve"


@dataclass(frozen=True)
class MomentMap:
    """A family of models as its moments: what an identifiability check needs to know.

    Attributes
    ----------
    name
        Stands in the report.
    tables
        The shapes of the parameters.
    moments
        The moments as a function of the tables, written with the operations of `Dual`: +, -, *, @,
        division by integers, indexing, `sum`, `reshape`, `T`, `einsum` and `solve`. It is called
        with floats and with integers modulo a prime, so it may hold no floating-point constants.
    """

    name: str
    tables: Mapping[str, Table]
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
    model: MomentMap, point: Mapping[str, AnyArray], field: Field, *, chunk: int = CHUNK
) -> AnyArray:
    """Derivatives of all moments by all non-redundant parameters, at one point.

    Parameters
    ----------
    model
        The moment map.
    point
        Its tables, in the numbers of the field.
    field
        `Reals()`, or `Residues()` for exact ranks.
    chunk
        Directions that are carried along at once; less memory where this is less.

    Returns
    -------
    AnyArray
        [m, n].

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
