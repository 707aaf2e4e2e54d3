"""Features of labelled spans, and the log-linear model over forests that they make.

Notation
--------
    w[f]      weight of feature f; features are hashed, so f is below the size of the table
    s(x)      score of an item: sum of the weights of its features; s(e) likewise of an edge
    p(tree)   proportional to exp(sum of s over its items and edges)
    in[x]     log of the sum over derivations of x;  out[x]  likewise over what is around x

Every item has N_ITEM features of its symbol with the words at and around its ends, every tag
N_TAG features of the word and its neighbours, every edge N_EDGE features of its rule with the words
around the split.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part

N_ITEM, N_TAG, N_EDGE = 16, 16, 9
N_PROPERTIES = 6  # of a word: itself, ending, shorter ending, shape, small letters, beginning
WORD, ENDING, SHORT_ENDING, SHAPE, LOWER, BEGINNING = range(N_PROPERTIES)
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_C, _D = np.uint64(0x165667B19E3779F9), np.uint64(0xBF58476D1CE4E5B9)
_0 = np.uint64(0)


@part
def _hash(template, what, one, two, mask):
    """A number below mask + 1 for a template and three values; one type, so compiled once."""
    h = (np.uint64(template) + what * np.uint64(64)) * _A
    h ^= one * _B
    h ^= two * _C
    h ^= h >> np.uint64(29)
    h *= _D
    h ^= h >> np.uint64(32)
    return np.uint32(h & mask)


@part
def _length_class(length):
    """1, 2, 3, 4, 5, then ever wider classes."""
    if length <= 5:
        return length
    if length <= 7:
        return 6
    if length <= 10:
        return 7
    if length <= 15:
        return 8
    if length <= 25:
        return 9
    return 10


@kernel
def item_features(symbol, start, end, words, mask):
    """Features of all items, shape [n_items, N_ITEM].

    Parameters
    ----------
    words : [n + 2, N_PROPERTIES]
        Properties of the words; rows 0 and n + 1 stand for the ends of the sentence.
    mask
        Size of the table less 1, the size being a power of two.
    """
    out = np.empty((len(symbol), N_ITEM), np.uint32)
    for x in range(len(symbol)):
        a = np.uint64(symbol[x])
        i, j = np.int64(start[x]) + 1, np.int64(end[x])  # rows of its end words
        if j == i:
            _tag_features(a, i, words, mask, out[x])
            continue
        length = np.uint64(_length_class(j - i + 1))
        first, last, before, after = words[i], words[j], words[i - 1], words[j + 1]
        shape = np.uint64(0)
        for k in range(i, min(j, i + 7) + 1):  # of the first words: as informative as all
            shape = shape * np.uint64(31) + words[k, SHAPE] + np.uint64(1)
        out[x, 0] = _hash(0, a, _0, _0, mask)
        out[x, 1] = _hash(1, a, length, _0, mask)
        out[x, 2] = _hash(2, a, first[WORD], _0, mask)
        out[x, 3] = _hash(3, a, last[WORD], _0, mask)
        out[x, 4] = _hash(4, a, before[WORD], _0, mask)
        out[x, 5] = _hash(5, a, after[WORD], _0, mask)
        out[x, 6] = _hash(6, a, first[ENDING], _0, mask)
        out[x, 7] = _hash(7, a, last[ENDING], _0, mask)
        out[x, 8] = _hash(8, a, before[ENDING], _0, mask)
        out[x, 9] = _hash(9, a, after[ENDING], _0, mask)
        out[x, 10] = _hash(10, a, before[WORD], after[WORD], mask)
        out[x, 11] = _hash(11, a, first[WORD], last[WORD], mask)
        out[x, 12] = _hash(12, a, first[WORD], after[WORD], mask)
        out[x, 13] = _hash(13, a, before[WORD], first[WORD], mask)
        out[x, 14] = _hash(14, a, shape, length, mask)
        out[x, 15] = _hash(15, a, last[WORD], after[WORD], mask)
    return out


@part
def _tag_features(a, i, words, mask, out):
    here, before, after = words[i], words[i - 1], words[i + 1]
    out[0] = _hash(20, a, here[WORD], _0, mask)
    out[1] = _hash(21, a, here[ENDING], _0, mask)
    out[2] = _hash(22, a, here[SHORT_ENDING], _0, mask)
    out[3] = _hash(23, a, here[SHAPE], _0, mask)
    out[4] = _hash(24, a, here[LOWER], _0, mask)
    out[5] = _hash(25, a, here[BEGINNING], _0, mask)
    out[6] = _hash(26, a, before[WORD], _0, mask)
    out[7] = _hash(27, a, after[WORD], _0, mask)
    out[8] = _hash(28, a, before[ENDING], _0, mask)
    out[9] = _hash(29, a, after[ENDING], _0, mask)
    out[10] = _hash(30, a, before[WORD], here[WORD], mask)
    out[11] = _hash(31, a, here[WORD], after[WORD], mask)
    out[12] = _hash(32, a, before[WORD], here[ENDING], mask)
    out[13] = _hash(33, a, here[ENDING], after[WORD], mask)
    out[14] = _hash(34, a, here[SHAPE], before[SHAPE], mask)
    out[15] = _hash(35, a, _0, _0, mask)


@kernel
def edge_features(forest, words, mask):
    """Features of all edges, shape [n_edges, N_EDGE]."""
    out = np.empty((len(forest.head), N_EDGE), np.uint32)
    for e in range(len(forest.head)):
        r, x = np.uint64(forest.rule[e]), forest.head[e]
        i, j = np.int64(forest.start[x]) + 1, np.int64(forest.end[x])
        k = np.int64(forest.end[forest.left[e]])  # row of the word before the split
        sizes = np.uint64(_length_class(k - i + 1) * 16 + _length_class(j - k))
        out[e, 0] = _hash(40, r, _0, _0, mask)
        out[e, 1] = _hash(41, r, sizes, _0, mask)
        out[e, 2] = _hash(42, r, words[k, WORD], _0, mask)
        out[e, 3] = _hash(43, r, words[k + 1, WORD], _0, mask)
        out[e, 4] = _hash(44, r, words[k, ENDING], _0, mask)
        out[e, 5] = _hash(45, r, words[k + 1, ENDING], _0, mask)
        out[e, 6] = _hash(46, r, words[i, WORD], _0, mask)
        out[e, 7] = _hash(47, r, words[j, WORD], _0, mask)
        out[e, 8] = _hash(48, r, words[i, WORD], words[k + 1, WORD], mask)
    return out


@kernel
def scores(features, weights):
    """Sum of the weights of each row's features."""
    out = np.zeros(len(features))
    for x in range(features.shape[0]):
        total = 0.0
        for k in range(features.shape[1]):
            total += weights[features[x, k]]
        out[x] = total
    return out


