"""Adam's steps of some rows of a table, against its formulas."""

import numpy as np

from sapwood.networks.kernels.adam import move_rows


def test_rows_move_by_the_formulas():
    rng = np.random.default_rng(0)
    weights, means, squares = np.abs(rng.normal(size=(3, 6, 4))).astype(np.float32)
    before = [array.copy() for array in (weights, means, squares)]
    rows, gradient = np.array([4, 1]), rng.normal(size=(2, 4)).astype(np.float32)
    move_rows(weights, means, squares, rows, gradient, 0.1, 0.9, 0.99, 1e-8)
    w, m, v = (array[rows] for array in before)
    m, v = 0.9 * m + 0.1 * gradient, 0.99 * v + 0.01 * gradient**2
    expected = w - 0.1 * m / (np.sqrt(v) + 1e-8), m, v
    for array, old, new in zip((weights, means, squares), before, expected, strict=True):
        np.testing.assert_allclose(array[rows], new, rtol=1e-5)  # of a few roundings
        others = [0, 2, 3, 5]
        np.testing.assert_array_equal(array[others], old[others])
