"""Dependency parsers: `ArcCRF`, `LatentArcCRF` with hidden states, and `ArcEnsemble`.

A CRF models the tree given its sentence by features of arcs, siblings and heads of heads.

1. A tagger is trained; the parser learns from tags of taggers that have not seen the sentence.
2. A pruner keeps a few heads of each word; in training, the gold head is always kept.
3. AdaGrad maximises log p(gold tree | sentence, arcs).
4. A model of relations is trained on gold arcs.

Trees that are not projective are lifted first: the parser gives projective trees.

`LatentArcCRF` adds a latent dependency model of the tags, or words, of the same trees, learnt by
EM. All projective trees over the arcs that the pruner keeps are summed with all states:

    p(tree | words)  ~  prod over arcs of posterior^trust  *  p(words | tree)

The paper scores lists of another parser's trees, and leaves this sum for later work.

`ArcEnsemble` averages posteriors of arcs: of neural networks that read the whole sentence, and of
parsers that differ in their features and in the order of sentences. The tree with the highest sum
of mean posteriors has the most expected right arcs. A budget shortens the training of the networks,
and leaves out members from the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Self

import numpy as np

from sapwood.core.learner import (
    ANYTHING,
    FLAG,
    MAX_STATES,
    Domain,
    Estimator,
    Info,
    PhaseClock,
    at_least,
    between,
    former_callback,
    maybe,
    one_of,
    parameter,
    positional,
    whole,
)
from sapwood.core.progress import tell
from sapwood.corpora.eigenwords import Eigenwords
from sapwood.dependency.data.bank import ArcBankLike, as_arc_bank
from sapwood.dependency.learn.em import EMDependency
from sapwood.dependency.learn.moments import SEEN
from sapwood.dependency.learn.network_plan import (
    ArcNetworkSettings,
    follow_passes,
    plan_networks,
)
from sapwood.dependency.learn.trainer import ArcTrainer, MemberPlan
from sapwood.dependency.model.arc_model import ArcMember, EncoderMember, LatentMember
from sapwood.dependency.model.dependency import TAG_COLUMNS
from sapwood.dependency.parse import templates as arc_templates
from sapwood.execute import Engine, Threads
from sapwood.networks.pretrained.given import TrainingVectors, given_bytes
from sapwood.networks.pretrained.source import WordSource, as_source
from sapwood.networks.pretrained.trial import TrialSplit, is_helpful
from sapwood.networks.training import BATCH_PARTS


class ArcEstimator(Estimator):
    """Base of estimators of dependency parsers."""

    folds: int = parameter(
        5,
        whole(2, 100),
        "Folds of the sentences; each is tagged by a tagger that learns from the others.",
    )
    seed: int = parameter(0, whole(0), "Seed of the order of sentences.")
    embeddings: Eigenwords | None = parameter(
        None,
        maybe(Domain("Eigenwords", lambda value: isinstance(value, Eigenwords))),
        "Word vectors, such as those of a large text; words with similar vectors share features.",
    )
    on_pass: Callable[..., Any] | None = former_callback("on_pass")

    def _prepare(self, bank: ArcBankLike, engine: Engine, more_bytes: float = 0.0) -> ArcTrainer:
        """Train tagger and pruner; `more_bytes` of memory are needed for something else."""
        return ArcTrainer.prepare(
            as_arc_bank(bank), engine, self.folds, self.seed, self.embeddings, more_bytes
        )


class ArcCRF(ArcEstimator):
    """A dependency parser: features of arcs, siblings and heads of heads, scored as a CRF.

    Attributes
    ----------
    model_ : ArcModel
    info_ : Info
    """

    order: int = positional(
        default=2,
        domain=whole(1, 2),
        words="1 scores single arcs; 2 also siblings, and heads with their own heads.",
        kw_only=False,
    )
    passes: int = parameter(5, whole(1), "Passes over the training sentences.")
    rate: float = parameter(0.02, between(0, 1, "(]"), "Learning rate of AdaGrad.")

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        clock = PhaseClock()
        trainer = self._prepare(bank, self._engine())
        clock.tick("tags and arcs")
        self.info_ = Info()
        plan = MemberPlan(f"order {self.order}", self.order, self.passes, self.rate, self.seed)
        member, _ = trainer.train_member(plan, self._note)
        clock.tick("passes")
        labels = trainer.train_labels(self.seed)
        clock.tick("relations")
        self.info_.seconds = clock.seconds
        self.model_ = trainer.model(
            (member,), labels, ("first", "second")[self.order - 1], iterations=self.passes,
            seed=self.seed, log_likelihood=self.info_.log_likelihoods[-1],
        )  # fmt: skip
        return self

    def _note(self, iteration: int, log_likelihood: float) -> None:
        self.info_.history.append({"log_likelihood": log_likelihood})
        tell(member=f"order {self.order}", iteration=iteration, log_likelihood=log_likelihood)


class LatentArcCRF(ArcEstimator):
    """A dependency parser with hidden states of words on the arcs that a CRF leaves.

    Attributes
    ----------
    model_ : ArcModel
        With a latent member.
    info_ : Info
        `log_likelihoods` are those of the CRF.
    """

    n_states: int = positional(
        default=16, domain=whole(1, MAX_STATES), words="Hidden states of a word.", kw_only=False
    )
    seen: str = parameter(
        "tags", one_of(SEEN), "What the states generate of a word: tags, words or both."
    )
    tag_column: str = parameter(
        "auto",
        one_of(("auto", *TAG_COLUMNS)),
        "The tags: universal ones, or those of the language; `auto` takes those of the language "
        "where there are any.",
    )
    valence: bool = parameter(
        False, FLAG, "Whether the states generate numbers of children too, see `EMDependency`."
    )
    order: int = parameter(
        1, whole(1, 2), "The order of the CRF whose posteriors are the prior of arcs."
    )
    passes: int = parameter(5, whole(1), "Passes of the CRF over the training sentences.")
    iterations: int = parameter(60, whole(1), "The most EM iterations.")
    trust: float = parameter(
        1.0, at_least(0), "The prior weights of arcs are the posteriors of the CRF to this power."
    )
    share: float = parameter(
        0.5,
        between(0, 1, "(]"),
        "Weight of the latent posteriors in the mean with those of the CRF; 1 ignores the CRF.",
    )

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        clock = PhaseClock()
        bank = as_arc_bank(bank)
        shared: dict[str, Any] = {"seed": self.seed, "n_jobs": self.n_jobs, "engine": self.engine}
        crf = ArcCRF(
            self.order, passes=self.passes, folds=self.folds, embeddings=self.embeddings,
            **shared,
        ).fit(bank)  # fmt: skip
        clock.tick("CRF")
        column = self.tag_column
        if column == "auto":
            column = "xpos" if len(bank.xpos_names) > 1 else "upos"
        states = EMDependency(
            self.n_states, seen=self.seen, tag_column=column, valence=self.valence,
            iterations=self.iterations, **shared,
        ).fit(bank)  # fmt: skip
        clock.tick("states")
        self.info_: Info = crf.info_
        self.info_.seconds = clock.seconds
        record = dict(crf.model_.record) | {"method": "latent", "states": self.n_states}
        latent = LatentMember(states.model_, self.trust, self.share)
        self.model_ = replace(crf.model_, latent=latent, record=record)
        return self


class ArcEnsemble(ArcEstimator):
    """Several dependency parsers whose posteriors are averaged, within a budget.

    Attributes
    ----------
    model_ : ArcModel
    info_ : Info
        `members` has the name and the CPU seconds of each member that was trained, `left_out` the
        names of the members that the budget had no time for.
    """

    budget: float | None = positional(
        default=None,
        domain=maybe(Domain("a number of seconds above 0", between(0, inf, "(]").test)),
        words="CPU seconds of all threads (wall-clock seconds on a cluster). A member that would "
        "not finish in time is skipped, but the first one is always trained. None trains "
        "all.",
        kw_only=False,
    )
    members: int = parameter(
        1,
        whole(1, 100),
        "Maximum number of feature-based parsers that are averaged with the networks.",
    )
    passes: int = parameter(
        5, whole(1), "Passes of each feature-based member over the training sentences."
    )
    folds: int = parameter(
        3,
        whole(2, 100),
        "Folds of the sentences; each is tagged by a tagger that learns from the others.",
    )
    encoder_passes: int | None = parameter(
        None,
        maybe(whole(0)),
        "Passes of each network; 0 for no network. None chooses 8 to 30: a larger treebank is read "
        "less often.",
    )
    networks: int = parameter(
        2,
        whole(1, 10),
        "Networks with different seeds that are averaged, at most. A large treebank, or a small "
        "budget, has one.",
    )
    rate: float = parameter(0.02, between(0, 1, "(]"), "Learning rate of AdaGrad.")
    encoder: WordSource | str | Path | None = parameter(
        None,
        ANYTHING,
        "A pretrained encoder, whose word vectors the network reads beside its own: its folder, "
        "or a `PretrainedEncoder`. Or static word vectors: the file, or `StaticVectors`.",
    )
    spent: float = parameter(
        0.0, at_least(0), "Seconds of the budget that were used before `fit`, such as for reading."
    )

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        clock = PhaseClock()
        engine = self._engine()
        # CPU seconds of this process; wall-clock seconds where other processes do the work
        now = process_time if isinstance(engine, Threads) else perf_counter
        end = now() + (inf if self.budget is None else self.budget - self.spent)
        reads_vectors = self.encoder is not None and self.encoder_passes != 0
        source = as_source(self.encoder) if reads_vectors else None
        trainer = self._prepare(bank, engine, 0.0 if source is None else given_bytes(source))
        clock.tick("tags and arcs")
        labels = trainer.train_labels(self.seed)
        clock.tick("relations")
        self.info_ = Info(extra={"members": [], "left_out": []})
        given = None
        if source is not None:
            given = self._given_vectors(trainer, source, engine.jobs_here)
            clock.tick("vectors")
        plans = self._member_plans()
        members = list(self._train_members(trainer, plans[:1], end, now, engine))
        clock.tick("parser by features")
        encoder = self._train_encoder(trainer, end, now, engine.jobs_here, given)
        clock.tick("networks")
        if plans[1:]:
            members += self._train_members(trainer, plans[1:], end, now, engine)
            clock.tick("other parsers by features")
        self.info_.seconds = clock.seconds
        self.info_.extra["iterations"] = len(self.info_.extra["members"])
        record: dict[str, Any] = {"iterations": len(members) * self.passes, "seed": self.seed}
        if given is not None:
            record["pretrained"] = given.learnt.record.description
        self.model_ = trainer.model(tuple(members), labels, "best", encoder, **record)
        return self

    def _given_vectors(
        self, trainer: ArcTrainer, source: WordSource, jobs: int
    ) -> TrainingVectors | None:
        """Vectors of the training sentences; None if they do not help on held-out sentences."""
        bank = trainer.data.bank
        split = TrialSplit.of(np.diff(bank.offsets).tolist())
        if split is not None:
            scores = trainer.try_vectors(source, split, self.seed, jobs)
            found = {
                "name": source.record.name, "uas_with": round(scores[0], 3),
                "uas_without": round(scores[1], 3), "is_taken": is_helpful(*scores),
            }  # fmt: skip
            self.info_.extra["encoder"] = found
            tell(encoder_trial=found)
            if not found["is_taken"]:
                return None
        return TrainingVectors.of(source, bank.sentences(), jobs=jobs)

    def _train_encoder(
        self,
        trainer: ArcTrainer,
        end: float,
        now: Callable[[], float],
        jobs: int,
        given: TrainingVectors | None,
    ) -> EncoderMember | None:
        """Train the networks for as many passes as the budget allows; None if it allows none."""
        if self.encoder_passes == 0:
            return None
        settings = ArcNetworkSettings()
        longest = max((seconds for _, seconds in self.info_.extra["members"]), default=0.0)
        end -= longest * (self.members - 1)
        end = now() + settings.time_fraction * (end - now())
        found = plan_networks(
            trainer.data.bank.n_tokens, most=self.networks, passes=self.encoder_passes,
            seed=self.seed, seconds=end - now(), n_given=0 if given is None else given.width,
            settings=settings,
        )  # fmt: skip
        if found is None:
            self.info_.extra["left_out"].append("network")
            return None
        networks = []
        for k, plan in enumerate(found.plans):
            started = now()
            share = started + (end - started) / (len(found.plans) - k)
            listen = follow_passes(f"network {k + 1}", plan.passes, share, now)
            networks.append(trainer.train_encoder(plan, min(jobs, BATCH_PARTS), listen, given))
            self.info_.extra["members"].append((f"network {k + 1}", now() - started))
        return EncoderMember(networks[0], found.weight, tuple(networks[1:]))

    def _member_plans(self) -> list[MemberPlan]:
        """The members by features, the first one first."""
        kinds = list(arc_templates.MEMBERS.items())
        plans = []
        for number in range(self.members):
            name, (order, templates) = kinds[number % len(kinds)]
            seed = self.seed + 1000 * number
            plans.append(MemberPlan(name, order, self.passes, self.rate, seed, templates))
        return plans

    def _train_members(
        self,
        trainer: ArcTrainer,
        plans: list[MemberPlan],
        end: float,
        now: Callable[[], float],
        engine: Engine,
    ) -> Iterator[ArcMember]:
        """Members, as many at a time as there are threads, until the time is up.

        The first member of a parser is trained in any case.
        """
        trained_before = [seconds for name, seconds in self.info_.extra["members"]
                          if not name.startswith("network")]  # fmt: skip
        longest = max(trained_before, default=0.0)
        while plans:
            some, rest = plans[: engine.jobs_here], plans[engine.jobs_here :]
            if longest and now() + longest * len(some) > end:
                self.info_.extra["left_out"] += [plan.name for plan in plans]
                return
            plans = rest
            trained = engine.stream(trainer.train_member, some, ahead=1)
            for plan, (member, seconds) in zip(some, trained, strict=True):
                longest = max(longest, seconds)
                self.info_.extra["members"].append((plan.name, seconds))
                yield member
