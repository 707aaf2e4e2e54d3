"""Vectors over the states of a label: exact on probabilities, blind to a change of basis."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.conftest import bundled
from tests.toys import random_bases, random_toy

import sapwood as sw
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.state_vectors import Item, StateVectors, pulls, states_in_trees


@pytest.fixture(scope="module")
def toy():
    """A proper grammar whose trees end: a weight of 1/4 is the most that can branch further."""
    rng = np.random.default_rng(3)
    toy = random_toy(rng, n_phrases=2, n_tags=2, n_states=3)
    rules = {r: t * (0.1 if min(r[1:]) < 2 else 1.0) for r, t in toy.rules.items()}
    return replace(toy, rules=rules).normalised()


def test_probabilities_of_states(toy) -> None:
    model = toy.grammar(is_probabilistic=True)
    vectors = StateVectors(model)
    for a in range(model.n_symbols):
        items = list(vectors.rules(a) if a < model.n_phrases else vectors.words(a))
        total = np.sum([item.vector for item in items], axis=0)
        assert_allclose(total, 1.0, rtol=1e-6)  # P(rule | a, h) and P(word | a, h)
        contexts = np.sum([item.vector for item in vectors.contexts(a)], axis=0)
        assert_allclose(contexts, 1.0, rtol=1e-9)
        places = sum(place.probability for place in vectors.plain_contexts(a))
        assert places == pytest.approx(1.0, rel=1e-6)


def test_a_change_of_basis_changes_no_total(toy) -> None:
    """SPECTRAL, Theorem 3: in another basis `one` becomes G'^-1 1, and `out` G out."""
    bases = random_bases(np.random.default_rng(4), toy.n_states)
    plain, turned = toy.grammar(is_probabilistic=True), toy.rebased(bases).grammar()
    # The coarse weights of the toy are all 1; those of the projection are what a learner has.
    turned = replace(turned, coarse=plain.coarse)
    ours, theirs = StateVectors(plain), StateVectors(turned)
    for a, basis in enumerate(bases):
        # the sweeps stop at a change of 1e-3
        assert_allclose(theirs.one[a] @ basis, ours.one[a], rtol=0.02)
        assert_allclose(np.linalg.solve(basis, theirs.out[a]), ours.out[a], rtol=0.05)


def test_factors_and_whole_tensors_agree() -> None:
    model = sw.SpectralLPCFG(6).fit(sw.bundled_treebank("dev")).model_
    assert (model.rule_rank > 0).any()
    vectors, rng = StateVectors(model), np.random.default_rng(0)
    for r in np.flatnonzero(model.rule_rank)[:5].tolist():
        whole = model.tensor(r)
        above, left, right = (rng.normal(size=m) for m in whole.shape)
        assert_allclose(
            vectors.up(r, left, right), np.einsum("hpq,p,q->h", whole, left, right), rtol=1e-9
        )
        down = vectors.down(r, above, left, right)
        assert_allclose(down[0], np.einsum("hpq,h,q->p", whole, above, right), rtol=1e-9)
        assert_allclose(down[1], np.einsum("hpq,h,p->q", whole, above, left), rtol=1e-9)


def test_a_spectral_model_nearly_sums_to_one() -> None:
    model = sw.SpectralLPCFG(8).fit(bundled("train")).model_
    one = StateVectors(model).one
    total = sum(float(model.root_vector(a) @ one[a]) for a in range(model.n_symbols))
    assert total == pytest.approx(1.0, abs=0.05)  # estimated from 3,000 trees


def test_pulls() -> None:
    items = [
        Item("left", 0.5, np.array([-0.5, 1.0])),
        Item("right", 0.49, np.array([0.49, 1.0])),
        Item("rare", 0.01, np.array([0.02, 1.0])),
        Item("never", 0.0, np.array([0.0, 0.0])),
    ]
    above, below = pulls(items, 0, 5)
    assert [one.name for one in above] == ["right", "rare"]
    assert [one.name for one in below] == ["left"]
    assert above[1].pull > above[0].pull > 0 > below[0].pull
    assert [len(side) for side in pulls(items, 0, 1)] == [1, 1]


@pytest.mark.parametrize("items", [[], [Item("only", 1.0, np.array([2.0]))]])
def test_pulls_of_nothing_to_tell(items: list[Item]) -> None:
    assert pulls(items, 0, 3) == ([], [])


def test_a_grammar_without_roots_has_vectors_all_the_same(toy) -> None:
    """Nothing is visited in a random tree that never begins: no mean over it, and no division."""
    model = toy.grammar(is_probabilistic=True)
    coarse = replace(model.coarse, root=np.zeros_like(model.coarse.root))
    vectors = StateVectors(replace(model, coarse=coarse))
    assert all(np.isfinite(vector).all() for vector in vectors.out)


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
