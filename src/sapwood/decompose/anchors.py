"""Vertices of a cloud of points: FastAnchorWords, as an affine method.

Notation (PIVOT, section 5.2, step 3; Arora et al. 2013, algorithm 4)
--------------------------------------------------------------------
    v[f]      the points, convex combinations of unknown vertices       [n, dim]
    w[h]      the vertices; pivots f of state h have v[f] = w[h]        [m, dim]
    height    distance of a point from the affine hull of some others

The point farthest from any affine subspace is a vertex. The first anchor is the one farthest from
the mean; it becomes the origin, so that the span of the others' differences is their affine hull.
Arora et al. start from the linear span: one more dimension, and results that move with the origin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]

# Rounding of exact moments leaves heights of 1e-15 to 1e-12 of the cloud's radius; a state that is
# less than a millionth of it away from the others could not be told from data either.
TOLERANCE = 1e-6
# Coordinates are known to rounding of the largest: points that differ by less are the same.
ROUNDING = 1e-10


class Anchors(NamedTuple):
    """The points picked, and how well they stand apart.

    Attributes
    ----------
    rows : [k]
        Which points, in the order they were picked; k is m or, where the points are flatter, less.
    heights : [k]
        Distance of each from the affine hull of the others; the radius, where k is 1.
    radius
        Largest distance of a candidate from the candidates' mean.
    leftover
        Largest distance of a candidate from the affine hull of all anchors.
    """

    rows: IntArray
    heights: FloatArray
    radius: float
    leftover: float


def frequent(counts: FloatArray, total: float, *, least: float, share: float) -> BoolArray:
    """Which features were seen often enough to be pivots.

        count[f] >= max(least, share * total)

    Features seen rarely have noisy points far out, and would all be taken for vertices.
    """
    return np.asarray(counts >= max(least, share * total))


def find_anchors(
    points: FloatArray,
    m: int,
    *,
    candidates: BoolArray | None = None,
    tolerance: float = TOLERANCE,
    n_clean_up: int = 1,
) -> Anchors:
    """Up to m points whose convex hull comes closest to holding all others.

        rows[0] = argmax |v[f] - mean|;   rows[i] = argmax distance(v[f], hull of rows[:i])
        clean-up:  rows[i] = argmax distance(v[f], hull of all other rows),  for each i in turn

    Parameters
    ----------
    candidates : [n]
        Points that may be picked.
    tolerance
        A height this far below the radius, as a share of it, ends the search.
    n_clean_up
        Passes that pick each anchor again, given all others: they undo greedy early choices.

    Returns
    -------
    Anchors
        Fewer than m where the candidates span too little; none where there are no candidates.

    Cost: O(n dim m) to pick, O(n dim m^2) for each clean-up. Deterministic; of equal heights the
    first point is taken.

    Examples
    --------
    >>> square = np.array([[0.2, 0.3], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.3, 0.3]])
    >>> sorted(find_anchors(square, 3).rows.tolist())
    [1, 2, 3]
    """
    places = np.arange(len(points)) if candidates is None else np.flatnonzero(candidates)
    if not len(places) or m < 1:
        return Anchors(np.zeros(0, dtype=np.int64), np.zeros(0), 0.0, 0.0)
    V = np.asarray(points, dtype=float)[places]
    distances = np.linalg.norm(V - V.mean(axis=0), axis=1)
    radius = float(distances.max())
    least = max(tolerance * radius, ROUNDING * float(np.linalg.norm(V, axis=1).max()))
    picked = _greedy(V, int(distances.argmax()), m, least)
    for _ in range(n_clean_up):
        picked = _clean_up(V, picked)
    leftover = float(_heights(V, picked).max())
    return Anchors(places[picked], _apart(V, picked, radius), radius, leftover)


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
    for i in range(len(picked) if len(picked) > 1 else 0):
        picked[i] = int(_heights(V, picked[:i] + picked[i + 1 :]).argmax())
    return picked


def _apart(V: FloatArray, picked: list[int], radius: float) -> FloatArray:
    if len(picked) == 1:
        return np.array([radius])
    places = list(range(len(picked)))
    return np.array([_heights(V[picked], places[:i] + places[i + 1 :])[i] for i in places])


def _heights(V: FloatArray, picked: list[int]) -> FloatArray:
    """Distance of every point from the affine hull of some of them, [n]."""
    R = V - V[picked[0]]
    basis = np.linalg.qr(R[picked[1:]].T)[0]  # [dim, len(picked) - 1]
    for _ in range(2):  # twice is enough: the second projection removes the rounding of the first
        R = R - (R @ basis) @ basis.T
    return np.asarray(np.linalg.norm(R, axis=1))
