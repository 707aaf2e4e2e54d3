"""Hankel blocks: factors, the choice of a rank, Lemma 1 in small and how noise is estimated."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from sapwood.core.errors import SapwoodError
from sapwood.linalg import hankel
from sapwood.linalg.hankel import (
    Factors,
    StepEntries,
    automaton,
    conditioning,
    factorise,
    operators,
    rank_by_gap,
    sampling_noise,
)


def with_values(values: list[float], p: int = 12, q: int = 9, seed: int = 0) -> np.ndarray:
    """A matrix with the given singular values."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(size, len(values))))[0] for size in (p, q))
    return (left * values) @ right.T


def product(factors: Factors) -> np.ndarray:
    """U D V' of the values that were kept."""
    return (factors.left * factors.values[: factors.n]) @ factors.right.T


def test_the_rank_counts_values_relative_to_the_largest() -> None:
    one = np.eye(3)
    assert Factors(one, one, np.array([1e3, 1.0, 1e-10]), 3).rank == 2
    assert Factors(one, one, np.array([1e-3, 1e-4, 1e-14]), 3).rank == 3
    assert Factors(one, one, np.array([1.0, hankel.RELATIVE, 0.0]), 3).rank == 1
    assert Factors(one, one, np.zeros(3), 3).rank == 0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_factors_are_the_leading_part_of_an_svd(is_sparse: bool) -> None:
    matrix = with_values([3.0, 2.0, 1.0])
    found = factorise(sp.csr_array(matrix) if is_sparse else matrix, 2)
    U, D, Vt = np.linalg.svd(matrix, full_matrices=False)  # noqa: N806
    np.testing.assert_allclose(product(found), (U[:, :2] * D[:2]) @ Vt[:2], atol=1e-12)
    np.testing.assert_allclose(found.values[:3], [3, 2, 1], atol=1e-12)
    assert found.n == 2
    assert factorise(matrix, None).n == 3  # without noise all three are kept
    assert (found.left.shape, found.right.shape) == ((12, 2), (9, 2))
    left = found.left * found.values[:2]
    np.testing.assert_allclose(found.inverse, np.linalg.pinv(left), atol=1e-12)


def test_large_blocks_are_factorised_without_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [4.0, 3.0, 2.0, *(0.1 * 0.9**k for k in range(27))]
    matrix = sp.csr_array(with_values(values, 60, 40))
    dense = factorise(matrix, 3)
    monkeypatch.setattr(hankel, "DENSE", 0)
    few = factorise(matrix, 3)
    assert len(few.values) == 11  # eight more than asked for, to see what comes behind
    np.testing.assert_allclose(few.values, values[:11], rtol=1e-9)
    np.testing.assert_allclose(product(few), product(dense), atol=1e-9)
    np.testing.assert_allclose(few.inverse @ few.left * few.values[:3], np.eye(3), atol=1e-9)
    assert np.array_equal(few.left, factorise(matrix, 3).left)
    assert factorise(matrix, None, noise=0.5).n == 3  # by the gap
    assert len(factorise(matrix, None, noise=0.5).values) == 40
    assert len(factorise(matrix, 30).values) == 38
    assert len(factorise(matrix[:, :9], 8).values) == 9  # as many as there are: all of them
    assert len(factorise(matrix[:, :9], 7).values) == 8


@pytest.mark.parametrize("dense", [1 << 22, 0])
def test_a_block_of_zeros_has_no_states(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hankel, "DENSE", dense)
    with pytest.raises(SapwoodError, match=r"1 state asked for.* 20 x 30 has rank 0") as caught:
        factorise(sp.csr_array((20, 30)), 1)
    assert "never occurs together" in caught.value.hint


def test_as_many_states_as_the_rank_may_be_asked_for() -> None:
    matrix = with_values([3.0, 2.0])
    assert factorise(matrix, 2).n == 2
    with pytest.raises(SapwoodError, match=r"3 states asked for.* 12 x 9 has rank 2") as caught:
        factorise(matrix, 3)
    assert "at most 2 states" in caught.value.hint


@pytest.mark.parametrize(
    ("values", "noise", "expected"),
    [
        ([1.0], 0.0, 1),
        ([1.0, 0.5], 2.0, 1),  # all of it is noise
        ([0.0, 0.0], 0.0, 1),
        ([1.0, 0.5, 0.4, 1e-3], 0.0, 4),  # nothing lies behind the last
        ([1.0, 0.04, 0.02, 1e-9], 0.01, 1),  # gaps end at the noise
        ([1.0, 0.9, 0.8, 1e-9], 0.01, 3),
        ([1.0, 0.5, 0.01], 0.01, 2),  # a value as large as the noise is noise
        ([1e3, 1.0, 1e-8, 1e-12], 0.0, 2),  # rounding is relative to the largest
    ],
)
def test_the_widest_gap_above_the_noise(values: list[float], noise: float, expected: int) -> None:
    assert rank_by_gap(np.array(values), noise) == expected


