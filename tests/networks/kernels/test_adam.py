"""Adam's steps of a vector and of some rows of a table, against the formulas of its paper."""

import numpy as np
import pytest

from sapwood.networks import training
from sapwood.networks.training import Adam


def slow_adam(weights, gradients, rate):
    mean = square = np.zeros_like(weights)
    for t, g in enumerate(gradients, 1):
        mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g * g
        weights = weights - rate * (mean / (1 - 0.9**t)) / (
            np.sqrt(square / (1 - 0.99**t)) + 1e-8 / np.sqrt(1 - 0.99**t)
        )
    return weights


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-9), (np.float32, 1e-4)])
def test_adam_equals_its_formulas(monkeypatch, dtype, rtol):
    monkeypatch.setattr(training, "ADAM_PIECE", 4)
    rng = np.random.default_rng(0)
    shapes = (10,), (6, 2), (5, 10), (5, 2, 2)
    weights, table, gradients, rows = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    adam = Adam(weights.copy(), {"t": table.copy()})
    for g, r in zip(gradients, rows, strict=True):
        adam.step(g, {"t": (np.array([4, 1]), r)}, 0.1)
    np.testing.assert_allclose(adam.weights, slow_adam(weights, gradients, 0.1), rtol=rtol)
    np.testing.assert_allclose(
        adam.tables["t"][[4, 1]], slow_adam(table[[4, 1]], rows, 0.1), rtol=rtol
    )
    others = [0, 2, 3, 5]
    np.testing.assert_array_equal(adam.tables["t"][others], table[others])
