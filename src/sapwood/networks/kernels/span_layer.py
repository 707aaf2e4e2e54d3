"""The hidden layer of spans, made of what changes between their ends, and scores of their labels.

What changes is brought to one length before anything is read off it: differences over long spans
are larger than those over short ones, and say no more.

Notation
--------
    A[k]       vector of fencepost k, whose numbers sum to 0, as do those of b
    x[i, j]  = A[j] - A[i] + b
    c[i, j]  = 1 / sqrt(mean of the squares of x[i, j], and a little)
    z[i, j]  = c[i, j] x[i, j]
    h[i, j]  = max(0, g z[i, j] + o)
    s[i, j]  = h[i, j] U + u, one number for each label
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part

_AT_ONCE = 80  # spans: a product of so few is made without packing the matrix
_TINY = 1e-5  # added to mean squares: ends may be alike
_SUMS = {"reassoc", "contract"}  # sums of many numbers at once, in an order that is always the same


@part(fastmath=_SUMS)
def _normed(first, last, b, z):
    """Fill z with what changes, at length 1 for each number; what it was multiplied by."""
    total = z.dtype.type(0.0)
    for k in range(len(z)):
        x = last[k] - first[k] + b[k]
        z[k] = x
        total += x * x
    c = z.dtype.type(1.0 / np.sqrt(total / len(z) + _TINY))
    for k in range(len(z)):
        z[k] *= c
    return c


@part
def _positive(z, gain, offset, hidden):
    zero = z.dtype.type(0.0)
    for k in range(len(hidden)):
        y = gain[k] * z[k] + offset[k]
        hidden[k] = zero if y < zero else y


@kernel
def label_scores(A, b, gain, offset, start, end, sentence, U, u, scores):
    """Fill the scores of labels of spans, [n_spans, n_labels].

    Hidden layers are forgotten at once: the gradient needs those of few spans.
    """
    some = np.empty((_AT_ONCE, A.shape[1]), A.dtype)
    for first in range(0, len(start), _AT_ONCE):
        n = min(_AT_ONCE, len(start) - first)
        for k in range(n):
            span = first + k
            _normed(A[start[span]], A[end[span]], b, some[k])
            _positive(some[k], gain[sentence[span]], offset[sentence[span]], some[k])
        np.dot(some[:n], U, scores[first : first + n])
        for k in range(n):
            row = scores[first + k]
            for label in range(len(u)):
                row[label] += u[label]


@kernel
def hidden_layer(A, b, gain, offset, start, end, sentence, z, c, hidden):
    """Fill z, c and the hidden layer of spans; each sentence has a gain and offset of its own."""
    for span in range(len(hidden)):
        c[span] = _normed(A[start[span]], A[end[span]], b, z[span])
        _positive(z[span], gain[sentence[span]], offset[sentence[span]], hidden[span])


@kernel(fastmath=_SUMS)
def send_back(d_hidden, hidden, z, c, gain, start, end, sentence, d_A, d_b, d_gain, d_offset):
    """Add what the hidden layer of spans says to the gradients of all that it is made of."""
    zero, width = d_hidden.dtype.type(0.0), d_hidden.dtype.type(hidden.shape[1])
    for span in range(len(hidden)):
        d, h, x = d_hidden[span], hidden[span], z[span]
        of, by_gain, by_offset = (
            gain[sentence[span]],
            d_gain[sentence[span]],
            d_offset[sentence[span]],
        )
        along = zero  # the length is always 1: what would change it changes nothing
        for k in range(len(d)):
            slope = d[k] if h[k] > zero else zero
            by_gain[k] += slope * x[k]
            by_offset[k] += slope
            d[k] = slope * of[k]
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
def largest_of_rows(rows):
    """The largest number of each row; none of them may be nan."""
    largest = np.empty(len(rows), rows.dtype)
    for place in range(len(rows)):
        row = rows[place]
        most = row[0]
        for k in range(1, len(row)):
            most = max(most, row[k])
        largest[place] = most
    return largest
