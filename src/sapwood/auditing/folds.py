"""Folds of whole documents, so that no document is judged by models that have learnt from it.

Finished folds are kept in files, so that an interrupted audit continues with the missing ones.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np

from sapwood.core.arrays import IntArray
from sapwood.core.errors import SapwoodError, count
from sapwood.core.outputs import open_output, write_bytes

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


T = TypeVar("T")
NOTE = "audit.json"
_SPOILT = (
    OSError, EOFError, ValueError, KeyError, IndexError, NotImplementedError, BadZipFile,
    zlib.error,
)  # fmt: skip


class FinishedFolds:
    """The folds of one audit that are finished, each in a file of a folder.

    Parameters
    ----------
    folder
        Made when the first fold is kept; None keeps nothing.
    origin
        Everything that the folds depend on, for JSON; folds of another origin are refused.
    """

    def __init__(self, folder: Path | None, origin: Mapping[str, Any]) -> None:
        self.folder, self.origin = folder, dict(origin)
        if folder is not None and (folder / NOTE).exists():
            self._check_origin(folder)

    def _check_origin(self, folder: Path) -> None:
        try:
            before = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = None
        if before != self.origin:
            changed = [
                k
                for k in self.origin
                if not isinstance(before, dict) or before.get(k) != self.origin[k]
            ]
            raise SapwoodError(
                f"{folder}: holds the folds of another audit ({', '.join(changed)} differ)",
                hint=f"delete {folder} to start again, or repeat the command that began it",
            )

    def load(self, k: int, unpack: Callable[[bytes], T]) -> T | None:
        """The saved result of a fold; None where it is not finished."""
        path = None if self.folder is None else self.folder / f"fold-{k + 1}.npz"
        if path is None or not path.exists():
            return None
        try:
            return unpack(path.read_bytes())
        except _SPOILT as error:
            msg = f"{path}: cannot be read as a finished fold ({error})"
            raise SapwoodError(
                msg, hint="delete this file; its fold is then learnt again"
            ) from error

    def keep(self, k: int, data: bytes) -> None:
        """Save the result of a fold."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / NOTE).exists():
            with open_output(self.folder / NOTE) as file:
                file.write(json.dumps(self.origin, indent=2) + "\n")
        write_bytes(self.folder / f"fold-{k + 1}.npz", data)


def remove_folds(folder: Path) -> None:
    """Remove the files of all folds of an audit, and their folder if nothing else is in it."""
    if not (folder / NOTE).exists():
        return
    for path in [*folder.glob("fold-*.npz"), folder / NOTE]:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def hash_items(items: Iterable[object]) -> str:
    """A hash of objects in order, by their representations."""
    made = hashlib.sha256()
    for item in items:
        made.update(repr(item).encode())
    return made.hexdigest()
