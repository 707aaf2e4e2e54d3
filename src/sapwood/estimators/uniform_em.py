"""EM over plain sentences whose hidden trees are uniform: PCFG-IE and DEP-IES.

The E-step sums over all trees of every distinct sentence. The M-step divides counts by their
totals; for DEP-IES, whose root must stay the stationary vector of A, it climbs

    Q(A) = sum of N[y, x] log A[y, x]  +  sum of r[x] log pi(A)[x],      pi = A pi
    dQ/dA = N / A  +  Z' (r / pi) pi',                                   Z = (I - A + pi 1')^-1

from the better of the old A and the counts divided by their totals, so that the likelihood never
falls (generalised EM).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from time import process_time

import numpy as np

from sapwood.estimators.uniform_families import uniform_family
from sapwood.execute import map_reduce
from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts
from sapwood.moments.uniform_counts import UniformCounts

FLOOR = 1e-3  # share of the uniform distribution in a start: EM never leaves a probability of 0
SHARD_SENTENCES = 20_000  # shards depend on the data alone, so that jobs never change a sum
SHORTEST = 0.1  # what a jump leaves of a probability at least


@dataclass
class EMRun:
    """Where EM ended.

    Attributes
    ----------
    model
        The last one; its likelihood is the last of the list.
    log_likelihoods
        After every E-step that was kept, rising.
    n_steps
        E-steps taken.
    has_converged
        Whether the gain fell below the tolerance.
    """

    model: UniformTreeModel
    log_likelihoods: list[float] = field(default_factory=list)
    n_steps: int = 0
    has_converged: bool = False
    cpu_seconds: float = 0.0


def em(
    start: UniformTreeModel,
    sentences: SentenceCounts,
    *,
    iterations: int,
    tolerance: float = 1e-8,
    floor: float = FLOOR,
    accelerate: bool = True,
    n_jobs: int = 1,
) -> EMRun:
    """Climb the likelihood of sentences.

    Parameters
    ----------
    start
        Where to begin.
    iterations
        The most E-steps to take; the last jump may add one.
    tolerance
        EM ends when a step gains less than this, in nats a sentence.
    floor
        Share of the uniform distribution that is mixed into the start, since EM never leaves 0.
    accelerate
        Whether to try, after every two steps, the point that they seem to go to.
    n_jobs
        Threads over sentences; 0 means all cores.

    Cost: an E-step takes O(length^3 k) for every distinct sentence.

    Reference: Varadhan and Roland (2008) for the acceleration.
    """
    begun = process_time()
    path = _Path(sentences, n_jobs)
    first = path.expect(smooth(start, floor))
    least = tolerance * max(sentences.total, 1.0)
    while path.n_steps < iterations:
        second = path.expect(maximise(first.model, first.counts))
        path.has_converged = second.gain_over(first) < least
        if path.has_converged or path.n_steps >= iterations:
            first = max(first, second, key=_Point.key)
            break
        third = maximise(second.model, second.counts)
        jump = path.jump(first.model, second, third) if accelerate else None
        first = jump or path.expect(third)
    kept = [point.counts.log_likelihood for point in path.points]
    return EMRun(first.model, kept, path.n_steps, path.has_converged, process_time() - begun)


@dataclass(frozen=True)
class _Point:
    """A model and what was expected under it."""

    model: UniformTreeModel
    counts: UniformCounts

    def key(self) -> tuple[float, float]:
        """Larger is better: first of all, no sentence may be impossible."""
        return -self.counts.n_impossible, self.counts.log_likelihood

    def gain_over(self, other: _Point) -> float:
        return self.counts.log_likelihood - other.counts.log_likelihood


class _Path:
    """E-steps over the same sentences, and the path that they took."""

    def __init__(self, sentences: SentenceCounts, n_jobs: int) -> None:
        self.jobs = n_jobs
        n_distinct = sum(map(len, sentences.rows.values()))
        self.shards = sentences.shards(-(-n_distinct // SHARD_SENTENCES))
        self.n_steps = 0
        self.has_converged = False
        self.points: list[_Point] = []

    def expect(self, model: UniformTreeModel, least: _Point | None = None) -> _Point:
        task = partial(UniformCounts.of, model=model)
        counts: UniformCounts = map_reduce(task, self.shards, jobs=self.jobs)
        self.n_steps += 1
        point = _Point(model, counts)
        if least is None or point.key() >= least.key():
            self.points.append(point)
        return point

    def jump(
        self, first: UniformTreeModel, second: _Point, third: UniformTreeModel
    ) -> _Point | None:
        """Where three models on the way to an optimum point to, if that is any better."""
        ahead = extrapolate(first, second.model, third)
        if ahead is None:
            return None
        point = self.expect(ahead, least=second)
        return point if point.key() >= second.key() else None


def extrapolate(
    first: UniformTreeModel, second: UniformTreeModel, third: UniformTreeModel
) -> UniformTreeModel | None:
    """The limit of a geometric series of steps; None where they do not shrink.

    r = second - first,  v = (third - second) - r,  a = |r| / |v|,  first + 2 a r + a^2 v
    """
    x, y, z = (model.tables for model in (first, second, third))
    r = np.concatenate([(y[name] - x[name]).ravel() for name in x])
    v = np.concatenate([(z[name] - 2 * y[name] + x[name]).ravel() for name in x])
    length = float(np.linalg.norm(v))
    a = float(np.linalg.norm(r)) / length if length > 0 else 0.0
    if a <= 1:
        return None
    tables = {}
    for name in x:
        ahead = x[name] + 2 * a * (y[name] - x[name]) + a * a * (z[name] - 2 * y[name] + x[name])
        # A jump may shorten a probability, but not below 0.
        kept = np.maximum(ahead, SHORTEST * z[name])
        tables[name] = kept / kept.sum(axis=0)
    return uniform_family(first.family).model(first.vocabulary, tables)


def smooth(model: UniformTreeModel, share: float) -> UniformTreeModel:
    """A little of the uniform distribution mixed into every column."""
    tables = {name: (1 - share) * t + share / len(t) for name, t in model.tables.items()}
    return uniform_family(model.family).model(model.vocabulary, tables)


def maximise(model: UniformTreeModel, counts: UniformCounts) -> UniformTreeModel:
    """The M-step."""
    family = uniform_family(model.family)
    return family.model(model.vocabulary, family.maximise(model.tables, counts.tables))
