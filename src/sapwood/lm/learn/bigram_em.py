"""EM for hidden states between neighbouring words: pairs to learn from, E-step, M-step, blocks.

Notation as in `lm.model.latent_models`, and
--------------------------------------------
    c[x, y]     how often y follows x, by contexts x            sparse
    p[x, y]     sum over h of r[x, h] s[y, h], where c[x, y] > 0
    R[x, h]     expected count of state h after x               [V, m]
    S[y, h]     expected count of state h before y              [V, m]

    R = r * (c / p) s;    S = (c / p)' r, without its factor s

The E-step runs on the engine, or on a GPU (`lm.learn.device`).

Several small models, each from its own start, are better than a large one, and together they are
one: with blocks r = (r_1 .. r_B) / B and s = (s_1 .. s_B) side by side,

    sum over h of r[x, h] s[y, h] = mean over blocks of sum over h of r_b[x, h] s_b[y, h]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FieldSums, FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.progress import counted
from sapwood.core.training_loops import EMResult, EMSteps, EMStop, iterate_em, run_em
from sapwood.execute import Engine
from sapwood.lm.data.ngrams import NOTHING, START, UNKNOWN, NgramCounts, draw_held
from sapwood.lm.model.latent_models import BigramModel, pair_mix

SHARD_ENTRIES = 400_000  # of contexts with their words: tenths of a second of work
TINY = 1e-12  # EM cannot leave a zero
Array = Any  # of NumPy or PyTorch
STOP_WEIGHT = 0.05  # of single words while held-out text decides when EM ends
# Chosen on Brown's held-out part: blocks of 32 against 16, 64 and 128; rare pivots are noise.
BLOCK_STATES, MOST_BLOCKS = 32, 8
UNIGRAM_PRIOR = 0.5  # occurrences that every word has before any text
SMOOTHING_ITERATIONS = 60
N_WEIGHT_BINS = 24  # of words by how often they were seen, for weights of single words
Single = npt.NDArray[np.float32]
Expected = tuple[Any, Any, float]  # R, S without its factor s, and the log-likelihood


class BigramStates(NamedTuple):
    """The parameters r and s of hidden states between two words."""

    r: Single
    s: Single


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


def place_pairs(c: sparse.csr_array, device: str, engine: Engine) -> EngineEStep:
    """The E-step for a table of pairs, on the engine or on a GPU."""
    if device == "cpu":
        return EngineEStep(engine, cut_pairs(c))
    from sapwood.lm.learn.device import DeviceEStep

    return DeviceEStep(c, device)


def maximise_states(
    R: Array, S: Array, u: Array, prior: float, *, r: Array | None = None
) -> tuple[Array, Array]:
    """The M-step: the estimate of maximum likelihood, or with a prior of maximum posterior.

        r[x, h] ~ R[x, h] + prior * p(h);    s[y, h] ~ S[y, h] + prior * u[y]

    Parameters
    ----------
    R, S : [V, m]
        Expected counts of states after and before each word.
    u : [V]
        Distribution of single words.
    r : [V, m]
        Kept as it is where given: the likelihood is concave in s alone.
    """
    S = S + (prior * u + TINY)[:, None]
    s = S / S.sum(0)
    if r is not None:
        return r, s
    states = R.sum(0)
    R = R + (prior * (states / states.sum()) + TINY)
    return R / R.sum(1)[:, None], s


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

    def mix(self, states: BigramStates) -> FloatArray:
        """The probability of each pair by the states alone."""
        return pair_mix(states.r, states.s, self.before, self.after)

    def value(self, states: BigramStates) -> float:
        """Mean log-probability of the pairs, interpolated with single words; 0 without pairs."""
        if not len(self.counts):
            return 0.0
        mixed = (1 - STOP_WEIGHT) * self.mix(states) + STOP_WEIGHT * self.u[self.after]
        return float(self.counts @ np.log(self.known + self.backoff * mixed) / self.counts.sum())


def follow_counts(rows: npt.NDArray[np.uint32], counts: IntArray, n: int) -> sparse.csr_array:
    """Counts c[x, y] of the last two words of n-grams; n-grams of one word are left out."""
    is_pair = rows[:, 1] != NOTHING
    x, y = rows[is_pair, 1].astype(np.int64), rows[is_pair, 0].astype(np.int64)
    return sparse.csr_array((counts[is_pair].astype(float), (x, y)), shape=(n, n))


def require_pairs(c: sparse.csr_array) -> None:
    """Refuse text in which no word follows another: hidden states stand between two words."""
    if not c.nnz:
        raise SapwoodError("no word follows another in the counts", hint="count more text")


def word_distribution(c: sparse.csr_array) -> FloatArray:
    """How often words follow anything, with a little for each that could."""
    seen = np.asarray(c.sum(axis=0)).ravel()
    could = seen + UNIGRAM_PRIOR
    could[:UNKNOWN] = np.where(seen[:UNKNOWN] > 0, could[:UNKNOWN], 0.0)
    return np.asarray(could / could.sum())


class TrainingPairs(NamedTuple):
    """Pairs of words to learn from, and held-out ones that end EM and choose the smoothing."""

    c: sparse.csr_array
    held: HeldPairs

    @classmethod
    def of(cls, counts: NgramCounts, held: NgramCounts | None, seed: int) -> TrainingPairs:
        """The pairs of some n-grams; without held-out text, some of the pairs are held out."""
        n = len(counts.words)
        c = follow_counts(counts.rows, counts.counts, n)
        require_pairs(c)
        u = word_distribution(c)
        if held is not None:
            if held.words != counts.words:
                raise SapwoodError("the held-out text is counted in other words")
            return cls(c, HeldPairs.of(follow_counts(held.rows, held.counts, n), u))
        drawn = draw_held(c.data.astype(np.int64), seed)
        if not drawn.any():  # a few sentences: there is nothing to spare
            return cls(c, HeldPairs.of(c, u))
        apart, rest = c.copy(), c.copy()
        apart.data, rest.data = drawn.astype(float), c.data - drawn
        apart.eliminate_zeros()
        rest.eliminate_zeros()
        return cls(rest, HeldPairs.of(apart, u))


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

        def score(now: EMResult[BigramStates, Expected]) -> float:
            assert held is not None
            return held.value(source.fetch(now.parameters))

        steps = EMSteps[BigramStates, Expected](
            source.expect,
            maximise,
            lambda now, counts: counts[2],
            None if held is None else score,
        )
        stop = EMStop(
            self.iterations, patience=self.patience, keeps_latest=True, evaluates_last=False
        )
        placed = BigramStates(source.put(start.r), source.put(start.s))
        run = run_em(steps, placed, stop)
        assert run.best is not None
        best = source.fetch(run.best)
        return EMResult(best, run.values, run.scores, best)

    def run_blocks(
        self, source: EngineEStep, n_states: int, n_blocks: int | None, seed: int
    ) -> tuple[BigramStates, list[EMResult[BigramStates, Expected]]]:
        """Blocks of states, each learnt from its own start, side by side; and the run of each."""
        sizes, runs = block_sizes(n_states, n_blocks), []
        for block, m in enumerate(counted(sizes, "EM", unit="block of states")):
            start = random_states(self.u, m, np.random.default_rng([seed, block]))
            runs.append(self.run(source, start))
        return join_blocks([run.parameters for run in runs]), runs


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


def smoothing_weights(states: BigramStates, counts: NgramCounts, held: HeldPairs) -> FloatArray:
    """Weights of single words after each word, by EM on held-out pairs in bins of word counts.

    A bin starts with one pair of either kind, so that unseen bins are half and half.
    """
    bins = np.minimum(np.log2(1 + counts.word_counts), N_WEIGHT_BINS - 1).astype(np.int64)
    bins[START] = N_WEIGHT_BINS - 1  # starts of sentences are many, and not counted as words
    here = bins[held.before]
    p, q = held.mix(states), held.u[held.after]

    def update(weight: FloatArray) -> FloatArray:
        single = held.backoff * weight[here] * q
        both = single + held.backoff * (1 - weight[here]) * p
        ratio = held.counts / (held.known + both)
        n_single = np.bincount(here, single * ratio, N_WEIGHT_BINS)
        n = np.bincount(here, both * ratio, N_WEIGHT_BINS)
        return np.asarray((n_single + 1) / (n + 2))

    start = np.full(N_WEIGHT_BINS, 0.1)
    return np.asarray(iterate_em(update, start, SMOOTHING_ITERATIONS)[bins])


class StatePlan(NamedTuple):
    """Settings of EM: states, blocks, iterations, prior, seed, and the device or engine."""

    n_states: int
    n_blocks: int | None  # None for one for every `BLOCK_STATES` states, at most `MOST_BLOCKS`
    iterations: int
    prior: float
    seed: int
    device: str
    engine: Engine


def learn_states(
    pairs: TrainingPairs, counts: NgramCounts, plan: StatePlan
) -> tuple[BigramStates, FloatArray, list[EMResult[BigramStates, Expected]]]:
    """States by EM from random starts, the weights of single words, and the run of each block."""
    em = BigramEM(plan.iterations, plan.prior, pairs.held.u, pairs.held)
    source = place_pairs(pairs.c, plan.device, plan.engine)
    states, runs = em.run_blocks(source, plan.n_states, plan.n_blocks, plan.seed)
    return states, smoothing_weights(states, counts, pairs.held), runs


def learn_bigram(
    counts: NgramCounts, held: NgramCounts | None, plan: StatePlan
) -> tuple[BigramModel, list[EMResult[BigramStates, Expected]]]:
    """The latent bigram model of some n-grams by EM, and the run of each block of states."""
    pairs = TrainingPairs.of(counts, held, plan.seed)
    states, weight, runs = learn_states(pairs, counts, plan)
    return bigram_model(counts, states, pairs.held.u, weight), runs


def bigram_model(
    counts: NgramCounts, states: BigramStates, u: FloatArray, weight: FloatArray
) -> BigramModel:
    """The model with some states, in single precision, and weights of single words."""
    r, s = (table.astype(np.float32) for table in states)
    return BigramModel(counts.words, r, s, u, weight, counts.is_stream)


def learn_pair_states(
    c: sparse.csr_array,
    nearer: Single,
    s: Single,
    *,
    strength: float,
    iterations: int,
    plan: StatePlan,
) -> Single:
    """States of pairs of words by EM, drawn to those of the nearer word: [n_pairs, m].

    Parameters
    ----------
    c : [n_pairs, V]
        How often each word follows each pair.
    nearer : [n_pairs, m]
        The states of the last word of each pair, where EM starts.
    s : [V, m]
        The words that follow each state, which stay.
    strength
        Occurrences of a pair that the states of its last word count for.
    """
    source = place_pairs(c, plan.device, plan.engine)

    def update(r2: Single) -> Single:
        R = source.expect_states(BigramStates(r2, s)).r + np.float32(strength) * nearer
        return np.asarray(R / R.sum(axis=1, keepdims=True), np.float32)

    return iterate_em(update, nearer, iterations)
