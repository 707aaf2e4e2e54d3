"""`PivotLPCFG` on treebanks: pivots, states, and steps where exact moments do not reach."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tests.conftest import bundled
from tests.shards import shards_of

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn import features
from sapwood.constituency.learn import pivot as module
from sapwood.constituency.learn.em_steps import TrainingTrees
from sapwood.constituency.learn.features import INSIDE, project_nodes
from sapwood.constituency.learn.pivot import (
    FeatureDistributions,
    PivotNodes,
    PivotSettings,
    expected_rule_counts,
    find_distributions,
    likely_states,
    pivot_nodes,
)
from sapwood.core.errors import SapwoodError, SapwoodWarning
from sapwood.execute import Threads


@pytest.fixture(scope="module")
def train() -> Treebank:
    return bundled("train")[:1500]


@pytest.fixture(scope="module")
def pivot(train: Treebank) -> sw.PivotLPCFG:
    return sw.PivotLPCFG(6).fit(train)


def f1(model: sw.LatentGrammar) -> float:
    gold = list(sw.bundled_treebank("dev").trees())
    parses = sw.Parser(model).parse_many([tree.words() for tree in gold])
    return float(sw.evaluate.bracketing(gold, [parse.tree for parse in parses]).f1)


def test_the_model_is_a_grammar_with_probabilities(pivot: sw.PivotLPCFG) -> None:
    assert pivot.model_.is_probabilistic  # checked on construction: every state sums to 1
    assert pivot.model_.n_states.max() == 6
    assert all(np.isfinite(pivot.model_.log_prob(tree)) for tree in pivot.model_.sample(20))


def test_hidden_states_help(train: Treebank, pivot: sw.PivotLPCFG) -> None:
    # 88.5 plain, 91 with pivots on the first 1,500 bundled trees
    assert f1(pivot.model_) > f1(sw.PCFG().fit(train).model_) + 1.0


def test_labels_with_few_nodes_get_one_state(train: Treebank, pivot: sw.PivotLPCFG) -> None:
    count = np.bincount(train.label, minlength=len(train.inventory.symbols))
    assert (pivot.info_.states[count < 40] == 1).all()
    assert (pivot.info_.states <= np.maximum(1, count // 20)).all()


def test_pivots_are_named_once_for_every_state(pivot: sw.PivotLPCFG) -> None:
    states = {
        str(symbol): int(m)
        for symbol, m in zip(pivot.model_.symbols, pivot.info_.states, strict=True)
    }
    assert pivot.info_.pivots
    for label, names in pivot.info_.pivots.items():
        assert len(names) == states[label]
        # a pivot outside is shown by rules above, the place of the label in brackets
        assert all(f"[{label}]" in name or name.endswith("root") for name in names)
    assert pivot.model_.record["side"] == "outside"


def test_pivots_inside_are_named_by_words_and_rules(train: Treebank) -> None:
    names = sw.PivotLPCFG(4, side="inside").fit(train[:500]).info_.pivots
    assert any(name.startswith("word: ") for name in names["NN"])
    assert any(" -> " in name for name in names["NP"])


def two_places() -> Treebank:
    """A tag with as many words as one likes, but only two places where it stands."""
    texts = [f"(S (N n{k % 7}) (VP (V sees) (N n{k % 5})))" for k in range(200)]
    return Treebank.from_trees([sw.Tree.parse(text) for text in texts])


def test_labels_with_too_few_pivots_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four states were asked for and could be told apart, but two places are two pivots."""
    monkeypatch.setattr(features, "LEAST_VALUE", 0.0)
    with pytest.warns(SapwoodWarning, match=r"fewer pivots than states .*N 2 of 4") as caught:
        found = sw.PivotLPCFG(4).fit(two_places())
    assert len(caught) == 1
    assert found.info_.missing["N"] == (2, 4)
    assert found.model_.record["missing_pivots"] == found.info_.missing
    states = dict(zip(map(str, found.model_.symbols), found.info_.states, strict=True))
    assert {x: int(states[x]) for x in found.info_.missing} == {
        x: k for x, (k, _) in found.info_.missing.items()
    }


def test_nobody_is_named_where_nothing_is_missing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sw.PivotLPCFG(2).fit(two_places())
    assert found.info_.missing == found.model_.record["missing_pivots"] == {}


