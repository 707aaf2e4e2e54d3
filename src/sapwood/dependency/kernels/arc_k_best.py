"""The k best trees of a forest of dependency trees, found lazily.

Notation
--------
    node, edge     of a forest, see `arc_forest`; an edge has up to two tails, and up to two parts
    candidate      (e, i, j): edge e with the i-th best derivation of its left tail, the j-th of its
                   right one, counted from 0; (e, 0, 0) has the number e, others come behind
    found          the derivations of a node, best first, as numbers of candidates

The best derivation of every node is known from a pass upwards, so that a node opens with (e, 0, 0)
for all its edges and looks at no other node. The successors of (e, i, j) are (e, i, j + 1) and, if
j is 0, (e, i + 1, j), so that every pair of ranks is generated once. Nodes have few edges and most
need few derivations, so the best candidate is found by a linear search instead of a heap.

Reference: Huang and Chiang (2005), algorithm 3.
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel, part

RIGHT, PART = 1, 2  # columns of edges: the right tail, the first part
EDGE, RANK, NEXT = 0, 1, 3  # columns of candidates; ranks of both tails in two of them
WAITING, FIRST, COUNT, ROOM, FOLLOW = range(5)  # columns of nodes
NO_CANDIDATE = -1
CLOSED = -2  # waiting, of a node without requests so far


@part
def _room(table, n):
    """The table, copied to twice its size if n rows fill it."""
    if n < len(table):
        return table
    more = np.empty((2 * n, table.shape[1]), table.dtype)
    for r in range(n):
        for c in range(table.shape[1]):
            more[r, c] = table[r, c]
    return more


@part
def _best_edges(starts, edges, scores):
    """Score of every edge with the best of its tails, and the best edge of every node."""
    n_nodes = len(starts) - 1
    weight, choice = np.empty(len(edges)), np.empty(n_nodes, np.int32)
    for x in range(n_nodes):
        choice[x] = starts[x]
        for e in range(starts[x], starts[x + 1]):
            weight[e] = 0.0
            for side in range(2):
                if edges[e, side] >= 0:
                    weight[e] += weight[choice[edges[e, side]]]
                if edges[e, PART + side] >= 0:
                    weight[e] += scores[edges[e, PART + side]]
            if weight[e] > weight[choice[x]]:
                choice[x] = e
    return weight, choice


@part
def _open(x, starts, nodes, candidates):
    """Let all edges of a node wait, with the best of their tails."""
    nodes[x, WAITING], nodes[x, COUNT], nodes[x, ROOM], nodes[x, FOLLOW] = NO_CANDIDATE, 0, 0, 0
    for e in range(starts[x + 1] - 1, starts[x] - 1, -1):
        candidates[e, EDGE], candidates[e, RANK], candidates[e, RANK + 1] = e, 0, 0
        candidates[e, NEXT] = nodes[x, WAITING]
        nodes[x, WAITING] = e


@part
def _take(x, nodes, candidates, weights):
    """The best candidate that waits, the first of equals, which waits no longer."""
    before, at = NO_CANDIDATE, nodes[x, WAITING]
    chosen, before_chosen = at, NO_CANDIDATE
    while at >= 0:
        if weights[at, 0] > weights[chosen, 0]:
            chosen, before_chosen = at, before
        before, at = at, candidates[at, NEXT]
    if before_chosen < 0:
        nodes[x, WAITING] = candidates[chosen, NEXT]
    else:
        candidates[before_chosen, NEXT] = candidates[chosen, NEXT]
    return chosen


@part
def _has_next(last, side, edges, candidates):
    """Whether the next derivation of a tail makes a candidate that no other one makes."""
    if edges[candidates[last, EDGE], side] < 0:
        return False
    return side == RIGHT or candidates[last, RANK + RIGHT] == 0


@part
def _ask_tails(last, edges, nodes, candidates, asked, depth):
    """Request the derivations of tails that the successors of a candidate need."""
    for side in range(2):
        if _has_next(last, side, edges, candidates):
            tail, rank = edges[candidates[last, EDGE], side], candidates[last, RANK + side] + 1
            is_known = nodes[tail, WAITING] != CLOSED and (
                nodes[tail, COUNT] > rank
                or (nodes[tail, WAITING] < 0 and not nodes[tail, FOLLOW])  # it has no more
            )
            if not is_known:
                asked[depth, 0], asked[depth, 1] = tail, rank
                depth += 1
    return depth


@part
def _derivation(x, rank, choice, nodes, found):
    """The candidate that a derivation of a node begins with."""
    if rank == 0:
        return choice[x]
    return found[nodes[x, FIRST] + rank, 0]


@part
def _trace(rank, edges, arc_of, choice, nodes, candidates, found, asked, arcs):
    """Write the arcs of a tree."""
    asked[0, 0], asked[0, 1], depth, n_arcs = len(arc_of) - 1, rank, 1, 0
    while depth:
        depth -= 1
        x, chosen = asked[depth, 0], asked[depth, 1]
        is_best = chosen == 0
        chosen = _derivation(x, chosen, choice, nodes, found)
        if arc_of[x] >= 0:
            arcs[n_arcs] = arc_of[x]
            n_arcs += 1
        e = chosen if is_best else candidates[chosen, EDGE]
        for side in range(2):
            if edges[e, side] >= 0:
                asked[depth, 0] = edges[e, side]
                asked[depth, 1] = 0 if is_best else candidates[chosen, RANK + side]
                depth += 1


@kernel
def k_best_trees(n, starts, edges, arc_of, scores, k):
    """Scores and arcs of the k best trees, best first; fewer if there are fewer trees.

    Returns
    -------
    totals : [n_trees]
    arcs : [n_trees, n]
        Of each tree, in no order.
    """
    n_nodes, n_candidates, n_found, n_trees = len(arc_of), len(edges), 0, 0
    of_edges, choice = _best_edges(starts, edges, scores)
    nodes = np.full((n_nodes, 5), CLOSED, np.int32)
    candidates = np.empty((len(edges) + 64, 4), np.int32)
    weights = np.empty((len(edges) + 64, 1))
    for e in range(len(edges)):
        weights[e, 0] = of_edges[e]
    found, asked = np.empty((256, 1), np.int32), np.empty((2 * n_nodes + 2, 2), np.int32)
    totals, arcs = np.empty((8, 1)), np.empty((8, n), np.int32)
    while n_trees < k and n_nodes:
        asked[0, 0], asked[0, 1], depth = n_nodes - 1, n_trees, 1
        while depth:
            x, rank = asked[depth - 1, 0], asked[depth - 1, 1]
            if nodes[x, WAITING] == CLOSED:
                _open(x, starts, nodes, candidates)
            if nodes[x, COUNT] > rank:
                depth -= 1
                continue
            if nodes[x, FOLLOW]:  # the successor of the last one found is not in the queue yet
                last = found[nodes[x, FIRST] + nodes[x, COUNT] - 1, 0]
                deeper = _ask_tails(last, edges, nodes, candidates, asked, depth)
                if deeper > depth:
                    depth = deeper
                    continue
                e = candidates[last, EDGE]
                for side in range(2):
                    if not _has_next(last, side, edges, candidates):
                        continue
                    if nodes[edges[e, side], COUNT] <= candidates[last, RANK + side] + 1:
                        continue
                    candidates = _room(candidates, n_candidates)
                    weights = _room(weights, n_candidates)
                    candidates[n_candidates, EDGE] = e
                    weights[n_candidates, 0] = of_edges[e]
                    for other in range(2):
                        at = candidates[last, RANK + other] + (other == side)
                        candidates[n_candidates, RANK + other] = at
                        if at:
                            tail = edges[e, other]
                            behind = _derivation(tail, at, choice, nodes, found)
                            weights[n_candidates, 0] += weights[behind, 0] - of_edges[choice[tail]]
                    candidates[n_candidates, NEXT] = nodes[x, WAITING]
                    nodes[x, WAITING] = n_candidates
                    n_candidates += 1
                nodes[x, FOLLOW] = 0
            if nodes[x, WAITING] < 0:  # there are no more
                depth -= 1
                continue
            count = nodes[x, COUNT]
            if count == nodes[x, ROOM]:  # all move to the end of the table, with twice the room
                nodes[x, ROOM] = max(2 * count, 2)
                while len(found) < n_found + nodes[x, ROOM]:
                    found = _room(found, len(found))
                for r in range(count):
                    found[n_found + r, 0] = found[nodes[x, FIRST] + r, 0]
                nodes[x, FIRST] = n_found
                n_found += nodes[x, ROOM]
            found[nodes[x, FIRST] + count, 0] = _take(x, nodes, candidates, weights)
            nodes[x, COUNT], nodes[x, FOLLOW] = count + 1, 1
        if nodes[n_nodes - 1, COUNT] <= n_trees:
            break
        totals, arcs = _room(totals, n_trees), _room(arcs, n_trees)
        totals[n_trees, 0] = weights[found[nodes[n_nodes - 1, FIRST] + n_trees, 0], 0]
        _trace(n_trees, edges, arc_of, choice, nodes, candidates, found, asked, arcs[n_trees])
        n_trees += 1
    return totals[:n_trees, 0].copy(), arcs[:n_trees]
