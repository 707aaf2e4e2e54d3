"""Arrays with derivatives and ranks modulo a prime, against NumPy and Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import SapwoodError
from sapwood.identify.model import dual
from sapwood.identify.model.dual import (
    PRIME,
    Dual,
    Reals,
    Residues,
    einsum,
    null_space,
    rank,
    solve,
)

FIELD = Residues()
SPECS = (
    ("ab,bc->ac", (2, 3), (3, 4)),
    ("ab,ac->abc", (2, 3), (2, 4)),
    ("bca,bx,cy->axy", (2, 2, 3), (2, 4), (2, 5)),
    ("a,ax->x", (3,), (3, 4)),
    ("ab,cd->a", (2, 3), (2, 2)),
    ("abc->cb", (2, 3, 4)),
)


def residues(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(0, PRIME, shape)


def product_of(left: np.ndarray, right: np.ndarray) -> list[list[int]]:
    columns = right.T.tolist()
    return [
        [sum(a * b for a, b in zip(row, column, strict=True)) % PRIME for column in columns]
        for row in left.tolist()
    ]


@given(st.integers(1, 200), st.integers(0, 100))
def test_products_of_residues_are_exact(inner: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    left, right = residues(rng, 3, inner), residues(rng, inner, 2)
    assert FIELD.matmul(left, right).tolist() == product_of(left, right)


def test_too_many_terms_at_once_would_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: half-words of 1,000 products no longer fit into 53 bits."""
    largest = np.full((1, 1001), PRIME - 2)
    assert FIELD.matmul(largest, largest.T).tolist() == product_of(largest, largest.T)
    monkeypatch.setattr(dual, "EXACT_TERMS", 10_000)
    assert FIELD.matmul(largest, largest.T).tolist() != product_of(largest, largest.T)


def test_inverse_of_residues() -> None:
    matrix = residues(np.random.default_rng(0), 7, 7)
    matrix[0, 0] = 0  # the first pivot must be looked for
    assert FIELD.matmul(matrix, FIELD.inverse(matrix)).tolist() == np.eye(7).tolist()
    with pytest.raises(SapwoodError, match="no inverse"):
        FIELD.inverse(np.array([[1, 2], [2, 4]]))


def test_floats_have_no_residues() -> None:
    x = Dual(np.array([1]), np.array([[1]]), FIELD)
    with pytest.raises(SapwoodError, match="float64") as error:
        x * 0.5
    assert "x / 3" in (error.value.hint or "")


def test_integers_of_any_size_have_residues() -> None:
    x = Dual(np.array([1]), np.array([[0]]), FIELD)
    assert (x * 3**100).value.item() == 3**100 % PRIME
    assert (x / 3**100 * 3**100).value.item() == 1
    with pytest.raises(SapwoodError, match="object"):
        FIELD.array(np.array([2**70, 0.5], dtype=object))


def test_third_of_a_residue() -> None:
    x = Dual(np.array([5]), np.array([[1]]), FIELD) / 3
    assert ((x * 3).value.item(), (x * 3).tangent.item()) == (5, 1)


@pytest.mark.parametrize("case", SPECS, ids=lambda case: case[0])
def test_einsum_of_values_is_numpys(case: tuple) -> None:
    spec, *shapes = case
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 50, shape) for shape in shapes]
    duals = [Dual(array, np.zeros((1, *array.shape), np.int64), FIELD) for array in arrays]
    expected = np.einsum(spec, *arrays)
    assert einsum(spec, *duals).value.tolist() == expected.tolist()
    assert einsum(spec, *arrays).tolist() == expected.tolist()


@pytest.mark.parametrize("case", SPECS, ids=lambda case: case[0])
def test_einsum_has_the_derivatives_of_the_product_rule(case: tuple) -> None:
    """Each operand in turn is replaced by its derivative."""
    spec, *shapes = case
    rng = np.random.default_rng(1)
    values = [rng.integers(0, 50, shape) for shape in shapes]
    tangents = [rng.integers(0, 50, shape) for shape in shapes]
    result = einsum(
        spec, *(Dual(x, dx[None], FIELD) for x, dx in zip(values, tangents, strict=True))
    )
    expected = sum(
        np.einsum(spec, *(tangents[j] if j == i else values[j] for j in range(len(values))))
        for i in range(len(values))
    )
    assert result.tangent[0].tolist() == expected.tolist()


def test_einsum_refuses_a_diagonal() -> None:
    x = Dual(np.eye(2), np.zeros((0, 2, 2)), Reals())
    with pytest.raises(SapwoodError, match="twice"):
        einsum("aa->a", x)


