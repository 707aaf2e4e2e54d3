"""States from pivots: vertices of a cloud of points, and features as mixtures of them.

Notation (PIVOT, section 5; Arora et al. 2013, algorithm 4)
-----------------------------------------------------------
    v[f]        the point of a feature, E[phi(g) | f] = sum of q[f, h] w[h]       [d, dim]
    w[h]        the vertices; pivots f of state h have v[f] = w[h]                [m, dim]
    q[f, h]     p(h | f), rows sum to 1                                           [d, m]
    pi[h]       probability of a state                                            [m]
    s[g, h]     p(g | h), columns sum to 1                                        [d', m]
    height      distance of a point from the affine hull of some others

A pivot of state h is a feature f with q[f, h] = 1: its point v[f] is the vertex w[h]. The point
farthest from any affine subspace is a vertex. The first anchor is the one farthest from the mean;
it becomes the origin, so that the span of the others' differences is their affine hull. Arora et
al. start from the linear span: one more dimension, and results that move with the origin. Pivots on
one side are enough (remark below Theorem 2): given q, s follows by least squares in closed form.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import BoolArray, FloatArray, IntArray
from sapwood.core.errors import NotIdentifiableError
from sapwood.linalg.simplex import simplex_least_squares

# Rounding of exact moments leaves heights of 1e-15 to 1e-12 of the cloud's radius; a state that is
# less than a millionth of it away from the others could not be distinguished by data either.
TOLERANCE = 1e-6
# Coordinates are known to rounding of the largest: points that differ by less are the same.
POINT_ROUNDING = 1e-10


def frequent(counts: FloatArray, total: float, *, least: float, share: float) -> BoolArray:
    """Which features were seen often enough to be pivots: count[f] >= max(least, share * total).

    Rare features have noisy points far out, and would all be taken for vertices.
    """
    return np.asarray(counts >= max(least, share * total))


def find_anchors(
    points: FloatArray,
    m: int,
    *,
    candidates: BoolArray | None = None,
    tolerance: float = TOLERANCE,
    n_clean_up: int = 1,
) -> IntArray:
    """Indices of up to m points whose convex hull comes closest to holding all others.

        rows[0] = argmax |v[f] - mean|;   rows[i] = argmax distance(v[f], hull of rows[:i])
        clean-up:  rows[i] = argmax distance(v[f], hull of all other rows),  for each i in turn

    Parameters
    ----------
    candidates : [n]
        Points that may be picked.
    tolerance
        A height below this fraction of the radius ends the search, with fewer than m points.
    n_clean_up
        Passes that pick each anchor again, given all others; they undo greedy early choices.

    Cost: O(n dim m) to pick, and for each anchor that a clean-up replaces. Deterministic; of
    equal heights the first point is taken.

    >>> square = np.array([[0.2, 0.3], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.3, 0.3]])
    >>> sorted(find_anchors(square, 3).tolist())
    [1, 2, 3]
    """
    places = np.arange(len(points)) if candidates is None else np.flatnonzero(candidates)
    if not len(places) or m < 1:
        return np.zeros(0, dtype=np.int64)
    V = np.asarray(points, dtype=float)[places]
    distances = np.linalg.norm(V - V.mean(axis=0), axis=1)
    least = max(
        tolerance * float(distances.max()), POINT_ROUNDING * float(np.linalg.norm(V, axis=1).max())
    )
    picked = _greedy(V, int(distances.argmax()), m, least)
    for _ in range(n_clean_up):
        picked = _clean_up(V, picked)
    return np.asarray(places[picked])


def _greedy(V: FloatArray, first: int, m: int, least: float) -> list[int]:
    """Stabilised Gram-Schmidt: every direction is orthogonalised twice, residuals once a pick."""
    R = V - V[first]
    basis = np.zeros((0, V.shape[1]))
    picked = [first]
    while len(picked) < min(m, len(V)):
        heights = np.linalg.norm(R, axis=1)
        best = int(heights.argmax())
        if heights[best] <= least:
            break
        q = R[best] - (R[best] @ basis.T) @ basis
        q /= np.linalg.norm(q)
        R -= np.outer(R @ q, q)
        basis = np.vstack([basis, q])
        picked.append(best)
    return picked


def _clean_up(V: FloatArray, picked: list[int]) -> list[int]:
    picked = list(picked)
    heights = None
    for i in range(len(picked) if len(picked) > 1 else 0):
        heights = _heights_without_each(V, picked) if heights is None else heights
        best = int(heights[:, i].argmax())
        if best != picked[i]:
            picked[i], heights = best, None
    return picked


def _heights_without_each(V: FloatArray, picked: list[int]) -> FloatArray:
    """Distance of every point from the affine hull of all anchors but one, for each: [n, k].

        v = sum of a[i] w[i] + rest,  sum of a = 1;   distance^2 = |rest|^2 + (a[i] / |grad a[i]|)^2

    A weight is an affine function, and 0 on the hull of the others: over the length of its gradient
    it is the distance from there.
    """
    R = V - V[picked[0]]
    Q, upper = np.linalg.qr(R[picked[1:]].T)  # [dim, k - 1]
    gradients = np.linalg.solve(upper, Q.T)  # of all weights but the first: [k - 1, dim]
    gradients = np.vstack([-gradients.sum(axis=0), gradients])
    weights = R @ gradients.T
    weights[:, 0] += 1.0
    rest = R - (R @ Q) @ Q.T
    rest -= (rest @ Q) @ Q.T  # a second projection removes the rounding of the first
    apart = weights / np.linalg.norm(gradients, axis=1)
    return np.asarray(np.hypot(np.linalg.norm(rest, axis=1)[:, None], apart))


class PivotStates(NamedTuple):
    """States from pivots; fewer than requested where the points span a smaller space."""

    pi: FloatArray  # [m]: probabilities of the states
    posterior: FloatArray  # [d, m]: p(h | f); rows of features that never occur are zero
    pivots: IntArray  # [m]: the feature that each state was made from


def states_from_points(
    points: FloatArray,
    p: FloatArray,
    m: int,
    *,
    candidates: BoolArray | None = None,
    tolerance: float = TOLERANCE,
) -> PivotStates:
    """States, and their posteriors given each feature, from points: steps 3 and 4 of section 5.2.

        q[f] = argmin |sum of q[f, h] w[h] - v[f]|^2;     pi[h] = sum of p(f) q[f, h]

    Parameters
    ----------
    points : [d, dim]
        v above. With several templates of features (section 6.2), those of all of them.
    p : [d]
        Probability of each feature, unnormalised; features with 0 are skipped.
    candidates, tolerance
        Those of `find_anchors`.
    """
    allowed = p > 0 if candidates is None else (p > 0) & candidates
    anchors = find_anchors(points, m, candidates=allowed, tolerance=tolerance)
    if not len(anchors):
        msg = f"no feature out of {len(p)} may be a pivot"
        raise NotIdentifiableError(msg, report=None, hint="lower the count that a pivot must have")
    seen = np.flatnonzero(p > 0)
    q = np.zeros((len(p), len(anchors)))
    q[seen] = simplex_least_squares(points[anchors], points[seen])
    return PivotStates(p / p.sum() @ q, q, anchors)


def columns_given_states(gram: FloatArray, joint: FloatArray) -> FloatArray:
    """Second view given the states of the first, [d', m]; sampling noise makes some negative.

        s' = gram^-1 joint'

    Parameters
    ----------
    gram : [m, m]
        q' D q; directions with almost no weight are dropped.
    joint : [d', m]
        Q' q: for each feature of the second view, the states of the first views it occurs with.
    """
    return np.asarray(joint @ np.linalg.pinv(gram, rcond=1e-10, hermitian=True), float)
