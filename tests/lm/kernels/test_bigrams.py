"""Expected states between two words, against the formulas."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sapwood.lm.kernels.bigrams import expect_bigram_states, pair_probabilities


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 4))
def test_expected_counts_are_those_of_the_formulas(seed: int, n: int, m: int) -> None:
    rng = np.random.default_rng(seed)
    c = rng.poisson(1.0, (n, n + 1)).astype(float)
    r, s = rng.dirichlet(np.ones(m), n), rng.dirichlet(np.ones(n + 1), m).T.copy()
    x, y = np.nonzero(c)
    starts = np.searchsorted(x, np.arange(n + 1))
    after, before = np.zeros_like(r), np.zeros_like(s)
    value = expect_bigram_states(starts, y, c[x, y], r, s, after, before)
    p = r @ s.T
    joint = c[:, :, None] * r[:, None] * s[None] / p[:, :, None]
    np.testing.assert_allclose(after, joint.sum(axis=1), rtol=1e-10)
    np.testing.assert_allclose(before * s, joint.sum(axis=0), rtol=1e-10)
    np.testing.assert_allclose(value, (c * np.log(p)).sum(), rtol=1e-10)
    out = np.empty(len(x))
    pair_probabilities(x, y, r, s, out)
    np.testing.assert_allclose(out, p[x, y], rtol=1e-12)
