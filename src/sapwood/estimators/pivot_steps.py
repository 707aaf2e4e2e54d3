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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import group_rows
from sapwood.decompose.anchors import frequent
from sapwood.decompose.convex_em import convex_em
from sapwood.decompose.pivots import PivotSettings, columns_given_states, states_from_points
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.pivot_nodes import PivotNodes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


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
    is_inside = side == "inside"
    own, other = (nodes.inside, nodes.outside) if is_inside else (nodes.outside, nodes.inside)
    vectors = nodes.Z if is_inside else nodes.Y  # those of the other side
    points = own.sums(vectors * nodes.weight[:, None])
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
    joint = other.sums(own.of_rows(posterior) * nodes.weight[:, None])
    solution = np.zeros_like(joint)
    for a, k in enumerate(m.tolist()):
        mine, theirs = own.block(a), other.block(a)
        gram = posterior[mine, :k].T @ weighted[mine, :k]
        # sampling noise makes some negative
        solution[theirs, :k] = np.maximum(columns_given_states(gram, joint[theirs, :k]), 0.0)
    first, second = own.per_template(weighted, m), other.per_template(solution, m)
    return Views(m, pivots, pi, *((first, second) if is_inside else (second, first)))


def likelihoods(nodes: PivotNodes, views: Views, which: str, recipe: Recipe) -> FloatArray:
    """Product over templates of r or s of each row's features, to a power; largest 1."""
    side, table = (nodes.inside, views.r) if which == "r" else (nodes.outside, views.s)
    with np.errstate(divide="ignore"):  # without a floor, a feature may exclude a state
        rows = side.of_rows(np.log(table + recipe.floor)) * recipe.sharpness
    kept = np.arange(table.shape[1]) < views.m[nodes.label][:, None]
    rows = np.where(kept, rows, -np.inf)
    top = rows.max(axis=1, keepdims=True)
    return np.asarray(np.exp(rows - np.where(np.isfinite(top), top, 0.0)))


def estimate(nodes: PivotNodes, views: Views, recipe: Recipe) -> LatentParameters:
    """Steps 2 and 3 of Figure 1, and pi and q of section 6.1."""
    m, pairs = views.m, nodes.symbol_of_pair
    below, above = (likelihoods(nodes, views, which, recipe) for which in "rs")
    rules = rule_counts(nodes, m, below, above, recipe)
    words = word_counts(nodes, below * views.pi[nodes.label])
    root = root_counts(nodes, above * views.pi[nodes.label])
    states = np.arange(below.shape[1])
    return LatentParameters(
        m, nodes.rules, pairs, root[states < m[:, None]], rules, words[states < m[pairs][:, None]]
    ).normalised()


def rule_counts(
    nodes: PivotNodes, m: IntArray, below: FloatArray, above: FloatArray, recipe: Recipe
) -> FloatArray:
    """Step 2: expected counts n(rule) t(h1, h2, h3 | rule) of all rules, one after the other."""
    parts = [np.empty(0)]
    groups = group_rows(nodes.rule, len(nodes.rules))
    for (a, b, c), at in zip(nodes.rules.tolist(), groups, strict=True):
        z = above[nodes.parent[at], : m[a]]
        y, x = below[nodes.left[at], : m[b]], below[nodes.right[at], : m[c]]
        parts.append(states_of_rule(z, y, x, nodes.instance_weight[at], recipe).ravel())
    return np.concatenate(parts)


def states_of_rule(
    z: FloatArray, y: FloatArray, x: FloatArray, weight: FloatArray, recipe: Recipe
) -> FloatArray:
    """Expected counts of the states of one rule: the convex EM of Eq. 1."""
    total, shape = float(weight.sum()), (z.shape[1], y.shape[1], x.shape[1])
    if total == 0.0 or max(shape) == 1:
        return np.full(shape, total)
    found = convex_em(z, y, x, weights=weight, gap=recipe.gap, max_iter=recipe.max_iter)
    return np.asarray(total * found.t)


def word_counts(nodes: PivotNodes, posterior: FloatArray) -> FloatArray:
    """Expected counts of pairs of tag and word by state: q, where the tag's word is a feature."""
    return _total(posterior, nodes, nodes.leaf, nodes.pair, len(nodes.symbol_of_pair))


def root_counts(nodes: PivotNodes, posterior: FloatArray) -> FloatArray:
    """Expected counts of root labels by state: pi, read off s of nodes with nothing above."""
    return _total(posterior, nodes, nodes.top, nodes.label[nodes.top], len(nodes.size))


def _total(
    posterior: FloatArray, nodes: PivotNodes, rows: IntArray, key: IntArray, n_keys: int
) -> FloatArray:
    """Sum over rows, by key, of their weights times their distributions of states."""
    share = posterior[rows] / np.maximum(posterior[rows].sum(axis=1, keepdims=True), 1e-300)
    out = np.zeros((n_keys, posterior.shape[1]))
    np.add.at(out, key, share * nodes.weight[rows][:, None])
    return out
