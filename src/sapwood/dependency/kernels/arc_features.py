"""Hashed features of words, arcs and pairs of arcs, and log-linear models of them.

Notation
--------
    row           of properties of one word, numbers; a sentence of n words has n + 4 of them: one
                  before it, the root, its words, two behind it. Word i of a sentence, the root
                  being 0, is row 1 + i of its rows; place -1 is the row before it
    template      up to N_ATOMS atoms, each a place and a property, see `arc_layout`
    between       the set of tags between head and modifier; how many are like the modifier's, like
                  the head's
    feature       a template with its values, hashed to a place in the table of weights

Every template gives two features: with the direction of the arc, and with its length too. They lie
in the same 64 bytes of the table, so that the second one costs next to nothing.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part
from sapwood.dependency.kernels.arc_layout import BETWEEN, N_ATOMS

ARC, LAST, NONE, SIBLING, GRAND = range(5)  # kinds of parts, see `arc_forest`
N_INSIDE = 8  # features of single tags between head and modifier, at most
_A, _B = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_C, _D = np.uint64(0x165667B19E3779F9), np.uint64(0xBF58476D1CE4E5B9)
_0, _1, _32, _29 = np.uint64(0), np.uint64(1), np.uint64(32), np.uint64(29)


@part
def _spread(h):
    """All bits depend on all bits."""
    h ^= h >> _32
    h *= _D
    h ^= h >> _29
    return h


@part
def _length_class(length):
    """1 to 6, then ever wider classes up to 12."""
    if length <= 6:
        return length
    wide = 7
    for most in (8, 11, 15, 20, 30):
        wide += length > most
    return wide


@part
def _directions(kind, h, m, third):
    """The directions of the arcs of a part, and the class of its length."""
    if kind == NONE:
        return m, 0
    towards = 2 if h == 0 else (1 if h < m else 0)
    if kind == GRAND:
        return towards + 3 * (2 if third == 0 else (1 if third < h else 0)), _length_class(
            abs(h - m)
        )
    if kind == SIBLING and third > 0:
        return towards + 3, _length_class(abs(third - m))
    return towards, _length_class(abs(h - m))


@kernel
def part_features(parts, words, coarse, between, templates, bounds, mask):
    """Features of all parts of a sentence.

    Parameters
    ----------
    parts : [n_parts, 4 or more]
        See `arc_forest`; further columns are further words.
    words : [n + 4, n_properties]
        The rows of the sentence.
    coarse
        Column of the coarse tag of the words between, a number below 64.
    between : [n_templates of arcs]
        Columns of head and of modifier that go with each tag between them.
    templates : [n_templates, N_ATOMS, 2]
        Place and property of every atom; place -1 after the last.
    bounds : [6]
        First template of each kind of parts.
    mask
        Size of the table less 1.

    Returns
    -------
    features : [n_parts, most]
        Of features with a direction.
    count, class : [n_parts]
        How many there are, and what turns them (by exclusive or) into those with a length.
    """
    most = 0
    for kind in range(5):
        most = max(most, bounds[kind + 1] - bounds[kind] + (N_INSIDE if kind == ARC else 0))
    features = np.empty((len(parts), most), np.uint32)
    n_features, lengths = np.zeros(len(parts), np.int32), np.zeros(len(parts), np.uint32)
    inside = np.zeros(3, np.uint64)
    for p in range(len(parts)):
        kind = parts[p, 0]
        if kind < 0:
            continue
        h, m, third = np.int64(parts[p, 1]), np.int64(parts[p, 2]), np.int64(parts[p, 3])
        towards, length = _directions(kind, h, m, third)
        lengths[p] = length
        start = (np.uint64(towards) + _1) * _C
        if kind == ARC:
            _look_between(words, coarse, h, m, inside)
        f = 0
        for t in range(bounds[kind], bounds[kind + 1]):
            key = (np.uint64(t) + _1) * _A
            for k in range(N_ATOMS):
                place, column = templates[t, k, 0], templates[t, k, 1]
                if place < 0:
                    break
                if place == BETWEEN:
                    value = inside[column]
                else:
                    which = place // 5
                    value = words[parts[p, 1 + which] + place - 5 * which - 1, column]
                key = (key ^ value) * _B
                key ^= key >> _32
            features[p, f] = np.uint32(_spread(key + start) & mask)
            f += 1
        if kind == ARC:
            tags = inside[0]
            pair = words[1 + h, between[0]] * _A ^ (words[1 + m, between[1]] * _C + start)
            for tag in range(64):
                if f == most or tags >> np.uint64(tag) == _0:
                    break
                if (tags >> np.uint64(tag)) & _1:
                    features[p, f] = np.uint32(_spread((pair + np.uint64(tag)) * _B) & mask)
                    f += 1
        n_features[p] = f
    return features, n_features, lengths


@part
def _look_between(words, coarse, h, m, inside):
    """The properties of the words between head and modifier."""
    tags, like_m, like_h = _0, _0, _0
    for w in range(min(h, m) + 1, max(h, m)):
        tag = words[1 + w, coarse]
        tags |= _1 << tag
        like_m += np.uint64(tag == words[1 + m, coarse])
        like_h += np.uint64(tag == words[1 + h, coarse])
    inside[0], inside[1], inside[2] = tags, min(like_m, np.uint64(3)), min(like_h, np.uint64(3))


@kernel
def part_scores(features, n_features, lengths, weights):
    """Sum of the weights of each part's features; -inf for parts that cannot be."""
    out = np.zeros(len(features))
    for p in range(len(features)):
        total = 0.0
        for f in range(n_features[p]):
            place = features[p, f]
            total += weights[place]
            if lengths[p]:
                total += weights[place ^ lengths[p]]
        out[p] = total
    return out


