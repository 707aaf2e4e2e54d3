"""The learning curve: how accurate models are by number of trees, and what more trees will bring.

Models are learnt from m trees and judged on sentences of other documents (cross-fitting). The error
in percent follows an inverse power law of the number of trees,

    100 - score(m) = a + b m^(-c),        a, b >= 0,    c in EXPONENTS

Each c gives a linear least-squares problem in a and b; the best c is kept. Sizes that are not far
from the present one count most (weight m / largest m): a law never holds from the first tree on.

The interval of what `more` trees bring has three parts. Documents that models are judged on are
drawn again (bootstrap), with all sizes of a document together. Two models of m trees differ by the
trees that they happened to learn from: the residuals of the fit are drawn again, inflated by the
parameters that were fitted. And each draw has an exponent of its own. The interval is that of what
will be measured then, not of its mean: two residuals are added to each draw.

References: Hestness et al. (2017) for the law; Efron and Tibshirani (1993), chapter 9, for
bootstraps of residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodValueError

EXPONENTS = np.linspace(0.1, 1.5, 29)
N_DRAWS = 400  # of the bootstrap
LEVEL = 0.9  # of all intervals
LEAST_SIZES = 3  # numbers of trees that a law can be fitted to
N_PARAMETERS = 2.0  # a and b; c is hardly free, since it may take few values


class PowerLaw(NamedTuple):
    """A fitted law, for one curve or, with arrays, for several."""

    a: Any
    b: Any
    c: Any

    def score(self, n_trees: Any) -> Any:
        """The score in percent that the law expects of a number of trees.

        Examples
        --------
        >>> PowerLaw(10.0, 100.0, 0.5).score(100)
        80.0
        """
        return 100.0 - self.a - self.b * n_trees**-self.c


class CrossFitted(NamedTuple):
    """Counts of cross-fitting: what models of several sizes found in each held-out sentence."""

    trees: IntArray  # [k]: number of trees that the models learnt from, rising
    words: IntArray  # [k]: words of these
    document: IntArray  # [n]: the document, or run of neighbours, of each sentence
    matched: FloatArray  # [n, k]: brackets (or words with their head) that were found
    total: FloatArray  # [n, k]: mean of the numbers of right brackets and of brackets said

    def scores(self, weight: FloatArray) -> FloatArray:
        """F1 in percent for weighted documents: [draws, k] for weights of [draws, documents]."""
        groups = np.unique(self.document, return_inverse=True)[1]
        member = np.zeros((int(groups.max()) + 1, len(groups)))
        member[groups, np.arange(len(groups))] = 1.0
        matched, total = weight @ (member @ self.matched), weight @ (member @ self.total)
        return 100.0 * np.divide(matched, total, out=np.zeros_like(matched), where=total > 0)


@dataclass(frozen=True)
class Point:
    """An accuracy that was measured, with an interval."""

    trees: int
    words: int
    score: float
    low: float
    high: float


@dataclass(frozen=True)
class LearningCurve:
    """Measured points, the law behind them, and what more trees are expected to bring.

    Attributes
    ----------
    points
        By number of trees.
    law
        The fitted law; None where there are too few points.
    n_trees
        Trees that there are.
    more_trees, gain, low, high
        Points of score that a number of further trees are expected to bring, with an interval; None
        without a law.
    """

    points: tuple[Point, ...]
    law: PowerLaw | None
    n_trees: int
    more_trees: int
    gain: float | None
    low: float | None
    high: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as the page takes them."""
        expected = {
            "more_trees": self.more_trees, "gain": self.gain, "low": self.low, "high": self.high,
        }  # fmt: skip
        return {
            "points": [vars(point) for point in self.points],
            "expected": None if self.gain is None else expected,
            "message": self.message,
        }

    @property
    def message(self) -> str:
        """What more trees are expected to bring, in one sentence."""
        if self.gain is None:
            return "There are too few trees to say what more of them will bring."
        return (
            f"{self.more_trees} more trees are expected to raise F1 by {self.gain:.1f} points "
            f"({self.low:.1f} to {self.high:.1f})."
        )


