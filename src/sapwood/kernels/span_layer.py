"""The hidden layer of spans, made of what changes between their ends, and scores of their labels.

Notation
--------
    A[k]       vector of fencepost k
    h[i, j]  = max(0, A[j] - A[i] + b)
    s[i, j]  = h[i, j] U + u, one number for each label
"""

from __future__ import annotations

import numpy as np

from sapwood.kernels.border import kernel, part

_AT_ONCE = 80  # spans: a product of so few is made without packing the matrix


@part
def _change(first, last, bias, hidden):
    zero = hidden.dtype.type(0.0)
    for k in range(len(hidden)):
        x = last[k] - first[k] + bias[k]
        hidden[k] = zero if x < zero else x


@kernel
def label_scores(A, bias, start, end, sentence, U, u, scores):
    """Fill the scores of labels of spans, [n_spans, n_labels].

    Hidden layers are forgotten at once: the gradient needs those of few spans.
    """
    some = np.empty((_AT_ONCE, A.shape[1]), A.dtype)
    for first in range(0, len(start), _AT_ONCE):
        n = min(_AT_ONCE, len(start) - first)
        for k in range(n):
            span = first + k
            _change(A[start[span]], A[end[span]], bias[sentence[span]], some[k])
        np.dot(some[:n], U, scores[first : first + n])
        for k in range(n):
            row = scores[first + k]
            for label in range(len(u)):
                row[label] += u[label]


@kernel
def hidden_layer(A, bias, start, end, sentence, hidden):
    """Fill the hidden layer of spans, [n_spans, width]; each sentence has a bias of its own."""
    for span in range(len(hidden)):
        _change(A[start[span]], A[end[span]], bias[sentence[span]], hidden[span])


@kernel
def send_back(d_hidden, hidden, start, end, sentence, d_A, d_bias):
    """Add what the hidden layer of spans says to the gradients of vectors and biases."""
    zero = d_hidden.dtype.type(0.0)
    for span in range(len(hidden)):
        d, h = d_hidden[span], hidden[span]
        for k in range(len(d)):
            d[k] = d[k] if h[k] > zero else zero
        at_start, at_end, at_bias = d_A[start[span]], d_A[end[span]], d_bias[sentence[span]]
        for k in range(len(d)):
            at_start[k] -= d[k]
        for k in range(len(d)):
            at_end[k] += d[k]
        for k in range(len(d)):
            at_bias[k] += d[k]


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
