import numpy as np
import pytest

from sapwood.networks import parameters
from sapwood.networks.parameters import Adam, Parameters, clip


def slow_adam(weights, gradients, rate):
    """The formulas of the paper, step by step."""
    mean = square = np.zeros_like(weights)
    for t, g in enumerate(gradients, 1):
        mean, square = 0.9 * mean + 0.1 * g, 0.99 * square + 0.01 * g * g
        weights = weights - rate * (mean / (1 - 0.9**t)) / (
            np.sqrt(square / (1 - 0.99**t)) + 1e-8 / np.sqrt(1 - 0.99**t)
        )
    return weights


def test_adam_equals_its_formulas(monkeypatch):
    monkeypatch.setattr(parameters, "AT_ONCE", 4)
    rng = np.random.default_rng(0)
    weights, table = rng.normal(size=10), rng.normal(size=(6, 2))
    gradients, rows = rng.normal(size=(5, 10)), rng.normal(size=(5, 2, 2))
    adam = Adam(weights.copy(), {"t": table.copy()})
    for g, r in zip(gradients, rows, strict=True):
        adam.step(g, {"t": (np.array([4, 1]), r)}, 0.1)
    np.testing.assert_allclose(adam.weights, slow_adam(weights, gradients, 0.1), atol=1e-12)
    np.testing.assert_allclose(adam.tables["t"][[4, 1]], slow_adam(table[[4, 1]], rows, 0.1))
    others = [0, 2, 3, 5]
    np.testing.assert_array_equal(adam.tables["t"][others], table[others])


def test_gradients_are_scaled_together():
    a, b = np.array([3.0]), np.array([[0.0, 4.0]])
    assert clip([a, b], 2.5) == 5
    np.testing.assert_allclose(a, [1.5])
    np.testing.assert_allclose(b, [[0.0, 2.0]])
    assert clip([a, b], 10) == pytest.approx(2.5)
    np.testing.assert_allclose(a, [1.5])


def test_arrays_share_one_vector():
    P = Parameters({"W": (2, 2), "b": (2,)}, np.float64)
    P["W"][:] = 1
    assert P.flat.tolist() == [1, 1, 1, 1, 0, 0]
    assert list(P) == ["W", "b"]
    assert len(P.zeros()) == 2
    assert not P.zeros().flat.any()
    assert P.blank().shapes == P.shapes
