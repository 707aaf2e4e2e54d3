"""Training of networks: batches of sentences of like length, halves of a batch on threads, Adam.

A batch is always cut into the same shares, whose gradients are summed in order: what is learnt does
not depend on how many threads there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import IntArray
from sapwood.networks.parameters import Adam, Parameters, Real, clip

SHARES = 2  # of a batch
LONGEST_STEP = 5.0  # length of a gradient beyond which it is scaled down
WARM_UP = 100  # steps in which the rate grows
NOISE = 3.0  # words by which sentences of one batch differ more than they must


@dataclass(frozen=True)
class NetworkPlan:
    """How a network is trained.

    Attributes
    ----------
    passes
        Over the sentences.
    rate
        Of Adam; falls to 0 in a straight line.
    words
        In a batch.
    dropout, word_dropout, unknown
        Shares of numbers, and of vectors of words, that are left out; a word that was seen n times
        is taken for an unknown one with probability unknown / (unknown + n).
    seed
        Of all random numbers.
    """

    passes: int = 8
    rate: float = 0.003
    words: int = 400
    dropout: float = 0.2
    word_dropout: float = 0.1
    unknown: float = 0.5
    seed: int = 0


class ShareGradient(NamedTuple):
    """What a share of a batch says.

    Attributes
    ----------
    rows
        By table of vectors: numbers of rows, each once, and their gradients.
    """

    loss: float
    weights: Parameters
    rows: dict[str, tuple[IntArray, Real]]


# sentences, longest first; random numbers; words of the whole batch
Task = Callable[[IntArray, np.random.Generator, int], ShareGradient]


def train_network(
    weights: Parameters,
    tables: Mapping[str, Real],
    lengths: npt.NDArray[np.int64],
    task: Task,
    plan: NetworkPlan,
    jobs: int,
    on_pass: Callable[[int, float], None] | None = None,
) -> None:
    """Change weights and tables until they fit."""
    from threadpoolctl import threadpool_limits

    adam, rng = Adam(weights.flat, tables), np.random.default_rng([plan.seed, 4])
    n_steps = plan.passes * sum(1 for _ in _batches(lengths, plan.words, rng))
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(min(jobs, SHARES)) as pool:
        for done in range(1, plan.passes + 1):
            loss = 0.0
            for batch in _batches(lengths, plan.words, rng):
                shares = [batch[k::SHARES] for k in range(min(SHARES, len(batch)))]
                n_words = int(lengths[batch].sum())
                rngs = rng.spawn(len(shares))
                found = list(pool.map(task, shares, rngs, [n_words] * len(shares)))
                loss += sum(share.loss for share in found)
                rate = plan.rate * min(1.0, adam.n_steps / WARM_UP + 0.01)
                _step(adam, found, rate * (1 - adam.n_steps / (n_steps + 1)))
            if on_pass is not None:
                on_pass(done, -loss)


def _batches(lengths: IntArray, n_words: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Numbers of sentences of like length, longest first, in any order of batches."""
    order = np.argsort(-(lengths + NOISE * rng.random(len(lengths))), kind="stable")
    which = np.cumsum(lengths[order]) // n_words
    cuts = np.flatnonzero(np.diff(which)) + 1
    batches = np.split(order, cuts)
    for place in rng.permutation(len(batches)):
        batch = batches[place]
        yield batch[np.argsort(-lengths[batch], kind="stable")]


def _step(adam: Adam, shares: list[ShareGradient], rate: float) -> None:
    gradient = shares[0].weights.flat
    for share in shares[1:]:
        gradient += share.weights.flat
    rows = {name: _sum_rows([share.rows[name] for share in shares]) for name in shares[0].rows}
    clip([gradient, *(found for _, found in rows.values())], LONGEST_STEP)
    adam.step(gradient, rows, max(rate, 0.0))


def _sum_rows(parts: list[tuple[IntArray, Real]]) -> tuple[IntArray, Real]:
    """Gradients of rows, those of the same row added."""
    numbers, place = np.unique(np.concatenate([rows for rows, _ in parts]), return_inverse=True)
    total = np.zeros((len(numbers), parts[0][1].shape[1]), parts[0][1].dtype)
    start = 0
    for rows, found in parts:
        total[place[start : start + len(rows)]] += found  # each once in a part
        start += len(rows)
    return numbers, total
