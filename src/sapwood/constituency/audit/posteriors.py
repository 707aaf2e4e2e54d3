"""Posteriors of all sentences by models that have not learnt from their documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sapwood.constituency.audit.located import Annotation, LocatedTree, annotation_of, as_brackets
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.ensemble import EnsembleLPCFG
from sapwood.constituency.learn.ensemble_budget import Candidate
from sapwood.constituency.parse.parser import Parse, Parser
from sapwood.core.arrays import IntArray
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
