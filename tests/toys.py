"""Tiny grammars as plain data, which both the library and its slow twins can read.

A `Toy` numbers its symbols like a grammar does: phrases first, then tags. Words are `w0`, `w1`, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, log
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.reference.enumerate import Node

from sapwood.constituency.data.transform import Symbol, Transform
from sapwood.constituency.grammar.latent_grammar import CoarseWeights, LatentGrammar, Lexicon
from sapwood.constituency.grammar.random_trees import project_to_plain
from sapwood.constituency.parse.charts import ForestPosteriors, posteriors, pruned_forests
from sapwood.constituency.parse.prepared import prepare
from sapwood.corpora.tree import Tree
from sapwood.corpora.vocabulary import UNKNOWN, Vocabulary
from sapwood.hankel.model.weighted_grammar import WeightedGrammar

ORDINARY = (1.0, 0.5, 0.25, 0.1, 0.9, 3.0, 1e-3, 0.0)
EXTREME = (1.0, 0.3, 1e-100, 1e-300, 0.0, 1e100)


@dataclass
class Toy:
    """Root vectors, rule tensors and emission vectors; arrays of the right shapes."""

    n_phrases: int
    n_states: list[int]
    root: dict[int, np.ndarray]
    rules: dict[tuple[int, int, int], np.ndarray]
    words: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)

    def emissions(self, sentence: Sequence[str]) -> list[dict[int, np.ndarray]]:
        return [self.words.get(word, self.words.get(UNKNOWN, {})) for word in sentence]

    def exactly(self, sentence: Sequence[str]) -> tuple[Any, Any, Any]:
        """Root, rules and emissions in fractions, which neither underflow nor round."""
        return (
            {a: _fractions(vector) for a, vector in self.root.items()},
            {rule: _fractions(tensor) for rule, tensor in self.rules.items()},
            [{t: _fractions(v) for t, v in tags.items()} for tags in self.emissions(sentence)],
        )

    def floats(self, sentence: Sequence[str]) -> tuple[Any, Any, Any]:
        """Root, rules and emissions in floating point."""
        return self.root, self.rules, self.emissions(sentence)

    def grammar(self, *, is_probabilistic: bool = False) -> LatentGrammar:
        """The same grammar for the library; one of mere weights is pruned by weights of 1."""
        n_states = np.array(self.n_states, dtype=np.int64)
        root = [self.root.get(a, np.zeros(m)) for a, m in enumerate(self.n_states)]
        lexicon = self._lexicon()
        rules = np.array(list(self.rules), dtype=np.int32).reshape(-1, 3)
        weights = _joined(self.rules.values())
        phrases = tuple(Symbol((f"P{a}",)) for a in range(self.n_phrases))
        if (n_states == 1).all():
            coarse = CoarseWeights(np.concatenate(root), weights, lexicon.weights)
        elif is_probabilistic:
            coarse = project_to_plain(
                phrases, n_states, np.concatenate(root), rules, weights, lexicon
            )
        else:
            coarse = CoarseWeights(
                np.array([float(v.any()) for v in root]),
                np.array([float(t.any()) for t in self.rules.values()]),
                np.ones(len(lexicon.entry_tag)),
            )
        return LatentGrammar(
            phrases, tuple(Symbol((f"T{t}",)) for t in range(self.n_phrases, len(n_states))),
            n_states, np.concatenate(root), rules, weights, lexicon, coarse,
            transform=Transform(heads="generic"), is_probabilistic=is_probabilistic,
        )  # fmt: skip

    def normalised(self) -> Toy:
        """With probabilities: root, rules and emissions sum to 1 per symbol and state."""
        sums = [np.zeros(m) for m in self.n_states]
        for (a, _, _), tensor in self.rules.items():
            sums[a] += tensor.sum(axis=(1, 2))
        for row in self.words.values():
            for tag, vector in row.items():
                sums[tag] += vector
        sums = [np.where(s > 0, s, 1.0) for s in sums]
        total = sum(vector.sum() for vector in self.root.values())
        return Toy(
            self.n_phrases,
            self.n_states,
            {a: vector / total for a, vector in self.root.items()},
            {r: tensor / sums[r[0]][:, None, None] for r, tensor in self.rules.items()},
            {w: {t: v / sums[t] for t, v in row.items()} for w, row in self.words.items()},
        )

    def rebased(self, bases: Sequence[np.ndarray], *, mutant: bool = False) -> Toy:
        """The tensors of Theorem 3 (SPECTRAL) for invertible matrices G[a].

            C'(y1, y2) = C(y1 G[b], y2 G[c]) G[a]^-1,   q' = q G[a]^-1,   pi' = G[a] pi

        The mutant forgets one inverse.
        """
        inverse = [np.linalg.inv(g) for g in bases]
        above = bases if mutant else inverse
        return Toy(
            self.n_phrases,
            self.n_states,
            {a: bases[a] @ vector for a, vector in self.root.items()},
            {
                (a, b, c): np.einsum("hpq,sp,tq,hu->ust", C, bases[b], bases[c], above[a])
                for (a, b, c), C in self.rules.items()
            },
            {w: {t: v @ inverse[t] for t, v in row.items()} for w, row in self.words.items()},
        )

    def _lexicon(self) -> Lexicon:
        words = [word for word in self.words if word != UNKNOWN]
        rows = [sorted(self.words.get(word, {}).items()) for word in [*words, UNKNOWN]]
        vectors = [vector for row in rows for _, vector in row]
        tags = [tag - self.n_phrases for row in rows for tag, _ in row]
        return Lexicon(
            Vocabulary(tuple(words), (UNKNOWN,), "generic"),
            np.cumsum([0, *map(len, rows)]).astype(np.uint32), np.array(tags, dtype=np.uint32),
            _joined(vectors), np.cumsum([0, *map(len, vectors)]).astype(np.int64),
        )  # fmt: skip


Factors = tuple[np.ndarray, np.ndarray, np.ndarray]


def factored_toy(
    rng: np.random.Generator, n_phrases: int, n_states: Sequence[int]
) -> tuple[Toy, LatentGrammar]:
    """A toy with whole tensors, and the same grammar with most of them stored as outer products.

    Ranks run through 0 (stored whole), 1, 2 and 3; one weight in ten is negative.
    """
    n_symbols = len(n_states)
    toy = random_toy(rng, n_phrases=n_phrases, n_tags=n_symbols - n_phrases)
    toy.n_states = list(n_states)
    toy.root = {a: rng.uniform(0.1, 1.0, n_states[a]) for a in toy.root}
    for row in toy.words.values():
        row.update({t: rng.uniform(0.1, 1.0, n_states[t]) for t in row})
    factors: dict[tuple[int, int, int], Factors] = {}
    for place, rule in enumerate(toy.rules):
        drawn = [_mostly_positive(rng, (max(1, place % 4), n_states[x])) for x in rule]
        toy.rules[rule] = np.einsum("th,tp,tq->hpq", *drawn)
        if place % 4:
            factors[rule] = (drawn[0], drawn[1], drawn[2])
    stored = [factors.get(rule, (tensor,)) for rule, tensor in toy.rules.items()]
    ranks = [len(factors[rule][0]) if rule in factors else 0 for rule in toy.rules]
    grammar = replace(
        toy.grammar(),
        rule_weights=_joined(part for parts in stored for part in parts),
        rule_rank=np.array(ranks, dtype=np.int64),
    )
    return toy, grammar


def _mostly_positive(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.uniform(0.1, 1.0, shape) * np.where(rng.random(shape) < 0.1, -1.0, 1.0)


def _joined(arrays: Any) -> np.ndarray:
    return np.concatenate([np.zeros(0), *[np.ravel(array) for array in arrays]])


def _fractions(array: np.ndarray) -> Any:
    return [_fractions(part) for part in array] if np.ndim(array) else Fraction(float(array))


def exact_log(value: Any) -> float:
    """Log of a fraction of any size."""
    value = Fraction(value)
    return log(value.numerator) - log(value.denominator) if value else -inf


def tree_of(node: Node, sentence: Sequence[str], n_phrases: int) -> Tree:
    """An enumerated tree as the library shows it."""

    def build(part: Node) -> Tree:
        kind = "P" if part.symbol < n_phrases else "T"
        children = [build(child) for child in part.children] or sentence[part.start]
        return Tree(f"{kind}{part.symbol}", children)

    return Tree("TOP", [build(node)])


def random_bases(rng: np.random.Generator, n_states: Sequence[int]) -> list[np.ndarray]:
    """Invertible matrices, one per symbol, with condition numbers of at most 4."""
    turns = [np.linalg.qr(rng.normal(size=(m, m)))[0] for m in n_states]
    return [turn * rng.uniform(0.5, 2.0, len(turn)) for turn in turns]


def random_toy(
    rng: np.random.Generator,
    *,
    n_phrases: int = 2,
    n_tags: int = 2,
    n_states: int = 1,
    n_words: int = 3,
    density: float = 0.7,
) -> Toy:
    """A toy with positive weights that parses everything, of up to `n_states` states a symbol."""
    n_symbols = n_phrases + n_tags
    m = rng.integers(1, n_states + 1, n_symbols) if n_states > 1 else np.ones(n_symbols, int)
    m[0] = n_states
    rules = {
        (a, b, c): rng.uniform(0.1, 1.0, (m[a], m[b], m[c]))
        for a in range(n_phrases)
        for b in range(n_symbols)
        for c in range(n_symbols)
        if rng.random() < density or b == c == n_phrases or (a, b, c) == (0, 0, n_phrases)
    }
    words: dict[str, dict[int, np.ndarray]] = {}
    for x in range(n_words):
        tags = [t for t in range(n_phrases, n_symbols) if t == n_phrases or rng.random() < 0.7]
        words[f"w{x}"] = {t: rng.uniform(0.1, 1.0, m[t]) for t in tags}
    words[UNKNOWN] = {n_phrases: rng.uniform(0.1, 1.0, m[n_phrases])}
    root = {a: rng.uniform(0.1, 1.0, m[a]) for a in range(n_phrases)}
    return Toy(n_phrases, m.tolist(), root, rules, words)


@st.composite
def plain_toys(draw: st.DrawFn, weights: tuple[float, ...] = ORDINARY) -> Toy:
    """Plain grammars with whatever rules: none, unreachable symbols, no pairs of phrases, zeros."""
    n_phrases, n_tags = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    symbol = st.integers(0, n_phrases + n_tags - 1)
    weight = st.sampled_from(weights)
    tag = st.integers(n_phrases, n_phrases + n_tags - 1)
    rule = st.tuples(st.integers(0, n_phrases - 1), symbol, symbol)
    two_words = st.tuples(st.just(0), tag, tag)
    rules = draw(st.dictionaries(st.one_of(rule, two_words), weight, max_size=9))
    rows = st.dictionaries(tag, weight, max_size=n_tags)
    words = {f"w{x}": draw(rows) for x in range(draw(st.integers(1, 3)))}
    words[UNKNOWN] = draw(rows)
    root = {a: draw(weight) for a in range(n_phrases)}
    return Toy(
        n_phrases,
        [1] * (n_phrases + n_tags),
        {a: np.array([w]) for a, w in root.items()},
        {key: np.full((1, 1, 1), w) for key, w in rules.items()},
        {word: {t: np.array([w]) for t, w in row.items()} for word, row in words.items()},
    )


def sentences(toy: Toy, *, least: int = 2, most: int = 6) -> st.SearchStrategy[list[str]]:
    """Sentences of known and unknown words."""
    words = [word for word in toy.words if word != UNKNOWN]
    return st.lists(st.sampled_from([*words, "unheard-of"]), min_size=least, max_size=most)


def parse_forest(
    grammar: LatentGrammar, words: list[str], threshold: float, beam: float = 0.0
) -> ForestPosteriors | None:
    """Posteriors of a sentence of two or more words; None when the grammar has no parse for it."""
    prepared = prepare(grammar)
    found = (
        posteriors(prepared, left) for left in pruned_forests(prepared, words, threshold, beam)
    )
    return next((parsed for parsed in found if parsed is not None), None)


def strings_grammar(n: int, d: int, seed: int) -> WeightedGrammar:
    """A random PCFG without labels whose strings end with probability 1 and in good time."""
    rng = np.random.default_rng(seed)
    stop = rng.uniform(0.6, 0.8, n)
    words, pairs = rng.dirichlet(np.ones(d), n), rng.dirichlet(np.ones(n * n), n)
    binary = ((1 - stop)[:, None] * pairs).reshape(n, n, n)
    symbols = tuple("abcdefghij"[:d])
    return WeightedGrammar(
        symbols, rng.dirichlet(np.ones(n)), (stop[:, None] * words).T.copy(), binary
    )


def change_basis(grammar: WeightedGrammar, matrix: np.ndarray) -> WeightedGrammar:
    """The same function in another basis: inside vectors become `matrix @ beta(x)`."""
    inverse = np.linalg.inv(matrix)
    return WeightedGrammar(
        grammar.symbols, grammar.initial @ inverse, grammar.terminals @ matrix.T,
        np.einsum("xa,abc,by,cz->xyz", matrix, grammar.binary, inverse, inverse, optimize=True),
    )  # fmt: skip
