"""Expectation maximisation from given probabilities, for every learner that ends with it.

Notation
--------
    e(a, x, h)    expected count of tag a in state h with word x        q(x | a)   plain lexicon
    P(h | a, x) = (e(a, x, h) + u P(h | a, class of x)) / (n(a, x) + u)
    q(x | a, h) = q(x | a) P(h | a, x) / P(h | a)

The plain lexicon says how probable a word is with a tag, known or not; the states only share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from sapwood.arrays import FloatArray, IntArray, starts_of, sum_rows
from sapwood.corpus.tree import Tree
from sapwood.errors import SapwoodError
from sapwood.estimators.panel import DevSet
from sapwood.estimators.pcfg import TrainingData
from sapwood.execute import Placed
from sapwood.models.latent_grammar import LatentGrammar, Lexicon
from sapwood.moments.expected_counts import ExpectedCounts, TreeShard, merge_losses
from sapwood.moments.latent_parameters import (
    LatentParameters,
    join_states,
    matsuzaki,
    maximise,
    normalise,
    sibling_pairs,
    split,
)
from sapwood.moments.twin_states import twin_states
from sapwood.progress import step

NODES_PER_STATE = 20  # a label gets no more states than its count divided by this
CLASS_STRENGTH = 5.0  # u above: pseudo-tokens of the class behind the states of each word
FALL = 1e-7  # relative fall of the likelihood that rounding can explain
# Total variation up to which states are merged after training; benchmarks/twin_states.py: dev F1
# stays the same, and the log-probability of a dev tree changes by less than 1 in 10,000.
TWINS = 0.03
NOT_SPLIT = np.empty(0, np.int64)


class TrainingTrees:
    """Trees as EM takes them: sorted for its kernels, with pairs of tag and word numbered.

    Attributes
    ----------
    pairs : [n_pairs]
        Rising codes `tag * n_words + word` of the pairs of tag and word.
    symbol_of_pair : [n_pairs]
    limit : [n_symbols]
        The most states of a label: no more than its nodes can tell apart.
    """

    def __init__(self, data: TrainingData) -> None:
        self.engine, self.inventory, self.counts = data.engine, data.inventory, data.counts
        self.pairs = data.counts.pairs
        n_words, n_phrases = len(data.inventory.words), len(data.inventory.phrases)
        self.symbol_of_pair = n_phrases + self.pairs // n_words
        self.limit = np.maximum(1, data.counts.symbols // NODES_PER_STATE).astype(np.int64)
        if "sorted trees" not in data.kept:
            data.kept["sorted trees"] = self.engine.map(TreeShard, data.shards, self.pairs)
        self.shards: Placed = data.kept["sorted trees"]

    def plain_parameters(self) -> LatentParameters:
        """Relative frequencies, one state a symbol."""
        counts, pair = self.counts, np.searchsorted(self.pairs, self.counts.lexical // 2)
        return normalise(
            LatentParameters(
                np.ones(len(counts.symbols), np.int64), self.inventory.rules.astype(np.int64),
                self.symbol_of_pair, counts.roots, counts.rules,
                np.bincount(pair, counts.lexical_count, len(self.pairs)).astype(float),
            )
        )  # fmt: skip

    def expect(self, parameters: LatentParameters) -> ExpectedCounts:
        """The E-step over all shards."""
        return self.engine.total(ExpectedCounts.of, self.shards, parameters)

    def merge_losses(
        self, parameters: LatentParameters, pairs: IntArray, share: FloatArray
    ) -> FloatArray:
        """Log-likelihood that all shards would lose, see `moments.expected_counts`."""
        return self.engine.total(merge_losses, self.shards, parameters, pairs, share)


def merge_siblings(
    trees: TrainingTrees, parameters: LatentParameters, origin: IntArray, fraction: float
) -> LatentParameters:
    """Undo a fraction of the splits, those that gained least (Petrov et al. 2006)."""
    counts = trees.expect(parameters)
    weight = replace(parameters, rules=counts.rules, words=counts.words).state_totals()
    pairs = sibling_pairs(parameters, origin)
    start = parameters.state_start[pairs[:, 0]]
    one, two = weight[start + pairs[:, 1]], weight[start + pairs[:, 2]]
    share = one / np.maximum(one + two, 1e-300)
    losses = trees.merge_losses(parameters, pairs, share)
    chosen = pairs[np.argsort(losses, kind="stable")[: int(fraction * len(pairs))]]
    # siblings stand side by side, so a state's new number is how many states before it stay
    stays = np.ones(int(parameters.state_start[-1]), np.int64)
    stays[parameters.state_start[chosen[:, 0]] + chosen[:, 2]] = 0
    joined = [np.cumsum(part) - 1 for part in np.split(stays, parameters.state_start[1:-1])]
    return join_states(parameters, joined, weight)


def latent_grammar(
    data: TrainingData,
    pairs: IntArray,
    parameters: LatentParameters,
    counts: ExpectedCounts,
    record: dict[str, Any],
) -> LatentGrammar:
    """Make a grammar of estimated probabilities, with the lexicon of the plain grammar behind it.

    `pairs` are codes `tag * n_words + word` of the pairs in `parameters.words`.
    """
    plain = data.grammar
    sizes = np.diff(parameters.rule_start)
    return LatentGrammar(
        plain.phrases, plain.tags, parameters.n_states, parameters.root, plain.rules,
        parameters.rules[np.repeat(data.counts.rules > 0, sizes)],
        _lexicon(data, pairs, parameters, counts), plain.coarse, plain.transform, record=record,
    )  # fmt: skip


def _lexicon(
    data: TrainingData, pairs: IntArray, parameters: LatentParameters, counts: ExpectedCounts
) -> Lexicon:
    lexicon, n_phrases = data.grammar.lexicon, data.grammar.n_phrases
    m = int(parameters.n_states.max())
    tag, word = np.divmod(pairs, len(data.inventory.words))
    expected = np.zeros((len(pairs), m))  # zeros behind the states of each tag
    expected[np.arange(m) < parameters.n_states[n_phrases + tag][:, None]] = counts.words
    states = _state_shares(data, expected, tag, word)
    entry_tag = lexicon.entry_tag.astype(np.int64)
    joint = states * lexicon.weights[:, None]
    per_tag = sum_rows(joint, entry_tag, len(data.grammar.tags))
    joint /= np.where(per_tag > 0, per_tag, 1.0)[entry_tag]
    sizes = parameters.n_states[n_phrases + entry_tag]
    kept = np.arange(m) < sizes[:, None]
    return replace(lexicon, weights=joint[kept], weight_start=starts_of(sizes))


def _state_shares(
    data: TrainingData, expected: FloatArray, tag: IntArray, word: IntArray
) -> FloatArray:
    """P(h | a, x) for every entry of the lexicon, shape [n_entries, m]."""
    classes, lexicon = data.classes, data.grammar.lexicon

    by_tag = sum_rows(expected, tag, len(data.grammar.tags))
    prior = by_tag / np.maximum(by_tag.sum(axis=1, keepdims=True), 1e-300)
    entry_tag = lexicon.entry_tag.astype(np.int64)

    def shares(rows: IntArray, behind: FloatArray) -> FloatArray:
        """Expected states of the pairs that fall into each entry, over a prior."""
        entry = lexicon.find_entries(rows, tag)
        total = sum_rows(expected[entry >= 0], entry[entry >= 0], len(lexicon.entry_tag))
        n = total.sum(axis=1, keepdims=True)
        return np.asarray((total + CLASS_STRENGTH * behind) / (n + CLASS_STRENGTH))

    class_row = classes.class_of_word[0]
    of_class = shares(class_row[word], prior[entry_tag])
    entry_row = lexicon.entry_row
    own_class = np.full(lexicon.n_rows, -1)  # the class behind each rare word's row
    rare = (classes.own_row >= 0) & (class_row >= 0)
    own_class[classes.own_row[rare]] = class_row[rare]
    behind_entry = lexicon.find_entries(own_class[entry_row], entry_tag)
    behind = np.where((behind_entry >= 0)[:, None], of_class[behind_entry], prior[entry_tag])
    is_class = (entry_row >= len(lexicon.words))[:, None]
    return np.where(is_class, of_class, shares(classes.own_row[word], behind))


@dataclass(frozen=True)
class EMInfo:
    """What happened in a training.

    Attributes
    ----------
    log_likelihoods, states
        Log-likelihood before every M-step, and the most states of a symbol then.
    dev_f1
        Pairs of the number of iterations done and the F1 then, where dev trees were given.
    seconds
        Wall-clock seconds of training, and of the grading on dev trees within it.
    grading_cpu_seconds
        Processor seconds of that grading, over all threads.
    """

    log_likelihoods: list[float] = field(default_factory=list)
    states: list[int] = field(default_factory=list)
    dev_f1: list[tuple[int, float]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    grading_cpu_seconds: float = 0.0

    @property
    def iterations(self) -> int:
        """E-steps taken."""
        return len(self.log_likelihoods)

    @property
    def best_iteration(self) -> int | None:
        """After how many iterations dev F1 was highest, the first time; None without dev trees."""
        return max(self.dev_f1, key=lambda pair: pair[1])[0] if self.dev_f1 else None


@dataclass(frozen=True, eq=False)
class Progress:
    """Where a training stands."""

    parameters: LatentParameters
    # which stage of the schedule, and how many of its iterations are done
    stage: int
    iteration: int
    # the state before the last split that each state comes from; empty when nothing was split
    origin: IntArray
    rng: np.random.Generator
    info: EMInfo
    best: LatentParameters | None = None  # the parameters with the highest dev F1 so far


class Stage(NamedTuple):
    """A change of the states, then EM."""

    change: str  # `split`, `merge`, `matsuzaki` or `none`
    states: int
    iterations: int


class EMSettings(NamedTuple):
    """How EM goes on; see the parameters of `EMLPCFG`."""

    learner: dict[str, Any]  # what decided the start; a checkpoint is only good for the same
    rule_smoothing: float
    word_smoothing: float
    merge: float = 0.0
    tolerance: float = 0.0
    patience: int | None = None
    seed: int = 0
    checkpoint: str | Path | None = None
    on_iteration: Callable[[int, int, float], None] | None = None
    on_grade: Callable[[int, float], None] | None = None


def climb(
    data: TrainingData,
    start: LatentParameters,
    schedule: Sequence[Stage],
    settings: EMSettings,
    dev: Sequence[Tree] | None = None,
    record: Mapping[str, Any] | None = None,
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
        The grammar, with what is told of the iterations behind the given record; and what happened.
    """
    trees, judge = TrainingTrees(data), _Judge(data, dev if schedule else None, settings.on_grade)
    saved = _Saved(data, trees, schedule, settings, judge)
    now = saved.resume()
    if now is None:
        now = Progress(start, 0, 0, NOT_SPLIT, np.random.default_rng(settings.seed), EMInfo())
        now = _change_states(trees, now, schedule[0], settings) if schedule else now
    ends = starts_of([stage.iterations for stage in schedule]).tolist()  # of stages, in iterations
    with step("EM", total=ends[-1], unit="iteration") as advance:
        while not _is_done(now, schedule, settings):
            advance(ends[now.stage] + now.iteration)
            counts = trees.expect(now.parameters)  # E
            _check_bound(now, counts.log_likelihood, settings)
            now = judge.note(now, counts, is_last=now.stage + 1 == len(schedule))
            if settings.on_iteration:
                n, states = now.info.iterations, now.info.states[-1]
                settings.on_iteration(n, states, counts.log_likelihood)
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
    told: dict[str, Any] = {**(record or {}), "iterations": info.iterations}
    told |= {"log_likelihood": info.log_likelihoods[-1]} if info.iterations else {}
    told |= {"best_iteration": info.best_iteration} if info.dev_f1 else {}
    parameters = now.parameters
    # parameters that dev trees chose are kept as they are: to merge them would change their F1
    if now.best is None and any(stage.change == "split" for stage in schedule):
        parameters, counts = _merge_twins(data, trees.pairs, parameters, counts)
        n_merged = now.parameters.n_states.sum() - parameters.n_states.sum()
        told["merged_twins"] = int(n_merged)
    return latent_grammar(data, trees.pairs, parameters, counts, told), info


