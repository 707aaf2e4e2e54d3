"""Whether a pretrained encoder helps on a treebank: two short trainings, scored on held-out trees.

An encoder for another language, or one that lowercases where case matters, may help a network
less than its own vectors do. Every family trains a small network with the encoder and one
without it on some sentences of the treebank, and scores both on others. Dev trees are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import IntArray

TRIAL_WORDS, HELD_WORDS, PASSES = 15_000, 4_000, 6
RUN = 10  # neighbouring sentences are held out together: texts are of one kind
LEAST_GAIN = 0.5  # percent points, of the score on held-out sentences: less is noise
LEAST_HELD = 30  # sentences: with fewer, the encoder is taken as it is


class TrialSplit(NamedTuple):
    """Sentences of a treebank that a trial learns from, and those that judge."""

    train: IntArray
    held: IntArray

    @classmethod
    def of(cls, lengths: Sequence[int]) -> TrialSplit | None:
        """Ranges of neighbours from the whole treebank; None where it is too small to decide.

        Examples
        --------
        >>> split = TrialSplit.of([20] * 2000)
        >>> len(split.train), len(split.held), set(split.train) & set(split.held)
        (750, 199, set())
        >>> TrialSplit.of([20] * 40) is None
        True
        """
        words = np.asarray(lengths)
        run = np.arange(len(words)) // RUN
        order = np.random.default_rng(0).permutation(run[-1] + 1 if len(run) else 0)
        by_run = np.argsort(order[run], kind="stable")  # runs in random order
        so_far = np.cumsum(words[by_run])
        n_held = int(np.searchsorted(so_far, min(HELD_WORDS, so_far[-1] / 5 if len(words) else 0)))
        n_train = int(np.searchsorted(so_far, so_far[n_held] + TRIAL_WORDS)) if n_held else 0
        held, train = by_run[:n_held], by_run[n_held : n_train or None]
        if len(held) < LEAST_HELD:
            return None
        return cls(np.sort(train), np.sort(held))


def is_helpful(with_encoder: float, without: float) -> bool:
    """Whether the scores of a trial, in percent, speak for the encoder."""
    return with_encoder - without >= LEAST_GAIN
