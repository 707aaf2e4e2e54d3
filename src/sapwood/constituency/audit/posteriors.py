"""Posteriors of all sentences by models that have not learnt from their documents.

They are packed as bytes for the folds of an audit that are finished.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.audit.located import Annotation, LocatedTree, annotation_of, as_brackets
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.ensemble import EnsembleLPCFG
from sapwood.constituency.learn.ensemble_budget import Candidate
from sapwood.constituency.parse.parser import Parse, Parser
from sapwood.core.arrays import IntArray, starts_of
from sapwood.core.progress import step
from sapwood.execute import Engine

FAST_PLAN = (Candidate("spectral", 16), Candidate("cluster", 16))
LEAST_KEPT = 0.005  # posterior of brackets that are kept
_WINDOW = 32  # sentences that are parsed together


class Judgement(NamedTuple):
    """What models expect of a sentence: posteriors of brackets and tags, and the best tree."""

    label: npt.NDArray[np.int32]  # number of the label
    start: npt.NDArray[np.int16]
    end: npt.NDArray[np.int16]
    is_tag: npt.NDArray[np.bool_]
    p: npt.NDArray[np.float32]
    best: Annotation | None  # None where the models have no parse


class Labels:
    """Numbers of labels, given out as they come."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = list(names)
        self.numbers = {name: number for number, name in enumerate(names)}

    def number(self, name: str) -> int:
        """The number of a label."""
        if name not in self.numbers:
            self.numbers[name] = len(self.names)
            self.names.append(name)
        return self.numbers[name]


class Raw(NamedTuple):
    """A judgement on its way from a worker: label names instead of numbers."""

    names: tuple[str, ...]
    judgement: Judgement


def judge_fold_of_trees(
    trees: Sequence[LocatedTree],
    inside: IntArray,
    learner: EnsembleLPCFG,
    engine: Engine,
    labels: Labels,
) -> list[Judgement]:
    """Learn from all trees outside a fold, and judge the sentences inside it."""
    held = set(inside.tolist())
    outside = (as_brackets(t.words, t.annotation) for k, t in enumerate(trees) if k not in held)
    bank = Treebank.from_trees(outside)
    model = learner.fit(bank).model_
    parser = Parser(model)
    sentences = [list(trees[k].words) for k in inside.tolist()]
    windows = [sentences[k : k + _WINDOW] for k in range(0, len(sentences), _WINDOW)]
    found: list[Judgement] = []
    with step("judging", total=len(sentences), unit="sentence") as advance:
        for some in engine.stream(judge_window, windows, parser):
            found += [_numbered(raw, labels) for raw in some]
            advance(len(found))
    return found


def judge_window(window: list[list[str]], parser: Parser) -> list[Raw]:
    """Judgements of some sentences."""
    return [_judgement(parse) for parse in parser.parse_together(window)]


def _judgement(parse: Parse) -> Raw:
    names, label, start, end, is_tag, p = parse.posterior_columns(LEAST_KEPT)
    used, number = np.unique(label, return_inverse=True)
    best = annotation_of(parse.tree) if parse.kind == "parsed" else None
    return Raw(
        tuple(names[k] for k in used.tolist()),
        Judgement(
            number.astype(np.int32), start.astype(np.int16), end.astype(np.int16), is_tag,
            p.astype(np.float32), best,
        ),
    )  # fmt: skip


def _numbered(raw: Raw, labels: Labels) -> Judgement:
    numbers = np.array([labels.number(name) for name in raw.names], np.int32)
    judgement = raw.judgement
    return judgement._replace(label=numbers[judgement.label] if len(numbers) else judgement.label)


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
