"""EM for hidden states between two words: E, M, stop; on the engine, or on a GPU.

Notation as in `decompose.latent_bigrams`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.em_loop import EMResult, EMSteps, EMStop, run_em
from sapwood.execute import Engine
from sapwood.linalg.latent_bigrams import DevicePairs, maximise_states
from sapwood.lm.data.plain_text import UNKNOWN
from sapwood.lm.model.latent_models import pair_mix
from sapwood.progress import step

SHARD_ENTRIES = 400_000  # of contexts with their words: tenths of a second of work
STOP_WEIGHT = 0.05  # of single words while held-out text decides when EM ends
Single = npt.NDArray[np.float32]
Expected = tuple[Any, Any, float]  # R, S without its factor s, and the log-likelihood


class Pairs(NamedTuple):
    """Some contexts and the words that follow them.

    Attributes
    ----------
    first
        Number of the first of these contexts.
    starts : [n + 1]
    seconds, counts : [nnz]
        By context.
    """

    first: int
    starts: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.int64]
    counts: Single


@dataclass(frozen=True, eq=False)
class ExpectedStates:
    """What an E-step gives; a sum over contexts.

    Attributes
    ----------
    R
        Rows of some contexts, in order.
    S : [V, m]
        Without its factor s.
    log_likelihood
    """

    R: list[Single]
    S: Single
    log_likelihood: float

    def __add__(self, other: ExpectedStates) -> ExpectedStates:
        return ExpectedStates(
            self.R + other.R, self.S + other.S, self.log_likelihood + other.log_likelihood
        )


def expect(pairs: Pairs, r: Single, s: Single) -> ExpectedStates:
    """The E-step for some contexts."""
    from sapwood.lm.model.kernels.bigrams import expect_states

    here = np.ascontiguousarray(r[pairs.first : pairs.first + len(pairs.starts) - 1])
    R, S = np.zeros_like(here), np.zeros_like(s)
    value = expect_states(pairs.starts, pairs.seconds, pairs.counts, here, s, R, S)
    return ExpectedStates([R], S, float(value))


def cut_pairs(c: sparse.csr_array, dtype: npt.DTypeLike = np.float32) -> list[Pairs]:
    """Shards of whole contexts with about `SHARD_ENTRIES` entries each."""
    starts = c.indptr.astype(np.int64)
    wanted = np.arange(SHARD_ENTRIES, starts[-1], SHARD_ENTRIES)
    cuts = np.unique([0, *np.searchsorted(starts, wanted), len(starts) - 1])
    shards = []
    for a, b in pairwise(cuts):
        part = slice(starts[a], starts[b])
        shards.append(
            Pairs(int(a), starts[a : b + 1] - starts[a], c.indices[part].astype(np.int64),
                  c.data[part].astype(dtype))
        )  # fmt: skip
    return shards


class Start(NamedTuple):
    """Where EM starts, and what it found."""

    r: Single
    s: Single


@dataclass(frozen=True)
class Held:
    """Text that decides when EM ends.

    Attributes
    ----------
    before, after, counts : [n]
        Pairs of words and how often.
    u : [V]
        Distribution of single words, for smoothing.
    known, left : [n]
        Where states are only what something else leaves of a pair's probability: how likely that
        makes the pair, and what it leaves.
    """

    before: IntArray
    after: IntArray
    counts: FloatArray
    u: FloatArray
    known: FloatArray | float = 0.0
    left: FloatArray | float = 1.0

    @classmethod
    def of(cls, c: sparse.csr_array, u: FloatArray) -> Held:
        """Pairs of a table, those before the unknown word left out: nobody predicts it."""
        found = c.tocoo()
        kept = found.col != UNKNOWN
        before, after = found.row[kept].astype(np.int64), found.col[kept].astype(np.int64)
        return cls(before, after, np.asarray(found.data[kept], float), u)

    def value(self, start: Start) -> float:
        """Mean log-probability, smoothed a little; 0 where no pair of known words is held out."""
        if not len(self.counts):
            return 0.0
        p = pair_mix(start.r, start.s, self.before, self.after)
        mixed = (1 - STOP_WEIGHT) * p + STOP_WEIGHT * self.u[self.after]
        return float(self.counts @ np.log(self.known + self.left * mixed) / self.counts.sum())


@dataclass(frozen=True, eq=False)
class BigramEM:
    """How EM is run for hidden states between two words.

    Attributes
    ----------
    iterations
        The most.
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
    held: Held | None = None
    patience: int = 2
    is_r_free: bool = True

    def run(self, source: EStep, start: Start) -> EMResult[Start, Expected]:
        """EM until held-out text gets less likely; the parameters are the best, as NumPy arrays."""
        u, held = source.put_one(self.u.astype(np.float32)), self.held

        def maximise(now: Start, counts: Expected) -> Start:
            R, S, _ = counts
            fixed = None if self.is_r_free else now.r
            return Start(*maximise_states(R, S * now.s, u, self.prior, r=fixed))

        steps = EMSteps[Start, Expected](
            source.expect,
            maximise,
            lambda now, counts: counts[2],
            None if held is None else lambda now: held.value(source.fetch(now.parameters)),
        )
        stop = EMStop(
            self.iterations, patience=self.patience, keeps_latest=True, evaluates_last=False
        )
        # without a total: held-out text mostly ends it long before the last of them
        with step("", unit="iteration") as advance:
            run = run_em(
                steps, source.put(start), stop, listen=lambda now: advance(len(now.values))
            )
        assert run.best is not None
        best = source.fetch(run.best)
        return EMResult(best, run.values, run.scores, best)


class EStep(Protocol):
    """Where expected counts are taken."""

    def put(self, start: Start) -> Start:
        """Tables where the E-step wants them."""

    def put_one(self, array: FloatArray) -> Any:
        """One array likewise."""

    def fetch(self, start: Start) -> Start:
        """Tables as NumPy arrays."""

    def expect(self, start: Start) -> Expected:
        """R, S without its factor s, and the log-likelihood."""


class OnEngine:
    """Expected counts as sums over shards of contexts."""

    def __init__(self, engine: Engine, shards: list[Pairs]) -> None:
        self.engine, self.placed = engine, engine.place(shards)

    def put(self, start: Start) -> Start:
        """As they are."""
        return start

    def put_one(self, array: FloatArray) -> FloatArray:
        """As it is."""
        return array

    fetch = put

    def expect(self, start: Start) -> tuple[Single, Single, float]:
        """See `EStep`."""
        found = self.engine.total(expect, self.placed, start.r, start.s)
        return np.concatenate(found.R), found.S, found.log_likelihood


class OnDevice:
    """Expected counts on a GPU."""

    def __init__(self, c: sparse.csr_array, device: str) -> None:
        c.sort_indices()
        self.pairs = DevicePairs(c.indptr, c.indices, c.data, c.shape[1], device)

    def put(self, start: Start) -> Start:
        """On the device."""
        return Start(self.pairs.put(start.r), self.pairs.put(start.s))

    def put_one(self, array: FloatArray) -> Any:
        """On the device."""
        return self.pairs.put(array)

    def fetch(self, start: Start) -> Start:
        """From the device."""
        tables: tuple[Any, Any] = start
        return Start(*(np.ascontiguousarray(table.cpu().numpy()) for table in tables))

    def expect(self, start: Start) -> Expected:
        """See `EStep`."""
        return self.pairs.expect(start.r, start.s)
