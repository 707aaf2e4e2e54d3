"""`ArcEnsemble`: several dependency parsers that share tags and arcs, and average posteriors.

The first is a neural network that reads the whole sentence; the others score features of arcs and
differ in what they look at and in the order in which they saw the sentences. Each gives every arc a
posterior; the tree with the highest sum of mean posteriors has the most expected right arcs. The
budget cuts the plan from its end, and the network's passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import inf
from time import perf_counter
from typing import Self

from sapwood.core.info import Info, PhaseClock
from sapwood.core.learner import (
    Domain,
    at_least,
    between,
    maybe,
    parameter,
    positional,
    whole,
)
from sapwood.dependency.data.bank import ArcBankLike, as_arc_bank
from sapwood.dependency.learn.crf import ArcEstimator, Lesson, MemberPlan, OnPass
from sapwood.dependency.model.arc_model import ArcMember, EncoderMember
from sapwood.dependency.parse import arc_templates
from sapwood.networks.training import SHARES, NetworkPlan

# of the network
LEAST_PASSES = 3  # with fewer it is worse than the others
TIME_SHARE = 0.75  # of the time that is left
ENCODER_WEIGHT = 0.6  # in the mean; .7 was better on 10,000 sentences, .5 on 1,000


class ArcEnsemble(ArcEstimator):
    """Several dependency parsers whose posteriors are averaged, within a budget.

    Attributes
    ----------
    model_ : ArcModel
    info_ : Info
        With `members`, the name and the seconds of each member that was trained, and `left_out`,
        the names of those that there was no time for.
    """

    budget: float | None = positional(
        default=None,
        domain=maybe(Domain("a number of seconds above 0", between(0, inf, "(]").test)),
        words="Seconds on the clock; a member is not begun when it would hardly end in time. The "
        "first one is trained in any case. None trains all.",
        kw_only=False,
    )
    members: int = parameter(
        1, whole(1, 100), "Parsers by features that are averaged beside the network, at most."
    )
    passes: int = parameter(5, whole(1), "Over the training sentences, of each such member.")
    folds: int = parameter(
        3, whole(2, 100), "Taggers that each leave out a share of the sentences and tag it."
    )
    encoder_passes: int | None = parameter(
        None, maybe(whole(0)),
        "Of the network; 0 for none. None chooses: about 1.6 million words, in 8 to 30 passes.",
    )  # fmt: skip
    rate: float = parameter(0.02, between(0, 1, "(]"), "Of AdaGrad.")
    spent: float = parameter(
        0.0, at_least(0), "Seconds of the budget that are gone before `fit`, for reading."
    )

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        self._check_parameters()
        clock = PhaseClock()
        end = perf_counter() + (inf if self.budget is None else self.budget - self.spent)
        lesson = Lesson.prepare(
            as_arc_bank(bank), self._engine(), self.folds, self.seed, self.embeddings
        )
        clock.tick("tags and arcs")
        labels = lesson.labels(self.seed)
        clock.tick("relations")
        self.info_ = Info(extra={"members": [], "left_out": []})
        encoder = self._train_encoder(lesson, end)
        clock.tick("network")
        members = tuple(self._train(lesson, end))
        clock.tick("members")
        self.info_.seconds = clock.seconds
        self.info_.extra["iterations"] = len(self.info_.members)
        record = lesson.record("best", iterations=len(members) * self.passes, seed=self.seed)
        self.model_ = lesson.model(members, labels, record, encoder)
        return self

    def _train_encoder(self, lesson: Lesson, end: float) -> EncoderMember | None:
        """The network, with as many passes as there is time for; None for none."""
        jobs, started = min(self._engine().jobs_here, SHARES), perf_counter()
        n_words, passes = lesson.bank.n_tokens, self.encoder_passes
        plan = NetworkPlan.usual(n_words, passes, self.seed)
        passes = plan.passes
        a_pass = plan.seconds_a_pass(n_words, jobs)
        if end < inf:
            passes = min(passes, int(TIME_SHARE * (end - started) / a_pass))
        if passes < min(LEAST_PASSES, self.encoder_passes or LEAST_PASSES):
            self.info_.extra["left_out"] += ["network"] * (self.encoder_passes != 0)
            return None
        note = None if self.on_pass is None else partial(self.on_pass, "network")
        network = lesson.encoder(replace(plan, passes=passes), jobs, note)
        self.info_.members.append(("network", perf_counter() - started))
        return EncoderMember(network, ENCODER_WEIGHT)

    def _train(self, lesson: Lesson, end: float) -> Iterator[ArcMember]:
        """Members, as many at a time as there are threads, until the time is up."""
        engine = self._engine()
        plans = [(number, *plan) for number, plan in enumerate(self._plans())]
        longest = 0.0
        while plans:
            if longest and perf_counter() + longest > end:
                self.info_.extra["left_out"] += [name for _, name, _ in plans]
                return
            some, plans = plans[: engine.jobs_here], plans[engine.jobs_here :]
            task = partial(_train_member, lesson, self.seed, self.on_pass)
            for name, seconds, member in engine.stream(task, some, ahead=1):
                longest = max(longest, seconds)
                self.info_.members.append((name, seconds))
                yield member

    def _plans(self) -> Iterator[tuple[str, MemberPlan]]:
        kinds = list(arc_templates.MEMBERS.items())
        for number in range(self.members):
            name, (order, templates) = kinds[number % len(kinds)]
            yield name, MemberPlan(order, templates, self.passes, self.rate)


def _train_member(
    lesson: Lesson, seed: int, on_pass: OnPass | None, numbered: tuple[int, str, MemberPlan]
) -> tuple[str, float, ArcMember]:
    number, name, plan = numbered
    started = perf_counter()
    note = None if on_pass is None else partial(on_pass, name)
    member = lesson.member(plan, seed + 1000 * number, note)
    return name, perf_counter() - started, member
