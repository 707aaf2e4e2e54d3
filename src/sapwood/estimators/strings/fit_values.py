"""Fits the values of a weighted grammar to frequencies of strings, from a good start.

    minimise  sum over strings of  (g(x) - p(x))^2 / p(x)

by Gauss-Newton steps with damping (Levenberg and Marquardt). A product of factors that keeps to all
constraints of a Hankel matrix is a weighted grammar, so that this is the factored problem itself,
without its matrix: n + d n + n^3 unknowns for any number of strings.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sapwood.arrays import FloatArray, IntArray, starts_of
from sapwood.models.strings.weighted_grammar import WeightedGrammar
from sapwood.moments.hankel import Inside

ENOUGH = 1e-12  # relative fall of the sum below which steps end


def fit_values(
    grammar: WeightedGrammar, observed: Mapping[Inside, float], *, max_steps: int = 30
) -> WeightedGrammar:
    """The grammar after some steps; it never fits worse than before.

    Parameters
    ----------
    observed
        Probabilities of strings, all above 0.
    """
    strings = [grammar.numbers(x) for x in observed]
    p = np.array(list(observed.values()))
    root = 1 / np.sqrt(p)
    x = _flatten(grammar.initial, grammar.terminals, grammar.binary)
    damping = 1e-4
    value, slopes = _slopes(grammar, strings)
    away = root * (value - p)
    for _ in range(max_steps):
        scaled = slopes * root[:, None]
        gram, right = scaled.T @ scaled, scaled.T @ away
        sizes = np.diag(gram) + 1e-12 * np.diag(gram).max()
        for _ in range(12):
            step = np.linalg.lstsq(gram + damping * np.diag(sizes), right, rcond=None)[0]
            made = _rebuild(grammar, x - step)
            values, _ = _values(made, strings)
            new = root * (values - p)
            if np.isfinite(new).all() and new @ new < away @ away:
                break
            damping *= 8
        else:
            return grammar
        fall = 1 - (new @ new) / (away @ away)
        grammar, x, damping = made, x - step, max(damping / 6, 1e-12)
        if fall < ENOUGH:
            return grammar
        value, slopes = _slopes(grammar, strings)
        away = root * (value - p)
    return grammar


def _flatten(*arrays: FloatArray) -> FloatArray:
    return np.concatenate([array.ravel() for array in arrays])


def _rebuild(like: WeightedGrammar, x: FloatArray) -> WeightedGrammar:
    n, d = like.n_states, len(like.symbols)
    initial, terminals, binary = np.split(x, [n, n + d * n])
    return WeightedGrammar(
        like.symbols, initial, terminals.reshape(d, n), binary.reshape(n, n, n), like.record
    )


def _values(grammar: WeightedGrammar, strings: list[IntArray]) -> tuple[FloatArray, IntArray]:
    found, power = grammar.scaled_values(strings)
    return np.ldexp(found, np.clip(power, -3000, 3000)), power


def _slopes(grammar: WeightedGrammar, strings: list[IntArray]) -> tuple[FloatArray, FloatArray]:
    """Values, and their derivatives by all weights, shape [n_strings, n + d n + n^3]."""
    from sapwood.kernels.weighted_grammar import log_slopes

    weights = (grammar.initial, grammar.terminals, grammar.binary)
    values, _ = _values(grammar, strings)
    out = np.zeros((len(strings), sum(x.size for x in weights)))
    log, one = np.zeros(1), np.ones(1)
    for place, words in enumerate(strings):
        parts = [np.zeros_like(x) for x in weights]
        log_slopes(words, starts_of([len(words)]), one, *weights, *parts, log)
        out[place] = values[place] * _flatten(*parts)
    return values, out
