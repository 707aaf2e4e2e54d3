"""Plan and budget of an ensemble: its candidates, and the time that they are expected to take.

First estimates are rates of one core measured on the Penn Treebank sample. The budget that a
treebank has by default is *counted*, by these estimates alone: the same treebank has the same
members on any machine, however busy. A budget in seconds is *measured*: every training that ends
corrects the estimates for its method, and for methods that were not tried yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import process_time
from typing import NamedTuple

import numpy as np

from sapwood.constituency.learn.em import EMLPCFG
from sapwood.constituency.learn.em_steps import NODES_PER_STATE
from sapwood.constituency.learn.encoder import seconds_a_pass
from sapwood.constituency.learn.registry import METHODS
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.networks.training import MOST_PASSES, NetworkPlan

Binarisation = tuple[str | None, int | None]  # `binarise` and `horizontal` of a candidate


class Candidate(NamedTuple):
    """A grammar or network that may become a member of the ensemble.

    Attributes
    ----------
    method
        One of those of `sapwood train`, but neither `pcfg` nor `best`.
    states
        Hidden states of a label; without meaning for `crf`.
    binarise, horizontal
        Binarisation of its trees; None for that of the treebank.
    seed
        Added to that of the ensemble.
    """

    method: str
    states: int = 1
    binarise: str | None = None
    horizontal: int | None = None
    seed: int = 0

    @property
    def binarisation(self) -> Binarisation:
        """The binarisation of its trees; candidates with the same one share their charts."""
        return self.binarise, self.horizontal

    @property
    def has_states(self) -> bool:
        """Whether its method has hidden states."""
        return self.method not in METHODS or METHODS[self.method].has_states

    def __str__(self) -> str:
        parts = [f"{self.method} {self.states}" if self.has_states else self.method]
        parts += [self.binarise] if self.binarise else []
        parts += [f"h{self.horizontal}"] if self.horizontal is not None else []
        return " ".join(parts + ([f"seed {self.seed}"] if self.seed else []))


# Kinds before seeds, and other binarisations before more of the same; the order is that in which
# members were chosen most often on dev trees.
PLAN = (
    Candidate("spectral", 16),
    Candidate("em", 16),
    Candidate("crf"),
    Candidate("cluster", 16),
    Candidate("encoder"),
    Candidate("encoder", seed=1),
    Candidate("em", 16, "right"),
    Candidate("em", 16, None, 0, 1),
    Candidate("cluster", 16, "left"),
    Candidate("em", 8),
    Candidate("cluster", 16, None, 0),
    Candidate("spectral", 16, "right"),
    Candidate("cluster", 16, "right"),
    Candidate("em", 16, "left"),
    Candidate("pivot", 16),
    Candidate("crf", 1, "right"),
    Candidate("em", 24, "right", None, 2),
)


@dataclass(frozen=True)
class EnsembleSettings:
    """Settings of the training of an ensemble that users do not set.

    Attributes
    ----------
    budget_multiple, budget_power
        The automatic budget is this multiple of the time for reading and for the first candidate,
        for 100,000 words; the multiple grows with this power of the number of words.
    least_budget, most_budget
        Bounds of the automatic budget in CPU seconds: enough for two networks of some hundred
        trees, and never more than an hour.
    reading_seconds
        CPU seconds to read a word.
    choice_fraction
        Fraction of the automatic budget kept for choosing members and scoring on dev trees.
    reserve_fraction
        Fraction of a measured budget kept for unforeseen work.
    safety
        Factor on the expected seconds of a measured budget, since other programs run too.
    pivot_factor
        Cost of the convex EM of pivot learning, as a multiple of the projection.
    n_warm
        Trees that are learnt from and parsed to load kernels before a measured budget starts.
    least_dev, most_dev, n_probe
        Fewest and most dev sentences that choose members, and those that are charted to see how
        many a measured budget can afford.
    chart_fraction, score_fraction
        Fractions of a measured budget for the charts of dev sentences, and for parsing all dev
        trees with the final mix.
    writing_seconds
        CPU seconds to write a number of a model: checksum, copies, disk.
    default_sharpness
        Sharpness of a mix that no dev trees calibrate.
    members_unseen, most_members
        Candidates trained without dev trees, and the most members of a mix: more hardly help, and
        all have to be loaded and run.
    network_weights, pretrained_weights
        Total weight of one network, and of two or more, beside grammars, before tuning; of networks
        that read a pretrained encoder. On a fold of the Penn Treebank sample that was held out, one
        with MiniLM had F1 89.4 with 0.35, 89.8 with 0.5, 89.4 with 0.7, and 88.9 alone.
    network_fraction
        Fraction of the remaining time that networks may take.
    least_passes
        Fewest passes of a network; with fewer it is worse than grammars.
    network_words
        Words that each of two networks must read; with less time, one network reads them all.
    tuning_gain
        F1 that tuned weights must win over the default ones: less is noise.
    """

    budget_multiple: float = 76.0
    budget_power: float = 0.32
    least_budget: float = 150.0
    most_budget: float = 3600.0
    reading_seconds: float = 2e-5
    choice_fraction: float = 0.1
    reserve_fraction: float = 0.02
    safety: float = 1.2
    pivot_factor: float = 3.0
    n_warm: int = 20
    least_dev: int = 50
    most_dev: int = 500
    n_probe: int = 20
    chart_fraction: float = 0.1
    score_fraction: float = 0.25
    writing_seconds: float = 5e-8
    default_sharpness: float = 1.15
    members_unseen: int = 6
    most_members: int = 10
    network_weights: tuple[float, float] = (0.35, 0.5)
    pretrained_weights: tuple[float, float] = (0.5, 0.65)
    network_fraction: float = 0.9
    least_passes: int = 4
    most_passes: int = MOST_PASSES
    network_words: int = 3_000_000
    tuning_gain: float = 0.1


class Budget(ABC):
    """CPU seconds of an ensemble: how many are left, and how many candidates are expected to take.

    Attributes
    ----------
    total
        All seconds of the budget; infinite where there is no limit.
    safety
        Factor on expected seconds.
    is_measured
        Whether seconds are measured against a limit.
    now
        The clock.
    """

    total: float = np.inf
    safety: float = 1.0
    is_measured: bool = False

    def __init__(
        self,
        data: TrainingData,
        settings: EnsembleSettings,
        now: Callable[[], float] = process_time,
    ) -> None:
        counts = data.counts
        self.settings, self.now = settings, now
        self.n_nodes = float(counts.symbols.sum())
        self.n_words = int(data.sizes["tokens"])
        self.rule_count, self.rules = counts.rules, data.inventory.rules
        self.limit = np.maximum(1, counts.symbols // NODES_PER_STATE)

    @property
    @abstractmethod
    def left(self) -> float:
        """Seconds that are left."""

    @abstractmethod
    def spend(self, candidate: Candidate, seconds: float, passes: int = 1) -> None:
        """Note how long the training of a candidate has taken."""

    def expected(self, candidate: Candidate) -> float:
        """Expected seconds of training a candidate; of one pass for a network."""
        return self.estimate(candidate)

    @property
    def reading(self) -> float:
        """Expected seconds of reading the treebank."""
        return self.settings.reading_seconds * self.n_words

    def passes(self, candidate: Candidate, seconds: float, n_to_come: int = 0) -> int:
        """Number of passes of a network that a time is enough for, within useful bounds.

        Parameters
        ----------
        n_to_come
            Networks after this one, with which a long time is shared.
        """
        if np.isinf(self.total):
            return NetworkPlan.usual(self.n_words).passes
        settings = self.settings
        affordable = settings.network_fraction * seconds
        affordable /= self.safety * self.expected(candidate)
        if self.is_worth_two(shared := affordable / (n_to_come + 1)):
            affordable = shared
        return max(int(min(affordable, settings.most_passes)), settings.least_passes)

    def is_worth_two(self, passes: float) -> bool:
        """Whether two networks with this many passes are better than one with twice as many."""
        settings = self.settings
        return passes >= min(settings.network_words / self.n_words, settings.most_passes)

    def seconds_of_all(self, plan: Sequence[Candidate]) -> float:
        """Expected seconds of reading and of all candidates, networks with all their passes."""
        most = self.settings.most_passes
        each = (self.expected(c) * (most if c.method == "encoder" else 1) for c in plan)
        return self.reading + sum(each)

    def estimate(self, candidate: Candidate) -> float:
        """First estimate of the seconds of a candidate, by rates measured on one machine."""
        method, m = candidate.method, candidate.states
        if method == "encoder":
            return seconds_a_pass(self.n_words)
        if method == "crf":
            return 1e-4 * self.n_nodes
        if method == "em":
            stages = EMLPCFG(m).schedule()
            return sum(stage.iterations * self._iteration(stage.states) for stage in stages)
        seconds = 2e-6 * self.n_nodes * (4 + m / 4)  # features, projection, tensors
        if method.startswith("pivot"):
            seconds *= self.settings.pivot_factor
        if method == "pivot-em":
            seconds += METHODS[method].usual["iterations"] * self._iteration(m)
        return seconds

    def _iteration(self, m: int) -> float:
        """Seconds of one EM iteration: products over nodes, and passes over the tensors."""
        states = np.minimum(self.limit, m)[self.rules].prod(axis=1)
        return float(6e-10 * (self.rule_count @ states) + 4e-9 * states.sum() + 2e-7 * self.n_nodes)


class CountedBudget(Budget):
    """The default budget of a treebank, spent by estimates: the same on every machine.

    Parameters
    ----------
    first
        The first candidate; the budget is a multiple of its estimated cost.
    has_dev
        Whether a part is kept for choosing and scoring on dev trees.
    """

    def __init__(
        self, data: TrainingData, settings: EnsembleSettings, first: Candidate, *, has_dev: bool
    ) -> None:
        super().__init__(data, settings)
        multiple = settings.budget_multiple * (self.n_words / 1e5) ** settings.budget_power
        usual = multiple * (self.reading + self.estimate(first))
        self.total = round(float(np.clip(usual, settings.least_budget, settings.most_budget)), 1)
        kept = settings.choice_fraction if has_dev else 0.0
        self._left = (1.0 - kept) * self.total - self.reading

    @property
    def left(self) -> float:
        """Seconds that the estimates of all trained candidates have left."""
        return self._left

    def spend(self, candidate: Candidate, seconds: float, passes: int = 1) -> None:
        """Subtract the estimate of a candidate, however long it has taken."""
        self._left -= passes * self.estimate(candidate)


class MeasuredBudget(Budget):
    """A budget in seconds of a clock, or none.

    Parameters
    ----------
    seconds
        The budget; None for no limit.
    spent
        Seconds of it that are gone already.
    """

    def __init__(
        self,
        data: TrainingData,
        settings: EnsembleSettings,
        seconds: float | None,
        *,
        spent: float,
        now: Callable[[], float],
    ) -> None:
        super().__init__(data, settings, now)
        self.is_measured, self.safety = seconds is not None, settings.safety
        self.total = np.inf if seconds is None else seconds
        self._ends = now() + (1.0 - settings.reserve_fraction) * self.total - spent
        self.factor: dict[str, float] = {}
        self.last_factor = 1.0

    @property
    def left(self) -> float:
        """Seconds until the end of the budget."""
        return self._ends - self.now()

    def expected(self, candidate: Candidate) -> float:
        """Expected seconds of a candidate, corrected by the trainings so far."""
        return self.estimate(candidate) * self.factor.get(candidate.method, self.last_factor)

    def spend(self, candidate: Candidate, seconds: float, passes: int = 1) -> None:
        """Correct the estimates by the seconds that a candidate has taken."""
        self.last_factor = seconds / passes / self.estimate(candidate)
        self.factor[candidate.method] = self.last_factor


def make_budget(
    budget: float | str | None,
    data: TrainingData,
    first: Candidate,
    *,
    settings: EnsembleSettings | None = None,
    has_dev: bool = False,
    spent: float = 0.0,
    now: Callable[[], float] = process_time,
) -> Budget:
    """Make the budget of an ensemble: counted for `auto`, measured for seconds or None."""
    settings = settings or EnsembleSettings()
    if isinstance(budget, str):
        return CountedBudget(data, settings, first, has_dev=has_dev)
    return MeasuredBudget(data, settings, budget, spent=spent, now=now)
