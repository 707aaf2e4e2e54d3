"""The f1 decoder finds the tree of the highest expected gain, and so do the next best ones.

    score(tree) = sum over brackets of (p - 0.44) + 0.1 * sum over tags of p

Both are checked against every tree of a small sentence. Intermediate and joint symbols are in the
grammars, so that trees differ in how many brackets they have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import Learn
from tests.constituency.grammar.ensemble_toys import jitter, toys
from tests.reference import enumerate as listing
from tests.reference.enumerate import Node
from tests.toys import Toy, random_toy

import sapwood as sw
from sapwood.constituency.data.transform import Symbol, restore
from sapwood.constituency.grammar.ensemble import Ensemble, Model
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.parse.charts import ForestPosteriors, PrunedForest
from sapwood.constituency.parse.decoders import (
    DECODERS,
    Gains,
    forest_tree,
    goodman_gains,
    max_rule_gains,
)
from sapwood.constituency.parse.k_best import next_trees
from sapwood.constituency.parse.kernels.forest import Forest
from sapwood.constituency.parse.parser import Parser
from sapwood.constituency.parse.prepared import prepare
from sapwood.core.errors import SapwoodError
from sapwood.corpora.tree import Tree

WORDS = ["w0", "w1", "w2", "w0"]
PHRASES = (Symbol(("A",)), Symbol(("A", "B")), Symbol(("A",), (), ("x",)))
COST, TAG = 0.44, 0.1
Posteriors = dict[tuple[str, int, int, bool], float]


def toy_of(seed: int) -> Toy:
    """Three phrases: a plain one, a joint one, and an intermediate one that may not be the root."""
    toy = random_toy(np.random.default_rng(seed), n_phrases=3, n_states=2, density=0.25)
    toy.root = {a: v for a, v in toy.root.items() if a < 2}
    return toy


def grammar_of(toy: Toy) -> LatentGrammar:
    return replace(toy.grammar(), phrases=PHRASES)


def symbols_of(toy: Toy) -> tuple[Symbol, ...]:
    return (*PHRASES, *(Symbol((f"T{t}",)) for t in range(3, len(toy.n_states))))


def parts_of(node: Node, symbols: Sequence[Symbol]) -> list[tuple[str, int, int, bool]]:
    """Brackets and tags of a binary tree, by name."""
    return [
        (label, part.start, part.end, not part.children)
        for part in listing.nodes(node)
        if not symbols[part.symbol].is_intermediate
        for label in symbols[part.symbol].chain
    ]


def posteriors_of(toy: Toy) -> Posteriors:
    """Posterior of each bracket and tag, from all trees."""
    weighted = listing.weighted_trees(*toy.floats(WORDS))
    total = listing.sentence_weight(weighted)
    out: Posteriors = defaultdict(float)
    for node, weight in weighted:
        for part in parts_of(node, symbols_of(toy)):
            out[part] += weight / total
    return dict(out)


def restored(node: Node, symbols: Sequence[Symbol]) -> Tree:
    order = list(listing.nodes(node))[::-1]  # children before parents
    place = {id(part): k for k, part in enumerate(order)}
    rows = [
        (part.symbol, *(place[id(child)] for child in part.children), None)
        if part.children
        else (part.symbol, -1, -1, WORDS[part.start])
        for part in order
    ]
    return restore(symbols, rows)  # type: ignore[arg-type]


def scores_of(toy: Toy, p: Posteriors, cost: float = COST, tag: float = TAG) -> dict[Tree, float]:
    """Every tree of the sentence with its score."""
    root, rules, emissions = toy.floats(WORDS)
    symbols = symbols_of(toy)
    return {
        restored(node, symbols): sum(
            tag * p[part] if part[3] else p[part] - cost for part in parts_of(node, symbols)
        )
        for node in listing.all_trees(rules, emissions)
        if node.symbol in root
    }


def exact(model: Model) -> Parser:
    return Parser(model, threshold=0.0, beam=0.0, middle=0.0)


@pytest.mark.parametrize("seed", range(12))
def test_f1_finds_the_tree_of_the_highest_expected_gain(seed: int) -> None:
    toy = toy_of(seed)
    scores = scores_of(toy, posteriors_of(toy))
    parse = exact(grammar_of(toy)).parse(WORDS)
    assert scores[parse.tree] == pytest.approx(max(scores.values()), abs=1e-9)
    assert len({len(tree.spans()) for tree in scores}) > 1  # the cost of a bracket matters


MUTANTS: dict[str, dict[str, float]] = {
    "no cost": {"cost": 0.0},
    "twice the cost": {"cost": 2 * COST},
    "tags count as brackets": {"tag": 5.0},
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_another_gain_finds_other_trees(mutant: str) -> None:
    """The check above can fail: trees that are best by other gains are not best by ours."""
    n_other = 0
    for seed in range(12):
        toy = toy_of(seed)
        p = posteriors_of(toy)
        scores = scores_of(toy, p)
        wrong = scores_of(toy, p, **MUTANTS[mutant])
        n_other += scores[max(wrong, key=wrong.__getitem__)] < max(scores.values()) - 1e-6
    assert n_other >= 2


@pytest.mark.parametrize("seed", range(4))
def test_the_next_best_trees_come_in_order(seed: int) -> None:
    toy = toy_of(seed)
    scores = scores_of(toy, posteriors_of(toy))
    parse = exact(grammar_of(toy)).parse(WORDS)
    best = parse.k_best(8)
    assert best[0].tree == parse.tree
    assert len({scored.tree for scored in best}) == len(best) == min(8, len(scores))
    assert [s.score for s in best] == pytest.approx(sorted(scores.values())[::-1][:8], abs=1e-9)
    for scored in best:
        assert scored.score == pytest.approx(scores[scored.tree], abs=1e-9)
        assert scored.log_prob == parse._prepared.ensemble.log_prob(scored.tree)


def test_an_ensemble_is_decoded_from_the_mean() -> None:
    """The same check with posteriors of three grammars averaged; one alone would not do."""
    n_other = 0
    for seed in range(6):
        first = toy_of(seed)
        several = [first, *(jitter(first, 100 + s, 0.05, 3.0) for s in (1, 2))]
        each = [posteriors_of(toy) for toy in several]
        weights = (0.2, 0.5, 0.3)
        mean = {
            part: sum(w * p.get(part, 0.0) for w, p in zip(weights, each, strict=True))
            for part in set().union(*each)
        }
        scores = scores_of(first, mean)
        ensemble = Ensemble.of([grammar_of(toy) for toy in several], weights)
        parse = exact(ensemble).parse(WORDS)
        assert scores[parse.tree] == pytest.approx(max(scores.values()), abs=1e-9)
        assert parse.k_best(1)[0].score == pytest.approx(max(scores.values()), abs=1e-9)
        alone = scores_of(first, each[0])
        n_other += scores[max(alone, key=alone.__getitem__)] < max(scores.values()) - 1e-6
    assert n_other >= 1


def test_viterbi_follows_one_grammar() -> None:
    members = [toy.normalised().grammar(is_probabilistic=True) for toy in toys(2)]
    with pytest.raises(SapwoodError, match="viterbi decoder follows one grammar") as caught:
        Parser(Ensemble.of(members), decoder="viterbi")
    assert "f1" in str(caught.value.hint)
    one, other = (
        Parser(model, decoder="viterbi").parse(WORDS)
        for model in (members[0], Ensemble.of(members[:1]))
    )
    assert one.tree == other.tree


def test_f1_is_the_default() -> None:
    assert Parser(sw.bundled_grammar()).decoder == "f1"


# -- posteriors of either sign ----------------------------------------------------------------


def forest_of_two(items: list[float]) -> ForestPosteriors:
    """Words 0 to 2, and two trees: (0 1) first, or (1 2) first; items by width."""
    symbol, start, end = zip(
        *((3, 0, 1), (3, 1, 2), (3, 2, 3), (0, 0, 2), (1, 1, 3), (0, 0, 3)), strict=True
    )
    edges = ((3, 0, 1, 0), (4, 1, 2, 1), (5, 3, 2, 2), (5, 0, 4, 3))
    head, left, right, rule = zip(*edges, strict=True)
    columns = (symbol, start, end, head, left, right, rule)
    forest = Forest(*(np.array(column, dtype=np.uint32) for column in columns))
    roots = np.array([5])
    prepared, words = prepare(random_toy(np.random.default_rng(0)).grammar()), ["w0"] * 3
    scale = np.zeros(6, np.int64)
    pruned = PrunedForest(words, forest, np.zeros(3, np.int64), scale, roots)
    return ForestPosteriors(pruned, prepared, np.array(items), np.zeros(4), 0.0)


def test_goodman_counts_negative_posteriors_as_0() -> None:
    parsed = forest_of_two([1.0, 1.0, 1.0, -0.3, -0.2, 1.0])
    gains = goodman_gains(parsed)
    assert gains.items.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 1.0]
    found = [one.score for one in next_trees(parsed.pruned, gains)]
    assert found == [4.0, 4.0]


def test_what_being_the_root_adds_decides_between_roots() -> None:
    """Two words, and two phrases over both of them."""
    columns = ((2, 2, 0, 1), (0, 1, 0, 0), (1, 2, 2, 2), (2, 3), (0, 0), (1, 1), (0, 1))
    forest = Forest(*(np.array(column, dtype=np.uint32) for column in columns))
    pruned = forest_of_two([0.0] * 6).pruned._replace(
        forest=forest, scale=np.zeros(3, np.int64), roots=np.array([2, 3])
    )
    for gain, symbol in ((-1.0, 0), (1.0, 1)):
        gains = Gains(np.array([0.0, 0.0, 0.5, 0.5]), np.zeros(2), np.array([0.0, gain]))
        found = forest_tree(pruned, gains)
        assert found is not None
        assert found.nodes[-1][0] == symbol
        assert found.score == 0.5 + max(gain, 0.0)


def test_goodman_adds_up_posteriors() -> None:
    parsed = forest_of_two([1.0, 1.0, 1.0, 0.3, 0.7, 1.0])
    found = list(next_trees(parsed.pruned, goodman_gains(parsed)))
    assert [one.score for one in found] == pytest.approx([4.7, 4.3])
    best = forest_tree(parsed.pruned, goodman_gains(parsed))
    assert best is not None
    assert (1, 1) in [
        (symbol, start) for symbol, _, _, start in best.nodes
    ]  # the phrase over 1 and 2


def test_max_rule_takes_absolute_posteriors_with_a_floor() -> None:
    parsed = forest_of_two([-0.5, 0.5, 0.0, 1, 1, -0.25])._replace(edges=np.array([-0.5, 0, 1, 1]))
    gains = max_rule_gains(parsed)
    half, floor = np.log(0.5), np.log(1e-12)
    np.testing.assert_allclose(gains.items, [half, half, floor, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(gains.edges, [half, floor, 0, 0], atol=1e-15)
    np.testing.assert_allclose(gains.roots, [np.log(0.25)], atol=1e-15)


@pytest.mark.parametrize("model", ["plain", "latent", "spectral", "ensemble"])
@pytest.mark.parametrize("decoder", DECODERS)
def test_the_first_of_the_k_best_trees_is_the_parse(decoder: str, model: str, learn: Learn) -> None:
    """Also where pruning hides it from the forest, where trees tie, and for a single word."""
    plain, spectral = learn("pcfg"), learn("spectral")
    models = {
        "plain": plain,
        "latent": sw.bundled_grammar(),
        "spectral": spectral,
        "ensemble": Ensemble.of([plain, spectral]),
    }
    if decoder == "viterbi" and model in {"spectral", "ensemble"}:
        return
    parser = Parser(models[model], decoder=decoder, threshold=0.02, beam=0.02)
    texts = ["hello", "Dogs", "the dog sees the man with a hat .", "foo foo foo foo"]
    test = sw.bundled_treebank("test")
    sentences = [text.split() for text in texts] + [test.words(i) for i in range(15)]
    for parse in parser.parse_many(sentences):
        best = parse.k_best(4)
        assert best[0].tree == parse.tree
        assert best[0].log_prob == parse.log_prob
        assert len({scored.tree for scored in best}) == len(best)
        assert [s.score for s in best] == sorted((s.score for s in best), reverse=True)
