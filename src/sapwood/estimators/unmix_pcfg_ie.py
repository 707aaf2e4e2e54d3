"""`UnmixPCFGIE`: a PCFG with hidden trees from plain sentences, in closed form.

Notation (IDENT, section 5.2)
-----------------------------
    pi, T, O    root, child and word tables of the PCFG-IE          [k], [k, k], [d, k]
    A = O T     word below a parent of some state                   [d, k]
    mu_123(eta) = E[x_1 (x) x_2 (eta . x_3)] for sentences of three words; mu_132, mu_231 likewise
    Psi(eta)    = A diag(pi) T' diag(A' eta) A' = mu_123(eta) + mu_132(eta) - mu_231(eta)

1. Unmix Psi(1), and Psi(tau) for random directions tau.
2. DECOMPOSE(Psi(1)', Psi(tau)') gives the columns of A, which sum to 1.
3. pi = A+ Psi(1) 1;  T = A+ Psi(1)' (A+)' diag(pi)^-1;  O = A T^-1.
4. Refine with sentences of all lengths, if wanted.

Left and right children are drawn alike, so that mu_132(eta) + mu_231(eta) - mu_123(eta), which is
Psi(eta)', is a second estimate; their mean is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self

import numpy as np

from sapwood.arrays import FloatArray
from sapwood.decompose.diagonalise import decompose
from sapwood.errors import SapwoodError
from sapwood.estimators.parameters import maybe, parameter, positional, whole
from sapwood.estimators.shared_parameters import OfHiddenTrees
from sapwood.estimators.uniform_families import PCFG_IE
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

MAX_WORDS = 2000  # matrices are words x words
Contract = Callable[[FloatArray], FloatArray]


class UnmixPCFGIE(OfHiddenTrees):
    """PCFG-IE from sentences, without trees.

    Attributes
    ----------
    model_ : UniformTreeModel
        States in falling order of their probability at the root.
    info_ : UnmixInfo
    """

    n_states: int = positional(
        default=2,
        domain=whole(1),
        words="Hidden states; at most as many as there are words.",
        kw_only=False,
    )
    n_draws: int = parameter(
        20, whole(1), "Random directions tried; the one with the widest eigengap is kept."
    )
    seed: int = parameter(0, maybe(whole(0)), "Of the directions.")

    def fit(self, sentences: Iterable[Sequence[str]]) -> Self:
        """Learn from sentences, each a list of words; three words are needed in some of them."""
        self._check_parameters()
        vocabulary, counts = count_sentences(sentences, MAX_WORDS)
        self._check_words(len(vocabulary))
        PCFG_IE.require_lengths(counts)
        return self.fit_counts(counts, vocabulary)

    def fit_counts(self, counts: SentenceCounts, vocabulary: Sequence[str] | None = None) -> Self:
        """Learn from sentences that are counted already."""
        self._check_parameters()
        names = tuple(vocabulary or map(str, range(counts.n_words)))
        info = UnmixInfo({n: counts.n_sentences(n) for n in counts.lengths})
        tables = self._unmix(lambda eta: psi_of_counts(counts, eta), counts.n_words, info)
        check_conditioning(info, counts.n_sentences(3))
        start = UniformTreeModel(PCFG_IE.name, names, tables)
        self.model_ = _sort_states(refine(start, counts, info, self.get_params()))
        check_fit(info, self.model_, counts)
        self.info_ = info
        return self

    def fit_moments(self, mu_123: FloatArray, vocabulary: Sequence[str] | None = None) -> Self:
        """Learn from the exact joint distribution of the words of three-word sentences.

        Parameters
        ----------
        mu_123 : [d, d, d]
            P(x_1, x_2, x_3).
        """
        self._check_parameters()
        d = len(mu_123)
        self._check_words(d)
        self.info_ = UnmixInfo({3: np.inf})
        tables = self._unmix(lambda eta: psi_of_tensor(mu_123, eta), d, self.info_)
        names = tuple(vocabulary or map(str, range(d)))
        self.model_ = _sort_states(UniformTreeModel(PCFG_IE.name, names, tables))
        return self

    def _check_words(self, n_words: int) -> None:
        if self.n_states > n_words:
            msg = f"{self.n_states} states, but only {n_words} types of words"
            raise SapwoodError(msg, hint=f"ask for at most {n_words} states")

    def _unmix(self, psi: Contract, d: int, info: UnmixInfo) -> dict[str, FloatArray]:
        rng = np.random.default_rng(self.seed)
        whole = psi(np.ones(d))
        found = decompose(whole.T, lambda tau: psi(tau).T, self.n_states, rng, n_draws=self.n_draws)
        info.gap = found.gap
        info.noise_gain = float(1 / (found.singular_values[self.n_states - 1] * found.gap))
        if self.n_states == 1:
            info.noise_gain = 1.0
        if not found.is_real:
            info.warn("no direction had real eigenvalues: too few sentences, or too many states")
        return _tables(found.M1, whole, info)


def psi_of_counts(counts: SentenceCounts, eta: FloatArray) -> FloatArray:
    """Psi(eta) of counted sentences, [d, d]."""
    places = (((1, 2), 3), ((1, 3), 2), ((2, 3), 1))
    return _mean_psi(*(counts.contracted(3, pair, third, eta) for pair, third in places))


def psi_of_tensor(mu_123: FloatArray, eta: FloatArray) -> FloatArray:
    """Psi(eta) of a joint distribution, [d, d]."""
    forms = ("abc,c->ab", "abc,b->ac", "abc,a->bc")
    return _mean_psi(*(np.einsum(form, mu_123, eta) for form in forms))


def _mean_psi(mu_123: FloatArray, mu_132: FloatArray, mu_231: FloatArray) -> FloatArray:
    psi = mu_123 + mu_132 - mu_231
    mirrored = mu_132 + mu_231 - mu_123
    return np.asarray((psi + mirrored.T) / 2)


def _tables(M1: FloatArray, whole: FloatArray, info: UnmixInfo) -> dict[str, FloatArray]:  # noqa: N803
    """Step 3: pi, T and O from the columns of A and Psi(1)."""
    A = M1 / M1.sum(axis=0)  # noqa: N806 - a matrix
    inverse = np.linalg.pinv(A)
    root, removed = clip_columns((inverse @ whole.sum(axis=1))[:, None])
    # A state that is never at the root leaves its column of T open.
    pi = np.maximum(root[:, 0], 1e-9)
    child, from_child = clip_columns(inverse @ whole.T @ inverse.T / pi)
    words, from_words = clip_columns(A @ np.linalg.pinv(child))
    info.clipped = max(removed, from_child, from_words)
    return {"root": root[:, 0], "child": child, "words": words}


def _sort_states(model: UniformTreeModel) -> UniformTreeModel:
    """States in falling order of their probability at the root."""
    t = model.tables
    order = np.argsort(-t["root"], kind="stable")
    tables = {
        "root": t["root"][order], "child": t["child"][np.ix_(order, order)],
        "words": t["words"][:, order],
    }  # fmt: skip
    return UniformTreeModel(model.family, model.vocabulary, tables)
