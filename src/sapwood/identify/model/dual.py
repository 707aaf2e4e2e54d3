"""Arrays that carry their derivatives, over the reals or modulo a large prime.

Notation
--------
    x         value of an array                                              [*shape]
    dx        its derivatives along n directions, the directions first       [n, *shape]
    p         a prime below 2^31: products of two residues fit in 63 bits

    d(x + y) = dx + dy        d(x y) = dx y + x dy        d(M^-1 b) = M^-1 (db - dM M^-1 b)

Modulo p every operation is exact. A minor of the Jacobian of a moment map is a polynomial of degree
at most D in the parameters; unless it is zero as a polynomial, it vanishes at a random point with
probability at most D / p (Schwartz and Zippel). So ranks are those of a generic point, except for
that probability; they are never too large, unless p divides what is not zero in the integers.

Exact rank and null space of a tall matrix of residues:

    J    the matrix, usually with far more rows than columns        [m, n]
    R    its reduced echelon form: rank rows, one pivot each         [rank, n]
    N    basis of the vectors v with J v = 0                         [n, n - rank]
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import IntArray
from sapwood.core.errors import SapwoodError

PRIME = 2**31 - 1
LIMB = 16  # bits; 2^16 * 2^31 * 2^6 = 2^53, so 64 products add up exactly in floating point
EXACT_TERMS = 64

AnyArray: TypeAlias = npt.NDArray[Any]


class Reals:
    """The field of real numbers, in floating point."""

    def array(self, values: npt.ArrayLike) -> AnyArray:
        """Values as an array of floats."""
        return np.asarray(values, dtype=float)

    def normalise(self, values: AnyArray) -> AnyArray:
        """Return the values unchanged: reals have one form."""
        return values

    def matmul(self, left: AnyArray, right: AnyArray) -> AnyArray:
        """Matrix product of two arrays of floats."""
        return np.asarray(left @ right)

    def inverse(self, matrix: AnyArray) -> AnyArray:
        """Inverse of a square matrix."""
        return np.asarray(np.linalg.inv(matrix))


class Residues:
    """Integers modulo a prime below 2^31, in [0, p).

    Examples
    --------
    >>> field = Residues(7)
    >>> field.matmul(field.array([[3, 5]]), field.array([[2], [6]]))
    array([[1]])
    """

    def __init__(self, prime: int = PRIME) -> None:
        self.prime = prime

    def array(self, values: npt.ArrayLike) -> AnyArray:
        """Integers of any size as residues."""
        given = np.asarray(values)
        if given.dtype.kind == "O":  # integers of more than 63 bits
            given = np.asarray(given % self.prime)
            are_integers = all(isinstance(each, int) for each in given.flat)
            given = given.astype(np.int64) if are_integers else given
        if given.dtype.kind not in "iub":
            msg = f"an array of {given.dtype} has no residues modulo {self.prime}"
            raise SapwoodError(msg, hint="use integers: write x / 3 for a third of x")
        return np.asarray((given % self.prime).astype(np.int64))

    def normalise(self, values: AnyArray) -> AnyArray:
        """Reduce integers to residues in [0, p)."""
        return np.asarray(values % self.prime)

    def matmul(self, left: AnyArray, right: AnyArray) -> AnyArray:
        """Matrix product by exact floating-point products of half-words."""
        terms = [
            self._product(left[..., at : at + EXACT_TERMS], right[..., at : at + EXACT_TERMS, :])
            for at in range(0, left.shape[-1], EXACT_TERMS)
        ]
        return np.asarray(sum(terms) % self.prime)

    def _product(self, left: AnyArray, right: AnyArray) -> AnyArray:
        factor = right.astype(float)
        low = ((left & (2**LIMB - 1)).astype(float) @ factor).astype(np.int64)
        high = ((left >> LIMB).astype(float) @ factor).astype(np.int64)
        return np.asarray((low + ((high % self.prime) << LIMB)) % self.prime)

    def inverse(self, matrix: AnyArray) -> AnyArray:
        """Inverse of a square matrix, by Gauss and Jordan."""
        size = len(matrix)
        work, pivots = self.echelon(np.concatenate([matrix, np.eye(size, dtype=np.int64)], axis=1))
        if pivots != list(range(size)):
            msg = f"a matrix of {size} rows has no inverse modulo {self.prime}"
            raise SapwoodError(msg, hint="draw another point: use another seed")
        return np.asarray(work[:, size:])

    def echelon(self, matrix: AnyArray) -> tuple[AnyArray, list[int]]:
        """Reduced echelon form without its zero rows, and the columns of its pivots."""
        work = np.array(matrix % self.prime, dtype=np.int64)
        pivots: list[int] = []
        for column in range(work.shape[1]):
            top = len(pivots)
            rows = np.flatnonzero(work[top:, column])
            if not len(rows):
                continue
            work[[top, top + rows[0]]] = work[[top + rows[0], top]]
            work[top] = work[top] * pow(int(work[top, column]), -1, self.prime) % self.prime
            factors = work[:, column].copy()
            factors[top] = 0
            hit = np.flatnonzero(factors)
            # Columns to the left hold finished pivots, and the pivot row is zero there.
            changed = work[hit, column:] - factors[hit, None] * work[top, column:]
            work[hit, column:] = changed % self.prime
            pivots.append(column)
        return work[: len(pivots)], pivots


Field: TypeAlias = Reals | Residues  # the numbers that an array holds


class Dual:
    """An array and its derivatives.

    Supports +, -, * and @, / by an integer, indexing, `sum` over an axis, `reshape`, `T`, and the
    functions `einsum` and `solve` of this module.

    Examples
    --------
    >>> x = Dual(np.array([2.0, 3.0]), np.eye(2), Reals())
    >>> (x * x / 2).tangent
    array([[2., 0.],
           [0., 3.]])
    """

    def __init__(self, value: AnyArray, tangent: AnyArray, field: Field) -> None:
        self.value = value
        self.tangent = tangent
        self.field = field

    __array_ufunc__ = None  # array + dual is left to us

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value."""
        return self.value.shape

    @property
    def ndim(self) -> int:
        """Number of axes of the value."""
        return self.value.ndim

    def _with(self, value: AnyArray, tangent: AnyArray) -> Dual:
        return Dual(self.field.normalise(value), self.field.normalise(tangent), self.field)

    def lift(self, other: object) -> Dual:
        """A constant as an array without derivatives; a dual array as it is."""
        if isinstance(other, Dual):
            return other
        value = self.field.array(other)  # type: ignore[arg-type]
        return Dual(value, np.zeros((len(self.tangent), *value.shape), value.dtype), self.field)

    def __add__(self, other: object) -> Dual:
        x, y = _align(self, self.lift(other))
        return self._with(x.value + y.value, x.tangent + y.tangent)

    def __neg__(self) -> Dual:
        return self._with(-self.value, -self.tangent)

    def __sub__(self, other: object) -> Dual:
        return self + (-self.lift(other))

    def __rsub__(self, other: object) -> Dual:
        return -self + other

    def __mul__(self, other: object) -> Dual:
        if isinstance(other, int):
            factor = self.field.array(other)
            return self._with(self.value * factor, self.tangent * factor)
        x, y = _align(self, self.lift(other))
        left = self.field.normalise(x.tangent * y.value)
        right = self.field.normalise(x.value * y.tangent)
        return self._with(x.value * y.value, left + right)

    __radd__ = __add__
    __rmul__ = __mul__

    def __truediv__(self, number: int) -> Dual:
        factor = self.field.inverse(self.field.array([[number]]))[0, 0]
        return self._with(self.value * factor, self.tangent * factor)

    def __matmul__(self, other: Array) -> Dual:
        left, right = "ab"[-self.ndim :], "bc"[: other.ndim]
        return cast(Dual, einsum(f"{left},{right}->{left[:-1]}{right[1:]}", self, other))

    def __rmatmul__(self, other: AnyArray) -> Dual:
        return self.lift(other) @ self

    def __getitem__(self, key: Any) -> Dual:
        at = key if isinstance(key, tuple) else (key,)
        return Dual(self.value[at], self.tangent[(slice(None), *at)], self.field)

    def reshape(self, *shape: int) -> Dual:
        """The same numbers in another shape."""
        value = self.value.reshape(*shape)
        return Dual(value, self.tangent.reshape(len(self.tangent), *value.shape), self.field)

    def sum(self, axis: int) -> Dual:
        """Sum over one axis, counted from the front."""
        return self._with(self.value.sum(axis=axis), self.tangent.sum(axis=axis % self.ndim + 1))

    @property
    def T(self) -> Dual:  # noqa: N802 - the name that NumPy gives it
        """The axes in the opposite order."""
        axes = tuple(range(self.ndim, 0, -1))
        return Dual(self.value.T, self.tangent.transpose(0, *axes), self.field)


