"""`EnsembleLPCFG`: a mix of grammars of different kinds, trained within a time budget.

Grammars of different kinds, and grammars with different binarisations, make different errors. The
mean of their posteriors is usually better than any single grammar. Candidates are trained in the
order of their typical gain. With dev trees, members are then selected greedily by F1, and the
ensemble weights are tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, ClassVar, Self, cast

import numpy as np

from sapwood.constituency.data.treebank import Treebank, TreebankLike, as_treebank
from sapwood.constituency.grammar.ensemble import Ensemble
from sapwood.constituency.grammar.member import Member
from sapwood.constituency.learn.dev_scores import (
    DevScores,
    MixScorer,
    clean_dev_trees,
    pruned_charts,
    score_on_dev,
)
from sapwood.constituency.learn.encoder import SpanEncoder
from sapwood.constituency.learn.ensemble_budget import (
    PLAN,
    Binarisation,
    Budget,
    Candidate,
    EnsembleSettings,
    make_budget,
)
from sapwood.constituency.learn.pcfg import PCFG, OnPlainGrammar, dev_trees
from sapwood.constituency.learn.registry import METHODS
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.arrays import FloatArray
from sapwood.core.errors import SapwoodError
from sapwood.core.learner import ANYTHING, BudgetParameters, Info, former_callback, parameter
from sapwood.core.progress import Advance, Event, Listener, also_listening, step, tell
from sapwood.corpora.tree import Tree
from sapwood.execute import Threads
from sapwood.networks.pretrained.given import TrainingVectors
from sapwood.networks.pretrained.source import WordSource, as_source
from sapwood.networks.pretrained.trial import PASSES, TrialSplit, is_helpful


def estimator_of(c: Candidate, plain: PCFG | None = None, seed: int = 0, n_jobs: int = 1) -> Any:
    """Make the estimator of a candidate.

    Parameters
    ----------
    plain
        The estimator of the plain grammar; the candidate's binarisation replaces its own.
    seed
        The seed of the ensemble; the candidate's own seed is added.
    """
    kinds = {  # methods that train one model on top of a plain grammar
        name: method
        for name, method in METHODS.items()
        if method.has("plain") and not method.has_candidates
    }
    if c.method not in kinds:
        raise SapwoodError(f"{c.method!r} is not a kind of candidate: {', '.join(kinds)}")
    behind = PCFG(**(plain or PCFG()).get_params())
    own = {"binarise": c.binarise, "horizontal": c.horizontal}
    behind.set_params(**{name: value for name, value in own.items() if value is not None})
    values = {"n_states": c.states, "plain": behind, "seed": seed + c.seed, "n_jobs": n_jobs}
    return kinds[c.method].make(**kinds[c.method].pick(values))


@dataclass
class Trial:
    """The outcome of training one candidate.

    Attributes
    ----------
    name
        Description of the candidate.
    seconds
        CPU seconds of training, over all threads; 0 for a skipped candidate.
    f1, mix_f1
        F1 on the dev trees used for selection: of the candidate alone, and of an equal mix with all
        members trained earlier, without tuned weights or calibration. None without dev trees.
    verdict
        `member`, `trained` (but not selected), or `skipped` or `stopped` with the reason.
    note
        How the training differed from its plan; empty if it did not.
    """

    name: str
    seconds: float = 0.0
    f1: float | None = None
    mix_f1: float | None = None
    verdict: str = "trained"
    note: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return the entries for the model file, without any that depend on the clock."""
        kept = asdict(self) | {"verdict": self.verdict.split(":")[0]}
        return {name: kept[name] for name in ("name", "f1", "mix_f1", "verdict")}


