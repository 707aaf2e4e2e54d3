"""Operators of paths down a tree on which one side has no children."""

from __future__ import annotations

import numpy as np

from sapwood.linalg.dependency_operators import ChainMoments, chain_operators, path_operators


def test_a_side_without_paths_has_a_step_that_tells_nothing() -> None:
    rng = np.random.default_rng(0)
    pairs = [np.eye(2) + 0.1 * rng.normal(size=(2, 2)) for _ in range(2)]
    for pair in pairs:
        pair[0, 0] = 1.0
    moments = ChainMoments(pairs[0][0], *pairs, rng.normal(size=(2, 2, 2)))
    expected = chain_operators(moments, 0.01)
    found = path_operators([(0, None), (7, moments)], 0.01)
    np.testing.assert_array_equal(found.steps[0], [[1, 0], [0, 0]])
    np.testing.assert_allclose(found.steps[1], expected.steps[0])
    np.testing.assert_allclose(found.product, expected.product)
