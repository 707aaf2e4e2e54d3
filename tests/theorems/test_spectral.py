"""Theorem 6 of SPECTRAL: exact moments give exact tree probabilities; sampled ones, close ones.

Notation
--------
    phi    the rule at a phrase, the word at a tag        psi   the rule above and the side, or root
    Z[a]   weight of all inside trees by state, each node counting s     v[a]   of all outside trees
    I[a]   Z split by phi, [d, m]                         J[a]  v split by psi, [d', m]

At s = 1 the inside trees of a state weigh 1, v counts its expected visits, and `sums(toy, 1)` holds
the expected moments of all nodes of a random tree. Other s weigh a tree of N nodes by s**N: their
integral over ds / s weighs it by 1 / N, which is what drawing one node from each tree does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.decompose.exact_spectral import FullMoments, ObservableForm, observable_form
from tests.reference import enumerate as listing
from tests.toys import Toy, parse_forest

from sapwood.corpus.transform import Inventory, Symbol, Transform
from sapwood.corpus.treebank import Treebank
from sapwood.errors import NotIdentifiableError
from sapwood.estimators import spectral
from sapwood.estimators.pcfg import PCFG, LexiconSettings
from sapwood.estimators.spectral import SpectralLPCFG
from sapwood.features.templates import Column, NodeTable
from sapwood.models.latent_grammar import LatentGrammar

PHRASES, TAGS, WORDS = range(3), range(3, 7), [f"w{x}" for x in range(8)]
SYMBOLS = range(7)
# Singular values down to 3e-4 are divided by at each of up to seven nodes; measured: 4e-16.
EXACT = 1e-10

Array = np.ndarray
Sums = dict[tuple[Any, ...], Array]


# -- random grammars --------------------------------------------------------------------------


@cache
def random_lpcfg(seed: int, m: int, n_rules: int = 49) -> Toy:
    """3 phrases with `n_rules` rules each, 4 tags, 8 words; phrases below phrases are rarer.

    Drawn again until trees end and every label can be told apart into m states.
    """
    rng = np.random.default_rng(seed)
    while True:
        toy = _draw(rng, m, n_rules)
        used = {child for rule in toy.rules for child in rule[1:]}
        if used == set(SYMBOLS) and _radius(toy) < 0.9 and _is_identifiable(toy, m):
            return toy


def _draw(rng: np.random.Generator, m: int, n_rules: int) -> Toy:
    pairs = [(b, c) for b in SYMBOLS for c in SYMBOLS]
    rules = {
        (a, *pairs[place]): rng.gamma(1.0, size=(m, m, m))
        * 0.4 ** sum(child in PHRASES for child in pairs[place])
        for a in PHRASES
        for place in np.sort(rng.choice(len(pairs), n_rules, replace=False))
    }
    words = {x: {t: rng.gamma(1.0, size=m) for t in TAGS} for x in WORDS}
    root = {a: rng.gamma(1.0, size=m) for a in PHRASES}
    return Toy(len(PHRASES), [m] * len(SYMBOLS), root, rules, words).normalised()


def _radius(toy: Toy) -> float:
    return float(np.abs(np.linalg.eigvals(_flow(toy, 1.0, _ones(toy)))).max())


def _is_identifiable(toy: Toy, m: int) -> bool:
    try:
        # not close to singular, so that a tolerance of 1e-10 can be asked for
        observable_form(moments(sums(toy, 1.0)), m, tolerance=3e-4)
    except NotIdentifiableError:
        return False
    return True


# -- exact moments ----------------------------------------------------------------------------


def inside_features(toy: Toy, a: int) -> list[Any]:
    return [rule for rule in toy.rules if rule[0] == a] if a in PHRASES else WORDS


def outside_features(toy: Toy, a: int) -> list[Any]:
    above = [(rule, side) for rule in toy.rules for side in (0, 1) if rule[1 + side] == a]
    return [*above, "root"]


def _ones(toy: Toy) -> list[Array]:
    return [np.ones(m) for m in toy.n_states]


def _flow(toy: Toy, s: float, Z: list[Array]) -> Array:  # noqa: N803
    """Weight with which a state of a node has a state as either child, [n_states, n_states]."""
    start = np.cumsum([0, *toy.n_states])
    flow = np.zeros((start[-1], start[-1]))
    for (a, b, c), C in toy.rules.items():  # noqa: N806
        rows = slice(start[a], start[a + 1])
        flow[rows, start[b] : start[b + 1]] += s * np.einsum("hpq,q->hp", C, Z[c])
        flow[rows, start[c] : start[c + 1]] += s * np.einsum("hpq,p->hq", C, Z[b])
    return flow


def _totals(toy: Toy, s: float) -> list[Array]:
    """Z by iteration of Z[a] = s sum of C(Z[b], Z[c]); from above, where it is 1 at s = 1."""
    Z = _ones(toy)  # noqa: N806
    for _ in range(400):
        new = [np.zeros(m) if a in PHRASES else np.full(m, s) for a, m in enumerate(toy.n_states)]
        for (a, b, c), C in toy.rules.items():  # noqa: N806
            new[a] += s * np.einsum("hpq,p,q->h", C, Z[b], Z[c])
        Z, last = new, Z  # noqa: N806
        if np.array_equal(np.concatenate(Z), np.concatenate(last)):
            break
    return Z


def _visits(toy: Toy, s: float, Z: list[Array]) -> list[Array]:  # noqa: N803
    """Solve v = root + flow' v."""
    root = np.concatenate([toy.root.get(a, np.zeros(m)) for a, m in enumerate(toy.n_states)])
    v = np.linalg.solve(np.eye(len(root)) - _flow(toy, s, Z).T, root)
    return np.split(v, np.cumsum(toy.n_states)[:-1])


