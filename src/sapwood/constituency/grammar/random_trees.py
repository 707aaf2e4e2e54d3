"""Random trees of a grammar: how often symbols and states occur in them, and draws.

The expected visits of hidden states also give the plain PCFG that is closest to a latent grammar.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import restore
from sapwood.constituency.grammar.latent_grammar import CoarseWeights
from sapwood.core.arrays import FloatArray, group_rows, starts_of
from sapwood.core.errors import SapwoodError, as_count
from sapwood.corpora.tree import is_empty

if TYPE_CHECKING:
    from sapwood.constituency.data.transform import Symbol
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar, Lexicon
    from sapwood.corpora.tree import Tree

_MOST_VISITS = 1e300  # so that sums of visits stay finite
_N_STEPS = 200  # expected visits converge geometrically; deeper derivations carry no weight
MAX_DRAWN_WORDS = (
    1000  # a draw that grows longer is drawn again: the grammar may be close to critical
)
MAX_TRIES = 1000


def project_to_plain(
    phrases: tuple[Symbol, ...],
    n_states: npt.NDArray[np.int64],
    root: FloatArray,
    rules: npt.NDArray[np.int32],
    rule_weights: FloatArray,
    lexicon: Lexicon,
) -> CoarseWeights:
    """Weights of the plain PCFG closest to a probabilistic latent grammar.

        w(a -> b c) = sum over h of  P(h | a) * sum over p, q of C[a -> b c][h, p, q]

    P(h | a) is the fraction of state h in the expected visits of symbol a.
    """
    start = starts_of(n_states)
    tensor_start = starts_of(n_states[rules].prod(axis=1))
    tensors = [
        rule_weights[tensor_start[r] : tensor_start[r + 1]].reshape(n_states[rules[r]])
        for r in range(len(rules))
    ]
    visits = state_visits(start, root, rules, tensors)
    parts = np.split(visits, start[1:-1])
    p = [v / v.sum() if v.sum() > 0 else np.full(len(v), 1.0 / len(v)) for v in parts]
    coarse_rules = np.array(
        [p[a] @ t.sum(axis=(1, 2)) for (a, _, _), t in zip(rules, tensors, strict=True)]
    )
    vectors = np.split(lexicon.weights, lexicon.weight_start[1:-1])
    tags = len(phrases) + lexicon.entry_tag.astype(np.int64)
    lexical = np.array([p[a] @ vector for a, vector in zip(tags, vectors, strict=True)])
    return CoarseWeights(np.add.reduceat(root, start[:-1]), coarse_rules, lexical)


def expected_visits(
    root: FloatArray, rules: npt.NDArray[np.int32], weights: FloatArray
) -> FloatArray:
    """Expected number of nodes of each symbol in a tree of a plain PCFG, up to a common factor."""
    a, b, c = rules.T
    return _visits(
        root, np.concatenate([a, a]), np.concatenate([b, c]), np.concatenate([weights, weights])
    )


def state_visits(
    start: npt.NDArray[np.int64],
    root: FloatArray,
    rules: npt.NDArray[np.int32],
    tensors: list[FloatArray],
) -> FloatArray:
    """Expected number of nodes of each symbol and state in a tree of a latent grammar."""
    parents, children, values = [np.empty(0, int)], [np.empty(0, int)], [np.empty(0)]
    for (a, b, c), tensor in zip(rules, tensors, strict=True):
        for child, axis in ((b, 2), (c, 1)):
            block = tensor.sum(axis=axis)
            h, p = np.indices(block.shape)
            parents.append((start[a] + h).ravel())
            children.append((start[child] + p).ravel())
            values.append(block.ravel())
    return _visits(root, np.concatenate(parents), np.concatenate(children), np.concatenate(values))


def _visits(
    root: FloatArray,
    parents: npt.NDArray[np.integer[Any]],
    children: npt.NDArray[np.integer[Any]],
    weights: FloatArray,
) -> FloatArray:
    """Solve v = root + M' v by iteration, with finite numbers whatever the weights."""
    from scipy.sparse import coo_array

    n = len(root)
    flow = coo_array((np.minimum(weights, _MOST_VISITS), (children, parents)), shape=(n, n)).tocsr()
    visits = root
    for _ in range(_N_STEPS):
        visits = np.minimum(root + flow @ visits, _MOST_VISITS)
        visits /= max(1.0, visits.sum() / 1e6)  # only ratios matter; a critical grammar diverges
    return np.asarray(visits)


