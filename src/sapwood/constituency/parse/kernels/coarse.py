"""Inside and outside charts of a plain PCFG: the full chart, or one pruned by a beam, fast.

Notation
--------
    i, j, k     fenceposts; a span is [i, j)             cell   number of a span, see `cell_of`
    a, b, c     phrases (0 .. n_phrases-1)               t      tags (0 .. n_tags-1)
    beta[cell, a] * 2**scale[cell]                       inside weight of a over the span
    mu[cell, a] = beta[cell, a] * alpha[cell, a]         posterior of a over the span

Phrases cover two or more words and tags exactly one, so a binary rule is of one of four kinds, and
only the last one has more than one split:

    t t    spans of two words                t a    split after the first word
    a t    split before the last word        a a    every split: once per pair (b, c), then rules

For the last kind both children are kept with the split as their fastest index (a *run*), so that
one pair is one dot product. Each span lists the phrases that have weight, so that nothing loops
over the others. The charts never take logarithms: each span has its own power of two.

Rows are never taken as views inside loops: a view counts references, which costs more than what
is done with it.
"""

from __future__ import annotations

from math import frexp, ldexp
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import cell
from sapwood.core.jit import kernel, part

_FAST = {"contract", "reassoc"}  # dot products may be summed in any order; nan and inf stay
NO_WEIGHT = -(2**30)  # scale of a span that nothing derives
LEAST_POWER, MOST_POWER = -1074, 1023  # powers of two that a float can hold
NO_SLOT = np.uint32(0xFFFFFFFF)
_NO_FACTORS = np.empty(0)
_cell = part(cell)


@part
def cell_of(i, j, n):
    """Number of the span [i, j) of n words, unsigned: it needs no check for negative indices.

    The only function that kernels of other files share: Numba's cache does not see edits in files
    other than a kernel's own, and this one never changes.
    """
    return np.uint64(_cell(i, j, n))


class CoarseRules(NamedTuple):
    """Binary rules grouped by pairs of children; all numbers unsigned, see `coarse_rules`.

    `tt_pair[t, u]`, `ta_pair[t, c]` and `at_pair[t, b]` number pairs from 1, 0 for none; the rules
    of pair p stand in `*_parent`, `*_weight` from `*_start[p - 1]` to `*_start[p]`. Phrases that
    occur in `a a` rules have a slot on their side.
    """

    n_phrases: int
    tt_pair: np.ndarray  # [n_tags, n_tags]
    tt_start: np.ndarray
    tt_parent: np.ndarray
    tt_weight: np.ndarray
    ta_pair: np.ndarray  # [n_tags, n_phrases]
    ta_start: np.ndarray
    ta_parent: np.ndarray
    ta_weight: np.ndarray
    at_pair: np.ndarray  # [n_tags, n_phrases]
    at_start: np.ndarray
    at_parent: np.ndarray
    at_weight: np.ndarray
    left_of: np.ndarray  # [n_left], phrase of each left slot
    right_of: np.ndarray  # [n_right]
    left_slot: np.ndarray  # [n_phrases], NO_SLOT for none
    right_slot: np.ndarray  # [n_phrases]
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
    entry: np.ndarray  # which entries of the lexicon they are
    factor: np.ndarray = _NO_FACTORS  # what constraints multiply their weights by; empty for none


class Runs(NamedTuple):
    """Weights by split: of [i, k) at [i, slot, k], or of [k, j) at [j, slot, k].

    Valid from `first` to `last` split of each slot; `slots[post, :n_slots[post]]` are in use.
    """

    weight: np.ndarray  # [n + 1, n_slots, n + 1]
    first: np.ndarray  # [n + 1, n_slots]
    last: np.ndarray
    slots: np.ndarray
    n_slots: np.ndarray  # [n + 1]


class Chart(NamedTuple):
    """Inside weights in three orders; see the notation of this module."""

    n: int
    beta: np.ndarray  # [n_cells, n_phrases]
    active: np.ndarray  # [n_cells, n_phrases]: phrases with weight, in the first places
    n_active: np.ndarray  # [n_cells]
    scale: np.ndarray  # [n_cells]
    scale_from: np.ndarray  # [n + 1, n + 1]: scale of [i, k) at [i, k]
    scale_to: np.ndarray  # [n + 1, n + 1]: scale of [k, j) at [j, k]
    left: Runs
    right: Runs


