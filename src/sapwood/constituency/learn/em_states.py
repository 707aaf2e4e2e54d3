"""Split, merge and join the hidden states of a grammar, and find twin states.

Notation
--------
    origin   the state before the last split that a state was copied from; two states of a symbol
    with the same origin are siblings
    B, D     blocks of states of symbols b and c
    C[r][h, B, D] = sum over p in B and q in D of C[r][h, p, q]        r = a -> b c

States h and g of a symbol are twins when C[r][h, B, D] = C[r][g, B, D] for all rules r and blocks,
and q(x | a, h) = q(x | a, g) for all words x. By induction on the height of a tree, twins give
every tree below them the same weight. A grammar that has a block as one state, with the row of any
of its twins and with the sum of their columns and roots, therefore gives every tree and every
sentence the same weight as before. The coarsest such blocks come from bisimulation minimisation of
weighted tree automata (Hogberg, Maletti and May 2007): begin with one block per symbol, and divide
blocks until the states of each block are twins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn.em_steps import (
    ExpectedCounts,
    LatentParameters,
    TrainingTrees,
    latent_grammar,
    normalise,
)
from sapwood.constituency.learn.training_data import TrainingData
from sapwood.core.arrays import FloatArray, IntArray, starts_of
from sapwood.core.errors import SapwoodValueError

SPLIT_NOISE = 0.01
# States within this total variation are merged after training. By benchmarks/twin_states.py, dev F1
# stays the same, and the log-probability of a dev tree changes by less than 1 in 10,000.
NEAR_TWINS = 0.03
TWIN_ROUNDING = 1e-12  # total variation that rounding errors can cause


def split_states(
    parameters: LatentParameters, target: IntArray, rng: np.random.Generator
) -> tuple[LatentParameters, IntArray]:
    """Split states in two until each symbol has its target number of states.

    Returns
    -------
    The new parameters, and the origin of every state in the order of symbols.
    """
    old = []
    for m, wanted in zip(parameters.n_states.tolist(), target.tolist(), strict=True):
        states = np.arange(m)
        old.append(np.sort(np.concatenate([states, states[: max(0, min(wanted, 2 * m) - m)]])))
    return copy_states(parameters, old, rng), np.concatenate(old)


def matsuzaki_start(
    plain: LatentParameters, target: IntArray, rng: np.random.Generator
) -> LatentParameters:
    """Return treebank frequencies times exp(u) for all states, with u uniform in [-ln 3, ln 3]."""
    copied = copy_states(plain, [np.zeros(m, np.int64) for m in target.tolist()], None)

    def shake(numbers: FloatArray) -> FloatArray:
        return np.asarray(numbers * np.exp(rng.uniform(-np.log(3), np.log(3), len(numbers))))

    return normalise(
        replace(
            copied, root=shake(copied.root), rules=shake(copied.rules), words=shake(copied.words)
        )
    )


def copy_states(
    given: LatentParameters, old: list[IntArray], rng: np.random.Generator | None
) -> LatentParameters:
    """Return parameters whose states are copies of old states.

    Parameters
    ----------
    old
        For each symbol, the old state that each new state copies. The probability of a child's old
        state is divided among its copies.
    rng
        Generator of the noise of 1 % that makes copies differ; None for exact copies.
    """
    copies = [
        np.bincount(states, minlength=m)
        for states, m in zip(old, given.n_states.tolist(), strict=True)
    ]
    share = [1.0 / n[states] for states, n in zip(old, copies, strict=True)]
    tensors = [
        (tensor[np.ix_(old[a], old[b], old[c])] * share[b][:, None] * share[c]).ravel()
        for (a, b, c), tensor in given.tensors()
    ]
    words = [vector[old[a]] for a, vector in given.emissions()]
    root = [vector[old[a]] * share[a] for a, vector in given.roots()]
    parts = [np.concatenate([np.empty(0), *part]) for part in (root, tensors, words)]
    if rng is not None:
        parts = [part * (1 + SPLIT_NOISE * rng.uniform(-1, 1, len(part))) for part in parts]
    sizes = np.array([len(states) for states in old])
    return normalise(LatentParameters(sizes, given.symbols_of, given.symbol_of_pair, *parts))


def join_states(
    given: LatentParameters, joined: list[IntArray], weight: FloatArray
) -> LatentParameters:
    """Join states of symbols; a joined state has the weighted mean of its parts.

    Parameters
    ----------
    joined
        For each symbol, the new state that each old state becomes part of.
    weight : [sum of n_states]
        The relative frequency of each old state among the states of its symbol.
    """
    new, share = [], []  # membership [old, new], and membership with columns that sum to 1
    for states, w in zip(joined, np.split(weight, given.state_start[1:-1]), strict=True):
        member = np.eye(int(states.max()) + 1)[states]
        weighted = member * np.maximum(w, 1e-300)[:, None]  # unused states still have a mean
        new.append(member)
        share.append(weighted / weighted.sum(axis=0))
    tensors = [
        (new[b].T @ (np.tensordot(share[a], tensor, (0, 0)) @ new[c])).ravel()
        for (a, b, c), tensor in given.tensors()
    ]
    words = [vector @ share[a] for a, vector in given.emissions()]
    root = [vector @ new[a] for a, vector in given.roots()]
    parts = [np.concatenate([np.empty(0), *part]) for part in (root, tensors, words)]
    sizes = np.array([member.shape[1] for member in new])
    return normalise(LatentParameters(sizes, given.symbols_of, given.symbol_of_pair, *parts))


def sibling_pairs(parameters: LatentParameters, origin: IntArray) -> IntArray:
    """Return symbol and both states of all siblings, [n_pairs, 3]; siblings are adjacent states."""
    symbol = np.repeat(np.arange(len(parameters.n_states)), parameters.n_states)
    first = np.flatnonzero((origin[1:] == origin[:-1]) & (symbol[1:] == symbol[:-1]))
    state = first - parameters.state_start[symbol[first]]
    return np.stack([symbol[first], state, state + 1], axis=1)


def merge_siblings(
    trees: TrainingTrees, parameters: LatentParameters, origin: IntArray, fraction: float
) -> LatentParameters:
    """Merge the siblings whose split raised the likelihood least (Petrov et al. 2006)."""
    counts = trees.expect(parameters)
    weight = replace(parameters, rules=counts.rules, words=counts.words).state_totals()
    pairs = sibling_pairs(parameters, origin)
    start = parameters.state_start[pairs[:, 0]]
    one, two = weight[start + pairs[:, 1]], weight[start + pairs[:, 2]]
    share = one / np.maximum(one + two, 1e-300)
    losses = trees.merge_losses(parameters, pairs, share)
    chosen = pairs[np.argsort(losses, kind="stable")[: int(fraction * len(pairs))]]
    # siblings are adjacent, so a state's new number is the number of states kept before it
    stays = np.ones(int(parameters.state_start[-1]), np.int64)
    stays[parameters.state_start[chosen[:, 0]] + chosen[:, 2]] = 0
    joined = [np.cumsum(part) - 1 for part in np.split(stays, parameters.state_start[1:-1])]
    return join_states(parameters, joined, weight)


def twin_states(grammar: LatentGrammar, tolerance: float = TWIN_ROUNDING) -> list[IntArray]:
    """Return the block of twins that each state belongs to, for each symbol.

    Parameters
    ----------
    tolerance
        Largest total variation, half the sum of absolute differences, between a state and the first
        state of its block. Blocks are numbered in the order of their first states.

    Raises
    ------
    SapwoodValueError
        For a spectral grammar, whose states are known only up to a change of basis.

    Notes
    -----
    Cost: a few passes, each of which reads all weights of a symbol a m(a) times.
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
    """Return the grammar with one state for each block, the weighted mean of the block's states.

    Parameters
    ----------
    blocks
        For each symbol, the block of each state. Blocks of `twin_states` keep all probabilities.
    weight
        For each symbol, the frequency of each state; it has no effect if the states are equal.
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
        raise SapwoodValueError(
            msg,
            hint="give a grammar of method em, cluster, pivot or pivot-em",
        )
    tag = grammar.n_phrases + grammar.lexicon.entry_tag.astype(np.int64)
    return LatentParameters(
        grammar.n_states, grammar.rules.astype(np.int64), tag,
        grammar.root, grammar.rule_weights, grammar.lexicon.weights,
    )  # fmt: skip


def _distances(
    given: LatentParameters, blocks: Sequence[IntArray], of_words: Sequence[FloatArray]
) -> list[FloatArray]:
    """Total variation between states of a block, with the children's states summed by block."""
    from scipy.spatial.distance import cdist

    member = [np.eye(int(block.max()) + 1)[block] for block in blocks]
    found = [words.copy() for words in of_words]
    rows: list[list[FloatArray]] = [[] for _ in blocks]
    is_divided = [len(block) == block.max() + 1 for block in blocks]  # every block has one state
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
    """Divide blocks: each state joins the first state of its block within the tolerance."""
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


def merge_twins(
    data: TrainingData, pairs: IntArray, parameters: LatentParameters, counts: ExpectedCounts
) -> tuple[LatentParameters, ExpectedCounts]:
    """Join states that are almost equal, which undoes splits without effect."""
    blocks = twin_states(latent_grammar(data, pairs, parameters, counts, {}), NEAR_TWINS)
    counted = replace(parameters, rules=counts.rules, words=counts.words)
    member = [np.eye(int(block.max()) + 1)[block] for block in blocks]
    words = np.concatenate([vector @ member[a] for a, vector in counted.emissions()])
    joined = join_states(parameters, blocks, counted.state_totals())
    return joined, replace(counts, words=words)