@kernel
def tag_lattice(types, first_candidate, candidates, words, column, base, mask):
    """The tags that words may have, as a forest whose trees are sequences of tags.

    Parameters
    ----------
    types : [n]
        Row of `first_candidate` for each word.
    candidates
        Tags of each type, from `first_candidate[type]` on.
    column
        The property of a word that goes with its tag and the one before.
    base : [n, n_base]
        Features of the words.

    Returns
    -------
    starts, edges : [n_nodes + 1], [n_edges, 4]
        As in `arc_forest`: a node is a word with one of its tags; the last node is the sentence.
    tag : [n_nodes]
        Its tag; -1 for the last.
    features : [n_parts, n_base]
        Of nodes, in order, then of pairs of neighbours.
    n_features : [n_parts]
    """
    n, n_base = base.shape
    n_nodes, n_pairs, before = 0, 0, 1
    for i in range(n):
        here = np.int64(first_candidate[types[i] + 1] - first_candidate[types[i]])
        n_nodes += here
        n_pairs += here * before
        before = here
    starts, tag = np.empty(n_nodes + 2, np.int32), np.full(n_nodes + 1, -1, np.int32)
    edges = np.full((n_pairs + before, 4), -1, np.int32)
    features = np.empty((n_nodes + n_pairs, n_base), np.uint32)
    n_features = np.full(n_nodes + n_pairs, 3, np.int32)
    x, e, first_before, first = 0, 0, 0, 0
    for i in range(n):
        first_before, first = first, x
        for c in range(first_candidate[types[i]], first_candidate[types[i] + 1]):
            t = np.uint64(candidates[c])
            starts[x], tag[x], n_features[x] = e, candidates[c], n_base
            for f in range(n_base):
                features[x, f] = np.uint32((np.uint64(base[i, f]) ^ t) & mask)
            for y in range(first_before if i else -1, first if i else 0):
                edges[e, 0], edges[e, 2], edges[e, 3] = y, x, n_nodes + e
                old = np.uint64(tag[y] + 1) if i else _0
                pair = (old * _A) ^ (t * _C)
                row = n_nodes + e
                features[row, 0] = np.uint32(_spread(pair) & mask)
                features[row, 1] = np.uint32(_spread((pair + words[2 + i, column]) * _B) & mask)
                features[row, 2] = np.uint32(_spread((pair ^ words[1 + i, column]) * _D) & mask)
                e += 1
            x += 1
    starts[x] = e
    for y in range(first, x):
        edges[e, 0] = y
        e += 1
    starts[x + 1] = e
    return starts, edges, tag, features, n_features


@kernel
def relation_scores(features, weights, n_labels):
    """Scores of all labels of all parts, shape [n_parts, n_labels]: a row of the table each."""
    out = np.zeros((len(features), n_labels), np.float32)
    for p in range(len(features)):
        for f in range(features.shape[1]):
            place = np.int64(features[p, f])
            for k in range(n_labels):
                out[p, k] += weights[place + k]
    return out
