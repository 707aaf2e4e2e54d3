"""The two families that can be unmixed, and how all lengths refine them: EM, or a fit of moments.

For PCFG-IE and DEP-IES, `UNIFORM_FAMILIES` has the moments as sums over compound parameters (M Psi,
see `identify/mixing.py`), the M-step, and the lengths that the closed form needs.

**EM** sums over all trees of every distinct sentence. The M-step divides counts by their totals;
for DEP-IES, whose root must stay the stationary vector of A, it maximises

    Q(A) = sum of N[y, x] log A[y, x]  +  sum of r[x] log pi(A)[x],      pi = A pi
    dQ/dA = N / A  +  Z' (r / pi) pi',                                   Z = (I - A + pi 1')^-1

from the better of the old A and the counts divided by their totals, so that the likelihood never
falls (generalised EM).

**The fit.** The closed form uses the shortest sentences only, since the moments of longer ones are
not *linear* in the compound parameters that it needs. The fit uses all lengths: the moments
mu = M Psi(theta) are fitted by Levenberg and Marquardt's method, from a start.

    minimise  sum over o of  n(o) (mu_o(theta) - u_o)^2 / (u_o + 1 / n(o))

with u the observed moments and n(o) the number of sentences behind each. theta are logarithms of
probability ratios in each column. mu is an analytic function of theta, so its derivatives are exact
from imaginary steps: d mu = Im mu(theta + i h) / h has no difference that rounding could spoil.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import comb
from operator import add
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.progress import step
from sapwood.core.training_loops import EMResult, EMSteps, EMStop, gains_less_than, run_em
from sapwood.execute import Engine, Threads
from sapwood.identify.mixing import MixingMatrix, pair_mixing, triple_mixing
from sapwood.identify.model.families import stationary
from sapwood.identify.model.uniform_trees import SentenceCounts, UniformCounts, UniformTreeModel

AnyArray = npt.NDArray[Any]
Tables = Mapping[str, AnyArray]
LEAST_P = 1e-12  # smaller probabilities count as 0 in the logarithms of Q
M_STEP = {"maxiter": 20, "ftol": 1e-14, "gtol": 1e-10}  # of L-BFGS in the M-step of DEP-IES
FLOOR = 1e-3  # weight of the uniform distribution in a start: EM never leaves probability 0
SHARD_SENTENCES = 20_000  # shards do not depend on the jobs, so sums do not either
SHORTEST = 0.1  # an extrapolation leaves at least this fraction of a probability
I_STEP = 1e-30  # of the imaginary part; it may be tiny, since nothing is subtracted
LARGEST = 4e6  # entries of the Jacobian: about a second an evaluation
EVALUATIONS = 60


class UniformFamily(ABC):
    """A family with uniform hidden trees: its moments, M-step and needs of the closed form."""

    name: ClassVar[str]  # as on the command line
    lengths: ClassVar[tuple[int, ...]]  # of the sentences that the closed form reads
    noise: ClassVar[int]  # moments that the closed form adds up, with their factors
    order: ClassVar[int]  # words in a moment
    longest: ClassVar[int]  # sentences whose mixing matrix is made in reasonable time
    free: ClassVar[tuple[str, ...]]  # the tables that do not follow from others

    @abstractmethod
    def mixing(self, max_length: int) -> MixingMatrix:
        """The mixing matrix M of sentences up to a length."""

    def complete(self, tables: Tables) -> dict[str, AnyArray]:
        """All tables, given the free ones."""
        return dict(tables)

    @abstractmethod
    def moments(self, matrix: FloatArray, paths: AnyArray, tables: Tables) -> AnyArray:
        """Moments M Psi, [rows of M, ...]; complex if the tables are complex."""

    @abstractmethod
    def maximise(self, old: Tables, counts: Tables) -> dict[str, FloatArray]:
        """The M-step: free tables that do not lower the expected log-likelihood."""

    def model(self, vocabulary: Sequence[str], free: Tables) -> UniformTreeModel:
        """The model of given free tables."""
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
        """Normalise the expected counts of each column."""
        return {name: _normalise(table, old[name]) for name, table in counts.items()}


class _DepIES(UniformFamily):
    """DEP-IES: projective dependencies between words; the root is stationary."""

    name = "dep-ies"
    lengths = (2, 3)
    noise, order, longest = 7, 2, 13
    free = ("argument",)

    def mixing(self, max_length: int) -> MixingMatrix:
        """The mixing matrix of pairs of words."""
        return pair_mixing(max_length)

    def complete(self, tables: Tables) -> dict[str, AnyArray]:
        """The tables with the root, the stationary vector of the arguments."""
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
        """Maximise Q by L-BFGS, from the better of the old table and the normalised counts."""
        from scipy.optimize import minimize

        N, r = counts["argument"], counts["root"]  # noqa: N806 - as in the formula
        plain = _normalise(N, old["argument"])
        plain = (1 - LEAST_P) * plain + LEAST_P / len(plain)
        starts = [np.log(np.maximum(t, LEAST_P)).ravel() for t in (plain, old["argument"])]
        logits = min(starts, key=lambda start: _loss(start, N, r)[0])
        done = minimize(_loss, logits, (N, r), "L-BFGS-B", jac=True, options=M_STEP)
        best = done.x if done.fun <= _loss(logits, N, r)[0] else logits
        return {"argument": _softmax(best.reshape(N.shape))}


PCFG_IE, DEP_IES = _PcfgIE(), _DepIES()
UNIFORM_FAMILIES: dict[str, UniformFamily] = {"pcfg-ie": PCFG_IE, "dep-ies": DEP_IES}


def _powers(matrix: AnyArray, largest: int) -> AnyArray:
    powers = [np.eye(len(matrix), dtype=matrix.dtype)]
    for _ in range(largest):
        powers.append(matrix @ powers[-1])
    return np.stack(powers)


def _normalise(counts: FloatArray, old: FloatArray) -> FloatArray:
    """Columns divided by their totals; columns without counts stay as they were."""
    total = counts.sum(axis=0)
    return np.where(total > 0, counts / np.where(total > 0, total, 1.0), old)


def _softmax(logits: FloatArray) -> FloatArray:
    weights = np.exp(logits - logits.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def _loss(logits: FloatArray, N: FloatArray, r: FloatArray) -> tuple[float, FloatArray]:  # noqa: N803
    """-Q(A) and its gradient in the logits of A's columns, both a count."""
    d = len(r)
    A = np.maximum(_softmax(logits.reshape(d, d)), LEAST_P)  # noqa: N806
    pi = np.maximum(np.asarray(stationary(A / A.sum(axis=0))), LEAST_P)
    Q = float((N * np.log(A)).sum() + (r * np.log(pi)).sum())  # noqa: N806
    solved = np.linalg.solve((np.eye(d) - A + pi[:, None]).T, r / pi)
    gradient = N / A + np.outer(solved, pi)
    inner = A * (gradient - (A * gradient).sum(axis=0))
    n = float(r.sum() + N.sum())
    return -Q / n, -inner.ravel() / n


