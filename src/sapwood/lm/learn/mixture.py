"""`LatentTrigram`: states after two words; `LanguageMixture`: all models, weighed by context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import at_least, maybe, parameter, positional, whole
from sapwood.core.progress import counted, step
from sapwood.core.training_loops import iterate_em
from sapwood.lm.data.ngrams import NOTHING, UNKNOWN, NgramCounts, first_of_runs
from sapwood.lm.learn.kneser_ney import KneserNey
from sapwood.lm.learn.latent import (
    BLOCKS_WORDS,
    DEVICE,
    DEVICE_WORDS,
    PAIR_COPIES,
    BigramStates,
    EMBigram,
    LatentEstimator,
    Single,
    hold_out,
)
from sapwood.lm.learn.methods import LanguageEstimator
from sapwood.lm.model.language_model import LanguageModel
from sapwood.lm.model.latent_models import (
    N_CONTEXT_BINS,
    BigramModel,
    ContextBins,
    LatentTrigramModel,
    MixtureModel,
)

WEIGHT_ITERATIONS = 60
SHRINKAGE = 50.0  # words that the weights of all contexts together count for in a bin


class LatentTrigram(LatentEstimator):
    """The hidden state depends on two words, and backs off to one.

        r2[c, h] ~ expected count of h after the pair c  +  strength * r[last word of c, h]

    The words that follow a state are those of a latent bigram model, which is learnt first.

    Attributes
    ----------
    model_
        A `LatentTrigramModel`.
    bigram_
        The estimator of the model that it backs off to.
    """

    least_order: ClassVar[int] = 3
    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS_WORDS)
    strength: float = parameter(
        4.0, at_least(0), "Words that the nearer word's states count for in a pair."
    )
    min_pair_count: int = parameter(2, whole(1), "How often a pair must be seen.")
    pair_iterations: int = parameter(4, whole(1), "EM iterations for the states of pairs.")

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts of order 3 at least."""
        self.bigram_ = EMBigram(
            self.n_states, n_blocks=self.n_blocks, iterations=self.iterations, prior=self.prior,
            seed=self.seed, device=self.device, n_jobs=self.n_jobs, engine=self.engine,
        ).learn(counts, held)  # fmt: skip
        record = self._record("latent-trigram", counts, held, self.iterations_)
        self.model_ = replace(self.add_pairs(self.bigram_.model_, counts), record=record)
        return self

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes as for a latent bigram, and of the states of every pair of words."""
        n_pairs = len(first_of_runs(counts.rows[:, :2]))
        return super().memory_needed(counts) + 4 * PAIR_COPIES * n_pairs * self.n_states

    def add_pairs(self, bigram: BigramModel, counts: NgramCounts) -> LatentTrigramModel:
        """States of pairs of words, given those of single words."""
        c, pairs = pair_follow_counts(counts, self.min_pair_count)
        if not len(pairs):
            msg = f"no pair of words was seen {self.min_pair_count} times and followed"
            raise SapwoodError(msg, hint="lower min_pair_count, or use EMBigram")
        nearer = (pairs % np.uint64(len(counts.words))).astype(np.int64)
        e_step, prior = self._e_step(c), bigram.r[nearer]

        def expect(r2: Single) -> BigramStates:
            return e_step.expect_states(BigramStates(r2, bigram.s))

        def maximise(r2: Single, expected: BigramStates) -> Single:
            R = expected.r + np.float32(self.strength) * prior
            return np.asarray(R / R.sum(axis=1, keepdims=True), np.float32)

        r2 = iterate_em(expect, maximise, prior, self.pair_iterations)
        return LatentTrigramModel(bigram, pairs, r2)

    @property
    def iterations_(self) -> int:
        """Number of EM iterations for words and for pairs."""
        return self.bigram_.iterations_ + self.pair_iterations


def pair_follow_counts(
    counts: NgramCounts, least: int
) -> tuple[sparse.csr_array, npt.NDArray[np.uint64]]:
    """What follows each pair of words that was seen often enough, and these pairs."""
    rows, n = counts.rows, np.uint64(len(counts.words))
    is_whole = rows[:, 2] != NOTHING
    keys = rows[is_whole, 2].astype(np.uint64) * n + rows[is_whole, 1]
    pairs, place = np.unique(keys, return_inverse=True)
    seen = np.bincount(place, counts.counts[is_whole])
    kept = seen >= least
    number = np.cumsum(kept) - 1
    chosen = kept[place]
    c = sparse.csr_array(
        (
            counts.counts[is_whole][chosen].astype(float),
            (number[place[chosen]], rows[is_whole, 0][chosen].astype(np.int64)),
        ),
        shape=(int(kept.sum()), len(counts.words)),
    )
    return c, pairs[kept]


class LanguageMixture(LanguageEstimator):
    """Modified Kneser-Ney, a latent bigram and a latent trigram model, mixed by context.

    Without held-out text, some n-grams are held out to learn the weights, and the members are then
    learnt again from all of them.

    Attributes
    ----------
    model_
        A `MixtureModel`.
    latent_
        The estimator of the latent members.
    """

    uses_held: ClassVar[bool] = True
    n_states: int = positional(
        default=256, domain=whole(1, 4096), words="Hidden states.", kw_only=False
    )
    order: int = parameter(3, whole(3, 5), "Words of an n-gram of Kneser-Ney.")
    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS_WORDS)
    iterations: int = parameter(100, whole(0), "The most EM iterations, see `EMBigram`.")
    seed: int = parameter(0, whole(0), "Seed of random starts, and of the held-out counts.")
    device: str = parameter("cpu", DEVICE, DEVICE_WORDS, changes_model=False)

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn the members and their weights from counts of this order at least."""
        if held is not None:
            model = mix(self._members(counts, held), counts, held)
        else:
            rest, drawn = hold_out(counts, self.seed)
            weighed = mix(self._members(rest, drawn), rest, drawn)
            bins = ContextBins.of(counts.rows, counts.counts, len(counts.words))
            model = MixtureModel(tuple(self._members(counts, None)), bins, weighed.weights)
        record = self._record("mix", counts, held, self.iterations_)
        self.model_ = replace(model, record=record)
        return self

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes of the latent members, and of the n-grams."""
        return self._latent().memory_needed(counts) + super().memory_needed(counts)

    def _latent(self) -> LatentTrigram:
        return LatentTrigram(
            self.n_states, n_blocks=self.n_blocks, iterations=self.iterations, min_pair_count=1,
            seed=self.seed, device=self.device, n_jobs=self.n_jobs, engine=self.engine,
        )  # fmt: skip

    def _members(self, counts: NgramCounts, held_out: NgramCounts | None) -> list[LanguageModel]:
        self.latent_ = self._latent().learn(counts, held_out)
        with step("n-grams"):
            plain = KneserNey(self.order).learn(counts).model_
        return [plain, self.latent_.bigram_.model_, self.latent_.model_]

    @property
    def iterations_(self) -> int:
        """Number of EM iterations of the latent members."""
        return self.latent_.iterations_


def mix(
    members: Sequence[LanguageModel], counts: NgramCounts, held_out: NgramCounts
) -> MixtureModel:
    """The mixture that makes held-out text likeliest, bin by bin.

    Parameters
    ----------
    counts
        Of the training text, for the bins of contexts.
    held_out
        In the same words, of at least the order of every member.
    """
    bins = ContextBins.of(counts.rows, counts.counts, len(counts.words))
    even = np.full((N_CONTEXT_BINS, len(members)), 1 / len(members))
    model = MixtureModel(tuple(members), bins, even)  # refuses members of different words
    known = held_out.rows[:, 0] != UNKNOWN
    rows, n = held_out.rows[known], held_out.counts[known].astype(float)
    scored = (
        np.exp(member.log_probs(rows))
        for member in counted(members, "held-out probabilities", unit="member")
    )
    p = np.stack(list(scored), axis=1)
    everywhere = mixture_weights(
        p, n, np.zeros(len(rows), np.int64), 1, np.full(p.shape[1], 1.0), 0.0
    )
    weights = mixture_weights(p, n, bins.bin(rows), N_CONTEXT_BINS, everywhere[0], SHRINKAGE)
    return replace(model, weights=weights)


def mixture_weights(
    p: FloatArray, n: FloatArray, bins: np.ndarray, n_bins: int, prior: FloatArray, strength: float
) -> FloatArray:
    """EM for the weights of every bin: [n_bins, members]."""
    prior = prior / prior.sum()

    def expect(lam: FloatArray) -> FloatArray:
        posterior = lam[bins] * p
        posterior *= (n / posterior.sum(axis=1))[:, None]
        return np.stack(
            [np.bincount(bins, column, n_bins).astype(float) for column in posterior.T], axis=1
        )

    def maximise(lam: FloatArray, total: FloatArray) -> FloatArray:
        total = total + (strength + 1e-6) * prior
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    start: FloatArray = np.tile(prior, (n_bins, 1))
    with step("weights of the mixture", total=WEIGHT_ITERATIONS, unit="iteration") as advance:
        return iterate_em(
            expect, maximise, start, WEIGHT_ITERATIONS, lambda now: advance(len(now.values))
        )
