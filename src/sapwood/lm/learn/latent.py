"""`EMBigram`: hidden states between neighbouring words, by EM on the engine or on a GPU.

Notation as in `lm.model.latent_models`, and
--------------------------------------------
    c[x, y]     how often y follows x, by contexts x            sparse
    R[x, h]     expected count of state h after x               [V, m]
    S[y, h]     expected count of state h before y              [V, m]

Several small models, each from its own start, are better than a large one, and together they are
one: with blocks r = (r_1 .. r_B) / B and s = (s_1 .. s_B) side by side,

    sum over h of r[x, h] s[y, h] = mean over blocks of sum over h of r_b[x, h] s_b[y, h]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FieldSums, FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import Domain, at_least, maybe, parameter, positional, whole
from sapwood.core.progress import counted, step
from sapwood.core.training_loops import EMResult, EMSteps, EMStop, iterate_em, run_em
from sapwood.execute import Engine
from sapwood.linalg.latent_bigrams import TINY, DevicePairs, maximise_states
from sapwood.lm.data.ngrams import NOTHING, START, UNKNOWN, NgramCounts
from sapwood.lm.learn.methods import LanguageEstimator
from sapwood.lm.model.latent_models import BigramModel, pair_mix

SHARD_ENTRIES = 400_000  # of contexts with their words: tenths of a second of work
STOP_WEIGHT = 0.05  # of single words while held-out text decides when EM ends
# Of a text without held-out part, what is held out to choose when to stop: a fraction, and the
# most; more says nothing new, and is looked at after every iteration.
HELD_FRACTION, MOST_HELD = 0.05, 2_000_000
UNIGRAM_PRIOR = 0.5
# Chosen on Brown's held-out part: blocks of 32 against 16, 64 and 128; rare pivots are noise.
BLOCK_STATES, MOST_BLOCKS = 32, 8
DEVICE = Domain("cpu or a name that PyTorch knows, such as cuda", lambda x: isinstance(x, str))
DEVICE_WORDS = "Where EM runs: cpu, or cuda for a GPU, which rounds in another way."
BLOCKS_WORDS = (
    "Parts of the states that are learnt apart, each from its own start; 1 is the plain model, "
    "None one for every 32 states, at most 8."
)
SMOOTHING_ITERATIONS = 60
N_WEIGHT_BINS = 24
# Arrays of 4-byte numbers, [words or pairs of words, states], that are held at once: as measured.
STATE_COPIES, PAIR_COPIES = 6, 6
Single = npt.NDArray[np.float32]
Expected = tuple[Any, Any, float]  # R, S without its factor s, and the log-likelihood


class BigramStates(NamedTuple):
    """The parameters r and s of hidden states between two words."""

    r: Single
    s: Single


# -- the E-step -----------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """Some contexts, numbered from `first`, and the words that follow them."""

    first: int
    starts: npt.NDArray[np.int64]  # where the words of each context start, [n + 1]
    seconds: npt.NDArray[np.int64]  # the words, by context, [nnz]
    counts: Single


@dataclass(frozen=True, eq=False)
class ExpectedStates(FieldSums):
    """The result of an E-step over some contexts; `+` joins shards."""

    R: list[Single]  # rows of the contexts, in order
    S: Single  # without its factor s
    log_likelihood: float


def expect_pairs(pairs: Pairs, r: Single, s: Single) -> ExpectedStates:
    """The E-step for some contexts."""
    from sapwood.lm.kernels.bigrams import expect_bigram_states

    here = np.ascontiguousarray(r[pairs.first : pairs.first + len(pairs.starts) - 1])
    R, S = np.zeros_like(here), np.zeros_like(s)
    value = expect_bigram_states(pairs.starts, pairs.seconds, pairs.counts, here, s, R, S)
    return ExpectedStates([R], S, float(value))


def cut_pairs(c: sparse.csr_array, dtype: npt.DTypeLike = np.float32) -> list[Pairs]:
    """Shards of whole contexts with about `SHARD_ENTRIES` entries each."""
    starts = c.indptr.astype(np.int64)
    wanted = np.arange(SHARD_ENTRIES, starts[-1], SHARD_ENTRIES)
    cuts = np.unique([0, *np.searchsorted(starts, wanted), len(starts) - 1])
    shards = []
    for a, b in pairwise(cuts):
        part = slice(starts[a], starts[b])
        words = c.indices[part].astype(np.int64), c.data[part].astype(dtype)
        shards.append(Pairs(int(a), starts[a : b + 1] - starts[a], *words))
    return shards


class EngineEStep:
    """Expected counts as sums over shards of contexts."""

    def __init__(self, engine: Engine, shards: list[Pairs]) -> None:
        self.engine, self.placed = engine, engine.place(shards)

    def put(self, array: FloatArray | Single) -> Any:
        """The array where the E-step runs."""
        return array

    def fetch(self, states: BigramStates) -> BigramStates:
        """The parameters as NumPy arrays."""
        return states

    def expect(self, states: BigramStates) -> Expected:
        """R, S without its factor s, and the log-likelihood."""
        found = self.engine.total(expect_pairs, self.placed, states.r, states.s)
        return np.concatenate(found.R), found.S, found.log_likelihood

    def expect_states(self, states: BigramStates) -> BigramStates:
        """R, and S without its factor s, as NumPy arrays."""
        placed = BigramStates(self.put(states.r), self.put(states.s))
        return self.fetch(BigramStates(*self.expect(placed)[:2]))


class DeviceEStep(EngineEStep):
    """Expected counts on a GPU."""

    def __init__(self, c: sparse.csr_array, device: str) -> None:
        c.sort_indices()
        self.pairs = DevicePairs(c.indptr, c.indices, c.data, c.shape[1], device)

    def put(self, array: FloatArray | Single) -> Any:
        """The array on the device."""
        return self.pairs.put(array)

    def fetch(self, states: BigramStates) -> BigramStates:
        """The parameters as NumPy arrays."""
        tables: tuple[Any, Any] = states
        return BigramStates(*(np.ascontiguousarray(table.cpu().numpy()) for table in tables))

    def expect(self, states: BigramStates) -> Expected:
        """R, S without its factor s, and the log-likelihood, on the device."""
        return self.pairs.expect(states.r, states.s)


# -- EM -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldPairs:
    """Held-out pairs of words, which decide when EM ends.

    Attributes
    ----------
    before, after, counts : [n]
        Pairs of words and how often each was seen.
    u : [V]
        Distribution of single words, for smoothing.
    known, backoff : [n]
        Where a pair backs off to the states: its probability without them, and their weight.
    """

    before: IntArray
    after: IntArray
    counts: FloatArray
    u: FloatArray
    known: FloatArray | float = 0.0
    backoff: FloatArray | float = 1.0

    @classmethod
    def of(cls, c: sparse.csr_array, u: FloatArray) -> HeldPairs:
        """Pairs of a table, except those before the unknown word, which is not predicted."""
        found = c.tocoo()
        kept = found.col != UNKNOWN
        before, after = found.row[kept].astype(np.int64), found.col[kept].astype(np.int64)
        return cls(before, after, np.asarray(found.data[kept], float), u)

    def value(self, states: BigramStates) -> float:
        """Mean log-probability, smoothed a little; 0 where no pair of known words is held out."""
        if not len(self.counts):
            return 0.0
        p = pair_mix(states.r, states.s, self.before, self.after)
        mixed = (1 - STOP_WEIGHT) * p + STOP_WEIGHT * self.u[self.after]
        return float(self.counts @ np.log(self.known + self.backoff * mixed) / self.counts.sum())


@dataclass(frozen=True, eq=False)
class BigramEM:
    """EM for hidden states between two words.

    Attributes
    ----------
    iterations
        The most iterations.
    prior
        Words that are added to every context, spread as states are, and to every state, as u is.
    u : [V]
        Distribution of single words.
    held
        What decides when to stop; None for after all iterations.
    patience
        Iterations that may make held-out text less likely.
    is_r_free
        Whether r is learnt too; with r fixed, the likelihood is concave, and EM finds its maximum.
    """

    iterations: int
    prior: float
    u: FloatArray
    held: HeldPairs | None = None
    patience: int = 2
    is_r_free: bool = True

    def run(self, source: EngineEStep, start: BigramStates) -> EMResult[BigramStates, Expected]:
        """EM until held-out text gets less likely; the parameters are the best, as NumPy arrays."""
        u, held = source.put(self.u.astype(np.float32)), self.held

        def maximise(now: BigramStates, counts: Expected) -> BigramStates:
            R, S, _ = counts
            fixed = None if self.is_r_free else now.r
            return BigramStates(*maximise_states(R, S * now.s, u, self.prior, r=fixed))

        steps = EMSteps[BigramStates, Expected](
            source.expect,
            maximise,
            lambda now, counts: counts[2],
            None if held is None else lambda now: held.value(source.fetch(now.parameters)),
        )
        stop = EMStop(
            self.iterations, patience=self.patience, keeps_latest=True, evaluates_last=False
        )
        placed = BigramStates(source.put(start.r), source.put(start.s))
        # without a total: held-out text mostly ends it long before the last of them
        with step("", unit="iteration") as advance:
            run = run_em(steps, placed, stop, listen=lambda now: advance(len(now.values)))
        assert run.best is not None
        best = source.fetch(run.best)
        return EMResult(best, run.values, run.scores, best)


def run_blocks(
    em: BigramEM, e_step: EngineEStep, sizes: list[int], seed: int
) -> list[EMResult[BigramStates, Expected]]:
    """EM for models of some sizes, each from its own start."""
    starts = (
        random_states(em.u, m, np.random.default_rng([seed, block]))
        for block, m in enumerate(sizes)
    )
    blocks = counted(starts, "EM", total=len(sizes), unit="block of states")
    return [em.run(e_step, start) for start in blocks]


def block_sizes(n_states: int, n_blocks: int | None = None) -> list[int]:
    """The number of states of each block, as equal as can be.

    Examples
    --------
    >>> block_sizes(10, 4), block_sizes(2, 4), block_sizes(100)
    ([3, 3, 2, 2], [1, 1], [34, 33, 33])
    """
    if n_blocks is None:
        n_blocks = max(1, min(MOST_BLOCKS, n_states // BLOCK_STATES))
    n_blocks = min(n_blocks, n_states)
    return [n_states // n_blocks + (b < n_states % n_blocks) for b in range(n_blocks)]


def random_states(
    u: FloatArray, m: int, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32
) -> BigramStates:
    """Random states of contexts, and distributions of words near that of all words."""
    s = u[:, None] * rng.uniform(0.5, 1.5, (len(u), m)) + TINY
    r = rng.dirichlet(np.ones(m), len(u))
    return BigramStates(r.astype(dtype), (s / s.sum(axis=0)).astype(dtype))


def join_blocks(blocks: list[BigramStates]) -> BigramStates:
    """Models side by side, as one; see the notation of this module."""
    r = np.concatenate([block.r for block in blocks], axis=1) / np.float32(len(blocks))
    return BigramStates(r.astype(blocks[0].r.dtype), np.concatenate([b.s for b in blocks], axis=1))


# -- counts and smoothing -------------------------------------------------------------------------


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

    def expect(weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        single = held.backoff * weight[here] * q
        both = single + held.backoff * (1 - weight[here]) * p
        ratio = held.counts / (held.known + both)
        weights = single * ratio, both * ratio
        n_single, n = (np.asarray(np.bincount(here, x, N_WEIGHT_BINS), float) for x in weights)
        return n_single, n

    def maximise(weight: FloatArray, counts: tuple[FloatArray, FloatArray]) -> FloatArray:
        n_single, n = counts
        return np.asarray((n_single + 1) / (n + 2))

    start = np.full(N_WEIGHT_BINS, 0.1)
    return np.asarray(iterate_em(expect, maximise, start, SMOOTHING_ITERATIONS)[bins])


# -- estimators -----------------------------------------------------------------------------------


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
        if self.device == "cpu":
            return EngineEStep(self._engine(), cut_pairs(c))
        return DeviceEStep(c, self.device)

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
        sizes = block_sizes(self.n_states, self.n_blocks)
        em = BigramEM(self.iterations, self.prior, pairs.u, pairs.held)
        self.climbs_ = run_blocks(em, self._e_step(pairs.c), sizes, self.seed)
        states = join_blocks([run.parameters for run in self.climbs_])
        record = self._record("em", counts, held, self.iterations_)
        self.model_ = self._model(counts, states, pairs, record)
        return self

    @property
    def iterations_(self) -> int:
        """Number of EM iterations of all blocks."""
        return sum(len(run.values) for run in self.climbs_)