def em(
    start: UniformTreeModel,
    sentences: SentenceCounts,
    *,
    iterations: int,
    tolerance: float = 1e-8,
    floor: float = FLOOR,
    accelerate: bool = True,
    engine: Engine | None = None,
) -> EMResult[UniformTreeModel, UniformCounts]:
    """Raise the likelihood of sentences by EM; the best model is the result's parameters.

    Parameters
    ----------
    tolerance
        EM ends when a step gains less than this, in nats a sentence.
    floor
        Weight of the uniform distribution mixed into the start, since EM never leaves 0.
    accelerate
        Whether to try, after every two steps, the point that they seem to go to.

    Cost: an E-step takes O(length^3 k) for every distinct sentence.

    Reference: Varadhan and Roland (2008) for the acceleration.
    """
    n_distinct = sum(map(len, sentences.rows.values()))
    engine = Threads(1) if engine is None else engine
    placed = engine.place(sentences.shards(-(-n_distinct // SHARD_SENTENCES)))

    def expect(model: UniformTreeModel) -> UniformCounts:
        # added in the order of the shards, so that the sum depends on no engine
        parts = engine.gather(engine.map(UniformCounts.of, placed, model))
        counts: UniformCounts = reduce(add, parts)
        return counts

    steps = EMSteps[UniformTreeModel, UniformCounts](
        expect,
        maximise_uniform,
        # first of all, no sentence may be impossible
        score=lambda now: (-now.counts.n_impossible, now.counts.log_likelihood),
        extrapolate=extrapolate if accelerate else None,
    )
    stop = EMStop(iterations - 1, gains_less_than(tolerance * max(sentences.total, 1.0)))
    with step("EM, at most", total=iterations, unit="iteration") as advance:
        run = run_em(
            steps,
            mix_with_uniform(start, floor),
            stop,
            listen=lambda now: advance(now.n_expectations),
        )
    assert run.best is not None
    run.move(run.best)
    return run


def extrapolate(
    first: UniformTreeModel, second: UniformTreeModel, third: UniformTreeModel
) -> UniformTreeModel | None:
    """Extrapolate EM steps as a geometric series; None if the steps do not shrink.

    r = second - first,  v = (third - second) - r,  a = |r| / |v|,  first + 2 a r + a^2 v
    """
    x, y, z = (model.tables for model in (first, second, third))
    r = np.concatenate([(y[name] - x[name]).ravel() for name in x])
    v = np.concatenate([(z[name] - 2 * y[name] + x[name]).ravel() for name in x])
    length = float(np.linalg.norm(v))
    a = float(np.linalg.norm(r)) / length if length > 0 else 0.0
    if a <= 1:
        return None
    tables = {}
    for name in x:
        ahead = x[name] + 2 * a * (y[name] - x[name]) + a * a * (z[name] - 2 * y[name] + x[name])
        # An extrapolated probability may be smaller, but not below 0.
        kept = np.maximum(ahead, SHORTEST * z[name])
        tables[name] = kept / kept.sum(axis=0)
    return UNIFORM_FAMILIES[first.family].model(first.vocabulary, tables)


def mix_with_uniform(model: UniformTreeModel, weight: float) -> UniformTreeModel:
    """Mix the uniform distribution into every column, with a weight."""
    tables = {name: (1 - weight) * t + weight / len(t) for name, t in model.tables.items()}
    return UNIFORM_FAMILIES[model.family].model(model.vocabulary, tables)


def maximise_uniform(model: UniformTreeModel, counts: UniformCounts) -> UniformTreeModel:
    """The M-step: the model of the highest expected log-likelihood."""
    family = UNIFORM_FAMILIES[model.family]
    return family.model(model.vocabulary, family.maximise(model.tables, counts.tables))


@dataclass(frozen=True)
class MomentFit:
    """The fitted model, its chi-square per moment, and the longest sentences that were fitted."""

    model: UniformTreeModel
    chi_square: float
    evaluations: int
    max_length: int


def fit_moments(start: UniformTreeModel, sentences: SentenceCounts, max_length: int) -> MomentFit:
    """Fit all lengths up to `max_length`; fewer where the Jacobian would be too large."""
    from scipy.optimize import least_squares

    family = UNIFORM_FAMILIES[start.family]
    columns = _Columns(start, family)
    longest = _affordable_length(family, sentences, max_length, len(columns.start))
    moments = _Moments(family, sentences.up_to(longest, least=family.order))

    def residuals(theta: AnyArray) -> AnyArray:
        return moments.residuals(columns.tables(theta))

    def jacobian(theta: FloatArray) -> FloatArray:
        units = np.eye(len(theta))
        return np.stack([residuals(theta + 1j * I_STEP * u).imag / I_STEP for u in units], axis=1)

    done = least_squares(residuals, columns.start, jacobian, max_nfev=EVALUATIONS)
    model = UniformTreeModel(start.family, start.vocabulary, columns.tables(done.x))
    return MomentFit(model, 2 * float(done.cost) / moments.target.size, int(done.nfev), longest)


def _affordable_length(
    family: UniformFamily, sentences: SentenceCounts, max_length: int, n_free: int
) -> int:
    """The largest length up to which the moments of all lengths can be fitted."""
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
        positive = mix_with_uniform(model, FLOOR).tables  # logarithms need it
        self.shapes = {name: positive[name].shape for name in family.free}
        self.is_free, parts = {}, []
        for name in family.free:
            table = positive[name].reshape(len(positive[name]), -1)
            is_free = np.arange(len(table))[:, None] != table.argmax(axis=0)
            self.is_free[name] = is_free
            parts.append((np.log(table) - np.log(table.max(axis=0)))[is_free])
        self.start = np.concatenate(parts)

    def tables(self, theta: AnyArray) -> dict[str, AnyArray]:
        """The tables of a vector of free numbers; complex if the numbers are complex."""
        tables, at = {}, 0
        for name, is_free in self.is_free.items():
            weights = np.ones(is_free.shape, dtype=theta.dtype)
            n = int(is_free.sum())
            weights[is_free] = np.exp(theta[at : at + n])
            at += n
            tables[name] = (weights / weights.sum(axis=0)).reshape(self.shapes[name])
        return self.complete(tables)


class _Moments:
    """Observed moments, and moments of tables, in units of their sampling noise."""

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