@part
def _three_orders(n, rules, room):
    """Cut a buffer into a chart by cell, one by start and one by end."""
    n_cells = n * (n + 1) // 2
    n_left, n_right = len(rules.left_of), len(rules.right_of)
    end_1 = n_cells * rules.n_phrases
    end_2 = end_1 + (n + 1) * n_left * (n + 1)
    end_3 = end_2 + (n + 1) * n_right * (n + 1)
    by_cell = room[:end_1].reshape((n_cells, rules.n_phrases))
    by_start = room[end_1:end_2].reshape((n + 1, n_left, n + 1))
    by_end = room[end_2:end_3].reshape((n + 1, n_right, n + 1))
    return by_cell, by_start, by_end


@part
def _empty_runs(n, weight):
    n_slots = weight.shape[1]
    return Runs(
        weight,
        np.full((n + 1, n_slots), n + 1, np.int64),
        np.full((n + 1, n_slots), -1, np.int64),
        np.empty((n + 1, n_slots), np.uint32),
        np.zeros(n + 1, np.int64),
    )


@part
def _empty_chart(n, rules, tags, room, active):
    n_cells = n * (n + 1) // 2
    # Nothing is zeroed here: every row of two or more words is stored, and runs are only read
    # between first and last.
    beta, left, right = _three_orders(n, rules, room)
    chart = Chart(
        n,
        beta,
        active[: n_cells * rules.n_phrases].reshape((n_cells, rules.n_phrases)),
        np.zeros(n_cells, np.int64),
        np.full(n_cells, NO_WEIGHT, np.int64),
        np.full((n + 1, n + 1), NO_WEIGHT, np.int64),
        np.full((n + 1, n + 1), NO_WEIGHT, np.int64),
        _empty_runs(n, left),
        _empty_runs(n, right),
    )
    for i in range(n):
        chart.beta[cell_of(i, i + 1, n)] = 0.0  # no phrase covers a single word
        if tags.start[i + 1] > tags.start[i]:
            _set_scale(chart, i, i + 1, tags.scale[i])
    return chart


@part
def _set_scale(chart, i, j, scale):
    chart.scale[cell_of(i, j, chart.n)] = scale
    chart.scale_from[i, j] = scale
    chart.scale_to[j, i] = scale


@part
def _powers_of_two():
    """2**e at [e - LEAST_POWER]: a table, since ldexp is a library call."""
    table = np.empty(MOST_POWER - LEAST_POWER + 1)
    for exponent in range(LEAST_POWER, MOST_POWER + 1):
        table[exponent - LEAST_POWER] = ldexp(1.0, exponent)
    return table


@part
def _split_factors(before, behind, i, j, relative_to, powers, factor):
    """factor[k] = 2**(scale[i, k] + scale[k, j] - relative_to) for every inner split of [i, j)."""
    for k in range(np.uint64(i + 1), np.uint64(j)):
        exponent = before[k] + behind[k] - relative_to
        factor[k] = powers[np.uint64(max(min(exponent, MOST_POWER), LEAST_POWER) - LEAST_POWER)]


@part
def _largest_scale(before, behind, i, j):
    best = NO_WEIGHT
    for k in range(np.uint64(i + 1), np.uint64(j)):
        best = max(best, before[k] + behind[k])
    return best


@part(fastmath=_FAST)
def _combine_two_words(rules, tags, i, out):
    """COMPLETE: (i, t) (i+1, u), a -> t u  =>  (i, i+2, a)."""
    start, parent, weight = rules.tt_start, rules.tt_parent, rules.tt_weight
    for x in range(tags.start[i], tags.start[i + 1]):
        for y in range(tags.start[i + 1], tags.start[i + 2]):
            pair = np.uint64(rules.tt_pair[tags.tag[x], tags.tag[y]])
            if pair == 0:
                continue
            value = tags.weight[x] * tags.weight[y]
            for r in range(np.uint64(start[pair - np.uint64(1)]), np.uint64(start[pair])):
                out[parent[r]] += weight[r] * value


