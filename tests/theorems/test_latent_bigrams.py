"""PIVOT, section 8: the latent bigram model is recovered from exact bigrams by pivot words."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from sapwood.lm.learn.pivot import pivot_states

FloatArray = np.ndarray


def separable_model(rng: np.random.Generator, m: int, n: int) -> tuple[FloatArray, FloatArray]:
    """r with a pivot word for each state, s of full rank."""
    r = rng.dirichlet(np.ones(m), n)
    r[rng.permutation(n)[:m]] = np.eye(m)
    return r, rng.dirichlet(np.ones(n), m).T


def conditional(r: FloatArray, s: FloatArray) -> FloatArray:
    return r @ s.T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("m", [2, 4, 7])
def test_a_separable_model_is_recovered_from_exact_bigrams(seed: int, m: int) -> None:
    """p(y | x) = sum over h of r(h | x) s(y | h); each state has a word x with r(h | x) = 1."""
    rng = np.random.default_rng([seed, m])
    n = 30
    r, s = separable_model(rng, m, n)
    bigrams = rng.dirichlet(np.ones(n))[:, None] * conditional(r, s)
    found, columns = pivot_states(sparse.csr_array(bigrams), m, least=0.0, ridge=0.0)
    np.testing.assert_allclose(conditional(found.posterior, columns), conditional(r, s), atol=1e-8)
    # The states themselves, up to their order.
    order = [int(np.argmin(np.abs(s - columns[:, [h]]).sum(axis=0))) for h in range(m)]
    assert sorted(order) == list(range(m))
    np.testing.assert_allclose(found.posterior, r[:, order], atol=1e-8)


def test_a_model_without_pivots_is_not() -> None:
    """The mutant: no word is certain of its state."""
    rng = np.random.default_rng(3)
    r, s = rng.dirichlet(np.full(4, 5.0), 30), rng.dirichlet(np.ones(30), 4).T
    bigrams = rng.dirichlet(np.ones(30))[:, None] * conditional(r, s)
    found, columns = pivot_states(sparse.csr_array(bigrams), 4, least=0.0, ridge=0.0)
    assert np.abs(conditional(found.posterior, columns) - conditional(r, s)).max() > 1e-4
