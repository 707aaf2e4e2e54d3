"""`PivotLPCFG`: latent-variable PCFGs with true parameters, by pivot features (PIVOT, Figure 1).

The algorithm is in `pivot_steps`; here treebanks become its weighted nodes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import TreebankLike, as_treebank
from sapwood.errors import SapwoodWarning
from sapwood.estimators.base import TreebankEstimator, dev_trees
from sapwood.estimators.em import refined
from sapwood.estimators.em_checkpoint import EMInfo
from sapwood.estimators.parameters import between, one_of, parameter
from sapwood.estimators.pivot_names import pivot_names
from sapwood.estimators.pivot_steps import Recipe, estimate, find_views
from sapwood.estimators.shared_parameters import OnPlainGrammar, WithEM, WithStates
from sapwood.estimators.spectral import Projection, SpectralLPCFG
from sapwood.estimators.training_trees import NODES_PER_STATE, TrainingTrees
from sapwood.features.nodes import NodeTable
from sapwood.features.space import FeatureSpace
from sapwood.moments.pivot_nodes import Ids, PivotNodes, Side

IntArray = npt.NDArray[np.int64]
SIDES = ("outside", "inside")
LABELS_NAMED = 5  # of those with too few pivots, in the warning


@dataclass(frozen=True, eq=False)
class PivotInfo:
    """What the decomposition found.

    Attributes
    ----------
    states : [n_symbols]
        Pivots found for each label.
    pivots
        For each label with more than one state, its pivots in words.
    missing
        Labels with fewer pivots than states were wanted: how many were found, and wanted. They have
        as many states as pivots.
    em
        The EM iterations behind, if any.
    """

    states: IntArray
    pivots: dict[str, list[str]]
    missing: dict[str, tuple[int, int]]
    em: EMInfo

    @property
    def iterations(self) -> int:
        """EM iterations behind the pivot estimate."""
        return self.em.iterations


class PivotLPCFG(WithStates, WithEM, OnPlainGrammar, TreebankEstimator):
    """Latent-variable PCFG by pivots and convex EM; an ordinary, normalised grammar.

    A label gets no more states than it has pivots, and with n nodes at most n / 20.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : PivotInfo
    """

    side: str = parameter(
        "outside",
        one_of(SIDES),
        "Where pivots are looked for: among `outside` or `inside` features. Inside, a tag has only "
        "its word, and nearly all of its nodes end up in a few states.",
    )
    sharpness: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "Exponent of the product of a node's feature probabilities; 1 would treat the templates as "
        "independent, which they are not.",
    )

    def fit(self, bank: TreebankLike, dev: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank: Figure 1, step by step.

        Parameters
        ----------
        dev
            Trees apart from the treebank; the EM iteration that parses them best is kept.
        """
        self._check_parameters()
        bank, dev = as_treebank(bank), dev_trees(dev)
        spectral = SpectralLPCFG(
            self.n_states, plain=self.plain, seed=self.seed, n_jobs=self.n_jobs
        )
        projection = spectral.project(bank)  # step 0
        trees = TrainingTrees(projection.bank)
        nodes = pivot_nodes(projection, trees)
        wanted = _wanted(nodes, self.n_states)
        recipe = Recipe(sharpness=self.sharpness)
        views = find_views(nodes, wanted, self.side, recipe)  # step 1
        start = estimate(nodes, views, recipe)  # steps 2 and 3, and section 6.1
        start = start.smoothed(self.rule_smoothing, self.word_smoothing)
        space = projection.inside if self.side == "inside" else projection.outside
        ids = nodes.inside.ids if self.side == "inside" else nodes.outside.ids
        pivots = pivot_names(projection.bank, space, ids, views.pivots, self.side)
        missing = _missing(projection, views.m, wanted)
        record = self._record(trees) | {"pivots": pivots, "missing_pivots": missing}
        self.model_, info = refined(self, projection.plain, trees, start, record, dev)
        self.info_ = PivotInfo(start.n_states, pivots, missing, info)
        _warn_of(missing)
        return self

    def _record(self, trees: TrainingTrees) -> dict[str, Any]:
        return {
            "method": "pivot-em" if self.iterations else "pivot", "n_states": self.n_states,
            "trees": trees.bank.n_trees, "tokens": trees.bank.n_tokens, "seed": self.seed,
            "side": self.side,
        }  # fmt: skip


def pivot_nodes(projection: Projection, trees: TrainingTrees) -> PivotNodes:
    """All nodes of a projected treebank, with their features, each of weight 1."""
    bank, table = projection.bank, NodeTable(projection.bank)
    n_phrases, n_words = len(bank.inventory.phrases), len(bank.inventory.words)
    phrase, leaf = np.flatnonzero(table.rule >= 0), np.flatnonzero(table.word >= 0)
    codes = (table.label[leaf] - n_phrases) * n_words + table.word[leaf]

    def side(space: FeatureSpace, ids: list[Ids]) -> Side:
        return Side(space.start, space.count, space.number, np.concatenate(ids))

    return PivotNodes(
        label=table.label, weight=np.ones(len(table.label)),
        inside=side(projection.inside, [shard.inside for shard in projection.shards]),
        outside=side(projection.outside, [shard.outside for shard in projection.shards]),
        Y=projection.nodes.Y, Z=projection.nodes.Z, size=projection.m,
        rules=bank.inventory.rules.astype(np.int64), rule=table.rule[phrase],
        instance_weight=np.ones(len(phrase)), parent=phrase, left=table.left[phrase],
        right=table.right[phrase], symbol_of_pair=trees.symbol_of_pair, leaf=leaf,
        pair=np.searchsorted(trees.pairs, codes), top=bank.offsets[1:] - 1,
    )  # fmt: skip


def _wanted(nodes: PivotNodes, n_states: int) -> IntArray:
    """States of each label: no more than its nodes can tell apart."""
    by_count = np.maximum(1, nodes.count // NODES_PER_STATE).astype(np.int64)
    return np.minimum(np.minimum(by_count, n_states), nodes.size)


def _missing(
    projection: Projection, found: IntArray, wanted: IntArray
) -> dict[str, tuple[int, int]]:
    """Labels with fewer pivots than states were wanted, the commonest first."""
    few = np.flatnonzero(found < wanted)
    few = few[np.argsort(-projection.count[few], kind="stable")]
    symbols = projection.bank.inventory.symbols
    return {str(symbols[a]): (int(found[a]), int(wanted[a])) for a in few.tolist()}


def _warn_of(missing: dict[str, tuple[int, int]]) -> None:
    if not missing:
        return
    named = [f"{x} {k} of {m}" for x, (k, m) in list(missing.items())[:LABELS_NAMED]]
    rest = f" and {len(missing) - len(named)} more" if len(missing) > len(named) else ""
    msg = (
        f"fewer pivots than states for {len(missing)} of the labels ({', '.join(named)}{rest}): "
        "they get as many states as pivots"
    )
    warnings.warn(msg, SapwoodWarning, stacklevel=3)
