"""`SpectralLPCFG`: latent-variable PCFGs by singular value decomposition (SPECTRAL, Figure 7).

Step 0, the projection of the features of all nodes, is `features.project_nodes`. The tensors are
those of section 7.2, smoothed as in Cohen et al. (2013) and stored small.

Notation
--------
    y, z          inside and outside vectors of a node      M(a)   nodes with label a
    Y, Z          y and z of the nodes of a shard, one row each
    z, y, w       rows of the n instances of a rule a -> b c: outside vector of the parent times
                  Sigma^-1, inside vectors of the children; [n, m(a)], [n, m(b)], [n, m(c)]
    E1 = mean of z (x) y (x) w                    the rule's own third moment
    E2 = (E[zy] (x) E[w] + E[zw] (x) E[y] + E[yw] (x) E[z]) / 3
    E3 = E[z] (x) E[y] (x) E[w]                   means over the rule's instances
    E4 = product of the means of the labels
    E  = lam E1 + (1 - lam) (lam E2 + (1 - lam) (lam E3 + (1 - lam) E4))
    lam = sqrt(n) / (C + sqrt(n))                 weight of the rule's own moments

`E n / M(a)` is the tensor C[a -> b c] of equation 14. E depends on the instances only through sums.
For a rule seen n times, E is also a sum of at most 4 n + 2 outer products. The tensor is stored in
this factored form if it takes fewer numbers; the learner then keeps the rule's instances.

The statistics are sums over all nodes of all trees. (The paper draws one node per tree to get
independent samples. This gives the nodes of small trees more weight than the nodes of large trees,
so that inside and outside are dependent given the hidden state, and the estimate is inconsistent:
see docs/concepts/spectral.md.) The third moments of rules take most of the memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
from sapwood.constituency.learn.features import (
    FeatureRows,
    FeatureSettings,
    SingularVectors,
    Templates,
    node_features,
    project_nodes,
    projection_bytes,
    states_by_label,
)
from sapwood.constituency.learn.pcfg import OnPlainGrammar, Trainable
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.arrays import BoolArray, FieldRows, FieldSums, FloatArray, IntArray
from sapwood.core.learner import (
    ANYTHING,
    FLAG,
    Info,
    PhaseClock,
    StateParameters,
    at_least,
    between,
    parameter,
)


class LabelMeans(NamedTuple):
    """Mean vectors of the three labels of a rule, for E4."""

    z: FloatArray
    y: FloatArray
    w: FloatArray


class RuleTensor(NamedTuple):
    """A tensor, either whole (rank 0) or as its concatenated factors."""

    rank: int
    numbers: FloatArray


class RuleSums(NamedTuple):
    """Sums over the instances of a rule, for every product of the three vectors."""

    zyw: FloatArray  # [m(a), m(b), m(c)]
    zy: FloatArray  # [m(a), m(b)]
    zw: FloatArray  # [m(a), m(c)]
    yw: FloatArray  # [m(b), m(c)]
    z: FloatArray  # [m(a)]
    y: FloatArray  # [m(b)]
    w: FloatArray  # [m(c)]

    @classmethod
    def of(cls, z: FloatArray, y: FloatArray, w: FloatArray) -> RuleSums:
        """Compute the sums over the rows of three matrices."""
        pairs = (y[:, :, None] * w[:, None, :]).reshape(len(z), -1)
        zyw = (z.T @ pairs).reshape(z.shape[1], y.shape[1], w.shape[1])
        return cls(zyw, z.T @ y, z.T @ w, y.T @ w, z.sum(axis=0), y.sum(axis=0), w.sum(axis=0))

    @classmethod
    def from_flat(cls, flat: FloatArray, a: int, b: int, c: int) -> RuleSums:
        """Read the sums from one flat array."""
        shapes = ((a, b, c), (a, b), (a, c), (b, c), (a,), (b,), (c,))
        cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        parts = zip(np.split(flat, cuts), shapes, strict=True)
        return cls(*(part.reshape(shape) for part, shape in parts))

    def divide_outside(self, sigma: FloatArray) -> RuleSums:
        """Return the sums for z / sigma in place of z."""
        column = sigma[:, None]
        return self._replace(
            zyw=self.zyw / column[:, None], zy=self.zy / column, zw=self.zw / column,
            z=self.z / sigma,
        )  # fmt: skip


def trust(n: float, shrinkage: float) -> float:
    """Return lam, the weight of a rule's own moments in the smoothing."""
    return float(np.sqrt(n) / (shrinkage + np.sqrt(n)))


