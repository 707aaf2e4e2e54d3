"""Figure 1 of PIVOT, from weighted nodes to the parameters of a grammar.

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

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import group_rows
from sapwood.decompose.anchors import frequent
from sapwood.decompose.convex_em import convex_em
from sapwood.decompose.pivots import PivotSettings, columns_given_states, states_from_points
from sapwood.estimators.maximise import normalise
from sapwood.execute import Engine, Placed
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.pivot_nodes import (
    LikelyStates,
    PivotRows,
    RuleInstances,
    Side,
    sums_over_features,
)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Ids = npt.NDArray[np.uint32]
MOST_INSTANCES = 50_000  # of a rule, about, that its convex EM looks at
BLOCK_INSTANCES = 200_000  # of all rules that are collected at a time


class Recipe(NamedTuple):
    """What treebanks need and exact moments do not.

    Attributes
    ----------
    least_count, least_share
        Of nodes, and of the label's nodes, that must have a feature for it to be a pivot: rarer
        ones are extreme points by chance.
    sharpness
        Exponent of the product of a node's feature probabilities; 1 would treat the templates as
        independent, which they are not.
    floor
        Of a state's feature distribution: no feature excludes a state for good.
    gap, max_iter
        Where the convex EM of each rule ends.
    """

    least_count: float = 20.0
    least_share: float = 1e-3
    sharpness: float = 0.5
    floor: float = 1e-6
    gap: float = 1e-3
    max_iter: int = 30


# With these, the expected counts of an L-PCFG with pivots give back its parameters.
EXACT = Recipe(0.0, 0.0, 1.0, 0.0, 1e-10, 20_000)


@dataclass(frozen=True, eq=False)
class PivotNodes:
    """All that Figure 1 asks of the data: rows in their shards, and what they have in common.

    Attributes
    ----------
    inside, outside
        The features of either side.
    size : [n_symbols]
        How many numbers of a row's vectors count for each label.
    rules : [n_rules, 3]
    symbol_of_pair : [n_pairs]
        Tags of the pairs of tag and word.
    count, rule_count : [n_symbols], [n_rules]
        Weights of the rows of each label and of the instances of each rule.
    shards
        `PivotRows`, placed.
    """

    inside: Side
    outside: Side
    size: IntArray
    rules: IntArray
    symbol_of_pair: IntArray
    count: FloatArray
    rule_count: FloatArray
    shards: Placed
    engine: Engine


@dataclass(eq=False)
class Views:
    """Step 1: r, s and pi of every label.

    Attributes
    ----------
    m : [n_symbols]
        States (pivots found) of each label.
    pivots
        By label, the features that its states were made from.
    pi : [n_symbols, n_states]
    r, s : [n_features, n_states]
        r(f | h), s(g | h) in the rows of their features; columns beyond a label's states are zero.
    """

    m: IntArray
    pivots: dict[int, IntArray]
    pi: FloatArray
    r: FloatArray
    s: FloatArray


def find_views(nodes: PivotNodes, wanted: IntArray, side: str, recipe: Recipe) -> Views:
    """Pivots on one side, and the distributions of features on both.

    With pivots inside, r(f | h) = p(h | f) p(f) / pi(h), and s solves p(g | f) = sum of p(h | f)
    s(g | h); pivots outside swap the two.

    Parameters
    ----------
    wanted : [n_symbols]
        States of each label; it gets fewer where fewer pivots are found.
    side
        Where pivots are looked for, `inside` or `outside`.
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
            count, nodes.count[a], least=recipe.least_count, share=recipe.least_share
        )
        if wanted[a] > 1 and candidates.sum() > 1:
            settings = PivotSettings(candidates=candidates)
            here = points[block, : nodes.size[a]]
            found = states_from_points(here, count, int(wanted[a]), settings)
            m[a], pivots[a] = len(found.pi), block.start + found.pivots
            posterior[block, : m[a]], pi[a, : m[a]] = found.posterior, found.pi
    weighted = posterior * own.count[:, None]
    joint = total(PivotRows.joint, nodes.shards, side, posterior, len(other.count))
    solution = np.zeros_like(joint)
    for a, k in enumerate(m.tolist()):
        mine, theirs = own.block(a), other.block(a)
        gram = posterior[mine, :k].T @ weighted[mine, :k]
        # sampling noise makes some negative
        solution[theirs, :k] = np.maximum(columns_given_states(gram, joint[theirs, :k]), 0.0)
    first, second = own.per_template(weighted, m), other.per_template(solution, m)
    return Views(m, pivots, pi, *((first, second) if is_inside else (second, first)))


