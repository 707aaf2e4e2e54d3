"""Log-linear models over forests against enumeration; features and AdaGrad against plain twins."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from math import comb
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference import enumerate as listing
from tests.reference.enumerate import Node
from tests.reference.span_trees import binary_spans
from tests.toys import Toy, parse_forest, plain_toys, random_toy, sentences

from sapwood.constituency.parse.charts import ForestPosteriors
from sapwood.constituency.parse.kernels import span_features as kernel
from sapwood.constituency.parse.kernels.forest import Forest
from sapwood.constituency.parse.kernels.span_trees import best_spans, span_marginals
from sapwood.core.arrays import cell
from sapwood.core.kernels import adagrad
from sapwood.core.kernels.adagrad import adagrad_rows

EVERYTHING = 5e-324  # keeps every item of positive posterior
# Sums of some hundred exponentials of numbers near 1.
RTOL = 1e-10
WORDS = ["w0", "w1", "w2", "w0", "w1"]
LARGE = np.uint64(0xFFFFFFFF)  # a table so large that two features of a test hardly share a place
PROPERTIES = kernel.N_PROPERTIES
Array = np.ndarray
Kernel = Callable[..., Any]


def charted(toy: Toy, words: list[str], threshold: float = EVERYTHING) -> ForestPosteriors:
    parsed = parse_forest(toy.grammar(), words, threshold)
    assert parsed is not None
    return parsed


class Scored(NamedTuple):
    """A forest with scores."""

    forest: Forest
    roots: Array
    items: Array
    edges: Array


def scored(parsed: ForestPosteriors, rng: np.random.Generator, size: float = 1.0) -> Scored:
    forest = parsed.pruned.forest
    items, edges = (
        size * rng.normal(size=len(forest.symbol)),
        size * rng.normal(size=len(forest.head)),
    )
    return Scored(forest, parsed.pruned.roots, items, edges)


# -- the slow twin: every tree of a forest ----------------------------------------------------

Places = tuple[tuple[int, ...], tuple[int, ...]]  # items and edges of a tree


def trees_of(forest: Forest, item: int) -> Iterator[Places]:
    """Every derivation of an item, one by one."""
    if forest.end[item] - forest.start[item] == 1:
        yield (item,), ()
    for e in np.flatnonzero(forest.head == item).tolist():
        below = (trees_of(forest, int(side[e])) for side in (forest.left, forest.right))
        for (x, d), (y, f) in product(*map(list, below)):
            yield (item, *x, *y), (e, *d, *f)


def by_enumeration(model: Scored) -> tuple[float, Array, Array]:
    """Log of the partition sum and posteriors, tree by tree, from the largest score down."""
    items, edges = np.zeros(len(model.items)), np.zeros(len(model.edges))
    trees = [tree for root in model.roots.tolist() for tree in trees_of(model.forest, root)]
    if not trees:
        return -np.inf, items, edges
    logs = np.array([model.items[list(x)].sum() + model.edges[list(e)].sum() for x, e in trees])
    weights = np.exp(logs - logs.max())
    for (x, e), p in zip(trees, weights / weights.sum(), strict=True):
        items[list(x)] += p
        edges[list(e)] += p
    return float(logs.max() + np.log(weights.sum())), items, edges


def is_right(function: Kernel, model: Scored) -> bool:
    """Whether a function gives what enumeration gives."""
    found, expected = function(*model), by_enumeration(model)
    return all(
        np.allclose(a, b, rtol=RTOL, atol=1e-12) for a, b in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("size", [0.0, 1.0, 5.0])
@pytest.mark.parametrize("seed", range(4))
def test_partition_and_posteriors_are_those_of_enumeration(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    model = scored(charted(random_toy(rng, density=0.4), WORDS), rng, size)
    assert sum(1 for root in model.roots for _ in trees_of(model.forest, root)) > 20
    assert is_right(kernel.log_linear_posteriors, model)


@pytest.mark.parametrize("seed", range(3))
def test_trees_are_those_of_the_grammar(seed: int) -> None:
    """A second way, past the forest's edges: trees of the reference, scored by their spans."""
    rng = np.random.default_rng(seed)
    toy = random_toy(rng, density=0.4)
    grammar = toy.grammar()
    model = scored(charted(toy, WORDS), rng)
    forest = model.forest
    at = [x.tolist() for x in (forest.symbol, forest.start, forest.end)]
    item = {key: x for x, key in enumerate(zip(*at, strict=True))}
    places = zip(
        grammar.rules[forest.rule].tolist(), forest.start[forest.head].tolist(),
        forest.end[forest.left].tolist(), forest.end[forest.head].tolist(), strict=True,
    )  # fmt: skip
    edge = {(*rule, i, k, j): e for e, (rule, i, k, j) in enumerate(places)}

    def log_weight(tree: Node) -> float:
        spans = (model.items[item[span]] for span in listing.spans(tree))
        return float(sum(spans) + sum(model.edges[edge[e]] for e in listing.edges(tree)))

    root, rules, emissions = toy.floats(WORDS)
    trees = [tree for tree in listing.all_trees(rules, emissions) if tree.symbol in root]
    weighted = [(tree, np.exp(log_weight(tree))) for tree in trees]
    total, items, edges = kernel.log_linear_posteriors(*model)
    expected = listing.sentence_weight(weighted)
    np.testing.assert_allclose(total, np.log(expected), rtol=RTOL)
    for span, weight in listing.marginals(weighted).items():
        np.testing.assert_allclose(items[item[span]], weight / expected, rtol=RTOL)
    for place, weight in listing.rule_marginals(weighted).items():
        np.testing.assert_allclose(edges[edge[place]], weight / expected, rtol=RTOL)


