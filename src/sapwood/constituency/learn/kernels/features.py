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
    """Out = Phi @ matrix: each node sums the scaled rows of its features."""
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
    """Out += Phi.T @ rows: each node adds its row to its features'."""
    for node in range(ids.shape[0]):
        for template in range(ids.shape[1]):
            f = ids[node, template]
            scale = w[f]
            if scale != 0.0:
                for c in range(np.uint64(out.shape[1])):
                    out[f, c] += scale * rows[node, c]
