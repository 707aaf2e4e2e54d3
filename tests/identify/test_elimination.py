"""Ranks and null spaces modulo a prime."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.identify import dual
from sapwood.identify.dual import PRIME, Residues, null_space, rank

FIELD = Residues()


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


def test_one_row_in_thousands_counts() -> None:
    assert null_space(needle(), FIELD, np.random.default_rng(0)).rank == 2


def test_without_the_check_of_all_rows_it_would_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual, "_rows_outside", lambda *_: np.zeros(0, np.int64))
    assert null_space(needle(), FIELD, np.random.default_rng(0)).rank == 1


def test_no_columns() -> None:
    found = null_space(np.zeros((3, 0), np.int64), FIELD, np.random.default_rng(0))
    assert (found.rank, found.basis.shape) == (0, (0, 0))
