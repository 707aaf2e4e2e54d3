"""Language models with hidden states, learnt from counts of n-grams, and their mixture.

`EMBigram` has hidden states between neighbouring words, `LatentTrigram` after two words, and
`LanguageMixture` weighs both and n-grams by context. Notation as in `lm.learn.bigram_em`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError, require_memory
from sapwood.core.learner import (
    Domain,
    Estimator,
    at_least,
    maybe,
    parameter,
    positional,
    whole,
)
from sapwood.core.progress import step
from sapwood.core.training_loops import iterate_em
from sapwood.lm.data.counting import CountsLike, as_counts
from sapwood.lm.data.ngrams import NOTHING, UNKNOWN, NgramCounts
from sapwood.lm.learn.bigram_em import StatePlan, learn_bigram, learn_pair_states
from sapwood.lm.model.language_model import LanguageModel
from sapwood.lm.model.latent_models import (
    N_CONTEXT_BINS,
    BigramModel,
    LatentTrigramModel,
    MixtureModel,
)

if TYPE_CHECKING:
    from sapwood.lm.learn.kneser_ney import KneserNey

WEIGHT_ITERATIONS = 60
SHRINKAGE = 50.0  # words that the weights of all contexts together count for in a bin
# Measured constants: `benchmarks/memory_estimates.py` prints estimates and measured peaks.
LIBRARIES = 10e6  # bytes that any learner takes
NGRAM_WORD = 45  # bytes for each word of each n-gram while levels are interpolated
# parameters that a model's record has, and their names there
RECORDED = {"order": "order", "n_states": "states", "n_blocks": "blocks", "seed": "seed"}
DEVICE = Domain("cpu or a name that PyTorch knows, such as cuda", lambda x: isinstance(x, str))
DEVICE_WORDS = "Where EM runs: cpu, or cuda for a GPU, whose rounding differs."
BLOCKS_WORDS = (
    "Blocks of states that are learnt separately, each from its own start; 1 is the plain model, "
    "None takes one for every 32 states, at most 8."
)
# Arrays of 4-byte numbers, [words or pairs of words, states], that are held at once: as measured.
STATE_COPIES, PAIR_COPIES = 6, 6


class LanguageEstimator(Estimator, ABC):
    """Learns from counts of n-grams: `NgramCounts`, files of counts or text, or sentences.

    Words are taken as they are counted: `NgramCounts.cut_words` makes rare ones the unknown word.
    """

    least_order: ClassVar[int] = 2  # of the n-grams, where it is no parameter

    def fit(self, source: CountsLike, held: NgramCounts | None = None) -> Self:
        """Learn from counts of at least the learner's order, or from text.

        Parameters
        ----------
        source
            `NgramCounts`, the path of a file of counts or of a text, or sentences.
        held
            Held-out counts in the same words, for learners that use them.
        """
        return self.learn(self._read(source), held)

    @abstractmethod
    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts that fit into memory, with parameters that were checked."""

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes that learning takes at most, about, besides the counts."""
        return LIBRARIES + NGRAM_WORD * counts.rows.size

    def _read(self, source: CountsLike) -> NgramCounts:
        """The counts; refused where learning from them does not fit into memory."""
        given = vars(self)  # the parameters
        order = given.get("order", self.least_order)
        if isinstance(source, NgramCounts):
            counts = source.shorten(order)
        else:
            counts = as_counts(source, order, self._engine())
        amounts = [(len(counts.words), "word")]
        hint = "count rare words as unknown with a larger --min-count, or use a smaller --order"
        if "n_states" in given:
            amounts.append((given["n_states"], "state"))
            hint = f"use fewer --states, {hint}"
        require_memory(self.memory_needed(counts), "training on", hint, *amounts)
        return counts

    def _record(
        self,
        method: str,
        counts: NgramCounts,
        held: NgramCounts | None = None,
        iterations: int | None = None,
    ) -> dict[str, Any]:
        """The record of the training in the model's file."""
        record: dict[str, Any] = {
            "method": method, "tokens": counts.n_tokens, "words": counts.n_words,
            "stream": counts.is_stream,
        }  # fmt: skip
        given = vars(self)  # the parameters, and more
        record |= {new: given[old] for old, new in RECORDED.items() if given.get(old) is not None}
        if iterations is not None:
            record["iterations"] = iterations
        if held is not None:
            record["held_out_tokens"] = held.n_tokens
        return record


