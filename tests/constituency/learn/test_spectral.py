"""`SpectralLPCFG`: projections, sums over nodes, and the grammar."""

from __future__ import annotations

from functools import reduce
from operator import add
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.constituency.learn.judging import f1, is_same
from tests.shards import rows_of, shards_of

import sapwood as sw
from sapwood.constituency.data import treebank
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.features import (
    ENOUGH,
    FEW,
    LEAST_VALUE,
    FeatureRows,
    FeatureSettings,
    FeatureSpace,
    NodeProjection,
    NodeTable,
    SingularVectors,
    covariance_product,
    project_nodes,
    states_by_label,
)
from sapwood.constituency.learn.spectral import (
    ProjectedSums,
    RuleLayout,
    RuleSums,
    SpectralLPCFG,
    rule_layout,
)
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.errors import SapwoodError
from sapwood.execute import Threads, tree_sum

REAL_VECTORS = SingularVectors.vectors


@pytest.fixture(scope="module")
def learner(train: Treebank) -> SpectralLPCFG:
    return SpectralLPCFG(8).fit(train)


def gaps(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Differences of log-weights, where both are finite."""
    both = np.isfinite(one) & np.isfinite(other)
    return np.abs(one[both] - other[both])


def test_states_help(train: Treebank, dev: Treebank, learner: SpectralLPCFG) -> None:
    """Measured: plain 90.5; 92.7, 94.3 and 95.1 with 2, 4 and 8 states."""
    plain = f1(sw.PCFG().fit(train).model_, dev)
    two, four = (f1(SpectralLPCFG(m).fit(train).model_, dev) for m in (2, 4))
    eight = f1(learner.model_, dev)
    assert plain + 1 < two < four < eight
    assert eight > plain + 3.5


@pytest.mark.parametrize("m", [1, 2, 3, 5, 8])
def test_any_number_of_states(m: int, train: Treebank, dev: Treebank) -> None:
    started = process_time()
    model = SpectralLPCFG(m).fit(train).model_
    assert process_time() - started < 10  # half a second on any machine of the last ten years
    assert model.n_states.max() == m
    assert model.is_probabilistic == (m == 1)  # one state is the plain grammar
    weights = model.log_probs(dev)
    assert not np.isnan(weights).any()
    assert np.isfinite(weights).mean() > 0.95  # a few trees have rules that training has not


def test_unscaled_features_are_worse(
    train: Treebank, dev: Treebank, learner: SpectralLPCFG
) -> None:
    unscaled = SpectralLPCFG(8, scaled=False).fit(train)
    assert f1(unscaled.model_, dev) < f1(learner.model_, dev)


@pytest.mark.parametrize("shrinkage", [0.0, 20.0])
def test_smoothed_tensors_are_those_of_the_formula(dev: Treebank, shrinkage: float) -> None:
    """C = n / M(a) * (lam E1 + (1 - lam) (lam E2 + (1 - lam) (lam E3 + (1 - lam) E4)))."""
    bank = dev[:150]
    data = sw.PCFG().prepare(bank, Threads())
    seen, model = project_nodes(data, 4), SpectralLPCFG(4, shrinkage=shrinkage).fit(data).model_
    table, m = NodeTable(bank), seen.m
    Y, Z = seen.vectors.vectors(rows_of(seen))  # noqa: N806
    of_label = {a: np.flatnonzero(table.label == a) for a in np.unique(table.label).tolist()}
    y_of = {a: Y[rows, : m[a]].mean(axis=0) for a, rows in of_label.items()}
    sigma = {a: (Y * Z)[rows, : m[a]].mean(axis=0) for a, rows in of_label.items()}
    z_of = {a: Z[rows, : m[a]].mean(axis=0) / sigma[a] for a, rows in of_label.items()}
    numbers = {tuple(rule): r for r, rule in enumerate(bank.inventory.rules.tolist())}
    assert len({1, 2, 3, 4} & set(m.tolist())) > 2
    assert 0 < (model.rule_rank > 0).sum() < len(model.rules)
    for r, (a, b, c) in enumerate(model.rules.tolist()):
        rows = np.flatnonzero(table.rule == numbers[a, b, c])
        z = Z[rows, : m[a]] / sigma[a]
        y, w = Y[table.left[rows], : m[b]], Y[table.right[rows], : m[c]]
        n, means = len(rows), (z.mean(axis=0), y.mean(axis=0), w.mean(axis=0))
        first = np.einsum("ih,ip,iq->hpq", z, y, w) / n
        second = (
            np.einsum("ih,ip,q->hpq", z, y, means[2])
            + np.einsum("ih,p,iq->hpq", z, means[1], w)
            + np.einsum("h,ip,iq->hpq", means[0], y, w)
        ) / (3 * n)
        third = np.einsum("h,p,q->hpq", *means)
        fourth = np.einsum("h,p,q->hpq", z_of[a], y_of[b], y_of[c])
        lam = np.sqrt(n) / (shrinkage + np.sqrt(n))
        smooth = lam * third + (1 - lam) * fourth
        smooth = lam * first + (1 - lam) * (lam * second + (1 - lam) * smooth)
        expected = smooth * n / len(of_label[a])
        atol = 1e-10 * np.abs(expected).max()
        np.testing.assert_allclose(model.tensor(r), expected, rtol=1e-7, atol=atol)


def test_options_reach_the_features(dev: Treebank) -> None:
    data = sw.PCFG().prepare(dev[:100], Threads())
    count = data.counts.symbols
    for kappa in (5.0, 0.5):
        settings = FeatureSettings.of(None, None, scaled=True, kappa=kappa)
        features = project_nodes(data, 2, settings).features
        for side in (features.inside, features.outside):
            label = np.repeat(np.arange(len(count)), np.diff(side.start))
            expected = np.sqrt(count[label] / (side.count + kappa))
            np.testing.assert_allclose(side.weight, expected, rtol=1e-12)
    unscaled = project_nodes(data, 2, FeatureSettings(scaled=False)).features
    assert (unscaled.inside.weight == 1).all()
    some = project_nodes(
        data, 2, FeatureSettings.of(["rule"], ["parent"], scaled=True, kappa=5.0)
    ).features
    assert [len(side.templates) for side in (some.inside, some.outside)] == [1, 1]
    learners = [SpectralLPCFG(2, **given).fit(data).info_ for given in (
        {}, {"inside_features": ["rule"]}, {"outside_features": ["parent"]}
    )]  # fmt: skip
    assert learners[1].n_inside < learners[0].n_inside
    assert learners[2].n_outside < learners[0].n_outside


@pytest.mark.parametrize("scaled", [True, False])
def test_singular_values_of_unscaled_features_count_over_the_largest(
    train: Treebank, *, scaled: bool
) -> None:
    """Scaled ones have a common unit; those of unscaled features depend on the label's features."""
    data = sw.PCFG().prepare(train, Threads())
    found, count = project_nodes(data, 8, FeatureSettings(scaled=scaled)), data.counts.symbols
    as_they_are = found.singular_values
    over_largest = as_they_are / np.maximum(as_they_are[:, :1], 1e-300)
    right, wrong = (
        states_by_label(values, count, 8).tolist()
        for values in ((as_they_are, over_largest) if scaled else (over_largest, as_they_are))
    )
    assert found.m.tolist() == right != wrong


def test_what_was_prepared_is_shared(dev: Treebank) -> None:
    """Candidates of an ensemble ask for the same features and vectors: they are made once."""
    data = sw.PCFG().prepare(dev[:100], Threads())
    one = project_nodes(data, 4)
    assert project_nodes(data, 4) is one
    assert project_nodes(data, 4, seed=1).features is one.features
    assert project_nodes(data, 4, FeatureSettings(kappa=1.0)).features is not one.features
    assert is_same(SpectralLPCFG(4).fit(data).model_, SpectralLPCFG(4).fit(dev[:100]).model_)


def test_a_seed_decides_every_bit(train: Treebank, learner: SpectralLPCFG) -> None:
    again = SpectralLPCFG(8).fit(train).model_
    assert is_same(again, learner.model_)
    assert not is_same(SpectralLPCFG(8, seed=1).fit(train).model_, learner.model_)


def test_jobs_and_shards_do_not_matter(
    train: Treebank, dev: Treebank, learner: SpectralLPCFG, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(treebank, "SHARD_NODES", 9_000)
    one = SpectralLPCFG(8).fit(train)
    assert len(train.shards()) > 5
    for jobs in (2, 3):
        assert is_same(one.model_, SpectralLPCFG(8, n_jobs=jobs).fit(train).model_)
    # other shards add the same numbers in another order
    np.testing.assert_array_equal(one.model_.n_states, learner.model_.n_states)
    np.testing.assert_allclose(
        one.model_.log_probs(dev), learner.model_.log_probs(dev), rtol=1e-8, atol=1e-8
    )


def test_projected_rows_in_the_wrong_order_are_noticed(
    train: Treebank, dev: Treebank, learner: SpectralLPCFG, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant pairs nodes with the outside vectors of others."""

    def mix_up(vectors: SingularVectors, rows: FeatureRows) -> tuple[np.ndarray, np.ndarray]:
        Y, Z = REAL_VECTORS(vectors, rows)  # noqa: N806
        return Y, np.roll(Z, 1000, axis=0)

    monkeypatch.setattr(SingularVectors, "vectors", mix_up)
    mutant = SpectralLPCFG(8).fit(train).model_
    assert gaps(mutant.log_probs(dev), learner.model_.log_probs(dev)).max() > 1.0


def test_labels_with_little_data_get_fewer_states(train: Treebank, learner: SpectralLPCFG) -> None:
    model = learner.model_
    count = np.bincount(train.label, minlength=model.n_symbols)
    assert (model.n_states[count <= FEW] == 1).all()
    assert (model.n_states[count >= 2000] == 8).any()
    between = (count > FEW) & (count < ENOUGH)
    assert between.any()
    assert (model.n_states[between] < 8).all()
    kept = [learner.info_.singular_values[a, m - 1] for a, m in enumerate(model.n_states) if m > 1]
    assert min(kept) > LEAST_VALUE


def test_states_by_count_and_value() -> None:
    count = np.array([0.0, 10.0, 55.0, 75.0, 100.0, 1e6, 1e6])
    values = np.ones((7, 5))
    values[6, 2:] = 0.005
    assert states_by_label(values, count, 5).tolist() == [1, 1, 3, 3, 5, 5, 2]


@pytest.mark.parametrize("n_trees", [1, 3, 40])
@pytest.mark.parametrize("shrinkage", [0.0, 20.0])
def test_small_treebanks_have_finite_models(n_trees: int, shrinkage: float, dev: Treebank) -> None:
    bank = Treebank.from_trees(list(dev.trees())[:n_trees])
    model = SpectralLPCFG(4, shrinkage=shrinkage).fit(bank).model_
    for array in (model.root, model.rule_weights, model.lexicon.weights):
        assert np.isfinite(array).all()
    assert np.isfinite(model.log_probs(bank)).all()
    assert sw.Parser(model).parse(bank.words(0)).tree.words() == bank.words(0)


def test_one_word_trees() -> None:
    trees = [sw.Tree.parse(text) for text in ("(INTJ (UH oh))", "(INTJ (UH ah))", "(X (Y z))")]
    model = SpectralLPCFG(2).fit(Treebank.from_trees(trees)).model_
    assert len(model.rules) == 0
    assert str(sw.Parser(model).parse(["oh"]).tree) == "(TOP (INTJ (UH oh)))"


def test_a_part_of_a_treebank(train: Treebank, dev: Treebank) -> None:
    """It shares the inventory of the whole, with labels and rules that never occur in it."""
    part = train[1000:1400]
    model = SpectralLPCFG(4).fit(part).model_
    missing = np.bincount(part.label, minlength=model.n_symbols) == 0
    assert missing.any()
    assert len(model.rules) < len(part.inventory.rules)
    assert (model.n_states[missing] == 1).all()
    alone = Treebank.from_trees(part.trees(), part.inventory.transform)
    other = SpectralLPCFG(4).fit(alone).model_
    ours, theirs = model.log_probs(dev), other.log_probs(dev)
    assert (np.isfinite(ours) == np.isfinite(theirs)).all()
    # labels are numbered otherwise, so the random projections differ: close, not equal
    assert np.median(gaps(ours, theirs)) < 0.05  # log-weights of some -40; measured: 0.007


def test_factored_rules_survive_a_file(
    tmp_path: Path, dev: Treebank, learner: SpectralLPCFG
) -> None:
    path = tmp_path / "spectral.sapwood"
    model = learner.model_
    assert 0 < (model.rule_rank > 0).sum() < len(model.rules)
    model.save(path)
    again = sw.load(path)
    assert is_same(again, model)
    assert again.record == model.record
    assert not again.is_probabilistic
    assert (again.log_probs(dev) == model.log_probs(dev)).all()


def test_factored_rules_are_small(learner: SpectralLPCFG) -> None:
    model = learner.model_
    sizes = np.diff(model.tensor_start)
    whole = model.n_states[model.rules].prod(axis=1)
    factored = model.rule_rank > 0
    assert (sizes[factored] < whole[factored]).all()
    assert (sizes[~factored] == whole[~factored]).all()


@pytest.mark.parametrize(
    "wrong",
    [{"n_states": 0}, {"n_states": 257}, {"n_states": 2.5}, {"kappa": -1.0}, {"shrinkage": -1.0},
     {"word_trust": 1.1}, {"plain": "pcfg"}],
    ids=str,
)  # fmt: skip
def test_parameters_are_checked(wrong: dict[str, object], dev: Treebank) -> None:
    with pytest.raises(SapwoodError, match=f"{next(iter(wrong))} must be"):
        SpectralLPCFG(**wrong).fit(dev)  # type: ignore[arg-type]


def test_only_treebanks_are_fitted() -> None:
    with pytest.raises(SapwoodError, match=r"\(S x\): .* found brackets"):
        SpectralLPCFG().fit(["(S x)"])  # type: ignore[arg-type]


def test_what_was_found_is_told(learner: SpectralLPCFG, train: Treebank) -> None:
    info = learner.info_
    assert info.singular_values.shape == (learner.model_.n_symbols, 8)
    assert (np.diff(info.singular_values, axis=1) <= 1e-12).all()
    assert info.n_inside > 100 < info.n_outside
    assert {"features", "svd", "moments", "tensors"} <= info.seconds.keys()
    record = learner.model_.record
    assert (record["method"], record["n_states"], record["trees"]) == ("spectral", 8, train.n_trees)


M = 3


@pytest.fixture(scope="module")
def data(small_bank: Treebank) -> TrainingData:
    return sw.PCFG().prepare(small_bank, Threads())


@pytest.fixture(scope="module")
def projection(data: TrainingData) -> NodeProjection:
    return project_nodes(data, M)


def features(ids: np.ndarray, space: FeatureSpace) -> csr_array:
    """Phi: one row a node, the scale of each of its features."""
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    columns = ids.ravel().astype(np.int64)
    shape = (len(ids), len(space.weight))
    return csr_array((space.weight[columns], (rows, columns)), shape=shape)


def omega(projection: NodeProjection) -> np.ndarray:
    """Sum over the nodes of phi psi'."""
    sides, rows = projection.features, rows_of(projection)
    phi, psi = features(rows.inside, sides.inside), features(rows.outside, sides.outside)
    return (phi.T @ psi).toarray()


def test_rows_are_the_nodes_of_the_trees(small_bank: Treebank, projection: NodeProjection) -> None:
    rows, table = rows_of(projection), NodeTable(small_bank)
    assert rows.label.tolist() == table.label.tolist()
    assert rows.roots.tolist() == (small_bank.offsets[1:] - 1).tolist()
    assert sorted([*rows.parent.tolist(), *rows.leaf.tolist()]) == list(
        range(len(small_bank.label))
    )
    assert rows.left.tolist() == table.left[rows.parent].tolist()
    assert rows.right.tolist() == table.right[rows.parent].tolist()
    assert rows.word.tolist() == small_bank.word[rows.leaf].tolist()


def test_products_are_those_of_the_matrix(projection: NodeProjection) -> None:
    sides, rows = projection.features, rows_of(projection)
    rng, exact = np.random.default_rng(0), omega(projection)
    scales = sides.inside.weight, sides.outside.weight
    X, Y = (rng.normal(size=(n, 4)) for n in exact.shape[::-1])  # noqa: N806
    np.testing.assert_allclose(
        covariance_product(rows, scales, X, 0), exact @ X, rtol=1e-9, atol=1e-9
    )
    found = covariance_product(rows, scales, Y, 1)
    np.testing.assert_allclose(found, exact.T @ Y, rtol=1e-9, atol=1e-9)


def test_blocks_are_those_of_labels(projection: NodeProjection) -> None:
    sides, exact = projection.features, omega(projection)
    outside = np.zeros_like(exact, dtype=bool)
    for a in range(len(projection.m)):
        rows = slice(sides.inside.start[a], sides.inside.start[a + 1])
        outside[rows, sides.outside.start[a] : sides.outside.start[a + 1]] = True
    assert not exact[~outside].any()


def test_singular_values_are_those_of_the_mean_over_a_labels_nodes(
    data: TrainingData, projection: NodeProjection
) -> None:
    """Unlike sums they have the same unit for all labels, and small ones are left out by it."""
    sides, exact, count = projection.features, omega(projection), data.counts.symbols
    for a in np.argsort(-count)[:6].tolist():
        rows = slice(sides.inside.start[a], sides.inside.start[a + 1])
        block = exact[rows, sides.outside.start[a] : sides.outside.start[a + 1]] / count[a]
        values = np.linalg.svd(block, compute_uv=False)[:M]
        # random projections with 3 power iterations: measured 1e-4 where the gaps are small
        np.testing.assert_allclose(projection.singular_values[a], values, rtol=5e-3)


def test_nodes_are_projected_by_their_own_side(projection: NodeProjection) -> None:
    sides, rows, rng = projection.features, rows_of(projection), np.random.default_rng(1)
    weights = (sides.inside.weight, sides.outside.weight)
    U, V = (rng.normal(size=(len(w), 2)) for w in weights)  # noqa: N806
    m = np.arange(len(projection.m)) % 2 + 1
    Y, Z = projection.vectors._replace(U=U, V=V, m=m).vectors(rows)  # noqa: N806
    cut = np.arange(2) < m[rows.label][:, None]
    for found, ids, space, vectors in (
        (Y, rows.inside, sides.inside, U), (Z, rows.outside, sides.outside, V)
    ):  # fmt: skip
        expected = np.where(cut, features(ids, space) @ vectors, 0.0)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def sums_by_hand(
    rows: FeatureRows, projection: NodeProjection, layout: RuleLayout
) -> ProjectedSums:
    """One node after the other."""
    Y, Z = projection.vectors.vectors(rows)  # noqa: N806
    n_symbols, m = len(projection.m), projection.m
    y, z, yz, root = (np.zeros((n_symbols, M)) for _ in range(4))
    for node, a in enumerate(rows.label.tolist()):
        y[a] += Y[node]
        z[a] += Z[node]
        yz[a] += Y[node] * Z[node]
    for node in rows.roots.tolist():
        root[rows.label[node]] += Y[node]
    entry, count = np.zeros((layout.n_entries, M)), np.zeros(layout.n_entries)
    for entries in rows.entry.tolist():
        for leaf, e in zip(rows.leaf.tolist(), entries, strict=True):
            if e >= 0:
                entry[e] += Z[leaf]
                count[e] += 1
    flat = np.zeros(int(layout.start[-1]))
    for x, r, left, right in zip(
        rows.parent.tolist(), rows.rule.tolist(), rows.left.tolist(), rows.right.tolist(),
        strict=True,
    ):  # fmt: skip
        if not layout.keeps[r]:
            i, j, k = m[layout.rules[r]].tolist()
            one = RuleSums.of(Z[[x], :i], Y[[left], :j], Y[[right], :k])
            parts = np.concatenate([part.ravel() for part in one])
            flat[layout.start[r] : layout.start[r + 1]] += parts
    none = ProjectedSums.of(rows, projection.vectors, layout).instances
    return ProjectedSums(y, z, yz, root, entry, count, flat, none)


def assert_close(one: ProjectedSums, other: ProjectedSums) -> None:
    for name in ("y", "z", "yz", "root", "entry", "entry_count", "rules"):
        found, expected = getattr(one, name), getattr(other, name)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * scale, err_msg=name)
    for name in ("rule", "z", "y", "w"):
        found, expected = getattr(one.instances, name), getattr(other.instances, name)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("shrinkage", [0.0, 20.0])
def test_sums_are_those_over_the_nodes(
    data: TrainingData, projection: NodeProjection, shrinkage: float
) -> None:
    layout, rows = rule_layout(data, projection.m, shrinkage), rows_of(projection)
    assert 0 < layout.keeps.sum() < len(layout.keeps)
    found = ProjectedSums.of(rows, projection.vectors, layout)
    assert_close(found, sums_by_hand(rows, projection, layout))
    kept = layout.keeps[rows.rule]
    Y, Z = projection.vectors.vectors(rows)  # noqa: N806
    assert found.instances.rule.tolist() == rows.rule[kept].tolist()
    assert np.array_equal(found.instances.z, Z[rows.parent[kept]])
    assert np.array_equal(found.instances.y, Y[rows.left[kept]])
    assert np.array_equal(found.instances.w, Y[rows.right[kept]])


@pytest.mark.parametrize("n", [2, 5])
def test_shards_add_up(data: TrainingData, small_bank: Treebank, n: int) -> None:
    whole = project_nodes(data, M)
    parts = sw.PCFG().prepare(shards_of(small_bank, n), Threads())
    cut = project_nodes(parts, M)
    layout = rule_layout(data, whole.m, 20.0)
    rows = list(parts.engine.gather(cut.features.rows))
    assert len(rows) == n
    found = [ProjectedSums.of(part, whole.vectors, layout) for part in rows]
    expected = ProjectedSums.of(rows_of(whole), whole.vectors, layout)
    assert_close(tree_sum(found), expected)
    assert_close(reduce(add, found), expected)
    short = reduce(add, found[1:])
    assert not np.allclose(short.rules, expected.rules)


def test_a_rule_that_keeps_its_instances_has_no_sums(data: TrainingData) -> None:
    m = np.full(len(data.inventory.symbols), 4)
    layout = rule_layout(data, m, 20.0)
    sizes = np.diff(layout.start)
    assert (sizes[layout.keeps] == 0).all()
    assert (sizes[~layout.keeps] == 4**3 + 3 * 4**2 + 3 * 4).all()
    assert data.counts.rules[layout.keeps].max() <= 1  # at 4 states 4 n + 2 factors are few for 1


@pytest.mark.parametrize("n", [2, 5])
def test_instances_of_shards_are_those_of_the_whole(n: int) -> None:
    bank = sw.bundled_treebank("dev")[:150]
    data, parts = (sw.PCFG().prepare(given, Threads()) for given in (bank, shards_of(bank, n)))
    whole, cut = project_nodes(data, 4), project_nodes(parts, 4)
    layout = rule_layout(data, whole.m, 0.0)
    found = parts.engine.total(ProjectedSums.of, cut.features.rows, whole.vectors, layout).instances
    expected = ProjectedSums.of(rows_of(whole), whole.vectors, layout).instances
    assert len(expected.rule) > 20
    for name in ("rule", "z", "y", "w"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
