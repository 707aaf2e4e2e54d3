"""Twin states: hidden states of a symbol that derive the same, and grammars that have them once.

Notation
--------
    B, D     blocks of states of symbols b and c
    C[r][h, B, D] = sum over p in B and q in D of C[r][h, p, q]        r = a -> b c

States h and g of a symbol are twins when C[r][h, B, D] = C[r][g, B, D] for all rules r and blocks,
and q(x | a, h) = q(x | a, g) for all words x. By induction on the height of a tree, twins give
every tree below them the same weight. A grammar that has a block as one state, with the row of any
of its twins and with the sum of their columns and roots, therefore gives every tree and every
sentence the same weight as before. The coarsest such blocks come from bisimulation minimisation of
weighted tree automata (Hogberg, Maletti and May 2007): begin with one block a symbol, and divide
blocks whose states differ until none does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn.latent_parameters import LatentParameters, join_states
from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.errors import SapwoodValueError

ROUNDING = 1e-12  # total variation that rounding can explain


def twin_states(grammar: LatentGrammar, tolerance: float = ROUNDING) -> list[IntArray]:
    """The block of each state of each symbol, numbered in the order of their first states.

    Parameters
    ----------
    tolerance
        Total variation, half the sum of absolute differences, up to which a state is a twin of the
        first state of a block.

    Raises
    ------
    SapwoodValueError
        For a spectral grammar, whose states are known only up to a change of basis.

    Notes
    -----
    Cost: a few passes over all weights, m(a) times each.
    """
    given = _parameters(grammar)
    of_words = [np.zeros((m, m)) for m in grammar.n_states.tolist()]
    for a, vector in given.emissions():
        of_words[a] += np.abs(vector[:, None] - vector)
    blocks = [np.zeros(m, np.int64) for m in grammar.n_states.tolist()]
    while True:
        finer = _divide(blocks, _distances(given, blocks, of_words), tolerance)
        if all(map(np.array_equal, blocks, finer)):
            return blocks
        blocks = finer


def merge_states(
    grammar: LatentGrammar, blocks: Sequence[IntArray], weight: Sequence[FloatArray]
) -> LatentGrammar:
    """The grammar with one state for each block, which behaves as its members do on average.

    Parameters
    ----------
    blocks
        For each symbol, the block of each state; exact for those of `twin_states`.
    weight
        For each symbol, how frequent each state is; of no effect where the states are equal.
    """
    joined = join_states(_parameters(grammar), list(blocks), np.concatenate(list(weight)))
    sizes = joined.n_states[grammar.n_phrases + grammar.lexicon.entry_tag.astype(np.int64)]
    lexicon = replace(grammar.lexicon, weights=joined.words, weight_start=starts_of(sizes))
    return replace(
        grammar, n_states=joined.n_states, root=joined.root, rule_weights=joined.rules,
        lexicon=lexicon,
    )  # fmt: skip


def _parameters(grammar: LatentGrammar) -> LatentParameters:
    if not grammar.is_probabilistic:
        msg = "a spectral grammar has no twin states: its states are directions of a basis"
        raise SapwoodValueError(msg, hint="give a grammar of method em, cluster, pivot or pivot-em")
    tag = grammar.n_phrases + grammar.lexicon.entry_tag.astype(np.int64)
    return LatentParameters(
        grammar.n_states, grammar.rules.astype(np.int64), tag,
        grammar.root, grammar.rule_weights, grammar.lexicon.weights,
    )  # fmt: skip


def _distances(
    given: LatentParameters, blocks: Sequence[IntArray], of_words: Sequence[FloatArray]
) -> list[FloatArray]:
    """Total variation between the states of each symbol that may be twins, children in blocks."""
    from scipy.spatial.distance import cdist

    member = [np.eye(int(block.max()) + 1)[block] for block in blocks]
    found = [words.copy() for words in of_words]
    rows: list[list[FloatArray]] = [[] for _ in blocks]
    is_divided = [len(block) == block.max() + 1 for block in blocks]  # no two states in a block
    for (a, b, c), tensor in given.tensors():
        if not is_divided[a]:
            in_blocks = member[b].T @ (tensor @ member[c])
            rows[a].append(in_blocks.reshape(len(tensor), -1))
    for a, parts in enumerate(rows):
        if parts:
            row = np.concatenate(parts, axis=1)
            found[a] += cdist(row, row, "cityblock")
    return [distance / 2 for distance in found]


def _divide(
    blocks: Sequence[IntArray], distances: Sequence[FloatArray], tolerance: float
) -> list[IntArray]:
    """Finer blocks: each state with the first state of its block that it is near enough to."""
    finer = []
    for block, distance in zip(blocks, distances, strict=True):
        is_near = (block[:, None] == block) & (distance <= tolerance)
        own = np.empty_like(block)
        first: list[int] = []
        for state in range(len(block)):
            near = [k for k, leader in enumerate(first) if is_near[leader, state]]
            own[state] = near[0] if near else len(first)
            if not near:
                first.append(state)
        finer.append(own)
    return finer