class LatentEstimator(LanguageEstimator):
    """Parameters and data of all learners of hidden states between words."""

    uses_held: ClassVar[bool] = True
    n_states: int = positional(
        default=128, domain=whole(1, 4096), words="Hidden states.", kw_only=False
    )
    iterations: int = parameter(
        100, whole(0), "The most EM iterations; held-out text ends them earlier."
    )
    prior: float = parameter(
        5.0, at_least(0), "Words that are added to every context, and to every state."
    )
    seed: int = parameter(0, whole(0), "Seed of random starts, and of the held-out counts.")
    device: str = parameter("cpu", DEVICE, DEVICE_WORDS, changes_model=False)

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes of EM over the pairs of words, and of the states of words before and after."""
        copies = STATE_COPIES + self._plan().engine.jobs_here
        return super().memory_needed(counts) + 4 * copies * len(counts.words) * self.n_states

    def _plan(self) -> StatePlan:
        """The parameters of EM; a learner without blocks has one."""
        return StatePlan(
            self.n_states, vars(self).get("n_blocks"), self.iterations, self.prior, self.seed,
            self.device, self._engine(),
        )  # fmt: skip


class EMBigram(LatentEstimator):
    """Latent bigram model by EM from random starts.

    Attributes
    ----------
    model_
        A `BigramModel`.
    climbs_
        An `EMResult` for each block.

    Examples
    --------
    >>> text = [["the", "dog", "barks"], ["the", "cat", "sleeps"]] * 20
    >>> model = EMBigram(2, n_blocks=1).fit(text).model_
    >>> float(np.exp(model.next_log_probs(["the"])).sum().round(4))
    1.0
    """

    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS_WORDS)

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts of pairs; held-out text says when to stop and how to smooth."""
        model, self.climbs_ = learn_bigram(counts, held, self._plan())
        record = self._record("em", counts, held, self.iterations_)
        self.model_: Any = replace(model, record=record)
        return self

    @property
    def iterations_(self) -> int:
        """Number of EM iterations of all blocks."""
        return sum(len(run.values) for run in self.climbs_)