@pytest.mark.parametrize("side", ["outside", "inside"])
def test_each_template_is_a_distribution(train: Treebank, side: str) -> None:
    """Section 6.2: a node has one feature of every template, so each sums to 1 for itself."""
    nodes, views = views_of(train[:500], 4, side)
    np.testing.assert_allclose(views.pi.sum(axis=1)[nodes.count > 0], 1.0, rtol=1e-9)
    for table, part in ((views.r, nodes.inside), (views.s, nodes.outside)):
        assert (table >= 0).all()
        exists = np.arange(4) < views.m[part.owner][:, None]
        assert not table[~exists].any()
        for number in part.number:
            total = np.zeros((len(views.m), 4))
            np.add.at(total, part.owner[number], table[number])
            size = np.bincount(part.owner[number], minlength=len(views.m))[:, None]
            occurs = (np.arange(4) < views.m[:, None]) & (size > 0)
            # all ones where the state has no weight for the template: it says nothing then
            is_one = np.isclose(total, 1.0, rtol=1e-9) | (total == size)
            assert is_one[occurs].all()
            assert np.isclose(total, 1.0, rtol=1e-9)[occurs].mean() > 0.9


def test_negative_solutions_count_as_0(train: Treebank) -> None:
    """By least squares, features that a state never has come out around 0, many below it."""
    nodes, views = views_of(train[:500], 4, "inside")
    several = (views.m[nodes.outside.owner] > 1) & (nodes.outside.count > 0)
    exists = np.arange(4) < views.m[nodes.outside.owner][:, None]
    assert (views.s[several][exists[several]] == 0.0).mean() > 0.05
    assert (views.r >= 0).all()


def test_a_template_that_all_nodes_share_kills_no_state(train: Treebank) -> None:
    """Normalised over all templates together, constant features of tags left states unused."""
    estimator = sw.PivotLPCFG(8, side="inside").fit(train)
    model, n_phrases = estimator.model_, estimator.model_.n_phrases
    shares = []
    for tag in range(n_phrases, model.n_symbols):
        states = int(model.n_states[tag])
        if states > 1:
            weights = np.zeros(states)
            for r, abc in enumerate(model.rules.tolist()):
                for axis in (1, 2):
                    if abc[axis] == tag:
                        weights += model.tensor(r).sum(axis=tuple({0, 1, 2} - {axis}))
            shares.append(weights / weights.sum())
    assert shares
    assert min(share.min() for share in shares) > 1e-3


def places_decide() -> Treebank:
    """Subjects and objects share their words: 7 : 3 dogs in front, 2 : 8 behind."""
    nouns = [("dogs", "dogs")] * 14 + [("dogs", "cats")] * 56
    nouns += [("cats", "dogs")] * 6 + [("cats", "cats")] * 24
    texts = [f"(S (N {subject}) (VP (V see) (N {thing})))" for subject, thing in nouns]
    return Treebank.from_trees([sw.Tree.parse(text) for text in texts])


def words_given_states(side: str) -> list[float]:
    """P(dogs | state of N), rising."""
    bank = places_decide()
    at, views = views_of(bank, 2, side)
    place = list(INSIDE).index("word")
    noun = [str(symbol) for symbol in bank.inventory.symbols].index("N")
    nodes = np.flatnonzero(bank.label == noun)
    (rows,) = at.shards.items
    features, first = np.unique(rows.inside[nodes, place], return_index=True)
    dogs = bank.word[nodes[first]] == list(bank.inventory.words).index("dogs")
    shares = views.r[features]
    return sorted((shares[dogs].sum(axis=0) / shares.sum(axis=0)).tolist())


def test_pivots_outside_find_states_whose_words_are_shared() -> None:
    """No word belongs to one state, every place does; pivots inside are the mutant."""
    np.testing.assert_allclose(words_given_states("outside"), [0.2, 0.7], rtol=1e-6)
    np.testing.assert_allclose(words_given_states("inside"), [0.0, 1.0], atol=1e-6)


def test_pivots_outside_fit_the_trees_better(train: Treebank) -> None:
    """Tags have only their words inside: most of their nodes end up in one state."""
    first = [
        sw.PivotLPCFG(6, side=side, iterations=1).fit(train[:500]).info_.log_likelihoods[0]
        for side in ("inside", "outside")
    ]
    assert first[1] > first[0] + 500  # one nat per tree


def test_em_from_pivots_raises_the_likelihood(train: Treebank) -> None:
    refined = sw.PivotLPCFG(4, iterations=4, rule_smoothing=0.0, word_smoothing=0.0).fit(train)
    steps = refined.info_.log_likelihoods
    assert len(steps) == 4
    assert (np.diff(steps) > -1e-6 * abs(steps[0])).all()
    assert refined.model_.record["method"] == "pivot-em"


