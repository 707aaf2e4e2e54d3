"""Second moments of words and of exponential smooths of the words around them: sums that add.

Notation (Dhillon, Foster and Ungar 2011)
-----------------------------------------
    A       vectors of words                                                        [n, k]
    L_t     smooths of the words before place t, one for each rate a, in one row    [r k]
            L_t = (1 - a) L_(t-1) + a A[w_(t-1)],   0 at the start of a sentence
    R_t     the same of the words behind it, from the end of the sentence
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.corpora.eigenwords import smooth_contexts

CHUNK_NUMBERS = 2_000_000  # of the smooths of one side that are in memory at a time


@dataclass(frozen=True, eq=False)
class SmoothMoments:
    """Sums over the places of a text; `+` joins shards.

    Attributes
    ----------
    words : [n]
        How often each word occurs.
    left, right, across : [r k, r k]
        L' L, R' R and L' R.
    word_left, word_right : [n, r k]
        Sums of the smooths on each side of every word.
    """

    words: FloatArray
    left: FloatArray
    right: FloatArray
    across: FloatArray
    word_left: FloatArray
    word_right: FloatArray

    @classmethod
    def of(
        cls,
        shard: tuple[IntArray, IntArray],
        A: FloatArray,
        rates: tuple[float, ...],
    ) -> SmoothMoments:
        """Of a shard: rows of its words, and where its sentences start and end.

        Smooths of a few sentences are in memory at a time, and longer sentences are cut, so that
        memory does not grow with the text.
        """
        n, width = len(A), A.shape[1] * len(rates)
        shapes = [(n,), (width, width), (width, width), (width, width), (n, width), (n, width)]
        sums = [np.zeros(shape) for shape in shapes]
        for rows, offsets in _chunks(*shard, max(CHUNK_NUMBERS // width, 1)):
            L, R = smooth_contexts(A[rows], offsets, rates)
            places = np.arange(len(rows) + 1)
            show = sparse.csr_array((np.ones(len(rows)), rows, places), shape=(len(rows), n))
            parts = (np.bincount(rows, minlength=n), L.T @ L, R.T @ R, L.T @ R, show.T @ L,
                     show.T @ R)  # fmt: skip
            sums = [total + part for total, part in zip(sums, parts, strict=True)]
        return cls(*sums)

    def __add__(self, other: SmoothMoments) -> SmoothMoments:
        mine, others = vars(self).values(), vars(other).values()
        return SmoothMoments(*(a + b for a, b in zip(mine, others, strict=True)))


def _chunks(rows: IntArray, offsets: IntArray, size: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Groups of whole sentences of a limited number of words; longer sentences in pieces."""
    cuts = np.concatenate([np.arange(a, b, size) for a, b in pairwise(offsets)] + [offsets[-1:]])
    first = 0
    while first < len(cuts) - 1:
        last = max(int(np.searchsorted(cuts, cuts[first] + size, "right")) - 1, first + 1)
        yield rows[cuts[first] : cuts[last]], cuts[first : last + 1] - cuts[first]
        first = last
