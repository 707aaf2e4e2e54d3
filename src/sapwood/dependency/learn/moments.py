"""Additive statistics of latent trees: counts of arcs, sums over triples, expected counts of EM.

All are sums over words, so that shards are cut by size and added in any number.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from sapwood.core.arrays import FloatArray, IntArray
from sapwood.core.errors import SapwoodError
from sapwood.dependency.model.latent import LatentArcs, SeenTrees
from sapwood.linalg.dependency_operators import ChainMoments, TripleMoments

SHARD_WORDS = 50_000  # shards depend on the data alone, so that jobs never change a sum


@dataclass(frozen=True, eq=False)
class _Sums:
    """Fields that add."""

    def __add__(self, other: Self) -> Self:
        names = (each.name for each in fields(self))
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, eq=False)
class ArcCounts(_Sums):
    """How often symbols occur, and pairs of them at the two ends of an arc; `+` joins shards.

    Attributes
    ----------
    n_trees
        Roots, whatever they show.
    symbols, roots : [n]
        Of all words, and of roots.
    left, right : sparse [n, n]
        Symbol of a head, symbol of its child on that side. Words with several columns of symbols
        count once for every pair of columns.
    """

    n_trees: float
    symbols: FloatArray
    roots: FloatArray
    left: Any
    right: Any

    @classmethod
    def zero(cls, n_symbols: int) -> ArcCounts:
        """Of no trees."""
        shape = (n_symbols, n_symbols)
        none = np.zeros(n_symbols)
        return cls(0.0, none, none, sparse.csr_array(shape), sparse.csr_array(shape))

    @classmethod
    def of(cls, trees: SeenTrees, n_symbols: int) -> ArcCounts:
        """Of a shard."""
        up, seen = trees.up(), trees.seen
        rows = np.arange(len(up))
        shows = [_indicator(rows, column, (len(rows), n_symbols)) for column in seen.T]
        show = sum(shows[1:], shows[0])
        arcs = _arcs(up)
        left, right = (show.T @ (side @ show) for side in arcs)
        symbols = np.asarray(show.sum(axis=0)).ravel()
        roots = np.asarray(show[up < 0].sum(axis=0)).ravel()
        return cls(float((up < 0).sum()), symbols, roots, left, right)


@dataclass(frozen=True, eq=False)
class TripleSums(_Sums):
    """Sums over all pairs of a left and a right child of one head; `+` joins shards.

    Attributes
    ----------
    n
        Triples.
    left, right, head_left, head_right, left_right, third
        Sums of products of vectors: those of `TripleMoments`.
    by_symbol : [n_symbols, k, k]
        Left times right, for each symbol of the head; [0, k, k] where nobody asked for it.
    """

    n: float
    left: FloatArray
    right: FloatArray
    head_left: FloatArray
    head_right: FloatArray
    left_right: FloatArray
    third: FloatArray
    by_symbol: FloatArray

    @classmethod
    def zero(cls, k: int, n_symbols: int = 0) -> TripleSums:
        """Of no trees."""
        shapes = ((k,), (k,), (k, k), (k, k), (k, k), (k, k, k), (n_symbols, k, k))
        return cls(0.0, *(np.zeros(shape) for shape in shapes))

    @classmethod
    def of(cls, trees: SeenTrees, U: FloatArray, n_symbols: int = 0) -> TripleSums:
        """Of a shard.

        The sum over pairs is the product of two sums, so that heads with many children take no
        longer.

        Parameters
        ----------
        U : [n, k]
            Vectors of symbols; that of a word is the sum over its columns.
        n_symbols
            How many symbols to keep apart for `by_symbol`.
        """
        vectors = project(trees.seen, U)
        left_arcs, right_arcs = _arcs(trees.up())
        n_left, n_right = (np.asarray(arcs.sum(axis=1)).ravel() for arcs in (left_arcs, right_arcs))
        heads = np.flatnonzero((n_left > 0) & (n_right > 0))
        n_left, n_right = n_left[heads, None], n_right[heads, None]
        head, k = vectors[heads], U.shape[1]
        left, right = left_arcs[heads] @ vectors, right_arcs[heads] @ vectors
        pairs = (left[:, :, None] * right[:, None, :]).reshape(len(heads), k * k)
        by_symbol = np.zeros((n_symbols, k * k))
        for column in trees.seen[heads].T if n_symbols else ():
            shows = _indicator(np.arange(len(heads)), column, (len(heads), n_symbols))
            by_symbol += shows.T @ pairs
        return cls(
            float((n_left * n_right).sum()),
            (n_right * left).sum(axis=0), (n_left * right).sum(axis=0),
            head.T @ (n_right * left), head.T @ (n_left * right), left.T @ right,
            (head.T @ pairs).reshape(k, k, k), by_symbol.reshape(n_symbols, k, k),
        )  # fmt: skip

    def moments(self) -> TripleMoments:
        """Means over the triples."""
        if not self.n:
            msg = "no word has children on both sides, or both a head and children"
            hint = "give more trees, or use EMDependency, which learns from any"
            raise SapwoodError(msg, hint=hint)
        sums = (self.left, self.right, self.head_left, self.head_right, self.left_right, self.third)
        return TripleMoments(*(each / self.n for each in sums))


@dataclass(frozen=True, eq=False)
class ChainSums(_Sums):
    """Sums over three words in a row, each below the one before it; `+` joins shards.

    Attributes
    ----------
    n
        Triples.
    first, second_first, third_first, third
        Sums of products of vectors: those of `ChainMoments`.
    """

    n: float
    first: FloatArray
    second_first: FloatArray
    third_first: FloatArray
    third: FloatArray

    @classmethod
    def of(cls, sentences: SeenTrees, U: FloatArray) -> ChainSums:
        """Of a shard, whose heads are not looked at."""
        vectors, k = project(sentences.seen, U), U.shape[1]
        rows = np.arange(len(vectors))
        behind = np.repeat(sentences.offsets[1:], np.diff(sentences.offsets)) - rows
        at = rows[behind > 2]
        first, second, third = (vectors[at + step] for step in range(3))
        pairs = (third[:, :, None] * first[:, None, :]).reshape(len(at), k * k)
        return cls(
            float(len(at)), first.sum(axis=0), second.T @ first, third.T @ first,
            (second.T @ pairs).reshape(k, k, k),
        )  # fmt: skip

    @classmethod
    def of_paths(cls, trees: SeenTrees, U: FloatArray, side: int) -> ChainSums:
        """Of a shard: all paths of a head, a word below it, and a child of that on one side.

        As with `TripleSums`, the sum over the children of a word is taken first.
        """
        vectors, k, up = project(trees.seen, U), U.shape[1], trees.up()
        below = _arcs(up)[side]
        n_below = np.asarray(below.sum(axis=1)).ravel()
        at = np.flatnonzero((n_below > 0) & (up >= 0))
        n = n_below[at, None]
        first, second, third = vectors[up[at]], vectors[at], below[at] @ vectors
        pairs = (third[:, :, None] * first[:, None, :]).reshape(len(at), k * k)
        return cls(
            float(n.sum()), (n * first).sum(axis=0), (n * second).T @ first, third.T @ first,
            (second.T @ pairs).reshape(k, k, k),
        )  # fmt: skip

    def moments(self) -> ChainMoments:
        """Means over the triples."""
        if not self.n:
            msg = "no sentence has three words: nothing tells the states apart"
            raise SapwoodError(msg, hint="give more sentences, or use EMHMM, which learns from any")
        sums = (self.first, self.second_first, self.third_first, self.third)
        return ChainMoments(*(each / self.n for each in sums))


@dataclass(frozen=True, eq=False)
class StateCounts(_Sums):
    """Expected counts of all tables: the moments of EM; `+` joins shards.

    Attributes
    ----------
    root, steps, symbols
        In the shapes of the tables of `LatentArcs`.
    log_likelihood
        Of the possible trees, under the model that the counts were taken with.
    n_impossible
        Trees of probability 0, which are in none of the other numbers.
    """

    root: FloatArray
    steps: FloatArray
    symbols: FloatArray
    log_likelihood: float
    n_impossible: float

    @classmethod
    def of(cls, trees: SeenTrees, model: LatentArcs) -> StateCounts:
        """The E-step on a shard."""
        from sapwood.dependency.model.kernels.latent_arcs import expect_states

        two = np.ascontiguousarray(np.broadcast_to(model.steps, (2, *model.steps.shape[1:])))
        root, steps, symbols = (np.zeros(t.shape) for t in (model.root, two, model.symbols))
        logs = np.empty(trees.n_trees)
        expect_states(
            *trees, model.root, two, model.symbols, root, steps, symbols, logs,
        )  # fmt: skip
        is_possible = np.isfinite(logs)
        return cls(
            root, steps if model.n_sides == 2 else steps[1:], symbols,
            float(logs[is_possible].sum()), float((~is_possible).sum()),
        )  # fmt: skip


def project(seen: Any, U: FloatArray) -> FloatArray:
    """Vectors of words: the sum of the rows of their symbols, of none zero."""
    padded = np.vstack([U, np.zeros(U.shape[1])])  # the last row, -1, is that of no symbol
    return np.asarray(sum((padded[column] for column in seen.T), np.zeros((len(seen), U.shape[1]))))


def _arcs(up: IntArray) -> tuple[Any, Any]:
    """Left and right arcs as sparse matrices, [head, child]."""
    child = np.flatnonzero(up >= 0)
    is_right = child > up[child]
    shape = (len(up), len(up))
    return (
        _indicator(up[child[~is_right]], child[~is_right], shape),
        _indicator(up[child[is_right]], child[is_right], shape),
    )


def _indicator(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    """A sparse matrix with a 1 at each place; columns below 0 are left out."""
    kept = columns >= 0
    ones = np.ones(int(kept.sum()))
    return sparse.csr_array((ones, (rows[kept], columns[kept])), shape=shape)
