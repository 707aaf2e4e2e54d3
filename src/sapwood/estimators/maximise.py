"""The M-step: expected counts become probabilities, and states are pulled towards their mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sapwood.models.latent_parameters import LatentParameters

FloatArray = npt.NDArray[np.float64]


class Counts(Protocol):
    """Numbers in the layout of parameters."""

    @property
    def root(self) -> FloatArray:
        """Of root symbols by state."""

    @property
    def rules(self) -> FloatArray:
        """Of rules by states."""

    @property
    def words(self) -> FloatArray:
        """Of pairs of tag and word by state."""


def maximise(
    layout: LatentParameters, counts: Counts, rules: float = 0.0, words: float = 0.0
) -> LatentParameters:
    """Whatever each symbol and state became, divided by its total; then `smooth`, in one pass.

    Parameters
    ----------
    layout
        Parameters with the same symbols and states.
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
    from sapwood.kernels.treebank_em import mix_states

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