def sample_trees(grammar: LatentGrammar, n: int, rng: np.random.Generator) -> list[Tree]:
    """Draw n trees, each of which can be read again and scored.

    Classes of unknown words, and words that `clean` takes for traces, are only drawn for a tag that
    has no other words.
    """
    if not grammar.is_probabilistic:
        raise SapwoodError(
            "this model holds weights, not probabilities, so trees cannot be drawn from it",
            hint="train with --method pcfg, em, pivot or cluster to sample",
        )
    sampler = _Sampler(grammar, rng)
    return [sampler.tree() for _ in range(as_count(n, "the number of trees"))]


class _Sampler:
    """Cumulative distributions per symbol and state, made when first needed."""

    def __init__(self, grammar: LatentGrammar, rng: np.random.Generator) -> None:
        self.grammar = grammar
        self.rng = rng
        self.root = np.cumsum(grammar.root)
        self.rules_of = group_rows(grammar.rules[:, 0], grammar.n_symbols)
        self.entries_of = group_rows(grammar.lexicon.entry_tag, len(grammar.tags))
        self.row_of = grammar.lexicon.entry_row
        self.expansions = lru_cache(maxsize=None)(self._expansions)
        self.emissions = lru_cache(maxsize=None)(self._emissions)

    def tree(self) -> Tree:
        for _ in range(MAX_TRIES):
            nodes = self._draw()
            if nodes is not None:
                return restore(self.grammar.symbols, nodes)
        raise SapwoodError(
            f"{MAX_TRIES} draws in a row exceeded {MAX_DRAWN_WORDS} words: the grammar does not end"
        )

    def _draw(self) -> list[tuple[int, int, int, str | None]] | None:
        """One tree as nodes, children before parents; None when it grows too long.

        Parents are drawn first, and places are counted from the end: this needs no recursion.
        """
        start = self.grammar.state_start
        drawn: list[tuple[int, int, int, str | None]] = []
        flat = int(np.searchsorted(self.root, self.rng.random() * self.root[-1], side="right"))
        symbol = int(np.searchsorted(start, flat, side="right") - 1)
        waiting = [(symbol, flat - int(start[symbol]))]
        at = 0
        while at < len(waiting):
            a, h = waiting[at]
            if a >= self.grammar.n_phrases:
                cumulative, rows = self.emissions(a, h)
                word = self.grammar.lexicon.vocabulary[int(rows[self._place(cumulative, a, h)])]
                drawn.append((a, -1, -1, word))
            else:
                b, p, c, q = self._children(a, h)
                drawn.append((a, len(waiting), len(waiting) + 1, None))
                waiting += [(b, p), (c, q)]
            at += 1
            if len(waiting) > 2 * MAX_DRAWN_WORDS:
                return None
        last = len(drawn) - 1
        return [
            (a, last - left if word is None else -1, last - right if word is None else -1, word)
            for a, left, right, word in reversed(drawn)
        ]

    def _children(self, a: int, h: int) -> tuple[int, int, int, int]:
        cumulative, starts, rules = self.expansions(a, h)
        place = self._place(cumulative, a, h)
        which = int(np.searchsorted(starts, place, side="right") - 1)
        _, b, c = self.grammar.rules[rules[which]].tolist()
        p, q = divmod(place - int(starts[which]), int(self.grammar.n_states[c]))
        return b, p, c, q

    def _expansions(self, a: int, h: int) -> tuple[Any, Any, Any]:
        rules = self.rules_of[a]
        parts = [self.grammar.tensor(int(r))[h].ravel() for r in rules]
        starts = starts_of([len(part) for part in parts])[:-1]
        return np.cumsum(np.concatenate([np.empty(0), *parts])), starts, rules

    def _place(self, cumulative: npt.NDArray[np.float64], a: int, h: int) -> int:
        """One of the outcomes of a symbol and state, by their probabilities."""
        if not len(cumulative) or not cumulative[-1] > 0:
            raise SapwoodError(
                f"{self.grammar.symbols[a]} in state {h} was drawn, and it can become nothing",
                hint="the model is damaged or was built by hand: train it again",
            )
        return int(np.searchsorted(cumulative, self.rng.random() * cumulative[-1], side="right"))

    def _emissions(self, a: int, h: int) -> tuple[Any, Any]:
        lexicon = self.grammar.lexicon
        entries = self.entries_of[a - self.grammar.n_phrases]
        weights = lexicon.weights[lexicon.weight_start[entries] + h]
        label = self.grammar.symbols[a].chain[-1]
        # Smoothing may give a rare word a tag under which `clean` takes it for a trace.
        kept = np.array(
            [
                row < len(lexicon.words) and not is_empty(label, lexicon.words[row])
                for row in self.row_of[entries].tolist()
            ],
            dtype=bool,
        )
        if weights[kept].sum() > 0:
            entries, weights = entries[kept], weights[kept]
        return np.cumsum(weights), self.row_of[entries]
