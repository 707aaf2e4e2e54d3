"""`EMWCFG`: a probabilistic grammar without labels by inside-outside (Baker; Lari and Young).

Shards of strings, bracketed or not, give expected counts, which add; the M-step normalises them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Self

import numpy as np

from sapwood.core.arrays import FieldSums, FloatArray, IntArray, starts_of
from sapwood.core.learner import (
    FLAG,
    MAX_STATES,
    Estimator,
    Info,
    at_least,
    parameter,
    positional,
    whole,
)
from sapwood.core.progress import counted, step
from sapwood.core.training_loops import EMSteps, EMStop, gains_less_than, iterate_em, run_em
from sapwood.corpora.tree import is_tree
from sapwood.execute import Engine, Placed
from sapwood.hankel.data import Bracketed
from sapwood.hankel.learn.moments import Inside, shards_of, symbols_of
from sapwood.hankel.learn.shared import (
    read_bracketed,
    read_strings,
    string_info,
    string_record,
)
from sapwood.hankel.model.weighted_grammar import WeightedGrammar, portions, refuse_long_strings

ROUNDS = 4  # of quasi-Newton steps, with EM in between; each begins with new curvature
QUASI_NEWTON_STEPS = 250  # quasi-Newton steps of a round
BETWEEN = 5  # EM iterations between two rounds
TOO_FAR = 1e9  # times the loss at the start: the loss where probabilities underflow
NEWTON_STEPS = 100  # a dozen are enough unless the sum is near divergence
LEAST_MASS = 1e-14  # fraction of the sum over all strings below which the rest is rounding


class EMWCFG(Estimator):
    """Probabilistic grammar from plain strings, or from bracketed ones, by EM.

    Each iteration raises the likelihood; where it ends depends on the start, so that the likeliest
    of several is kept.

    Attributes
    ----------
    model_
        A `WeightedGrammar` of probabilities.
    info_
        An `Info`, see `string_info`: iterations and log-likelihood of the best start.
    log_likelihoods_
        After each iteration of the best start.

    Examples
    --------
    >>> model = EMWCFG(1).fit([["a"], ["a"], ["a", "b"]]).model_
    >>> model.is_probabilistic, round(float(model.terminals.sum()), 3)
    (True, 0.8)
    """

    n_states: int = positional(
        default=4, domain=whole(1, MAX_STATES), words="Hidden states.", kw_only=False
    )
    iterations: int = parameter(200, whole(0), "The most EM iterations of a start.")
    starts: int = parameter(
        3, whole(1), "Random starts; the grammar of the highest likelihood is kept."
    )
    tolerance: float = parameter(
        1e-7, at_least(0), "Iterations end when the log-likelihood of a string gains less."
    )
    quasi_newton: bool = parameter(
        default=False,
        domain=FLAG,
        words="Whether up to 1,000 quasi-Newton steps follow, to the maximum of the likelihood, "
        "which EM alone reaches after many thousand iterations.",
    )
    seed: int = parameter(0, whole(0), "Seed of the random starts.")

    def fit(self, strings: Any, *, n: float | None = None) -> Self:
        """Learn from strings or from trees, or from a mapping of either to counts.

        Parameters
        ----------
        n
            How many strings there were, where those given are all up to the length of the longest
            of them: of the others, it is known that they are longer.
        """
        engine, info = self._engine(), string_info()
        shards: Any
        if not isinstance(strings, (str, bytes, Mapping)) and hasattr(strings, "__iter__"):
            strings = list(strings)
        first = next(iter(strings), 0) if isinstance(strings, (list, Mapping)) else 0
        is_tree_bank = isinstance(first, Bracketed) or is_tree(first)
        counts: Mapping[Any, float]
        lengths: dict[Any, int]
        if is_tree_bank:
            counts, info.extra["n_wide"] = _read_trees(strings)
            lengths = {x: len(x.words) for x in counts}
            symbols = symbols_of(x.words for x in counts)
            shards = tree_shards(counts, {x: i for i, x in enumerate(symbols)})
        else:
            counts = read_strings(strings)
            lengths = {x: len(x) for x in counts}
            refuse_long_strings(max(lengths.values()), self.n_states, engine.jobs_here)
            symbols = symbols_of(counts)
            shards = string_shards(counts, {x: i for i, x in enumerate(symbols)})
        n_given = float(sum(counts.values()))
        info.extra["n_strings"] = n_given if n is None else n
        if info.extra["n_strings"] > n_given:
            shards.append(LongStrings(info.extra["n_strings"] - n_given, max(lengths.values())))
        mean = sum(lengths[x] * t for x, t in counts.items()) / n_given
        placed, rng = engine.place(shards), np.random.default_rng(self.seed)
        runs = (
            self._run_em(random_grammar(symbols, self.n_states, mean, rng), placed, engine, info)
            for _ in counted(range(self.starts), "EM", unit="start")
        )
        found, self.log_likelihoods_ = max(runs, key=lambda run: run[1][-1])
        info.history = [{"log_likelihood": value} for value in self.log_likelihoods_]
        info.extra["iterations"] = len(self.log_likelihoods_) - 1
        info.extra["log_likelihood"] = self.log_likelihoods_[-1]
        self.info_ = info
        record = string_record(info, "em", self.n_states) | {"seed": self.seed}
        self.model_ = replace(found, record=record)
        return self

    def _run_em(
        self, start: WeightedGrammar, placed: Placed, engine: Engine, info: Info
    ) -> tuple[WeightedGrammar, list[float]]:
        """EM from a start; the log-likelihood of the model of each iteration."""
        least = self.tolerance * info.extra["n_strings"]
        steps = EMSteps[WeightedGrammar, ExpectedRules](
            lambda model: engine.total(expect_grammar_counts, placed, model),
            maximise_grammar_counts,
        )
        with step("", total=self.iterations, unit="iteration") as advance:
            stop = EMStop(self.iterations, gains_less_than(least))
            run = run_em(steps, start, stop, listen=lambda now: advance(now.iterations))
        if not self.quasi_newton:
            return run.parameters, run.values
        model, more = maximise_likelihood(run.parameters, steps.expect, least)
        return model, run.values + more


def maximise_likelihood(
    model: WeightedGrammar, expect: Callable[[WeightedGrammar], ExpectedRules], least: float
) -> tuple[WeightedGrammar, list[float]]:
    """The maximum of the likelihood near a grammar, by L-BFGS and EM in turn.

    With probabilities p = softmax(z) for each state, and expected counts c, the derivatives of the
    log-likelihood are  c - p sum(c):  an E-step gives them (Lange 1995). A maximum is where EM
    stays, so that rounds of both end when one gains less than `least`.

    Returns
    -------
    tuple
        The grammar, and the log-likelihood after each round, which never falls.
    """
    from scipy.optimize import minimize

    n, d = model.n_states, len(model.symbols)
    before = expect(model)
    scale = max(abs(before.log_likelihood), 1e-300)

    def grammar(z: FloatArray) -> WeightedGrammar:
        initial, rules = z[:n], z[n:].reshape(n, d + n * n)  # those of a state side by side
        initial = np.exp(initial - initial.max())
        rules = np.exp(rules - rules.max(axis=1, keepdims=True))
        rules /= rules.sum(axis=1, keepdims=True)
        terminals = np.ascontiguousarray(rules[:, :d].T)
        binary = np.ascontiguousarray(rules[:, d:]).reshape(n, n, n)
        made = (initial / initial.sum(), terminals, binary)
        return WeightedGrammar(model.symbols, *made, model.record)

    def loss(z: FloatArray) -> tuple[float, FloatArray]:
        here = grammar(z)
        with np.errstate(invalid="ignore", over="ignore"):  # steps may be far too long at first
            counts = expect(here)
        numbers = (counts.initial, counts.terminals, counts.binary)
        is_lost = counts.n_impossible > before.n_impossible
        if is_lost or not all(np.isfinite(x).all() for x in numbers):
            return TOO_FAR, np.zeros_like(z)  # and the step is made shorter
        total = counts.terminals.sum(axis=0) + counts.binary.sum(axis=(1, 2))
        slopes = (
            counts.initial - counts.initial.sum() * here.initial,
            counts.terminals - total * here.terminals,
            counts.binary - total[:, None, None] * here.binary,
        )
        return -counts.log_likelihood / scale, -_flat(*slopes) / scale

    def update(now: WeightedGrammar) -> WeightedGrammar:
        return maximise_grammar_counts(now, expect(now))

    track: list[float] = []
    for _ in range(ROUNDS):
        logs = np.log(np.maximum(_flat(*model.weights), 1e-300))
        options = {
            "maxiter": QUASI_NEWTON_STEPS,
            "maxfun": 2 * QUASI_NEWTON_STEPS,
            "maxcor": 30,
            "ftol": 0,
            "gtol": 1e-14,
        }
        done = minimize(loss, logs, jac=True, method="L-BFGS-B", options=options)
        found = grammar(done.x)
        found = iterate_em(update, found, BETWEEN)
        counts = expect(found)
        gain = counts.log_likelihood - before.log_likelihood
        if gain > 0 and counts.n_impossible <= before.n_impossible:
            model, before = found, counts
        track.append(before.log_likelihood)
        if gain <= least:
            break
    return model, track


def _flat(initial: FloatArray, terminals: FloatArray, binary: FloatArray) -> FloatArray:
    """All weights of a grammar, as a matrix with a row for each state."""
    return np.append(initial, np.hstack([terminals.T, binary.reshape(len(binary), -1)]))


def _read_trees(trees: Any) -> tuple[Counter[Bracketed], int]:
    """Counts of bracketed strings, and the number of nodes with more than two children."""
    times = trees.values() if isinstance(trees, Mapping) else repeat(1)
    found, n_wide = read_bracketed(list(trees))
    counts: Counter[Bracketed] = Counter()
    for tree, count in zip(found, times, strict=False):
        counts[tree] += count
    return counts, n_wide


def random_grammar(
    symbols: tuple[str, ...], n: int, mean_length: float, rng: np.random.Generator
) -> WeightedGrammar:
    """Random probabilities whose strings have about the mean length of the observed ones."""
    stop = mean_length / (2 * mean_length - 1)  # leaves among the nodes of a tree
    shares = np.clip(stop + rng.uniform(-0.1, 0.1, n), 0.05, 1.0)
    words, pairs = rng.dirichlet(np.ones(len(symbols)), n), rng.dirichlet(np.ones(n * n), n)
    return WeightedGrammar(
        symbols,
        rng.dirichlet(np.full(n, 5.0)),
        np.ascontiguousarray((shares[:, None] * words).T),
        ((1 - shares)[:, None] * pairs).reshape(n, n, n),
    )


def maximise_grammar_counts(model: WeightedGrammar, counts: ExpectedRules) -> WeightedGrammar:
    """Relative frequencies of the expected counts; a state that was never used is unchanged."""
    totals = counts.terminals.sum(axis=0) + counts.binary.sum(axis=(1, 2))
    used = totals > 0
    safe = np.where(used, totals, 1.0)
    return WeightedGrammar(
        model.symbols,
        counts.initial / counts.initial.sum() if counts.initial.sum() > 0 else model.initial,
        np.where(used, counts.terminals / safe, model.terminals),
        np.where(used[:, None, None], counts.binary / safe[:, None, None], model.binary),
        model.record,
    )


@dataclass(frozen=True, eq=False)
class ExpectedRules(FieldSums):
    """Expected counts in the shapes of a grammar's weights; `+` joins shards."""

    initial: FloatArray
    terminals: FloatArray
    binary: FloatArray
    log_likelihood: float  # of the strings of positive probability
    n_impossible: float  # strings of probability 0, which are in none of the other fields


