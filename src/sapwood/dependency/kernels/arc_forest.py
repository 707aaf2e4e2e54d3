"""Forests of projective dependency trees over some arcs: first and second order.

Notation
--------
    0, 1 ... n    the root and the words; exactly one word depends on the root
    a = (h, m)    an arc from head h to modifier m; arcs are sorted by head, then by modifier
    part          what is scored: an arc; an arc with the next sibling inward, s; with the head of
                  its head, g; that it is the outermost on its side; that a side has none
    node          a piece of a tree; its hyperedges, one after the other, build it
    p(tree)       proportional to exp(sum of the scores of its parts)

An edge joins one or two nodes that come before its own, or none, and has up to two parts. Every
tree has one derivation. Second order is model 1 of Koo and Collins (2010) on the arcs that are
given, with the head of the head in each node; first order is Eisner (1996).

    half(a, e)     h's words up to e on one side, h a modifier of g by a = (g, h)
    open(a, b)     h's words up to m, by b = (h, m) its outermost arc so far
    gap(b, c)      what is between two siblings s and m, by c = (h, s) and b = (h, m)
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part

ARC, LAST, NONE, SIBLING, GRAND = range(5)  # kinds of parts
KIND, HEAD, MODIFIER, THIRD = range(4)  # columns of parts; NONE has its side for a modifier
LEFT, RIGHT, PART, MORE = range(4)  # columns of edges; -1 for nothing
NOTHING = -1


@part
def _add_edge(edges, n_edges, left, right, one, two):
    """Append an edge; the table is doubled when it is full."""
    if n_edges == len(edges):
        more = np.empty((2 * n_edges, 4), np.int32)
        for e in range(n_edges):
            for k in range(4):
                more[e, k] = edges[e, k]
        edges = more
    edges[n_edges, LEFT] = left
    edges[n_edges, RIGHT] = right
    edges[n_edges, PART] = one
    edges[n_edges, MORE] = two
    return edges


@part
def _close_node(starts, n_nodes, n_edges, arc_of, arc):
    """End the node of the last edges: its number, or NOTHING if it has no edges."""
    if starts[n_nodes] == n_edges:
        return NOTHING
    arc_of[n_nodes] = arc
    starts[n_nodes + 1] = n_edges
    return n_nodes


@part
def _arc_matrix(n, head, modifier):
    """Number of each arc by head and modifier; NOTHING for pairs without an arc."""
    number = np.full((n + 1, n + 1), NOTHING, np.int32)
    for a in range(len(head)):
        number[head[a], modifier[a]] = a
    return number


@kernel
def first_order(n, head, modifier):
    """Parts, nodes and edges of the trees over some arcs, one part for each arc.

    Returns
    -------
    parts : [n_parts, 4]
    starts : [n_nodes + 1]
        First edge of each node; the last node is the whole tree.
    edges : [n_edges, 4]
    arc_of : [n_nodes]
        The arc that is complete in this node and was not in those below; NOTHING for most.

    No node, where there is no tree.
    """
    number = _arc_matrix(n, head, modifier)
    parts = np.full((len(head), 4), NOTHING, np.int32)
    for a in range(len(head)):
        parts[a, KIND], parts[a, HEAD], parts[a, MODIFIER] = ARC, head[a], modifier[a]
    most = (n + 1) * (n + 1) * 2 + 2 * len(head) + 1
    starts, arc_of = np.zeros(most + 1, np.int32), np.empty(most, np.int32)
    edges, n_edges, n_nodes = np.empty((16 * n + 64, 4), np.int32), 0, 0
    left = np.full((n + 2, n + 2), NOTHING, np.int32)  # [h, e]: h's words down to e
    right = np.full((n + 2, n + 2), NOTHING, np.int32)
    opened = np.full(len(head), NOTHING, np.int32)
    for j in range(1, n + 1):
        for i in range(j, 0, -1):
            if i == j:
                edges = _add_edge(edges, n_edges, NOTHING, NOTHING, NOTHING, NOTHING)
                n_edges += 1
                right[i, i] = left[i, i] = _close_node(starts, n_nodes, n_edges, arc_of, NOTHING)
                n_nodes += 1
                continue
            for side in range(2):
                h, m = (i, j) if side else (j, i)
                a = number[h, m]
                if a >= 0:
                    for r in range(i, j):
                        if right[i, r] >= 0 and left[j, r + 1] >= 0:
                            edges = _add_edge(
                                edges, n_edges, right[i, r], left[j, r + 1], a, NOTHING
                            )
                            n_edges += 1
                    opened[a] = _close_node(starts, n_nodes, n_edges, arc_of, a)
                    n_nodes += opened[a] >= 0
                half = right if side else left
                for c in range(i, j + 1):
                    b = number[h, c]
                    if b >= 0 and opened[b] >= 0 and half[c, m] >= 0:
                        edges = _add_edge(edges, n_edges, opened[b], half[c, m], NOTHING, NOTHING)
                        n_edges += 1
                half[h, m] = _close_node(starts, n_nodes, n_edges, arc_of, NOTHING)
                n_nodes += half[h, m] >= 0
    roots = np.full(n + 1, NOTHING, np.int32)
    for m in range(1, n + 1):
        a = number[0, m]
        if a >= 0 and left[m, 1] >= 0 and right[m, n] >= 0:
            edges = _add_edge(edges, n_edges, left[m, 1], right[m, n], a, NOTHING)
            n_edges += 1
            roots[m] = _close_node(starts, n_nodes, n_edges, arc_of, a)
            n_nodes += 1
    whole = False
    for m in range(1, n + 1):
        if roots[m] >= 0:
            edges = _add_edge(edges, n_edges, roots[m], NOTHING, NOTHING, NOTHING)
            n_edges += 1
            whole = True
    if not whole:
        return parts, starts[:1], edges[:0], arc_of[:0]
    n_nodes += _close_node(starts, n_nodes, n_edges, arc_of, NOTHING) >= 0
    return parts, starts[: n_nodes + 1], edges[:n_edges], arc_of[:n_nodes]


@part
def _second_parts(n, head, modifier, up, first_up, first_down, first_sibling, first_grand):
    """All first- and second-order parts; pairs of arcs only if a projective tree has both."""
    n_arcs = len(head)
    n_parts = first_grand[n_arcs]
    parts = np.full((n_parts, 4), NOTHING, np.int32)
    for a in range(n_arcs):
        h, m = head[a], modifier[a]
        for kind in range(2):
            p = a + kind * n_arcs
            parts[p, KIND], parts[p, HEAD], parts[p, MODIFIER] = kind, h, m
        inward = -1 if m > h else 1
        for k in range(first_sibling[a + 1] - first_sibling[a]):
            p = first_sibling[a] + k
            parts[p, KIND], parts[p, HEAD], parts[p, MODIFIER] = SIBLING, h, m
            if k:  # its siblings stand next to it among the arcs, the next inward first
                parts[p, THIRD] = modifier[a + inward * k]
        for k in range(first_grand[a + 1] - first_grand[a]):
            p, g = first_grand[a] + k, head[up[first_up[h] + k]]
            if g != m and not min(h, m) < g < max(h, m):
                parts[p, KIND], parts[p, HEAD], parts[p, MODIFIER] = GRAND, h, m
                parts[p, THIRD] = g
    for h in range(n + 1):
        for side in range(2):
            p = 2 * n_arcs + 2 * h + side
            parts[p, KIND], parts[p, HEAD], parts[p, MODIFIER] = NONE, h, side
    return parts


@part
def _layout(n, head, modifier):
    """Arcs by modifier, and where the parts of each arc start.

    Returns
    -------
    up, first_up : [n_arcs], [n + 2]
        Arcs into each word.
    rank : [n_arcs]
        Place of an arc among those into its modifier.
    first_down : [n + 2]
        First arc out of each word.
    first_sibling, first_grand : [n_arcs + 1]
        Of arc (h, m): one for no sibling, then one for each arc of h between them, the nearest to
        m first; one for each arc into h.
    """
    n_arcs = len(head)
    first_up, first_down = np.zeros(n + 2, np.int32), np.zeros(n + 2, np.int32)
    for a in range(n_arcs):
        first_up[modifier[a] + 1] += 1
        first_down[head[a] + 1] += 1
    for w in range(n + 1):
        first_up[w + 1] += first_up[w]
        first_down[w + 1] += first_down[w]
    filled = np.zeros(n + 1, np.int32)
    up, rank = np.empty(n_arcs, np.int32), np.empty(n_arcs, np.int32)
    for a in range(n_arcs):
        m = modifier[a]
        rank[a] = filled[m]
        up[first_up[m] + filled[m]] = a
        filled[m] += 1
    first_sibling, first_grand = np.empty(n_arcs + 1, np.int32), np.empty(n_arcs + 1, np.int32)
    first_sibling[0] = 2 * n_arcs + 2 * (n + 1)
    for a in range(n_arcs):
        h, m = head[a], modifier[a]
        n_inner = 0
        if h > 0:
            step = -1 if m > h else 1
            b = a + step
            while first_down[h] <= b < first_down[h + 1] and (modifier[b] > h) == (m > h):
                n_inner += 1
                b += step
        first_sibling[a + 1] = first_sibling[a] + 1 + n_inner
    first_grand[0] = first_sibling[n_arcs]
    for a in range(n_arcs):
        h = head[a]
        first_grand[a + 1] = first_grand[a] + (first_up[h + 1] - first_up[h])
    return up, first_up, rank, first_down, first_sibling, first_grand


@kernel
def second_order(n, head, modifier):
    """The second-order forest: arcs, siblings and grandparents.

    Parts are in this order: arcs; outermost arcs; words without left dependents, without right
    dependents; siblings by arc; grandparents by arc. The caller adds the score of an arc to the
    scores of its sibling parts, since edges hold exactly one sibling part for each arc.

    Returns
    -------
    first_sibling : [n_arcs + 1]
        First part SIBLING of each arc.
    """
    up, first_up, _rank, first_down, first_sibling, first_grand = _layout(n, head, modifier)
    parts = _second_parts(n, head, modifier, up, first_up, first_down, first_sibling, first_grand)
    n_arcs, n_pairs = len(head), len(parts)
    number = _arc_matrix(n, head, modifier)
    most = 2 * n_arcs * (n + 1) + n_pairs + n + 2
    starts, arc_of = np.zeros(most + 1, np.int32), np.empty(most, np.int32)
    edges, n_edges, n_nodes = np.empty((256 * n + 64, 4), np.int32), 0, 0
    left = np.full((n_arcs, n + 2), NOTHING, np.int32)  # [a, e]: half(a, e)
    right = np.full((n_arcs, n + 2), NOTHING, np.int32)
    node_of = np.full(n_pairs, NOTHING, np.int32)  # by part: gaps at siblings, open at grand
    for j in range(1, n + 1):
        for i in range(j, 0, -1):
            if i == j:
                for k in range(first_up[i], first_up[i + 1]):
                    for side in range(2):
                        nothing = 2 * n_arcs + 2 * i + side
                        edges = _add_edge(edges, n_edges, NOTHING, NOTHING, nothing, NOTHING)
                        n_edges += 1
                        half = right if side else left
                        half[up[k], i] = _close_node(starts, n_nodes, n_edges, arc_of, NOTHING)
                        n_nodes += 1
                continue
            for side in range(2):  # side 1: heads on the left of their modifiers
                h, m = (i, j) if side else (j, i)
                half = right if side else left
                # gap: i and j are siblings
                for k in range(first_up[m], first_up[m + 1]):
                    b = up[k]
                    top = head[b]
                    if top == 0 or (top >= i if side else top <= j) or number[top, h] < 0:
                        continue
                    c = number[top, h]  # the sibling nearer to top is h's place
                    low, high = (c, b) if side else (b, c)
                    for r in range(i, j):
                        if right[low, r] >= 0 and left[high, r + 1] >= 0:
                            edges = _add_edge(
                                edges, n_edges, right[low, r], left[high, r + 1], NOTHING, NOTHING
                            )
                            n_edges += 1
                    p = first_sibling[b] + abs(b - c)
                    node_of[p] = _close_node(starts, n_nodes, n_edges, arc_of, NOTHING)
                    n_nodes += node_of[p] >= 0
                b = number[h, m]
                first, last = first_down[h], first_down[h + 1]
                # open: m becomes the outermost modifier of h
                if b >= 0:
                    inner = left[b, h + 1] if side else right[b, h - 1]
                    for k in range(first_up[h], first_up[h + 1]):
                        p = first_grand[b] + k - first_up[h]
                        if parts[p, KIND] == NOTHING:
                            continue
                        if inner >= 0:
                            edges = _add_edge(edges, n_edges, inner, NOTHING, first_sibling[b], p)
                            n_edges += 1
                        for d in range(1, first_sibling[b + 1] - first_sibling[b]):
                            c = b - d if side else b + d
                            below = node_of[first_grand[c] + k - first_up[h]]
                            between = node_of[first_sibling[b] + d]
                            if below >= 0 and between >= 0:
                                edges = _add_edge(
                                    edges, n_edges, below, between, first_sibling[b] + d, p
                                )
                                n_edges += 1
                        node_of[p] = _close_node(starts, n_nodes, n_edges, arc_of, b)
                        n_nodes += node_of[p] >= 0
                # half: no further modifier on this side
                for k in range(first_up[h], first_up[h + 1]):
                    g = head[up[k]]
                    if i <= g <= j:
                        continue
                    for c in range(first, last):
                        w = modifier[c]
                        if (w <= h or w > m) if side else (w >= h or w < m):
                            continue
                        below = node_of[first_grand[c] + k - first_up[h]]
                        if below >= 0 and half[c, m] >= 0:
                            edges = _add_edge(
                                edges, n_edges, below, half[c, m], n_arcs + c, NOTHING
                            )
                            n_edges += 1
                    half[up[k], m] = _close_node(starts, n_nodes, n_edges, arc_of, NOTHING)
                    n_nodes += half[up[k], m] >= 0
    first_root = n_nodes
    for a in range(first_down[1]):
        m = modifier[a]
        if left[a, 1] >= 0 and right[a, n] >= 0:
            edges = _add_edge(edges, n_edges, left[a, 1], right[a, n], first_sibling[a], NOTHING)
            n_edges += 1
            n_nodes += _close_node(starts, n_nodes, n_edges, arc_of, a) >= 0
    if n_nodes == first_root:
        return parts, starts[:1], edges[:0], arc_of[:0], first_sibling
    for root in range(first_root, n_nodes):
        edges = _add_edge(edges, n_edges, root, NOTHING, NOTHING, NOTHING)
        n_edges += 1
    n_nodes += _close_node(starts, n_nodes, n_edges, arc_of, NOTHING) >= 0
    return parts, starts[: n_nodes + 1], edges[:n_edges], arc_of[:n_nodes], first_sibling


@part
def _edge_score(edges, e, scores, below):
    total = 0.0
    for k in range(2):
        if edges[e, k] >= 0:
            total += below[edges[e, k]]
        if edges[e, PART + k] >= 0:
            total += scores[edges[e, PART + k]]
    return total


@kernel
def part_posteriors(starts, edges, scores):
    """Log of the sum over all trees, and the posterior of every part.

    The inside pass stores the conditional probability of each edge given its node. In the outside
    pass posteriors are products of these, so that each edge costs one exponential.
    """
    n_nodes = len(starts) - 1
    inside, given_node = np.empty(n_nodes), np.empty(len(edges))
    out = np.zeros(len(scores))
    for x in range(n_nodes):
        highest = -np.inf
        for e in range(starts[x], starts[x + 1]):
            given_node[e] = _edge_score(edges, e, scores, inside)
            highest = max(highest, given_node[e])
        total = 0.0
        for e in range(starts[x], starts[x + 1]):
            given_node[e] = np.exp(given_node[e] - highest) if highest > -np.inf else 0.0
            total += given_node[e]
        for e in range(starts[x], starts[x + 1]):
            given_node[e] /= total if total > 0.0 else 1.0
        inside[x] = highest + np.log(total) if highest > -np.inf else -np.inf
    mass = np.zeros(n_nodes)
    mass[n_nodes - 1] = 1.0
    for x in range(n_nodes - 1, -1, -1):
        if mass[x] == 0.0:
            continue
        for e in range(starts[x], starts[x + 1]):
            p = mass[x] * given_node[e]
            for k in range(2):
                if edges[e, k] >= 0:
                    mass[edges[e, k]] += p
                if edges[e, PART + k] >= 0:
                    out[edges[e, PART + k]] += p
    return inside[n_nodes - 1], out


@kernel
def best_arcs(starts, edges, arc_of, scores):
    """Score of the best derivation of every node, and the arcs of the best tree.

    Among equals the first edge wins.
    """
    n_nodes = len(starts) - 1
    best, choice = np.full(n_nodes, -np.inf), np.zeros(n_nodes, np.int32)
    for x in range(n_nodes):
        choice[x] = starts[x]
        for e in range(starts[x], starts[x + 1]):
            score = _edge_score(edges, e, scores, best)
            if score > best[x]:
                best[x], choice[x] = score, e
    found, n_found = np.empty(n_nodes, np.int32), 0
    is_used = np.zeros(n_nodes, np.bool_)
    is_used[n_nodes - 1] = True
    for x in range(n_nodes - 1, -1, -1):
        if not is_used[x]:
            continue
        if arc_of[x] >= 0:
            found[n_found] = arc_of[x]
            n_found += 1
        for k in range(2):
            if edges[choice[x], k] >= 0:
                is_used[edges[choice[x], k]] = True
    return best, found[:n_found]


@kernel
def right_parts(parts, heads):
    """Which parts are in a tree, as numbers 0 and 1.

    Parameters
    ----------
    heads : [n + 1]
        Head of each word; that of the root is not read.
    """
    n = len(heads) - 1
    inner, is_last = np.zeros(n + 1, np.int32), np.ones(n + 1, np.bool_)
    has = np.zeros((n + 1, 2), np.bool_)
    newest = np.zeros(n + 1, np.int32)  # modifier of each word that was seen last, outward
    for h in range(n + 1):
        newest[h] = NOTHING
    for m in range(1, n + 1):  # on the right of their heads, outward
        h = heads[m]
        if h < m:
            inner[m] = newest[h]
            if newest[h] >= 0:
                is_last[newest[h]] = False
            newest[h] = m
            has[h, 1] = True
    for h in range(n + 1):
        newest[h] = NOTHING
    for m in range(n, 0, -1):
        h = heads[m]
        if h > m:
            inner[m] = newest[h]
            if newest[h] >= 0:
                is_last[newest[h]] = False
            newest[h] = m
            has[h, 0] = True
    out = np.zeros(len(parts))
    for p in range(len(parts)):
        kind, h, m, third = parts[p, KIND], parts[p, HEAD], parts[p, MODIFIER], parts[p, THIRD]
        if kind == NONE:
            out[p] = h > 0 and not has[h, m]
        elif kind >= 0 and heads[m] == h:
            out[p] = (
                kind == ARC
                or (kind == LAST and h > 0 and is_last[m])
                or (kind == SIBLING and (h == 0 or inner[m] == third))
                or (kind == GRAND and heads[h] == third)
            )
    return out
