"""`SpectralWCFG` and `SpectralWFA`: weighted grammars and automata by one SVD (WCFG, section 3.2).

Notation of automata; that of grammars is in `hankel.learn.moments`
-------------------------------------------------------------------
    u, v             a prefix (row) and a suffix (column)        [p], [s]
    H[u, v]          f(u v)                                      [p, s]
    H_sigma[u, v]    f(u sigma v)                                [p, s] for each symbol

A string of m symbols has m + 1 cuts, so that there are no more entries than symbols and strings:
both blocks are kept as lists of entries. Memory grows with the symbols of all different strings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.errors import require_memory
from sapwood.core.learner import Info
from sapwood.hankel.data import Bracketed
from sapwood.hankel.learn.moments import (
    Basis,
    HankelCounts,
    Inside,
    count_brackets,
    count_hankel,
    frequencies,
    symbols_of,
)
from sapwood.hankel.learn.shared import (
    HELD_OUT_EVERY,
    RankParameters,
    choose_states,
    judge_conditioning,
    read_bracketed,
    read_strings,
    split_counts,
    string_info,
    string_record,
)
from sapwood.hankel.model.string_model import SequenceModel
from sapwood.hankel.model.weighted_grammar import WeightedGrammar
from sapwood.linalg.hankel import (
    StepEntries,
    automaton,
    conditioning,
    factorise,
    operators,
    sampling_noise,
)

BYTES_A_CUT = 160  # of memory for each symbol of a string while blocks are made: an estimate


class SpectralWCFG(RankParameters):
    """Weighted grammar from bracketed strings, by one SVD; labels are ignored.

    Counts which inside strings were bracketed in which contexts, factorises the table, and reads
    the grammar off (Lemma 1). Its values are no probabilities: they may be negative, and need not
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
        engine = self._engine()
        strings, n_wide = read_bracketed(trees)
        basis = Basis.by_frequency(count_brackets(strings, engine), self.basis)
        n, info = self.n_states, string_info(n_wide=n_wide)
        if n is None and self.choose == "held-out":
            n = self._choose_states(strings, basis, info)
        return self._keep(basis, count_hankel(strings, basis, engine), n, info)

    def fit_counts(self, basis: Basis, counts: HankelCounts) -> Self:
        """Learn from counts in a basis."""
        self._check_parameters()
        return self._keep(basis, counts, self.n_states, string_info())

    def fit_moments(self, basis: Basis, whole: FloatArray, pairs: FloatArray) -> Self:
        """Learn from exact Hankel blocks, [p, s] and [p, s * s]."""
        self._check_parameters()
        exact = HankelCounts(sp.csr_array(whole), sp.csr_array(pairs), 1.0)
        return self._keep(basis, exact, self.n_states, string_info(n_strings=np.inf))

    def _keep(self, basis: Basis, counts: HankelCounts, n: int | None, info: Info) -> Self:
        self.model_, self.info_ = self._learn(basis, counts, n, info), info
        return self

    def _learn(
        self, basis: Basis, counts: HankelCounts, n: int | None, info: Info
    ) -> WeightedGrammar:
        """The grammar of Lemma 1; an infinite number of strings means exact moments."""
        is_exact = np.isinf(info.extra["n_strings"])
        info.extra["n_strings"] = info.extra["n_strings"] if is_exact else counts.n
        info.extra["basis"] = basis.shape
        whole, pairs = counts.whole / counts.n, counts.pairs / counts.n
        noise = sampling_noise(whole, info.extra["n_strings"])
        factors = factorise(whole, n, noise)
        info.extra["singular_values"] = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        row = whole[[0]].toarray()[0]
        made = operators(factors, row, whole[:, basis.symbol_columns].toarray(), pairs)
        return WeightedGrammar(basis.symbols, *made, string_record(info, "spectral", factors.n))

    def _choose_states(self, strings: Sequence[Bracketed], basis: Basis, info: Info) -> int:
        """The number of states by held-out risk; the basis is that of all strings."""
        held = strings[::HELD_OUT_EVERY]
        rest = [x for place, x in enumerate(strings) if place % HELD_OUT_EVERY]
        if not rest:
            info.extra["risks"] = {1: 0.0}
            return 1
        counts = count_hankel(rest, basis, self._engine())
        seen, apart = (Counter(x.words for x in part) for part in (rest, held))

        def learn(n: int) -> WeightedGrammar:
            return self._learn(basis, counts, n, string_info(n_strings=np.inf))

        return choose_states(info, learn, seen, apart, min(basis.shape))


