"""Products with feature rows against sparse matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from sapwood.constituency.learn.kernels.features import gather, scatter

TINY = 1e-12  # sums of at most a few hundred numbers of size 1


def case(
    seed: int, n_nodes: int, n_templates: int, n_features: int
) -> tuple[np.ndarray, np.ndarray, csr_array]:
    """Feature numbers and scales, each template with features of its own, and Phi itself."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, n_features, (n_nodes, n_templates))
    ids = (own + n_features * np.arange(n_templates)).astype(np.uint32)
    w = rng.normal(size=n_features * n_templates)
    w[rng.random(len(w)) < 0.2] = 0.0
    rows = np.repeat(np.arange(n_nodes), n_templates)
    phi = csr_array((w[ids.ravel()], (rows, ids.ravel())), shape=(n_nodes, len(w)))
    return ids, w, phi


@given(
    seed=st.integers(0, 1000),
    n_nodes=st.integers(0, 30),
    n_templates=st.integers(1, 5),
    n_columns=st.integers(1, 9),
)
def test_gather_and_scatter(seed: int, n_nodes: int, n_templates: int, n_columns: int) -> None:
    ids, w, phi = case(seed, n_nodes, n_templates, 7)
    rng = np.random.default_rng(seed)
    matrix, rows = rng.normal(size=(len(w), n_columns)), rng.normal(size=(n_nodes, n_columns))
    out = np.full((n_nodes, n_columns), np.nan)  # whatever stood there
    gather(ids, w, matrix, out)
    np.testing.assert_allclose(out, phi @ matrix, rtol=0, atol=TINY)
    total = np.ones((len(w), n_columns))
    scatter(ids, w, rows, total)
    np.testing.assert_allclose(total, 1.0 + phi.T @ rows, rtol=0, atol=TINY)


def test_scatter_is_the_transpose_of_gather() -> None:
    ids, w, _ = case(0, 200, 4, 50)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(len(w), 1)), rng.normal(size=(200, 1))
    forward, back = np.empty((200, 1)), np.zeros((len(w), 1))
    gather(ids, w, x, forward)
    scatter(ids, w, y, back)
    assert (forward * y).sum() == pytest.approx((x * back).sum(), rel=1e-12)


def test_a_mutant_without_scales_differs() -> None:
    ids, w, phi = case(1, 50, 3, 20)
    matrix, out = np.ones((len(w), 2)), np.empty((50, 2))
    gather(ids, np.ones_like(w), matrix, out)
    assert np.abs(out - phi @ matrix).max() > 0.1


def test_features_of_scale_zero_are_not_read() -> None:
    """A feature may be left out by its scale, whatever its row holds."""
    matrix = np.array([[1.0], [np.nan]])
    out = np.empty((1, 1))
    gather(np.array([[0, 1]], np.uint32), np.array([2.0, 0.0]), matrix, out)
    assert out[0, 0] == 2.0
