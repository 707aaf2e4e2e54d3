"""Signals combined into one score by logistic regression, and the expected precision of scores.

Notation
--------
    x         signals of a place, [n, d]
    y         whether an error was planted there
    s         log-odds of an error: the score by which places are ranked
    eps       assumed fraction of brackets and tags that are wrong
    N         number of brackets and tags
    P1(s)     weighted fraction of planted errors with a score of at least s
    n(s)      number of places with a score of at least s
    k(s)      number of planted errors with a score of at least s
    f1, f0    densities of the scores of planted errors that were found, and of other places
    pi        fraction of the places that are errors with scores like those of planted ones
    r(s)      mean probability of being such an error, of places with a score of at least s
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.training_loops import iterate_em

PRIOR_ERRORS, PRIOR_PAIRS = 2.0, 100.0  # a Beta prior of the error rate, with mean 1 % of each
# Power of a probability: 0 is errors at random, 1 errors as models make them. Between the two, by
# the judged findings of CRAFT (docs/papers/audit-craft.md).
CONFUSABLE = 0.5
LEAST_CONFUSED = 0.0025
CONFIDENCE_Z = 1.645  # one-sided, 95 %
MOST_POWER = 8.0  # of weights: with it, only errors that models find very likely count
LEAST_PLACES = 50  # places, and planted errors, of which densities can be estimated
_CELLS, _EM_ITERATIONS = 400, 300


@dataclass(frozen=True)
class Combiner:
    """A logistic regression over standardised signals.

    s = bias + sum over k of  w_k (x_k - mean_k) / scale_k
    """

    mean: FloatArray
    scale: FloatArray
    weight: FloatArray
    bias: float

    def score(self, x: FloatArray) -> FloatArray:
        """Log-odds of errors, from signals [n, d]."""
        return np.asarray((x - self.mean) / self.scale @ self.weight + self.bias)


def fit_combiner(x: FloatArray, y: FloatArray, *, ridge: float | FloatArray = 1.0) -> Combiner:
    """Fit a logistic regression by its penalised likelihood.

        minimise  sum over i of  log(1 + exp(-(2 y_i - 1) s_i))  +  sum over k of  ridge_k / 2 w_k^2

    Parameters
    ----------
    x
        Signals, shape [n, d].
    y
        1 for an error, else 0.
    ridge
        The penalty of each signal's weight, or one for all.
    """
    from scipy.optimize import minimize

    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    z = np.hstack([(x - mean) / scale, np.ones((len(x), 1))])
    penalty = np.append(np.broadcast_to(ridge, x.shape[1]), 0.0)

    def loss(w: FloatArray) -> tuple[float, FloatArray]:
        s = z @ w
        value = np.logaddexp(0.0, s).sum() - y @ s + 0.5 * penalty @ (w * w)
        p = 0.5 * (1.0 + np.tanh(0.5 * s))
        return float(value), np.asarray(z.T @ (p - y) + penalty * w)

    start = np.zeros(z.shape[1])
    rate = np.clip(y.mean() if len(y) else 0.5, 1e-6, 1 - 1e-6)
    start[-1] = np.log(rate / (1 - rate))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    return Combiner(mean, scale, found[:-1], float(found[-1]))


def expected_precision(
    scores: FloatArray,
    planted: FloatArray,
    weights: FloatArray,
    n_nodes: int,
    error_rate: float,
    *,
    is_limited: bool = False,
) -> FloatArray:
    """Expected fraction of real errors among all places with at least each score.

        precision(s)  =  r(s) + (1 - r(s)) q(s),  at most  k(s) / (k(s) + 1)

    r(s) is the mean of `planted_like_posterior` above s, q(s) is `hidden_precision` for the errors
    that the former does not explain. A precision never rises towards lower scores: the
    pool-adjacent-violators algorithm makes the curve monotone.

    Parameters
    ----------
    scores
        Of the places of the treebank itself, in any order.
    planted
        Scores of all planted errors; `-inf` of those that were not found.
    weights
        How many real errors each planted error represents; see `weight_of_planted`.
    n_nodes
        Number of brackets and tags of the treebank.
    is_limited
        Whether no more hidden errors may be expected than places; see `less_conspicuous`.
    """
    if not len(scores):
        return np.empty(0)
    if not len(planted):
        return np.full(len(scores), np.nan)
    like = planted_like_posterior(scores, planted, n_nodes, error_rate)
    explained = like.sum() / max(np.isfinite(planted).mean(), 1e-9) / n_nodes
    order = np.argsort(-scores, kind="stable")
    r = np.cumsum(like[order]) / np.arange(1, len(scores) + 1)
    rest = max(0.0, error_rate - explained)
    if is_limited:
        weights = less_conspicuous(scores, planted, weights, n_nodes, rest)
    q = hidden_precision(scores, planted, weights, n_nodes, rest)[order]
    found = len(planted) - np.searchsorted(np.sort(planted), scores[order], side="left")
    out = np.empty(len(scores))
    out[order] = falling(np.minimum(r + (1 - r) * q, found / (found + 1.0)), np.ones(len(r)))
    return out


def less_conspicuous(
    scores: FloatArray,
    planted: FloatArray,
    weights: FloatArray,
    n_nodes: int,
    error_rate: float,
) -> FloatArray:
    """The weights of planted errors, to a power by which no more errors are expected than places.

        t  =  the least number from 1 on with  eps N P1_t(s) <= n(s),  where n(s) >= LEAST_PLACES

    P1_t is P1 by the weights to the power t: with larger t, real errors are more like those that
    models make themselves. Where fewer places stand out than real errors are expected, real errors
    must be harder to see than planted ones: the treebank was corrected before. The
    parameters are those of `expected_precision`.
    """
    ranked = np.sort(scores)[::-1][LEAST_PLACES - 1 :]

    def is_possible(power: float) -> bool:
        q = hidden_precision(scores, planted, weights**power, n_nodes, error_rate, ranked)
        return bool((q <= 0.5).all())

    low, high = 1.0, MOST_POWER
    if is_possible(low) or not len(ranked):
        return weights
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if is_possible(middle) else (middle, high)
    return np.asarray(weights**high)


def hidden_precision(
    scores: FloatArray,
    planted: FloatArray,
    weights: FloatArray,
    n_nodes: int,
    error_rate: float,
    at_least: FloatArray | None = None,
) -> FloatArray:
    """Precision of errors whose scores do not stand out, for all places with at least each score.

        odds(s)  =  eps N P1(s) / n(s)
        q(s)  =  odds(s) / (1 + odds(s))

    n(s) is the number of places of the treebank with at least the score s, and P1(s) a lower
    confidence bound of the weighted fraction of planted errors with at least this score. Which
    places of the treebank are errors is not known, so all of them are in the denominator, beside
    the expected errors. The parameters are those of `expected_precision`; `at_least` are the scores
    s, if they are not those of the places.
    """
    ranked = -np.sort(-scores)
    s = scores if at_least is None else at_least
    below = np.argsort(planted, kind="stable")
    weight = weights[below]
    at = np.searchsorted(planted[below], s, side="left")
    above = np.append(np.cumsum(weight[::-1])[::-1], 0.0)[at] / weight.sum()
    p1 = lower_bound(above, weight.sum() ** 2 / (weight @ weight))
    places = np.searchsorted(-ranked, -s, side="right")  # equal scores are adjacent
    errors = error_rate * n_nodes * p1
    return np.asarray(errors / (errors + places))


def planted_like_posterior(
    scores: FloatArray, planted: FloatArray, n_nodes: int, error_rate: float = 1.0
) -> FloatArray:
    """Probability of each place that it is an error with a score like those of planted errors.

        f(s)  =  pi f1(s) + (1 - pi) f0(s),      p(s)  =  pi f1(s) / f(s)

    f1 is the density of planted errors that were found, by a Gaussian kernel; f0, of all other
    places, is a mixture of two normal densities. EM fits f0 and pi to the scores of all places.
    Errors whose scores do not stand out count among the other places.
    Reference: Efron (2008), Microarrays, empirical Bayes and the two-groups model.

    Parameters
    ----------
    error_rate
        Upper bound of the fraction of wrong brackets and tags, which bounds pi.
    """
    found = planted[np.isfinite(planted)]
    if len(scores) < LEAST_PLACES or len(found) < LEAST_PLACES:
        return np.zeros(len(scores))
    edges = np.linspace(min(scores.min(), found.min()), max(scores.max(), found.max()), _CELLS + 1)
    grid, width = 0.5 * (edges[1:] + edges[:-1]), edges[1] - edges[0]
    n = np.histogram(scores, edges)[0].astype(float)
    smooth = max(1.06 * float(found.std()) * len(found) ** -0.2, width)
    f1 = normal_density(grid, grid, smooth) @ np.histogram(found, edges)[0] / len(found)
    most = error_rate * n_nodes * len(found) / len(planted) / len(scores)

    def expect(now: _Groups) -> tuple[FloatArray, FloatArray]:
        """Probability of each cell's places to be errors, and of the two normal densities."""
        each = now.part * np.stack([normal_density(grid, *one) for one in now.normals()], axis=1)
        f0 = each.sum(axis=1)
        p = now.pi * f1 / (now.pi * f1 + (1 - now.pi) * f0 + 1e-300)
        return p, (1 - p)[:, None] * each / (f0 + 1e-300)[:, None]

    def update(now: _Groups) -> _Groups:
        """The groups that make the counts expected under the present ones most probable."""
        counts = expect(now)
        pi = min(float(n @ counts[0]) / len(scores), most)
        weight = n[:, None] * counts[1]
        total = weight.sum(axis=0) + 1e-9
        mean = weight.T @ grid / total
        spread = np.sqrt((weight * (grid[:, None] - mean) ** 2).sum(axis=0) / total + width**2)
        return _Groups(pi, total / total.sum(), mean, spread)

    middle, wide = np.median(scores) + np.array([0.0, 1.0]), max(float(scores.std()), width)
    start = _Groups(min(0.05, most), np.full(2, 0.5), middle, np.full(2, wide))
    p, _ = expect(iterate_em(update, start, _EM_ITERATIONS))
    rising = falling(p[::-1], n[::-1] + 1e-9)[::-1]
    return np.asarray(np.interp(scores, grid, rising))


