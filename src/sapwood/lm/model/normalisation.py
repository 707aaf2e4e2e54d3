"""Whether the next-word probabilities of a language model from a file sum to 1.

Notation, with that of `ngram_model`
------------------------------------
    c, c'      a context, and the same without its first word
    seen(c)    words w whose n-gram c w is in the model

    sum over w of p(w | c)  =  sum over seen(c) of p[c w]
                               + exp(b[c]) (1 - sum over seen(c) of p(w | c'))

The suffix of c w is c' w, which is in the model too, so that every sum needs its n-grams alone. In
large models, only contexts that start with some of the words are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import ModelFormatError
from sapwood.lm.data.plain_text import END

TOLERANCE = 1e-3  # of a sum, in files of single precision
HALF_TOLERANCE = 1e-2  # of a sum, in files of half precision
FOREIGN_EXCESS = 0.05  # by which sums of models of other tools, which prune, may pass 1
MOST_NGRAMS = 5_000  # whose contexts are all summed
LARGEST_LOG = 1e-4  # natural logarithm of a probability, as rounded

Lower = Callable[[IntArray, IntArray], FloatArray]  # p of last words given the words before them


def require_distribution(
    p: npt.NDArray[np.floating], name: str, *, tolerance: float = TOLERANCE
) -> None:
    """Refuse numbers that are no probabilities which sum to 1 along the last axis."""
    # One pass finds NaN and negative numbers; sums find infinite ones.
    if p.size and not p.min() >= 0:
        msg = f"{name} has values below 0 or that are not numbers, expected probabilities"
        raise ModelFormatError(msg)
    sums = p.sum(axis=-1, dtype=np.float64)
    wrong = ~(np.abs(sums - 1) <= tolerance)
    if wrong.any():
        msg = (
            f"{name} sums to {float(sums[wrong].flat[0]):.4g}, expected probabilities that sum to 1"
        )
        raise ModelFormatError(msg)


def require_shares(weight: FloatArray, name: str) -> None:
    """Refuse weights outside of 0 to 1."""
    if weight.size and not (weight.min() >= 0 and weight.max() <= 1):
        msg = f"{name} has values outside of 0 to 1"
        raise ModelFormatError(msg)


def require_sums(
    keys: Sequence[npt.NDArray[np.uint64]],
    p: Sequence[npt.NDArray[np.floating]],
    b: Sequence[npt.NDArray[np.floating]],
    can_follow: npt.NDArray[np.bool_],
    *,
    lowest: Lower | None = None,
    tolerance: float = TOLERANCE,
    is_foreign: bool = False,
) -> None:
    """Refuse back-off n-grams whose next-word probabilities do not sum to 1.

    Parameters
    ----------
    keys, p, b
        See `NgramModel`.
    can_follow : [V]
        Which words are predicted.
    lowest
        What pairs of words back off to; None for single words.
    is_foreign
        Whether the model is of another tool: sums may then be below 1.
    """
    for k, array in enumerate(p, 1):
        if array.size and not array.max() <= LARGEST_LOG:
            msg = f"p_{k} has a probability above 1, or that is not a number"
            raise ModelFormatError(msg)
    of_words = float(np.exp(p[0].astype(float))[can_follow].sum())
    _require(np.array([of_words]), 1, tolerance, is_foreign)
    n_words, step = len(can_follow), -(-sum(map(len, keys)) // MOST_NGRAMS)
    for k, table in enumerate(keys, 2):
        first = (table % np.uint64(n_words)).astype(np.int64)
        at = np.flatnonzero(first % step == 0) if step > 1 else np.arange(len(table))
        suffix = (table[at] // np.uint64(n_words)).astype(np.int64)
        if k == 2 and lowest is not None:
            low = lowest(suffix, first[at])
        else:
            low = np.exp(p[k - 2][suffix].astype(float))
        contexts, place = np.unique(_context_keys(keys, k, at, n_words), return_inverse=True)
        seen = np.bincount(place, np.exp(p[k - 1][at].astype(float)), len(contexts))
        below_seen = np.bincount(place, low, len(contexts)).astype(float)
        index = contexts.astype(np.int64) if k == 2 else _find(keys[k - 3], contexts)
        with np.errstate(over="ignore"):
            weight = np.where(index >= 0, np.exp(b[k - 2][index].astype(float)), 1.0)
            below = of_words if is_foreign else 1.0
            _require(seen + weight * (below - below_seen), k, tolerance, is_foreign)
        if step == 1:  # else contexts were left out, and nothing is known of the others
            _require_rest(b[k - 2], index, keys, k, n_words, 0.0 if is_foreign else -tolerance)


def _require_rest(
    b: npt.NDArray[np.floating],
    seen: IntArray,
    keys: Sequence[npt.NDArray[np.uint64]],
    k: int,
    n_words: int,
    lowest: float,
) -> None:
    """Refuse back-off weights that are not 1 of contexts that nothing was seen behind.

    Models of other tools may have weights below 1 there: their `lowest` logarithm is 0.
    """
    wrong = np.flatnonzero((b > LARGEST_LOG) | (b < lowest) if lowest else b > LARGEST_LOG)
    last = wrong = wrong[~np.isin(wrong, seen)]
    for j in range(k - 2, 0, -1):  # the last word of a context is at the end of its suffixes
        last = (keys[j - 1][last] // np.uint64(n_words)).astype(np.int64)
    if (last != END).any():  # nothing follows an end
        msg = f"b_{k - 1} has weights that are not 1, of contexts that nothing was seen behind"
        raise ModelFormatError(msg)


def _context_keys(
    keys: Sequence[npt.NDArray[np.uint64]], k: int, at: IntArray, n_words: int
) -> npt.NDArray[np.uint64]:
    """What the context of each of some n-grams, all its words but the last, is found by."""
    table = keys[k - 2][at]
    first = table % np.uint64(n_words)
    if k == 2:
        return first
    suffix = (table // np.uint64(n_words)).astype(np.int64)
    shorter = _context_keys(keys, k - 1, suffix, n_words)
    index = shorter if k == 3 else _find(keys[k - 4], shorter).astype(np.uint64)
    return np.asarray(index * np.uint64(n_words) + first)


def _find(table: npt.NDArray[np.uint64], wanted: npt.NDArray[np.uint64]) -> IntArray:
    """Where keys are in a sorted table; -1 where they are not."""
    if not len(table):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return np.where(table[at] == wanted, at, -1)


def _require(sums: FloatArray, order: int, tolerance: float, is_foreign: bool) -> None:
    above = FOREIGN_EXCESS if is_foreign else tolerance
    right = (sums <= 1 + above) & (sums >= (0 if is_foreign else 1 - tolerance))
    if not right.all():
        what = f"probabilities of the next word sum to {float(sums[~right][0]):.4g}, expected 1"
        msg = f"{what} (n-grams of order {order})"
        raise ModelFormatError(msg)