def sums(toy: Toy, s: float) -> Sums:
    """Expected sums over all nodes of a random tree, a tree of N nodes weighing s**N."""
    Z = _totals(toy, s)  # noqa: N806
    v = _visits(toy, s, Z)
    I = [_inside(toy, a, s, Z) for a in SYMBOLS]  # noqa: E741, N806
    J = [_outside(toy, a, s, Z, v) for a in SYMBOLS]  # noqa: N806
    out: Sums = {("omega", a): I[a] @ J[a].T for a in SYMBOLS}
    out |= {("count", a): np.array(v[a] @ Z[a]) for a in SYMBOLS}
    out |= {("word", t, x): J[t] @ (s * toy.words[x][t]) for t in TAGS for x in WORDS}
    out |= {("root", a): I[a] @ toy.root[a] for a in PHRASES}
    out["trees",] = np.array(sum(toy.root[a] @ Z[a] for a in PHRASES))
    for (a, b, c), C in toy.rules.items():  # noqa: N806
        D = np.einsum("zh,hpq,sp,tq->zst", J[a], s * C, I[b], I[c], optimize=True)  # noqa: N806
        out["rule", a, b, c] = D
    return out


def _inside(toy: Toy, a: int, s: float, Z: list[Array]) -> Array:  # noqa: N803
    if a in TAGS:
        return np.array([s * toy.words[x][a] for x in WORDS])
    return np.array(
        [
            s * np.einsum("hpq,p,q->h", toy.rules[rule], Z[rule[1]], Z[rule[2]])
            for rule in inside_features(toy, a)
        ]
    )


def _outside(toy: Toy, a: int, s: float, Z: list[Array], v: list[Array]) -> Array:  # noqa: N803
    rows = []
    for feature in outside_features(toy, a)[:-1]:
        (above, b, c), side = feature
        C = s * toy.rules[above, b, c]  # noqa: N806
        rows.append(
            np.einsum("h,hpq,q->p", v[above], C, Z[c])
            if side == 0
            else np.einsum("h,hpq,p->q", v[above], C, Z[b])
        )
    return np.array([*rows, toy.root.get(a, np.zeros(toy.n_states[a]))])


def one_node_sums(toy: Toy) -> Sums:
    """Expected sums when one node is drawn from each tree: 1 / N = integral of s**N ds / s."""
    points, weights = np.polynomial.legendre.leggauss(24)  # a smooth integrand: 12 agree to 1e-12
    at = (points + 1) / 2  # from [-1, 1] to [0, 1]
    parts = [(w, sums(toy, s)) for s, w in zip(at, weights / 2 / at, strict=True)]
    return {key: sum(w * part[key] for w, part in parts) for key in parts[0][1]}