def test_without_scores_all_trees_are_alike() -> None:
    """One phrase and one tag: the partition sum counts Catalan's trees."""
    one = np.ones((1, 1, 1))
    rules = {(0, b, c): one for b in (0, 1) for c in (0, 1)}
    toy = Toy(1, [1, 1], {0: np.ones(1)}, rules, {"w0": {1: np.ones(1)}})
    for n, catalan in ((2, 1), (3, 2), (4, 5), (8, 429), (12, 58786)):
        parsed = charted(toy, ["w0"] * n)
        pruned, n_items, n_edges = parsed.pruned, len(parsed.items), len(parsed.edges)
        total, items, edges = kernel.log_linear_posteriors(
            pruned.forest, pruned.roots, np.zeros(n_items), np.zeros(n_edges)
        )
        assert total == pytest.approx(np.log(catalan), abs=1e-12)
        assert edges.sum() == pytest.approx(n - 1)
        assert items.sum() == pytest.approx(2 * n - 1)


@given(data=st.data(), threshold=st.sampled_from([EVERYTHING, 0.05, 0.3, 0.9]))
def test_any_forest(data: st.DataObject, threshold: float) -> None:
    """Pruned ones too: items that nothing builds, no whole tree, several roots."""
    toy = data.draw(plain_toys())
    parsed = parse_forest(toy.grammar(), data.draw(sentences(toy, most=5)), threshold)
    if parsed is None:
        return
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    assert is_right(kernel.log_linear_posteriors, scored(parsed, rng))


def test_a_forest_without_a_whole_tree() -> None:
    parsed = charted(random_toy(np.random.default_rng(1)), WORDS)
    forest = parsed.pruned.forest
    kept = np.flatnonzero(forest.end[forest.head] - forest.start[forest.head] < len(WORDS))
    cut = forest._replace(
        **{n: getattr(forest, n)[kept] for n in ("head", "left", "right", "rule")}
    )
    items, edges = np.ones(len(forest.symbol)), np.ones(len(kept))
    total, p, q = kernel.log_linear_posteriors(cut, parsed.pruned.roots, items, edges)
    assert total == -np.inf
    assert not p.any()
    assert not q.any()
    no_roots = np.empty(0, np.int64)
    all_edges = np.ones(len(forest.head))
    assert kernel.log_linear_posteriors(forest, no_roots, items, all_edges)[0] == -np.inf