def is_small(n: IntArray, m: IntArray, shrinkage: float) -> BoolArray:
    """Whether the factors of rules seen n times have fewer numbers than the whole tensors.

    `m` [n_rules, 3] holds the lengths of the three vectors of each rule.
    """
    rank = n if shrinkage == 0.0 else np.where(n == 1, 2, 4 * n + 2)
    return np.asarray(rank * m.sum(axis=1) < m.prod(axis=1))


def whole_tensor(sums: RuleSums, n: int, label: LabelMeans, shrinkage: float) -> RuleTensor:
    """Return the smoothed E of a rule seen n times, as a whole tensor."""
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
    """Return the smoothed E of a rule as a sum of outer products of its instances' vectors."""
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
    """Whether each rule keeps its instances, and the offsets of the sums of the other rules."""

    rules: IntArray  # [n_rules, 3]: symbols
    seen: IntArray  # [n_rules]: counts
    keeps: BoolArray  # [n_rules]: whether a rule keeps its instances
    start: IntArray  # [n_rules + 1]: offsets of the flat `RuleSums` of the other rules
    n_entries: int  # of the lexicon

    @classmethod
    def of(
        cls, rules: IntArray, count: IntArray, m: IntArray, shrinkage: float, n_entries: int
    ) -> RuleLayout:
        """Make the layout of rules with these counts and labels with `m` states each."""
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
    """Return the ranks and numbers of the tensors C[a -> b c] = n(r) / M(a) * E of all seen rules.

    Parameters
    ----------
    symbol_count : [n_symbols]
        M(a).
    flat
        `RuleSums` of the rules that do not keep their instances.
    instances
        Columns rule, z, y and w of the kept instances.
    """
    ranks, parts, count = [], [np.zeros(0)], layout.seen
    rule_of, Z, Y, W = instances
    order = np.argsort(rule_of, kind="stable")
    first = np.searchsorted(rule_of[order], np.arange(len(layout.rules) + 1))
    # the inventory of a part of a treebank may have rules that do not occur in the part
    for r in np.flatnonzero(count).tolist():
        a, b, c = layout.rules[r].tolist()
        i, j, k = m[[a, b, c]].tolist()
        probability = count[r] / symbol_count[a]
        sigma = means.sigma[a, :i]
        label = LabelMeans(means.z[a, :i], means.y[b, :j], means.y[c, :k])
        if layout.keeps[r]:
            at = order[first[r] : first[r + 1]]
            z, y, w = Z[at, :i], Y[at, :j], W[at, :k]
            label = label._replace(z=label.z * probability)
            tensor = factored_tensor(z / sigma * probability, y, w, label, shrinkage)
        else:
            own = RuleSums.from_flat(flat[layout.start[r] : layout.start[r + 1]], i, j, k)
            tensor = whole_tensor(own.divide_outside(sigma), int(count[r]), label, shrinkage)
            tensor = tensor._replace(numbers=tensor.numbers * probability)
        ranks.append(tensor.rank)
        parts.append(tensor.numbers)
    return np.array(ranks, dtype=np.int64), np.concatenate(parts)


SPECTRUM_LABELS = 40  # number of labels whose singular values are saved with the model
# Numbers of a factored tensor per instance of its rule and per state, in the memory estimate.
FACTOR_RANK = 4


@dataclass(frozen=True, eq=False)
class Instances(FieldRows):
    """Instances of rare rules in the order of trees; `+` appends the next shard's instances."""

    rule: IntArray  # [n]
    # [n, m]: outside vector of the parent, inside vectors of the children
    z: FloatArray
    y: FloatArray
    w: FloatArray


