"""Random grammars whose moments are known exactly, and samples of their nodes."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from tests.linalg.exact_spectral import FullMoments, ObservableForm, observable_form
from tests.toys import Toy

from sapwood.constituency.data.transform import Inventory, Symbol, Transform
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn.features import Column, NodeTable
from sapwood.core.errors import NotIdentifiableError

PHRASES, TAGS, WORDS = range(3), range(3, 7), [f"w{x}" for x in range(8)]
SYMBOLS = range(7)
Array = np.ndarray
Sums = dict[tuple[Any, ...], Array]


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


def rule_or_word(table: NodeTable) -> Column:
    return np.where(table.rule >= 0, table.rule, table.word)


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
