"""`EMDependency` and `EMHMM`: latent trees and chains by EM; for chains, Baum and Welch's.

Notation
--------
    N        expected counts of a table's entries, given the symbols           [outcome, state]
    theta    = (N + c) / sum over outcomes of (N + c),   c the smoothing
    bound    log-likelihood + c times the sum of all log theta, which no step lowers

With c = 0 the bound is the log-likelihood.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import Info
from sapwood.core.progress import step, tell
from sapwood.core.training_loops import EMResult, EMSteps, EMStop, gains_less_than, run_em
from sapwood.dependency.data.bank import ArcBankLike
from sapwood.dependency.learn.moments import (
    EM_KERNEL_BYTES,
    ArcCounts,
    ArcEMParameters,
    ArcParameters,
    ChainParameters,
    StateCounts,
    require_latent_memory,
)
from sapwood.dependency.learn.spectral import SpectralDependency, SpectralHMM, make_probabilities
from sapwood.dependency.model.dependency import HiddenMarkovModel, Seen
from sapwood.dependency.model.latent import LatentArcs
from sapwood.execute import Engine, Placed

Valence = tuple[slice, slice] | None
LOG_NOISE = np.log(3.0)  # of a random start, as Matsuzaki et al. (2005) have it


class EMDependency(ArcEMParameters, ArcParameters):
    """Latent dependency trees by EM.

    Attributes
    ----------
    model_
        A `DependencyModel` of probabilities.
    log_likelihoods_, bounds_
        Before the first M-step and after each; bounds never fall.
    iterations_
        M-steps taken.
    """

    def fit(self, trees: ArcBankLike) -> Self:
        """Learn from an `ArcBank`, a list of `Arcs`, or a path."""
        bank, seen = self._see(trees)
        n, valence = seen.n_symbols, seen.valence_rows
        require_latent_memory(bank, self._engine(), n, self.n_states, EM_KERNEL_BYTES)
        engine, placed, counts = self._place(seen.of(bank), n)
        if self.start == "random":
            start = random_arcs(counts, seen, self.n_states, 2, self.seed)
        else:
            shared = ArcParameters.parameters().keys() & self.get_params().keys()
            spectral = SpectralDependency(**{name: getattr(self, name) for name in shared})
            arcs, _ = spectral.learn_tables(bank, seen)
            start = make_probabilities(arcs, counts.symbols, self.seed)
        start = tie_valences(start, valence)
        run = run_arc_em(self, start, engine, placed, bank.n_tokens, valence)
        arcs, record, self.info_ = run
        self.model_ = self._model(seen, arcs, bank, record)
        return self


class EMHMM(ArcEMParameters, ChainParameters):
    """A hidden Markov model by EM, the algorithm of Baum and Welch.

    Attributes
    ----------
    model_
        A `HiddenMarkovModel` of probabilities.
    log_likelihoods_, bounds_
        Before the first M-step and after each; bounds never fall.
    iterations_
        M-steps taken.
    """

    def fit(self, sentences: Iterable[Sequence[str]]) -> Self:
        """Learn from lists of words."""
        kept, seen, trees, sizes = self._read(sentences)
        engine, placed, counts = self._place(trees, seen.n_symbols)
        if self.start == "random":
            start = random_arcs(counts, seen, self.n_states, 1, self.seed)
        else:
            shared = ChainParameters.parameters().keys() & self.get_params().keys()
            spectral = SpectralHMM(**{name: getattr(self, name) for name in shared}).fit(kept)
            start = make_probabilities(spectral.model_.arcs, counts.symbols, self.seed)
        arcs, record, self.info_ = run_arc_em(self, start, engine, placed, sizes["words"])
        self.model_ = HiddenMarkovModel(seen, arcs, sizes | record)
        return self


def run_arc_em(
    learner: ArcEMParameters,
    start: LatentArcs,
    engine: Engine,
    placed: Placed,
    n_words: int,
    valence: Valence = None,
) -> tuple[LatentArcs, dict[str, Any], Info]:
    """Run EM until a step gains too little, or for all iterations.

    Parameters
    ----------
    valence
        Symbols that count children, whose distributions are tied; the start's must be so.

    Returns
    -------
    tables, record, info
        The record is what a model file says about EM.
    """
    smoothing, info = learner.smoothing, Info()
    steps = EMSteps[LatentArcs, StateCounts](
        lambda model: expect_arc_counts(model, engine, placed),
        lambda model, counts: tie_valences(maximise_arc_counts(model, counts, smoothing), valence),
        lambda model, counts: counts.log_likelihood + smoothing * log_prior(model),
    )
    stop = EMStop(learner.iterations, gains_less_than(learner.tolerance * n_words))
    with step("EM", total=learner.iterations + 1, unit="iteration") as advance:

        def listen(now: EMResult[LatentArcs, StateCounts]) -> None:
            advance(len(now.values))
            value = now.counts.log_likelihood
            info.history.append({"log_likelihood": value, "bound": now.values[-1]})
            tell(iteration=now.iterations, states=now.parameters.n_states, log_likelihood=value)

        run = run_em(steps, start, stop, listen=listen)
    info.extra["iterations"] = run.iterations
    settings = learner.get_params()
    record = {
        "method": "em", "states": settings["n_states"], "start": learner.start,
        "seed": settings["seed"], "iterations": run.iterations, "converged": run.has_converged,
        "log_likelihood": run.counts.log_likelihood,
    }  # fmt: skip
    return run.parameters, record, info


def expect_arc_counts(model: LatentArcs, engine: Engine, placed: Placed) -> StateCounts:
    """The E-step over all shards."""
    counts = engine.total(StateCounts.of, placed, model)
    if counts.n_impossible:
        msg = f"{counts.n_impossible:,.0f} trees are impossible under the model that EM starts from"
        raise SapwoodError(msg, hint="start elsewhere, or with another seed")
    return counts


def maximise_arc_counts(model: LatentArcs, counts: StateCounts, smoothing: float) -> LatentArcs:
    """The M-step: expected counts, with the prior's, over their totals."""
    columns = [
        _normalise(counts.symbols[first:last] + smoothing, model.symbols[first:last])
        for first, last in pairwise(model.column_start.tolist())
    ]
    steps = [_normalise(n + smoothing, old)
             for n, old in zip(counts.steps, model.steps, strict=True)]  # fmt: skip
    root = _normalise(counts.root + smoothing, model.root)
    return LatentArcs(root, np.stack(steps), np.concatenate(columns), model.column_start)


