"""EM over plain sentences whose hidden trees are uniform: PCFG-IE and DEP-IES.

The E-step sums over all trees of every distinct sentence. The M-step divides counts by their
totals; for DEP-IES, whose root must stay the stationary vector of A, it climbs

    Q(A) = sum of N[y, x] log A[y, x]  +  sum of r[x] log pi(A)[x],      pi = A pi
    dQ/dA = N / A  +  Z' (r / pi) pi',                                   Z = (I - A + pi 1')^-1

from the better of the old A and the counts divided by their totals, so that the likelihood never
falls (generalised EM).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from time import process_time

import numpy as np
import numpy.typing as npt

from sapwood.execute import map_reduce, resolve_jobs
from sapwood.identify.families import stationary
from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts
from sapwood.moments.uniform_counts import UniformCounts

FloatArray = npt.NDArray[np.float64]
FLOOR = 1e-3  # share of the uniform distribution in a start: EM never leaves a probability of 0
TINY = 1e-12  # below that a probability is 0 for the logarithms of Q
CLIMB = 20  # steps of the M-step of DEP-IES


@dataclass
class EMRun:
    """Where EM ended.

    Attributes
    ----------
    model
        After the last M-step.
    log_likelihoods
        Before each M-step, and of the model.
    has_converged
        Whether the gain fell below the tolerance.
    """

    model: UniformTreeModel
    log_likelihoods: list[float] = field(default_factory=list)
    has_converged: bool = False
    cpu_seconds: float = 0.0


def em(
    start: UniformTreeModel,
    sentences: SentenceCounts,
    *,
    iterations: int,
    tolerance: float = 1e-7,
    floor: float = FLOOR,
    n_jobs: int = 1,
) -> EMRun:
    """Climb the likelihood of sentences.

    Parameters
    ----------
    start
        Where to begin.
    iterations
        The most M-steps to take.
    tolerance
        EM ends when a step gains less than this, in nats a sentence.
    floor
        Share of the uniform distribution that is mixed into the start, since EM never leaves 0.
    n_jobs
        Threads over sentences; 0 means all cores.

    Cost: an iteration takes O(length^3 k) for every distinct sentence.
    """
    begun = process_time()
    run = EMRun(smoothed(start, floor))
    jobs = resolve_jobs(n_jobs)
    shards = sentences.shards(jobs)
    n = max(sentences.total, 1.0)
    for iteration in range(iterations + 1):
        task = partial(UniformCounts.of, model=run.model)
        counts: UniformCounts = map_reduce(task, shards, jobs=jobs)
        run.log_likelihoods.append(counts.log_likelihood)
        if iteration and counts.log_likelihood - run.log_likelihoods[-2] < tolerance * n:
            run.has_converged = True
            break
        if iteration < iterations:
            run.model = maximised(run.model, counts)
    run.cpu_seconds = process_time() - begun
    return run


def smoothed(model: UniformTreeModel, share: float) -> UniformTreeModel:
    """A little of the uniform distribution mixed into every column."""
    tables = {name: (1 - share) * t + share / len(t) for name, t in model.tables.items()}
    if model.family == "dep-ies":
        tables["root"] = np.asarray(stationary(tables["argument"]))
    return UniformTreeModel(model.family, model.vocabulary, tables)


def random_start(
    family: str, vocabulary: tuple[str, ...], n_states: int, rng: np.random.Generator
) -> UniformTreeModel:
    """Every column uniform on its simplex."""
    d = len(vocabulary)
    if family == "dep-ies":
        argument = rng.dirichlet(np.ones(d), d).T
        tables = {"root": np.asarray(stationary(argument)), "argument": argument}
    else:
        k = n_states
        tables = {
            "root": rng.dirichlet(np.ones(k)),
            "child": rng.dirichlet(np.ones(k), k).T,
            "words": rng.dirichlet(np.ones(d), k).T,
        }
    return UniformTreeModel(family, vocabulary, tables)


def maximised(model: UniformTreeModel, counts: UniformCounts) -> UniformTreeModel:
    """The M-step."""
    if model.family == "dep-ies":
        argument = _stationary_maximum(model.tables["argument"], counts.tables)
        tables = {"root": np.asarray(stationary(argument)), "argument": argument}
    else:
        tables = {n: _normalised(t, model.tables[n]) for n, t in counts.tables.items()}
    return UniformTreeModel(model.family, model.vocabulary, tables)


def _normalised(counts: FloatArray, old: FloatArray) -> FloatArray:
    """Columns divided by their totals; what was never used stays as it was."""
    total = counts.sum(axis=0)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), old)


def _stationary_maximum(old: FloatArray, counts: Mapping[str, FloatArray]) -> FloatArray:
    from scipy.optimize import minimize

    N, r = counts["argument"], counts["root"]  # noqa: N806 - as in the formula
    plain = _normalised(N, old)
    plain = (1 - TINY) * plain + TINY / len(plain)
    starts = [np.log(np.maximum(table, TINY)).ravel() for table in (plain, old)]
    logits = min(starts, key=lambda start: _loss(start, N, r)[0])
    done = minimize(_loss, logits, (N, r), "L-BFGS-B", jac=True, options={"maxiter": CLIMB})
    best = done.x if done.fun <= _loss(logits, N, r)[0] else logits
    return _softmax(best.reshape(old.shape))


def _softmax(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits - logits.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def _loss(logits: FloatArray, N: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:  # noqa: N803
    """-Q(A) and its gradient in the logits of A's columns, both a count."""
    d = len(r)
    A = np.maximum(_softmax(logits.reshape(d, d)), TINY)  # noqa: N806
    pi = np.maximum(np.asarray(stationary(A / A.sum(axis=0))), TINY)
    Q = float((N * np.log(A)).sum() + (r * np.log(pi)).sum())  # noqa: N806
    solved = np.linalg.solve((np.eye(d) - A + pi[:, None]).T, r / pi)
    gradient = N / A + np.outer(solved, pi)
    inner = A * (gradient - (A * gradient).sum(axis=0))
    n = float(r.sum() + N.sum())
    return -Q / n, -inner.ravel() / n
