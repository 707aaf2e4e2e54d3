"""The methods of `sapwood train`; a new one is a line in `METHODS` and a function that makes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

if TYPE_CHECKING:
    from sapwood.corpus.treebank import Treebank
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
    """

    rare_count: int
    signatures: str
    seed: int
    jobs: int


class Method(NamedTuple):
    """One way to learn a grammar."""

    summary: str
    make: Callable[[Settings], Learner]


def _pcfg(settings: Settings) -> Learner:
    from sapwood.estimators.lexicon import LexiconSettings
    from sapwood.estimators.pcfg import PCFG

    lexicon = LexiconSettings(rare_count=settings.rare_count, style=settings.signatures)
    return PCFG(lexicon=lexicon, n_jobs=settings.jobs)


METHODS: dict[str, Method] = {
    "pcfg": Method("relative frequencies, no hidden states", _pcfg),
}


def describe_methods() -> str:
    """The methods with what they do, for help texts."""
    return "; ".join(f"{name} ({method.summary})" for name, method in METHODS.items())
