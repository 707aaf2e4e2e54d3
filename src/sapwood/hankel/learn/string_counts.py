"""Expected counts of weighted grammars over strings, bracketed or not: the moments of EM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.hankel.data.bracketed import Bracketed
from sapwood.hankel.learn.moments import Inside, shards_of
from sapwood.hankel.model.weighted_grammar import WeightedGrammar, portions

NEWTON_STEPS = 100  # a dozen, but where the sum hardly converges
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class GrammarCounts:
    """Expected counts in the shapes of a grammar's weights; `+` joins shards.

    Attributes
    ----------
    initial, terminals, binary
        Expected counts.
    log_likelihood
        Of the strings that have any probability.
    n_impossible
        Strings without; they are in none of the other numbers.
    """

    initial: FloatArray
    terminals: FloatArray
    binary: FloatArray
    log_likelihood: float
    n_impossible: float

    def __add__(self, other: GrammarCounts) -> GrammarCounts:
        return GrammarCounts(
            self.initial + other.initial,
            self.terminals + other.terminals,
            self.binary + other.binary,
            self.log_likelihood + other.log_likelihood,
            self.n_impossible + other.n_impossible,
        )


@dataclass(frozen=True, eq=False)
class StringShard:
    """Plain strings with how often each counts, as flat arrays."""

    words: IntArray
    starts: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, strings: Sequence[tuple[Inside, float]], number: Mapping[str, int]) -> StringShard:
        """Strings by the numbers of their symbols."""
        words = [number[symbol] for x, _ in strings for symbol in x]
        starts = starts_of([len(x) for x, _ in strings])
        return cls(np.array(words, np.int64), starts, np.array([t for _, t in strings], float))

    def expect(self, grammar: WeightedGrammar) -> GrammarCounts:
        """Expected counts of all derivations of the strings."""
        from sapwood.hankel.model.kernels.weighted_grammar import log_slopes

        weights = (grammar.initial, grammar.terminals, grammar.binary)
        slopes = [np.zeros_like(x) for x in weights]
        logs = np.zeros(len(self.weight))
        for first, last in portions(np.diff(self.starts), grammar.n_states):
            here = self.starts[first : last + 1]
            log_slopes(
                self.words[here[0] : here[-1]], here - here[0], self.weight[first:last], *weights,
                *slopes, logs[first:last],
            )  # fmt: skip
        counts = [x * slope for x, slope in zip(weights, slopes, strict=True)]
        return _counts(counts, logs, self.weight)


@dataclass(frozen=True, eq=False)
class LongStrings:
    """Strings of which only this is known: how many there were, and that they were longer.

    Attributes
    ----------
    weight
        How many.
    longest
        Symbols that each has more of.
    """

    weight: float
    longest: int

    def expect(self, grammar: WeightedGrammar) -> GrammarCounts:
        """Expected counts of all derivations of longer strings, as a grammar of probabilities has.

        What all strings have, less what those up to the length have; the latter with one symbol
        in place of all, so that there is one string of each length.
        """
        from sapwood.hankel.model.kernels.weighted_grammar import log_slopes

        weights = (grammar.initial, grammar.terminals, grammar.binary)
        slopes, total = _slopes_of_all(grammar)
        one = grammar.terminals.sum(axis=0)[None]
        masses = grammar.length_masses(self.longest)
        short = [np.zeros_like(grammar.initial), np.zeros_like(one), np.zeros_like(grammar.binary)]
        lengths = np.arange(1, self.longest + 1)
        log_slopes(
            np.zeros(lengths.sum(), np.int64), starts_of(lengths), masses, grammar.initial, one,
            grammar.binary, *short, np.zeros(self.longest),
        )  # fmt: skip
        left = total - float(masses.sum())
        if left <= ROUNDING * total:  # a grammar without longer strings
            return _counts([np.zeros_like(x) for x in weights], np.array([-np.inf]), self._one)
        counts = [
            x * np.maximum(whole - part, 0.0) * (self.weight / left)
            for x, whole, part in zip(weights, slopes, short, strict=True)
        ]
        return _counts(counts, np.array([np.log(left)]), self._one)

    @property
    def _one(self) -> FloatArray:
        return np.array([self.weight])


def _slopes_of_all(grammar: WeightedGrammar) -> tuple[list[FloatArray], float]:
    """Derivatives of the sum over all strings by all weights, none of them negative; the sum.

    b = sum of beta_sigma + A (b (x) b) by Newton's steps from 0, which climb to the least solution.
    """
    binary, c = grammar.binary, grammar.terminals.sum(axis=0)
    b = np.zeros_like(c)
    for _ in range(NEWTON_STEPS):
        away = c + np.einsum("abc,b,c->a", binary, b, b) - b
        if away.max() <= ROUNDING:
            break
        jacobian = np.einsum("abc,b->ac", binary, b) + np.einsum("abc,c->ab", binary, b)
        b = b + np.linalg.lstsq(np.eye(len(b)) - jacobian, away, rcond=None)[0]
    jacobian = np.einsum("abc,b->ac", binary, b) + np.einsum("abc,c->ab", binary, b)
    uses = np.linalg.lstsq((np.eye(len(b)) - jacobian).T, grammar.initial, rcond=None)[0]
    slopes = [b, np.tile(uses, (len(grammar.symbols), 1)), np.einsum("a,b,c->abc", uses, b, b)]
    return slopes, float(grammar.initial @ b)


@dataclass(frozen=True, eq=False)
class TreeShard:
    """Bracketed strings as flat arrays of nodes, children before parents; how often each counts."""

    word: IntArray
    left: IntArray
    right: IntArray
    starts: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, strings: Sequence[tuple[Bracketed, float]], number: Mapping[str, int]) -> TreeShard:
        """Nodes of the brackets, with the numbers of symbols at leaves."""
        word, left, right = [], [], []
        for (words, splits), _ in strings:
            n = len(words)
            at = {(i, i + 1): i for i in range(n)}
            word += [number[symbol] for symbol in words] + [-1] * (n - 1)
            left += [-1] * n
            right += [-1] * n
            for place, (i, k, j) in enumerate(splits, n):
                left.append(at[i, k])
                right.append(at[k, j])
                at[i, j] = place
        starts = starts_of([2 * len(x.words) - 1 for x, _ in strings])
        weight = np.array([times for _, times in strings], float)
        return cls(np.array(word), np.array(left), np.array(right), starts, weight)

    def expect(self, grammar: WeightedGrammar) -> GrammarCounts:
        """Expected counts of the states at the nodes of the brackets."""
        from sapwood.hankel.model.kernels.weighted_grammar import tree_counts

        weights = (grammar.initial, grammar.terminals, grammar.binary)
        sums = [np.zeros_like(x) for x in weights]
        nodes, logs = (self.word, self.left, self.right), np.zeros(len(self.weight))
        tree_counts(*nodes, self.starts, self.weight, *weights, *sums, logs)
        return _counts(sums, logs, self.weight)


def _counts(arrays: list[FloatArray], logs: FloatArray, weight: FloatArray) -> GrammarCounts:
    initial, terminals, binary = arrays
    possible = np.isfinite(logs)
    likelihood = float(logs[possible] @ weight[possible])
    return GrammarCounts(initial, terminals, binary, likelihood, float(weight[~possible].sum()))


def expect(shard: StringShard | LongStrings | TreeShard, grammar: WeightedGrammar) -> GrammarCounts:
    """The E-step on a shard."""
    return shard.expect(grammar)


def string_shards(strings: Mapping[Inside, float], number: Mapping[str, int]) -> list[StringShard]:
    """Plain strings in shards of about one size of charts."""
    items = sorted(strings.items(), key=lambda item: (len(item[0]), item[0]))
    cost = (int(1 + len(x) ** 3 / 100) for x, _ in items)
    return [StringShard.of(part, number) for part in shards_of(items, cost)]


def tree_shards(strings: Mapping[Bracketed, float], number: Mapping[str, int]) -> list[TreeShard]:
    """Bracketed strings in shards of about one size."""
    items = list(strings.items())
    sizes = (len(x.words) for x, _ in items)
    return [TreeShard.of(part, number) for part in shards_of(items, sizes)]
