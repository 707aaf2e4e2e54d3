"""`LatentArcs`: the arrays of a latent tree model, in the basis of its states or in any other.

Notation (DEP, sections 3.1 and 3.3)
------------------------------------
    pi      root      state of a root                                     [k]
    T       steps     state of a child given its head's, a table a side   [n_sides, k, k]
    O       symbols   symbol given a state                                [n, k]
    e, D    end, product   the vector of ones, and products of vectors    [k], [k, k, k]

A model whose states are known has no D: its vectors are multiplied entry by entry, and columns of T
and O are distributions. A spectral model has the same tables in an unknown basis G,

    pi -> G pi,   T -> G T G^-1,   O -> O G^-1,   e' = 1' G^-1,   D(y) = G diag(G' y) G^-1

and every probability is the same. Weights that are estimated from data are close to probabilities,
and may be negative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, ranges, starts_of
from sapwood.core.errors import ModelFormatError
from sapwood.core.model_files import require_type
from sapwood.core.topologies import Columns

_SUM_TOLERANCE = 1e-6
MAX_TABLE_ENTRY = 1e30  # products over a tree are still numbers
KERNEL_WORDS = 20_000  # that a kernel is given at once: interrupts wait for it


class SeenTrees(NamedTuple):
    """Packed trees, and the symbols of their words.

    Attributes
    ----------
    offsets : [n_trees + 1]
    head : [n_words]
        Counted from 1 inside the tree; 0 is the root.
    seen : [n_words, n_columns]
        Symbols; -1 for none.
    """

    offsets: IntArray
    head: npt.NDArray[np.int32]
    seen: npt.NDArray[np.int32]

    @property
    def n_trees(self) -> int:
        """Number of packed trees."""
        return len(self.offsets) - 1

    def up(self) -> IntArray:
        """The row of each word's head; -1 for roots."""
        first = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        return np.where(self.head > 0, first + self.head - 1, -1)

    def shards(self, n_words: int) -> list[SeenTrees]:
        """Cut into parts of about n_words words, between trees."""
        cuts = np.searchsorted(self.offsets, np.arange(0, self.offsets[-1], n_words))
        cuts = np.unique(np.append(cuts, self.n_trees))
        return [self.part(first, last) for first, last in pairwise(cuts.tolist())]

    def part(self, first: int, last: int) -> SeenTrees:
        """The trees from first up to last."""
        rows = slice(self.offsets[first], self.offsets[last])
        offsets = self.offsets[first : last + 1] - self.offsets[first]
        return SeenTrees(offsets, self.head[rows], self.seen[rows])


def pack_seen_trees(heads: list[list[int]], seen: list[Any]) -> SeenTrees:
    """Trees from lists: heads counted from 1, 0 for the root, and symbols or rows of symbols.

    Examples
    --------
    >>> pack_seen_trees([[2, 0], [0]], [[5, 6], [7]]).seen.ravel().tolist()
    [5, 6, 7]
    """
    offsets = starts_of([len(tree) for tree in heads])
    rows = [np.asarray(each, np.int32).reshape(len(tree), -1)
            for each, tree in zip(seen, heads, strict=True)]  # fmt: skip
    return SeenTrees(offsets, np.concatenate(heads).astype(np.int32), np.concatenate(rows))


