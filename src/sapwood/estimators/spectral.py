"""`SpectralLPCFG`: latent-variable PCFGs by singular value decomposition (SPECTRAL, Figure 7).

Notation
--------
    phi, psi   inside and outside features of a node         M(a)     nodes with label a
    Omega^a    E[phi psi' | a], its SVD U^a Sigma^a V^a'      m(a)     states of a
    y, z       U' phi and V' psi of a node                    z Sigma^-1 is used throughout
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.arrays import group_rows, mean_rows, starts_of
from sapwood.corpus.treebank import Treebank, TreebankLike, as_treebank
from sapwood.decompose.observable import LabelMeans, rule_tensor
from sapwood.decompose.svd import BlockSVD, block_svd
from sapwood.errors import SapwoodError
from sapwood.estimators.base import TreebankEstimator
from sapwood.estimators.parameters import ANYTHING, FLAG, at_least, between, parameter
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.shared_parameters import OnPlainGrammar, WithStates
from sapwood.estimators.word_classes import WordClasses
from sapwood.execute import map_reduce
from sapwood.features.nodes import NodeTable
from sapwood.features.space import FeatureSpace
from sapwood.features.templates import INSIDE, OUTSIDE, Template
from sapwood.models.latent_grammar import LatentGrammar
from sapwood.models.lexicon import Lexicon
from sapwood.moments.feature_counts import FeatureCounts
from sapwood.moments.projected import CrossCovariance, ProjectedNodes, Shard

FloatArray = npt.NDArray[np.float64]
Templates = Sequence[str | Template] | None
SHARD_NODES = 200_000  # shards depend on the data alone, so that jobs never change a sum
FEW, ENOUGH = 10, 100  # nodes of a label: one state up to FEW, all states from ENOUGH on
LEAST_VALUE = 0.01  # singular values below carry noise
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


@dataclass(frozen=True, eq=False)
class Projection:
    """A treebank seen through its singular vectors.

    Attributes
    ----------
    plain
        The fitted plain estimator; its treebank is the one projected.
    classes
        Lexicon rows of the tokens.
    nodes
        Projected inside and outside vectors of all nodes.
    m, count : [n_symbols]
        States and nodes of each label.
    singular_values : [n_symbols, n_states]
    inside, outside
        The features of either side.
    shards
        Feature numbers of all nodes.
    """

    plain: PCFG
    classes: WordClasses
    nodes: ProjectedNodes
    m: npt.NDArray[np.int64]
    count: FloatArray
    singular_values: FloatArray
    inside: FeatureSpace
    outside: FeatureSpace
    shards: list[Shard]

    @property
    def bank(self) -> Treebank:
        """The treebank as it was made binary."""
        return self.plain.bank_


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

    def fit(self, bank: TreebankLike) -> Self:
        """Learn the grammar of a treebank: Figure 7, step by step."""
        self._check_parameters()
        bank = as_treebank(bank)
        clock = _Clock()
        projection = self.project(bank, clock)  # steps 0 and 1
        builder = _Builder(projection)  # steps 2 and 3
        bank, values = projection.bank, projection.singular_values
        record = self._record(bank) | {"spectrum": _spectrum(values, projection.count, bank)}
        self.model_ = builder.grammar(self.shrinkage, self.word_trust, record)
        clock.tick("tensors")
        n_inside, n_outside = projection.inside.n_features, projection.outside.n_features
        self.info_ = SpectralInfo(values, n_inside, n_outside, clock.seconds)
        return self

    def project(self, bank: Treebank, clock: _Clock | None = None) -> Projection:
        """Steps 0 and 1 of Figure 7: singular vectors of all labels, and all nodes projected."""
        clock = clock or _Clock()
        plain = (self.plain or PCFG()).fit(bank)
        bank, grammar = plain.bank_, plain.model_
        clock.tick("plain grammar")
        classes = WordClasses.of(bank, grammar.lexicon)
        tables = [NodeTable(shard, classes.row_of_word) for shard in _shards(bank)]
        inside, outside, shards = self._features(tables)
        clock.tick("features")
        count = np.bincount(bank.label, minlength=len(bank.inventory.symbols)).astype(float)
        svd = self._decompose(CrossCovariance(inside, outside, count), shards)
        m = _states(svd.s if self.scaled else _relative(svd.s), count, self.n_states)
        clock.tick("svd")
        nodes = self._project(shards, inside, outside, svd)
        clock.tick("projection")
        return Projection(plain, classes, nodes, m, count, svd.s, inside, outside, shards)

    def _features(self, tables: list[NodeTable]) -> tuple[FeatureSpace, FeatureSpace, list[Shard]]:
        spaces = []
        for chosen, known in ((self.inside_features, INSIDE), (self.outside_features, OUTSIDE)):
            templates = _chosen(chosen, known)
            counts = map_reduce(
                partial(FeatureCounts.of, templates=templates), tables, jobs=self.n_jobs
            )
            label = np.concatenate([table.label for table in tables])
            n_symbols = len(tables[0].inventory.symbols)
            symbol_count = np.bincount(label, minlength=n_symbols).astype(float)
            spaces.append(
                FeatureSpace.build(
                    templates, counts.keys, counts.counts, symbol_count, self.kappa,
                    scaled=self.scaled,
                )
            )  # fmt: skip
        inside, outside = spaces
        return inside, outside, [Shard(inside.rows(t), outside.rows(t)) for t in tables]

    def _decompose(self, omega: CrossCovariance, shards: list[Shard]) -> BlockSVD:
        """Step 0 (Figure 8): singular vectors of Omega^a for all labels at once."""

        def times(X: FloatArray) -> FloatArray:  # noqa: N803
            return map_reduce(partial(omega.times, X=X), shards, jobs=self.n_jobs)

        def transposed_times(X: FloatArray) -> FloatArray:  # noqa: N803
            return map_reduce(partial(omega.transposed_times, X=X), shards, jobs=self.n_jobs)

        return block_svd(
            times, transposed_times, omega.inside.start, omega.outside.start, self.n_states,
            rng=np.random.default_rng(self.seed),
        )  # fmt: skip

    def _project(
        self, shards: list[Shard], inside: FeatureSpace, outside: FeatureSpace, svd: BlockSVD
    ) -> ProjectedNodes:
        """Step 1: y and z of every node."""
        task = partial(ProjectedNodes.of, inside=inside, outside=outside, U=svd.U, V=svd.V)
        nodes: ProjectedNodes = map_reduce(task, shards, jobs=self.n_jobs)
        return nodes

    def _record(self, bank: Treebank) -> dict[str, Any]:
        return {
            "method": "spectral",
            "n_states": self.n_states,
            "trees": bank.n_trees,
            "tokens": bank.n_tokens,
            "seed": self.seed,
        }


class _Clock:
    """Wall time between ticks."""

    def __init__(self) -> None:
        self.last = perf_counter()
        self.seconds: dict[str, float] = {}

    def tick(self, phase: str) -> None:
        now = perf_counter()
        self.seconds[phase] = round(now - self.last, 3)
        self.last = now


def _shards(bank: Treebank) -> list[Treebank]:
    return bank.shards(-(-len(bank.label) // SHARD_NODES))


def _chosen(wanted: Templates, known: dict[str, Template]) -> list[Template]:
    if wanted is None:
        return list(known.values())
    chosen = [known.get(item) if isinstance(item, str) else item for item in wanted]
    missing = [item for item, found in zip(wanted, chosen, strict=True) if found is None]
    if missing or not chosen:
        msg = f"no feature template {missing[0]!r}" if missing else "no feature template was given"
        raise SapwoodError(msg, hint=f"templates on this side: {', '.join(known)}")
    return [template for template in chosen if template is not None]


def _spectrum(values: FloatArray, count: FloatArray, bank: Treebank) -> dict[str, list[float]]:
    """Singular values of the commonest labels, short enough for the header of a model file."""
    common = np.argsort(-count, kind="stable")[:SPECTRUM_LABELS].tolist()
    symbols = bank.inventory.symbols
    rounded = np.round(values, 4)
    return {str(symbols[a]): rounded[a][rounded[a] > 0].tolist() for a in common}


def _relative(values: FloatArray) -> FloatArray:
    """Singular values over each label's largest: unscaled ones have no common unit."""
    return np.asarray(values / np.maximum(values[:, :1], 1e-300))


