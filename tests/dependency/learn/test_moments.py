"""Sums over arcs, triples and chains against loops; shards add up."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sapwood.dependency.learn.moments import ArcCounts, ChainSums, StateCounts, TripleSums, project
from sapwood.dependency.model.latent import LatentArcs, SeenTrees, pack_trees

N, K = 5, 2
Array = np.ndarray


@pytest.fixture
def trees() -> SeenTrees:
    """Two columns, some of them without a symbol."""
    rng = np.random.default_rng(0)
    heads = [[2, 0, 2, 2], [0], [3, 3, 0, 3, 4], [2, 3, 0], [0, 1, 1, 3]] * 3
    seen = [np.stack([rng.integers(-1, 2, len(t)), rng.integers(2, N, len(t))], 1) for t in heads]
    return pack_trees(heads, seen)


@pytest.fixture
def vectors() -> Array:
    return np.random.default_rng(1).standard_normal((N, K))


def same(one: object, other: object) -> None:
    for name, value in vars(one).items():
        found = getattr(other, name)
        a, b = (x.toarray() if hasattr(x, "toarray") else x for x in (value, found))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=name)


def test_counts_are_those_of_a_loop(trees: SeenTrees) -> None:
    counts, up = ArcCounts.of(trees, N), trees.up()
    pairs = np.zeros((2, N, N))
    for child, head in enumerate(up.tolist()):
        if head >= 0:
            for x, y in product(trees.seen[head], trees.seen[child]):
                if x >= 0 and y >= 0:
                    pairs[int(child > head), x, y] += 1
    np.testing.assert_array_equal(counts.left.toarray(), pairs[0])
    np.testing.assert_array_equal(counts.right.toarray(), pairs[1])
    assert counts.n_trees == trees.n_trees
    shown = trees.seen[up < 0]
    np.testing.assert_array_equal(counts.roots, np.bincount(shown[shown >= 0], minlength=N))


def test_sums_are_those_over_all_triples(trees: SeenTrees, vectors: Array) -> None:
    sums, up = TripleSums.of(trees, vectors, N), trees.up()
    v = project(trees.seen, vectors)
    total = TripleSums.zero(K, N)
    for h in range(len(up)):
        children = np.flatnonzero(up == h)
        for a, b in product(children[children < h], children[children > h]):
            shows = np.bincount(trees.seen[h][trees.seen[h] >= 0], minlength=N)
            pair = np.outer(v[a], v[b])
            total = total + TripleSums(
                1.0, v[a], v[b], np.outer(v[h], v[a]), np.outer(v[h], v[b]), pair,
                np.multiply.outer(v[h], pair), np.multiply.outer(shows.astype(float), pair),
            )  # fmt: skip
    same(sums, total)


def test_chains_end_with_their_sentences(trees: SeenTrees, vectors: Array) -> None:
    v = project(trees.seen, vectors)
    total = ChainSums(0.0, np.zeros(K), np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K, K)))
    for first, last in zip(trees.offsets[:-1], trees.offsets[1:], strict=True):
        for t in range(first, last - 2):
            a, b, c = v[t : t + 3]
            total = total + ChainSums(
                1.0, a, np.outer(b, a), np.outer(c, a), np.multiply.outer(b, np.outer(c, a))
            )
    same(ChainSums.of(trees, vectors), total)


@pytest.mark.parametrize("side", [0, 1])
def test_paths_end_on_their_side(trees: SeenTrees, vectors: Array, side: int) -> None:
    v, up = project(trees.seen, vectors), trees.up().tolist()
    total = ChainSums(0.0, np.zeros(K), np.zeros((K, K)), np.zeros((K, K)), np.zeros((K, K, K)))
    for child, word in enumerate(up):
        if word >= 0 and up[word] >= 0 and (child > word) == bool(side):
            a, b, c = v[up[word]], v[word], v[child]
            total = total + ChainSums(
                1.0, a, np.outer(b, a), np.outer(c, a), np.multiply.outer(b, np.outer(c, a))
            )
    assert total.n
    same(ChainSums.of_paths(trees, vectors, side), total)


def test_shards_add_up(trees: SeenTrees, vectors: Array) -> None:
    rng = np.random.default_rng(2)
    model = LatentArcs(*(rng.random(s) for s in ((K,), (2, K, K), (N, K))), np.array([0, 2, N]))
    for size in (1, 7, 1000):
        shards = trees.shards(size)
        assert sum(shard.n_trees for shard in shards) == trees.n_trees
        for task, common in (
            (ArcCounts.of, N), (TripleSums.of, vectors), (ChainSums.of, vectors),
            (StateCounts.of, model),
        ):  # fmt: skip
            parts = [task(shard, common) for shard in shards]  # type: ignore[operator]
            same(sum(parts[1:], parts[0]), task(trees, common))  # type: ignore[operator]
    same(ArcCounts.of(trees, N) + ArcCounts.zero(N), ArcCounts.of(trees, N))
    same(TripleSums.of(trees, vectors) + TripleSums.zero(K), TripleSums.of(trees, vectors))
