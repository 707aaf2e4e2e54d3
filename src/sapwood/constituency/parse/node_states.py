"""The states of the constituents of given trees, and what each rule says about states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sapwood.constituency.data.treebank import Treebank
from sapwood.core.arrays import FloatArray

if TYPE_CHECKING:
    from sapwood.constituency.grammar.latent_grammar import LatentGrammar
    from sapwood.constituency.parse.state_vectors import StateVectors
    from sapwood.corpora.tree import Tree

Span = tuple[int, int]


class NodeStates(NamedTuple):
    """The symbol of a constituent of a tree, the share of each of its states, its inside vector.

    Only the direction of the inside vector means anything: its largest part is 1 or -1.
    """

    symbol: int
    shares: FloatArray
    inside: FloatArray


def at_rules(vectors: StateVectors) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """What each rule says about the states of its parent, its left child and its right one."""
    for r, (a, b, c) in enumerate(vectors.triples):
        left, right = vectors.down(r, vectors.out[a], vectors.one[b], vectors.one[c])
        yield vectors.up(r, vectors.one[b], vectors.one[c]), left, right


def states_in_trees(
    vectors: StateVectors, trees: Iterable[Tree]
) -> Iterator[dict[Span, NodeStates]]:
    """The states of the constituents of each tree, by first word and one past the last.

        shares[h] = alpha[h] beta[h] / sum over h of the same

    with beta the weight of what is below a node in each state, alpha that of all else in the
    tree. Given probabilities, this is P(state | tree); of a spectral model the parts may be
    negative, and only sum to 1. Labels that stand over the same words share a symbol, and so
    its states. A tree that the grammar cannot build in its own binary form has none.

    Parameters
    ----------
    trees
        Clean ones.
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
    for node, a in enumerate(label):  # children stand before parents
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
        shares = above[node] * below[node]
        if not shares.sum():
            return {}
        if not vectors.model.symbols[label[node]].is_intermediate:
            found[start[node], end[node]] = NodeStates(
                label[node], shares / shares.sum(), below[node]
            )
        if rules[node] >= 0:
            b, c = left[node], right[node]
            scaled = above[node] / np.abs(above[node]).max()
            above[b], above[c] = vectors.down(rules[node], scaled, below[b], below[c])
    return found


def _leaf(model: LatentGrammar, a: int, word: str, *, is_first: bool) -> FloatArray | None:
    """The vector of a word under a tag; None where the lexicon has it not."""
    lexicon = model.lexicon
    row = lexicon.vocabulary.row(word, is_first=is_first)
    tags = lexicon.entry_tag[lexicon.entries(row)].astype(np.int64) + model.n_phrases
    places = np.flatnonzero(tags == a)
    if not len(places):
        return None
    entry = int(lexicon.row_start[row]) + int(places[0])
    return lexicon.weights[lexicon.weight_start[entry] : lexicon.weight_start[entry + 1]]
