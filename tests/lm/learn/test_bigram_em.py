"""EM for latent bigrams: the M-step written out, and the E-step of a device by definition."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from sapwood.core.errors import SapwoodError
from sapwood.lm.learn.bigram_em import maximise_states
from sapwood.lm.learn.device import DevicePairs, import_torch


class FakeTensor(np.ndarray):
    """A NumPy array with the one method of tensors that arrays do not have."""

    def double(self) -> FakeTensor:
        return self.astype(np.float64)


class FakeSparse(sp.csr_array):
    """A sparse tensor, of which the values are asked for by a call."""

    def values(self) -> FakeTensor:
        return self.data.view(FakeTensor)


def fake_torch() -> SimpleNamespace:
    """The functions of PyTorch that `DevicePairs` calls, by NumPy, so that no GPU is needed."""

    def as_tensor(array: Any, dtype: Any, device: str) -> FakeTensor:
        assert str(device) == "cpu"
        return np.array(array, dtype=dtype).view(FakeTensor)

    def sparse_csr_tensor(
        rows: Any, columns: Any, values: Any, shape: Any, *, check_invariants: bool
    ) -> FakeSparse:
        return FakeSparse((values, columns, rows), shape=shape)

    def sampled_addmm(pattern: FakeSparse, a: Any, b: Any, *, beta: float) -> FakeSparse:
        row, column = pattern.tocoo().coords
        made = pattern.copy()
        made.data = beta * pattern.data + np.einsum("ek,ke->e", a[row], b[:, column])
        return made

    def empty(size: int, device: str) -> None:
        if device != "cpu":
            raise RuntimeError("no such device")

    def plain(function: Any) -> Any:
        return lambda *args, device=None, **more: function(*args, **more).view(FakeTensor)

    return SimpleNamespace(
        int64=np.int64, float32=np.float32, as_tensor=as_tensor, empty=empty,
        argsort=plain(lambda x, stable: np.argsort(x, kind="stable" if stable else None)),
        repeat_interleave=plain(np.repeat), arange=plain(np.arange), zeros=plain(np.zeros),
        bincount=plain(np.bincount), cat=plain(np.concatenate), zeros_like=plain(np.zeros_like),
        log=np.log, sparse_csr_tensor=sparse_csr_tensor,
        sparse=SimpleNamespace(sampled_addmm=sampled_addmm),
    )  # fmt: skip


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    made = fake_torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.mark.usefixtures("torch")
def test_the_e_step_of_a_device_is_that_of_the_definition() -> None:
    """Every pair of words and every state in loops; some words never come first, or second."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, size=(5, 7)).astype(float)
    counts[2] = 0
    counts[:, 6] = 0
    c = sp.csr_array(counts)
    r, s = rng.dirichlet(np.ones(3), 5), rng.dirichlet(np.ones(7), 3).T
    R, S, total = np.zeros((5, 3)), np.zeros((7, 3)), 0.0  # noqa: N806
    for x, y in zip(*counts.nonzero(), strict=True):
        p = r[x] @ s[y]
        R[x] += counts[x, y] * r[x] * s[y] / p
        S[y] += counts[x, y] * r[x] / p
        total += counts[x, y] * np.log(p)
    pairs = DevicePairs(c.indptr, c.indices, c.data, 7, "cpu")
    assert pairs.shape == (5, 7)
    found = pairs.expect(pairs.put(r), pairs.put(s))
    np.testing.assert_allclose(found[0], R, rtol=1e-5, atol=1e-7)  # single precision
    np.testing.assert_allclose(found[1], S, rtol=1e-5, atol=1e-7)
    assert found[2] == pytest.approx(total, rel=1e-6)
    assert pairs.put(r).dtype == np.float32


def test_the_m_step_is_that_of_greatest_posterior_probability() -> None:
    rng = np.random.default_rng(1)
    R, S = rng.gamma(1.0, size=(4, 3)), rng.gamma(1.0, size=(5, 3))  # noqa: N806
    u = rng.dirichlet(np.ones(5))
    r, s = maximise_states(R, S, u, 2.0)
    share = R.sum(axis=0) / R.sum()
    for x in range(4):
        row = R[x] + 2.0 * share
        np.testing.assert_allclose(r[x], row / row.sum(), rtol=1e-9)
    for h in range(3):
        column = S[:, h] + 2.0 * u
        np.testing.assert_allclose(s[:, h], column / column.sum(), rtol=1e-9)


def test_words_without_counts_keep_a_chance() -> None:
    """EM cannot leave a zero: without a prior, a trace of everything stays."""
    R, S = np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]])  # noqa: N806
    r, s = maximise_states(R, S, np.array([0.5, 0.5]), 0.0)
    np.testing.assert_allclose(r, [[1, 0], [0.5, 0.5]], atol=1e-9)
    np.testing.assert_allclose(s, [[1, 1], [0, 0]], atol=1e-9)
    assert 0 < r[0, 1] < 1e-10
    assert (s[1] > 0).all()


def test_given_states_of_contexts_are_kept() -> None:
    rng = np.random.default_rng(2)
    R, S = rng.gamma(1.0, size=(4, 3)), rng.gamma(1.0, size=(5, 3))  # noqa: N806
    u, given = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(3), 4)
    r, s = maximise_states(R, S, u, 2.0, r=given)
    assert r is given
    np.testing.assert_array_equal(s, maximise_states(R, S, u, 2.0)[1])


def test_a_device_that_is_not_there(
    torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert import_torch("cpu") is torch
    with pytest.raises(SapwoodError, match="finds no device 'cuda:7'"):
        import_torch("cuda:7")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SapwoodError, match="needs PyTorch") as caught:
        import_torch("cpu")
    assert "pip install torch" in caught.value.hint


def test_warnings_of_a_young_part_of_pytorch_are_not_passed_on(torch: SimpleNamespace) -> None:
    from warnings import warn

    make = torch.sparse_csr_tensor

    def warning(*args: Any, **more: Any) -> Any:
        warn("beta state", UserWarning, stacklevel=2)
        return make(*args, **more)

    torch.sparse_csr_tensor = warning
    pairs = DevicePairs(np.array([0, 1]), np.array([0]), np.array([2.0]), 1, "cpu")
    one = pairs.put(np.ones((1, 1)))
    assert pairs.expect(one, one)[2] == 0.0