@part
def _log_add(one, two):
    if one < two:
        one, two = two, one
    if two == -np.inf:
        return one
    return one + np.log1p(np.exp(two - one))


@kernel
def log_linear_posteriors(forest, roots, item_score, edge_score):
    """Log of the partition sum, and the posteriors of items and of edges.

    The sum is -inf, and the posteriors are 0, when the forest holds no whole tree.
    """
    n_items, n_edges = len(forest.symbol), len(forest.head)
    inside, outside = np.full(n_items, -np.inf), np.full(n_items, -np.inf)
    items, edges = np.zeros(n_items), np.zeros(n_edges)
    for x in range(n_items):
        if forest.end[x] - forest.start[x] == 1:
            inside[x] = item_score[x]
    for e in range(n_edges):  # narrow heads first, so children are complete
        x = forest.head[e]
        score = item_score[x] + edge_score[e] + inside[forest.left[e]] + inside[forest.right[e]]
        inside[x] = _log_add(inside[x], score)
    total = -np.inf
    for x in roots:
        total = _log_add(total, inside[x])
        outside[x] = 0.0
    if total == -np.inf:
        return total, items, edges
    for back in range(n_edges):
        e = n_edges - 1 - back
        x, y, z = forest.head[e], forest.left[e], forest.right[e]
        above = outside[x] + item_score[x] + edge_score[e]
        if above == -np.inf:
            continue
        edges[e] = np.exp(above + inside[y] + inside[z] - total)
        outside[y] = _log_add(outside[y], above + inside[z])
        outside[z] = _log_add(outside[z], above + inside[y])
    for x in range(n_items):
        items[x] = np.exp(inside[x] + outside[x] - total)
    return total, items, edges
