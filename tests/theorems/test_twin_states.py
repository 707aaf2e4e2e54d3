"""States that derive the same may be one state: every tree and sentence keeps its probability."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.toys import Toy, random_toy

import sapwood as sw
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn.em_states import merge_states, twin_states
from sapwood.constituency.parse.parser import Parser
from sapwood.core.errors import SapwoodValueError

WORDS = ["w0", "w1", "w2", "w0", "unheard-of"]
SEEDS = range(6)
EXACT = 1e-12  # sums of positive numbers in another order


def with_twins(toy: Toy, rng: np.random.Generator) -> tuple[Toy, list[np.ndarray]]:
    """The same grammar with each state cloned, and the state that each clone comes from.

    Clones have the row of their state. What leads to a state is shared out among its clones, in
    another way for each rule, parent and root: only in blocks are the clones' parents equal.
    """
    origin = [np.repeat(np.arange(m), rng.integers(1, 4, m)) for m in toy.n_states]

    def dealt(weights: np.ndarray, axis: int, a: int) -> np.ndarray:
        """Weights of states along an axis, shared out among the clones of symbol a."""
        cloned = np.take(weights, origin[a], axis)
        share = rng.uniform(0.1, 1.0, cloned.shape)
        total = np.stack([
            np.take(share, np.flatnonzero(origin[a] == h), axis).sum(axis)
            for h in range(toy.n_states[a])
        ], axis)  # fmt: skip
        return np.asarray(cloned * share / np.take(total, origin[a], axis))

    rules = {
        (a, b, c): dealt(dealt(tensor[origin[a]], 1, b), 2, c)
        for (a, b, c), tensor in toy.rules.items()
    }
    words = {
        word: {t: vector[origin[t]] for t, vector in row.items()} for word, row in toy.words.items()
    }
    root = {a: dealt(vector, 0, a) for a, vector in toy.root.items()}
    return Toy(toy.n_phrases, [len(o) for o in origin], root, rules, words), origin


def cloned_grammars() -> Iterator[tuple[LatentGrammar, LatentGrammar, list[np.ndarray]]]:
    """Grammars, the same with clones, and the state that each clone comes from."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        toy = random_toy(rng, n_phrases=3, n_tags=2, n_states=3).normalised()
        twice, origin = with_twins(toy, rng)
        yield *(one.grammar(is_probabilistic=True) for one in (toy, twice)), origin


def weights_of(grammar: LatentGrammar) -> list[float]:
    """Log-probabilities of a sentence, its prefixes, and the trees that other parsers may find."""
    sentences = [WORDS[:n] for n in range(2, len(WORDS) + 1)]
    parser = Parser(grammar, threshold=0.0, beam=0.0)
    trees = [each.tree for words in sentences for each in parser.parse(words).k_best(4)]
    # in an order of their own: equal grammars may list equally good trees in another order
    return [grammar.log_prob(words) for words in sentences] + sorted(map(grammar.log_prob, trees))


def sizes(blocks: list[np.ndarray]) -> list[int]:
    return [int(block.max()) + 1 for block in blocks]


def merged(grammar: LatentGrammar, blocks: list[np.ndarray], rng: np.random.Generator):
    """With weights that must not matter."""
    return merge_states(grammar, blocks, [rng.uniform(0.1, 1.0, m) for m in grammar.n_states])


def test_clones_are_found_and_merging_them_changes_no_probability() -> None:
    rng = np.random.default_rng(0)
    for grammar, twice, origin in cloned_grammars():
        blocks = twin_states(twice)
        for block, state in zip(blocks, origin, strict=True):
            assert len(set(zip(block, state, strict=True))) == len(set(block))  # never too coarse
        assert sizes(blocks) == sizes(twin_states(grammar)) < twice.n_states.tolist()
        once = merged(twice, blocks, rng)
        assert once.n_states.tolist() == sizes(blocks)
        expected = pytest.approx(weights_of(twice), rel=EXACT, abs=EXACT)
        assert weights_of(once) == expected
        assert weights_of(grammar) == expected


def test_merging_states_that_are_no_twins_is_seen() -> None:
    """A mutant: the states of one symbol become one, though they differ."""
    rng = np.random.default_rng(0)
    for grammar, _, _ in cloned_grammars():
        blocks = twin_states(grammar)
        assert len(blocks[0]) == 3
        assert sizes(blocks)[0] == 3
        wrong = [np.zeros_like(blocks[0]), *blocks[1:]]
        gap = np.array(weights_of(merged(grammar, wrong, rng))) - weights_of(grammar)
        assert np.abs(gap).max() > 1e-4


def test_the_same_rules_with_other_states_below_make_no_twins() -> None:
    toy = random_toy(np.random.default_rng(2), n_phrases=3, n_tags=2, n_states=3).normalised()
    rules = {
        key: tensor / tensor.sum(axis=(1, 2), keepdims=True) * tensor.sum() / len(tensor)
        for key, tensor in toy.rules.items()
    }
    alike = Toy(toy.n_phrases, toy.n_states, toy.root, rules, toy.words)
    assert sizes(twin_states(alike.grammar(is_probabilistic=True))) == toy.n_states


def test_near_twins_are_those_within_the_tolerance() -> None:
    """A state of a tag that is moved by 0.02 is a twin from a tolerance of 0.02 on."""
    toy = random_toy(np.random.default_rng(3), n_states=1).normalised()
    twice, _ = with_twins(toy, np.random.default_rng(1))
    a = twice.n_phrases
    m = twice.n_states[a]
    assert m > 1
    moved = {word: {t: v.copy() for t, v in row.items()} for word, row in twice.words.items()}
    with_tag = [word for word, row in moved.items() if a in row][:2]
    for word, step in zip(with_tag, (0.02, -0.02), strict=True):
        moved[word][a][-1] += step
    near = Toy(twice.n_phrases, twice.n_states, twice.root, twice.rules, moved)
    grammar = near.grammar(is_probabilistic=True)
    assert twin_states(grammar)[a].tolist() == [0] * (m - 1) + [1]
    assert twin_states(grammar, 0.0199)[a].tolist() == [0] * (m - 1) + [1]
    assert twin_states(grammar, 0.0201)[a].tolist() == [0] * m


def test_a_spectral_grammar_has_no_twins(bank: sw.Treebank) -> None:
    with pytest.raises(SapwoodValueError, match="directions of a basis"):
        twin_states(sw.SpectralLPCFG(2).fit(bank[:50]).model_)
