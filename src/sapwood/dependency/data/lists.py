"""Candidate lists: the trees that a parser proposes for each sentence, with its scores.

A file of candidate lists is CoNLL-U with the trees of a sentence one after the other, each with the
comments

    # sentence = 3        number of the sentence, the same for all trees of a list
    # score = -12.25      score of the parser that made the tree, higher is better

as `sapwood depend parse --n-best` writes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import FloatArray, IntArray, ranges, starts_of
from sapwood.core.errors import CorpusError, SapwoodValueError, count
from sapwood.corpora.files import Source
from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.data.reader import read_arcs

LIST_COMMENTS = {"sentence", "rank", "score"}


@dataclass(frozen=True, eq=False, repr=False)
class CandidateLists:
    """The trees that a parser proposes for each sentence, with its scores.

    Attributes
    ----------
    bank
        All trees, list after list; the trees of a list have the same words and tags.
    starts : [n_lists + 1]
        First tree of each list, and the number of trees at the end.
    score : [n_trees]
        Scores of the parser; higher is better.

    Examples
    --------
    >>> tagged = ArcBank.of([Arcs(["dogs", "bark"], [2, 0])])
    >>> heads, scores = np.array([[2, 0], [0, 1]]), np.array([-0.1, -3])
    >>> lists = CandidateLists.of_heads(tagged, [heads], [scores])
    >>> lists
    <CandidateLists: 1 list, 2 trees>
    >>> lists.right_heads(tagged).tolist(), lists.heads(0).tolist()
    ([2, 0], [[2, 0], [0, 1]])
    """

    bank: ArcBank
    starts: IntArray
    score: FloatArray

    def __post_init__(self) -> None:
        sizes = np.diff(self.starts)
        if (sizes < 1).any() or self.starts[-1] != len(self.bank):
            msg = f"lists of {sizes.tolist()[:8]} trees do not cut {len(self.bank)} trees"
            raise SapwoodValueError(msg, hint="every list has at least one tree")

    @classmethod
    def of_heads(
        cls, tagged: ArcBank, heads: Sequence[npt.NDArray[Any]], scores: Sequence[FloatArray]
    ) -> CandidateLists:
        """Lists of trees without relations.

        Parameters
        ----------
        tagged
            One sentence a list, with the tags that the parser has seen.
        heads, scores
            Arrays for each list, of the shapes [n_trees, n_words] and [n_trees].
        """
        sizes = np.array([len(each) for each in heads], np.int64)
        sentence = np.repeat(np.arange(len(tagged)), sizes)
        first, end = tagged.offsets[sentence], tagged.offsets[sentence + 1]
        rows = ranges(first, end)
        columns: dict[str, Any] = {
            name: getattr(tagged, name)[rows] for name in ("word", "upos", "xpos")
        }
        head = np.concatenate([np.asarray(each, np.int32).ravel() for each in heads])
        bank = replace(
            tagged, offsets=starts_of(end - first), head=head, relation=np.zeros_like(head),
            relations=("_",), texts=(), **columns,
        )  # fmt: skip
        return cls(bank, starts_of(sizes), np.concatenate(scores).astype(np.float64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __repr__(self) -> str:
        return f"<CandidateLists: {count(len(self), 'list')}, {count(len(self.bank), 'tree')}>"

    def heads(self, index: int) -> npt.NDArray[np.int32]:
        """The trees of one list, shape [n_trees, n_words]."""
        first, end = self.starts[index], self.starts[index + 1]
        rows = self.bank.head[self.bank.offsets[first] : self.bank.offsets[end]]
        return rows.reshape(end - first, -1)

    def select(self, lists: Sequence[int] | npt.NDArray[Any]) -> CandidateLists:
        """Some lists, given by numbers or by a mask."""
        numbers = np.arange(len(self))[np.asarray(lists)]
        first, end = self.starts[numbers], self.starts[numbers + 1]
        trees = ranges(first, end)
        return CandidateLists(self.bank.select(trees), starts_of(end - first), self.score[trees])

    def right_heads(self, gold: ArcBank) -> IntArray:
        """Number of right heads of each tree, shape [n_trees], by the gold tree of each list."""
        hint = "give the right tree of each list, in order"
        if len(gold) != len(self):
            msg = f"{count(len(self), 'list')}, but {len(gold):,} right trees"
            raise SapwoodValueError(msg, hint=hint)
        sentence = np.repeat(np.arange(len(self)), np.diff(self.starts))
        right = gold.head[ranges(gold.offsets[sentence], gold.offsets[sentence + 1])]
        if len(right) != len(self.bank.head):
            msg = "lists and right trees are of sentences of different lengths"
            raise SapwoodValueError(msg, hint=hint)
        is_right = (right == self.bank.head).astype(np.int64)
        return np.asarray(np.add.reduceat(is_right, self.bank.offsets[:-1]), np.int64)

    def best(self, score: npt.NDArray[Any]) -> IntArray:
        """The tree of each list with the highest score, the first of equals, shape [n_lists]."""
        order = np.lexsort((-np.arange(len(score)), score))
        best = np.empty(len(self), np.int64)
        of_list = np.repeat(np.arange(len(self)), np.diff(self.starts))
        best[of_list[order]] = order  # the last one assigned stays
        return best


def read_lists(
    sources: Source | Iterable[Source],
    *,
    may_be_empty: bool = False,
    encoding: str = "utf-8",
    skipped: list[CorpusError] | None = None,
    left_out: list[str] | None = None,
) -> CandidateLists:
    """Read lists of trees from CoNLL-U with comments; see the top of this module.

    Parameters
    ----------
    sources, may_be_empty, encoding, skipped, left_out
        As `read_arcs` takes them.

    Raises
    ------
    CorpusError
        Also where a tree lacks its comments, or a list has trees of different words.
    """
    bank = read_arcs(
        sources, may_be_empty=may_be_empty, encoding=encoding, skipped=skipped, left_out=left_out
    )
    names, scores = [], []
    for number, text in enumerate(bank.texts or [""] * len(bank), 1):
        values = comment_values(text.split("\n"))
        names.append(values.get("sentence"))
        scores.append(_score(values.get("score")))
        if names[-1] is None or scores[-1] is None:
            msg = f"tree {number} has no comments `# sentence = N` and `# score = X`"
            raise CorpusError(msg, hint="`sapwood depend parse --n-best K` writes lists")
    is_new = [k == 0 or name != names[k - 1] for k, name in enumerate(names)]
    starts = np.append(np.flatnonzero(is_new), len(names)).astype(np.int64)
    lists = CandidateLists(bank, starts, np.array(scores, np.float64))
    _check_words(lists)
    return lists


def comment_values(lines: Iterable[str]) -> dict[str, str]:
    r"""Values of comments `# name = value`, by name.

    >>> comment_values(["# sentence = 3", "#note", "1\tx"])
    {'sentence': '3'}
    """
    pairs = (line[1:].partition("=") for line in lines if line.startswith("#") and "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def without_list_comments(arcs: Arcs) -> Arcs:
    """A tree without the comments of candidate lists."""
    kept = [line for line in arcs.comments if not comment_values([line]).keys() & LIST_COMMENTS]
    return replace(arcs, comments=tuple(kept))


def _score(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _check_words(lists: CandidateLists) -> None:
    bank = lists.bank
    sizes = np.diff(bank.offsets)
    first = np.repeat(lists.starts[:-1], np.diff(lists.starts))
    same = sizes == sizes[first]
    if same.all():
        rows = ranges(bank.offsets[first], bank.offsets[first + 1])
        same = np.logical_and.reduceat(bank.word == bank.word[rows], bank.offsets[:-1])
    if not same.all():
        number = int(np.flatnonzero(~same)[0]) + 1
        msg = f"tree {number} has other words than the first one of its list"
        raise CorpusError(msg, hint="trees of a list are of one sentence: is `# sentence` right?")
