"""Binary rules arranged for the kernels: grouped by their children, numbers unsigned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from sapwood.kernels.coarse import CoarseRules
    from sapwood.kernels.forest import PairTable

IntArray = npt.NDArray[np.integer[Any]]
FloatArray = npt.NDArray[np.float64]


def coarse_rules(rules: IntArray, weights: FloatArray, n_phrases: int, n_tags: int) -> CoarseRules:
    """Arrange scalar rules for the full-chart kernels.

    Parameters
    ----------
    rules : [n_rules, 3]
        Symbols a, b, c; tags are numbered from n_phrases on.
    weights : [n_rules]
        One weight a rule; rules of weight 0 are left out.
    """
    from sapwood.kernels.coarse import CoarseRules

    kept = weights != 0.0
    (a, b, c), w = rules[kept].T.astype(np.int64), weights[kept]
    tag_b, tag_c = b >= n_phrases, c >= n_phrases
    t, u = b - n_phrases, c - n_phrases
    tt = _by_pair(t, u, a, w, tag_b & tag_c, (n_tags, n_tags))
    ta = _by_pair(t, c, a, w, tag_b & ~tag_c, (n_tags, n_phrases))
    at = _by_pair(u, b, a, w, ~tag_b & tag_c, (n_tags, n_phrases))
    aa = _phrase_pairs(a, b, c, w, ~tag_b & ~tag_c, n_phrases)
    return CoarseRules(n_phrases, *tt, *ta, *at, *aa)


def _by_pair(
    first: IntArray,
    second: IntArray,
    a: IntArray,
    w: FloatArray,
    mask: npt.NDArray[np.bool_],
    shape: tuple[int, int],
) -> list[Any]:
    """Pair numbers [shape], starts, parents and weights of the rules under a mask."""
    keys = first[mask] * shape[1] + second[mask]
    number, start, order = _group(keys, shape[0] * shape[1])
    return [number.reshape(shape), start, _unsigned(a[mask][order]), w[mask][order]]


def _phrase_pairs(
    a: IntArray,
    b: IntArray,
    c: IntArray,
    w: FloatArray,
    mask: npt.NDArray[np.bool_],
    n_phrases: int,
) -> list[Any]:
    left_of, left = np.unique(b[mask], return_inverse=True)
    right_of, right = np.unique(c[mask], return_inverse=True)
    keys, pair = np.unique(left * max(1, len(right_of)) + right, return_inverse=True)
    order, start = _sorted_by(pair, len(keys))
    _, first = _sorted_by(keys // max(1, len(right_of)), len(left_of))
    pair_right = keys % max(1, len(right_of))
    slots = [_unsigned(left_of), _unsigned(right_of)]
    slots += [_slot_of(phrases, n_phrases) for phrases in (left_of, right_of)]
    rules = [_unsigned(a[mask][order]), w[mask][order]]
    return [*slots, first, _unsigned(pair_right), start, *rules]


def _slot_of(phrases: IntArray, n_phrases: int) -> npt.NDArray[np.uint32]:
    from sapwood.kernels.coarse import NO_SLOT

    slot = np.full(n_phrases, NO_SLOT, np.uint32)
    slot[phrases] = np.arange(len(phrases))
    return slot


def pair_table(rules: IntArray, kept: npt.NDArray[np.bool_], n_symbols: int) -> PairTable:
    """Arrange rules by their pair of children, for building forests.

    Parameters
    ----------
    kept : [n_rules]
        Rules of weight 0 must be left out: no decoder may use them.
    """
    from sapwood.kernels.forest import NONE, PairTable

    number_of = np.flatnonzero(kept)
    rules = rules[number_of]
    lefts, left = np.unique(rules[:, 1], return_inverse=True)
    rights, right = np.unique(rules[:, 2], return_inverse=True)
    left_slot, right_slot = (np.full(n_symbols, NONE, np.uint32) for _ in range(2))
    left_slot[lefts], right_slot[rights] = np.arange(len(lefts)), np.arange(len(rights))
    number, start, order = _group(left * len(rights) + right, len(lefts) * len(rights))
    pair = number.reshape(len(lefts), len(rights))
    numbers, parents = _unsigned(number_of[order]), _unsigned(rules[order, 0])
    return PairTable(left_slot, right_slot, pair, start, numbers, parents)


def _group(keys: IntArray, n_keys: int) -> tuple[Any, Any, Any]:
    """Number the distinct keys: (number + 1 of each key or 0, starts, order of the rows)."""
    distinct, inverse = np.unique(keys, return_inverse=True)
    order, start = _sorted_by(inverse, len(distinct))
    number = np.zeros(n_keys, np.uint32)
    number[distinct] = np.arange(1, len(distinct) + 1)
    return number, start, order


def _sorted_by(keys: IntArray, n_keys: int) -> tuple[Any, Any]:
    """Order that groups equal keys, and where each group starts."""
    start = np.zeros(n_keys + 1, np.uint32)
    start[1:] = np.cumsum(np.bincount(keys, minlength=n_keys))
    return np.argsort(keys, kind="stable"), start


def _unsigned(column: IntArray) -> npt.NDArray[np.uint32]:
    # Numba checks signed indices for wrap-around at every access: 2-3 times slower in the charts.
    return np.ascontiguousarray(column, dtype=np.uint32)
