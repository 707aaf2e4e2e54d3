"""The methods of `sapwood train`; a new one is a line in `METHODS` and a function that makes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, cast

import typer

if TYPE_CHECKING:
    from sapwood.corpus.tree import Tree
    from sapwood.corpus.treebank import Treebank
    from sapwood.estimators.ensemble import Trial
    from sapwood.estimators.pcfg import PCFG
    from sapwood.models.ensemble import Model


class Learner(Protocol):
    """What an estimator of trees must offer."""

    @property
    def model_(self) -> Model:
        """What was learnt."""
        ...

    def fit(self, bank: Treebank) -> Self:
        """Learn from a treebank."""
        ...


class GradedLearner(Learner, Protocol):
    """An estimator that can choose, between iterations or members, on dev trees."""

    def fit(self, bank: Treebank, dev: Sequence[Tree] | None = None) -> Self:
        """Learn from a treebank."""
        ...


@dataclass(frozen=True)
class Settings:
    """What the command line says about learning, beyond how trees are read.

    Attributes
    ----------
    rare_count, signatures
        How words are generalised, see `LexiconSettings`.
    seed
        For methods that draw random numbers.
    jobs
        Threads; 0 means all cores.
    states
        Hidden states of a label, for methods that have any.
    iterations
        Of EM, where there are any; None for the method's own number.
    patience
        Iterations without a better dev F1 after which EM ends; None for never.
    checkpoint
        A file that EM writes after every iteration and goes on from.
    on_iteration
        Told (iteration, states, log-likelihood) after every EM iteration.
    most_states
        The most states of a candidate of `best`.
    budget
        Seconds on the clock for `best`; None for as long as it takes.
    spent
        Seconds of the budget that are gone when training starts.
    on_trial
        Told what became of every candidate of `best`.
    """

    rare_count: int = 5
    signatures: str = "auto"
    seed: int = 0
    jobs: int = 0
    states: int = 16
    iterations: int | None = None
    patience: int | None = None
    checkpoint: Path | None = None
    on_iteration: Callable[[int, int, float], None] | None = None
    most_states: int = 32
    budget: float | None = 60.0
    spent: float = 0.0
    on_trial: Callable[[Trial], None] | None = None

    def of_em(self, iterations: int | None = None) -> dict[str, Any]:
        """Arguments that all estimators with EM iterations share."""
        n = iterations if self.iterations is None else self.iterations
        return {
            "plain": _pcfg(self), "seed": self.seed, "n_jobs": self.jobs,
            "patience": self.patience, "checkpoint": self.checkpoint,
            "on_iteration": self.on_iteration,
        } | ({} if n is None else {"iterations": n})  # fmt: skip


class Method(NamedTuple):
    """One way to learn a grammar."""

    summary: str
    make: Callable[[Settings], Learner]
    has_states: bool = True
    has_iterations: bool = False  # of EM, between which dev trees can choose
    has_passes: bool = False  # other ones, which --iterations sets
    has_candidates: bool = False

    def fit(self, settings: Settings, bank: Treebank, dev: Sequence[Tree] | None = None) -> Learner:
        """A fitted estimator; dev trees choose between iterations or candidates, if any."""
        learner = self.make(settings)
        if dev and (self.has_iterations or self.has_candidates):
            return cast("GradedLearner", learner).fit(bank, dev)
        return learner.fit(bank)


def _pcfg(settings: Settings) -> PCFG:
    from sapwood.estimators.lexicon import LexiconSettings
    from sapwood.estimators.pcfg import PCFG

    lexicon = LexiconSettings(rare_count=settings.rare_count, style=settings.signatures)
    return PCFG(lexicon=lexicon, n_jobs=settings.jobs)


def _spectral(settings: Settings) -> Learner:
    from sapwood.estimators.spectral import SpectralLPCFG

    return SpectralLPCFG(
        settings.states, plain=_pcfg(settings), seed=settings.seed, n_jobs=settings.jobs
    )


def _em(settings: Settings) -> Learner:
    from sapwood.estimators.em import EMLPCFG

    return EMLPCFG(settings.states, **settings.of_em())


def _cluster(settings: Settings) -> Learner:
    from sapwood.estimators.cluster import ClusterLPCFG

    return ClusterLPCFG(settings.states, **settings.of_em())


def _pivot(settings: Settings) -> Learner:
    return _pivot_em(replace(settings, iterations=0))


def _pivot_em(settings: Settings) -> Learner:
    from sapwood.estimators.pivot import PivotLPCFG

    return PivotLPCFG(settings.states, **settings.of_em(10))


def _crf(settings: Settings) -> Learner:
    from sapwood.estimators.crf import SpanCRF

    passes = {} if settings.iterations is None else {"passes": settings.iterations}
    return SpanCRF(
        plain=_pcfg(settings), seed=settings.seed, n_jobs=settings.jobs,
        on_iteration=settings.on_iteration, **passes,
    )  # fmt: skip


def _best(settings: Settings) -> Learner:
    from sapwood.estimators.ensemble import EnsembleLPCFG

    return EnsembleLPCFG(
        settings.budget, n_states=settings.most_states, plain=_pcfg(settings), seed=settings.seed,
        n_jobs=settings.jobs, on_trial=settings.on_trial, spent=settings.spent,
    )  # fmt: skip


MAX_STATES = 256  # of any method: beyond, a single tensor holds more numbers than a treebank words
METHODS: dict[str, Method] = {
    "best": Method("a mix of the others within --budget", _best, has_candidates=True),
    "pcfg": Method("relative frequencies, no hidden states", _pcfg, has_states=False),
    "spectral": Method("hidden states by singular value decomposition, no iterations", _spectral),
    "em": Method(
        "probabilities by EM, states split in two level by level", _em, has_iterations=True
    ),
    "cluster": Method("states are clusters of tree nodes, counted", _cluster, has_iterations=True),
    "pivot": Method("probabilities by pivot features and convex EM", _pivot),
    "pivot-em": Method("ten EM iterations from the pivot estimate", _pivot_em, has_iterations=True),
    "crf": Method(
        "features of spans, scored discriminatively", _crf, has_states=False, has_passes=True
    ),
}


def known_method(name: str) -> str:
    """The name itself; a usage error that lists what exists when there is no such method."""
    if name not in METHODS:
        msg = f"{name!r} is not a method; there are: {', '.join(METHODS)}"
        raise typer.BadParameter(msg)
    return name


def describe_methods() -> str:
    """The methods with what they do, for help texts."""
    return "; ".join(f"{name} ({method.summary})" for name, method in METHODS.items())
