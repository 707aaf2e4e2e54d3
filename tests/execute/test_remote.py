"""Parses that other processes made: the same, and without the model on their way back."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.arc_toys import bank

import sapwood as sw
from sapwood.dependency.parse.reranking import RerankingParser
from sapwood.execute import Processes, Threads, Traffic

SENTENCES = [
    words.split() for words in ("the dog sleeps .", "the cat sees a dog .", "blorp", "a a a")
]


@pytest.mark.dask
def test_parses_of_a_cluster_are_whole(cluster) -> None:
    model = sw.Ensemble.of([sw.bundled_grammar(), sw.bundled_grammar()])
    here, there = sw.Parser(model), sw.Parser(model)
    cluster.traffic = Traffic()
    found = list(there.parse_many(SENTENCES * 3, jobs=cluster))
    for far, near in zip(found, here.parse_many(SENTENCES * 3), strict=True):
        assert far.words == near.words
        assert far.tree == near.tree
        assert far.kind == near.kind
        assert far.log_prob == near.log_prob
        assert far.marginals == near.marginals
        assert far.k_best(3) == near.k_best(3)
    assert repr(there.stats) == repr(here.stats)
    assert there.stats.sentences == 12
    assert there.stats.fallbacks > 0
    # all twelve together take less room than the model alone
    assert cluster.traffic.returned < len(pickle.dumps(model)) / 2
    assert found[0]._prepared is there._prepared


def test_statistics_are_merged() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    alone = parser.recount()
    alone.parse(SENTENCES[0])
    assert parser.stats.sentences == 0
    parser.stats.merge(alone.stats)
    parser.stats.merge(alone.stats)
    assert parser.stats.sentences == 2


# -- bytes that come back -------------------------------------------------------------------------


class Counting(Threads):
    """Pickles every result as processes do, and counts the bytes."""

    returned = 0

    def stream(
        self, task: Callable[..., Any], items: Iterable[Any], *common: Any, ahead: int = 16
    ) -> Iterator[Any]:
        for item in items:
            packed = pickle.dumps(task(item, *common))
            self.returned += len(packed)
            yield pickle.loads(packed)


@pytest.fixture(scope="module")
def arc_model() -> sw.ArcModel:
    """A parser with a network, whose parses refer to the network too."""
    return sw.ArcEnsemble(members=1, passes=1, folds=2, encoder_passes=1).fit(bank()).model_


def parsers(arc_model: sw.ArcModel) -> dict[str, Any]:
    reranker = sw.ArcReranker(2, latent="none", passes=1, folds=2, list_folds=2, n_best=3)
    return {
        "trees": sw.Parser(sw.bundled_grammar()),
        "arcs": sw.ArcParser(arc_model),
        "reranked arcs": RerankingParser(reranker.fit(bank(40)).model_),
    }


def test_parses_come_back_without_the_model(arc_model: sw.ArcModel) -> None:
    for name, parser in parsers(arc_model).items():
        engine = Counting(1)
        found = list(parser.parse_many(SENTENCES[:2] * 2, jobs=engine))
        size = len(pickle.dumps(parser.model))
        assert engine.returned < min(size / 2, 4 * 60_000), name
        for there, here in zip(found, parser.parse_many(SENTENCES[:2] * 2), strict=True):
            assert there.k_best(3) == here.k_best(3)


def test_arcs_of_processes_are_whole(arc_model: sw.ArcModel) -> None:
    parser = sw.ArcParser(arc_model)
    sentences = [arcs.words for arcs in bank(60, 1)]
    with Processes(2) as engine:
        found = list(parser.parse_many(sentences, jobs=engine))
    for there, here in zip(found, parser.parse_many(sentences), strict=True):
        assert there.arcs == here.arcs
        np.testing.assert_array_equal(there.posteriors, here.posteriors)
        assert there.k_best(3) == here.k_best(3)
    assert all(parse._parser is parser for parse in found)
