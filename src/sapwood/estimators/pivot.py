"""`PivotLPCFG`: latent-variable PCFGs with true parameters, by pivot features (PIVOT, Figure 1).

Notation
--------
    f, g         inside and outside features of a node; several per node, one a template
    r(f | h, a)  p(f | state h of label a)       s(g | h, a)   likewise outside
    pi(h | a)    share of the states             t(h1, h2, h3 | a -> b c)

A *pivot* is a feature that occurs in one state only. In a picture in which every outside feature g
is the point E[inside vector | g], pivots are the corners and every other feature lies between
them: its weights are p(h | g). The same holds with inside and outside swapped. One side with pivots
is enough (remark below Theorem 2): the other follows from it by least squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.tree import Tree
from sapwood.corpus.treebank import TreebankLike, as_treebank
from sapwood.decompose.anchors import find_anchors
from sapwood.decompose.convex_em import convex_em
from sapwood.decompose.simplex import simplex_least_squares
from sapwood.estimators.base import TreebankEstimator, dev_trees
from sapwood.estimators.em import refined
from sapwood.estimators.em_checkpoint import EMInfo
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.spectral import Projection, SpectralLPCFG
from sapwood.estimators.training_trees import NODES_PER_STATE, TrainingTrees
from sapwood.features.nodes import NodeTable
from sapwood.features.space import FeatureSpace
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.projected import group_rows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
LEAST_COUNT = 20.0  # rarer features are extreme points by chance
LEAST_SHARE = 1e-3  # of the label's nodes, likewise
SIDES = ("outside", "inside")
# Outside templates that look at more than one rule: so many are shown where pivots are named.
RULES_SHOWN = {"two_rules_above": 2, "three_rules_above": 3, "grandparent": 2}
FLOOR = 1e-6  # of a state's feature distribution: no feature excludes a state for good


@dataclass(frozen=True, eq=False)
class PivotInfo:
    """What the decomposition found.

    Attributes
    ----------
    states : [n_symbols]
        Pivots found for each label.
    pivots
        For each label with more than one state, its pivots in words.
    em
        The EM iterations behind, if any.
    """

    states: IntArray
    pivots: dict[str, list[str]]
    em: EMInfo

    @property
    def iterations(self) -> int:
        """EM iterations behind the pivot estimate."""
        return self.em.iterations


class PivotLPCFG(TreebankEstimator):
    """Latent-variable PCFG by pivots and convex EM; an ordinary, normalised grammar.

    Parameters
    ----------
    n_states
        Hidden states of a label with enough data and pivots.
    iterations
        EM iterations from the pivot estimate (Pivot+EM); 0 for none.
    side
        Where pivots are looked for: among `outside` or `inside` features. Inside, a tag has only
        its word, and nearly all of its nodes end up in a few states.
    sharpness
        Exponent of the product of a node's feature probabilities; 1 would treat the templates as
        independent, which they are not.
    rule_smoothing, word_smoothing, patience, checkpoint, on_iteration
        As for `EMLPCFG`.
    plain, seed, n_jobs
        As for `SpectralLPCFG`.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : PivotInfo
    """

    CONSTRAINTS: ClassVar[dict[str, tuple[Any, str]]] = {
        "n_states": (
            lambda v: isinstance(v, int) and 1 <= v <= 256,
            "a whole number from 1 to 256",
        ),
        "iterations": (lambda v: isinstance(v, int) and v >= 0, "a whole number from 0 up"),
        "side": (lambda v: v in SIDES, f"one of {', '.join(SIDES)}"),
        "sharpness": (lambda v: 0 < v <= 1, "above 0 and at most 1"),
        "rule_smoothing": (lambda v: 0 <= v < 1, "at least 0 and below 1"),
        "word_smoothing": (lambda v: 0 <= v < 1, "at least 0 and below 1"),
        "plain": (lambda v: v is None or isinstance(v, PCFG), "a PCFG estimator"),
    }

    def __init__(  # noqa: PLR0913 - an estimator's parameters are its constructor's arguments
        self,
        n_states: int = 16,
        *,
        iterations: int = 0,
        side: str = "outside",
        sharpness: float = 0.5,
        rule_smoothing: float = 0.03,
        word_smoothing: float = 0.1,
        patience: int | None = None,
        plain: PCFG | None = None,
        seed: int = 0,
        n_jobs: int = 1,
        checkpoint: str | Path | None = None,
        on_iteration: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.n_states = n_states
        self.iterations = iterations
        self.side = side
        self.sharpness = sharpness
        self.rule_smoothing = rule_smoothing
        self.word_smoothing = word_smoothing
        self.patience = patience
        self.plain = plain
        self.seed = seed
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.on_iteration = on_iteration

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
        views = _Views(projection, self.n_states, self.side)  # step 1
        trees = TrainingTrees(projection.bank)
        start = _parameters(views, trees, self.sharpness)  # steps 2 and 3, and section 6.1
        start = start.smoothed(self.rule_smoothing, self.word_smoothing)
        self._finish(projection, views, trees, start, dev)
        return self

    def _finish(
        self,
        projection: Projection,
        views: _Views,
        trees: TrainingTrees,
        start: LatentParameters,
        dev: Sequence[Tree] | None,
    ) -> None:
        pivots = views.pivot_names()
        record = {
            "method": "pivot-em" if self.iterations else "pivot", "n_states": self.n_states,
            "trees": trees.bank.n_trees, "tokens": trees.bank.n_tokens, "seed": self.seed,
            "side": self.side,
            "pivots": pivots,
        }  # fmt: skip
        self.model_, info = refined(self, projection.plain, trees, start, record, dev)
        self.info_ = PivotInfo(start.n_states, pivots, info)


class _Views:
    """Step 1: r, s and pi of every label, from points of the features that have the pivots.

    Attributes
    ----------
    m : [n_symbols]
        States (pivots found) of each label.
    posterior : [n_features, n_states]
        p(h | f), or p(h | g) for pivots outside; columns beyond a label's states are zero.
    r, s
        r(f | h), s(g | h) in the rows of their features.
    pi : [n_symbols, n_states]
    """

    def __init__(self, projection: Projection, n_states: int, side: str) -> None:
        self.projection = projection
        self.n_states = n_states
        inside = _Side(
            projection.inside, np.concatenate([shard.inside for shard in projection.shards])
        )
        outside = _Side(
            projection.outside, np.concatenate([shard.outside for shard in projection.shards])
        )
        self.inside, self.outside, self.side = inside, outside, side
        is_inside = side == "inside"
        self.own, self.other = (inside, outside) if is_inside else (outside, inside)
        vectors = projection.nodes.Z if is_inside else projection.nodes.Y  # those of the other side
        points = self.own.sums(vectors) / np.maximum(self.own.space.count, 1.0)[:, None]
        n_symbols = len(projection.count)
        self.m = np.ones(n_symbols, np.int64)
        self.posterior = np.zeros((self.own.space.n_features, n_states))
        self.pivots: dict[int, IntArray] = {}
        for a in range(n_symbols):
            block = self.own.block(a)
            if block.start < block.stop:
                self._label(a, block, points[block])
        own, other = self._distributions()
        self.r, self.s = (own, other) if is_inside else (other, own)

    def _label(self, a: int, block: slice, points: FloatArray) -> None:
        """Pivots of one label, and p(h | f) of all its features."""
        count, n = self.own.space.count[block], self.projection.count[a]
        wanted = int(min(self.n_states, max(1, n // NODES_PER_STATE), self.projection.m[a]))
        candidates = count >= max(LEAST_COUNT, LEAST_SHARE * n)
        if wanted == 1 or candidates.sum() < 2:
            self.posterior[block, 0] = 1.0
            return
        points = points[:, : int(self.projection.m[a])]
        found = find_anchors(points, wanted, candidates=candidates).rows
        self.m[a] = len(found)
        self.pivots[a] = block.start + np.asarray(found)
        self.posterior[block, : len(found)] = simplex_least_squares(points[found], points)

    def _distributions(self) -> tuple[FloatArray, FloatArray]:
        """Bayes' rule on the side of the pivots, least squares on the other.

        With pivots inside, r(f | h) = p(h | f) p(f) / pi(h), and s solves
        p(g | f) = sum of p(h | f) s(g | h); pivots outside swap the two.
        """
        own, other = self.own, self.other
        weighted = self.posterior * own.space.count[:, None]
        total = np.zeros((len(self.m), self.n_states))
        np.add.at(total, own.owner, weighted)
        self.pi = total / np.maximum(total.sum(axis=1, keepdims=True), 1e-300)
        joint = other.sums(own.of_nodes(self.posterior))
        solution = np.zeros_like(joint)
        for a, m in enumerate(self.m.tolist()):
            mine, block = own.block(a), other.block(a)
            gram = self.posterior[mine, :m].T @ weighted[mine, :m]
            solved = np.linalg.lstsq(gram, joint[block, :m].T, rcond=1e-10)[0].T
            solution[block, :m] = np.maximum(solved, 0.0)  # sampling noise makes some negative
        return own.per_template(weighted, self.m), other.per_template(solution, self.m)

    def likelihoods(self, which: str, sharpness: float) -> FloatArray:
        """Product over templates of r or s of each node's features, to a power; largest 1."""
        side, table = (self.inside, self.r) if which == "r" else (self.outside, self.s)
        rows = side.of_nodes(np.log(table + FLOOR))
        label = self.projection.bank.label
        kept = np.arange(self.n_states) < self.m[label][:, None]
        rows = np.where(kept, rows * sharpness, -np.inf)
        return np.asarray(np.exp(rows - rows.max(axis=1, keepdims=True)))

    def pivot_names(self) -> dict[str, list[str]]:
        """The pivots of each label in words, each by an example node."""
        table, symbols = NodeTable(self.projection.bank), self.projection.bank.inventory.symbols
        templates = [f.__name__ for f in self.own.space.templates]
        node_of = np.full(self.own.space.n_features, -1, np.int64)
        template_of = np.zeros_like(node_of)
        for place in range(self.own.ids.shape[1]):
            node_of[self.own.ids[:, place]] = np.arange(len(self.own.ids))
            template_of[self.own.ids[:, place]] = place
        names = {}
        for a, features in self.pivots.items():
            names[str(symbols[a])] = [
                f"{templates[template_of[f]]}: "
                + self._describe(table, int(node_of[f]), templates[template_of[f]])
                for f in features.tolist()
            ]
        return names

    def _describe(self, table: NodeTable, node: int, template: str) -> str:
        if self.side == "inside":
            return _below(table, node)
        return _above(table, node, RULES_SHOWN.get(template, 1))


