"""Folds of whole documents, so that no document is judged by models that have learnt from it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from sapwood.core.arrays import IntArray
from sapwood.core.errors import SapwoodError, count

DOCUMENTS_PER_FOLD = 2  # fewest documents that are taken as such
RUNS_PER_FOLD = 8  # runs of neighbouring sentences where there are no documents
LEAST_RUN = 5  # sentences


def document_starts(marks: Sequence[Sequence[int]], n: int, n_folds: int) -> tuple[IntArray, str]:
    """First sentences of the documents of n sentences, and the kind of document.

    Parameters
    ----------
    marks
        Candidates, best first: for each, the numbers of the sentences that start a document, such
        as those of files, of marks in the files, and of groups between blank lines. The first one
        with enough documents is used, else runs of neighbours.
    n_folds
        Number of folds that the documents should fill.

    Examples
    --------
    >>> document_starts([[0, 5, 7, 9]], 12, 2)
    (array([0, 5, 7, 9]), 'documents')
    >>> document_starts([[0]], 200, 2)[0][:4], document_starts([[0]], 200, 2)[1]
    (array([ 0, 13, 26, 39]), 'runs of 13 sentences')
    """
    for starts in marks:
        if len(starts) >= DOCUMENTS_PER_FOLD * n_folds and n >= LEAST_RUN // 2 * len(starts):
            return np.asarray(starts, np.int64), "documents"
    size = max(LEAST_RUN, -(-n // (RUNS_PER_FOLD * n_folds)))
    # a short treebank has at least one run a fold
    size = max(1, min(size, n // n_folds))
    return np.arange(0, n, size), f"runs of {count(size, 'sentence')}"


def assign_folds(starts: IntArray, sizes: Sequence[int], n_folds: int) -> IntArray:
    """The fold of each document: the largest first, each to the fold with the fewest words.

    Parameters
    ----------
    starts
        The first sentence of each document.
    sizes
        Number of words of each sentence.

    Examples
    --------
    >>> assign_folds(np.array([0, 2, 3]), [5, 5, 3, 4], 2)
    array([0, 1, 1])
    """
    if n_folds < 2:
        raise SapwoodError(
            f"an audit needs at least 2 folds, not {n_folds}", hint="5 folds are usual"
        )
    if len(starts) < n_folds:
        raise SapwoodError(
            f"{count(n_folds, 'fold')} need as many documents or sentences, but there are "
            f"{len(starts)}",
            hint="give more trees, or fewer --folds",
        )
    bounds = [*np.asarray(starts).tolist(), len(sizes)]
    words = np.array([sum(sizes[a:b]) for a, b in pairwise(bounds)])
    fold, filled = np.zeros(len(words), np.int64), np.zeros(n_folds)
    for k in np.argsort(-words, kind="stable").tolist():
        fold[k] = int(np.argmin(filled))
        filled[fold[k]] += words[k]
    return fold