class SpectralWFA(RankParameters):
    """Weighted automaton from strings, by one SVD of prefixes and suffixes.

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
        counts = read_strings(strings)
        info = string_info(n_strings=float(counts.total()))
        n = self.n_states
        if n is None and self.choose == "held-out":
            rest, held = split_counts(counts)
            n = choose_states(
                info, lambda k: self._learn(rest, k, string_info()), rest, held, len(counts)
            )
        self.model_ = self._learn(counts, n, info)
        self.info_ = info
        return self

    def _learn(self, counts: Mapping[Inside, float], n: int | None, info: Info) -> SequenceModel:
        observed = frequencies(counts)
        symbols = symbols_of(observed)
        refuse_large_automaton(observed, len(symbols), n or 1)
        blocks = PrefixBlocks.of(observed, symbols, self.basis)
        matrix = blocks.matrix
        info.extra["basis"] = matrix.shape
        noise = sampling_noise(matrix, info.extra["n_strings"] or np.inf)
        factors, initial, final, made = automaton(matrix, blocks.steps, len(symbols), n, noise)
        info.extra["singular_values"] = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        return SequenceModel(symbols, initial, final, made, string_record(info, "wfa", factors.n))


def refuse_large_automaton(observed: Mapping[Inside, float], n_symbols: int, n: int) -> None:
    """Refuse strings, or a number of states, that need more memory than is free."""
    n_cuts = len(observed) + sum(map(len, observed))
    size = f"{n:,} states" if n > 1 else "1 state"
    require_memory(
        BYTES_A_CUT * n_cuts + 24 * n_symbols * n * n,
        f"an automaton of {n_symbols:,} symbols and {size} from {n_cuts:,} cuts of strings",
        "give fewer strings, replace rare symbols by one, or ask for fewer --states",
    )


@dataclass(frozen=True, eq=False)
class PrefixBlocks:
    """The blocks H and H_sigma in the basis of the most frequent prefixes and suffixes.

    Attributes
    ----------
    matrix : [p, s]
        H; the empty prefix and the empty suffix come first.
    steps
        H_sigma of all symbols, as entries.
    """

    matrix: sp.csr_array
    steps: StepEntries

    @classmethod
    def of(
        cls, observed: Mapping[Inside, float], symbols: tuple[str, ...], factor: float
    ) -> PrefixBlocks:
        """Blocks of observed strings.

        Parameters
        ----------
        factor
            The fraction of all prefixes, and of all suffixes, that is taken, the commonest first.

        Examples
        --------
        >>> blocks = PrefixBlocks.of({("a",): 0.75, ("a", "b"): 0.25}, ("a", "b"), 1.0)
        >>> blocks.matrix.toarray().tolist()
        [[0.0, 0.75, 0.0, 0.25], [0.75, 0.0, 0.25, 0.0], [0.25, 0.0, 0.0, 0.0]]
        """
        number = {symbol: place for place, symbol in enumerate(symbols)}
        starts = starts_of([len(x) for x in observed])
        words = np.fromiter((number[w] for x in observed for w in x), np.int64, starts[-1])
        weight = np.fromiter(observed.values(), float, len(observed))
        # The cuts of a string are contiguous, one more than it has symbols.
        sizes = np.diff(starts) + 1
        is_last = np.zeros(len(words) + len(sizes), bool)
        is_last[starts_of(sizes)[1:] - 1] = True
        rows, p = _choose(*number_cuts(words, starts, len(symbols), weight), factor)
        at_end = number_cuts(words, starts, len(symbols), weight, from_end=True)
        columns, s = _choose(*at_end, factor)
        value = np.repeat(weight, sizes)
        kept = (rows >= 0) & (columns >= 0)
        entries = (value[kept], (rows[kept], columns[kept]))
        matrix = sp.csr_array(sp.coo_array(entries, shape=(p, s)))
        # A step reads the symbol behind its cut: its suffix begins at the next cut.
        before = np.flatnonzero(~is_last)
        kept = (rows[before] >= 0) & (columns[before + 1] >= 0)
        before = before[kept]
        steps = StepEntries(rows[before], columns[before + 1], words[kept], value[before])
        return cls(matrix, steps)


def number_cuts(
    words: IntArray, starts: IntArray, n_symbols: int, weight: FloatArray, *, from_end: bool = False
) -> tuple[IntArray, FloatArray]:
    """Number the prefix before each cut of some strings, or the suffix after it.

    Equal ones have one number. Numbers rise with the length, and among equal lengths in the order
    of the symbols.

    Parameters
    ----------
    words, starts
        Symbols of all strings, and where each string starts.
    weight
        Of each string.

    Returns
    -------
    The number at each cut, and the total weight of each number.

    Examples
    --------
    >>> numbers, total = number_cuts(np.array([0, 0, 1]), np.array([0, 1, 3]), 2, np.ones(2))
    >>> numbers.tolist(), total.tolist()
    ([0, 1, 0, 1, 2], [2.0, 2.0, 1.0])
    """
    lengths = np.diff(starts)
    first_cut = starts[:-1] + np.arange(len(lengths)) + (lengths if from_end else 0)
    step = -1 if from_end else 1
    numbers = np.zeros(len(words) + len(lengths), np.int64)
    totals, n_numbers = [np.array([weight.sum()])], 1
    here, n_here, depth = np.zeros(len(lengths), np.int64), 1, 0
    alive = np.arange(len(lengths))
    while True:
        longer = lengths[alive] > depth
        alive, here = alive[longer], here[longer]
        if len(alive) <= 1:
            break
        symbol = words[starts[alive + 1] - 1 - depth if from_end else starts[alive] + depth]
        depth += 1
        key = symbol * n_here + here if from_end else here * n_symbols + symbol
        found, here = np.unique(key, return_inverse=True)
        n_here = len(found)
        numbers[first_cut[alive] + step * depth] = n_numbers + here
        totals.append(np.bincount(here, weight[alive], n_here))
        n_numbers += n_here
    for string in alive:  # from here on the string is unlike all others
        rest = np.arange(lengths[string] - depth)
        numbers[first_cut[string] + step * (depth + 1 + rest)] = n_numbers + rest
        totals.append(np.full(len(rest), weight[string]))
    return numbers, np.concatenate(totals)


def _choose(numbers: IntArray, total: FloatArray, factor: float) -> tuple[IntArray, int]:
    """The index in the basis of the prefix or suffix at each cut, or -1; the size of the basis."""
    size = ceil(factor * len(total) - 1e-9)
    chosen = np.argsort(-total, kind="stable")[:size]
    chosen = np.concatenate([[0], chosen[chosen != 0]])  # the empty one is always there, and first
    place = np.full(len(total), -1)
    place[chosen] = np.arange(len(chosen))
    return place[numbers], len(chosen)
