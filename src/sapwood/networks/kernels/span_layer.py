"""The hidden layer of spans, with layer normalisation, and the scores of their labels.

Differences between the ends of long spans are larger than those of short spans, but not more
informative; layer normalisation gives all of them the same length.

Notation
--------
    A[k]       vector of fencepost k, whose numbers sum to 0, as do those of b
    x[i, j]  = A[j] - A[i] + b
    c[i, j]  = 1 / sqrt(mean of the squares of x[i, j] + epsilon)
    z[i, j]  = c[i, j] x[i, j]
    h[i, j]  = max(0, g z[i, j] + o)
    s[i, j]  = h[i, j] U + u, one number for each label
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part
from sapwood.networks.kernels.lstm import multiply_rows

_BLOCK = 80  # spans whose hidden layers stay in the caches
_EPSILON = 1e-5  # of layer normalisation
_SUMS = {"reassoc", "contract"}  # vectorised sums, in an order that is always the same


@part
def _difference(first, last, b, x):
    for k in range(len(x)):
        x[k] = last[k] - first[k] + b[k]


@part(fastmath=_SUMS)
def _sum_of_squares(x):
    total = x.dtype.type(0.0)
    for k in range(len(x)):
        total += x[k] * x[k]
    return total


@part
def _normalise(first, last, b, z):
    """Fill z with the normalised difference of two ends; return the factor c.

    The sum has a loop that writes no array: a loop that also writes z is compiled twice, vectorised
    and not, and which of them runs, and so the last bit of the sum, depends on addresses in memory.
    """
    _difference(first, last, b, z)
    c = z.dtype.type(1.0 / np.sqrt(_sum_of_squares(z) / len(z) + _EPSILON))
    for k in range(len(z)):
        z[k] *= c
    return c


@part
def _relu(z, gain, offset, hidden):
    zero = z.dtype.type(0.0)
    for k in range(len(hidden)):
        y = gain[k] * z[k] + offset[k]
        hidden[k] = zero if y < zero else y


@kernel
def span_label_scores(A, b, gain, offset, start, end, sentence, U, u, scores):
    """Fill the scores of labels of spans, [n_spans, n_labels].

    Hidden layers are not kept: the backward pass needs only few of them. The product does
    not use a BLAS, whose rounding depends on the number of threads.
    """
    hidden = np.empty((_BLOCK, A.shape[1]), A.dtype)
    for first in range(0, len(start), _BLOCK):
        n = min(_BLOCK, len(start) - first)
        for k in range(n):
            span = first + k
            _normalise(A[start[span]], A[end[span]], b, hidden[k])
            _relu(hidden[k], gain[sentence[span]], offset[sentence[span]], hidden[k])
        multiply_rows(hidden[:n], U, scores[first : first + n])
        for k in range(n):
            row = scores[first + k]
            for label in range(len(u)):
                row[label] += u[label]


@kernel
def span_layer(A, b, gain, offset, start, end, sentence, z, c, hidden):
    """Fill z, c and the hidden layer of spans; each sentence has a gain and offset of its own."""
    for span in range(len(hidden)):
        c[span] = _normalise(A[start[span]], A[end[span]], b, z[span])
        _relu(z[span], gain[sentence[span]], offset[sentence[span]], hidden[span])


@kernel(fastmath=_SUMS)
def span_layer_backward(
    d_hidden, hidden, z, c, gain, start, end, sentence, d_A, d_b, d_gain, d_offset
):
    """Add to the gradients of fenceposts, bias, gains and offsets that of the hidden layer."""
    zero, width = d_hidden.dtype.type(0.0), d_hidden.dtype.type(hidden.shape[1])
    for span in range(len(hidden)):
        d, h, x = d_hidden[span], hidden[span], z[span]
        of, by_gain, by_offset = (
            gain[sentence[span]],
            d_gain[sentence[span]],
            d_offset[sentence[span]],
        )
        along = zero  # layer normalisation removes the part of the gradient along z
        for k in range(len(d)):
            d_relu = d[k] if h[k] > zero else zero
            by_gain[k] += d_relu * x[k]
            by_offset[k] += d_relu
            d[k] = d_relu * of[k]
            along += d[k] * x[k]
        along /= width
        for k in range(len(d)):
            d[k] = c[span] * (d[k] - along * x[k])
        at_start, at_end = d_A[start[span]], d_A[end[span]]
        for k in range(len(d)):
            at_start[k] -= d[k]
        for k in range(len(d)):
            at_end[k] += d[k]
        for k in range(len(d)):
            d_b[k] += d[k]


@kernel(fastmath={"nnan", "nsz"})
def row_maxima(rows):
    """The maximum of each row; no entry may be nan."""
    largest = np.empty(len(rows), rows.dtype)
    for r in range(len(rows)):
        row = rows[r]
        most = row[0]
        for k in range(1, len(row)):
            most = max(most, row[k])
        largest[r] = most
    return largest
