"""What the states of a label stand for: its rules, words and contexts as vectors over the states.

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

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sapwood.core.arrays import FloatArray

if TYPE_CHECKING:
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar

MAX_SWEEPS = 60
TOLERANCE = 1e-3  # mean change of the vectors in a sweep; only their directions are shown
ROOT_CONTEXT = "(root)"
LEFT, RIGHT = 0, 1


class Item(NamedTuple):
    """A rule, word or context of a label: its plain probability and its vector over states."""

    name: str
    probability: float
    vector: FloatArray


class Place(NamedTuple):
    """A place of a label: its plain probability, the rule above (-1 for none), and the side."""

    name: str
    probability: float
    rule: int
    side: int


class Pull(NamedTuple):
    """How far an item lies from the mean along one dimension, in standard deviations."""

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

    def places(self, a: int) -> Iterator[Place]:
        """Where a label stands: the root, and rules above it with its own place in brackets."""
        model, names = self.model, self.names
        visits = self.visits / (self.visits[a] or 1.0)
        root = float(model.coarse.root[a] / (self.visits[a] or 1.0))
        if root:
            yield Place(ROOT_CONTEXT, root, -1, LEFT)
        for r, (parent, b, c) in enumerate(self.triples):
            p = float(visits[parent] * model.coarse.rules[r])
            if a == b:
                yield Place(f"{names[parent]} -> [{names[b]}] {names[c]}", p, r, LEFT)
            if a == c:
                yield Place(f"{names[parent]} -> {names[b]} [{names[c]}]", p, r, RIGHT)

    def contexts(self, a: int) -> list[Item]:
        """The same with their vectors; with probabilities, these are P(context | a, h)."""
        items = [
            Item(place.name, place.probability, self._from(place, a)) for place in self.places(a)
        ]
        if self.model.is_probabilistic and items:
            total = np.sum([item.vector for item in items], axis=0)
            safe = np.where(total > 0, total, 1.0)
            items = [item._replace(vector=item.vector / safe) for item in items]
        return items

    def _from(self, place: Place, a: int) -> FloatArray:
        """What comes down to a label at a place."""
        if self.model.n_states[a] == 1:
            return np.array([place.probability])
        if place.rule < 0:
            return self.model.root_vector(a)
        parent, b, c = self.triples[place.rule]
        return self.down(place.rule, self.out[parent], self.one[b], self.one[c])[place.side]

    @cached_property
    def one(self) -> list[FloatArray]:
        """Inside vectors summed over all subtrees, by repeated substitution.

        A spectral model need not sum to 1, so that the substitution may drift away in the end: it
        stops where it moves least.
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
        for _ in range(MAX_SWEEPS):
            new = [np.zeros(m) for m in sizes[: model.n_phrases]] + one[model.n_phrases :]
            for r, (a, b, c) in enumerate(self.triples):
                new[a] = new[a] + self.up(r, one[b], one[c])
            change = self._change(one, new)
            if change > least and change < 0.5:  # past the quietest point; early leaps do not count
                break
            one, least = new, min(least, change)
            if change < TOLERANCE:
                break
        return one

    @cached_property
    def out(self) -> list[FloatArray]:
        """Outside vectors summed over all places, scaled to the plain grammar's visits."""
        model, one = self.model, self.one
        roots = [model.root_vector(a) for a in range(model.n_symbols)]
        out = [self._to_visits(a, vector) for a, vector in enumerate(roots)]
        for _ in range(MAX_SWEEPS):
            new = [vector.copy() for vector in roots]
            for r, (a, b, c) in enumerate(self.triples):
                left, right = self.down(r, out[a], one[b], one[c])
                new[b] += left
                new[c] += right
            new = [self._to_visits(a, vector) for a, vector in enumerate(new)]
            change = self._change(out, new)
            out = new
            if change < TOLERANCE:
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
        """What comes down to the left child past the right one, and to the right past the left."""
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

    An item's vector is divided by its plain probability first, so that common items do not win by
    being common. Listed by their share of the variance, so that chance outliers do not win either.
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