def _merge_twins(
    data: TrainingData, pairs: IntArray, parameters: LatentParameters, counts: ExpectedCounts
) -> tuple[LatentParameters, ExpectedCounts]:
    """Parameters and counts without the splits that found nothing: states that are almost equal."""
    blocks = twin_states(latent_grammar(data, pairs, parameters, counts, {}), TWINS)
    counted = replace(parameters, rules=counts.rules, words=counts.words)
    member = [np.eye(int(block.max()) + 1)[block] for block in blocks]
    words = np.concatenate([vector @ member[a] for a, vector in counted.emissions()])
    joined = join_states(parameters, blocks, counted.state_totals())
    return joined, replace(counts, words=words)


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


class _Judge:
    """Notes what happens, and how well dev trees are parsed where there are any."""

    def __init__(
        self,
        data: TrainingData,
        dev: Sequence[Tree] | None,
        tell: Callable[[int, float], None] | None = None,
    ) -> None:
        self.data, self.pairs, self.tell = data, data.counts.pairs, tell
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
        if self.tell:
            self.tell(now.info.iterations, f1)
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
        from sapwood.estimators import em_checkpoint

        if self.path is None:
            return None
        plain = self.trees.plain_parameters()
        return em_checkpoint.resume(self.path, plain, self.schedule, self.fingerprint)

    def save(self, now: Progress) -> None:
        from sapwood.estimators import em_checkpoint

        if self.path is not None:
            em_checkpoint.save(self.path, now, self.fingerprint)
