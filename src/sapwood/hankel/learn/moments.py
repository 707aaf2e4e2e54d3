"""Hankel matrices of bracketed strings: counts of cuts, and the basis of rows and columns.

Notation (WCFG, section 3)
--------------------------
    (y)          an inside string                 <x; z>   an outside context, filled as x y z
    (y1, y2)     two adjacent ones, composed      f(o, i)  mean number of brackets i in context o

    basis        p contexts (rows) and s inside strings (columns)
    H[o, y]      f(<x; z>, (y))           [p, s]
    H_A[o, y1 y2]                         [p, s * s], the column of (y1, y2) at y1 * s + y2

All counts add: shards of strings are counted apart and summed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
import scipy.sparse as sp

from sapwood.core.arrays import FieldSums, IntArray
from sapwood.core.errors import require_memory
from sapwood.execute import Engine
from sapwood.hankel.data import Bracketed

Inside = tuple[str, ...]
Context = tuple[Inside, Inside]
EMPTY_CONTEXT: Context = ((), ())
LONGEST_CUT = 30  # longest strings with all cuts counted: longer contexts rarely occur twice
SHARD_SYMBOLS = 20_000
CUT_BYTES = 450  # of memory for a cut that is counted, besides 8 for each symbol: an estimate


def symbols_of(strings: Iterable[Inside]) -> tuple[str, ...]:
    """The different symbols of some strings, in order."""
    return tuple(sorted({symbol for string in strings for symbol in string}))


@dataclass(frozen=True)
class CutCounts(FieldSums):
    """Counts of strings, of inside strings and of contexts; `+` joins shards."""

    strings: Counter[Inside] = field(default_factory=Counter)
    insides: Counter[Inside] = field(default_factory=Counter)
    contexts: Counter[Context] = field(default_factory=Counter)

    @property
    def n(self) -> float:
        """Number of strings, each as often as it was seen."""
        return self.strings.total()

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of the strings, in order."""
        return symbols_of(self.strings)

    @classmethod
    def of_brackets(cls, shard: Sequence[Bracketed]) -> CutCounts:
        """The cuts at the brackets of some strings.

        Examples
        --------
        >>> found = CutCounts.of_brackets([Bracketed(("a", "b"), ((0, 1, 2),))])
        >>> sorted(found.contexts), sorted(found.insides)
        ([((), ()), ((), ('b',)), (('a',), ())], [('a',), ('a', 'b'), ('b',)])
        """
        found = cls()
        for one in shard:
            found.strings[one.words] += 1
            found._add_cuts(one.words, [(i, j) for i, _, j in one.splits], 1)
        return found

    @classmethod
    def of_strings(cls, strings: Mapping[Inside, float]) -> CutCounts:
        """All cuts of strings without brackets, including those that are in no tree."""
        found = cls(Counter(strings))
        for words, times in strings.items():
            size = len(words)
            spans = [(i, j) for i in range(size) for j in range(i + 2, size + 1)]
            found._add_cuts(words, spans if size <= LONGEST_CUT else [(0, size)], times)
        return found

    def _add_cuts(self, words: Inside, spans: list[tuple[int, int]], times: float) -> None:
        size = len(words)
        for i, j in [*((t, t + 1) for t in range(size)), *spans]:
            if j - i <= LONGEST_CUT:
                self.insides[words[i:j]] += times  # type: ignore[assignment]
            if size - (j - i) <= LONGEST_CUT:
                self.contexts[words[:i], words[j:]] += times  # type: ignore[assignment]


