"""Observable tensors of a latent tree model, smoothed and stored small.

Notation (SPECTRAL, section 7.2; smoothing as in Cohen et al. 2013)
-------------------------------------------------------------------
    z, y, w       rows of a rule's n instances: outside vector times Sigma^-1, inside vectors of the
                  left and of the right child; [n, m(a)], [n, m(b)], [n, m(c)]
    E1 = mean of z (x) y (x) w                    the rule's own third moment
    E2 = (E[zy] (x) E[w] + E[zw] (x) E[y] + E[yw] (x) E[z]) / 3
    E3 = E[z] (x) E[y] (x) E[w]                   means over the rule's instances
    E4 = product of the means of the labels
    E  = lam E1 + (1 - lam) (lam E2 + (1 - lam) (lam E3 + (1 - lam) E4))
    lam = sqrt(n) / (C + sqrt(n))                 how far the rule's own moments are trusted

`E n / M(a)` is the tensor C[a -> b c] of equation 14. E needs sums over the instances only. A rule
seen n times has at most 4 n + 2 outer products in E, and is kept that way when they take fewer
numbers than the whole tensor; such a rule needs its few instances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sapwood.core.arrays import BoolArray, FloatArray, IntArray, group_rows


class LabelMeans(NamedTuple):
    """Mean vectors of the three labels of a rule, for E4."""

    z: FloatArray
    y: FloatArray
    w: FloatArray


class RuleTensor(NamedTuple):
    """A tensor, whole (rank 0) or as factors one after the other."""

    rank: int
    numbers: FloatArray


class RuleSums(NamedTuple):
    """Sums over the instances of a rule, of all products of their vectors."""

    zyw: FloatArray  # [m(a), m(b), m(c)]
    zy: FloatArray  # [m(a), m(b)]
    zw: FloatArray  # [m(a), m(c)]
    yw: FloatArray  # [m(b), m(c)]
    z: FloatArray  # [m(a)]
    y: FloatArray  # [m(b)]
    w: FloatArray  # [m(c)]

    @classmethod
    def of(cls, z: FloatArray, y: FloatArray, w: FloatArray) -> RuleSums:
        """Sums over the rows of three matrices."""
        pairs = (y[:, :, None] * w[:, None, :]).reshape(len(z), -1)
        zyw = (z.T @ pairs).reshape(z.shape[1], y.shape[1], w.shape[1])
        return cls(zyw, z.T @ y, z.T @ w, y.T @ w, z.sum(axis=0), y.sum(axis=0), w.sum(axis=0))

    @classmethod
    def from_flat(cls, flat: FloatArray, a: int, b: int, c: int) -> RuleSums:
        """Sums from one flat array that holds them one after the other."""
        shapes = ((a, b, c), (a, b), (a, c), (b, c), (a,), (b,), (c,))
        cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        parts = zip(np.split(flat, cuts), shapes, strict=True)
        return cls(*(part.reshape(shape) for part, shape in parts))

    def divide_outside(self, sigma: FloatArray) -> RuleSums:
        """The sums of z / sigma instead of z."""
        column = sigma[:, None]
        return self._replace(
            zyw=self.zyw / column[:, None], zy=self.zy / column, zw=self.zw / column,
            z=self.z / sigma,
        )  # fmt: skip


def trust(n: float, shrinkage: float) -> float:
    """The weight lam of a rule's own moments in the smoothing."""
    return float(np.sqrt(n) / (shrinkage + np.sqrt(n)))


def is_small(n: IntArray, m: IntArray, shrinkage: float) -> BoolArray:
    """Whether the factors of rules seen n times take fewer numbers than whole tensors.

    `m` [n_rules, 3] holds the lengths of the three vectors of each rule.
    """
    rank = n if shrinkage == 0.0 else np.where(n == 1, 2, 4 * n + 2)
    return np.asarray(rank * m.sum(axis=1) < m.prod(axis=1))


def whole_tensor(sums: RuleSums, n: int, label: LabelMeans, shrinkage: float) -> RuleTensor:
    """Smoothed E of a rule seen n times, as a whole tensor."""
    lam = trust(n, shrinkage)
    E1 = sums.zyw / n
    if lam == 1.0:
        return RuleTensor(0, E1.ravel())
    ez, ey, ew = sums.z / n, sums.y / n, sums.w / n
    E2 = (
        (sums.zy / n)[:, :, None] * ew
        + (sums.zw / n)[:, None, :] * ey[None, :, None]
        + (sums.yw / n)[None, :, :] * ez[:, None, None]
    ) / 3
    E3 = ez[:, None, None] * ey[:, None] * ew
    E4 = label.z[:, None, None] * label.y[:, None] * label.w
    E = lam * E1 + (1 - lam) * (lam * E2 + (1 - lam) * (lam * E3 + (1 - lam) * E4))
    return RuleTensor(0, E.ravel())


