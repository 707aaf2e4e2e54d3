"""`PivotLPCFG`: latent-variable PCFGs with true parameters, by pivot features (PIVOT, Figure 1).

The algorithm is in `pivot_steps`; here treebanks become its weighted nodes.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import TreebankLike
from sapwood.errors import SapwoodWarning
from sapwood.estimators.base import TreebankEstimator, dev_trees
from sapwood.estimators.em_checkpoint import EMInfo
from sapwood.estimators.em_steps import Stage, climb
from sapwood.estimators.maximise import smooth
from sapwood.estimators.parameters import between, one_of, parameter
from sapwood.estimators.pcfg import PCFG, Trainable
from sapwood.estimators.pivot_names import pivot_names
from sapwood.estimators.pivot_steps import PivotNodes, Recipe, estimate, find_views
from sapwood.estimators.projection import FeatureSettings, Projection, project
from sapwood.estimators.shared_parameters import OnPlainGrammar, WithEM, WithStates
from sapwood.estimators.training_data import TrainingData
from sapwood.estimators.training_trees import TrainingTrees
from sapwood.moments.pivot_nodes import PivotRows, Side

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

    def fit(self, bank: Trainable, dev: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank: Figure 1, step by step.

        Parameters
        ----------
        dev
            Trees apart from the treebank; the EM iteration that parses them best is kept.
        """
        self._check_parameters()
        data = (self.plain or PCFG()).prepare(bank, self._engine())
        projection = project(data, self.n_states, self.features(), seed=self.seed)  # step 0
        trees = TrainingTrees(data)
        nodes, recipe = pivot_nodes(data, projection, trees), self.recipe()
        wanted = np.minimum(np.minimum(trees.limit, self.n_states), projection.m)
        views = find_views(nodes, wanted, self.side, recipe)  # step 1
        start = estimate(nodes, views, recipe)  # steps 2 and 3, and section 6.1
        start = smooth(start, self.rule_smoothing, self.word_smoothing)
        settings = self.em_settings(self.seed)
        stages = [Stage("none", self.n_states, self.iterations)] if self.iterations else []
        model, info = climb(data, start, stages, settings, dev_trees(dev))
        pivots = pivot_names(data, projection.features, views.pivots, self.side)
        missing = missing_pivots(data, views.m, wanted)
        record = data.record(
            "pivot-em" if self.iterations else "pivot", n_states=self.n_states, seed=self.seed,
            side=self.side, pivots=pivots, missing_pivots=missing,
        )  # fmt: skip
        self.model_ = replace(model, record={**record, **model.record})
        self.info_ = PivotInfo(start.n_states, pivots, missing, info)
        _warn_of(missing)
        return self

    def features(self) -> FeatureSettings:
        """Those of spectral learning."""
        return FeatureSettings()

    def recipe(self) -> Recipe:
        """What treebanks need and exact moments do not."""
        return Recipe(sharpness=self.sharpness)


def pivot_nodes(data: TrainingData, projection: Projection, trees: TrainingTrees) -> PivotNodes:
    """All nodes of a projected treebank, with their features, each of weight 1."""
    spaces = (projection.features.inside, projection.features.outside)
    inside, outside = (Side(space.start, space.count, space.number) for space in spaces)
    rows = data.engine.map(
        PivotRows.of, projection.features.rows, projection.vectors, trees.pairs,
        len(data.inventory.phrases), len(data.inventory.words),
    )  # fmt: skip
    return PivotNodes(
        inside, outside, projection.m, data.inventory.rules.astype(np.int64), trees.symbol_of_pair,
        data.counts.symbols, data.counts.rules, rows, data.engine,
    )  # fmt: skip


def missing_pivots(
    data: TrainingData, found: IntArray, wanted: IntArray
) -> dict[str, tuple[int, int]]:
    """Labels with fewer pivots than states were wanted, the commonest first."""
    few = np.flatnonzero(found < wanted)
    few = few[np.argsort(-data.counts.symbols[few], kind="stable")]
    symbols = data.inventory.symbols
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
