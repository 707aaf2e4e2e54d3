"""Numbers and scales of features, counted over shards."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import add

import numpy as np
import pytest

from sapwood.constituency.data.treebank import Treebank
from sapwood.constituency.learn.projected import FeatureCounts, FeatureSpace, NodeKeys
from sapwood.constituency.learn.spectral import SpectralLPCFG
from sapwood.constituency.learn.templates import (
    INSIDE,
    OUTSIDE,
    Column,
    NodeTable,
    feature_keys,
)
from sapwood.core.errors import SapwoodError

TEMPLATES = list((INSIDE | OUTSIDE).values())
KAPPA = 5.0


@pytest.fixture(scope="module")
def counts(small_bank: Treebank) -> FeatureCounts:
    return NodeKeys.of(small_bank, TEMPLATES).counts


def rows_of(space: FeatureSpace, small_bank: Treebank) -> np.ndarray:
    nodes = NodeKeys.of(small_bank, TEMPLATES)
    return space.rows(nodes.counts.keys, nodes.places)


def space_of(small_bank: Treebank, counts: FeatureCounts, *, scaled: bool = True) -> FeatureSpace:
    symbols = np.bincount(small_bank.label, minlength=len(small_bank.inventory.symbols)).astype(
        float
    )
    return FeatureSpace.build(TEMPLATES, counts.keys, counts.counts, symbols, KAPPA, scaled=scaled)


def same(one: FeatureCounts, other: FeatureCounts) -> bool:
    return all(
        (a == b).all()
        for ours, theirs in ((one.keys, other.keys), (one.counts, other.counts))
        for a, b in zip(ours, theirs, strict=True)
    )


def test_counts_are_those_of_a_dictionary(small_bank: Treebank, counts: FeatureCounts) -> None:
    table = NodeTable(small_bank)
    for place, template in enumerate(TEMPLATES):
        expected = Counter(zip(template(table).tolist(), small_bank.label.tolist(), strict=True))
        assert sorted(expected.values()) == sorted(counts.counts[place].tolist())
        assert counts.counts[place].sum() == len(table)
        assert (np.diff(counts.keys[place]) > 0).all()


@pytest.mark.parametrize("n", [2, 5, 80])
def test_shards_add_up(n: int, small_bank: Treebank, counts: FeatureCounts) -> None:
    parts = [NodeKeys.of(shard, TEMPLATES).counts for shard in small_bank.shards(n)]
    assert same(reduce(add, parts), counts)
    assert same(reduce(add, reversed(parts)), counts)


def test_a_shard_left_out_is_noticed(small_bank: Treebank, counts: FeatureCounts) -> None:
    parts = [NodeKeys.of(shard, TEMPLATES).counts for shard in small_bank.shards(5)]
    short = reduce(add, parts[1:])
    assert any(a.sum() != b.sum() for a, b in zip(short.counts, counts.counts, strict=True))


def test_each_node_has_one_feature_per_template_in_its_labels_block(
    small_bank: Treebank, counts: FeatureCounts
) -> None:
    space = space_of(small_bank, counts)
    ids = rows_of(space, small_bank)
    assert ids.shape == (len(small_bank.label), len(TEMPLATES))
    first, stop = space.start[small_bank.label], space.start[small_bank.label + 1]
    assert (ids >= first[:, None]).all()
    assert (ids < stop[:, None]).all()
    assert space.start[0] == 0
    assert space.start[-1] == len(space.weight) == sum(map(len, space.keys))
    assert all(len(set(row)) == len(TEMPLATES) for row in ids.tolist())  # templates share none


def test_numbers_and_values_go_together(small_bank: Treebank, counts: FeatureCounts) -> None:
    """Nodes share a feature if and only if label and value are the same; counts are its nodes."""
    space = space_of(small_bank, counts)
    ids = rows_of(space, small_bank)
    for place, keys in enumerate(feature_keys(small_bank, TEMPLATES)):
        pairs = set(zip(ids[:, place].tolist(), keys.tolist(), strict=True))
        assert len(pairs) == len({f for f, _ in pairs}) == len({key for _, key in pairs})
    np.testing.assert_array_equal(
        np.bincount(ids.ravel(), minlength=len(space.weight)), space.count
    )


def test_scales(small_bank: Treebank, counts: FeatureCounts) -> None:
    space = space_of(small_bank, counts)
    n_nodes = np.bincount(small_bank.label, minlength=len(small_bank.inventory.symbols))
    for f in range(0, len(space.weight), 97):
        label = np.searchsorted(space.start, f, side="right") - 1
        expected = (n_nodes[label] / (space.count[f] + KAPPA)) ** 0.5
        assert space.weight[f] == pytest.approx(expected, rel=1e-15)
    assert (space_of(small_bank, counts, scaled=False).weight == 1.0).all()


def test_rows_of_shards_are_those_of_the_whole(small_bank: Treebank, counts: FeatureCounts) -> None:
    space = space_of(small_bank, counts)
    parts = [rows_of(space, shard) for shard in small_bank.shards(6)]
    assert (np.concatenate(parts) == rows_of(space, small_bank)).all()


# -- templates of one's own -------------------------------------------------------------------


def depth_is_even(table: NodeTable) -> Column:
    depth = np.zeros(len(table), np.int64)
    for node in range(len(table) - 1, -1, -1):
        if table.parent[node] >= 0:
            depth[node] = depth[table.parent[node]] + 1
    return depth % 2


def test_a_template_of_ones_own(small_bank: Treebank) -> None:
    learner = SpectralLPCFG(2, inside_features=["rule", "word"], outside_features=[depth_is_even])
    learner.fit(small_bank)
    found = set(
        zip(small_bank.label.tolist(), depth_is_even(NodeTable(small_bank)).tolist(), strict=True)
    )
    assert learner.info_.n_outside == len(found)
    assert np.isfinite(learner.model_.log_probs(small_bank)).all()


@pytest.mark.parametrize("side", ["inside_features", "outside_features"])
@pytest.mark.parametrize(
    ("wanted", "message"),
    [(["rool"], "no feature template 'rool'"), ([], "no feature template was")],
)
def test_unknown_names_are_refused(
    side: str, wanted: list[str], message: str, small_bank: Treebank
) -> None:
    with pytest.raises(SapwoodError, match=message) as caught:
        SpectralLPCFG(2, **{side: wanted}).fit(small_bank)
    known = INSIDE if side == "inside_features" else OUTSIDE
    assert all(name in str(caught.value.hint) for name in known)
