"""A step of Adam, in one pass over the weights."""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part


@part
def _move(weights, means, squares, gradient, rate, forget, forget_squares, tiny):
    number = weights.dtype.type
    rate, tiny = number(rate), number(tiny)
    keep, add = number(forget), number(1 - forget)
    keep_square, add_square = number(forget_squares), number(1 - forget_squares)
    for k in range(len(weights)):
        means[k] = keep * means[k] + add * gradient[k]
        squares[k] = keep_square * squares[k] + add_square * gradient[k] * gradient[k]
        weights[k] -= rate * means[k] / (np.sqrt(squares[k]) + tiny)


@kernel
def move_rows(weights, means, squares, rows, gradient, rate, forget, forget_squares, tiny):
    """Move some rows of weights and their moments, given the gradient of those rows.

    m = f m + (1 - f) g;   v = f' v + (1 - f') g^2;   w = w - rate m / (sqrt(v) + tiny)
    """
    for k in range(len(rows)):
        row = rows[k]
        _move(
            weights[row], means[row], squares[row], gradient[k],
            rate, forget, forget_squares, tiny,
        )  # fmt: skip
