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

`ArcEnsemble` averages posteriors of arcs. Its first member is a neural network that reads the whole
sentence; the others differ in their features and in the order of sentences. The tree with the
highest sum of mean posteriors has the most expected right arcs. A budget shortens the training of
the network, and leaves out members from the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
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
from sapwood.dependency.learn.trainer import ArcTrainer, MemberPlan
from sapwood.dependency.model.arc_model import ArcMember, EncoderMember, LatentMember
from sapwood.dependency.model.dependency import TAG_COLUMNS
from sapwood.dependency.parse import templates as arc_templates
from sapwood.execute import Engine, Threads
from sapwood.networks.pretrained.given import TrainingVectors
from sapwood.networks.pretrained.source import WordSource, as_source
from sapwood.networks.pretrained.trial import TrialSplit, is_helpful
from sapwood.networks.training import BATCH_PARTS, NetworkPlan

MIN_ENCODER_PASSES = 3  # with fewer, the network is worse than the other members
ENCODER_TIME = 0.75  # fraction of the remaining budget that the network may take
WORD_SECONDS, STEP_SECONDS = 2e-4, 0.01  # of the network on one core: a word, a step of Adam
ENCODER_WEIGHT = 0.6  # in the mean; .7 was better on 10,000 sentences, .5 on 1,000


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

    def _prepare(self, bank: ArcBankLike, engine: Engine) -> ArcTrainer:
        """Train tagger and pruner."""
        return ArcTrainer.prepare(as_arc_bank(bank), engine, self.folds, self.seed, self.embeddings)


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
        "Maximum number of feature-based parsers that are averaged with the network.",
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
        "Passes of the network; 0 for no network. None chooses 8 to 30 passes, so that about 1.6 "
        "million words are read.",
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
        trainer = self._prepare(bank, engine)
        clock.tick("tags and arcs")
        labels = trainer.train_labels(self.seed)
        clock.tick("relations")
        self.info_ = Info(extra={"members": [], "left_out": []})
        given = None
        if self.encoder is not None and self.encoder_passes != 0:
            source = as_source(self.encoder)
            assert source is not None  # as the encoder is given
            given = self._given_vectors(trainer, source, engine.jobs_here)
            clock.tick("vectors")
        encoder = self._train_encoder(trainer, end, now, engine.jobs_here, given)
        clock.tick("network")
        members = tuple(self._train_members(trainer, end, now, engine))
        clock.tick("members")
        self.info_.seconds = clock.seconds
        self.info_.extra["iterations"] = len(self.info_.extra["members"])
        record: dict[str, Any] = {"iterations": len(members) * self.passes, "seed": self.seed}
        if given is not None:
            record["pretrained"] = given.learnt.record.description
        self.model_ = trainer.model(members, labels, "best", encoder, **record)
        return self

    def _given_vectors(
        self, trainer: ArcTrainer, source: WordSource, jobs: int
    ) -> TrainingVectors | None:
        """Vectors of the training sentences; None where they do not help on held-out ones."""
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
        """The network, with as many passes as there is time for; None where there is too little."""
        jobs, started = min(jobs, BATCH_PARTS), now()
        n_words = trainer.data.bank.n_tokens
        plan = NetworkPlan.usual(n_words, self.encoder_passes, self.seed)
        passes = plan.passes
        if end < inf:
            affordable = ENCODER_TIME * (end - started) / _seconds_a_pass(n_words, plan.words)
            passes = min(passes, int(affordable))
        if passes < min(MIN_ENCODER_PASSES, self.encoder_passes or MIN_ENCODER_PASSES):
            self.info_.extra["left_out"] += ["network"] * (self.encoder_passes != 0)
            return None
        on_pass = partial(tell, member="network")
        network = trainer.train_encoder(replace(plan, passes=passes), jobs, on_pass, given)
        self.info_.extra["members"].append(("network", now() - started))
        return EncoderMember(network, ENCODER_WEIGHT)

    def _train_members(
        self, trainer: ArcTrainer, end: float, now: Callable[[], float], engine: Engine
    ) -> Iterator[ArcMember]:
        """Members, as many at a time as there are threads, until the time is up."""
        kinds = list(arc_templates.MEMBERS.items())
        plans = []
        for number in range(self.members):
            name, (order, templates) = kinds[number % len(kinds)]
            seed = self.seed + 1000 * number
            plans.append(MemberPlan(name, order, self.passes, self.rate, seed, templates))
        longest = 0.0
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


def _seconds_a_pass(n_words: int, batch_words: int) -> float:
    """Estimated CPU seconds of a pass of the network over n words, in batches of some."""
    return WORD_SECONDS * n_words + STEP_SECONDS * n_words / batch_words
