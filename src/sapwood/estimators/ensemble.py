"""`EnsembleLPCFG`: a mix of grammars of different kinds, trained within a time budget.

Grammars of different kinds, and grammars of trees that were made binary in different ways, make
different mistakes; the mean of their posteriors is better than any of them. Candidates are trained
in the order of what they usually bring. With dev trees, a candidate that does not help is dropped,
and the weights are those under which dev brackets are most probable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.tree import Tree
from sapwood.corpus.treebank import Treebank
from sapwood.errors import SapwoodError
from sapwood.estimators.base import Estimator, check_treebank
from sapwood.estimators.cluster import ClusterLPCFG
from sapwood.estimators.em import EMLPCFG
from sapwood.estimators.panel import Panel
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.pivot import PivotLPCFG
from sapwood.estimators.spectral import SpectralLPCFG
from sapwood.models.ensemble import Ensemble
from sapwood.models.latent_grammar import LatentGrammar

FloatArray = npt.NDArray[np.float64]
MOST_DEV = 1000  # dev sentences that choose: more only take longer
TOLERANCE = 0.05  # F1 below the best mix so far at which a candidate still counts as no worse


class Candidate(NamedTuple):
    """A grammar that may become a member.

    Attributes
    ----------
    method
        `spectral`, `em`, `cluster` or `pivot`.
    states
        Hidden states of a label.
    binarise
        How its trees are made binary; None for the treebank's own way.
    seed
        Added to that of the ensemble.
    """

    method: str
    states: int
    binarise: str | None = None
    seed: int = 0

    def __str__(self) -> str:
        parts = [self.method, f"{self.states} states"]
        parts += [f"{self.binarise}-binarised"] if self.binarise else []
        return ", ".join(parts + ([f"seed {self.seed}"] if self.seed else []))


# In the order of what each brings to the ones before it; chosen on dev trees, see the docs.
PLAN = (
    Candidate("spectral", 16),
    Candidate("em", 16),
    Candidate("cluster", 16),
    Candidate("em", 16, "right"),
    Candidate("spectral", 16, "right"),
    Candidate("cluster", 16, "right"),
    Candidate("em", 16, "left"),
    Candidate("spectral", 16, "left"),
    Candidate("pivot", 16),
    Candidate("em", 16, None, 1),
    Candidate("cluster", 16, "left"),
    Candidate("em", 16, "right", 1),
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
        On dev trees, alone and with those kept before; None without dev trees.
    verdict
        `kept`, `dropped` or `skipped`, with the reason.
    """

    name: str
    seconds: float = 0.0
    f1: float | None = None
    mix_f1: float | None = None
    verdict: str = "kept"


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


