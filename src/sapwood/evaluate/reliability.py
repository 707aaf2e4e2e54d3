"""Can the probabilities of constituents be believed? Calibration of posteriors.

Notation
--------
    p[i]       probability that a parser gave to phrase i
    y[i]       1 when the gold tree has the phrase, else 0
    k          bin: the phrases with p in [k/B, (k+1)/B); p = 1 is in the last
    n[k]       phrases in bin k;  N, phrases in all
    ece        sum over k of  n[k] / N * | mean p - mean y |      (means over bin k)
    brier      mean of (p - y)^2

A parser is calibrated when, of the phrases that it gives probability p, a share p is right. Even
then `ece` is above 0, as shares of finitely many phrases vary; `chance` is what a calibrated parser
would get on the average, were its phrases independent:

    chance     sum over k of  n[k] / N * sqrt(2 / pi) * sd[k],   sd[k]^2 = sum p (1 - p) / n[k]^2
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.corpus.tree import ROOT_LABELS, Tree, clean
from sapwood.errors import SapwoodError

N_BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Phrases whose probability lies in `[low, high)`; the last bin contains 1.

    `probability` and `correct` are the mean probability and the share that is right; None where
    `count` is 0.
    """

    low: float
    high: float
    count: int
    probability: float | None
    correct: float | None


@dataclass(frozen=True, slots=True)
class Reliability:
    """What `calibration` found; the symbols are those of the module.

    Attributes
    ----------
    bins
        From 0 to 1, of equal width.
    count, probability, correct
        Number of phrases, their mean probability, and the share that is right.
    ece, chance, brier
        Expected calibration error, what a calibrated parser would get by chance, Brier score.
    """

    bins: list[Bin]
    count: int
    probability: float
    correct: float
    ece: float
    chance: float
    brier: float

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers."""
        return asdict(self)


def calibration(
    probability: npt.ArrayLike, is_correct: npt.ArrayLike, *, n_bins: int = N_BINS
) -> Reliability:
    """Compare probabilities with what turned out to be right.

    Parameters
    ----------
    probability : [N]
        In [0, 1].
    is_correct : [N]
        Whether each came true.
    n_bins
        Bins of equal width.

    Raises
    ------
    SapwoodError
        When there is nothing to compare, the lengths differ, or a number is no probability.

    Notes
    -----
    Cost: O(N). The bins, and so `ece`, depend on `n_bins`; `brier` does not.

    Examples
    --------
    >>> sure = calibration([0.9, 0.9, 0.9, 0.9], [True, True, True, False])
    >>> round(sure.ece, 6), round(sure.brier, 6), sure.bins[-1].count
    (0.15, 0.21, 4)
    """
    p, y = _check_pairs(probability, is_correct, n_bins)
    k = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    n = np.bincount(k, minlength=n_bins)
    sum_p, sum_y, variance = (
        np.bincount(k, weights=w, minlength=n_bins) for w in (p, y, p * (1 - p))
    )
    # n/N * |mean p - mean y| = |sum p - sum y| / N, and likewise for the standard deviation.
    return Reliability(
        bins=_bins(n, sum_p, sum_y),
        count=len(p),
        probability=float(p.mean()),
        correct=float(y.mean()),
        ece=float(np.abs(sum_p - sum_y).sum() / len(p)),
        chance=float(np.sqrt(2 / np.pi * variance).sum() / len(p)),
        brier=float(np.mean((p - y) ** 2)),
    )


def graded(
    gold: Tree, phrases: Iterable[tuple[str, int, int, float]], *, raw: bool = False
) -> list[tuple[float, bool]]:
    """The probability of each phrase, and whether the gold tree has it.

    A phrase is right when the gold tree has one with its label over exactly its words. Unlike EVALB
    this does not overlook punctuation: the probability is of the very span.

    Parameters
    ----------
    gold
        The right tree of the sentence.
    phrases
        Label, start, end (half-open, over all words) and probability; a repeated label over the
        same words counts once.
    raw
        Whether to take the gold tree as it is, instead of cleaning it first.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (NNS dogs)) (VP (VBP bark)))")
    >>> graded(tree, [("NP", 0, 1, 0.9), ("NP", 1, 2, 0.2)])
    [(0.9, True), (0.2, False)]
    """
    tree = gold if raw else clean(gold)
    if tree is None:
        return []
    nodes = zip(tree.nodes(), tree.spans(), strict=True)
    right = {
        span
        for node, span in nodes
        if not node.is_preterminal and not (node is tree and node.label in ROOT_LABELS)
    }
    found = {(label, i, j): p for label, i, j, p in phrases}
    return [(p, span in right) for span, p in found.items()]


def _check_pairs(
    probability: npt.ArrayLike, is_correct: npt.ArrayLike, n_bins: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    p, y = np.asarray(probability, np.float64), np.asarray(is_correct, np.float64)
    if n_bins < 1:
        msg = f"expected at least one bin, found {n_bins}"
        raise SapwoodError(msg, hint="10 is customary")
    if p.ndim != 1 or p.shape != y.shape or not p.size:
        msg = f"expected as many answers as probabilities, found {y.size:,} for {p.size:,}"
        raise SapwoodError(msg, hint="give one or more probabilities, each with its answer")
    wrong = ~((p >= 0) & (p <= 1))  # NaN is wrong too
    if wrong.any():
        msg = f"expected probabilities from 0 to 1, found {p[wrong][0]:g}"
        raise SapwoodError(msg, hint="log-probabilities must be exponentiated first")
    return p, y


def _bins(n: npt.NDArray[Any], sum_p: npt.NDArray[Any], sum_y: npt.NDArray[Any]) -> list[Bin]:
    n_bins = len(n)
    return [
        Bin(
            low=k / n_bins,
            high=(k + 1) / n_bins,
            count=int(n[k]),
            probability=float(sum_p[k] / n[k]) if n[k] else None,
            correct=float(sum_y[k] / n[k]) if n[k] else None,
        )
        for k in range(n_bins)
    ]
