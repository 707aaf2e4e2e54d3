"""`EMWCFG`: a probabilistic grammar without labels by inside-outside (Baker; Lari and Young)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, Self

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.em_loop import EMSteps, EMStop, gains_less_than, run_em
from sapwood.core.info import Info
from sapwood.core.learner import FLAG, at_least, parameter, positional, whole
from sapwood.corpora.tree import is_tree
from sapwood.execute import Engine, Placed
from sapwood.hankel.data.bracketed import Bracketed
from sapwood.hankel.learn.shared import (
    MAX_STATES,
    OfStrings,
    read_brackets,
    read_strings,
    string_info,
    string_record,
)
from sapwood.hankel.learn.string_counts import (
    GrammarCounts,
    LongStrings,
    expect,
    string_shards,
    tree_shards,
)
from sapwood.hankel.model.weighted_grammar import WeightedGrammar, refuse_long_strings
from sapwood.progress import counted, step

ROUNDS = 4  # of quasi-Newton steps, with EM in between; each begins with new curvature
STEPS = 250  # quasi-Newton steps of a round
BETWEEN = 5  # EM iterations between two rounds
TOO_FAR = 1e9  # times the loss at the start: the loss where probabilities underflow


class EMWCFG(OfStrings):
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
    starts: int = parameter(3, whole(1), "Random starts, of which the likeliest is kept.")
    tolerance: float = parameter(
        1e-7, at_least(0), "Iterations end when the log-likelihood of a string gains less."
    )
    quasi_newton: bool = parameter(
        default=False,
        domain=FLAG,
        words="Whether up to 1,000 quasi-Newton steps follow, to the maximum of the likelihood, "
        "which EM alone reaches after many thousand iterations.",
    )
    seed: int = parameter(0, whole(0), "Of the random starts.")

    def fit(self, strings: Any, *, n: float | None = None) -> Self:
        """Learn from strings or from trees, or from a mapping of either to counts.

        Parameters
        ----------
        n
            How many strings there were, where those given are all up to the length of the longest
            of them: of the others, it is known that they are longer.
        """
        self._check_parameters()
        engine, info = self._engine(), string_info()
        shards: Any
        if not isinstance(strings, (str, bytes, Mapping)) and hasattr(strings, "__iter__"):
            strings = list(strings)
        is_tree_bank = isinstance(strings, (list, Mapping)) and _is_bracketed(
            next(iter(strings), 0)
        )
        counts: Mapping[Any, float]
        lengths: dict[Any, int]
        if is_tree_bank:
            counts, info.n_wide = _read_trees(strings)
            lengths = {x: len(x.words) for x in counts}
            symbols = tuple(sorted({symbol for x in counts for symbol in x.words}))
            shards = tree_shards(counts, {x: i for i, x in enumerate(symbols)})
        else:
            counts = read_strings(strings)
            lengths = {x: len(x) for x in counts}
            refuse_long_strings(max(lengths.values()), self.n_states, engine.jobs_here)
            symbols = tuple(sorted({symbol for x in counts for symbol in x}))
            shards = string_shards(counts, {x: i for i, x in enumerate(symbols)})
        n_given = float(sum(counts.values()))
        info.n_strings = n_given if n is None else n
        if info.n_strings > n_given:
            shards.append(LongStrings(info.n_strings - n_given, max(lengths.values())))
        mean = sum(lengths[x] * t for x, t in counts.items()) / n_given
        placed, rng = engine.place(shards), np.random.default_rng(self.seed)
        runs = (
            self._run_em(random_grammar(symbols, self.n_states, mean, rng), placed, engine, info)
            for _ in counted(range(self.starts), "EM", unit="start")
        )
        found, self.log_likelihoods_ = max(runs, key=lambda run: run[1][-1])
        info.history = [{"log_likelihood": value} for value in self.log_likelihoods_]
        info.extra["iterations"] = len(self.log_likelihoods_) - 1
        info.log_likelihood = self.log_likelihoods_[-1]
        self.info_ = info
        arrays = (found.initial, found.terminals, found.binary)
        record = string_record(info, "em", self.n_states) | {"seed": self.seed}
        self.model_ = WeightedGrammar(symbols, *arrays, record)
        return self

    def _run_em(
        self, start: WeightedGrammar, placed: Placed, engine: Engine, info: Info
    ) -> tuple[WeightedGrammar, list[float]]:
        """EM from a start; the log-likelihood of each model on the way."""
        least = self.tolerance * info.n_strings
        steps = EMSteps[WeightedGrammar, GrammarCounts](
            lambda model: engine.total(expect, placed, model), maximise
        )
        with step("", total=self.iterations, unit="iteration") as advance:
            stop = EMStop(self.iterations, gains_less_than(least))
            run = run_em(steps, start, stop, listen=lambda now: advance(now.iterations))
        if not self.quasi_newton:
            return run.parameters, run.values
        model, more = maximise_likelihood(run.parameters, steps.expect, least)
        return model, run.values + more


def maximise_likelihood(
    model: WeightedGrammar, expect: Callable[[WeightedGrammar], GrammarCounts], least: float
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
        numbers = _flat(counts.initial, counts.terminals, counts.binary)
        if counts.n_impossible > before.n_impossible or not np.isfinite(numbers).all():
            return TOO_FAR, np.zeros_like(z)  # and the step is made shorter
        total = counts.terminals.sum(axis=0) + counts.binary.sum(axis=(1, 2))
        slopes = (
            counts.initial - counts.initial.sum() * here.initial,
            counts.terminals - total * here.terminals,
            counts.binary - total[:, None, None] * here.binary,
        )
        return -counts.log_likelihood / scale, -_flat(*slopes) / scale

    track: list[float] = []
    for _ in range(ROUNDS):
        logs = np.log(np.maximum(_flat(model.initial, model.terminals, model.binary), 1e-300))
        options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "maxcor": 30, "ftol": 0, "gtol": 1e-14}
        done = minimize(loss, logs, jac=True, method="L-BFGS-B", options=options)
        found = grammar(done.x)
        for _ in range(BETWEEN):
            found = maximise(found, expect(found))
        counts = expect(found)
        gain = counts.log_likelihood - before.log_likelihood
        if gain > 0 and counts.n_impossible <= before.n_impossible:
            model, before = found, counts
        track.append(before.log_likelihood)
        if gain <= least:
            break
    return model, track


def _flat(initial: FloatArray, terminals: FloatArray, binary: FloatArray) -> FloatArray:
    """All numbers of a grammar; those of a state side by side."""
    return np.append(initial, np.hstack([terminals.T, binary.reshape(len(binary), -1)]))


def _read_trees(trees: Any) -> tuple[Counter[Bracketed], int]:
    """Bracketed strings with how often each counts, and how many nodes were wider than two."""
    times = trees.values() if isinstance(trees, Mapping) else repeat(1)
    found, n_wide = read_brackets(list(trees))
    counts: Counter[Bracketed] = Counter()
    for tree, count in zip(found, times, strict=False):
        counts[tree] += count
    return counts, n_wide


def _is_bracketed(item: object) -> bool:
    return isinstance(item, Bracketed) or is_tree(item)


def random_grammar(
    symbols: tuple[str, ...], n: int, mean_length: float, rng: np.random.Generator
) -> WeightedGrammar:
    """Random probabilities whose strings are about as long as those seen."""
    stop = mean_length / (2 * mean_length - 1)  # leaves among the nodes of a tree
    shares = np.clip(stop + rng.uniform(-0.1, 0.1, n), 0.05, 1.0)
    words, pairs = rng.dirichlet(np.ones(len(symbols)), n), rng.dirichlet(np.ones(n * n), n)
    return WeightedGrammar(
        symbols,
        rng.dirichlet(np.full(n, 5.0)),
        np.ascontiguousarray((shares[:, None] * words).T),
        ((1 - shares)[:, None] * pairs).reshape(n, n, n),
    )


def maximise(model: WeightedGrammar, counts: GrammarCounts) -> WeightedGrammar:
    """Relative frequencies of the expected counts; a state that was never used stays."""
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
