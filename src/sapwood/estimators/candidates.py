"""Candidates of an ensemble: what may become a member, in which order, and how it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sapwood.errors import SapwoodError
from sapwood.estimators.cluster import ClusterLPCFG
from sapwood.estimators.crf import SpanCRF
from sapwood.estimators.em import EMLPCFG
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.pivot import PivotLPCFG
from sapwood.estimators.spectral import SpectralLPCFG


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

    @property
    def way(self) -> tuple[str | None, int | None]:
        """How its trees are made binary: those with the same way share their charts."""
        return self.binarise, self.horizontal

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
