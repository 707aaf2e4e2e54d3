"""`SpectralWFA`: a weighted automaton from plain strings, by one SVD: the baseline of grammars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from sapwood.core.info import Info
from sapwood.core.memory import require_memory
from sapwood.hankel.learn.moments import Inside, frequencies
from sapwood.hankel.learn.prefixes import BYTES_A_CUT, PrefixBlocks
from sapwood.hankel.learn.shared import (
    OfStrings,
    WithRank,
    best_rank,
    choose_rank,
    judge_conditioning,
    read_strings,
    risk,
    split_counts,
    string_info,
    string_record,
)
from sapwood.hankel.model.sequence_model import SequenceModel
from sapwood.linalg.hankel import automaton, conditioning, sampling_noise


class SpectralWFA(WithRank, OfStrings):
    """Weighted automaton from strings: prefixes and suffixes for rows and columns.

    Attributes
    ----------
    model_
        A `SequenceModel`.
    info_
        An `Info`, see `string_info`: singular values, conditioning.

    Examples
    --------
    >>> strings = {("a",) * k: 2**(20 - k) for k in range(1, 20)}
    >>> model = SpectralWFA(2, basis=1.0).fit(strings).model_
    >>> round(model.value(["a"] * 3), 3)
    0.125
    """

    uses_engine: ClassVar[bool] = False

    def fit(self, strings: Any) -> Self:
        """Learn from strings, lists of symbols, or from a mapping of strings to counts."""
        self._check_parameters()
        counts = read_strings(strings)
        info = string_info(n_strings=float(counts.total()))
        n = self.n_states
        if n is None and self.choose == "held-out":
            rest, held = split_counts(counts)
            info.risks = best_rank(
                lambda k: self._learn(rest, k, string_info()),
                lambda model: risk(model, held, rest),
                len(counts),
            ) or {1: 0.0}
            n = choose_rank(info.risks)
        self.model_ = self._learn(counts, n, info)
        self.info_ = info
        return self

    def _learn(self, counts: Mapping[Inside, float], n: int | None, info: Info) -> SequenceModel:
        observed = frequencies(counts)
        symbols = tuple(sorted({symbol for x in observed for symbol in x}))
        refuse_large_automaton(observed, len(symbols), n or 1)
        blocks = PrefixBlocks.of(observed, symbols, self.basis)
        matrix = blocks.matrix
        info.basis = matrix.shape
        noise = sampling_noise(matrix, info.n_strings or np.inf)
        factors, initial, final, made = automaton(matrix, blocks.steps, len(symbols), n, noise)
        info.singular_values = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        return SequenceModel(symbols, initial, final, made, string_record(info, "wfa", factors.n))


def refuse_large_automaton(observed: Mapping[Inside, float], n_symbols: int, n: int) -> None:
    """Refuse strings, or a number of states, that need more memory than there is."""
    n_cuts = len(observed) + sum(map(len, observed))
    size = f"{n:,} states" if n > 1 else "1 state"
    require_memory(
        BYTES_A_CUT * n_cuts + 24 * n_symbols * n * n,
        f"an automaton of {n_symbols:,} symbols and {size} from {n_cuts:,} cuts of strings",
        "give fewer strings, replace rare symbols by one, or ask for fewer --states",
    )
