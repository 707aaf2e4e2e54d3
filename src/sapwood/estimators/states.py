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

from sapwood.estimators.maximise import normalise
from sapwood.estimators.training_trees import TrainingTrees
from sapwood.models.latent_parameters import LatentParameters

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SPLIT_NOISE = 0.01


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
    return copy_states(parameters, old, rng), np.concatenate(old)


def matsuzaki(
    plain: LatentParameters, target: IntArray, rng: np.random.Generator
) -> LatentParameters:
    """All states at once: treebank frequencies times exp(u), u uniform in [-ln 3, ln 3]."""
    copied = copy_states(plain, [np.zeros(m, np.int64) for m in target.tolist()], None)

    def shake(numbers: FloatArray) -> FloatArray:
        return np.asarray(numbers * np.exp(rng.uniform(-np.log(3), np.log(3), len(numbers))))

    return normalise(
        replace(
            copied, root=shake(copied.root), rules=shake(copied.rules), words=shake(copied.words)
        )
    )


def copy_states(
    given: LatentParameters, old: list[IntArray], rng: np.random.Generator | None
) -> LatentParameters:
    """Give every symbol new states, each a copy of an old one.

    Parameters
    ----------
    old
        For each symbol, the old state that each new state copies. A child's old state shares its
        probability among its copies.
    rng
        Of the noise of 1 % that makes copies differ; None for none.
    """
    copies = [
        np.bincount(states, minlength=m)
        for states, m in zip(old, given.n_states.tolist(), strict=True)
    ]
    share = [1.0 / n[states] for states, n in zip(old, copies, strict=True)]
    tensors = [
        (tensor[np.ix_(old[a], old[b], old[c])] * share[b][:, None] * share[c]).ravel()
        for (a, b, c), tensor in given.tensors()
    ]
    words = [vector[old[a]] for a, vector in given.emissions()]
    root = [vector[old[a]] * share[a] for a, vector in given.roots()]
    parts = [np.concatenate([np.empty(0), *part]) for part in (root, tensors, words)]
    if rng is not None:
        parts = [part * (1 + SPLIT_NOISE * rng.uniform(-1, 1, len(part))) for part in parts]
    sizes = np.array([len(states) for states in old])
    return normalise(LatentParameters(sizes, given.symbols_of, given.symbol_of_pair, *parts))


def join_states(
    given: LatentParameters, joined: list[IntArray], weight: FloatArray
) -> LatentParameters:
    """Join states of symbols: a joined state behaves as its parts do on average.

    Parameters
    ----------
    joined
        For each symbol, the new state that each old state becomes part of.
    weight : [sum of n_states]
        How frequent each old state is, within its symbol.
    """
    new, share = [], []  # membership [old, new], and the same with columns that sum to 1
    for states, w in zip(joined, np.split(weight, given.state_start[1:-1]), strict=True):
        member = np.eye(int(states.max()) + 1)[states]
        weighted = member * np.maximum(w, 1e-300)[:, None]  # states nobody uses still have a mean
        new.append(member)
        share.append(weighted / weighted.sum(axis=0))
    tensors = [
        (new[b].T @ (np.tensordot(share[a], tensor, (0, 0)) @ new[c])).ravel()
        for (a, b, c), tensor in given.tensors()
    ]
    words = [vector @ share[a] for a, vector in given.emissions()]
    root = [vector @ new[a] for a, vector in given.roots()]
    parts = [np.concatenate([np.empty(0), *part]) for part in (root, tensors, words)]
    sizes = np.array([member.shape[1] for member in new])
    return normalise(LatentParameters(sizes, given.symbols_of, given.symbol_of_pair, *parts))


def merge_siblings(
    trees: TrainingTrees, parameters: LatentParameters, origin: IntArray, fraction: float
) -> LatentParameters:
    """Undo the splits that gained least (Petrov et al. 2006).

    Parameters
    ----------
    fraction
        Of the pairs of siblings, how many become one state again.
    """
    counts = trees.expect(parameters)
    weight = replace(parameters, rules=counts.rules, words=counts.words).state_totals()
    pairs = sibling_pairs(parameters, origin)
    start = parameters.state_start[pairs[:, 0]]
    one, two = weight[start + pairs[:, 1]], weight[start + pairs[:, 2]]
    share = one / np.maximum(one + two, 1e-300)
    losses = trees.merge_losses(parameters, pairs, share)
    chosen = pairs[np.argsort(losses, kind="stable")[: int(fraction * len(pairs))]]
    # siblings stand side by side, so a state's new number is how many states before it stay
    stays = np.ones(int(parameters.state_start[-1]), np.int64)
    stays[parameters.state_start[chosen[:, 0]] + chosen[:, 2]] = 0
    joined = [np.cumsum(part) - 1 for part in np.split(stays, parameters.state_start[1:-1])]
    return join_states(parameters, joined, weight)


def sibling_pairs(parameters: LatentParameters, origin: IntArray) -> IntArray:
    """Symbol and states of all siblings, shape [n_pairs, 3]; splits leave siblings side by side."""
    symbol = np.repeat(np.arange(len(parameters.n_states)), parameters.n_states)
    first = np.flatnonzero((origin[1:] == origin[:-1]) & (symbol[1:] == symbol[:-1]))
    state = first - parameters.state_start[symbol[first]]
    return np.stack([symbol[first], state, state + 1], axis=1)
