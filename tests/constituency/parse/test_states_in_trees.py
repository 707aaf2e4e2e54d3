"""The states of the nodes of a tree, against a sum over all ways to give its nodes states."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood as sw
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.node_states import states_in_trees
from sapwood.constituency.parse.state_vectors import StateVectors

TREE = sw.Tree.parse("(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP them))) (. .)))")


def joint(grammar: LatentGrammar, tree: sw.Tree) -> tuple[sw.Treebank, list[int], np.ndarray]:
    """P(tree, states of all its nodes): an axis for each row of the packed tree."""
    bank = sw.Treebank.from_trees([tree], grammar.transform)
    symbols = [grammar.symbols.index(bank.inventory.symbols[label]) for label in bank.label]
    numbers = {tuple(rule): k for k, rule in enumerate(grammar.rules.tolist())}
    lexicon, parts = grammar.lexicon, []
    for row, a in enumerate(symbols):
        b, c = int(bank.left[row]), int(bank.right[row])
        if b >= 0:
            parts += [grammar.tensor(numbers[a, symbols[b], symbols[c]]), [row, b, c]]
        else:
            word = bank.inventory.words[bank.word[row]]
            entry = lexicon.find_entries(
                np.array([lexicon.vocabulary.row(word, is_first=bank.start[row] == 0)]),
                np.array([a - grammar.n_phrases]),
            )[0]
            first, last = lexicon.weight_start[entry : entry + 2]
            parts += [lexicon.weights[first:last], [row]]
    parts += [grammar.root_vector(symbols[-1]), [len(symbols) - 1]]
    return bank, symbols, parts


def shares_of(parts: list[object], row: int) -> np.ndarray:
    found = np.einsum(*parts, [row], optimize=True)
    return np.asarray(found / found.sum())


@pytest.mark.parametrize("method", ["bundled", "spectral", "cluster"])
def test_shares_are_those_of_a_sum_over_all_states(method: str, learn: object) -> None:
    grammar = sw.bundled_grammar() if method == "bundled" else learn(method, 3)  # type: ignore[operator]
    tree = sw.Parser(grammar).parse(TREE.words()).tree
    (found,) = states_in_trees(StateVectors(grammar), [tree])
    bank, symbols, parts = joint(grammar, tree)
    n_seen = 0
    for row, a in enumerate(symbols):
        if grammar.symbols[a].is_intermediate:
            continue
        n_seen += 1
        symbol, shares, _ = found[int(bank.start[row]), int(bank.end[row])]
        assert symbol == a
        np.testing.assert_allclose(shares, shares_of(parts, row), rtol=1e-8, atol=1e-10)
    assert n_seen == len(found)


def test_a_tree_that_cannot_be_built_has_no_states() -> None:
    vectors = StateVectors(sw.bundled_grammar())
    trees = [
        sw.Tree.parse(text) for text in ("(S (X a) (Y b))", "(S (NP (NN the)) (VP (VBP dog)))")
    ]
    assert list(states_in_trees(vectors, trees)) == [{}, {}]