class _Groups(NamedTuple):
    """The fraction of errors that stand out, and two normal densities of all other places."""

    pi: float
    part: FloatArray
    mean: FloatArray
    spread: FloatArray

    def normals(self) -> Iterator[tuple[float, float]]:
        """Mean and spread of each normal density."""
        return zip(self.mean.tolist(), self.spread.tolist(), strict=True)


def planted_like_rate(scores: FloatArray, planted: FloatArray, n_nodes: int) -> float:
    """Fraction of brackets and tags that are errors like planted ones, found or not."""
    found = np.isfinite(planted).mean() if len(planted) else 0.0
    like = planted_like_posterior(scores, planted, n_nodes).sum()
    return float(like / (found * n_nodes)) if found else 0.0


def normal_density(x: FloatArray, mean: FloatArray | float, spread: float) -> FloatArray:
    """Density of normal distributions, [n] or for several means [n, k]."""
    z = (np.subtract.outer(x, mean)) / spread
    return np.asarray(np.exp(-0.5 * z * z) / (spread * np.sqrt(2 * np.pi)))


def weight_of_planted(probability: float) -> float:
    """How many real errors a planted error represents, by the probability that models give to it.

    People err where a sentence is hard, and there models err too. Errors are planted everywhere,
    most of them where models are sure: these count less, by a power of the probability that models
    give to what was planted.

    Examples
    --------
    >>> weight_of_planted(0.25), round(weight_of_planted(0.0), 3)
    (0.5, 0.05)
    """
    return float(max(probability, LEAST_CONFUSED) ** CONFUSABLE)


