"""Smoothed tensors of rules: both forms against the formula written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.linalg.exact_spectral import FullMoments, observable_form

from sapwood.constituency.learn.spectral import (
    LabelMeans,
    NodeMeans,
    RuleLayout,
    RuleSums,
    RuleTensor,
    factored_tensor,
    is_small,
    rule_tensors,
    trust,
    whole_tensor,
)
from sapwood.core.errors import NotIdentifiableError

SHAPES = [(1, 1, 1), (2, 3, 4), (7, 6, 5)]
TINY = 1e-12  # sums of at most a hundred numbers of size 1


def instances(n: int, shape: tuple[int, int, int]) -> tuple[list[np.ndarray], LabelMeans]:
    rng = np.random.default_rng(n)
    rows = [rng.normal(size=(n, m)) for m in shape]
    return rows, LabelMeans(*[rng.normal(size=m) for m in shape])


def rule_tensor(
    z: np.ndarray, y: np.ndarray, w: np.ndarray, label: LabelMeans, shrinkage: float
) -> RuleTensor:
    """Smoothed E of one rule, in whichever form takes fewer numbers."""
    m = np.array([[z.shape[1], y.shape[1], w.shape[1]]])
    if is_small(np.array([len(z)]), m, shrinkage)[0]:
        return factored_tensor(z, y, w, label, shrinkage)
    return whole_tensor(RuleSums.of(z, y, w), len(z), label, shrinkage)


def whole(tensor: RuleTensor, shape: tuple[int, int, int]) -> np.ndarray:
    """The tensor, whichever form it has."""
    if tensor.rank == 0:
        return tensor.numbers.reshape(shape)
    cuts = tensor.rank * np.cumsum(shape)[:2]
    z, y, w = (part.reshape(tensor.rank, -1) for part in np.split(tensor.numbers, cuts))
    return np.einsum("th,tp,tq->hpq", z, y, w)


def written_out(
    z: np.ndarray, y: np.ndarray, w: np.ndarray, label: LabelMeans, shrinkage: float
) -> np.ndarray:
    """E = lam E1 + (1 - lam) (lam E2 + (1 - lam) (lam E3 + (1 - lam) E4)), entry by entry."""
    n = len(z)
    lam = n**0.5 / (shrinkage + n**0.5)
    out = np.zeros((z.shape[1], y.shape[1], w.shape[1]))

    def mean(*columns: np.ndarray) -> float:
        return sum(float(np.prod(values)) for values in zip(*columns, strict=True)) / n

    for i, j, k in product(*map(range, out.shape)):
        a, b, c = z[:, i], y[:, j], w[:, k]
        e1 = mean(a, b, c)
        e2 = (mean(a, b) * mean(c) + mean(a, c) * mean(b) + mean(b, c) * mean(a)) / 3
        e3 = mean(a) * mean(b) * mean(c)
        e4 = label.z[i] * label.y[j] * label.w[k]
        out[i, j, k] = lam * e1 + (1 - lam) * (lam * e2 + (1 - lam) * (lam * e3 + (1 - lam) * e4))
    return out


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 40])
@pytest.mark.parametrize("shrinkage", [0.0, 0.7, 30.0])
def test_the_formula(n: int, shape: tuple[int, int, int], shrinkage: float) -> None:
    rows, label = instances(n, shape)
    found = rule_tensor(*rows, label, shrinkage)
    expected = written_out(*rows, label, shrinkage)
    np.testing.assert_allclose(whole(found, shape), expected, rtol=0, atol=TINY)


def test_the_form_with_fewer_numbers_is_taken() -> None:
    shape = (7, 6, 5)  # 210 numbers whole, 18 for each outer product
    for shrinkage, ranks in ((0.0, {1: 1, 2: 2, 11: 11, 12: 0}), (5.0, {1: 2, 2: 10, 3: 0})):
        for n, rank in ranks.items():
            rows, label = instances(n, shape)
            found = rule_tensor(*rows, label, shrinkage)
            assert found.rank == rank
            assert len(found.numbers) == (rank * 18 or 210)


def test_without_shrinkage_the_label_means_do_not_matter() -> None:
    rows, label = instances(3, (2, 3, 4))
    other = LabelMeans(label.z + 1, label.y + 1, label.w + 1)
    assert (rule_tensor(*rows, label, 0.0).numbers == rule_tensor(*rows, other, 0.0).numbers).all()
    assert (rule_tensor(*rows, label, 1.0).numbers != rule_tensor(*rows, other, 1.0).numbers).any()


def test_much_shrinkage_leaves_the_label_means() -> None:
    rows, label = instances(3, (2, 3, 4))
    found = whole(rule_tensor(*rows, label, 1e12), (2, 3, 4))
    product_of_means = np.einsum("i,j,k->ijk", *label)
    np.testing.assert_allclose(found, product_of_means, rtol=0, atol=1e-9)  # lam is about 1e-12


def test_trust_grows_with_the_count_and_falls_with_shrinkage() -> None:
    counts = [trust(n, 20.0) for n in (1, 2, 10, 1000, 10**6)]
    assert counts == sorted(set(counts))
    shrinkages = [trust(50, c) for c in (0.0, 1.0, 10.0, 100.0)]
    assert shrinkages == sorted(set(shrinkages), reverse=True)
    assert shrinkages[0] == 1.0
    assert trust(100, 10.0) == 0.5


def test_swapped_children_are_noticed() -> None:
    (z, y, w), label = instances(5, (3, 3, 3))
    right = written_out(z, y, w, label, 1.0)
    swapped = LabelMeans(label.z, label.w, label.y)
    wrong = whole(rule_tensor(z, w, y, swapped, 1.0), (3, 3, 3))
    assert np.abs(wrong - right).max() > 0.1
    np.testing.assert_allclose(wrong.transpose(0, 2, 1), right, rtol=0, atol=TINY)


# -- the form without projections -------------------------------------------------------------


def test_equations_14_to_16_written_out() -> None:
    rng = np.random.default_rng(0)
    omega = {a: rng.normal(size=(5 + a, 6)) for a in range(3)}
    D = rng.normal(size=(6, 6, 7))  # noqa: N806 - [d'(0), d(1), d(2)]
    d, root = rng.normal(size=6), rng.normal(size=5)
    form = observable_form(FullMoments(omega, {(0, 1, 2): D}, {(0, "x"): d}, {0: root}), 3)
    inverse = np.linalg.inv(form.U[0].T @ omega[0] @ form.V[0])
    y, w = rng.normal(size=3), rng.normal(size=3)
    row = np.array([y @ form.U[1].T @ D[i] @ form.U[2] @ w for i in range(6)]) @ form.V[0]
    found = np.einsum("hpq,p,q->h", form.C[0, 1, 2], y, w)
    np.testing.assert_allclose(found, row @ inverse, rtol=1e-10)
    np.testing.assert_allclose(form.c_inf[0, "x"], d @ form.V[0] @ inverse, rtol=1e-10)
    np.testing.assert_allclose(form.c_1[0], form.U[0].T @ root, rtol=1e-12)
    np.testing.assert_allclose(form.s[0], np.linalg.svd(omega[0], compute_uv=False), rtol=1e-12)


def test_states_differ_by_label_and_ranks_are_checked() -> None:
    moments = FullMoments({"A": np.eye(3), "B": np.diag([1.0, 1e-12, 0.0])})
    form = observable_form(moments, {"A": 3, "B": 1})
    assert (form.U["A"].shape, form.V["B"].shape) == ((3, 3), (3, 1))
    with pytest.raises(NotIdentifiableError, match="'B', but Omega has rank 1") as caught:
        observable_form(moments, 2)
    report = caught.value.report
    assert (report.label, report.wanted, report.rank) == ("B", 2, 1)
    assert "at most 1" in str(caught.value.hint)
    assert observable_form(moments, {"A": 3, "B": 2}, tolerance=1e-13).U["B"].shape == (3, 2)


def test_the_tensors_of_all_rules() -> None:
    """C[a -> b c] = n / M(a) * E, from sums or from the instances themselves, by the formula.

    Columns beyond the states of a label hold numbers that must not be used, and one rule of the
    inventory was never seen.
    """
    rng = np.random.default_rng(0)
    m = np.array([6, 5, 4, 1])
    rules = np.array([[0, 1, 2], [1, 0, 3], [2, 2, 1], [0, 0, 1], [3, 1, 1]])
    seen = np.array([1, 40, 2, 0, 30])
    total = np.array([10.0, 50.0, 7.0, 60.0])
    layout = RuleLayout.of(rules, seen, m, 0.7, 9)
    assert layout.keeps.tolist() == [True, False, False, True, False]
    assert layout.n_entries == 9
    means = NodeMeans(*(rng.uniform(0.5, 2.0, size=(4, 6)) for _ in range(3)))
    rule_of = rng.permutation(np.repeat(np.arange(5), seen))
    Z, Y, W = (rng.normal(size=(len(rule_of), 6)) for _ in range(3))  # noqa: N806
    flat = []
    for r in np.flatnonzero(~layout.keeps).tolist():
        a, b, c = m[rules[r]]
        rows = rule_of == r
        sums = RuleSums.of(Z[rows, :a], Y[rows, :b], W[rows, :c])
        flat.append(np.concatenate([part.ravel() for part in sums]))
    sizes = iter(map(len, flat))
    expected_sizes = [0 if keeps else next(sizes) for keeps in layout.keeps]
    assert np.diff(layout.start).tolist() == expected_sizes
    kept = layout.keeps[rule_of]
    instances_kept = (rule_of[kept], Z[kept], Y[kept], W[kept])
    found = rule_tensors(layout, m, np.concatenate(flat), instances_kept, means, total, 0.7)
    ranks, numbers = found
    assert ranks.tolist() == [2, 0, 0, 0]
    first = 0
    for rank, r in zip(ranks.tolist(), [0, 1, 2, 4], strict=True):
        a, b, c = rules[r]
        shape = (int(m[a]), int(m[b]), int(m[c]))
        size = rank * sum(shape) or int(np.prod(shape))
        tensor = RuleTensor(rank, numbers[first : first + size])
        first += size
        rows = rule_of == r
        z = Z[rows, : m[a]] / means.sigma[a, : m[a]]
        label = LabelMeans(means.z[a, : m[a]], means.y[b, : m[b]], means.y[c, : m[c]])
        expected = written_out(z, Y[rows, : m[b]], W[rows, : m[c]], label, 0.7)
        np.testing.assert_allclose(
            whole(tensor, shape), seen[r] / total[a] * expected, rtol=0, atol=TINY
        )
    assert first == len(numbers)


def test_no_rules_have_no_tensors() -> None:
    nothing = np.zeros((0, 3), np.int64)
    layout = RuleLayout.of(nothing, np.zeros(0, np.int64), np.ones(1, np.int64), 0.7, 0)
    empty = np.zeros((0, 1))
    means = NodeMeans(*(np.ones((1, 1)) for _ in range(3)))
    instances_kept = (np.zeros(0, np.int64), empty, empty, empty)
    ranks, numbers = rule_tensors(
        layout, np.ones(1, np.int64), np.zeros(0), instances_kept, means, np.ones(1), 0.7
    )
    assert (len(ranks), len(numbers)) == (0, 0)


def test_factors_are_kept_where_they_take_fewer_numbers() -> None:
    """The rank is 2 for n = 1, else 4 n + 2, and n without shrinkage."""
    m = np.array([[4, 4, 4]])
    assert [bool(is_small(np.array([n]), m, 0.0)[0]) for n in (5, 6)] == [True, False]
    assert [bool(is_small(np.array([n]), m, 0.7)[0]) for n in (1, 2)] == [True, False]
    wide = np.array([[11, 11, 11]])
    assert [bool(is_small(np.array([n]), wide, 0.7)[0]) for n in (9, 10)] == [True, False]
    even = np.array([[6, 2, 4]])  # 48 numbers, and 12 for each outer product
    assert [bool(is_small(np.array([n]), even, 0.0)[0]) for n in (3, 4)] == [True, False]
