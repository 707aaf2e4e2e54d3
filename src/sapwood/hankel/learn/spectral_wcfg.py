"""`SpectralWCFG`: a weighted grammar from bracketed strings, by one SVD (WCFG, section 3.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sapwood.core.arrays import FloatArray
from sapwood.core.info import Info
from sapwood.hankel.data.bracketed import Bracketed
from sapwood.hankel.learn.moments import Basis, HankelCounts, count_brackets, count_hankel
from sapwood.hankel.learn.shared import (
    HELD_OUT,
    OfBrackets,
    WithRank,
    best_rank,
    choose_rank,
    judge_conditioning,
    read_brackets,
    risk,
    string_info,
    string_record,
)
from sapwood.hankel.model.weighted_grammar import WeightedGrammar
from sapwood.linalg.hankel import conditioning, factorise, operators, sampling_noise


class SpectralWCFG(WithRank, OfBrackets):
    """Weighted grammar from strings with brackets, whose labels mean nothing.

    Counts which inside strings were bracketed in which contexts, factorises the table, and reads
    the grammar off (Lemma 1). What it computes is no probability: it may be negative, and need not
    sum to 1.

    Attributes
    ----------
    model_
        A `WeightedGrammar`.
    info_
        An `Info`, see `string_info`: singular values, conditioning.

    Examples
    --------
    >>> from sapwood.corpora.tree import Tree
    >>> trees = [Tree.parse("(S (A a) (B b))")] * 300 + [Tree.parse("(S (A a))")] * 100
    >>> round(SpectralWCFG(3, basis=1.0).fit(trees).model_.value(["a", "b"]), 9)
    0.75
    """

    def fit(self, trees: Any) -> Self:
        """Learn from trees, or from `Bracketed` strings."""
        self._check_parameters()
        engine = self._engine()
        strings, n_wide = read_brackets(trees)
        basis = Basis.by_frequency(count_brackets(strings, engine), self.basis)
        n = self.n_states
        info = string_info(n_wide=n_wide)
        if n is None and self.choose == "held-out":
            info.risks = self._risks(strings, basis)
            n = choose_rank(info.risks)
        self._learn(basis, count_hankel(strings, basis, engine), n, info)
        return self

    def fit_counts(self, basis: Basis, counts: HankelCounts) -> Self:
        """Learn from counts in a basis."""
        self._check_parameters()
        self._learn(basis, counts, self.n_states, string_info())
        return self

    def fit_moments(self, basis: Basis, whole: FloatArray, pairs: FloatArray) -> Self:
        """Learn from exact Hankel blocks, [p, s] and [p, s * s]."""
        self._check_parameters()
        exact = HankelCounts(sp.csr_array(whole), sp.csr_array(pairs), 1.0)
        self._learn(basis, exact, self.n_states, string_info(n_strings=np.inf))
        return self

    def _learn(self, basis: Basis, counts: HankelCounts, n: int | None, info: Info) -> None:
        is_exact = np.isinf(info.n_strings)
        info.n_strings = info.n_strings if is_exact else counts.n
        info.basis = basis.shape
        whole, pairs = counts.whole / counts.n, counts.pairs / counts.n
        noise = sampling_noise(whole, info.n_strings)
        factors = factorise(whole, n, noise)
        info.singular_values = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        row = whole[[0]].toarray()[0]
        made = operators(factors, row, whole[:, basis.symbol_columns].toarray(), pairs)
        self.info_ = info
        self.model_ = WeightedGrammar(
            basis.symbols, *made, string_record(info, "spectral", factors.n)
        )

    def _risks(self, strings: Sequence[Bracketed], basis: Basis) -> dict[int, float]:
        """Held-out risk by number of states; the basis is that of all strings."""
        held = strings[::HELD_OUT]
        rest = [x for place, x in enumerate(strings) if place % HELD_OUT]
        if not rest:
            return {1: 0.0}
        counts = count_hankel(rest, basis, self._engine())
        whole, pairs = counts.whole / counts.n, counts.pairs / counts.n

        def learn(n: int) -> WeightedGrammar:
            factors = factorise(whole, n)
            columns = whole[:, basis.symbol_columns].toarray()
            return WeightedGrammar(
                basis.symbols, *operators(factors, whole[[0]].toarray()[0], columns, pairs)
            )

        seen, apart = (Counter(x.words for x in part) for part in (rest, held))
        return best_rank(learn, lambda model: risk(model, apart, seen), min(basis.shape)) or {
            1: 0.0
        }