def moments(total: Sums) -> FullMoments:
    """Divide sums by the number of nodes with each label, or of trees."""

    def part(kind: str) -> dict[Any, Array]:
        return {key[1:]: value for key, value in total.items() if key[0] == kind}

    count = {key[0]: value for key, value in part("count").items()}
    return FullMoments(
        omega={key[0]: value / count[key[0]] for key, value in part("omega").items()},
        rules={key: value / count[key[0]] for key, value in part("rule").items()},
        words={key: value / count[key[0]] for key, value in part("word").items()},
        root={key[0]: value / total["trees",] for key, value in part("root").items()},
    )


def learnt(form: ObservableForm, m: int) -> Toy:
    """The tensors as a grammar."""
    words = {x: {t: form.c_inf[t, x] for t in TAGS} for x in WORDS}
    return Toy(len(PHRASES), [m] * len(SYMBOLS), dict(form.c_1), dict(form.C), words)


# -- weights of all trees ---------------------------------------------------------------------


def tree_weights(toy: Toy, most: int) -> Array:
    """p(tau) of every tree with up to `most` binary rules (Figure 4), in a fixed order."""
    emissions = np.array([[toy.words[x][t] for x in WORDS] for t in TAGS])
    below = {(t, 0): emissions[t - len(PHRASES)] for t in TAGS}  # [n_trees, m] by label and size
    for size in range(1, most + 1):
        for a in PHRASES:
            below[a, size] = np.concatenate(
                [
                    np.einsum("hpq,ip,jq->ijh", C, below[b, k], below[c, size - 1 - k],
                              optimize=True).reshape(-1, C.shape[0])
                    for (parent, b, c), C in toy.rules.items()
                    for k in range(size)
                    if parent == a and (b, k) in below and (c, size - 1 - k) in below
                ]
                or [np.zeros((0, toy.n_states[a]))]
            )  # fmt: skip
    return np.concatenate([below[a, n] @ toy.root[a] for n in range(1, most + 1) for a in PHRASES])


def l1_gap(one: Toy, other: Toy, most: int = 1) -> float:
    """Sum over all trees with up to `most` binary rules of |p - p'|."""
    return float(np.abs(tree_weights(one, most) - tree_weights(other, most)).sum())


# -- samples ----------------------------------------------------------------------------------


class Nodes(NamedTuple):
    """Nodes of many trees, level by level; parents stand before children."""

    tree: Array
    label: Array
    parent: Array  # -1 at a root
    side: Array
    feature: Array  # number of the rule in the grammar, or of the word
    level: Array


def draw_nodes(toy: Toy, n: int, rng: np.random.Generator) -> Nodes:
    """Draw n trees at once, all nodes of a level together."""
    rules, m = np.array(list(toy.rules)), toy.n_states[0]
    choice = _cumulative(np.concatenate([toy.root[a] for a in PHRASES]))
    label, state = np.divmod(_pick(choice, n, rng), m)
    tree, parent, side = np.arange(n), np.full(n, -1), np.zeros(n, int)
    levels, n_before, depth = [], 0, 0
    while len(label):
        feature, states = _expand(toy, label, state, rng)
        levels.append(Nodes(tree, label, parent, side, feature, np.full(len(label), depth)))
        up = np.flatnonzero(label < len(PHRASES))
        tree, parent = np.tile(tree[up], 2), np.tile(n_before + up, 2)
        n_before, depth = n_before + len(label), depth + 1
        side = np.repeat([0, 1], len(up))
        label, state = rules[feature[up], 1:].T.ravel(), states[up].T.ravel()
    return Nodes(*[np.concatenate(column) for column in zip(*levels, strict=True)])