Array: TypeAlias = "AnyArray | Dual"


def _align(x: Dual, y: Dual) -> tuple[Dual, Dual]:
    """Both arrays with the same number of axes, so that the directions stay the first axis."""
    if x.ndim == y.ndim:
        return x, y
    ndim = max(x.ndim, y.ndim)
    wide = [each.reshape(*(1,) * (ndim - each.ndim), *each.shape) for each in (x, y)]
    return wide[0], wide[1]


def solve(matrix: Array, right: Array) -> Array:
    """The vector x with matrix @ x = right."""
    if not isinstance(matrix, Dual):
        return np.asarray(np.linalg.solve(matrix, right))  # type: ignore[arg-type]
    vector = matrix.lift(right)
    field = matrix.field
    inverse = field.inverse(matrix.value)
    x = field.matmul(inverse, vector.value[:, None])
    rest = field.normalise(vector.tangent[..., None] - field.matmul(matrix.tangent, x))
    return Dual(x[:, 0], field.matmul(inverse, rest)[..., 0], field)


def einsum(subscripts: str, *operands: Array) -> Array:
    """NumPy's `einsum` with explicit output, for arrays and dual arrays, from left to right.

    A letter may stand at most once in each operand.

    Examples
    --------
    >>> one_way = Dual(np.array([[1.0, 2.0]]), np.zeros((0, 1, 2)), Reals())
    >>> einsum("ij,kj->ik", one_way, one_way).value
    array([[5.]])
    """
    if not any(isinstance(each, Dual) for each in operands):
        return np.asarray(np.einsum(subscripts, *cast(tuple[AnyArray, ...], operands)))
    inputs, output = subscripts.replace(" ", "").split("->")
    letters = inputs.split(",")
    if any(len(set(names)) < len(names) for names in letters):
        msg = f"einsum {subscripts!r}: a letter stands twice in one operand"
        raise SapwoodError(msg, hint="multiply with an identity matrix to take a diagonal")
    first, last = operands[0], letters[0]
    dual = next(each for each in operands if isinstance(each, Dual))
    result = dual.lift(first)
    for place, (operand, names) in enumerate(zip(operands[1:], letters[1:], strict=True), 2):
        wanted = set(output).union(*letters[place:])
        result, last = _pair(result, last, dual.lift(operand), names, wanted)
    return _transpose(_without(result, last, output), _kept(last, output), output)