@pytest.mark.parametrize("at_once", [1 << 22, 1, 12])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_operators_are_those_of_lemma_1(
    is_sparse: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(21) to (23) with pseudo-inverses, written out."""
    monkeypatch.setattr(hankel, "AT_ONCE", at_once)
    rng = np.random.default_rng(3)
    factors = factorise(with_values([3.0, 2.0], 6, 4), 2)
    S = factors.right.T  # noqa: N806
    pairs, root, columns = rng.normal(size=(6, 16)), rng.normal(size=4), rng.normal(size=(6, 3))
    found = operators(factors, root, columns, sp.csr_array(pairs) if is_sparse else pairs)
    P_inverse = np.linalg.pinv(factors.left * factors.values[:2])  # noqa: N806
    expected = P_inverse @ pairs @ np.linalg.pinv(np.kron(S, S))
    np.testing.assert_allclose(found.binary, expected.reshape(2, 2, 2), atol=1e-12)
    np.testing.assert_allclose(found.initial, root @ np.linalg.pinv(S), atol=1e-12)
    np.testing.assert_allclose(found.terminals, (P_inverse @ columns).T, atol=1e-12)


def test_conditioning_relates_the_noise_to_what_is_kept() -> None:
    one = np.eye(3)
    found = conditioning(Factors(one, one, np.array([4.0, 2.0, 0.5]), 2), 0.1)
    assert found == (2.0, 0.5, 0.1, pytest.approx(0.05))
    assert conditioning(Factors(one, one, np.array([4.0, 2.0, 0.5]), 3), 0.1)[:2] == (0.5, 0.0)
    assert conditioning(Factors(one, one, np.zeros(3), 1), 0.1).relative_error == np.inf


def test_sampling_noise_is_that_of_the_largest_row_or_column() -> None:
    means = np.array([[0.1, -0.2, 0.3], [0.0, 0.1, 0.0]])
    for matrix in (means, means.T, sp.csr_array(means)):
        assert sampling_noise(matrix, 150.0) == pytest.approx((0.6 / 150) ** 0.5)
    assert sampling_noise(means, np.inf) == 0.0


@pytest.mark.parametrize("at_once", [1 << 22, 1, 9])
def test_an_automaton_comes_back_from_its_blocks(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """f(u v) and f(u sigma v) for prefixes and suffixes of two symbols at most."""
    monkeypatch.setattr(hankel, "AT_ONCE", at_once)
    rng = np.random.default_rng(5)
    alpha, omega, A = rng.normal(size=2), rng.normal(size=2), rng.normal(size=(3, 2, 2))  # noqa: N806

    def step(word: tuple[int, ...]) -> np.ndarray:
        return np.linalg.multi_dot([np.eye(2), np.eye(2), *(A[x] for x in word)])

    words = [(), (0,), (1,), (2,), (0, 1), (2, 2)]
    rows = np.array([alpha @ step(u) for u in words])
    columns = np.array([step(v) @ omega for v in words])
    blocks = np.einsum("ua,sab,vb->suv", rows, A, columns)
    symbol, row, column = np.indices(blocks.shape).reshape(3, -1)
    order = rng.permutation(len(row))  # entries come in any order, and may be parts of a sum
    entries = StepEntries(
        *(np.tile(part[order], 2) for part in (row, column, symbol)),
        np.repeat([0.25, 0.75], len(row)) * np.tile(blocks.ravel()[order], 2),
    )
    matrix = sp.csr_array(rows @ columns.T)
    factors, initial, final, made = automaton(matrix, entries, 3, 2)
    assert factors.n == 2
    for word in [*words, (0, 1, 2), (1, 1, 0, 2)]:
        value = np.linalg.multi_dot([initial, np.eye(2), *(made[x] for x in word), final])
        assert value == pytest.approx(alpha @ step(word) @ omega, abs=1e-9)


def test_symbols_that_never_occur_have_no_steps() -> None:
    nothing = np.zeros(1, np.int64)
    entries = StepEntries(nothing, nothing, nothing + 1, np.ones(1))
    found = automaton(sp.csr_array(np.eye(2) + 1), entries, 3, 1)
    assert found[0].n == 1
    assert not found[3][[0, 2]].any()
    assert found[3][1].any()
