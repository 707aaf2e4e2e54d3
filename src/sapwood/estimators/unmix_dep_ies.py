"""`UnmixDEPIES`: a dependency model with hidden trees from plain sentences, in closed form.

Notation (IDENT, section 5.3)
-----------------------------
    pi, A     words, and argument given its head; A pi = pi          [d], [d, d]
    D         diag(pi)
    mu_1      E[x] = pi, at every position of every length
    mu_12, mu_13   E[x_1 (x) x_2], E[x_1 (x) x_3] for sentences of three words
    mu~_12    E[x_1 (x) x_2] for sentences of two words, (D A' + A D) / 2

1. A A + A = [7 (mu_13 - mu_12) + 2 mu~_12] D^-1.
2. Each eigenvalue lam of A is one of two roots of lam^2 + lam = c; the choice that fits mu_12,
   mu_13 and mu~_12 best is taken, conjugate pairs together.
3. Both margins of A D, argument and head, are pi, which all words of all sentences count: A D is
   scaled to have them.
4. Refine with sentences of all lengths, if wanted.

Trees are counted alike from both ends, so that pairs (i, j) and (n + 1 - j, n + 1 - i) are
transposes: their mean is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np

from sapwood.arrays import FloatArray
from sapwood.decompose.diagonalise import Roots, stochastic_root
from sapwood.errors import SapwoodError
from sapwood.estimators.shared_parameters import OfHiddenTrees
from sapwood.estimators.uniform_families import DEP_IES
from sapwood.estimators.unmix import (
    UnmixInfo,
    check_conditioning,
    check_fit,
    clip_columns,
    count_sentences,
    refine,
)
from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts

TINY = 1e-13
MOST_ROUNDS = 1000  # of balancing; 20 do, mostly
MAX_WORDS = 300  # every eigenvalue of words x words has a root to choose
# Roots nearer than that move with the square root of the noise, not with its slope.
NEAR_ROOTS = 1e-2


class PairMoments(NamedTuple):
    """The moments of section 5.3, each [d, d]."""

    mu_12: FloatArray
    mu_13: FloatArray
    two: FloatArray


class UnmixDEPIES(OfHiddenTrees):
    """DEP-IES from sentences, without trees.

    Attributes
    ----------
    model_ : UniformTreeModel
    info_ : UnmixInfo
    roots_ : Roots
        The choice of eigenvalues.
    """

    def fit(self, sentences: Iterable[Sequence[str]]) -> Self:
        """Learn from sentences, each a list of words; some need two words, and some three."""
        self._check_parameters()
        vocabulary, counts = count_sentences(sentences, MAX_WORDS)
        DEP_IES.require_lengths(counts)
        return self.fit_counts(counts, vocabulary)

    def fit_counts(self, counts: SentenceCounts, vocabulary: Sequence[str] | None = None) -> Self:
        """Learn from sentences that are counted already."""
        self._check_parameters()
        names = tuple(vocabulary or map(str, range(counts.n_words)))
        info = UnmixInfo({n: counts.n_sentences(n) for n in counts.lengths})
        pairs = PairMoments(
            _mean_of_ends(counts.joint(3, (1, 2)), counts.joint(3, (2, 3))),
            _mean_of_ends(counts.joint(3, (1, 3)), counts.joint(3, (1, 3))),
            _mean_of_ends(counts.joint(2, (1, 2)), counts.joint(2, (1, 2))),
        )
        tables = self._unmix(pairs, counts.words(), info)
        n = min(counts.n_sentences(2), counts.n_sentences(3))
        check_conditioning(info, n)
        self._check_roots(info)
        start = UniformTreeModel(DEP_IES.name, names, tables)
        self.model_ = refine(start, counts, info, self.get_params())
        check_fit(info, self.model_, counts)
        self.info_ = info
        return self

    def fit_moments(
        self,
        mu_12: FloatArray,
        mu_13: FloatArray,
        two: FloatArray,
        vocabulary: Sequence[str] | None = None,
    ) -> Self:
        """Learn from exact distributions of pairs of words.

        Parameters
        ----------
        mu_12, mu_13 : [d, d]
            Of the first two, and of the first and last word of three-word sentences.
        two : [d, d]
            Of two-word sentences.
        """
        self._check_parameters()
        self.info_ = UnmixInfo({2: np.inf, 3: np.inf})
        tables = self._unmix(PairMoments(mu_12, mu_13, two), two.sum(axis=1), self.info_)
        names = tuple(vocabulary or map(str, range(len(two))))
        self.model_ = UniformTreeModel(DEP_IES.name, names, tables)
        return self

    def _unmix(self, pairs: PairMoments, pi: FloatArray, info: UnmixInfo) -> dict[str, FloatArray]:
        if (pi <= 0).any():
            msg = f"word number {int(np.argmin(pi))} never occurs, so nothing is known below it"
            raise SapwoodError(msg, hint="leave it out of the vocabulary")
        self.roots_ = find_root(pairs, pi)
        info.gap = self.roots_.gap
        info.noise_gain = _noise_gain(self.roots_, pi)
        argument, info.clipped = clip_columns(_with_pairs(self.roots_.A, pairs, pi))
        return {"root": pi, "argument": _balance(argument * pi, pi) / pi}

    def _check_roots(self, info: UnmixInfo) -> None:
        if self.roots_.runner_up < 1.5 * self.roots_.mismatch:
            info.warn(
                "two choices of eigenvalues fit the pairs of words about equally well "
                f"({self.roots_.mismatch:.3g} and {self.roots_.runner_up:.3g}): more sentences of "
                "two and three words, or EM, would decide"
            )


def find_root(pairs: PairMoments, pi: FloatArray) -> Roots:
    """Steps 1 and 2: A A + A from the moments, and its root that fits them."""
    C = (7 * (pairs.mu_13 - pairs.mu_12) + 2 * pairs.two) / pi  # noqa: N806 - a matrix

    def mismatch(A: FloatArray) -> float:  # noqa: N803
        """L1 distance of the three moments; also what is negative in A."""
        down = A * pi  # A D
        far = A @ down  # A A D
        two = (down + down.T) / 2
        mu_12 = (2 * down + 3 * down.T + far.T + down @ A.T) / 7
        mu_13 = (2 * down + 2 * down.T + far + far.T + down @ A.T) / 7
        found = (pairs.mu_12 - mu_12, pairs.mu_13 - mu_13, pairs.two - two)
        return float(sum(np.abs(part).sum() for part in found) - np.minimum(down, 0).sum())

    return stochastic_root(C, mismatch)


def _with_pairs(A: FloatArray, pairs: PairMoments, pi: FloatArray) -> FloatArray:  # noqa: N803
    """A with the symmetric part of A D replaced by mu~_12, which is counted directly."""
    down = A * pi
    return np.asarray(((down - down.T) / 2 + pairs.two) / pi)


def _balance(down: FloatArray, pi: FloatArray) -> FloatArray:
    """The nearest table, in relative entropy, whose rows and columns both sum to pi.

    Rows and columns are scaled in turn (Sinkhorn and Knopp 1967). A little of the table of
    independent words, whose margins are right, keeps it going where zeros are in the way.
    """
    down = (1 - TINY) * down + TINY * np.outer(pi, pi)
    for _ in range(MOST_ROUNDS):
        rows = down.sum(axis=1)
        if np.abs(rows - pi).max() < TINY:
            break
        down = down * (pi / rows)[:, None]
        down = down * (pi / down.sum(axis=0))
    return down


def _mean_of_ends(pair: FloatArray, mirrored: FloatArray) -> FloatArray:
    return np.asarray((pair + mirrored.T) / 2)


def _noise_gain(roots: Roots, pi: FloatArray) -> float:
    """Of the rarest word's column and the eigenvalue with the nearest two roots, to first order."""
    slope = float(np.min(np.abs(2 * roots.eigenvalues + 1)))
    return 7 * float(np.sqrt(2)) / (float(np.sqrt(pi.min())) * max(slope, NEAR_ROOTS))
