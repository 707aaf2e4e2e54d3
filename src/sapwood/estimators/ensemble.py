"""`EnsembleLPCFG`: a mix of grammars of different kinds, trained within a time budget.

Grammars of different kinds, and grammars of trees that were made binary in different ways, make
different mistakes; the mean of their posteriors is mostly better than any of them. Candidates are
trained in the order of what they usually bring. With dev trees, members are then chosen one after
the other, each time the one that raises F1 most, and their weights are tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.tree import Tree
from sapwood.corpus.treebank import Treebank, TreebankLike, as_treebank
from sapwood.errors import SapwoodError
from sapwood.estimators.base import TreebankEstimator, dev_trees
from sapwood.estimators.cluster import ClusterLPCFG
from sapwood.estimators.crf import SpanCRF
from sapwood.estimators.em import EMLPCFG
from sapwood.estimators.panel import Panel
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.pivot import PivotLPCFG
from sapwood.estimators.spectral import SpectralLPCFG
from sapwood.estimators.training_trees import NODES_PER_STATE
from sapwood.models.ensemble import Ensemble
from sapwood.models.latent_grammar import LatentGrammar

FloatArray = npt.NDArray[np.float64]
N_WARM = 20  # trees that are learnt and parsed before the clock of a budget starts
MOST_DEV = 500  # dev sentences that choose: more only take longer
SHARPNESS = 1.15  # of a mix that no dev trees calibrate
MEMBERS_UNSEEN = 8  # that are trained when nobody can say which are worth their time
MOST_MEMBERS = 10  # more hardly help, and all have to be loaded and run
TUNED_GAIN = 0.1  # F1 that tuned weights must win over equal ones: less is noise


class Candidate(NamedTuple):
    """A grammar that may become a member.

    Attributes
    ----------
    method
        `spectral`, `em`, `cluster`, `pivot` or `crf`.
    states
        Hidden states of a label; without meaning for `crf`.
    binarise, horizontal
        How its trees are made binary; None for the treebank's own way.
    seed
        Added to that of the ensemble.
    """

    method: str
    states: int = 1
    binarise: str | None = None
    horizontal: int | None = None
    seed: int = 0

    def __str__(self) -> str:
        parts = [self.method if self.method == "crf" else f"{self.method} {self.states}"]
        parts += [self.binarise] if self.binarise else []
        parts += [f"h{self.horizontal}"] if self.horizontal is not None else []
        return " ".join(parts + ([f"seed {self.seed}"] if self.seed else []))


# Kinds before seeds, and other ways to make trees binary before more of the same; the order is that
# in which members were chosen most often on dev trees.
PLAN = (
    Candidate("spectral", 16),
    Candidate("em", 16),
    Candidate("crf"),
    Candidate("cluster", 16),
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


@dataclass
class Trial:
    """What became of a candidate.

    Attributes
    ----------
    name
        The candidate in words.
    seconds
        Of training; 0 for one that was skipped.
    f1, mix_f1
        On dev trees, alone and together with all trained before; None without dev trees.
    verdict
        `member`, `trained` (but not chosen), or `skipped` with the reason.
    """

    name: str
    seconds: float = 0.0
    f1: float | None = None
    mix_f1: float | None = None
    verdict: str = "trained"


@dataclass
class EnsembleInfo:
    """What was tried.

    Attributes
    ----------
    trials
        One for every candidate.
    f1
        Of the final mix on dev trees; None without any.
    seconds
        Wall-clock seconds by phase.
    """

    trials: list[Trial] = field(default_factory=list)
    f1: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)


class EnsembleLPCFG(TreebankEstimator):
    """A mix of latent grammars.

    Parameters
    ----------
    budget
        Seconds on the clock, without those for compiling kernels; a candidate is not begun when
        it would hardly end in time. The first one is trained in any case. None trains all.
    plan
        The candidates; None for the plan that comes with Sapwood.
    n_states
        The most states of a candidate; larger ones are cut down to it.
    plain
        The estimator of the plain grammars and lexicons behind the members.
    seed, n_jobs
        As for the other estimators.
    on_trial
        Called with a `Trial` when a candidate's fate is known.

    Attributes
    ----------
    model_ : Ensemble
    info_ : EnsembleInfo

    Examples
    --------
    >>> import sapwood as sw
    >>> bank = sw.bundled_treebank("dev")
    >>> plan = [sw.Candidate("spectral", 4), sw.Candidate("em", 2)]
    >>> len(sw.EnsembleLPCFG(plan=plan).fit(bank).model_.members)
    2
    """

    CONSTRAINTS: ClassVar[dict[str, tuple[Any, str]]] = {
        "budget": (lambda v: v is None or v > 0, "None or a number of seconds above 0"),
        "n_states": (
            lambda v: isinstance(v, int) and 1 <= v <= 256,
            "a whole number from 1 to 256",
        ),
        "plain": (lambda v: v is None or isinstance(v, PCFG), "a PCFG estimator"),
    }

    def __init__(
        self,
        budget: float | None = None,
        *,
        plan: Sequence[Candidate] | None = None,
        n_states: int = 32,
        plain: PCFG | None = None,
        seed: int = 0,
        n_jobs: int = 1,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> None:
        self.budget = budget
        self.plan = plan
        self.n_states = n_states
        self.plain = plain
        self.seed = seed
        self.n_jobs = n_jobs
        self.on_trial = on_trial

    def fit(self, bank: TreebankLike, dev: TreebankLike | None = None) -> Self:
        """Learn a mix from a treebank.

        Parameters
        ----------
        dev
            Trees apart from the treebank, which choose members and weights; without any, the first
            eight candidates, if the budget allows so many, become members of equal weight.
        """
        self._check_parameters()
        bank, dev = as_treebank(bank), dev_trees(dev)
        plan = self._plan(bank)[: None if dev is not None else MEMBERS_UNSEEN]
        if self.budget is not None:
            self._warm_up(bank, plan, dev)
        mix = _Mix(dev, self.n_jobs)
        clock = _Clock(self.budget, bank, self.n_jobs)
        self.info_ = EnsembleInfo(seconds={"training": 0.0, "choosing": 0.0})
        for candidate in plan:
            trial = self._tried(candidate, bank, mix, clock)
            self.info_.trials.append(trial)
            if self.on_trial:
                self.on_trial(trial)
        began = perf_counter()
        chosen, weights = mix.choose()
        sharpness, self.info_.f1 = mix.calibrate(chosen, weights)
        trained = [trial for trial in self.info_.trials if trial.verdict == "trained"]
        for place in chosen:
            trained[place].verdict = "member"
        self.info_.seconds["choosing"] += perf_counter() - began
        self.info_.seconds = {k: round(v, 3) for k, v in self.info_.seconds.items()}
        members = tuple(mix.members[place] for place in chosen)
        record = self._record(bank, dev)
        self.model_ = Ensemble(members, weights, sharpness=sharpness, record=record)
        return self

    def _plan(self, bank: Treebank) -> list[Candidate]:
        """The candidates without those that would be the same, for this treebank, as another."""
        own, plain = bank.inventory.transform, self.plain or PCFG()
        binarise = own.binarise if plain.binarise is None else plain.binarise
        horizontal = own.horizontal if plain.horizontal is None else plain.horizontal
        plan = [
            c._replace(
                states=1 if c.method == "crf" else min(c.states, self.n_states),
                binarise=None if c.binarise == binarise else c.binarise,
                horizontal=None if c.horizontal == horizontal else c.horizontal,
            )
            for c in (PLAN if self.plan is None else self.plan)
        ]
        if not plan:
            msg = "the plan of an ensemble has no candidate"
            raise SapwoodError(msg, hint="give some, or leave it out")
        for candidate in plan:
            estimator_of(candidate)  # an unknown kind is named before the first is trained
        return list(dict.fromkeys(plan))

    def _warm_up(
        self, bank: Treebank, plan: Sequence[Candidate], dev: Sequence[Tree] | None
    ) -> None:
        """Compile or load the kernels on a few trees, so that no budget pays for it."""
        mix = _Mix(dev[:N_WARM] if dev is not None else None, self.n_jobs)
        for method in dict.fromkeys(candidate.method for candidate in plan):
            mix.add(self._trained(Candidate(method, 2), bank[:N_WARM]), Trial(method))
        mix.choose()

    def _tried(self, candidate: Candidate, bank: Treebank, mix: _Mix, clock: _Clock) -> Trial:
        """Train a candidate if there is time."""
        trial = Trial(str(candidate))
        expected = clock.expected(candidate)
        if mix.members and expected > clock.left:
            left = max(clock.left, 0.0)
            trial.verdict = f"skipped: about {expected:.0f} s, {left:.0f} s left"
            return trial
        began = perf_counter()
        member = self._trained(candidate, bank)
        trial.seconds = perf_counter() - began
        clock.learn(candidate, trial.seconds)
        self.info_.seconds["training"] += trial.seconds
        began = perf_counter()
        mix.add(member, trial)
        self.info_.seconds["choosing"] += perf_counter() - began
        return trial

    def _trained(self, candidate: Candidate, bank: Treebank) -> LatentGrammar:
        estimator = estimator_of(candidate, self.plain, self.seed, self.n_jobs)
        model: LatentGrammar = estimator.fit(bank).model_
        return model

    def _record(self, bank: Treebank, dev: Sequence[Tree] | None) -> dict[str, Any]:
        return {
            "method": "best", "budget": self.budget, "trees": bank.n_trees,
            "tokens": bank.n_tokens, "seed": self.seed, "dev_trees": len(dev or ()),
            "dev_f1": self.info_.f1, "trials": [asdict(trial) for trial in self.info_.trials],
        }  # fmt: skip


def estimator_of(c: Candidate, plain: PCFG | None = None, seed: int = 0, n_jobs: int = 1) -> Any:
    """The estimator that a candidate stands for.

    Parameters
    ----------
    plain
        The estimator of the plain grammar behind it; the candidate's way to make trees binary
        comes on top.
    seed
        The candidate's own is added to it.
    """
    behind = PCFG(**(plain or PCFG()).get_params())
    ways = {"binarise": c.binarise, "horizontal": c.horizontal}
    behind.set_params(**{name: way for name, way in ways.items() if way is not None})
    shared: dict[str, Any] = {"plain": behind, "seed": seed + c.seed, "n_jobs": n_jobs}
    kinds: dict[str, Callable[[], Any]] = {
        "spectral": lambda: SpectralLPCFG(c.states, **shared),
        "em": lambda: EMLPCFG(c.states, **shared),
        "cluster": lambda: ClusterLPCFG(c.states, **shared),
        "pivot": lambda: PivotLPCFG(c.states, **shared),
        "crf": lambda: SpanCRF(**shared),
    }
    if c.method not in kinds:
        msg = f"{c.method!r} is no kind of candidate; there are: {', '.join(kinds)}"
        raise SapwoodError(msg)
    return kinds[c.method]()


class _Mix:
    """All grammars trained so far, and how good they are together."""

    def __init__(self, dev: Sequence[Tree] | None, jobs: int) -> None:
        self.dev = dev[:MOST_DEV] if dev is not None else None
        self.jobs = jobs
        self.members: list[LatentGrammar] = []
        self.panel: Panel | None = None

    def add(self, member: LatentGrammar, trial: Trial) -> None:
        """Grade a grammar on the dev trees, if there are any."""
        if self.dev is None:
            self.members.append(member)
            return
        if self.panel is None:
            self.panel = Panel(self.dev, member, self.jobs)
        panel, n = self.panel, len(self.members)
        panel.add(member)
        trial.f1 = round(panel.f1([0.0] * n + [1.0]), 3)
        trial.mix_f1 = round(panel.f1([1.0] * (n + 1)), 3)
        self.members.append(replace(member, record=dict(member.record) | {"dev_f1": trial.f1}))

    def choose(self) -> tuple[list[int], FloatArray]:
        """Members as places, and their weights; all of them, of equal weight, without dev."""
        if self.panel is None:
            everyone = list(range(len(self.members)))
            return everyone, np.full(len(everyone), 1.0 / len(everyone))
        chosen = self._chosen(self.panel)
        return chosen, self._tuned(self.panel, chosen)

    def calibrate(self, chosen: list[int], weights: FloatArray) -> tuple[float, float | None]:
        """The sharpness of a mix, and its F1 with it."""
        if self.panel is None:
            return (SHARPNESS if len(chosen) > 1 else 1.0), None
        sharpness = self.panel.likely_sharpness(chosen, weights)
        return sharpness, self.panel.f1_of(chosen, weights, sharpness)

    def _chosen(self, panel: Panel) -> list[int]:
        """The best of the mixes that grow by whichever grammar raises F1 most.

        The first grammar leads, since trees are made of its symbols. Mixes grow on when F1 falls:
        the next but one may raise it again.
        """
        path, rest = [0], list(range(1, len(self.members)))
        scores = [panel.f1_of(path)]
        while rest and len(path) < MOST_MEMBERS:
            found = [panel.f1_of([*path, k]) for k in rest]
            path.append(rest.pop(int(np.argmax(found))))
            scores.append(max(found))
        best = len(scores) - int(np.argmax(scores[::-1]))  # of equal ones the largest
        return path[:best]

    def _tuned(self, panel: Panel, chosen: list[int]) -> FloatArray:
        """Equal weights, unless those under which dev brackets are most probable are better."""
        equal = np.full(len(chosen), 1.0 / len(chosen))
        tuned = panel.likely_weights(chosen)
        gain = panel.f1_of(chosen, tuned) - panel.f1_of(chosen, equal)
        return tuned if gain > TUNED_GAIN else equal


class _Clock:
    """How much time is left, and how long candidates will take.

    First guesses are rates of one core measured on the Penn Treebank sample; every training that
    ends corrects them for its kind.
    """

    def __init__(self, budget: float | None, bank: Treebank, jobs: int) -> None:
        from sapwood.execute import resolve_jobs

        self.ends = perf_counter() + (np.inf if budget is None else budget)
        self.jobs = resolve_jobs(jobs)
        self.n_nodes = len(bank.label)
        rules = bank.rule[bank.rule >= 0]
        self.rule_count = np.bincount(rules, minlength=len(bank.inventory.rules))
        self.rules = bank.inventory.rules
        n_nodes = np.bincount(bank.label, minlength=len(bank.inventory.symbols))
        self.limit = np.maximum(1, n_nodes // NODES_PER_STATE)
        self.factor: dict[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds."""
        return self.ends - perf_counter()

    def expected(self, candidate: Candidate) -> float:
        """Seconds that a candidate will take, about."""
        return self._guess(candidate) * self.factor.get(candidate.method, 1.0)

    def learn(self, candidate: Candidate, seconds: float) -> None:
        """Note how long a candidate has taken."""
        self.factor[candidate.method] = seconds / self._guess(candidate)

    def _guess(self, candidate: Candidate) -> float:
        if candidate.method == "crf":
            return 1e-4 * self.n_nodes / (1 + (self.jobs - 1) / 2)  # only the charts are shared
        passes = 2e-6 * self.n_nodes * (4 + candidate.states / 4)  # features, projection, tensors
        if candidate.method == "em":
            stages = EMLPCFG(candidate.states)._schedule()
            passes = sum(stage.iterations * self._iteration(stage.states) for stage in stages)
        return passes / self.jobs

    def _iteration(self, m: int) -> float:
        """Seconds of one EM iteration: products over nodes, and passes over the tensors."""
        states = np.minimum(self.limit, m)[self.rules].prod(axis=1)
        return float(6e-10 * (self.rule_count @ states) + 4e-9 * states.sum() + 2e-7 * self.n_nodes)
