"""Weights on the simplex: least squares for many points, and mixing weights by EM.

Notation of `simplex_least_squares` (PIVOT, section 5.2, step 4)
----------------------------------------------------------------
    B     the vertices, one per row                                        [m, dim]
    y     a point                                                          [dim], rows of Y [n, dim]
    x     its weights: min |B' x - y|^2 over x >= 0, sum of x = 1           [m], rows of X [n, m]
    G     Gram matrix B B' of the centred vertices, plus a constant         [m, m]
    g     gradient B (B' x - y), always from the residual, never from G     [m]
    S     the support of x: where it may be positive                       [m], boolean

Weights sum to 1, so vertices and points may be moved together and a constant may be added to G: it
is then positive definite as soon as the vertices are affinely independent. The paper uses
Frank-Wolfe, which after thousands of steps still errs by 1e-3; the active-set method here ends at
the exact support.

Notation of `convex_em` (PIVOT, Figure 1, step 2, Eq. 1)
--------------------------------------------------------
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

from sapwood.core.arrays import BoolArray, FloatArray, IntArray
from sapwood.core.errors import NotIdentifiableError, SapwoodError

CHUNK = 8192  # rows solved together: m = 32 then takes up to 70 MB for their Gram matrices
# Smaller singular values, relative to the largest, square to rounding in G.
INDEPENDENCE = 1e-7
# Gradients of unit vertices are sums of about 32 products: rounding stays below this.
GRADIENT_TOLERANCE = 1e-14
CHUNK_NUMBERS = 1 << 22  # numbers in the product of two views held at a time: 32 MB
# Rounding of a mean of logarithms; a greater fall would be an error of the formulas.
GAIN_ROUNDING = 1e-12


def simplex_least_squares(vertices: FloatArray, points: FloatArray) -> FloatArray:
    """Weights, [n, m], of the convex combination of vertices that comes closest to each point.

        x = argmin |B' x - y|^2,  x >= 0,  sum of x = 1

    A primal active-set method: solve on the support; where a weight would turn negative go only as
    far as the boundary and drop it; else add the index with the most negative reduced gradient.
    Supports start from the affine solution projected to the simplex. Zeros are exact, rows sum to 1
    to rounding, errors are about 1e-16 times the condition of the vertices.

    Raises
    ------
    NotIdentifiableError
        When vertices are affinely dependent: weights are then not unique. Its report holds the
        singular values of the centred vertices.

    Cost: O(n (k^3 + m dim)) for each change of support, k the size of the support; about 2 to 10
    changes. 200,000 rows took 1 s at m = 8, 3 s at m = 16 and 5 to 13 s at m = 32 on one core.

    >>> simplex_least_squares(np.eye(2), np.array([[0.25, 0.75], [3.0, 0.0]]))
    array([[0.25, 0.75],
           [1.  , 0.  ]])
    """
    m = len(vertices)
    if m == 1:
        return np.ones((len(points), 1))
    B, frame, centre, scale = _unit_frame(np.asarray(vertices, dtype=float))
    G = B @ B.T + 1.0 / m
    X = np.empty((len(points), m))
    for first in range(0, len(points), CHUNK):
        rows = slice(first, first + CHUNK)
        Y = (np.asarray(points[rows], dtype=float) - centre) @ frame / scale
        X[rows] = _active_set(B, G, Y)
    return X


def _unit_frame(vertices: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Vertices about their mean, in m - 1 coordinates, the largest extent being 1."""
    m = len(vertices)
    centre = vertices.mean(axis=0)
    _, s, Vt = np.linalg.svd(vertices - centre, full_matrices=False)
    if len(s) < m - 1 or s[m - 2] <= INDEPENDENCE * s[0]:
        rank = int((s > INDEPENDENCE * s[0]).sum())
        msg = f"{m} vertices lie in {rank} dimensions: weights of their combinations are not unique"
        raise NotIdentifiableError(msg, report=s, hint=f"use at most {rank + 1} vertices")
    frame = Vt[: m - 1].T
    return (vertices - centre) @ frame / s[0], frame, centre, float(s[0])


