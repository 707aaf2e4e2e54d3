"""The averaged perceptron over lists of trees (Collins, 2002), and how its settings are chosen.

For each list in turn: the tree that scores highest is compared with the best of those that have the
most right heads; where it has fewer, weights move from its features to the other's. The weights
that count are the mean over all steps. The weight of the parser's score is held, because steps of
another size than its own would drown it; it, and the number of passes, are those that choose best
in lists that were held out, or none at all where nothing is better than the parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.arrays import FloatArray, IntArray, starts_of
from sapwood.corpus.arcs.bank import ArcBank
from sapwood.corpus.arcs.lists import CandidateLists
from sapwood.features.arc_triples import tag_triples
from sapwood.inference.arcs.reranking import dense_features
from sapwood.models.arcs.reranker import LatentScorer

SCORE_WEIGHTS = (1.0, 3.0, 10.0, 30.0)  # tried, in standard deviations of the score


class Weights(NamedTuple):
    """What is learnt.

    Attributes
    ----------
    sparse
        Of hashed features.
    dense
        Of the columns of dense features.
    """

    sparse: FloatArray
    dense: FloatArray


@dataclass(frozen=True, eq=False)
class RankLesson:
    """Lists of trees as features, and which trees are right.

    Attributes
    ----------
    starts : [n_lists + 1]
        First tree of each list.
    offsets : [n_trees + 1]
        First word of each tree; those of a list have equally many.
    triples : [n_tokens, N_KINDS]
        Hashed features of the words of all trees.
    dense : [n_trees, n_columns]
        The parser's score first.
    right : [n_trees]
        Right heads of each tree.
    bits
        How many bits number the hashed features.
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
    ) -> RankLesson:  # fmt: skip
        """Lists with the right tree of each."""
        return cls(
            lists.starts, lists.bank.offsets, tag_triples(lists.bank, column, bits),
            dense_features(lists, latent), lists.right_heads(gold), bits,
        )  # fmt: skip

    @classmethod
    def join(cls, parts: Sequence[RankLesson]) -> RankLesson:
        """Several, one after the other."""
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

    def features(self, index: int) -> npt.NDArray[np.uint32]:
        """Hashed features of the trees of a list, shape [n_trees, n_features]."""
        first, end = self.starts[index : index + 2]
        return self.triples[self.offsets[first] : self.offsets[end]].reshape(end - first, -1)

    def trees(self, index: int) -> slice:
        """The trees of a list."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))

    def n_right(self, weights: Weights, numbers: IntArray) -> int:
        """Right heads of the trees that weights choose from some lists."""
        total = 0
        for index in numbers.tolist():
            here = self.trees(index)
            scores = weights.sparse[self.features(index)].sum(axis=1)
            scores += self.dense[here] @ weights.dense
            total += int(self.right[here][scores.argmax()])
        return total


def perceptron_passes(
    lesson: RankLesson, numbers: IntArray, score_weight: float, passes: int, seed: int
) -> Iterator[Weights]:
    """Mean weights after each pass over some lists, in another order each time."""
    rng = np.random.default_rng(seed)
    sparse, dense = np.zeros(1 << lesson.bits), np.zeros(lesson.dense.shape[1])
    dense[0] = score_weight
    # sums of steps times the time of each: the mean is the last weight minus this over the time
    late_sparse, late_dense = np.zeros_like(sparse), np.zeros_like(dense)
    time = 1
    for _ in range(passes):
        for index in rng.permutation(numbers).tolist():
            here, features = lesson.trees(index), lesson.features(index)
            scores = sparse[features].sum(axis=1) + lesson.dense[here] @ dense
            right = lesson.right[here]
            goal = int(np.where(right == right.max(), scores, -np.inf).argmax())
            guess = int(scores.argmax())
            if right[guess] < right[goal]:
                step = lesson.dense[here][goal] - lesson.dense[here][guess]
                step[0] = 0.0
                dense += step
                late_dense += time * step
                for tree, sign in ((goal, 1.0), (guess, -1.0)):
                    np.add.at(sparse, features[tree], sign)
                    np.add.at(late_sparse, features[tree], time * sign)
            time += 1
        yield Weights(sparse - late_sparse / time, dense - late_dense / time)


class Choice(NamedTuple):
    """What was learnt, and how it did on lists that were held out.

    Attributes
    ----------
    weights
        Of the features as they were given.
    score_weight, passes
        The settings that did best; 0 passes: nothing was better than the parser's score.
    held_right, parser_right
        Right heads in lists that were held out: of what was chosen, and of the parser's best.
    """

    weights: Weights
    score_weight: float
    passes: int
    held_right: int
    parser_right: int


def learn_to_rank(lesson: RankLesson, *, passes: int, folds: int, seed: int) -> Choice:
    """Choose settings on lists that are held out, and learn from all with them."""
    scale = np.maximum(lesson.dense.std(axis=0), 1e-12)
    scaled = replace(lesson, dense=lesson.dense / scale)
    n = len(lesson)
    every = np.arange(n)
    plain = Weights(np.zeros(1 << lesson.bits), np.eye(1, lesson.dense.shape[1])[0])
    parser_right = lesson.n_right(plain, every)
    held = np.zeros((len(SCORE_WEIGHTS), passes), np.int64)
    if n >= folds:
        fold = every * folds // n  # neighbours together: texts are of one kind
        for k in range(folds):
            for row, score_weight in enumerate(SCORE_WEIGHTS):
                found = perceptron_passes(scaled, every[fold != k], score_weight, passes, seed)
                held[row] += [scaled.n_right(weights, every[fold == k]) for weights in found]
    row, column = divmod(int(held.argmax()), passes)
    if held[row, column] <= parser_right:
        return Choice(plain, 1.0, 0, parser_right, parser_right)
    *_, last = perceptron_passes(scaled, every, SCORE_WEIGHTS[row], column + 1, seed)
    weights = Weights(last.sparse, last.dense / scale)
    return Choice(weights, SCORE_WEIGHTS[row], column + 1, int(held[row, column]), parser_right)