@dataclass(frozen=True, eq=False)
class ProjectedSums(FieldSums):
    """Sums over the nodes of a shard; `+` adds the sums of shards."""

    # [n_symbols, m]: sums of y, of z, and of their elementwise product, for each label
    y: FloatArray
    z: FloatArray
    yz: FloatArray
    root: FloatArray  # [n_symbols, m]: sums of y of the roots of trees
    # [n_entries, m], [n_entries]: sums of z of the leaves of each lexicon entry, and their number
    entry: FloatArray
    entry_count: FloatArray
    rules: FloatArray  # `RuleSums` of all rules that do not keep their instances
    instances: Instances  # of the rules that keep them

    @classmethod
    def of(cls, rows: FeatureRows, vectors: SingularVectors, layout: RuleLayout) -> ProjectedSums:
        """Compute the sums of one shard (steps 1 and 2 of Figure 7)."""
        Y, Z = vectors.vectors(rows)
        n_symbols, m = len(vectors.m), Y.shape[1]
        entry, count = np.zeros((layout.n_entries, m)), np.zeros(layout.n_entries)
        for found in rows.entry:
            hit = found >= 0
            np.add.at(entry, found[hit], Z[rows.leaf[hit]])
            count += np.bincount(found[hit], minlength=layout.n_entries)
        y, z, yz, root = np.zeros((4, n_symbols, m))
        for total, found in ((y, Y), (z, Z), (yz, Y * Z)):
            np.add.at(total, rows.label, found)
        np.add.at(root, rows.label[rows.roots], Y[rows.roots])
        seldom = np.flatnonzero(layout.keeps[rows.rule])
        kept = Instances(
            rows.rule[seldom], Z[rows.parent[seldom]], Y[rows.left[seldom]], Y[rows.right[seldom]]
        )
        return cls(y, z, yz, root, entry, count, _rule_sums(rows, Y, Z, vectors.m, layout), kept)


def _rule_sums(
    rows: FeatureRows,
    Y: FloatArray,
    Z: FloatArray,
    m: IntArray,
    layout: RuleLayout,
) -> FloatArray:
    """Return the concatenated sums of all rules that do not keep their instances."""
    flat = np.zeros(int(layout.start[-1]))
    order = np.argsort(rows.rule, kind="stable")
    first = np.searchsorted(rows.rule[order], np.arange(len(layout.rules) + 1))
    for r in np.flatnonzero((np.diff(first) > 0) & ~layout.keeps).tolist():
        at = order[first[r] : first[r + 1]]
        a, b, c = m[layout.rules[r]].tolist()
        z, y, w = Z[rows.parent[at], :a], Y[rows.left[at], :b], Y[rows.right[at], :c]
        parts = [part.ravel() for part in RuleSums.of(z, y, w)]
        flat[layout.start[r] : layout.start[r + 1]] = np.concatenate(parts)
    return flat