def _states(values: FloatArray, count: FloatArray, m: int) -> npt.NDArray[np.int64]:
    """States per label: 1 up to 10 nodes, m from 100 on, linear between; no tiny singular value."""
    share = np.clip((count - FEW) / (ENOUGH - FEW), 0.0, 1.0)
    by_count = 1 + np.floor(share * (m - 1)).astype(np.int64)
    by_value = (values > LEAST_VALUE).sum(axis=1)
    return np.asarray(np.maximum(1, np.minimum(by_count, by_value)))


class _Builder:
    """Steps 2 and 3 of Figure 7: averages of projected vectors, label by label and rule by rule."""

    def __init__(self, projection: Projection) -> None:
        bank, nodes, m = projection.bank, projection.nodes, projection.m
        self.bank, self.plain, self.classes = bank, projection.plain.model_, projection.classes
        self.m, self.count = m, projection.count
        self.table = NodeTable(bank)
        n_symbols = len(m)
        kept = np.arange(nodes.Y.shape[1]) < m[self.table.label][:, None]
        self.Y = np.where(kept, nodes.Y, 0.0)
        Z = np.where(kept, nodes.Z, 0.0)  # noqa: N806
        # Sigma^a = E[y z' | a]: diagonal up to the accuracy of the SVD, taken as it is.
        sigma = mean_rows(self.Y * Z, self.table.label, n_symbols)
        safe = np.where(np.abs(sigma) > 0, sigma, 1.0)
        self.Z = Z / safe[self.table.label]
        self.mean_y = mean_rows(self.Y, self.table.label, n_symbols)
        self.mean_z = mean_rows(self.Z, self.table.label, n_symbols)

    def grammar(self, shrinkage: float, word_trust: float, record: dict[str, Any]) -> LatentGrammar:
        plain = self.plain
        if (self.m == 1).all():  # one state is no state: relative frequencies are the best estimate
            return replace(plain, record=record)
        rank, weights = self._rules(shrinkage)
        return LatentGrammar(
            plain.phrases, plain.tags, self.m, self._root(), plain.rules, weights,
            self._lexicon(word_trust), plain.coarse, plain.transform,
            is_probabilistic=False, record=record, rule_rank=rank,
        )  # fmt: skip

    def _rules(self, shrinkage: float) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """C[a -> b c] = n(r) / M(a) * E, rule by rule."""
        table, m = self.table, self.m
        ranks, parts = [], []
        # a part of a treebank shares the inventory of the whole; the grammar has the rules seen
        instances = [
            rows for rows in group_rows(table.rule, len(self.bank.inventory.rules)) if len(rows)
        ]
        for (a, b, c), rows in zip(self.plain.rules.tolist(), instances, strict=True):
            label = LabelMeans(
                self.mean_z[a, : m[a]], self.mean_y[b, : m[b]], self.mean_y[c, : m[c]]
            )
            z = self.Z[rows, : m[a]] * (len(rows) / self.count[a])
            y, w = self.Y[table.left[rows], : m[b]], self.Y[table.right[rows], : m[c]]
            label = label._replace(z=label.z * (len(rows) / self.count[a]))
            tensor = rule_tensor(z, y, w, label, shrinkage)
            ranks.append(tensor.rank)
            parts.append(tensor.numbers)
        return np.array(ranks, dtype=np.int64), np.concatenate([np.zeros(0), *parts])

    def _root(self) -> FloatArray:
        """c_1[a] = mean y of the root nodes with label a, over all trees."""
        roots = self.bank.offsets[1:] - 1
        total = np.zeros_like(self.mean_y)
        np.add.at(total, self.table.label[roots], self.Y[roots])
        total /= len(roots)
        return np.concatenate([total[a, :size] for a, size in enumerate(self.m.tolist())])

    def _lexicon(self, word_trust: float) -> Lexicon:
        """c_inf[a -> x] = q(x | a) * mean z over a -> x, mixed with the mean z of a."""
        lexicon = self.plain.lexicon
        n_entries = len(lexicon.entry_tag)
        leaf = np.flatnonzero(self.bank.word >= 0)
        tag = self.table.label[leaf] - self.plain.n_phrases
        total, seen = np.zeros((n_entries, self.Z.shape[1])), np.zeros(n_entries)
        for rows in (self.classes.word_row(leaf), self.classes.class_row(leaf)):
            entry = lexicon.find_entries(rows, tag)
            hit = entry >= 0
            np.add.at(total, entry[hit], self.Z[leaf[hit]])
            np.add.at(seen, entry[hit], 1.0)
        own = total / np.maximum(seen, 1.0)[:, None]
        symbol = self.plain.n_phrases + lexicon.entry_tag.astype(np.int64)
        trust = np.where(seen > 0, word_trust, 0.0)[:, None]
        vectors = trust * own + (1 - trust) * self.mean_z[symbol]
        sizes = self.m[symbol]
        kept = np.arange(vectors.shape[1]) < sizes[:, None]
        weights = (vectors * lexicon.weights[:, None])[kept]
        return Lexicon(
            lexicon.words, lexicon.classes, lexicon.style, lexicon.row_start, lexicon.entry_tag,
            weights, starts_of(sizes),
        )  # fmt: skip
