"""Array helpers against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sapwood.constituency.parse.kernels.coarse import cell_of
from sapwood.core.arrays import cell, group_rows, ranges, starts_of, sum_rows

_SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)))
_KEYS = st.lists(st.integers(-1, 5))


@given(st.lists(st.integers(0, 9)))
def test_starts_cut_a_flat_array_into_its_rows(sizes: list[int]) -> None:
    rows = [[r] * size for r, size in enumerate(sizes)]
    flat, start = [x for row in rows for x in row], starts_of(sizes)
    assert start.dtype == np.int64
    assert [flat[start[r] : start[r + 1]] for r in range(len(rows))] == rows
    assert start[-1] == len(flat)


@given(_SPANS)
def test_ranges_follow_one_another(spans: list[tuple[int, int]]) -> None:
    first = np.array([start for start, _ in spans], np.uint32)  # unsigned ones must not wrap
    found = ranges(first, first + np.array([size for _, size in spans], np.uint32))
    assert found.dtype == np.int64
    assert found.tolist() == [start + k for start, size in spans for k in range(size)]


@given(_KEYS)
def test_rows_of_a_key_keep_their_order(keys: list[int]) -> None:
    expected = [[row for row, key in enumerate(keys) if key == wanted] for wanted in range(6)]
    assert [rows.tolist() for rows in group_rows(np.array(keys, int), 6)] == expected


@given(_KEYS)
def test_sum_of_the_rows_of_each_key(keys: list[int]) -> None:
    held = np.array([key for key in keys if key >= 0], int)
    rows = np.arange(2.0 * len(held)).reshape(-1, 2)
    for key, found in enumerate(sum_rows(rows, held, 6)):
        assert found.tolist() == rows[held == key].sum(axis=0).tolist()


@given(st.integers(0, 20))
def test_cells_number_all_spans_without_gaps(n: int) -> None:
    spans = [(i, j) for i in range(n) for j in range(i + 1, n + 1)]
    i, j = np.array(spans, int).reshape(-1, 2).T
    assert cell(i, j, n).tolist() == list(range(n * (n + 1) // 2))
    assert [int(cell_of(*span, n)) for span in spans] == list(range(len(spans)))
