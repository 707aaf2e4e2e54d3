"""`ArcReranker`: a parser, and an averaged perceptron that chooses among its best trees.

DEP, section 4.3. Lists to learn from must be as those of new sentences are: parser and latent
models learn from all folds but one, and propose and score the trees of that one (jackknifing). Tags
are jackknifed once for all of them. What is kept in the end has learnt from all sentences.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from sapwood.core.errors import CorpusError, SapwoodError, count
from sapwood.core.info import Info, PhaseClock
from sapwood.core.learner import between, one_of, parameter, positional, whole
from sapwood.dependency.data.bank import ArcBank, ArcBankLike, as_arc_bank
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.learn.crf import ArcEstimator, Lesson, MemberPlan, usual_templates
from sapwood.dependency.learn.em import EMDependency
from sapwood.dependency.learn.perceptron import Choice, RankLesson, learn_to_rank
from sapwood.dependency.learn.spectral import SpectralDependency
from sapwood.dependency.model.arc_model import ArcModel
from sapwood.dependency.model.reranker import LIST_FEATURES, ArcRerankModel, LatentScorer
from sapwood.dependency.model.tables import FeatureTable
from sapwood.dependency.parse.parser import ArcParser
from sapwood.dependency.parse.reranking import propose_trees
from sapwood.progress import counted

BITS = 18  # of hashed triples of tags
BLOCK = 25  # sentences that stand together are held out together: texts are of one kind
MAX_TAGS = 100  # of a set that a triple of them says something
LATENT = ("auto", "none", "spectral", "em", "both")


class FoldLists(NamedTuple):
    """What a fold has: trees of a parser that has not seen it, the right ones, and all others."""

    lists: CandidateLists
    right: ArcBank
    others: ArcBank


class ArcReranker(ArcEstimator):
    """A dependency parser whose best trees are ranked anew.

    Attributes
    ----------
    model_ : ArcRerankModel
    info_ : Info
        With `choice`, the settings and how they did on lists that were held out; `list_size`, trees
        a list; `oracle`, `held_uas` and `parser_uas`, percent of right heads on those lists: of the
        best tree of each list, of what was chosen, and of the parser's first; `without_latent`, why
        there is no latent model, where none could be learnt.
    """

    n_states: int = positional(
        default=8, domain=whole(1, 256), words="Hidden states of latent models.", kw_only=False
    )
    order: int = parameter(2, whole(1, 2), "Of the parser, as ArcCRF has it.")
    latent: str = parameter(
        "auto",
        one_of(LATENT),
        "Whose log-probabilities of trees are features: spectral models, models by EM, both, none; "
        "auto takes spectral ones where lists that were held out are the better for it.",
    )
    column: str = parameter(
        "auto",
        one_of(("auto", "upos", "xpos")),
        "The tags of features: universal ones, or the treebank's own; auto takes these where they "
        "are no more than a hundred.",
    )
    n_best: int = parameter(50, whole(1, 1000), "Trees that the parser proposes.")
    list_folds: int = parameter(
        3, whole(2, 100), "Parsers that each leave out a share of the sentences and parse it."
    )
    passes: int = parameter(5, whole(1), "Of the parser over the training sentences.")
    rate: float = parameter(0.02, between(0, 1, "(]"), "Of AdaGrad.")
    list_passes: int = parameter(4, whole(1), "Of the perceptron over the lists, at most.")

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        self._check_parameters()
        bank = as_arc_bank(bank)
        if len(bank) < 2 * self.list_folds:
            msg = f"{count(len(bank), 'sentence')} for {self.list_folds} folds"
            raise CorpusError(msg, hint="give more sentences, or use fewer list_folds")
        clock = PhaseClock()
        course, column = self.prepare(bank), self.tag_column(bank)
        labels = course.labels(self.seed)
        clock.tick("tags, arcs, relations")
        folds = counted(range(self.list_folds), "lists of trees", unit="fold")
        made = [self.fold_lists(course, labels, fold) for fold in folds]
        clock.tick("lists")
        (latent, *of_folds), reason = self._learn_latent(
            [bank, *(fold.others for fold in made)], column
        )
        clock.tick("latent models")
        lesson = RankLesson.join(
            [
                RankLesson.of(fold.lists, fold.right, models, column, BITS)
                for fold, models in zip(made, of_folds, strict=True)
            ]
        )
        choice = self._choose(lesson)
        clock.tick("perceptron")
        parser = self.learn_parser(course, labels)
        latent = latent if len(choice.weights.dense) > len(LIST_FEATURES) else ()
        clock.tick("parser")
        self.info_ = rerank_info(lesson, choice)
        self.info_.seconds, self.info_.without_latent = clock.seconds, reason
        record = {
            "method": "rerank", "sentences": len(bank), "tokens": bank.n_tokens,
            "iterations": choice.passes, "held": list(choice.held),
            "held_uas": self.info_.held_uas, "parser_uas": self.info_.parser_uas,
        }  # fmt: skip
        self.model_ = ArcRerankModel(
            column, choice.weights.sparse, choice.weights.dense, latent, parser, self.n_best,
            record,
        )  # fmt: skip
        return self

    def _choose(self, lesson: RankLesson) -> Choice:
        """Weights; `auto` leaves latent models out where they are of no use."""
        lessons, n_latent = [lesson], lesson.dense.shape[1] - len(LIST_FEATURES)
        if self.latent == "auto" and n_latent:
            lessons.insert(0, replace(lesson, dense=lesson.dense[:, : len(LIST_FEATURES)]))
        choices = [
            learn_to_rank(each, passes=self.list_passes, folds=self.list_folds, seed=self.seed)
            for each in lessons
        ]
        return max(choices, key=lambda choice: choice.held_right)  # of equals, the first

    def tag_column(self, bank: ArcBank) -> str:
        """Where the tags of features stand."""
        return choose_column(bank) if self.column == "auto" else self.column

    def prepare(self, bank: ArcBank) -> Lesson:
        """What the parsers of all folds share: sentences with jackknifed tags."""
        return Lesson.prepare(bank, self._engine(), self.folds, self.seed, self.embeddings)

    def fold_lists(self, course: Lesson, labels: FeatureTable, fold: int) -> FoldLists:
        """Lists of one fold, by a parser that has learnt from the others."""
        bank = course.bank
        block = BLOCK if len(bank) >= BLOCK * self.list_folds else 1
        is_own = np.arange(len(bank)) // block % self.list_folds == fold
        others = course.part(~is_own, self.seed)
        parses = ArcParser(self.learn_parser(others, labels), use_tags=True).parse_many(
            course.tagged.select(is_own), jobs=self._engine()
        )
        return FoldLists(
            propose_trees(parses, self.n_best), right=bank.select(is_own), others=others.bank
        )

    def learn_parser(self, course: Lesson, labels: FeatureTable) -> ArcModel:
        """A parser of some sentences."""
        plan = MemberPlan(self.order, usual_templates(self.order), self.passes, self.rate)
        member = course.member(plan, self.seed, self._note)
        record = course.record(("first", "second")[self.order - 1], iterations=self.passes)
        return course.model((member,), labels, record)

    def _learn_latent(
        self, banks: list[ArcBank], column: str
    ) -> tuple[list[tuple[LatentScorer, ...]], str]:
        """Latent models of each of several banks; none, and why, where `auto` cannot learn them."""
        shared: dict[str, Any] = {"n_jobs": self.n_jobs, "engine": self.engine, "seed": self.seed}
        learners = latent_learners(self.latent, self.n_states, column, shared)
        try:
            each = counted(banks, "latent models", unit="fold")
            return [tuple(learner.fit(b).model_ for learner in learners) for b in each], ""
        except SapwoodError as error:
            if self.latent != "auto":
                raise
            return [()] * len(banks), str(error)

    def _note(self, done: int, likelihood: float) -> None:
        if self.on_pass is not None:
            self.on_pass(f"order {self.order}", done, likelihood)


def choose_column(bank: ArcBank) -> str:
    """The treebank's own tags where there are some, and not as many as words.

    >>> from sapwood.dependency.data.bank import Arcs
    >>> choose_column(ArcBank.of([Arcs(["a"], [0], upos=["X"])]))
    'upos'
    """
    return "xpos" if 1 < len(bank.xpos_names) <= MAX_TAGS else "upos"


def latent_learners(
    names: str, n_states: int, column: str, shared: dict[str, Any]
) -> list[SpectralDependency | EMDependency]:
    """Estimators of latent models of words and tags; those by EM see numbers of children too."""
    learners: list[SpectralDependency | EMDependency] = []
    settings = {"tag_column": column, **shared}
    if names in {"auto", "spectral", "both"}:
        learners.append(SpectralDependency(n_states, seen="both", **settings))
    if names in {"em", "both"}:
        # p(words | tree) alone says nothing of the tree: numbers of children do
        learners.append(EMDependency(n_states, seen="both", valence=True, **settings))
    return learners


def rerank_info(lesson: RankLesson, choice: Choice) -> Info:
    """Shares of right heads in lists that were held out."""
    firsts = lesson.starts[:-1]
    n_words = np.diff(lesson.offsets)[firsts].sum()
    oracle = np.maximum.reduceat(lesson.right, firsts).sum()
    oracle, held, own = (
        float(100.0 * n / n_words) for n in (oracle, choice.held_right, choice.parser_right)
    )
    return Info(
        extra={
            "choice": choice, "list_size": float(np.diff(lesson.starts).mean()), "oracle": oracle,
            "held_uas": held, "parser_uas": own, "without_latent": "",
        }
    )  # fmt: skip