def lower_bound(fraction: FloatArray, n: float) -> FloatArray:
    """Wilson's lower confidence bound of fractions of n observations.

    Examples
    --------
    >>> lower_bound(np.array([0.0, 0.5, 1.0]), 100).round(3)
    array([0.   , 0.419, 0.974])
    """
    z2 = CONFIDENCE_Z * CONFIDENCE_Z
    spread = np.sqrt(fraction * (1 - fraction) / n + z2 / (4 * n * n))
    return np.asarray((fraction + z2 / (2 * n) - CONFIDENCE_Z * spread) / (1 + z2 / n)).clip(0.0)


def falling(values: FloatArray, weights: FloatArray) -> FloatArray:
    """The closest sequence that never rises, in weighted squares (pool adjacent violators).

    Examples
    --------
    >>> falling(np.array([1.0, 0.4, 0.6, 0.1]), np.ones(4))
    array([1. , 0.5, 0.5, 0.1])
    """
    pools: list[list[float]] = []  # mean, weight, number
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pools.append([value, weight, 1])
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            mean, w, n = pools.pop()
            before = pools[-1]
            total = before[1] + w
            pools[-1] = [(before[0] * before[1] + mean * w) / total, total, before[2] + n]
    return np.repeat([pool[0] for pool in pools], [int(pool[2]) for pool in pools])


def estimate_error_rate(n_pairs: float, n_different: float) -> float:
    """Fraction of wrong annotations, from pairs of places with the same words.

    Of two annotations of the same words in the same context that differ, one is wrong: half of the
    fraction that differs, shrunk towards 1 % where few places repeat.

    Examples
    --------
    >>> estimate_error_rate(0, 0), round(estimate_error_rate(10_000, 600), 4)
    (0.01, 0.0298)
    """
    return 0.5 * (n_different + PRIOR_ERRORS) / (n_pairs + PRIOR_PAIRS)


def cross_fit(
    x: FloatArray,
    y: FloatArray,
    group: IntArray,
    *,
    n_parts: int = 2,
    ridge: float | FloatArray = 1.0,
) -> tuple[list[Combiner], FloatArray]:
    """Combiners that each leave out one part of the groups, and the scores of that part.

    Parameters
    ----------
    group
        The document (or the part itself) of each row; rows of a group stay together.
    """
    part = group % n_parts
    combiners, scores = [], np.zeros(len(x))
    for k in range(n_parts):
        inside = part == k
        combiner = fit_combiner(x[~inside], y[~inside], ridge=ridge)
        combiners.append(combiner)
        scores[inside] = combiner.score(x[inside])
    return combiners, scores