def is_same(one: sw.LatentGrammar, other: sw.LatentGrammar) -> bool:
    return np.array_equal(one.rule_weights, other.rule_weights) and np.array_equal(
        one.lexicon.weights, other.lexicon.weights
    )


@pytest.mark.parametrize("jobs", [2, 3])
def test_jobs_do_not_matter(train: Treebank, jobs: int) -> None:
    bank = shards_of(train[:400], 5)
    one, more = (sw.PivotLPCFG(4, iterations=1, n_jobs=n).fit(bank) for n in (1, jobs))
    assert is_same(one.model_, more.model_)
    assert one.info_.pivots == more.info_.pivots


def test_shards_and_blocks_change_no_more_than_rounding(
    train: Treebank, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sw.PivotLPCFG(4).fit(train[:400])
    monkeypatch.setattr(module, "BLOCK_INSTANCES", 300)
    cut = sw.PivotLPCFG(4).fit(shards_of(train[:400], 5))
    assert cut.info_.pivots.keys() == whole.info_.pivots.keys()
    np.testing.assert_array_equal(cut.model_.n_states, whole.model_.n_states)
    np.testing.assert_allclose(
        cut.model_.log_probs(train[:400]), whole.model_.log_probs(train[:400]), rtol=1e-4
    )


def test_a_part_of_a_frequent_rules_instances_stands_for_all(
    train: Treebank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected counts stay those of all instances; states are found from a part."""
    whole = sw.PivotLPCFG(4).fit(train)
    monkeypatch.setattr(module, "MOST_INSTANCES", 100)
    some = sw.PivotLPCFG(4).fit(train)
    assert not is_same(whole.model_, some.model_)
    assert abs(f1(some.model_) - f1(whole.model_)) < 2.0


def test_the_same_seed_gives_the_same_model(train: Treebank) -> None:
    one, two = (sw.PivotLPCFG(3, seed=5).fit(train[:300]).model_ for _ in range(2))
    np.testing.assert_array_equal(one.rule_weights, two.rule_weights)
    np.testing.assert_array_equal(one.lexicon.weights, two.lexicon.weights)


@pytest.mark.parametrize(
    "wrong", [{"n_states": 0}, {"iterations": -1}, {"sharpness": 0.0}, {"side": "up"}]
)
def test_wrong_parameters_are_named(train: Treebank, wrong: dict[str, Any]) -> None:
    with pytest.raises(SapwoodError, match=next(iter(wrong))):
        sw.PivotLPCFG(**wrong).fit(train[:10])


def test_trees_of_one_word_have_no_rules() -> None:
    trees = [sw.Tree.parse(f"(TOP (INTJ (UH {word})))") for word in ("oh", "ah", "hm")]
    model = sw.PivotLPCFG(4).fit(Treebank.from_trees(trees * 30)).model_
    assert str(sw.Parser(model).parse(["oh"]).tree) == "(TOP (INTJ (UH oh)))"


def views_of(bank: Treebank, n_states: int, side: str) -> tuple[PivotNodes, FeatureDistributions]:
    data = sw.PCFG().prepare(bank, Threads())
    seen, trees = project_nodes(data, n_states), TrainingTrees(data)
    nodes = pivot_nodes(data, seen, trees)
    wanted = np.minimum(np.minimum(trees.limit, n_states), seen.m)
    return nodes, find_distributions(nodes, wanted, side, PivotSettings())


@pytest.mark.parametrize("most", [50_000, 20])
@pytest.mark.parametrize("n_shards", [1, 3])
def test_expected_counts_of_a_rule_sum_to_its_count(
    most: int, n_shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a part of its instances stands for all, whatever the blocks and the shards."""
    monkeypatch.setattr(module, "MOST_INSTANCES", most)
    monkeypatch.setattr(module, "BLOCK_INSTANCES", 300)
    bank = shards_of(bundled("train")[:300], n_shards)
    nodes, views = views_of(bank, 3, "outside")
    likely = nodes.engine.map(likely_states, nodes.shards, views, PivotSettings())
    found = expected_rule_counts(nodes, views.m, likely, PivotSettings())
    starts = np.concatenate([[0], np.cumsum(views.m[nodes.rules].prod(axis=1))])
    assert len(found) == starts[-1]
    assert nodes.rule_count.max() > 100
    np.testing.assert_allclose(
        np.add.reduceat(found, starts[:-1]), nodes.rule_count, rtol=1e-9, atol=0
    )
