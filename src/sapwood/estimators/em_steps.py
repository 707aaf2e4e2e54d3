"""Expectation maximisation from given probabilities, for every learner that ends with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from sapwood.corpus.tree import Tree
from sapwood.errors import SapwoodError
from sapwood.estimators import em_checkpoint
from sapwood.estimators.dev_set import DevSet
from sapwood.estimators.em_checkpoint import EMInfo, Progress
from sapwood.estimators.latent_lexicon import latent_grammar
from sapwood.estimators.maximise import maximise
from sapwood.estimators.states import matsuzaki, merge_siblings, split
from sapwood.estimators.training_data import TrainingData
from sapwood.estimators.training_trees import TrainingTrees
from sapwood.models.latent_grammar import LatentGrammar
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import ExpectedCounts

FALL = 1e-7  # relative fall of the likelihood that rounding can explain
NOT_SPLIT = np.empty(0, np.int64)


class Stage(NamedTuple):
    """A change of the states, then EM.

    Attributes
    ----------
    change
        `split`, `merge`, `matsuzaki` or `none`.
    states
        The most states of a symbol in this stage.
    iterations
        Of EM.
    """

    change: str
    states: int
    iterations: int


class EMSettings(NamedTuple):
    """How EM goes on; see the parameters of `EMLPCFG`.

    Attributes
    ----------
    learner
        What decided the start; a checkpoint is only good for the same.
    """

    learner: dict[str, Any]
    rule_smoothing: float
    word_smoothing: float
    merge: float = 0.0
    tolerance: float = 0.0
    patience: int | None = None
    seed: int = 0
    checkpoint: str | Path | None = None
    on_iteration: Callable[[int, int, float], None] | None = None


def climb(
    data: TrainingData,
    start: LatentParameters,
    schedule: Sequence[Stage],
    settings: EMSettings,
    dev: Sequence[Tree] | None = None,
) -> tuple[LatentGrammar, EMInfo]:
    """Run EM over all stages, going on from a checkpoint where there is one.

    Parameters
    ----------
    schedule
        Without any stage, the grammar is that of the start.
    dev
        Trees apart from the treebank; the iteration of the last stage that parses them best is
        kept.

    Returns
    -------
    tuple
        The grammar, with a record of the iterations only, and what happened.
    """
    trees, judge = TrainingTrees(data), _Judge(data, dev if schedule else None)
    saved = _Saved(data, trees, schedule, settings, judge)
    now = saved.resume() or _begin(trees, start, schedule, settings)
    while not _is_done(now, schedule, settings):
        counts = trees.expect(now.parameters)  # E
        _check_bound(now, counts.log_likelihood, settings)
        now = judge.note(now, counts, is_last=now.stage + 1 == len(schedule))
        if settings.on_iteration:
            settings.on_iteration(now.info.iterations, now.info.states[-1], counts.log_likelihood)
        parameters = maximise(  # M
            now.parameters, counts, settings.rule_smoothing, settings.word_smoothing
        )
        now = replace(now, parameters=parameters, iteration=now.iteration + 1)
        now = _next_stage(trees, now, schedule, settings)
        saved.save(now)
    counts = trees.expect(now.parameters)
    now = judge.grade(now, counts) if schedule else now
    if now.best is not None and now.best is not now.parameters:
        now = replace(now, parameters=now.best)
        counts = trees.expect(now.parameters)
    info = judge.time(now.info)
    return latent_grammar(data, trees.pairs, now.parameters, counts, _record(info)), info


def _record(info: EMInfo) -> dict[str, Any]:
    record: dict[str, Any] = {"iterations": info.iterations}
    if info.log_likelihoods:
        record["log_likelihood"] = info.log_likelihoods[-1]
    return record | ({"best_iteration": info.best_iteration} if info.dev_f1 else {})


# -- stages ---------------------------------------------------------------------------------------


def _begin(
    trees: TrainingTrees,
    start: LatentParameters,
    schedule: Sequence[Stage],
    settings: EMSettings,
) -> Progress:
    now = Progress(start, 0, 0, NOT_SPLIT, np.random.default_rng(settings.seed), EMInfo())
    return _change_states(trees, now, schedule[0], settings) if schedule else now


def _next_stage(
    trees: TrainingTrees, now: Progress, schedule: Sequence[Stage], settings: EMSettings
) -> Progress:
    """The states of the next stage, where this one is over."""
    stage = schedule[now.stage]
    if now.iteration < stage.iterations and not _has_settled(now, settings.tolerance):
        return now
    if now.stage + 1 == len(schedule):
        return replace(now, iteration=stage.iterations)
    now = replace(now, stage=now.stage + 1, iteration=0)
    return _change_states(trees, now, schedule[now.stage], settings)


def _change_states(
    trees: TrainingTrees, now: Progress, stage: Stage, settings: EMSettings
) -> Progress:
    target = np.minimum(trees.limit, stage.states)
    if stage.change == "split":
        parameters, origin = split(now.parameters, target, now.rng)
        return replace(now, parameters=parameters, origin=origin)
    if stage.change == "merge":
        merged = merge_siblings(trees, now.parameters, now.origin, settings.merge)
        return replace(now, parameters=merged, origin=NOT_SPLIT)
    if stage.change == "matsuzaki":
        return replace(now, parameters=matsuzaki(now.parameters, target, now.rng))
    return now


# -- when to stop ---------------------------------------------------------------------------------


def _is_done(now: Progress, schedule: Sequence[Stage], settings: EMSettings) -> bool:
    if now.stage + 1 < len(schedule):
        return False
    if not schedule or now.iteration >= schedule[-1].iterations:
        return True
    best = now.info.best_iteration
    if settings.patience is None or best is None:
        return False
    return now.info.dev_f1[-1][0] - best >= settings.patience


def _has_settled(now: Progress, tolerance: float) -> bool:
    """Whether the likelihood hardly rises any more.

    Compared with the level's own rise: after a split it is slow at first, since copies differ by
    their noise only.
    """
    if tolerance == 0.0 or now.iteration < 2:
        return False
    level = now.info.log_likelihoods[-now.iteration :]
    return level[-1] - level[-2] < tolerance * (level[-1] - level[0])


def _check_bound(now: Progress, likelihood: float, settings: EMSettings) -> None:
    """Plain EM never lowers the likelihood; if it does, the code is wrong."""
    smoothing = settings.rule_smoothing or settings.word_smoothing
    if smoothing or now.iteration == 0 or not now.info.log_likelihoods:
        return
    before = now.info.log_likelihoods[-1]
    if likelihood < before - FALL * abs(before):
        msg = f"the log-likelihood fell from {before:.6f} to {likelihood:.6f}"
        raise SapwoodError(msg, hint="this is a fault of Sapwood: please report it")


# -- around it ------------------------------------------------------------------------------------


class _Judge:
    """Notes what happens, and how well dev trees are parsed where there are any."""

    def __init__(self, data: TrainingData, dev: Sequence[Tree] | None) -> None:
        self.data, self.pairs = data, data.counts.pairs
        self.began = perf_counter()
        self.wall = self.cpu = 0.0  # spent on grading, charts included
        clock = perf_counter(), process_time()
        self.dev = None if dev is None else DevSet(dev, data.grammar, data.engine.jobs_here)
        self._spend(clock)

    def note(self, now: Progress, counts: ExpectedCounts, *, is_last: bool) -> Progress:
        """The likelihood and, in the last stage, the dev F1 of the present parameters."""
        now = self.grade(now, counts) if is_last else now
        info = replace(
            now.info,
            log_likelihoods=[*now.info.log_likelihoods, counts.log_likelihood],
            states=[*now.info.states, int(now.parameters.n_states.max())],
        )
        return replace(now, info=info)

    def grade(self, now: Progress, counts: ExpectedCounts) -> Progress:
        """The dev F1 of the present parameters, which are kept where they are the best so far."""
        if self.dev is None:
            return now
        clock = perf_counter(), process_time()
        f1 = self.dev.f1(latent_grammar(self.data, self.pairs, now.parameters, counts, {}))
        self._spend(clock)
        is_best = now.best is None or f1 > max(seen for _, seen in now.info.dev_f1)
        info = replace(now.info, dev_f1=[*now.info.dev_f1, (now.info.iterations, f1)])
        return replace(now, info=info, best=now.parameters if is_best else now.best)

    def _spend(self, began: tuple[float, float]) -> None:
        self.wall += perf_counter() - began[0]
        self.cpu += process_time() - began[1]

    def time(self, info: EMInfo) -> EMInfo:
        """Note the time of a training, and how much of it was grading."""
        seconds = {"em": round(perf_counter() - self.began - self.wall, 3)}
        if self.dev is None:
            return replace(info, seconds=seconds)
        seconds["dev"] = round(self.wall, 3)
        return replace(info, seconds=seconds, grading_cpu_seconds=self.cpu)


class _Saved:
    """The checkpoint of a training, where one is wanted."""

    def __init__(
        self,
        data: TrainingData,
        trees: TrainingTrees,
        schedule: Sequence[Stage],
        settings: EMSettings,
        judge: _Judge,
    ) -> None:
        self.trees, self.schedule = trees, schedule
        self.path = (
            None if settings.checkpoint is None or not schedule else Path(settings.checkpoint)
        )
        if self.path:
            gold = "" if judge.dev is None else "\n".join(map(str, judge.dev.gold))
            self.fingerprint = {
                "learner": settings.learner, "schedule": [list(stage) for stage in schedule],
                "trees": data.digest(), "dev": sha256(gold.encode()).hexdigest(),
            }  # fmt: skip

    def resume(self) -> Progress | None:
        """Where a training stopped that had all in common with this one."""
        if self.path is None:
            return None
        plain = self.trees.plain_parameters()
        return em_checkpoint.resume(self.path, plain, self.schedule, self.fingerprint)

    def save(self, now: Progress) -> None:
        if self.path is not None:
            em_checkpoint.save(self.path, now, self.fingerprint)
