"""Weights of a network: named arrays that are views of one vector, and Adam's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[Any]  # float32 in use, float64 in tests of gradients
WHOLE, _FIRST = "", np.zeros(1, np.int64)  # the vector is a table of one row
FORGET, FORGET_SQUARES, TINY = 0.9, 0.99, 1e-8  # of Adam


class Parameters(Mapping[str, Real]):
    """Arrays by name, one behind the other in a vector.

    Examples
    --------
    >>> P = Parameters({"W": (2, 3), "b": (3,)})
    >>> P["b"][:] = 1
    >>> P.flat.tolist(), P["W"].shape
    ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], (2, 3))
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        dtype: npt.DTypeLike = np.float32,
        make: Callable[..., Real] = np.zeros,
    ) -> None:
        self.shapes = dict(shapes)
        self.flat = make(sum(map(prod, self.shapes.values())), dtype)
        self._views: dict[str, Real] = {}
        start = 0
        for name, shape in self.shapes.items():
            self._views[name] = self.flat[start : start + prod(shape)].reshape(shape)
            start += prod(shape)

    def __getitem__(self, name: str) -> Real:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def zeros(self) -> Parameters:
        """As many zeros."""
        return Parameters(self.shapes, self.flat.dtype)

    def blank(self) -> Parameters:
        """As many numbers of any kind, to be written over: quicker than zeros."""
        return Parameters(self.shapes, self.flat.dtype, make=np.empty)


class Adam:
    """Adam for a vector and for tables of which a step touches few rows.

    Moments of rows are updated in the steps that touch them (as if others did not exist).

    Parameters
    ----------
    weights
        Changed in place: a vector and tables.
    """

    def __init__(self, weights: Real, tables: Mapping[str, Real]) -> None:
        self.weights, self.tables = weights, {WHOLE: weights[None], **tables}
        self._means = {name: np.zeros_like(table) for name, table in self.tables.items()}
        self._squares = {name: np.zeros_like(table) for name, table in self.tables.items()}
        self.n_steps = 0

    def step(
        self, gradient: Real, rows: Mapping[str, tuple[npt.NDArray[Any], Real]], rate: float
    ) -> None:
        """Go down the gradient.

        Parameters
        ----------
        rows
            By table: numbers of rows, each once, and their gradients.
        """
        from sapwood.kernels.adam import move_rows

        self.n_steps += 1
        rate *= (1 - FORGET_SQUARES**self.n_steps) ** 0.5 / (1 - FORGET**self.n_steps)
        for name, (places, found) in {WHOLE: (_FIRST, gradient[None]), **rows}.items():
            moments = self._means[name], self._squares[name]
            settings = rate, FORGET, FORGET_SQUARES, TINY
            move_rows(self.tables[name], *moments, places, found, *settings)


def clip(gradients: list[Real], most: float) -> float:
    """Scale gradients in place so that their length together is at most so much; it, before."""
    length = float(np.sqrt(sum(float(np.vdot(g, g)) for g in gradients)))
    if length > most:
        for gradient in gradients:
            np.multiply(gradient, most / length, out=gradient)
    return length