@dataclass(frozen=True)
class Basis:
    """Contexts and inside strings: the rows and columns of a Hankel matrix.

    Attributes
    ----------
    symbols
        All of them are columns.
    contexts
        The empty one first.
    insides
    """

    symbols: tuple[str, ...]
    contexts: tuple[Context, ...]
    insides: tuple[Inside, ...]

    @cached_property
    def row(self) -> dict[Context, int]:
        """The row of each context."""
        return {context: place for place, context in enumerate(self.contexts)}

    @cached_property
    def column(self) -> dict[Inside, int]:
        """The column of each inside string."""
        return {inside: place for place, inside in enumerate(self.insides)}

    @property
    def symbol_columns(self) -> IntArray:
        """Columns of the symbols."""
        return np.array([self.column[symbol,] for symbol in self.symbols])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return len(self.contexts), len(self.insides)

    def __str__(self) -> str:
        return f"{len(self.contexts):,} x {len(self.insides):,}"

    @classmethod
    def by_frequency(cls, cuts: CutCounts, factor: float) -> Basis:
        """The most frequent contexts and inside strings.

        Parameters
        ----------
        factor
            The fraction of each that is taken; the empty context and every symbol are in any case.

        Examples
        --------
        >>> cuts = CutCounts.of_strings({("a",): 3, ("a", "b"): 2, ("b", "a", "b"): 1})
        >>> Basis.by_frequency(cuts, 0.5).insides
        (('a',), ('b',), ('a', 'b'))
        """
        symbols = cuts.symbols
        contexts = dict.fromkeys([EMPTY_CONTEXT, *commonest(cuts.contexts, factor)])
        insides = dict.fromkeys([(x,) for x in symbols])
        insides |= dict.fromkeys(commonest(cuts.insides, factor))
        return cls(symbols, tuple(contexts), tuple(insides))

    @classmethod
    def smallest(cls, symbols: tuple[str, ...]) -> Basis:
        """The basis of section 5.1: symbols, and contexts of at most one symbol."""
        beside = [context for x in symbols for context in (((x,), ()), ((), (x,)))]
        return cls(symbols, (EMPTY_CONTEXT, *beside), tuple((x,) for x in symbols))

    def close(self) -> Basis:
        """The smallest larger one that is closed as in section 4.1.

        With an inside string come its parts; with a context come the strings next to the cut, and
        the contexts without them.

        Examples
        --------
        >>> closed = Basis(("a", "b"), (EMPTY_CONTEXT, (("a", "b"), ())), (("a",), ("b",))).close()
        >>> closed.contexts
        (((), ()), (('a',), ()), (('a', 'b'), ()))
        >>> closed.insides
        (('a',), ('b',), ('a', 'b'))
        """
        contexts = {
            (x[:k], z[m:])
            for x, z in self.contexts
            for k in range(len(x) + 1)
            for m in range(len(z) + 1)
        }
        whole = {*self.insides}
        whole |= {x[k:] for x, _ in contexts for k in range(len(x))}
        whole |= {z[:m] for _, z in contexts for m in range(1, len(z) + 1)}
        parts = {y[i:j] for y in whole for i in range(len(y)) for j in range(i + 1, len(y) + 1)}
        return Basis(
            self.symbols,
            tuple(sorted(contexts, key=lambda c: (len(c[0]) + len(c[1]), c))),
            tuple(sorted(parts, key=lambda y: (len(y), y))),
        )


def commonest(counts: Mapping[Any, float], factor: float) -> list[Any]:
    """The most frequent fraction of some items; of equally frequent ones, the shorter first."""
    size = ceil(factor * len(counts) - 1e-9)
    return sorted(counts, key=lambda item: (-counts[item], len(item), item))[:size]


@dataclass(frozen=True, eq=False)
class HankelCounts(FieldSums):
    """Counts of brackets in a basis; `+` joins shards.

    Attributes
    ----------
    whole : [p, s]
        Brackets around an inside string in a context.
    pairs : [p, s * s]
        Those of them that consist of two inside strings.
    n
        Strings.
    """

    whole: sp.csr_array
    pairs: sp.csr_array
    n: float

    @classmethod
    def of_brackets(
        cls, shard: Sequence[Bracketed], basis: Basis, times: Sequence[float] | None = None
    ) -> HankelCounts:
        """Counts of bracketed strings; `times` says how often each was seen."""
        row, column, (p, s) = basis.row, basis.column, basis.shape
        whole: dict[tuple[int, int], float] = defaultdict(float)
        pairs: dict[tuple[int, int], float] = defaultdict(float)
        times = [1] * len(shard) if times is None else times
        for (words, splits), n in zip(shard, times, strict=True):
            size = len(words)
            for t in range(size):
                o, y = row.get((words[:t], words[t + 1 :])), column[words[t : t + 1]]
                if o is not None:
                    whole[o, y] += n
            for i, k, j in splits:
                o = row.get((words[:i], words[j:]))
                if o is None:
                    continue
                if (y := column.get(words[i:j], -1)) >= 0:
                    whole[o, y] += n
                left, right = column.get(words[i:k], -1), column.get(words[k:j], -1)
                if left >= 0 and right >= 0:
                    pairs[o, left * s + right] += n
        return cls(_sparse(whole, (p, s)), _sparse(pairs, (p, s * s)), sum(times))