def _active_set(B: FloatArray, G: FloatArray, Y: FloatArray) -> FloatArray:
    X = _project_to_simplex(1.0 / len(B) + Y @ np.linalg.pinv(B))
    S = X > 0
    tolerance = GRADIENT_TOLERANCE * (1 + np.linalg.norm(Y, axis=1))
    entered = np.full(len(Y), -1)
    todo = np.arange(len(Y))
    # Each support is replaced by a better one, so the loop ends, far below this bound.
    for _ in range(50 + 20 * len(B)):
        if not len(todo):
            return _polish(B, G, Y, X, S)
        x, s, y = X[todo], S[todo], Y[todo]
        x, s, is_blocked, is_stuck = _move(x, s, _step(G, _gradient(B, x, y), s), entered[todo])
        j, least = _entering(_gradient(B, x, y), x, s)
        adds = ~is_blocked & (least < -tolerance[todo])
        s[adds, j[adds]] = True
        entered[todo] = np.where(adds, j, -1)
        X[todo], S[todo] = x, s
        todo = todo[(adds | is_blocked) & ~is_stuck]
    msg = f"{len(todo)} rows of a least-squares problem on the simplex found no optimal support"
    raise SapwoodError(msg, hint="the vertices are close to affinely dependent: use fewer")


def _gradient(B: FloatArray, X: FloatArray, Y: FloatArray) -> FloatArray:
    return np.asarray((X @ B - Y) @ B.T)


def _step(G: FloatArray, g: FloatArray, S: BoolArray) -> FloatArray:
    """Step d to the minimum on each support: G_SS d = -g_S + const, sum of d = 0."""
    d = np.zeros_like(g)
    sizes = S.sum(axis=1)
    for k in np.unique(sizes):
        rows = np.flatnonzero(sizes == k)
        index = np.nonzero(S[rows])[1].reshape(-1, k)
        place = rows[:, None], index
        solved = _solve(G, index, np.stack([-g[place], np.ones(index.shape)], axis=2))
        a, w = solved[..., 0], solved[..., 1]
        d[place] = a - w * (a.sum(axis=1) / w.sum(axis=1))[:, None]
    return d


def _solve(G: FloatArray, index: IntArray, right: FloatArray) -> FloatArray:
    n, k, _ = right.shape
    if k < len(G):
        blocks = G[index[:, :, None], index[:, None, :]]
        return np.asarray(np.linalg.solve(blocks, right))
    columns = right.transpose(1, 0, 2).reshape(k, -1)  # all supports are full: one factorisation
    return np.asarray(np.linalg.solve(G, columns).reshape(k, n, 2).transpose(1, 0, 2))


def _move(
    x: FloatArray, S: BoolArray, d: FloatArray, entered: IntArray
) -> tuple[FloatArray, BoolArray, BoolArray, BoolArray]:
    """Go along d to the minimum or to the first weight that reaches 0, and drop that weight."""
    falls = S & (x + d <= 0)
    room = np.full(x.shape, np.inf)
    room[falls] = x[falls] / np.maximum(-d[falls], np.finfo(float).tiny)
    length = room.min(axis=1)
    is_blocked = length < np.inf
    dropped = falls & (room <= length[:, None])
    # An index that was just added and cannot grow was added by rounding: the row is optimal.
    own = dropped[np.arange(len(x)), np.maximum(entered, 0)]
    is_stuck = is_blocked & (entered >= 0) & own & (length <= 0)
    x = np.where(dropped, 0.0, np.maximum(x + np.minimum(length, 1.0)[:, None] * d, 0.0))
    return x, S & ~dropped, is_blocked, is_stuck


def _entering(g: FloatArray, x: FloatArray, S: BoolArray) -> tuple[IntArray, FloatArray]:
    """Most negative reduced gradient outside the support: g_j - x'g."""
    reduced = np.where(S, np.inf, g - (x * g).sum(axis=1)[:, None])
    j = reduced.argmin(axis=1)
    return j, reduced[np.arange(len(j)), j]


