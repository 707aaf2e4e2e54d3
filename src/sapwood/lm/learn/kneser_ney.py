"""`KneserNey`: interpolated Kneser-Ney smoothing; `LatentKneserNey`: backing off to hidden states.

Notation (Chen and Goodman 1999)
--------------------------------
    a(c w)    count of an n-gram; below the highest order, of the different words it follows
    D(a)      discount of a count: one number, or one each for counts 1, 2, and 3 or more
    A(c)      sum of a(c w) over w
    g(c)      sum of D(a(c w)) over w, by A(c)

    p(w | c) = (a(c w) - D(a(c w))) / A(c) + g(c) p(w | c without its first word)

The lowest order is interpolated with the uniform distribution over all words that can follow.
N-grams at the start of a sentence follow nothing: their own counts are taken at every order.
Counts may be 0, for n-grams that were held out: they get what the lower order gives.

`LatentKneserNey` has hidden states between pairs and single words, with d[x, y] = D(a(x y)):

    p(y | x) = (a(x y) - d[x, y]) / A(x) + g(x) ((1 - weight[x]) sum of r[x, h] s[y, h] + ...)

Pairs back off to hidden states, and these, where they say little, to single words. States are
learnt by EM from the discounts, which they have to give back. After an M-step

    sum over x of (sum over y of d[x, y]) sum over h of r[x, h] s[y, h] = sum over x of d[x, y],

so that pairs have the frequencies of words of the text, as Kneser-Ney means them to: sum over x of
A(x) p(y | x) = sum over x of a(x y), for a weight of 0. With one discount for all counts, one state
is Kneser-Ney itself but for the uniform distribution; with three, it weighs pairs by their
discounts. A state for each word before is no smoothing at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.learner import FLAG, maybe, parameter, positional, whole
from sapwood.lm.data.counting import CountsLike
from sapwood.lm.data.ngrams import END, NOTHING, START, NgramCounts, Rows, first_of_runs
from sapwood.lm.learn.bigram_em import (
    BigramStates,
    HeldPairs,
    TrainingPairs,
    follow_counts,
    learn_states,
    require_pairs,
)
from sapwood.lm.learn.latent import BLOCKS_WORDS, LanguageEstimator, LatentEstimator
from sapwood.lm.model.latent_models import LatentNgramModel, pair_mix
from sapwood.lm.model.ngram_model import LOG_10, NEVER, Keys, NgramModel, find_ngrams

MAX_DISCOUNTS = 3
# The distribution that pairs of words are interpolated with: p(y | x) of words x and y after them.
Below = Callable[[IntArray, IntArray], FloatArray]


class Level(NamedTuple):
    """N-grams of one order."""

    p: FloatArray  # probability of each n-gram
    g: FloatArray  # back-off weight of each context; 1 where nothing follows
    discounts: FloatArray  # of counts of 0, 1, 2, and 3 or more


class KneserNey(LanguageEstimator):
    """N-gram model with Kneser-Ney smoothing.

    Attributes
    ----------
    model_
        An `NgramModel`.
    discounts_
        For each order, the discounts of counts of 0, 1, 2, and 3 or more.

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
        True, FLAG, "Separate discounts for counts of 1, 2 and more; False for one discount."
    )

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts of at least this order; held-out counts are not used."""
        record = self._record("kn-mod" if self.is_modified else "kn", counts)
        self.model_ = replace(self.model_of(counts), record=record)
        return self

    def _read(self, source: CountsLike) -> NgramCounts:
        if not isinstance(source, (str, Path, NgramCounts)):
            self._refuse_engine("sentences are counted in this process: give the path of a text")
        return super()._read(source)

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
        self.discounts_ = [level.discounts for level in levels]
        with np.errstate(divide="ignore"):
            log_p = tuple(np.maximum(np.log(level.p), NEVER * LOG_10) for level in levels)
        log_b = tuple(np.log(level.g) for level in levels[1:])
        return NgramModel(counts.words, tuple(tries), log_p, log_b, counts.is_stream)

    def _lowest(self, counts: NgramCounts) -> Level:
        """Single words, interpolated with the uniform distribution."""
        can_follow = np.ones(len(counts.words), bool)
        can_follow[[NOTHING, START]] = False
        can_follow[END] = not counts.is_stream
        uniform = can_follow / can_follow.sum()
        grams, a = adjusted_counts(counts, 0)
        words = grams[:, 0]
        level = self._level(a, np.zeros(len(words), np.int64), 1, uniform[words])
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
        (grams, a), n = adjusted_counts(counts, k), len(counts.words)
        suffix = find_ngrams(tries, n, grams[:, :-1])[-1]
        tries.append(suffix.astype(np.uint64) * np.uint64(n) + grams[:, -1])
        context = find_ngrams(tries, n, grams[:, 1:])[-1]
        p = lower[suffix] if below is None else below(context, suffix)
        return self._level(a, context, len(lower), p)

    def _level(self, a: IntArray, context: IntArray, n_contexts: int, lower: FloatArray) -> Level:
        """The formula, for n-grams with counts a after contexts."""
        D = discounts(a, is_modified=self.is_modified)
        off = D[np.minimum(a, MAX_DISCOUNTS)]
        A = np.bincount(context, a, n_contexts)
        g = np.ones(n_contexts)  # a context that nothing follows leaves all to the lower order
        np.divide(np.bincount(context, off, n_contexts), A, out=g, where=A > 0)
        seen = np.divide(a - off, A[context], out=np.zeros(len(a)), where=a > 0)
        return Level(seen + g[context] * lower, g, D)


def adjusted_counts(counts: NgramCounts, k: int) -> tuple[Rows, IntArray]:
    """The n-grams of order k + 1 with their counts: times seen, or different words before them."""
    rows = counts.rows[counts.rows[:, k] != NOTHING]
    seen = counts.counts[counts.rows[:, k] != NOTHING]
    firsts = first_of_runs(rows[:, : k + 1])
    grams = rows[firsts, : k + 1]
    times = np.add.reduceat(seen, firsts)
    if k + 1 == counts.rows.shape[1]:
        return grams, times
    is_new, longer = np.zeros(len(rows), np.int64), first_of_runs(rows[:, : k + 2])
    is_new[longer] = np.add.reduceat(seen, longer) > 0
    followed = np.add.reduceat(is_new, firsts)  # at the start of a stream, nothing counts too
    return grams, np.where(grams[:, k] == START, times, followed)


def discounts(a: IntArray, *, is_modified: bool) -> FloatArray:
    """The discounts of counts of 0, 1, 2, and 3 or more.

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


