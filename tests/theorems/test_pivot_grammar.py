"""Theorem 1 of PIVOT for whole grammars: exact moments give t, q and pi, up to the order of states.

Notation (PIVOT, Figure 1 and section 6.1)
------------------------------------------
    f, g     inside and outside feature: the rule at a phrase or the word at a tag; the rule above
             and the side, or "root"
    r, s     p(f | h, a), p(g | h, a)                         D     p(g, f2, f3, a -> b c)
    t        p(h1, h2, h3 | a -> b c), then p(a -> b c, h2, h3 | a, h1)

What runs is what `PivotLPCFG` runs, `find_views` and `estimate`: on weighted nodes, of which a
treebank has one of weight 1 for every node. Here there is one for every pair of features, weighted
by its expected number in a random tree. Grammars and moments are those of `test_spectral`. Every
label is decomposed on its own, so that every label has an order of states of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tests.linalg.pivot_problems import align, decompose_rows, require_pivots
from tests.theorems.spectral_toys import (
    PHRASES,
    SYMBOLS,
    TAGS,
    WORDS,
    Sums,
    _inside,
    _ones,
    _outside,
    _radius,
    _visits,
    draw_nodes,
    inside_features,
    l1_gap,
    outside_features,
    packed,
    random_lpcfg,
    rule_or_word,
    sums,
    toy_of,
)
from tests.toys import Toy

import sapwood as sw
from sapwood.constituency.learn import features, pivot
from sapwood.constituency.learn.em_steps import LatentParameters
from sapwood.constituency.learn.features import FeatureSettings
from sapwood.constituency.learn.pivot import (
    FeatureDistributions,
    LikelyStates,
    PivotNodes,
    PivotRows,
    PivotSettings,
    SideFeatures,
    estimate_parameters,
    find_distributions,
)
from sapwood.constituency.learn.training_data import LexiconSettings
from sapwood.core.errors import NotIdentifiableError
from sapwood.execute import Placed, Threads
from sapwood.linalg import pivots

# With these, the expected counts of an L-PCFG with pivots give back its parameters.
EXACT_RECIPE = pivot.PivotSettings(0.0, 0.0, 1.0, 0.0, 1e-10, 20_000)
EXACT = 1e-8  # a gap of 1e-10 leaves errors of up to 8e-10 in t, and 6e-10 in the sum over trees
STATES = [(2,) * 7, (3,) * 7, (3, 2, 1, 2, 2, 2, 2)]  # of each label; tags have equally many
ROUGH = EXACT_RECIPE._replace(gap=1e-4)  # mutants need no exact maximum

Array = np.ndarray
Rule = tuple[int, int, int]


# -- grammars with pivots ---------------------------------------------------------------------


@cache
def pivot_lpcfg(seed: int, n_states: tuple[int, ...]) -> Toy:
    """A grammar of 27 rules in which every state has a rule or word, and a place, of its own.

    Drawn again until trees end and no pivot is rare, so that EM ends soon.
    """
    rng = np.random.default_rng(seed)
    while True:
        toy = _draw(rng, n_states, n_rules=9)
        if toy and _radius(toy) < 0.9 and pivot_mass(toy) > 0.08:
            return toy


def _draw(rng: np.random.Generator, m: tuple[int, ...], n_rules: int) -> Toy | None:
    pairs = [(b, c) for b in SYMBOLS for c in SYMBOLS]
    rules = {
        (a, b, c): rng.gamma(2.0, size=(m[a], m[b], m[c]))
        * 0.4 ** ((b in PHRASES) + (c in PHRASES))
        for a in PHRASES
        for b, c in (pairs[place] for place in rng.choice(len(pairs), n_rules, replace=False))
    }
    words = {x: {t: rng.gamma(1.0, size=m[t]) for t in TAGS} for x in WORDS}
    root = {a: rng.gamma(1.0, size=m[a]) for a in PHRASES}
    toy = Toy(len(PHRASES), list(m), root, rules, words)
    for a in SYMBOLS:
        below, above = inside_features(toy, a), outside_features(toy, a)[:-1]
        if min(len(below), len(above)) < m[a]:
            return None
        own, place = rng.permutation(len(below)), rng.permutation(len(above))
        for h in range(m[a]):
            _make_pivots(toy, a, h, below[own[h]], above[place[h]])
    return toy.normalised()


def _make_pivots(toy: Toy, a: int, h: int, below: Any, above: tuple[Rule, int]) -> None:
    """Take an inside and an outside feature from all states of a label but one; make up for it."""
    kept = np.where(np.arange(toy.n_states[a]) == h, 3.0, 0.0)
    if a in TAGS:
        toy.words[below][a] *= kept
    else:
        toy.rules[below] *= kept[:, None, None]
    rule, side = above
    toy.rules[rule] *= kept[:, None] if side == 0 else kept


def conditionals(toy: Toy, a: int) -> tuple[Array, Array]:
    """True r and s of a label, [d, m] and [d', m]."""
    ones = _ones(toy)
    visits = _visits(toy, 1.0, ones)
    return _inside(toy, a, 1.0, ones), _outside(toy, a, 1.0, ones, visits) / visits[a]


def pivot_mass(toy: Toy) -> float:
    """The smaller of alpha and beta in Assumption 1; 0 where a state has no pivot."""
    views = [view for a in SYMBOLS for view in conditionals(toy, a)]
    own = [np.where(np.count_nonzero(view, axis=1) == 1, view.T, 0.0) for view in views]
    return min(float(mass.max(axis=1).min()) for mass in own)


# -- weighted nodes, from expected sums -------------------------------------------------------


def exact_nodes(toy: Toy) -> PivotNodes:
    """A row for every pair of an inside and an outside feature of every label."""
    total = sums(toy, 1.0)
    omega = [total["omega", a] for a in SYMBOLS]  # [f, g]
    place = [np.indices(Q.shape).reshape(2, -1) for Q in omega]  # f and g of each row
    row = np.cumsum([0, *(Q.size for Q in omega)])
    label = np.repeat(list(SYMBOLS), np.diff(row))
    inside, outside = (
        _side([Q.sum(axis=1 - axis) for Q in omega], [at[axis] for at in place]) for axis in (0, 1)
    )
    rules = rules_of(total)
    instances = [np.nonzero(total["rule", *rule] > 0) for rule in rules]  # g, f2, f3
    width = [Q.shape[1] for Q in omega]
    pair = (label - len(PHRASES)) * len(WORDS) + np.concatenate([at[0] for at in place])
    is_leaf = label >= len(PHRASES)
    is_top = np.concatenate([at[1] == n - 1 for at, n in zip(place, width, strict=True)])
    rule = np.repeat(np.arange(len(rules)), [len(g) for g, _, _ in instances])
    weight = np.concatenate([Q.ravel() for Q in omega])
    instance_weight = np.concatenate(
        [total["rule", *r][at] for r, at in zip(rules, instances, strict=True)]
    )
    (inside, below), (outside, above) = inside, outside
    rows = PivotRows(
        label=label, weight=weight, inside=below, outside=above,
        **_vectors(omega, place, toy.n_states), rule=rule, instance_weight=instance_weight,
        # any row with the parent's g, and any with the child's f
        parent=_joined(row[a] + g for (a, _, _), (g, _, _) in zip(rules, instances, strict=True)),
        left=_joined(
            row[b] + f * width[b] for (_, b, _), (_, f, _) in zip(rules, instances, strict=True)
        ),
        right=_joined(
            row[c] + f * width[c] for (_, _, c), (_, _, f) in zip(rules, instances, strict=True)
        ),
        leaf=np.flatnonzero(is_leaf), pair=pair[is_leaf], top=np.flatnonzero(is_top & ~is_leaf),
    )  # fmt: skip
    engine = Threads()
    return PivotNodes(
        inside, outside, np.array(toy.n_states), np.array(rules),
        np.repeat(list(TAGS), len(WORDS)), np.bincount(label, weight, len(SYMBOLS)),
        np.bincount(rule, instance_weight, len(rules)), engine.place([rows]), engine,
    )  # fmt: skip


def rows_of(nodes: PivotNodes) -> PivotRows:
    (rows,) = nodes.shards.items
    return rows


def _joined(parts: Any) -> Array:
    return np.concatenate(list(parts))


def _side(counts: list[Array], at: list[Array]) -> tuple[SideFeatures, Array]:
    """One template: every row has one feature."""
    start = np.cumsum([0, *map(len, counts)])
    ids = np.concatenate([first + f for first, f in zip(start, at, strict=False)])
    count = np.concatenate(counts)
    return SideFeatures(start, count, (np.arange(len(count)),)), ids.astype(np.uint32)[:, None]


def _vectors(omega: list[Array], place: list[Array], n_states: list[int]) -> dict[str, Array]:
    """Rows of the singular vectors, for their features."""
    k = max(n_states)
    Y, Z = [], []  # noqa: N806
    for Q, (f, g), m in zip(omega, place, n_states, strict=True):  # noqa: N806
        U, _, Vt = np.linalg.svd(Q)  # noqa: N806
        for out, vectors, at in ((Y, U, f), (Z, Vt.T, g)):
            out.append(np.pad(vectors[at, :m], [(0, 0), (0, k - m)]))
    return {"Y": np.concatenate(Y), "Z": np.concatenate(Z)}


def rules_of(total: Sums) -> list[Rule]:
    return [key[1:] for key in total if key[0] == "rule"]


def views_of(nodes: PivotNodes, toy: Toy, side: str = "outside") -> FeatureDistributions:
    return find_distributions(nodes, np.array(toy.n_states), side, EXACT_RECIPE)


def learnt(
    toy: Toy, side: str = "outside", recipe: PivotSettings = EXACT_RECIPE
) -> tuple[FeatureDistributions, Toy]:
    """Figure 1 and section 6.1 on the exact moments of a grammar."""
    nodes = exact_nodes(toy)
    views = views_of(nodes, toy, side)
    return views, as_toy(estimate_parameters(nodes, views, recipe))


def as_toy(found: LatentParameters) -> Toy:
    m, m_pair = found.n_states, found.n_states[found.symbol_of_pair]
    tensors = np.split(found.rules, found.rule_start[1:-1])
    rules = {
        tuple(abc): tensor.reshape(m[abc])
        for abc, tensor in zip(found.symbols_of.tolist(), tensors, strict=True)
    }
    root = np.split(found.root, found.state_start[1:-1])
    vectors = iter(np.split(found.words, np.cumsum(m_pair)[:-1]))
    by_tag = {t: [next(vectors) for _ in WORDS] for t in TAGS}
    words = {x: {t: by_tag[t][place] for t in TAGS} for place, x in enumerate(WORDS)}
    return Toy(len(PHRASES), m.tolist(), {a: root[a] for a in PHRASES}, rules, words)


# -- comparison -------------------------------------------------------------------------------


class Errors(NamedTuple):
    """Largest error of each kind of parameter."""

    t: float
    q: float
    pi: float


def orders(toy: Toy, views: FeatureDistributions) -> dict[int, Array]:
    """State of the truth behind each state found: r[:, h] ~ true r[:, order[h]], by label."""
    out, start = {}, 0
    for a in SYMBOLS:
        true = conditionals(toy, a)[0]
        r = views.r[start : start + len(true), : views.m[a]]
        cost = np.abs(r[:, :, None] - true[:, None, :]).sum(axis=0)
        out[a], start = linear_sum_assignment(cost)[1], start + len(true)
    return out


def errors(toy: Toy, found: Toy, order: dict[int, Array]) -> Errors:
    """With the states of the truth put into the order of those found."""

    def worst(pairs: Any) -> float:
        return max(float(np.abs(one - other).max()) for one, other in pairs)

    return Errors(
        worst((found.rules[r], t[np.ix_(*(order[x] for x in r))]) for r, t in toy.rules.items()),
        worst((found.words[x][t], toy.words[x][t][order[t]]) for x in WORDS for t in TAGS),
        worst((found.root[a], toy.root[a][order[a]]) for a in PHRASES),
    )


# -- Theorem 1 --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("n_states", STATES, ids=str)
@pytest.mark.parametrize("side", ["outside", "inside"])
def test_theorem_1(side: str, n_states: tuple[int, ...], seed: int) -> None:
    """Pivots, strict convexity and infinite data give t up to the order of states; 6.1 q and pi.

    "the resulting model will define ... exactly the same distribution over skeletal trees".
    """
    toy = pivot_lpcfg(seed, n_states)
    views, found = learnt(toy, side)
    assert views.m.tolist() == list(n_states)
    assert max(errors(toy, found, orders(toy, views))) < EXACT
    assert l1_gap(toy, found, most=3) < EXACT


def test_every_label_has_an_order_of_its_own() -> None:
    """The theorem is stated with one order for all labels, which is too few."""
    toy = pivot_lpcfg(0, STATES[1])
    views, found = learnt(toy, recipe=ROUGH)
    order = orders(toy, views)
    for a in SYMBOLS:
        assert max(errors(toy, found, dict.fromkeys(SYMBOLS, order[a]))) > 0.1


# -- mutants ----------------------------------------------------------------------------------

REAL_RULE, REAL_COLUMNS = pivot.states_of_rule, pivot.columns_given_states
REAL_WORDS, REAL_ROOT = pivot.word_counts, pivot.root_counts


def views_not_aligned(gram: Array, joint: Array) -> Array:
    """The other side in an order of its own: no step 3 of Figure 2."""
    return np.roll(REAL_COLUMNS(gram, joint), 1, axis=1)


def right_children_in_another_order(views: list[Array], settings: PivotSettings) -> Array:
    z, y, x, weight = views
    return REAL_RULE([z, y, np.roll(x, 1, axis=1), weight], settings)


def rules_not_weighed(views: list[Array], settings: PivotSettings) -> Array:
    *sides, weight = views
    return REAL_RULE([*sides, weight / weight.sum()], settings)


def children_swapped(views: list[Array], settings: PivotSettings) -> Array:
    return REAL_RULE(views, settings).transpose(0, 2, 1)


def parents_by_what_is_below(
    nodes: PivotNodes, m: Array, likely: Placed, recipe: PivotSettings
) -> Array:
    mutant = [replace(part, above=part.below) for part in likely.items]
    return REAL_RULES(nodes, m, Placed(mutant), recipe)


def root_without_its_feature(likely: LikelyStates, pi: Array) -> Array:
    """A root has the states of any node with its label."""
    return REAL_ROOT(replace(likely, above=np.ones_like(likely.above)), pi)


def words_without_their_tags(likely: LikelyStates, pi: Array, n_pairs: int) -> Array:
    """p(h | x) instead of p(x | h): each word counts once."""
    counts = REAL_WORDS(likely, pi, n_pairs)
    return counts / counts.sum(axis=1, keepdims=True)


REAL_RULES = pivot.expected_rule_counts
MUTANTS: list[tuple[str, Callable[..., Array]]] = [
    ("columns_given_states", views_not_aligned),
    ("states_of_rule", right_children_in_another_order),
    ("states_of_rule", rules_not_weighed),
    ("states_of_rule", children_swapped),
    ("expected_rule_counts", parents_by_what_is_below),
    ("root_counts", root_without_its_feature),
    ("word_counts", words_without_their_tags),
]


@pytest.mark.parametrize(("step", "mutant"), MUTANTS, ids=lambda x: getattr(x, "__name__", x))
def test_a_mutant_is_noticed(
    step: str, mutant: Callable[..., Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = pivot_lpcfg(0, STATES[1])
    order = orders(toy, views_of(exact_nodes(toy), toy, "inside"))
    monkeypatch.setattr(pivot, step, mutant)
    _, found = learnt(toy, "inside", ROUGH)
    assert max(errors(toy, found, order)) > 0.05
    assert l1_gap(toy, found, most=2) > 0.01


def test_mutant_states_that_are_not_divided_by_their_totals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without step 3, expected counts are taken for probabilities."""
    toy = pivot_lpcfg(0, STATES[1])
    monkeypatch.setattr(pivot, "normalise", lambda parameters: parameters)
    assert l1_gap(toy, learnt(toy, recipe=ROUGH)[1], most=2) > 0.01


def test_the_mutants_fail_by_more_than_their_rough_maximum() -> None:
    toy = pivot_lpcfg(0, STATES[1])
    assert l1_gap(toy, learnt(toy, "inside", ROUGH)[1], most=2) < 1e-3


@pytest.mark.parametrize("name", ["sharpness", "floor"])
def test_what_treebanks_need_is_not_exact(name: str) -> None:
    toy = pivot_lpcfg(0, STATES[1])
    bent = ROUGH._replace(**{name: {"sharpness": 0.5, "floor": 0.01}[name]})
    assert l1_gap(toy, learnt(toy, recipe=bent)[1], most=2) > 0.01


def random_pivots(points: Array, m: int, **_: Any) -> Array:
    rows = np.random.default_rng(len(points)).choice(np.flatnonzero(points.any(axis=1)), m, False)
    return np.sort(rows)


def test_mutant_pivots_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = pivot_lpcfg(0, STATES[1])
    monkeypatch.setattr(pivots, "find_anchors", random_pivots)
    views, found = learnt(toy, recipe=ROUGH)
    assert max(errors(toy, found, orders(toy, views))) > 0.05
    assert l1_gap(toy, found, most=2) > 0.01


# -- the estimator, on samples ----------------------------------------------------------------


def estimated(toy: Toy, n: int, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """`PivotLPCFG` itself, with the features of the moments above, on n drawn trees."""
    bare = FeatureSettings.of([rule_or_word], ["rule_above"], scaled=False, kappa=5.0)
    monkeypatch.setattr(features, "LEAST_VALUE", 0.0)  # as in test_spectral
    monkeypatch.setattr(pivot, "FeatureSettings", lambda: bare)
    monkeypatch.setattr(pivot, "PivotSettings", partial(PivotSettings, gap=1e-5, max_iter=1000))
    plain = sw.PCFG(lexicon=LexiconSettings(sharing=0.0, class_weight=0.0))
    learner = sw.PivotLPCFG(2, sharpness=1.0, rule_smoothing=0.0, word_smoothing=0.0, plain=plain)
    bank = packed(toy, draw_nodes(toy, n, np.random.default_rng(n)))
    return toy_of(learner.fit(bank).model_, toy)


def test_the_estimator_converges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors fall with the root of the sample: by 3 from 3,000 to 30,000 trees, about."""
    toy = pivot_lpcfg(0, STATES[0])
    few, many = (l1_gap(toy, estimated(toy, n, monkeypatch), most=1) for n in (3_000, 30_000))
    assert many < 0.05
    assert few > 2 * many


# -- grammars without pivots ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_grammar_without_pivots_is_reported(seed: int) -> None:
    toy = random_lpcfg(seed, 3, n_rules=9)
    assert pivot_mass(toy) == 0.0
    total = sums(toy, 1.0)
    reports = [decompose_rows(total["omega", a], 3).report for a in SYMBOLS]
    worst = max(reports, key=lambda report: report.misfit)
    with pytest.raises(NotIdentifiableError, match="outside the hull") as caught:
        require_pivots(worst)
    assert not caught.value.report.has_pivots


def unexplained(nodes: PivotNodes, views: FeatureDistributions, r: int) -> float:
    """How far Eq. 1 stays below its bound, the value for kappa = D; EM leaves 5e-4 of it."""
    a, b, c = nodes.rules[r]
    rows = rows_of(nodes)
    at = np.flatnonzero(rows.rule == r)
    p = rows.instance_weight[at] / rows.instance_weight[at].sum()
    s = views.s[rows.outside[rows.parent[at], 0], : views.m[a]]
    r_left, r_right = (
        views.r[rows.inside[child[at], 0], : views.m[x]]
        for child, x in ((rows.left, b), (rows.right, c))
    )
    t = pivot.states_of_rule([s, r_left, r_right, p], EXACT_RECIPE._replace(gap=5e-4))
    kappa = np.einsum("hpq,nh,np,nq->n", t, s, r_left, r_right)
    return float((p * np.log(p / kappa)).sum())


def from_permutation(Q: Array) -> float:  # noqa: N803
    """How far t of Eq. 3 is from a permutation."""
    rows, columns = decompose_rows(Q, 2), decompose_rows(Q.T, 2)
    t = align(Q, rows.posterior, columns.r, gap=1e-6).t
    return float(np.abs(t - np.round(t)).max())


def test_two_states_without_pivots_show_later() -> None:
    """All points of a line are mixtures of its ends: step 1 cannot tell, Eq. 3 and step 2 can."""
    signs = []
    for toy in (pivot_lpcfg(0, STATES[0]), random_lpcfg(0, 2, n_rules=9)):
        total, nodes = sums(toy, 1.0), exact_nodes(toy)
        views = views_of(nodes, toy, "inside")
        assert all(decompose_rows(total["omega", a], 2).report.has_pivots for a in SYMBOLS)
        left_over = max(unexplained(nodes, views, r) for r in range(len(nodes.rules)))
        moved = max(from_permutation(total["omega", a]) for a in SYMBOLS)
        gap = l1_gap(toy, learnt(toy, "inside", ROUGH)[1], most=2)
        signs.append((left_over, moved, gap))
    with_pivots, without = signs
    assert all(sign < limit for sign, limit in zip(with_pivots, (5e-4, 0.01, 1e-3), strict=True))
    assert all(sign > limit for sign, limit in zip(without, (2e-3, 0.1, 0.01), strict=True))
