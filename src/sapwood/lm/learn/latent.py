"""`EMBigram`, `PivotBigram`, `LatentTrigram`: hidden states between neighbouring words.

Notation as in `models.lm.latent_models`, and
---------------------------------------------
    c[x, y]     how often y follows x, by contexts x            sparse
    R[x, h]     expected count of state h after x               [V, m]
    S[y, h]     expected count of state h before y              [V, m]

Several small models, each from its own start, are better than a large one, and together they are
one: with blocks r = (r_1 .. r_B) / B and s = (s_1 .. s_B) side by side,

    sum over h of r[x, h] s[y, h] = mean over blocks of sum over h of r_b[x, h] s_b[y, h]
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.em_loop import EMResult
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import Domain, at_least, maybe, parameter, positional, whole
from sapwood.linalg.cca import cca
from sapwood.linalg.latent_bigrams import TINY, maximise_states
from sapwood.linalg.pivots import PivotStates, columns_given_states, states_from_points
from sapwood.lm.data.ngram_files import CountsLike
from sapwood.lm.data.ngrams import NgramCounts, first_of_runs
from sapwood.lm.data.plain_text import NOTHING, START, UNKNOWN
from sapwood.lm.learn.bigram_em import (
    BigramEM,
    EStep,
    Expected,
    Held,
    OnDevice,
    OnEngine,
    Start,
    cut_pairs,
)
from sapwood.lm.learn.language_learner import LanguageEstimator
from sapwood.lm.model.latent_models import BigramModel, LatentTrigramModel, pair_mix
from sapwood.progress import counted

# Of a text without held-out part, what is held out to choose when to stop: a share, and the most;
# more says nothing new, and is looked at after every iteration.
HELD_SHARE, MOST_HELD = 0.05, 2_000_000
UNIGRAM_PRIOR = 0.5
# Chosen on Brown's held-out part: blocks of 32 against 16, 64 and 128; rare pivots are noise.
BLOCK_STATES, MOST_BLOCKS = 32, 8
CONVEX_ITERATIONS = 50
RARE_ITERATIONS = 3
PIVOT_COUNT, PIVOT_SHARE, PIVOT_RIDGE = 50, 0.01, 10.0
DEVICE = Domain("cpu or a name that PyTorch knows, such as cuda", lambda x: isinstance(x, str))
DEVICE_WORDS = "Where EM runs: cpu, or cuda for a GPU, which rounds in another way."
BLOCKS = (
    "Parts of the states that are learnt apart, each from its own start; 1 is the plain model, "
    "None one for every 32 states, at most 8."
)
SMOOTHING_STEPS = 60
N_WEIGHT_BINS = 24
# Arrays of 4-byte numbers, [words or pairs of words, states], that are held at once: as measured.
STATE_COPIES, PAIR_COPIES = 6, 6


def follow_counts(rows: npt.NDArray[np.uint32], counts: IntArray, n: int) -> sparse.csr_array:
    """c[x, y] of the pairs that end n-grams; what follows nothing is left out."""
    is_pair = rows[:, 1] != NOTHING
    x, y = rows[is_pair, 1].astype(np.int64), rows[is_pair, 0].astype(np.int64)
    return sparse.csr_array((counts[is_pair].astype(float), (x, y)), shape=(n, n))


def draw_held(counts: IntArray, seed: int) -> IntArray:
    """How many of each are held out: a share, drawn one by one."""
    share = min(HELD_SHARE, MOST_HELD / max(1, int(counts.sum())))
    return np.random.default_rng(seed).binomial(counts, share)


def hold_out(counts: NgramCounts, seed: int) -> tuple[NgramCounts, NgramCounts]:
    """N-grams to learn from, and a share that is held out, drawn one by one."""
    drawn = draw_held(counts.counts, seed)
    if not drawn.any():  # a few sentences: there is nothing to spare
        return counts, counts
    # N-grams of which none is left stay with a count of 0: others begin with them.
    held = replace(counts, rows=counts.rows[drawn > 0], counts=drawn[drawn > 0])
    return replace(counts, counts=counts.counts - drawn), held


class LatentEstimator(LanguageEstimator):
    """What learning of hidden states between words has in common."""

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
    seed: int = parameter(0, whole(0), "Of random starts, and of what is held out.")
    device: str = parameter("cpu", DEVICE, DEVICE_WORDS, changes_model=False)

    def memory_needed(self, counts: NgramCounts) -> float:
        """Bytes of EM over the pairs of words, and of the states of words before and after."""
        copies = STATE_COPIES + self._engine().jobs_here
        return super().memory_needed(counts) + 4 * copies * len(counts.words) * self.n_states

    def _e_step(self, c: sparse.csr_array) -> EStep:
        if self.device == "cpu":
            return OnEngine(self._engine(), cut_pairs(c))
        return OnDevice(c, self.device)

    def _train_and_held(
        self, counts: NgramCounts, held_out: NgramCounts | None
    ) -> tuple[sparse.csr_array, FloatArray, Held, sparse.csr_array]:
        """Pairs to learn from, distribution of words, what decides when to stop, held-out pairs."""
        n = len(counts.words)
        c = follow_counts(counts.rows, counts.counts, n)
        require_pairs(c)
        u = word_distribution(c)
        if held_out is not None:
            if held_out.words != counts.words:
                msg = "the held-out text is counted in other words"
                raise SapwoodError(msg)
            held = follow_counts(held_out.rows, held_out.counts, n)
            return c, u, Held.of(held, u), held
        drawn = draw_held(c.data.astype(np.int64), self.seed)
        if not drawn.any():  # a few sentences: there is nothing to spare
            return c, u, Held.of(c, u), c
        held, rest = c.copy(), c.copy()
        held.data, rest.data = drawn.astype(float), c.data - drawn
        held.eliminate_zeros()
        rest.eliminate_zeros()
        return rest, u, Held.of(held, u), held

    def _model(
        self, counts: NgramCounts, start: Start, u: FloatArray, held: sparse.csr_array
    ) -> BigramModel:
        weight = smoothing_weights(start, u, counts, Held.of(held, u))
        return BigramModel(
            counts.words, start.r.astype(np.float32), start.s.astype(np.float32), u, weight,
            counts.is_stream,
        )  # fmt: skip


class EMBigram(LatentEstimator):
    """Latent bigram model by EM from random starts.

    Examples
    --------
    >>> text = [["the", "dog", "barks"], ["the", "cat", "sleeps"]] * 20
    >>> model = EMBigram(2, n_blocks=1).fit(text).model_
    >>> float(np.exp(model.next_log_probs(["the"])).sum().round(4))
    1.0
    """

    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS)

    def fit(self, source: CountsLike, held: NgramCounts | None = None) -> Self:
        """Learn from counts of pairs at least; held-out text says when to stop and how to smooth.

        Attributes set: `model_`; `climbs_`, how EM went for each block.
        """
        self._check_parameters()
        counts = self._read(source, 2)
        c, u, stop, held_pairs = self._train_and_held(counts, held)
        sizes = block_sizes(self.n_states, self.n_blocks)
        e_step, em = self._e_step(c), BigramEM(self.iterations, self.prior, u, stop)
        self.climbs_ = run_blocks(em, e_step, sizes, self.seed)
        whole_model = join_blocks([run.parameters for run in self.climbs_])
        model = self._model(counts, whole_model, u, held_pairs)
        self.model_ = replace(model, record=self._record("em", counts, held))
        return self

    @property
    def iterations_(self) -> int:
        """EM iterations of all blocks."""
        return sum(len(run.values) for run in self.climbs_)


def require_pairs(c: sparse.csr_array) -> None:
    """Refuse text in which no word follows another: hidden states stand between two words."""
    if not c.nnz:
        msg = "no word follows another in the counts"
        raise SapwoodError(msg, hint="count more text")


def run_blocks(
    em: BigramEM, e_step: EStep, sizes: list[int], seed: int
) -> list[EMResult[Start, Expected]]:
    """EM for models of some sizes, each from its own start."""
    starts = (
        random_start(em.u, m, np.random.default_rng([seed, block])) for block, m in enumerate(sizes)
    )
    blocks = counted(starts, "EM", total=len(sizes), unit="block of states")
    return [em.run(e_step, start) for start in blocks]


def block_sizes(n_states: int, n_blocks: int | None = None) -> list[int]:
    """States of each block, as equal as can be.

    Examples
    --------
    >>> block_sizes(10, 4), block_sizes(2, 4), block_sizes(100)
    ([3, 3, 2, 2], [1, 1], [34, 33, 33])
    """
    if n_blocks is None:
        n_blocks = max(1, min(MOST_BLOCKS, n_states // BLOCK_STATES))
    n_blocks = min(n_blocks, n_states)
    return [n_states // n_blocks + (b < n_states % n_blocks) for b in range(n_blocks)]


def random_start(
    u: FloatArray, m: int, rng: np.random.Generator, dtype: npt.DTypeLike = np.float32
) -> Start:
    """Random states of contexts, and distributions of words near that of all."""
    s = u[:, None] * rng.uniform(0.5, 1.5, (len(u), m)) + TINY
    return Start(rng.dirichlet(np.ones(m), len(u)).astype(dtype), (s / s.sum(axis=0)).astype(dtype))


def join_blocks(blocks: list[Start]) -> Start:
    """Models side by side, as one; see the notation of this module."""
    r = np.concatenate([block.r for block in blocks], axis=1) / np.float32(len(blocks))
    return Start(r.astype(blocks[0].r.dtype), np.concatenate([b.s for b in blocks], axis=1))


def word_distribution(c: sparse.csr_array) -> FloatArray:
    """How often words follow anything, with a little for each that could."""
    seen = np.asarray(c.sum(axis=0)).ravel()
    could = seen + UNIGRAM_PRIOR
    could[:UNKNOWN] = np.where(seen[:UNKNOWN] > 0, could[:UNKNOWN], 0.0)
    return np.asarray(could / could.sum())


def smoothing_weights(start: Start, u: FloatArray, counts: NgramCounts, held: Held) -> FloatArray:
    """Share of single words after each word, by how often it was seen, from held-out text.

    A bin starts with one pair of either kind, so that unseen bins are half and half.
    """
    bins = np.minimum(np.log2(1 + counts.word_counts), N_WEIGHT_BINS - 1).astype(np.int64)
    bins[START] = N_WEIGHT_BINS - 1  # starts of sentences are many, and not counted as words
    here = bins[held.before]
    p, q = pair_mix(start.r, start.s, held.before, held.after), u[held.after]
    weight = np.full(N_WEIGHT_BINS, 0.1)
    for _ in range(SMOOTHING_STEPS):
        mine = held.left * weight[here] * q
        both = mine + held.left * (1 - weight[here]) * p
        share = held.counts / (held.known + both)
        n = np.bincount(here, both * share, N_WEIGHT_BINS)
        weight = (np.bincount(here, mine * share, N_WEIGHT_BINS) + 1) / (n + 2)
    return np.asarray(weight[bins])


class PivotBigram(LatentEstimator):
    """Latent bigram model by pivot words, convex EM, and a few iterations of EM.

    The states of contexts come from pivots: words after which the state is certain. Given them,
    the likelihood of the words that follow is concave, and its maximum is found. `iterations` of
    EM may follow; 0 keeps the pivot estimate.
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

    def fit(self, source: CountsLike, held: NgramCounts | None = None) -> Self:
        """Learn from counts of pairs at least; held-out text says when to stop and how to smooth.

        Attributes set: `model_`; `pivots_`, a word for each state; `climb_`, how EM went.
        """
        self._check_parameters()
        counts = self._read(source, 2)
        c, u, stop, held_pairs = self._train_and_held(counts, held)
        wanted = self.min_pivot_count or max(PIVOT_COUNT, PIVOT_SHARE * c.sum() / self.n_states)
        found, s = pivot_states(
            c, self.n_states, least=wanted, ridge=PIVOT_RIDGE, trusted=self.min_count
        )
        self.pivots_ = [counts.words[i] for i in found.pivots]
        start = Start(
            _spread(found.posterior, axis=1, floor=found.pi).astype(np.float32),
            _spread(s, axis=0, floor=u[:, None]).astype(np.float32),
        )
        e_step = self._e_step(c)
        is_rare = np.asarray(c.sum(axis=1)).ravel() < self.min_count
        for _ in range(RARE_ITERATIONS):
            start = self._rare_states(e_step, start, is_rare, u)
        convex = BigramEM(CONVEX_ITERATIONS, self.prior, u, stop, is_r_free=False)
        start = convex.run(e_step, start).parameters
        self.climb_ = BigramEM(self.iterations, self.prior, u, stop).run(e_step, start)
        model = self._model(counts, self.climb_.parameters, u, held_pairs)
        record = self._record("pivot-em" if self.iterations else "pivot", counts, held)
        self.model_ = replace(model, record=record)
        return self

    def _rare_states(
        self, e_step: EStep, start: Start, is_rare: npt.NDArray[np.bool_], u: FloatArray
    ) -> Start:
        """An iteration of EM for the states of some words, all else being fixed."""
        R, S, _ = e_step.expect(e_step.put(start))
        R, S = e_step.fetch(Start(R, S))
        r, _ = maximise_states(R, S * start.s, u, self.prior)
        return start._replace(r=np.where(is_rare[:, None], r, start.r).astype(np.float32))

    @property
    def iterations_(self) -> int:
        """EM iterations that followed."""
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