class EnsembleLPCFG(BudgetParameters, OnPlainGrammar):
    """A mix of latent grammars, trained within a time budget.

    Attributes
    ----------
    model_ : Ensemble
    info_ : Info
        `trials` has one entry for every candidate. `grades` and `f1` are the scores of the final
        mix on the dev trees, or on as many as the time allowed; None without dev trees. `budget` is
        the budget in CPU seconds, None for no limit. `for_all` estimates the CPU seconds of all
        candidates. Seconds are summed over all threads (wall time if an engine runs in other
        processes). With a budget, `warming up` is not counted against it.

    Examples
    --------
    >>> import sapwood as sw
    >>> bank = sw.bundled_treebank("dev")
    >>> plan = [sw.Candidate("spectral", 4), sw.Candidate("em", 2)]
    >>> len(sw.EnsembleLPCFG(plan=plan).fit(bank).model_.members)
    2
    """

    uses_held: ClassVar[bool] = True
    settings: ClassVar[EnsembleSettings] = EnsembleSettings()
    encoder: WordSource | str | Path | None = parameter(
        None,
        ANYTHING,
        "A pretrained encoder, whose word vectors all networks read beside their own: its folder, "
        "or a `PretrainedEncoder`. Or static word vectors: the file, or `StaticVectors`. It is "
        "left out if it does not help on held-out trees of the treebank.",
    )
    plan: Sequence[Candidate] | None = parameter(
        None, ANYTHING, "The candidates; None for the plan that comes with Sapwood."
    )
    on_trial: Callable[..., Any] | None = former_callback("on_trial")

    def fit(self, bank: TreebankLike, held: TreebankLike | None = None) -> Self:
        """Learn a mix from a treebank.

        Parameters
        ----------
        held
            Held-out trees, which select members and tune their weights. Without them, the first six
            candidates, or fewer if the budget is small, become members with default weights.
        """
        bank, dev = as_treebank(bank), dev_trees(held)
        plan = self._plan(bank)[: None if dev is not None else self.settings.members_unseen]
        gold = clean_dev_trees(dev) if dev is not None else None
        self.info_, now = Info(extra={"trials": []}), self._now
        self._source = as_source(self.encoder)
        if isinstance(self.budget, float | int):
            with self._timed("warming up"), step("loading kernels"):
                self._warm_up(bank, plan, gold)
        began, prepared = now(), _PreparedTreebank(bank)
        if self._source is not None and any(one.method == "encoder" for one in plan):
            self._source = self._helpful_source(bank, self._source)
        data = prepared.data_for(self._estimator(plan[0]), plan[0].binarisation)
        budget = make_budget(
            self.budget, data, plan[0], settings=self.settings, has_dev=gold is not None,
            spent=self.spent + now() - began, now=now,
        )  # fmt: skip
        members = TrainedMembers(gold, self._engine().jobs_here, budget)
        # progress is measured in expected seconds
        with step("", total=min(budget.left, budget.seconds_of_all(plan))) as advance:
            for done, candidate in enumerate(plan, 1):
                n_networks = [later.method for later in plan[done:]].count("encoder")
                trial = self._try(candidate, prepared, members, n_networks, advance)
                prepared.keep({later.binarisation for later in plan[done:]})
                self.info_.extra["trials"].append(trial)
                tell(trial=trial)
            advance(advance.event.done, what="choosing members", size=0.0)
            with self._timed("choosing"):
                model = self._mix(members)
        with self._timed("grading"):
            grades = members.score(model)
        self.info_.seconds = {k: round(v, 3) for k, v in self.info_.seconds.items()}
        self.info_.extra |= {
            "grades": grades, "f1": grades.f1 if grades else None,
            "budget": None if np.isinf(budget.total) else budget.total,
            "for_all": round(budget.seconds_of_all(plan), 1),
        }  # fmt: skip
        self.model_ = replace(model, record=self._record(bank))
        return self

    @property
    def _now(self) -> Callable[[], float]:
        """The clock: CPU time of this process, or wall time if an engine runs elsewhere."""
        return process_time if isinstance(self._engine(), Threads) else perf_counter

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began, seconds = self._now(), self.info_.seconds
        try:
            yield
        finally:
            seconds[phase] = seconds.get(phase, 0.0) + self._now() - began

    def _helpful_source(self, bank: Treebank, source: WordSource) -> WordSource | None:
        """Compute the pretrained vectors; returns their source, None if it does not help."""
        sentences = [bank.words(k) for k in range(bank.n_trees)]
        split = TrialSplit.of([len(words) for words in sentences])
        if split is not None:
            with self._timed("trial of the encoder"):
                if not self._is_helpful(bank, source, split):
                    return None
        with self._timed("vectors"):
            TrainingVectors.of(source, sentences, jobs=self._engine().jobs_here)
        return source

    def _is_helpful(self, bank: Treebank, source: WordSource, split: TrialSplit) -> bool:
        """Whether the encoder raises the F1 of a network on held-out trees; records the result."""
        trees = [bank[k] for k in split.train.tolist()]
        train = Treebank.from_trees(trees, bank.inventory.transform)
        held, scores = clean_dev_trees([bank[k] for k in split.held.tolist()]), []
        jobs = self._engine().jobs_here
        for encoder in (source, None):
            learner = SpanEncoder(passes=PASSES, seed=self.seed, encoder=encoder, n_jobs=jobs)
            member = learner.fit(train).model_.rounded()
            scorer = MixScorer(held, member, jobs)
            scorer.add(member)
            scores.append(scorer.f1([1.0]))
        is_taken = is_helpful(*scores)
        self.info_.extra["encoder"] = {
            "name": source.record.name, "f1_with": round(scores[0], 3),
            "f1_without": round(scores[1], 3), "is_taken": is_taken,
        }  # fmt: skip
        tell(encoder_trial=self.info_.extra["encoder"])
        return is_taken

    def _plan(self, bank: Treebank) -> list[Candidate]:
        """Return the plan without candidates that are equal on this treebank."""
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
            estimator_of(candidate)  # an unknown method fails before any training
        return list(dict.fromkeys(plan))

    def _warm_up(
        self, bank: Treebank, plan: Sequence[Candidate], dev: Sequence[Tree] | None
    ) -> None:
        """Compile or load the kernels on a few trees, before the budget starts."""
        n = self.settings.n_warm
        few = _PreparedTreebank(bank[:n])
        data = few.data_for(self._estimator(plan[0]), plan[0].binarisation)
        budget = make_budget(None, data, plan[0], settings=self.settings)
        gold = dev[:n] if dev is not None else None
        members = TrainedMembers(gold, self._engine().jobs_here, budget)
        for method in dict.fromkeys(candidate.method for candidate in plan):
            members.add(self._train(Candidate(method, 2), few), Trial(method))
        members.score(Ensemble.of([members.members[k] for k in members.choose()[0]]))

    def _try(
        self,
        candidate: Candidate,
        prepared: _PreparedTreebank,
        members: TrainedMembers,
        n_networks: int,
        advance: Advance,
    ) -> Trial:
        """Train a candidate if there is time for it and for the later networks of the plan."""
        trial, budget, passes = Trial(str(candidate)), members.budget, 1
        is_network = candidate.method == "encoder"
        left = max(budget.left - members.seconds_ahead(candidate), 0.0)
        if is_network:
            passes = budget.passes(candidate, left, n_networks)
            if members.has_network and not budget.is_worth_two(passes):
                words = self.settings.network_words
                trial.verdict = f"skipped: no time for two networks that read {words:,} words"
                return trial
        size = passes * budget.expected(candidate)
        expected = budget.safety * (size + members.seconds_to_add(candidate))
        if members.members and expected > left:
            trial.verdict = f"skipped: about {expected:.0f} s, {left:.0f} s left"
            return trial
        if members.members and (reason := self._no_room(candidate, prepared)):
            trial.verdict = f"skipped: {reason}"
            return trial
        done = advance.event.done
        advance(done, what=self._in_words(candidate, n_networks), size=size)
        began = self._now()
        member: Member | None = None
        with self._timed("training"):
            try:
                watch = members.watch(candidate) if members.members else ()
                with also_listening(*watch):
                    member = self._train(candidate, prepared, passes)
            except _OutOfTimeError:
                trial.verdict = f"stopped: {expected:.0f} s were expected, more are not left"
        trial.seconds = self._now() - began
        if is_network and member is not None:
            planned, passes = passes, int(member.record["iterations"])
            if passes < planned:
                trial.note = f"{passes} of {planned} passes were in time"
        budget.spend(candidate, trial.seconds, passes)
        advance(done + size, size=0.0)
        if member is not None:
            with self._timed("grading"):
                members.add(member, trial)
            members.binarisations.add(candidate.binarisation)
        return trial

    def _no_room(self, candidate: Candidate, prepared: _PreparedTreebank) -> str:
        """Return why a candidate does not fit into memory; empty if it fits."""
        estimator = self._estimator(candidate)
        try:
            estimator.require_memory(prepared.data_for(estimator, candidate.binarisation))
        except SapwoodError as error:
            return str(error)
        return ""

    def _in_words(self, candidate: Candidate, n_networks: int) -> str:
        """Return the name of a candidate in progress lines, such as "network 1 of 2"."""
        if candidate.method != "encoder":
            return str(candidate)
        before = sum(trial.name.startswith("encoder") for trial in self.info_.extra["trials"])
        return f"network {before + 1} of {before + 1 + n_networks}"

    def _train(self, candidate: Candidate, prepared: _PreparedTreebank, passes: int = 1) -> Member:
        estimator = self._estimator(candidate)
        if candidate.method == "encoder":
            estimator.set_params(passes=passes)
        model: Member = estimator.fit(prepared.data_for(estimator, candidate.binarisation)).model_
        return model

    def _estimator(self, candidate: Candidate) -> Any:
        estimator = estimator_of(candidate, self.plain, self.seed, self.n_jobs)
        if candidate.method == "encoder":
            estimator.set_params(encoder=self._source)
        return estimator.set_params(engine=self._engine())

    def _mix(self, members: TrainedMembers) -> Ensemble:
        """Return the mix of the selected members, and record the selection in their trials."""
        chosen, weights = members.choose()
        trained = [trial for trial in self.info_.extra["trials"] if trial.verdict == "trained"]
        for k in chosen:
            trained[k].verdict = "member"
        mixed = tuple(members.members[k] for k in chosen)
        return Ensemble(mixed, weights, sharpness=members.sharpness(chosen, weights))

    def _record(self, bank: Treebank) -> dict[str, Any]:
        grades = self.info_.extra["grades"]
        return {
            "method": "best",
            "budget": self.info_.extra["budget"],
            "trees": bank.n_trees,
            "tokens": bank.n_tokens,
            "seed": self.seed,
            "dev_trees": grades.n_trees if grades else 0,
            "dev_f1": self.info_.extra["f1"],
            "trials": [trial.as_record() for trial in self.info_.extra["trials"]],
        } | ({} if self._source is None else {"pretrained": self._source.record.description})