class LatentTrigram(EMBigram):
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
    strength: float = parameter(
        4.0, at_least(0), "Weight of the nearer word's states in a pair, in words."
    )
    min_pair_count: int = parameter(2, whole(1), "How often a pair must be seen.")
    pair_iterations: int = parameter(4, whole(1), "EM iterations for the states of pairs.")

    def learn(self, counts: NgramCounts, held: NgramCounts | None = None) -> Self:
        """Learn from counts of order 3 at least."""
        bigram = super().learn(counts, held).model_
        record = self._record("latent-trigram", counts, held, self.iterations_)
        self.model_ = replace(self.add_pairs(bigram, counts), record=record)
        return self

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes as for a latent bigram, and of the states of every pair of words."""
        n_pairs = 1 + int((counts.rows[1:, :2] != counts.rows[:-1, :2]).any(axis=1).sum())
        return super().memory_needed(counts) + 4 * PAIR_COPIES * n_pairs * self.n_states

    def add_pairs(self, bigram: BigramModel, counts: NgramCounts) -> LatentTrigramModel:
        """States of pairs of words, given those of single words."""
        c, pairs = pair_follow_counts(counts, self.min_pair_count)
        if not len(pairs):
            msg = f"no pair of words was seen {self.min_pair_count} times and followed"
            raise SapwoodError(msg, hint="lower min_pair_count, or use EMBigram")
        nearer = (pairs % np.uint64(len(counts.words))).astype(np.int64)
        r2 = learn_pair_states(
            c, bigram.r[nearer], bigram.s, strength=self.strength,
            iterations=self.pair_iterations, plan=self._plan(),
        )  # fmt: skip
        return LatentTrigramModel(bigram, pairs, r2)

    @property
    def bigram_(self) -> EMBigram:
        """The estimator of the bigram model, as if it had been fitted alone."""
        found = EMBigram(**{name: getattr(self, name) for name in EMBigram.parameters()})
        found.model_, found.climbs_ = self.model_.bigram, self.climbs_
        return found

    @property
    def iterations_(self) -> int:
        """Number of EM iterations for words and for pairs."""
        return super().iterations_ + self.pair_iterations


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
        rest, drawn = counts.hold_out(self.seed) if held is None else (counts, held)
        members = self._members(rest, drawn)
        weights = member_weights(members, rest, drawn)
        if held is None:
            members = self._members(counts, None)
        record = self._record("mix", counts, held, self.iterations_)
        self.model_ = MixtureModel.of(members, counts, weights, record)
        return self

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes of the latent members, and of the n-grams."""
        return sum(learner.memory_needed(counts) for learner in self._learners())

    def _learners(self) -> tuple[KneserNey, LatentTrigram]:
        from sapwood.lm.learn.kneser_ney import KneserNey  # which builds on this file

        latent = LatentTrigram(
            self.n_states, n_blocks=self.n_blocks, iterations=self.iterations, min_pair_count=1,
            seed=self.seed, device=self.device, n_jobs=self.n_jobs, engine=self.engine,
        )  # fmt: skip
        return KneserNey(self.order), latent

    def _members(self, counts: NgramCounts, held_out: NgramCounts | None) -> list[LanguageModel]:
        plain, self.latent_ = self._learners()
        latent = self.latent_.learn(counts, held_out).model_
        with step("n-grams"):
            return [plain.learn(counts).model_, latent.bigram, latent]

    @property
    def iterations_(self) -> int:
        """Number of EM iterations of the latent members."""
        return self.latent_.iterations_


def member_weights(
    members: Sequence[LanguageModel], counts: NgramCounts, held_out: NgramCounts
) -> FloatArray:
    """The weights of a mixture that make held-out text likeliest, bin by bin: [n_bins, members].

    Parameters
    ----------
    counts
        Of the training text, for the bins of contexts.
    held_out
        In the same words, of at least the order of every member.
    """
    even = np.full((N_CONTEXT_BINS, len(members)), 1 / len(members))
    model = MixtureModel.of(members, counts, even)  # refuses members of different words
    known = held_out.rows[:, 0] != UNKNOWN
    rows, n = held_out.rows[known], held_out.counts[known].astype(float)
    with step("weights of the mixture"):
        bins, p = model.members_on(rows)
        everywhere = mixture_weights(
            p, n, np.zeros(len(rows), np.int64), 1, np.full(p.shape[1], 1.0), 0.0
        )
        return mixture_weights(p, n, bins, N_CONTEXT_BINS, everywhere[0], SHRINKAGE)


def mixture_weights(
    p: FloatArray, n: FloatArray, bins: np.ndarray, n_bins: int, prior: FloatArray, strength: float
) -> FloatArray:
    """EM for the weights of every bin: [n_bins, members]."""
    prior = prior / prior.sum()

    def update(lam: FloatArray) -> FloatArray:
        posterior = lam[bins] * p
        posterior *= (n / posterior.sum(axis=1))[:, None]
        total = np.stack(
            [np.bincount(bins, column, n_bins).astype(float) for column in posterior.T], axis=1
        )
        total = total + (strength + 1e-6) * prior
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    start: FloatArray = np.tile(prior, (n_bins, 1))
    return iterate_em(update, start, WEIGHT_ITERATIONS)
