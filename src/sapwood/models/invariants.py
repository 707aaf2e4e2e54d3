"""What must hold of every grammar, checked when it is made and when it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sapwood.arrays import ranges, starts_of
from sapwood.corpus.words import UNKNOWN
from sapwood.errors import ModelFormatError

if TYPE_CHECKING:
    from sapwood.models.latent_grammar import LatentGrammar

Array = npt.NDArray[Any]
MAX_STATES = 4096  # of a symbol; sizes of tensors then stay far below what 64 bits can count


def check_grammar(grammar: LatentGrammar) -> None:
    """Raise ModelFormatError with the first invariant that does not hold.

    Kernels trust what passes here: they read wherever the numbers of a grammar send them.
    """
    _check_types(grammar)
    _check_symbols(grammar)
    _check_rules(grammar)
    _check_lexicon(grammar)
    _check_weights(grammar)
    if grammar.is_probabilistic:
        _check_probabilities(grammar)


def _require(condition: bool | np.bool_, message: str) -> None:
    if not condition:
        raise ModelFormatError(
            message, hint="the model is damaged or was built by hand: train it again"
        )


def _check_types(g: LatentGrammar) -> None:
    """Types and axes; kernels are compiled for these, and unsigned numbers are never negative."""
    lexicon, coarse = g.lexicon, g.coarse
    for name, array, kind in (
        ("n_states", g.n_states, np.int64),
        ("rules", g.rules, np.int32),
        ("rule_rank", g.rule_rank, np.int64),
        ("root", g.root, np.float64),
        ("rule_weights", g.rule_weights, np.float64),
        ("lexicon row_start", lexicon.row_start, np.uint32),
        ("lexicon entry_tag", lexicon.entry_tag, np.uint32),
        ("lexicon weight_start", lexicon.weight_start, np.int64),
        ("lexicon weights", lexicon.weights, np.float64),
        ("coarse root", coarse.root, np.float64),
        ("coarse rules", coarse.rules, np.float64),
        ("coarse lexical", coarse.lexical, np.float64),
    ):
        _require(array.dtype == kind, f"{name} is of type {array.dtype}, not {np.dtype(kind)}")
        n_axes = 2 if name == "rules" else 1
        _require(array.ndim == n_axes, f"{name} has {array.ndim} axes, not {n_axes}")


def _check_symbols(g: LatentGrammar) -> None:
    _require(len(g.tags) > 0, "the grammar has no tags, so no word can be read")
    for kind, symbols in (("phrase", g.phrases), ("tag", g.tags)):
        _require(len(set(symbols)) == len(symbols), f"a {kind} symbol is listed twice")
    _require(
        not any(s.is_intermediate for s in g.tags), "an intermediate symbol stands among the tags"
    )
    _require(
        g.n_states.shape == (g.n_symbols,),
        f"n_states has {len(g.n_states)} entries for {g.n_symbols} symbols",
    )
    _require((g.n_states >= 1).all(), "a symbol has no state")
    _require(
        (g.n_states <= MAX_STATES).all(),
        f"a symbol has {g.n_states.max():,} states, more than {MAX_STATES:,}",
    )
    _require(g.root.shape == (g.state_start[-1],), "the root vectors do not fit the states")


def _check_rules(g: LatentGrammar) -> None:
    _require(g.rules.ndim == 2 and g.rules.shape[1:] == (3,), "rules must be rows of three symbols")
    if len(g.rules):
        _require(
            g.rules.min() >= 0 and g.rules.max() < g.n_symbols, "a rule names an unknown symbol"
        )
        _require(g.rules[:, 0].max() < g.n_phrases, "a tag has a binary rule")
        n_distinct = len(np.unique(g.rules, axis=0))
        _require(n_distinct == len(g.rules), f"{len(g.rules) - n_distinct} rules are listed twice")
    _require(g.rule_rank.shape == (len(g.rules),), "the ranks of the rules do not fit the rules")
    _require((g.rule_rank >= 0).all(), "a rule has a negative rank")
    fits = (g.rule_rank <= g.rule_weights.size).all()
    _require(fits, "a rule has a higher rank than there are rule weights")
    is_whole = not g.rule_rank.any()
    _require(is_whole or not g.is_probabilistic, "a probabilistic grammar has a factored rule")
    expected = int(g.tensor_start[-1])
    _require(
        g.rule_weights.shape == (expected,),
        f"expected {expected} rule weights, found {g.rule_weights.size}",
    )


def _check_lexicon(g: LatentGrammar) -> None:
    lexicon = g.lexicon
    _require(
        lexicon.row_start.shape == (lexicon.n_rows + 1,), "the lexicon's rows do not fit its words"
    )
    _require(_rises(lexicon.row_start, len(lexicon.entry_tag)), "the lexicon's rows overlap")
    if len(lexicon.entry_tag):
        _require(lexicon.entry_tag.max() < len(g.tags), "the lexicon names an unknown tag")
    sizes = g.n_states[g.n_phrases + lexicon.entry_tag.astype(np.int64)]
    fits = (
        lexicon.weight_start.shape == (len(sizes) + 1,)
        and (np.diff(lexicon.weight_start) == sizes).all()
    )
    _require(fits, "the lexicon's vectors do not fit the states of their tags")
    _require(_rises(lexicon.weight_start, len(lexicon.weights)), "the lexicon's vectors overlap")
    row_sizes: Array = np.diff(lexicon.row_start.astype(np.int64))
    rows = np.repeat(np.arange(lexicon.n_rows), row_sizes)
    keys = rows * len(g.tags) + lexicon.entry_tag
    _require((np.diff(keys) > 0).all(), "the tags of a word are not in rising order")
    _require(UNKNOWN in lexicon.vocabulary.classes, f"the lexicon has no class {UNKNOWN}")


def _rises(starts: Array, end: int) -> bool:
    return bool(
        starts[0] == 0 and starts[-1] == end and (np.diff(starts.astype(np.int64)) >= 0).all()
    )


def _check_weights(g: LatentGrammar) -> None:
    coarse = g.coarse
    for name, array, size in (
        ("root", coarse.root, g.n_symbols),
        ("rules", coarse.rules, len(g.rules)),
        ("lexical", coarse.lexical, len(g.lexicon.entry_tag)),
    ):
        _require(
            array.shape == (size,), f"expected {size} coarse {name} weights, found {array.size}"
        )
        _require((array >= 0).all(), f"a coarse {name} weight is negative")
        _require(np.isfinite(array).all(), f"a coarse {name} weight is not a finite number")
    for name, array in (("root", g.root), ("rule", g.rule_weights), ("lexical", g.lexicon.weights)):
        _require(np.isfinite(array).all(), f"a {name} weight is not a finite number")


def _check_probabilities(g: LatentGrammar) -> None:
    """Root, rules and emissions must sum to 1 per symbol and state; an unused state to 0."""
    from sapwood.models.latent_grammar import SUM_TOLERANCE

    for name, array in (("root", g.root), ("rule", g.rule_weights), ("lexical", g.lexicon.weights)):
        _require(
            (array >= 0).all(),
            f"a {name} probability is negative: {array.min() if array.size else 0:.3g}",
        )
    _require(
        abs(g.root.sum() - 1) < SUM_TOLERANCE,
        f"root probabilities sum to {g.root.sum():.6g}, not 1",
    )
    sums = state_sums(g)
    off = np.flatnonzero((np.abs(sums - 1) > SUM_TOLERANCE) & (sums != 0))
    if len(off):
        symbol = int(np.searchsorted(g.state_start, off[0], side="right") - 1)
        state = off[0] - g.state_start[symbol]
        _require(
            False,
            f"probabilities of {g.symbols[symbol]} in state {state} sum to "
            f"{sums[off[0]]:.6g}, not 1",
        )


def state_sums(g: LatentGrammar) -> npt.NDArray[np.float64]:
    """Total weight of everything that each symbol and state can become, shape [sum of n_states]."""
    sums = np.zeros(int(g.state_start[-1]))
    if len(g.rules):
        m = g.n_states[g.rules]
        per_state = np.repeat(m[:, 1] * m[:, 2], m[:, 0])
        a = g.rules[:, 0]
        state = ranges(g.state_start[a], g.state_start[a + 1])
        np.add.at(sums, state, np.add.reduceat(g.rule_weights, starts_of(per_state)[:-1]))
    tag = g.n_phrases + g.lexicon.entry_tag.astype(np.int64)
    np.add.at(sums, ranges(g.state_start[tag], g.state_start[tag + 1]), g.lexicon.weights)
    return sums
