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
    a t    split before the last word        a a    every split: once per pair (b, c), then its
    rules

For the last kind both children are kept with the split as their fastest index, so that one pair is
one dot product. The charts never take logarithms: each span has its own power of two.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import NamedTuple

import numpy as np
from numba import njit

_FAST = {"contract", "reassoc"}  # dot products may be summed in any order; nan and inf stay
NO_WEIGHT = -(2**30)  # scale of a span that nothing derives
LEAST_POWER, MOST_POWER = -1074, 1000


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
    scale_from: np.ndarray  # [n, n + 1]: scale of [i, k) at [i, k]
    scale_to: np.ndarray  # [n + 1, n + 1]: scale of [k, j) at [j, k]
    left: np.ndarray  # [n, n_left, n + 1]: beta of [i, k) by split, valid from first to last
    right: np.ndarray  # [n + 1, n_right, n + 1]: beta of [k, j) by split, likewise
    left_first: np.ndarray  # [n, n_left], first split with weight
    left_last: np.ndarray  # [n, n_left], last one
    right_first: np.ndarray
    right_last: np.ndarray


def chart_room(rules: CoarseRules, n: int) -> int:
    """How many numbers the charts of an n-word sentence need in either direction."""
    slots = n * len(rules.left_of) + (n + 1) * len(rules.right_of)
    return n * (n + 1) // 2 * rules.n_phrases + slots * (n + 1)


