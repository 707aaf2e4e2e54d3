"""`SpectralLPCFG`: latent-variable PCFGs by singular value decomposition (SPECTRAL, Figure 7).

`project_nodes`, its step 0, is also what cluster and pivot learning begin with.

Notation
--------
    phi, psi   inside and outside features of a node         M(a)     nodes with label a
    Omega^a    E[phi psi' | a], its SVD U^a Sigma^a V^a'      m(a)     states of a
    y, z       U' phi and V' psi of a node                    z Sigma^-1 is used throughout
    Y, Z       y and z of the nodes of a shard, one row each
    a -> b c   a rule; z of the parent, y of the left and w of the right child are its vectors

All nodes of all trees count. (Drawing one node per tree, as the paper does to get independent
samples, weighs nodes of small trees more than those of large ones; inside and outside are then
dependent given the hidden state, and the estimate is inconsistent: see docs/concepts/spectral.md.)
Every statistic is a sum over nodes. Third moments of rules are the large ones; rules that are seen
so seldom that their instances are smaller keep these instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
from sapwood.constituency.learn.features import (
    FeatureRows,
    Features,
    FeatureSettings,
    Ids,
    Templates,
    node_features,
)
from sapwood.constituency.learn.pcfg import KERNEL_BYTES, OnPlainGrammar, Trainable, TrainingData
from sapwood.core.arrays import FloatArray, IntArray, group_rows, sum_rows
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
from sapwood.linalg.observable import NodeMeans, RuleLayout, RuleSums, rule_tensors
from sapwood.linalg.svd import BlockSVD, block_svd

if TYPE_CHECKING:
    from sapwood.constituency.learn.pcfg import TrainingData


FEW, ENOUGH = 10, 100  # nodes of a label: one state up to FEW, all states from ENOUGH on
LEAST_VALUE = 0.01  # singular values below carry noise
SPECTRUM_LABELS = 40  # labels whose singular values are kept with the model
# For the estimate of memory: bytes of a node's features, distinct features for each node, and
# numbers that a factored tensor has for each instance of its rule and each state.
FEATURE_NODE_BYTES, FEATURES_PER_NODE, FACTOR_RANK = 900, 1.5, 4


def gather_vectors(ids: Ids, weight: FloatArray, matrix: FloatArray) -> FloatArray:
    """Sum over the features of each node of their rows of a matrix, scaled by their weights."""
    from sapwood.constituency.learn.kernels.node_features import gather

    out = np.empty((len(ids), matrix.shape[1]))
    gather(ids, weight, matrix, out)
    return out


class SingularVectors(NamedTuple):
    """Singular vectors of all labels, which project the features of nodes."""

    # [n_features]: scales of the features of either side
    inside: FloatArray
    outside: FloatArray
    # [n_features, m]
    U: FloatArray
    V: FloatArray
    m: IntArray  # [n_symbols]: dimensions used for each label

    def vectors(self, rows: FeatureRows) -> tuple[FloatArray, FloatArray]:
        """Step 1 of Figure 7: y and z of all nodes of a shard; zero beyond m of their label."""
        Y = gather_vectors(rows.inside, self.inside, self.U)  # noqa: N806
        Z = gather_vectors(rows.outside, self.outside, self.V)  # noqa: N806
        beyond = np.arange(self.U.shape[1]) >= self.m[rows.label][:, None]
        Y[beyond] = Z[beyond] = 0.0
        return Y, Z


def covariance_product(
    rows: FeatureRows,
    scales: tuple[FloatArray, FloatArray],
    X: FloatArray,  # noqa: N803
    side: int,
) -> FloatArray:
    """One shard's part of Omega X, [n_inside, k], or for side 1 of Omega' X; parts add up.

    Omega = sum over nodes of phi psi', block-diagonal by label, is not built: it would have an
    entry for every pair of features that meet at a node.

    Parameters
    ----------
    scales
        Scales of the inside and outside features, [n_features] each.
    """
    from sapwood.constituency.learn.kernels.node_features import scatter

    ids = rows.inside, rows.outside
    mixed = gather_vectors(ids[1 - side], scales[1 - side], X)
    out = np.zeros((len(scales[side]), X.shape[1]))
    scatter(ids[side], scales[side], mixed, out)
    return out


@dataclass(frozen=True, eq=False)
class NodeProjection:
    """The features of all nodes, and the singular vectors that project them."""

    features: Features
    vectors: SingularVectors
    m: IntArray  # [n_symbols]: states of each label
    singular_values: FloatArray  # [n_symbols, n_states]


def project_nodes(
    data: TrainingData, n_states: int, settings: FeatureSettings | None = None, *, seed: int = 0
) -> NodeProjection:
    """Step 0 of Figure 7 for all labels at once; cached in the training data."""
    settings = settings or FeatureSettings()
    key = settings, n_states, seed
    if key not in data.projections:
        features = node_features(data, settings)
        svd = _decompose(data, features, n_states, seed)
        # over each label's largest where they are unscaled: those have no common unit
        values = svd.s if settings.scaled else svd.s / np.maximum(svd.s[:, :1], 1e-300)
        m = states_by_label(values, data.counts.symbols, n_states)
        scales = features.inside.weight, features.outside.weight
        vectors = SingularVectors(*scales, svd.U, svd.V, m)
        data.projections[key] = NodeProjection(features, vectors, m, svd.s)
    return data.projections[key]


def _decompose(data: TrainingData, features: Features, n_states: int, seed: int) -> BlockSVD:
    """Singular vectors of Omega^a (Figure 8): products are sums over shards."""
    sides = features.inside, features.outside
    scales = sides[0].weight, sides[1].weight
    per_node = 1.0 / np.maximum(data.counts.symbols, 1.0)  # Omega is a mean over M(a) nodes
    shares = [np.repeat(per_node, np.diff(side.start))[:, None] for side in sides]

    def times(side: int, X: FloatArray) -> FloatArray:  # noqa: N803
        total = data.engine.total(covariance_product, features.rows, scales, X, side)
        return total * shares[side]

    return block_svd(
        partial(times, 0), partial(times, 1), sides[0].start, sides[1].start, n_states,
        rng=np.random.default_rng(seed),
    )  # fmt: skip


def states_by_label(values: FloatArray, count: FloatArray, m: int) -> IntArray:
    """Number of states of each label: at most m, fewer for rare labels and tiny singular values.

    A label has 1 state up to 10 nodes and m from 100 on, and a linear number between.
    """
    share = np.clip((count - FEW) / (ENOUGH - FEW), 0.0, 1.0)
    by_count = 1 + np.floor(share * (m - 1)).astype(np.int64)
    by_value = (values > LEAST_VALUE).sum(axis=1)
    return np.asarray(np.maximum(1, np.minimum(by_count, by_value)))


def projection_bytes(data: TrainingData, n_states: int) -> float:
    """Estimate the bytes of the features of all nodes and of their singular vectors."""
    n = data.n_nodes_here
    return KERNEL_BYTES + FEATURE_NODE_BYTES * n + 8 * 6 * FEATURES_PER_NODE * n * n_states


@dataclass(frozen=True, eq=False)
class Instances:
    """Instances of rare rules in the order of trees; `+` appends those of the next shard."""

    rule: IntArray  # [n]
    # [n, m]: outside vector of the parent, inside vectors of the children
    z: FloatArray
    y: FloatArray
    w: FloatArray

    def __add__(self, other: Instances) -> Instances:
        names = ("rule", "z", "y", "w")
        pairs = ((getattr(self, name), getattr(other, name)) for name in names)
        return Instances(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class ProjectedSums:
    """Sums over the nodes of a shard; `+` joins shards."""

    # [n_symbols, m]: of the vectors of each label, and of their products number by number
    y: FloatArray
    z: FloatArray
    yz: FloatArray
    root: FloatArray  # [n_symbols, m]: of y of the roots of trees
    # [n_entries, m], [n_entries]: of z of the leaves of each entry of the lexicon, and their number
    entry: FloatArray
    entry_count: FloatArray
    rules: FloatArray  # `RuleSums` of all rules that do not keep their instances
    instances: Instances  # of those that do

    def __add__(self, other: ProjectedSums) -> ProjectedSums:
        names = ("y", "z", "yz", "root", "entry", "entry_count", "rules", "instances")
        return ProjectedSums(*(getattr(self, name) + getattr(other, name) for name in names))

    @classmethod
    def of(cls, rows: FeatureRows, vectors: SingularVectors, layout: RuleLayout) -> ProjectedSums:
        """Steps 1 and 2 of Figure 7 for one shard."""
        Y, Z = vectors.vectors(rows)  # noqa: N806
        n_symbols, m = len(vectors.m), Y.shape[1]
        entry, count = np.zeros((layout.n_entries, m)), np.zeros(layout.n_entries)
        for found in rows.entry:
            hit = found >= 0
            np.add.at(entry, found[hit], Z[rows.leaf[hit]])
            count += np.bincount(found[hit], minlength=layout.n_entries)
        seldom = np.flatnonzero(layout.keeps[rows.rule])
        return cls(
            sum_rows(Y, rows.label, n_symbols),
            sum_rows(Z, rows.label, n_symbols),
            sum_rows(Y * Z, rows.label, n_symbols),
            sum_rows(Y[rows.roots], rows.label[rows.roots], n_symbols),
            entry,
            count,
            _rule_sums(rows, Y, Z, vectors.m, layout),
            Instances(
                rows.rule[seldom], Z[rows.parent[seldom]], Y[rows.left[seldom]],
                Y[rows.right[seldom]],
            ),
        )  # fmt: skip


def _rule_sums(
    rows: FeatureRows,
    Y: FloatArray,  # noqa: N803
    Z: FloatArray,  # noqa: N803
    m: IntArray,
    layout: RuleLayout,
) -> FloatArray:
    """Concatenate the sums of all rules that do not keep their instances."""
    flat = np.zeros(int(layout.start[-1]))
    groups = group_rows(np.where(layout.keeps[rows.rule], -1, rows.rule), len(layout.rules))
    for r, at in enumerate(groups):
        if len(at):
            a, b, c = m[layout.rules[r]].tolist()
            z, y, w = Z[rows.parent[at], :a], Y[rows.left[at], :b], Y[rows.right[at], :c]
            parts = [part.ravel() for part in RuleSums.of(z, y, w)]
            flat[layout.start[r] : layout.start[r + 1]] = np.concatenate(parts)
    return flat


class SpectralLPCFG(StateParameters, OnPlainGrammar):
    """Latent-variable PCFG of a treebank, by SVD; no iterations, no local optima.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : Info
        With `singular_values` of every label, and numbers of features `n_inside`, `n_outside`.
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
        "Share of a word's own mean outside vector in its emission vector; the rest is its tag's.",
    )

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the bytes of the projection and of the tensors of frequent rules."""
        n_symbols, n = len(data.counts.symbols), data.counts.rules.astype(np.int64)
        values = np.ones((n_symbols, self.n_states))
        m = states_by_label(values, data.counts.symbols, self.n_states)
        sizes = m[data.inventory.rules.astype(np.int64)]
        factors = FACTOR_RANK * n * sizes.sum(axis=1)  # of a rare rule, in place of a whole tensor
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
    """Singular values of the commonest labels, short enough for the header of a model file."""
    common = np.argsort(-data.counts.symbols, kind="stable")[:SPECTRUM_LABELS].tolist()
    symbols = data.inventory.phrases + data.inventory.tags
    rounded = np.round(values, 4)
    return {str(symbols[a]): rounded[a][rounded[a] > 0].tolist() for a in common}


def rule_layout(data: TrainingData, m: IntArray, shrinkage: float) -> RuleLayout:
    """Decide which rules keep their instances: those whose tensors will be factored."""
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
    """Step 3 of Figure 7: the tensors C, from sums over all nodes."""
    plain = data.grammar
    if (m == 1).all():  # one state is no state: relative frequencies are the best estimate
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
    """c_inf[a -> x] = q(x | a) * mean z over a -> x, mixed with the mean z of a."""
    lexicon = plain.lexicon
    symbol = len(plain.phrases) + lexicon.entry_tag.astype(np.int64)
    seen = sums.entry_count[:, None]
    own = sums.entry / np.maximum(seen, 1.0) / means.sigma[symbol]
    trust = np.where(seen > 0, word_trust, 0.0)
    vectors = trust * own + (1 - trust) * means.z[symbol]
    kept = np.arange(vectors.shape[1]) < m[symbol][:, None]
    weights = (vectors * lexicon.weights[:, None])[kept]
    return replace(lexicon, weights=weights, weight_start=np.append(0, np.cumsum(m[symbol])))
