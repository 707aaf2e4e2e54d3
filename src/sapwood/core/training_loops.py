"""The two training loops: expectation maximisation (EM), and AdaGrad for log-linear models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sapwood.core.errors import SapwoodError
from sapwood.core.progress import counted, note

P = TypeVar("P")  # parameters
C = TypeVar("C")  # expected counts
E = TypeVar("E")  # an example to learn from
ROUNDING = 1e-7  # relative fall of the likelihood that rounding can explain
N_EXTRAPOLATED = 3  # models that an extrapolation is made of


def log_likelihood(parameters: Any, counts: Any) -> float:
    """The log-likelihood that expected counts come with."""
    return float(counts.log_likelihood)


@dataclass(frozen=True)
class EMSteps(Generic[P, C]):
    """The steps of EM for one kind of model."""

    expect: Callable[[P], C]  # the E-step
    maximise: Callable[[P, C], P]  # the M-step
    objective: Callable[[P, C], float] = log_likelihood  # the number that M-steps raise
    # Held-out score of the parameters, larger is better; the best ones are kept. It may ask for the
    # counts of the result that it is called with, which costs an E-step.
    score: Callable[[EMResult[P, C]], Any] | None = None
    # Where three models on the way to an optimum point to, or None; accepted where its score is not
    # below that of the second model (Varadhan and Roland 2008).
    extrapolate: Callable[[P, P, P], P | None] | None = None


@dataclass(frozen=True)
class EMStop:
    """The rules that decide when EM ends."""

    iterations: int  # the most M-steps; the E-step of a rejected extrapolation counts as one
    # whether the values of the objective so far say that it hardly rises any more
    has_converged: Callable[[Sequence[float]], bool] | None = None
    patience: int | None = None  # iterations without a better score after which EM ends
    keeps_latest: bool = False  # of parameters with equal scores, the latest instead of the first
    evaluates_last: bool = True  # whether an E-step follows the last M-step, for its objective
    is_monotone: bool = False  # whether a fall of the objective is a fault


def gains_less_than(least: float) -> Callable[[Sequence[float]], bool]:
    """A test of convergence: the last step has gained less than a number."""
    return lambda values: len(values) > 1 and bool(values[-1] - values[-2] < least)


@dataclass
class EMResult(Generic[P, C]):
    """The state of EM after each step, and its result at the end."""

    parameters: P  # after the last M-step
    values: list[float] = field(default_factory=list)  # the objective at each E-step that counts
    scores: list[Any] = field(default_factory=list)  # held-out scores, the start's first
    best: P | None = None  # the parameters with the best score; the last ones without scores
    n_expectations: int = 0  # E-steps taken
    has_converged: bool = False  # whether the test of convergence ended EM
    expect: Callable[[P], C] | None = None
    _counts: C | None = None

    @property
    def counts(self) -> C:
        """Expected counts under the last parameters; the E-step is taken when first asked for."""
        if self._counts is None:
            assert self.expect is not None
            self._counts = self.expect(self.parameters)
            self.n_expectations += 1
        return self._counts

    @property
    def iterations(self) -> int:
        """Number of M-steps between the values of the objective."""
        return max(len(self.values) - 1, 0)

    def move(self, parameters: P, counts: C | None = None) -> None:
        """Replace the parameters, and the expected counts under them if they are known."""
        self.parameters, self._counts = parameters, counts


def run_em(
    steps: EMSteps[P, C],
    start: P | EMResult[P, C],
    stop: EMStop,
    *,
    listen: Callable[[EMResult[P, C]], None] | None = None,
    save: Callable[[EMResult[P, C]], None] | None = None,
) -> EMResult[P, C]:
    """Alternate E-steps and M-steps until the rules of `stop` end EM.

    Parameters
    ----------
    start
        Parameters, or a result to continue from.
    listen
        Called after every E-step; without it, iterations are reported as progress.
    save
        Called after every M-step.
    """
    now = start if isinstance(start, EMResult) else EMResult(start)
    now.expect = steps.expect
    trail = [now.parameters]  # since the last extrapolation
    while True:
        is_over = steps.score is not None and _is_out_of_patience(now, steps.score(now), stop)
        if (is_over or now.n_expectations >= stop.iterations) and not stop.evaluates_last:
            break
        _evaluate(steps, now, stop)
        if listen is not None:
            listen(now)
        else:
            is_fixed = steps.score is None and stop.has_converged is None
            note(len(now.values), stop.iterations if is_fixed else None, "iteration")
        # an extrapolation is a jump, whose gain says nothing of convergence
        is_step = steps.extrapolate is None or len(trail) > 1
        now.has_converged = bool(is_step and stop.has_converged and stop.has_converged(now.values))
        if is_over or now.has_converged or now.n_expectations > stop.iterations:
            break
        parameters = steps.maximise(now.parameters, now.counts)
        trail = [] if steps.extrapolate is None else [*trail, parameters]
        if len(trail) == N_EXTRAPOLATED:
            trail = [_jump(steps, now, trail)]
        else:
            now.move(parameters)
        if save is not None:
            save(now)
    if steps.score is None:
        now.best = now.parameters
    return now


def iterate_em(update: Callable[[P], P], start: P, iterations: int) -> P:
    """Parameters after a fixed number of EM iterations, for which no likelihood is needed.

    An update is the E-step and the M-step.
    """
    steps = EMSteps[P, P](
        update, lambda _, updated: updated, objective=lambda parameters, counts: 0.0
    )
    stop = EMStop(iterations, evaluates_last=False)
    return run_em(steps, start, stop).parameters


def _evaluate(steps: EMSteps[P, C], now: EMResult[P, C], stop: EMStop) -> None:
    """Take the E-step, and append the objective to the values."""
    value = steps.objective(now.parameters, now.counts)
    if stop.is_monotone and now.values and value < now.values[-1] - ROUNDING * abs(now.values[-1]):
        msg = f"the log-likelihood fell from {now.values[-1]:.6f} to {value:.6f}"
        raise SapwoodError(msg, hint="this is a fault of Sapwood: please report it")
    now.values.append(value)


def _is_out_of_patience(now: EMResult[P, C], score: Any, stop: EMStop) -> bool:
    """Append a held-out score; whether the best one is older than the patience."""
    before = max(now.scores) if now.scores else None
    now.scores.append(score)
    if before is None or score > before or (stop.keeps_latest and score == before):
        now.best = now.parameters
        return False
    since = len(now.scores) - 1 - now.scores.index(max(now.scores))
    return stop.patience is not None and since >= stop.patience


def _jump(steps: EMSteps[P, C], now: EMResult[P, C], trail: list[P]) -> P:
    """Move to the extrapolation if it scores as well as the second model, else to the third."""
    assert steps.extrapolate is not None
    assert steps.score is not None
    first, second, third = trail
    counts = now.counts
    ahead = steps.extrapolate(first, second, third)
    if ahead is not None:
        now.move(ahead)
        if steps.score(now) >= now.scores[-1]:
            return ahead
        now.move(second, counts)
    now.move(third)
    return third


FloatTable = npt.NDArray[Any]  # float32; float64 for features of spans
FIRST_SQUARE = 1e-2  # AdaGrad's sums start here, so that first steps are not the largest
REPORTED_SENTENCES = 20  # that learners report at a time


class WeightTable(NamedTuple):
    """Weights that are being learnt, and the sums of AdaGrad."""

    weights: FloatTable
    squares: FloatTable  # AdaGrad's sums of squared gradients


class AdaGradPlan(NamedTuple):
    """Settings of a run of AdaGrad."""

    name: str  # of the weights, for progress
    passes: int  # over the examples
    rate: float  # learning rate
    seed: int | tuple[int, int]  # of the order of the examples
    parts: int = 4  # of a pass; weights after each part of the last half of the passes are averaged


# Called as on_pass(iteration=, log_likelihood=) with the number of each pass and the log-likelihood
# during it.
OnPass = Callable[..., Any]


def run_adagrad(
    plan: AdaGradPlan,
    weights: FloatTable,
    examples: Sequence[E],
    step: Callable[[E, WeightTable, float], float],
    on_pass: OnPass | None = None,
) -> FloatTable:
    """Averaged weights after several passes of AdaGrad, which shuffle the examples.

    Parameters
    ----------
    weights
        The weights to start from, which change.
    step
        Takes an example, the weights and the learning rate, and changes the weights. Returns the
        log-likelihood of the example before.
    """
    table = WeightTable(weights, np.full_like(weights, FIRST_SQUARE))
    rng = np.random.default_rng(plan.seed)
    total, n_added = np.zeros_like(weights), 0
    for done in counted(range(1, plan.passes + 1), plan.name, unit="pass"):
        likelihood = 0.0
        for part in counted(np.array_split(rng.permutation(len(examples)), plan.parts)):
            # A sentence takes less than a millisecond: to report each would take 7 % of the time.
            for block in counted(np.array_split(part, len(part) // REPORTED_SENTENCES + 1)):
                for index in block.tolist():
                    likelihood += step(examples[index], table, plan.rate)
            if 2 * done > plan.passes:
                total += weights
                n_added += 1
        if on_pass is not None:
            on_pass(iteration=done, log_likelihood=likelihood)
    return np.asarray(total / total.dtype.type(n_added))