class SpectralLPCFG(StateParameters, OnPlainGrammar):
    """Latent-variable PCFG by singular value decomposition, without iterations or local optima.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : Info
        Has the `singular_values` of every label, and the numbers of features `n_inside` and
        `n_outside`.
    """

    inside_features: Templates = parameter(
        None,
        ANYTHING,
        "Names of templates (see `sapwood.constituency.learn.features`) or functions of a "
        "`NodeTable`; None takes all.",
    )
    outside_features: Templates = parameter(
        None, ANYTHING, "The same for features of what is outside a node."
    )
    scaled: bool = parameter(
        True,
        FLAG,
        "Whether features are scaled by sqrt(M / (count + kappa)); without, accuracy falls.",
    )
    kappa: float = parameter(5.0, at_least(0), "Shrinks the scale of rare features.")
    shrinkage: float = parameter(
        20.0,
        at_least(0),
        "C of the smoothing of tensors: a rule seen n times is trusted by sqrt(n) / (C + sqrt(n)). "
        "0 does not smooth.",
    )
    word_trust: float = parameter(
        0.6,
        between(0, 1),
        "Weight of a word's own mean outside vector in its emission vector; the tag's has the "
        "rest.",
    )

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the bytes of the projection and of the tensors of frequent rules."""
        n_symbols, n = len(data.counts.symbols), data.counts.rules.astype(np.int64)
        values = np.ones((n_symbols, self.n_states))
        m = states_by_label(values, data.counts.symbols, self.n_states)
        sizes = m[data.inventory.rules.astype(np.int64)]
        factors = FACTOR_RANK * n * sizes.sum(axis=1)  # of rare rules
        tensors = float(np.minimum(factors, sizes.prod(axis=1)).sum())
        copies = 2 + data.engine.jobs_here
        return projection_bytes(data, self.n_states) + 8 * copies * tensors

    def fit(self, bank: Trainable) -> Self:
        """Learn the grammar of a treebank: Figure 7, step by step."""
        clock = PhaseClock()
        data = self._prepare(bank)
        clock.tick("plain grammar")
        settings = FeatureSettings.of(
            self.inside_features, self.outside_features, self.scaled, self.kappa
        )
        node_features(data, settings)
        clock.tick("features")
        projection = project_nodes(data, self.n_states, settings, seed=self.seed)  # step 0
        clock.tick("svd")
        layout = rule_layout(data, projection.m, self.shrinkage)
        sums = data.engine.total(  # steps 1 and 2
            ProjectedSums.of, projection.features.rows, projection.vectors, layout
        )
        clock.tick("moments")
        record = {
            "method": "spectral", "n_states": self.n_states, "seed": self.seed, **data.sizes,
            "spectrum": _spectrum(data, projection.singular_values),
        }  # fmt: skip
        self.model_ = spectral_grammar(  # step 3
            data, projection.m, layout, sums, self.shrinkage, self.word_trust, record
        )
        clock.tick("tensors")
        found = {
            "singular_values": projection.singular_values,
            "n_inside": len(projection.vectors.U), "n_outside": len(projection.vectors.V),
        }  # fmt: skip
        self.info_ = Info(seconds=clock.seconds, extra=found)
        return self


def _spectrum(data: TrainingData, values: FloatArray) -> dict[str, list[float]]:
    """Return the singular values of the most frequent labels, for the header of the model file."""
    common = np.argsort(-data.counts.symbols, kind="stable")[:SPECTRUM_LABELS].tolist()
    symbols = data.inventory.phrases + data.inventory.tags
    rounded = np.round(values, 4)
    return {str(symbols[a]): rounded[a][rounded[a] > 0].tolist() for a in common}


def rule_layout(data: TrainingData, m: IntArray, shrinkage: float) -> RuleLayout:
    """Return the layout in which rules with factored tensors keep their instances."""
    rules, count = data.inventory.rules.astype(np.int64), data.counts.rules.astype(np.int64)
    return RuleLayout.of(rules, count, m, shrinkage, len(data.grammar.lexicon.entry_tag))


def spectral_grammar(
    data: TrainingData,
    m: IntArray,
    layout: RuleLayout,
    sums: ProjectedSums,
    shrinkage: float,
    word_trust: float,
    record: dict[str, Any],
) -> LatentGrammar:
    """Compute the tensors C from the sums over all nodes (step 3 of Figure 7)."""
    plain = data.grammar
    if (m == 1).all():  # with one state, relative frequencies are the best estimate
        return replace(plain, record=record)
    n = np.maximum(data.counts.symbols, 1.0)[:, None]
    sigma = sums.yz / n
    sigma = np.where(np.abs(sigma) > 0, sigma, 1.0)
    means = NodeMeans(sigma, sums.y / n, sums.z / n / sigma)
    kept = sums.instances
    rank, weights = rule_tensors(
        layout, m, sums.rules, (kept.rule, kept.z, kept.y, kept.w), means,
        data.counts.symbols, shrinkage,
    )  # fmt: skip
    root = (sums.root / data.n_trees)[np.arange(sums.root.shape[1]) < m[:, None]]
    return LatentGrammar(
        plain.phrases, plain.tags, m, root, plain.rules, weights,
        _lexicon(plain, m, sums, means, word_trust), plain.coarse, plain.transform,
        is_probabilistic=False, record=record, rule_rank=rank,
    )  # fmt: skip


def _lexicon(
    plain: LatentGrammar, m: IntArray, sums: ProjectedSums, means: NodeMeans, word_trust: float
) -> Lexicon:
    """Return c_inf[a -> x] = q(x | a) * (mean z of a -> x, mixed with the mean z of a)."""
    lexicon = plain.lexicon
    symbol = len(plain.phrases) + lexicon.entry_tag.astype(np.int64)
    seen = sums.entry_count[:, None]
    own = sums.entry / np.maximum(seen, 1.0) / means.sigma[symbol]
    trust = np.where(seen > 0, word_trust, 0.0)
    vectors = trust * own + (1 - trust) * means.z[symbol]
    kept = np.arange(vectors.shape[1]) < m[symbol][:, None]
    weights = (vectors * lexicon.weights[:, None])[kept]
    return replace(lexicon, weights=weights, weight_start=np.append(0, np.cumsum(m[symbol])))
