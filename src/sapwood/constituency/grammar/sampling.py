"""Drawing trees from a probabilistic grammar, top down."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sapwood.constituency.data.transform import restore
from sapwood.core.arguments import as_count
from sapwood.core.arrays import group_rows, starts_of
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import is_empty

if TYPE_CHECKING:
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.corpora.tree import Tree

MAX_WORDS = 1000  # a draw that grows longer is drawn again: the grammar may be close to critical
MAX_TRIES = 1000


def sample_trees(grammar: LatentGrammar, n: int, rng: np.random.Generator) -> list[Tree]:
    """Draw n trees, each of which can be read again and scored.

    Classes of unknown words, and words that would be taken for traces, are never drawn unless a tag
    has nothing else.
    """
    if not grammar.is_probabilistic:
        msg = "this model holds weights, not probabilities, so trees cannot be drawn from it"
        raise SapwoodError(msg, hint="train with --method pcfg, em, pivot or cluster to sample")
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
        msg = f"{MAX_TRIES} draws in a row grew past {MAX_WORDS} words: the grammar does not end"
        raise SapwoodError(msg)

    def _draw(self) -> list[tuple[int, int, int, str | None]] | None:
        """One tree as nodes, children before parents; None when it grows too long.

        Drawn parents first with places counted from the end, so that no recursion is needed.
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
            if len(waiting) > 2 * MAX_WORDS:
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
            msg = f"{self.grammar.symbols[a]} in state {h} was drawn, and it can become nothing"
            raise SapwoodError(
                msg, hint="the model is damaged or was built by hand: train it again"
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
