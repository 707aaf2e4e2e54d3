"""Least-squares fit of all pair or triple moments of sentences of all lengths.

The unmixed estimate uses the shortest sentences only, since longer ones say nothing *linear* about
the compound parameters that it needs. Here they count: the moments mu = M Psi(theta) of every
length are fitted by Levenberg and Marquardt's method, from a start.

    minimise  sum over o of  n(o) (mu_o(theta) - u_o)^2 / (u_o + 1 / n(o))

with u the observed moments and n(o) the sentences behind each. theta are logarithms of
probability ratios in each column. mu is an analytic function of theta, so that its derivatives
are exact from imaginary steps: d mu = Im mu(theta + i h) / h, without any difference taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.errors import SapwoodError
from sapwood.estimators.uniform_em import FLOOR, smoothed
from sapwood.identify.families import stationary
from sapwood.identify.mixing import PairRow, TripleRow, pair_mixing, triple_mixing
from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts

FloatArray = npt.NDArray[np.float64]
AnyArray = npt.NDArray[Any]
STEP = 1e-30  # of the imaginary part: nothing is subtracted, so it may be tiny
LARGEST = 4e6  # entries of the Jacobian: about a second an evaluation
EVALUATIONS = 60
ORDER = {"pcfg-ie": 3, "dep-ies": 2}  # words in a moment
LONGEST = {"pcfg-ie": 10, "dep-ies": 13}  # mixing matrices beyond take long to make


@dataclass(frozen=True)
class MomentFit:
    """Where the fit ended: the model, the weighted squares per moment, and what was used."""

    model: UniformTreeModel
    chi_square: float
    evaluations: int
    max_length: int


def fit_moments(start: UniformTreeModel, sentences: SentenceCounts, max_length: int) -> MomentFit:
    """Fit all lengths up to `max_length`; fewer where the Jacobian would be too large."""
    from scipy.optimize import least_squares

    columns = _Columns(start)
    longest = _affordable(start.family, sentences, max_length, columns.n_free)
    fitted = _Moments(start.family, sentences.up_to(longest, least=ORDER[start.family]))

    def residuals(theta: AnyArray) -> AnyArray:
        return fitted.residuals(columns.tables(theta))

    def jacobian(theta: FloatArray) -> FloatArray:
        slopes = [residuals(theta + 1j * STEP * unit).imag / STEP for unit in np.eye(len(theta))]
        return np.stack(slopes, axis=1)

    done = least_squares(residuals, columns.start, jacobian, max_nfev=EVALUATIONS)
    tables = columns.tables(done.x)
    model = UniformTreeModel(start.family, start.vocabulary, tables)
    return MomentFit(model, 2 * float(done.cost) / fitted.size, int(done.nfev), longest)


def _affordable(family: str, sentences: SentenceCounts, max_length: int, n_free: int) -> int:
    """The longest sentences whose moments, with those of shorter ones, can be fitted."""
    order, size, longest = ORDER[family], 0, 0
    top = min(max_length, LONGEST[family])
    for length in sentences.up_to(top, least=order).lengths:
        size += comb(length, order) * sentences.n_words**order * n_free
        if size > LARGEST:
            break
        longest = length
    if not longest:
        msg = f"the moments of {sentences.n_words} words are too many to fit"
        raise SapwoodError(msg, hint="refine by em instead, or use fewer words")
    return longest


class _Columns:
    """Tables as free numbers: log-ratios to the largest entry of each column."""

    def __init__(self, model: UniformTreeModel) -> None:
        self.is_pcfg = model.family == "pcfg-ie"
        names = list(model.tables) if self.is_pcfg else ["argument"]
        self.shapes = {name: np.atleast_2d(model.tables[name].T).T.shape for name in names}
        positive = smoothed(model, FLOOR).tables  # logarithms need it
        mixed = {name: positive[name].reshape(shape) for name, shape in self.shapes.items()}
        self.fixed = {name: table.argmax(axis=0) for name, table in mixed.items()}
        parts = []
        for name, table in mixed.items():
            logs = np.log(table) - np.log(table.max(axis=0))
            parts.append(logs[self._is_free(name)])
        self.start = np.concatenate(parts)
        self.n_free = len(self.start)

    def _is_free(self, name: str) -> npt.NDArray[np.bool_]:
        is_free = np.ones(self.shapes[name], dtype=bool)
        is_free[self.fixed[name], np.arange(self.shapes[name][1])] = False
        return is_free

    def tables(self, theta: AnyArray) -> dict[str, AnyArray]:
        """The tables of free numbers; complex where they are."""
        tables, at = {}, 0
        for name, shape in self.shapes.items():
            weights = np.ones(shape, dtype=theta.dtype)
            is_free = self._is_free(name)
            n = int(is_free.sum())
            weights[is_free] = np.exp(theta[at : at + n])
            at += n
            tables[name] = weights / weights.sum(axis=0)
        if self.is_pcfg:
            tables["root"] = tables["root"][:, 0]
            return tables
        return {"root": np.asarray(stationary(tables["argument"])), **tables}


class _Moments:
    """Observed moments, and those of tables, in units of their sampling noise."""

    def __init__(self, family: str, sentences: SentenceCounts) -> None:
        longest, self.family = sentences.lengths[-1], family
        mixing = triple_mixing(longest) if family == "pcfg-ie" else pair_mixing(longest)
        present = set(sentences.lengths)
        rows = [r for r, row in enumerate(mixing.rows) if row.length in present and _is_plain(row)]
        matrix = mixing.matrix[rows]
        used = np.flatnonzero(matrix.any(axis=0))
        self.matrix = matrix[:, used]
        self.paths = np.array([mixing.columns[c] for c in used])
        named = [mixing.rows[r] for r in rows]
        target = [sentences.joint(row.length, row[1:]).ravel() for row in named]
        n = np.array([sentences.n_sentences(row.length) for row in named])[:, None]
        self.target = np.stack(target)
        self.weight = np.sqrt(n / (self.target + 1 / n))
        self.size = self.target.size

    def residuals(self, tables: dict[str, AnyArray]) -> AnyArray:
        compute: Callable[..., AnyArray] = (
            self._triples if self.family == "pcfg-ie" else self._pairs
        )
        return np.asarray((compute(**tables) - self.target) * self.weight).ravel()

    def _triples(self, root: AnyArray, child: AnyArray, words: AnyArray) -> AnyArray:
        """Moments M Psi, where the five paths end in states, then in words; [rows, d^3]."""
        k = len(root)
        outgroup, p0, p1, p2, p3, p4 = self.paths.T
        steps = _powers(child, int(self.paths[:, 1:].max()))
        top = (steps @ root)[p0]  # [columns, k]
        upper = np.einsum("nh,noh,ngh->nog", top, steps[p1], steps[p2], optimize=True)
        lower = np.einsum("nag,nbg->ngab", steps[p3], steps[p4]).reshape(-1, k, k * k)
        core = (upper @ lower).reshape(-1, k, k, k)  # outgroup, first, second
        core[outgroup == 2] = np.moveaxis(core[outgroup == 2], 1, 3)
        states = (self.matrix @ core.reshape(len(core), -1)).reshape(-1, k, k, k)
        tensor = np.einsum("rabc,xa,yb,zc->rxyz", states, words, words, words, optimize=True)
        return np.asarray(tensor.reshape(len(states), -1))

    def _pairs(self, root: AnyArray, argument: AnyArray) -> AnyArray:
        steps = _powers(argument, int(self.paths.max()))
        first, second = self.paths.T
        psi = np.einsum("nah,h,nbh->nab", steps[first], root, steps[second], optimize=True)
        return np.asarray(self.matrix @ psi.reshape(len(psi), -1))


def _is_plain(row: TripleRow | PairRow) -> bool:
    """A triple is one moment whichever of its words is contracted: the last is."""
    return isinstance(row, PairRow) or row.k > row.j


def _powers(matrix: AnyArray, largest: int) -> AnyArray:
    powers = [np.eye(len(matrix), dtype=matrix.dtype)]
    for _ in range(largest):
        powers.append(matrix @ powers[-1])
    return np.stack(powers)
