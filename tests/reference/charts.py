"""Inside, outside and Viterbi with dictionaries, for sentences of any length.

Notation
--------
    i, k, j          fenceposts; a span is [i, j)
    beta[a, i, j]    list over states h: weight of everything below the node
    alpha[a, i, j]   list over states h: weight of everything around it
    mu[a, i, j]      sum over h of  alpha[h] * beta[h]:  weight of all trees with that node

The tensor form (SPECTRAL, Figure 5) and the conventional one (Figure 3) are the same loops: tensors
may hold negative numbers. See `tests.reference.enumerate` for how grammars
are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from tests.reference.enumerate import Edge, Emissions, Number, Root, Rules, Span

Vectors = dict[Span, list[Number]]


def inside(rules: Rules, emissions: Emissions) -> Vectors:
    """Weight of every labelled span for each of its states.

    beta[t, i, i+1] = emissions[i][t]
    beta[a, i, j][h] = sum over k, a -> b c, p, q of  C[h][p][q] beta[b, i, k][p] beta[c, k, j][q]
    """
    beta = _leaves(emissions)
    for (a, _, _, i, _, j), tensor, left, right in _joints(rules, beta, len(emissions)):
        out = beta.setdefault((a, i, j), [0] * len(tensor))
        for h, p, q in _states(tensor, left, right):
            out[h] = out[h] + tensor[h][p][q] * left[p] * right[q]
    return beta


def outside(root: Root, rules: Rules, emissions: Emissions, beta: Vectors) -> Vectors:
    """Weight of everything around every labelled span, for each of its states.

    alpha[a, 0, n] = root[a]
    alpha[b, i, k][p] = sum over j, a -> b c, h, q of  alpha[a, i, j][h] C[h][p][q] beta[c, k, j][q]
    alpha[c, k, j][q] = sum over i, a -> b c, h, p of  alpha[a, i, j][h] C[h][p][q] beta[b, i, k][p]
    """
    n = len(emissions)
    alpha: Vectors = {span: [0] * len(vector) for span, vector in beta.items()}
    for a, vector in root.items():
        if (a, 0, n) in alpha:
            alpha[a, 0, n] = list(vector)
    for (a, b, c, i, k, j), tensor, left, right in reversed(list(_joints(rules, beta, n))):
        above, to_left, to_right = alpha[a, i, j], alpha[b, i, k], alpha[c, k, j]
        for h, p, q in _states(tensor, left, right):
            weight = above[h] * tensor[h][p][q]
            to_left[p] = to_left[p] + weight * right[q]
            to_right[q] = to_right[q] + weight * left[p]
    return alpha


def sentence_weight(root: Root, beta: Vectors, n: int) -> Number:
    """Z = sum over a, h of  root[a][h] * beta[a, 0, n][h]."""
    return sum(_dot(vector, beta[a, 0, n]) for a, vector in root.items() if (a, 0, n) in beta)


def marginals(alpha: Vectors, beta: Vectors) -> dict[Span, Number]:
    """mu[a, i, j] = alpha[a, i, j] . beta[a, i, j]."""
    return {span: _dot(alpha[span], vector) for span, vector in beta.items()}


def rule_marginals(
    rules: Rules, emissions: Emissions, alpha: Vectors, beta: Vectors
) -> dict[Edge, Number]:
    """Weight of all trees with a rule at one place.

    rho(a -> b c, i, k, j) = sum over h, p, q of
        alpha[a, i, j][h] C[h][p][q] beta[b, i, k][p] beta[c, k, j][q]
    """
    return {
        edge: sum(
            alpha[edge[0], edge[3], edge[5]][h] * tensor[h][p][q] * left[p] * right[q]
            for h, p, q in _states(tensor, left, right)
        )
        for edge, tensor, left, right in _joints(rules, beta, len(emissions))
    }


def viterbi(rules: Rules, emissions: Emissions) -> Vectors:
    """Weight of the best derivation of every labelled span, for each of its states.

    delta[a, i, j][h] = max over k, a -> b c, p, q of C[h][p][q] delta[b, i, k][p] delta[c, k, j][q]
    """
    delta = _leaves(emissions)
    for (a, _, _, i, _, j), tensor, left, right in _joints(rules, delta, len(emissions)):
        out = delta.setdefault((a, i, j), [0] * len(tensor))
        for h, p, q in _states(tensor, left, right):
            out[h] = max(out[h], tensor[h][p][q] * left[p] * right[q])
    return delta


def _leaves(emissions: Emissions) -> Vectors:
    return {
        (tag, i, i + 1): list(vector)
        for i, tags in enumerate(emissions)
        for tag, vector in tags.items()
    }


def _joints(
    rules: Rules, vectors: Vectors, n: int
) -> Iterator[tuple[Edge, Any, list[Number], list[Number]]]:
    """Every rule at every place whose children are there, with their vectors; narrow spans first.

    What is added to the vectors meanwhile is seen by wider spans.
    """
    for width in range(2, n + 1):
        for i in range(n - width + 1):
            for k in range(i + 1, i + width):
                for a, b, c in rules:
                    left, right = vectors.get((b, i, k)), vectors.get((c, k, i + width))
                    if left is not None and right is not None:
                        yield (a, b, c, i, k, i + width), rules[a, b, c], left, right


def _states(tensor: Any, left: list[Number], right: list[Number]) -> Iterator[tuple[int, ...]]:
    return product(range(len(tensor)), range(len(left)), range(len(right)))


def _dot(x: Any, y: Any) -> Number:
    return sum(a * b for a, b in zip(x, y, strict=True))
