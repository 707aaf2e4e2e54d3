"""Finished folds in files, so that an interrupted audit goes on with the folds that are missing."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sapwood.constituency.audit.located import Annotation, LocatedTree
from sapwood.constituency.audit.posteriors import Judgement, Labels
from sapwood.core.arrays import starts_of
from sapwood.core.errors import SapwoodError
from sapwood.core.outputs import open_output, write_bytes

NOTE = "audit.json"


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
            changed = [k for k in self.origin if not before or before.get(k) != self.origin[k]]
            raise SapwoodError(
                f"{folder}: holds the folds of another audit ({', '.join(changed)} differ)",
                hint=f"delete {folder} to begin anew, or run what it was begun with",
            )

    def load(self, k: int, labels: Labels) -> list[Judgement] | None:
        """The judgements of a fold; None where it is not finished."""
        path = None if self.folder is None else self.folder / f"fold-{k + 1}.npz"
        if path is None or not path.exists():
            return None
        try:
            return unpack(path.read_bytes(), labels)
        except (OSError, ValueError, KeyError) as error:
            msg = f"{path}: cannot be read as a finished fold ({error})"
            raise SapwoodError(
                msg, hint="delete this file; its fold is then learnt again"
            ) from error

    def keep(self, k: int, judgements: Sequence[Judgement], labels: Labels) -> None:
        """Write the judgements of a fold."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / NOTE).exists():
            with open_output(self.folder / NOTE) as file:
                file.write(json.dumps(self.origin, indent=2) + "\n")
        write_bytes(self.folder / f"fold-{k + 1}.npz", pack(judgements, labels))


def remove_folds(folder: Path) -> None:
    """Remove the files of all folds of an audit, and their folder if nothing else is in it."""
    if not (folder / NOTE).exists():
        return
    for path in [*folder.glob("fold-*.npz"), folder / NOTE]:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()


def digest(trees: Sequence[LocatedTree]) -> str:
    """A hash of the words and annotations of trees, in their order."""
    made = hashlib.sha256()
    for tree in trees:
        made.update(repr((tree.words, tree.annotation)).encode())
    return made.hexdigest()


def pack(judgements: Sequence[Judgement], labels: Labels) -> bytes:
    """Judgements as the bytes of arrays."""
    own = Labels()
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in judgements])
        for name in ("label", "start", "end", "is_tag", "p")
    }
    columns["label"] = np.array([own.number(labels.names[k]) for k in columns["label"]], np.int32)
    best = [one.best for one in judgements]
    tags = [own.number(tag) for one in best if one for tag in one.tags]
    brackets = [(own.number(a), i, j) for one in best if one for a, i, j in one.brackets]
    out = io.BytesIO()
    np.savez_compressed(
        out, **columns, names=np.array(own.names),
        sizes=np.array([len(one.label) for one in judgements]),
        n_tags=np.array([-1 if one is None else len(one.tags) for one in best]),
        n_brackets=np.array([-1 if one is None else len(one.brackets) for one in best]),
        tags=np.array(tags, np.int32), brackets=np.array(brackets, np.int32).reshape(-1, 3),
    )  # fmt: skip
    return out.getvalue()


def unpack(data: bytes, labels: Labels) -> list[Judgement]:
    """Judgements from their bytes; their labels get numbers in the order of the file."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    names = [str(name) for name in arrays["names"]]
    numbers = np.array([labels.number(name) for name in names], np.int32)
    at = starts_of(arrays["sizes"])
    tag_at = starts_of(np.maximum(arrays["n_tags"], 0))
    bracket_at = starts_of(np.maximum(arrays["n_brackets"], 0))
    judgements = []
    for k, n_tags in enumerate(arrays["n_tags"].tolist()):
        rows = slice(at[k], at[k + 1])
        best = None
        if n_tags >= 0:
            tags = arrays["tags"][tag_at[k] : tag_at[k + 1]].tolist()
            some = arrays["brackets"][bracket_at[k] : bracket_at[k + 1]].tolist()
            brackets = tuple((names[a], i, j) for a, i, j in some)
            best = Annotation(tuple(names[tag] for tag in tags), brackets)
        judgements.append(
            Judgement(
                numbers[arrays["label"][rows]], arrays["start"][rows], arrays["end"][rows],
                arrays["is_tag"][rows], arrays["p"][rows], best,
            )
        )  # fmt: skip
    return judgements
