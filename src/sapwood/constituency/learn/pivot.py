"""`PivotLPCFG`: latent-variable PCFGs with true parameters, by pivot features (PIVOT, Figure 1).

Notation
--------
    f, g         inside and outside features of a node; several per node, one a template
    r(f | h, a)  p(f | state h of label a)       s(g | h, a)   likewise outside
    pi(h | a)    probability of the states       t(h1, h2, h3 | a -> b c)
    Y, Z         inside and outside vectors of rows

A *pivot* is a feature that occurs in one state only. If every outside feature g is drawn as the
point E[inside vector | g], the pivots are the corners of a simplex, and every other feature is a
convex combination of the corners with weights p(h | g). The same holds with inside and outside
swapped. Pivots on one side suffice (remark below Theorem 2): the parameters of the other side
follow by least squares.

The computation reads weighted rows. A treebank has a row of weight 1 for every node. Exact moments
have a row for every pair of an inside and an outside feature, weighted by its expected count. Rows
stay in their shards. Shards return sums by feature, by label, or by pair of tag and word, and the
instances of a few rules at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from sapwood.constituency.data.treebank import TreebankLike
from sapwood.constituency.learn.em import Stage, em_bytes, em_settings, run_treebank_em
from sapwood.constituency.learn.em_steps import (
    LatentParameters,
    TrainingTrees,
    normalise,
    smooth_states,
)
from sapwood.constituency.learn.features import (
    FeatureRows,
    Features,
    FeatureSettings,
    Ids,
    NodeProjection,
    NodeTable,
    SingularVectors,
    project_nodes,
    projection_bytes,
)
from sapwood.constituency.learn.pcfg import KERNEL_BYTES, OnPlainGrammar, Trainable, dev_trees
from sapwood.constituency.learn.registry import EMParameters
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.arrays import FieldRows, FloatArray, IntArray, group_rows, sum_rows
from sapwood.core.errors import SapwoodWarning
from sapwood.core.learner import StateParameters, between, one_of, parameter
from sapwood.execute import Engine, Placed
from sapwood.linalg.pivots import columns_given_states, frequent, states_from_points
from sapwood.linalg.simplex import convex_em

# number of rules in the names of outside features whose templates read more than one rule
RULES_SHOWN = {"two_rules_above": 2, "three_rules_above": 3, "grandparent": 2}
MOST_INSTANCES = 50_000  # the convex EM of a rule uses about this many instances
BLOCK_INSTANCES = 200_000  # number of instances collected at a time
LABELS_NAMED = 5  # number of labels with too few pivots that the warning names


class PivotLPCFG(StateParameters, EMParameters, OnPlainGrammar):
    """Latent-variable PCFG by pivots and convex EM; its weights are probabilities.

    A label with n nodes gets at most as many states as it has pivots, and at most n / 20.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : Info
        The `Info` of the EM iterations, see `run_treebank_em`, with three additions. `states` is
        the number of pivots found for each label. `pivots` describes the pivots of each label with
        more than one state. `missing` has the labels with fewer pivots than requested states, with
        both numbers.
    """

    side: str = parameter(
        "outside",
        one_of(("outside", "inside")),
        "Where pivots are looked for: among `outside` or `inside` features. Inside, a tag has only "
        "its word, and nearly all of its nodes end up in a few states.",
    )
    sharpness: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "Exponent of the product of a node's feature probabilities; 1 would treat the templates "
        "as independent, which is wrong.",
    )

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the bytes of the projection of all nodes and of EM."""
        projection, em = projection_bytes(data, self.n_states), em_bytes(data, self.n_states)
        return projection + em - KERNEL_BYTES

    def fit(self, bank: Trainable, held: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank: Figure 1, step by step.

        Parameters
        ----------
        held
            Held-out trees, which choose the EM iteration with the highest F1.
        """
        data = self._prepare(bank)
        projection = project_nodes(data, self.n_states, FeatureSettings(), seed=self.seed)  # step 0
        trees, settings = TrainingTrees(data), PivotSettings(sharpness=self.sharpness)
        nodes = pivot_nodes(data, projection, trees)
        wanted = np.minimum(np.minimum(trees.limit, self.n_states), projection.m)
        views = find_distributions(nodes, wanted, self.side, settings)  # step 1
        start = estimate_parameters(nodes, views, settings)  # steps 2 and 3, and section 6.1
        start = smooth_states(start, self.rule_smoothing, self.word_smoothing)
        stages = [Stage("none", self.n_states, self.iterations)] if self.iterations else []
        model, self.info_ = run_treebank_em(
            data, start, stages, em_settings(self, self.seed), dev_trees(held)
        )
        pivots = pivot_names(data, projection.features, views.pivots, self.side)
        missing = missing_pivots(data, views.m, wanted)
        record = {
            "method": "pivot-em" if self.iterations else "pivot", "n_states": self.n_states,
            "seed": self.seed, "side": self.side, "pivots": pivots, "missing_pivots": missing,
            **data.sizes,
        }  # fmt: skip
        self.model_ = replace(model, record={**record, **model.record})
        self.info_.extra |= {"states": start.n_states, "pivots": pivots, "missing": missing}
        _warn_of(missing)
        return self


class PivotSettings(NamedTuple):
    """Settings for treebanks; exact moments do not need them."""

    # minimum number of nodes, and minimum fraction of the label's nodes, that have a pivot feature:
    # rarer features are extreme points by chance
    least_count: float = 20.0
    least_share: float = 1e-3
    # exponent of the product of a node's feature probabilities; 1 would treat the templates as
    # independent, although they are not
    sharpness: float = 0.5
    floor: float = 1e-6  # minimum of a state's feature distribution: no feature rules a state out
    # when the convex EM of each rule ends
    gap: float = 1e-3
    max_iter: int = 30


@dataclass(frozen=True, eq=False)
class SideFeatures:
    """The features of one side."""

    start: IntArray  # [n_symbols + 1]: where the block of each label's features starts
    count: FloatArray  # [n_features]: weight of the rows that have a feature
    number: tuple[IntArray, ...]  # the features of each template

    @cached_property
    def owner(self) -> IntArray:
        """The label of each feature."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def block(self, a: int) -> slice:
        """Rows of a label's features."""
        return slice(int(self.start[a]), int(self.start[a + 1]))

    def per_template(self, weights: FloatArray, m: IntArray) -> FloatArray:
        """Return the probabilities of features given a label's state, normalised per template.

        A node has one feature of every template (section 6.2). If a state has weight 0 for all
        features of a template, their probabilities are set to 1, so that the template has no effect
        on the state. Columns beyond the number of states m of a label, [n_symbols], are 0.
        """
        out, owner = np.zeros_like(weights), self.owner
        for number in self.number:
            total = sum_rows(weights[number], owner[number], len(self.start) - 1)
            same = total[owner[number]]
            out[number] = np.divide(weights[number], same, out=np.ones_like(same), where=same > 0)
        return np.where(np.arange(weights.shape[1]) < m[owner][:, None], out, 0.0)


def sums_by_feature(ids: Ids, rows: FloatArray, n_features: int) -> FloatArray:
    """For each feature, return the sum of the rows that have the feature."""
    from sapwood.constituency.learn.kernels.node_features import scatter

    out = np.zeros((n_features, rows.shape[1]))
    scatter(ids, np.ones(n_features), np.ascontiguousarray(rows), out)
    return out


def sums_over_features(ids: Ids, table: FloatArray) -> FloatArray:
    """For each row, return the sum of the table's rows over the features of the row."""
    from sapwood.constituency.learn.kernels.node_features import gather

    out = np.empty((len(ids), table.shape[1]))
    gather(ids, np.ones(len(table)), table, out)
    return out


@dataclass(frozen=True, eq=False)
class PivotRows:
    """The rows of one shard."""

    # [n_rows]
    label: IntArray
    weight: FloatArray
    # [n_rows, n_templates]: their features
    inside: Ids
    outside: Ids
    # [n_rows, k]: their vectors
    Y: FloatArray
    Z: FloatArray
    # [n_instances]: instances of rules
    rule: IntArray
    instance_weight: FloatArray
    # [n_instances]: the row of the parent's outside features, and of each child's inside features
    parent: IntArray
    left: IntArray
    right: IntArray
    # [n_leaves]: rows of words, and the index of each one's pair of tag and word
    leaf: IntArray
    pair: IntArray
    top: IntArray  # [n_roots]: rows of roots

    @classmethod
    def of(
        cls,
        rows: FeatureRows,
        vectors: SingularVectors,
        pairs: IntArray,
        n_phrases: int,
        n_words: int,
    ) -> PivotRows:
        """Make a row of weight 1 for every node of a shard of trees."""
        Y, Z = vectors.vectors(rows)
        return cls(
            label=rows.label, weight=np.ones(len(rows.label)), inside=rows.inside,
            outside=rows.outside, Y=Y, Z=Z, rule=rows.rule, instance_weight=np.ones(len(rows.rule)),
            parent=rows.parent, left=rows.left, right=rows.right, leaf=rows.leaf,
            pair=rows.pairs(pairs, n_phrases, n_words), top=rows.roots,
        )  # fmt: skip

    def features(self, side: str) -> Ids:
        """Return the features of the rows on one side, `inside` or `outside`."""
        return self.inside if side == "inside" else self.outside

    def points(self, side: str, n_features: int) -> FloatArray:
        """For each feature of a side, return the weighted sum of the other side's vectors."""
        vectors = self.Z if side == "inside" else self.Y
        return sums_by_feature(self.features(side), vectors * self.weight[:, None], n_features)

    def joint(self, side: str, posterior: FloatArray, n_features: int) -> FloatArray:
        """For each feature of the other side, return the weights of the states it occurs with."""
        other = "outside" if side == "inside" else "inside"
        states = sums_over_features(self.features(side), posterior) * self.weight[:, None]
        return sums_by_feature(self.features(other), states, n_features)


@dataclass(frozen=True, eq=False)
class LikelyStates:
    """Rows of a shard, with the likelihoods of their features given each state."""

    rows: PivotRows
    # [n_rows, m]: products of r of a row's inside features, and of s of its outside features
    below: FloatArray
    above: FloatArray

    def instances(self, rules: slice, stride: IntArray) -> RuleInstances:
        """Sample every stride-th instance of some rules: z of the parent, y, x of the children."""
        rows = self.rows
        groups = group_rows(rows.rule, len(stride))[rules]
        some = [at[::n] for at, n in zip(groups, stride[rules].tolist(), strict=True)]
        at = np.concatenate([np.empty(0, np.int64), *some])
        return RuleInstances(
            rows.rule[at], self.above[rows.parent[at]], self.below[rows.left[at]],
            self.below[rows.right[at]], rows.instance_weight[at],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class RuleInstances(FieldRows):
    """Instances of some rules; `+` appends the instances of the next shard.

    Attributes
    ----------
    rule, weight : [n]
    z, y, x : [n, m]
        Likelihoods of the states of the parent and the children.
    """

    rule: IntArray
    z: FloatArray
    y: FloatArray
    x: FloatArray
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class PivotNodes:
    """The input of Figure 1: rows in their shards, and values that all shards read."""

    # the features of either side
    inside: SideFeatures
    outside: SideFeatures
    size: IntArray  # [n_symbols]: dimensions of the vectors of each label
    rules: IntArray  # [n_rules, 3]
    symbol_of_pair: IntArray  # [n_pairs]: tags of the pairs of tag and word
    # [n_symbols], [n_rules]: weights of the rows of each label and of the instances of each rule
    count: FloatArray
    rule_count: FloatArray
    shards: Placed  # `PivotRows`, placed
    engine: Engine


def pivot_nodes(data: TrainingData, projection: NodeProjection, trees: TrainingTrees) -> PivotNodes:
    """Return all nodes of a projected treebank, with their features, each of weight 1."""
    spaces = (projection.features.inside, projection.features.outside)
    inside, outside = (SideFeatures(space.start, space.count, space.number) for space in spaces)
    rows = data.engine.map(
        PivotRows.of, projection.features.rows, projection.vectors, trees.pairs,
        len(data.inventory.phrases), len(data.inventory.words),
    )  # fmt: skip
    return PivotNodes(
        inside, outside, projection.m, data.inventory.rules.astype(np.int64), trees.symbol_of_pair,
        data.counts.symbols, data.counts.rules, rows, data.engine,
    )  # fmt: skip


@dataclass(eq=False)
class FeatureDistributions:
    """Step 1: r, s and pi of every label."""

    m: IntArray  # [n_symbols]: states (pivots found) of each label
    pivots: dict[int, IntArray]  # for each label, the pivot feature of every state
    pi: FloatArray
    # [n_features, n_states]: r(f | h) and s(g | h), one row per feature; columns beyond a label's
    # states are zero
    r: FloatArray
    s: FloatArray


def find_distributions(
    nodes: PivotNodes, wanted: IntArray, side: str, settings: PivotSettings
) -> FeatureDistributions:
    """Find the pivots on one side, and the distributions of features on both sides.

    With pivots inside, r(f | h) = p(h | f) p(f) / pi(h), and s solves p(g | f) = sum over h of p(h
    | f) s(g | h). With pivots outside, r and s are swapped.

    Parameters
    ----------
    wanted : [n_symbols]
        Requested states of each label. A label with fewer pivots gets fewer states.
    side
        The side with the pivots, `inside` or `outside`.
    """
    is_inside, total = side == "inside", nodes.engine.total
    own, other = (nodes.inside, nodes.outside) if is_inside else (nodes.outside, nodes.inside)
    points = total(PivotRows.points, nodes.shards, side, len(own.count))
    points /= np.where(own.count > 0, own.count, 1.0)[:, None]
    n_symbols, n_states = len(wanted), int(wanted.max())
    m, pivots = np.ones(n_symbols, np.int64), dict[int, IntArray]()
    posterior = np.zeros((len(own.count), n_states))
    pi = np.zeros((n_symbols, n_states))
    for a, block in enumerate(map(own.block, range(n_symbols))):
        posterior[block, 0] = pi[a, 0] = 1.0
        count = own.count[block]
        candidates = frequent(
            count, nodes.count[a], least=settings.least_count, share=settings.least_share
        )
        if wanted[a] > 1 and candidates.sum() > 1:
            here = points[block, : nodes.size[a]]
            found = states_from_points(here, count, int(wanted[a]), candidates=candidates)
            m[a], pivots[a] = len(found.pi), block.start + found.pivots
            posterior[block, : m[a]], pi[a, : m[a]] = found.posterior, found.pi
    weighted = posterior * own.count[:, None]
    joint = total(PivotRows.joint, nodes.shards, side, posterior, len(other.count))
    solution = np.zeros_like(joint)
    for a, k in enumerate(m.tolist()):
        mine, theirs = own.block(a), other.block(a)
        gram = posterior[mine, :k].T @ weighted[mine, :k]
        # sampling noise makes some numbers negative
        solution[theirs, :k] = np.maximum(columns_given_states(gram, joint[theirs, :k]), 0.0)
    first, second = own.per_template(weighted, m), other.per_template(solution, m)
    return FeatureDistributions(m, pivots, pi, *((first, second) if is_inside else (second, first)))


def estimate_parameters(
    nodes: PivotNodes, views: FeatureDistributions, settings: PivotSettings
) -> LatentParameters:
    """Estimate the parameters: steps 2 and 3 of Figure 1, and pi and q of section 6.1."""
    m, pairs, engine = views.m, nodes.symbol_of_pair, nodes.engine
    likely = engine.map(likely_states, nodes.shards, views, settings)
    rules = expected_rule_counts(nodes, m, likely, settings)
    words = engine.total(word_counts, likely, views.pi, len(pairs))
    root = engine.total(root_counts, likely, views.pi)
    states = np.arange(views.r.shape[1])
    return normalise(
        LatentParameters(
            m, nodes.rules, pairs, root[states < m[:, None]], rules,
            words[states < m[pairs][:, None]],
        )
    )  # fmt: skip


def likely_states(
    rows: PivotRows, views: FeatureDistributions, settings: PivotSettings
) -> LikelyStates:
    """Compute the likelihoods of each row's inside and outside features, given each state."""
    below = likelihoods(rows, rows.inside, views.r, views.m, settings)
    return LikelyStates(rows, below, likelihoods(rows, rows.outside, views.s, views.m, settings))


def likelihoods(
    rows: PivotRows, ids: Ids, table: FloatArray, m: IntArray, settings: PivotSettings
) -> FloatArray:
    """Return the product of r or s over each row's features, to a power, with maximum 1."""
    with np.errstate(divide="ignore"):  # without a floor, a feature may rule a state out
        logs = sums_over_features(ids, np.log(table + settings.floor)) * settings.sharpness
    kept = np.arange(table.shape[1]) < m[rows.label][:, None]
    logs = np.where(kept, logs, -np.inf)
    top = logs.max(axis=1, keepdims=True)
    return np.asarray(np.exp(logs - np.where(np.isfinite(top), top, 0.0)))


def expected_rule_counts(
    nodes: PivotNodes, m: IntArray, likely: Placed, settings: PivotSettings
) -> FloatArray:
    """Return the expected counts n(rule) t(h1, h2, h3 | rule) of all rules (step 2).

    The convex EM of a rule reads its instances in every iteration. Instances are therefore
    collected for one block of rules at a time; very frequent rules are sampled.
    """
    engine = nodes.engine
    seen = engine.total(instance_counts, nodes.shards, len(nodes.rules))
    stride = np.maximum(1, -(-seen // MOST_INSTANCES))
    parts = [np.empty(0)]
    for block in _blocks(seen // stride):
        found = engine.total(LikelyStates.instances, likely, block, stride)
        groups = group_rows(found.rule, len(nodes.rules))[block]
        tasks = (
            _of_rule(found, at, m[nodes.rules[r]], nodes.rule_count[r])
            for r, at in enumerate(groups, block.start)
        )
        parts += [states.ravel() for states in engine.stream(states_of_rule, tasks, settings)]
    return np.concatenate(parts)


def instance_counts(rows: PivotRows, n_rules: int) -> IntArray:
    """Return the number of instances of each rule."""
    return np.bincount(rows.rule, minlength=n_rules)


def _blocks(sizes: IntArray) -> list[slice]:
    """Cut the rules into runs whose instances fit into memory."""
    end = np.cumsum(sizes)
    cuts = np.flatnonzero(np.diff(end // BLOCK_INSTANCES)) + 1
    return [slice(*pair) for pair in pairwise([0, *cuts.tolist(), len(sizes)])]


def _of_rule(found: RuleInstances, at: IntArray, m: IntArray, total: float) -> list[FloatArray]:
    """Return the views and weights of one rule's sampled instances, scaled to all instances."""
    a, b, c = m.tolist()
    weight = found.weight[at]
    weight = weight * (total / max(float(weight.sum()), 1e-300))
    return [found.z[at, :a], found.y[at, :b], found.x[at, :c], weight]


def states_of_rule(views: Sequence[FloatArray], settings: PivotSettings) -> FloatArray:
    """Return the expected state counts of one rule by the convex EM of Eq. 1."""
    z, y, x, weight = views
    total, shape = float(weight.sum()), (z.shape[1], y.shape[1], x.shape[1])
    if total == 0.0 or max(shape) == 1:
        return np.full(shape, total)
    found = convex_em(z, y, x, weights=weight, gap=settings.gap, max_iter=settings.max_iter)
    return np.asarray(total * found.t)


def word_counts(likely: LikelyStates, pi: FloatArray, n_pairs: int) -> FloatArray:
    """Return the expected counts of pairs of tag and word by state, for q."""
    rows = likely.rows
    return _total(rows, likely.below * pi[rows.label], rows.leaf, rows.pair, n_pairs)


def root_counts(likely: LikelyStates, pi: FloatArray) -> FloatArray:
    """Return the expected counts of root labels by state, from s of the roots of trees."""
    rows = likely.rows
    return _total(rows, likely.above * pi[rows.label], rows.top, rows.label[rows.top], len(pi))


def _total(
    rows: PivotRows, posterior: FloatArray, at: IntArray, key: IntArray, n_keys: int
) -> FloatArray:
    """Sum the weights of rows times their distributions over states, by key."""
    share = posterior[at] / np.maximum(posterior[at].sum(axis=1, keepdims=True), 1e-300)
    return sum_rows(share * rows.weight[at][:, None], key, n_keys)


def pivot_names(
    data: TrainingData, features: Features, pivots: Mapping[int, IntArray], side: str
) -> dict[str, list[str]]:
    """Describe the pivots of each label, such as `rule_above: S -> [NP] VP`."""
    space = features.inside if side == "inside" else features.outside
    templates = [template.__name__ for template in space.templates]
    wanted = np.unique(np.concatenate([np.empty(0, np.int64), *pivots.values()]))
    # the shards of nodes and the shards of features have the same order
    found: dict[int, str] = {}
    engine = data.engine
    examples = engine.gather(engine.map(example_nodes, features.rows, wanted, side))
    for shard, example in zip(engine.gather(data.shards), examples, strict=True):
        table = NodeTable(shard)
        for feature, (place, node) in example.items():
            n_rules = RULES_SHOWN.get(templates[place], 1)
            words = _below(table, node) if side == "inside" else _above(table, node, n_rules)
            found[feature] = f"{templates[place]}: {words}"
    symbols = data.inventory.symbols
    return {str(symbols[a]): [found[f] for f in of.tolist()] for a, of in pivots.items()}


def example_nodes(rows: FeatureRows, wanted: IntArray, side: str) -> dict[int, tuple[int, int]]:
    """For each requested feature in a shard, return its template and the last node that has it."""
    ids = rows.inside if side == "inside" else rows.outside
    found: dict[int, tuple[int, int]] = {}
    for place in range(ids.shape[1]):
        nodes = np.flatnonzero(np.isin(ids[:, place], wanted))
        found |= {
            f: (place, n) for f, n in zip(ids[nodes, place].tolist(), nodes.tolist(), strict=True)
        }
    return found


def _below(table: NodeTable, node: int) -> str:
    """Describe a node by its word or its rule."""
    if table.word[node] >= 0:
        return str(table.inventory.words[table.word[node]])
    return "{} -> {} {}".format(*_rule(table, node))


def _rule(table: NodeTable, node: int) -> list[str]:
    inventory = table.inventory
    return [str(inventory.symbols[x]) for x in inventory.rules[table.rule[node]]]


def _above(table: NodeTable, node: int, n_rules: int) -> str:
    """Describe a node by the rules above it, with the node in square brackets."""
    rules = list[str]()
    while len(rules) < n_rules and table.parent[node] >= 0:
        node, is_left = int(table.parent[node]), node == table.left[table.parent[node]]
        a, b, c = _rule(table, node)
        rules.append(f"{a} -> [{b}] {c}" if is_left else f"{a} -> {b} [{c}]")
    return ", ".join(rules) if len(rules) == n_rules else ", ".join([*rules, "root"])


def missing_pivots(
    data: TrainingData, found: IntArray, wanted: IntArray
) -> dict[str, tuple[int, int]]:
    """Return the labels with fewer pivots than requested states, the most frequent first."""
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
