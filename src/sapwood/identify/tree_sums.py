"""Sums over all trees of one length, by dynamic programs over spans.

Notation (IDENT, section 3 and appendix C.1)
--------------------------------------------
    seen             for each position of a span, whether its word is observed
    a, b, c          hidden states of a span and of its left and right child
    h, y             words of a head and of its argument
    x, u, v          words that are seen, several positions as one axis
    weight[a, x]     of all trees over a span, by its state (its head's word) and the words seen

A span is known by which of its positions are seen, wherever it stands, so equal ones are summed
once. One without any contributes only its number of trees, as columns of tables sum to 1.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, Protocol, cast

import numpy as np

from sapwood.identify.dual import Array, Dual, einsum
from sapwood.models.topologies import n_binary_trees, n_dependency_trees, n_sides

Seen = tuple[bool, ...]


class Sums(Protocol):
    """Sums over all trees of one length."""

    def count(self, length: int) -> int:
        """Number of trees."""

    def total(self, seen: Seen) -> Array:
        """Weight of all trees by the words that are seen, [d ^ number of them]."""


# -- constituency -----------------------------------------------------------------------------


class Joint:
    """Children drawn together: rules [b, c, a]."""

    def __init__(self, rules: Array) -> None:
        self.rules = rules
        self.left, self.right = rules.sum(1), rules.sum(0)

    def pair(self, left: Array, right: Array) -> Array:
        """Weight[a, x, y] of two children that are both seen."""
        return einsum("bca,bx,cy->axy", self.rules, left, right)


class Apart:
    """Children drawn independently given their parent: left [b, a] and right [c, a]."""

    def __init__(self, left: Array, right: Array) -> None:
        self.left, self.right = left, right

    def pair(self, left: Array, right: Array) -> Array:
        """Weight[a, x, y] of two children that are both seen."""
        above_left = einsum("ba,bx->ax", self.left, left)
        return einsum("ax,ay->axy", above_left, einsum("ca,cy->ay", self.right, right))


class Constituents:
    """Binary trees: weight[a, x] of a span with state a and the words x that are seen in it."""

    def __init__(self, root: Array, children: Joint | Apart, words: Array) -> None:
        self.root, self.children, self.words = root, children, words
        self._spans: dict[Seen, Array] = {}

    def count(self, length: int) -> int:
        """Number of binary trees."""
        return n_binary_trees(length)

    def total(self, seen: Seen) -> Array:
        """Weight[x] of all trees over a sentence."""
        return einsum("a,ax->x", self.root, self._span(seen))

    def _span(self, seen: Seen) -> Array:
        if seen not in self._spans:
            self._spans[seen] = self.words.T if len(seen) == 1 else self._split(seen)
        return self._spans[seen]

    def _split(self, seen: Seen) -> Array:
        """Weight[a, x] = sum over the split m and the states b, c of the two children."""
        left, right, both = [], [], []
        for m in range(1, len(seen)):
            if not any(seen[m:]):
                left.append(self._span(seen[:m]) * self.count(len(seen) - m))
            elif not any(seen[:m]):
                right.append(self._span(seen[m:]) * self.count(m))
            else:
                pair = self.children.pair(self._span(seen[:m]), self._span(seen[m:]))
                both.append(pair.reshape(pair.shape[0], -1))
        # Spans with one child seen are added up before they are multiplied with the table.
        if left:
            both.append(einsum("ba,bx->ax", self.children.left, _sum(left)))
        if right:
            both.append(einsum("ca,cy->ay", self.children.right, _sum(right)))
        return cast(Array, _sum(both))


# -- dependencies -----------------------------------------------------------------------------


class Dependents:
    """Projective trees: weights by the word of the head, then the words seen below it."""

    def __init__(self, root: Array, left: Array, right: Array) -> None:
        self.root = root.reshape(-1, 1)
        self.tables = {"left": left, "right": right, "root": self.root}
        self._subtrees: dict[tuple[str, Seen], Array] = {}
        self._halves: dict[tuple[str, Seen], Array] = {}

    def count(self, length: int) -> int:
        """Number of projective trees."""
        return n_dependency_trees(length)

    def total(self, seen: Seen) -> Array:
        """Weight[x] of all trees over a sentence."""
        return self._subtree("root", seen)[0]

    def _half(self, side: str, seen: Seen) -> Array:
        """Weight[h, x] of all that hangs on one side of a head with word h."""
        if (side, seen) not in self._halves:
            n = len(seen)
            cuts = range(n) if side == "right" else range(1, n + 1)
            terms = [self._farthest(side, seen, m) for m in cuts]
            self._halves[side, seen] = _sum(terms)
        return self._halves[side, seen]

    def _farthest(self, side: str, seen: Seen, m: int) -> Array:
        """The half by its farthest argument, whose subtree lies outside the cut m."""
        far, near = (seen[m:], seen[:m]) if side == "right" else (seen[:m], seen[m:])
        if not any(far):
            return self._half(side, near) * n_dependency_trees(len(far))
        subtree = self._subtree(side, far)
        if not any(near):
            return subtree * n_sides(len(near))
        inner = self._half(side, near)
        first, last = (inner, subtree) if side == "right" else (subtree, inner)
        joint = einsum("hx,hy->hxy", first, last)
        return joint.reshape(joint.shape[0], -1)

    def _subtree(self, table: str, seen: Seen) -> Array:
        """Weight[h, x] of all trees over a span whose top is an argument of a head with word h.

        A top that is not seen is summed out; one that is seen stays as an axis among the others.
        """
        if (table, seen) not in self._subtrees:
            hidden = [self._body(seen, c) for c in range(len(seen)) if not seen[c]]
            shown = [self._body(seen, c) for c in range(len(seen)) if seen[c]]
            joint = [einsum("yh,yuv->huyv", self.tables[table], body) for body in shown]
            terms = [each.reshape(each.shape[0], -1) for each in joint]
            if hidden:
                flat = [body.reshape(body.shape[0], -1) for body in hidden]
                terms.append(einsum("yh,yx->hx", self.tables[table], _sum(flat)))
            self._subtrees[table, seen] = _sum(terms)
        return self._subtrees[table, seen]

    def _body(self, seen: Seen, c: int) -> Array:
        """Weight[y, u, v] of both halves of a head at c with word y."""
        left, right = seen[:c], seen[c + 1 :]
        n_left, n_right = n_sides(len(left)), n_sides(len(right))
        d = self.root.shape[0]
        if any(left) and any(right):
            return einsum("yu,yv->yuv", self._half("left", left), self._half("right", right))
        if any(left):
            return (self._half("left", left) * n_right).reshape(d, -1, 1)
        if any(right):
            return (self._half("right", right) * n_left).reshape(d, 1, -1)
        ones = np.full((d, 1, 1), n_left * n_right)
        return self.root.lift(ones) if isinstance(self.root, Dual) else ones.astype(float)


def _sum(terms: list[Any]) -> Any:
    return reduce(lambda x, y: x + y, terms)
