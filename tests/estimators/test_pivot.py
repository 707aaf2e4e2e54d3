"""`PivotLPCFG`: a proper grammar whose states have pivots that people can read."""

from __future__ import annotations

import numpy as np
import pytest

import sapwood as sw
from sapwood.corpus.treebank import Treebank
from sapwood.errors import SapwoodError


@pytest.fixture(scope="module")
def train() -> Treebank:
    return sw.bundled_treebank("train")[:1500]


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
    assert any("word: " in name for names in pivot.info_.pivots.values() for name in names)


def test_em_from_pivots_raises_the_likelihood(train: Treebank) -> None:
    refined = sw.PivotLPCFG(4, iterations=4, rule_smoothing=0.0, word_smoothing=0.0).fit(train)
    steps = refined.info_.em.log_likelihoods
    assert len(steps) == 4
    assert (np.diff(steps) > -1e-6 * abs(steps[0])).all()
    assert refined.model_.record["method"] == "pivot-em"


def test_the_same_seed_gives_the_same_model(train: Treebank) -> None:
    one, two = (sw.PivotLPCFG(3, seed=5).fit(train[:300]).model_ for _ in range(2))
    np.testing.assert_array_equal(one.rule_weights, two.rule_weights)
    np.testing.assert_array_equal(one.lexicon.weights, two.lexicon.weights)


@pytest.mark.parametrize("wrong", [{"n_states": 0}, {"iterations": -1}, {"sharpness": 0.0}])
def test_wrong_parameters_are_named(train: Treebank, wrong: dict[str, float]) -> None:
    with pytest.raises(SapwoodError, match=next(iter(wrong))):
        sw.PivotLPCFG(**wrong).fit(train[:10])
