"""`DevSet`: charts pruned once give the same trees as a parser that starts anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.conftest import bundled

import sapwood as sw
from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.grammar.latent_grammar import LatentGrammar
from sapwood.constituency.learn import dev_scores
from sapwood.constituency.learn.dev_scores import DevSet
from sapwood.constituency.parse.charts import ForestPosteriors
from sapwood.core.errors import SapwoodError

ONE_WORD = "(INTJ (UH oh))"
NO_PARSE = "(X (. .) (. .) (DT the))"  # no sentence of the bundled grammar ends so
UNKNOWN = "(S (NP (DT the) (NN zyzzyx)) (VP (VBZ flumps)) (. .))"


@pytest.fixture(scope="module")
def train() -> Treebank:
    return bundled("train")[:600]


@pytest.fixture(scope="module")
def gold() -> list[sw.Tree]:
    odd = [sw.Tree.parse(text) for text in (ONE_WORD, NO_PARSE, UNKNOWN)]
    return [*odd, *list(sw.bundled_treebank("dev").trees())[:80]]


@pytest.fixture(scope="module")
def plain(train: Treebank) -> LatentGrammar:
    return sw.PCFG().fit(train).model_


def parsed(model: LatentGrammar, gold: list[sw.Tree]) -> tuple[list[sw.Tree], int]:
    """Trees of a parser of the model alone, and how many sentences it had no parse for."""
    parser = sw.Parser(model)
    return [parser.parse(tree.words()).tree for tree in gold], parser.stats.fallbacks


ESTIMATORS = {
    "plain": sw.PCFG(),
    "em": sw.EMLPCFG(4, iterations=8),
    "em without smoothing": sw.EMLPCFG(4, iterations=8, rule_smoothing=0, word_smoothing=0),
    "merged": sw.EMLPCFG(4, iterations=4, merge=0.5),
    "cluster": sw.ClusterLPCFG(3),
}


@pytest.fixture(scope="module")
def learnt(train: Treebank) -> Callable[[str], LatentGrammar]:
    """`learnt(name)`: the model of one of these estimators, learnt once."""
    return cache(lambda name: ESTIMATORS[name].fit(train).model_)


Learnt = Callable[[str], LatentGrammar]


@pytest.mark.parametrize(("name", "jobs"), [("em", 2), *((name, 1) for name in ESTIMATORS)])
def test_f1_is_that_of_a_parser(
    name: str, jobs: int, learnt: Learnt, plain: LatentGrammar, gold: list[sw.Tree]
) -> None:
    model = learnt(name)
    dev = DevSet(gold, plain, jobs)
    trees, n_without = parsed(model, gold)
    assert n_without >= 1
    assert [str(tree) for tree in dev.parse(model)] == [str(tree) for tree in trees]
    assert dev.f1(model) == sw.evaluate.bracketing(gold, trees).f1
    assert 70 < dev.f1(model) < 100


def test_models_are_told_apart(learnt: Learnt, plain: LatentGrammar, gold: list[sw.Tree]) -> None:
    """One set of charts serves models one after the other, with the states of each."""
    dev = DevSet(gold, plain)
    found = [dev.f1(learnt(name)) for name in ("plain", "em", "plain")]
    assert found[0] == found[2]
    assert found[1] > found[0] + 1


def test_which_sentences_have_charts(plain: LatentGrammar, gold: list[sw.Tree]) -> None:
    dev = DevSet(gold, plain)
    assert dev.charts[:2] == [None, None]  # one word, and no parse
    for chart, tree in zip(dev.charts[2:], gold[2:], strict=True):
        assert isinstance(chart, ForestPosteriors) == (len(tree.words()) > 1)


def test_a_model_that_finds_nothing_in_a_pruned_chart_looks_again(
    learnt: Learnt, plain: LatentGrammar, gold: list[sw.Tree]
) -> None:
    """Then the sentence is charted anew, as by a parser: here every tenth rule is lost."""
    model = learnt("em")
    is_lost = np.repeat(np.arange(len(model.rules)) % 10 == 0, np.diff(model.tensor_start))
    weights = np.where(is_lost, 0.0, model.rule_weights)
    broken = replace(model, rule_weights=weights, is_probabilistic=False)
    trees, n_without = parsed(broken, gold)
    assert 5 < n_without < len(gold) - 5
    assert [str(tree) for tree in DevSet(gold, plain).parse(broken)] == [str(t) for t in trees]


def test_gold_trees_are_cleaned(train: Treebank, plain: LatentGrammar, gold: list[sw.Tree]) -> None:
    """Traces and function tags do not count; trees of traces alone are left out."""
    raw = [sw.Tree.parse("(S (NP-SBJ (-NONE- *)))")]
    raw += [sw.Tree.parse("( (S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))")]
    dev = DevSet(raw, plain)
    assert [str(tree) for tree in dev.gold] == [
        "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .)))"
    ]


@pytest.mark.parametrize("texts", [[], ["(S (NP (-NONE- *)))"]], ids=["none", "only traces"])
def test_no_tree_at_all(texts: list[str], train: Treebank, plain: LatentGrammar) -> None:
    trees = [sw.Tree.parse(text) for text in texts]
    with pytest.raises(SapwoodError, match="no dev tree is left"):
        DevSet(trees, plain)
    for estimator in (sw.EMLPCFG(2, iterations=1), sw.ClusterLPCFG(2, iterations=1)):
        with pytest.raises(SapwoodError, match="no dev tree is left"):
            estimator.fit(train[:50], trees)


def test_charts_are_made_once(
    train: Treebank, plain: LatentGrammar, gold: list[sw.Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    right = dev_scores.pruned_forests

    def counted(*args: object, **kwargs: object) -> object:
        calls.append(1)
        return right(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(dev_scores, "pruned_forests", counted)
    em = sw.EMLPCFG(2, iterations=4).fit(train, gold)
    assert len(em.info_.dev_f1) == 5
    assert len(calls) == sum(len(tree.words()) > 1 for tree in gold)
