"""Networks word by word and span by span, with NumPy's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import expit

Real = npt.NDArray[Any]


def read_words(given: Real, carried: Real, b: Real) -> tuple[Real, Real, Real]:
    """Gates, cells and outputs of an LSTM that reads one sentence, whose words give x W."""
    width = len(carried)
    c = h = np.zeros(width, given.dtype)
    rows = []
    for x in given:
        z = x + h @ carried + b
        sigmoids = expit(z[: 3 * width])
        i, f, o = np.split(sigmoids, 3)
        g = np.tanh(z[3 * width :])
        c = f * c + i * g
        h = o * np.tanh(c)
        rows.append((np.concatenate([sigmoids, g]), c, h))
    gates, cells, outputs = (np.array(column) for column in zip(*rows, strict=True))
    return gates, cells, outputs


def slopes_of_words(gates: Real, cells: Real, d_outputs: Real, carried: Real) -> Real:
    """Gradient by what the gates are functions of, given that by the outputs of one sentence."""
    width = len(carried)
    d_c = d_h = np.zeros(width, gates.dtype)
    slopes = np.empty_like(gates)
    for word in reversed(range(len(gates))):
        i, f, o, g = np.split(gates[word], 4)
        before = cells[word - 1] if word else np.zeros_like(d_c)
        t = np.tanh(cells[word])
        d_h = d_h + d_outputs[word]
        d_c = d_c + d_h * o * (1 - t * t)
        slopes[word] = np.concatenate([
            d_c * g * i * (1 - i), d_c * before * f * (1 - f), d_h * t * o * (1 - o),
            d_c * i * (1 - g * g),
        ])  # fmt: skip
        d_c, d_h = d_c * f, slopes[word] @ carried.T
    return slopes


def hidden_of_span(change: Real, gain: Real, offset: Real) -> Real:
    """What changes between the ends of a span, normalised, where it grows.

    >>> hidden_of_span(np.array([5.0, 1.0]), np.array([2.0, 2.0]), np.zeros(2)).round(3).tolist()
    [2.0, 0.0]
    """
    z = (change - change.mean()) / np.sqrt(change.var() + 1e-5)
    hidden: Real = np.maximum(gain * z + offset, 0)
    return hidden
