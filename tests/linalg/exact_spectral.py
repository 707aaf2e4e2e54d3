"""The observable representation from whole moments, as it stands in the paper.

Notation (SPECTRAL, sections 7.1 and 7.2; tensors hold the outside axis first)
------------------------------------------------------------------------------
    Omega[a]            E[phi psi' | a]                                   [d(a), d'(a)], eq. 21
    D[a -> b c]         E[[R = a -> b c] psi (x) phi_2 (x) phi_3 | a]     [d'(a), d(b), d(c)]
    d_inf[a -> x]       E[[R = a -> x] psi | a]                           [d'(a)]
    root[a]             E[[A = a] phi | B = 1]                            [d(a)]
    U[a], V[a]          m(a) leading singular vectors of Omega[a]         [d, m], [d', m], Lemma 7
    Sigma[a] = U' Omega V                                                 [m, m]
    C[a -> b c]         (V'(a) (x) U'(b) (x) U'(c)) D, times Sigma^-1     [m(a), m(b), m(c)], eq. 14
    c_inf[a -> x]       d_inf' V Sigma^-1                                 [m(a)], eq. 15
    c_1[a]              U' root                                           [m(a)], eq. 16

Nothing is projected, smoothed or drawn at random: this is the statement of Theorem 6, meant for
small feature sets. `sapwood.constituency.learn.spectral` gets the same numbers from projected
nodes.
"""

# ruff: noqa: N803, N806 - capitals are matrices, as in the papers
from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import NotIdentifiableError

Label = Hashable
Rule = tuple[Any, Any, Any]
TOLERANCE = 1e-9  # moments add up to about 1: what is smaller is rounding, not a state


@dataclass(frozen=True, eq=False)
class FullMoments:
    """Moments of inside and outside features; the dictionaries share their labels."""

    omega: Mapping[Any, FloatArray]  # omega[a] of every label
    rules: Mapping[Rule, FloatArray] = field(default_factory=dict)  # d of every rule (a, b, c)
    # d_inf of every pair (a, x)
    words: Mapping[tuple[Any, Any], FloatArray] = field(default_factory=dict)
    # the mean inside features of the roots, for labels that may be one
    root: Mapping[Any, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ObservableForm:
    """Inputs of the tensor-form algorithms (Figures 4 and 5), and what they were made from."""

    # tensors of rules, vectors of words, vectors of roots; keyed as the moments are
    C: Mapping[Rule, FloatArray]
    c_inf: Mapping[tuple[Any, Any], FloatArray]
    c_1: Mapping[Any, FloatArray]
    # singular vectors of every label, one column per state
    U: Mapping[Any, FloatArray]
    V: Mapping[Any, FloatArray]
    # all singular values of every label, falling; the first m(a) are its states'
    s: Mapping[Any, FloatArray]


class RankReport(NamedTuple):
    """Why a label cannot have as many states as asked for."""

    label: Label
    wanted: int
    rank: int
    singular_values: FloatArray
    tolerance: float


class _Basis(NamedTuple):
    U: FloatArray
    V: FloatArray
    Sigma: FloatArray
    s: FloatArray


def observable_form(
    moments: FullMoments, m: int | Mapping[Any, int], *, tolerance: float = TOLERANCE
) -> ObservableForm:
    """Tensors of equations 14 to 16 for projections made of singular vectors (Lemma 7).

    Cost: one dense SVD a label, and d'(a) d(b) d(c) m(a) multiplications a rule.

    Examples
    --------
    >>> moments = FullMoments({"N": np.diag([0.6, 0.4])}, words={("N", "x"): np.array([0.3, 0.0])})
    >>> observable_form(moments, 2).c_inf["N", "x"]
    array([0.5, 0. ])
    """
    basis = {
        a: _basis(a, omega, m if isinstance(m, int) else m[a], tolerance)
        for a, omega in moments.omega.items()
    }
    return ObservableForm(
        C={(a, b, c): _tensor(D, basis[a], basis[b], basis[c])
           for (a, b, c), D in moments.rules.items()},
        c_inf={(a, x): _times_inverse(d @ basis[a].V, basis[a].Sigma)
               for (a, x), d in moments.words.items()},
        c_1={a: basis[a].U.T @ phi for a, phi in moments.root.items()},
        U={a: part.U for a, part in basis.items()},
        V={a: part.V for a, part in basis.items()},
        s={a: part.s for a, part in basis.items()},
    )  # fmt: skip


def _basis(label: Label, Omega: FloatArray, m: int, tolerance: float) -> _Basis:
    U, s, Vt = np.linalg.svd(Omega, full_matrices=False)
    rank = int((s > tolerance).sum())
    if rank < m:
        report = RankReport(label, m, rank, s, tolerance)
        msg = f"{m} states were asked of label {label!r}, but Omega has rank {rank} at {tolerance}"
        hint = f"give this label at most {rank} states, or use features that tell more states apart"
        raise NotIdentifiableError(msg, report=report, hint=hint)
    U, V = U[:, :m], Vt[:m].T
    return _Basis(U, V, U.T @ Omega @ V, s)


def _tensor(D: FloatArray, above: _Basis, left: _Basis, right: _Basis) -> FloatArray:
    """Equation 14: C(y, w) = D(y, w) Sigma^-1, with the result's axis put first."""
    projected = np.einsum("zst,zu,sp,tq->upq", D, above.V, left.U, right.U, optimize=True)
    rows = np.moveaxis(projected, 0, -1)  # [m(b), m(c), m(a)]: one row vector for each p, q
    return np.moveaxis(_times_inverse(rows, above.Sigma), -1, 0)


def _times_inverse(rows: FloatArray, Sigma: FloatArray) -> FloatArray:
    """Row vectors times Sigma^-1."""
    flat = rows.reshape(-1, len(Sigma))
    return np.asarray(np.linalg.solve(Sigma.T, flat.T).T.reshape(rows.shape))
