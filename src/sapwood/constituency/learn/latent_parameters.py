"""`LatentParameters`: numbers for every symbol, state and seen word; M-step, split and join.

Notation
--------
    rules   t(a -> b c, p, q | a, h), tensors [m(a), m(b), m(c)] one after the other
    words   q(x | a, h) for the pairs (a, x) of tag and word of the training trees, [m(a)] each
    root    pi(a, h), [m(a)] each

    origin  the state, before the last split, that a state came from; two states of a symbol with
            the same origin are siblings

Unlike a `LatentGrammar` they know only words and pairs that were seen; unknown words come in when a
grammar is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray, ranges, starts_of

SPLIT_NOISE = 0.01


@dataclass(frozen=True, eq=False)
class LatentParameters:
    """Probabilities, or expected counts, per symbol and state; see the notation of this module."""

    n_states: IntArray  # [n_symbols]
    symbols_of: IntArray  # [n_rules, 3]: symbols a, b, c of each rule
    symbol_of_pair: IntArray  # [n_pairs]: the tag symbol of each pair of tag and word
    # probabilities, flat
    root: FloatArray
    rules: FloatArray
    words: FloatArray
    # where the states of each symbol, the tensor of each rule and the vector of each pair start
    state_start: IntArray = field(init=False, repr=False)
    rule_start: IntArray = field(init=False, repr=False)
    word_start: IntArray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        m = self.n_states
        sizes = {
            "state_start": m, "rule_start": m[self.symbols_of].prod(axis=1),
            "word_start": m[self.symbol_of_pair],
        }  # fmt: skip
        for name, each in sizes.items():
            object.__setattr__(self, name, starts_of(each))

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


def maximise(
    layout: LatentParameters,
    counts: Any,
    rules: float = 0.0,
    words: float = 0.0,
) -> LatentParameters:
    """Whatever each symbol and state became, divided by its total; then `smooth`, in one pass.

    Parameters
    ----------
    layout
        Parameters with the same symbols and states.
    counts
        With `root`, `rules` and `words`, numbers in that layout.
    rules, words
        How far states are pulled towards their mean, see `smooth`.
    """
    poured = replace(layout, root=counts.root, rules=counts.rules, words=counts.words)
    return _mix(poured, rules, words, _divisors(poured.state_totals()))


def normalise(parameters: LatentParameters) -> LatentParameters:
    """Probabilities of numbers that are only proportional to them."""
    return maximise(parameters, parameters)


def smooth(parameters: LatentParameters, rules: float, words: float) -> LatentParameters:
    """Pull the states of each symbol towards their mean (Petrov et al. 2006)."""
    return _mix(parameters, rules, words, np.ones(int(parameters.state_start[-1])))


def _mix(
    given: LatentParameters, rules: float, words: float, before: FloatArray
) -> LatentParameters:
    """Divide each state by `before`, pull states to their mean, and normalise."""
    from sapwood.constituency.learn.kernels.treebank_em import mix_states

    m, m_tag = given.n_states[given.symbols_of], given.n_states[given.symbol_of_pair]
    parents = np.ascontiguousarray(m[:, 0])  # one type of array: the kernel compiles once
    by_rules, by_words = given.totals
    # the totals of mixed numbers are the mixed totals
    after = _pull(given, by_rules / before, rules) + _pull(given, by_words / before, words)
    new_rules, new_words = np.empty_like(given.rules), np.empty_like(given.words)
    mix_states(
        given.rule_start[:-1], given.state_start[given.symbols_of[:, 0]], parents,
        m[:, 1] * m[:, 2], before, rules, _divisors(after), given.rules, new_rules,
    )  # fmt: skip
    mix_states(
        given.word_start[:-1], given.state_start[given.symbol_of_pair], m_tag,
        np.ones_like(m_tag), before, words, _divisors(after), given.words, new_words,
    )  # fmt: skip
    return replace(given, root=given.root / given.root.sum(), rules=new_rules, words=new_words)


def _pull(given: LatentParameters, total: FloatArray, amount: float) -> FloatArray:
    """Totals of all states, pulled to their mean over the states of each symbol."""
    mean = np.add.reduceat(total, given.state_start[:-1]) / given.n_states
    return np.asarray((1.0 - amount) * total + amount * np.repeat(mean, given.n_states))


def _divisors(total: FloatArray) -> FloatArray:
    """The totals, or 1 for states that nobody uses."""
    return np.where(total >= np.finfo(float).tiny, total, 1.0)


def split(
    parameters: LatentParameters, target: IntArray, rng: np.random.Generator
) -> tuple[LatentParameters, IntArray]:
    """Split states in two, as many as it takes to reach the target of each symbol.

    Returns
    -------
    The new parameters and the origin of every state, symbol by symbol.
    """
    old = []
    for m, wanted in zip(parameters.n_states.tolist(), target.tolist(), strict=True):
        states = np.arange(m)
        old.append(np.sort(np.concatenate([states, states[: max(0, min(wanted, 2 * m) - m)]])))
    return copy_states(parameters, old, rng), np.concatenate(old)


def matsuzaki(
    plain: LatentParameters, target: IntArray, rng: np.random.Generator
) -> LatentParameters:
    """All states at once: treebank frequencies times exp(u), u uniform in [-ln 3, ln 3]."""
    copied = copy_states(plain, [np.zeros(m, np.int64) for m in target.tolist()], None)

    def shake(numbers: FloatArray) -> FloatArray:
        return np.asarray(numbers * np.exp(rng.uniform(-np.log(3), np.log(3), len(numbers))))

    return normalise(
        replace(
            copied, root=shake(copied.root), rules=shake(copied.rules), words=shake(copied.words)
        )
    )


def copy_states(
    given: LatentParameters, old: list[IntArray], rng: np.random.Generator | None
) -> LatentParameters:
    """Give every symbol new states, each a copy of an old one.

    Parameters
    ----------
    old
        For each symbol, the old state that each new state copies. A child's old state shares its
        probability among its copies.
    rng
        Of the noise of 1 % that makes copies differ; None for none.
    """
    copies = [
        np.bincount(states, minlength=m)
        for states, m in zip(old, given.n_states.tolist(), strict=True)
    ]
    share = [1.0 / n[states] for states, n in zip(old, copies, strict=True)]
    tensors = [
        (tensor[np.ix_(old[a], old[b], old[c])] * share[b][:, None] * share[c]).ravel()
        for (a, b, c), tensor in given.tensors()
    ]
    words = [vector[old[a]] for a, vector in given.emissions()]
    root = [vector[old[a]] * share[a] for a, vector in given.roots()]
    parts = [np.concatenate([np.empty(0), *part]) for part in (root, tensors, words)]
    if rng is not None:
        parts = [part * (1 + SPLIT_NOISE * rng.uniform(-1, 1, len(part))) for part in parts]
    sizes = np.array([len(states) for states in old])
    return normalise(LatentParameters(sizes, given.symbols_of, given.symbol_of_pair, *parts))


def join_states(
    given: LatentParameters, joined: list[IntArray], weight: FloatArray
) -> LatentParameters:
    """Join states of symbols: a joined state behaves as its parts do on average.

    Parameters
    ----------
    joined
        For each symbol, the new state that each old state becomes part of.
    weight : [sum of n_states]
        How frequent each old state is, within its symbol.
    """
    new, share = [], []  # membership [old, new], and the same with columns that sum to 1
    for states, w in zip(joined, np.split(weight, given.state_start[1:-1]), strict=True):
        member = np.eye(int(states.max()) + 1)[states]
        weighted = member * np.maximum(w, 1e-300)[:, None]  # states nobody uses still have a mean
        new.append(member)
        share.append(weighted / weighted.sum(axis=0))
    tensors = [
        (new[b].T @ (np.tensordot(share[a], tensor, (0, 0)) @ new[c])).ravel()
        for (a, b, c), tensor in given.tensors()
    ]
    words = [vector @ share[a] for a, vector in given.emissions()]
    root = [vector @ new[a] for a, vector in given.roots()]
    parts = [np.concatenate([np.empty(0), *part]) for part in (root, tensors, words)]
    sizes = np.array([member.shape[1] for member in new])
    return normalise(LatentParameters(sizes, given.symbols_of, given.symbol_of_pair, *parts))


def sibling_pairs(parameters: LatentParameters, origin: IntArray) -> IntArray:
    """Symbol and states of all siblings, shape [n_pairs, 3]; splits leave siblings side by side."""
    symbol = np.repeat(np.arange(len(parameters.n_states)), parameters.n_states)
    first = np.flatnonzero((origin[1:] == origin[:-1]) & (symbol[1:] == symbol[:-1]))
    state = first - parameters.state_start[symbol[first]]
    return np.stack([symbol[first], state, state + 1], axis=1)
