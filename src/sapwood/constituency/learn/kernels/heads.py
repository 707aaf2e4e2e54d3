"""Head tags of tree nodes, over packed arrays."""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel


@kernel
def head_tags(label, rule, left, right, rule_head, base_tag):
    """Tag of the head word of each node: its own for a leaf, else that of the head child.

    Rows are numbered over all trees; children stand before parents.
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
    """First head tag above each node that differs from its own; -1 when there is none."""
    above = np.full(len(head), -1, np.int64)
    for back in range(len(head)):
        node = len(head) - 1 - back
        over = parent[node]
        if over >= 0:
            above[node] = head[over] if head[over] != head[node] else above[over]
    return above
