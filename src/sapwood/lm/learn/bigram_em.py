"""EM for hidden states between neighbouring words, on the engine or on a GPU.

Notation as in `lm.model.latent_models`, and
--------------------------------------------
    c[x, y]     how often y follows x, by contexts x            sparse
    p[x, y]     sum over h of r[x, h] s[y, h], where c[x, y] > 0
    R[x, h]     expected count of state h after x               [V, m]
    S[y, h]     expected count of state h before y              [V, m]

    R = r * (c / p) s;    S = (c / p)' r, without its factor s

Both updates move rows of r and s, one for each pair of words that was seen: they are bound by
memory, which a GPU has ten to forty times as fast as a processor.

Several small models, each from its own start, are better than a large one, and together they are
one: with blocks r = (r_1 .. r_B) / B and s = (s_1 .. s_B) side by side,

    sum over h of r[x, h] s[y, h] = mean over blocks of sum over h of r_b[x, h] s_b[y, h]
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FieldSums, FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.progress import counted, step
from sapwood.core.training_loops import EMResult, EMSteps, EMStop, run_em
from sapwood.execute import Engine
from sapwood.lm.data.ngrams import UNKNOWN
from sapwood.lm.model.latent_models import pair_mix

SHARD_ENTRIES = 400_000  # of contexts with their words: tenths of a second of work
TINY = 1e-12  # EM cannot leave a zero
Array = Any  # of NumPy or PyTorch
STOP_WEIGHT = 0.05  # of single words while held-out text decides when EM ends
# Chosen on Brown's held-out part: blocks of 32 against 16, 64 and 128; rare pivots are noise.
BLOCK_STATES, MOST_BLOCKS = 32, 8
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


def place_pairs(c: sparse.csr_array, device: str, engine: Engine) -> EngineEStep:
    """The E-step for a table of pairs, on the engine or on a GPU."""
    return EngineEStep(engine, cut_pairs(c)) if device == "cpu" else DeviceEStep(c, device)


class DevicePairs:
    """Pairs of words on a device of PyTorch (cuda, cuda:1, cpu), by first and by second word.

    `starts` [V + 1] are the offsets of the pairs of each first word; `seconds` and `counts` [nnz]
    the second words, sorted for each first, and how often each pair was seen.
    """

    def __init__(
        self, starts: Array, seconds: Array, counts: Array, n_seconds: int, device: str
    ) -> None:
        torch = import_torch(device)
        self._torch, self.shape = torch, (len(starts) - 1, n_seconds)
        place = {"device": device}
        self._rows = torch.as_tensor(starts, dtype=torch.int64, **place)
        self._columns = torch.as_tensor(seconds, dtype=torch.int64, **place)
        self.counts = torch.as_tensor(counts, dtype=torch.float32, **place)
        self._order = torch.argsort(self._columns, stable=True)
        firsts = torch.repeat_interleave(
            torch.arange(self.shape[0], **place), self._rows[1:] - self._rows[:-1]
        )
        self._firsts = firsts[self._order]
        sizes = torch.bincount(self._columns, minlength=n_seconds)
        self._starts = torch.cat([torch.zeros(1, dtype=torch.int64, **place), sizes.cumsum(0)])

    def put(self, array: Array) -> Array:
        """Copy an array of NumPy to the device, in single precision."""
        return self._torch.as_tensor(array, dtype=self._torch.float32, device=self.counts.device)

    def expect(self, r: Array, s: Array) -> tuple[Array, Array, float]:
        """The E-step: R, S without its factor s, and the log-likelihood."""
        torch = self._torch
        pattern = self._matrix(self._rows, self._columns, torch.zeros_like(self.counts), self.shape)
        p = torch.sparse.sampled_addmm(pattern, r, s.T, beta=0.0).values()
        ratio = self.counts / p
        R = r * (self._matrix(self._rows, self._columns, ratio, self.shape) @ s)
        S = self._matrix(self._starts, self._firsts, ratio[self._order], self.shape[::-1]) @ r
        value = float((self.counts.double() * torch.log(p.double())).sum())
        return R, S, value

    def _matrix(self, rows: Array, columns: Array, values: Array, shape: tuple[int, int]) -> Array:
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # that this part of PyTorch is young
            make = self._torch.sparse_csr_tensor
            return make(rows, columns, values, shape, check_invariants=False)


def import_torch(device: str) -> Any:
    """The module of PyTorch; refused where it is not installed or lacks the device."""
    try:
        import torch
    except ImportError as error:
        msg = f"device {device!r} needs PyTorch, which is not installed"
        raise SapwoodError(msg, hint="pip install torch, or leave the device at cpu") from error
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # a name it does not know, or no such GPU
        msg = f"PyTorch finds no device {device!r}"
        hint = "is it spelt right, and its driver installed? leave the device at cpu otherwise"
        raise SapwoodError(msg, hint=hint) from error
    return torch


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
        # without a total: held-out text mostly ends it long before the last of them
        with step("", unit="iteration") as advance:
            run = run_em(steps, placed, stop, listen=lambda now: advance(len(now.values)))
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