def _pair(x: Dual, left: str, y: Dual, right: str, wanted: set[str]) -> tuple[Dual, str]:
    """Product of two arrays, summed over the letters that no later operand or output has."""
    x, left = _without(x, left, wanted | set(right)), _kept(left, wanted | set(right))
    y, right = _without(y, right, wanted | set(left)), _kept(right, wanted | set(left))
    shared = [name for name in left if name in right]
    batch = "".join(name for name in shared if name in wanted)
    inner = "".join(name for name in shared if name not in wanted)
    outer_left = "".join(name for name in left if name not in shared)
    outer_right = "".join(name for name in right if name not in shared)
    size = dict(zip(left + right, x.shape + y.shape, strict=True))
    x = _transpose(x, left, batch + outer_left + inner)
    y = _transpose(y, right, batch + inner + outer_right)
    x = x.reshape(*(prod(size[name] for name in part) for part in (batch, outer_left, inner)))
    y = y.reshape(*(prod(size[name] for name in part) for part in (batch, inner, outer_right)))
    if inner:
        field = x.field
        tangent = field.matmul(x.tangent, y.value) + field.matmul(x.value, y.tangent)
        z = Dual(field.matmul(x.value, y.value), field.normalise(tangent), field)
    else:
        z = x * y
    names = batch + outer_left + outer_right
    return z.reshape(*(size[name] for name in names)), names


