"""`Clock`: how much of a time budget is left, and how long candidates of an ensemble will take."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from sapwood.estimators.em import EMLPCFG
from sapwood.estimators.registry import METHODS
from sapwood.estimators.training_trees import NODES_PER_STATE
from sapwood.execute import resolve_jobs

if TYPE_CHECKING:
    from sapwood.estimators.candidates import Candidate
    from sapwood.estimators.training_data import TrainingData

SPARE = 0.02  # of a budget, for what nobody foresees
SAFETY = 1.2  # what is expected is mostly a little less than what comes: other things run too
PIVOT_FACTOR = 3.0  # the convex EM of every rule, beside the features that others have too


class Clock:
    """How much time is left, and how long candidates will take.

    First guesses are rates of one core measured on the Penn Treebank sample. Every training that
    ends corrects them for its kind, and for kinds that were not tried yet: the machine may be
    slower, or busy.

    Parameters
    ----------
    budget
        Seconds; None for no limit.
    spent
        Seconds of them that are gone already.
    """

    def __init__(
        self, budget: float | None, data: TrainingData, jobs: int, *, spent: float = 0.0
    ) -> None:
        self.budget = np.inf if budget is None else budget
        self.ends = perf_counter() + (1.0 - SPARE) * self.budget - spent
        self.jobs = resolve_jobs(jobs)
        counts = data.counts
        self.n_nodes = float(counts.symbols.sum())
        self.rule_count, self.rules = counts.rules, data.inventory.rules
        self.limit = np.maximum(1, counts.symbols // NODES_PER_STATE)
        self.factor: dict[str, float] = {}
        self.last_factor = 1.0

    @property
    def left(self) -> float:
        """Seconds."""
        return self.ends - perf_counter()

    def expected(self, candidate: Candidate) -> float:
        """Seconds that a candidate will take, if nothing holds it up."""
        return self._guess(candidate) * self.factor.get(candidate.method, self.last_factor)

    def learn(self, candidate: Candidate, seconds: float) -> None:
        """Note how long a candidate has taken."""
        self.last_factor = seconds / self._guess(candidate)
        self.factor[candidate.method] = self.last_factor

    def _guess(self, candidate: Candidate) -> float:
        if candidate.method == "crf":
            return 1e-4 * self.n_nodes / (1 + (self.jobs - 1) / 2)  # only the charts are shared
        passes = 2e-6 * self.n_nodes * (4 + candidate.states / 4)  # features, projection, tensors
        if candidate.method.startswith("pivot"):
            passes *= PIVOT_FACTOR
        if candidate.method == "pivot-em":
            n = METHODS[candidate.method].usual["iterations"]
            passes += n * self._iteration(candidate.states)
        if candidate.method == "em":
            stages = EMLPCFG(candidate.states).schedule()
            passes = sum(stage.iterations * self._iteration(stage.states) for stage in stages)
        return passes / self.jobs

    def _iteration(self, m: int) -> float:
        """Seconds of one EM iteration: products over nodes, and passes over the tensors."""
        states = np.minimum(self.limit, m)[self.rules].prod(axis=1)
        return float(6e-10 * (self.rule_count @ states) + 4e-9 * states.sum() + 2e-7 * self.n_nodes)
