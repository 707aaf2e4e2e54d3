"""Language models with hidden states, learnt from counts of n-grams, and their mixture.

`EMBigram` has hidden states between neighbouring words, `LatentTrigram` after two words, and
`LanguageMixture` weighs both and n-grams by context. Notation as in `lm.learn.bigram_em`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray
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
from sapwood.core.progress import counted, step
from sapwood.core.training_loops import iterate_em
from sapwood.lm.data.counting import CountsLike, as_counts
from sapwood.lm.data.ngrams import NOTHING, START, UNKNOWN, NgramCounts
from sapwood.lm.learn.bigram_em import (
    BigramEM,
    BigramStates,
    EngineEStep,
    HeldPairs,
    Single,
    place_pairs,
)
from sapwood.lm.model.language_model import LanguageModel
from sapwood.lm.model.latent_models import (
    N_CONTEXT_BINS,
    BigramModel,
    LatentTrigramModel,
    MixtureModel,
    pair_mix,
)

# Of a text without held-out part, what is held out to choose when to stop: a fraction, and the
# most; more says nothing new, and is looked at after every iteration.
HELD_FRACTION, MOST_HELD = 0.05, 2_000_000
UNIGRAM_PRIOR = 0.5
WEIGHT_ITERATIONS = 60
SHRINKAGE = 50.0  # words that the weights of all contexts together count for in a bin
# Measured constants: `benchmarks/memory_estimates.py` prints estimates and measured peaks.
LIBRARIES = 10e6  # bytes that any learner takes
NGRAM_WORD = 45  # bytes for each word of each n-gram while levels are interpolated
# parameters that a model's record has, and their names there
RECORDED = {"order": "order", "n_states": "states", "n_blocks": "blocks", "seed": "seed"}
DEVICE = Domain("cpu or a name that PyTorch knows, such as cuda", lambda x: isinstance(x, str))
DEVICE_WORDS = "Where EM runs: cpu, or cuda for a GPU, which rounds in another way."
BLOCKS_WORDS = (
    "Blocks of states that are learnt separately, each from its own start; 1 is the plain model, "
    "None takes one for every 32 states, at most 8."
)
SMOOTHING_ITERATIONS = 60
N_WEIGHT_BINS = 24
# Arrays of 4-byte numbers, [words or pairs of words, states], that are held at once: as measured.
STATE_COPIES, PAIR_COPIES = 6, 6


def follow_counts(rows: npt.NDArray[np.uint32], counts: IntArray, n: int) -> sparse.csr_array:
    """c[x, y] of the pairs that end n-grams; n-grams of one word are left out."""
    is_pair = rows[:, 1] != NOTHING
    x, y = rows[is_pair, 1].astype(np.int64), rows[is_pair, 0].astype(np.int64)
    return sparse.csr_array((counts[is_pair].astype(float), (x, y)), shape=(n, n))


def require_pairs(c: sparse.csr_array) -> None:
    """Refuse text in which no word follows another: hidden states stand between two words."""
    if not c.nnz:
        raise SapwoodError("no word follows another in the counts", hint="count more text")


def draw_held(counts: IntArray, seed: int) -> IntArray:
    """How many occurrences of each item are held out, drawn one by one."""
    fraction = min(HELD_FRACTION, MOST_HELD / max(1, int(counts.sum())))
    return np.random.default_rng(seed).binomial(counts, fraction)


def hold_out(counts: NgramCounts, seed: int) -> tuple[NgramCounts, NgramCounts]:
    """N-grams to learn from, and n-grams that are held out, drawn one by one."""
    drawn = draw_held(counts.counts, seed)
    if not drawn.any():  # a few sentences: there is nothing to spare
        return counts, counts
    # N-grams of which none is left stay with a count of 0: others begin with them.
    held = replace(counts, rows=counts.rows[drawn > 0], counts=drawn[drawn > 0])
    return replace(counts, counts=counts.counts - drawn), held


def word_distribution(c: sparse.csr_array) -> FloatArray:
    """How often words follow anything, with a little for each that could."""
    seen = np.asarray(c.sum(axis=0)).ravel()
    could = seen + UNIGRAM_PRIOR
    could[:UNKNOWN] = np.where(seen[:UNKNOWN] > 0, could[:UNKNOWN], 0.0)
    return np.asarray(could / could.sum())


def smoothing_weights(
    states: BigramStates, u: FloatArray, counts: NgramCounts, held: HeldPairs
) -> FloatArray:
    """The weight of single words after each word, by how often it was seen, from held-out text.

    A bin starts with one pair of either kind, so that unseen bins are half and half.
    """
    bins = np.minimum(np.log2(1 + counts.word_counts), N_WEIGHT_BINS - 1).astype(np.int64)
    bins[START] = N_WEIGHT_BINS - 1  # starts of sentences are many, and not counted as words
    here = bins[held.before]
    p, q = pair_mix(states.r, states.s, held.before, held.after), u[held.after]

    def update(weight: FloatArray) -> FloatArray:
        single = held.backoff * weight[here] * q
        both = single + held.backoff * (1 - weight[here]) * p
        ratio = held.counts / (held.known + both)
        n_single = np.bincount(here, single * ratio, N_WEIGHT_BINS)
        n = np.bincount(here, both * ratio, N_WEIGHT_BINS)
        return np.asarray((n_single + 1) / (n + 2))

    start = np.full(N_WEIGHT_BINS, 0.1)
    return np.asarray(iterate_em(update, start, SMOOTHING_ITERATIONS)[bins])


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


class TrainingPairs(NamedTuple):
    """Pairs of words to learn from, and what goes with them."""

    c: sparse.csr_array
    u: FloatArray  # distribution of words
    held: HeldPairs  # decides when to stop, and how to smooth


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
        copies = STATE_COPIES + self._engine().jobs_here
        return super().memory_needed(counts) + 4 * copies * len(counts.words) * self.n_states

    def _e_step(self, c: sparse.csr_array) -> EngineEStep:
        return place_pairs(c, self.device, self._engine())

    def _pairs(self, counts: NgramCounts, held: NgramCounts | None) -> TrainingPairs:
        """Pairs to learn from; without held-out text, some of the pairs are held out."""
        n = len(counts.words)
        c = follow_counts(counts.rows, counts.counts, n)
        require_pairs(c)
        u = word_distribution(c)
        if held is not None:
            if held.words != counts.words:
                raise SapwoodError("the held-out text is counted in other words")
            return TrainingPairs(c, u, HeldPairs.of(follow_counts(held.rows, held.counts, n), u))
        drawn = draw_held(c.data.astype(np.int64), self.seed)
        if not drawn.any():  # a few sentences: there is nothing to spare
            return TrainingPairs(c, u, HeldPairs.of(c, u))
        apart, rest = c.copy(), c.copy()
        apart.data, rest.data = drawn.astype(float), c.data - drawn
        apart.eliminate_zeros()
        rest.eliminate_zeros()
        return TrainingPairs(rest, u, HeldPairs.of(apart, u))

    def _model(
        self, counts: NgramCounts, states: BigramStates, pairs: TrainingPairs, record: Any
    ) -> BigramModel:
        weight = smoothing_weights(states, pairs.u, counts, pairs.held)
        r, s = (table.astype(np.float32) for table in states)
        return BigramModel(counts.words, r, s, pairs.u, weight, counts.is_stream, record)


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
        pairs = self._pairs(counts, held)
        em = BigramEM(self.iterations, self.prior, pairs.u, pairs.held)
        states, self.climbs_ = em.run_blocks(
            self._e_step(pairs.c), self.n_states, self.n_blocks, self.seed
        )
        record = self._record("em", counts, held, self.iterations_)
        self.model_ = self._model(counts, states, pairs, record)
        return self

    @property
    def iterations_(self) -> int:
        """Number of EM iterations of all blocks."""
        return sum(len(run.values) for run in self.climbs_)


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
        4.0, at_least(0), "Weight of the nearer word's states in a pair, in words."
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
        n_pairs = 1 + int((counts.rows[1:, :2] != counts.rows[:-1, :2]).any(axis=1).sum())
        return super().memory_needed(counts) + 4 * PAIR_COPIES * n_pairs * self.n_states

    def add_pairs(self, bigram: BigramModel, counts: NgramCounts) -> LatentTrigramModel:
        """States of pairs of words, given those of single words."""
        c, pairs = pair_follow_counts(counts, self.min_pair_count)
        if not len(pairs):
            msg = f"no pair of words was seen {self.min_pair_count} times and followed"
            raise SapwoodError(msg, hint="lower min_pair_count, or use EMBigram")
        nearer = (pairs % np.uint64(len(counts.words))).astype(np.int64)
        e_step, prior = self._e_step(c), bigram.r[nearer]

        def update(r2: Single) -> Single:
            expected = e_step.expect_states(BigramStates(r2, bigram.s))
            R = expected.r + np.float32(self.strength) * prior
            return np.asarray(R / R.sum(axis=1, keepdims=True), np.float32)

        r2 = iterate_em(update, prior, self.pair_iterations)
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
        rest, drawn = hold_out(counts, self.seed) if held is None else (counts, held)
        members = self._members(rest, drawn)
        weights = member_weights(members, rest, drawn)
        if held is None:
            members = self._members(counts, None)
        record = self._record("mix", counts, held, self.iterations_)
        self.model_ = MixtureModel.of(members, counts, weights, record)
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
        from sapwood.lm.learn.kneser_ney import KneserNey  # which builds on this file

        self.latent_ = self._latent().learn(counts, held_out)
        with step("n-grams"):
            plain = KneserNey(self.order).learn(counts).model_
        return [plain, self.latent_.bigram_.model_, self.latent_.model_]

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
    scored = model.member_probs(rows)
    scored = counted(scored, "held-out probabilities", total=len(members), unit="member")
    p = np.stack(list(scored), axis=1)
    everywhere = mixture_weights(
        p, n, np.zeros(len(rows), np.int64), 1, np.full(p.shape[1], 1.0), 0.0
    )
    return mixture_weights(p, n, model.bins.bin(rows), N_CONTEXT_BINS, everywhere[0], SHRINKAGE)


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
    with step("weights of the mixture", total=WEIGHT_ITERATIONS, unit="iteration") as advance:
        return iterate_em(update, start, WEIGHT_ITERATIONS, lambda now: advance(len(now.values)))
