"""Posteriors of arcs under a latent dependency model: all projective trees, all states.

    p(tree | words)  ~  prod over arcs of w[head, word]  *  p(words | tree)

w are weights of arcs from elsewhere, such as posteriors of another parser, 0 where it pruned; with
weights of 1 all trees are equally likely before their words are seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.dependency.model.latent import LatentArcs


def arc_posteriors(
    model: LatentArcs,
    seen: Any,
    arcs: FloatArray,
    valence: tuple[slice, slice] | None = None,
) -> tuple[float, int, FloatArray]:
    """Log and sign of the weight of all projective trees, and the posterior of each arc.

    Parameters
    ----------
    model
        In the basis of its states; numbers may be negative.
    seen : [n, n_columns]
        Symbols of the words of a sentence, -1 for none.
    arcs : [n + 1, n]
        Weight of each arc, by its head (0 is the root, then the words) and its word.
    valence
        Symbols that count left and right children, of the form that EM gives them; None where
        numbers of children do not count.

    Returns
    -------
    log, sign, and [n + 1, n]
        Posteriors of the heads of a word sum to 1; all are 0 where no tree has a weight.

    Cost: O(arcs n k^2).
    """
    from sapwood.dependency.parse.kernels.latent_eisner import arc_sums

    if model.product is not None:
        msg = "sums over all trees need a model in the basis of its states"
        raise SapwoodError(msg, hint="learn with EMDependency, start='spectral'")
    emission, log = _emissions(model, np.asarray(seen))
    # the largest weight of a word's arcs is made 1, so that long sentences do not underflow
    top = arcs.max(axis=0)
    if (top <= 0).any():
        return -np.inf, 0, np.zeros_like(arcs)
    scaled = arcs / top
    arc_of, weight, heads, words = number_arcs(scaled)
    through_root, through = np.zeros(len(emission)), np.zeros(len(weight))
    total = arc_sums(
        emission, np.ascontiguousarray(scaled[0]), arc_of, weight, model.root, model.steps,
        *_valences(model, valence), through_root, through,
    )  # fmt: skip
    posterior = np.zeros_like(arcs)
    posterior[0] = through_root
    posterior[heads + 1, words] = through
    if total == 0.0:
        return -np.inf, 0, posterior
    return float(np.log(abs(total)) + log + np.log(top).sum()), int(np.sign(total)), posterior


def number_arcs(arcs: FloatArray) -> tuple[IntArray, FloatArray, IntArray, IntArray]:
    """Numbers of the arcs between words that have a weight, as [n, n]; weights, heads, words."""
    between = arcs[1:] * ~np.eye(arcs.shape[1], dtype=bool)
    heads, words = np.nonzero(between)
    arc_of = np.full(between.shape, -1)
    arc_of[heads, words] = np.arange(len(heads))
    return arc_of, between[heads, words], heads, words


def _valences(
    model: LatentArcs, valence: tuple[slice, slice] | None
) -> tuple[FloatArray, FloatArray]:
    """Weights of one more child and of no more, for the first and for others, [2, 2, k]."""
    shape = (2, 2, model.n_states)
    if valence is None:
        return np.ones(shape), np.ones(shape)
    stop = np.empty(shape)
    for side, rows in enumerate(valence):
        p = model.symbols[rows]
        some = 1 - p[0]
        stop[side] = p[0], np.where(some > 0, p[1] / np.where(some > 0, some, 1.0), 1.0)
    return 1 - stop, stop


def _emissions(model: LatentArcs, seen: IntArray) -> tuple[FloatArray, float]:
    """What each word shows by state, its largest entry 1, and the log of the scales."""
    padded = np.vstack([model.symbols, np.ones(model.n_states)])  # the last row, -1: no symbol
    emission = np.ones((len(seen), model.n_states))
    for column in seen.T:
        emission = emission * padded[column]
    top = np.abs(emission).max(axis=1)
    if (top == 0).any():
        return np.zeros_like(emission), 0.0
    return np.ascontiguousarray(emission / top[:, None]), float(np.log(top).sum())
