"""Plan and time budget of an ensemble: its candidates, and estimates of their training time.

The initial estimates are rates of one core, measured on the Penn Treebank sample. The default
budget is *counted*: only these estimates are subtracted from it, so that the same treebank gives
the same members on any machine, however busy. A budget in seconds is *measured*: every finished
training corrects the estimates for its method, and for methods without a finished training.
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
        A method of `sapwood train` other than `pcfg` and `best`.
    states
        Number of hidden states per label; without effect for `crf`.
    binarise, horizontal
        Binarisation of the candidate's trees; None for the binarisation of the treebank.
    seed
        Added to the seed of the ensemble.
    """

    method: str
    states: int = 1
    binarise: str | None = None
    horizontal: int | None = None
    seed: int = 0

    @property
    def binarisation(self) -> Binarisation:
        """The binarisation of the trees; candidates with the same binarisation share charts."""
        return self.binarise, self.horizontal

    @property
    def has_states(self) -> bool:
        """Whether the method has hidden states."""
        return self.method not in METHODS or METHODS[self.method].has_states

    def __str__(self) -> str:
        parts = [f"{self.method} {self.states}" if self.has_states else self.method]
        parts += [self.binarise] if self.binarise else []
        parts += [f"h{self.horizontal}"] if self.horizontal is not None else []
        return " ".join(parts + ([f"seed {self.seed}"] if self.seed else []))


# New methods come before new seeds, and new binarisations before more models with the same one. The
# order is by how often members were selected on dev trees.
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
    """Constants of the training of an ensemble, which have no command-line options.

    Attributes
    ----------
    budget_multiple, budget_power
        For 100,000 words, the automatic budget is this multiple of the time for reading and for the
        first candidate. The multiple grows with this power of the number of words.
    least_budget, most_budget
        Bounds of the automatic budget in CPU seconds: enough for two networks on some hundred
        trees, and at most one hour.
    reading_seconds
        CPU seconds to read one word of the treebank.
    choice_fraction
        Fraction of the automatic budget reserved for selecting members and scoring on dev trees.
    reserve_fraction
        Fraction of a measured budget reserved for unforeseen work.
    safety
        Factor on the expected seconds of a measured budget, since other programs run too.
    pivot_factor
        Cost of the convex EM of pivot learning, as a multiple of the projection.
    n_warm
        Number of trees to train on and parse for loading kernels, before a measured budget starts.
    least_dev, most_dev, n_probe
        Minimum and maximum number of dev sentences for selecting members, and the number of
        sentences charted to estimate how many a measured budget can afford.
    chart_fraction, score_fraction
        Fractions of a measured budget for the charts of dev sentences, and for parsing all dev
        trees with the final mix.
    writing_seconds
        CPU seconds to write one number of a model: checksum, copies, disk.
    default_sharpness
        Sharpness of a mix without dev trees.
    members_unseen, most_members
        Number of candidates trained without dev trees, and maximum number of members of a mix. More
        members hardly help, and slow down loading and parsing.
    network_weights, pretrained_weights
        Total weight of one network, and of two or more, in a mix with grammars before tuning; the
        second pair is for networks that read a pretrained encoder. On a held-out fold of the Penn
        Treebank sample, a network with MiniLM had F1 89.4 with weight 0.35, 89.8 with 0.5, 89.4
        with 0.7, and 88.9 alone.
    network_fraction
        Fraction of the remaining time that networks may take.
    least_passes
        Minimum number of passes of a network; with fewer, a network is worse than grammars.
    network_words
        Number of training words, over all passes, that each of two networks must read. With less
        time, only one network is trained.
    tuning_gain
        Minimum gain in F1 of tuned weights over default weights; smaller gains are noise.
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
    """The CPU seconds of an ensemble that remain, and estimates for its candidates.

    Attributes
    ----------
    total
        The whole budget in seconds; infinite without a limit.
    safety
        Safety factor on expected seconds.
    is_measured
        Whether seconds are measured against a limit.
    now
        The clock, in seconds.
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
        """Remaining seconds of the budget."""

    @abstractmethod
    def spend(self, candidate: Candidate, seconds: float, passes: int = 1) -> None:
        """Record the training time of a candidate."""

    def expected(self, candidate: Candidate) -> float:
        """Expected seconds to train a candidate; for a network, seconds per pass."""
        return self.estimate(candidate)

    @property
    def reading(self) -> float:
        """Expected seconds to read the treebank."""
        return self.settings.reading_seconds * self.n_words

    def passes(self, candidate: Candidate, seconds: float, n_to_come: int = 0) -> int:
        """Number of passes of a network that fit into a time, within useful bounds.

        Parameters
        ----------
        n_to_come
            Number of later networks, among which a long time is divided.
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
        """Expected seconds to read the treebank and to train all candidates with all passes."""
        most = self.settings.most_passes
        each = (self.expected(c) * (most if c.method == "encoder" else 1) for c in plan)
        return self.reading + sum(each)

    def estimate(self, candidate: Candidate) -> float:
        """Initial estimate of the seconds of a candidate, by rates measured on one machine."""
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
    """The default budget, from which estimates are subtracted: the same on every machine.

    Parameters
    ----------
    first
        The first candidate; the budget is a multiple of its estimated cost.
    has_dev
        Whether to reserve a fraction for selection and scoring on dev trees.
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
        """The budget minus the estimates of all trained candidates."""
        return self._left

    def spend(self, candidate: Candidate, seconds: float, passes: int = 1) -> None:
        """Subtract the estimate of a candidate; the measured time is ignored."""
        self._left -= passes * self.estimate(candidate)


class MeasuredBudget(Budget):
    """A budget in measured seconds, or without a limit.

    Parameters
    ----------
    seconds
        The budget; None for no limit.
    spent
        Seconds of the budget that are used already.
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
        """Correct the estimates by the measured seconds of a candidate."""
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
    """Make the budget of an ensemble: counted for `auto`, measured for a number or None."""
    settings = settings or EnsembleSettings()
    if isinstance(budget, str):
        return CountedBudget(data, settings, first, has_dev=has_dev)
    return MeasuredBudget(data, settings, budget, spent=spent, now=now)
