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

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray
from sapwood.errors import SapwoodError
from sapwood.estimators.uniform_em import FLOOR, smooth
from sapwood.estimators.uniform_families import UniformFamily, uniform_family
from sapwood.models.uniform_trees import UniformTreeModel
from sapwood.moments.sentence_counts import SentenceCounts

AnyArray = npt.NDArray[Any]
STEP = 1e-30  # of the imaginary part: nothing is subtracted, so it may be tiny
LARGEST = 4e6  # entries of the Jacobian: about a second an evaluation
EVALUATIONS = 60


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

    family = uniform_family(start.family)
    columns = _Columns(start, family)
    longest = _affordable_length(family, sentences, max_length, len(columns.start))
    moments = _Moments(family, sentences.up_to(longest, least=family.order))

    def residuals(theta: AnyArray) -> AnyArray:
        return moments.residuals(columns.tables(theta))

    def jacobian(theta: FloatArray) -> FloatArray:
        slopes = [residuals(theta + 1j * STEP * unit).imag / STEP for unit in np.eye(len(theta))]
        return np.stack(slopes, axis=1)

    done = least_squares(residuals, columns.start, jacobian, max_nfev=EVALUATIONS)
    model = UniformTreeModel(start.family, start.vocabulary, columns.tables(done.x))
    return MomentFit(model, 2 * float(done.cost) / moments.target.size, int(done.nfev), longest)


def _affordable_length(
    family: UniformFamily, sentences: SentenceCounts, max_length: int, n_free: int
) -> int:
    """The longest sentences whose moments, with those of shorter ones, can be fitted."""
    order, size, longest = family.order, 0, 0
    for length in sentences.up_to(min(max_length, family.longest), least=order).lengths:
        size += comb(length, order) * sentences.n_words**order * n_free
        if size > LARGEST:
            break
        longest = length
    if not longest:
        msg = f"the moments of {sentences.n_words} words are too many to fit"
        raise SapwoodError(msg, hint="refine by em instead, or use fewer words")
    return longest


class _Columns:
    """Free tables as free numbers: log-ratios to the largest entry of each column."""

    def __init__(self, model: UniformTreeModel, family: UniformFamily) -> None:
        self.complete = family.complete
        positive = smooth(model, FLOOR).tables  # logarithms need it
        self.shapes = {name: positive[name].shape for name in family.free}
        self.is_free, parts = {}, []
        for name in family.free:
            table = positive[name].reshape(len(positive[name]), -1)
            is_free = np.arange(len(table))[:, None] != table.argmax(axis=0)
            self.is_free[name] = is_free
            parts.append((np.log(table) - np.log(table.max(axis=0)))[is_free])
        self.start = np.concatenate(parts)

    def tables(self, theta: AnyArray) -> dict[str, AnyArray]:
        """The tables of free numbers; complex where they are."""
        tables, at = {}, 0
        for name, is_free in self.is_free.items():
            weights = np.ones(is_free.shape, dtype=theta.dtype)
            n = int(is_free.sum())
            weights[is_free] = np.exp(theta[at : at + n])
            at += n
            tables[name] = (weights / weights.sum(axis=0)).reshape(self.shapes[name])
        return self.complete(tables)


class _Moments:
    """Observed moments, and those of tables, in units of their sampling noise."""

    def __init__(self, family: UniformFamily, sentences: SentenceCounts) -> None:
        self.family, mixing = family, family.mixing(sentences.lengths[-1])
        rows = [r for r, row in enumerate(mixing.rows) if row.length in sentences.rows]
        matrix = mixing.matrix[rows]
        used = np.flatnonzero(matrix.any(axis=0))
        self.matrix = matrix[:, used]
        self.paths = np.array([mixing.columns[c] for c in used])
        named = [mixing.rows[r] for r in rows]
        target = [sentences.joint(row.length, row[1:]).ravel() for row in named]
        n = np.array([sentences.n_sentences(row.length) for row in named])[:, None]
        self.target = np.stack(target)
        self.weight = np.sqrt(n / (self.target + 1 / n))

    def residuals(self, tables: dict[str, AnyArray]) -> AnyArray:
        found = self.family.moments(self.matrix, self.paths, tables)
        return np.asarray((found - self.target) * self.weight).ravel()
