"""The expected precision of an audit: errors that stand out, and errors that do not.

First statement (docs/concepts/audit.md): let n(s) places of a treebank score at least s, let errors
come to its N brackets and tags with rate eps, and let an error of weight w be w times as frequent
among them as among planted errors. Then eps N P1(s) / (n(s) + eps N P1(s)), with P1(s) the weighted
fraction of planted errors with a score of at least s, is the fraction of these errors among all
places with at least the score s. Where the errors are among the n(s) places, it is a lower bound.

Second statement: where errors score as planted ones do, and other places by a mixture of two normal
distributions, the expected precision is the true one, whatever the error rate; and without errors
it is next to nothing.

Third statement: where real errors are harder to see than the weights of planted ones say, fewer
places stand out than errors should. The least power of the weights by which no more errors are
expected than places makes the expected precision a lower bound of the true one again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sapwood.auditing.combine import (
    expected_precision,
    hidden_precision,
    less_conspicuous,
    planted_like_posterior,
    planted_like_rate,
)
from sapwood.core.arrays import FloatArray

N, RATE, PLANTED, SEEN = 40_000, 0.02, 5000, 0.5
CUTS = np.array([100, 200, 400, 800, 1600])
Estimate = Callable[[FloatArray, FloatArray, FloatArray, int, float], FloatArray]


def errors(n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Scores of planted errors and how often each stands for a real one: the harder, the more."""
    hard = rng.random(n) < 0.3
    return rng.normal(size=n) + np.where(hard, 1.0, 3.0), np.where(hard, 1.0, 0.2)


def true_and_expected(
    estimate: Estimate, seed: int, *, is_among: bool = False
) -> tuple[FloatArray, FloatArray]:
    """True and expected precision at some cuts, of errors beside the places or among them."""
    rng = np.random.default_rng(seed)
    planted, weights = errors(PLANTED, rng)
    planted[planted < SEEN] = -np.inf  # no candidate is about them
    scores, w = errors(int(RATE * N) * 10, rng)
    chosen = rng.choice(len(scores), int(RATE * N), replace=False, p=w / w.sum())
    real, others = scores[chosen], rng.normal(size=N)
    places = np.concatenate([real, others]) if is_among else others
    places = places[places > SEEN]
    order = np.argsort(-places)
    cuts = places[order][CUTS - 1]
    n_errors = np.array([(real >= cut).sum() for cut in cuts])
    true = n_errors / (CUTS if is_among else CUTS + n_errors)
    return true, estimate(places, planted, weights, N, RATE)[order][CUTS - 1]


def means(estimate: Estimate, *, is_among: bool = False) -> tuple[FloatArray, FloatArray]:
    """Means over seeds of the true and the expected precision at each cut."""
    found = [true_and_expected(estimate, seed, is_among=is_among) for seed in range(8)]
    true, expected = np.mean(found, axis=0)
    return true, expected


def is_true(estimate: Estimate) -> bool:
    """Whether expected precisions are the true ones, and nowhere more than these."""
    true, expected = means(estimate)
    # the confidence bound of 5,000 planted errors takes away about 0.02
    return bool((np.abs(true - expected) < 0.04).all() and (expected < true + 0.01).all())


