"""Least squares on the simplex by Frank and Wolfe's method: slow, and with a promise to check."""

# ruff: noqa: N806 - capitals are matrices, as in the papers
from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray


class FrankWolfe(NamedTuple):
    """Weights, how far each row may be from its optimum, and steps taken."""

    weights: FloatArray  # [n, m]
    gaps: FloatArray  # [n]; |B' x - y|^2 is at most this far above its minimum
    n_steps: int


def frank_wolfe(
    vertices: FloatArray, points: FloatArray, *, gap: float = 1e-6, max_steps: int = 5000
) -> FrankWolfe:
    """The weights of `simplex_least_squares` by Frank and Wolfe's method, with exact line search.

        x <- x + a (e_j - x),   j = argmin g_j,   gap = 2 (x'g - min g) >= f(x) - f(x*)

    Cost: O(n m dim) a step, and steps of the order of 1 / gap.  Reference: Clarkson (2010).

    Examples
    --------
    >>> frank_wolfe(np.eye(2), np.array([[3.0, 0.0]])).weights
    array([[1., 0.]])
    """
    B, Y = np.asarray(vertices, dtype=float), np.asarray(points, dtype=float)
    nearest = np.argmin((B * B).sum(axis=1) - 2 * Y @ B.T, axis=1)
    X = np.eye(len(B))[nearest]
    gaps = np.full(len(Y), np.inf)
    todo = np.arange(len(Y))
    n_steps = 0
    while len(todo):
        x = X[todo]
        residual = x @ B - Y[todo]
        g = residual @ B.T
        j = g.argmin(axis=1)
        gaps[todo] = 2 * ((x * g).sum(axis=1) - g[np.arange(len(j)), j])
        going = gaps[todo] > gap
        if n_steps == max_steps or not going.any():
            break
        todo, x, residual, j = todo[going], x[going], residual[going], j[going]
        toward = B[j] - x @ B
        length = -(residual * toward).sum(axis=1) / (toward * toward).sum(axis=1)
        a = np.clip(length, 0.0, 1.0)[:, None]
        x = (1 - a) * x
        x[np.arange(len(j)), j] += a[:, 0]
        X[todo] = x
        n_steps += 1
    return FrankWolfe(X, np.maximum(gaps, 0.0), n_steps)
