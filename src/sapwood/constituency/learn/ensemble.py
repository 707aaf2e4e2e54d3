"""`EnsembleLPCFG`: a mix of grammars of different kinds, trained within a time budget.

Grammars of different kinds, and grammars of trees that were made binary in different ways, make
different mistakes; the mean of their posteriors is mostly better than any of them. Candidates are
trained in the order of what they usually bring. With dev trees, members are then chosen one after
the other, each time the one that raises F1 most, and their weights are tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from time import perf_counter, process_time
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from sapwood.constituency.data.treebank import Treebank, TreebankLike, as_treebank
from sapwood.constituency.grammar.ensemble import Ensemble
from sapwood.constituency.grammar.member import Member
from sapwood.constituency.learn.em import EMLPCFG
from sapwood.constituency.learn.em_steps import NODES_PER_STATE
from sapwood.constituency.learn.encoder import seconds_a_pass
from sapwood.constituency.learn.panel import Grades, Panel, cleaned, grade, pruned_by
from sapwood.constituency.learn.pcfg import PCFG, TrainingData
from sapwood.constituency.learn.registry import METHODS
from sapwood.constituency.learn.treebank_learner import OnPlainGrammar, TreebankEstimator, dev_trees
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.info import Info
from sapwood.core.learner import ANYTHING, WithinBudget, parameter
from sapwood.corpora.tree import Tree
from sapwood.execute import Threads
from sapwood.networks.training import MOST_PASSES, NetworkPlan
from sapwood.progress import Advance, step

AUTO = "auto"  # the budget that a treebank has when none is given
MULTIPLE = 76  # of reading and the first grammar, for 100,000 words; more for larger treebanks
LARGER = 0.32  # the power of the number of words by which the multiple grows
LEAST_BUDGET, MOST_BUDGET = (
    150.0,
    3600.0,
)  # CPU seconds: two networks of some hundred trees; never more
SECONDS_TO_READ = 2e-5  # a word
CHOICE_SHARE = 0.1  # of such a budget, that choosing and scoring on dev trees may take
SPARE = 0.02  # of a budget, for what nobody foresees
SAFETY = 1.2  # what is expected is mostly a little less than what comes: other things run too
PIVOT_FACTOR = 3.0  # the convex EM of every rule, beside the features that others have too
N_WARM = 20  # trees that are learnt and parsed before the clock of a budget starts
MOST_DEV = 500  # dev sentences that choose: more only take longer
LEAST_DEV, N_PROBE = 50, 20  # that choose even where time is short; that are charted to find out
CHART_SHARE = 0.1  # of a budget, that charts of the dev sentences may take
SCORE_SHARE = 0.25  # of a budget, that is kept for parsing dev trees with the final mix
SECONDS_A_NUMBER = 5e-8  # of a model that is written: checksum, copies, disk
SHARPNESS = 1.15  # of a mix that no dev trees calibrate
MEMBERS_UNSEEN = 6  # that are trained when nobody can say which are worth their time: one chart
MOST_MEMBERS = 10  # more hardly help, and all have to be loaded and run
NETWORK_WEIGHTS = (0.35, 0.5)  # of one network, or more, among grammars, before they are tuned
NETWORK_SHARE = 0.9  # of the time that is left, for networks: grammars take little
LEAST_PASSES = 4  # of a network; with fewer it is worse than grammars
WORDS_EACH = 3_000_000  # that each of two networks reads: with less, one that reads more is better
TUNED_GAIN = 0.1  # F1 that tuned weights must win over equal ones: less is noise


class Clock:
    """How much time is left, and how long candidates will take, in CPU seconds of this process.

    First guesses are rates of one core measured on the Penn Treebank sample. Every training that
    ends corrects them for its kind, and for kinds that were not tried yet: the machine may be
    slower. The budget that a treebank has by itself is not measured but counted, by the guesses
    alone: the same treebank has the same members on any machine, however busy.

    Parameters
    ----------
    budget
        Seconds; None for no limit; `AUTO` for what the treebank has by itself.
    first
        The first candidate, which that is a multiple of.
    spent
        Seconds of it that are gone already.
    now
        What tells the seconds.
    """

    def __init__(
        self,
        budget: float | str | None,
        data: TrainingData,
        first: Candidate,
        *,
        has_dev: bool = False,
        spent: float = 0.0,
        now: Callable[[], float] = process_time,
    ) -> None:
        counts = data.counts
        self.n_nodes = float(counts.symbols.sum())
        self.n_words = int(data.sizes["tokens"])
        self.rule_count, self.rules = counts.rules, data.inventory.rules
        self.limit = np.maximum(1, counts.symbols // NODES_PER_STATE)
        self.factor: dict[str, float] = {}
        self.last_factor = 1.0
        self.is_counted, self.now = budget == AUTO, now
        reading = SECONDS_TO_READ * self.n_words
        if isinstance(budget, str):
            multiple = MULTIPLE * (self.n_words / 1e5) ** LARGER
            usual = multiple * (reading + self._guess(first))
            self.budget = round(float(np.clip(usual, LEAST_BUDGET, MOST_BUDGET)), 1)
            ours = (1.0 - CHOICE_SHARE) if has_dev else 1.0
            self._left = ours * self.budget - reading
        else:
            self.budget = np.inf if budget is None else budget
        self._ends = now() + (1.0 - SPARE) * self.budget - spent

    @property
    def safety(self) -> float:
        """What expected seconds are multiplied by: what is counted is as expected."""
        return 1.0 if self.is_counted else SAFETY

    @property
    def left(self) -> float:
        """Seconds."""
        return self._left if self.is_counted else self._ends - self.now()

    def expected(self, candidate: Candidate) -> float:
        """Seconds that a candidate will take, a network for one pass."""
        return self._guess(candidate) * self.factor.get(candidate.method, self.last_factor)

    def learn(self, candidate: Candidate, seconds: float, passes: int = 1) -> None:
        """Note how long a candidate has taken."""
        if self.is_counted:
            self._left -= passes * self._guess(candidate)
            return
        self.last_factor = seconds / passes / self._guess(candidate)
        self.factor[candidate.method] = self.last_factor

    def passes(self, candidate: Candidate, seconds: float, n_to_come: int = 0) -> int:
        """Passes of a network that a time is enough for, but neither few nor more than useful.

        Parameters
        ----------
        n_to_come
            Networks after this one, which a time that is long is shared with.
        """
        if np.isinf(self.budget):
            return NetworkPlan.usual(self.n_words).passes
        affordable = NETWORK_SHARE * seconds / (self.safety * self.expected(candidate))
        if self.is_worth_two(shared := affordable / (n_to_come + 1)):
            affordable = shared
        return max(int(min(affordable, MOST_PASSES)), LEAST_PASSES)

    def is_worth_two(self, passes: float) -> bool:
        """Whether two networks of so many passes are better than one of twice as many."""
        return passes >= min(WORDS_EACH / self.n_words, MOST_PASSES)

    def seconds_of_all(self, plan: Sequence[Candidate]) -> float:
        """What reading and all candidates would take, networks with all their passes."""
        each = (self.expected(c) * (MOST_PASSES if c.method == "encoder" else 1) for c in plan)
        return SECONDS_TO_READ * self.n_words + sum(each)

    def _guess(self, candidate: Candidate) -> float:
        if candidate.method == "encoder":  # one pass
            return seconds_a_pass(self.n_words)
        if candidate.method == "crf":
            return 1e-4 * self.n_nodes
        passes = 2e-6 * self.n_nodes * (4 + candidate.states / 4)  # features, projection, tensors
        if candidate.method.startswith("pivot"):
            passes *= PIVOT_FACTOR
        if candidate.method == "pivot-em":
            n = METHODS[candidate.method].usual["iterations"]
            passes += n * self._iteration(candidate.states)
        if candidate.method == "em":
            stages = EMLPCFG(candidate.states).schedule()
            passes = sum(stage.iterations * self._iteration(stage.states) for stage in stages)
        return passes

    def _iteration(self, m: int) -> float:
        """Seconds of one EM iteration: products over nodes, and passes over the tensors."""
        states = np.minimum(self.limit, m)[self.rules].prod(axis=1)
        return float(6e-10 * (self.rule_count @ states) + 4e-9 * states.sum() + 2e-7 * self.n_nodes)


class Candidate(NamedTuple):
    """A grammar that may become a member.

    Attributes
    ----------
    method
        One of those of `sapwood train`, but neither `pcfg` nor `best`.
    states
        Hidden states of a label; without meaning for `crf`.
    binarise, horizontal
        How its trees are made binary; None for the treebank's own way.
    seed
        Added to that of the ensemble.
    """

    method: str
    states: int = 1
    binarise: str | None = None
    horizontal: int | None = None
    seed: int = 0

    @property
    def way(self) -> tuple[str | None, int | None]:
        """How its trees are made binary: those with the same way share their charts."""
        return self.binarise, self.horizontal

    @property
    def has_states(self) -> bool:
        """Whether its method has any hidden states."""
        return self.method not in METHODS or METHODS[self.method].has_states

    def __str__(self) -> str:
        parts = [f"{self.method} {self.states}" if self.has_states else self.method]
        parts += [self.binarise] if self.binarise else []
        parts += [f"h{self.horizontal}"] if self.horizontal is not None else []
        return " ".join(parts + ([f"seed {self.seed}"] if self.seed else []))


# Kinds before seeds, and other ways to make trees binary before more of the same; the order is that
# in which members were chosen most often on dev trees.
PLAN = (
    Candidate("spectral", 16),
    Candidate("em", 16),
    Candidate("crf"),
    Candidate("cluster", 16),
    Candidate("encoder"),
    Candidate("encoder", seed=1),
    Candidate("em", 16, "right"),
    Candidate("em", 16, None, 0, 1),
    Candidate("cluster", 16, "left"),
    Candidate("em", 8),
    Candidate("cluster", 16, None, 0),
    Candidate("spectral", 16, "right"),
    Candidate("cluster", 16, "right"),
    Candidate("em", 16, "left"),
    Candidate("pivot", 16),
    Candidate("crf", 1, "right"),
    Candidate("em", 24, "right", None, 2),
)


def estimator_of(c: Candidate, plain: PCFG | None = None, seed: int = 0, n_jobs: int = 1) -> Any:
    """The estimator that a candidate stands for.

    Parameters
    ----------
    plain
        The estimator of the plain grammar behind it; the candidate's way to make trees binary
        comes on top.
    seed
        The candidate's own is added to it.
    """
    kinds = {  # one grammar each, on top of a plain one
        name: method
        for name, method in METHODS.items()
        if method.has("plain") and not method.has_candidates
    }
    if c.method not in kinds:
        msg = f"{c.method!r} is no kind of candidate; there are: {', '.join(kinds)}"
        raise SapwoodError(msg)
    behind = PCFG(**(plain or PCFG()).get_params())
    ways = {"binarise": c.binarise, "horizontal": c.horizontal}
    behind.set_params(**{name: way for name, way in ways.items() if way is not None})
    values = {"n_states": c.states, "plain": behind, "seed": seed + c.seed, "n_jobs": n_jobs}
    return kinds[c.method].make(**kinds[c.method].pick(values))


@dataclass
class Trial:
    """What became of a candidate.

    Attributes
    ----------
    name
        The candidate in words.
    seconds
        Of training, those of all threads together; 0 for one that was skipped.
    f1, mix_f1
        On the dev trees that choose, alone, and of an equal mix with all trained before, which is
        neither weighed nor calibrated yet; None without dev trees.
    verdict
        `member`, `trained` (but not chosen), or `skipped` or `stopped` with the reason.
    note
        How it was trained otherwise than was planned; empty where it was not.
    """

    name: str
    seconds: float = 0.0
    f1: float | None = None
    mix_f1: float | None = None
    verdict: str = "trained"
    note: str = ""

    def as_record(self) -> dict[str, Any]:
        """What a model file says of it: nothing that the clock decides."""
        kept = asdict(self) | {"verdict": self.verdict.split(":")[0]}
        return {name: kept[name] for name in ("name", "f1", "mix_f1", "verdict")}


class EnsembleLPCFG(WithinBudget, OnPlainGrammar, TreebankEstimator):
    """A mix of latent grammars.

    Attributes
    ----------
    model_ : Ensemble
    info_ : Info
        With `trials`, one for every candidate; `grades` and `f1` of the final mix, by its own
        parser, on all dev trees or as many as there was time for, None without any; `budget`, the
        CPU seconds that it had, None for no limit; `for_all`, what all candidates would have taken,
        about. Its seconds are those of all threads together (on the clock where an engine works
        elsewhere); `warming up`, where there is a budget, is not part of it.

    Examples
    --------
    >>> import sapwood as sw
    >>> bank = sw.bundled_treebank("dev")
    >>> plan = [sw.Candidate("spectral", 4), sw.Candidate("em", 2)]
    >>> len(sw.EnsembleLPCFG(plan=plan).fit(bank).model_.members)
    2
    """

    uses_held: ClassVar[bool] = True
    plan: Sequence[Candidate] | None = parameter(
        None, ANYTHING, "The candidates; None for the plan that comes with Sapwood."
    )
    on_trial: Callable[[Trial], None] | None = parameter(
        None,
        ANYTHING,
        "Called with a `Trial` when a candidate's fate is known.",
        changes_model=False,
    )

    def fit(self, bank: TreebankLike, held: TreebankLike | None = None) -> Self:
        """Learn a mix from a treebank.

        Parameters
        ----------
        held
            Trees apart from the treebank, which choose members and weights; without any, the first
            six candidates, if the budget allows so many, become members of usual weights.
        """
        self._check_parameters()
        bank, dev = as_treebank(bank), dev_trees(held)
        plan = self._plan(bank)[: None if dev is not None else MEMBERS_UNSEEN]
        gold = cleaned(dev) if dev is not None else None
        self.info_, now = Info(extra={"trials": []}), self._now
        if isinstance(self.budget, float | int):
            with self._timed("warming up"), step("loading kernels"):
                self._warm_up(bank, plan, gold)
        began, prepared = now(), _Prepared(bank)
        data = prepared.by(self._estimator(plan[0]), plan[0].way)
        spent = self.spent + now() - began
        clock = Clock(self.budget, data, plan[0], has_dev=gold is not None, spent=spent, now=now)
        mix = _Mix(gold, self._engine().jobs_here, clock)
        # in seconds as they are expected
        with step("", total=min(clock.left, clock.seconds_of_all(plan))) as advance:
            for place, candidate in enumerate(plan):
                to_come = [later.method for later in plan[place + 1 :]].count("encoder")
                trial = self._tried(candidate, prepared, mix, to_come, advance)
                prepared.keep({later.way for later in plan[place + 1 :]})
                self.info_.trials.append(trial)
                if self.on_trial:
                    self.on_trial(trial)
            advance(advance.event.done, what="choosing members", size=0.0)
            with self._timed("choosing"):
                model = self._chosen(mix)
        with self._timed("grading"):
            self.info_.grades = mix.grade(model)
        self.info_.f1 = self.info_.grades.f1 if self.info_.grades else None
        self.info_.seconds = {k: round(v, 3) for k, v in self.info_.seconds.items()}
        self.info_.budget = None if np.isinf(clock.budget) else clock.budget
        self.info_.for_all = round(clock.seconds_of_all(plan), 1)
        self.model_ = replace(model, record=self._record(bank))
        return self

    @property
    def _now(self) -> Callable[[], float]:
        """CPU seconds of this process; those on the clock where others do the work."""
        return process_time if isinstance(self._engine(), Threads) else perf_counter

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began, seconds = self._now(), self.info_.seconds
        try:
            yield
        finally:
            seconds[phase] = seconds.get(phase, 0.0) + self._now() - began

    def _plan(self, bank: Treebank) -> list[Candidate]:
        """The candidates without those that would be the same, for this treebank, as another."""
        own, plain = bank.inventory.transform, self.plain or PCFG()
        binarise = own.binarise if plain.binarise is None else plain.binarise
        horizontal = own.horizontal if plain.horizontal is None else plain.horizontal
        plan = [
            c._replace(
                states=min(c.states, self.n_states) if c.has_states else 1,
                binarise=None if c.binarise == binarise else c.binarise,
                horizontal=None if c.horizontal == horizontal else c.horizontal,
            )
            for c in (PLAN if self.plan is None else self.plan)
        ]
        if not plan:
            msg = "the plan of an ensemble has no candidate"
            raise SapwoodError(msg, hint="give some, or leave it out")
        for candidate in plan:
            estimator_of(candidate)  # an unknown kind is named before the first is trained
        return list(dict.fromkeys(plan))

    def _warm_up(
        self, bank: Treebank, plan: Sequence[Candidate], dev: Sequence[Tree] | None
    ) -> None:
        """Compile or load the kernels on a few trees, so that no budget pays for it."""
        few = _Prepared(bank[:N_WARM])
        clock = Clock(None, few.by(self._estimator(plan[0]), plan[0].way), plan[0])
        mix = _Mix(dev[:N_WARM] if dev is not None else None, self._engine().jobs_here, clock)
        for method in dict.fromkeys(candidate.method for candidate in plan):
            mix.add(self._trained(Candidate(method, 2), few), Trial(method))
        mix.grade(Ensemble.of([mix.members[place] for place in mix.choose()[0]]))

    def _tried(
        self,
        candidate: Candidate,
        prepared: _Prepared,
        mix: _Mix,
        n_networks: int,
        advance: Advance,
    ) -> Trial:
        """Train a candidate if time is left for it and for the networks that come after it."""
        trial, clock, passes = Trial(str(candidate)), mix.clock, 1
        left = max(clock.left - mix.seconds_ahead(candidate), 0.0)
        if candidate.method == "encoder":
            passes = clock.passes(candidate, left, n_networks)
            if mix.has_network and not clock.is_worth_two(passes):
                trial.verdict = f"skipped: no time for two networks that read {WORDS_EACH:,} words"
                return trial
        expected = passes * clock.expected(candidate) + mix.seconds_to_add(candidate)
        expected *= clock.safety
        if mix.members and expected > left:
            trial.verdict = f"skipped: about {expected:.0f} s, {left:.0f} s left"
            return trial
        if mix.members and (reason := self._no_room(candidate, prepared)):
            trial.verdict = f"skipped: {reason}"
            return trial
        done, size = advance.event.done, passes * clock.expected(candidate)
        advance(done, what=self._in_words(candidate, n_networks), size=size)
        began = self._now()
        member: Member | None = None
        with self._timed("training"):
            try:
                watch = mix.watch(candidate) if mix.members else None
                member = self._trained(candidate, prepared, watch, passes)
            except _OutOfTimeError:
                trial.verdict = f"stopped: {expected:.0f} s were expected, more are not left"
        trial.seconds = self._now() - began
        if candidate.method == "encoder" and member is not None:
            planned, passes = passes, int(member.record["iterations"])
            if passes < planned:
                trial.note = f"{passes} of {planned} passes were in time"
        clock.learn(candidate, trial.seconds, passes)
        advance(done + size, size=0.0)
        if member is not None:
            with self._timed("grading"):
                mix.add(member, trial)
            mix.ways.add(candidate.way)
        return trial

    def _no_room(self, candidate: Candidate, prepared: _Prepared) -> str:
        """Why there is too little memory for a candidate; empty where there is enough."""
        estimator = self._estimator(candidate)
        try:
            estimator.require_memory(prepared.by(estimator, candidate.way))
        except SapwoodError as error:
            return str(error)
        return ""

    def _in_words(self, candidate: Candidate, n_networks: int) -> str:
        """The name of a candidate in progress lines, such as "network 1 of 2"."""
        if candidate.method != "encoder":
            return str(candidate)
        before = sum(trial.name.startswith("encoder") for trial in self.info_.trials)
        return f"network {before + 1} of {before + 1 + n_networks}"

    def _trained(
        self,
        candidate: Candidate,
        prepared: _Prepared,
        on_iteration: Callable[..., int | None] | None = None,
        passes: int = 1,
    ) -> Member:
        estimator = self._estimator(candidate)
        if candidate.method == "encoder":
            estimator.set_params(passes=passes)
        if on_iteration and "on_iteration" in estimator.get_params():
            estimator.set_params(on_iteration=on_iteration)
        model: Member = estimator.fit(prepared.by(estimator, candidate.way)).model_
        return model

    def _estimator(self, candidate: Candidate) -> Any:
        estimator = estimator_of(candidate, self.plain, self.seed, self.n_jobs)
        return estimator.set_params(engine=self._engine())

    def _chosen(self, mix: _Mix) -> Ensemble:
        """The mix of the chosen members; their trials are told."""
        places, weights = mix.choose()
        trained = [trial for trial in self.info_.trials if trial.verdict == "trained"]
        for place in places:
            trained[place].verdict = "member"
        members = tuple(mix.members[place] for place in places)
        return Ensemble(members, weights, sharpness=mix.sharpness(places, weights))

    def _record(self, bank: Treebank) -> dict[str, Any]:
        grades = self.info_.grades
        return {
            "method": "best", "budget": self.info_.budget, "trees": bank.n_trees,
            "tokens": bank.n_tokens, "seed": self.seed,
            "dev_trees": grades.n_trees if grades else 0, "dev_f1": self.info_.f1,
            "trials": [trial.as_record() for trial in self.info_.trials],
        }  # fmt: skip


class _OutOfTimeError(Exception):
    """A candidate takes longer than there is time."""


class _Prepared:
    """A treebank made ready for each way to make trees binary: once, for all candidates of it."""

    def __init__(self, bank: Treebank) -> None:
        self.bank = bank
        self.ready: dict[Hashable, TrainingData] = {}

    def by(self, estimator: Any, way: Hashable) -> TrainingData:
        """What an estimator learns from."""
        if way not in self.ready:
            self.ready[way] = estimator.plain.prepare(self.bank, estimator.engine)
        return self.ready[way]

    def keep(self, ways: Set[Hashable]) -> None:
        """Let go of what no later candidate needs."""
        self.ready = {way: data for way, data in self.ready.items() if way in ways}


class _Mix:
    """All grammars trained so far, how good they are together, and what more of them would cost."""

    def __init__(self, dev: Sequence[Tree] | None, jobs: int, clock: Clock) -> None:
        self.dev = dev
        self.jobs = jobs
        self.clock = clock
        self.members: list[Member] = []
        self.ways: set[tuple[str | None, int | None]] = set()  # in which their trees are binary
        self.panel: Panel | None = None

    @property
    def has_network(self) -> bool:
        """Whether a network is among them."""
        return not all(member.can.rules for member in self.members)

    def add(self, member: Member, trial: Trial) -> None:
        """Grade a grammar on the dev trees, if there are any."""
        member = member.rounded()  # what is graded is then what will be loaded
        if self.dev is None:
            self.members.append(member)
            return
        if self.panel is None:
            self.panel = Panel(self.dev[: self._affordable(member)], member, self.jobs)
        panel, n = self.panel, len(self.members)
        panel.add(member)
        trial.f1 = round(panel.f1([0.0] * n + [1.0]), 3)
        trial.mix_f1 = round(panel.f1([1.0] * (n + 1)), 3)
        record = dict(member.record) | {"dev_f1": trial.f1}
        self.members.append(replace(cast("Any", member), record=record))

    def _affordable(self, member: Member) -> int:
        """How many dev sentences choose: fewer where their charts would take a good part of it."""
        if self.dev is None or self.clock.is_counted or np.isinf(self.clock.budget):
            return MOST_DEV
        began = self.clock.now()
        probe = self.dev[:N_PROBE]
        pruned_by(member, probe, self.jobs)
        seconds_each = (self.clock.now() - began) / len(probe)
        return int(np.clip(CHART_SHARE * self.clock.budget / seconds_each, LEAST_DEV, MOST_DEV))

    def seconds_to_add(self, candidate: Candidate) -> float:
        """What grading a candidate will take, about; of a counted budget a share is kept for it."""
        if self.panel is None or self.clock.is_counted:
            return 0.0
        return self._seconds_of(candidate) + 2 * self.panel.f1_seconds

    def _seconds_of(self, candidate: Candidate) -> float:
        if self.panel is None:
            return 0.0
        return self.panel.seconds_of_one_more(has_charts=candidate.way in self.ways)

    def seconds_ahead(self, candidate: Candidate) -> float:
        """What is to come, with one more candidate: choosing, the final score, and writing."""
        if self.panel is None or self.dev is None or self.clock.is_counted:
            return 0.0
        everyone, n = range(len(self.members)), len(self.members) + 1
        n_mixes = sum(n - size for size in range(1, min(n, MOST_MEMBERS)))
        score = self._seconds_to_score(everyone)
        if n <= MOST_MEMBERS:
            score += SAFETY * self._seconds_of(candidate) * len(self.dev) / len(self.panel.gold)
        score = min(score, SCORE_SHARE * self.clock.budget)
        write = self._seconds_to_write(everyone) * n / (n - 1)
        return n_mixes * self.panel.f1_seconds + score + write

    def _seconds_to_score(self, places: Sequence[int]) -> float:
        """What parsing the dev trees with some members will take; not more than is kept for it."""
        if self.panel is None or self.dev is None:
            return 0.0
        scale = SAFETY * len(self.dev) / len(self.panel.gold)
        seconds = scale * (self.panel.seconds_of(places) + self.panel.f1_seconds)
        return min(seconds, SCORE_SHARE * self.clock.budget)

    def _seconds_to_write(self, places: Sequence[int]) -> float:
        """What writing some members will take."""
        return SECONDS_A_NUMBER * sum(self.members[k].n_weights for k in places)

    def watch(self, candidate: Candidate) -> Callable[..., int | None] | None:
        """A function that stops a training when one more iteration leaves too little time.

        A network is not stopped, but told how many passes there is time for.
        """
        if self.clock.is_counted or np.isinf(self.clock.budget):
            return None
        if candidate.method == "encoder":
            return self._passes_in_time(candidate)
        last: float | None = None

        def check(*_: object) -> None:
            nonlocal last
            now = self.clock.now()
            iteration, last = (0.0 if last is None else now - last), now
            need = iteration + self.seconds_to_add(candidate) + self.seconds_ahead(candidate)
            if self.clock.left < need:
                raise _OutOfTimeError

        return check

    def _passes_in_time(self, candidate: Candidate) -> Callable[..., int]:
        began = self.clock.now()

        def in_time(done: int, *_: object) -> int:
            seconds_a_pass = max((self.clock.now() - began) / done, 1e-9)
            ahead = self.seconds_to_add(candidate) + self.seconds_ahead(candidate)
            passes = done + int(max(self.clock.left - ahead, 0.0) / seconds_a_pass)
            if passes < LEAST_PASSES and self.dev is None:  # nobody would see how bad it is
                raise _OutOfTimeError
            return passes

        return in_time

    def choose(self) -> tuple[list[int], FloatArray]:
        """Members as places, and their weights; all of them, of equal weight, without dev."""
        if self.panel is None:
            everyone = list(range(len(self.members)))
            return everyone, self._usual(everyone)
        chosen = self._chosen(self.panel)
        return chosen, self._tuned(self.panel, chosen)

    def sharpness(self, chosen: list[int], weights: FloatArray) -> float:
        """The sharpness of a mix."""
        if self.panel is None:
            return SHARPNESS if len(chosen) > 1 else 1.0
        return self.panel.likely_sharpness(chosen, weights)

    def grade(self, model: Ensemble) -> Grades | None:
        """What its parser makes of the dev trees, or of as many as there is time for."""
        if self.panel is None or self.dev is None:
            return None
        places = [self.members.index(member) for member in model.members]
        seconds_each = self.panel.seconds_of(places) / len(self.panel.gold)
        left = self.clock.left - self._seconds_to_write(places)
        n_in_time = max(left, 0.0) / max(seconds_each, 1e-9)
        is_enough = self.clock.is_counted or n_in_time >= len(self.dev)
        n = len(self.dev) if is_enough else int(n_in_time)
        return grade(model, self.dev[: max(n, len(self.panel.gold))], self.jobs)

    def _chosen(self, panel: Panel) -> list[int]:
        """The best of the mixes that grow by whichever grammar raises F1 most.

        The first grammar leads, since trees are made of its symbols. Mixes grow on when F1 falls:
        the next but one may raise it again.
        """
        path, rest = [0], list(range(1, len(self.members)))
        scores = [panel.f1_of(path, self._usual(path))]
        while rest and len(path) < MOST_MEMBERS and self._has_time(panel, path, rest):
            found = [panel.f1_of([*path, k], self._usual([*path, k])) for k in rest]
            path.append(rest.pop(int(np.argmax(found))))
            scores.append(max(found))
        best = len(scores) - int(np.argmax(scores[::-1]))  # of equal ones the largest
        return path[:best]

    def _has_time(self, panel: Panel, path: list[int], rest: list[int]) -> bool:
        """Whether the mix can grow once more, and be scored after that."""
        if self.clock.is_counted:
            return True
        grown = [*path, rest[0]]
        need = self._seconds_to_score(grown) + self._seconds_to_write(grown)
        return self.clock.left > need + len(rest) * panel.f1_seconds

    def _tuned(self, panel: Panel, chosen: list[int]) -> FloatArray:
        """Usual weights, unless those under which dev brackets are most probable are better."""
        usual, tuned = self._usual(chosen), panel.likely_weights(chosen)
        gain = panel.f1_of(chosen, tuned) - panel.f1_of(chosen, usual)
        return tuned if gain > TUNED_GAIN else usual

    def _usual(self, places: Sequence[int]) -> FloatArray:
        """Equal weights of grammars, and of networks beside them."""
        networks = np.array([not self.members[k].can.rules for k in places])
        n = int(networks.sum())
        if n in (0, len(places)):
            return np.full(len(places), 1.0 / len(places))
        share = NETWORK_WEIGHTS[min(n, len(NETWORK_WEIGHTS)) - 1]
        return np.where(networks, share / n, (1 - share) / (len(places) - n))
