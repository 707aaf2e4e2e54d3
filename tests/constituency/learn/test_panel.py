"""`MixScorer`: mixes decoded from kept posteriors are those that a parser of the mix finds."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import bundled

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.ensemble import Model
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn import dev_scores as module
from sapwood.constituency.learn.dev_scores import LEAST_PROBABILITY, MixScorer
from sapwood.core.errors import SapwoodError

Array = np.ndarray
ONE_WORD = "(INTJ (UH oh))"
NO_PARSE = "(X (. .) (. .) (DT the))"  # no sentence of the bundled grammar ends so
UNKNOWN = "(S (NP (DT the) (NN zyzzyx)) (VP (VBZ flumps)) (. .))"


@cache
def train() -> Treebank:
    return bundled("train")[:600]


@cache
def gold() -> list[sw.Tree]:
    odd = [sw.Tree.parse(text) for text in (ONE_WORD, NO_PARSE, UNKNOWN)]
    return [*odd, *list(sw.bundled_treebank("dev").trees())[:120]]


@cache
def members() -> list[LatentGrammar]:
    """Three of one chart, a conditional one among them, and two of other binary trees."""
    right, flat = sw.PCFG(binarise="right"), sw.PCFG(binarise="left", horizontal=0)
    return [
        sw.SpectralLPCFG(6).fit(train()).model_,
        sw.EMLPCFG(4, iterations=6).fit(train()).model_,
        sw.SpanCRF(passes=3).fit(train()).model_,
        sw.ClusterLPCFG(4, plain=right).fit(train()).model_,
        sw.PCFG(**flat.get_params()).fit(train()).model_,
    ]


@cache
def panel() -> MixScorer:
    made = MixScorer(gold(), members()[0])
    for member in members():
        made.add(member)
    return made


def parsed_f1(model: Model) -> float:
    """Graded by a parser that starts anew; without the second pruning, which a panel has not."""
    parser = sw.Parser(model, middle=0.0)
    trees = [parser.parse(tree.words()).tree for tree in gold()]
    return sw.evaluate.bracketing(gold(), trees).f1


# -- F1 ---------------------------------------------------------------------------------------


def test_one_member_is_graded_as_by_its_parser() -> None:
    for place in range(3):  # those that share the first one's chart
        alone = MixScorer(gold(), members()[place])
        alone.add(members()[place])
        expected = parsed_f1(members()[place])
        assert alone.f1([1.0]) == alone.f1_of([0]) == expected
        assert panel().f1_of([place]) == expected
        assert 80 < expected < 100


MIXES = {
    "two of a chart": ([0, 1], None),
    "three of a chart": ([0, 1, 2], [0.2, 0.5, 0.3]),
    "all": ([0, 1, 2, 3, 4], None),
    "other binary trees": ([0, 3], [0.3, 0.7]),
    "two other ways": ([0, 3, 4], None),
    "order is nothing": ([2, 0], [0.9, 0.1]),
}


@pytest.mark.parametrize("name", MIXES)
def test_mixes_are_graded_as_by_the_parser_of_an_ensemble(name: str) -> None:
    places, weights = MIXES[name]
    ordered = sorted(range(len(places)), key=lambda k: places[k])  # the first leads
    ensemble = sw.Ensemble.of(
        [members()[places[k]] for k in ordered],
        None if weights is None else [weights[k] for k in ordered],
    )
    found = panel().f1_of(places, None if weights is None else np.array(weights))
    assert found == parsed_f1(ensemble)


def test_mixes_differ() -> None:
    """So that equal figures above mean something; and the scale of weights means nothing."""
    found = [panel().f1_of(places) for places in ([0], [1], [2], [0, 1], [0, 1, 2], [0, 3])]
    assert len(set(found)) >= 5
    assert panel().f1([1, 1, 0, 0, 0]) == panel().f1([7, 7, 0, 0, 0]) == panel().f1_of([0, 1])


def test_a_mutant_that_ignores_weights_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = parsed_f1(sw.Ensemble.of(members()[:2]))
    assert panel().f1([1, 1, 0, 0, 0]) == expected
    assert panel().f1([1, 1, 1, 1, 1]) != expected
    # A bracket that costs nothing: the decoder's own rule is part of the figure.
    monkeypatch.setattr(module, "bracket_gains", lambda rows, p, n: np.bincount(rows.item, p, n))
    assert panel().f1([1, 1, 0, 0, 0]) != expected


def test_threads_change_nothing() -> None:
    threads = MixScorer(gold(), members()[0], jobs=2)
    for member in members():
        threads.add(member)
    assert threads.f1_of([0, 1, 3]) == panel().f1_of([0, 1, 3])
    for one, other in zip(threads.sentences, panel().sentences, strict=True):
        for p, q in zip(one.brackets, other.brackets, strict=True):
            assert np.array_equal(p, q)


def test_members_of_a_group_share_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = module.pruned_charts

    def counted(*args: object) -> object:
        calls.append(1)
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "pruned_charts", counted)
    made = MixScorer(gold(), members()[0])
    for place, expected in enumerate((1, 1, 1, 2, 3)):
        made.add(members()[place])
        assert len(calls) == expected


def test_gold_trees_are_cleaned() -> None:
    raw = ["(S (NP-SBJ (-NONE- *)))",
           "( (S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"]  # fmt: skip
    made = MixScorer([sw.Tree.parse(text) for text in raw], members()[0])
    assert [str(t) for t in made.gold] == [
        "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"
    ]


@pytest.mark.parametrize("texts", [[], ["(S (NP (-NONE- *)))"]], ids=["none", "only traces"])
def test_no_tree_at_all(texts: list[str]) -> None:
    with pytest.raises(SapwoodError, match="no dev tree is left"):
        MixScorer([sw.Tree.parse(text) for text in texts], members()[0])


# -- weights ----------------------------------------------------------------------------------


def log_loss(posterior: Array, is_right: Array, weights: Array) -> float:
    """The twin: mean over brackets of -log of the probability of what is the case."""
    p = np.clip(weights @ posterior, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return float(-np.mean(np.log(np.where(is_right, p, 1 - p))))


class Votes(MixScorer):
    """A panel whose brackets are made up."""

    def __init__(self, posterior: Array, is_right: Array) -> None:
        self.votes = posterior, is_right

    def _all_brackets(self) -> tuple[Array, Array]:
        return self.votes


def votes(seed: int, noise: list[float]) -> Votes:
    """Members that see the truth through noise of their own."""
    rng = np.random.default_rng(seed)
    is_right = rng.random(2000) < 0.4
    logits = np.where(is_right, 2.0, -2.0) + rng.normal(size=(len(noise), 2000)) * np.array(
        noise
    ).reshape(-1, 1)
    return Votes(1 / (1 + np.exp(-logits)), is_right)


@pytest.mark.parametrize("places", [[0, 1], [0, 1, 2], [0, 1, 2, 3, 4], [3]], ids=str)
def test_weights_lower_the_log_loss(places: list[int]) -> None:
    found = panel().likely_weights(places)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    everything, is_right = panel()._all_brackets()
    posterior, equal = everything[places], np.full(len(places), 1 / len(places))
    loss = log_loss(posterior, is_right, found)
    assert loss <= log_loss(posterior, is_right, equal)
    for k in range(len(places)):
        assert loss <= log_loss(posterior, is_right, np.eye(len(places))[k]) + 1e-6


@settings(max_examples=20)
@given(seed=st.integers(0, 999))
def test_they_are_the_best_weights(seed: int) -> None:
    """Of two members, against a grid; the loss is convex, so there is one place to be."""
    made = votes(seed, [1.0, 2.0])
    found = made.likely_weights([0, 1])
    grid = np.linspace(0, 1, 201)
    losses = [log_loss(*made.votes, np.array([w, 1 - w])) for w in grid]
    assert log_loss(*made.votes, found) <= min(losses) + 1e-5
    assert abs(found[0] - grid[int(np.argmin(losses))]) < 0.02
    # Mutants: the other way round, and equal weights.
    assert log_loss(*made.votes, found[::-1]) > min(losses) + 1e-3
    assert log_loss(*made.votes, np.full(2, 0.5)) > min(losses) + 1e-5


def test_a_good_member_weighs_more_than_a_bad_one() -> None:
    made = votes(0, [1.0, 4.0, 1.0])
    posterior, is_right = made.votes
    found = made.likely_weights([0, 1, 2])
    assert min(found[0], found[2]) > 2 * found[1]
    contrary = Votes(np.array([posterior[0], 1 - posterior[0]]), is_right)
    assert contrary.likely_weights([0, 1])[0] > 0.95
    # And on trees: a grammar of 600 trees against one of 20.
    poor = sw.PCFG(binarise="left", horizontal=0).fit(train()[:20]).model_
    two = MixScorer(gold(), members()[0])
    two.add(members()[0])
    two.add(poor)
    assert two.f1_of([0]) > two.f1_of([1]) + 3
    assert two.likely_weights([0, 1])[0] > 0.75


def sharp_loss(posterior: Array, is_right: Array, weights: Array, sharpness: float) -> float:
    """Log-loss by odds: sharpness multiplies the logarithm of the odds."""
    p = np.clip(weights @ posterior, 1e-12, 1 - 1e-12)
    return log_loss(1 / (1 + np.exp(-sharpness * np.log(p / (1 - p))))[None], is_right, np.ones(1))


@pytest.mark.parametrize("seed", range(3))
def test_the_likeliest_sharpness(seed: int) -> None:
    """Against a grid; the mean of members that see different things is too cautious."""
    made = votes(seed, [2.0, 2.0, 2.0])
    equal = np.full(3, 1 / 3)
    found = made.likely_sharpness([0, 1, 2], equal)
    losses = {a: sharp_loss(*made.votes, equal, a) for a in np.linspace(0.5, 3.0, 51)}
    assert sharp_loss(*made.votes, equal, found) <= min(losses.values()) + 1e-6
    assert abs(found - min(losses, key=lambda a: losses[a])) < 0.1
    assert found > 1.1
    assert sharp_loss(*made.votes, equal, 1 / found) > min(losses.values()) + 1e-3


def test_probabilities_that_are_right_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 200_000)
    made = Votes(p[None], rng.random(len(p)) < p)
    assert made.likely_sharpness([0], np.ones(1)) == pytest.approx(1, abs=0.02)


def test_a_sharp_mix_is_graded_as_by_its_parser() -> None:
    members_, weights = [members()[k] for k in (0, 1, 3)], np.array([0.5, 0.3, 0.2])
    for sharpness in (0.6, 1.6):
        mix = replace(sw.Ensemble.of(members_, weights.tolist()), sharpness=sharpness)
        assert panel().f1_of([0, 1, 3], weights, sharpness) == parsed_f1(mix)


def test_which_brackets_are_right() -> None:
    """Those of the gold trees that are in the chart, once each, tags aside."""
    posterior, is_right = panel()._all_brackets()
    assert posterior.shape == (5, len(is_right))
    n_gold = 0
    for tree, sentence in zip(panel().gold, panel().sentences, strict=True):
        if sentence.rows is None:
            continue
        nodes = zip(tree.nodes(), tree.spans(), strict=True)
        n_gold += len({span for node, span in nodes if not node.is_preterminal}) - 1  # TOP
    assert 0.9 * n_gold < is_right.sum() <= n_gold
    assert posterior[:, is_right].mean() > 0.8
    assert posterior[:, ~is_right].mean() < 0.2


def test_a_tag_named_like_a_phrase_is_no_bracket() -> None:
    trees = [sw.Tree.parse("(S (X (A a)) (X b))"), sw.Tree.parse("(S (A b) (X (A a)))")] * 4
    model = sw.PCFG().fit(Treebank.from_trees(trees)).model_
    made = MixScorer(trees[:1], model)
    made.add(model)
    codes = made._gold_codes(made.gold[0], 2)
    names = {number: name for name, number in made.numbers.items()}
    found = sorted((names[c // 9 // 2], c // 3 % 3, c % 3) for c in codes)
    assert found == [("S", 0, 2), ("X", 0, 1)]


def test_dev_trees_of_one_word_leave_weights_equal() -> None:
    made = MixScorer([sw.Tree.parse(ONE_WORD)], members()[0])
    for member in members()[:2]:
        made.add(member)
    assert made.likely_weights([0, 1]).tolist() == [0.5, 0.5]
    assert made.likely_sharpness([0, 1], np.full(2, 0.5)) == 1.0
