"""The averaged perceptron over lists of trees (Collins, 2002), and how its settings are chosen.

For each list in turn: the tree that scores highest is compared with the best of those that have the
most right heads; where it has fewer, weights move from its features to the other's. The weights
that count are the mean over all steps. What the parser says of a tree, its score or the heads that
it expects to be right, has a weight that is held: whatever is more right than the guess is less
likely by the parser, so that every step would be against it. Which of the two counts, its weight,
and the number of passes are those that choose best in lists that were held out; no pass at all
where nothing is better than the parser by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.dependency.data.bank import ArcBank
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.model.reranker import LIST_FEATURES, LatentScorer
from sapwood.dependency.parse.arc_triples import tag_triples
from sapwood.dependency.parse.reranking import dense_features
from sapwood.progress import counted

# columns of what the parser says, and their weights in standard deviations, that are tried
HELD = tuple((column, weight) for column in range(2) for weight in (3.0, 10.0, 30.0, 100.0))


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
        The parser's score first, then how many heads it expects to be right.
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

    def n_right(self, weights: Weights, numbers: IntArray) -> int:
        """Right heads of the trees that weights choose from some lists."""
        from sapwood.dependency.learn.kernels.list_perceptron import count_right

        return int(count_right(numbers, *self.arrays(), *weights))

    def arrays(self) -> tuple[Any, ...]:
        """What kernels read."""
        dense = np.ascontiguousarray(self.dense)
        return self.starts, self.offsets, self.triples, dense, self.right


def perceptron_passes(
    lesson: RankLesson, numbers: IntArray, held: tuple[int, float], passes: int, seed: int
) -> Iterator[Weights]:
    """Mean weights after each pass over some lists, in another order each time.

    Parameters
    ----------
    held
        A column of what the parser says, and the weight that it has all the time; the other
        column has none.
    """
    from sapwood.dependency.learn.kernels.list_perceptron import follow_lists

    rng = np.random.default_rng(seed)
    sparse, dense = np.zeros(1 << lesson.bits), np.zeros(lesson.dense.shape[1])
    dense[held[0]] = held[1]
    # sums of steps times the time of each: the mean is the last weight minus this over the time
    late = np.zeros_like(sparse), np.zeros_like(dense)
    time, arrays = 1, lesson.arrays()
    for _ in range(passes):
        order = rng.permutation(numbers)
        time = follow_lists(order, *arrays, len(LIST_FEATURES), sparse, dense, *late, time)
        yield Weights(sparse - late[0] / time, dense - late[1] / time)


class Choice(NamedTuple):
    """What was learnt, and how it did on lists that were held out.

    Attributes
    ----------
    weights
        Of the features as they were given.
    held, passes
        The settings that did best; 0 passes: nothing was better than the parser by itself.
    held_right, parser_right
        Right heads in lists that were held out: of what was chosen, and by what the parser says.
    """

    weights: Weights
    held: tuple[int, float]
    passes: int
    held_right: int
    parser_right: int


def learn_to_rank(lesson: RankLesson, *, passes: int, folds: int, seed: int) -> Choice:
    """Choose settings on lists that are held out, and learn from all with them."""
    scale = np.maximum(lesson.dense.std(axis=0), 1e-12)
    scaled = replace(lesson, dense=lesson.dense / scale)
    n = len(lesson)
    every = np.arange(n)
    # what the parser says, by itself
    plain = [Weights(np.zeros(1 << lesson.bits), row) for row in np.eye(2, lesson.dense.shape[1])]
    by_itself = [lesson.n_right(weights, every) for weights in plain]
    parser_right = max(by_itself)
    held = np.zeros((len(HELD), passes), np.int64)
    if n >= folds:
        fold = every * folds // n  # neighbours together: texts are of one kind
        for k in counted(range(folds), "perceptron over lists", unit="fold"):
            for row, settings in enumerate(counted(HELD)):
                found = perceptron_passes(scaled, every[fold != k], settings, passes, seed)
                held[row] += [scaled.n_right(weights, every[fold == k]) for weights in found]
    row, column = divmod(int(held.argmax()), passes)
    if held[row, column] <= parser_right:
        best = int(np.argmax(by_itself))
        return Choice(plain[best], (best, 1.0), 0, parser_right, parser_right)
    *_, last = perceptron_passes(scaled, every, HELD[row], column + 1, seed)
    weights = Weights(last.sparse, last.dense / scale)
    return Choice(weights, HELD[row], column + 1, int(held[row, column]), parser_right)
