"""`UnsupervisedWCFG`: a weighted grammar from plain strings (WCFG, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sapwood.core.arrays import FloatArray
from sapwood.core.errors import count
from sapwood.core.info import Info
from sapwood.core.learner import FLAG, at_least, maybe, one_of, parameter, whole
from sapwood.hankel.learn.consistency import problem_of, refuse_long_list, refuse_oversize
from sapwood.hankel.learn.fit_values import fit_values
from sapwood.hankel.learn.moments import Basis, Inside, count_cuts, frequencies
from sapwood.hankel.learn.shared import (
    OfStrings,
    WithRank,
    best_rank,
    choose_rank,
    judge_conditioning,
    read_strings,
    risk,
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

SOLVERS = ("admm", "fista", "direct", "factored")
REFINEMENTS = ("none", "values")
MAX_STEPS, PRINTED_STEPS = 2000, 50
UNCONVERGED = 0.01  # feasibility or relative duality gap above which the end is no optimum
COMPLETE = 0.9  # of the squares of the Hankel matrix: states that account for less are too few


class UnsupervisedWCFG(WithRank, OfStrings):
    """Weighted grammar from strings alone: the simplest Hankel matrix that agrees with them.

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
        one_of(SOLVERS),
        "`admm` minimises the nuclear norm; `fista` is the iteration of the paper; `direct` solves "
        "the linear system of strings up to three symbols; `factored` fits factors and holds only "
        "entries of strings that were seen, for large bases.",
    )
    slack: float = parameter(
        0.0, at_least(0), "mu: how far observed probabilities may be missed, in all."
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
        one_of(REFINEMENTS),
        "`values` goes on from there: fits the values of strings to their frequencies.",
    )

    def fit(self, strings: Any, *, n: float | None = None) -> Self:
        """Learn from strings, lists of symbols, or from a mapping of strings to counts.

        Parameters
        ----------
        n
            How many strings there were, where those given are only the short ones of them; 1 for
            probabilities, which have no noise.
        """
        self._check_parameters()
        counts = read_strings(strings)
        share = counts.total() / n if n else 1.0
        info = string_info(n_strings=np.inf if n == 1 else float(n or counts.total()))
        basis = self._basis(counts)
        rank = self.n_states
        if rank is None and self.choose == "held-out":
            rest, held = split_counts(counts)
            seen = frequencies(rest, share)

            def learn(k: int) -> WeightedGrammar:
                return WeightedGrammar(
                    basis.symbols, *self._solve(basis, seen, k, string_info())[0]
                )

            most = min(basis.shape)
            info.risks = best_rank(learn, lambda model: risk(model, held, rest), most) or {1: 0.0}
            rank = choose_rank(info.risks)
        observed = frequencies(counts, share)
        made, rank = self._solve(basis, observed, rank, info)
        record = string_record(info, f"unsupervised ({self.solver})", rank)
        model = WeightedGrammar(basis.symbols, *made, record)
        if self.refine == "values":
            model = fit_values(model, observed, n=info.n_strings)
        self.info_, self.model_ = info, model
        return self

    def _basis(self, counts: Mapping[Inside, float]) -> Basis:
        engine = self._engine()  # refuses a wrong number of jobs, also where nothing is counted
        symbols = tuple(sorted({symbol for x in counts for symbol in x}))
        least = Basis.smallest(symbols)
        if self.solver != "factored":  # what the smallest basis needs, before anything is counted
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
        info.basis = basis.shape
        is_factored = self.solver == "factored"
        problem = problem_of(
            basis, observed, only_observed=is_factored, slack=self.slack,
            composed=self.composed and not is_factored,
        )  # fmt: skip
        info.solver = {
            "listed": len(problem.rows), "observed": problem.n_observed,
            "constraints": problem.n_constraints,
        }  # fmt: skip
        if is_factored:
            return self._factored(problem, basis, n, info)
        known = problem.matrix(problem.project(np.zeros(len(problem.rows))))[:, :s]
        noise = sampling_noise(known, info.n_strings or np.inf)
        found = self._complete(problem, known, n, noise)
        info.solver.update(found.as_dict())
        matrix = found.matrix
        factors = factorise(matrix[:, :s], n, noise)
        info.singular_values = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        self._judge_completion(found, factors, info)
        columns = matrix[:, basis.symbol_columns]
        return operators(factors, matrix[0, :s], columns, matrix[:, s:]), factors.n

    def _judge_completion(self, found: Solution, factors: Factors, info: Info) -> None:
        """Warn where the solver did not converge, or where Lemma 2 does not apply.

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
            return lowrank.admm(problem, max_steps=self.max_steps or MAX_STEPS)
        factors = factorise(known, n, noise)
        if self.solver == "fista":
            return lowrank.fista(problem, factors.n, steps=self.max_steps or PRINTED_STEPS)
        return lowrank.direct(problem, factors.left)

    def _factored(
        self, problem: Problem, basis: Basis, n: int | None, info: Info
    ) -> tuple[Operators, int]:
        """Factors of the entries that were seen; A by least squares over their pairs."""
        s = len(basis.insides)
        known = problem.sparse(problem.project(np.zeros(len(problem.rows))))[:, :s]
        noise = sampling_noise(known, info.n_strings or np.inf)
        factors = factorise(known, n, noise)  # says how many states there are at most
        info.singular_values = factors.values
        judge_conditioning(info, conditioning(factors, noise))
        n = factors.n
        # columns of pairs that were never seen go: there are s^2 of them
        used = np.unique(np.append(np.arange(s), problem.columns))
        problem = replace(
            problem,
            shape=(len(basis.contexts), len(used)),
            columns=np.searchsorted(used, problem.columns),
        )
        found = lowrank.factored(problem, n, max_steps=self.max_steps or MAX_STEPS)
        assert found.factors is not None
        left, right = found.factors
        inside = right[:, :s]
        info.solver.update(found.as_dict())
        y, z = np.divmod(used[s:] - s, s)
        pairs = (inside.T[y][:, :, None] * inside.T[z][:, None, :]).reshape(len(y), n * n)
        # as few pairs as there are may not fix A: the smallest one that does for them
        binary = np.linalg.lstsq(pairs, right[:, s:].T, rcond=1e-8)[0].T
        made = Operators(
            left[0].copy(),
            np.ascontiguousarray(inside[:, basis.symbol_columns].T),
            np.ascontiguousarray(binary.reshape(n, n, n)),
        )
        return made, n
