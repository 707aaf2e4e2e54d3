"""How many triples Theorem 3.1 of DEP asks for.

Notation (DEP, appendix)
------------------------
    k         hidden states                m, L   words of the tree, and its levels
    s         12 m + 2 L, the numbers that are multiplied for a tree's weight
    Lambda    smallest absolute entry of mu, Sigma, Sigma^-1, Omega, Omega^-1 and K
    sigma     smallest singular value of Sigma and Omega
    epsilon   relative error of the tree's weight, exceeded with probability delta

    N >= 128 k^2 s^2 / (epsilon^2 Lambda^2 sigma^4)  log(2 k / delta)
         (epsilon / s)^2 / ((1 + epsilon)^(1 / s) - 1)^2

Lambda depends on the basis of the projection, and is 0 where a single entry is: the theorem then
promises nothing, however good the estimate.
"""

from __future__ import annotations

from math import expm1, inf, log, log1p

import numpy as np

from sapwood.core.errors import SapwoodError
from sapwood.linalg.dependency_operators import TripleMoments

ROUNDING = 1e-13  # singular values this much below the largest are no states


def triples_needed(
    moments: TripleMoments, *, n_words: int, n_levels: int, epsilon: float, delta: float
) -> float:
    """Triples that are enough for one tree's weight by Theorem 3.1; inf where it promises nothing.

    Parameters
    ----------
    moments
        Of the model, or their estimates.
    n_words, n_levels
        Of the tree: m and L.
    epsilon
        Relative error allowed.
    delta
        Probability that it is larger.

    Examples
    --------
    >>> one = np.ones(1)
    >>> moments = TripleMoments(one, one, *(np.ones((1, 1)) for _ in range(3)), np.ones((1, 1, 1)))
    >>> f"{triples_needed(moments, n_words=3, n_levels=2, epsilon=0.1, delta=0.05):.2e}"
    '8.30e+07'
    """
    if not 0 < delta < 1 or not epsilon > 0:
        raise SapwoodError(
            f"delta must be between 0 and 1 and epsilon positive, not {delta!r} and {epsilon!r}"
        )
    if not n_words >= n_levels >= 1:
        raise SapwoodError(
            f"a tree of {n_words} words cannot have {n_levels} levels",
            hint="a tree has at least one level, and a word on each",
        )
    squares = (moments.head_left, moments.head_right, moments.left_right)
    values = [np.linalg.svd(square, compute_uv=False) for square in squares]
    if any(value[-1] <= ROUNDING * value[0] for value in values):
        return inf
    sigma = min(float(value[-1]) for value in values)
    inverses = [np.linalg.inv(square) for square in squares]
    entries = (moments.right, *squares, *inverses, moments.third)
    least = min(float(np.abs(entry).min()) for entry in entries)
    if least == 0.0:
        return inf
    k, s = len(moments.right), 12 * n_words + 2 * n_levels
    exact_step = epsilon / s / expm1(log1p(epsilon) / s)
    bound = 128 * (k * s / (epsilon * least * sigma**2)) ** 2
    return bound * log(2 * k / delta) * exact_step**2
