"""`LatentKneserNey`: hidden states as a back-off inside Kneser-Ney.

Notation of `kneser_ney` and `models.lm.latent_models`, and
-----------------------------------------------------------
    d[x, y]     what is taken off the count of y after x, D(a(x y))             sparse

    p(y | x) = (a(x y) - d[x, y]) / A(x) + g(x) ((1 - weight[x]) sum of r[x, h] s[y, h] + ...)

Pairs back off to hidden states, and these, where they say little, to single words. States are
learnt by EM from what was taken off, which is what they have to give back. After an M-step

    sum over x of (sum over y of d[x, y]) sum over h of r[x, h] s[y, h] = sum over x of d[x, y],

so that pairs have the frequencies of words of the text, as Kneser-Ney means them to: sum over x of
A(x) p(y | x) = sum over x of a(x y), for a weight of 0. With one discount for all counts, one state
is Kneser-Ney itself but for the uniform distribution; with three, it weighs pairs by their
discounts. A state for each word before is no smoothing at all.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray
from sapwood.core.learner import maybe, parameter, whole
from sapwood.lm.data.ngram_files import CountsLike
from sapwood.lm.data.ngrams import NgramCounts, first_of_runs
from sapwood.lm.data.plain_text import NOTHING
from sapwood.lm.learn.bigram_em import BigramEM, Held, Start
from sapwood.lm.learn.kneser_ney import MAX_DISCOUNTS, KneserNey, adjusted_counts
from sapwood.lm.learn.latent import (
    BLOCKS,
    LatentEstimator,
    block_sizes,
    follow_counts,
    hold_out,
    join_blocks,
    require_pairs,
    run_blocks,
    smoothing_weights,
)
from sapwood.lm.model.latent_models import LatentNgramModel, pair_mix
from sapwood.lm.model.ngram_model import NgramModel


class States(NamedTuple):
    """Hidden states and how much single words are trusted beside them; see `LatentNgramModel`."""

    start: Start
    weight: FloatArray


class LatentKneserNey(LatentEstimator):
    """Modified Kneser-Ney whose pairs of words back off to hidden states.

    Examples
    --------
    >>> text = [["the", "dog", "barks"], ["the", "cat", "sleeps"]] * 20
    >>> model = LatentKneserNey(2, order=2).fit(text).model_
    >>> float(np.exp(model.next_log_probs(["the"])).sum().round(4))
    1.0
    """

    uses_held: ClassVar[bool] = True
    order: int = parameter(3, whole(2, 5), "Words of an n-gram.")
    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS)

    def fit(self, source: CountsLike, held: NgramCounts | None = None) -> Self:
        """Learn from counts of this order at least.

        Attributes set: `model_`; `climbs_`, how EM went for each block.
        """
        self._check_parameters()
        counts = self._read(source, self.order)
        learnt, judge = hold_out(counts, self.seed) if held is None else (counts, held)
        (r, s), weight = self._states(learnt, judge)
        plain = KneserNey(self.order)
        single = np.exp(KneserNey(1).model_of(counts).p[0])
        ngrams = plain.model_of(
            counts, lambda x, y: (1 - weight[x]) * pair_mix(r, s, x, y) + weight[x] * single[y]
        )
        record = self._record("kn-latent", counts, held)
        self.model_ = LatentNgramModel(ngrams, r, s, weight, record)
        return self

    def _states(self, counts: NgramCounts, held_out: NgramCounts) -> States:
        """EM over what Kneser-Ney takes off the pairs, until held-out text gets less likely."""
        plain = KneserNey(2)
        pairs = plain.model_of(counts)
        d = taken_off(counts, plain.discounts_[1])
        require_pairs(d)
        held = _held(pairs, held_out)
        em = BigramEM(self.iterations, self.prior, held.u, held)
        sizes = block_sizes(self.n_states, self.n_blocks)
        self.climbs_ = run_blocks(em, self._e_step(d), sizes, self.seed)
        start = join_blocks([run.parameters for run in self.climbs_])
        return States(start, smoothing_weights(start, held.u, counts, held))

    @property
    def iterations_(self) -> int:
        """EM iterations of all blocks."""
        return sum(len(run.values) for run in self.climbs_)


def taken_off(counts: NgramCounts, discounts: FloatArray) -> sparse.csr_array:
    """d[x, y]: what is taken off each pair, by the discounts of its order."""
    rows = counts.rows[counts.rows[:, 1] != NOTHING][:, :2]
    y, x = rows[first_of_runs(rows)].astype(np.int64).T
    n, a = len(counts.words), adjusted_counts(counts, 1)
    d = sparse.csr_array((discounts[np.minimum(a, MAX_DISCOUNTS)], (x, y)), shape=(n, n))
    d.eliminate_zeros()
    return d


def _held(pairs: NgramModel, held_out: NgramCounts) -> Held:
    """Held-out pairs, with what Kneser-Ney alone gives them and what it leaves to states."""
    u = np.exp(pairs.p[0])
    held = Held.of(follow_counts(held_out.rows, held_out.counts, len(pairs.words)), u)
    left = np.exp(pairs.b[0])[held.before]
    p = np.exp(pairs.log_probs(np.stack([held.after, held.before], axis=1).astype(np.uint32)))
    known = np.maximum(p - left * u[held.after], 0.0)
    return Held(held.before, held.after, held.counts, u, known, left)
