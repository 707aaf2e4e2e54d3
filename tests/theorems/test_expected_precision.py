"""The expected precision of an audit is the true one where errors look like planted errors.

Statement (docs/concepts/audit.md): let N places hold errors with rate eps, let planted errors have
the scores of real ones, and let n(s) be the number of places with a score of at least s. Then
eps N P1(s) / n(s) estimates the fraction of errors among these places without bias.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sapwood.auditing.combine import expected_precision
from sapwood.core.arrays import FloatArray

N, RATE = 40_000, 0.02
Estimate = Callable[[FloatArray, FloatArray, int, int, float], FloatArray]


def true_and_expected(estimate: Estimate, seed: int) -> tuple[FloatArray, FloatArray]:
    """True and expected precision among the first 100, 200, 400, 800 and 1,600 places."""
    rng = np.random.default_rng(seed)
    is_error = rng.random(N) < RATE
    scores = rng.normal(size=N) + 2.5 * is_error
    seen = scores > 0.5  # candidates; the other places are never looked at
    # three in four planted errors are found at all, as are real ones
    planted = rng.normal(size=5000) + 2.5
    expected = estimate(scores[seen], planted[planted > 0.5], 5000, N, RATE)
    order = np.argsort(-scores[seen])
    cuts = np.array([100, 200, 400, 800, 1600])
    precision = np.cumsum(is_error[seen][order])[cuts - 1] / cuts
    return precision, expected[order][cuts - 1]


def without_planted_that_were_missed(
    scores: FloatArray, planted: FloatArray, n_planted: int, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: the fraction of planted errors is taken among those found."""
    return expected_precision(scores, planted, 2 * len(planted) // 2, n_nodes, 2 * error_rate)


def by_candidates(
    scores: FloatArray, planted: FloatArray, n_planted: int, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: candidates take the place of all brackets and tags."""
    return expected_precision(scores, planted, n_planted, len(scores), error_rate)


def largest_error(estimate: Estimate) -> float:
    """Largest difference of the means over seeds of the expected and the true precision."""
    found = [true_and_expected(estimate, seed) for seed in range(5)]
    true, expected = np.mean(found, axis=0)
    return float(np.abs(true - expected).max())


def test_the_expected_precision_is_the_true_one() -> None:
    # the standard error of a mean over 5 times 100 places is about 0.01
    assert largest_error(expected_precision) < 0.03


@pytest.mark.parametrize("mutant", [without_planted_that_were_missed, by_candidates])
def test_a_mutant_is_noticed(mutant: Estimate) -> None:
    assert largest_error(mutant) > 0.1
