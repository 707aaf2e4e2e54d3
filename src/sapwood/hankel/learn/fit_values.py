"""Fits the values of a weighted grammar to frequencies of strings, from a good start.

    minimise  sum over cells of  (g(cell) - p(cell))^2 / p(cell)  +  ||(w - w0) / SPREAD||^2 / n

by Gauss-Newton steps with damping (Levenberg and Marquardt). A cell is a string that was seen often
enough, or all other strings of one length together, unseen ones included: their sum is that of the
same grammar with one symbol in place of all. The second term keeps weights w where they were at the
start, w0, in directions that n strings say nothing about.

A product of factors that keeps to all constraints of a Hankel matrix is a weighted grammar, so that
this is the factored problem itself, without its matrix: n + d n + n^3 unknowns for any number of
strings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.hankel.learn.moments import Inside
from sapwood.hankel.model.weighted_grammar import WeightedGrammar
from sapwood.progress import counted

ENOUGH = 1e-6  # relative fall of the sum below which steps end
SEEN = 5  # times that a string is seen to be a cell of its own, as for any chi-square
LONGEST = 30  # of strings that are cells together: there are few longer ones, and they cost most
SPREAD = 0.3  # of weights around the start, relative to the size of those of their kind


class _Cells:
    """Strings and lengths with what was observed of them."""

    def __init__(self, grammar: WeightedGrammar, observed: Mapping[Inside, float], n: float):
        d = len(grammar.symbols)
        rest: dict[int, float] = defaultdict(float)
        kept: dict[int, int] = defaultdict(int)
        self.strings, p = [], []
        for x, frequency in observed.items():
            if frequency * n >= SEEN:
                self.strings.append(grammar.numbers(x))
                p.append(frequency)
                kept[len(x)] += 1
            else:
                rest[len(x)] += frequency
        longest = min(max(map(len, observed)), LONGEST) if np.isfinite(n) else 0
        self.lengths = [k for k in range(1, longest + 1) if kept[k] < float(d) ** k]
        self.p = np.array(p + [rest[k] for k in self.lengths])
        self.root = 1 / np.sqrt(np.maximum(self.p, 1 / n))
        number = {k: place for place, k in enumerate(self.lengths)}
        self.length_of = np.array([number.get(len(x), -1) for x in self.strings], np.int64)

    def away(self, grammar: WeightedGrammar) -> FloatArray:
        """Scaled distances of all cells."""
        value = _values(grammar, self.strings)
        if self.lengths:
            masses = grammar.length_masses(self.lengths[-1])[np.array(self.lengths) - 1]
            value = np.append(value, masses - self._by_length(value))
        return np.asarray(self.root * (value - self.p))

    def slopes(self, grammar: WeightedGrammar) -> FloatArray:
        """Their derivatives by all weights, shape [n_cells, n + d n + n^3]."""
        found = _slopes(grammar, self.strings)
        if self.lengths:
            one = WeightedGrammar(
                ("x",), grammar.initial, grammar.terminals.sum(axis=0)[None], grammar.binary
            )
            whole = _slopes(one, [np.zeros(k, np.int64) for k in self.lengths])
            n, d = grammar.n_states, len(grammar.symbols)
            words = np.tile(whole[:, n : 2 * n], (1, d))
            whole = np.hstack([whole[:, :n], words, whole[:, 2 * n :]])
            found = np.vstack([found, whole - self._by_length(found)])
        return np.asarray(self.root[:, None] * found)

    def _by_length(self, rows: FloatArray) -> FloatArray:
        """Sums over strings of the same length, where others of that length are a cell."""
        sums = np.zeros((len(self.lengths), *rows.shape[1:]))
        has = self.length_of >= 0
        np.add.at(sums, self.length_of[has], rows[has])
        return sums


def fit_values(
    grammar: WeightedGrammar,
    observed: Mapping[Inside, float],
    *,
    n: float = np.inf,
    max_steps: int = 30,
) -> WeightedGrammar:
    """The grammar after some steps; it never fits worse than before.

    Parameters
    ----------
    observed
        Probabilities of strings, all above 0; for a finite n, of all that were seen up to the
        length of the longest.
    n
        How many strings they were counted from; infinite for probabilities without noise.
    """
    cells = _Cells(grammar, observed, n)
    x = start = _flatten(grammar.initial, grammar.terminals, grammar.binary)
    hold = 1 / (n * (SPREAD * _sizes(grammar)) ** 2)
    damping = 1e-4
    away = cells.away(grammar)
    if not np.isfinite(away).all():
        return grammar
    cost = away @ away
    for _ in counted(range(max_steps), "fitting values", unit="step"):
        slopes = cells.slopes(grammar)
        gram = slopes.T @ slopes + np.diag(hold)
        right = slopes.T @ away + hold * (x - start)
        sizes = np.diag(gram) + 1e-12 * np.diag(gram).max()
        for _ in range(12):
            step = np.linalg.lstsq(gram + damping * np.diag(sizes), right, rcond=None)[0]
            made = _rebuild(grammar, x - step)
            away = cells.away(made)
            new = away @ away + hold @ (x - step - start) ** 2
            if np.isfinite(new) and new < cost:
                break
            damping *= 8
        else:
            return grammar
        fall = 1 - new / cost
        grammar, x, cost, damping = made, x - step, new, max(damping / 6, 1e-12)
        if fall < ENOUGH:
            return grammar
    return grammar


def _sizes(grammar: WeightedGrammar) -> FloatArray:
    """For each weight, the root mean square of those of its kind."""
    kinds = (grammar.initial, grammar.terminals, grammar.binary)
    return _flatten(*(np.full(x.shape, np.sqrt(np.mean(x**2)) or 1.0) for x in kinds))


def _flatten(*arrays: FloatArray) -> FloatArray:
    return np.concatenate([array.ravel() for array in arrays])


def _rebuild(like: WeightedGrammar, x: FloatArray) -> WeightedGrammar:
    n, d = like.n_states, len(like.symbols)
    initial, terminals, binary = np.split(x, [n, n + d * n])
    return WeightedGrammar(
        like.symbols, initial, terminals.reshape(d, n), binary.reshape(n, n, n), like.record
    )


def _values(grammar: WeightedGrammar, strings: list[IntArray]) -> FloatArray:
    found, power = grammar.scaled_values(strings)
    return np.asarray(np.ldexp(found, np.clip(power, -3000, 3000)))


def _slopes(grammar: WeightedGrammar, strings: list[IntArray]) -> FloatArray:
    """Derivatives of values by all weights, shape [n_strings, n + d n + n^3]."""
    from sapwood.hankel.model.kernels.weighted_grammar import log_slopes

    weights = (grammar.initial, grammar.terminals, grammar.binary)
    values = _values(grammar, strings)
    out = np.zeros((len(strings), sum(x.size for x in weights)))
    log, one = np.zeros(1), np.ones(1)
    for place, words in enumerate(strings):
        parts = [np.zeros_like(x) for x in weights]
        log_slopes(words, starts_of([len(words)]), one, *weights, *parts, log)
        out[place] = values[place] * _flatten(*parts)
    return out