def derivative(values: list[np.ndarray]) -> np.ndarray:
    """At 0, of a polynomial of degree less than len(values), from its values at 0, 1, 2, ..."""
    total = np.zeros_like(values[0])
    n = len(values)
    for i, value in enumerate(values):
        others = [j for j in range(n) if j != i]
        below = np.prod([pow(i - j, -1, PRIME) for j in others], dtype=object) % PRIME
        above = sum(int(np.prod([-j for j in others if j != k], dtype=object)) for k in others)
        total = (total + value * (int(above) * int(below) % PRIME)) % PRIME
    return total


def test_operators_have_exact_derivatives() -> None:
    rng = np.random.default_rng(2)
    x, dx, y, dy = (residues(rng, 2, 2) for _ in range(4))

    def f(a: object, b: object) -> object:
        return ((a @ b - b.T) * a + 3 - a[:, :1] * 2 + (2 - b).sum(0)) / 7

    found = f(Dual(x, dx[None], FIELD), Dual(y, dy[None], FIELD))
    points = [
        f(*(Dual((v + t * dv) % PRIME, np.zeros((0, 2, 2), np.int64), FIELD)
            for v, dv in ((x, dx), (y, dy))))
        for t in range(4)
    ]  # fmt: skip
    assert found.tangent[0].tolist() == derivative([each.value for each in points]).tolist()


def test_constants_stand_on_either_side() -> None:
    x = Dual(np.array([[2, 3]]), np.array([[[1, 0]]]), FIELD)
    constant = np.array([[1, 4]])
    assert (constant + x).value.tolist() == [[3, 7]]
    assert (constant * x).tangent.tolist() == [[[1, 0]]]
    assert (constant - x).value.tolist() == [[PRIME - 1, 1]]
    assert (np.array([[5]]) @ x).value.tolist() == [[10, 15]]


def test_solve_differentiates_matrix_and_right_side() -> None:
    rng = np.random.default_rng(3)
    m, dm = residues(rng, 3, 3), residues(rng, 3, 3)
    b, db = residues(rng, 3), residues(rng, 3)
    x = solve(Dual(m, dm[None], FIELD), Dual(b, db[None], FIELD))
    # M x = b, and d(M x) = dM x + M dx = db
    assert FIELD.matmul(m, x.value[:, None])[:, 0].tolist() == b.tolist()
    left = FIELD.matmul(dm, x.value[:, None]) + FIELD.matmul(m, x.tangent[0][:, None])
    assert (left[:, 0] % PRIME).tolist() == db.tolist()
    np.testing.assert_allclose(solve(np.diag([2.0, 4.0]), np.ones(2)), [0.5, 0.25])


# -- ranks and null spaces


def of_rank(rng: np.random.Generator, rows: int, columns: int, r: int) -> np.ndarray:
    left = rng.integers(0, PRIME, (rows, r))
    return FIELD.matmul(left, rng.integers(0, PRIME, (r, columns)))


@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 12), st.integers(0, 50))
def test_rank_and_null_space(rows: int, columns: int, wanted: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    r = min(rows, columns, wanted)
    matrix = of_rank(rng, rows, columns, r) if r else np.zeros((rows, columns), np.int64)
    found = null_space(matrix, FIELD, rng)
    assert found.rank == rank(matrix, FIELD) == r
    assert found.basis.shape == (columns, columns - r)
    assert not FIELD.matmul(matrix, found.basis).any()
    assert rank(found.basis, FIELD) == columns - r


def test_echelon_form_is_reduced() -> None:
    echelon, pivots = FIELD.echelon(np.array([[0, 2, 4], [0, 1, 3]]))
    assert echelon.tolist() == [[0, 1, 0], [0, 0, 1]]
    assert pivots == [1, 2]


def needle() -> np.ndarray:
    """Five thousand equal rows and one that differs."""
    matrix = np.ones((5001, 4), np.int64)
    matrix[4321, 2] = 5
    return matrix


def test_one_row_in_thousands_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check of all rows it would be missed."""
    assert null_space(needle(), FIELD, np.random.default_rng(0)).rank == 2
    monkeypatch.setattr(dual, "_rows_outside", lambda *_: np.zeros(0, np.int64))
    assert null_space(needle(), FIELD, np.random.default_rng(0)).rank == 1


def test_no_columns() -> None:
    found = null_space(np.zeros((3, 0), np.int64), FIELD, np.random.default_rng(0))
    assert (found.rank, found.basis.shape) == (0, (0, 0))