@part(fastmath=_FAST)
def _combine_with_word(pairs, start, parent, weight, tags, position, chart, cell, factor, out):
    """COMPLETE: a word and a phrase, a -> t c or a -> c t  =>  (i, j, a); the phrase's `cell`."""
    beta, active, n_active = chart.beta, chart.active, chart.n_active[cell]
    for x in range(tags.start[position], tags.start[position + 1]):
        word = tags.weight[x] * factor
        t = tags.tag[x]
        for place in range(np.uint64(n_active)):
            c = active[cell, place]
            pair = np.uint64(pairs[t, c])
            if pair == 0:
                continue
            value = word * beta[cell, c]
            for r in range(np.uint64(start[pair - np.uint64(1)]), np.uint64(start[pair])):
                out[parent[r]] += weight[r] * value


@part(fastmath=_FAST)
def _combine_phrases(rules, chart, i, j, scaled, out):
    """COMPLETE: (i, k, b) (k, j, c), a -> b c  =>  (i, j, a); `scaled` holds the right child."""
    aa_first, aa_right, aa_start = rules.aa_first, rules.aa_right, rules.aa_start
    aa_parent, aa_weight = rules.aa_parent, rules.aa_weight
    runs, left_first, left_last = chart.left.weight, chart.left.first, chart.left.last
    right_first, right_last = chart.right.first, chart.right.last
    slots, one = chart.left.slots, np.uint64(1)
    for place in range(np.uint64(chart.left.n_slots[i])):
        left = np.uint64(slots[i, place])
        first, last = left_first[i, left], min(left_last[i, left], j - 2)
        if first > last:
            continue
        for pair in range(np.uint64(aa_first[left]), np.uint64(aa_first[left + one])):
            right = np.uint64(aa_right[pair])
            low, high = max(first, right_first[j, right]), min(last, right_last[j, right])
            if low > high:
                continue
            total = 0.0
            for k in range(np.uint64(low), np.uint64(high) + one):
                total += runs[i, left, k] * scaled[right, k]
            if total != 0.0:
                for r in range(np.uint64(aa_start[pair]), np.uint64(aa_start[pair + one])):
                    out[aa_parent[r]] += aa_weight[r] * total


@part(fastmath=_FAST)
def _scale_runs(runs, post, low, high, factor, scaled):
    """scaled[slot, k] = weight[post, slot, k] * factor[k] from low to high, within the run."""
    weight, first, last = runs.weight, runs.first, runs.last
    for place in range(np.uint64(runs.n_slots[post])):
        slot = np.uint64(runs.slots[post, place])
        start, stop = max(first[post, slot], low), min(last[post, slot], high)
        if start > stop:
            continue
        for k in range(np.uint64(start), np.uint64(stop + 1)):
            scaled[slot, k] = weight[post, slot, k] * factor[k]


@part
def _select(out, prior, beam, found):
    """List the phrases with weight, those below the beam left out; how many, and the largest.

    A phrase is below the beam when its weight times prior is below the beam times the best.
    """
    n_found = np.uint64(0)
    for a in range(np.uint64(len(out))):
        if out[a] != 0.0:
            found[n_found] = a
            n_found += np.uint64(1)
    best = 0.0
    if beam > 0.0:
        for place in range(n_found):
            best = max(best, out[found[place]] * prior[found[place]])
    largest, n_kept = 0.0, np.uint64(0)
    for place in range(n_found):
        a = found[place]
        if out[a] * prior[a] >= beam * best:
            largest = max(largest, out[a])
            found[n_kept] = a
            n_kept += np.uint64(1)
        else:
            out[a] = 0.0
    return n_kept, largest


@part
def _store(rules, chart, i, j, base, out, found, n_found, largest):
    """File a finished span in all three orders, scaled to about 1, and empty `out` again."""
    n = chart.n
    cell = cell_of(i, j, n)
    beta, active = chart.beta, chart.active
    beta[cell] = 0.0
    if n_found == 0:
        return
    chart.n_active[cell] = n_found
    _, exponent = frexp(largest)
    exponent = max(exponent, -1022)
    down = ldexp(1.0, -exponent)
    _set_scale(chart, i, j, base + exponent)
    left_slot, right_slot = rules.left_slot, rules.right_slot
    for place in range(n_found):
        a = found[place]
        value = out[a] * down
        out[a] = 0.0
        beta[cell, a] = value
        active[cell, place] = a
        if left_slot[a] != NO_SLOT:
            _extend_up(chart.left, i, np.uint64(left_slot[a]), j, value)
        if right_slot[a] != NO_SLOT:
            _extend_down(chart.right, j, np.uint64(right_slot[a]), i, value)


