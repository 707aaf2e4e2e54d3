"""Candidates of an ensemble: what may become a member, in which order, and how it is trained."""

from __future__ import annotations

from typing import Any, NamedTuple

from sapwood.errors import SapwoodError
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.registry import METHODS, methods_of


class Candidate(NamedTuple):
    """A grammar that may become a member.

    Attributes
    ----------
    method
        One of those of `sapwood train`, but neither `pcfg` nor `best`.
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

    @property
    def way(self) -> tuple[str | None, int | None]:
        """How its trees are made binary: those with the same way share their charts."""
        return self.binarise, self.horizontal

    @property
    def has_states(self) -> bool:
        """Whether its method has any hidden states."""
        return self.method not in METHODS or METHODS[self.method].has_states

    def __str__(self) -> str:
        parts = [f"{self.method} {self.states}" if self.has_states else self.method]
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
    kinds = {  # one grammar each, on top of a plain one
        name: method
        for name, method in methods_of("trees").items()
        if method.has("plain") and not method.has_candidates
    }
    if c.method not in kinds:
        msg = f"{c.method!r} is no kind of candidate; there are: {', '.join(kinds)}"
        raise SapwoodError(msg)
    behind = PCFG(**(plain or PCFG()).get_params())
    ways = {"binarise": c.binarise, "horizontal": c.horizontal}
    behind.set_params(**{name: way for name, way in ways.items() if way is not None})
    values = {"n_states": c.states, "plain": behind, "seed": seed + c.seed, "n_jobs": n_jobs}
    return kinds[c.method].make(**kinds[c.method].pick(values))