class EnsembleLPCFG(Estimator):
    """A mix of latent grammars.

    Parameters
    ----------
    budget
        Seconds on the clock; a candidate is not begun when it would hardly end in time. The first
        one is trained in any case. None trains all candidates.
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
        n_states: int = 16,
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

    def fit(self, bank: Treebank, dev: Sequence[Tree] | None = None) -> Self:
        """Learn a mix from a treebank.

        Parameters
        ----------
        dev
            Trees apart from the treebank, which choose members and weights; without any, all
            candidates that the budget allows become members of equal weight.
        """
        self._check_parameters()
        check_treebank(bank)
        plan = self._plan(bank)
        mix = _Mix(dev, self.n_jobs)
        clock = _Clock(self.budget, bank, self.n_jobs)
        self.info_ = EnsembleInfo(seconds={"training": 0.0, "choosing": 0.0})
        for candidate in plan:
            trial = self._tried(candidate, bank, mix, clock)
            self.info_.trials.append(trial)
            if self.on_trial:
                self.on_trial(trial)
        began = perf_counter()
        weights = mix.tuned_weights()
        self.info_.f1 = mix.f1(weights)
        self.info_.seconds["choosing"] += perf_counter() - began
        self.info_.seconds = {k: round(v, 3) for k, v in self.info_.seconds.items()}
        self.model_ = Ensemble(tuple(mix.members), weights, record=self._record(bank, dev))
        return self

    def _plan(self, bank: Treebank) -> list[Candidate]:
        """The candidates without those that would be the same, for this treebank, as another."""
        own = bank.inventory.transform.binarise
        plan = [
            c._replace(
                states=min(c.states, self.n_states),
                binarise=None if c.binarise == own else c.binarise,
            )
            for c in (PLAN if self.plan is None else self.plan)
        ]
        if not plan:
            msg = "the plan of an ensemble has no candidate"
            raise SapwoodError(msg, hint="give some, or leave it out")
        return list(dict.fromkeys(plan))

    def _tried(self, candidate: Candidate, bank: Treebank, mix: _Mix, clock: _Clock) -> Trial:
        """Train a candidate if there is time, and keep it if it helps."""
        trial = Trial(str(candidate))
        expected = clock.expected(candidate)
        if mix.members and expected > clock.left:
            left = max(clock.left, 0.0)
            trial.verdict = f"skipped: about {expected:.0f} s, {left:.0f} s left"
            return trial
        began = perf_counter()
        member = self._estimator(candidate).fit(bank).model_
        trial.seconds = perf_counter() - began
        clock.learn(candidate, trial.seconds)
        self.info_.seconds["training"] += trial.seconds
        began = perf_counter()
        mix.consider(member, trial)
        self.info_.seconds["choosing"] += perf_counter() - began
        return trial

    def _estimator(self, c: Candidate) -> Any:
        plain = PCFG(**(self.plain or PCFG()).get_params())
        if c.binarise:
            plain.set_params(binarise=c.binarise)
        shared: dict[str, Any] = {"plain": plain, "seed": self.seed + c.seed, "n_jobs": self.n_jobs}
        kinds: dict[str, Callable[[], Any]] = {
            "spectral": lambda: SpectralLPCFG(c.states, **shared),
            "em": lambda: EMLPCFG(c.states, **shared),
            "cluster": lambda: ClusterLPCFG(c.states, **shared),
            "pivot": lambda: PivotLPCFG(c.states, **shared),
        }
        if c.method not in kinds:
            msg = f"{c.method!r} is no kind of candidate; there are: {', '.join(kinds)}"
            raise SapwoodError(msg)
        return kinds[c.method]()

    def _record(self, bank: Treebank, dev: Sequence[Tree] | None) -> dict[str, Any]:
        return {
            "method": "best", "budget": self.budget, "trees": bank.n_trees,
            "tokens": bank.n_tokens, "seed": self.seed, "dev_trees": len(dev or ()),
            "dev_f1": self.info_.f1, "trials": [asdict(trial) for trial in self.info_.trials],
        }  # fmt: skip


class _Mix:
    """The members kept so far, and how good they are together."""

    def __init__(self, dev: Sequence[Tree] | None, jobs: int) -> None:
        self.dev = dev[:MOST_DEV] if dev is not None else None
        self.jobs = jobs
        self.members: list[LatentGrammar] = []
        self.panel: Panel | None = None
        self.best = 0.0

    def consider(self, member: LatentGrammar, trial: Trial) -> None:
        """Keep a member, unless dev trees say that the mix is better without it."""
        if self.dev is None:
            self.members.append(member)
            return
        if self.panel is None:
            self.panel = Panel(self.dev, member, self.jobs)
        panel, n = self.panel, len(self.members)
        panel.add(member)
        trial.f1 = panel.f1([0.0] * n + [1.0])
        trial.mix_f1 = panel.f1([1.0] * (n + 1))
        if n and trial.mix_f1 < self.best - TOLERANCE:
            panel.drop_last()
            trial.verdict = "dropped: the mix is better without it"
            return
        self.best = max(self.best, trial.mix_f1)
        note = {"dev_f1": round(trial.f1, 2)}
        self.members.append(replace(member, record=dict(member.record) | note))

    def tuned_weights(self) -> FloatArray:
        """Weights under which dev brackets are most probable; equal ones where F1 is higher so."""
        n = len(self.members)
        equal = np.full(n, 1.0 / n)
        if self.panel is None or n == 1:
            return equal
        tuned = self.panel.likely_weights()
        return tuned if self.panel.f1(tuned) >= self.panel.f1(equal) else equal

    def f1(self, weights: FloatArray) -> float | None:
        """On the dev trees, if there are any."""
        return self.panel.f1(weights) if self.panel is not None else None


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
        self.limit = np.maximum(
            1, np.bincount(bank.label, minlength=int(self.rules.max()) + 1) // 20
        )
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
        passes = 2e-6 * self.n_nodes * (4 + candidate.states / 4)  # features, projection, tensors
        if candidate.method == "em":
            levels = [2**k for k in range(1, 9) if 2**k < candidate.states] + [candidate.states]
            passes = sum(20 * self._iteration(m) for m in levels)
        return passes / self.jobs

    def _iteration(self, m: int) -> float:
        """Seconds of one EM iteration: products over nodes, and passes over the tensors."""
        states = np.minimum(self.limit, m)[self.rules].prod(axis=1)
        return float(6e-10 * (self.rule_count @ states) + 4e-9 * states.sum() + 2e-7 * self.n_nodes)
