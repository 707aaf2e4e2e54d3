"""`TrainingVectors`: the standardised vectors of training sentences, for every network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np

from sapwood.core.arrays import IntArray
from sapwood.networks.network import Real
from sapwood.networks.pretrained.source import GivenVectors, WordSource, standardisation
from sapwood.networks.pretrained.store import RESIDENT_BYTES, StoredVectors, VectorStore

# bytes of the tokeniser and of the kernels; copies of the weights while they are read
_START_BYTES, _COPIES = 150e6, 2


def given_bytes(source: WordSource | None) -> float:
    """Estimate the bytes that vectors from a source take in training; 0 for none.

    Vectors lie on disk; only some of them are in memory at once, however large the treebank.
    """
    if source is None:
        return 0.0
    return _START_BYTES + _COPIES * source.n_bytes + RESIDENT_BYTES


class TrainingVectors:
    """Vectors of training sentences from a source, standardised over all their words."""

    def __init__(self, learnt: GivenVectors, stored: StoredVectors) -> None:
        self.learnt, self._stored = learnt, stored

    @classmethod
    def of(
        cls,
        source: WordSource,
        sentences: Sequence[Sequence[str]],
        *,
        jobs: int = 1,
        folder: Path | None = None,
    ) -> Self:
        """Make the vectors, or take those that are on disk."""
        stored = VectorStore(source, folder).sentences(sentences, jobs)
        held = source if source.is_held else None
        moments = standardisation(*stored.moments())
        return cls(GivenVectors(source.record, *moments, held), stored)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return len(self.learnt.mean)

    def of_sentences(self, sentences: IntArray) -> Real:
        """Standardised vectors of the words of some sentences, one after the other."""
        found = np.concatenate([self._stored.of(k) for k in sentences.tolist()])
        return self.learnt.standardised(found)
