"""Expectation maximisation from given probabilities, for every learner that ends with it.

Notation
--------
    e(a, x, h)    expected count of tag a in state h with word x        q(x | a)   plain lexicon
    P(h | a, x) = (e(a, x, h) + u P(h | a, class of x)) / (n(a, x) + u)
    q(x | a, h) = q(x | a) P(h | a, x) / P(h | a)

The plain lexicon says how probable a word is with a tag, known or not; the states only share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
from sapwood.constituency.learn.expected_counts import ExpectedCounts, TreeShard, merge_losses
from sapwood.constituency.learn.latent_parameters import (
    LatentParameters,
    join_states,
    matsuzaki,
    maximise,
    normalise,
    sibling_pairs,
    split,
)
from sapwood.constituency.learn.panel import DevSet
from sapwood.constituency.learn.pcfg import TrainingData
from sapwood.constituency.learn.twin_states import twin_states
from sapwood.core.arrays import FloatArray, IntArray, starts_of, sum_rows
from sapwood.core.em_loop import EMResult, EMSteps, EMStop, run_em
from sapwood.core.info import Info
from sapwood.corpora.tree import Tree
from sapwood.execute import Placed
from sapwood.progress import step

NODES_PER_STATE = 20  # a label gets no more states than its count divided by this
CLASS_STRENGTH = 5.0  # u above: pseudo-tokens of the class behind the states of each word
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
    info: Info
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


def run_treebank_em(
    data: TrainingData,
    start: LatentParameters,
    schedule: Sequence[Stage],
    settings: EMSettings,
    dev: Sequence[Tree] | None = None,
    record: Mapping[str, Any] | None = None,
) -> tuple[LatentGrammar, Info]:
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
        The grammar, whose record has the iterations behind the given record; and an `Info`: its
        history has log-likelihoods before every M-step and the most states of a symbol (`states`);
        `dev_f1` are pairs of the number of iterations done and the F1 then, and
        `grading_cpu_seconds` the processor seconds, over all threads, that finding them took.
    """
    em = _TreebankEM(data, schedule, settings, dev if schedule else None)
    now = em.run(start)
    parameters, counts, info = now.parameters, em.trees.expect(now.parameters), now.info
    if em.dev is not None:
        f1 = em.grade(info, parameters, counts)
        if now.best is not None and f1 <= max(seen for _, seen in info.dev_f1[:-1]):
            parameters = now.best
            counts = em.trees.expect(parameters)
    em.note_time(info)
    header: dict[str, Any] = {**(record or {}), "iterations": info.iterations}
    header |= {"log_likelihood": info.log_likelihoods[-1]} if info.iterations else {}
    # parameters that dev trees chose are kept as they are: to merge them would change their F1
    if info.dev_f1:
        header["best_iteration"] = info.best_iteration
    elif any(stage.change == "split" for stage in schedule):
        n_states = parameters.n_states.sum()
        parameters, counts = _merge_twins(data, em.trees.pairs, parameters, counts)
        header["merged_twins"] = int(n_states - parameters.n_states.sum())
    return latent_grammar(data, em.trees.pairs, parameters, counts, header), info


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


def _has_settled(tolerance: float) -> Callable[[Sequence[float]], bool]:
    """A test whether the likelihood hardly rises any more.

    Compared with the level's own rise: after a split it is slow at first, since copies differ by
    their noise only.
    """

    def has_settled(level: Sequence[float]) -> bool:
        if tolerance == 0.0 or len(level) < 2:
            return False
        return level[-1] - level[-2] < tolerance * (level[-1] - level[0])

    return has_settled


