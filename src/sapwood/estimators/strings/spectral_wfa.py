"""`SpectralWFA`: a weighted automaton from plain strings, by one SVD: the baseline of grammars."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from sapwood.arrays import FloatArray
from sapwood.decompose.hankel import automaton, conditioning, sampling_noise
from sapwood.estimators.strings.shared import (
    OfStrings,
    StringInfo,
    WithRank,
    best_rank,
    choose_rank,
    read_strings,
    risk,
    split_counts,
)
from sapwood.models.strings.sequence_model import SequenceModel
from sapwood.moments.hankel import Inside, commonest, frequencies


class SpectralWFA(WithRank, OfStrings):
    """Weighted automaton from strings: prefixes and suffixes for rows and columns.

    Attributes
    ----------
    model_
        A `SequenceModel`.
    info_
        A `StringInfo`: singular values, conditioning.

    Examples
    --------
    >>> strings = {("a",) * k: 2**(20 - k) for k in range(1, 20)}
    >>> model = SpectralWFA(2, basis=1.0).fit(strings).model_
    >>> round(model.value(["a"] * 3), 3)
    0.125
    """

    def fit(self, strings: Any) -> Self:
        """Learn from strings, lists of symbols, or from a mapping of strings to counts."""
        self._check_parameters()
        self._engine()
        counts = read_strings(strings)
        info = StringInfo(n_strings=float(counts.total()))
        n = self.n_states
        if n is None and self.choose == "held-out":
            rest, held = split_counts(counts)
            info.risks = best_rank(
                lambda k: self._learn(rest, k, StringInfo()),
                lambda model: risk(model, held, rest),
                len(counts),
            ) or {1: 0.0}
            n = choose_rank(info.risks)
        self.model_ = self._learn(counts, n, info)
        self.info_ = info
        return self

    def _learn(
        self, counts: Mapping[Inside, float], n: int | None, info: StringInfo
    ) -> SequenceModel:
        observed = frequencies(counts)
        symbols = tuple(sorted({symbol for x in observed for symbol in x}))
        matrix, steps = hankel_of_prefixes(observed, symbols, self.basis)
        info.basis = matrix.shape
        noise = sampling_noise(matrix, info.n_strings or np.inf)
        factors, initial, final, made = automaton(matrix, steps, n, noise)
        info.singular_values = factors.values
        info.judge(conditioning(factors, noise))
        return SequenceModel(symbols, initial, final, made, info.record("wfa", factors.n))


def hankel_of_prefixes(
    observed: Mapping[Inside, float], symbols: tuple[str, ...], factor: float
) -> tuple[FloatArray, list[FloatArray]]:
    """f(u v), and f(u sigma v) for each symbol, over the commonest prefixes u and suffixes v."""
    prefixes: Counter[Inside] = Counter()
    suffixes: Counter[Inside] = Counter()
    for x, p in observed.items():
        for k in range(len(x) + 1):
            prefixes[x[:k]] += p  # type: ignore[assignment]
            suffixes[x[k:]] += p  # type: ignore[assignment]
    rows = {u: i for i, u in enumerate(dict.fromkeys([(), *commonest(prefixes, factor)]))}
    columns = {v: i for i, v in enumerate(dict.fromkeys([(), *commonest(suffixes, factor)]))}
    number = {symbol: place for place, symbol in enumerate(symbols)}
    matrix = np.zeros((len(rows), len(columns)))
    steps = [np.zeros_like(matrix) for _ in symbols]
    for x, p in observed.items():
        for k in range(len(x) + 1):
            u, v = rows.get(x[:k]), columns.get(x[k:])
            if u is not None and v is not None:
                matrix[u, v] += p
            if u is not None and k < len(x) and (v := columns.get(x[k + 1 :])) is not None:
                steps[number[x[k]]][u, v] += p
    return matrix, steps