def estimate(nodes: PivotNodes, views: Views, recipe: Recipe) -> LatentParameters:
    """Steps 2 and 3 of Figure 1, and pi and q of section 6.1."""
    m, pairs, engine = views.m, nodes.symbol_of_pair, nodes.engine
    likely = engine.map(likely_states, nodes.shards, views, recipe)
    rules = rule_counts(nodes, m, likely, recipe)
    words = engine.total(word_counts, likely, views.pi, len(pairs))
    root = engine.total(root_counts, likely, views.pi)
    states = np.arange(views.r.shape[1])
    return normalise(
        LatentParameters(
            m, nodes.rules, pairs, root[states < m[:, None]], rules,
            words[states < m[pairs][:, None]],
        )
    )  # fmt: skip


def likely_states(rows: PivotRows, views: Views, recipe: Recipe) -> LikelyStates:
    """How likely each state makes the features below and above each row."""
    below = likelihoods(rows, rows.inside, views.r, views.m, recipe)
    return LikelyStates(rows, below, likelihoods(rows, rows.outside, views.s, views.m, recipe))


def likelihoods(
    rows: PivotRows, ids: Ids, table: FloatArray, m: IntArray, recipe: Recipe
) -> FloatArray:
    """Product over templates of r or s of each row's features, to a power; largest 1."""
    with np.errstate(divide="ignore"):  # without a floor, a feature may exclude a state
        logs = sums_over_features(ids, np.log(table + recipe.floor)) * recipe.sharpness
    kept = np.arange(table.shape[1]) < m[rows.label][:, None]
    logs = np.where(kept, logs, -np.inf)
    top = logs.max(axis=1, keepdims=True)
    return np.asarray(np.exp(logs - np.where(np.isfinite(top), top, 0.0)))


def rule_counts(nodes: PivotNodes, m: IntArray, likely: Placed, recipe: Recipe) -> FloatArray:
    """Step 2: expected counts n(rule) t(h1, h2, h3 | rule) of all rules, one after the other.

    The convex EM of a rule needs its instances again and again: those of a block of rules are
    collected at a time, and of a very frequent rule a part of them.
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
        parts += [states.ravel() for states in engine.stream(_states_of_rule, tasks, recipe)]
    return np.concatenate(parts)


def instance_counts(rows: PivotRows, n_rules: int) -> IntArray:
    """How many instances each rule has."""
    return np.bincount(rows.rule, minlength=n_rules)


def _blocks(sizes: IntArray) -> list[slice]:
    """Runs of rules with not many more instances than can be held at a time."""
    end = np.cumsum(sizes)
    cuts = np.flatnonzero(np.diff(end // BLOCK_INSTANCES)) + 1
    return [slice(*pair) for pair in pairwise([0, *cuts.tolist(), len(sizes)])]


def _of_rule(found: RuleInstances, at: IntArray, m: IntArray, total: float) -> list[FloatArray]:
    """Views and weights of one rule's instances, which stand for all of them."""
    a, b, c = m.tolist()
    weight = found.weight[at]
    weight = weight * (total / max(float(weight.sum()), 1e-300))
    return [found.z[at, :a], found.y[at, :b], found.x[at, :c], weight]


def _states_of_rule(views: list[FloatArray], recipe: Recipe) -> FloatArray:
    z, y, x, weight = views
    return states_of_rule(z, y, x, weight, recipe)


def states_of_rule(
    z: FloatArray, y: FloatArray, x: FloatArray, weight: FloatArray, recipe: Recipe
) -> FloatArray:
    """Expected counts of the states of one rule: the convex EM of Eq. 1."""
    total, shape = float(weight.sum()), (z.shape[1], y.shape[1], x.shape[1])
    if total == 0.0 or max(shape) == 1:
        return np.full(shape, total)
    found = convex_em(z, y, x, weights=weight, gap=recipe.gap, max_iter=recipe.max_iter)
    return np.asarray(total * found.t)


def word_counts(likely: LikelyStates, pi: FloatArray, n_pairs: int) -> FloatArray:
    """Expected counts of pairs of tag and word by state: q, where the tag's word is a feature."""
    rows = likely.rows
    return _total(rows, likely.below * pi[rows.label], rows.leaf, rows.pair, n_pairs)


def root_counts(likely: LikelyStates, pi: FloatArray) -> FloatArray:
    """Expected counts of root labels by state: pi, read off s of nodes with nothing above."""
    rows = likely.rows
    return _total(rows, likely.above * pi[rows.label], rows.top, rows.label[rows.top], len(pi))


def _total(
    rows: PivotRows, posterior: FloatArray, at: IntArray, key: IntArray, n_keys: int
) -> FloatArray:
    """Sum over rows, by key, of their weights times their distributions of states."""
    share = posterior[at] / np.maximum(posterior[at].sum(axis=1, keepdims=True), 1e-300)
    out = np.zeros((n_keys, posterior.shape[1]))
    np.add.at(out, key, share * rows.weight[at][:, None])
    return out