@part
def _extend_up(runs, post, slot, split, value):
    """Add a weight behind a run (spans of one start arrive with rising end); gaps become zeros."""
    last = runs.last[post, slot]
    if last < 0:
        runs.first[post, slot] = split
        runs.slots[post, runs.n_slots[post]] = slot
        runs.n_slots[post] += 1
    else:
        for k in range(last + 1, split):
            runs.weight[post, slot, k] = 0.0
    runs.weight[post, slot, split] = value
    runs.last[post, slot] = split


@part
def _extend_down(runs, post, slot, split, value):
    """Add a weight before a run (spans of one end arrive with falling start)."""
    if runs.last[post, slot] < 0:
        runs.last[post, slot] = split
        runs.slots[post, runs.n_slots[post]] = slot
        runs.n_slots[post] += 1
    else:
        for k in range(split + 1, runs.first[post, slot]):
            runs.weight[post, slot, k] = 0.0
    runs.weight[post, slot, split] = value
    runs.first[post, slot] = split


@part
def _exclude(out, of_cell, allowed, cell):
    """Set the weights of the phrases to 0 that are not allowed over a span."""
    row = of_cell[cell]
    if row > 0:  # class 0 allows everything
        for a in range(len(out)):
            if not allowed[row, a]:
                out[a] = 0.0


@kernel(fastmath=_FAST)
def fill(rules, tags, room, active, prior, beam, of_cell, allowed):
    """The parts of a `Chart`: weight of every labelled span, summed over its derivations.

        beta[i, j, a] = sum over k and a -> b c of  w(a -> b c) * beta[i, k, b] * beta[k, j, c]

    Parameters
    ----------
    room, active
        Scratch space that the chart will lie in: by cell, start and end, see `_three_orders`, and
        n_cells * n_phrases unsigned numbers.
    prior : [n_phrases]
        How common each phrase is; only used with a beam.
    beam
        Phrases whose weight times prior is below the beam times their span's best are dropped; 0
        keeps the full chart, and the sums exact.
    of_cell, allowed
        Constraints: the class of each span, and the phrases that each class allows, see
        `sapwood.constituency.grammar.constraints`; empty where there is none.

    Cost: O(n^2 R + n^3 P) time for R rules and P pairs of phrases, O(n^2 N) memory.
    """
    n = len(tags.start) - 1
    chart = _empty_chart(n, rules, tags, room, active)
    out, found = np.zeros(rules.n_phrases), np.empty(rules.n_phrases, np.uint32)
    factor, powers = np.zeros(n + 1), _powers_of_two()
    scaled = np.zeros((len(rules.right_of), n + 1))
    # Right to left: everything that starts at i stays in the cache while its ends are worked off.
    for i in range(n - 2, -1, -1):
        before = chart.scale_from[i]
        for j in range(i + 2, n + 1):
            width, behind = j - i, chart.scale_to[j]
            base = _largest_scale(before, behind, i, j)
            if base <= NO_WEIGHT // 2:
                _store(rules, chart, i, j, base, out, found, np.uint64(0), 0.0)
                continue
            _split_factors(before, behind, i, j, base, powers, factor)
            if width == 2:
                _combine_two_words(rules, tags, i, out)
            else:
                _combine_with_word(
                    rules.ta_pair, rules.ta_start, rules.ta_parent, rules.ta_weight,
                    tags, i, chart, cell_of(i + 1, j, n), factor[i + 1], out,
                )  # fmt: skip
                _combine_with_word(
                    rules.at_pair, rules.at_start, rules.at_parent, rules.at_weight,
                    tags, j - 1, chart, cell_of(i, j - 1, n), factor[j - 1], out,
                )  # fmt: skip
            if width >= 4:
                _scale_runs(chart.right, j, i + 2, j - 2, factor, scaled)
                _combine_phrases(rules, chart, i, j, scaled, out)
            if len(of_cell):
                _exclude(out, of_cell, allowed, cell_of(i, j, n))
            n_found, largest = _select(out, prior, beam if width < n else 0.0, found)
            _store(rules, chart, i, j, base, out, found, n_found, largest)
    return (
        n, chart.beta, chart.active, chart.n_active, chart.scale, chart.scale_from, chart.scale_to,
        _columns(chart.left), _columns(chart.right),
    )  # fmt: skip