def tie_valences(model: LatentArcs, valence: Valence) -> LatentArcs:
    """Tie the number of children to two Bernoulli draws: a first child, and each further child.

        p(0) = s0,   p(n) = (1 - s0) (1 - s1)^(n - 1) s1,   the last one: (1 - s0) (1 - s1)^(n - 1)

    The distribution of this form nearest to each column, which is what the M-step is for counts in
    its proportions. It is what a chart can multiply child by child.
    """
    symbols = model.symbols.copy()
    for rows in valence or ():
        n = np.arange(rows.stop - rows.start)[:, None]
        p = symbols[rows] / symbols[rows].sum(axis=0)
        stop0, some = p[0], 1 - p[0]
        more = ((n[1:] - 1) * p[1:]).sum(axis=0)  # draws behind the first that went on
        ended = p[1:-1].sum(axis=0)
        stop1 = np.where(some > 0, ended / np.maximum(ended + more, np.finfo(float).tiny), 1.0)
        symbols[rows] = np.where(n > 0, some * (1 - stop1) ** np.maximum(n - 1, 0) * stop1, stop0)
        symbols[rows.stop - 1] = some * (1 - stop1) ** (len(n) - 2)
    return replace(model, symbols=symbols) if valence else model


def _normalise(counts: FloatArray, old: FloatArray) -> FloatArray:
    """Columns divided by their totals; columns without counts are unchanged."""
    total = counts.sum(axis=0)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), old)


def log_prior(model: LatentArcs) -> float:
    """Sum of the logarithms of all probabilities that are not 0 from the start."""
    tables = (model.root, model.steps, model.symbols)
    return float(sum(np.log(table[table > 0]).sum() for table in tables))


def random_arcs(counts: ArcCounts, seen: Seen, k: int, n_sides: int, seed: int) -> LatentArcs:
    """Frequencies of symbols and even steps, all times noise, so that states differ."""
    rng = np.random.default_rng(seed)

    def noise(*shape: int) -> FloatArray:
        return np.exp(rng.uniform(-LOG_NOISE, LOG_NOISE, shape))

    columns = []
    for first, last in pairwise(seen.column_start.tolist()):
        some = np.maximum(counts.symbols[first:last], 0.5)[:, None] * noise(last - first, k)
        columns.append(some / some.sum(axis=0))
    steps, root = noise(n_sides, k, k), noise(k)
    return LatentArcs(
        root / root.sum(), steps / steps.sum(axis=1, keepdims=True), np.concatenate(columns),
        seen.column_start,
    )  # fmt: skip
