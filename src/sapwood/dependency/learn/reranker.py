"""`ArcReranker`: a parser, and an averaged perceptron that chooses among its best trees.

DEP, section 4.3. Training lists must be made like the lists of new sentences: parser and latent
models learn from all folds but one, and propose and score the trees of that one (jackknifing). Tags
are jackknifed once for all folds. The final parser and latent models learn from all sentences.

The perceptron (Collins, 2002) compares, for each list in turn, the tree that scores highest with
the best of the trees that have the most right heads; where it has fewer, weights move from its
features to the other's. The result is the mean of the weights over all steps. The parser's own
score, or its expected number of right heads, has a fixed weight: every tree that is better than the
guess has a lower score by the parser, so that every step would lower that weight. Which of the two
features is used, its weight, and the number of passes are chosen on held-out lists; there is no
pass where the parser alone is best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.errors import CorpusError, SapwoodError, count
from sapwood.core.learner import Info, PhaseClock, between, one_of, parameter, positional, whole
from sapwood.core.progress import counted
from sapwood.dependency.data.bank import ArcBank, ArcBankLike, as_arc_bank
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.learn.crf import ArcEstimator
from sapwood.dependency.learn.em import EMDependency
from sapwood.dependency.learn.spectral import SpectralDependency
from sapwood.dependency.learn.trainer import FOLD_BLOCK, ArcTrainer, MemberPlan
from sapwood.dependency.model.arc_model import (
    LIST_FEATURES,
    ArcModel,
    ArcRerankModel,
    FeatureTable,
    LatentScorer,
)
from sapwood.dependency.parse.parser import ArcParser
from sapwood.dependency.parse.reranking import dense_features, propose_trees, tag_triples

TRIPLE_BITS = 18  # of hashed triples of tags
MAX_TRIPLE_TAGS = 100  # of a tag set whose triples are not too sparse
LATENT_CHOICES = ("auto", "none", "spectral", "em", "both")
# fixed weights that are tried: the column of the parser's feature, and its weight in standard
# deviations
FIXED_WEIGHTS = tuple(
    (column, weight) for column in range(2) for weight in (3.0, 10.0, 30.0, 100.0)
)


class RankingWeights(NamedTuple):
    """Weights of hashed features, and of the columns of dense features."""

    sparse: FloatArray
    dense: FloatArray


@dataclass(frozen=True, eq=False)
class RankingData:
    """Candidate lists as features, with the number of right heads of each tree.

    Attributes
    ----------
    starts : [n_lists + 1]
        First tree of each list.
    offsets : [n_trees + 1]
        First word of each tree; the trees of a list have equally many words.
    triples : [n_tokens, N_TRIPLES]
        Hashed features of the words of all trees.
    dense : [n_trees, n_columns]
        The parser's score first, then the number of heads that it expects to be right.
    right : [n_trees]
        Number of right heads of each tree.
    bits
        Logarithm of the number of hashed features.
    """

    starts: IntArray
    offsets: IntArray
    triples: npt.NDArray[np.uint32]
    dense: FloatArray
    right: IntArray
    bits: int

    @classmethod
    def of(
        cls, lists: CandidateLists, gold: ArcBank, latent: Sequence[LatentScorer], column: str,
        bits: int,
    ) -> RankingData:  # fmt: skip
        """Features of lists, with the gold tree of each."""
        return cls(
            lists.starts, lists.bank.offsets, tag_triples(lists.bank, column, bits),
            dense_features(lists, latent), lists.right_heads(gold), bits,
        )  # fmt: skip

    @classmethod
    def join(cls, parts: Sequence[RankingData]) -> RankingData:
        """The lists of several parts, one after the other."""
        return cls(
            starts_of(np.concatenate([np.diff(part.starts) for part in parts])),
            starts_of(np.concatenate([np.diff(part.offsets) for part in parts])),
            np.concatenate([part.triples for part in parts]),
            np.concatenate([part.dense for part in parts]),
            np.concatenate([part.right for part in parts]),
            parts[0].bits,
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def n_right(self, weights: RankingWeights, lists: IntArray) -> int:
        """Number of right heads of the trees that weights choose from some lists."""
        from sapwood.dependency.kernels.list_perceptron import count_right

        return int(count_right(lists, *self.arrays(), *weights))

    def arrays(self) -> tuple[Any, ...]:
        """The arrays that kernels read."""
        dense = np.ascontiguousarray(self.dense)
        return self.starts, self.offsets, self.triples, dense, self.right


def perceptron_passes(
    data: RankingData, lists: IntArray, fixed: tuple[int, float], passes: int, seed: int
) -> Iterator[RankingWeights]:
    """Averaged weights after each pass over some lists, in another order each time.

    Parameters
    ----------
    fixed
        The column of a feature of the parser, and its weight, which does not change; the parser's
        other feature has weight 0.
    """
    from sapwood.dependency.kernels.list_perceptron import follow_lists

    rng = np.random.default_rng(seed)
    sparse, dense = np.zeros(1 << data.bits), np.zeros(data.dense.shape[1])
    dense[fixed[0]] = fixed[1]
    # sums of steps times the time of each: the mean is the last weight minus this over the time
    late = np.zeros_like(sparse), np.zeros_like(dense)
    time, arrays = 1, data.arrays()
    for _ in range(passes):
        order = rng.permutation(lists)
        time = follow_lists(order, *arrays, len(LIST_FEATURES), sparse, dense, *late, time)
        yield RankingWeights(sparse - late[0] / time, dense - late[1] / time)


class RankingChoice(NamedTuple):
    """Weights, and the settings that were best on held-out lists.

    Attributes
    ----------
    weights
        Weights of the features before scaling.
    held, passes
        The fixed weight, and the number of passes, which is 0 where the parser alone was best.
    held_right, parser_right
        Number of right heads in held-out lists, of the chosen and of the parser's first trees.
    """

    weights: RankingWeights
    held: tuple[int, float]
    passes: int
    held_right: int
    parser_right: int


def learn_to_rank(data: RankingData, *, passes: int, folds: int, seed: int) -> RankingChoice:
    """Choose settings by cross-validation over lists, and learn from all lists with them."""
    scale = np.maximum(data.dense.std(axis=0), 1e-12)
    scaled = replace(data, dense=data.dense / scale)
    every, nothing = np.arange(len(data)), np.zeros(1 << data.bits)
    parser_only = [RankingWeights(nothing, row) for row in np.eye(2, data.dense.shape[1])]
    of_parser = [data.n_right(weights, every) for weights in parser_only]
    held = np.zeros((len(FIXED_WEIGHTS), passes), np.int64)
    if len(data) >= folds:
        fold = every * folds // len(data)  # neighbours are in one fold: they are often of one text
        for k in counted(range(folds), "perceptron over lists", unit="fold"):
            for row, fixed in enumerate(counted(FIXED_WEIGHTS)):
                after = perceptron_passes(scaled, every[fold != k], fixed, passes, seed)
                held[row] += [scaled.n_right(weights, every[fold == k]) for weights in after]
    row, column = divmod(int(held.argmax()), passes)
    if held[row, column] <= max(of_parser):
        best = int(np.argmax(of_parser))
        return RankingChoice(parser_only[best], (best, 1.0), 0, max(of_parser), max(of_parser))
    *_, last = perceptron_passes(scaled, every, FIXED_WEIGHTS[row], column + 1, seed)
    weights = RankingWeights(last.sparse, last.dense / scale)
    n_right = int(held[row, column])
    return RankingChoice(weights, FIXED_WEIGHTS[row], column + 1, n_right, max(of_parser))


class FoldLists(NamedTuple):
    """Lists of a parser that has not seen the fold, their gold trees, and all other sentences."""

    lists: CandidateLists
    right: ArcBank
    others: ArcBank


class ArcReranker(ArcEstimator):
    """A dependency parser and a reranker of its best trees.

    Attributes
    ----------
    model_ : ArcRerankModel
    info_ : Info
        `choice` has the settings and their result on held-out lists; `list_size` the mean number of
        trees in a list; `oracle`, `held_uas` and `parser_uas` the percentage of right heads on
        these lists of the best tree, of the chosen tree, and of the parser's first tree;
        `without_latent` the reason why there is no latent model, where none could be learnt.
    """

    n_states: int = positional(
        default=8, domain=whole(1, 256), words="Hidden states of latent models.", kw_only=False
    )
    order: int = parameter(2, whole(1, 2), "The order of the parser, see `ArcCRF`.")
    latent: str = parameter(
        "auto",
        one_of(LATENT_CHOICES),
        "The latent models whose log-probabilities of trees are features: spectral, em, both or "
        "none; auto takes spectral models where they help on held-out lists.",
    )
    column: str = parameter(
        "auto",
        one_of(("auto", "upos", "xpos")),
        "Tags in the features: universal tags, or the treebank's own; auto takes the treebank's "
        "own where there are at most a hundred.",
    )
    n_best: int = parameter(50, whole(1, 1000), "Trees that the parser proposes.")
    list_folds: int = parameter(
        3,
        whole(2, 100),
        "Folds of the sentences; each is parsed by a parser that learns from the others.",
    )
    passes: int = parameter(5, whole(1), "Passes of the parser over the training sentences.")
    rate: float = parameter(0.02, between(0, 1, "(]"), "Learning rate of AdaGrad.")
    list_passes: int = parameter(4, whole(1), "The most passes of the perceptron over the lists.")

    def fit(self, bank: ArcBankLike) -> Self:
        """Learn from dependency trees."""
        bank = as_arc_bank(bank)
        if len(bank) < 2 * self.list_folds:
            msg = f"{count(len(bank), 'sentence')} for {self.list_folds} folds"
            raise CorpusError(msg, hint="give more sentences, or use fewer list_folds")
        clock = PhaseClock()
        trainer, column = self._prepare(bank, self._engine()), self.tag_column(bank)
        labels = trainer.train_labels(self.seed)
        clock.tick("tags, arcs, relations")
        folds = counted(range(self.list_folds), "lists of trees", unit="fold")
        made = [self.fold_lists(trainer, labels, fold) for fold in folds]
        clock.tick("lists")
        (latent, *of_folds), reason = self._learn_latent(
            [bank, *(fold.others for fold in made)], column
        )
        clock.tick("latent models")
        data = RankingData.join(
            [
                RankingData.of(fold.lists, fold.right, models, column, TRIPLE_BITS)
                for fold, models in zip(made, of_folds, strict=True)
            ]
        )
        choice = self._choose(data)
        clock.tick("perceptron")
        parser = self.learn_parser(trainer, labels)
        latent = latent if len(choice.weights.dense) > len(LIST_FEATURES) else ()
        clock.tick("parser")
        self.info_ = rerank_info(data, choice)
        self.info_.seconds, self.info_.extra["without_latent"] = clock.seconds, reason
        record = {
            "method": "rerank", "sentences": len(bank), "tokens": bank.n_tokens,
            "iterations": choice.passes, "held": list(choice.held),
            "held_uas": self.info_.extra["held_uas"], "parser_uas": self.info_.extra["parser_uas"],
        }  # fmt: skip
        self.model_ = ArcRerankModel(column, *choice.weights, latent, parser, self.n_best, record)
        return self

    def _choose(self, data: RankingData) -> RankingChoice:
        """Choose the weights; `auto` leaves latent models out that do not help."""
        candidates, n_latent = [data], data.dense.shape[1] - len(LIST_FEATURES)
        if self.latent == "auto" and n_latent:
            candidates.insert(0, replace(data, dense=data.dense[:, : len(LIST_FEATURES)]))
        choices = [
            learn_to_rank(each, passes=self.list_passes, folds=self.list_folds, seed=self.seed)
            for each in candidates
        ]
        return max(choices, key=lambda choice: choice.held_right)  # of equals, the first

    def tag_column(self, bank: ArcBank) -> str:
        """The column of the tags of features; auto takes `xpos` if it has some tags, not too many.

        >>> from sapwood.dependency.data.bank import Arcs
        >>> ArcReranker().tag_column(ArcBank.of([Arcs(["a"], [0], upos=["X"])]))
        'upos'
        """
        if self.column != "auto":
            return self.column
        return "xpos" if 1 < len(bank.xpos_names) <= MAX_TRIPLE_TAGS else "upos"

    def fold_lists(self, trainer: ArcTrainer, labels: FeatureTable, fold: int) -> FoldLists:
        """Candidate lists of one fold by a parser trained on the other folds."""
        data = trainer.data
        block = FOLD_BLOCK if len(data.bank) >= FOLD_BLOCK * self.list_folds else 1
        is_own = np.arange(len(data.bank)) // block % self.list_folds == fold
        others = ArcTrainer.of(data.select(~is_own), trainer.tagger, self.seed)
        parses = ArcParser(self.learn_parser(others, labels), use_tags=True).parse_many(
            data.with_predicted_tags().select(is_own), jobs=self._engine()
        )
        lists = propose_trees(parses, self.n_best)
        return FoldLists(lists, right=data.bank.select(is_own), others=others.data.bank)

    def learn_parser(self, trainer: ArcTrainer, labels: FeatureTable) -> ArcModel:
        """A parser of some sentences."""
        plan = MemberPlan(f"order {self.order}", self.order, self.passes, self.rate, self.seed)
        member, _ = trainer.train_member(plan)
        method = ("first", "second")[self.order - 1]
        return trainer.model((member,), labels, method, iterations=self.passes)

    def _learn_latent(
        self, banks: list[ArcBank], column: str
    ) -> tuple[list[tuple[LatentScorer, ...]], str]:
        """Latent models of several banks, and the reason where `auto` could not learn them."""
        settings: dict[str, Any] = {
            "seen": "both", "tag_column": column, "seed": self.seed, "n_jobs": self.n_jobs,
            "engine": self.engine,
        }  # fmt: skip
        learners: list[SpectralDependency | EMDependency] = []
        if self.latent in {"auto", "spectral", "both"}:
            learners.append(SpectralDependency(self.n_states, **settings))
        if self.latent in {"em", "both"}:
            # p(words | tree) does not depend on p(tree): numbers of children make up for that
            learners.append(EMDependency(self.n_states, valence=True, **settings))
        try:
            each = counted(banks, "latent models", unit="fold")
            return [tuple(learner.fit(b).model_ for learner in learners) for b in each], ""
        except SapwoodError as error:
            if self.latent != "auto":
                raise
            return [()] * len(banks), str(error)


def rerank_info(data: RankingData, choice: RankingChoice) -> Info:
    """Percentages of right heads in held-out lists."""
    firsts = data.starts[:-1]
    n_words = np.diff(data.offsets)[firsts].sum()
    oracle = np.maximum.reduceat(data.right, firsts).sum()
    oracle, held, own = (
        float(100.0 * n / n_words) for n in (oracle, choice.held_right, choice.parser_right)
    )
    return Info(
        extra={
            "choice": choice, "list_size": float(np.diff(data.starts).mean()), "oracle": oracle,
            "held_uas": held, "parser_uas": own, "without_latent": "",
        }
    )  # fmt: skip