def _expand(toy: Toy, label: Array, state: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Rule or word of each node, and the states of its two children."""
    feature, states = np.zeros(len(label), int), np.zeros((len(label), 2), int)
    number = {rule: place for place, rule in enumerate(toy.rules)}
    for a in SYMBOLS:
        for h in range(toy.n_states[a]):
            at = np.flatnonzero((label == a) & (state == h))
            if a in TAGS:
                choice = _cumulative(np.array([toy.words[x][a][h] for x in WORDS]))
                feature[at] = _pick(choice, len(at), rng)
                continue
            own = inside_features(toy, a)
            choice = _cumulative(np.array([toy.rules[rule][h] for rule in own]).ravel())
            which, p, q = np.unravel_index(
                _pick(choice, len(at), rng), (len(own), *toy.rules[own[0]][h].shape)
            )
            feature[at] = np.array([number[rule] for rule in own])[which]
            states[at] = np.stack([p, q], axis=1)
    return feature, states


def _cumulative(weights: Array) -> Array:
    return np.cumsum(weights) / weights.sum()


def _pick(cumulative: Array, n: int, rng: np.random.Generator) -> Array:
    return np.minimum(np.searchsorted(cumulative, rng.random(n), "right"), len(cumulative) - 1)


def children(nodes: Nodes) -> tuple[Array, Array]:
    """Rows of the left and of the right child; -1 for leaves."""
    out = np.full((2, len(nodes.tree)), -1)
    below = np.flatnonzero(nodes.parent >= 0)
    out[nodes.side[below], nodes.parent[below]] = below
    return out[0], out[1]


def counted(toy: Toy, nodes: Nodes, weight: Array | None = None) -> Sums:
    """The sums of `sums`, over drawn trees, with a weight for each node."""
    w = np.ones(len(nodes.tree)) if weight is None else weight
    phi, psi, sizes = _numbers(toy, nodes)
    left, right = children(nodes)
    out: Sums = {}
    is_root = nodes.parent < 0
    for a in SYMBOLS:
        at = np.flatnonzero(nodes.label == a)
        omega = _table(w[at], sizes[a], phi[at], psi[at])
        out |= {("omega", a): omega, ("count", a): w[at].sum()}
        if a in TAGS:
            out |= {("word", a, x): omega[place] for place, x in enumerate(WORDS)}
        else:
            at = at[is_root[at]]
            out["root", a] = np.bincount(phi[at], w[at], sizes[a][0])
    out["trees",] = w[is_root].sum()
    key = np.where(nodes.label < len(PHRASES), nodes.feature, len(toy.rules))
    order = np.argsort(key, kind="stable")
    cuts = np.searchsorted(key[order], np.arange(len(toy.rules) + 1))
    for r, (a, b, c) in enumerate(toy.rules):
        at = order[cuts[r] : cuts[r + 1]]
        shape = sizes[a][1], sizes[b][0], sizes[c][0]
        out["rule", a, b, c] = _table(w[at], shape, psi[at], phi[left[at]], phi[right[at]])
    return out


def _table(weight: Array, shape: tuple[int, ...], *indices: Array) -> Array:
    flat = np.ravel_multi_index(indices, shape)
    return np.bincount(flat, weight, int(np.prod(shape))).reshape(shape)


def _numbers(toy: Toy, nodes: Nodes) -> tuple[Array, Array, dict[int, tuple[int, int]]]:
    """Numbers of phi and psi within their label, and how many there are of each."""
    n_rules = len(toy.rules)
    own, above = np.zeros(n_rules + 8, int), np.zeros((len(SYMBOLS), n_rules + 1, 2), int)
    number = {rule: place for place, rule in enumerate(toy.rules)}
    sizes = {}
    for a in SYMBOLS:
        inside, outside = inside_features(toy, a), outside_features(toy, a)
        sizes[a] = len(inside), len(outside)
        if a in PHRASES:
            own[[number[rule] for rule in inside]] = np.arange(len(inside))
        for place, (rule, side) in enumerate(outside[:-1]):
            above[a, number[rule], side] = place
        above[a, n_rules] = len(outside) - 1
    phi = np.where(nodes.label < len(PHRASES), own[nodes.feature], nodes.feature)
    over = np.where(nodes.parent < 0, n_rules, nodes.feature[nodes.parent])
    return phi, above[nodes.label, over, nodes.side], sizes


def packed(toy: Toy, nodes: Nodes) -> Treebank:
    """The drawn trees as a treebank."""
    n = len(nodes.tree)
    left, right = children(nodes)
    start, end = _spans(nodes, left, right)
    order = np.lexsort((-np.arange(n), nodes.tree))  # by tree, children first
    offsets = np.concatenate([[0], np.cumsum(np.bincount(nodes.tree))])
    row = np.empty(n + 1, int)
    row[order] = np.arange(n) - offsets[nodes.tree[order]]
    row[-1] = -1  # the row of no node
    is_leaf = nodes.label >= len(PHRASES)
    columns = {
        "label": nodes.label,
        "rule": np.where(is_leaf, -1, nodes.feature),
        "left": row[left],
        "right": row[right],
        "parent": row[nodes.parent],
        "word": np.where(is_leaf, nodes.feature, -1),
        "start": start,
        "end": end,
    }
    inventory = Inventory(
        tuple(Symbol((f"P{a}",)) for a in PHRASES), tuple(Symbol((f"T{t}",)) for t in TAGS),
        tuple(WORDS), np.array(list(toy.rules), np.int32), Transform(heads="generic"),
        np.zeros(len(toy.rules), np.int32),
    )  # fmt: skip
    return Treebank(
        inventory, offsets, **{k: column[order].astype(np.int32) for k, column in columns.items()}
    )


def _spans(nodes: Nodes, left: Array, right: Array) -> tuple[Array, Array]:
    width, start = np.ones(len(left), int), np.zeros(len(left), int)
    by_level = [np.flatnonzero((nodes.level == d) & (left >= 0)) for d in np.unique(nodes.level)]
    for at in reversed(by_level):
        width[at] = width[left[at]] + width[right[at]]
    for at in by_level:
        start[left[at]] = start[at]
        start[right[at]] = start[at] + width[left[at]]
    return start, start + width


# -- exact moments: Theorem 6 -----------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_exact_moments_give_exact_tree_probabilities(seed: int, m: int) -> None:
    """Theorems 3 and 6: tensors of equations 14 to 16 compute p(r_1 ... r_N) in Figure 4."""
    toy = random_lpcfg(seed, m, n_rules=9)
    form = observable_form(moments(sums(toy, 1.0)), m)
    assert l1_gap(toy, learnt(form, m), most=3) < EXACT


def test_the_expected_counts_are_those_of_samples() -> None:
    toy = random_lpcfg(0, 2, n_rules=9)
    n = 20_000
    exact, drawn = sums(toy, 1.0), counted(toy, draw_nodes(toy, n, np.random.default_rng(0)))
    for key, value in exact.items():
        # counts within six standard deviations; a node has few ancestors with the same features
        slack = 6 * np.sqrt(3 * value / n) + 10 / n
        assert (np.abs(drawn[key] / n - value) < slack).all(), key


def not_inverted(form: ObservableForm) -> ObservableForm:
    """A mutant that forgets Sigma^-1."""

    def times_sigma(a: int, tensor: Array) -> Array:
        return (tensor.T * form.s[a][: len(tensor)]).T

    return ObservableForm(
        {rule: times_sigma(rule[0], C) for rule, C in form.C.items()},
        {entry: times_sigma(entry[0], c) for entry, c in form.c_inf.items()},
        form.c_1, form.U, form.V, form.s,
    )  # fmt: skip


def sides_swapped(toy: Toy) -> FullMoments:
    """A mutant that takes the left child's features for the right child's."""
    right = moments(sums(toy, 1.0))
    rules = {r: D.transpose(0, 2, 1) if r[1] == r[2] else D for r, D in right.rules.items()}
    return FullMoments(right.omega, rules, right.words, right.root)


MUTANTS: dict[str, Callable[[Toy], ObservableForm]] = {
    "Sigma not inverted": lambda toy: not_inverted(observable_form(moments(sums(toy, 1.0)), 2)),
    "left and right swapped": lambda toy: observable_form(sides_swapped(toy), 2),
    "large trees weighed less": lambda toy: observable_form(moments(sums(toy, 0.99)), 2),
    "one node per tree": lambda toy: observable_form(moments(one_node_sums(toy)), 2),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_noticed(mutant: str) -> None:
    toy = random_lpcfg(0, 2, n_rules=16)
    assert l1_gap(toy, learnt(MUTANTS[mutant](toy), 2)) > 1e-3


def test_too_many_states_are_refused() -> None:
    """Lemma 7 needs m non-zero singular values; a grammar of two states has no third."""
    toy = random_lpcfg(0, 2, n_rules=9)
    with pytest.raises(NotIdentifiableError, match="rank 2") as caught:
        observable_form(moments(sums(toy, 1.0)), 3)
    assert caught.value.report.rank == 2
    assert caught.value.report.wanted == 3


def posteriors(toy: Toy, words: list[str]) -> dict[tuple[int, int, int], float]:
    """mu(a, i, j) / Z by the library's charts, nothing pruned."""
    parsed = parse_forest(toy.grammar(), words, threshold=0.0, beam=0.0)
    assert parsed is not None
    columns = (parsed.forest.symbol, parsed.forest.start, parsed.forest.end, parsed.items)
    return {(a, i, j): p for a, i, j, p in zip(*(c.tolist() for c in columns), strict=True)}


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("words", [WORDS[:2], WORDS[2:5], WORDS[:4], WORDS[3:]], ids=len)
def test_marginals_of_figure_5(words: list[str], m: int) -> None:
    """Theorem 3: the algorithm in Figure 5 correctly computes the marginals mu(a, i, j)."""
    toy = random_lpcfg(1, m, n_rules=6)
    weighted = listing.weighted_trees(*toy.floats(words))
    total = listing.sentence_weight(weighted)
    expected = {span: mu / total for span, mu in listing.marginals(weighted).items()}
    model = learnt(observable_form(moments(sums(toy, 1.0)), m), m)
    found = posteriors(model, words)
    assert any((C < -1e-3).any() for C in model.rules.values())  # not the basis of the states
    assert {span: found[span] for span in expected} == pytest.approx(expected, rel=0, abs=1e-9)
    assert all(abs(p) < 1e-9 for span, p in found.items() if span not in expected)


def test_marginals_of_a_mutant_differ() -> None:
    toy, words = random_lpcfg(1, 2, n_rules=6), WORDS[:4]
    wrong = learnt(MUTANTS["Sigma not inverted"](toy), 2)
    right = posteriors(toy, words)
    assert max(abs(p - right.get(span, 0.0)) for span, p in posteriors(wrong, words).items()) > 0.01


# -- samples ----------------------------------------------------------------------------------


def sampled_error(seed: int, m: int, n: int, *, one_node: bool = False) -> float:
    """L1 error over the trees with one binary rule, learnt from n trees."""
    toy = random_lpcfg(seed, m)
    rng = np.random.default_rng([seed, n])
    nodes = draw_nodes(toy, n, rng)
    weight = _one_per_tree(nodes, rng) if one_node else None
    form = observable_form(moments(counted(toy, nodes, weight)), m, tolerance=0.0)
    return l1_gap(toy, learnt(form, m))


def _one_per_tree(nodes: Nodes, rng: np.random.Generator) -> Array:
    weight = np.zeros(len(nodes.tree))
    order = np.lexsort((rng.random(len(weight)), nodes.tree))
    weight[order[np.unique(nodes.tree[order], return_index=True)[1]]] = 1.0
    return weight


@pytest.mark.parametrize(("m", "published"), [(2, [0.28, 0.10, 0.033]), (3, [0.50, 0.15, 0.048])])
def test_errors_fall_with_the_root_of_the_number_of_trees(m: int, published: list[float]) -> None:
    """Theorem 8: M trees give an error of the order of 1 / sqrt(M)."""
    sizes = [1_000, 10_000, 100_000]
    errors = [float(np.median([sampled_error(seed, m, n) for seed in range(3)])) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    # medians of three runs that differ by some 10 %, over a factor of 100: the slope by 0.05
    assert slope == pytest.approx(-0.5, abs=0.1)
    assert all(0.5 < found / known < 2.0 for found, known in zip(errors, published, strict=True))


def test_one_node_per_tree_is_inconsistent() -> None:
    """The limit of SPECTRAL's own sampling: Omega has a rank above m, and the error stays."""
    toy = random_lpcfg(0, 2)
    limit = observable_form(moments(one_node_sums(toy)), 2)
    assert l1_gap(toy, learnt(limit, 2)) > 0.05
    assert min(limit.s[a][2] for a in PHRASES) > 1e-5  # a third state that is none
    exact = observable_form(moments(sums(toy, 1.0)), 2)
    assert max(values[2] for values in exact.s.values()) < 1e-14


def test_one_node_per_tree_stops_improving() -> None:
    """The same by samples: the error approaches its limit, where that of all nodes is far below."""
    toy = random_lpcfg(0, 2)
    limit = l1_gap(toy, learnt(observable_form(moments(one_node_sums(toy)), 2), 2))
    found = sampled_error(0, 2, 100_000, one_node=True)
    assert found == pytest.approx(limit, rel=0.2)  # noise of the size that all nodes leave: 0.03
    assert found > 4 * sampled_error(0, 2, 100_000)


# -- the estimator ----------------------------------------------------------------------------


def rule_or_word(table: NodeTable) -> Column:
    return np.where(table.rule >= 0, table.rule, table.word)


def estimated(toy: Toy, nodes: Nodes, m: int, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """The bare algorithm of Figure 7 by `SpectralLPCFG`: no scaling, smoothing or sharing."""
    # the cut at 0.01 is meant for scaled features; without scaling the values are far smaller
    monkeypatch.setattr(spectral, "LEAST_VALUE", 0.0)
    learner = SpectralLPCFG(
        m, inside_features=[rule_or_word], outside_features=["rule_above"], scaled=False,
        shrinkage=0.0, word_trust=1.0,
        plain=PCFG(lexicon=LexiconSettings(sharing=0.0, class_weight=0.0)),
    )  # fmt: skip
    model = learner.fit(packed(toy, nodes)).model_
    assert set(model.n_states.tolist()) == {m}
    return toy_of(model, toy)


def toy_of(model: LatentGrammar, toy: Toy) -> Toy:
    """A learnt grammar with the rules of the truth, in their order; all labels have m states."""
    m, lexicon = int(model.n_states[0]), model.lexicon
    words: dict[str, dict[int, Array]] = {x: {t: np.zeros(m) for t in TAGS} for x in WORDS}
    for row, x in enumerate(lexicon.words):
        for entry in range(lexicon.row_start[row], lexicon.row_start[row + 1]):
            first, last = lexicon.weight_start[entry : entry + 2]
            words[x][3 + int(lexicon.entry_tag[entry])] = lexicon.weights[first:last]
    rules = {rule: np.zeros((m, m, m)) for rule in toy.rules}  # in the order of the truth
    rules |= {tuple(rule): model.tensor(r) for r, rule in enumerate(model.rules.tolist())}
    root = {a: model.root_vector(a) for a in PHRASES}
    return Toy(len(PHRASES), [m] * len(SYMBOLS), root, rules, words)


@pytest.mark.parametrize("m", [2, 3])
def test_the_estimator_is_the_observable_form_of_its_sample(
    m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = random_lpcfg(0, m, n_rules=9)  # at most m + 10 features: the random projection is exact
    nodes = draw_nodes(toy, 3_000, np.random.default_rng(0))
    form = observable_form(moments(counted(toy, nodes)), m)
    assert l1_gap(learnt(form, m), estimated(toy, nodes, m, monkeypatch), most=2) < 1e-9


def test_the_estimator_converges(monkeypatch: pytest.MonkeyPatch) -> None:
    toy, m = random_lpcfg(0, 2), 2
    for n, known in ((1_000, 0.28), (10_000, 0.10), (100_000, 0.033)):
        nodes = draw_nodes(toy, n, np.random.default_rng(n))
        assert 0.5 < l1_gap(toy, estimated(toy, nodes, m, monkeypatch)) / known < 2.0


def test_drawn_trees_are_packed_as_the_reader_packs_them() -> None:
    toy = random_lpcfg(0, 2, n_rules=9)
    bank = packed(toy, draw_nodes(toy, 50, np.random.default_rng(0)))
    again = Treebank.from_trees(bank.trees(), bank.inventory.transform)
    assert list(again.trees()) == list(bank.trees())
    for name in ("start", "end"):
        assert sorted(getattr(again, name)) == sorted(getattr(bank, name))
