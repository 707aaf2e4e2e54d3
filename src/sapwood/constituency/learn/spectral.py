"""`SpectralLPCFG`: latent-variable PCFGs by singular value decomposition (SPECTRAL, Figure 7).

`project`, its step 0, is also what cluster and pivot learning begin with.

Notation
--------
    phi, psi   inside and outside features of a node         M(a)     nodes with label a
    Omega^a    E[phi psi' | a], its SVD U^a Sigma^a V^a'      m(a)     states of a
    y, z       U' phi and V' psi of a node                    z Sigma^-1 is used throughout
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
from sapwood.constituency.learn.pcfg import Trainable, TrainingData
from sapwood.constituency.learn.projected import (
    CrossCovariance,
    FeatureCounts,
    FeatureRows,
    FeatureSpace,
    NodeKeys,
    ProjectedSums,
    SingularVectors,
)
from sapwood.constituency.learn.templates import INSIDE, OUTSIDE, Template
from sapwood.constituency.learn.treebank_learner import OnPlainGrammar, TreebankEstimator
from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.core.info import Info, PhaseClock
from sapwood.core.learner import ANYTHING, FLAG, WithStates, at_least, between, parameter
from sapwood.execute import Placed
from sapwood.linalg.observable import (
    NodeMeans,
    RuleLayout,
    rule_tensors,
)
from sapwood.linalg.svd import BlockSVD, block_svd

Templates = Sequence[str | Template] | None
FEW, ENOUGH = 10, 100  # nodes of a label: one state up to FEW, all states from ENOUGH on
LEAST_VALUE = 0.01  # singular values below carry noise
SPECTRUM_LABELS = 40  # whose singular values are kept with the model


class FeatureSettings(NamedTuple):
    """Which features nodes have, and their scales."""

    inside: tuple[Template, ...] = tuple(INSIDE.values())
    outside: tuple[Template, ...] = tuple(OUTSIDE.values())
    scaled: bool = True
    kappa: float = 5.0

    @classmethod
    def of(cls, inside: Templates, outside: Templates, scaled: bool, kappa: float) -> Self:
        """From names of templates, or templates; None takes all."""
        return cls(_chosen(inside, INSIDE), _chosen(outside, OUTSIDE), scaled, kappa)


def _chosen(wanted: Templates, known: dict[str, Template]) -> tuple[Template, ...]:
    if wanted is None:
        return tuple(known.values())
    chosen = [known.get(item) if isinstance(item, str) else item for item in wanted]
    missing = [item for item, found in zip(wanted, chosen, strict=True) if found is None]
    if missing or not chosen:
        msg = f"no feature template {missing[0]!r}" if missing else "no feature template was given"
        raise SapwoodError(msg, hint=f"templates on this side: {', '.join(known)}")
    return tuple(template for template in chosen if template is not None)


@dataclass(frozen=True, eq=False)
class Features:
    """The features of all nodes."""

    inside: FeatureSpace
    outside: FeatureSpace
    rows: Placed  # `FeatureRows` of every shard, where the shards are


@dataclass(frozen=True, eq=False)
class Projection:
    """A treebank seen through its singular vectors."""

    features: Features
    vectors: SingularVectors  # which make y and z of them
    m: IntArray  # [n_symbols]: states of each label
    singular_values: FloatArray  # [n_symbols, n_states]


def project(
    data: TrainingData,
    n_states: int,
    settings: FeatureSettings | None = None,
    *,
    seed: int = 0,
    clock: PhaseClock | None = None,
) -> Projection:
    """Step 0 of Figure 7 for all labels at once; shared by all who ask for the same."""
    settings, clock = settings or FeatureSettings(), clock or PhaseClock()
    if settings not in data.kept:
        data.kept[settings] = _features(data, settings)
    features: Features = data.kept[settings]
    clock.tick("features")
    key = settings, n_states, seed
    if key not in data.kept:
        svd = _decompose(data, features, n_states, seed)
        # over each label's largest where they are unscaled: those have no common unit
        values = svd.s if settings.scaled else svd.s / np.maximum(svd.s[:, :1], 1e-300)
        m = states_by_label(values, data.counts.symbols, n_states)
        weights = (features.inside.weight, features.outside.weight)
        vectors = SingularVectors(*weights, svd.U, svd.V, m)
        data.kept[key] = Projection(features, vectors, m, svd.s)
    clock.tick("svd")
    projection: Projection = data.kept[key]
    return projection


def _features(data: TrainingData, settings: FeatureSettings) -> Features:
    """Count features, number them, and give every node its numbers."""
    engine, n_inside = data.engine, len(settings.inside)
    templates = settings.inside + settings.outside
    nodes = engine.map(NodeKeys.of, data.shards, templates, data.classes.row_of_word)
    counts: FeatureCounts = engine.total(attrgetter("counts"), nodes)
    inside, outside = (
        FeatureSpace.build(
            templates[side], counts.keys[side], counts.counts[side], data.counts.symbols,
            settings.kappa, scaled=settings.scaled,
        )
        for side in (slice(n_inside), slice(n_inside, None))
    )  # fmt: skip
    rows = engine.map(FeatureRows.of, nodes, inside, outside, data.classes, data.grammar.lexicon)
    return Features(inside, outside, rows)


def _decompose(data: TrainingData, features: Features, n_states: int, seed: int) -> BlockSVD:
    """Singular vectors of Omega^a (Figure 8): products are sums over shards."""
    sides = features.inside, features.outside
    omega = CrossCovariance(*(side.weight for side in sides))
    per_node = 1.0 / np.maximum(data.counts.symbols, 1.0)  # Omega is a mean over M(a) nodes
    shares = [np.repeat(per_node, np.diff(side.start))[:, None] for side in sides]

    def times(side: int, X: FloatArray) -> FloatArray:  # noqa: N803
        return data.engine.total(omega.times, features.rows, X, side) * shares[side]

    return block_svd(
        partial(times, 0), partial(times, 1), sides[0].start, sides[1].start, n_states,
        rng=np.random.default_rng(seed),
    )  # fmt: skip


def states_by_label(values: FloatArray, count: FloatArray, m: int) -> IntArray:
    """States per label: 1 up to 10 nodes, m from 100 on, linear between; no tiny singular value."""
    share = np.clip((count - FEW) / (ENOUGH - FEW), 0.0, 1.0)
    by_count = 1 + np.floor(share * (m - 1)).astype(np.int64)
    by_value = (values > LEAST_VALUE).sum(axis=1)
    return np.asarray(np.maximum(1, np.minimum(by_count, by_value)))


class SpectralLPCFG(WithStates, OnPlainGrammar, TreebankEstimator):
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
        "Names of templates (see `sapwood.constituency.learn.templates`) or functions of a "
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
        """Bytes that learning takes at most, about, besides the packed trees."""
        from sapwood.constituency.learn import memory as tree_memory

        return tree_memory.spectral_bytes(data, self.n_states)

    def fit(self, bank: Trainable) -> Self:
        """Learn the grammar of a treebank: Figure 7, step by step."""
        clock = PhaseClock()
        data = self._prepare(bank)
        clock.tick("plain grammar")
        settings = FeatureSettings.of(
            self.inside_features, self.outside_features, self.scaled, self.kappa
        )
        projection = project(data, self.n_states, settings, seed=self.seed, clock=clock)  # step 0
        layout = rule_layout(data, projection.m, self.shrinkage)
        sums = data.engine.total(  # steps 1 and 2
            ProjectedSums.of, projection.features.rows, projection.vectors, layout
        )
        clock.tick("moments")
        record = {
            "method": "spectral", "n_states": self.n_states, "seed": self.seed, **data.sizes,
            "spectrum": _spectrum(data, projection.singular_values),
        }  # fmt: skip
        self.model_ = grammar_of(  # step 3
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
    """Which rules keep their instances: those whose tensors will be factors of them."""
    rules, count = data.inventory.rules.astype(np.int64), data.counts.rules.astype(np.int64)
    return RuleLayout.of(rules, count, m, shrinkage, len(data.grammar.lexicon.entry_tag))


def grammar_of(
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
