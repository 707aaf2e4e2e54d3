"""`WeightedGrammar`: a weighted context-free grammar without labels, in algebraic form.

Notation (WCFG, sections 2.1 and 2.2)
-------------------------------------
    alpha_*      initial      [n]         weight of starting with a state          w_*(i)
    beta_sigma   terminals    [d, n]      a row for each symbol                    w_T(i -> sigma)
    A            binary       [n, n, n]   the bilinear operator                    w_R(i -> j k)

    g(x) = alpha_* . beta(x),   beta(sigma) = beta_sigma,
    beta(x) = sum over x = x1 x2 of  A (beta(x1) (x) beta(x2))

Classic and algebraic form are the same numbers (equations 13 to 15): `from_classic` takes rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray, SignedLog, starts_of
from sapwood.core.errors import SapwoodError, as_count, count, join_words, require_memory
from sapwood.corpora.tree import Tree
from sapwood.hankel.data import (
    UNPAIRED,
    Bracketed,
    PairConstraints,
    PairRequest,
    bracket,
    from_splits,
)
from sapwood.hankel.model.string_model import (
    MAX_DRAWN_SYMBOLS,
    MAX_DRAWS,
    StringModel,
    Total,
    endless_draws,
    signed_log,
)

MAX_DEPTH = 20_000  # trees up to this depth are summed
CHART_BYTES = 32  # of memory for a state of a span, by its two ends: three charts and a scale
CHART_OPERATIONS = 1 << 22  # operations of a chart, roughly, in one call of compiled code


class ClassicForm(NamedTuple):
    """The grammar as weighted rules over states 0, 1, ...; weights of 0 are left out."""

    start: dict[int, float]
    unary: dict[tuple[int, str], float]
    binary: dict[tuple[int, int, int], float]


@dataclass(frozen=True, eq=False, repr=False)
class WeightedGrammar(StringModel):
    """A weighted grammar over symbols; see the notation of this module.

    Attributes
    ----------
    symbols : [d]
    initial : [n]
    terminals : [d, n]
    binary : [n, n, n]
    record
        How it was made.

    Examples
    --------
    One state that becomes `a` or two of itself: the strings of n symbols have Catalan(n - 1) trees.

    >>> one = np.ones(1)
    >>> grammar = WeightedGrammar(("a",), one, one[None], one[None, None])
    >>> grammar.values([["a"] * n for n in range(1, 7)]).tolist()
    [1.0, 1.0, 2.0, 5.0, 14.0, 42.0]
    >>> grammar.total().converges
    False
    """

    SHAPES: ClassVar[Mapping[str, str]] = {"initial": "n", "terminals": "dn", "binary": "nnn"}
    symbols: tuple[str, ...]
    initial: FloatArray
    terminals: FloatArray
    binary: FloatArray
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state_sums(self) -> FloatArray:
        """The weights of the symbols of a state, and of its pairs of states."""
        return np.asarray(self.terminals.sum(axis=0) + self.binary.sum(axis=(1, 2)))

    @classmethod
    def from_classic(cls, rules: ClassicForm, **more: Any) -> Self:
        """The grammar of weighted rules.

        Examples
        --------
        >>> dyck = ClassicForm({0: 1.0}, {(1, "a"): 1.0, (2, "b"): 1.0}, {
        ...     (0, 0, 0): 0.2, (0, 1, 3): 0.4, (3, 0, 2): 1.0, (0, 1, 2): 0.4})
        >>> grammar = WeightedGrammar.from_classic(dyck)
        >>> grammar.is_probabilistic, round(grammar.value("a a b b a b".split()), 4)
        (True, 0.0128)
        """
        used = {i for i in rules.start} | {i for i, _ in rules.unary}
        n = 1 + max(used.union(*rules.binary)) if used or rules.binary else 0
        symbols = tuple(sorted({symbol for _, symbol in rules.unary}))
        initial, terminals = np.zeros(n), np.zeros((len(symbols), n))
        binary = np.zeros((n, n, n))
        for i, weight in rules.start.items():
            initial[i] = weight
        for (i, symbol), weight in rules.unary.items():
            terminals[symbols.index(symbol), i] = weight
        for at, weight in rules.binary.items():
            binary[at] = weight
        return cls(symbols, initial, terminals, binary, **more)

    # -- values -----------------------------------------------------------------------------------

    def scaled_values(self, strings: Sequence[IntArray]) -> tuple[FloatArray, IntArray]:
        """Sums over all derivations, each as a number and a power of two."""
        from sapwood.hankel.model.kernels.weighted_grammar import string_values

        lengths = np.array([len(x) for x in strings], np.int64)
        value, scale = np.zeros(len(strings)), np.zeros(len(strings), np.int64)
        for first, last in portions(lengths, self.n_states):
            words = np.concatenate(strings[first:last])
            string_values(
                words, starts_of(lengths[first:last]), *self.weights, value[first:last],
                scale[first:last],
            )  # fmt: skip
        return value, scale

    def signed_log_prob(self, words: Sequence[str] | Tree) -> SignedLog:
        """The log of |f(x)| and its sign; of a tree, of the derivations with its brackets only."""
        if not isinstance(words, Tree):
            return super().signed_log_prob(words)
        found, _ = bracket(words)
        vectors = dict(enumerate(self.terminals[self.numbers(found.words)]))
        spans = {(i, i + 1): (vectors[i], 0) for i in vectors}
        for i, k, j in found.splits:
            (left, one), (right, two) = spans[i, k], spans[k, j]
            vector = np.einsum("abc,b,c->a", self.binary, left, right)
            power = int(np.frexp(np.abs(vector).max())[1])
            spans[i, j] = np.ldexp(vector, -power), one + two + power
        vector, power = spans[0, len(found.words)]
        return signed_log(float(self.initial @ vector), power)

    def inside(self, words: Sequence[str]) -> FloatArray:
        """beta(x), the inside vector of a string, shape [n]."""
        beta, scale = self.chart(self.numbers(words))
        return np.asarray(np.ldexp(beta[0, -1], max(int(scale[0, -1]), -2000)))

    def outside(self, before: Sequence[str], behind: Sequence[str]) -> FloatArray:
        """alpha(x; z), the outside vector of a context, shape [n].

        alpha(x; z) . beta(y) is the weight of xyz with a bracket around y.
        """
        n, x, z = self.n_states, [*before], [*behind]
        vectors: dict[tuple[int, int], FloatArray] = {(0, len(z)): np.asarray(self.initial)}
        left = {(i, j): self.inside(x[i:j]) for j in range(len(x) + 1) for i in range(j)}
        right = {(i, j): self.inside(z[i:j]) for j in range(len(z) + 1) for i in range(j)}
        for size in range(len(x) + 1):  # the context <x[:size]; z[start:]>
            for start in range(len(z), -1, -1):
                if (size, start) in vectors:
                    continue
                total = np.zeros(n)
                for k in range(size):
                    total += np.einsum("a,abc,b->c", vectors[k, start], self.binary, left[k, size])
                for k in range(start + 1, len(z) + 1):
                    total += np.einsum("a,abc,c->b", vectors[size, k], self.binary, right[start, k])
                vectors[size, start] = total
        return vectors[len(x), 0]

    def chart(self, words: IntArray) -> tuple[FloatArray, IntArray]:
        """Scaled inside vectors of all spans, and their scales as powers of two; see the kernel."""
        from sapwood.hankel.model.kernels.weighted_grammar import fill_inside_chart

        size = len(words)
        refuse_long_strings(size, self.n_states)
        beta = np.zeros((size, size + 1, self.n_states))
        scale = np.zeros((size, size + 1), np.int64)
        fill_inside_chart(words, self.terminals, self.binary, beta, scale)
        return beta, scale

    def marginals(self, words: Sequence[str], pairs: PairConstraints | None = None) -> FloatArray:
        """The posterior of each span [i, j) of a string, shape [length, length + 1].

        Parameters
        ----------
        pairs
            What is known of the pairs of symbols: posteriors are then those given that.

        Raises
        ------
        SapwoodError
            For a string of the value 0, also where this is the value of the trees with these pairs.
        """
        from sapwood.hankel.model.kernels.weighted_grammar import fill_outside_chart

        if pairs is not None:
            return self._paired_chart(words, pairs)[1]
        ids = self.numbers(words)
        beta, scale = self.chart(ids)
        alpha = np.zeros_like(beta)
        if (
            fill_outside_chart(ids, self.initial, self.terminals, self.binary, beta, scale, alpha)
            == 0.0
        ):
            msg = f"the model gives the string {' '.join(list(words)[:8])} ... the value 0"
            raise SapwoodError(msg, hint="learn from more strings, or with --method em")
        return np.asarray(np.einsum("ija,ija->ij", alpha, beta))

    def _paired_chart(
        self, words: Sequence[str], pairs: PairConstraints
    ) -> tuple[SignedLog, FloatArray]:
        """The sum over the trees with some pairs, and the posteriors of spans in them."""
        from sapwood.hankel.model.kernels.paired_chart import (
            fill_paired_inside,
            fill_paired_outside,
        )

        _check_length(words, pairs)
        ids, masks = self.numbers(words), (pairs.ok, pairs.free)
        size = len(ids)
        refuse_long_strings(size, 3 * self.n_states)
        beta = np.zeros((size, size + 1, 3, self.n_states))
        scale = np.zeros((size, size + 1), np.int64)
        fill_paired_inside(ids, self.terminals, self.binary, *masks, beta, scale)
        posterior, alpha = np.zeros((size, size + 1)), np.zeros_like(beta)
        value = fill_paired_outside(
            self.initial, self.binary, *masks, beta, scale, alpha, posterior
        )
        if value == 0.0 or (size == 1 and not pairs.free[0]):
            msg = f"the model gives all trees with the pairs {pairs.signs[:40]} the value 0"
            raise SapwoodError(msg, hint="ask for fewer pairs, or learn with --method em")
        return signed_log(float(value), int(scale[0, size])), posterior

    def pair_log_prob(self, words: Sequence[str], pairs: PairConstraints) -> SignedLog:
        """Log and sign of the fraction of a string's value that is due to trees with some pairs.

        Where weights are probabilities, this is the probability of the pairs given the string.
        """
        _check_length(words, pairs)
        try:
            some, _ = self._paired_chart(words, pairs)
        except SapwoodError:
            self.numbers(words)  # an unknown symbol is another error
            return SignedLog(-np.inf, 0)
        everything = self.signed_log_prob(words)
        if everything.sign == 0:
            return SignedLog(-np.inf, 0)
        return SignedLog(some.log - everything.log, some.sign * everything.sign)

    def best_brackets(
        self, words: Sequence[str], pairs: PairConstraints | None = None
    ) -> Bracketed:
        """The brackets with the largest sum of posteriors; negative posteriors count as 0.

        A string of the value 0 gets right-branching brackets, or those of its pairs.

        Parameters
        ----------
        pairs
            What is known of the pairs of symbols, which the brackets then have.

        Raises
        ------
        SapwoodError
            Where no brackets have such pairs.
        """
        from sapwood.hankel.model.kernels.paired_chart import best_paired_brackets
        from sapwood.hankel.model.kernels.weighted_grammar import best_brackets

        _check_length(words, pairs)
        try:
            gain = np.maximum(self.marginals(words, pairs), 0.0)
        except SapwoodError:
            self.numbers(words)  # an unknown symbol is another error
            gain = np.zeros((len(words), len(words) + 1))
        split = np.zeros(gain.shape, np.int64)
        if pairs is None:
            best_brackets(gain, split)
        elif best_paired_brackets(gain, pairs.ok, pairs.free, split) == -np.inf:
            raise SapwoodError(
                f"no brackets have {_clash_of(pairs)}",
                hint="ask for less: two symbols are a pair only with a symbol between them, and "
                "pairs do not cross",
            )
        return from_splits(words, {(i, j): int(k) for (i, j), k in np.ndenumerate(split)})

    # -- sums -------------------------------------------------------------------------------------

    def length_masses(self, longest: int) -> FloatArray:
        """The sum of the values of all strings of each length 1, 2, ..., shape [longest]."""
        sums = [self.terminals.sum(axis=0)]
        for _ in range(2, longest + 1):
            pairs = np.einsum("kb,kc->bc", np.array(sums), np.array(sums[::-1]))
            sums.append(np.einsum("abc,bc->a", self.binary, pairs))
        return np.asarray(np.array(sums) @ self.initial)

    def total(self) -> Total:
        """The sum over all strings: alpha_* . b with b = sum of beta_sigma + A (b (x) b).

        b is summed over trees of ever greater depth; the sum converges when the spectral radius of
        the map linearised there, A (b (x) I) + A (I (x) b), is below 1. The expected length is the
        derivative by a factor on every terminal: b' = (I - J)^-1 (sum of beta_sigma).
        """
        c = self.terminals.sum(axis=0)
        b = np.zeros_like(c)
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(MAX_DEPTH):
                new = c + np.einsum("abc,b,c->a", self.binary, b, b)
                is_still = np.abs(new - b).max() <= 1e-15 * np.abs(new).max()
                b = new
                if is_still or not np.isfinite(b).all():
                    break
            jacobian = np.einsum("abc,b->ac", self.binary, b)
            jacobian += np.einsum("abc,c->ab", self.binary, b)
        if not (np.isfinite(b).all() and np.isfinite(jacobian).all()):
            return Total(np.inf, np.inf, np.inf)
        radius = float(np.abs(np.linalg.eigvals(jacobian)).max())
        if radius >= 1 - 1e-9:  # the sum over depths diverges, or nearly so
            is_critical = is_still or radius < 1 + 1e-3
            mass = float(self.initial @ b) if is_critical else np.inf
            return Total(mass, np.inf, radius)
        # weights of all sizes can make it singular to rounding, whatever the radius
        slope = np.linalg.lstsq(np.eye(len(b)) - jacobian, c, rcond=None)[0]
        mass = float(self.initial @ b)
        return Total(mass, float(self.initial @ slope) / mass if mass else 0.0, radius)

    def sample(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Tree]:
        """Draw strings with their brackets, as trees."""
        return [found.tree() for found in self.sample_brackets(n, seed=seed)]

    def sample_brackets(self, n: int, *, seed: int | np.random.Generator = 0) -> list[Bracketed]:
        """Draw strings with their brackets, as `Bracketed`.

        Raises
        ------
        SapwoodError
            For weights that are no probabilities, or strings that do not end.
        """
        self._require_probabilities()
        rng, d = np.random.default_rng(seed), len(self.symbols)
        # outcomes of a state: its symbols, then its pairs of states
        outcomes = np.hstack([self.terminals.T, self.binary.reshape(self.n_states, -1)])
        cumulative = np.cumsum(outcomes, axis=1)
        cumulative /= cumulative[:, -1:]
        start = np.cumsum(self.initial) / self.initial.sum()
        drawn = []
        for _ in range(as_count(n, "the number of strings")):
            for _ in range(MAX_DRAWS):
                found = _draw(rng, start, cumulative, d, self.n_states)
                if found is not None:
                    break
            else:
                raise endless_draws()
            words, splits = found
            drawn.append(Bracketed(tuple(self.symbols[x] for x in words), splits))
        return drawn


MOST_NAMED_REQUESTS = 4  # requests that a message lists


def _clash_of(pairs: PairConstraints) -> str:
    """The requests of some signs that no brackets have together, as few as possible, in words."""
    from sapwood.hankel.model.kernels.paired_chart import best_paired_brackets

    n = len(pairs.signs)
    gain, split = np.zeros((n, n + 1)), np.zeros((n, n + 1), np.int64)

    def is_possible(requests: Sequence[PairRequest]) -> bool:
        some = pairs.only(requests)
        return bool(best_paired_brackets(gain, some.ok, some.free, split) > -np.inf)

    def clashing(
        requests: list[PairRequest], others: list[PairRequest], *, is_grown: bool
    ) -> list[PairRequest]:
        """The fewest requests that are impossible together with others (Junker's QuickXplain)."""
        if is_grown and not is_possible(others):
            return []
        if len(requests) == 1:
            return requests
        first, second = requests[: len(requests) // 2], requests[len(requests) // 2 :]
        late = clashing(second, others + first, is_grown=True)
        return clashing(first, others + late, is_grown=bool(late)) + late

    found = clashing(pairs.requests(), [], is_grown=False)
    found.sort(key=lambda request: (request.sign == UNPAIRED, request))
    names = [str(request) for request in found[:MOST_NAMED_REQUESTS]]
    if more := len(found) - len(names):
        names.append(f"{more:,} more")
    return join_words(names)


def _check_length(words: Sequence[str], pairs: PairConstraints | None) -> None:
    """Refuse constraints of a string of another length."""
    if pairs is not None and len(pairs.signs) != len(words):
        n_signs, n_words = count(len(pairs.signs), "sign"), count(len(words), "symbol")
        raise SapwoodError(
            f"{n_signs} for a string of {n_words}", hint="give one sign for each symbol"
        )


def refuse_long_strings(longest: int, n_states: int, jobs: int = 1) -> None:
    """Refuse strings whose charts, of all spans and states, need more memory than there is."""
    require_memory(
        CHART_BYTES * jobs * n_states * longest**2,
        f"the chart of a string of {longest:,} symbols with {count(n_states, 'state')}",
        "leave out or cut the longest strings, or take a model of fewer states",
    )


def portions(lengths: IntArray, n_states: int) -> Iterable[tuple[int, int]]:
    """Ranges of strings whose charts together take about a tenth of a second."""
    if not len(lengths):
        return []
    refuse_long_strings(int(lengths.max()), n_states)
    cost = np.cumsum(lengths.astype(float) ** 3 / 6 * n_states**2 + lengths**2 / 2 * n_states**3)
    cuts = np.flatnonzero(np.diff(cost // (10 * CHART_OPERATIONS))) + 1
    bounds = [0, *cuts.tolist(), len(lengths)]
    return pairwise(bounds)


def _draw(
    rng: np.random.Generator, start: FloatArray, cumulative: FloatArray, d: int, n: int
) -> tuple[list[int], tuple[tuple[int, int, int], ...]] | None:
    """Draw the symbols and splits of one string from the top down; None if it is too long."""
    words: list[int] = []
    splits: list[tuple[int, int, int]] = []
    # tasks, the next one last: a state to draw from, or a node to close, with its start and, once
    # its left child is done, its split
    waiting: list[tuple[int, list[int]]] = [(int(np.searchsorted(start, rng.random())), [])]
    while waiting:
        state, node = waiting.pop()
        if state == -2:  # the left child is done
            node.append(len(words))
        elif state == -1:
            splits.append((node[0], node[1], len(words)))
        else:
            outcome = int(np.searchsorted(cumulative[state], rng.random(), side="right"))
            if outcome < d:
                words.append(outcome)
                continue
            left, right = divmod(min(outcome, d + n * n - 1) - d, n)
            made = [len(words)]
            waiting += [(-1, made), (right, []), (-2, made), (left, [])]
        if len(words) + len(waiting) > 2 * MAX_DRAWN_SYMBOLS:
            return None
    return words, tuple(splits)
