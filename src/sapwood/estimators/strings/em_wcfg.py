"""`EMWCFG`: a probabilistic grammar without labels by inside-outside (Baker; Lari and Young)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from sapwood.corpus.bracketed import Bracketed
from sapwood.corpus.tree import is_tree
from sapwood.estimators.base import at_least, parameter, positional, whole
from sapwood.estimators.strings.shared import (
    MAX_STATES,
    OfStrings,
    StringInfo,
    read_brackets,
    read_strings,
)
from sapwood.execute import Engine, Placed
from sapwood.models.strings.weighted_grammar import WeightedGrammar, refuse_long_strings
from sapwood.moments.string_counts import (
    GrammarCounts,
    LongStrings,
    expect,
    string_shards,
    tree_shards,
)
from sapwood.progress import counted


class EMWCFG(OfStrings):
    """Probabilistic grammar from plain strings, or from bracketed ones, by EM.

    Each iteration raises the likelihood; where it ends depends on the start, so that the likeliest
    of several is kept.

    Attributes
    ----------
    model_
        A `WeightedGrammar` of probabilities.
    info_
        A `StringInfo`: iterations and log-likelihood of the best start.
    log_likelihoods_
        After each iteration of the best start.

    Examples
    --------
    >>> model = EMWCFG(1).fit([["a"], ["a"], ["a", "b"]]).model_
    >>> model.is_probabilistic, round(float(model.terminals.sum()), 3)
    (True, 0.8)
    """

    n_states: int = positional(
        default=4, domain=whole(1, MAX_STATES), words="Hidden states.", kw_only=False
    )
    iterations: int = parameter(200, whole(0), "The most EM iterations of a start.")
    starts: int = parameter(3, whole(1), "Random starts, of which the likeliest is kept.")
    tolerance: float = parameter(
        1e-7, at_least(0), "Iterations end when the log-likelihood of a string gains less."
    )
    seed: int = parameter(0, whole(0), "Of the random starts.")

    def fit(self, strings: Any, n: float | None = None) -> Self:
        """Learn from strings, from a mapping of strings to counts, or from trees.

        Parameters
        ----------
        n
            How many strings there were, where those given are all up to the length of the longest
            of them: of the others, it is known that they are longer. Not for trees.
        """
        self._check_parameters()
        engine, info = self._engine(), StringInfo()
        shards: Any
        if not isinstance(strings, (str, bytes, Mapping)) and hasattr(strings, "__iter__"):
            strings = list(strings)
        if isinstance(strings, list) and strings and _is_bracketed(strings[0]):
            trees, info.n_wide = read_brackets(strings)
            words = [x.words for x in trees]
            info.n_strings = float(len(trees))
            symbols = tuple(sorted({symbol for x in words for symbol in x}))
            shards = tree_shards(trees, {x: i for i, x in enumerate(symbols)})
            lengths = np.array([len(x) for x in words])
            mean = float(lengths.mean())
        else:
            counts = read_strings(strings)
            refuse_long_strings(max(map(len, counts)), self.n_states, engine.jobs_here)
            n_given = float(counts.total())
            info.n_strings = n_given if n is None else n
            symbols = tuple(sorted({symbol for x in counts for symbol in x}))
            shards = string_shards(counts, {x: i for i, x in enumerate(symbols)})
            if info.n_strings > n_given:
                shards.append(LongStrings(info.n_strings - n_given, max(map(len, counts))))
            mean = sum(len(x) * t for x, t in counts.items()) / n_given
        placed, best = engine.place(shards), -np.inf
        rng = np.random.default_rng(self.seed)
        for _ in counted(range(self.starts), "EM", unit="start"):
            start = random_grammar(symbols, self.n_states, mean, rng)
            model, track = self._climb(start, placed, engine, info.n_strings)
            if track[-1] > best:
                best, self.log_likelihoods_, found = track[-1], track, model
        info.iterations, info.log_likelihood = len(self.log_likelihoods_) - 1, best
        self.info_ = info
        arrays = (found.initial, found.terminals, found.binary)
        record = info.record("em", self.n_states) | {"seed": self.seed}
        self.model_ = WeightedGrammar(symbols, *arrays, record)
        return self

    def _climb(
        self, model: WeightedGrammar, placed: Placed, engine: Engine, n: float
    ) -> tuple[WeightedGrammar, list[float]]:
        """EM from a start; the log-likelihood of each model on the way."""
        counts = engine.total(expect, placed, model)
        track = [counts.log_likelihood]
        for _ in counted(range(self.iterations), unit="iteration"):
            model = maximise(model, counts)
            counts = engine.total(expect, placed, model)
            track.append(counts.log_likelihood)
            if track[-1] - track[-2] < self.tolerance * n:
                break
        return model, track


def _is_bracketed(item: object) -> bool:
    return isinstance(item, Bracketed) or is_tree(item)


def random_grammar(
    symbols: tuple[str, ...], n: int, mean_length: float, rng: np.random.Generator
) -> WeightedGrammar:
    """Random probabilities whose strings are about as long as those seen."""
    stop = mean_length / (2 * mean_length - 1)  # leaves among the nodes of a tree
    shares = np.clip(stop + rng.uniform(-0.1, 0.1, n), 0.05, 1.0)
    words, pairs = rng.dirichlet(np.ones(len(symbols)), n), rng.dirichlet(np.ones(n * n), n)
    return WeightedGrammar(
        symbols,
        rng.dirichlet(np.full(n, 5.0)),
        np.ascontiguousarray((shares[:, None] * words).T),
        ((1 - shares)[:, None] * pairs).reshape(n, n, n),
    )


def maximise(model: WeightedGrammar, counts: GrammarCounts) -> WeightedGrammar:
    """Relative frequencies of the expected counts; a state that was never used stays."""
    totals = counts.terminals.sum(axis=0) + counts.binary.sum(axis=(1, 2))
    used = totals > 0
    safe = np.where(used, totals, 1.0)
    return WeightedGrammar(
        model.symbols,
        counts.initial / counts.initial.sum() if counts.initial.sum() > 0 else model.initial,
        np.where(used, counts.terminals / safe, model.terminals),
        np.where(used[:, None, None], counts.binary / safe[:, None, None], model.binary),
        model.record,
    )