def _polish(B: FloatArray, G: FloatArray, Y: FloatArray, X: FloatArray, S: BoolArray) -> FloatArray:
    """Take one more step on the final supports, against the rounding of solving with G, not B."""
    better = X + _step(G, _gradient(B, X, Y), S)
    X = np.where((better >= 0).all(axis=1, keepdims=True), better, X)
    return np.asarray(X / X.sum(axis=1, keepdims=True))


def _project_to_simplex(Z: FloatArray) -> FloatArray:
    """Nearest point of the simplex to each row: max(z - t, 0) with t such that the sum is 1."""
    falling = -np.sort(-Z, axis=1)
    t = (np.cumsum(falling, axis=1) - 1) / np.arange(1, Z.shape[1] + 1)
    n_kept = (falling > t).sum(axis=1)
    return np.asarray(np.maximum(Z - t[np.arange(len(Z)), n_kept - 1][:, None], 0.0))


class ConvexEM(NamedTuple):
    """Joint distribution of the states of a rule, and how it was found."""

    t: FloatArray  # [m1, m2, m3]: sums to 1
    # [n_iter + 1]: weighted mean over instances, before every iteration and at the end; never falls
    log_likelihoods: FloatArray
    gap: float  # upper bound of the distance of the last log-likelihood from the maximum
    n_impossible: int  # instances with probability 0 in all states, which were skipped


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
    """Mixing weights of all triples of states that maximise the likelihood of a rule's instances.

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

    >>> states = np.eye(2)[[0, 0, 0, 1]]  # by their features, state 0 three times, state 1 once
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
    # products of two views are the same in all iterations; they are kept if memory allows
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
    """Assert that the last iteration of EM did not lower the likelihood."""
    gain = values[-1] - values[-2] if len(values) > 1 else np.inf
    assert gain >= -GAIN_ROUNDING * (1 + abs(values[-1])), "EM lowered a likelihood"


def _prepare(
    views: tuple[FloatArray, ...], weights: FloatArray | None
) -> tuple[tuple[FloatArray, ...], FloatArray, float, int]:
    """Possible instances scaled to maximum 1, their weights, mean log scale, number of others."""
    peaks = np.stack([view.max(axis=1) for view in views])  # [3, n]
    possible = np.asarray((peaks > 0).all(axis=0))
    if not possible.any():
        msg = f"all {len(possible)} instances of a rule have probability 0 in every state"
        raise SapwoodError(msg, hint="smooth the features' probabilities")
    weight = np.ones(len(possible)) if weights is None else np.asarray(weights, dtype=float)
    weight = weight[possible] / weight[possible].sum()
    scaled = tuple(
        np.ascontiguousarray(view[possible] / peak[possible, None])
        for view, peak in zip(views, peaks, strict=True)
    )
    offset = float(weight @ np.log(peaks[:, possible]).sum(axis=0))
    return scaled, weight, offset, int((~possible).sum())


_Part = tuple[slice, FloatArray, FloatArray]  # some instances: their rows, z, and y (x) x


def _parts(views: tuple[FloatArray, ...]) -> Iterator[_Part]:
    """Split the instances into parts whose products of two views fit into memory."""
    z, y, x = views
    size = y.shape[1] * x.shape[1]
    step = max(1, CHUNK_NUMBERS // size)
    for first in range(0, len(z), step):
        part = slice(first, first + step)
        yield part, z[part], (y[part, :, None] * x[part, None, :]).reshape(-1, size)


def _value_and_slope(
    parts: Iterable[_Part], weights: FloatArray, t: FloatArray
) -> tuple[float, FloatArray]:
    flat = t.reshape(t.shape[0], -1)
    slope, value = np.zeros_like(flat), 0.0
    for part, z, pairs in parts:
        K = np.einsum("ij,ij->i", z @ flat, pairs)
        value += float(weights[part] @ np.log(K))
        slope += (z * (weights[part] / K)[:, None]).T @ pairs
    return value, slope.reshape(t.shape)