@dataclass(frozen=True, eq=False)
class StringShard:
    """Plain strings and their counts, as flat arrays."""

    words: IntArray
    starts: IntArray
    weight: FloatArray

    @classmethod
    def of(cls, strings: Sequence[tuple[Inside, float]], number: Mapping[str, int]) -> StringShard:
        """Strings by the numbers of their symbols."""
        words = [number[symbol] for x, _ in strings for symbol in x]
        starts = starts_of([len(x) for x, _ in strings])
        return cls(np.array(words, np.int64), starts, np.array([t for _, t in strings], float))

    def expect(self, grammar: WeightedGrammar) -> ExpectedRules:
        """Expected counts of all derivations of the strings."""
        from sapwood.hankel.model.kernels.weighted_grammar import log_slopes

        weights = grammar.weights
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
    """Strings whose number and least length are known, and nothing else.

    Attributes
    ----------
    weight
        The number of strings.
    longest
        The number of symbols that each of them exceeds.
    """

    weight: float
    longest: int

    def expect(self, grammar: WeightedGrammar) -> ExpectedRules:
        """Expected counts of all derivations of longer strings, given a grammar of probabilities.

        The counts of all strings minus those of strings up to the length; for the latter, one
        symbol stands for all, so that there is one string of each length.
        """
        from sapwood.hankel.model.kernels.weighted_grammar import log_slopes

        weights = grammar.weights
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
        if left <= LEAST_MASS * total:  # a grammar without longer strings
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
    """Derivatives of the sum over all strings by all weights, which are not negative; the sum.

    b = sum of beta_sigma + A (b (x) b) by Newton's steps from 0, which climb to the least solution.
    """
    binary, c = grammar.binary, grammar.terminals.sum(axis=0)
    b = np.zeros_like(c)
    for _ in range(NEWTON_STEPS):
        away = c + np.einsum("abc,b,c->a", binary, b, b) - b
        if away.max() <= LEAST_MASS:
            break
        jacobian = np.einsum("abc,b->ac", binary, b) + np.einsum("abc,c->ab", binary, b)
        b = b + np.linalg.lstsq(np.eye(len(b)) - jacobian, away, rcond=None)[0]
    jacobian = np.einsum("abc,b->ac", binary, b) + np.einsum("abc,c->ab", binary, b)
    uses = np.linalg.lstsq((np.eye(len(b)) - jacobian).T, grammar.initial, rcond=None)[0]
    slopes = [b, np.tile(uses, (len(grammar.symbols), 1)), np.einsum("a,b,c->abc", uses, b, b)]
    return slopes, float(grammar.initial @ b)


