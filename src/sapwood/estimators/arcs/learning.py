"""AdaGrad over the sentences of a treebank: what taggers, pruners, parsers and labels share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sapwood.kernels.signals import undisturbed
from sapwood.progress import counted

FloatTable = npt.NDArray[np.float32]
FIRST_SQUARE = 1e-2  # AdaGrad's sums start here, so that first steps are not the largest
AVERAGED_PARTS = 4  # of a pass, after each of which the weights enter the average


@dataclass
class Table:
    """Weights that are being learnt.

    Attributes
    ----------
    squares
        AdaGrad's sums.
    name
        What is learnt, for whoever listens to progress.
    """

    weights: FloatTable
    squares: FloatTable
    name: str = "weights"

    @classmethod
    def of_size(cls, bits: int, spare: int = 0, *, name: str) -> Table:
        """Weights 0, a power of two of them and some to spare."""
        size = (1 << bits) + spare
        return cls(np.zeros(size, np.float32), np.full(size, FIRST_SQUARE, np.float32), name)


def learn(
    table: Table,
    n: int,
    step: Callable[[int, float], float],
    passes: int,
    rate: float,
    rng: np.random.Generator,
    on_pass: Callable[[int, float], None] | None = None,
) -> FloatTable:
    """Take a step for every sentence, in another order each pass; averaged weights.

    Parameters
    ----------
    step
        Takes the number of a sentence and the rate; the log-likelihood before the step.
    on_pass
        Told the number of each pass and the log-likelihood during it.
    """
    total, n_averaged = np.zeros_like(table.weights), 0
    for done in counted(range(1, passes + 1), table.name, unit="pass"):
        likelihood = 0.0
        for some in counted(np.array_split(rng.permutation(n), AVERAGED_PARTS)):
            for place in counted(some.tolist()):
                likelihood += undisturbed(step, place, rate)
            if 2 * done > passes:
                total += table.weights
                n_averaged += 1
        if on_pass is not None:
            on_pass(done, likelihood)
    return total / np.float32(n_averaged)
