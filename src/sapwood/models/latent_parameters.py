"""`LatentParameters`: numbers for every symbol, state and seen word of a latent grammar.

Notation
--------
    rules   t(a -> b c, p, q | a, h), tensors [m(a), m(b), m(c)] one after the other
    words   q(x | a, h) for the pairs (a, x) of tag and word of the training trees, [m(a)] each
    root    pi(a, h), [m(a)] each

Unlike a `LatentGrammar` they know only words and pairs that were seen; unknown words come in when a
grammar is made of them. How they are learnt is told in `estimators`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sapwood.arrays import ranges, starts_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LatentParameters:
    """Probabilities, or expected counts, per symbol and state; see the notation of this module.

    Attributes
    ----------
    n_states : [n_symbols]
    symbols_of : [n_rules, 3]
        Symbols a, b, c of each rule.
    symbol_of_pair : [n_pairs]
        The tag symbol of each pair of tag and word.
    root, rules, words
        Probabilities, flat.
    """

    n_states: IntArray
    symbols_of: IntArray
    symbol_of_pair: IntArray
    root: FloatArray
    rules: FloatArray
    words: FloatArray

    @cached_property
    def state_start(self) -> IntArray:
        """Where the states of each symbol start, [n_symbols + 1]."""
        return starts_of(self.n_states)

    @cached_property
    def rule_start(self) -> IntArray:
        """Where the tensor of each rule starts, [n_rules + 1]."""
        return starts_of(self.n_states[self.symbols_of].prod(axis=1))

    @cached_property
    def word_start(self) -> IntArray:
        """Where the vector of each pair starts, [n_pairs + 1]."""
        return starts_of(self.n_states[self.symbol_of_pair])

    @cached_property
    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Sum of all rules, and of all words, of each state."""
        m, n = self.n_states[self.symbols_of], int(self.state_start[-1])
        first = self.state_start[self.symbols_of[:, 0]]
        length = np.repeat(m[:, 1] * m[:, 2], m[:, 0])  # of each row [h] of each tensor
        starts = starts_of(length)[:-1]
        rows = np.add.reduceat(self.rules, starts) if len(starts) else np.empty(0)
        by_rules = np.bincount(ranges(first, first + m[:, 0]), rows, n)
        first = self.state_start[self.symbol_of_pair]
        of_word = ranges(first, first + self.n_states[self.symbol_of_pair])
        return np.asarray(by_rules), np.asarray(np.bincount(of_word, self.words, n))

    def state_totals(self) -> FloatArray:
        """Sum of all rules and words of each state: its expected count, where these are counts."""
        by_rules, by_words = self.totals
        return np.asarray(by_rules + by_words)

    def tensors(self) -> Iterator[tuple[list[int], FloatArray]]:
        """The symbols and the tensor of every rule."""
        for symbols, (first, last) in zip(
            self.symbols_of.tolist(), pairwise(self.rule_start.tolist()), strict=True
        ):
            yield symbols, self.rules[first:last].reshape(self.n_states[symbols])

    def emissions(self) -> Iterator[tuple[int, FloatArray]]:
        """The tag symbol and the vector of every pair of tag and word."""
        for symbol, (first, last) in zip(
            self.symbol_of_pair.tolist(), pairwise(self.word_start.tolist()), strict=True
        ):
            yield symbol, self.words[first:last]

    def roots(self) -> Iterator[tuple[int, FloatArray]]:
        """Every symbol and its vector of roots."""
        for symbol, (first, last) in enumerate(pairwise(self.state_start.tolist())):
            yield symbol, self.root[first:last]