@njit(cache=True, nogil=True, error_model="numpy")
def cell_of(n, i, j):
    """Number of the span [i, j): by start, then by length."""
    return np.uint64(i * (2 * n - i + 1) // 2 + (j - i - 1))


@njit(cache=True, nogil=True, error_model="numpy")
def _set_scale(chart, i, j, scale):
    chart.scale[cell_of(chart.n, i, j)] = scale
    chart.scale_from[i, j] = scale
    chart.scale_to[j, i] = scale


@njit(cache=True, nogil=True, error_model="numpy")
def _three_orders(n, rules, room):
    """Cut a buffer into a chart by cell, one by start and one by end."""
    n_cells = n * (n + 1) // 2
    n_left, n_right = len(rules.left_of), len(rules.right_of)
    end_1 = n_cells * rules.n_phrases
    end_2 = end_1 + n * n_left * (n + 1)
    end_3 = end_2 + (n + 1) * n_right * (n + 1)
    by_cell = room[:end_1].reshape((n_cells, rules.n_phrases))
    by_start = room[end_1:end_2].reshape((n, n_left, n + 1))
    by_end = room[end_2:end_3].reshape((n + 1, n_right, n + 1))
    return by_cell, by_start, by_end


@njit(cache=True, nogil=True, error_model="numpy")
def _empty_chart(n, rules, tags, room):
    n_cells = n * (n + 1) // 2
    n_left, n_right = len(rules.left_of), len(rules.right_of)
    # Nothing is zeroed here: every row of two or more words is stored, and the other two orders are
    # only read between first and last.
    beta, left, right = _three_orders(n, rules, room)
    chart = Chart(
        n,
        beta,
        np.full(n_cells, NO_WEIGHT, np.int64),
        np.full((n, n + 1), NO_WEIGHT, np.int64),
        np.full((n + 1, n + 1), NO_WEIGHT, np.int64),
        left,
        right,
        np.full((n, n_left), n + 1, np.int64),
        np.full((n, n_left), -1, np.int64),
        np.full((n + 1, n_right), n + 1, np.int64),
        np.full((n + 1, n_right), -1, np.int64),
    )
    for i in range(n):
        cell = cell_of(n, i, i + 1)
        chart.beta[cell] = 0.0  # no phrase covers a single word
        if tags.start[i + 1] > tags.start[i]:
            _set_scale(chart, i, i + 1, tags.scale[i])
    return chart


@njit(cache=True, nogil=True, error_model="numpy")
def _powers_of_two():
    """2**e at [e - LEAST_POWER]: a table, since ldexp is a library call."""
    table = np.empty(MOST_POWER - LEAST_POWER + 1)
    for exponent in range(LEAST_POWER, MOST_POWER + 1):
        table[exponent - LEAST_POWER] = ldexp(1.0, exponent)
    return table


@njit(cache=True, nogil=True, error_model="numpy")
def _split_factors(before, behind, i, j, relative_to, powers, factor):
    """factor[k] = 2**(scale[i, k] + scale[k, j] - relative_to) for every inner split of [i, j)."""
    for k in range(np.uint64(i + 1), np.uint64(j)):
        exponent = before[k] + behind[k] - relative_to
        factor[k] = powers[np.uint64(max(min(exponent, MOST_POWER), LEAST_POWER) - LEAST_POWER)]


@njit(cache=True, nogil=True, error_model="numpy")
def _largest_scale(before, behind, i, j):
    best = NO_WEIGHT
    for k in range(np.uint64(i + 1), np.uint64(j)):
        best = max(best, before[k] + behind[k])
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
def _combine_phrases(rules, runs, left_first, left_last, right_first, right_last, j, scaled, out):
    """COMPLETE: (i, k, b) (k, j, c), a -> b c  =>  (i, j, a).

    `runs[slot, k]` is the left child, `scaled[slot, k]` the right one. Indexed with two numbers and
    not through row views: taking a view counts references, which costs more than the dot product.
    """
    aa_first, aa_right, aa_start = rules.aa_first, rules.aa_right, rules.aa_start
    aa_parent, aa_weight = rules.aa_parent, rules.aa_weight
    one = np.uint64(1)
    for left in range(np.uint64(len(aa_first) - 1)):
        first, last = left_first[left], min(left_last[left], j - 2)
        if first > last:
            continue
        for pair in range(np.uint64(aa_first[left]), np.uint64(aa_first[left + one])):
            right = np.uint64(aa_right[pair])
            low, high = max(first, right_first[right]), min(last, right_last[right])
            if low > high:
                continue
            total = 0.0
            for k in range(np.uint64(low), np.uint64(high) + one):
                total += runs[left, k] * scaled[right, k]
            if total != 0.0:
                for r in range(np.uint64(aa_start[pair]), np.uint64(aa_start[pair + one])):
                    out[aa_parent[r]] += aa_weight[r] * total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _scale_rows(rows, first, last, low, high, factor, scaled):
    """scaled[slot, k] = rows[slot, k] * factor[k] from low to high, where the slot has weight."""
    for slot in range(np.uint64(rows.shape[0])):
        start, stop = max(first[slot], low), min(last[slot], high)
        if start > stop:
            continue
        for k in range(np.uint64(start), np.uint64(stop + 1)):
            scaled[slot, k] = rows[slot, k] * factor[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _keep_best(out, prior, beam):
    """Drop phrases whose weight times prior is below the beam's share of the best one's."""
    best = 0.0
    for a in range(len(out)):
        best = max(best, out[a] * prior[a])
    for a in range(len(out)):
        if out[a] * prior[a] < beam * best:
            out[a] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _store(rules, chart, i, j, base, out):
    """Normalise a finished span to a largest weight of about 1 and file it in all three orders."""
    n = chart.n
    cell = cell_of(n, i, j)
    largest = 0.0
    for a in range(len(out)):
        largest = max(largest, out[a])
    row = chart.beta[cell]
    if largest == 0.0:
        row[:] = 0.0
        return
    _, exponent = frexp(largest)
    down = ldexp(1.0, -max(exponent, -1022))
    _set_scale(chart, i, j, base + max(exponent, -1022))
    for a in range(len(out)):
        row[a] = out[a] * down
    # Spans of one start arrive with rising end, those of one end with falling start: each slot's
    # run grows at one side only, and the gap before a new weight is filled with zeros.
    for slot in range(len(rules.left_of)):
        value = row[rules.left_of[slot]]
        if value != 0.0:
            run = chart.left[i, slot]
            if chart.left_last[i, slot] < 0:
                chart.left_first[i, slot] = j
            else:
                run[chart.left_last[i, slot] + 1 : j] = 0.0
            run[j] = value
            chart.left_last[i, slot] = j
    for slot in range(len(rules.right_of)):
        value = row[rules.right_of[slot]]
        if value != 0.0:
            run = chart.right[j, slot]
            if chart.right_last[j, slot] < 0:
                chart.right_last[j, slot] = i
            else:
                run[i + 1 : chart.right_first[j, slot]] = 0.0
            run[i] = value
            chart.right_first[j, slot] = i


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def inside(rules, tags, room, prior, beam):
    """Weight of every labelled span, summed over its derivations.

        beta[i, j, a] = sum over k and a -> b c of  w(a -> b c) * beta[i, k, b] * beta[k, j, c]

    Parameters
    ----------
    room
        Scratch space of at least `chart_room(rules, n)` numbers; the chart lies in it.
    prior : [n_phrases]
        How common each phrase is; only used with a beam.
    beam
        Phrases whose weight times prior is below this share of their span's best are dropped; 0
        keeps the full chart, and the sums exact.

    Cost: O(n^2 R + n^3 P) time for R rules and P pairs of phrases, O(n^2 N) memory.
    """
    n = len(tags.start) - 1
    chart = _empty_chart(n, rules, tags, room)
    out = np.zeros(rules.n_phrases)
    factor, powers = np.zeros(n + 1), _powers_of_two()
    scaled = np.zeros((len(rules.right_of), n + 1))
    # Right to left: everything that starts at i stays in the cache while its ends are worked off.
    for i in range(n - 2, -1, -1):
        for j in range(i + 2, n + 1):
            width = j - i
            before, behind = chart.scale_from[i], chart.scale_to[j]
            base = _largest_scale(before, behind, i, j)
            out[:] = 0.0
            if base <= NO_WEIGHT // 2:
                _store(rules, chart, i, j, base, out)
                continue
            _split_factors(before, behind, i, j, base, powers, factor)
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
                _combine_phrases(
                    rules, chart.left[i], chart.left_first[i], chart.left_last[i],
                    chart.right_first[j], chart.right_last[j], j, scaled, out,
                )  # fmt: skip
            if beam > 0.0 and width < n:
                _keep_best(out, prior, beam)
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
    beta = chart.beta[cell_of(n, i, j)]
    for slot in range(len(rules.left_of)):
        if beta[rules.left_of[slot]] != 0.0:
            row[rules.left_of[slot]] += from_left[i, slot, j]
    for slot in range(len(rules.right_of)):
        if beta[rules.right_of[slot]] != 0.0:
            row[rules.right_of[slot]] += from_right[j, slot, i]
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


@njit(cache=True, nogil=True, error_model="numpy")
def _clear_runs(first, last, runs):
    """Zero what larger spans send to smaller ones, only where something can arrive."""
    for post in range(first.shape[0]):
        for slot in range(first.shape[1]):
            runs[post, slot, first[post, slot] : last[post, slot] + 1] = 0.0


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def outside(rules, tags, chart, root, room):
    """Weight of everything outside each labelled span, divided by the weight of the sentence.

        alpha[i, k, b] = sum over j and a -> b c of  w(a -> b c) * alpha[i, j, a] * beta[k, j, c]
        (and mirrored)

    Returned so that `beta * alpha` is the posterior of each labelled span, and `tags.weight *
    tag_alpha` that of each tag; no power of two is left over. `room` is scratch space as for
    `inside`, and not the same.

    Cost: as `inside`, twice the multiplications in its last kind of rules.
    """
    n = chart.n
    alpha, from_left, from_right = _three_orders(n, rules, room)
    alpha[:] = 0.0
    tag_alpha = np.zeros(len(tags.tag))
    total = partition(chart, root)
    if not total > 0.0:
        return alpha, tag_alpha
    _clear_runs(chart.left_first, chart.left_last, from_left)
    _clear_runs(chart.right_first, chart.right_last, from_right)
    scaled_left = np.zeros((len(rules.left_of), n + 1))
    scaled_right = np.zeros((len(rules.right_of), n + 1))
    factor, powers = np.zeros(n + 1), _powers_of_two()
    alpha[cell_of(n, 0, n)] = root / total
    for i in range(n - 1):
        for j in range(n, i + 1, -1):
            width = j - i
            cell = cell_of(n, i, j)
            row = alpha[cell]
            if not _collect(rules, chart, from_left, from_right, i, j, row):
                continue
            _split_factors(
                chart.scale_from[i], chart.scale_to[j], i, j, chart.scale[cell], powers, factor
            )
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
