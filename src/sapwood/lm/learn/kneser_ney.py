"""`KneserNey`: interpolated Kneser-Ney smoothing, with one discount for an order or with three.

Notation (Chen and Goodman 1999)
--------------------------------
    a(c w)    count of an n-gram; below the highest order, of the different words it follows
    D(a)      what is taken off a count: by one number, or apart for counts 1, 2, and 3 or more
    A(c)      sum of a(c w) over w
    g(c)      sum of D(a(c w)) over w, by A(c)

    p(w | c) = (a(c w) - D(a(c w))) / A(c) + g(c) p(w | c without its first word)

The lowest order is interpolated with the uniform distribution over all words that can follow.
N-grams at the start of a sentence follow nothing: their own counts are taken at every order.
Counts may be 0, for n-grams that were held out: they get what the lower order gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.learner import FLAG, parameter, positional, whole
from sapwood.lm.data.ngram_files import CountsLike
from sapwood.lm.data.ngrams import NgramCounts, first_of_runs
from sapwood.lm.data.plain_text import END, NOTHING, START
from sapwood.lm.learn.language_learner import LanguageEstimator
from sapwood.lm.model.ngram_model import LOG_10, Keys, NgramModel, find_ngrams

MAX_DISCOUNTS = 3
NEVER = -99.0 * LOG_10  # for what is never predicted, as in ARPA files


class Level(NamedTuple):
    """N-grams of one order.

    Attributes
    ----------
    p
        Probability of each.
    g
        Of each context; 1 for those that nothing follows.
    taken : [4]
        The discounts.
    """

    p: FloatArray
    g: FloatArray
    taken: FloatArray


# What pairs of words are interpolated with: of words x, and y after them, p(y | x).
Below = Callable[[IntArray, IntArray], FloatArray]


class KneserNey(LanguageEstimator):
    """N-gram model with Kneser-Ney smoothing.

    Examples
    --------
    >>> model = KneserNey(2).fit([["the", "dog", "barks"], ["the", "cat", "sleeps"]]).model_
    >>> float(np.exp(model.next_log_probs(["the"])).sum().round(6))
    1.0
    """

    order: int = positional(
        default=3, domain=whole(1, 5), words="Words of an n-gram.", kw_only=False
    )
    is_modified: bool = parameter(
        True, FLAG, "Discounts apart for counts of 1, 2 and more; False for one of all counts."
    )

    def fit(self, source: CountsLike) -> Self:
        """Learn from counts of at least this order, or from text.

        Attributes set: `model_`; `discounts_`, for each order those of counts 1, 2 and more.
        """
        self._check_parameters()
        if not isinstance(source, (str, Path, NgramCounts)):
            self._refuse_engine("sentences are counted in this process: give the path of a text")
        counts = self._read(source, self.order)
        record = self._record("kn-mod" if self.is_modified else "kn", counts)
        self.model_ = replace(self.model_of(counts), record=record)
        return self

    def model_of(self, counts: NgramCounts, below: Below | None = None) -> NgramModel:
        """The model of counts, which may be longer than its order.

        Parameters
        ----------
        below
            What pairs are interpolated with; None for single words.
        """
        tries: list[Keys] = []
        levels = [self._lowest(counts)]
        for k in range(1, self.order):
            levels.append(self._higher(counts, k, tries, levels[-1].p, below if k == 1 else None))
        self.discounts_ = [level.taken for level in levels]
        with np.errstate(divide="ignore"):
            log_p = tuple(np.maximum(np.log(level.p), NEVER) for level in levels)
        log_b = tuple(np.log(level.g) for level in levels[1:])
        return NgramModel(counts.words, tuple(tries), log_p, log_b, counts.is_stream)

    def _lowest(self, counts: NgramCounts) -> Level:
        """Single words, interpolated with the uniform distribution."""
        can_follow = np.ones(len(counts.words), bool)
        can_follow[[NOTHING, START]] = False
        can_follow[END] = not counts.is_stream
        uniform = can_follow / can_follow.sum()
        words = counts.rows[first_of_runs(counts.rows[:, :1]), 0]
        nowhere = np.zeros(len(words), np.int64)
        level = self._level(adjusted_counts(counts, 0), nowhere, 1, uniform[words])
        p = level.g[0] * uniform
        p[words] = level.p
        return level._replace(p=p)

    def _higher(
        self,
        counts: NgramCounts,
        k: int,
        tries: list[Keys],
        lower: FloatArray,
        below: Below | None,
    ) -> Level:
        """N-grams of k + 1 words, interpolated with those of k words; their keys join the tries."""
        rows = counts.rows[counts.rows[:, k] != NOTHING][:, : k + 1]
        grams, n = rows[first_of_runs(rows)], len(counts.words)
        suffix = find_ngrams(tries, n, grams[:, :-1])[-1]
        tries.append(suffix.astype(np.uint64) * np.uint64(n) + grams[:, -1])
        context = find_ngrams(tries, n, grams[:, 1:])[-1]
        p = lower[suffix] if below is None else below(context, suffix)
        return self._level(adjusted_counts(counts, k), context, len(lower), p)

    def _level(self, a: IntArray, context: IntArray, n_contexts: int, lower: FloatArray) -> Level:
        """The formula, for n-grams with counts a after contexts."""
        D = discounts(a, is_modified=self.is_modified)
        off = D[np.minimum(a, MAX_DISCOUNTS)]
        A = np.bincount(context, a, n_contexts)
        g = np.ones(n_contexts)  # a context that nothing follows leaves all to the lower order
        np.divide(np.bincount(context, off, n_contexts), A, out=g, where=A > 0)
        seen = np.divide(a - off, A[context], out=np.zeros(len(a)), where=a > 0)
        return Level(seen + g[context] * lower, g, D)


def adjusted_counts(counts: NgramCounts, k: int) -> IntArray:
    """Counts of the n-grams of order k + 1: times seen, or different words before them."""
    rows = counts.rows[counts.rows[:, k] != NOTHING]
    seen = counts.counts[counts.rows[:, k] != NOTHING]
    firsts = first_of_runs(rows[:, : k + 1])
    times = np.add.reduceat(seen, firsts)
    if k + 1 == counts.order:
        return times
    is_new, longer = np.zeros(len(rows), np.int64), first_of_runs(rows[:, : k + 2])
    is_new[longer] = np.add.reduceat(seen, longer) > 0
    followed = np.add.reduceat(is_new, firsts)  # at the start of a stream, nothing counts too
    return np.where(rows[firsts, k] == START, times, followed)


def discounts(a: IntArray, *, is_modified: bool) -> FloatArray:
    """What is taken off counts of 0, 1, 2, and 3 or more.

        Y = n_1 / (n_1 + 2 n_2);   D(k) = k - (k + 1) Y n_(k + 1) / n_k,  or Y for all

    Small texts lack some of these counts of counts; then a discount is taken to be 0.5, 1 or 1.5.

    Examples
    --------
    >>> discounts(np.array([1, 1, 1, 2, 2, 3, 4]), is_modified=False).round(3).tolist()
    [0.0, 0.429, 0.429, 0.429]
    """
    n = np.bincount(np.minimum(a, 5), minlength=6).astype(float)
    if not n[1] or not n[2]:
        return np.array([0.0, 0.5, 1.0, 1.5]) if is_modified else np.array([0.0, 0.5, 0.5, 0.5])
    Y = n[1] / (n[1] + 2 * n[2])
    if not is_modified:
        return np.array([0.0, Y, Y, Y])
    usual = np.array([0.5, 1.0, 1.5])
    k = np.arange(1, 4)
    D = np.where(n[k] > 0, k - (k + 1) * Y * n[k + 1] / np.maximum(n[k], 1), usual)
    return np.concatenate([[0.0], np.where((D > 0) & (k > D), D, usual)])