@pytest.mark.parametrize("size", [1e3, 1e5])
def test_large_scores_do_not_overflow(size: float) -> None:
    rng = np.random.default_rng(0)
    model = scored(charted(random_toy(rng), WORDS), rng, size)
    total, items, edges = kernel.log_linear_posteriors(*model)
    assert np.isfinite(total)
    for p in (items, edges):
        assert (p >= 0).all()
        assert (p <= 1 + 1e-9).all()
    # Differences of sums of such size lose ten digits of the posteriors, not more.
    expected = by_enumeration(model)
    np.testing.assert_allclose(total, expected[0], rtol=1e-12)
    np.testing.assert_allclose(items, expected[1], atol=1e-6)


def test_a_score_on_all_trees_changes_nothing() -> None:
    """Every tree has n - 1 edges: what is added to all edges is a constant."""
    rng = np.random.default_rng(2)
    model = scored(charted(random_toy(rng), WORDS), rng)
    more = model._replace(edges=model.edges + 3.0)
    one, other = (kernel.log_linear_posteriors(*m) for m in (model, more))
    assert other[0] == pytest.approx(one[0] + 3.0 * (len(WORDS) - 1))
    np.testing.assert_allclose(other[1], one[1], rtol=1e-9)
    np.testing.assert_allclose(other[2], one[2], rtol=1e-9)


# -- mutants ----------------------------------------------------------------------------------


def mutated(
    old: str, new: str, name: str = "log_linear_posteriors", module: Any = kernel
) -> Kernel:
    """A kernel with one place of its source changed."""
    function = getattr(module, name)
    source = textwrap.dedent(inspect.getsource(getattr(function, "py_func", function)))
    source = source[source.index("def ") :]
    assert source.count(old) == 1, old
    scope = dict(vars(module))
    exec(source.replace(old, new), scope)
    mutant: Kernel = scope[name]
    return mutant


