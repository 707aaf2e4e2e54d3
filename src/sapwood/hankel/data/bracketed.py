"""Bracketed strings: the words of a tree and its binary brackets, without labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sapwood.corpora.tree import Tree, as_tree

LABEL = "X"  # of every node of a tree whose labels mean nothing


class Bracketed(NamedTuple):
    """A string with its binary brackets."""

    words: tuple[str, ...]  # the string
    # nodes with two children as (start, split, end), children before parents; one less than words
    splits: tuple[tuple[int, int, int], ...]

    def tree(self) -> Tree:
        """The tree, all of whose labels are the same.

        Examples
        --------
        >>> print(Bracketed(("a", "b", "c"), ((1, 2, 3), (0, 1, 3))).tree())
        (X (X a) (X (X b) (X c)))
        """
        done = {(i, i + 1): Tree(LABEL, word) for i, word in enumerate(self.words)}
        for i, k, j in self.splits:
            done[i, j] = Tree(LABEL, (done.pop((i, k)), done.pop((k, j))))
        return done[0, len(self.words)]


def bracket(tree: Tree) -> tuple[Bracketed, int]:
    """The binary brackets of a tree, and how many nodes were wider and are split to the right.

    Labels, and nodes with one child, go.

    Examples
    --------
    >>> bracket(Tree.parse("(S (A a) (B (C b) (D c)))"))[0].splits
    ((1, 2, 3), (0, 1, 3))
    >>> bracket(Tree.parse("(S (A a) (B b) (C c))"))
    (Bracketed(words=('a', 'b', 'c'), splits=((1, 2, 3), (0, 1, 3))), 1)
    """
    words = [node.word for node in tree.preterminals()]
    splits: list[tuple[int, int, int]] = []
    n_wide, position = 0, len(words)
    done: list[int] = []  # starts of finished nodes, the leftmost last: read from the right
    for node in reversed(list(tree.nodes())):
        if node.is_preterminal:
            position -= 1
            done.append(position)
            continue
        n_kids = len(node.children)
        starts = done[: -n_kids - 1 : -1]  # of its children, from left to right
        end = done[-n_kids - 1] if len(done) > n_kids else len(words)
        n_wide += n_kids > 2
        splits += [(starts[c - 1], starts[c], end) for c in range(n_kids - 1, 0, -1)]
        del done[len(done) - n_kids + 1 :]
        done[-1] = starts[0]
    return Bracketed(tuple(words), tuple(splits)), n_wide


def as_bracketed(items: Iterable[Bracketed | Tree]) -> tuple[list[Bracketed], int]:
    """Bracketed strings of trees, and how many nodes were wider than two."""
    found, n_wide = [], 0
    for item in items:
        made, wide = (item, 0) if isinstance(item, Bracketed) else bracket(as_tree(item))
        found.append(made)
        n_wide += wide
    return found, n_wide


def from_splits(words: Sequence[str], split_of: dict[tuple[int, int], int]) -> Bracketed:
    """The bracketed string whose span [i, j) is split at `split_of[i, j]`."""
    splits, waiting = [], [(0, len(words))]
    while waiting:
        i, j = waiting.pop()
        if j - i > 1:
            k = split_of[i, j]
            splits.append((i, k, j))
            waiting += [(i, k), (k, j)]
    return Bracketed(tuple(words), tuple(reversed(splits)))


def right_branching(words: Sequence[str]) -> Bracketed:
    """Every word beside all that follow it."""
    n = len(words)
    return Bracketed(tuple(words), tuple((i, i + 1, n) for i in range(n - 2, -1, -1)))
