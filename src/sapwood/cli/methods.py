"""The methods of `sapwood train`; a new one is a line in `METHODS` and a function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import typer

if TYPE_CHECKING:
    from sapwood.corpus.treebank import Treebank
    from sapwood.estimators.pcfg import PCFG
    from sapwood.models.latent_grammar import LatentGrammar


class Learner(Protocol):
    """What an estimator of trees must offer."""

    model_: LatentGrammar

    def fit(self, bank: Treebank) -> Self:
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
    """

    rare_count: int = 5
    signatures: str = "auto"
    seed: int = 0
    jobs: int = 0
    states: int = 16


class Method(NamedTuple):
    """One way to learn a grammar."""

    summary: str
    make: Callable[[Settings], Learner]
    has_states: bool = True


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

    return EMLPCFG(settings.states, plain=_pcfg(settings), seed=settings.seed, n_jobs=settings.jobs)


def _cluster(settings: Settings) -> Learner:
    from sapwood.estimators.cluster import ClusterLPCFG

    return ClusterLPCFG(
        settings.states, plain=_pcfg(settings), seed=settings.seed, n_jobs=settings.jobs
    )


def _pivot(settings: Settings, iterations: int = 0) -> Learner:
    from sapwood.estimators.pivot import PivotLPCFG

    return PivotLPCFG(
        settings.states, iterations=iterations, plain=_pcfg(settings), seed=settings.seed,
        n_jobs=settings.jobs,
    )  # fmt: skip


MAX_STATES = 256  # of any method: beyond, a single tensor holds more numbers than a treebank words
METHODS: dict[str, Method] = {
    "pcfg": Method("relative frequencies, no hidden states", _pcfg, has_states=False),
    "spectral": Method("hidden states by singular value decomposition, no iterations", _spectral),
    "em": Method("probabilities by EM, states split in two level by level", _em),
    "cluster": Method("states are clusters of tree nodes, counted", _cluster),
    "pivot": Method("probabilities by pivot features and convex EM", _pivot),
    "pivot-em": Method("ten EM iterations from the pivot estimate", partial(_pivot, iterations=10)),
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
