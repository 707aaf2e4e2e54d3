"""AdaGrad over the sentences of a treebank, for taggers, pruners, parsers and labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.signals import undisturbed
from sapwood.progress import counted

FloatTable = npt.NDArray[Any]  # float32; float64 for features of spans
FIRST_SQUARE = 1e-2  # AdaGrad's sums start here, so that first steps are not the largest


@dataclass
class Table:
    """Weights that are being learnt.

    Attributes
    ----------
    squares
        AdaGrad's sums.
    name
        What is learnt, for whoever listens to progress.
    parts
        Parts of a pass; the weights after each part of the last half of the passes are averaged.
    """

    weights: FloatTable
    squares: FloatTable
    name: str = "weights"
    parts: int = 4

    @classmethod
    def of_size(cls, size: int, *, name: str, dtype: npt.DTypeLike = np.float32) -> Table:
        """So many weights of 0."""
        return cls(np.zeros(size, dtype), np.full(size, FIRST_SQUARE, dtype), name)


def learn(
    table: Table,
    n: int,
    step: Callable[[int, float], float],
    passes: int,
    rate: float,
    rng: np.random.Generator,
    on_pass: Callable[[int, float], None] | None = None,
) -> FloatTable:
    """Take a step for every sentence, in another order each pass; the mean of the weights.

    Parameters
    ----------
    step
        Takes the number of a sentence and the rate; the log-likelihood before the step.
    on_pass
        Called with the number of each pass and the log-likelihood during it.
    """
    total, n_added = np.zeros_like(table.weights), 0
    for done in counted(range(1, passes + 1), table.name, unit="pass"):
        likelihood = 0.0
        for some in counted(np.array_split(rng.permutation(n), table.parts)):
            for place in counted(some.tolist()):
                likelihood += undisturbed(step, place, rate)
            if 2 * done > passes:
                total += table.weights
                n_added += 1
        if on_pass is not None:
            on_pass(done, likelihood)
    return np.asarray(total / total.dtype.type(n_added))
