"""EM for p(y | x) = sum over h of r[x, h] s[y, h], on arrays of NumPy or of a GPU.

Notation as in `lm.model.latent_models`; c[x, y] is how often y follows x, sparse, by x.

    p[x, y] = sum over h of r[x, h] s[y, h], where c[x, y] > 0        a sampled product
    R = r * (c / p) s                                                 [V, m]
    S = (c / p)' r, without its factor s                              [V, m]

Both updates move rows of r and s, one for each pair of words that was seen: they are bound by
memory, which a GPU has ten to forty times as fast as a processor.
"""

from __future__ import annotations

from typing import Any
from warnings import catch_warnings, simplefilter

from sapwood.core.errors import SapwoodError

TINY = 1e-12  # EM cannot leave a zero
Array = Any  # of NumPy or PyTorch


def maximise_states(
    R: Array, S: Array, u: Array, prior: float, *, r: Array | None = None
) -> tuple[Array, Array]:
    """The M-step: the estimate of maximum likelihood, or with a prior of maximum posterior.

        r[x, h] ~ R[x, h] + prior * p(h);    s[y, h] ~ S[y, h] + prior * u[y]

    Parameters
    ----------
    R, S : [V, m]
        Expected counts of states after and before each word.
    u : [V]
        Distribution of single words.
    r : [V, m]
        Kept as it is where given: the likelihood is concave in s alone.
    """
    S = S + (prior * u + TINY)[:, None]
    s = S / S.sum(0)
    if r is not None:
        return r, s
    states = R.sum(0)
    R = R + (prior * (states / states.sum()) + TINY)
    return R / R.sum(1)[:, None], s


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
    """The module of PyTorch; refused where it is not installed or lacks the device."""
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
