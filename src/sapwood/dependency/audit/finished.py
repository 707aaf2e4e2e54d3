"""Judgements of dependency trees as bytes, for folds of an audit that are finished."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from sapwood.core.arrays import starts_of
from sapwood.dependency.audit.located import Annotation
from sapwood.dependency.audit.posteriors import Judgement

_MAPS = ("heads", "relations", "tags", "annotated_relations")  # posteriors for each word


def pack_judgements(judgements: Sequence[Judgement]) -> bytes:
    """Judgements as the bytes of arrays; `unpack_judgements` gives the same numbers again."""
    numbers: dict[str, int] = {}

    def number(name: int | str) -> int:
        return name if isinstance(name, int) else numbers.setdefault(name, len(numbers))

    columns: dict[str, Any] = {"n_words": np.array([len(one.heads) for one in judgements])}
    for field in _MAPS:
        maps: list[Mapping[Any, float]] = [row for one in judgements for row in getattr(one, field)]
        columns[f"{field}_n"] = np.array([len(row) for row in maps], np.int32)
        columns[f"{field}_key"] = np.array([number(k) for row in maps for k in row], np.int32)
        columns[f"{field}_p"] = np.array([p for row in maps for p in row.values()], np.float64)
    words = [word for one in judgements for word in zip(*one.best, strict=True)]
    columns["best"] = np.array([[number(x) for x in w] for w in words], np.int32).reshape(-1, 3)
    given = [head for one in judgements for head in one.annotated_heads]
    columns["annotated_heads"] = np.array(given, np.int32)
    out = io.BytesIO()
    np.savez_compressed(out, names=np.array(list(numbers), np.str_), **columns)
    return out.getvalue()


def unpack_judgements(data: bytes) -> list[Judgement]:
    """Judgements from their bytes."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    names = [str(name) for name in arrays["names"]]
    maps = {field: _maps(arrays, field, None if field == "heads" else names) for field in _MAPS}
    rows = [(names[a], head, names[b]) for a, head, b in arrays["best"].tolist()]
    heads = arrays["annotated_heads"].tolist()
    at = starts_of(arrays["n_words"]).tolist()
    judgements = list[Judgement]()
    for a, b in pairwise(at):
        upos, governors, relations = zip(*rows[a:b], strict=True)
        of_heads, of_relations, of_tags, annotated = (tuple(maps[name][a:b]) for name in _MAPS)
        best = Annotation(upos, governors, relations)
        judgements.append(
            Judgement(of_heads, of_relations, of_tags, best, tuple(heads[a:b]), annotated)
        )
    return judgements


def _maps(
    arrays: Mapping[str, npt.NDArray[Any]], field: str, names: Sequence[str] | None
) -> list[dict[Any, float]]:
    """The posteriors of each word, by the names of labels or by numbers."""
    keys = arrays[f"{field}_key"].tolist()
    p = arrays[f"{field}_p"].tolist()
    named = keys if names is None else [names[k] for k in keys]
    at = starts_of(arrays[f"{field}_n"]).tolist()
    return [dict(zip(named[a:b], p[a:b], strict=True)) for a, b in pairwise(at)]
