"""Observable tensors of a latent tree model, smoothed and stored small.

Notation (SPECTRAL, section 7.2; smoothing as in Cohen et al. 2013)
-------------------------------------------------------------------
    z, y, w       rows of a rule's n instances: outside vector times Sigma^-1, inside vectors of the
                  left and of the right child; [n, m(a)], [n, m(b)], [n, m(c)]
    E1 = mean of z (x) y (x) w                    the rule's own third moment
    E2 = (E[zy] (x) E[w] + E[zw] (x) E[y] + E[yw] (x) E[z]) / 3
    E3 = E[z] (x) E[y] (x) E[w]                   means over the rule's instances
    E4 = product of the means of the labels
    E  = lam E1 + (1 - lam) (lam E2 + (1 - lam) (lam E3 + (1 - lam) E4))
    lam = sqrt(n) / (C + sqrt(n))                 how far the rule's own moments are trusted

`E n / M(a)` is the tensor C[a -> b c] of equation 14. A rule seen n times has at most 4 n + 2 outer
products in E, and is kept that way when they take fewer numbers than the whole tensor.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class LabelMeans(NamedTuple):
    """Mean vectors of the three labels of a rule, for E4."""

    z: FloatArray
    y: FloatArray
    w: FloatArray


class RuleTensor(NamedTuple):
    """A tensor, whole (rank 0) or as factors one after the other."""

    rank: int
    numbers: FloatArray


def trust(n: float, shrinkage: float) -> float:
    """How far a rule's own moments are trusted: lam above."""
    return float(np.sqrt(n) / (shrinkage + np.sqrt(n)))


def rule_tensor(
    z: FloatArray, y: FloatArray, w: FloatArray, label: LabelMeans, shrinkage: float
) -> RuleTensor:
    """Smoothed E of one rule, in whichever form takes fewer numbers.

    Parameters
    ----------
    shrinkage
        C above; 0 gives the plain third moment E1.
    """
    n, lam = len(z), trust(len(z), shrinkage)
    rank = n if lam == 1.0 else 2 if n == 1 else 4 * n + 2
    if rank * (z.shape[1] + y.shape[1] + w.shape[1]) < z.shape[1] * y.shape[1] * w.shape[1]:
        factors = _factors(z, y, w, label, lam)
        return RuleTensor(len(factors[0]), np.concatenate([f.ravel() for f in factors]))
    return RuleTensor(0, _whole(z, y, w, label, lam).ravel())


def _whole(
    z: FloatArray, y: FloatArray, w: FloatArray, label: LabelMeans, lam: float
) -> FloatArray:
    n = len(z)
    pairs = (y[:, :, None] * w[:, None, :]).reshape(n, -1)
    E1 = (z.T @ pairs / n).reshape(z.shape[1], y.shape[1], w.shape[1])
    if lam == 1.0:
        return E1
    ez, ey, ew = z.mean(axis=0), y.mean(axis=0), w.mean(axis=0)
    E2 = (
        (z.T @ y / n)[:, :, None] * ew
        + (z.T @ w / n)[:, None, :] * ey[None, :, None]
        + (y.T @ w / n)[None, :, :] * ez[:, None, None]
    ) / 3
    E3 = ez[:, None, None] * ey[:, None] * ew
    E4 = label.z[:, None, None] * label.y[:, None] * label.w
    return np.asarray(lam * E1 + (1 - lam) * (lam * E2 + (1 - lam) * (lam * E3 + (1 - lam) * E4)))


def _factors(
    z: FloatArray, y: FloatArray, w: FloatArray, label: LabelMeans, lam: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    n = len(z)
    if lam == 1.0:
        return z / n, y, w
    last = (1 - lam) ** 3
    if n == 1:  # E1 = E2 = E3
        return (
            np.vstack([(1 - last) * z, last * label.z]),
            np.vstack([y, label.y]),
            np.vstack([w, label.w]),
        )
    ez, ey, ew = (np.broadcast_to(rows.mean(axis=0), rows.shape) for rows in (z, y, w))
    second = (1 - lam) * lam / 3
    return (
        np.vstack([lam * z / n, second * z / n, second * z / n, second * ez / n,
                   (1 - lam) ** 2 * lam * ez[:1], last * label.z]),
        np.vstack([y, y, ey, y, ey[:1], label.y]),
        np.vstack([w, ew, w, w, ew[:1], label.w]),
    )  # fmt: skip