class LatentKneserNey(LatentEstimator):
    """Modified Kneser-Ney whose pairs of words back off to hidden states.

    Attributes
    ----------
    model_
        A `LatentNgramModel`.
    climbs_
        An `EMResult` for each block.

    Examples
    --------
    >>> text = [["the", "dog", "barks"], ["the", "cat", "sleeps"]] * 20
    >>> model = LatentKneserNey(2, order=2).fit(text).model_
    >>> float(np.exp(model.next_log_probs(["the"])).sum().round(4))
    1.0
    """

    order: int = parameter(3, whole(2, 5), "Words of an n-gram.")
    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS_WORDS)

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts of this order at least; held-out text says when EM ends."""
        rest, judge = counts.hold_out(self.seed) if held is None else (counts, held)
        (r, s), weight = self._states(rest, judge)
        single = np.exp(KneserNey(1).model_of(counts).p[0])
        ngrams = KneserNey(self.order).model_of(
            counts, lambda x, y: (1 - weight[x]) * pair_mix(r, s, x, y) + weight[x] * single[y]
        )
        record = self._record("kn-latent", counts, held, self.iterations_)
        self.model_ = LatentNgramModel(ngrams, r, s, weight, record)
        return self

    def _states(
        self, counts: NgramCounts, held_out: NgramCounts
    ) -> tuple[BigramStates, FloatArray]:
        """States by EM over the discounts of pairs, and the weights of single words."""
        plain = KneserNey(2)
        pairs = plain.model_of(counts)
        d = pair_discounts(counts, plain.discounts_[1])
        require_pairs(d)
        held = _held_pairs(pairs, held_out)
        states, weight, self.climbs_ = learn_states(TrainingPairs(d, held), counts, self._plan())
        return states, weight

    @property
    def iterations_(self) -> int:
        """Number of EM iterations of all blocks."""
        return sum(len(run.values) for run in self.climbs_)


def pair_discounts(counts: NgramCounts, discounts: FloatArray) -> sparse.csr_array:
    """d[x, y], the discount of each pair, by the discounts of its order."""
    grams, a = adjusted_counts(counts, 1)
    (y, x), n = grams.astype(np.int64).T, len(counts.words)
    d = sparse.csr_array((discounts[np.minimum(a, MAX_DISCOUNTS)], (x, y)), shape=(n, n))
    d.eliminate_zeros()
    return d


def _held_pairs(pairs: NgramModel, held_out: NgramCounts) -> HeldPairs:
    """Held-out pairs, with their probabilities by Kneser-Ney alone, and back-off weights."""
    u = np.exp(pairs.p[0])
    held = HeldPairs.of(follow_counts(held_out.rows, held_out.counts, len(pairs.words)), u)
    backoff = np.exp(pairs.b[0])[held.before]
    p = np.exp(pairs.log_probs(np.stack([held.after, held.before], axis=1).astype(np.uint32)))
    known = np.maximum(p - backoff * u[held.after], 0.0)
    return HeldPairs(held.before, held.after, held.counts, u, known, backoff)
