"""Weights of a network: named arrays that are views of one vector, and Adam's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Real = npt.NDArray[Any]  # float32 in use, float64 in tests of gradients
WHOLE, _FIRST = "", np.zeros(1, np.int64)  # pieces of the vector are tables of one row
AT_ONCE = 1 << 19  # weights of such a piece
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
        self.weights, self.tables = weights, dict(tables)
        arrays = {WHOLE: weights, **tables}
        self._moments = {name: (np.zeros_like(a), np.zeros_like(a)) for name, a in arrays.items()}
        self.n_steps = 0

    def step(
        self,
        gradient: Real,
        rows: Mapping[str, tuple[npt.NDArray[Any], Real]],
        rate: float,
        each: Callable[..., Iterable[None]] = map,
    ) -> None:
        """Go down the gradient.

        Parameters
        ----------
        rows
            By table: numbers of rows, each once, and their gradients.
        each
            Calls a function with each of a list, perhaps in several threads.
        """
        from sapwood.networks.kernels.adam import move_rows

        self.n_steps += 1
        rate *= (1 - FORGET_SQUARES**self.n_steps) ** 0.5 / (1 - FORGET**self.n_steps)
        whole = self.weights, *self._moments[WHOLE]
        tasks = [
            (*(array[None, start : start + AT_ONCE] for array in whole),
             _FIRST, gradient[None, start : start + AT_ONCE])
            for start in range(0, len(gradient), AT_ONCE)
        ]  # fmt: skip
        tasks += [(self.tables[name], *self._moments[name], *rows[name]) for name in rows]

        def move(task: tuple[Real, ...]) -> None:
            move_rows(*task, rate, FORGET, FORGET_SQUARES, TINY)

        list(each(move, tasks))


def clip(gradients: list[Real], most: float) -> float:
    """Scale gradients in place so that their length together is at most so much; it, before."""
    length = float(np.sqrt(sum(float(np.vdot(g, g)) for g in gradients)))
    if length > most:
        for gradient in gradients:
            np.multiply(gradient, most / length, out=gradient)
    return length
