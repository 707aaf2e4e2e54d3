"""`SpectralLPCFG`: latent-variable PCFGs by singular value decomposition (SPECTRAL, Figure 7).

Notation
--------
    phi, psi   inside and outside features of a node         M(a)     nodes with label a
    Omega^a    E[phi psi' | a], its SVD U^a Sigma^a V^a'      m(a)     states of a
    y, z       U' phi and V' psi of a node                    z Sigma^-1 is used throughout
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.arrays import group_rows, starts_of
from sapwood.decompose.observable import (
    LabelMeans,
    RuleSums,
    factored_tensor,
    is_small,
    whole_tensor,
)
from sapwood.estimators.base import TreebankEstimator
from sapwood.estimators.clock import PhaseClock
from sapwood.estimators.parameters import ANYTHING, FLAG, at_least, between, parameter
from sapwood.estimators.pcfg import PCFG, Trainable
from sapwood.estimators.projection import FeatureSettings, Templates, project
from sapwood.estimators.shared_parameters import OnPlainGrammar, WithStates
from sapwood.estimators.training_data import TrainingData
from sapwood.models.latent_grammar import LatentGrammar, Lexicon
from sapwood.moments.projected_sums import ProjectedSums, RuleLayout

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
SPECTRUM_LABELS = 40  # whose singular values are kept with the model


@dataclass(frozen=True, eq=False)
class SpectralInfo:
    """What the decomposition found.

    Attributes
    ----------
    singular_values : [n_symbols, m]
    n_inside, n_outside
        Numbers of features.
    seconds
        Wall time of each phase.
    """

    singular_values: FloatArray
    n_inside: int
    n_outside: int
    seconds: Mapping[str, float]


class SpectralLPCFG(WithStates, OnPlainGrammar, TreebankEstimator):
    """Latent-variable PCFG of a treebank, by SVD; no iterations, no local optima.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : SpectralInfo
    """

    inside_features: Templates = parameter(
        None,
        ANYTHING,
        "Names of templates (see `sapwood.features.templates`) or functions of a `NodeTable`; "
        "None takes all.",
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

    def fit(self, bank: Trainable) -> Self:
        """Learn the grammar of a treebank: Figure 7, step by step."""
        self._check_parameters()
        clock = PhaseClock()
        data = (self.plain or PCFG()).prepare(bank, self._engine())
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
        record = data.record("spectral", n_states=self.n_states, seed=self.seed)
        record |= {"spectrum": _spectrum(data, projection.singular_values)}
        self.model_ = grammar_of(  # step 3
            data, projection.m, layout, sums, self.shrinkage, self.word_trust, record
        )
        clock.tick("tensors")
        inside, outside = projection.features.inside, projection.features.outside
        self.info_ = SpectralInfo(
            projection.singular_values, inside.n_features, outside.n_features, clock.seconds
        )
        return self


def _spectrum(data: TrainingData, values: FloatArray) -> dict[str, list[float]]:
    """Singular values of the commonest labels, short enough for the header of a model file."""
    common = np.argsort(-data.counts.symbols, kind="stable")[:SPECTRUM_LABELS].tolist()
    symbols = data.inventory.symbols
    rounded = np.round(values, 4)
    return {str(symbols[a]): rounded[a][rounded[a] > 0].tolist() for a in common}


def rule_layout(data: TrainingData, m: IntArray, shrinkage: float) -> RuleLayout:
    """Which rules keep their instances: those whose tensors will be factors of them."""
    rules = data.inventory.rules.astype(np.int64)
    keeps = is_small(data.counts.rules.astype(np.int64), m[rules], shrinkage)
    return RuleLayout.of(rules, m, keeps, len(data.grammar.lexicon.entry_tag))


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
    means = NodeMeans.of(sums, data.counts.symbols)
    rank, weights = _rules(data, m, layout, sums, means, shrinkage)
    root = (sums.root / data.n_trees)[np.arange(sums.root.shape[1]) < m[:, None]]
    return LatentGrammar(
        plain.phrases, plain.tags, m, root, plain.rules, weights,
        _lexicon(plain, m, sums, means, word_trust), plain.coarse, plain.transform,
        is_probabilistic=False, record=record, rule_rank=rank,
    )  # fmt: skip


class NodeMeans(NamedTuple):
    """Means over the nodes of each label, [n_symbols, m].

    Attributes
    ----------
    sigma
        The diagonal of Sigma^a = E[y z' | a], up to the accuracy of the SVD; 1 where it is 0.
    y, z
        Of y, and of z / sigma.
    """

    sigma: FloatArray
    y: FloatArray
    z: FloatArray

    @classmethod
    def of(cls, sums: ProjectedSums, count: FloatArray) -> NodeMeans:
        """From sums over so many nodes."""
        n = np.maximum(count, 1.0)[:, None]
        sigma = sums.yz / n
        sigma = np.where(np.abs(sigma) > 0, sigma, 1.0)
        return cls(sigma, sums.y / n, sums.z / n / sigma)


def _rules(
    data: TrainingData,
    m: IntArray,
    layout: RuleLayout,
    sums: ProjectedSums,
    means: NodeMeans,
    shrinkage: float,
) -> tuple[IntArray, FloatArray]:
    """C[a -> b c] = n(r) / M(a) * E, rule by rule."""
    ranks, parts = [], [np.zeros(0)]
    count, instances = data.counts.rules, sums.instances
    groups = group_rows(instances.rule, len(layout.rules))
    # a part of a treebank shares the inventory of the whole; the grammar has the rules seen
    for r in np.flatnonzero(count).tolist():
        a, b, c = layout.rules[r].tolist()
        i, j, k = m[[a, b, c]].tolist()
        share = count[r] / data.counts.symbols[a]
        sigma, label = (
            means.sigma[a, :i],
            LabelMeans(means.z[a, :i], means.y[b, :j], means.y[c, :k]),
        )
        if layout.keeps[r]:
            at = groups[r]
            z, y, w = instances.z[at, :i], instances.y[at, :j], instances.w[at, :k]
            label = label._replace(z=label.z * share)
            tensor = factored_tensor(z / sigma * share, y, w, label, shrinkage)
        else:
            flat = sums.rules[layout.start[r] : layout.start[r + 1]]
            rule = RuleSums.from_flat(flat, i, j, k).divide_outside(sigma)
            tensor = whole_tensor(rule, int(count[r]), label, shrinkage)
            tensor = tensor._replace(numbers=tensor.numbers * share)
        ranks.append(tensor.rank)
        parts.append(tensor.numbers)
    return np.array(ranks, dtype=np.int64), np.concatenate(parts)


def _lexicon(
    plain: LatentGrammar, m: IntArray, sums: ProjectedSums, means: NodeMeans, word_trust: float
) -> Lexicon:
    """c_inf[a -> x] = q(x | a) * mean z over a -> x, mixed with the mean z of a."""
    lexicon = plain.lexicon
    symbol = plain.n_phrases + lexicon.entry_tag.astype(np.int64)
    seen = sums.entry_count[:, None]
    own = sums.entry / np.maximum(seen, 1.0) / means.sigma[symbol]
    trust = np.where(seen > 0, word_trust, 0.0)
    vectors = trust * own + (1 - trust) * means.z[symbol]
    kept = np.arange(vectors.shape[1]) < m[symbol][:, None]
    weights = (vectors * lexicon.weights[:, None])[kept]
    return replace(lexicon, weights=weights, weight_start=starts_of(m[symbol]))
