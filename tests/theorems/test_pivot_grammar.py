"""Theorem 1 of PIVOT for whole grammars: exact moments give t, q and pi, up to the order of states.

Notation (PIVOT, Figure 1 and section 6.1)
------------------------------------------
    f, g     inside and outside feature: the rule at a phrase or the word at a tag; the rule above
             and the side, or "root"
    r, s     p(f | h, a), p(g | h, a)                         D     p(g, f2, f3, a -> b c)
    t        p(h1, h2, h3 | a -> b c), then p(a -> b c, h2, h3 | a, h1)

Grammars and moments are those of `test_spectral`: expected sums over all nodes of a random tree.
Every label is decomposed on its own, so that every label has an order of states of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tests.theorems.test_spectral import (
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
    inside_features,
    l1_gap,
    outside_features,
    random_lpcfg,
    sums,
)
from tests.toys import Toy

from sapwood.decompose import pivots
from sapwood.decompose.anchors import Anchors
from sapwood.decompose.convex_em import convex_em
from sapwood.decompose.pivots import (
    Decomposition,
    align,
    decompose_both_views,
    decompose_one_view,
    decompose_rows,
)
from sapwood.errors import NotIdentifiableError

# A gap of 1e-10 leaves errors of up to 8e-10 in t, and of 6e-10 in the sum over all trees.
GAP, EXACT = 1e-10, 1e-8
STATES = [(2,) * 7, (3,) * 7, (3, 2, 1, 2, 2, 2, 2)]  # of each label; tags have equally many

Array = np.ndarray
Rule = tuple[int, int, int]
Views = dict[int, Decomposition]
Tensors = dict[Rule, Array]
Method = Callable[[Array, int], Decomposition]


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


# -- Figure 1, from expected sums -------------------------------------------------------------


def step_1(total: Sums, n_states: Sequence[int], method: Method) -> Views:
    """Find r, s and p(h | a) of every label."""
    return {a: method(total["omega", a], m) for a, m in enumerate(n_states)}


def step_2(total: Sums, views: Views, right: Views | None = None, gap: float = GAP) -> Tensors:
    """Find t(h1, h2, h3 | a -> b c) by EM on Eq. 1; a mutant has other views of right children."""
    out = {}
    for a, b, c in rules_of(total):
        D = total["rule", a, b, c]  # noqa: N806
        g, f2, f3 = np.nonzero(D > 0)
        z, y, x = views[a].s[g], views[b].r[f2], (right or views)[c].r[f3]
        out[a, b, c] = convex_em(z, y, x, weights=D[g, f2, f3], gap=gap, max_iter=20_000).t
    return out


def step_3(total: Sums, t: Tensors) -> Tensors:
    """Weigh each rule by p(a -> b c | a), and divide by p(h1 | a)."""
    joint = {r: total["rule", *r].sum() / total["count", r[0]] * part for r, part in t.items()}
    return {r: part / _states(joint, r[0])[:, None, None] for r, part in joint.items()}


def _states(joint: Tensors, a: int) -> Array:
    return np.sum([part.sum(axis=(1, 2)) for r, part in joint.items() if r[0] == a], axis=0)


def section_6_1(total: Sums, views: Views, rules: Tensors) -> Toy:
    """Read q off r and pi off s, where the root is the last feature."""
    words = {x: {t: views[t].r[place] for t in TAGS} for place, x in enumerate(WORDS)}
    root = {a: views[a].s[-1] * views[a].pi * total["count", a] for a in PHRASES}
    every = sum(part.sum() for part in root.values())
    n_states = [len(views[a].pi) for a in SYMBOLS]
    return Toy(len(PHRASES), n_states, {a: p / every for a, p in root.items()}, rules, words)


def rules_of(total: Sums) -> list[Rule]:
    return [key[1:] for key in total if key[0] == "rule"]


def learnt(toy: Toy, method: Method) -> tuple[Views, Toy]:
    """Figure 1 and section 6.1 on the exact moments of a grammar."""
    total = sums(toy, 1.0)
    views = step_1(total, toy.n_states, method)
    return views, section_6_1(total, views, step_3(total, step_2(total, views)))


# -- comparison -------------------------------------------------------------------------------


class Errors(NamedTuple):
    """Largest error of each kind of parameter."""

    t: float
    q: float
    pi: float


def orders(toy: Toy, views: Views) -> dict[int, Array]:
    """State of the truth behind each state found: r[:, h] ~ true r[:, order[h]], by label."""
    out = {}
    for a, view in views.items():
        cost = np.abs(view.r[:, :, None] - conditionals(toy, a)[0][:, None, :]).sum(axis=0)
        out[a] = linear_sum_assignment(cost)[1]
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

METHODS: dict[str, Method] = {
    "one view": decompose_one_view,
    "both views": partial(decompose_both_views, gap=1e-12),  # Figure 2 as printed
}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("n_states", STATES, ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_theorem_1(method: str, n_states: tuple[int, ...], seed: int) -> None:
    """Pivots, strict convexity and infinite data give t up to the order of states; 6.1 q and pi.

    "the resulting model will define ... exactly the same distribution over skeletal trees".
    """
    toy = pivot_lpcfg(seed, n_states)
    views, found = learnt(toy, METHODS[method])
    assert max(errors(toy, found, orders(toy, views))) < EXACT
    assert l1_gap(toy, found, most=3) < EXACT


def test_every_label_has_an_order_of_its_own() -> None:
    """The theorem is stated with one order for all labels, which is too few."""
    toy = pivot_lpcfg(0, STATES[1])
    views, found = learnt(toy, decompose_one_view)
    order = orders(toy, views)
    for a in SYMBOLS:
        assert max(errors(toy, found, dict.fromkeys(SYMBOLS, order[a]))) > 0.1


# -- mutants ----------------------------------------------------------------------------------


def rough(total: Sums, views: Views, right: Views | None = None) -> Tensors:
    """Steps 2 and 3; mutants need no exact maximum."""
    return step_3(total, step_2(total, views, right, gap=1e-4))


def unaligned(Q: Array, m: int) -> Decomposition:  # noqa: N803
    """Each view in the order in which its own pivots were found: no step 3 of Figure 2."""
    rows = decompose_rows(Q, m)
    return Decomposition(rows.pi, rows.r, decompose_rows(Q.T, m).r, (rows.report,))


def not_aligned(total: Sums, n_states: Sequence[int]) -> Toy:
    views = step_1(total, n_states, unaligned)
    return section_6_1(total, views, rough(total, views))


def right_children_in_another_order(total: Sums, n_states: Sequence[int]) -> Toy:
    views = step_1(total, n_states, decompose_one_view)
    turned = {a: replace(view, r=np.roll(view.r, 1, axis=1)) for a, view in views.items()}
    return section_6_1(total, views, rough(total, views, turned))


def rules_not_weighed(total: Sums, n_states: Sequence[int]) -> Toy:
    views = step_1(total, n_states, decompose_one_view)
    alike = {("rule", *r): total["rule", *r] / total["rule", *r].sum() for r in rules_of(total)}
    return section_6_1(total, views, rough(total | alike, views))


def not_divided_by_the_state(total: Sums, n_states: Sequence[int]) -> Toy:
    views = step_1(total, n_states, decompose_one_view)
    rules = rough(total, views)
    joint = {r: part * views[r[0]].pi[:, None, None] for r, part in rules.items()}
    return section_6_1(total, views, joint)


def children_swapped(total: Sums, n_states: Sequence[int]) -> Toy:
    views = step_1(total, n_states, decompose_one_view)
    swapped = {r: t.transpose(0, 2, 1) for r, t in rough(total, views).items()}
    return section_6_1(total, views, swapped)


def root_without_its_feature(total: Sums, n_states: Sequence[int]) -> Toy:
    views = step_1(total, n_states, decompose_one_view)
    found = section_6_1(total, views, rough(total, views))
    root = {a: found.root[a].sum() * views[a].pi for a in PHRASES}
    return replace(found, root=root)


def words_by_posterior(total: Sums, n_states: Sequence[int]) -> Toy:
    views = step_1(total, n_states, decompose_one_view)
    posterior = {a: view.r * view.pi for a, view in views.items()}
    turned = {a: p / p.sum(axis=1, keepdims=True) for a, p in posterior.items()}
    found = section_6_1(total, views, rough(total, views))
    words = {x: {t: turned[t][place] for t in TAGS} for place, x in enumerate(WORDS)}
    return replace(found, words=words)


MUTANTS = [
    not_aligned, right_children_in_another_order, rules_not_weighed, not_divided_by_the_state,
    children_swapped, root_without_its_feature, words_by_posterior,
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_noticed(mutant: Callable[[Sums, Sequence[int]], Toy]) -> None:
    toy = pivot_lpcfg(0, STATES[1])
    found = mutant(sums(toy, 1.0), toy.n_states)
    order = orders(toy, step_1(sums(toy, 1.0), toy.n_states, decompose_one_view))
    assert max(errors(toy, found, order)) > 0.05
    assert l1_gap(toy, found, most=2) > 0.01


def test_the_mutants_fail_by_more_than_their_rough_maximum() -> None:
    toy = pivot_lpcfg(0, STATES[1])
    total = sums(toy, 1.0)
    views = step_1(total, toy.n_states, decompose_one_view)
    assert l1_gap(toy, section_6_1(total, views, rough(total, views)), most=2) < 1e-3


def random_pivots(points: Array, m: int, **_: Any) -> Anchors:
    rows = np.random.default_rng(len(points)).choice(np.flatnonzero(points.any(axis=1)), m, False)
    return Anchors(np.sort(rows), np.ones(m), 1.0, 0.0)


def test_mutant_pivots_at_random(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = pivot_lpcfg(0, STATES[1])
    total = sums(toy, 1.0)
    monkeypatch.setattr(pivots, "find_anchors", random_pivots)
    with pytest.raises(NotIdentifiableError, match="outside the hull"):
        step_1(total, toy.n_states, decompose_one_view)
    views = step_1(total, toy.n_states, partial(decompose_one_view, on_missing="keep"))
    found = section_6_1(total, views, rough(total, views))
    assert max(errors(toy, found, orders(toy, views))) > 0.05
    assert l1_gap(toy, found, most=2) > 0.01


# -- grammars without pivots ------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(3))
def test_a_grammar_without_pivots_is_reported(seed: int, method: str) -> None:
    toy = random_lpcfg(seed, 3, n_rules=9)
    assert pivot_mass(toy) == 0.0
    with pytest.raises(NotIdentifiableError, match="outside the hull") as caught:
        step_1(sums(toy, 1.0), toy.n_states, METHODS[method])
    assert not caught.value.report.has_pivots


def unexplained(total: Sums, views: Views, rule: Rule) -> float:
    """How far Eq. 1 stays below its bound, the value for kappa = D; EM leaves 5e-4 of it."""
    a, b, c = rule
    p = total["rule", *rule] / total["rule", *rule].sum()
    t = step_2({("rule", *rule): p}, views, gap=5e-4)[rule]
    kappa = np.einsum("hpq,gh,ip,jq->gij", t, views[a].s, views[b].r, views[c].r)
    return float((p[p > 0] * np.log(p[p > 0] / kappa[p > 0])).sum())


def from_permutation(Q: Array) -> float:  # noqa: N803
    """How far t of Eq. 3 is from a permutation."""
    rows, columns = decompose_rows(Q, 2), decompose_rows(Q.T, 2)
    t = align(Q, rows.posterior, columns.r, gap=1e-6).t
    return float(np.abs(t - np.round(t)).max())


def test_two_states_without_pivots_show_later() -> None:
    """All points of a line are mixtures of its ends: step 1 cannot tell, Eq. 3 and step 2 can."""
    signs = []
    for toy in (pivot_lpcfg(0, STATES[0]), random_lpcfg(0, 2, n_rules=9)):
        total = sums(toy, 1.0)
        views = step_1(total, toy.n_states, decompose_one_view)
        assert all(report.has_pivots for view in views.values() for report in view.reports)
        left_over = max(unexplained(total, views, rule) for rule in rules_of(total))
        moved = max(from_permutation(total["omega", a]) for a in SYMBOLS)
        gap = l1_gap(toy, section_6_1(total, views, rough(total, views)), most=2)
        signs.append((left_over, moved, gap))
    with_pivots, without = signs
    assert all(sign < limit for sign, limit in zip(with_pivots, (5e-4, 0.01, 1e-3), strict=True))
    assert all(sign > limit for sign, limit in zip(without, (2e-3, 0.1, 0.01), strict=True))
