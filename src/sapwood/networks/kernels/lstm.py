"""The time steps of LSTMs over a batch of sentences, forwards and backwards.

Notation
--------
    i, f, o = sigmoid, g = tanh of  z = x W + b + h' U     gates, of width 4 h
    c = f c' + i g                                         cells
    h = o tanh(c)                                          outputs

' marks the previous step. Rows of a step are contiguous, longest sentences first: row k of a step
belongs to the same sentence as row k of the previous step.

Forward products do not use a BLAS, which rounds a row differently when its neighbours differ: the
numbers of a sentence would depend on its batch. They are not slower either: see `row_products`.
Backward products are cut into blocks of few rows that a BLAS multiplies without packing the matrix,
which is still in the caches from the previous step.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from sapwood.core.jit import kernel, part

_FAST = {"contract", "reassoc"}
_CONTRACT = {"contract"}  # a product is added with one rounding, wherever the machine can
_BLOCK = 4  # rows of a product
# tanh x = x P(x x) / Q(x x) for |x| below the last number; coefficients by least squares
_P0, _P1, _P2, _P3, _P4, _P5, _Q1, _Q2, _Q3, _ONE, _MOST = map(
    np.float32,
    (
        0.99999998, 0.12984882, 0.0029920671, 9.938909e-6, -1.4905375e-8, 2.4102813e-11,
        0.463182, 0.024052971, 0.00023808267, 1.0, 7.9,
    ),
)  # fmt: skip


@part(fastmath=_FAST)
def quick_tanh(x):
    """Hyperbolic tangent with an error below 4e-7; loops over it are vectorised."""
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


@part(fastmath=_CONTRACT)
def _add_row(row, matrix, out):
    """Add the product of one row, in the order in which `_add_four_rows` adds."""
    n_blocks = len(row) // _BLOCK * _BLOCK
    for k in range(0, n_blocks, _BLOCK):
        u0, u1, u2, u3 = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
        x0, x1, x2, x3 = row[k], row[k + 1], row[k + 2], row[k + 3]
        for j in range(len(out)):
            out[j] = out[j] + x0 * u0[j] + x1 * u1[j] + x2 * u2[j] + x3 * u3[j]
    for k in range(n_blocks, len(row)):
        u0, x0 = matrix[k], row[k]
        for j in range(len(out)):
            out[j] = out[j] + x0 * u0[j]


@part(fastmath=_CONTRACT)
def _add_four_rows(rows, matrix, out):
    a, b, c, d = rows[0], rows[1], rows[2], rows[3]
    out_a, out_b, out_c, out_d = out[0], out[1], out[2], out[3]
    n_blocks = len(a) // _BLOCK * _BLOCK
    for k in range(0, n_blocks, _BLOCK):
        u0, u1, u2, u3 = matrix[k], matrix[k + 1], matrix[k + 2], matrix[k + 3]
        a0, a1, a2, a3 = a[k], a[k + 1], a[k + 2], a[k + 3]
        b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
        c0, c1, c2, c3 = c[k], c[k + 1], c[k + 2], c[k + 3]
        d0, d1, d2, d3 = d[k], d[k + 1], d[k + 2], d[k + 3]
        for j in range(len(out_a)):
            v0, v1, v2, v3 = u0[j], u1[j], u2[j], u3[j]
            out_a[j] = out_a[j] + a0 * v0 + a1 * v1 + a2 * v2 + a3 * v3
            out_b[j] = out_b[j] + b0 * v0 + b1 * v1 + b2 * v2 + b3 * v3
            out_c[j] = out_c[j] + c0 * v0 + c1 * v1 + c2 * v2 + c3 * v3
            out_d[j] = out_d[j] + d0 * v0 + d1 * v1 + d2 * v2 + d3 * v3
    for k in range(n_blocks, len(a)):
        u0, a0, b0, c0, d0 = matrix[k], a[k], b[k], c[k], d[k]
        for j in range(len(out_a)):
            v0 = u0[j]
            out_a[j] = out_a[j] + a0 * v0
            out_b[j] = out_b[j] + b0 * v0
            out_c[j] = out_c[j] + c0 * v0
            out_d[j] = out_d[j] + d0 * v0


@part
def _multiply_rows(rows, matrix, out):
    n = len(rows)
    n_blocks = n // _BLOCK * _BLOCK
    out[:] = 0
    for first in range(0, n_blocks, _BLOCK):
        _add_four_rows(rows[first : first + _BLOCK], matrix, out[first : first + _BLOCK])
    if n < _BLOCK:
        for r in range(n):
            _add_row(rows[r], matrix, out[r])
    elif n > n_blocks:  # four rows once more cost less than three, one by one
        out[n - _BLOCK :] = 0
        _add_four_rows(rows[n - _BLOCK :], matrix, out[n - _BLOCK :])


def multiply_rows(rows, matrix, out):
    """Fill out with rows times a matrix; compiled, a row does not depend on its neighbours.

        out[r, j] = sum over k of  rows[r, k] matrix[k, j],   added one after the other, k rising

    Blocks of four rows and four k keep the arithmetic units busy: 130 to 190 billion operations a
    second, where OpenBLAS reaches 60 with four rows and 135 with hundreds (AMD EPYC, float32).
    """
    np.dot(rows, matrix, out)


@overload(multiply_rows)
def _multiply_rows_compiled(rows, matrix, out):
    return lambda rows, matrix, out: _multiply_rows(rows, matrix, out)  # noqa: PLW0108


@kernel
def row_products(rows, matrix):
    """The product of rows and a matrix, as `multiply_rows` adds it."""
    out = np.empty((len(rows), matrix.shape[1]), rows.dtype)
    multiply_rows(rows, matrix, out)
    return out


@part
def _multiply(rows, matrix, out):
    for first in range(0, len(rows), _BLOCK):
        end = min(first + _BLOCK, len(rows))
        np.dot(rows[first:end], matrix, out[first:end])


@kernel(fastmath=_FAST)
def lstm_steps(gates, U, b, starts, cells, outputs):
    """Fill the gates, which hold x W, the cells and the outputs; step s starts at row starts[s]."""
    h = len(U)
    half, one = gates.dtype.type(0.5), gates.dtype.type(1.0)
    carried = np.zeros((starts[1], 4 * h), gates.dtype)
    none = np.zeros(h, gates.dtype)
    for step in range(len(starts) - 1):
        start, n = starts[step], starts[step + 1] - starts[step]
        before = starts[max(step - 1, 0)]
        if step > 0:
            multiply_rows(outputs[before : before + n], U, carried[:n])
        for k in range(n):
            z, add, c, out = gates[start + k], carried[k], cells[start + k], outputs[start + k]
            c_before = cells[before + k] if step > 0 else none
            i, f, o, g = z[:h], z[h : 2 * h], z[2 * h : 3 * h], z[3 * h :]
            for j in range(4 * h):
                z[j] += add[j] + b[j]
            for j in range(3 * h):  # sigmoid(z) = (1 + tanh(z / 2)) / 2
                z[j] = half * (one + tanh(half * z[j]))
            for j in range(h):
                g[j] = tanh(g[j])
            for j in range(h):
                c[j] = i[j] * g[j] + f[j] * c_before[j]
            for j in range(h):
                out[j] = o[j] * tanh(c[j])


@kernel(fastmath=_FAST)
def lstm_steps_backward(gates, cells, d_outputs, U, starts, d_z):
    """Fill the gradient with respect to z, given that of the outputs.

    d o = dh tanh(c) o (1 - o);     dc = dh o (1 - tanh(c)^2) + f dc of the next step
    d i = dc g i (1 - i);           d f = dc c' f (1 - f);           d g = dc i (1 - g^2)
    """
    h = len(U)
    one = gates.dtype.type(1.0)
    # gradients from the next step, 0 for sentences that end here
    d_carried = np.zeros((starts[1], h), gates.dtype)
    d_cells = np.zeros_like(d_carried)
    none = np.zeros(h, gates.dtype)
    for step in range(len(starts) - 2, -1, -1):
        start, n = starts[step], starts[step + 1] - starts[step]
        before = starts[max(step - 1, 0)]
        for k in range(n):
            z, d, c = gates[start + k], d_z[start + k], cells[start + k]
            i, f, o, g = z[:h], z[h : 2 * h], z[2 * h : 3 * h], z[3 * h :]
            d_i, d_f, d_o, d_g = d[:h], d[h : 2 * h], d[2 * h : 3 * h], d[3 * h :]
            c_before = cells[before + k] if step > 0 else none
            dh, dc, d_out = d_carried[k], d_cells[k], d_outputs[start + k]
            for j in range(h):
                dh[j] += d_out[j]
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
            _multiply(d_z[start : start + n], U.T, d_carried[:n])
