"""Products with sparse feature rows that hold one active feature per template.

Notation
--------
    ids[node, template]   feature numbers      w[feature]   scale of a feature
    Phi[node, f] = w[f] if f is among ids[node] else 0
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel

_FAST = {"contract", "reassoc"}


@kernel(fastmath=_FAST)
def gather(ids, w, matrix, out):
    """Compute out = Phi @ matrix: each node sums the scaled rows of its features."""
    for node in range(ids.shape[0]):
        for c in range(out.shape[1]):
            out[node, c] = 0.0
        for template in range(ids.shape[1]):
            f = ids[node, template]
            scale = w[f]
            if scale != 0.0:
                for c in range(np.uint64(out.shape[1])):
                    out[node, c] += scale * matrix[f, c]


@kernel(fastmath=_FAST)
def scatter(ids, w, rows, out):
    """Compute out += Phi.T @ rows: each node adds its row to the rows of its features."""
    for node in range(ids.shape[0]):
        for template in range(ids.shape[1]):
            f = ids[node, template]
            scale = w[f]
            if scale != 0.0:
                for c in range(np.uint64(out.shape[1])):
                    out[f, c] += scale * rows[node, c]


@kernel
def head_tags(label, rule, left, right, rule_head, base_tag):
    """Return the tag of each node's head word: the own tag of a leaf, else the head child's.

    Rows are numbered over all trees; children come before parents.
    """
    head = np.empty(len(label), np.int64)
    for node in range(len(label)):
        if rule[node] < 0:
            head[node] = base_tag[label[node]]
        elif rule_head[rule[node]] == 0:
            head[node] = head[left[node]]
        else:
            head[node] = head[right[node]]
    return head


@kernel
def heads_above(head, parent):
    """Return the first head tag above each node that differs from its own; -1 for none."""
    above = np.full(len(head), -1, np.int64)
    for back in range(len(head)):
        node = len(head) - 1 - back
        over = parent[node]
        if over >= 0:
            above[node] = head[over] if head[over] != head[node] else above[over]
    return above