def _spread(p: FloatArray, axis: int, floor: FloatArray, share: float = 1e-3) -> FloatArray:
    """Distributions with a small share of another, so that EM can leave their zeros."""
    p = (1 - share) * p / p.sum(axis=axis, keepdims=True) + share * floor
    return np.asarray(p / p.sum(axis=axis, keepdims=True))


class LatentTrigram(LatentEstimator):
    """The hidden state depends on two words, and backs off to one.

        r2[c, h] ~ expected count of h after the pair c  +  strength * r[last word of c, h]

    The words that follow a state are those of a latent bigram model, which is learnt first.
    """

    n_blocks: int | None = parameter(None, maybe(whole(1, 64)), BLOCKS)
    strength: float = parameter(
        4.0, at_least(0), "Words that the nearer word's states count for in a pair."
    )
    min_pair_count: int = parameter(2, whole(1), "How often a pair must be seen.")
    pair_iterations: int = parameter(4, whole(1), "Of EM for the states of pairs.")

    def fit(self, source: CountsLike, held: NgramCounts | None = None) -> Self:
        """Learn from counts of order 3 at least.

        Attributes set: `model_`, and `bigram_`, the estimator of the model it backs off to.
        """
        self._check_parameters()
        counts = self._read(source, 3)
        self.bigram_ = EMBigram(
            self.n_states, n_blocks=self.n_blocks, iterations=self.iterations, prior=self.prior,
            seed=self.seed, device=self.device, n_jobs=self.n_jobs, engine=self.engine,
        ).fit(counts, held)  # fmt: skip
        model = self.add_pairs(self.bigram_.model_, counts)
        self.model_ = replace(model, record=self._record("latent-trigram", counts, held))
        return self

    def memory_needed(self, counts: NgramCounts) -> float:
        """Also of the states of every pair of words."""
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
        r2 = prior
        for _ in range(self.pair_iterations):
            R, S, _ = e_step.expect(e_step.put(Start(r2, bigram.s)))
            R = e_step.fetch(Start(R, S)).r + np.float32(self.strength) * prior
            r2 = np.asarray(R / R.sum(axis=1, keepdims=True), np.float32)
        return LatentTrigramModel(bigram, pairs, r2)

    @property
    def iterations_(self) -> int:
        """EM iterations in all."""
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
