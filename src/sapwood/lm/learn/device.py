"""Expected counts of hidden states between words on a GPU, by PyTorch.

Notation as in `lm.learn.bigram_em`. The E-step moves rows of r and s, one for each pair of words
that was seen: it is bound by memory, which a GPU has ten to forty times as fast as a processor.
"""

from __future__ import annotations

from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.lm.learn.bigram_em import BigramStates, EngineEStep, Expected, Single

Array = Any  # of NumPy or PyTorch


class DeviceEStep(EngineEStep):
    """Expected counts on a GPU."""

    def __init__(self, c: sparse.csr_array, device: str) -> None:
        c.sort_indices()
        self.pairs = DevicePairs(c.indptr, c.indices, c.data, c.shape[1], device)

    def put(self, array: FloatArray | Single) -> Any:
        """The array on the device."""
        return self.pairs.put(array)

    def fetch(self, states: BigramStates) -> BigramStates:
        """The parameters as NumPy arrays."""
        tables: tuple[Any, Any] = states
        return BigramStates(*(np.ascontiguousarray(table.cpu().numpy()) for table in tables))

    def expect(self, states: BigramStates) -> Expected:
        """R, S without its factor s, and the log-likelihood, on the device."""
        return self.pairs.expect(states.r, states.s)


class DevicePairs:
    """Pairs of words on a device of PyTorch (cuda, cuda:1, cpu), by first and by second word.

    `starts` [V + 1] are the offsets of the pairs of each first word; `seconds` and `counts` [nnz]
    the second words, sorted for each first, and how often each pair was seen.
    """

    def __init__(
        self, starts: Array, seconds: Array, counts: Array, n_seconds: int, device: str
    ) -> None:
        torch = import_torch(device)
        self._torch, self.shape = torch, (len(starts) - 1, n_seconds)
        place = {"device": device}
        self._rows = torch.as_tensor(starts, dtype=torch.int64, **place)
        self._columns = torch.as_tensor(seconds, dtype=torch.int64, **place)
        self.counts = torch.as_tensor(counts, dtype=torch.float32, **place)
        self._order = torch.argsort(self._columns, stable=True)
        firsts = torch.repeat_interleave(
            torch.arange(self.shape[0], **place), self._rows[1:] - self._rows[:-1]
        )
        self._firsts = firsts[self._order]
        sizes = torch.bincount(self._columns, minlength=n_seconds)
        self._starts = torch.cat([torch.zeros(1, dtype=torch.int64, **place), sizes.cumsum(0)])

    def put(self, array: Array) -> Array:
        """Copy an array of NumPy to the device, in single precision."""
        return self._torch.as_tensor(array, dtype=self._torch.float32, device=self.counts.device)

    def expect(self, r: Array, s: Array) -> tuple[Array, Array, float]:
        """The E-step: R, S without its factor s, and the log-likelihood."""
        torch = self._torch
        pattern = self._matrix(self._rows, self._columns, torch.zeros_like(self.counts), self.shape)
        p = torch.sparse.sampled_addmm(pattern, r, s.T, beta=0.0).values()
        ratio = self.counts / p
        R = r * (self._matrix(self._rows, self._columns, ratio, self.shape) @ s)
        S = self._matrix(self._starts, self._firsts, ratio[self._order], self.shape[::-1]) @ r
        value = float((self.counts.double() * torch.log(p.double())).sum())
        return R, S, value

    def _matrix(self, rows: Array, columns: Array, values: Array, shape: tuple[int, int]) -> Array:
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # that this part of PyTorch is young
            make = self._torch.sparse_csr_tensor
            return make(rows, columns, values, shape, check_invariants=False)


def import_torch(device: str) -> Any:
    """Import PyTorch; an error where it is not installed or does not know the device."""
    try:
        import torch
    except ImportError as error:
        msg = f"device {device!r} needs PyTorch, which is not installed"
        raise SapwoodError(msg, hint="pip install torch, or leave the device at cpu") from error
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:  # a name it does not know, or no such GPU
        msg = f"PyTorch finds no device {device!r}"
        hint = "is it spelt right, and its driver installed? leave the device at cpu otherwise"
        raise SapwoodError(msg, hint=hint) from error
    return torch
