"""Cutting a tree that is wider than the page into rows of words.

A row is itself a tree: of each phrase the part that stands over its words. A phrase that goes on in
another row carries `…` on that side, and where such phrases stand over one another they share a
label, `…S / VP`. Rows end where few phrases are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import NamedTuple

from sapwood.corpus.tree import Tree

Measure = Callable[[str, str], int]

MORE, STEP = "…", " / "
N_LABELS = 4  # of a shared label
LEAST = 0.5  # of a row that is filled before a better end is looked for


def wrap(tree: Tree, measure: Measure, gap: int, width: int) -> list[Tree]:
    """Cut a tree into rows.

    Parameters
    ----------
    tree
        Any.
    measure
        The room that a text takes, by its kind: phrase, tag or word.
    gap
        The room between neighbours.
    width
        The room of a row; only a single word, or the label of a cut phrase, may take more.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP (D the) (N dog)) (VP (V saw) (NP (D a) (N cat))))")
    >>> for row in wrap(tree, lambda text, kind: len(text), 2, 12):
    ...     print(row)
    (S… (NP (D the) (N dog)))
    (…S (VP (V saw) (NP (D a) (N cat))))
    """
    nodes, spans = list(tree.nodes()), tree.spans()
    ends = _row_ends(_word_widths(nodes, spans, measure, gap), _n_cut(spans), width + gap)
    return [
        _row_tree(nodes, spans, start, end) for start, end in zip([0, *ends], ends, strict=False)
    ]


def _word_widths(
    nodes: list[Tree], spans: list[tuple[str, int, int]], measure: Measure, gap: int
) -> list[int]:
    """The room of each word with its tag and what stands over it alone."""
    widths = [0] * spans[0][2]
    for node, (label, start, end) in zip(nodes, spans, strict=True):
        if end - start == 1:
            kind = "tag" if node.is_preterminal else "phrase"
            widths[start] = max(widths[start], measure(label, kind) + gap)
        if node.is_preterminal:
            widths[start] = max(widths[start], measure(node.word, "word") + gap)
    return widths


def _n_cut(spans: list[tuple[str, int, int]]) -> list[int]:
    """How many phrases have words on both sides, for each place between two words."""
    steps = [0] * (spans[0][2] + 1)
    for _, start, end in spans:
        if end - start > 1:
            steps[start + 1] += 1
            steps[end] -= 1
    return list(accumulate(steps))


def _row_ends(widths: list[int], n_cut: list[int], width: int) -> list[int]:
    """Where rows end: each as long as fits, or less where fewer phrases are cut."""
    ends: list[int] = []
    start = 0
    while start < len(widths):
        end = start + max(1, sum(room <= width for room in accumulate(widths[start:])))
        if end < len(widths):
            first = max(start + 1, start + int(LEAST * (end - start)))
            end = min(range(end, first - 1, -1), key=lambda place: n_cut[place])
        ends.append(end)
        start = end
    return ends


class _CutPhrase(NamedTuple):
    """What a row has of a phrase, and whether it goes on to the left and right of the row."""

    labels: tuple[str, ...]
    kids: tuple[Tree, ...]
    goes_left: bool
    goes_right: bool

    def tree(self) -> Tree:
        labels = self.labels
        if len(labels) > N_LABELS:
            labels = (*labels[:2], MORE, *labels[2 - N_LABELS :])
        before, behind = MORE * self.goes_left, MORE * self.goes_right
        return Tree._trusted(before + STEP.join(labels) + behind, self.kids)


def _row_tree(nodes: list[Tree], spans: list[tuple[str, int, int]], start: int, end: int) -> Tree:
    """The part of a tree over the words from `start` to `end`."""
    done: list[Tree | _CutPhrase | None] = []
    for node, (label, first, last) in zip(reversed(nodes), reversed(spans), strict=True):
        if node.is_preterminal:
            done.append(node if start <= first < end else None)
            continue
        n_kids = len(node.children)
        kids = [kid for kid in reversed(done[-n_kids:]) if kid is not None]
        del done[-n_kids:]
        done.append(_cut_phrase(node, label, kids, first < start, last > end) if kids else None)
    whole = done[0]
    assert whole is not None  # a row has words
    return whole.tree() if isinstance(whole, _CutPhrase) else whole


def _cut_phrase(
    node: Tree, label: str, kids: list[Tree | _CutPhrase], goes_left: bool, goes_right: bool
) -> Tree | _CutPhrase:
    if not (goes_left or goes_right):
        return node
    if len(kids) == 1 and isinstance(kids[0], _CutPhrase):
        below = kids[0]
        return _CutPhrase((label, *below.labels), below.kids, goes_left, goes_right)
    trees = tuple(kid.tree() if isinstance(kid, _CutPhrase) else kid for kid in kids)
    return _CutPhrase((label,), trees, goes_left, goes_right)