def factored_tensor(
    z: FloatArray, y: FloatArray, w: FloatArray, label: LabelMeans, shrinkage: float
) -> RuleTensor:
    """Smoothed E of one rule as a sum of outer products of its instances' vectors."""
    n, lam = len(z), trust(len(z), shrinkage)
    last, second = (1 - lam) ** 3, (1 - lam) * lam / 3
    if lam == 1.0:
        factors = [z / n, y, w]
    elif n == 1:  # E1 = E2 = E3
        factors = [
            np.vstack([(1 - last) * z, last * label.z]),
            np.vstack([y, label.y]),
            np.vstack([w, label.w]),
        ]
    else:
        ez, ey, ew = (np.broadcast_to(rows.mean(axis=0), rows.shape) for rows in (z, y, w))
        factors = [
            np.vstack([lam * z / n, second * z / n, second * z / n, second * ez / n,
                       (1 - lam) ** 2 * lam * ez[:1], last * label.z]),
            np.vstack([y, y, ey, y, ey[:1], label.y]),
            np.vstack([w, ew, w, w, ew[:1], label.w]),
        ]  # fmt: skip
    return RuleTensor(len(factors[0]), np.concatenate([f.ravel() for f in factors]))


class RuleLayout(NamedTuple):
    """Which rules keep their instances, and where the sums of the others start."""

    rules: IntArray  # [n_rules, 3]: symbols
    seen: IntArray  # [n_rules]: counts
    keeps: BoolArray  # [n_rules]: whether a rule keeps its instances
    start: IntArray  # [n_rules + 1]: offsets of the flat `RuleSums` of rules that keep none
    n_entries: int  # of the lexicon

    @classmethod
    def of(
        cls, rules: IntArray, count: IntArray, m: IntArray, shrinkage: float, n_entries: int
    ) -> RuleLayout:
        """The layout of rules with these counts, and of labels with `m` states each."""
        keeps = is_small(count, m[rules], shrinkage)
        a, b, c = m[rules].T
        sizes = np.where(keeps, 0, a * b * c + a * b + a * c + b * c + a + b + c)
        return cls(rules, count, keeps, np.append(0, np.cumsum(sizes)), n_entries)


class NodeMeans(NamedTuple):
    """Means over the nodes of each label, [n_symbols, m]."""

    # the diagonal of Sigma^a = E[y z' | a], up to the accuracy of the SVD; 1 where it is 0
    sigma: FloatArray
    # of y, and of z / sigma
    y: FloatArray
    z: FloatArray


def rule_tensors(
    layout: RuleLayout,
    m: IntArray,
    flat: FloatArray,
    instances: tuple[IntArray, FloatArray, FloatArray, FloatArray],
    means: NodeMeans,
    symbol_count: FloatArray,
    shrinkage: float,
) -> tuple[IntArray, FloatArray]:
    """Tensors C[a -> b c] = n(r) / M(a) * E of all rules that were seen: their ranks and numbers.

    Parameters
    ----------
    symbol_count : [n_symbols]
        M(a).
    flat
        `RuleSums` of the rules that do not keep their instances.
    instances
        The instances of rules that keep them: rule, z, y and w.
    """
    ranks, parts, count = [], [np.zeros(0)], layout.seen
    rule_of, Z, Y, W = instances
    groups = group_rows(rule_of, len(layout.rules))
    # a part of a treebank shares the inventory of the whole; the grammar has the rules seen
    for r in np.flatnonzero(count).tolist():
        a, b, c = layout.rules[r].tolist()
        i, j, k = m[[a, b, c]].tolist()
        probability = count[r] / symbol_count[a]
        sigma = means.sigma[a, :i]
        label = LabelMeans(means.z[a, :i], means.y[b, :j], means.y[c, :k])
        if layout.keeps[r]:
            z, y, w = Z[groups[r], :i], Y[groups[r], :j], W[groups[r], :k]
            label = label._replace(z=label.z * probability)
            tensor = factored_tensor(z / sigma * probability, y, w, label, shrinkage)
        else:
            own = RuleSums.from_flat(flat[layout.start[r] : layout.start[r + 1]], i, j, k)
            tensor = whole_tensor(own.divide_outside(sigma), int(count[r]), label, shrinkage)
            tensor = tensor._replace(numbers=tensor.numbers * probability)
        ranks.append(tensor.rank)
        parts.append(tensor.numbers)
    return np.array(ranks, dtype=np.int64), np.concatenate(parts)
