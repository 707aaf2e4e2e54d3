"""Errors planted in annotated trees: evidence of how well errors are found, without hand labels.

Places are drawn at random; the wrong annotation is drawn from the confusions of the models
on all trees, so that wrong labels and tags are those that are easily mistaken for the right ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sapwood.auditing.scoring import is_about
from sapwood.constituency.audit.located import Annotation, Bracket
from sapwood.constituency.audit.parts import Edit
from sapwood.constituency.audit.posteriors import Judgement

_OPERATIONS = ("label", "boundary", "missing", "extra")  # on brackets; `tag` is the one on tags
_FLOOR = 1e-3  # of the weight of a label that models never confuse with another


class Planted(NamedTuple):
    """A planted error: the wrong annotation, and the one that it replaced."""

    kind: str
    wrong: tuple[Bracket, ...]
    right: tuple[Bracket, ...]

    def is_hit(self, edit: Edit) -> bool:
        """Whether an edit is about this error: removes what is wrong or adds what was right."""
        if (self.kind == "tag") != edit.is_tag:
            return False
        wrong, right = set(self.wrong) & set(edit.removed), set(self.right) & set(edit.added)
        return is_about(len(wrong) + len(right), len(edit.removed) + len(edit.added))

    def probability(self, posteriors: Mapping[Bracket, float]) -> float:
        """The probability of the planted annotation, by the posteriors of tags or brackets."""
        if self.wrong:
            return min(posteriors.get(bracket, 0.0) for bracket in self.wrong)
        return 1.0 - max(posteriors.get(bracket, 0.0) for bracket in self.right)


@dataclass
class Confusions:
    """How probable models find other labels than those annotated, summed over all trees.

    Attributes
    ----------
    tags, labels
        For each tag and each label of a bracket, the posteriors of others in its place.
    added
        Posteriors of brackets over words that have none, by label.
    """

    tags: dict[str, Counter[str]] = field(default_factory=dict)
    labels: dict[str, Counter[str]] = field(default_factory=dict)
    added: Counter[str] = field(default_factory=Counter)

    def add(self, annotation: Annotation, judgement: Judgement, names: Sequence[str]) -> None:
        """Add the confusions of one sentence."""
        at: dict[tuple[int, int], list[str]] = {}
        for label, i, j in annotation.brackets:
            at.setdefault((i, j), []).append(label)
        columns = (judgement.label, judgement.start, judgement.end, judgement.is_tag, judgement.p)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, i, j, is_tag, p in rows:
            name = names[number]
            if is_tag:
                if name != (tag := annotation.tags[i]):
                    self.tags.setdefault(tag, Counter())[name] += p
            elif here := at.get((i, j)):
                if name not in here:
                    for label in here:
                        self.labels.setdefault(label, Counter())[name] += p
            else:
                self.added[name] += p


class _Node:
    """A phrase that can be changed."""

    __slots__ = ("above", "end", "kids", "label", "start")

    def __init__(self, label: str, start: int, end: int, above: _Node | None) -> None:
        self.label, self.start, self.end, self.above = label, start, end, above
        self.kids: list[_Node | int] = []

    @property
    def bracket(self) -> Bracket:
        return self.label, self.start, self.end


def _grow(annotation: Annotation) -> tuple[_Node, list[_Node]]:
    root = _Node("", 0, len(annotation.tags), None)
    stack, nodes, at = [root], [], 0

    def leaves_up_to(end: int) -> None:
        nonlocal at
        while at < end:
            while at >= stack[-1].end:
                stack.pop()
            stack[-1].kids.append(at)
            at += 1

    for label, i, j in annotation.brackets:
        leaves_up_to(i)
        while stack[-1].end <= i:
            stack.pop()
        node = _Node(label, i, j, stack[-1])
        stack[-1].kids.append(node)
        stack.append(node)
        nodes.append(node)
    leaves_up_to(root.end)
    return root, nodes


def _brackets(root: _Node) -> tuple[Bracket, ...]:
    out, stack = [], [root]
    while stack:
        node = stack.pop()
        out.append(node.bracket)
        stack.extend(kid for kid in reversed(node.kids) if isinstance(kid, _Node))
    return tuple(out[1:])


def plant_in_tree(
    annotation: Annotation, confusions: Confusions, rate: float, rng: np.random.Generator
) -> tuple[Annotation, list[Planted]]:
    """A copy of an annotation in which each tag and bracket is made wrong with some probability."""
    tags, planted = list(annotation.tags), list[Planted]()
    for i in np.flatnonzero(rng.random(len(tags)) < rate).tolist():
        new = _draw(confusions.tags.get(tags[i], Counter()), confusions.tags, tags[i], rng)
        if new is not None:
            planted.append(Planted("tag", ((new, i, i + 1),), ((tags[i], i, i + 1),)))
            tags[i] = new
    chosen = np.flatnonzero(rng.random(len(annotation.brackets)) < rate).tolist()
    if not chosen:
        return Annotation(tuple(tags), annotation.brackets), planted
    root, nodes = _grow(annotation)
    for k in chosen:
        first = int(rng.integers(len(_OPERATIONS)))
        for kind in _OPERATIONS[first:] + _OPERATIONS[:first]:
            done = _operate(nodes[k], kind, confusions, rng)
            if done is not None:
                planted.append(done)
                break
    return Annotation(tuple(tags), _brackets(root)), planted


def _draw(
    row: Counter[str], others: Iterable[str], but: str, rng: np.random.Generator
) -> str | None:
    """One of the labels of a row, with probabilities like its weights; None without any."""
    weights: Mapping[str, float] = row or dict.fromkeys(others, _FLOOR)
    names = sorted(name for name in weights if name != but)
    if not names:
        return None
    p = np.array([weights[name] for name in names])
    return names[int(rng.choice(len(names), p=p / p.sum()))]


def _operate(
    node: _Node, kind: str, confusions: Confusions, rng: np.random.Generator
) -> Planted | None:
    """Make a bracket wrong in one way; None where that is not possible."""
    before = node.bracket
    if node.above is None or node not in node.above.kids:
        return None  # an operation before has removed it
    if kind == "label":
        row = confusions.labels.get(node.label, Counter())
        new = _draw(row, confusions.labels, node.label, rng)
        if new is None:
            return None
        node.label = new
        return Planted(kind, (node.bracket,), (before,))
    if kind == "missing":
        return _drop(node)
    if kind == "extra":
        return _insert(node, confusions, rng)
    return _move(node, rng)


def _drop(node: _Node) -> Planted | None:
    above = node.above
    assert above is not None
    if above.above is None:  # the only phrase below the root
        return None
    at = above.kids.index(node)
    above.kids[at : at + 1] = node.kids
    for kid in node.kids:
        if isinstance(kid, _Node):
            kid.above = above
    return Planted("missing", (), (node.bracket,))


def _insert(node: _Node, confusions: Confusions, rng: np.random.Generator) -> Planted | None:
    n = len(node.kids)
    label = _draw(confusions.added, confusions.labels, "", rng)
    if n < 3 or label is None:
        return None
    size = int(rng.integers(2, n))
    first = int(rng.integers(0, n - size + 1))
    inside = node.kids[first : first + size]
    new = _Node(label, _start(inside[0]), _end(inside[-1]), node)
    new.kids = inside
    for kid in inside:
        if isinstance(kid, _Node):
            kid.above = new
    node.kids[first : first + size] = [new]
    return Planted("extra", (new.bracket,), ())


def _start(kid: _Node | int) -> int:
    return kid if isinstance(kid, int) else kid.start


def _end(kid: _Node | int) -> int:
    return kid + 1 if isinstance(kid, int) else kid.end


def _move(node: _Node, rng: np.random.Generator) -> Planted | None:
    """Attach the last child of a phrase higher, or a phrase to its left neighbour."""
    options = []
    above = node.above
    assert above is not None
    at = above.kids.index(node)
    left = above.kids[at - 1] if at else None
    if isinstance(left, _Node) and len(above.kids) > 2:
        options.append("down")
    if above.above is not None and above.kids[-1] is node and len(above.kids) > 1:
        options.append("up")
    if not options:
        return None
    if options[int(rng.integers(len(options)))] == "down":
        assert isinstance(left, _Node)
        right = left.bracket
        del above.kids[at]
        left.kids.append(node)
        node.above, left.end = left, node.end
        return Planted("boundary", (left.bracket,), (right,))
    right, higher = above.bracket, above.above
    assert higher is not None
    del above.kids[-1]
    above.end = node.start
    higher.kids.insert(higher.kids.index(above) + 1, node)
    node.above = higher
    only = above.kids[0]
    if len(above.kids) == 1 and isinstance(only, _Node) and only.label == above.label:
        higher.kids[higher.kids.index(above)] = only
        only.above = higher
        return Planted("boundary", (), (right,))
    return Planted("boundary", (above.bracket,), (right,))
