"""Inside, outside and Viterbi charts of a plain PCFG: the full chart, fast.

Notation
--------
    i, j, k     fenceposts; a span is [i, j)             cell   number of a span, see `cell_of`
    a, b, c     phrases (0 .. n_phrases-1)               t      tags (0 .. n_tags-1)
    beta[cell, a] * 2**scale[cell]                       inside weight of a over the span
    mu[cell, a] = beta[cell, a] * alpha[cell, a]         posterior of a over the span

Phrases cover two or more words and tags exactly one, so a binary rule is of one of four kinds, and
only the last one has more than one split:

    t t    spans of two words                t a    split after the first word
    a t    split before the last word        a a    every split: once per pair (b, c), then its rules

For the last kind both children are kept with the split as their fastest index, so that one pair is
one dot product. The charts never take logarithms: each span has its own power of two.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import NamedTuple

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc"}  # dot products may be summed in any order; nan and inf stay


class CoarseRules(NamedTuple):
    """Binary rules grouped by the kind of their children; all numbers unsigned, see `coarse_rules`.

    `tt_pair[t, u]` and `aa_*` number pairs of children; a pair's rules stand together in
    `*_parent`, `*_weight` from `*_start[pair]`. `ta_*` are grouped by the tag, `at_*` by the tag.
    `left_of[slot]` and `right_of[slot]` are the phrases that occur in `a a` rules on that side.
    """

    n_phrases: int
    tt_pair: np.ndarray  # [n_tags, n_tags], pair + 1, 0 for none
    tt_start: np.ndarray
    tt_parent: np.ndarray
    tt_weight: np.ndarray
    ta_start: np.ndarray  # [n_tags + 1]
    ta_child: np.ndarray
    ta_parent: np.ndarray
    ta_weight: np.ndarray
    at_start: np.ndarray
    at_child: np.ndarray
    at_parent: np.ndarray
    at_weight: np.ndarray
    left_of: np.ndarray  # [n_left]
    right_of: np.ndarray  # [n_right]
    aa_first: np.ndarray  # [n_left + 1], pairs of a left slot
    aa_right: np.ndarray  # [n_pairs], right slot
    aa_start: np.ndarray  # [n_pairs + 1]
    aa_parent: np.ndarray
    aa_weight: np.ndarray


class Tags(NamedTuple):
    """The tags that each word may have, with their weights times 2**-scale."""

    start: np.ndarray  # [n + 1]
    tag: np.ndarray
    weight: np.ndarray
    scale: np.ndarray  # [n]


class Chart(NamedTuple):
    """Inside weights in three orders; see the notation above."""

    n: int
    beta: np.ndarray  # [n_cells, n_phrases]
    scale: np.ndarray  # [n_cells]
    left: np.ndarray  # [n, n_left, n + 1]: beta of [i, k) by split
    right: np.ndarray  # [n + 1, n_right, n + 1]: beta of [k, j) by split
    left_first: np.ndarray  # [n, n_left], first split with weight
    left_last: np.ndarray  # [n, n_left], last one
    right_first: np.ndarray
    right_last: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def cell_of(n, i, j):
    """Number of the span [i, j): by start, then by length."""
    return np.uint64(i * (2 * n - i + 1) // 2 + (j - i - 1))


@njit(cache=True, nogil=True, error_model="numpy")
def _empty_chart(n, rules, tags):
    n_cells = n * (n + 1) // 2
    n_left, n_right = len(rules.left_of), len(rules.right_of)
    chart = Chart(
        n,
        np.zeros((n_cells, rules.n_phrases)),
        np.full(n_cells, -(2**30), np.int64),
        np.zeros((n, n_left, n + 1)),
        np.zeros((n + 1, n_right, n + 1)),
        np.full((n, n_left), n + 1, np.int64),
        np.full((n, n_left), -1, np.int64),
        np.full((n + 1, n_right), n + 1, np.int64),
        np.full((n + 1, n_right), -1, np.int64),
    )
    for i in range(n):
        if tags.start[i + 1] > tags.start[i]:
            chart.scale[cell_of(n, i, i + 1)] = tags.scale[i]
    return chart


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _split_factors(chart, i, j, relative_to, factor):
    """factor[k] = 2**(scale[i, k] + scale[k, j] - relative_to) for every inner split of [i, j)."""
    n = chart.n
    for k in range(i + 1, j):
        exponent = chart.scale[cell_of(n, i, k)] + chart.scale[cell_of(n, k, j)] - relative_to
        factor[k] = ldexp(1.0, max(min(exponent, 1000), -1074))


@njit(cache=True, nogil=True, error_model="numpy")
def _largest_scale(chart, i, j):
    n = chart.n
    best = -(2**30)
    for k in range(i + 1, j):
        best = max(best, chart.scale[cell_of(n, i, k)] + chart.scale[cell_of(n, k, j)])
    return best


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _combine_two_words(rules, tags, i, out):
    """COMPLETE: (i, t) (i+1, u), a -> t u  =>  (i, i+2, a)."""
    for x in range(tags.start[i], tags.start[i + 1]):
        for y in range(tags.start[i + 1], tags.start[i + 2]):
            pair = rules.tt_pair[tags.tag[x], tags.tag[y]]
            if pair == 0:
                continue
            weight = tags.weight[x] * tags.weight[y]
            for r in range(rules.tt_start[pair - np.uint32(1)], rules.tt_start[pair]):
                out[rules.tt_parent[r]] += rules.tt_weight[r] * weight


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _combine_word_phrase(rules, tags, i, beta, factor, out):
    """COMPLETE: (i, t) (i+1, j, c), a -> t c  =>  (i, j, a); beta is the row of [i+1, j)."""
    for x in range(tags.start[i], tags.start[i + 1]):
        weight = tags.weight[x] * factor
        t = tags.tag[x]
        for r in range(rules.ta_start[t], rules.ta_start[t + np.uint32(1)]):
            out[rules.ta_parent[r]] += rules.ta_weight[r] * weight * beta[rules.ta_child[r]]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _combine_phrase_word(rules, tags, last, beta, factor, out):
    """COMPLETE: (i, j-1, b) (j-1, t), a -> b t  =>  (i, j, a); beta is the row of [i, j-1)."""
    for x in range(tags.start[last], tags.start[last + 1]):
        weight = tags.weight[x] * factor
        t = tags.tag[x]
        for r in range(rules.at_start[t], rules.at_start[t + np.uint32(1)]):
            out[rules.at_parent[r]] += rules.at_weight[r] * weight * beta[rules.at_child[r]]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _combine_phrases(rules, chart, i, j, scaled, out):
    """COMPLETE: (i, k, b) (k, j, c), a -> b c  =>  (i, j, a); scaled[slot, k] is the right child."""
    for left in range(len(rules.left_of)):
        first, last = chart.left_first[i, left], min(chart.left_last[i, left], j - 2)
        if first > last:
            continue
        row = chart.left[i, left]
        for pair in range(rules.aa_first[left], rules.aa_first[left + 1]):
            right = rules.aa_right[pair]
            low = max(first, chart.right_first[j, right])
            high = min(last, chart.right_last[j, right])
            if low > high:
                continue
            total = 0.0
            column = scaled[right]
            for k in range(np.uint64(low), np.uint64(high + 1)):
                total += row[k] * column[k]
            if total == 0.0:
                continue
            for r in range(rules.aa_start[pair], rules.aa_start[pair + 1]):
                out[rules.aa_parent[r]] += rules.aa_weight[r] * total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _scale_rows(rows, first, last, low, high, factor, scaled):
    """scaled[slot, k] = rows[slot, k] * factor[k] where the slot has weight between low and high."""
    for slot in range(rows.shape[0]):
        start, stop = max(first[slot], low), min(last[slot], high)
        for k in range(start, stop + 1):
            scaled[slot, k] = rows[slot, k] * factor[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _store(rules, chart, i, j, base, out):
    """Normalise a finished span to a largest weight of about 1 and file it in all three orders."""
    n = chart.n
    cell = cell_of(n, i, j)
    largest = 0.0
    for a in range(len(out)):
        largest = max(largest, out[a])
    if largest == 0.0:
        return
    _, exponent = frexp(largest)
    down = ldexp(1.0, -max(exponent, -1022))
    chart.scale[cell] = base + max(exponent, -1022)
    row = chart.beta[cell]
    for a in range(len(out)):
        row[a] = out[a] * down
    for slot in range(len(rules.left_of)):
        value = row[rules.left_of[slot]]
        if value != 0.0:
            chart.left[i, slot, j] = value
            chart.left_first[i, slot] = min(chart.left_first[i, slot], j)
            chart.left_last[i, slot] = j
    for slot in range(len(rules.right_of)):
        value = row[rules.right_of[slot]]
        if value != 0.0:
            chart.right[j, slot, i] = value
            chart.right_first[j, slot] = i
            chart.right_last[j, slot] = max(chart.right_last[j, slot], i)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def inside(rules, tags):
    """Weight of every labelled span, summed over its derivations.

        beta[i, j, a] = sum over k and a -> b c of  w(a -> b c) * beta[i, k, b] * beta[k, j, c]

    Cost: O(n^2 R + n^3 P) time for R rules and P pairs of phrases, O(n^2 N) memory.
    """
    n = len(tags.start) - 1
    chart = _empty_chart(n, rules, tags)
    out = np.zeros(rules.n_phrases)
    factor = np.zeros(n + 1)
    scaled = np.zeros((len(rules.right_of), n + 1))
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            j = i + width
            base = _largest_scale(chart, i, j)
            if base <= -(2**29):
                continue
            out[:] = 0.0
            _split_factors(chart, i, j, base, factor)
            if width == 2:
                _combine_two_words(rules, tags, i, out)
            else:
                _combine_word_phrase(
                    rules, tags, i, chart.beta[cell_of(n, i + 1, j)], factor[i + 1], out
                )
                _combine_phrase_word(
                    rules, tags, j - 1, chart.beta[cell_of(n, i, j - 1)], factor[j - 1], out
                )
            if width >= 4:
                _scale_rows(
                    chart.right[j], chart.right_first[j], chart.right_last[j], i + 2, j - 2,
                    factor, scaled,
                )  # fmt: skip
                _combine_phrases(rules, chart, i, j, scaled, out)
            _store(rules, chart, i, j, base, out)
    return chart


@njit(cache=True, nogil=True, error_model="numpy")
def partition(chart, root):
    """Root weights times inside weights of the whole sentence, without its power of two."""
    row = chart.beta[cell_of(chart.n, 0, chart.n)]
    total = 0.0
    for a in range(len(root)):
        total += root[a] * row[a]
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _collect(rules, chart, from_left, from_right, i, j, row):
    """Add what larger spans sent to [i, j); False when nothing arrived. Zero items stay zero."""
    n = chart.n
    for slot in range(len(rules.left_of)):
        row[rules.left_of[slot]] += from_left[i, slot, j]
    for slot in range(len(rules.right_of)):
        row[rules.right_of[slot]] += from_right[j, slot, i]
    beta = chart.beta[cell_of(n, i, j)]
    arrived = False
    for a in range(len(row)):
        if beta[a] == 0.0:
            row[a] = 0.0
        elif row[a] != 0.0:
            arrived = True
    return arrived


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _send_two_words(rules, tags, i, row, factor, tag_alpha):
    for x in range(tags.start[i], tags.start[i + 1]):
        for y in range(tags.start[i + 1], tags.start[i + 2]):
            pair = rules.tt_pair[tags.tag[x], tags.tag[y]]
            if pair == 0:
                continue
            sent = 0.0
            for r in range(rules.tt_start[pair - np.uint32(1)], rules.tt_start[pair]):
                sent += rules.tt_weight[r] * row[rules.tt_parent[r]]
            tag_alpha[x] += sent * factor * tags.weight[y]
            tag_alpha[y] += sent * factor * tags.weight[x]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _send_word_phrase(rules, tags, i, row, factor, beta, alpha, tag_alpha):
    for x in range(tags.start[i], tags.start[i + 1]):
        weight = tags.weight[x] * factor
        t = tags.tag[x]
        to_tag = 0.0
        for r in range(rules.ta_start[t], rules.ta_start[t + np.uint32(1)]):
            sent = rules.ta_weight[r] * row[rules.ta_parent[r]]
            alpha[rules.ta_child[r]] += sent * weight
            to_tag += sent * beta[rules.ta_child[r]]
        tag_alpha[x] += to_tag * factor


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _send_phrase_word(rules, tags, last, row, factor, beta, alpha, tag_alpha):
    for x in range(tags.start[last], tags.start[last + 1]):
        weight = tags.weight[x] * factor
        t = tags.tag[x]
        to_tag = 0.0
        for r in range(rules.at_start[t], rules.at_start[t + np.uint32(1)]):
            sent = rules.at_weight[r] * row[rules.at_parent[r]]
            alpha[rules.at_child[r]] += sent * weight
            to_tag += sent * beta[rules.at_child[r]]
        tag_alpha[x] += to_tag * factor


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _send_phrases(rules, chart, i, j, row, scaled_left, scaled_right, from_left, from_right):
    for left in range(len(rules.left_of)):
        first, last = chart.left_first[i, left], min(chart.left_last[i, left], j - 2)
        if first > last:
            continue
        to_left, left_row = from_left[i, left], scaled_left[left]
        for pair in range(rules.aa_first[left], rules.aa_first[left + 1]):
            right = rules.aa_right[pair]
            low = max(first, chart.right_first[j, right])
            high = min(last, chart.right_last[j, right])
            if low > high:
                continue
            sent = 0.0
            for r in range(rules.aa_start[pair], rules.aa_start[pair + 1]):
                sent += rules.aa_weight[r] * row[rules.aa_parent[r]]
            if sent == 0.0:
                continue
            to_right, right_row = from_right[j, right], scaled_right[right]
            for k in range(np.uint64(low), np.uint64(high + 1)):
                to_left[k] += sent * right_row[k]
                to_right[k] += sent * left_row[k]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def outside(rules, tags, chart, root):
    """Weight of everything outside each labelled span, divided by the weight of the sentence.

        alpha[i, k, b] = sum over j and a -> b c of  w(a -> b c) * alpha[i, j, a] * beta[k, j, c]  (and mirrored)

    Returned so that `beta * alpha` is the posterior of each labelled span, and `tags.weight *
    tag_alpha` that of each tag; no power of two is left over.

    Cost: as `inside`, twice the multiplications in its last kind of rules.
    """
    n = chart.n
    alpha = np.zeros_like(chart.beta)
    tag_alpha = np.zeros(len(tags.tag))
    total = partition(chart, root)
    if not total > 0.0:
        return alpha, tag_alpha
    from_left, from_right = np.zeros_like(chart.left), np.zeros_like(chart.right)
    scaled_left = np.zeros((len(rules.left_of), n + 1))
    scaled_right = np.zeros((len(rules.right_of), n + 1))
    factor = np.zeros(n + 1)
    alpha[cell_of(n, 0, n)] = root / total
    for width in range(n, 1, -1):
        for i in range(n - width + 1):
            j = i + width
            cell = cell_of(n, i, j)
            row = alpha[cell]
            if not _collect(rules, chart, from_left, from_right, i, j, row):
                continue
            _split_factors(chart, i, j, chart.scale[cell], factor)
            if width == 2:
                _send_two_words(rules, tags, i, row, factor[i + 1], tag_alpha)
                continue
            tail, head = cell_of(n, i + 1, j), cell_of(n, i, j - 1)
            _send_word_phrase(
                rules, tags, i, row, factor[i + 1], chart.beta[tail], alpha[tail], tag_alpha
            )
            _send_phrase_word(
                rules, tags, j - 1, row, factor[j - 1], chart.beta[head], alpha[head], tag_alpha
            )
            if width >= 4:
                _scale_rows(
                    chart.left[i], chart.left_first[i], chart.left_last[i], i + 2, j - 2,
                    factor, scaled_left,
                )  # fmt: skip
                _scale_rows(
                    chart.right[j], chart.right_first[j], chart.right_last[j], i + 2, j - 2,
                    factor, scaled_right,
                )  # fmt: skip
                _send_phrases(
                    rules, chart, i, j, row, scaled_left, scaled_right, from_left, from_right
                )
    return alpha, tag_alpha
