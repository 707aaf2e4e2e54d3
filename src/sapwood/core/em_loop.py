"""The loop of expectation maximisation, which every learner by EM runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sapwood.core.errors import SapwoodError

P = TypeVar("P")  # parameters
C = TypeVar("C")  # expected counts
ROUNDING = 1e-7  # relative fall of the likelihood that rounding can explain
N_EXTRAPOLATED = 3  # models that an extrapolation is made of


def log_likelihood(parameters: Any, counts: Any) -> float:
    """The log-likelihood that expected counts come with."""
    return float(counts.log_likelihood)


@dataclass(frozen=True)
class EMSteps(Generic[P, C]):
    """What EM does, whatever the model.

    Attributes
    ----------
    expect, maximise
        The E-step and the M-step.
    objective
        The number that M-steps raise.
    score
        How good parameters are on held-out data, larger is better; the best ones are kept. It may
        ask for the counts of the result that it is called with, which costs an E-step.
    extrapolate
        Where three models on the way to an optimum point to, or None; taken where its score is not
        below that of the second one (Varadhan and Roland 2008).
    """

    expect: Callable[[P], C]
    maximise: Callable[[P, C], P]
    objective: Callable[[P, C], float] = log_likelihood
    score: Callable[[EMResult[P, C]], Any] | None = None
    extrapolate: Callable[[P, P, P], P | None] | None = None


@dataclass(frozen=True)
class EMStop:
    """When EM ends.

    Attributes
    ----------
    iterations
        The most M-steps; an E-step for an extrapolation that is dropped counts as one.
    has_converged
        Whether the values of the objective so far say that it hardly rises any more.
    patience
        EM ends when the score has not risen for so many iterations.
    keeps_latest
        Whether of parameters with equal scores the latest are kept, not the first.
    evaluates_last
        Whether an E-step follows the last M-step, so that the objective is known there too.
    is_monotone
        Whether a fall of the objective is a fault.
    """

    iterations: int
    has_converged: Callable[[Sequence[float]], bool] | None = None
    patience: int | None = None
    keeps_latest: bool = False
    evaluates_last: bool = True
    is_monotone: bool = False


def gains_less_than(least: float) -> Callable[[Sequence[float]], bool]:
    """A test of convergence: the last step has gained less than a number."""
    return lambda values: len(values) > 1 and bool(values[-1] - values[-2] < least)


@dataclass
class EMResult(Generic[P, C]):
    """Where EM stands, and in the end what it found.

    Attributes
    ----------
    parameters
        After the last M-step.
    values
        The objective at each E-step whose parameters were kept.
    scores
        Held-out scores of all parameters, the start's first.
    best
        The parameters with the best score; the last ones without scores.
    n_expectations
        E-steps taken.
    has_converged
        Whether the test of convergence ended EM.
    """

    parameters: P
    values: list[float] = field(default_factory=list)
    scores: list[Any] = field(default_factory=list)
    best: P | None = None
    n_expectations: int = 0
    has_converged: bool = False
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
        """M-steps between the values of the objective."""
        return max(len(self.values) - 1, 0)

    def move(self, parameters: P, counts: C | None = None) -> None:
        """Go on to other parameters."""
        self.parameters, self._counts = parameters, counts


def run_em(
    steps: EMSteps[P, C],
    start: P | EMResult[P, C],
    stop: EMStop,
    *,
    listen: Callable[[EMResult[P, C]], None] | None = None,
    save: Callable[[EMResult[P, C]], None] | None = None,
) -> EMResult[P, C]:
    """Alternate E-steps and M-steps until the objective or the held-out score says that it is over.

    Parameters
    ----------
    start
        Parameters, or a result to go on from.
    listen
        Called after every E-step.
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


def _evaluate(steps: EMSteps[P, C], now: EMResult[P, C], stop: EMStop) -> None:
    """Take the E-step, and note the objective."""
    value = steps.objective(now.parameters, now.counts)
    if stop.is_monotone and now.values and value < now.values[-1] - ROUNDING * abs(now.values[-1]):
        msg = f"the log-likelihood fell from {now.values[-1]:.6f} to {value:.6f}"
        raise SapwoodError(msg, hint="this is a fault of Sapwood: please report it")
    now.values.append(value)


def _is_out_of_patience(now: EMResult[P, C], score: Any, stop: EMStop) -> bool:
    """Note a score, and whether it is too long ago that one was the best."""
    before = max(now.scores) if now.scores else None
    now.scores.append(score)
    if before is None or score > before or (stop.keeps_latest and score == before):
        now.best = now.parameters
        return False
    since = len(now.scores) - 1 - now.scores.index(max(now.scores))
    return stop.patience is not None and since >= stop.patience


def _jump(steps: EMSteps[P, C], now: EMResult[P, C], trail: list[P]) -> P:
    """Move to an extrapolation if it is as good as the second of three models, or to the third."""
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
