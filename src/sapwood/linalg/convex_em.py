"""Distributions of hidden states by EM, where the likelihood is concave and EM finds its maximum.

Notation (PIVOT, Figure 1, step 2, Eq. 1)
-----------------------------------------
    z[i, h1]       s(g | h1, a) of instance i: its outside feature given the state above    [n, m1]
    y[i, h2]       r(f2 | h2, b): the left child's inside feature given its state           [n, m2]
    x[i, h3]       r(f3 | h3, c): the right child's                                         [n, m3]
    t[h1, h2, h3]  p(h1, h2, h3 | a -> b c), sums to 1                                  [m1, m2, m3]
    K[i]           sum over h1, h2, h3 of z y x t
    slope          sum over i of weight[i] z (x) y (x) x / K[i], the gradient           [m1, m2, m3]

With several templates of features (section 6.2) the objective is the sum over their combinations:
each combination of an instance is one more row here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError

CHUNK_NUMBERS = 1 << 22  # numbers in the product of two views held at a time: 32 MB
# Rounding of a mean of logarithms; a greater fall would be an error of the formulas.
ROUNDING = 1e-12


class ConvexEM(NamedTuple):
    """Joint distribution of the states of a rule, and how it was found."""

    t: FloatArray  # [m1, m2, m3]: sums to 1
    # [n_iter + 1]: weighted mean over instances, before every iteration and at the end; they
    # never fall
    log_likelihoods: FloatArray
    gap: float  # the maximum is at most this much higher than the last of them
    n_impossible: int  # instances that had probability 0 for all states, and were left out


def convex_em(
    z: FloatArray,
    y: FloatArray,
    x: FloatArray,
    *,
    weights: FloatArray | None = None,
    start: FloatArray | None = None,
    gap: float = 1e-6,
    max_iter: int = 1000,
) -> ConvexEM:
    """Mixing weights of all triples of states that make a rule's instances likeliest.

        max over t of  sum over i of weight[i] log sum over h of z[i, h1] y[i, h2] x[i, h3] t[h]
        t <- t * slope

    The likelihood is concave and sum of t * slope = 1, so that its maximum is at most
    max(slope) - 1 above the value at t.

    Parameters
    ----------
    z, y, x : [n, m1], [n, m2], [n, m3]
        Probabilities of the features of each instance; any positive factor of a row cancels.
    weights : [n]
        How often each instance was seen; equal instances are best given once.
    start : [m1, m2, m3]
        Uniform where not given. Positive everywhere: EM cannot leave a zero.
    gap
        Stop once the likelihood is certain to be this close to its maximum.

    Cost: 4 n m1 m2 m3 multiplications an iteration; memory for n views and 32 MB.

    Examples
    --------
    >>> states = np.eye(2)[[0, 0, 0, 1]]  # the features tell: three times state 0, once state 1
    >>> found = convex_em(states, states, states)
    >>> found.t[0, 0, 0], found.t[1, 1, 1]
    (np.float64(0.75), np.float64(0.25))
    """
    views, weights, offset, n_impossible = _prepare((z, y, x), weights)
    shape = tuple(view.shape[1] for view in views)
    start = np.full(shape, 1.0 / np.prod(shape)) if start is None else start
    if not (start > 0).all():
        n_wrong = int((start <= 0).sum())
        msg = f"the start has {n_wrong} entries of {start.size} that are not positive"
        raise SapwoodError(msg, hint="mix it with a little of the uniform distribution")
    t = start / start.sum()
    values: list[float] = []
    # products of two views are the same in all iterations; kept, where they take little memory
    is_small = len(weights) * t[0].size <= CHUNK_NUMBERS
    parts = list(_parts(views)) if is_small else None
    while True:
        value, slope = _value_and_slope(parts or _parts(views), weights, t)
        values.append(value + offset)
        _check_gain(values)
        above = float(slope.max()) - 1.0
        if above <= gap or len(values) > max_iter:
            return ConvexEM(t, np.array(values), above, n_impossible)
        t = t * slope
        t /= t.sum()


def _check_gain(values: list[float]) -> None:
    """EM cannot lose."""
    gain = values[-1] - values[-2] if len(values) > 1 else np.inf
    assert gain >= -ROUNDING * (1 + abs(values[-1])), "EM lowered a likelihood"


def _prepare(
    views: tuple[FloatArray, ...], weights: FloatArray | None
) -> tuple[tuple[FloatArray, ...], FloatArray, float, int]:
    """Possible instances only, with rows of maximum 1, and the mean logarithm of what was taken."""
    peaks = np.stack([view.max(axis=1) for view in views])  # [3, n]
    possible = np.asarray((peaks > 0).all(axis=0))
    if not possible.any():
        msg = f"all {len(possible)} instances of a rule have probability 0 in every state"
        raise SapwoodError(msg, hint="smooth the features' probabilities")
    share = np.ones(len(possible)) if weights is None else np.asarray(weights, dtype=float)
    share = share[possible] / share[possible].sum()
    scaled = tuple(
        np.ascontiguousarray(view[possible] / peak[possible, None])
        for view, peak in zip(views, peaks, strict=True)
    )
    offset = float(share @ np.log(peaks[:, possible]).sum(axis=0))
    return scaled, share, offset, int((~possible).sum())


Part = tuple[slice, FloatArray, FloatArray]  # of the instances: which, z, and y (x) x


def _parts(views: tuple[FloatArray, ...]) -> Iterator[Part]:
    """Instances in parts whose products of two views are not too large."""
    z, y, x = views
    size = y.shape[1] * x.shape[1]
    step = max(1, CHUNK_NUMBERS // size)
    for first in range(0, len(z), step):
        part = slice(first, first + step)
        yield part, z[part], (y[part, :, None] * x[part, None, :]).reshape(-1, size)


def _value_and_slope(
    parts: Iterable[Part], weights: FloatArray, t: FloatArray
) -> tuple[float, FloatArray]:
    flat = t.reshape(t.shape[0], -1)
    slope, value = np.zeros_like(flat), 0.0
    for part, z, pairs in parts:
        K = np.einsum("ij,ij->i", z @ flat, pairs)
        value += float(weights[part] @ np.log(K))
        slope += (z * (weights[part] / K)[:, None]).T @ pairs
    return value, slope.reshape(t.shape)
