"""A step of Adam, in one pass over the weights."""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part


@part
def _update(weights, means, squares, gradient, rate, beta_1, beta_2, epsilon):
    number = weights.dtype.type
    rate, epsilon = number(rate), number(epsilon)
    keep, add = number(beta_1), number(1 - beta_1)
    keep_square, add_square = number(beta_2), number(1 - beta_2)
    for k in range(len(weights)):
        means[k] = keep * means[k] + add * gradient[k]
        squares[k] = keep_square * squares[k] + add_square * gradient[k] * gradient[k]
        weights[k] -= rate * means[k] / (np.sqrt(squares[k]) + epsilon)


@kernel
def adam_rows(weights, means, squares, rows, gradient, rate, beta_1, beta_2, epsilon):
    """Update some rows of weights and their moments, given the gradient of these rows.

    m = b1 m + (1 - b1) g;   v = b2 v + (1 - b2) g^2;   w = w - rate m / (sqrt(v) + epsilon)
    """
    for k in range(len(rows)):
        row = rows[k]
        _update(weights[row], means[row], squares[row], gradient[k], rate, beta_1, beta_2, epsilon)