class _OutOfTimeError(Exception):
    """Training a candidate takes longer than the remaining time."""


class _PreparedTreebank:
    """A treebank with its counts for each binarisation, computed once for all candidates."""

    def __init__(self, bank: Treebank) -> None:
        self.bank = bank
        self.ready: dict[Binarisation, TrainingData] = {}

    def data_for(self, estimator: Any, binarisation: Binarisation) -> TrainingData:
        """Return the training data of an estimator."""
        if binarisation not in self.ready:
            self.ready[binarisation] = estimator.plain.prepare(self.bank, estimator.engine)
        return self.ready[binarisation]

    def keep(self, binarisations: Set[Binarisation]) -> None:
        """Drop the data of all other binarisations."""
        self.ready = {key: data for key, data in self.ready.items() if key in binarisations}


class TrainedMembers:
    """The members trained so far, their scores on dev trees, and the cost of further members."""

    def __init__(self, dev: Sequence[Tree] | None, jobs: int, budget: Budget) -> None:
        self.dev, self.jobs, self.budget = dev, jobs, budget
        self.settings = budget.settings
        self.members: list[Member] = []
        self.binarisations: set[Binarisation] = set()
        self.scorer: MixScorer | None = None

    @property
    def has_network(self) -> bool:
        """Whether a network is among the members."""
        return not all(member.has_rules for member in self.members)

    def add(self, member: Member, trial: Trial) -> None:
        """Add a member, scored on the dev trees if there are any."""
        member = member.rounded()  # the scored model equals the saved model
        if self.dev is None:
            self.members.append(member)
            return
        if self.scorer is None:
            self.scorer = MixScorer(self.dev[: self._n_affordable(member)], member, self.jobs)
        scorer, n = self.scorer, len(self.members)
        scorer.add(member)
        trial.f1 = round(scorer.f1([0.0] * n + [1.0]), 3)
        trial.mix_f1 = round(scorer.f1([1.0] * (n + 1)), 3)
        record = dict(member.record) | {"dev_f1": trial.f1}
        self.members.append(replace(cast("Any", member), record=record))

    def _n_affordable(self, member: Member) -> int:
        """Number of dev sentences used for selection, fewer if charts are slow for the budget."""
        budget, settings = self.budget, self.settings
        if self.dev is None or not budget.is_measured:
            return settings.most_dev
        began = budget.now()
        probe = self.dev[: settings.n_probe]
        pruned_charts(member, probe, self.jobs)
        seconds_each = (budget.now() - began) / len(probe)
        n = settings.chart_fraction * budget.total / seconds_each
        return int(np.clip(n, settings.least_dev, settings.most_dev))

    def seconds_to_add(self, candidate: Candidate) -> float:
        """Expected seconds to score a candidate; 0 for a counted budget, which reserves them."""
        if self.scorer is None or not self.budget.is_measured:
            return 0.0
        return self._seconds_of(candidate) + 2 * self.scorer.f1_seconds

    def _seconds_of(self, candidate: Candidate) -> float:
        if self.scorer is None:
            return 0.0
        has_charts = candidate.binarisation in self.binarisations
        return self.scorer.seconds_of_one_more(has_charts=has_charts)

    def seconds_ahead(self, candidate: Candidate) -> float:
        """Expected seconds of selection, final scoring and saving, with one more candidate."""
        if self.scorer is None or self.dev is None or not self.budget.is_measured:
            return 0.0
        everyone, n = range(len(self.members)), len(self.members) + 1
        most = self.settings.most_members
        n_mixes = sum(n - size for size in range(1, min(n, most)))
        score = self._seconds_to_score(everyone)
        if n <= most:
            share = len(self.dev) / len(self.scorer.gold)
            score += self.settings.safety * self._seconds_of(candidate) * share
        score = min(score, self.settings.score_fraction * self.budget.total)
        write = self._seconds_to_write(everyone) * n / (n - 1)
        return n_mixes * self.scorer.f1_seconds + score + write

    def _seconds_to_score(self, members: Sequence[int]) -> float:
        """Expected seconds of the final scoring with some members, up to its maximum."""
        if self.scorer is None or self.dev is None:
            return 0.0
        scale = self.settings.safety * len(self.dev) / len(self.scorer.gold)
        seconds = scale * (self.scorer.seconds_of(members) + self.scorer.f1_seconds)
        return min(seconds, self.settings.score_fraction * self.budget.total)

    def _seconds_to_write(self, members: Sequence[int]) -> float:
        """Expected seconds to write some members to the model file."""
        return self.settings.writing_seconds * sum(self.members[k].n_weights for k in members)

    def watch(self, candidate: Candidate) -> Iterator[Listener]:
        """Make the listener that stops a training if one more iteration would take too long.

        The training of a network is not stopped. Instead, the listener returns the number of passes
        for which there is time. A budget that is not measured has no listener.
        """
        budget, is_network = self.budget, candidate.method == "encoder"
        if not budget.is_measured:
            return
        began = budget.now()
        last: float | None = None

        def check(event: Event) -> int | None:
            nonlocal last
            if "log_likelihood" not in event.facts:
                return None
            now = budget.now()
            ahead = self.seconds_to_add(candidate) + self.seconds_ahead(candidate)
            if is_network:
                done = int(event.facts["iteration"])
                seconds_a_pass = max((now - began) / done, 1e-9)
                passes = done + int(max(budget.left - ahead, 0.0) / seconds_a_pass)
                # without dev trees, a bad network of few passes would go unnoticed
                if passes < self.settings.least_passes and self.dev is None:
                    raise _OutOfTimeError
                return passes
            iteration, last = 0.0 if last is None else now - last, now
            if budget.left < iteration + ahead:
                raise _OutOfTimeError
            return None

        yield check

    def choose(self) -> tuple[list[int], FloatArray]:
        """Return the indices and weights of the selected members; all members without dev trees."""
        if self.scorer is None:
            everyone = list(range(len(self.members)))
            return everyone, self._default_weights(everyone)
        chosen = self._grow(self.scorer)
        return chosen, self._tune(self.scorer, chosen)

    def sharpness(self, chosen: list[int], weights: FloatArray) -> float:
        """Sharpness of a mix, calibrated on dev trees; the default without them."""
        if self.scorer is None:
            return self.settings.default_sharpness if len(chosen) > 1 else 1.0
        return self.scorer.likely_sharpness(chosen, weights)

    def score(self, model: Ensemble) -> DevScores | None:
        """Score the final mix on as many dev trees as the time allows; None without any."""
        if self.scorer is None or self.dev is None:
            return None
        chosen = [self.members.index(member) for member in model.members]
        seconds_each = self.scorer.seconds_of(chosen) / len(self.scorer.gold)
        left = self.budget.left - self._seconds_to_write(chosen)
        n_in_time = max(left, 0.0) / max(seconds_each, 1e-9)
        is_enough = not self.budget.is_measured or n_in_time >= len(self.dev)
        n = len(self.dev) if is_enough else int(n_in_time)
        return score_on_dev(model, self.dev[: max(n, len(self.scorer.gold))], self.jobs)

    def _grow(self, scorer: MixScorer) -> list[int]:
        """Return the members of the best mix found by greedy selection.

        The first member is always in the mix, since output trees use its symbols. Selection
        continues when F1 falls, since a later member may raise F1 again.
        """
        path, rest = [0], list(range(1, len(self.members)))
        scores = [scorer.f1_of(path, self._default_weights(path))]
        most = self.settings.most_members
        while rest and len(path) < most and self._has_time(scorer, path, rest):
            found = [scorer.f1_of([*path, k], self._default_weights([*path, k])) for k in rest]
            path.append(rest.pop(int(np.argmax(found))))
            scores.append(max(found))
        best = len(scores) - int(np.argmax(scores[::-1]))  # the largest of several best mixes
        return path[:best]

    def _has_time(self, scorer: MixScorer, path: list[int], rest: list[int]) -> bool:
        """Whether there is time to add one more member and to score the final mix."""
        if not self.budget.is_measured:
            return True
        grown = [*path, rest[0]]
        need = self._seconds_to_score(grown) + self._seconds_to_write(grown)
        return self.budget.left > need + len(rest) * scorer.f1_seconds

    def _tune(self, scorer: MixScorer, chosen: list[int]) -> FloatArray:
        """Return the default weights, unless weights tuned on dev trees are clearly better."""
        default, tuned = self._default_weights(chosen), scorer.likely_weights(chosen)
        gain = scorer.f1_of(chosen, tuned) - scorer.f1_of(chosen, default)
        return tuned if gain > self.settings.tuning_gain else default

    def _default_weights(self, members: Sequence[int]) -> FloatArray:
        """Return the default weights: equal within the grammars, and equal within the networks."""
        networks = np.array([not self.members[k].has_rules for k in members])
        is_pretrained = any("pretrained" in self.members[k].record for k in members)
        settings, n = self.settings, int(networks.sum())
        weights = settings.pretrained_weights if is_pretrained else settings.network_weights
        if n in (0, len(members)):
            return np.full(len(members), 1.0 / len(members))
        total = weights[min(n, len(weights)) - 1]
        return np.where(networks, total / n, (1 - total) / (len(members) - n))
