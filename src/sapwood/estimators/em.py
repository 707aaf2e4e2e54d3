"""`EMLPCFG`: latent-variable PCFGs by expectation maximisation on treebank trees.

Two starts:

- **split** (Petrov et al. 2006): begin with one state a symbol; split every state in two with 1 %
  noise, run EM, and so on to 2, 4, 8, 16, ... states. States are pulled towards their siblings'
  mean after every step.
- **matsuzaki** (Matsuzaki et al. 2005): all states at once, treebank frequencies times exp(u) with
  u uniform between -ln 3 and ln 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from sapwood.corpus.treebank import Treebank
from sapwood.errors import SapwoodError
from sapwood.estimators.base import Estimator, check_treebank
from sapwood.estimators.latent_lexicon import latent_grammar
from sapwood.estimators.pcfg import PCFG
from sapwood.execute import map_reduce, resolve_jobs
from sapwood.models.latent_grammar import LatentGrammar
from sapwood.models.latent_parameters import LatentParameters
from sapwood.moments.expected_counts import ExpectedCounts, TreeShard

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
STARTS = ("split", "matsuzaki")
NODES_PER_STATE = 20  # a label gets no more states than its count divided by this
CHECKPOINT = "EM checkpoint"  # the kind of file, as its header says
FALL = 1e-7  # relative fall of the likelihood that rounding can explain


@dataclass
class EMInfo:
    """What happened: the log-likelihood before every M-step, with the number of states then."""

    log_likelihoods: list[float] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """E-steps taken."""
        return len(self.log_likelihoods)


class EMLPCFG(Estimator):
    """Latent-variable PCFG by EM, with true probabilities.

    Parameters
    ----------
    n_states
        Hidden states of a label with enough data; a label gets at most count / 20.
    start
        `split` doubles the states level by level, `matsuzaki` starts with all of them.
    iterations
        EM iterations at each level of `split`, or in all for `matsuzaki`.
    rule_smoothing, word_smoothing
        How far the states of a label are pulled towards their mean after each M-step; 0 and 0 give
        plain EM, whose likelihood never falls.
    plain
        The estimator of the plain grammar and lexicon behind it.
    seed
        Of the noise.
    n_jobs
        Threads over trees; 0 means all cores.
    checkpoint
        A file that is written after every iteration and, when it is there, continued from.
    on_iteration
        Called with (iteration, states, log-likelihood) after every E-step.

    Attributes
    ----------
    model_ : LatentGrammar
    info_ : EMInfo
    """

    CONSTRAINTS: ClassVar[dict[str, tuple[Any, str]]] = {
        "n_states": (
            lambda v: isinstance(v, int) and 1 <= v <= 256,
            "a whole number from 1 to 256",
        ),
        "start": (lambda v: v in STARTS, f"one of {', '.join(STARTS)}"),
        "iterations": (lambda v: isinstance(v, int) and v >= 1, "a whole number from 1 up"),
        "rule_smoothing": (lambda v: 0 <= v < 1, "at least 0 and below 1"),
        "word_smoothing": (lambda v: 0 <= v < 1, "at least 0 and below 1"),
        "plain": (lambda v: v is None or isinstance(v, PCFG), "a PCFG estimator"),
    }

    def __init__(  # noqa: PLR0913 - an estimator's parameters are its constructor's arguments
        self,
        n_states: int = 16,
        *,
        start: str = "split",
        iterations: int = 20,
        rule_smoothing: float = 0.03,
        word_smoothing: float = 0.1,
        plain: PCFG | None = None,
        seed: int = 0,
        n_jobs: int = 1,
        checkpoint: str | Path | None = None,
        on_iteration: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.n_states = n_states
        self.start = start
        self.iterations = iterations
        self.rule_smoothing = rule_smoothing
        self.word_smoothing = word_smoothing
        self.plain = plain
        self.seed = seed
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.on_iteration = on_iteration

    def fit(self, bank: Treebank) -> Self:
        """Learn the grammar of a treebank."""
        self._check_parameters()
        check_treebank(bank)
        plain = (self.plain or PCFG()).fit(bank)
        trees = TrainingTrees(plain.bank_, resolve_jobs(self.n_jobs))
        return self._run(plain, trees, self._first)

    def fit_from(
        self,
        plain: PCFG,
        trees: TrainingTrees,
        start: LatentParameters,
        record: dict[str, Any] | None = None,
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
        record
            What the model's training record says besides the iterations.
        """
        self._check_parameters()
        rng = np.random.default_rng(self.seed)

        def first(_: TrainingTrees) -> _State:
            return _State(start, [self.n_states], 0, 0, rng, EMInfo(), self.iterations)

        return self._run(plain, trees, first, record)

    def _run(
        self,
        plain: PCFG,
        trees: TrainingTrees,
        first: Callable[[TrainingTrees], _State],
        record: dict[str, Any] | None = None,
    ) -> Self:
        started = perf_counter()
        state = self._resumed(trees) or first(trees)
        while not state.is_done:
            state = self._step(trees, state)
            self._save(state)
        self.info_ = state.info
        self.info_.seconds = {"em": round(perf_counter() - started, 3)}
        self.model_ = latent_grammar(
            state.parameters, trees.expect(state.parameters, self.n_jobs), plain, trees.pairs,
            self._record(trees.bank) | (record or {}),
        )  # fmt: skip
        return self

    # -- one step -----------------------------------------------------------------------------

    def _first(self, trees: TrainingTrees) -> _State:
        rng = np.random.default_rng(self.seed)
        plain = trees.plain_parameters()
        levels = self._levels()
        if self.start == "matsuzaki":
            parameters = _matsuzaki(plain, _limited(trees.limit, self.n_states), rng)
        else:
            parameters = _split(plain, _limited(trees.limit, levels[0]), rng)
        return _State(parameters, levels, 0, 0, rng, EMInfo(), self.iterations)

    def _levels(self) -> list[int]:
        if self.start == "matsuzaki":
            return [self.n_states]
        doubled = [2**k for k in range(1, 9) if 2**k < self.n_states]
        return [*doubled, self.n_states]

    def _step(self, trees: TrainingTrees, state: _State) -> _State:
        """One E-step and M-step, and the next split when a level is finished."""
        counts = trees.expect(state.parameters, self.n_jobs)
        self._check_likelihood(state, counts.log_likelihood)
        m = state.levels[state.level]
        state.info.log_likelihoods.append(counts.log_likelihood)
        state.info.states.append(m)
        if self.on_iteration:
            self.on_iteration(state.info.iterations, m, counts.log_likelihood)
        parameters = replace(
            state.parameters, root=counts.root, rules=counts.rules, words=counts.words
        ).normalised()
        if self.rule_smoothing or self.word_smoothing:
            parameters = parameters.smoothed(self.rule_smoothing, self.word_smoothing)
        level, iteration = state.level, state.iteration + 1
        if iteration == self.iterations and level + 1 < len(state.levels):
            level, iteration = level + 1, 0
            target = _limited(trees.limit, state.levels[level])
            parameters = _split(parameters, target, state.rng)
        return replace(state, parameters=parameters, level=level, iteration=iteration)

    def _check_likelihood(self, state: _State, now: float) -> None:
        """Plain EM never lowers the likelihood; if it does, the code is wrong."""
        smoothing = self.rule_smoothing or self.word_smoothing
        if smoothing or state.iteration == 0 or not state.info.log_likelihoods:
            return
        before = state.info.log_likelihoods[-1]
        if now < before - FALL * abs(before):
            msg = f"the log-likelihood fell from {before:.6f} to {now:.6f}"
            raise SapwoodError(msg, hint="this is a fault of Sapwood: please report it")

    # -- checkpoints --------------------------------------------------------------------------

    def _fingerprint(self, trees: TrainingTrees) -> dict[str, Any]:
        names = ("n_states", "start", "iterations", "rule_smoothing", "word_smoothing", "seed")
        mine = {name: getattr(self, name) for name in names}
        bank = trees.bank
        return mine | {
            "trees": bank.n_trees, "tokens": bank.n_tokens, "rules": len(bank.inventory.rules),
            "transform": bank.inventory.transform.as_dict(),
        }  # fmt: skip

    def _save(self, state: _State) -> None:
        if self.checkpoint is None:
            return
        from sapwood.models.files import write_atomically

        p = state.parameters
        tensors = {"n_states": p.n_states, "root": p.root, "rules": p.rules, "words": p.words}
        header = {
            "kind": CHECKPOINT, "settings": self._settings, "levels": state.levels,
            "level": state.level, "iteration": state.iteration,
            "rng": state.rng.bit_generator.state,
            "log_likelihoods": state.info.log_likelihoods, "states": state.info.states,
        }  # fmt: skip
        write_atomically(Path(self.checkpoint), tensors, header)

    def _resumed(self, trees: TrainingTrees) -> _State | None:
        """The state saved in the checkpoint, or None when there is none."""
        self._settings = self._fingerprint(trees)
        if self.checkpoint is None or not Path(self.checkpoint).exists():
            return None
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.checkpoint, framework="numpy") as file:
                header = json.loads((file.metadata() or {})["sapwood"])
                _require_checkpoint(header)
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, KeyError, ValueError) as error:
            msg = f"{self.checkpoint}: not an EM checkpoint ({error})"
            raise SapwoodError(msg, hint="remove the file to start again") from error
        if header.get("settings") != self._settings:
            msg = f"{self.checkpoint}: belongs to a training with other settings or other trees"
            raise SapwoodError(msg, hint="remove the file, or use the settings it was made with")
        plain = trees.plain_parameters()
        parameters = replace(plain, **tensors)
        rng = np.random.default_rng()
        rng.bit_generator.state = header["rng"]
        info = EMInfo(header["log_likelihoods"], header["states"])
        return _State(
            parameters, header["levels"], header["level"], header["iteration"], rng, info,
            self.iterations,
        )  # fmt: skip

    def _record(self, bank: Treebank) -> dict[str, Any]:
        return {
            "method": "em", "n_states": self.n_states, "start": self.start,
            "iterations": self.info_.iterations, "trees": bank.n_trees, "tokens": bank.n_tokens,
            "seed": self.seed, "log_likelihood": self.info_.log_likelihoods[-1],
        }  # fmt: skip


