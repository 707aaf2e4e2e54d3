"""A simulated annotator who corrects trees: actions per sentence, with and without the parser.

The annotator wants the gold tree of a sentence, and is shown the parser's. An action is one of

    add       a labelled phrase over some words      remove    a phrase
    relabel   a phrase                               retag     a word
    move      a phrase to another parent: all phrases between the two grow or shrink with it
    choose    one of the two alternatives beside the tree
    accept    the tree, once, at the end

**editing alone** changes what the action says and nothing else. The fewest actions are searched
greedily: the move that saves most, while one saves anything, then one action for each phrase or tag
that is wrong.

**refilling** makes each action a constraint, and the parser fills in the rest
(`sapwood.constituency.annotation.refill`). The *good* annotator takes the action that leaves least
to do, of choosing and the first `CANDIDATES` edits from the top; the *plain* one takes the first
edit from the top, always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import sapwood as sw
from sapwood.constituency.annotation.grammar import Bracket, tree_brackets
from sapwood.constituency.annotation.refill import STAY, Requests, parse_feasible, settle
from sapwood.corpora.tree import Tree

CANDIDATES = 6  # actions that the good annotator thinks of before each action
MOST_ACTIONS = 80  # then the annotator gives up, and every phrase and tag left counts
Brackets = Counter[Bracket]


@dataclass(frozen=True)
class Shape:
    """The phrases and tags of a tree."""

    brackets: Brackets
    tags: tuple[str, ...]

    @classmethod
    def of(cls, tree: Tree) -> Shape:
        """The phrases and tags of a tree."""
        tags = tuple(node.label for node in tree.nodes() if node.is_preterminal)
        return cls(Counter(tree_brackets(tree)), tags)


def distance(said: Shape, gold: Shape) -> int:
    """Phrases to add, remove and relabel, and words to retag."""
    missing, extra = gold.brackets - said.brackets, said.brackets - gold.brackets
    over, under = _by_span(missing), _by_span(extra)
    relabelled = sum(min(n, under[span]) for span, n in over.items())
    tags = sum(a != b for a, b in zip(said.tags, gold.tags, strict=True))
    return missing.total() + extra.total() - relabelled + tags


def _by_span(brackets: Brackets) -> Counter[tuple[int, int]]:
    spans: Counter[tuple[int, int]] = Counter()
    for (_, i, j), n in brackets.items():
        spans[i, j] += n
    return spans


def moves(brackets: Brackets) -> Iterator[tuple[list[Bracket], list[Bracket]]]:
    """All moves of a phrase to another parent: what they remove, and what they add."""
    nested = sorted(brackets.elements(), key=lambda b: (b[2] - b[1], b[1]))
    cuts = {(i, j) for _, i, j in nested}
    for i, j in sorted(cuts):
        yield from _grow_or_shrink([b for b in nested if b[2] == j and b[1] < i], 2, i)
        yield from _grow_or_shrink([b for b in nested if b[1] == i and b[2] > j], 1, j)
        # the neighbours that end where the phrase starts, and start where it ends; largest first
        yield from _grow_or_shrink([b for b in nested[::-1] if b[2] == i], 2, j)
        yield from _grow_or_shrink([b for b in nested[::-1] if b[1] == j], 1, i)


def _grow_or_shrink(
    chain: Sequence[Bracket], end: int, to: int
) -> Iterator[tuple[list[Bracket], list[Bracket]]]:
    """The first phrases of a chain with one end moved, for every number of them."""
    old: list[Bracket] = []
    new: list[Bracket] = []
    for label, i, j in chain:
        old.append((label, i, j))
        new.append((label, to, j) if end == 1 else (label, i, to))
        yield list(old), list(new)


def edit_alone(said: Shape, gold: Shape) -> int:
    """Actions of an annotator whom no parser helps, accepting included."""
    actions, now = 0, said
    while True:
        left = distance(now, gold)
        best, saved = now, 1
        missing, extra = gold.brackets - now.brackets, now.brackets - gold.brackets
        for old, new in moves(now.brackets):
            if sum(b in extra for b in old) + sum(b in missing for b in new) <= len(old) + saved:
                continue  # it saves too little
            moved = Shape(now.brackets - Counter(old) + Counter(new), now.tags)
            if left - distance(moved, gold) > saved:
                best, saved = moved, left - distance(moved, gold)
        if best is now:
            return actions + left + 1
        actions, now = actions + 1, best


@dataclass
class Given:
    """What the annotator has said of a tree."""

    spans: set[Bracket] = field(default_factory=set)
    forbidden: set[Bracket] = field(default_factory=set)
    tags: dict[int, str] = field(default_factory=dict)

    def __add__(self, other: Given) -> Given:
        return Given(
            self.spans | other.spans, self.forbidden | other.forbidden, self.tags | other.tags
        )

    def requests(self, parser: sw.Parser) -> Requests:
        """What was said, as far as the model knows the labels."""
        known = parser.known_labels
        return Requests(
            tuple(
                (i, j, label if label in known.phrases else None)
                for label, i, j in sorted(self.spans)
            ),
            tuple((i, j, name) for name, i, j in sorted(self.forbidden) if name in known.phrases),
            tuple((k, tag) for k, tag in self.tags.items() if tag in known.tags),
        )

    def obeyed(self, said: Shape) -> Shape:
        """A tree with all that was said; phrases that cross a new one vanish."""
        brackets, missing = said.brackets.copy(), self.spans - set(said.brackets)
        for name, i, j in missing:
            crossing = [b for b in brackets if i < b[1] < j < b[2] or b[1] < i < b[2] < j]
            # the phrase is called otherwise, where the model does not know the label
            other = [b for b in brackets if b[1:] == (i, j) and b not in self.spans][:1]
            for bracket in crossing + other:
                del brackets[bracket]
            brackets[name, i, j] += 1
        for bracket in self.forbidden - self.spans:
            del brackets[bracket]
        return Shape(brackets, tuple(self.tags.get(k, tag) for k, tag in enumerate(said.tags)))


def actions_of(said: Shape, gold: Shape) -> list[Given]:
    """Edits that bring a tree nearer to the gold tree, from the top; moves first."""
    missing, extra = gold.brackets - said.brackets, said.brackets - gold.brackets
    wrong: list[tuple[tuple[int, ...], Given]] = []
    left = distance(said, gold)
    for old, new in moves(said.brackets):
        if all(b in extra for b in old) and all(b in missing for b in new):
            moved = Shape(said.brackets - Counter(old) + Counter(new), said.tags)
            if (saved := left - distance(moved, gold)) > 1:
                wrong.append(((-1, -saved), Given(set(new), set(old))))
    spans = {(i, j): label for label, i, j in extra}
    for label, i, j in missing:
        old_label = spans.get((i, j))  # one phrase instead of another: relabelled
        removed = set() if old_label is None else {(old_label, i, j)}
        wrong.append(((0, i - j, i), Given({(label, i, j)}, removed)))
    for label, i, j in extra:
        if (label, i, j) not in gold.brackets and (i, j) not in {(a, b) for _, a, b in missing}:
            wrong.append(((0, i - j, i), Given(set(), {(label, i, j)})))
    for k, (one, other) in enumerate(zip(said.tags, gold.tags, strict=True)):
        if one != other:
            wrong.append(((1, k), Given(tags={k: other})))
    return [action for _, action in sorted(wrong, key=lambda pair: pair[0])]


def refill(
    parser: sw.Parser, tree: Tree, *, candidates: int = CANDIDATES, stay: float = STAY
) -> int:
    """Actions of an annotator whose actions are constraints, accepting included."""
    words, gold, given = tree.words(), Shape.of(tree), Given()
    parse, kept = parser.parse(words), Requests()
    shown, said = parse.tree, Shape.of(parse.tree)
    for actions in range(MOST_ACTIONS):
        left = distance(said, gold)
        if not left:
            return actions + 1
        tried = []
        for option in actions_of(said, gold)[:candidates]:
            both = given + option
            found, done = parse_feasible(parser, words, option.requests(parser), kept, parse)
            settled = settle(parser, found, shown, stay)
            tried.append((both.obeyed(Shape.of(settled)), both, done, found, settled))
        chosen = [
            (given.obeyed(Shape.of(other.tree)), given, kept, parse, other.tree)
            for other in (parse.k_best(3)[1:] if candidates > 1 else [])
        ]
        tried += [row for row in chosen if distance(row[0], gold) < left]
        if not tried:
            return actions + left + 1
        said, given, kept, parse, shown = min(tried, key=lambda row: distance(row[0], gold))
    return MOST_ACTIONS + distance(said, gold) + 1


def count_actions(model: Any, trees: Iterable[Tree]) -> list[tuple[int, int, int, int, int]]:
    """For each tree: words, actions of editing alone without and with moves, plain, and good."""
    parser, rows = sw.Parser(model), []
    for tree in trees:
        said, gold = Shape.of(parser.parse(tree.words()).tree), Shape.of(tree)
        rows.append(
            (
                len(tree.words()), distance(said, gold) + 1, edit_alone(said, gold),
                refill(parser, tree, candidates=1), refill(parser, tree),
            )
        )  # fmt: skip
    return rows