@dataclass(frozen=True, eq=False)
class BracketShard:
    """Bracketed strings as flat arrays of nodes, children before parents; how often each counts."""

    word: IntArray
    left: IntArray
    right: IntArray
    starts: IntArray
    weight: FloatArray

    @classmethod
    def of(
        cls, strings: Sequence[tuple[Bracketed, float]], number: Mapping[str, int]
    ) -> BracketShard:
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

    def expect(self, grammar: WeightedGrammar) -> ExpectedRules:
        """Expected counts of the states at the nodes of the brackets."""
        from sapwood.hankel.model.kernels.weighted_grammar import tree_counts

        weights = grammar.weights
        sums = [np.zeros_like(x) for x in weights]
        nodes, logs = (self.word, self.left, self.right), np.zeros(len(self.weight))
        tree_counts(*nodes, self.starts, self.weight, *weights, *sums, logs)
        return _counts(sums, logs, self.weight)


def _counts(arrays: list[FloatArray], logs: FloatArray, weight: FloatArray) -> ExpectedRules:
    initial, terminals, binary = arrays
    possible = np.isfinite(logs)
    likelihood = float(logs[possible] @ weight[possible])
    return ExpectedRules(initial, terminals, binary, likelihood, float(weight[~possible].sum()))


def expect_grammar_counts(
    shard: StringShard | LongStrings | BracketShard, grammar: WeightedGrammar
) -> ExpectedRules:
    """The E-step on a shard."""
    return shard.expect(grammar)


def string_shards(strings: Mapping[Inside, float], number: Mapping[str, int]) -> list[StringShard]:
    """Plain strings in shards of about one size of charts."""
    items = sorted(strings.items(), key=lambda item: (len(item[0]), item[0]))
    cost = (int(1 + len(x) ** 3 / 100) for x, _ in items)
    return [StringShard.of(part, number) for part in shards_of(items, cost)]


def tree_shards(
    strings: Mapping[Bracketed, float], number: Mapping[str, int]
) -> list[BracketShard]:
    """Bracketed strings in shards of about one size."""
    items = list(strings.items())
    sizes = (len(x.words) for x, _ in items)
    return [BracketShard.of(part, number) for part in shards_of(items, sizes)]