class _TreebankEM:
    """One training: its trees, its dev trees where there are any, and its checkpoint."""

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
        self.grading_seconds = self.grading_cpu_seconds = 0.0  # charts included
        with self._grading():
            self.dev = None if dev is None else DevSet(dev, data.grammar, data.engine.jobs_here)
        self.path = Path(settings.checkpoint) if settings.checkpoint and schedule else None

    def run(self, start: LatentParameters) -> Progress:
        """EM through all stages, from a start or from where a checkpoint stopped."""
        now = self._resume()
        if now is None:
            rng = np.random.default_rng(self.settings.seed)
            now = Progress(start, 0, 0, NOT_SPLIT, rng, Info(extra={"dev_f1": []}))
            now = self._change_states(now) if self.schedule else now
        # iterations before each stage
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
        """All iterations of a stage, each an E-step and an M-step."""
        stage, settings, info = self.schedule[now.stage], self.settings, now.info
        smoothing = settings.rule_smoothing, settings.word_smoothing
        is_graded = self.dev is not None and now.stage + 1 == len(self.schedule)
        steps = EMSteps[LatentParameters, ExpectedCounts](
            self.trees.expect,
            lambda parameters, counts: maximise(parameters, counts, *smoothing),
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
            if settings.on_iteration:
                settings.on_iteration(info.iterations, states, value)

        def standing(
            parameters: LatentParameters, run: EMResult[LatentParameters, ExpectedCounts], n: int
        ) -> Progress:
            best = run.best if is_graded else None
            return replace(now, parameters=parameters, iteration=n, best=best)

        began = EMResult[LatentParameters, ExpectedCounts](
            now.parameters,
            info.log_likelihoods[len(info.history) - now.iteration :],
            [f1 for _, f1 in info.dev_f1],
            now.best,
            now.iteration,
        )
        run = run_em(
            steps, began, stop, listen=listen,
            save=lambda run: self._save(standing(run.parameters, run, len(run.values))),
        )  # fmt: skip
        # the last M-step of a stage follows its last E-step
        parameters = steps.maximise(run.parameters, run.counts)
        over = standing(parameters, run, stage.iterations)
        if now.stage + 1 == len(self.schedule):
            self._save(over)
        return over

    def _change_states(self, now: Progress) -> Progress:
        stage = self.schedule[now.stage]
        target = np.minimum(self.trees.limit, stage.states)
        if stage.change == "split":
            parameters, origin = split(now.parameters, target, now.rng)
            return replace(now, parameters=parameters, origin=origin)
        if stage.change == "merge":
            merged = merge_siblings(self.trees, now.parameters, now.origin, self.settings.merge)
            return replace(now, parameters=merged, origin=NOT_SPLIT)
        if stage.change == "matsuzaki":
            return replace(now, parameters=matsuzaki(now.parameters, target, now.rng))
        return now

    def grade(self, info: Info, parameters: LatentParameters, counts: ExpectedCounts) -> float:
        """The F1 of some parameters on dev trees."""
        assert self.dev is not None
        with self._grading():
            model = latent_grammar(self.data, self.trees.pairs, parameters, counts, {})
            f1 = self.dev.f1(model)
        if self.settings.on_grade:
            self.settings.on_grade(info.iterations, f1)
        info.extra["dev_f1"].append((info.iterations, f1))
        return f1

    @contextmanager
    def _grading(self) -> Iterator[None]:
        wall, cpu = perf_counter(), process_time()
        yield
        self.grading_seconds += perf_counter() - wall
        self.grading_cpu_seconds += process_time() - cpu

    def note_time(self, info: Info) -> None:
        """Note the time of a training, and how much of it was grading."""
        info.seconds["em"] = round(perf_counter() - self.began - self.grading_seconds, 3)
        info.extra["grading_cpu_seconds"] = self.grading_cpu_seconds
        if self.dev is not None:
            info.seconds["dev"] = round(self.grading_seconds, 3)

    @cached_property
    def _fingerprint(self) -> dict[str, Any]:
        """What two trainings must have in common to share a checkpoint."""
        gold = "" if self.dev is None else "\n".join(map(str, self.dev.gold))
        return {
            "learner": self.settings.learner, "schedule": [list(stage) for stage in self.schedule],
            "trees": self.data.digest(), "dev": sha256(gold.encode()).hexdigest(),
        }  # fmt: skip

    def _resume(self) -> Progress | None:
        """Where a training stopped that had all in common with this one."""
        from sapwood.constituency.learn import em_checkpoint

        if self.path is None:
            return None
        plain = self.trees.plain_parameters()
        return em_checkpoint.resume(self.path, plain, self.schedule, self._fingerprint)

    def _save(self, now: Progress) -> None:
        from sapwood.constituency.learn import em_checkpoint

        if self.path is not None:
            em_checkpoint.save(self.path, now, self._fingerprint)