class _Side:
    """The features of one side, and which each node has."""

    def __init__(self, space: FeatureSpace, ids: npt.NDArray[np.uint32]) -> None:
        self.space = space
        self.ids = ids
        self.owner = np.repeat(np.arange(len(space.start) - 1), np.diff(space.start))  # label

    def block(self, a: int) -> slice:
        """Rows of a label's features."""
        return slice(int(self.space.start[a]), int(self.space.start[a + 1]))

    def sums(self, rows: FloatArray) -> FloatArray:
        """For each feature, the sum of the rows of its nodes."""
        from sapwood.kernels.features import scatter

        out = np.zeros((self.space.n_features, rows.shape[1]))
        scatter(self.ids, np.ones(len(out)), np.ascontiguousarray(rows), out)
        return out

    def per_template(self, weights: FloatArray, m: IntArray) -> FloatArray:
        """Probabilities of features given a label's state, for each template on its own.

        A node has one feature of every template (section 6.2). Where a state has no weight for any
        feature of a template, the template says nothing about it: all are 1.

        Parameters
        ----------
        m : [n_symbols]
            States of each label; columns beyond are 0.
        """
        out, owner = np.zeros_like(weights), self.owner
        for number in self.space.number:
            total = np.zeros((len(self.space.start) - 1, weights.shape[1]))
            np.add.at(total, owner[number], weights[number])
            same = total[owner[number]]
            out[number] = np.divide(weights[number], same, out=np.ones_like(same), where=same > 0)
        return np.where(np.arange(weights.shape[1]) < m[owner][:, None], out, 0.0)

    def of_nodes(self, table: FloatArray) -> FloatArray:
        """For each node, the sum of its features' rows of a table."""
        from sapwood.kernels.features import gather

        out = np.empty((len(self.ids), table.shape[1]))
        gather(self.ids, np.ones(len(table)), table, out)
        return out


