"""Prefix probabilities of a latent grammar, one word at a time (Stolcke 1995, in binary form).

Notation
--------
    i, j, k            fenceposts; the prefix that has been read ends at k
    I[i, k, a][h]      inside probability of the words between i and k below symbol a in state h
    S[i, a][h]         probability that the prefix up to i was read and that an a in state h starts
                       there, summed over the left-recursive chains above and to the left of it
    H[i, b, c][p, q]   sum over rules a -> b c and states h of  S[i, a][h] C[a -> b c][h, p, q]

All of them are divided by the probability of the prefix that they cover, so no number underflows.
A phrase spans at least two words and a tag exactly one, since unary chains are joint symbols.

Rules are grouped by their pair of children (b, c), and pairs by their left child. Spans that end at
k are column k of the chart: cell (i, k) is number k (k - 1) / 2 + i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.jit import kernel, part

_FAST = {"contract", "reassoc"}


class PairedRules(NamedTuple):
    """The rules of a grammar by their pair of children, for the kernels of this module."""

    n_phrases: int
    n_states: npt.NDArray[np.int64]  # [n_symbols]
    state_start: npt.NDArray[np.int64]  # [n_symbols + 1]: phrases first, then tags
    first_pair: npt.NDArray[np.int64]  # [n_symbols + 1]: where the pairs of each left child start
    right_child: npt.NDArray[np.int64]  # [n_pairs]
    first_rule: npt.NDArray[np.int64]  # [n_pairs + 1]: where the rules of each pair start
    parent: npt.NDArray[np.int64]  # [n_rules], in the order of pairs
    tensor_start: npt.NDArray[np.int64]  # [n_rules], in the order of pairs
    tensors: npt.NDArray[np.float64]  # all tensors C[h, p, q], in the grammar's own order
    block_start: npt.NDArray[np.int64]  # [n_pairs + 1]: where the matrix H of each pair starts


class PrefixChart(NamedTuple):
    """What has been computed for the words read so far."""

    phrases: npt.NDArray[np.float64]  # [n_cells, states of phrases]: I of phrases
    is_active: npt.NDArray[np.bool_]  # [n_cells, n_phrases]: where I is not zero
    is_expected: npt.NDArray[np.bool_]  # [n + 1, n_phrases]: whether a phrase can start at i
    tags: npt.NDArray[np.float64]  # [n, states of tags]: I of tags
    has_tag: npt.NDArray[np.bool_]  # [n, n_tags]
    sums: npt.NDArray[np.float64]  # [n, size of H]


@part
def _cell(i, k):
    """Number of the cell of the words between i and k."""
    return k * (k - 1) // 2 + i


@part(fastmath=_FAST)
def _add_outer(left, left_at, n_left, right, right_at, n_right, out):
    """Add the outer product of two vectors to out, row by row."""
    for p in range(n_left):
        weight = left[left_at + p]
        for q in range(n_right):
            out[p * n_right + q] += weight * right[right_at + q]


@part(fastmath=_FAST)
def _dot(left, left_at, right, size):
    total = 0.0
    for t in range(size):
        total += left[left_at + t] * right[t]
    return total


@kernel(fastmath=_FAST)
def inside_column(rules, chart, k, largest):
    """Fill column k of the chart: the inside probabilities of all phrases that end at k.

        I[i, k, a][h] = sum over rules a -> b c and p, q of  C[h, p, q] *
                        sum over j of  I[i, j, b][p] * I[j, k, c][q]

    The sum over j comes first, so that each tensor is read once for each span. Only phrases that
    can start at i after the prefix up to i are computed. Cost: O(k^2 pairs m^2 + k rules m^3).

    Parameters
    ----------
    largest
        The largest number of states of a symbol.
    """
    n_phrases, tag_start = rules.n_phrases, rules.state_start[rules.n_phrases]
    outer = np.zeros(largest * largest)
    splits = np.empty(k, np.int64)
    for i in range(k - 2, -1, -1):
        target = _cell(i, k)
        for b in range(len(rules.n_states)):
            is_tag = b >= n_phrases
            n_splits = 0
            if is_tag:
                if chart.has_tag[i, b - n_phrases]:
                    splits[0] = i + 1
                    n_splits = 1
            else:
                for j in range(i + 2, k):
                    if chart.is_active[_cell(i, j), b]:
                        splits[n_splits] = j
                        n_splits += 1
            if n_splits == 0:
                continue
            n_b = rules.n_states[b]
            b_at = rules.state_start[b] - (tag_start if is_tag else 0)
            for pair in range(rules.first_pair[b], rules.first_pair[b + 1]):
                c = rules.right_child[pair]
                n_c, c_at = rules.n_states[c], rules.state_start[c]
                is_found = False
                for s in range(n_splits):
                    j = splits[s]
                    if c >= n_phrases:
                        if j != k - 1 or not chart.has_tag[j, c - n_phrases]:
                            continue
                        right, right_at = chart.tags[j], c_at - tag_start
                    else:
                        if j > k - 2 or not chart.is_active[_cell(j, k), c]:
                            continue
                        right, right_at = chart.phrases[_cell(j, k)], c_at
                    if not is_found:
                        is_found = True
                        for t in range(n_b * n_c):
                            outer[t] = 0.0
                    left = chart.tags[i] if is_tag else chart.phrases[_cell(i, j)]
                    _add_outer(left, b_at, n_b, right, right_at, n_c, outer)
                if not is_found:
                    continue
                for r in range(rules.first_rule[pair], rules.first_rule[pair + 1]):
                    a = rules.parent[r]
                    if not chart.is_expected[i, a]:
                        continue
                    size, a_at = n_b * n_c, rules.state_start[a]
                    for h in range(rules.n_states[a]):
                        at = rules.tensor_start[r] + h * size
                        chart.phrases[target, a_at + h] += _dot(rules.tensors, at, outer, size)
        for a in range(n_phrases):
            for h in range(rules.state_start[a], rules.state_start[a + 1]):
                if chart.phrases[target, h] > 0.0:
                    chart.is_active[target, a] = True


@kernel(fastmath=_FAST)
def sum_over_parents(rules, started, out):
    """Fill H of one start: out[b, c][p, q] = sum over a, h of started[a][h] C[h, p, q].

    Cost: O(rules m^3), once for each word.

    Parameters
    ----------
    started : [states of phrases]
        S of this start.
    """
    for t in range(len(out)):
        out[t] = 0.0
    for b in range(len(rules.n_states)):
        for pair in range(rules.first_pair[b], rules.first_pair[b + 1]):
            size = rules.n_states[b] * rules.n_states[rules.right_child[pair]]
            block = rules.block_start[pair]
            for r in range(rules.first_rule[pair], rules.first_rule[pair + 1]):
                a = rules.parent[r]
                for h in range(rules.n_states[a]):
                    weight = started[rules.state_start[a] + h]
                    if weight == 0.0:
                        continue
                    at = rules.tensor_start[r] + h * size
                    for t in range(size):
                        out[block + t] += weight * rules.tensors[at + t]


@kernel(fastmath=_FAST)
def next_starts(rules, chart, k, out):
    """Probability that each symbol starts at k as a right child, after the prefix up to k.

        out[c][q] = sum over i < k, b and p of  I[i, k, b][p] H[i, b, c][p, q]

    Cost: O(k pairs m^2).

    Parameters
    ----------
    out : [states of all symbols]
        Filled.
    """
    tag_start = rules.state_start[rules.n_phrases]
    for t in range(len(out)):
        out[t] = 0.0
    for i in range(k):
        is_word = i == k - 1
        for b in range(len(rules.n_states)):
            if is_word:
                if b < rules.n_phrases or not chart.has_tag[i, b - rules.n_phrases]:
                    continue
                left, b_at = chart.tags[i], rules.state_start[b] - tag_start
            else:
                if b >= rules.n_phrases or not chart.is_active[_cell(i, k), b]:
                    continue
                left, b_at = chart.phrases[_cell(i, k)], rules.state_start[b]
            for pair in range(rules.first_pair[b], rules.first_pair[b + 1]):
                c = rules.right_child[pair]
                n_c, c_at, block = rules.n_states[c], rules.state_start[c], rules.block_start[pair]
                for p in range(rules.n_states[b]):
                    weight = left[b_at + p]
                    for q in range(n_c):
                        out[c_at + q] += weight * chart.sums[i, block + p * n_c + q]
