"""Expected counts of hidden states between two neighbouring words.

    p[i, j]   = sum over h of r[i, h] s[j, h]                    c[i, j]  count of word j after i
    R[i, h]   = sum over j of c[i, j] r[i, h] s[j, h] / p[i, j]
    S[j, h]   = sum over i of c[i, j] r[i, h] s[j, h] / p[i, j]

Contexts i are rows of a sparse matrix; S is returned without its factor s[j, h].
"""

from __future__ import annotations

import numpy as np

from sapwood.core.jit import kernel


@kernel(fastmath={"contract", "reassoc"})
def expect_bigram_states(starts, seconds, counts, r, s, R, S):
    """Add what some contexts expect to R and S; their log-likelihood.

    Parameters
    ----------
    starts : [n + 1]
        Where each context's entries start.
    seconds, counts : [nnz]
        The words that follow, and how often.
    r, R : [n, m]
        Of these contexts.
    s, S : [V, m]

    Cost: 5 m operations and 3 rows of m numbers moved for each entry.
    """
    m = r.shape[1]
    total = 0.0
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            j = seconds[e]
            p = r.dtype.type(0)
            for h in range(m):
                p += r[i, h] * s[j, h]
            c = counts[e]
            total += c * np.log(p)
            ratio = c / p
            for h in range(m):
                R[i, h] += ratio * s[j, h]
                S[j, h] += ratio * r[i, h]
        for h in range(m):
            R[i, h] *= r[i, h]
    return total


@kernel(fastmath={"contract", "reassoc"})
def pair_probabilities(firsts, seconds, r, s, out):
    """p[i, j] of some pairs.

    Cost: 2 m operations and 2 rows of m numbers for each pair.
    """
    m = r.shape[1]
    for e in range(len(firsts)):
        i, j = firsts[e], seconds[e]
        p = r.dtype.type(0)
        for h in range(m):
            p += r[i, h] * s[j, h]
        out[e] = p