def _below(table: NodeTable, node: int) -> str:
    """A node by its word or its rule."""
    inventory = table.inventory
    if table.word[node] >= 0:
        return str(inventory.words[table.word[node]])
    a, b, c = (str(inventory.symbols[x]) for x in inventory.rules[table.rule[node]])
    return f"{a} -> {b} {c}"


def _above(table: NodeTable, node: int, n_rules: int) -> str:
    """A node by the rules above it, its own place in brackets."""
    inventory, rules = table.inventory, list[str]()
    while len(rules) < n_rules and table.parent[node] >= 0:
        node, is_left = int(table.parent[node]), node == table.left[table.parent[node]]
        a, b, c = (str(inventory.symbols[x]) for x in inventory.rules[table.rule[node]])
        rules.append(f"{a} -> [{b}] {c}" if is_left else f"{a} -> {b} [{c}]")
    return ", ".join(rules) if len(rules) == n_rules else ", ".join([*rules, "root"])


def _parameters(views: _Views, trees: TrainingTrees, sharpness: float) -> LatentParameters:
    """Steps 2 and 3 of Figure 1, and pi and q of section 6.1."""
    bank, m = views.projection.bank, views.m
    table = NodeTable(bank)
    below, above = views.likelihoods("r", sharpness), views.likelihoods("s", sharpness)
    rules = bank.inventory.rules.astype(np.int64)
    parts = []
    for (a, b, c), rows in zip(rules.tolist(), group_rows(table.rule, len(rules)), strict=True):
        parts.append(
            _rule(
                above[rows, : m[a]],
                below[table.left[rows], : m[b]],
                below[table.right[rows], : m[c]],
            )
        )
    leaf = np.flatnonzero(table.word >= 0)
    # q: for a tag the word template's feature is the word itself
    posterior = below * views.pi[table.label]
    posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), 1e-300)
    n_phrases = len(bank.inventory.phrases)
    codes = (table.label[leaf] - n_phrases) * len(bank.inventory.words) + table.word[leaf]
    pair = np.searchsorted(trees.pairs, codes)
    words = np.zeros((len(trees.pairs), views.n_states))
    np.add.at(words, pair, posterior[leaf])
    root = np.zeros((len(m), views.n_states))
    top = bank.offsets[1:] - 1
    np.add.at(root, table.label[top], posterior[top])
    kept = np.arange(views.n_states)
    return LatentParameters(
        m, rules, trees.symbol_of_pair, root[kept < m[:, None]],
        np.concatenate([np.empty(0), *parts]), words[kept < m[trees.symbol_of_pair][:, None]],
    ).normalised()  # fmt: skip


def _rule(z: FloatArray, y: FloatArray, w: FloatArray) -> FloatArray:
    """Expected counts n(rule) t(h1, h2, h3 | rule) of one rule: the convex EM of Eq. 1."""
    if z.shape[1] * y.shape[1] * w.shape[1] == 1:
        return np.array([float(len(z))])
    if not len(z):
        return np.zeros(z.shape[1] * y.shape[1] * w.shape[1])
    return np.asarray(len(z) * convex_em(z, y, w, gap=1e-3, max_iter=30).t.ravel())
