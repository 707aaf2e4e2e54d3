"""`LatentParameters`: the probabilities of a latent grammar while EM works on them.

Notation
--------
    rules   t(a -> b c, p, q | a, h), tensors [m(a), m(b), m(c)] one after the other
    words   q(x | a, h) for the pairs (a, x) of tag and word of the training trees, [m(a)] each
    root    pi(a, h), [m(a)] each

Unlike a `LatentGrammar` they know only words and pairs that were seen; unknown words come in when a
grammar is made of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from sapwood.arrays import ranges, starts_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SPLIT_NOISE = 0.01


@dataclass(frozen=True, eq=False)
class LatentParameters:
    """Probabilities per symbol and state; see the notation of this module.

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
    def _rule_rows(self) -> tuple[IntArray, IntArray, IntArray]:
        """Start, length and state of each row [h] of each tensor."""
        m = self.n_states[self.symbols_of]
        length = np.repeat(m[:, 1] * m[:, 2], m[:, 0])
        a = self.symbols_of[:, 0]
        state = ranges(self.state_start[a], self.state_start[a + 1])
        return starts_of(length)[:-1], length, state

    @cached_property
    def _word_states(self) -> IntArray:
        """State of each number in `words`."""
        symbol = self.symbol_of_pair
        return ranges(self.state_start[symbol], self.state_start[symbol + 1])

    def normalised(self) -> LatentParameters:
        """The M-step: whatever each symbol and state became, divided by its total."""
        return self._mixed(0.0, 0.0, _divisors(self.state_totals()))

    def smoothed(self, rules: float, words: float) -> LatentParameters:
        """Pull the states of each symbol towards their mean (Petrov et al. 2006)."""
        return self._mixed(rules, words, np.ones(int(self.state_start[-1])))

    def maximised(self, rules: float, words: float) -> LatentParameters:
        """`normalised`, then `smoothed`, in one pass over all numbers."""
        return self._mixed(rules, words, _divisors(self.state_totals()))

    def _mixed(self, rules: float, words: float, before: FloatArray) -> LatentParameters:
        """Divide each state by `before`, pull states to their mean, and normalise."""
        from sapwood.kernels.treebank_em import mix_states

        m, m_tag = self.n_states[self.symbols_of], self.n_states[self.symbol_of_pair]
        parents = np.ascontiguousarray(m[:, 0])  # one type of array: the kernel compiles once
        by_rules, by_words = self._totals
        # the totals of mixed numbers are the mixed totals
        after = self._pulled(by_rules / before, rules) + self._pulled(by_words / before, words)
        new_rules, new_words = np.empty_like(self.rules), np.empty_like(self.words)
        mix_states(
            self.rule_start[:-1], self.state_start[self.symbols_of[:, 0]], parents,
            m[:, 1] * m[:, 2], before, rules, _divisors(after), self.rules, new_rules,
        )  # fmt: skip
        mix_states(
            self.word_start[:-1], self.state_start[self.symbol_of_pair], m_tag,
            np.ones_like(m_tag), before, words, _divisors(after), self.words, new_words,
        )  # fmt: skip
        return replace(self, root=self.root / self.root.sum(), rules=new_rules, words=new_words)

    def _pulled(self, total: FloatArray, amount: float) -> FloatArray:
        """Totals of all states, pulled to their mean over the states of each symbol."""
        mean = np.add.reduceat(total, self.state_start[:-1]) / self.n_states
        return np.asarray((1.0 - amount) * total + amount * np.repeat(mean, self.n_states))

    def restated(self, old: list[IntArray], rng: np.random.Generator | None) -> LatentParameters:
        """Give every symbol new states, each a copy of an old one.

        Parameters
        ----------
        old
            For each symbol, the old state that each new state copies. A child's old state shares
            its probability among its copies.
        rng
            Of the noise of 1 % that makes copies differ; None for none.
        """
        copies = [
            np.bincount(states, minlength=int(m))
            for states, m in zip(old, self.n_states, strict=True)
        ]
        share = [1.0 / n[states] for states, n in zip(old, copies, strict=True)]
        tensors = []
        for r, (first, last) in enumerate(pairwise(self.rule_start.tolist())):
            a, b, c = self.symbols_of[r].tolist()
            tensor = self.rules[first:last].reshape(self.n_states[[a, b, c]])
            new = tensor[np.ix_(old[a], old[b], old[c])] * share[b][:, None] * share[c]
            tensors.append(new.ravel())
        words = [
            self.words[first:last][old[a]]
            for a, (first, last) in zip(
                self.symbol_of_pair.tolist(), pairwise(self.word_start.tolist()), strict=True
            )
        ]
        root = [
            self.root[first:last][old[a]] * share[a]
            for a, (first, last) in enumerate(pairwise(self.state_start.tolist()))
        ]
        parts = [np.concatenate(part) if part else np.empty(0) for part in (root, tensors, words)]
        if rng is not None:
            parts = [part * (1 + SPLIT_NOISE * rng.uniform(-1, 1, len(part))) for part in parts]
        sizes = np.array([len(states) for states in old])
        made = LatentParameters(sizes, self.symbols_of, self.symbol_of_pair, *parts)
        return made.normalised()

    def state_totals(self) -> FloatArray:
        """Sum of all rules and words of each state: its expected count, where these are counts."""
        by_rules, by_words = self._totals
        return np.asarray(by_rules + by_words)

    @cached_property
    def _totals(self) -> tuple[FloatArray, FloatArray]:
        """Sum of all rules, and of all words, of each state."""
        start, _, state = self._rule_rows
        n = int(self.state_start[-1])
        rows = np.add.reduceat(self.rules, start) if len(start) else np.empty(0)
        by_rules = np.bincount(state, rows, n)
        return np.asarray(by_rules), np.asarray(np.bincount(self._word_states, self.words, n))

    def merged(self, joined: list[IntArray], weight: FloatArray) -> LatentParameters:
        """Join states of symbols: a joined state behaves as its parts do on average.

        Parameters
        ----------
        joined
            For each symbol, the new state that each old state becomes part of.
        weight : [sum of n_states]
            How frequent each old state is, within its symbol.
        """
        new, share = _joining(joined, np.split(weight, self.state_start[1:-1]))
        tensors = []
        for r, (first, last) in enumerate(pairwise(self.rule_start.tolist())):
            a, b, c = self.symbols_of[r].tolist()
            tensor = self.rules[first:last].reshape(self.n_states[[a, b, c]])
            tensors.append(_contract(tensor, share[a], new[b], new[c]))
        words = [
            self.words[first:last] @ share[a]
            for a, (first, last) in zip(
                self.symbol_of_pair.tolist(), pairwise(self.word_start.tolist()), strict=True
            )
        ]
        root = [
            self.root[first:last] @ new[a]
            for a, (first, last) in enumerate(pairwise(self.state_start.tolist()))
        ]
        parts = [np.concatenate(part) if part else np.empty(0) for part in (root, tensors, words)]
        sizes = np.array([matrix.shape[1] for matrix in new])
        made = LatentParameters(sizes, self.symbols_of, self.symbol_of_pair, *parts)
        return made.normalised()


def _joining(
    joined: list[IntArray], weight: list[FloatArray]
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Membership [old, new] of each symbol's states, and the same with columns that sum to 1."""
    new = [np.eye(int(states.max()) + 1)[states] for states in joined]
    share = []
    for member, w in zip(new, weight, strict=True):
        weighted = member * np.maximum(w, 1e-300)[:, None]  # states nobody uses still have a mean
        share.append(weighted / weighted.sum(axis=0))
    return new, share


def _contract(tensor: FloatArray, a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Sum over h, p, q of tensor[h, p, q] a[h, i] b[p, j] c[q, k], flat."""
    return np.asarray((b.T @ (np.tensordot(a, tensor, (0, 0)) @ c)).ravel())


def _divisors(total: FloatArray) -> FloatArray:
    """The totals, or 1 for states that nobody uses."""
    return np.where(total >= np.finfo(float).tiny, total, 1.0)
