"""Feature templates: each gives every node one value, a number that depends on the tree alone.

Inside templates look at what is below a node, outside templates at everything else; -1 stands for
"absent" and is a value like any other. All are pure functions of a `NodeTable`, so that shards
agree on the numbers. Values are made unique per label later; a template need not mention the label.

The list follows Cohen et al. (2013). Users may add functions of their own, see `SpectralLPCFG`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sapwood.features.nodes import Column, NodeTable

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


# -- inside -----------------------------------------------------------------------------------


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


# -- outside ----------------------------------------------------------------------------------


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
