"""Latent trees from moments of (left child, head, right child): DEP with its formulas made exact.

Notation (DEP, section 3.2; moments are means over the same triples)
--------------------------------------------------------------------
    O          symbol given a state                                               [n, k]
    U          projection of symbols to vectors, whose first column is constant   [n, k]
    G = U' O                                                                      [k, k]
    nu         states of the heads of the triples
    S_L, S_R   E[head (x) left], E[head (x) right] = G diag(nu) T_d' G'           [k, k]
    W          E[left (x) right] = G T_L diag(nu) T_R' G'                         [k, k]
    K(y)       E[(y . head) left (x) right] = G T_L diag(G' y) diag(nu) T_R' G'   [k, k, k], y first
    E_L, E_R   W S_R^-1 = G T_L G^-1,   W' S_L^-1 = G T_R G^-1
    D(y)       E_L^-1 K(y) S_R^-1 = G diag(G' y) G^-1
    e          E[right]' S_R^-1 = 1' G^-1, the first unit vector
    w_x        G^-T o_x, the vector of a symbol: w_x' = e' D_x

A constant column in U makes every vector of a word begin with 1. Then G has ones in its first
row, e is known, and sums of probabilities are right despite noise.

Where the paper differs: its K contracts a child instead of the head, and one vector mu represents
the roots, the heads and the children alike, which assumes that all of them have the same states.

A vector v' = u' G^-1 represents the vector u of weights by state: this is the change of
basis by G, which `diagonal_form` undoes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray


class TripleMoments(NamedTuple):
    """Sums over triples of projected symbols, all divided by the same number."""

    left: FloatArray  # [k]: mean of the left children
    right: FloatArray  # [k]
    head_left: FloatArray  # [k, k]: S_L
    head_right: FloatArray  # [k, k]: S_R
    left_right: FloatArray  # [k, k]: W
    third: FloatArray  # [k, k, k]: K, with the axes head, left, right


class LatentTreeOperators(NamedTuple):
    """The latent tree in the basis of G."""

    steps: FloatArray  # [n_sides, k, k]: E_L and E_R, or the E of a chain
    product: FloatArray  # [k, k, k]: D


def regular_inverse(A: FloatArray, ridge: float) -> FloatArray:
    """Inverse with each singular value s replaced by s + ridge^2 / s.

    Directions far below the ridge are damped; with a ridge of 0 this is the pseudo-inverse.

    >>> regular_inverse(np.diag([2.0, 1e-9]), 1e-3).round(6).tolist()
    [[0.5, 0.0], [0.0, 0.001]]
    """
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    # directions whose singular values are rounding errors are left out
    kept = s > max(A.shape) * np.finfo(float).eps * s.max(initial=0.0)
    factor = np.zeros_like(s)
    factor[kept] = s[kept] / (s[kept] ** 2 + ridge**2)
    return np.asarray((Vt.T * factor) @ U.T)


def moment_inverse(M: FloatArray, ridge: float) -> FloatArray:
    """Inverse of E[x y'], where x and y begin with a 1; the ridge is for their covariance only.

        M = [1  b']      M^-1 = [1 + b' R a   -b' R]      R = (C - a b')^-1, regular
            [a  C ]             [  - R a         R ]

    However large the ridge, [1 b'] M^-1 = [1 0]: sums over a variable stay right. With all
    directions damped to zero, x and y are independent.

    >>> M = np.array([[1.0, 0.2], [0.5, 0.6]])
    >>> bool(np.allclose(moment_inverse(M, 0.0) @ M, np.eye(2)))
    True
    >>> (M[0] @ moment_inverse(M, 9.0)).round(9).tolist()
    [1.0, 0.0]
    """
    a, b = M[1:, 0], M[0, 1:]
    R = regular_inverse(M[1:, 1:] - np.outer(a, b), ridge)
    top = np.concatenate([[1 + b @ R @ a], -b @ R])
    return np.vstack([top, np.column_stack([-R @ a, R])])


def sibling_operators(moments: TripleMoments, ridge: float) -> LatentTreeOperators:
    """E and D from triples of two children and their head.

    D is the mean of its formula and of its mirror image, E_R^-1 K(y)' S_L^-1, which is as exact and
    has other noise. The ridge is that of `moment_inverse`; vectors should have a variance of about
    1. Cost: O(k^4).
    """
    S_L, S_R, W, K = moments.head_left, moments.head_right, moments.left_right, moments.third
    inverse_L, inverse_R = moment_inverse(S_L, ridge), moment_inverse(S_R, ridge)
    inverse_W = moment_inverse(W, ridge)
    # E_L^-1 = S_R W^-1: one inverse of a moment instead of the inverse of a product of two
    D = S_R @ inverse_W @ K @ inverse_R
    mirror = S_L @ inverse_W.T @ K.transpose(0, 2, 1) @ inverse_L
    return LatentTreeOperators(
        np.stack([W @ inverse_R, W.T @ inverse_L]), commuting((D + mirror) / 2)
    )


def commuting(D: FloatArray) -> FloatArray:
    """The nearest tensor with v' D(w) = w' D(v) and D(e) = 1, as every exact D has."""
    k = len(D)
    D = (D + D.transpose(1, 0, 2)) / 2
    D[0] = np.eye(k)
    D[:, 0] = np.eye(k)
    return np.ascontiguousarray(D)


class ChainMoments(NamedTuple):
    """Sums over three symbols in a row, projected, all divided by the same number."""

    first: FloatArray  # [k]: mean of the first, G nu
    second_first: FloatArray  # [k, k]: S = G T diag(nu) G'
    third_first: FloatArray  # [k, k]: W = G T T diag(nu) G'
    # [k, k, k]: K(y) = G T diag(G' y) T diag(nu) G', with the axes second, third, first
    third: FloatArray


def chain_operators(moments: ChainMoments, ridge: float) -> LatentTreeOperators:
    """E and D from a chain, in which every symbol is the only child of the symbol before it.

        E = W S^-1 = G T G^-1,    D(y) = E^-1 K(y) S^-1 = S W^-1 K(y) S^-1

    Reference: Foster, Rodu and Ungar (2012), whose C(y) is E D(y).
    """
    S, W, K = moments.second_first, moments.third_first, moments.third
    inverse = moment_inverse(S, ridge)
    D = S @ moment_inverse(W, ridge) @ K @ inverse
    return LatentTreeOperators((W @ inverse)[None], commuting(D))


def path_operators(
    sides: Sequence[tuple[float, ChainMoments | None]], ridge: float
) -> LatentTreeOperators:
    """E and D from paths down a tree, for trees in which no word has children on both sides.

    A head, a word below it and a child of that word on side d are a chain whose last step is T_d,
    whatever the side of the first: `chain_operators` is exact for each side. D is the mean of both.

    Parameters
    ----------
    sides
        Number and moments of the paths that end on the left, and of those that end on the right;
        None for a side without such paths, whose step carries no information.
    """
    k = len(next(moments.first for _, moments in sides if moments is not None))
    steps, product, total = np.zeros((2, k, k)), np.zeros((k, k, k)), sum(n for n, _ in sides)
    for side, (n, moments) in enumerate(sides):
        if moments is None:
            steps[side, 0, 0] = 1.0
        else:
            found = chain_operators(moments, ridge)
            steps[side] = found.steps[0]
            product += n / total * found.product
    return LatentTreeOperators(steps, product)


def symbol_vectors(
    views: list[tuple[FloatArray, FloatArray]],
    mean: FloatArray,
    frequency: FloatArray,
    ridge: float,
) -> FloatArray:
    """Vectors w_x of all symbols, [n, k], from pairs of a symbol and a neighbour of every kind.

        A w_x = b_x    for every kind of neighbour (head, left child, right child), with
        A = E[neighbour (x) symbol's vector],  b_x = E[neighbour; the symbol is x]
        mean . w_x = frequency_x    for all words together, kept exactly

    Every word that has a head or a child gets a vector, whether or not it has children on both
    sides.

    Parameters
    ----------
    views
        Pairs (A, B): [k, k], and [k, n] with a column b_x for each symbol; summed over arcs and
        divided by the number of words, so that common kinds of neighbours count more.
    mean : [k]
        Mean vector of all words.
    frequency : [n]
        Relative frequency of each symbol.
    """
    A = np.vstack([a for a, _ in views])
    B = np.vstack([b for _, b in views])
    # the first entry follows from the others by the equation that is kept exactly
    rest = regular_inverse(A[:, 1:] - np.outer(A[:, 0], mean[1:]), ridge)
    others = rest @ (B - np.outer(A[:, 0], frequency))
    return np.vstack([frequency - mean[1:] @ others, others]).T


class StateForm(NamedTuple):
    """The latent tree in the basis of its states."""

    root: FloatArray  # [k]
    steps: FloatArray  # [n_sides, k, k]
    symbols: FloatArray  # [n, k]
    gap: float  # smallest distance of two eigenvalues, relative to the largest eigenvalue
    is_real: bool  # whether all eigenvalues were real; else real and imaginary parts replace them


def diagonal_form(
    root: FloatArray, symbols: FloatArray, operators: LatentTreeOperators, rng: np.random.Generator
) -> StateForm:
    """Tables by state, in the basis G that diagonalises all D(y) at once.

        D(y) V = V diag(.)   for a y with distinct eigenvalues,   e' G = 1'  fixes the scale

    The best of several directions y is taken, preferring real eigenvalues, then a wide gap.

    >>> rng = np.random.default_rng(0)
    >>> G, o = np.array([[1.0, 1.0], [0.3, 0.7]]), np.array([[0.9, 0.2], [0.1, 0.8]])
    >>> inverse = np.linalg.inv(G)
    >>> D = np.stack([G @ np.diag(G[y]) @ inverse for y in range(2)])
    >>> steps = np.stack([G @ o @ inverse] * 2)
    >>> found = diagonal_form(G @ [0.5, 0.5], o @ inverse, LatentTreeOperators(steps, D), rng)
    >>> bool(np.allclose(np.sort(found.symbols), np.sort(o)))
    True
    """
    k = len(root)
    best: tuple[tuple[bool, float], FloatArray] | None = None
    # in the directions of the symbols' own vectors, data distinguishes the states
    spread = symbols.T @ rng.standard_normal((len(symbols), 20))
    for y in spread.T:
        values, V = np.linalg.eig(np.tensordot(y, operators.product, 1))
        size = float(np.abs(values).max())
        gaps = np.abs(values[:, None] - values)[np.triu_indices(k, 1)]
        gap = float(gaps.min() / size) if len(gaps) and size > 0 else 0.0
        key = (bool(np.isreal(values).all()), gap)
        if best is None or key > best[0]:
            # real and imaginary parts replace conjugate pairs of eigenvectors
            best = key, np.asarray(np.where(values.imag < 0, V.imag, V.real))
    assert best is not None  # twenty directions were tried
    (is_real, gap), V = best
    scale = V[0]  # e' V
    G = V / np.where(np.abs(scale) > 1e-12 * np.abs(scale).max(), scale, 1.0)
    inverse = regular_inverse(G, 0.0)
    steps = inverse @ operators.steps @ G
    return StateForm(inverse @ root, steps, symbols @ G, gap, is_real)
