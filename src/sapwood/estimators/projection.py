"""Singular vectors of a treebank's features: what spectral, cluster and pivot learning begin with.

Notation
--------
    phi, psi   inside and outside features of a node         M(a)     nodes with label a
    Omega^a    E[phi psi' | a], its SVD U^a Sigma^a V^a'      m(a)     states of a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.decompose.svd import BlockSVD, block_svd
from sapwood.errors import SapwoodError
from sapwood.estimators.clock import PhaseClock
from sapwood.estimators.training_data import TrainingData
from sapwood.execute import Placed
from sapwood.features.space import FeatureSpace
from sapwood.features.templates import INSIDE, OUTSIDE, Template
from sapwood.moments.feature_counts import FeatureCounts, NodeKeys
from sapwood.moments.projected import CrossCovariance, FeatureRows, SingularVectors

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Templates = Sequence[str | Template] | None
FEW, ENOUGH = 10, 100  # nodes of a label: one state up to FEW, all states from ENOUGH on
LEAST_VALUE = 0.01  # singular values below carry noise


class FeatureSettings(NamedTuple):
    """Which features nodes have, and their scales.

    Attributes
    ----------
    inside, outside
        Templates.
    scaled
        Whether features are scaled by sqrt(M / (count + kappa)).
    kappa
        Shrinks the scale of rare features.
    """

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
    """The features of all nodes.

    Attributes
    ----------
    inside, outside
        Their numbers and scales.
    rows
        `FeatureRows` of every shard, where the shards are.
    """

    inside: FeatureSpace
    outside: FeatureSpace
    rows: Placed


@dataclass(frozen=True, eq=False)
class Projection:
    """A treebank seen through its singular vectors.

    Attributes
    ----------
    features
        Of all nodes.
    vectors
        Which make y and z of them.
    singular_values : [n_symbols, n_states]
    """

    features: Features
    vectors: SingularVectors
    singular_values: FloatArray

    @property
    def m(self) -> IntArray:
        """States of each label."""
        return self.vectors.m


def project(
    data: TrainingData,
    n_states: int,
    settings: FeatureSettings | None = None,
    *,
    seed: int = 0,
    clock: PhaseClock | None = None,
) -> Projection:
    """Step 0 of Figure 7 for all labels at once; shared by all who ask for the same.

    Parameters
    ----------
    seed
        Of the random projection.
    """
    settings, clock = settings or FeatureSettings(), clock or PhaseClock()
    features = data.once(settings, lambda: _features(data, settings))
    clock.tick("features")

    def decompose() -> Projection:
        svd = _decompose(data, features, n_states, seed)
        values = svd.s if settings.scaled else _relative(svd.s)
        m = states_by_label(values, data.counts.symbols, n_states)
        weights = (features.inside.weight, features.outside.weight)
        return Projection(features, SingularVectors(*weights, svd.U, svd.V, m), svd.s)

    projection = data.once((settings, n_states, seed), decompose)
    clock.tick("svd")
    return projection


def _features(data: TrainingData, settings: FeatureSettings) -> Features:
    """Count features, number them, and give every node its numbers."""
    engine, n_inside = data.engine, len(settings.inside)
    templates = settings.inside + settings.outside
    nodes = engine.map(NodeKeys.of, data.shards, templates, data.classes.row_of_word)
    counts = engine.total(FeatureCounts.of, nodes)
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
    inside, outside, engine = features.inside, features.outside, data.engine
    omega = CrossCovariance(inside.weight, outside.weight)
    per_node = 1.0 / np.maximum(data.counts.symbols, 1.0)  # Omega is a mean over M(a) nodes
    per_inside, per_outside = (
        np.repeat(per_node, np.diff(space.start))[:, None] for space in (inside, outside)
    )

    def times(X: FloatArray) -> FloatArray:  # noqa: N803
        return engine.total(omega.times, features.rows, X) * per_inside

    def transposed_times(X: FloatArray) -> FloatArray:  # noqa: N803
        return engine.total(omega.transposed_times, features.rows, X) * per_outside

    return block_svd(
        times, transposed_times, inside.start, outside.start, n_states,
        rng=np.random.default_rng(seed),
    )  # fmt: skip


def _relative(values: FloatArray) -> FloatArray:
    """Singular values over each label's largest: unscaled ones have no common unit."""
    return np.asarray(values / np.maximum(values[:, :1], 1e-300))


def states_by_label(values: FloatArray, count: FloatArray, m: int) -> IntArray:
    """States per label: 1 up to 10 nodes, m from 100 on, linear between; no tiny singular value."""
    share = np.clip((count - FEW) / (ENOUGH - FEW), 0.0, 1.0)
    by_count = 1 + np.floor(share * (m - 1)).astype(np.int64)
    by_value = (values > LEAST_VALUE).sum(axis=1)
    return np.asarray(np.maximum(1, np.minimum(by_count, by_value)))
