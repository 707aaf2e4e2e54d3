"""Instances of rare rules, which no sum replaces: those of shards stay together and in order."""

from __future__ import annotations

import numpy as np
import pytest
from tests.shards import rows_of, shards_of

import sapwood as sw
from sapwood.constituency.learn.projected import ProjectedSums
from sapwood.constituency.learn.spectral import project, rule_layout
from sapwood.execute import Threads


@pytest.mark.parametrize("n", [2, 5])
def test_instances_of_shards_are_those_of_the_whole(n: int) -> None:
    bank = sw.bundled_treebank("dev")[:150]
    data, parts = (sw.PCFG().prepare(given, Threads()) for given in (bank, shards_of(bank, n)))
    whole, cut = project(data, 4), project(parts, 4)
    layout = rule_layout(data, whole.m, 0.0)
    found = parts.engine.total(ProjectedSums.of, cut.features.rows, whole.vectors, layout).instances
    expected = ProjectedSums.of(rows_of(whole), whole.vectors, layout).instances
    assert len(expected.rule) > 20
    for name in ("rule", "z", "y", "w"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
