"""LSTMs from step to step: gates and cells of a batch of sentences, and the slopes of the gates.

Notation
--------
    i, f, o = sigmoid, g = tanh of  z = x W + b + h' U     gates, of width 4 h
    c = f c' + i g                                         cells
    h = o tanh(c)                                          outputs

' marks the step before. Rows of a step lie together, those of sentences that have a further word
first: row k of a step belongs to the same sentence as row k of the step before.

Products of few rows are cut into pieces that a BLAS takes without packing the matrix, which is
known to the caches from the step before: nearly twice as fast with 8 rows.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from sapwood.core.jit import kernel, part

_FAST = {"contract", "reassoc"}
_AT_ONCE = 4  # rows of a product
# tanh x = x P(x x) / Q(x x) where |x| is below the last number, found by least squares
_P0, _P1, _P2, _P3, _P4, _P5, _Q1, _Q2, _Q3, _ONE, _MOST = map(
    np.float32,
    (
        0.99999998, 0.12984882, 0.0029920671, 9.938909e-6, -1.4905375e-8, 2.4102813e-11,
        0.463182, 0.024052971, 0.00023808267, 1.0, 7.9,
    ),
)  # fmt: skip


@part(fastmath=_FAST)
def quick_tanh(x):
    """Hyperbolic tangent, off by less than 4e-7; loops take several numbers at once."""
    x = _MOST if x > _MOST else x
    x = -_MOST if x < -_MOST else x
    u = x * x
    above = ((((_P5 * u + _P4) * u + _P3) * u + _P2) * u + _P1) * u + _P0
    return x * above / (((_Q3 * u + _Q2) * u + _Q1) * u + _ONE)


def tanh(x):
    """Hyperbolic tangent of a number in either precision."""
    return np.tanh(x)


@overload(tanh, jit_options={"fastmath": _FAST})
def _tanh_of_type(x):
    if x == types.float32:
        return lambda x: quick_tanh(x)  # noqa: PLW0108 - its text is compiled
    return lambda x: np.tanh(x)  # noqa: PLW0108


@part
def _multiply(rows, matrix, out):
    for first in range(0, len(rows), _AT_ONCE):
        end = min(first + _AT_ONCE, len(rows))
        np.dot(rows[first:end], matrix, out[first:end])


@kernel(fastmath=_FAST)
def read_steps(gates, U, b, starts, cells, outputs):
    """Fill gates, which hold x W, cells, and outputs.

    Parameters
    ----------
    starts : [n_steps + 1]
        First row of each step.
    """
    h = len(U)
    half, one = gates.dtype.type(0.5), gates.dtype.type(1.0)
    carried = np.zeros((starts[1], 4 * h), gates.dtype)
    none = np.zeros(h, gates.dtype)
    for step in range(len(starts) - 1):
        start, n = starts[step], starts[step + 1] - starts[step]
        before = starts[max(step - 1, 0)]
        if step > 0:
            _multiply(outputs[before : before + n], U, carried[:n])
        for k in range(n):
            z, add, c, out = gates[start + k], carried[k], cells[start + k], outputs[start + k]
            c_before = cells[before + k] if step > 0 else none
            i, f, o, g = z[:h], z[h : 2 * h], z[2 * h : 3 * h], z[3 * h :]
            for j in range(4 * h):
                z[j] += add[j] + b[j]
            for j in range(3 * h):  # a sigmoid is a tanh of half as much
                z[j] = half * (one + tanh(half * z[j]))
            for j in range(h):
                g[j] = tanh(g[j])
            for j in range(h):
                c[j] = i[j] * g[j] + f[j] * c_before[j]
            for j in range(h):
                out[j] = o[j] * tanh(c[j])


@kernel(fastmath=_FAST)
def slopes_of_steps(gates, cells, d_outputs, U, starts, slopes):
    """Fill slopes, the gradient by z, given that by the outputs.

    d o = dh tanh(c) o (1 - o);     dc = dh o (1 - tanh(c)^2) + what the next step says
    d i = dc g i (1 - i);           d f = dc c' f (1 - f);           d g = dc i (1 - g^2)
    """
    h = len(U)
    one = gates.dtype.type(1.0)
    # what the step behind says of outputs and cells: of sentences that end here, nothing
    d_carried = np.zeros((starts[1], h), gates.dtype)
    d_cells = np.zeros_like(d_carried)
    none = np.zeros(h, gates.dtype)
    for step in range(len(starts) - 2, -1, -1):
        start, n = starts[step], starts[step + 1] - starts[step]
        before = starts[max(step - 1, 0)]
        for k in range(n):
            z, d, c = gates[start + k], slopes[start + k], cells[start + k]
            i, f, o, g = z[:h], z[h : 2 * h], z[2 * h : 3 * h], z[3 * h :]
            d_i, d_f, d_o, d_g = d[:h], d[h : 2 * h], d[2 * h : 3 * h], d[3 * h :]
            c_before = cells[before + k] if step > 0 else none
            dh, dc, told = d_carried[k], d_cells[k], d_outputs[start + k]
            for j in range(h):
                dh[j] += told[j]
            for j in range(h):
                t = tanh(c[j])
                d_o[j] = dh[j] * t * o[j] * (one - o[j])
                dc[j] += dh[j] * o[j] * (one - t * t)
            for j in range(h):
                d_i[j] = dc[j] * g[j] * i[j] * (one - i[j])
            for j in range(h):
                d_g[j] = dc[j] * i[j] * (one - g[j] * g[j])
            for j in range(h):
                d_f[j] = dc[j] * c_before[j] * f[j] * (one - f[j])
            for j in range(h):
                dc[j] *= f[j]
        if step > 0:
            _multiply(slopes[start : start + n], U.T, d_carried[:n])
