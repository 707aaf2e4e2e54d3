"""The two families that can be unmixed, and what differs between them.

Each has its moments as sums over compound parameters (M Psi, see `identify/mixing.py`), its M-step
and the closed form's needs; `uniform_family` looks them up by name. The formulas of the M-step of
DEP-IES stand in `uniform_em`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray
from sapwood.errors import SapwoodError
from sapwood.identify.families import stationary
from sapwood.identify.mixing import MixingMatrix, pair_mixing, triple_mixing
from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts

AnyArray = npt.NDArray[Any]
Tables = Mapping[str, AnyArray]
TINY = 1e-12  # below that a probability is 0 for the logarithms of Q
CLIMB = {"maxiter": 20, "ftol": 1e-14, "gtol": 1e-10}  # of the M-step of DEP-IES


class UniformFamily(ABC):
    """What estimators need to know of a family.

    Attributes
    ----------
    name
        As on the command line.
    lengths
        Of the sentences that the closed form reads.
    noise
        Moments that the closed form adds up, with their factors.
    order
        Words in a moment.
    longest
        Sentences whose mixing matrix is made in reasonable time.
    free
        The tables that do not follow from others.
    """

    name: ClassVar[str]
    lengths: ClassVar[tuple[int, ...]]
    noise: ClassVar[int]
    order: ClassVar[int]
    longest: ClassVar[int]
    free: ClassVar[tuple[str, ...]]

    @abstractmethod
    def mixing(self, max_length: int) -> MixingMatrix:
        """M of sentences up to a length."""

    @abstractmethod
    def complete(self, tables: Tables) -> dict[str, AnyArray]:
        """All tables from the free ones."""

    @abstractmethod
    def moments(self, matrix: FloatArray, paths: AnyArray, tables: Tables) -> AnyArray:
        """Moments M Psi, one row for each row of M; complex where the tables are."""

    @abstractmethod
    def maximise(self, old: Tables, counts: Tables) -> dict[str, FloatArray]:
        """The M-step: the free tables that expected counts make likeliest, at least the old."""

    def model(self, vocabulary: Sequence[str], free: Tables) -> UniformTreeModel:
        """A model of its free tables."""
        return UniformTreeModel(self.name, tuple(vocabulary), self.complete(free))

    def require_lengths(self, counts: SentenceCounts) -> None:
        """Refuse sentences that the closed form cannot use."""
        for length in self.lengths:
            if not counts.n_sentences(length):
                have = ", ".join(str(n) for n in counts.lengths[:12])
                needed = " and ".join(str(n) for n in self.lengths)
                msg = f"no sentence of {length} words; found lengths {have}"
                hint = f"unmixing {self.name} starts from sentences of {needed} words: add some"
                raise SapwoodError(msg, hint=hint)


class _PcfgIE(UniformFamily):
    """PCFG-IE: binary trees over hidden states."""

    name = "pcfg-ie"
    lengths = (3,)
    noise, order, longest = 3, 3, 10
    free = ("root", "child", "words")

    def mixing(self, max_length: int) -> MixingMatrix:
        """M of triples, each once: whichever of its words is contracted, here the last."""
        mixing = triple_mixing(max_length)
        kept = [r for r, row in enumerate(mixing.rows) if row.k > row.j]
        rows = tuple(mixing.rows[r] for r in kept)
        return MixingMatrix(rows, mixing.columns, mixing.matrix[kept])

    def complete(self, tables: Tables) -> dict[str, AnyArray]:
        """All tables are free."""
        return dict(tables)

    def moments(self, matrix: FloatArray, paths: AnyArray, tables: Tables) -> AnyArray:
        """[rows, d^3]; the five paths end in states, then in words.

        Psi_c[x_out, x_1, x_2] = sum over h, g of (T^root pi)[h] (O T^out)[x_out, h]
            (T^inner)[g, h] (O T^first)[x_1, g] (O T^second)[x_2, g]
        """
        root, child, words = (tables[name] for name in self.free)
        k = len(root)
        outgroup, p0, p1, p2, p3, p4 = paths.T
        steps = _powers(child, int(paths[:, 1:].max()))
        top = (steps @ root)[p0]  # [columns, k]
        upper = np.einsum("nh,noh,ngh->nog", top, steps[p1], steps[p2], optimize=True)
        lower = np.einsum("nag,nbg->ngab", steps[p3], steps[p4]).reshape(-1, k, k * k)
        core = (upper @ lower).reshape(-1, k, k, k)  # outgroup, first, second
        for place in (1, 2):
            core[outgroup == place] = np.moveaxis(core[outgroup == place], 1, 1 + place)
        states = (matrix @ core.reshape(len(core), -1)).reshape(-1, k, k, k)
        tensor = np.einsum("rabc,xa,yb,zc->rxyz", states, words, words, words, optimize=True)
        return np.asarray(tensor.reshape(len(states), -1))

    def maximise(self, old: Tables, counts: Tables) -> dict[str, FloatArray]:
        """Counts divided by their totals."""
        return {name: _normalise(table, old[name]) for name, table in counts.items()}


class _DepIES(UniformFamily):
    """DEP-IES: projective dependencies between words; the root is stationary."""

    name = "dep-ies"
    lengths = (2, 3)
    noise, order, longest = 7, 2, 13
    free = ("argument",)

    def mixing(self, max_length: int) -> MixingMatrix:
        """M of pairs."""
        return pair_mixing(max_length)

    def complete(self, tables: Tables) -> dict[str, AnyArray]:
        """The root follows from the arguments."""
        argument = tables["argument"]
        return {"root": np.asarray(stationary(argument)), "argument": argument}

    def moments(self, matrix: FloatArray, paths: AnyArray, tables: Tables) -> AnyArray:
        """[rows, d^2]; Psi_c = A^first diag(pi) A'^second."""
        steps = _powers(tables["argument"], int(paths.max()))
        first, second = paths.T
        psi = np.einsum(
            "nah,h,nbh->nab", steps[first], tables["root"], steps[second], optimize=True
        )
        return np.asarray(matrix @ psi.reshape(len(psi), -1))

    def maximise(self, old: Tables, counts: Tables) -> dict[str, FloatArray]:
        """A climb of Q from the better of the old table and the counts over their totals."""
        from scipy.optimize import minimize

        N, r = counts["argument"], counts["root"]  # noqa: N806 - as in the formula
        plain = _normalise(N, old["argument"])
        plain = (1 - TINY) * plain + TINY / len(plain)
        starts = [np.log(np.maximum(t, TINY)).ravel() for t in (plain, old["argument"])]
        logits = min(starts, key=lambda start: _loss(start, N, r)[0])
        done = minimize(_loss, logits, (N, r), "L-BFGS-B", jac=True, options=CLIMB)
        best = done.x if done.fun <= _loss(logits, N, r)[0] else logits
        return {"argument": _softmax(best.reshape(N.shape))}


