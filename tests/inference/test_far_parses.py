"""Parses that were made on a cluster: the same, and without the model on their way back."""

from __future__ import annotations

import pickle

import pytest

import sapwood as sw
from sapwood.execute import Traffic

SENTENCES = [
    words.split() for words in ("the dog sleeps .", "the cat sees a dog .", "blorp", "a a a")
]


@pytest.mark.dask
def test_parses_from_afar_are_whole(cluster) -> None:
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
    assert found[0]._mixer is there._mixer


def test_statistics_are_merged() -> None:
    parser = sw.Parser(sw.bundled_grammar())
    alone = parser.recount()
    alone.parse(SENTENCES[0])
    assert parser.stats.sentences == 0
    parser.stats.merge(alone.stats)
    parser.stats.merge(alone.stats)
    assert parser.stats.sentences == 2
