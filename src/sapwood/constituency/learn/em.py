"""`EMLPCFG`: latent-variable PCFGs by expectation maximisation on treebank trees.

Two starts:

- **split** (Petrov et al. 2006): begin with one state per symbol; split every state in two with 1 %
  noise, run EM, and repeat for 2, 4, 8, 16, ... states. After every M-step, the states of a symbol
  are shrunk towards their mean. Optionally, the splits that raised the likelihood least are merged
  after each level.
- **matsuzaki** (Matsuzaki et al. 2005): all states at once, treebank frequencies times exp(u) with
  u uniform between -ln 3 and ln 3.

`run_treebank_em` also runs the final EM iterations of other learners, from their initial
parameters. A checkpoint holds the whole state of a training: a resumed training gives the same
grammar as one that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, Self

import numpy as np

from sapwood.constituency.data.treebank import TreebankLike
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn.dev_scores import DevSet
from sapwood.constituency.learn.em_states import (
    matsuzaki_start,
    merge_siblings,
    merge_twins,
    split_states,
)
from sapwood.constituency.learn.em_steps import (
    NODES_PER_STATE,
    ExpectedCounts,
    LatentParameters,
    TrainingTrees,
    latent_grammar,
    maximise_tree_counts,
)
from sapwood.constituency.learn.pcfg import KERNEL_BYTES, OnPlainGrammar, Trainable, dev_trees
from sapwood.constituency.learn.registry import EMParameters
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.arrays import IntArray, starts_of
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import (
    MAX_STATES,
    Info,
    StateParameters,
    between,
    one_of,
    parameter,
    whole,
)
from sapwood.core.progress import step, tell
from sapwood.core.training_loops import EMResult, EMSteps, EMStop, run_em
from sapwood.corpora.tree import Tree

STARTS = ("split", "matsuzaki")
NOT_SPLIT = np.empty(0, np.int64)
# For the estimate of memory: bytes per sorted node, and the copies of all probabilities that EM
# holds at once, in addition to one per thread.
SORTED_NODE_BYTES, PARAMETER_COPIES = 200, 8


class Stage(NamedTuple):
    """A change of the states, and the EM iterations that follow it."""

    change: str  # `split`, `merge`, `matsuzaki` or `none`
    states: int
    iterations: int


class EMSettings(NamedTuple):
    """Settings of the EM iterations; see the parameters of `EMLPCFG`."""

    learner: dict[str, Any]  # parameters of the learner; a checkpoint with others is refused
    rule_smoothing: float
    word_smoothing: float
    merge: float = 0.0
    tolerance: float = 0.0
    patience: int | None = None
    seed: int = 0
    checkpoint: str | Path | None = None


def em_settings(
    learner: EMParameters, seed: int, *, merge: float = 0.0, tolerance: float = 0.0
) -> EMSettings:
    """Return the settings of the EM iterations of a learner."""
    return EMSettings(
        learner.decisions(), learner.rule_smoothing, learner.word_smoothing, merge, tolerance,
        learner.patience, seed, learner.checkpoint,
    )  # fmt: skip


class EMLPCFG(StateParameters, EMParameters, OnPlainGrammar):
    """Latent-variable PCFG, estimated by EM; its weights are probabilities.

    A label with n nodes gets at most n / 20 states.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : Info
        See `run_treebank_em`.
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
        "Fraction of the splits of each level that are undone, those that gained least, before "
        "half as many iterations more; 0 keeps all.",
    )
    tolerance: float = parameter(
        0.0,
        between(0, 1, "[)"),
        "A level ends early when an iteration raises the log-likelihood by less than this fraction "
        "of the level's rise so far; 0 for never.",
    )

    def fit(self, bank: Trainable, held: TreebankLike | None = None) -> Self:
        """Learn the grammar of a treebank.

        Parameters
        ----------
        held
            Held-out trees, which choose the iteration of the last level with the highest F1.
        """
        data = self._prepare(bank)
        start = TrainingTrees(data).plain_parameters()
        settings = em_settings(self, self.seed, merge=self.merge, tolerance=self.tolerance)
        record = {
            "method": "em", "n_states": self.n_states, "start": self.start, "seed": self.seed,
            **data.sizes,
        }  # fmt: skip
        self.model_, self.info_ = run_treebank_em(
            data, start, self.schedule(), settings, dev_trees(held), record
        )
        return self

    def memory_needed(self, data: TrainingData) -> float:
        """Estimate the bytes that EM needs in addition to the packed trees."""
        return em_bytes(data, self.n_states)

    def schedule(self) -> list[Stage]:
        """Return the stages of a training: states doubled level by level, or all states at once."""
        if self.start == "matsuzaki":
            return [Stage("matsuzaki", self.n_states, self.iterations)]
        doubled = [2**k for k in range(1, 9) if 2**k < self.n_states]
        stages = []
        for m in [*doubled, self.n_states]:
            stages.append(Stage("split", m, self.iterations))
            if self.merge > 0.0:
                stages.append(Stage("merge", m, (self.iterations + 1) // 2))
        return stages


def em_bytes(data: TrainingData, n_states: int) -> float:
    """Estimate the bytes that EM needs for at most `n_states` states per label."""
    m = np.minimum(n_states, np.maximum(1, data.counts.symbols // NODES_PER_STATE))
    pair_tag = len(data.inventory.phrases) + data.counts.pairs // len(data.inventory.words)
    numbers = float(m[data.inventory.rules.astype(np.int64)].prod(axis=1).sum())
    numbers += float(m[pair_tag].sum())
    copies = PARAMETER_COPIES + data.engine.jobs_here
    return KERNEL_BYTES + SORTED_NODE_BYTES * data.n_nodes_here + 8 * copies * numbers


def run_treebank_em(
    data: TrainingData,
    start: LatentParameters,
    schedule: Sequence[Stage],
    settings: EMSettings,
    dev: Sequence[Tree] | None = None,
    record: Mapping[str, Any] | None = None,
) -> tuple[LatentGrammar, Info]:
    """Run EM through all stages, starting from a checkpoint if there is one.

    Parameters
    ----------
    schedule
        The stages. An empty schedule returns the grammar of `start`.
    dev
        Held-out trees, which choose the iteration of the last stage with the highest F1.

    Returns
    -------
    tuple
        The grammar, whose record is `record` with the number of iterations added, and an `Info`.
        The history of the `Info` has the log-likelihood before every M-step and the largest number
        of states of a symbol (`states`). `dev_f1` lists pairs of a number of iterations and the F1
        after them. `grading_cpu_seconds` is the CPU time of scoring on dev trees, summed over all
        threads.
    """
    em = _TreebankEM(data, schedule, settings, dev if schedule else None)
    now = em.run(start)
    parameters, counts, info = now.parameters, em.trees.expect(now.parameters), now.info
    if em.dev is not None:
        f1 = em.grade(info, parameters, counts)
        if now.best is not None and f1 <= max(seen for _, seen in info.extra["dev_f1"][:-1]):
            parameters = now.best
            counts = em.trees.expect(parameters)
    em.note_time(info)
    header: dict[str, Any] = {**(record or {}), "iterations": info.iterations}
    header |= {"log_likelihood": info.log_likelihoods[-1]} if info.iterations else {}
    # parameters chosen on dev trees are not merged, since merging would change their F1
    if info.extra["dev_f1"]:
        header["best_iteration"] = info.best_iteration
    elif any(stage.change == "split" for stage in schedule):
        n_states = parameters.n_states.sum()
        parameters, counts = merge_twins(data, em.trees.pairs, parameters, counts)
        header["merged_twins"] = int(n_states - parameters.n_states.sum())
    return latent_grammar(data, em.trees.pairs, parameters, counts, header), info


def _has_settled(tolerance: float) -> Callable[[Sequence[float]], bool] | None:
    """Return the convergence test for the log-likelihoods of a level; None for tolerance 0.

    The last rise is compared with the rise over the whole level. The likelihood rises slowly just
    after a split, since the copies of a state differ only by their noise.
    """
    if tolerance == 0.0:
        return None
    return lambda level: (
        len(level) > 1 and level[-1] - level[-2] < tolerance * (level[-1] - level[0])
    )


class _TreebankEM:
    """One training run: its trees, its dev trees if there are any, and its checkpoint."""

    def __init__(
        self,
        data: TrainingData,
        schedule: Sequence[Stage],
        settings: EMSettings,
        dev: Sequence[Tree] | None,
    ) -> None:
        self.data, self.trees = data, TrainingTrees(data)
        self.schedule, self.settings = schedule, settings
        self.began = perf_counter()
        self.grading_seconds = self.grading_cpu_seconds = 0.0  # including the charts
        with self._grading():
            self.dev = None if dev is None else DevSet(dev, data.grammar, data.engine.jobs_here)
        self.path = Path(settings.checkpoint) if settings.checkpoint and schedule else None

    def run(self, start: LatentParameters) -> Progress:
        """Run EM through all stages, from the initial parameters or from the checkpoint."""
        now = self._resume()
        if now is None:
            rng = np.random.default_rng(self.settings.seed)
            now = Progress(start, 0, 0, NOT_SPLIT, rng, Info(extra={"dev_f1": []}))
            now = self._change_states(now) if self.schedule else now
        # number of iterations before each stage
        ends = starts_of([stage.iterations for stage in self.schedule]).tolist()
        with step("EM", total=ends[-1], unit="iteration") as advance:
            while now.stage < len(self.schedule):
                if now.iteration < self.schedule[now.stage].iterations:
                    done = ends[now.stage]
                    now = self._run_stage(now, lambda n, done=done: advance(done + n))  # type: ignore[misc]
                if now.stage + 1 == len(self.schedule):
                    break
                now = self._change_states(replace(now, stage=now.stage + 1, iteration=0))
                self._save(now)
        return now

    def _run_stage(self, now: Progress, advance: Callable[[int], None]) -> Progress:
        """Run all iterations of a stage, each one an E-step and an M-step."""
        stage, settings, info = self.schedule[now.stage], self.settings, now.info
        smoothing = settings.rule_smoothing, settings.word_smoothing
        is_graded = self.dev is not None and now.stage + 1 == len(self.schedule)
        steps = EMSteps[LatentParameters, ExpectedCounts](
            self.trees.expect,
            lambda parameters, counts: maximise_tree_counts(parameters, counts, *smoothing),
            score=(lambda run: self.grade(info, run.parameters, run.counts)) if is_graded else None,
        )
        stop = EMStop(
            stage.iterations - 1,
            _has_settled(settings.tolerance),
            settings.patience,
            is_monotone=not any(smoothing),
        )

        def listen(run: EMResult[LatentParameters, ExpectedCounts]) -> None:
            advance(len(run.values))
            states, value = int(run.parameters.n_states.max()), run.values[-1]
            info.history.append({"states": states, "log_likelihood": value})
            tell(iteration=len(info.history), states=states, log_likelihood=value)

        def standing(
            parameters: LatentParameters, run: EMResult[LatentParameters, ExpectedCounts], n: int
        ) -> Progress:
            best = run.best if is_graded else None
            return replace(now, parameters=parameters, iteration=n, best=best)

        began = EMResult[LatentParameters, ExpectedCounts](
            now.parameters,
            info.log_likelihoods[len(info.history) - now.iteration :],
            [f1 for _, f1 in info.extra["dev_f1"]],
            now.best,
            now.iteration,
        )

        def save(run: EMResult[LatentParameters, ExpectedCounts]) -> None:
            self._save(standing(run.parameters, run, len(run.values)))

        run = run_em(steps, began, stop, listen=listen, save=save if self.path else None)
        # a stage ends with an M-step
        parameters = steps.maximise(run.parameters, run.counts)
        over = standing(parameters, run, stage.iterations)
        if now.stage + 1 == len(self.schedule):
            self._save(over)
        return over

    def _change_states(self, now: Progress) -> Progress:
        stage = self.schedule[now.stage]
        target = np.minimum(self.trees.limit, stage.states)
        if stage.change == "split":
            parameters, origin = split_states(now.parameters, target, now.rng)
            return replace(now, parameters=parameters, origin=origin)
        if stage.change == "merge":
            merged = merge_siblings(self.trees, now.parameters, now.origin, self.settings.merge)
            return replace(now, parameters=merged, origin=NOT_SPLIT)
        if stage.change == "matsuzaki":
            return replace(now, parameters=matsuzaki_start(now.parameters, target, now.rng))
        return now

    def grade(self, info: Info, parameters: LatentParameters, counts: ExpectedCounts) -> float:
        """Return the F1 of parameters on the dev trees, and add it to `info`."""
        assert self.dev is not None
        with self._grading():
            model = latent_grammar(self.data, self.trees.pairs, parameters, counts, {})
            f1 = self.dev.f1(model)
        tell(iteration=info.iterations, dev_f1=f1)
        info.extra["dev_f1"].append((info.iterations, f1))
        return f1

    @contextmanager
    def _grading(self) -> Iterator[None]:
        wall, cpu = perf_counter(), process_time()
        yield
        self.grading_seconds += perf_counter() - wall
        self.grading_cpu_seconds += process_time() - cpu

    def note_time(self, info: Info) -> None:
        """Record the time of training, and the time of scoring apart from it."""
        info.seconds["em"] = round(perf_counter() - self.began - self.grading_seconds, 3)
        info.extra["grading_cpu_seconds"] = self.grading_cpu_seconds
        if self.dev is not None:
            info.seconds["dev"] = round(self.grading_seconds, 3)

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        """Return the settings and sizes in which a training must agree with its checkpoint."""
        gold = "" if self.dev is None else "\n".join(map(str, self.dev.gold))
        return {
            "learner": self.settings.learner, "schedule": [list(stage) for stage in self.schedule],
            "trees": self.data.digest(), "dev": sha256(gold.encode()).hexdigest(),
        }  # fmt: skip

    def _resume(self) -> Progress | None:
        """Read the checkpoint of an earlier run of this training; None if there is none."""
        if self.path is None:
            return None
        plain = self.trees.plain_parameters()
        return load_checkpoint(self.path, plain, self.schedule, self._fingerprint)

    def _save(self, now: Progress) -> None:
        if self.path is not None:
            save_checkpoint(self.path, now, self._fingerprint)


CHECKPOINT = "EM checkpoint"  # the kind of file, which its header names
_ARRAYS = ("n_states", "root", "rules", "words")


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of a training by EM after an iteration."""

    parameters: LatentParameters
    # index of the stage in the schedule, and the number of its finished iterations
    stage: int
    iteration: int
    # for each state, the state before the last split that it was copied from; empty without a split
    origin: IntArray
    rng: np.random.Generator
    info: Info
    best: LatentParameters | None = None  # the parameters with the highest dev F1 so far


def save_checkpoint(path: Path, progress: Progress, settings: dict[str, Any]) -> None:
    """Write a checkpoint atomically: the file is replaced as a whole, or not at all."""
    from sapwood.core.model_files import digest_of, write_atomically

    tensors = {name: getattr(progress.parameters, name) for name in _ARRAYS}
    tensors["origin"] = progress.origin
    if progress.best is not None:
        tensors |= {f"best_{name}": getattr(progress.best, name) for name in _ARRAYS}
    state = {
        "settings": settings, "stage": progress.stage, "iteration": progress.iteration,
        "rng": progress.rng.bit_generator.state,
        "info": {
            "log_likelihoods": progress.info.log_likelihoods,
            "states": [row["states"] for row in progress.info.history],
            "dev_f1": progress.info.extra["dev_f1"],
        },
    }  # fmt: skip
    header = {"kind": CHECKPOINT, "sha256": digest_of(tensors, state), "state": state}
    write_atomically(path, tensors, header)


def load_checkpoint(
    path: Path,
    plain: LatentParameters,
    schedule: Sequence[tuple[str, int, int]],
    settings: dict[str, Any],
) -> Progress | None:
    """Read the state of a training from a checkpoint; None if the file does not exist.

    Parameters
    ----------
    plain
        Parameters of the same trees, which give the rules and the pairs of tag and word.
    settings
        The settings of this training; a checkpoint with other settings is refused.
    """
    if not path.exists():
        return None
    tensors, state = _read_checkpoint(path)
    if state.get("settings") != settings:
        msg = f"{path}: belongs to a training with other settings or other trees"
        raise SapwoodError(
            msg,
            hint="remove the file, or use the settings it was made with",
        )
    try:
        return _progress(tensors, state, plain, schedule)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        msg = f"{path}: not an EM checkpoint that can be used ({error})"
        raise SapwoodError(
            msg,
            hint="remove the file to start again",
        ) from error


def _read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the arrays and the state of a checkpoint, and check the checksum."""
    from sapwood.core.model_files import digest_of, read_tensors

    try:
        tensors, header = read_tensors(path)
        _require(header.get("kind") == CHECKPOINT, f"its header says {header.get('kind')}")
        state = header.get("state")
        is_whole = isinstance(state, dict) and header.get("sha256") == digest_of(tensors, state)
        _require(is_whole, "its contents do not match its checksum")
    except (OSError, ValueError) as error:
        msg = f"{path}: not an EM checkpoint ({error})"
        raise SapwoodError(msg, hint="remove the file to start again") from error
    return tensors, header["state"]


def _require(condition: bool | np.bool_, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _progress(
    tensors: dict[str, Any],
    state: dict[str, Any],
    plain: LatentParameters,
    schedule: Sequence[tuple[str, int, int]],
) -> Progress:
    """Check the sizes and numbers of a checkpoint, and build the state of the training."""
    stage, iteration = state["stage"], state["iteration"]
    whole = isinstance(stage, int) and isinstance(iteration, int)
    _require(whole and stage in range(len(schedule)), f"there is no stage {stage}")
    _require(iteration in range(schedule[stage][2] + 1), f"there is no iteration {iteration}")
    parameters, origin = _parameters(tensors, "", plain), tensors["origin"]
    n_states = int(parameters.n_states.sum())
    n_origins = n_states if schedule[stage][0] == "split" else 0
    _require(origin.dtype == np.int64 and origin.shape == (n_origins,), "wrong origins")
    rng = np.random.default_rng()
    rng.bit_generator.state = state["rng"]
    saved = state["info"]
    history = [
        {"states": int(m), "log_likelihood": float(value)}
        for m, value in zip(saved["states"], saved["log_likelihoods"], strict=True)
    ]
    # JSON turns tuples into lists
    info = Info(history, extra={"dev_f1": [(int(done), float(f1)) for done, f1 in saved["dev_f1"]]})
    # a level that converged early counts as finished, so that it may have fewer likelihoods
    _require(info.iterations >= min(iteration, 2), "iterations without a likelihood")
    best = _parameters(tensors, "best_", plain) if "best_root" in tensors else None
    _require(best is None or len(info.extra["dev_f1"]) > 0, "best parameters without a dev F1")
    return Progress(parameters, stage, iteration, origin, rng, info, best)


def _parameters(tensors: dict[str, Any], prefix: str, plain: LatentParameters) -> LatentParameters:
    n_states = tensors[f"{prefix}n_states"]
    fits = n_states.dtype == np.int64 and n_states.shape == plain.n_states.shape
    _require(fits, f"{prefix}n_states are not one whole number for each symbol")
    _require(n_states.min() >= 1, "a symbol has no state")
    _require(n_states.max() <= MAX_STATES, f"a symbol has {n_states.max()} states")
    found = replace(plain, **{name: tensors[f"{prefix}{name}"] for name in _ARRAYS})
    sizes = {"root": found.state_start, "rules": found.rule_start, "words": found.word_start}
    for name, starts in sizes.items():
        numbers, size = getattr(found, name), int(starts[-1])
        fits = numbers.dtype == np.float64 and numbers.shape == (size,)
        _require(fits, f"expected {size:,} numbers of {prefix}{name}")
        _require(np.isfinite(numbers).all(), f"{prefix}{name} are not all finite")
        _require((numbers >= 0.0).all(), f"{prefix}{name} are not all probabilities")
    return found