PCFG_IE, DEP_IES = _PcfgIE(), _DepIES()
UNIFORM_FAMILIES: dict[str, UniformFamily] = {"pcfg-ie": PCFG_IE, "dep-ies": DEP_IES}


def uniform_family(name: str) -> UniformFamily:
    """The family of a name.

    >>> uniform_family("dep-ies").lengths
    (2, 3)
    """
    return UNIFORM_FAMILIES[name]


def _powers(matrix: AnyArray, largest: int) -> AnyArray:
    powers = [np.eye(len(matrix), dtype=matrix.dtype)]
    for _ in range(largest):
        powers.append(matrix @ powers[-1])
    return np.stack(powers)


def _normalise(counts: FloatArray, old: FloatArray) -> FloatArray:
    """Columns divided by their totals; what was never used stays as it was."""
    total = counts.sum(axis=0)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), old)


def _softmax(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits - logits.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def _loss(logits: FloatArray, N: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:  # noqa: N803
    """-Q(A) and its gradient in the logits of A's columns, both a count."""
    d = len(r)
    A = np.maximum(_softmax(logits.reshape(d, d)), TINY)  # noqa: N806
    pi = np.maximum(np.asarray(stationary(A / A.sum(axis=0))), TINY)
    Q = float((N * np.log(A)).sum() + (r * np.log(pi)).sum())  # noqa: N806
    solved = np.linalg.solve((np.eye(d) - A + pi[:, None]).T, r / pi)
    gradient = N / A + np.outer(solved, pi)
    inner = A * (gradient - (A * gradient).sum(axis=0))
    n = float(r.sum() + N.sum())
    return -Q / n, -inner.ravel() / n
