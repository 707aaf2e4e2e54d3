"""The plain PCFG behind a latent one: hidden states summed out by how often they occur."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sapwood.constituency.grammar.latent_grammar import CoarseWeights
from sapwood.core.arrays import FloatArray, starts_of

if TYPE_CHECKING:
    from sapwood.constituency.data.transform import Symbol
    from sapwood.constituency.grammar.latent_grammar import Lexicon

LARGEST = 1e300  # so that sums of visits stay finite
N_STEPS = 200  # expected visits converge geometrically; deeper derivations carry no weight


def project(
    phrases: tuple[Symbol, ...],
    n_states: npt.NDArray[np.int64],
    root: FloatArray,
    rules: npt.NDArray[np.int32],
    rule_weights: FloatArray,
    lexicon: Lexicon,
) -> CoarseWeights:
    """Weights of the plain PCFG closest to a probabilistic latent grammar.

        w(a -> b c) = sum over h of  P(h | a) * sum over p, q of C[a -> b c][h, p, q]

    P(h | a) is the share of state h among the expected visits of symbol a.
    """
    start = starts_of(n_states)
    tensor_start = starts_of(n_states[rules].prod(axis=1))
    tensors = [
        rule_weights[tensor_start[r] : tensor_start[r + 1]].reshape(n_states[rules[r]])
        for r in range(len(rules))
    ]
    visits = state_visits(start, root, rules, tensors)
    share = np.zeros_like(visits)
    for a in range(len(n_states)):
        part = visits[start[a] : start[a + 1]]
        total = part.sum()
        share[start[a] : start[a + 1]] = part / total if total > 0 else 1.0 / len(part)

    def of(a: int) -> FloatArray:
        return share[start[a] : start[a + 1]]

    coarse_rules = np.array(
        [of(int(a)) @ t.sum(axis=(1, 2)) for (a, _, _), t in zip(rules, tensors, strict=True)]
    )
    tag = len(phrases) + lexicon.entry_tag.astype(np.int64)
    lexical = np.array(
        [of(int(a)) @ lexicon.weights[lexicon.weight_start[e] : lexicon.weight_start[e + 1]]
         for e, a in enumerate(tag)]
    )  # fmt: skip
    return CoarseWeights(np.add.reduceat(root, start[:-1]), coarse_rules, lexical)


def expected_visits(
    root: FloatArray, rules: npt.NDArray[np.int32], weights: FloatArray
) -> FloatArray:
    """How often each symbol of a plain PCFG occurs in a random tree, up to a common factor."""
    a, b, c = rules.T
    return _visits(
        root, np.concatenate([a, a]), np.concatenate([b, c]), np.concatenate([weights, weights])
    )


def state_visits(
    start: npt.NDArray[np.int64],
    root: FloatArray,
    rules: npt.NDArray[np.int32],
    tensors: list[FloatArray],
) -> FloatArray:
    """How often each symbol and state of a latent grammar occurs in a random tree."""
    parents, children, values = [np.empty(0, int)], [np.empty(0, int)], [np.empty(0)]
    for (a, b, c), tensor in zip(rules, tensors, strict=True):
        for child, axis in ((b, 2), (c, 1)):
            block = tensor.sum(axis=axis)
            h, p = np.indices(block.shape)
            parents.append((start[a] + h).ravel())
            children.append((start[child] + p).ravel())
            values.append(block.ravel())
    return _visits(root, np.concatenate(parents), np.concatenate(children), np.concatenate(values))


def _visits(
    root: FloatArray,
    parents: npt.NDArray[np.integer[Any]],
    children: npt.NDArray[np.integer[Any]],
    weights: FloatArray,
) -> FloatArray:
    """Solve v = root + M' v by iteration.

    Weights, unlike probabilities, may be of any size, and kernels must never see what is no number.
    """
    from scipy.sparse import coo_array

    n = len(root)
    flow = coo_array((np.minimum(weights, LARGEST), (children, parents)), shape=(n, n)).tocsr()
    visits = root
    for _ in range(N_STEPS):
        visits = np.minimum(root + flow @ visits, LARGEST)
        visits /= max(
            1.0, visits.sum() / 1e6
        )  # only shares matter; keeps a critical grammar finite
    return np.asarray(visits)