def without_weights(
    scores: FloatArray, planted: FloatArray, weights: FloatArray, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: errors that models never make count as much as those that are easily made."""
    return hidden_precision(scores, planted, np.ones(len(planted)), n_nodes, error_rate)


def without_planted_that_were_missed(
    scores: FloatArray, planted: FloatArray, weights: FloatArray, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: the fraction of planted errors is taken among those found."""
    found = np.isfinite(planted)
    return hidden_precision(scores, planted[found], weights[found], n_nodes, error_rate)


def by_candidates(
    scores: FloatArray, planted: FloatArray, weights: FloatArray, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: candidates take the place of all brackets and tags."""
    return hidden_precision(scores, planted, weights, len(scores), error_rate)


def as_if_all_were_errors(
    scores: FloatArray, planted: FloatArray, weights: FloatArray, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: the places of the treebank are not counted beside the errors."""
    p = hidden_precision(scores, planted, weights, n_nodes, error_rate)
    return np.minimum(1.0, p / (1 - p))


def test_the_expected_precision_is_that_of_errors_that_come_to_the_places() -> None:
    assert is_true(hidden_precision)


@pytest.mark.parametrize(
    "mutant",
    [without_weights, without_planted_that_were_missed, by_candidates, as_if_all_were_errors],
)
def test_a_mutant_is_noticed(mutant: Estimate) -> None:
    assert not is_true(mutant)


def test_among_the_places_it_is_a_lower_bound_of_at_least_half() -> None:
    true, expected = means(hidden_precision, is_among=True)
    assert (expected < true).all()
    assert (expected > 0.45 * true).all()


@pytest.mark.parametrize("n_planted", [1, 10, 1000])
def test_no_number_of_planted_errors_makes_a_finding_certain(n_planted: int) -> None:
    scores, planted = np.array([3.0, 2.0]), np.full(n_planted, 5.0)
    found = expected_precision(scores, planted, np.ones(n_planted), 10**9, 0.5)
    assert found.max() <= n_planted / (n_planted + 1)


PLACES = 5000
DEPTHS = np.array([50, 100, 200, 400, 800, 1600])
Posterior = Callable[[FloatArray, FloatArray, int, float], FloatArray]


def standing_out(n_errors: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores of places, whether each is an error, and scores of planted errors."""
    rng = np.random.default_rng(seed)
    planted = rng.normal(1.0, 2.0, PLANTED)
    planted[: PLANTED // 10] = -np.inf  # no candidate is about them
    real, n = rng.normal(1.0, 2.0, n_errors), PLACES - n_errors
    others = np.where(rng.random(n) < 0.6, rng.normal(-4.0, 1.3, n), rng.normal(-6.0, 2.2, n))
    places = np.concatenate([real, others])
    return places, np.arange(PLACES) < n_errors, planted


def distance(posterior: Posterior, n_errors: int) -> float:
    """Largest distance of expected from true precision at some depths, in the mean of seeds."""
    rows = []
    for seed in range(4):
        places, is_error, planted = standing_out(n_errors, seed)
        order = np.argsort(-places)
        like = posterior(places, planted, N, 1.0)[order]
        rows.append([(like[:n].mean(), is_error[order][:n].mean()) for n in DEPTHS])
    found = np.mean(rows, axis=0)
    return float(np.abs(found[:, 0] - found[:, 1]).max())


@pytest.mark.parametrize("n_errors", [0, 200, 600, 1500])
def test_errors_that_stand_out_are_counted_without_an_error_rate(n_errors: int) -> None:
    # 800 places that were drawn leave a standard error of about 0.02
    assert distance(planted_like_posterior, n_errors) < 0.06
    places, _, planted = standing_out(n_errors, 0)
    assert planted_like_rate(places, planted, N) == pytest.approx(n_errors / 0.9 / N, abs=0.004)


def with_one_fraction(
    scores: FloatArray, planted: FloatArray, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: the fraction of errors is assumed, not fitted."""
    return planted_like_posterior(scores, planted, n_nodes, min(error_rate, 0.005))


def as_if_planted_were_real(
    scores: FloatArray, planted: FloatArray, n_nodes: int, error_rate: float
) -> FloatArray:
    """A mutant: the posterior in a copy whose errors are the planted ones."""
    both = np.concatenate([scores, planted[np.isfinite(planted)]])
    return planted_like_posterior(both, planted, n_nodes, error_rate)[: len(scores)]


@pytest.mark.parametrize("mutant", [with_one_fraction, as_if_planted_were_real])
def test_a_wrong_fraction_of_errors_is_noticed(mutant: Posterior) -> None:
    assert max(distance(mutant, n) for n in (200, 1500)) > 0.15


@pytest.mark.parametrize("rate", [0.001, 0.005])
def test_no_more_errors_are_expected_than_the_error_rate_allows(rate: float) -> None:
    places, _, planted = standing_out(600, 0)
    like = planted_like_posterior(places, planted, N, rate)
    # the fraction is held, its posterior is drawn to the larger number of places that stand out
    assert like.sum() <= rate * N * 0.9 * 1.1
    few, many = (
        expected_precision(places, planted, np.ones(len(planted)), N, eps) for eps in (rate, 0.05)
    )
    assert (few <= many).all()
    assert few.mean() < 0.5 * many.mean()


def by_likelihood(n: int, power: float, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Scores of n errors that come with a power of the probability p that models give them.

    The more probable an error, the lower its score; and the weights that planted ones have.
    """
    p = rng.random(20 * n)
    p = rng.choice(p, n, p=p**power / (p**power).sum())
    return rng.normal(size=n) + 8.0 * (1 - p), np.sqrt(p)


def corrected(seed: int, power: float) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Places of a treebank, whether each is an error, and planted errors with their weights."""
    rng = np.random.default_rng(seed)
    planted, weights = by_likelihood(PLANTED, 0.0, rng)
    real, _ = by_likelihood(int(RATE * N), power, rng)
    places = np.concatenate([real, rng.normal(0.0, 1.2, N)])
    is_error = np.arange(len(places)) < len(real)
    is_seen = places > SEEN
    planted[planted < SEEN] = -np.inf
    return places[is_seen], is_error[is_seen], planted, weights


def excess(estimate: Estimate, power: float) -> FloatArray:
    """Expected less true precision at some depths, in the mean of seeds."""
    rows = []
    for seed in range(4):
        places, is_error, planted, weights = corrected(seed, power)
        order = np.argsort(-places)
        expected = estimate(places, planted, weights, N, RATE)[order]
        rows.append([expected[n - 1] - is_error[order][:n].mean() for n in DEPTHS])
    return np.asarray(np.mean(rows, axis=0))


def hidden_with_power(
    scores: FloatArray, planted: FloatArray, weights: FloatArray, n_nodes: int, error_rate: float
) -> FloatArray:
    """The precision of hidden errors, by weights that allow no more errors than places."""
    power = less_conspicuous(scores, planted, weights, n_nodes, error_rate)
    return hidden_precision(scores, planted, power, n_nodes, error_rate)


@pytest.mark.parametrize("power", [2.0, 4.0])
def test_no_more_errors_are_expected_than_there_are_places(power: float) -> None:
    assert (excess(hidden_with_power, power) < 0.0).all()
    places, _, planted, weights = corrected(0, power)
    found = less_conspicuous(places, planted, weights, N, RATE)
    expected = hidden_precision(places, planted, found, N, RATE)
    assert (expected[np.argsort(-places)][50:] <= 0.501).all()  # at most one error for each place
    assert (expected < hidden_precision(places, planted, weights, N, RATE) + 1e-9).all()


def test_weights_that_are_taken_as_they_are_are_noticed() -> None:
    """A mutant: real errors are as easy to see as the weights say."""
    assert excess(hidden_precision, 4.0).max() > 0.15


def test_weights_stay_where_places_stand_out_as_errors_should() -> None:
    places, _, planted, weights = corrected(0, 0.5)
    assert less_conspicuous(places, planted, weights, N, RATE / 4) is weights


def test_the_limit_is_asked_for() -> None:
    places, _, planted, weights = corrected(0, 4.0)
    plain = expected_precision(places, planted, weights, N, RATE)
    limited = expected_precision(places, planted, weights, N, RATE, is_limited=True)
    assert (limited <= plain + 1e-9).all()
    assert (limited < plain - 0.05).any()