@dataclass(frozen=True, eq=False, repr=False)
class LatentArcs:
    """Tables of a latent tree model; see the notation of this module.

    Attributes
    ----------
    root, steps, symbols
        pi, T and O.
    column_start : [n_columns + 1]
        Where the symbols of each column start: a word has one symbol of every column, such as its
        form and its tag.
    end, product
        e and D; None for a model in the basis of its states.

    Examples
    --------
    >>> pi, steps = np.array([0.5, 0.5]), np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2)
    >>> model = LatentArcs(pi, steps, np.array([[0.9, 0.2], [0.1, 0.8]]), np.array([0, 2]))
    >>> trees = pack_seen_trees([[0], [0, 1]], [[0], [0, 0]])
    >>> np.exp(model.signed_log_weights(trees)[0]).round(3).tolist()
    [0.55, 0.425]
    """

    root: FloatArray
    steps: FloatArray
    symbols: FloatArray
    column_start: IntArray
    end: FloatArray | None = None
    product: FloatArray | None = None

    def __post_init__(self) -> None:
        if (self.end is None) != (self.product is None):
            raise ModelFormatError("end and product come together")
        k, n = self.n_states, len(self.symbols)
        shapes = {"root": (k,), "steps": (len(self.steps), k, k), "symbols": (n, k)}
        shapes |= {} if self.product is None else {"end": (k,), "product": (k, k, k)}
        for name, shape in shapes.items():
            found = getattr(self, name)
            require_type(found, name, np.float64, len(shape))
            if found.shape != shape:
                raise ModelFormatError(f"{name} is of shape {found.shape}, expected {shape}")
            if not (np.abs(found) <= MAX_TABLE_ENTRY).all():  # NaN neither
                msg = f"{name} has numbers that are not finite or beyond {MAX_TABLE_ENTRY:g}"
                raise ModelFormatError(msg)
        starts = self.column_start
        require_type(starts, "column_start", np.int64, 1)
        is_partition = len(starts) > 1 and starts[0] == 0 and starts[-1] == n
        if k == 0 or not is_partition or (np.diff(starts) <= 0).any():
            msg = f"column_start must rise from 0 to the {n} symbols, not {starts[:8].tolist()}"
            raise ModelFormatError(msg)

    @property
    def n_states(self) -> int:
        """Hidden states, or the dimension of their basis."""
        return len(self.root)

    @property
    def n_sides(self) -> int:
        """1 for a chain, 2 for left and right children."""
        return len(self.steps)

    @property
    def is_probabilistic(self) -> bool:
        """Whether all tables are distributions, so that weights are probabilities."""
        if (
            self.product is not None
            or min(table.min() for table in (self.root, self.steps, self.symbols)) < 0
        ):
            return False
        bounds = pairwise(self.column_start.tolist())
        with np.errstate(over="ignore"):  # an infinite sum is not 1
            columns = [self.symbols[a:b].sum(axis=0) for a, b in bounds]
            sums = [self.root.sum(), *self.steps.sum(axis=1), *columns]
        return all(np.allclose(total, 1, rtol=0, atol=_SUM_TOLERANCE) for total in sums)

    def signed_log_weights(self, trees: SeenTrees) -> tuple[FloatArray, FloatArray]:
        """Logs of the absolute weights of trees, and their signs: 1, -1, or 0 for a log of -inf.

        Cost: O(k^2) a word, O(k^3) with a product.

        Reference: DEP, equation 5, by the recursion of equation 3.
        """
        from sapwood.dependency.kernels import latent_arcs as kernel

        logs, signs = np.empty(trees.n_trees), np.empty(trees.n_trees)
        steps = np.ascontiguousarray(np.broadcast_to(self.steps, (2, *self.steps.shape[1:])))
        first = 0
        for shard in trees.shards(KERNEL_WORDS):
            here = slice(first, first + shard.n_trees)
            out = logs[here], signs[here]
            if self.product is None:
                kernel.weigh_states(*shard, self.root, steps, self.symbols, *out)
            else:
                kernel.weigh_operators(
                    *shard, self.root, self.end, steps, self.symbols, self.product, *out
                )
            first += shard.n_trees
        return logs, signs

    def in_basis(self, G: FloatArray) -> LatentArcs:  # noqa: N803 - as in the formula
        """The same model, which must be in the basis of its states, in the basis G."""
        inverse = np.linalg.inv(G)
        product = np.stack([(G * row) @ inverse for row in G])
        return LatentArcs(
            G @ self.root, G @ self.steps @ inverse, self.symbols @ inverse, self.column_start,
            inverse.sum(axis=0), product,
        )  # fmt: skip

    def with_unknown(self, mass: float) -> LatentArcs:
        """Add a symbol for unknown words at the end of the first column.

        It has the given probability in every state; the others are scaled, so that sums stay.
        """
        last = self.column_start[1]
        one = np.ones(self.n_states) if self.end is None else self.end
        known, others = (1 - mass) * self.symbols[:last], self.symbols[last:]
        starts = self.column_start + (np.arange(len(self.column_start)) > 0)
        return replace(
            self, symbols=np.vstack([known, mass * one, others]), column_start=starts
        )  # fmt: skip

    def sample(self, trees: SeenTrees, rng: np.random.Generator) -> SeenTrees:
        """Draw symbols for the words of given trees; their own symbols are not read."""
        if not self.is_probabilistic:
            msg = "a spectral model gives weights, not probabilities: nothing can be drawn from it"
            raise ModelFormatError(msg, hint="draw from a model learnt by EM")
        up = trees.up()
        states = np.full(len(up), -1)
        # heads before children: all words of a depth at a time
        level = np.flatnonzero(up < 0)
        order = np.argsort(up, kind="stable")
        ordered = up[order]
        states[level] = Columns(self.root[:, None]).draw(np.zeros(len(level), np.int64), rng)
        while len(level):
            first, last = (np.searchsorted(ordered, level, side) for side in ("left", "right"))
            below = order[ranges(first, last)]
            for side in range(2):
                chosen = below[(below > up[below]) == bool(side)]
                step = self.steps[min(side, self.n_sides - 1)]
                states[chosen] = Columns(step).draw(states[up[chosen]], rng)
            level = below
        columns = [
            first + Columns(self.symbols[first:last]).draw(states, rng)
            for first, last in pairwise(self.column_start.tolist())
        ]
        return trees._replace(seen=np.stack(columns, axis=1).astype(np.int32))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The tables by name, as a file has them."""
        named: dict[str, npt.NDArray[Any]] = {
            "root": self.root, "steps": self.steps, "symbols": self.symbols,
            "column_start": self.column_start,
        }  # fmt: skip
        if self.end is not None and self.product is not None:
            named |= {"end": self.end, "product": self.product}
        return named

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> LatentArcs:
        """The tables of a file."""
        return cls(
            arrays["root"], arrays["steps"], arrays["symbols"], arrays["column_start"],
            arrays.get("end"), arrays.get("product"),
        )  # fmt: skip
