"""`EMLPCFG`: latent-variable PCFGs by expectation maximisation on treebank trees.

Two starts:

- **split** (Petrov et al. 2006): begin with one state a symbol; split every state in two with 1 %
  noise, run EM, and so on to 2, 4, 8, 16, ... states. States are pulled towards their siblings'
  mean after every step. If wanted, the splits that gained least are undone after each round.
- **matsuzaki** (Matsuzaki et al. 2005): all states at once, treebank frequencies times exp(u) with
  u uniform between -ln 3 and ln 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.tree import Tree
from sapwood.corpus.treebank import Treebank, TreebankLike, as_treebank
from sapwood.errors import SapwoodError
from sapwood.estimators import em_checkpoint
from sapwood.estimators.base import Estimator, TreebankEstimator, dev_trees
from sapwood.estimators.dev_set import DevSet
from sapwood.estimators.em_checkpoint import EMInfo, Progress
from sapwood.estimators.latent_lexicon import latent_grammar
from sapwood.estimators.parameters import between, one_of, parameter, whole
from sapwood.estimators.pcfg import PCFG
from sapwood.estimators.shared_parameters import OnPlainGrammar, WithEM, WithStates
from sapwood.estimators.states import matsuzaki, merge_siblings, split
from sapwood.estimators.training_trees import TrainingTrees
from sapwood.models.latent_grammar import LatentGrammar
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import ExpectedCounts

IntArray = npt.NDArray[np.int64]
STARTS = ("split", "matsuzaki")
FALL = 1e-7  # relative fall of the likelihood that rounding can explain
NOT_SPLIT = np.empty(0, np.int64)
REFINING = (
    "n_states", "iterations", "rule_smoothing", "word_smoothing", "patience", "seed", "n_jobs",
    "checkpoint", "on_iteration",
)  # what an estimator that ends with EM has in common with it  # fmt: skip


class Stage(NamedTuple):
    """A change of the states, then EM.

    Attributes
    ----------
    change
        `split`, `merge` or `none`.
    states
        The most states of a symbol in this stage.
    iterations
        Of EM.
    """

    change: str
    states: int
    iterations: int


class EMLPCFG(WithStates, WithEM, OnPlainGrammar, TreebankEstimator):
    """Latent-variable PCFG by EM, with true probabilities.

    A label with n nodes gets at most n / 20 states.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : EMInfo
    """

    start: str = parameter(
        "split",
        one_of(STARTS),
        "`split` doubles the states level by level, `matsuzaki` starts with all of them.",
    )
    iterations: int = parameter(
        20, whole(1), "EM iterations at each level of `split`, or in all for `matsuzaki`."
    )
    merge: float = parameter(
        0.0,
        between(0, 1, "[)"),
        "Share of the splits of each level that are undone, those that gained least, before half "
        "as many iterations more; 0 keeps all.",
    )
    tolerance: float = parameter(
        0.0,
        between(0, 1, "[)"),
        "A level ends early when an iteration raises the log-likelihood by less than this share of "
        "what the level has raised it so far; 0 for never.",
    )

    def fit(self, bank: TreebankLike, dev: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank.

        Parameters
        ----------
        dev
            Trees apart from the treebank; the iteration of the last level that parses them best is
            kept.
        """
        self._check_parameters()
        bank, dev = as_treebank(bank), dev_trees(dev)
        plain = (self.plain or PCFG()).fit(bank)
        trees = TrainingTrees(plain.bank_)
        graded = _Graded(plain, trees, dev, self.n_jobs)
        return self._run(graded, self._schedule(), trees.plain_parameters())

    def fit_from(
        self,
        plain: PCFG,
        trees: TrainingTrees,
        start: LatentParameters,
        dev: Sequence[Tree] | None = None,
        record: dict[str, Any] | None = None,
        learner: Estimator | None = None,
    ) -> Self:
        """Run EM from given probabilities, without splitting.

        Parameters
        ----------
        plain
            A fitted estimator of the plain grammar.
        trees
            Its treebank, prepared.
        start
            Where to begin.
        dev
            As for `fit`.
        record
            What the model's training record says besides the iterations.
        learner
            Who found the probabilities; a checkpoint is only good for the same one.
        """
        self._check_parameters()
        schedule = [Stage("none", self.n_states, self.iterations)]
        graded = _Graded(plain, trees, dev, self.n_jobs)
        return self._run(graded, schedule, start, record, learner)

    def _schedule(self) -> list[Stage]:
        if self.start == "matsuzaki":
            return [Stage("matsuzaki", self.n_states, self.iterations)]
        doubled = [2**k for k in range(1, 9) if 2**k < self.n_states]
        stages = []
        for m in [*doubled, self.n_states]:
            stages.append(Stage("split", m, self.iterations))
            if self.merge > 0.0:
                stages.append(Stage("merge", m, (self.iterations + 1) // 2))
        return stages

    def _run(
        self,
        graded: _Graded,
        schedule: list[Stage],
        start: LatentParameters,
        record: dict[str, Any] | None = None,
        learner: Estimator | None = None,
    ) -> Self:
        trees = graded.trees
        path = Path(self.checkpoint) if self.checkpoint is not None else None
        now = None
        if path:
            settings = _fingerprint(learner or self, graded, schedule)
            now = em_checkpoint.resume(path, trees.plain_parameters(), schedule, settings)
        if now is None:
            rng = np.random.default_rng(self.seed)
            now = Progress(start, 0, 0, NOT_SPLIT, rng, EMInfo())
            now = self._changed(trees, now, schedule[0])
        while not self._is_done(now, schedule):
            now = self._step(trees, now, schedule, graded)
            if path:
                em_checkpoint.save(path, now, settings)
        self.info_ = now.info
        self.model_ = self._best_model(graded, now, record or {})
        graded.tell(self.info_)
        return self

    def _is_done(self, now: Progress, schedule: list[Stage]) -> bool:
        if now.stage + 1 < len(schedule):
            return False
        if now.iteration >= schedule[-1].iterations:
            return True
        best = now.info.best_iteration
        if self.patience is None or best is None:
            return False
        return now.info.dev_f1[-1][0] - best >= self.patience

    # -- one step -----------------------------------------------------------------------------

    def _step(
        self, trees: TrainingTrees, now: Progress, schedule: list[Stage], graded: _Graded
    ) -> Progress:
        """One E-step and M-step, and the next change of states when a stage is finished."""
        counts = trees.expect(now.parameters, self.n_jobs)
        self._check_likelihood(now, counts.log_likelihood)
        is_last = now.stage + 1 == len(schedule)
        best = graded.grade(now, counts) if is_last else None
        stage = schedule[now.stage]
        now.info.log_likelihoods.append(counts.log_likelihood)
        now.info.states.append(int(now.parameters.n_states.max()))
        if self.on_iteration:
            self.on_iteration(now.info.iterations, now.info.states[-1], counts.log_likelihood)
        parameters = replace(
            now.parameters, root=counts.root, rules=counts.rules, words=counts.words
        )
        parameters = parameters.maximised(self.rule_smoothing, self.word_smoothing)
        now = replace(now, parameters=parameters, iteration=now.iteration + 1, best=best)
        if now.iteration < stage.iterations and not self._has_settled(now):
            return now
        if is_last:
            return replace(now, iteration=stage.iterations)
        now = replace(now, stage=now.stage + 1, iteration=0)
        return self._changed(trees, now, schedule[now.stage])

    def _changed(self, trees: TrainingTrees, now: Progress, stage: Stage) -> Progress:
        """The states of a new stage."""
        target = np.minimum(trees.limit, stage.states)
        if stage.change == "split":
            parameters, origin = split(now.parameters, target, now.rng)
            return replace(now, parameters=parameters, origin=origin)
        if stage.change == "merge":
            merged = merge_siblings(trees, now.parameters, now.origin, self.merge, self.n_jobs)
            return replace(now, parameters=merged, origin=NOT_SPLIT)
        if stage.change == "matsuzaki":
            return replace(now, parameters=matsuzaki(now.parameters, target, now.rng))
        return now

    def _has_settled(self, now: Progress) -> bool:
        """Whether the likelihood hardly rises any more.

        Compared with the level's own rise: after a split it is slow at first, since copies differ
        by their noise only.
        """
        if self.tolerance == 0.0 or now.iteration < 2:
            return False
        level = now.info.log_likelihoods[-now.iteration :]
        return level[-1] - level[-2] < self.tolerance * (level[-1] - level[0])

    def _check_likelihood(self, now: Progress, likelihood: float) -> None:
        """Plain EM never lowers the likelihood; if it does, the code is wrong."""
        smoothing = self.rule_smoothing or self.word_smoothing
        if smoothing or now.iteration == 0 or not now.info.log_likelihoods:
            return
        before = now.info.log_likelihoods[-1]
        if likelihood < before - FALL * abs(before):
            msg = f"the log-likelihood fell from {before:.6f} to {likelihood:.6f}"
            raise SapwoodError(msg, hint="this is a fault of Sapwood: please report it")

    # -- around it ----------------------------------------------------------------------------

    def _best_model(self, graded: _Graded, now: Progress, record: dict[str, Any]) -> LatentGrammar:
        """The grammar after the last iteration, or after the one that parses dev trees best."""
        counts = graded.trees.expect(now.parameters, self.n_jobs)
        best = graded.grade(now, counts)
        if best is not None and best is not now.parameters:
            now = replace(now, parameters=best)
            counts = graded.trees.expect(best, self.n_jobs)
        return graded.grammar(now.parameters, counts, self._record(graded.trees.bank) | record)

    def _record(self, bank: Treebank) -> dict[str, Any]:
        info = self.info_
        dev = {"best_iteration": info.best_iteration} if info.dev_f1 else {}
        return {
            "method": "em", "n_states": self.n_states, "start": self.start,
            "iterations": info.iterations, "trees": bank.n_trees, "tokens": bank.n_tokens,
            "seed": self.seed, "log_likelihood": info.log_likelihoods[-1],
        } | dev  # fmt: skip


def _fingerprint(learner: Estimator, graded: _Graded, schedule: list[Stage]) -> dict[str, Any]:
    """What a training must have in common with a checkpoint to go on from it."""
    gold = "" if graded.dev is None else "\n".join(map(str, graded.dev.gold))
    return {
        "learner": learner.decisions(), "schedule": [list(stage) for stage in schedule],
        "trees": graded.trees.bank.digest(), "dev": sha256(gold.encode()).hexdigest(),
    }  # fmt: skip


class _Graded:
    """Trees, the plain grammar behind them, and dev trees where there are any."""

    def __init__(
        self, plain: PCFG, trees: TrainingTrees, dev: Sequence[Tree] | None, jobs: int
    ) -> None:
        self.plain = plain
        self.trees = trees
        self.began = perf_counter()
        self.wall = self.cpu = 0.0  # spent on grading, charts included
        with self._timed():
            self.dev = None if dev is None else DevSet(dev, plain.model_, jobs)

    def grammar(
        self, parameters: LatentParameters, counts: ExpectedCounts, record: dict[str, Any]
    ) -> LatentGrammar:
        return latent_grammar(parameters, counts, self.plain, self.trees.pairs, record)

    def grade(self, now: Progress, counts: ExpectedCounts) -> LatentParameters | None:
        """Note the dev F1 of the present parameters; the best ones so far, None without dev."""
        if self.dev is None:
            return None
        with self._timed():
            f1 = self.dev.f1(self.grammar(now.parameters, counts, {}))
        is_best = now.best is None or f1 > max(seen for _, seen in now.info.dev_f1)
        now.info.dev_f1.append((now.info.iterations, f1))
        return now.parameters if is_best else now.best

    @contextmanager
    def _timed(self) -> Iterator[None]:
        wall, cpu = perf_counter(), process_time()
        yield
        self.wall += perf_counter() - wall
        self.cpu += process_time() - cpu

    def tell(self, info: EMInfo) -> None:
        """Note the time of a training, and how much of it was grading."""
        info.seconds = {"em": round(perf_counter() - self.began - self.wall, 3)}
        if self.dev is not None:
            info.seconds["dev"] = round(self.wall, 3)
            info.grading_cpu_seconds = self.cpu


def refined(
    settings: Estimator,
    plain: PCFG,
    trees: TrainingTrees,
    start: LatentParameters,
    record: dict[str, Any],
    dev: Sequence[Tree] | None = None,
) -> tuple[LatentGrammar, EMInfo]:
    """A grammar of given probabilities, after as many EM iterations as an estimator asks for."""
    given = settings.get_params()
    if not given["iterations"]:
        counts = trees.expect(start, plain.n_jobs)
        record = record | {"iterations": 0}
        return latent_grammar(start, counts, plain, trees.pairs, record), EMInfo()
    learner = EMLPCFG(**{name: given[name] for name in REFINING})
    learner.fit_from(plain, trees, start, dev, record, settings)
    return learner.model_, learner.info_
