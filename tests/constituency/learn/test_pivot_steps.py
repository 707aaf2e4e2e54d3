"""Steps of pivots on a treebank, where the theorem's exact moments do not reach."""

from __future__ import annotations

import numpy as np
import pytest
from tests.constituency.learn.pivot_views import views_of
from tests.shards import shards_of

import sapwood as sw
from sapwood.constituency.learn import pivot
from sapwood.constituency.learn.pivot import Recipe, likely_states, rule_counts


@pytest.mark.parametrize("most", [50_000, 20])
@pytest.mark.parametrize("n_shards", [1, 3])
def test_expected_counts_of_a_rule_sum_to_its_count(
    most: int, n_shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a part of its instances stands for all, whatever the blocks and the shards."""
    monkeypatch.setattr(pivot, "MOST_INSTANCES", most)
    monkeypatch.setattr(pivot, "BLOCK_INSTANCES", 300)
    bank = shards_of(sw.bundled_treebank("train")[:300], n_shards)
    nodes, views = views_of(bank, 3, "outside")
    likely = nodes.engine.map(likely_states, nodes.shards, views, Recipe())
    found = rule_counts(nodes, views.m, likely, Recipe())
    starts = np.concatenate([[0], np.cumsum(views.m[nodes.rules].prod(axis=1))])
    assert len(found) == starts[-1]
    assert nodes.rule_count.max() > 100
    np.testing.assert_allclose(
        np.add.reduceat(found, starts[:-1]), nodes.rule_count, rtol=1e-9, atol=0
    )