def refined(
    learner: EMLPCFG | None,
    plain: PCFG,
    trees: TrainingTrees,
    start: LatentParameters,
    record: dict[str, Any],
) -> tuple[LatentGrammar, EMInfo]:
    """A grammar of given probabilities, after the EM iterations of a learner if there is one."""
    if learner is None:
        counts = trees.expect(start, plain.n_jobs)
        return latent_grammar(start, counts, plain, trees.pairs, record), EMInfo()
    learner.fit_from(plain, trees, start, record)
    return learner.model_, learner.info_


@dataclass(frozen=True)
class _State:
    """Where a training stands."""

    parameters: LatentParameters
    levels: list[int]
    level: int
    iteration: int
    rng: np.random.Generator
    info: EMInfo
    iterations: int

    @property
    def is_done(self) -> bool:
        return self.level + 1 == len(self.levels) and self.iteration >= self.iterations


class TrainingTrees:
    """A treebank prepared for EM: shards, pairs of tag and word, and limits on states."""

    def __init__(self, bank: Treebank, n_shards: int) -> None:
        inventory = bank.inventory
        self.bank = bank
        n_words, n_phrases = len(inventory.words), len(inventory.phrases)
        leaf = bank.word >= 0
        codes = (bank.label[leaf].astype(np.int64) - n_phrases) * n_words + bank.word[leaf]
        self.pairs, self.pair_count = np.unique(codes, return_counts=True)
        self.symbol_of_pair = n_phrases + self.pairs // n_words
        self.shards = [TreeShard(shard, self.pairs) for shard in bank.shards(n_shards)]
        count = np.bincount(bank.label, minlength=len(inventory.symbols))
        self.limit = np.maximum(1, count // NODES_PER_STATE)

    def plain_parameters(self) -> LatentParameters:
        """Relative frequencies, one state a symbol."""
        bank, n_symbols = self.bank, len(self.bank.inventory.symbols)
        roots = np.bincount(bank.label[bank.offsets[1:] - 1], minlength=n_symbols)
        rules = np.bincount(bank.rule[bank.rule >= 0], minlength=len(bank.inventory.rules))
        return LatentParameters(
            np.ones(n_symbols, np.int64), bank.inventory.rules.astype(np.int64),
            self.symbol_of_pair, roots.astype(float), rules.astype(float),
            self.pair_count.astype(float),
        ).normalised()  # fmt: skip

    def expect(self, parameters: LatentParameters, jobs: int) -> ExpectedCounts:
        """The E-step over all shards."""
        task = partial(ExpectedCounts.of, parameters=parameters)
        counts: ExpectedCounts = map_reduce(task, self.shards, jobs=jobs)
        return counts


def _require_checkpoint(header: Any) -> None:
    kind = header.get("kind") if isinstance(header, dict) else None
    if kind != CHECKPOINT:
        msg = f"its header says {kind}"
        raise ValueError(msg)


def _limited(limit: IntArray, m: int) -> IntArray:
    return np.minimum(limit, m)


def _split(
    parameters: LatentParameters, target: IntArray, rng: np.random.Generator
) -> LatentParameters:
    """Split states in two, as many as it takes to reach the target of each symbol."""
    old = []
    for m, wanted in zip(parameters.n_states.tolist(), target.tolist(), strict=True):
        states = np.arange(m)
        old.append(np.sort(np.concatenate([states, states[: max(0, min(wanted, 2 * m) - m)]])))
    return parameters.restated(old, rng)


def _matsuzaki(
    plain: LatentParameters, target: IntArray, rng: np.random.Generator
) -> LatentParameters:
    """All states at once: treebank frequencies times exp(u), u uniform in [-ln 3, ln 3]."""
    copied = plain.restated([np.zeros(m, np.int64) for m in target.tolist()], None)

    def shaken(numbers: FloatArray) -> FloatArray:
        return np.asarray(numbers * np.exp(rng.uniform(-np.log(3), np.log(3), len(numbers))))

    return replace(
        copied, root=shaken(copied.root), rules=shaken(copied.rules), words=shaken(copied.words)
    ).normalised()
