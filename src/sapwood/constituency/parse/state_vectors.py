"""The meaning of the states of a label: its rules, words and contexts as vectors over the states.

Notation
--------
    one[a]    inside vectors of label a summed over all that it may cover, [m(a)]; all 1 where
              states are probabilities
    out[a]    outside vectors summed over all places of a, [m(a)]; expected visits of the states
    V(a)      expected visits of the label under the plain grammar

    u(r) = C[r](one[b], one[c])            what rule r = a -> b c says about the states of a
    k(r, left) = C[r](out[a], ., one[c])   what standing as b in r says about the states of b

With probabilities, u(r)[h] = P(r | a, h), and k(r, left)[p] is P(r, left | b, p) up to a factor.
In a spectral model the same vectors, divided by their plain weights, are means of projected
features: the basis is the one that the SVD found, and only differences along its axes mean
anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sapwood.constituency.data.treebank import Treebank
from sapwood.core.arrays import FloatArray

if TYPE_CHECKING:
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.corpora.tree import Tree

_MAX_SWEEPS = 60
_TOLERANCE = 1e-3  # mean change of the vectors in a sweep; only their directions are shown
ROOT_CONTEXT = "(root)"
_LEFT, _RIGHT = 0, 1


class Item(NamedTuple):
    """A rule, word or context of a label: its plain probability and its vector over states."""

    name: str
    probability: float
    vector: FloatArray


class Context(NamedTuple):
    """A context of a label: its plain probability, the rule above (-1 for none), and the side."""

    name: str
    probability: float
    rule: int
    side: int


class Pull(NamedTuple):
    """Distance of an item from the mean along one dimension, in standard deviations."""

    name: str
    probability: float
    pull: float


class StateVectors:
    """Vectors over the states of any label of a latent grammar."""

    def __init__(self, model: LatentGrammar) -> None:
        from sapwood.constituency.parse.prepared import prepare

        self.model = model
        self.visits = prepare(model).plain.visits
        self.names = [str(symbol) for symbol in model.symbols]
        self.triples: list[tuple[int, int, int]] = [tuple(r) for r in model.rules.tolist()]

    def below(self, a: int) -> Iterator[Item]:
        """The rules of a phrase, or the words of a tag."""
        return self.rules(a) if a < self.model.n_phrases else self.words(a)

    def rules(self, a: int) -> Iterator[Item]:
        """The rules of a phrase."""
        for r, (parent, b, c) in enumerate(self.triples):
            if parent == a:
                p = float(self.model.coarse.rules[r])
                if self.model.is_probabilistic:
                    vector = np.array([block.sum() for block in self.model.tensor(r)])
                elif self.model.n_states[a] == 1:  # nothing to tell apart: spare the sweeps
                    vector = np.array([p])
                else:
                    vector = self.up(r, self.one[b], self.one[c])
                yield Item(f"{self.names[b]} {self.names[c]}", p, vector)

    def words(self, a: int) -> Iterator[Item]:
        """The words, and classes of unknown words, of a tag."""
        lexicon = self.model.lexicon
        names, rows = lexicon.vocabulary, lexicon.entry_row
        for entry in (lexicon.entry_tag == a - self.model.n_phrases).nonzero()[0].tolist():
            start, stop = lexicon.weight_start[entry : entry + 2]
            p = float(self.model.coarse.lexical[entry])
            yield Item(names[rows[entry]], p, lexicon.weights[start:stop])

    def plain_contexts(self, a: int) -> Iterator[Context]:
        """Contexts of a label: the root, and the rules above it with the label in brackets."""
        model, names = self.model, self.names
        visits = self.visits / (self.visits[a] or 1.0)
        root = float(model.coarse.root[a] / (self.visits[a] or 1.0))
        if root:
            yield Context(ROOT_CONTEXT, root, -1, _LEFT)
        for r, (parent, b, c) in enumerate(self.triples):
            p = float(visits[parent] * model.coarse.rules[r])
            if a == b:
                yield Context(f"{names[parent]} -> [{names[b]}] {names[c]}", p, r, _LEFT)
            if a == c:
                yield Context(f"{names[parent]} -> {names[b]} [{names[c]}]", p, r, _RIGHT)

    def contexts(self, a: int) -> list[Item]:
        """Contexts of a label with their vectors: P(context | a, h) of a probabilistic grammar."""
        items = [Item(c.name, c.probability, self._from(c, a)) for c in self.plain_contexts(a)]
        if self.model.is_probabilistic and items:
            total = np.sum([item.vector for item in items], axis=0)
            safe = np.where(total > 0, total, 1.0)
            items = [item._replace(vector=item.vector / safe) for item in items]
        return items

    def _from(self, context: Context, a: int) -> FloatArray:
        """The outside vector of a label in a context."""
        if self.model.n_states[a] == 1:
            return np.array([context.probability])
        if context.rule < 0:
            return self.model.root_vector(a)
        parent, b, c = self.triples[context.rule]
        return self.down(context.rule, self.out[parent], self.one[b], self.one[c])[context.side]

    @cached_property
    def one(self) -> list[FloatArray]:
        """Inside vectors summed over all subtrees, by repeated substitution.

        A spectral model need not sum to 1, so that the substitution may diverge in the end: it
        stops where it changes least.
        """
        model = self.model
        sizes = model.n_states.tolist()
        if model.is_probabilistic:
            return [np.ones(m) for m in sizes]
        one = [np.zeros(m) for m in sizes]
        for a in range(model.n_phrases, model.n_symbols):
            for word in self.words(a):
                one[a] = one[a] + word.vector
        least = np.inf
        for _ in range(_MAX_SWEEPS):
            new = [np.zeros(m) for m in sizes[: model.n_phrases]] + one[model.n_phrases :]
            for r, (a, b, c) in enumerate(self.triples):
                new[a] = new[a] + self.up(r, one[b], one[c])
            change = self._change(one, new)
            if change > least and change < 0.5:  # past the smallest change; leaps are early
                break
            one, least = new, min(least, change)
            if change < _TOLERANCE:
                break
        return one

    @cached_property
    def out(self) -> list[FloatArray]:
        """Outside vectors summed over all places, scaled to the plain grammar's visits."""
        model, one = self.model, self.one
        roots = [model.root_vector(a) for a in range(model.n_symbols)]
        out = [self._to_visits(a, vector) for a, vector in enumerate(roots)]
        for _ in range(_MAX_SWEEPS):
            new = [vector.copy() for vector in roots]
            for r, (a, b, c) in enumerate(self.triples):
                left, right = self.down(r, out[a], one[b], one[c])
                new[b] += left
                new[c] += right
            new = [self._to_visits(a, vector) for a, vector in enumerate(new)]
            change = self._change(out, new)
            out = new
            if change < _TOLERANCE:
                break
        return out

    def _to_visits(self, a: int, vector: FloatArray) -> FloatArray:
        """Scale to one . out = V(a), which holds exactly and keeps the iteration from drifting."""
        total = float(vector @ self.one[a])
        return vector * (self.visits[a] / total) if total > 0 else vector

    def _change(self, old: list[FloatArray], new: list[FloatArray]) -> float:
        """Relative change of the vectors, averaged over the nodes of a random tree."""
        norms = np.array([np.linalg.norm(v) for v in new])
        steps = np.array([np.linalg.norm(v - w) for v, w in zip(new, old, strict=True)])
        relative = np.minimum(steps / np.where(norms > 0, norms, 1.0), 1.0)
        visits = self.visits
        return float(relative @ visits / visits.sum()) if visits.sum() > 0 else 0.0

    def up(self, r: int, left: FloatArray, right: FloatArray) -> FloatArray:
        """C[r](left, right), shape [m(a)]."""
        factors = self._factors(r)
        if isinstance(factors, tuple):
            a, b, c = factors
            return np.asarray(((b @ left) * (c @ right)) @ a)
        return np.asarray(factors @ right @ left)

    def down(
        self, r: int, above: FloatArray, left: FloatArray, right: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Outside vectors of the left and the right child, from the vectors around them."""
        factors = self._factors(r)
        if isinstance(factors, tuple):
            a, b, c = factors
            weight = a @ above
            return (weight * (c @ right)) @ b, (weight * (b @ left)) @ c
        block = np.tensordot(above, factors, axes=1)
        return block @ right, left @ block

    def _factors(self, r: int) -> FloatArray | tuple[FloatArray, ...]:
        model = self.model
        k = int(model.rule_rank[r])
        if k == 0:
            return model.tensor(r)
        start, stop = model.tensor_start[r], model.tensor_start[r + 1]
        parts = np.split(
            model.rule_weights[start:stop], k * np.cumsum(model.n_states[model.rules[r]])[:2]
        )
        return tuple(part.reshape(k, -1) for part in parts)


def pulls(items: list[Item], dimension: int, top: int) -> tuple[list[Pull], list[Pull]]:
    """The items that lie furthest to either side of the mean along one dimension.

    An item's vector is divided by its plain probability first, so that frequent items do not win by
    their frequency. Items are listed by their part of the variance, so that outliers do not win.
    """
    kept = [item for item in items if item.probability > 0]
    if not kept:
        return [], []
    p = np.array([item.probability for item in kept])
    value = np.array([item.vector[dimension] for item in kept]) / p
    mean = np.average(value, weights=p)
    deviation = np.sqrt(np.average((value - mean) ** 2, weights=p))
    if not deviation > 1e-12 * max(1.0, abs(mean)):  # one item, or all alike
        return [], []
    pull = (value - mean) / deviation
    order = np.argsort(-np.abs(pull) * np.sqrt(p), kind="stable").tolist()
    ranked = [Pull(kept[i].name, float(p[i]), float(pull[i])) for i in order]
    above = [one for one in ranked if one.pull > 0]
    below = [one for one in ranked if one.pull < 0]
    return above[:top], below[:top]


Span = tuple[int, int]


class NodeStates(NamedTuple):
    """The symbol of a constituent of a tree, the posterior of its states, its inside vector.

    Only the direction of the inside vector means anything: its largest part is 1 or -1.
    """

    symbol: int
    posterior: FloatArray
    inside: FloatArray


def at_rules(vectors: StateVectors) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """For each rule, its vectors over the states of its parent, left child and right child."""
    for r, (a, b, c) in enumerate(vectors.triples):
        left, right = vectors.down(r, vectors.out[a], vectors.one[b], vectors.one[c])
        yield vectors.up(r, vectors.one[b], vectors.one[c]), left, right


def states_in_trees(
    vectors: StateVectors, trees: Iterable[Tree]
) -> Iterator[dict[Span, NodeStates]]:
    """The states of the constituents of each tree, by first word and one past the last.

        posterior[h] = alpha[h] beta[h] / sum over g of  alpha[g] beta[g]

    with the inside vector beta of a node and its outside vector alpha in the tree. Given
    probabilities, this is P(state | tree); with a spectral model the parts may be negative, and
    only sum to 1. Labels over the same words share a symbol, and so its states. A tree that the
    grammar cannot build in its own binarisation has none. Trees must be clean.
    """
    bank = Treebank.from_trees(trees, vectors.model.transform)
    known = {symbol: number for number, symbol in enumerate(vectors.model.symbols)}
    rules = {triple: number for number, triple in enumerate(vectors.triples)}
    symbols = [known.get(symbol, -1) for symbol in bank.inventory.symbols]
    for first, last in pairwise(bank.offsets.tolist()):
        yield _in_tree(vectors, bank, slice(first, last), symbols, rules)


def _in_tree(
    vectors: StateVectors,
    bank: Treebank,
    rows: slice,
    symbols: list[int],
    rule_numbers: Mapping[tuple[int, int, int], int],
) -> dict[Span, NodeStates]:
    label = [symbols[number] for number in bank.label[rows].tolist()]
    start, end = bank.start[rows].tolist(), bank.end[rows].tolist()
    left, right = bank.left[rows].tolist(), bank.right[rows].tolist()
    word, names = bank.word[rows].tolist(), bank.inventory.words
    below: list[FloatArray] = []
    rules: list[int] = []
    for node, a in enumerate(label):  # children come before parents
        if left[node] < 0:
            rules.append(-1)
            vector = _leaf(vectors.model, a, names[word[node]], is_first=start[node] == 0)
        else:
            b, c = left[node], right[node]
            rules.append(rule_numbers.get((a, label[b], label[c]), -1))
            vector = None if rules[-1] < 0 else vectors.up(rules[-1], below[b], below[c])
        if vector is None or not np.abs(vector).max(initial=0.0) > 0.0:
            return {}
        below.append(vector / np.abs(vector).max())  # only directions count
    above: list[FloatArray] = [np.empty(0)] * len(label)
    above[-1] = vectors.model.root_vector(label[-1])
    found: dict[Span, NodeStates] = {}
    for node in reversed(range(len(label))):
        joint = above[node] * below[node]
        if not joint.sum():
            return {}
        if not vectors.model.symbols[label[node]].is_intermediate:
            states = NodeStates(label[node], joint / joint.sum(), below[node])
            found[start[node], end[node]] = states
        if rules[node] >= 0:
            b, c = left[node], right[node]
            scaled = above[node] / np.abs(above[node]).max()
            above[b], above[c] = vectors.down(rules[node], scaled, below[b], below[c])
    return found


def _leaf(model: LatentGrammar, a: int, word: str, *, is_first: bool) -> FloatArray | None:
    """The emission vector of a word under a tag; None where the lexicon has no such entry."""
    lexicon = model.lexicon
    row = lexicon.vocabulary.row(word, is_first=is_first)
    tags = lexicon.entry_tag[lexicon.entries(row)].astype(np.int64) + model.n_phrases
    places = np.flatnonzero(tags == a)
    if not len(places):
        return None
    entry = int(lexicon.row_start[row]) + int(places[0])
    return lexicon.weights[lexicon.weight_start[entry] : lexicon.weight_start[entry + 1]]