def fit_power_law(trees: IntArray, scores: FloatArray) -> PowerLaw:
    """Fit the law of this module to one curve, or to each row of several.

    Parameters
    ----------
    trees : [k]
        Numbers of trees.
    scores : [k] or [draws, k]
        Scores in percent.

    Examples
    --------
    >>> sizes = np.array([20, 50, 100, 200, 400])
    >>> law = fit_power_law(sizes, PowerLaw(12.0, 90.0, 0.4).score(sizes))
    >>> round(float(law.score(800)), 2), round(float(PowerLaw(12.0, 90.0, 0.4).score(800)), 2)
    (81.79, 81.79)
    """
    error = 100.0 - np.atleast_2d(scores)
    weight = trees / trees.max()
    best = np.full(len(error), np.inf)
    found = np.zeros((3, len(error)))
    for c in EXPONENTS:
        a, b = _least_squares(trees**-c, error, weight)
        residual = error - a[:, None] - b[:, None] * trees**-c
        loss = (weight * residual**2).sum(axis=1)
        better = loss < best - 1e-12
        best = np.where(better, loss, best)
        found[:, better] = np.stack([a, b, np.full_like(a, c)])[:, better]
    parts = found[:, 0].tolist() if np.ndim(scores) == 1 else list(found)
    return PowerLaw(*parts)


def _least_squares(
    x: FloatArray, y: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The best a, b >= 0 of y = a + b x for each row of y."""
    w = weight / weight.sum()
    x_mean, y_mean = float(w @ x), y @ w
    b = np.maximum(((y - y_mean[:, None]) @ (w * (x - x_mean))) / (w @ (x - x_mean) ** 2), 0.0)
    a = y_mean - b * x_mean
    through_zero = np.maximum((y @ (w * x)) / (w @ x**2), 0.0)  # where a would be negative
    return np.maximum(a, 0.0), np.where(a < 0.0, through_zero, b)


def learning_curve(
    counts: CrossFitted, n_trees: int, more_trees: int = 100, seed: int = 0
) -> LearningCurve:
    """The curve of cross-fitted counts, and what more trees are expected to bring.

    Parameters
    ----------
    counts
        At least `LEAST_SIZES` sizes for a law.
    n_trees
        Trees that there are now; models of all of them are not judged, since none are left.
    more_trees
        The number of further trees that the expectation is about.
    seed
        Seed of the bootstrap.
    """
    if len(counts.document) == 0:
        raise SapwoodValueError(
            "a learning curve needs held-out sentences, and there is none",
            hint="accept more trees first",
        )
    rng = np.random.default_rng(seed)
    n_documents = len(np.unique(counts.document))
    measured = counts.scores(np.ones((1, n_documents)))[0]
    drawn = counts.scores(
        rng.multinomial(n_documents, np.full(n_documents, 1 / n_documents), N_DRAWS).astype(float)
    )
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    points = tuple(
        Point(int(m), int(w), *(round(float(v), 2) for v in values))
        for m, w, *values in zip(counts.trees, counts.words, measured, low, high, strict=True)
    )
    if len(counts.trees) < LEAST_SIZES:
        return LearningCurve(points, None, n_trees, more_trees, None, None, None)
    law = fit_power_law(counts.trees, measured)
    gains = _drawn_gains(counts.trees, measured, law, drawn - measured, (n_trees, more_trees), rng)
    gain = float(law.score(n_trees + more_trees) - law.score(n_trees))
    ends = np.quantile(gains, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return LearningCurve(
        points, law, n_trees, more_trees, round(gain, 2),
        round(max(0.0, min(ends[0], gain)), 2), round(max(ends[1], gain), 2),
    )  # fmt: skip


def _drawn_gains(
    trees: IntArray,
    measured: FloatArray,
    law: PowerLaw,
    by_document: FloatArray,
    sizes: tuple[int, int],
    rng: np.random.Generator,
) -> FloatArray:
    """Gains of `more` trees under laws that are fitted to curves drawn again."""
    k, (n_trees, more) = len(trees), sizes
    fitted = law.score(trees)
    spare = max(k - N_PARAMETERS, 1.0)
    spread = float(np.sqrt(((measured - fitted) ** 2).sum() / spare))
    noise = rng.normal(0.0, spread, (len(by_document), k))
    laws = fit_power_law(trees, fitted + by_document + noise)
    gains = laws.score(n_trees + more) - laws.score(n_trees)
    # both models, of now and of then, have learnt from trees that happened to come
    return np.asarray(gains + rng.normal(0.0, spread * np.sqrt(2.0), len(noise)), float)


def curve_sizes(largest: int, least: int = 10, n_sizes: int = 6) -> list[int]:
    """Numbers of trees that cross-fitted models learn from: equal ratios up to the largest.

    Examples
    --------
    >>> curve_sizes(150), curve_sizes(12), curve_sizes(1)
    ([10, 17, 30, 51, 87, 150], [10, 11, 12], [1])
    """
    smallest = max(1, min(least, largest), largest // 32)
    return sorted({round(float(size)) for size in np.geomspace(smallest, largest, n_sizes)})
