"""Judgements of trees as bytes, for folds of an audit that are finished."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from sapwood.constituency.audit.located import Annotation
from sapwood.constituency.audit.posteriors import Judgement, Labels
from sapwood.core.arrays import starts_of


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