def _kept(letters: str, wanted: Iterable[str]) -> str:
    return "".join(name for name in letters if name in wanted)


def _without(x: Dual, letters: str, wanted: Iterable[str]) -> Dual:
    for axis in reversed(range(len(letters))):
        if letters[axis] not in wanted:
            x = x.sum(axis)
    return x


def _transpose(x: Dual, letters: str, order: str) -> Dual:
    axes = [letters.index(name) for name in order]
    tangent = x.tangent.transpose(0, *(axis + 1 for axis in axes))
    return Dual(x.value.transpose(axes), tangent, x.field)


class NullSpace(NamedTuple):
    """Rank of a matrix, and a basis of the vectors that it maps to zero."""

    rank: int
    basis: IntArray  # [n, n - rank]


def null_space(matrix: IntArray, field: Residues, rng: np.random.Generator) -> NullSpace:
    """All vectors that a matrix of residues maps to zero.

    A few rows at random are reduced to echelon form. Rows that do not vanish on a random vector of
    their null space are added, until there are none; at the end every row is checked against the
    whole basis. The answer is exact: chance decides only how many rows are looked at.

    Cost: O(n^3) for each round, mostly one to three, and O(m n) for its check.

    Examples
    --------
    >>> null_space(np.array([[1, 2], [2, 4]]), Residues(), np.random.default_rng(0)).rank
    1
    """
    n_rows, n = matrix.shape
    some = rng.permutation(n_rows)[: n + 8]  # a few more than could be independent
    echelon, pivots = field.echelon(matrix[some])
    while True:
        basis = _basis(echelon, pivots, n, field)
        rest = _rows_outside(matrix, basis, field, rng)
        if not len(rest):
            return NullSpace(len(pivots), basis)
        echelon, pivots = field.echelon(np.concatenate([echelon, matrix[rest[:n]]]))


def rank(matrix: IntArray, field: Residues) -> int:
    """Rank of a small matrix of residues."""
    return len(field.echelon(matrix)[1])


def _basis(echelon: IntArray, pivots: list[int], n: int, field: Residues) -> IntArray:
    """Null vectors, one for each free column: 1 there, minus the column at the pivots."""
    free = np.setdiff1d(np.arange(n), pivots)
    basis = np.zeros((n, len(free)), dtype=np.int64)
    basis[free, np.arange(len(free))] = 1
    basis[pivots] = field.normalise(-echelon[:, free])
    return basis


def _rows_outside(
    matrix: IntArray, basis: IntArray, field: Residues, rng: np.random.Generator
) -> IntArray:
    """Rows that do not vanish on the basis, tested by one random vector and then by all."""
    if not basis.shape[1]:
        return np.zeros(0, dtype=np.int64)
    mix = rng.integers(1, field.prime, (basis.shape[1], 1))
    seen = np.flatnonzero(field.matmul(matrix, field.matmul(basis, mix))[:, 0])
    return seen if len(seen) else np.flatnonzero(field.matmul(matrix, basis).any(axis=1))
