"""How the states of a grammar multiply and shrink between rounds of EM.

Notation
--------
    origin[s]    the state, before the last split, that state s came from; two states of a symbol
                 with the same origin are siblings
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from sapwood.estimators.training_trees import TrainingTrees
from sapwood.models.latent_parameters import LatentParameters

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def split(
    parameters: LatentParameters, target: IntArray, rng: np.random.Generator
) -> tuple[LatentParameters, IntArray]:
    """Split states in two, as many as it takes to reach the target of each symbol.

    Returns
    -------
    The new parameters and the origin of every state, symbol by symbol.
    """
    old = []
    for m, wanted in zip(parameters.n_states.tolist(), target.tolist(), strict=True):
        states = np.arange(m)
        old.append(np.sort(np.concatenate([states, states[: max(0, min(wanted, 2 * m) - m)]])))
    return parameters.restated(old, rng), np.concatenate(old)


def matsuzaki(
    plain: LatentParameters, target: IntArray, rng: np.random.Generator
) -> LatentParameters:
    """All states at once: treebank frequencies times exp(u), u uniform in [-ln 3, ln 3]."""
    copied = plain.restated([np.zeros(m, np.int64) for m in target.tolist()], None)

    def shaken(numbers: FloatArray) -> FloatArray:
        return np.asarray(numbers * np.exp(rng.uniform(-np.log(3), np.log(3), len(numbers))))

    return replace(
        copied, root=shaken(copied.root), rules=shaken(copied.rules), words=shaken(copied.words)
    ).normalised()


def merge_siblings(
    trees: TrainingTrees,
    parameters: LatentParameters,
    origin: IntArray,
    fraction: float,
    jobs: int,
) -> LatentParameters:
    """Undo the splits that gained least (Petrov et al. 2006).

    Parameters
    ----------
    fraction
        Of the pairs of siblings, how many become one state again.
    """
    counts = trees.expect(parameters, jobs)
    weight = replace(parameters, rules=counts.rules, words=counts.words).state_totals()
    pairs = sibling_pairs(parameters, origin)
    start = parameters.state_start[pairs[:, 0]]
    one, two = weight[start + pairs[:, 1]], weight[start + pairs[:, 2]]
    share = one / np.maximum(one + two, 1e-300)
    losses = trees.merge_losses(parameters, pairs, share, jobs)
    chosen = pairs[np.argsort(losses, kind="stable")[: int(fraction * len(pairs))]]
    return parameters.merged(_joined(parameters, chosen), weight)


def sibling_pairs(parameters: LatentParameters, origin: IntArray) -> IntArray:
    """Symbol and states of all siblings, shape [n_pairs, 3]; splits leave siblings side by side."""
    symbol = np.repeat(np.arange(len(parameters.n_states)), parameters.n_states)
    first = np.flatnonzero((origin[1:] == origin[:-1]) & (symbol[1:] == symbol[:-1]))
    state = first - parameters.state_start[symbol[first]]
    return np.stack([symbol[first], state, state + 1], axis=1)


def _joined(parameters: LatentParameters, pairs: IntArray) -> list[IntArray]:
    """For each symbol the new number of each state, when the second of each pair joins the first.

    Siblings stand side by side, so a state's new number is how many states before it stay.
    """
    stays = np.ones(int(parameters.state_start[-1]), np.int64)
    stays[parameters.state_start[pairs[:, 0]] + pairs[:, 2]] = 0
    return [np.cumsum(part) - 1 for part in np.split(stays, parameters.state_start[1:-1])]
