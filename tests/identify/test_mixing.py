"""Mixing matrices against a count of all trees, one by one."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tests.reference.topologies import binary_trees, projective_trees

from sapwood.core.errors import SapwoodError
from sapwood.core.topologies import n_binary_trees, n_dependency_trees
from sapwood.identify.mixing import (
    PairPaths,
    PairRow,
    TriplePaths,
    TripleRow,
    pair_mixing,
    triple_mixing,
)
from sapwood.identify.model.dual import PRIME, Residues
from sapwood.identify.model.dual import rank as exact_rank


def branches(tree: Any, path: str = "") -> dict[int, str]:
    """The turns from the root to every leaf, positions counted from 1."""
    if isinstance(tree, int):
        return {tree + 1: path}
    return branches(tree[0], path + "l") | branches(tree[1], path + "r")


def shared(one: str, two: str) -> int:
    """Turns that two paths have in common."""
    return next((at for at, pair in enumerate(zip(one, two, strict=False)) if len({*pair}) > 1))


def triple_paths(leaf: dict[int, str], row: TripleRow) -> TriplePaths:
    words = (row.i, row.j, row.k)
    depth = {pair: shared(leaf[pair[0]], leaf[pair[1]]) for pair in combinations(words, 2)}
    cherry = max(depth, key=lambda pair: depth[pair])
    top, low = min(depth.values()), depth[cherry]
    outgroup = next(at for at, word in enumerate(words) if word not in cherry)
    first, second = (len(leaf[word]) - low for word in cherry)
    out = len(leaf[words[outgroup]]) - top
    return TriplePaths(outgroup, top, out, low - top, first, second)


def ancestors(heads: tuple[int, ...], place: int) -> list[int]:
    above = [place]
    while heads[above[-1]] >= 0:
        above.append(heads[above[-1]])
    return above


def pair_paths(heads: tuple[int, ...], row: PairRow) -> PairPaths:
    one, two = (ancestors(heads, place - 1) for place in (row.i, row.j))
    common = next(place for place in one if place in two)
    return PairPaths(one.index(common), two.index(common))


def test_triples_are_mixed_as_all_trees_say() -> None:
    mixing = triple_mixing(6)
    trees = {n: [branches(tree) for tree in binary_trees(0, n)] for n in range(3, 7)}
    for row, shares in zip(mixing.rows, mixing.matrix, strict=True):
        found = Counter(triple_paths(leaf, row) for leaf in trees[row.length])
        expected = [found[column] / len(trees[row.length]) for column in mixing.columns]
        np.testing.assert_allclose(shares, expected, rtol=0, atol=1e-15)


def test_pairs_are_mixed_as_all_trees_say() -> None:
    mixing = pair_mixing(5)
    trees = {n: list(projective_trees(n)) for n in range(2, 6)}
    for row, shares in zip(mixing.rows, mixing.matrix, strict=True):
        found = Counter(pair_paths(heads, row) for heads in trees[row.length])
        expected = [found[column] / len(trees[row.length]) for column in mixing.columns]
        np.testing.assert_allclose(shares, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("make", "longest", "n_trees"),
    [(triple_mixing, 7, n_binary_trees), (pair_mixing, 13, n_dependency_trees)],
    ids=["triples", "pairs"],
)
def test_the_rank_is_exact(make, longest: int, n_trees) -> None:
    """Whole numbers of trees, eliminated modulo a prime, where nothing is rounded."""
    mixing = make(longest)
    trees = np.array([n_trees(row.length) for row in mixing.rows])[:, None]
    counts = np.rint(mixing.matrix * trees).astype(np.int64)
    assert mixing.rank == exact_rank(counts % PRIME, Residues())


@pytest.mark.parametrize("longest", [3, 5, 8])
def test_sizes_and_shares(longest: int) -> None:
    from math import comb

    mixing = triple_mixing(longest)
    assert mixing.matrix.shape == (3 * comb(longest + 1, 4), 3 * comb(longest + 2, 5))
    for each in (mixing, pair_mixing(longest)):
        np.testing.assert_allclose(each.matrix.sum(axis=1), 1, rtol=0, atol=1e-14)
        assert len(set(each.rows)) == len(each.rows)
        assert len(set(each.columns)) == len(each.columns)


def test_weights_pick_out_one_compound_parameter() -> None:
    mixing = pair_mixing(6)
    for column in mixing.columns[:5]:
        picked = mixing.weights(column) @ mixing.matrix
        expected = [float(other == column) for other in mixing.columns]
        np.testing.assert_allclose(picked, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "wrong"), [(triple_mixing, 2), (triple_mixing, 13), (pair_mixing, 1)]
)
def test_sizes_out_of_reach_are_refused(make, wrong: int) -> None:
    with pytest.raises(SapwoodError, match=f"not {wrong}"):
        make(wrong)
