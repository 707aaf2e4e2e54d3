"""`UnsupervisedWCFG`: a weighted grammar from plain strings (WCFG, section 4).

`refine="values"` then fits the values of the grammar g to the frequencies p of strings:

    minimise  sum over cells of  (g(cell) - p(cell))^2 / p(cell)  +  ||(w - w0) / spread||^2 / n

by damped Gauss-Newton steps (Levenberg and Marquardt). A cell is a string that was seen often
enough, or all other strings of one length together, unseen ones included: their sum is that of the
same grammar with one symbol in place of all. The second term keeps weights w near the start w0 in
directions that n strings say nothing about. The unknowns are n + d n + n^3 numbers for any number
of strings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.errors import count
from sapwood.core.learner import FLAG, Info, at_least, maybe, one_of, parameter, whole
from sapwood.core.progress import counted
from sapwood.hankel.learn.consistency import (
    is_known,
    problem_of,
    refuse_long_list,
    refuse_oversize,
)
from sapwood.hankel.learn.moments import Basis, Inside, count_cuts, frequencies, symbols_of
from sapwood.hankel.learn.shared import (
    RankParameters,
    choose_states,
    judge_conditioning,
    read_strings,
    split_counts,
    string_info,
    string_record,
)
from sapwood.hankel.model.weighted_grammar import WeightedGrammar
from sapwood.linalg import low_rank as lowrank
from sapwood.linalg.hankel import (
    Factors,
    Operators,
    conditioning,
    factorise,
    operators,
    sampling_noise,
)
from sapwood.linalg.low_rank import Problem, Solution

SOLVER_STEPS, PRINTED_STEPS = 2000, 50
UNCONVERGED = 0.01  # feasibility or relative duality gap above which the end is no optimum
COMPLETE = 0.9  # of the squares of the Hankel matrix: states that account for less are too few
LEAST_FALL = 1e-6  # relative fall of the sum below which steps end
CELL_COUNT = 5  # times that a string is seen to be a cell of its own, as for any chi-square
LONGEST_CELL = (
    30  # of strings that are cells together: there are few longer ones, and they cost most
)
WEIGHT_SPREAD = 0.3  # of weights around the start, relative to the size of those of their kind


class UnsupervisedWCFG(RankParameters):
    """Weighted grammar from plain strings: a Hankel matrix of low rank that agrees with them.

    Attributes
    ----------
    model_
        A `WeightedGrammar`.
    info_
        An `Info`, see `string_info`: singular values, conditioning, the solver's report.

    Examples
    --------
    >>> strings = {("a",): 600, ("a", "b"): 300, ("a", "b", "b"): 100}
    >>> model = UnsupervisedWCFG(2, solver="direct").fit(strings).model_
    >>> round(model.value(["a", "b"]), 6)
    0.3
    """

    solver: str = parameter(
        "admm",
        one_of(("admm", "fista", "direct", "factored")),
        "`admm` minimises the nuclear norm; `fista` is the iteration of the paper; `direct` solves "
        "the linear system of strings up to three symbols; `factored` fits factors and holds only "
        "entries of strings that were seen, for large bases.",
    )
    slack: float = parameter(
        0.0, at_least(0), "mu: largest total deviation from the observed probabilities."
    )
    max_steps: int | None = parameter(
        None, maybe(whole(1)), "The most steps of the solver; None: 2,000, and 50 of fista."
    )
    composed: bool = parameter(
        default=False,
        domain=FLAG,
        words="Whether contexts with an open operation are rows too, as in section 4.1; not with "
        "`factored`.",
    )
    refine: str = parameter(
        "none",
        one_of(("none", "values")),
        "`values` then fits the values of strings to their frequencies.",
    )

    def fit(self, strings: Any, *, n: float | None = None) -> Self:
        """Learn from strings, lists of symbols, or from a mapping of strings to counts.

        Parameters
        ----------
        n
            How many strings there were, where those given are only the short ones of them; 1 for
            probabilities, which have no noise.
        """
        counts = read_strings(strings)
        fraction = counts.total() / n if n else 1.0
        info = string_info(n_strings=np.inf if n == 1 else float(n or counts.total()))
        basis = self._basis(counts)
        rank = self.n_states
        if rank is None and self.choose == "held-out":
            rest, held = split_counts(counts)
            seen = frequencies(rest, fraction)

            def learn(k: int) -> WeightedGrammar:
                return WeightedGrammar(
                    basis.symbols, *self._solve(basis, seen, k, string_info())[0]
                )

            rank = choose_states(info, learn, rest, held, min(basis.shape))
        observed = frequencies(counts, fraction)
        made, rank = self._solve(basis, observed, rank, info)
        record = string_record(info, f"unsupervised ({self.solver})", rank)
        model = WeightedGrammar(basis.symbols, *made, record)
        if self.refine == "values":
            model = fit_values(model, observed, n=info.extra["n_strings"])
        self.info_, self.model_ = info, model
        return self

    def _basis(self, counts: Mapping[Inside, float]) -> Basis:
        engine = self._engine()  # refuses a wrong number of jobs, also where nothing is counted
        symbols = symbols_of(counts)
        least = Basis.smallest(symbols)
        if self.solver != "factored":  # memory of the smallest basis, before counting
            refuse_oversize(*least.shape)
        if self.solver == "direct":
            return least
        cuts = count_cuts(counts, engine)
        common = Basis.by_frequency(cuts, self.basis)
        found = Basis(
            symbols, least.contexts + common.contexts, least.insides + common.insides
        ).close()
        if self.solver == "factored":
            refuse_long_list(found, counts)
        else:
            refuse_oversize(*found.shape)
        return found

    def _solve(
        self, basis: Basis, observed: Mapping[Inside, float], n: int | None, info: Info
    ) -> tuple[Operators, int]:
        """The Hankel matrix, and the grammar that Lemma 1 makes of it."""
        s = len(basis.insides)
        info.extra["basis"] = basis.shape
        if not is_known(basis, observed):  # before a matrix that is zero is completed
            factorise(np.zeros((len(basis.contexts), s)), n or 1)  # refuses it
        is_factored = self.solver == "factored"
        problem = problem_of(
            basis, observed, only_observed=is_factored, slack=self.slack,
            composed=self.composed and not is_factored,
        )  # fmt: skip
        info.extra["solver"] = {
            "listed": len(problem.rows), "observed": problem.n_observed,
            "constraints": problem.n_constraints,
        }  # fmt: skip
        if is_factored:
            return self._fit_factors(problem, basis, n, info)
        known = problem.matrix(problem.project(np.zeros(len(problem.rows))))[:, :s]
        noise = sampling_noise(known, info.extra["n_strings"] or np.inf)
        found = self._complete(problem, known, n, noise)
        info.extra["solver"].update(found.as_dict())
        matrix = found.matrix
        factors = factorise(matrix[:, :s], n, noise)
        info.extra["singular_values"] = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        self._judge_completion(found, factors, info)
        columns = matrix[:, basis.symbol_columns]
        return operators(factors, matrix[0, :s], columns, matrix[:, s:]), factors.n

    def _judge_completion(self, found: Solution, factors: Factors, info: Info) -> None:
        """Warn if the solver has not converged, or if Lemma 2 does not apply.

        Lemma 2 needs rank(H) = rank(H_epsilon): all columns lie in the space of the columns kept.
        """
        if self.solver == "admm" and max(found.feasibility, found.gap) > UNCONVERGED:
            info.warn(
                f"ADMM did not converge in {found.steps:,} steps: it is feasible to "
                f"{found.feasibility:.1g} and the duality gap is {found.gap:.1g}: raise max_steps"
            )
        squares = float(np.sum(found.matrix**2))
        kept = float(np.sum((factors.left.T @ found.matrix) ** 2)) / squares
        if kept < COMPLETE:
            info.warn(
                f"a grammar of {count(factors.n, 'state')} holds {kept:.0%} of the Hankel matrix "
                f"of a basis of {len(factors.left)} x {len(factors.right)}, which is not complete: "
                "strings do not get their observed probabilities; take a larger basis, or more "
                "states"
            )

    def _complete(
        self, problem: Problem, known: FloatArray, n: int | None, noise: float
    ) -> Solution:
        if self.solver == "admm":
            return lowrank.admm(problem, max_steps=self.max_steps or SOLVER_STEPS)
        factors = factorise(known, n, noise)
        if self.solver == "fista":
            return lowrank.fista(problem, factors.n, steps=self.max_steps or PRINTED_STEPS)
        return lowrank.direct(problem, factors.left)

    def _fit_factors(
        self, problem: Problem, basis: Basis, n: int | None, info: Info
    ) -> tuple[Operators, int]:
        """Factors of the entries that were seen; A by least squares over their pairs."""
        s = len(basis.insides)
        known = problem.sparse(problem.project(np.zeros(len(problem.rows))))[:, :s]
        noise = sampling_noise(known, info.extra["n_strings"] or np.inf)
        factors = factorise(known, n, noise)  # says how many states there are at most
        info.extra["singular_values"] = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        n = factors.n
        # columns of pairs that were never seen are dropped: there are s^2 pairs
        used = np.unique(np.append(np.arange(s), problem.columns))
        problem = replace(
            problem,
            shape=(len(basis.contexts), len(used)),
            columns=np.searchsorted(used, problem.columns),
        )
        found = lowrank.factored(problem, n, max_steps=self.max_steps or SOLVER_STEPS)
        assert found.factors is not None
        left, right = found.factors
        inside = right[:, :s]
        info.extra["solver"].update(found.as_dict())
        y, z = np.divmod(used[s:] - s, s)
        pairs = (inside.T[y][:, :, None] * inside.T[z][:, None, :]).reshape(len(y), n * n)
        # few pairs may not determine A: the solution of least norm is taken
        binary = np.linalg.lstsq(pairs, right[:, s:].T, rcond=1e-8)[0].T
        made = Operators(
            left[0].copy(),
            np.ascontiguousarray(inside[:, basis.symbol_columns].T),
            np.ascontiguousarray(binary.reshape(n, n, n)),
        )
        return made, n


class _Cells:
    """Strings and lengths, with their observed probabilities."""

    def __init__(self, grammar: WeightedGrammar, observed: Mapping[Inside, float], n: float):
        d = len(grammar.symbols)
        rest: dict[int, float] = defaultdict(float)
        kept: dict[int, int] = defaultdict(int)
        self.strings, p = [], []
        for x, frequency in observed.items():
            if frequency * n >= CELL_COUNT:
                self.strings.append(grammar.numbers(x))
                p.append(frequency)
                kept[len(x)] += 1
            else:
                rest[len(x)] += frequency
        longest = min(max(map(len, observed)), LONGEST_CELL) if np.isfinite(n) else 0
        self.lengths = [k for k in range(1, longest + 1) if kept[k] < float(d) ** k]
        self.p = np.array(p + [rest[k] for k in self.lengths])
        self.root = 1 / np.sqrt(np.maximum(self.p, 1 / n))
        number = {k: place for place, k in enumerate(self.lengths)}
        self.length_of = np.array([number.get(len(x), -1) for x in self.strings], np.int64)

    def away(self, grammar: WeightedGrammar) -> FloatArray:
        """Scaled distances of all cells."""
        value = grammar.number_values(self.strings)
        if self.lengths:
            masses = grammar.length_masses(self.lengths[-1])[np.array(self.lengths) - 1]
            value = np.append(value, masses - self._by_length(value))
        return np.asarray(self.root * (value - self.p))

    def slopes(self, grammar: WeightedGrammar) -> FloatArray:
        """Their derivatives by all weights, shape [n_cells, n + d n + n^3]."""
        found = _slopes(grammar, self.strings)
        if self.lengths:
            one = WeightedGrammar(
                ("x",), grammar.initial, grammar.terminals.sum(axis=0)[None], grammar.binary
            )
            whole = _slopes(one, [np.zeros(k, np.int64) for k in self.lengths])
            n, d = grammar.n_states, len(grammar.symbols)
            words = np.tile(whole[:, n : 2 * n], (1, d))
            whole = np.hstack([whole[:, :n], words, whole[:, 2 * n :]])
            found = np.vstack([found, whole - self._by_length(found)])
        return np.asarray(self.root[:, None] * found)

    def _by_length(self, rows: FloatArray) -> FloatArray:
        """Sums of rows by string length, for lengths whose other strings are one cell."""
        sums = np.zeros((len(self.lengths), *rows.shape[1:]))
        has = self.length_of >= 0
        np.add.at(sums, self.length_of[has], rows[has])
        return sums


def fit_values(
    grammar: WeightedGrammar,
    observed: Mapping[Inside, float],
    *,
    n: float = np.inf,
    max_steps: int = 30,
) -> WeightedGrammar:
    """The grammar after some steps, which never lower its fit.

    Parameters
    ----------
    observed
        Probabilities of strings, all above 0; for a finite n, of all that were seen up to the
        length of the longest.
    n
        How many strings they were counted from; infinite for probabilities without noise.
    """
    cells = _Cells(grammar, observed, n)
    x = start = _flatten(*grammar.weights)
    hold = 1 / (n * (WEIGHT_SPREAD * _sizes(grammar)) ** 2)
    damping = 1e-4
    away = cells.away(grammar)
    if not np.isfinite(away).all():
        return grammar
    cost = away @ away
    for _ in counted(range(max_steps), "fitting values", unit="step"):
        slopes = cells.slopes(grammar)
        gram = slopes.T @ slopes + np.diag(hold)
        right = slopes.T @ away + hold * (x - start)
        sizes = np.diag(gram) + 1e-12 * np.diag(gram).max()
        for _ in range(12):
            step = np.linalg.lstsq(gram + damping * np.diag(sizes), right, rcond=None)[0]
            made = _rebuild(grammar, x - step)
            away = cells.away(made)
            new = away @ away + hold @ (x - step - start) ** 2
            if np.isfinite(new) and new < cost:
                break
            damping *= 8
        else:
            return grammar
        fall = 1 - new / cost
        grammar, x, cost, damping = made, x - step, new, max(damping / 6, 1e-12)
        if fall < LEAST_FALL:
            return grammar
    return grammar


def _sizes(grammar: WeightedGrammar) -> FloatArray:
    """For each weight, the root mean square of the weights of the same kind."""
    sizes = (np.full(x.shape, np.sqrt(np.mean(x**2)) or 1.0) for x in grammar.weights)
    return _flatten(*sizes)


def _flatten(*arrays: FloatArray) -> FloatArray:
    return np.concatenate([array.ravel() for array in arrays])


def _rebuild(like: WeightedGrammar, x: FloatArray) -> WeightedGrammar:
    n, d = like.n_states, len(like.symbols)
    initial, terminals, binary = np.split(x, [n, n + d * n])
    return WeightedGrammar(
        like.symbols, initial, terminals.reshape(d, n), binary.reshape(n, n, n), like.record
    )


def _slopes(grammar: WeightedGrammar, strings: list[IntArray]) -> FloatArray:
    """Derivatives of values by all weights, shape [n_strings, n + d n + n^3]."""
    from sapwood.hankel.model.kernels.weighted_grammar import log_slopes

    weights = grammar.weights
    values = grammar.number_values(strings)
    out = np.zeros((len(strings), sum(x.size for x in weights)))
    log, one = np.zeros(1), np.ones(1)
    for place, words in enumerate(strings):
        parts = [np.zeros_like(x) for x in weights]
        log_slopes(words, starts_of([len(words)]), one, *weights, *parts, log)
        out[place] = values[place] * _flatten(*parts)
    return out
