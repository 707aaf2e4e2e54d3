"""`SpanCRF`: a log-linear model of trees given their sentences.

1. The plain grammar prunes the chart of every training sentence; the gold tree is always kept.
2. AdaGrad maximises log p(gold tree | sentence, chart), with one step per sentence.
3. The weights are averaged over the last half of the passes.

Few passes and the averaged weights prevent overfitting; L2 regularisation instead lowered accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.discriminative import FeatureGrammar
from sapwood.constituency.learn.pcfg import KERNEL_BYTES, OnPlainGrammar, Trainable
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.constituency.parse.charts import gold_forest
from sapwood.constituency.parse.prepared import PreparedGrammar, prepare
from sapwood.core.arrays import FloatArray
from sapwood.core.learner import (
    Info,
    PhaseClock,
    between,
    former_callback,
    parameter,
    whole,
)
from sapwood.core.progress import counted, step, tell
from sapwood.core.training_loops import AdaGradPlan, WeightTable, run_adagrad

if TYPE_CHECKING:
    from sapwood.constituency.parse.kernels.forest import Forest

TABLE_BITS = 22  # four million weights: at 2^20 collisions already cost accuracy
FAMILIAR_WORD = 2  # words seen at least this often are features themselves
PRUNING = 1e-3  # chart items with a lower posterior under the plain grammar are pruned
CHART_RULE_BYTES = 3.2  # bytes per token and rule, for the estimate of memory
FEW_TREES = 50  # charts of at most this many trees are computed in one batch
CHARTS_COST = 2  # computing the charts takes about as long as this many passes


class SpanCRF(OnPlainGrammar):
    """Conditional random field over trees: features of spans in the plain grammar's pruned charts.

    The charts are pruned in parallel; the weights are learnt in one thread.

    Attributes
    ----------
    model_ : FeatureGrammar
    info_ : Info
    """

    passes: int = parameter(5, whole(1), "Passes over the training trees.")
    rate: float = parameter(0.05, between(0, 1, "(]"), "Learning rate of AdaGrad.")
    on_iteration: Callable[..., Any] | None = former_callback("on_iteration")

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the bytes of the pruned charts of all sentences, and of the weights."""
        charts = CHART_RULE_BYTES * data.sizes["tokens"] * len(data.inventory.rules)
        return KERNEL_BYTES + charts + 28 * (1 << TABLE_BITS)

    def fit(self, bank: Trainable) -> Self:
        """Learn the weights from a treebank."""
        clock = PhaseClock()
        data = self._prepare(bank)
        model = _untrained(data)
        shards = data.engine.gather(data.shards)
        few = (part for shard in shards for part in shard.shards(-(-shard.n_trees // FEW_TREES)))
        made = data.engine.stream(_examples_of, few, model, ahead=2)
        self.info_ = Info()
        with step("", total=CHARTS_COST + self.passes) as advance:
            advance(0, size=CHARTS_COST)
            n_parts = -(-data.n_trees // FEW_TREES)
            examples = list(chain.from_iterable(counted(made, "charts", total=n_parts)))
            clock.tick("charts")
            advance(CHARTS_COST, size=self.passes)
            weights = self._learnt(examples, len(model.feature_weights))
            clock.tick("passes")
        self.info_.seconds = clock.seconds
        record = {
            "method": "crf", "iterations": self.info_.iterations, "seed": self.seed,
            "log_likelihood": self.info_.log_likelihoods[-1], **data.sizes,
        }  # fmt: skip
        self.model_ = replace(model, feature_weights=weights.astype(np.float32), record=record)
        return self

    def _learnt(self, examples: list[_Example], size: int) -> FloatArray:
        """Return the learnt weights, averaged over the last half of the passes."""

        def note(iteration: int, log_likelihood: float) -> None:
            self.info_.history.append({"log_likelihood": log_likelihood})
            tell(iteration=iteration, states=1, log_likelihood=log_likelihood)

        plan = AdaGradPlan("features of spans", self.passes, self.rate, self.seed, parts=1)
        return run_adagrad(plan, np.zeros(size), examples, _step, note)


class _Example(NamedTuple):
    """A training sentence: forest, features, and the items and hyperedges of the gold tree."""

    forest: Forest
    roots: npt.NDArray[np.int64]
    item_features: npt.NDArray[np.uint32]
    edge_features: npt.NDArray[np.uint32]
    right_items: FloatArray
    right_edges: FloatArray


def _examples_of(bank: Treebank, model: FeatureGrammar) -> list[_Example]:
    prepared = prepare(model)
    made = (_example(prepared, bank, tree) for tree in range(bank.n_trees))
    return [example for example in made if example is not None]


def _example(prepared: PreparedGrammar, bank: Treebank, tree: int) -> _Example | None:
    """Return the example of a tree; None for one word, or if the lexicon lacks a tag of a word."""
    words = bank.words(tree)
    if len(words) == 1:
        return None
    nodes = slice(int(bank.offsets[tree]), int(bank.offsets[tree + 1]))
    pruned, items, edges = gold_forest(prepared, words, bank, nodes, PRUNING)
    if items.sum() != nodes.stop - nodes.start:
        return None
    assert prepared.features is not None
    features = prepared.features.of(pruned.forest, words)
    return _Example(pruned.forest, pruned.roots, *features, items, edges)


def _step(example: _Example, table: WeightTable, rate: float) -> float:
    """Do one gradient step, and return the log-likelihood of the gold tree before the step."""
    from sapwood.constituency.parse.kernels import span_features as kernel
    from sapwood.core.kernels.adagrad import adagrad_rows

    weights, squares = table.weights, table.squares
    item_score = kernel.scores(example.item_features, weights)
    edge_score = kernel.scores(example.edge_features, weights)
    total, items, edges = kernel.log_linear_posteriors(
        example.forest, example.roots, item_score, edge_score
    )
    right = item_score @ example.right_items + edge_score @ example.right_edges
    adagrad_rows(example.item_features, example.right_items - items, weights, squares, rate)
    adagrad_rows(example.edge_features, example.right_edges - edges, weights, squares, rate)
    return float(right - total)


def _untrained(data: TrainingData) -> FeatureGrammar:
    plain, count = data.grammar, data.classes.seen
    seen = {data.inventory.words[x] for x in np.flatnonzero(count >= FAMILIAR_WORD).tolist()}
    familiar = np.array([word in seen for word in plain.lexicon.words], np.bool_)
    return FeatureGrammar(plain, np.zeros(1 << TABLE_BITS, np.float32), familiar)
