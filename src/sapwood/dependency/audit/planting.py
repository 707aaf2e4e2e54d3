"""Errors planted in dependency trees: evidence of how well errors are found, without hand labels.

Words are drawn at random. Wrong heads are drawn by the posteriors of the models and among
neighbours in the tree, and keep a tree; wrong relations and tags by the confusions of the models on
all sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sapwood.auditing.scoring import is_about
from sapwood.dependency.audit.edits import UNTAGGED, Edit
from sapwood.dependency.audit.located import Annotation
from sapwood.dependency.audit.posteriors import Judgement

NEIGHBOUR = 0.05  # weight of the head of the head and of siblings, beside posteriors
_FLOOR = 1e-3  # of the weight of any label


class Planted(NamedTuple):
    """A planted error: its kind and the word."""

    kind: str
    word: int

    def is_hit(self, edit: Edit) -> bool:
        """Whether an edit is about this error."""
        if self.kind == "tag":
            return edit.is_tag and self.word in edit.words
        if edit.is_tag or self.word not in edit.words:
            return False
        is_same = (edit.kind == "head") == (self.kind == "head")
        return is_same and is_about(1, len(edit.words))

    def probability(self, annotation: Annotation, judgement: Judgement) -> float:
        """Posterior of a planted error in the annotation that contains it."""
        k = self.word - 1
        if self.kind == "tag":
            return judgement.tags[k].get(annotation.upos[k], 0.0)
        if self.kind == "head":
            return judgement.heads[k].get(annotation.heads[k], 0.0)
        found = judgement.relations_to(k, annotation.heads[k])
        return found.get(annotation.relations[k], 0.0)


@dataclass
class Confusions:
    """How probable models find other relations and tags than those annotated, over all words."""

    relations: dict[str, dict[str, float]] = field(default_factory=dict)
    tags: dict[str, dict[str, float]] = field(default_factory=dict)
    n_annotated: Counter[tuple[str, str]] = field(default_factory=Counter)

    def expected_count(self, kind: str, old: str, new: str) -> float:
        """How often planting at every word would put `old` where `new` was.

        The kind is `tag` or `relation`.
        """
        row = (self.tags if kind == "tag" else self.relations).get(new, {})
        total = sum(row.values())
        return self.n_annotated[kind, new] * row.get(old, 0.0) / total if total else 0.0

    def add(self, annotation: Annotation, judgement: Judgement) -> None:
        """Add the confusions of one sentence; relations count if the models find the same head."""
        for k, tag in enumerate(annotation.upos):
            self.n_annotated.update([("tag", tag), ("relation", annotation.relations[k])])
            row = self.tags.setdefault(tag, {})
            for name, p in judgement.tags[k].items():
                if name != tag:
                    row[name] = row.get(name, 0.0) + p
            relation = annotation.relations[k]
            row = self.relations.setdefault(relation, {})
            if annotation.heads[k] and annotation.heads[k] == judgement.best.heads[k]:
                for name, p in judgement.relations[k].items():
                    if name not in {relation, "root"}:
                        row[name] = row.get(name, 0.0) + p


def plant(
    annotation: Annotation,
    judgement: Judgement,
    confusions: Confusions,
    rate: float,
    rng: np.random.Generator,
) -> tuple[Annotation, list[Planted]]:
    """A copy of an annotation in which each tag and each arc is wrong with some probability.

    Half of the wrong arcs have a wrong head, the others a wrong relation.
    """
    upos = list(annotation.upos)
    heads, relations = list(annotation.heads), list(annotation.relations)
    planted = list[Planted]()
    for k in np.flatnonzero(rng.random(len(upos)) < rate).tolist():
        new = _draw(confusions.tags.get(upos[k], {}), confusions.tags, upos[k], rng)
        if new is not None and upos[k] != UNTAGGED:
            upos[k] = new
            planted.append(Planted("tag", k + 1))
    for k in np.flatnonzero(rng.random(len(heads)) < rate).tolist():
        if heads[k] == 0:
            continue
        is_head = rng.random() < 0.5
        head = _other_head(k + 1, heads, judgement.heads[k], rng) if is_head else None
        if head is not None:
            heads[k] = head
            planted.append(Planted("head", k + 1))
            continue
        row = confusions.relations.get(relations[k], {})
        relation = _draw(row, confusions.relations, relations[k], rng)
        if relation is not None:
            relations[k] = relation
            planted.append(Planted("relation", k + 1))
    return Annotation(tuple(upos), tuple(heads), tuple(relations)), planted


def _draw(
    row: Mapping[str, float], names: Mapping[str, object], but: str, rng: np.random.Generator
) -> str | None:
    """Draw another label by the weights of a row; uniformly if the row is empty."""
    weights = {name: p for name, p in row.items() if name != but}
    if not weights:
        weights = {name: _FLOOR for name in names if name not in {but, "root", UNTAGGED}}
    if not weights:
        return None
    ordered = sorted(weights)
    p = np.array([weights[name] for name in ordered])
    return ordered[int(rng.choice(len(ordered), p=p / p.sum()))]


def _other_head(
    word: int, heads: list[int], posterior: Mapping[int, float], rng: np.random.Generator
) -> int | None:
    """Draw another head for a word that keeps a tree; None if no head does."""
    below = {word}
    while more := {w for w, head in enumerate(heads, 1) if head in below} - below:
        below |= more
    weights = dict.fromkeys(
        [w for w, head in enumerate(heads, 1) if head == heads[word - 1]], NEIGHBOUR
    )
    weights[heads[heads[word - 1] - 1]] = NEIGHBOUR
    for head, likely in posterior.items():
        weights[head] = weights.get(head, 0.0) + likely
    names = sorted(set(weights) - below - {0, heads[word - 1]})
    if not names:
        return None
    p = np.array([weights[name] for name in names])
    return names[int(rng.choice(len(names), p=p / p.sum()))]