MUTANTS = {
    "sides swapped": ("outside[y], above + inside[z]", "outside[y], above + inside[y]"),
    "right child forgotten": ("+ inside[forest.left[e]] + inside[forest.right[e]]",
                              "+ inside[forest.left[e]]"),
    "head's score forgotten": ("outside[x] + item_score[x] + edge_score[e]",
                               "outside[x] + edge_score[e]"),
    "first edge forgotten": ("e = n_edges - 1 - back", "e = n_edges - 1 - min(back, n_edges - 2)"),
    "best instead of sum": ("inside[x] = _log_add(inside[x], score)",
                            "inside[x] = max(inside[x], score)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_rejected(name: str) -> None:
    rng = np.random.default_rng(0)
    model = scored(charted(random_toy(rng), WORDS), rng)
    assert is_right(mutated("total = -np.inf", "total = -np.inf"), model)  # the source as it is
    assert not is_right(mutated(*MUTANTS[name]), model)


# -- scores, gradients, AdaGrad ---------------------------------------------------------------


def test_scores_are_sums_of_weights() -> None:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 16, (40, 5)).astype(np.uint32)  # some occur twice in a row
    weights = rng.normal(size=16)
    expected = [sum(weights[f] for f in row) for row in features.tolist()]
    np.testing.assert_allclose(kernel.scores(features, weights), expected, rtol=1e-13)
    single = weights.astype(np.float32)
    np.testing.assert_allclose(kernel.scores(features, single), expected, atol=1e-6)


class Hashed(NamedTuple):
    """A forest with features in a small table, and one of its trees as the right one."""

    parsed: ForestPosteriors
    of_items: Array
    of_edges: Array
    right_items: Array
    right_edges: Array
    size: int


def hashed_model(seed: int, size: int = 64) -> Hashed:
    rng = np.random.default_rng(seed)
    parsed = charted(random_toy(rng, density=0.4), WORDS)
    forest, mask = parsed.pruned.forest, np.uint64(size - 1)
    seen = rng.integers(0, 1 << 40, (len(WORDS) + 2, PROPERTIES)).astype(np.uint64)
    with np.errstate(over="ignore"):
        of_items = kernel.item_features(forest.symbol, forest.start, forest.end, seen, mask)
        of_edges = kernel.edge_features(forest, seen, mask)
    trees = list(trees_of(forest, int(parsed.pruned.roots[0])))
    x, e = trees[seed % len(trees)]
    right_items, right_edges = np.zeros(len(forest.symbol)), np.zeros(len(forest.head))
    right_items[list(x)], right_edges[list(e)] = 1.0, 1.0
    return Hashed(parsed, of_items, of_edges, right_items, right_edges, size)


def log_prob(model: Hashed, w: Array) -> tuple[float, Array, Array]:
    """Log-probability of the right tree, and right less expected of items and of edges."""
    of_items, of_edges = kernel.scores(model.of_items, w), kernel.scores(model.of_edges, w)
    total, items, edges = kernel.log_linear_posteriors(
        model.parsed.pruned.forest, model.parsed.pruned.roots, of_items, of_edges
    )
    right = of_items @ model.right_items + of_edges @ model.right_edges
    return float(right - total), model.right_items - items, model.right_edges - edges


@pytest.mark.parametrize("seed", range(3))
def test_right_less_expected_is_the_gradient(seed: int) -> None:
    """By central differences, in a table so small that most features share their places."""
    model = hashed_model(seed)
    w = np.random.default_rng(seed).normal(size=model.size) * 0.3
    _, items, edges = log_prob(model, w)
    gradient = np.zeros(model.size)
    np.add.at(gradient, model.of_items, items[:, None])
    np.add.at(gradient, model.of_edges, edges[:, None])
    step = 1e-5  # error of about step^2, and of 1e-15 / step by rounding
    for f in range(model.size):
        e = np.zeros(model.size)
        e[f] = step
        slope = (log_prob(model, w + e)[0] - log_prob(model, w - e)[0]) / (2 * step)
        np.testing.assert_allclose(slope, gradient[f], atol=1e-7)
    assert np.abs(gradient).max() > 0.1


def adagrad_by_feature(
    features: Array, residue: Array, weights: Array, squares: Array, rate: float
) -> tuple[Array, Array]:
    """The twin: all slopes of one feature in a row, with running sums of their squares."""
    weights, squares = weights.copy(), squares.copy()
    slopes = np.repeat(residue, features.shape[1])
    for f in np.unique(features).tolist():
        mine = slopes[features.ravel() == f]
        running = squares[f] + np.cumsum(mine**2)
        weights[f] += np.sum(rate * mine / np.sqrt(running))
        squares[f] = running[-1]
    return weights, squares


@given(seed=st.integers(0, 999), n_features=st.sampled_from([2, 8, 1000]))
def test_adagrad_is_its_twin(seed: int, n_features: int) -> None:
    rng = np.random.default_rng(seed)
    features = rng.integers(0, n_features, (12, 3)).astype(np.uint32)
    residue = rng.normal(size=12) * (rng.random(12) < 0.7)
    weights, squares = rng.normal(size=n_features), rng.uniform(0.01, 2.0, n_features)
    expected = adagrad_by_feature(features, residue, weights, squares, 0.1)
    untouched = np.setdiff1d(np.arange(n_features), features[residue != 0])
    before = weights[untouched].copy(), squares[untouched].copy()
    late = (weights.copy(), squares.copy())
    adagrad_rows(features, residue, weights, squares, 0.1)
    np.testing.assert_allclose(weights, expected[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(squares, expected[1], rtol=1e-12)
    assert np.array_equal(weights[untouched], before[0])
    assert np.array_equal(squares[untouched], before[1])
    # The mutant divides by the sum before the step.
    mutant = mutated("weights[f] += rate * slope / np.sqrt(squares[f])",
                     "weights[f] += rate * slope / np.sqrt(squares[f] - slope * slope)",
                     "adagrad_step", adagrad)  # fmt: skip
    for row, slope in zip(features, residue, strict=True):
        for f in row if slope else ():
            mutant(f, slope, *late, 0.1)
    assert not residue.any() or not np.allclose(late[0], expected[0], rtol=1e-9)


def test_steps_raise_the_probability_of_the_right_tree() -> None:
    model = hashed_model(0, size=1 << 12)
    weights, squares = np.zeros(model.size), np.full(model.size, 1e-2)
    logs = []
    for _ in range(20):
        log, items, edges = log_prob(model, weights)
        logs.append(log)
        adagrad_rows(model.of_items, items, weights, squares, 0.05)
        adagrad_rows(model.of_edges, edges, weights, squares, 0.05)
    assert all(b > a for a, b in pairwise(logs))
    assert np.exp(logs[0]) < 0.1
    assert np.exp(logs[-1]) > 0.9


# -- features ---------------------------------------------------------------------------------


class Spans(NamedTuple):
    """All labelled spans of a sentence, and the properties of its words."""

    symbol: Array
    start: Array
    end: Array
    seen: Array

    @property
    def n(self) -> int:
        return len(self.seen) - 2

    def features(self, mask: np.uint64 = LARGE) -> Array:
        with np.errstate(over="ignore"):  # hashing overflows on purpose; NumPy warns, Numba not
            return np.asarray(
                kernel.item_features(self.symbol, self.start, self.end, self.seen, mask)
            )


def all_spans(n: int, seed: int = 0) -> Spans:
    rng = np.random.default_rng(seed)
    seen = rng.integers(0, 1 << 40, (n + 2, PROPERTIES)).astype(np.uint64)
    spans = [(a, i, j) for a in range(3) for i in range(n) for j in range(i + 1, n + 1)]
    columns = (np.array(column, np.uint32) for column in zip(*spans, strict=True))
    return Spans(*columns, seen)


def hashed(template: int, what: int, one: int, two: int, mask: int) -> int:
    """The hash in integers without bounds, cut to 64 bits after each step."""
    full = (1 << 64) - 1
    a, b, c, d = (int(x) for x in (kernel._A, kernel._B, kernel._C, kernel._D))
    h = ((template + 64 * what) * a & full) ^ (one * b & full) ^ (two * c & full)
    h = (h ^ (h >> 29)) * d & full
    return (h ^ (h >> 32)) & mask


def length_class(length: int) -> int:
    return next(
        (k for k, most in enumerate((1, 2, 3, 4, 5, 7, 10, 15, 25), 1) if length <= most), 10
    )


def item_twin(a: int, i: int, j: int, seen: list[list[int]]) -> list[tuple[int, int, int]]:
    """Templates of an item with their values, as the module's table of templates reads."""
    word, ending, short, shape, lower, beginning = range(PROPERTIES)
    first, last, before, after = seen[i + 1], seen[j], seen[i], seen[j + 1]
    if j - i == 1:
        alone = [(20, first[word]), (21, first[ending]), (22, first[short]), (23, first[shape]),
                 (24, first[lower]), (25, first[beginning]), (26, before[word]), (27, after[word]),
                 (28, before[ending]), (29, after[ending])]  # fmt: skip
        pairs = [(30, before[word], first[word]), (31, first[word], after[word]),
                 (32, before[word], first[ending]), (33, first[ending], after[word]),
                 (34, first[shape], before[shape]), (35, 0, 0)]  # fmt: skip
        return [(t, x, 0) for t, x in alone] + pairs
    length, profile = length_class(j - i), 0
    for k in range(i + 1, min(j, i + 8) + 1):
        profile = (profile * 31 + seen[k][shape] + 1) % (1 << 64)
    alone = [(0, 0), (1, length), (2, first[word]), (3, last[word]), (4, before[word]),
             (5, after[word]), (6, first[ending]), (7, last[ending]), (8, before[ending]),
             (9, after[ending])]  # fmt: skip
    pairs = [(10, before[word], after[word]), (11, first[word], last[word]),
             (12, first[word], after[word]), (13, before[word], first[word]),
             (14, profile, length), (15, last[word], after[word])]  # fmt: skip
    return [(t, x, 0) for t, x in alone] + pairs


@pytest.mark.parametrize("bits", [4, 22])
def test_features_of_items_are_their_twins(bits: int) -> None:
    spans, mask = all_spans(30), (1 << bits) - 1
    found = spans.features(np.uint64(mask))
    seen = spans.seen.tolist()
    columns = (spans.symbol.tolist(), spans.start.tolist(), spans.end.tolist())
    for row, (a, i, j) in zip(found.tolist(), zip(*columns, strict=True), strict=True):
        assert row == [hashed(t, a, x, y, mask) for t, x, y in item_twin(a, i, j, seen)]


def test_features_of_edges_are_their_twins() -> None:
    parsed = charted(random_toy(np.random.default_rng(0)), ["w0"] * 8)
    forest, mask = parsed.pruned.forest, (1 << 22) - 1
    seen = np.random.default_rng(1).integers(0, 1 << 40, (10, PROPERTIES))
    with np.errstate(over="ignore"):
        found = kernel.edge_features(forest, seen.astype(np.uint64), np.uint64(mask))
    word, ending = seen[:, kernel.WORD].tolist(), seen[:, kernel.ENDING].tolist()
    columns = (forest.rule, forest.start[forest.head], forest.end[forest.left],
               forest.end[forest.head])  # fmt: skip
    for row, place in zip(found.tolist(), zip(*columns, strict=True), strict=True):
        r, i, k, j = (int(x) for x in place)  # row k of `seen` is the word before the split
        sizes = length_class(k - i) * 16 + length_class(j - k)
        values = [(40, 0, 0), (41, sizes, 0), (42, word[k], 0), (43, word[k + 1], 0),
                  (44, ending[k], 0), (45, ending[k + 1], 0), (46, word[i + 1], 0),
                  (47, word[j], 0), (48, word[i + 1], word[k + 1])]  # fmt: skip
        assert row == [hashed(t, r, x, y, mask) for t, x, y in values]


@pytest.mark.parametrize("bits", [0, 1, 7, 22])
def test_features_lie_in_the_table(bits: int) -> None:
    found = all_spans(20).features(np.uint64((1 << bits) - 1))
    assert found.dtype == np.uint32
    assert found.max() < 1 << bits


def test_features_spread_over_the_table() -> None:
    """As many places as keys drawn at random would take, to three standard deviations."""
    distinct = np.unique(all_spans(40).features())
    n, size = len(distinct), 1 << 16
    taken = len(np.unique(distinct & np.uint32(size - 1)))
    empty = (1 - 1 / size) ** n
    expected, spread = size * (1 - empty), np.sqrt(size * empty)
    assert n > 5000
    assert abs(taken - expected) < 3 * spread


def test_labels_share_no_features() -> None:
    spans = all_spans(9)
    by_symbol = [set(spans.features()[spans.symbol == a].ravel().tolist()) for a in range(3)]
    assert not by_symbol[0] & by_symbol[1]
    assert not by_symbol[1] & by_symbol[2]
    assert all(len(set(row)) == kernel.N_ITEM for row in spans.features().tolist())


@pytest.mark.parametrize("row", range(14))
def test_items_see_the_words_at_and_around_their_ends(row: int) -> None:
    """Another word in one place changes just the features of the spans that see it."""
    spans = all_spans(12)
    seen = spans.seen.copy()
    seen[row] += np.uint64(1)
    changed = (spans.features() != spans._replace(seen=seen).features()).sum(axis=1)
    first, last = spans.start.astype(int) + 1, spans.end.astype(int)
    is_profiled = (first <= row) & (row <= np.minimum(last, first + 7)) & (last > first)
    at_ends = (row == first) | (row == last) | (row == first - 1) | (row == last + 1)
    assert np.array_equal(changed > 0, at_ends | is_profiled)
    inside_only = is_profiled & ~at_ends
    assert (changed[inside_only] == 1).all()
    assert (changed[at_ends] >= 4).all()


@pytest.mark.parametrize("row", range(8))
def test_edges_see_words_inside_them_only(row: int) -> None:
    forest = charted(random_toy(np.random.default_rng(0)), ["w0"] * 6).pruned.forest
    seen = np.random.default_rng(1).integers(0, 1 << 40, (8, PROPERTIES)).astype(np.uint64)
    other = seen.copy()
    other[row] += np.uint64(1)
    with np.errstate(over="ignore"):
        one, two = (kernel.edge_features(forest, s, LARGE) for s in (seen, other))
    changed = (one != two).any(axis=1)
    k = forest.end[forest.left].astype(int)
    first, last = forest.start[forest.head].astype(int) + 1, forest.end[forest.head].astype(int)
    expected = (row == first) | (row == last) | (row == k) | (row == k + 1)
    assert np.array_equal(changed, expected)
    assert changed.any() == (1 <= row <= 6)  # never the borders


def test_lengths_are_told_apart_less_and_less() -> None:
    lengths = list(range(1, 200))
    assert [int(kernel._length_class(n)) for n in lengths] == [length_class(n) for n in lengths]


sizes = st.integers(1, 6)
# Sums of at most 42 trees of a dozen numbers around 1.
ATOL = 1e-11


def random_weights(n: int, seed: int, scale: float = 2.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).normal(size=n * (n + 1) // 2)


def total(weight: np.ndarray, spans: list[tuple[int, int]], n: int) -> float:
    return float(sum(weight[cell(i, j, n)] for i, j in spans))


@given(sizes, st.integers(0, 10**6), st.sampled_from([0.0, 2.0, 300.0]))
def test_shares_are_those_of_all_trees(n: int, seed: int, scale: float) -> None:
    weight = random_weights(n, seed, scale)
    trees = binary_spans(0, n)
    logs = np.array([total(weight, spans, n) for spans in trees])
    log_total, shares = span_marginals(weight, n)
    expected = np.logaddexp.reduce(logs)
    assert log_total == pytest.approx(expected, abs=ATOL * max(1.0, scale))
    of_tree, found = np.exp(logs - expected), np.zeros(len(weight))
    for spans, p in zip(trees, of_tree, strict=True):
        for i, j in spans:
            found[cell(i, j, n)] += p
    np.testing.assert_allclose(shares, found, atol=ATOL * max(1.0, scale))


@given(sizes, st.integers(0, 10**6))
def test_the_best_tree_is_the_best_of_all(n: int, seed: int) -> None:
    gain = random_weights(n, seed)
    rows = best_spans(gain, n).tolist()
    spans = [(i, j) for i, j, _ in rows]
    assert sorted(spans) in [sorted(tree) for tree in binary_spans(0, n)]
    best = max(total(gain, tree, n) for tree in binary_spans(0, n))
    assert total(gain, spans, n) == pytest.approx(best, abs=ATOL)
    for place, (i, j, k) in enumerate(rows):
        assert (k == 0) == (j - i == 1)
        if k:
            assert min(spans.index((i, k)), spans.index((k, j))) > place


def test_without_weights_trees_are_counted() -> None:
    n = 12
    log_total, shares = span_marginals(np.zeros(n * (n + 1) // 2), n)
    assert np.exp(log_total) == pytest.approx(comb(2 * n - 2, n - 1) // n, rel=1e-12)
    assert shares.sum() == pytest.approx(2 * n - 1, rel=1e-12)
