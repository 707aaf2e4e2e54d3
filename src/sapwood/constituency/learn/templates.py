"""Features of tree nodes: what they may look at, what they say, and their numbers.

A template gives every node one value, a number that depends on the tree alone. Inside templates
look at what is below a node, outside templates at everything else; -1 stands for "absent" and is a
value like any other. All are pure functions of a `NodeTable`, so that shards agree on the numbers.
Values are made unique per label later; a template need not mention the label. The list follows
Cohen et al. (2013). Users may add functions of their own, see `SpectralLPCFG`.

Notation
--------
    M(a)       nodes with label a          n(f)   nodes with feature f
    phi_f = sqrt(M(a) / (n(f) + kappa))    value of an active feature; kappa shrinks rare ones

Features are numbered so that those of one label stand together: each label has its own block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.treebank import Treebank

Column = npt.NDArray[np.int64]
LEFT, RIGHT, ROOT = 0, 1, 2


class NodeTable:
    """Columns of a treebank with rows numbered over all its trees; -1 stands for "there is none".

    Attributes
    ----------
    label, rule, word, start, end
        As in `Treebank`.
    left, right, parent
        Rows of the children and of the parent.
    """

    def __init__(self, bank: Treebank, row_of_word: npt.NDArray[np.int64] | None = None) -> None:
        self.bank = bank
        self.inventory = bank.inventory
        first = np.repeat(bank.offsets[:-1], np.diff(bank.offsets))
        self.label = bank.label.astype(np.int64)
        self.rule = bank.rule.astype(np.int64)
        self.left, self.right, self.parent = (
            np.where(column >= 0, column + first, -1)
            for column in (bank.left, bank.right, bank.parent)
        )
        self.start, self.end = bank.start.astype(np.int64), bank.end.astype(np.int64)
        self.word = bank.word.astype(np.int64)
        if row_of_word is not None:  # rare words stand for their class
            self.word = np.where(self.word >= 0, row_of_word[self.word], -1)

    def __len__(self) -> int:
        return len(self.label)

    def at(self, column: Column, rows: Column) -> Column:
        """Values of a column at other rows; -1 where there is no such row."""
        return np.where(rows >= 0, column[rows], -1)

    @cached_property
    def side(self) -> Column:
        """Whether a node is a left child, a right child, or a root."""
        side = np.full(len(self), ROOT, dtype=np.int64)
        side[self.left[self.left >= 0]] = LEFT
        side[self.right[self.right >= 0]] = RIGHT
        return side

    @cached_property
    def n_words(self) -> Column:
        """Length of each node's sentence."""
        bank = self.bank
        return np.repeat(bank.end[bank.offsets[1:] - 1], np.diff(bank.offsets)).astype(np.int64)

    @cached_property
    def base_tag(self) -> Column:
        """Number of the treebank tag behind each symbol of the inventory."""
        bases = [symbol.chain[-1] for symbol in self.inventory.phrases + self.inventory.tags]
        number = {name: place for place, name in enumerate(dict.fromkeys(bases))}
        return np.array([number[name] for name in bases], dtype=np.int64)

    @property
    def head(self) -> Column:
        """Tag of each node's head word."""
        return self._heads[0]

    @property
    def head_above(self) -> Column:
        """First head tag above each node that differs from its own."""
        return self._heads[1]

    @cached_property
    def _heads(self) -> tuple[Column, Column]:
        from sapwood.constituency.learn.kernels.heads import head_tags, heads_above

        heads = self.inventory.rule_heads
        own = np.asarray(
            head_tags(self.label, self.rule, self.left, self.right, heads, self.base_tag)
        )
        return own, np.asarray(heads_above(own, self.parent))


Template = Callable[[NodeTable], Column]


def _pair(first: Column, second: Column) -> Column:
    """One number of 48 bits for two values: mixed, since the product of all values would overflow.

    Two of a million pairs share a number with a probability of 0.2 %.
    """
    with np.errstate(over="ignore"):  # arithmetic modulo 2**64 is meant
        mixed = (first.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(29))) + second.astype(np.uint64) + np.uint64(1)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(0x94D049BB133111EB)
    return (mixed >> np.uint64(16)).astype(np.int64)


def _bucket(counts: Column) -> Column:
    """Lengths in classes that widen: 0-5 apart, then up to 8, 12, 20, 30, and beyond."""
    return np.minimum(counts, 5) + np.searchsorted([5, 8, 12, 20, 30], counts)


def word(t: NodeTable) -> Column:
    """The word of a tag: a -> x."""
    return t.word


def left_label(t: NodeTable) -> Column:
    """A -> b *."""
    return t.at(t.label, t.left)


def right_label(t: NodeTable) -> Column:
    """A -> * c."""
    return t.at(t.label, t.right)


def rule(t: NodeTable) -> Column:
    """A -> b c."""
    return t.rule


def left_rule(t: NodeTable) -> Column:
    """A -> (b -> ..) c."""
    return _pair(t.rule, t.at(t.rule, t.left))


def right_rule(t: NodeTable) -> Column:
    """A -> b (c -> ..)."""
    return _pair(t.rule, t.at(t.rule, t.right))


def head(t: NodeTable) -> Column:
    """Tag of the head word."""
    return t.head


def length(t: NodeTable) -> Column:
    """Number of words covered, in classes."""
    return _bucket(t.end - t.start)


def _rule_above(t: NodeTable, rows: Column) -> Column:
    """Rule above each of the given rows, with the side on which the row hangs."""
    above = t.at(t.rule, t.at(t.parent, rows))
    return _pair(above, t.at(t.side, rows))


def rule_above(t: NodeTable) -> Column:
    """The rule above, foot marked."""
    return _rule_above(t, np.arange(len(t)))


def two_rules_above(t: NodeTable) -> Column:
    """The two rules above."""
    return _pair(rule_above(t), _rule_above(t, t.parent))


def three_rules_above(t: NodeTable) -> Column:
    """The three rules above."""
    return _pair(two_rules_above(t), _rule_above(t, t.at(t.parent, t.parent)))


def parent(t: NodeTable) -> Column:
    """Label of the parent, with the side."""
    return _pair(t.at(t.label, t.parent), t.side)


def grandparent(t: NodeTable) -> Column:
    """Labels of parent and grandparent, with both sides."""
    above = _pair(t.at(t.label, t.at(t.parent, t.parent)), t.at(t.side, t.parent))
    return _pair(parent(t), above)


def head_above(t: NodeTable) -> Column:
    """First head tag above that differs from the node's own."""
    return t.head_above


def words_before(t: NodeTable) -> Column:
    """Number of words to the left, in classes."""
    return _bucket(t.start)


def words_behind(t: NodeTable) -> Column:
    """Number of words to the right, in classes."""
    return _bucket(t.n_words - t.end)


INSIDE: dict[str, Template] = {
    f.__name__: f
    for f in (word, left_label, right_label, rule, left_rule, right_rule, head, length)
}
OUTSIDE: dict[str, Template] = {
    f.__name__: f
    for f in (
        rule_above, two_rules_above, three_rules_above, parent, grandparent, head_above,
        words_before, words_behind,
    )
}  # fmt: skip


def feature_keys(
    bank: Treebank, templates: Sequence[Template], row_of_word: Column | None = None
) -> Iterator[Column]:
    """For each template, one number for label and value of every node of a treebank.

    `row_of_word` are numbers that stand for words; None for the words' own.
    """
    table = NodeTable(bank, row_of_word)
    n_symbols = len(table.inventory.phrases) + len(table.inventory.tags)
    for template in templates:
        yield (template(table) + 1) * n_symbols + table.label