def _sparse(counts: Mapping[tuple[int, int], float], shape: tuple[int, int]) -> sp.csr_array:
    at = np.array(list(counts), np.int64).reshape(-1, 2)
    values = np.array(list(counts.values()), float)
    return sp.csr_array(sp.coo_array((values, (at[:, 0], at[:, 1])), shape=shape))


def cut_bytes(lengths: Iterable[int], n_cuts: Iterable[int]) -> int:
    """The most bytes that counting the cuts of strings takes, reached where no two are equal.

    Parameters
    ----------
    lengths
        Number of symbols of each string.
    n_cuts
        Number of spans of each string that are counted.
    """
    return sum(
        cuts * (CUT_BYTES + 8 * min(size, 2 * LONGEST_CUT))
        for size, cuts in zip(lengths, n_cuts, strict=True)
    )


# -- through the engine ---------------------------------------------------------------------------


def shards_of(items: Sequence[Any], sizes: Iterable[int]) -> Iterator[list[Any]]:
    """Runs of items of about `SHARD_SYMBOLS` symbols, the same for any engine."""
    room = np.cumsum([0, *sizes]) // SHARD_SYMBOLS
    bounds = [0, *(np.flatnonzero(np.diff(room)) + 1).tolist(), len(items)]
    return ([*items[i:j]] for i, j in pairwise(bounds) if j > i)


def count_brackets(strings: Sequence[Bracketed], engine: Engine) -> CutCounts:
    """Count the cuts of bracketed strings in shards; an error where they do not fit into memory."""
    sizes = [len(x.words) for x in strings]
    require_memory(
        cut_bytes(sizes, (2 * n - 1 for n in sizes)),
        f"counting the contexts of the brackets of {len(strings):,} strings",
        "give fewer trees; --method wfa needs less memory and ignores the brackets",
    )
    placed = engine.place(shards_of(strings, (len(x.words) for x in strings)))
    return engine.total(CutCounts.of_brackets, placed)


def count_cuts(strings: Mapping[Inside, float], engine: Engine) -> CutCounts:
    """Count all cuts of plain strings in shards; an error where they do not fit into memory."""
    sizes = [len(x) for x in strings]
    require_memory(
        cut_bytes(sizes, (n * (n + 1) // 2 if n <= LONGEST_CUT else n + 1 for n in sizes)),
        f"counting every cut of {len(strings):,} strings",
        "give fewer or shorter strings; --method wfa and --method em need less memory",
    )
    items = sorted(strings.items())
    placed = engine.place(map(dict, shards_of(items, (len(x) for x, _ in items))))
    return engine.total(CutCounts.of_strings, placed)


def count_hankel(strings: Sequence[Bracketed], basis: Basis, engine: Engine) -> HankelCounts:
    """Hankel blocks of bracketed strings, shard by shard."""
    placed = engine.place(shards_of(strings, (len(x.words) for x in strings)))
    return engine.total(HankelCounts.of_brackets, placed, basis)


def frequencies(strings: Mapping[Inside, float], fraction: float = 1.0) -> dict[Inside, float]:
    """Observed probabilities of plain strings, which are a fraction of all strings."""
    total = sum(strings.values()) / fraction
    return {words: times / total for words, times in strings.items()}