@part
def _columns(runs):
    return runs.weight, runs.first, runs.last, runs.slots, runs.n_slots


@kernel
def partition(chart, root):
    """Root weights times inside weights of the whole sentence, without its power of two."""
    cell = cell_of(0, chart.n, chart.n)
    total = 0.0
    for a in range(len(root)):
        total += root[a] * chart.beta[cell, a]
    return total


@part(fastmath=_FAST)
def _collect(rules, chart, from_left, from_right, i, j, alpha, live):
    """Outside weights of a span's phrases, in `alpha` and in the otherwise zero `live`.

    Returns whether anything arrived. What was sent to phrases without inside weight is ignored.
    """
    cell = cell_of(i, j, chart.n)
    active, left_slot, right_slot = chart.active, rules.left_slot, rules.right_slot
    arrived = False
    for place in range(np.uint64(chart.n_active[cell])):
        a = active[cell, place]
        value = alpha[cell, a]
        if left_slot[a] != NO_SLOT:
            value += from_left[i, left_slot[a], j]
        if right_slot[a] != NO_SLOT:
            value += from_right[j, right_slot[a], i]
        alpha[cell, a] = value
        live[a] = value
        if value != 0.0:
            arrived = True
    return arrived


@part
def _clear(chart, cell, live):
    for place in range(np.uint64(chart.n_active[cell])):
        live[chart.active[cell, place]] = 0.0


@part(fastmath=_FAST)
def _send_two_words(rules, tags, i, live, factor, tag_alpha):
    """SEND: (i, i+2, a), a -> t u, (i+1, u)  =>  (i, t); and mirrored."""
    start, parent, weight = rules.tt_start, rules.tt_parent, rules.tt_weight
    for x in range(tags.start[i], tags.start[i + 1]):
        for y in range(tags.start[i + 1], tags.start[i + 2]):
            pair = np.uint64(rules.tt_pair[tags.tag[x], tags.tag[y]])
            if pair == 0:
                continue
            sent = 0.0
            for r in range(np.uint64(start[pair - np.uint64(1)]), np.uint64(start[pair])):
                sent += weight[r] * live[parent[r]]
            tag_alpha[x] += sent * factor * tags.weight[y]
            tag_alpha[y] += sent * factor * tags.weight[x]


@part(fastmath=_FAST)
def _send_with_word(
    pairs, start, parent, weight, tags, position, chart, cell, factor, live, alpha, tag_alpha
):
    """SEND: (i, j, a), a -> t c or a -> c t, one child  =>  the other; the phrase's `cell`.

    With the word first: alpha[i+1, j, c] += w(a -> t c) * alpha[i, j, a] * weight[i, t], and
    alpha[i, t] += w(a -> t c) * alpha[i, j, a] * beta[i+1, j, c].
    """
    beta, active, n_active = chart.beta, chart.active, chart.n_active[cell]
    for x in range(tags.start[position], tags.start[position + 1]):
        t = tags.tag[x]
        to_tag = 0.0
        for place in range(np.uint64(n_active)):
            c = active[cell, place]
            pair = np.uint64(pairs[t, c])
            if pair == 0:
                continue
            sent = 0.0
            for r in range(np.uint64(start[pair - np.uint64(1)]), np.uint64(start[pair])):
                sent += weight[r] * live[parent[r]]
            alpha[cell, c] += sent * tags.weight[x] * factor
            to_tag += sent * beta[cell, c]
        tag_alpha[x] += to_tag * factor


