"""`PivotBigram`: hidden states between neighbouring words from pivot words and convex EM."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np
from scipy import sparse

from sapwood.core.arrays import BoolArray, FloatArray
from sapwood.core.learner import maybe, parameter, whole
from sapwood.core.training_loops import iterate_em
from sapwood.linalg.pivots import PivotStates, columns_given_states, states_from_points
from sapwood.linalg.svd import cca
from sapwood.lm.data.ngrams import NgramCounts
from sapwood.lm.learn.bigram_em import (
    BigramEM,
    BigramStates,
    TrainingPairs,
    bigram_model,
    maximise_states,
    place_pairs,
    smoothing_weights,
)
from sapwood.lm.learn.latent import LatentEstimator

CONVEX_ITERATIONS = 50
RARE_ITERATIONS = 3
PIVOT_COUNT, PIVOT_SHARE, PIVOT_RIDGE = 50, 0.01, 10.0


class PivotBigram(LatentEstimator):
    """Latent bigram model by pivot words, convex EM, and a few iterations of EM.

    The states of contexts come from pivots: words after which the state is certain. Given them,
    the likelihood of the words that follow is concave, and its maximum is found. `iterations` of
    EM may follow; 0 keeps the pivot estimate.

    Attributes
    ----------
    model_
        A `BigramModel`.
    pivots_
        The pivot word of each state.
    climb_
        The `EMResult` of the iterations that follow.
    """

    iterations: int = parameter(
        100, whole(0), "The most EM iterations that follow; held-out text ends them earlier."
    )
    min_pivot_count: int | None = parameter(
        None,
        maybe(whole(1)),
        "How often a word must be seen to be a pivot; None for a hundredth of what a state is seen "
        "on average, and at least 50.",
    )

    min_count: int = parameter(
        20,
        whole(1),
        "How often a word must be seen for its states to come from pivots; those of rarer words, "
        "which are noise there, come from EM given the others.",
    )

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts of pairs; held-out text says when to stop and how to smooth."""
        c, held_pairs = TrainingPairs.of(counts, held, self.seed)
        u = held_pairs.u
        wanted = self.min_pivot_count or max(PIVOT_COUNT, PIVOT_SHARE * c.sum() / self.n_states)
        found, s = pivot_states(
            c, self.n_states, least=wanted, ridge=PIVOT_RIDGE, trusted=self.min_count
        )
        self.pivots_ = [counts.words[i] for i in found.pivots]
        states = BigramStates(
            _spread(found.posterior, axis=1, floor=found.pi).astype(np.float32),
            _spread(s, axis=0, floor=u[:, None]).astype(np.float32),
        )
        e_step = place_pairs(c, self.device, self._engine())
        is_rare = np.asarray(c.sum(axis=1)).ravel() < self.min_count
        states = iterate_em(
            lambda now: self._maximise_rare(is_rare, u, now, e_step.expect_states(now)),
            states,
            RARE_ITERATIONS,
        )
        convex = BigramEM(CONVEX_ITERATIONS, self.prior, u, held_pairs, is_r_free=False)
        states = convex.run(e_step, states).parameters
        self.climb_ = BigramEM(self.iterations, self.prior, u, held_pairs).run(e_step, states)
        method = "pivot-em" if self.iterations else "pivot"
        record = self._record(method, counts, held, self.iterations_)
        states = self.climb_.parameters
        weight = smoothing_weights(states, counts, held_pairs)
        self.model_ = replace(bigram_model(counts, states, u, weight), record=record)
        return self

    def _maximise_rare(
        self, is_rare: BoolArray, u: FloatArray, now: BigramStates, expected: BigramStates
    ) -> BigramStates:
        """The M-step for the states of some words, with all other states fixed."""
        r, _ = maximise_states(expected.r, expected.s * now.s, u, self.prior)
        return now._replace(r=np.where(is_rare[:, None], r, now.r).astype(np.float32))

    @property
    def iterations_(self) -> int:
        """Number of EM iterations after the pivot estimate."""
        return len(self.climb_.values)


def pivot_states(
    c: sparse.csr_array, m: int, *, least: float, ridge: float, trusted: float = 0.0
) -> tuple[PivotStates, FloatArray]:
    """States of the words before, by pivots, and words that follow each state, by least squares.

        v[x] = sum over y of p(y | x) phi[y];   r[x] = argmin |sum over h of r[x, h] w[h] - v[x]|^2

    Parameters
    ----------
    least
        How often a word must be seen to be a pivot; less, where there are not enough such words.
    ridge
        Of the CCA, see `cca`; 0 for exact probabilities.
    trusted
        How often a word must be seen for its point to count; less, as for `least`.

    Returns
    -------
    tuple
        With p(h | x) as `posterior`, [V, m]; and s, [V, m], without negative entries. Words that
        are not trusted, or that nothing follows, have the states of all.
    """
    seen = np.asarray(c.sum(axis=1)).ravel()
    p_x, p_y = seen / seen.sum(), np.asarray(c.sum(axis=0)).ravel() / seen.sum()
    Q = sparse.csr_array(c / seen.sum())
    phi = cca(Q, p_x, p_y, m, ridge=ridge).right[:, :m]
    inverse = np.divide(1.0, p_x, out=np.zeros_like(p_x), where=p_x > 0)
    enough = max(float(np.sort(seen)[-m:].min()), np.finfo(float).tiny)  # each state needs a word
    is_candidate, is_trusted = (seen >= min(n, enough) for n in (least, trusted))
    is_candidate &= seen > 0
    p = np.where(is_trusted, p_x, 0.0)
    found = states_from_points((Q @ phi) * inverse[:, None], p, m, candidates=is_candidate)
    q = found.posterior  # 0 where a word is not trusted
    s = np.maximum(columns_given_states(q.T @ (p[:, None] * q), Q.T @ q), 0.0)
    is_known = is_trusted & (seen > 0)
    return found._replace(posterior=np.where(is_known[:, None], q, found.pi)), s / s.sum(axis=0)


def _spread(p: FloatArray, axis: int, floor: FloatArray, weight: float = 1e-3) -> FloatArray:
    """Distributions with a small weight of another, so that EM can leave their zeros."""
    p = (1 - weight) * p / p.sum(axis=axis, keepdims=True) + weight * floor
    return np.asarray(p / p.sum(axis=axis, keepdims=True))
