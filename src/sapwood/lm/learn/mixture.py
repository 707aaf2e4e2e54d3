"""`LanguageMixture`: Kneser-Ney and hidden states together, with weights from held-out text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.learner import maybe, parameter, positional, whole
from sapwood.lm.data.ngram_files import CountsLike
from sapwood.lm.data.ngrams import NgramCounts
from sapwood.lm.data.plain_text import UNKNOWN
from sapwood.lm.learn.kneser_ney import KneserNey
from sapwood.lm.learn.language_learner import LanguageEstimator
from sapwood.lm.learn.latent import BLOCKS, DEVICE, DEVICE_WORDS, LatentTrigram, hold_out
from sapwood.lm.model.language_model import LanguageModel, require_same_words
from sapwood.lm.model.mixture import N_BINS, ContextBins, MixtureModel
from sapwood.progress import counted, step

STEPS = 60
SHRINKAGE = 50.0  # words that the weights of all contexts count for in a bin


class LanguageMixture(LanguageEstimator):
    """Modified Kneser-Ney, a latent bigram and a latent trigram model, mixed by context.

    Without held-out text, a share of the n-grams is held out to learn the weights, and the members
    are then learnt again from all of them.
    """

    uses_held: ClassVar[bool] = True
    n_states: int = positional(
        default=256, domain=whole(1, 4096), words="Hidden states.", kw_only=False
    )
    order: int = parameter(3, whole(3, 5), "Words of an n-gram of Kneser-Ney.")
    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS)
    iterations: int = parameter(100, whole(0), "The most of EM, see `EMBigram`.")
    seed: int = parameter(0, whole(0), "Of random starts, and of what is held out.")
    device: str = parameter("cpu", DEVICE, DEVICE_WORDS, changes_model=False)

    def fit(self, source: CountsLike, held: NgramCounts | None = None) -> Self:
        """Learn from counts of this order at least.

        Attributes set: `model_`; `members_`, models by name; `latent_`, their estimator.
        """
        self._check_parameters()
        counts = self._read(source, self.order)
        if held is not None:
            model = mix(self._members(counts, held), counts, held)
        else:
            rest, drawn = hold_out(counts, self.seed)
            weighed = mix(self._members(rest, drawn), rest, drawn)
            bins = ContextBins.of(counts.rows, counts.counts, len(counts.words))
            model = MixtureModel(tuple(self._members(counts, None)), bins, weighed.weights)
        self.model_ = replace(model, record=self._record("mix", counts, held))
        return self

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes of the member that takes most, and of the others."""
        return self._latent().memory_needed(counts) + KneserNey(self.order).memory_needed(counts)

    def _latent(self) -> LatentTrigram:
        return LatentTrigram(
            self.n_states, n_blocks=self.n_blocks, iterations=self.iterations, min_pair_count=1,
            seed=self.seed, device=self.device, n_jobs=self.n_jobs, engine=self.engine,
        )  # fmt: skip

    def _members(self, counts: NgramCounts, held_out: NgramCounts | None) -> list[LanguageModel]:
        self.latent_ = self._latent().fit(counts, held_out)
        with step("n-grams"):
            plain = KneserNey(self.order).fit(counts).model_
        return [plain, self.latent_.bigram_.model_, self.latent_.model_]

    @property
    def iterations_(self) -> int:
        """EM iterations of the latent members."""
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
    require_same_words(members)
    known = held_out.rows[:, 0] != UNKNOWN
    rows, n = held_out.rows[known], held_out.counts[known].astype(float)
    scored = (
        np.exp(member.log_probs(rows))
        for member in counted(members, "held-out probabilities", unit="member")
    )
    p = np.stack(list(scored), axis=1)
    bins = ContextBins.of(counts.rows, counts.counts, len(counts.words))
    everywhere = mixture_weights(
        p, n, np.zeros(len(rows), np.int64), 1, np.full(p.shape[1], 1.0), 0.0
    )
    weights = mixture_weights(p, n, bins.bin(rows), N_BINS, everywhere[0], SHRINKAGE)
    return MixtureModel(tuple(members), bins, weights)


def mixture_weights(
    p: FloatArray, n: FloatArray, bins: np.ndarray, n_bins: int, prior: FloatArray, strength: float
) -> FloatArray:
    """EM for the weights of every bin: [n_bins, members]."""
    prior = prior / prior.sum()
    lam = np.tile(prior, (n_bins, 1))
    for _ in counted(range(STEPS), "weights of the mixture", unit="iteration"):
        share = lam[bins] * p
        share *= (n / share.sum(axis=1))[:, None]
        total: FloatArray = np.stack(
            [np.bincount(bins, column, n_bins).astype(float) for column in share.T], axis=1
        )
        total = total + (strength + 1e-6) * prior
        lam = total / total.sum(axis=1, keepdims=True)
    return lam