@part(fastmath=_FAST)
def _send_phrases(rules, chart, i, j, live, scaled_left, scaled_right, from_left, from_right):
    """SEND: (i, j, a), a -> b c, (k, j, c)  =>  (i, k, b); and mirrored, for all splits k at once.

    from_left[i, b, k] += w(a -> b c) * alpha[i, j, a] * beta[k, j, c], and
    from_right[j, c, k] += w(a -> b c) * alpha[i, j, a] * beta[i, k, b].
    """
    aa_first, aa_right, aa_start = rules.aa_first, rules.aa_right, rules.aa_start
    aa_parent, aa_weight = rules.aa_parent, rules.aa_weight
    left_first, left_last = chart.left.first, chart.left.last
    right_first, right_last = chart.right.first, chart.right.last
    slots, one = chart.left.slots, np.uint64(1)
    for place in range(np.uint64(chart.left.n_slots[i])):
        left = np.uint64(slots[i, place])
        first, last = left_first[i, left], min(left_last[i, left], j - 2)
        if first > last:
            continue
        for pair in range(np.uint64(aa_first[left]), np.uint64(aa_first[left + one])):
            right = np.uint64(aa_right[pair])
            low, high = max(first, right_first[j, right]), min(last, right_last[j, right])
            if low > high:
                continue
            sent = 0.0
            for r in range(np.uint64(aa_start[pair]), np.uint64(aa_start[pair + one])):
                sent += aa_weight[r] * live[aa_parent[r]]
            if sent == 0.0:
                continue
            for k in range(np.uint64(low), np.uint64(high) + one):
                from_left[i, left, k] += sent * scaled_right[right, k]
            for k in range(np.uint64(low), np.uint64(high) + one):
                from_right[j, right, k] += sent * scaled_left[left, k]


@part
def _clear_messages(runs, messages):
    """Zero what larger spans send to smaller ones, only where something can arrive."""
    for post in range(len(runs.n_slots)):
        for place in range(runs.n_slots[post]):
            slot = runs.slots[post, place]
            for k in range(runs.first[post, slot], runs.last[post, slot] + 1):
                messages[post, slot, k] = 0.0


@kernel(fastmath=_FAST)
def plain_outside(rules, tags, chart, root, room):
    """Weight of everything outside each labelled span, divided by the weight of the sentence.

        alpha[i, k, b] = sum over j and a -> b c of  w(a -> b c) * alpha[i, j, a] * beta[k, j, c]

    and mirrored. Returned so that `beta * alpha` is the posterior of each labelled span, and
    `tags.weight * tag_alpha` that of each tag; no power of two is left over. `room` is scratch
    space as for `fill`, and not the same.

    Cost: as `fill`, twice the multiplications in its last kind of rules.
    """
    n = chart.n
    alpha, from_left, from_right = _three_orders(n, rules, room)
    alpha[:] = 0.0
    tag_alpha = np.zeros(len(tags.tag))
    total = partition(chart, root)
    if not total > 0.0:
        return alpha, tag_alpha
    _clear_messages(chart.left, from_left)
    _clear_messages(chart.right, from_right)
    scaled_left = np.zeros((len(rules.left_of), n + 1))
    scaled_right = np.zeros((len(rules.right_of), n + 1))
    factor, powers, live = np.zeros(n + 1), _powers_of_two(), np.zeros(rules.n_phrases)
    for a in range(len(root)):  # a whole row would compile NumPy's errors of shapes: 2 s
        alpha[cell_of(0, n, n), a] = root[a] / total
    for i in range(n - 1):
        for j in range(n, i + 1, -1):
            width, cell = j - i, cell_of(i, j, n)
            if not _collect(rules, chart, from_left, from_right, i, j, alpha, live):
                _clear(chart, cell, live)
                continue
            _split_factors(
                chart.scale_from[i], chart.scale_to[j], i, j, chart.scale[cell], powers, factor
            )
            if width == 2:
                _send_two_words(rules, tags, i, live, factor[i + 1], tag_alpha)
            else:
                _send_with_word(
                    rules.ta_pair, rules.ta_start, rules.ta_parent, rules.ta_weight, tags, i,
                    chart, cell_of(i + 1, j, n), factor[i + 1], live, alpha, tag_alpha,
                )  # fmt: skip
                _send_with_word(
                    rules.at_pair, rules.at_start, rules.at_parent, rules.at_weight, tags, j - 1,
                    chart, cell_of(i, j - 1, n), factor[j - 1], live, alpha, tag_alpha,
                )  # fmt: skip
            if width >= 4:
                _scale_runs(chart.left, i, i + 2, j - 2, factor, scaled_left)
                _scale_runs(chart.right, j, i + 2, j - 2, factor, scaled_right)
                _send_phrases(
                    rules, chart, i, j, live, scaled_left, scaled_right, from_left, from_right
                )
            _clear(chart, cell, live)
    return alpha, tag_alpha
