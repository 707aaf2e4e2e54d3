"""Signals combined into one score by logistic regression, and the precision to expect of scores.

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray

PRIOR_ERRORS, PRIOR_PAIRS = 2.0, 100.0  # a Beta prior of the error rate, with mean 1 % of each
# Power of a probability: 0 is errors at random, 1 errors as models make them. Between the two, by
# the judged findings of CRAFT (docs/papers/audit-craft.md).
CONFUSABLE = 0.5
LEAST_CONFUSED = 0.0025
CONFIDENCE_Z = 1.645  # one-sided, 95 %


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


def fit_combiner(x: FloatArray, y: FloatArray, *, ridge: float = 1.0) -> Combiner:
    """Fit a logistic regression by its penalised likelihood.

        minimise  sum over i of  log(1 + exp(-(2 y_i - 1) s_i))  +  ridge / 2 |w|^2

    Parameters
    ----------
    x
        Signals, shape [n, d].
    y
        1 for an error, else 0.
    """
    from scipy.optimize import minimize

    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    z = np.hstack([(x - mean) / scale, np.ones((len(x), 1))])
    penalty = np.append(np.full(x.shape[1], ridge), 0.0)

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
) -> FloatArray:
    """Expected fraction of real errors among all places with at least each score.

        odds(s)  =  eps N P1(s) / n(s)
        precision(s)  =  odds(s) / (1 + odds(s)),  at most  k(s) / (k(s) + 1)

    n(s) is the number of places of the treebank with at least the score s, k(s) the number of
    planted errors that were found with at least this score, and P1(s) a lower confidence bound of
    their weighted fraction. Which places of the treebank are errors is not known, so that all of
    them stand in the denominator, beside the errors to expect. A precision never rises towards
    lower scores: the pool-adjacent-violators algorithm makes the curve monotone.

    Parameters
    ----------
    scores
        Of the places of the treebank itself, in any order.
    planted
        Scores of all planted errors; `-inf` of those that were not found.
    weights
        How often each planted error stands for real ones; see `weight_of_planted`.
    n_nodes
        Number of brackets and tags of the treebank.
    """
    if not len(scores):
        return np.empty(0)
    if not len(planted):
        return np.full(len(scores), np.nan)
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    below = np.argsort(planted, kind="stable")
    at = np.searchsorted(planted[below], ranked, side="left")
    weight = weights[below]
    above = np.append(np.cumsum(weight[::-1])[::-1], 0.0)[at] / weight.sum()
    p1 = lower_bound(above, weight.sum() ** 2 / (weight @ weight))
    places = np.searchsorted(-ranked, -ranked, side="right")  # equal scores stand together
    errors, found = error_rate * n_nodes * p1, len(planted) - at
    raw = np.minimum(errors / (errors + places), found / (found + 1.0))
    smooth = falling(raw, np.ones(len(raw)))
    out = np.empty(len(scores))
    out[order] = smooth
    return out


def weight_of_planted(probability: float) -> float:
    """How often a planted error stands for real ones, from what models make of it.

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
    x: FloatArray, y: FloatArray, group: IntArray, *, n_parts: int = 2, ridge: float = 1.0
) -> tuple[list[Combiner], FloatArray]:
    """Combiners of all but one part of the groups each, and scores by the one that left it out.

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
