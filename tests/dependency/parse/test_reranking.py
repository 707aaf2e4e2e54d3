"""What lists say of their trees, against plain loops; and choosing by it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.model.reranker import ArcRerankModel
from sapwood.dependency.parse.arc_triples import tag_triples
from sapwood.dependency.parse.reranking import (
    choose_trees,
    dense_features,
    expected_heads,
    rerank_scores,
)

TREES = [[0, 1, 1], [0, 1, 2], [2, 0, 2], [3, 3, 0], [2, 0, 1]]


class Latent:
    """Stands for a latent model: the sum of the heads, and two constants."""

    def features(self, trees: ArcBank) -> np.ndarray:
        total = np.add.reduceat(trees.head.astype(float), trees.offsets[:-1])
        return np.stack([total, total / 3, np.ones(len(trees))], axis=1)


@st.composite
def drawn_lists(draw: st.DrawFn) -> CandidateLists:
    n = draw(st.integers(1, 3))
    tags = [draw(st.lists(st.sampled_from("AB"), min_size=3, max_size=3)) for _ in range(n)]
    bank = ArcBank.of([Arcs(["x", "y", "z"], [0, 1, 1], upos=t) for t in tags])
    heads, scores = [], []
    for _ in range(n):
        trees = draw(st.lists(st.sampled_from(TREES), min_size=1, max_size=4, unique_by=tuple))
        heads.append(np.array(trees))
        scores.append(np.array([draw(st.floats(-5, 0)) for _ in trees]))
    return CandidateLists.of_heads(bank, heads, scores)


@given(drawn_lists())
def test_expected_heads_by_loops(lists: CandidateLists) -> None:
    found = expected_heads(lists)
    for index in range(len(lists)):
        here = slice(*lists.starts[index : index + 2])
        p = np.exp(lists.score[here]) / np.exp(lists.score[here]).sum()
        trees = lists.heads(index).tolist()
        expected = np.array([
            sum(q for word in range(3) for q, other in zip(p, trees, strict=True)
                if other[word] == tree[word])
            for tree in trees
        ])  # fmt: skip
        np.testing.assert_allclose(found[here], expected - expected.mean(), rtol=0, atol=1e-12)


@given(drawn_lists(), st.integers(0, 2**32 - 1))
def test_scores_by_loops(lists: CandidateLists, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = ArcRerankModel("upos", rng.normal(size=64), rng.normal(size=5), (Latent(),))
    dense = dense_features(lists, model.latent)
    features = tag_triples(lists.bank, "upos", 6)
    offsets = lists.bank.offsets
    expected = [
        dense[tree] @ model.dense + model.weights[features[offsets[tree] : offsets[tree + 1]]].sum()
        for tree in range(len(lists.bank))
    ]
    np.testing.assert_allclose(rerank_scores(model, lists), expected, rtol=0, atol=1e-10)
    for index, chosen in enumerate(choose_trees(model, lists).tolist()):
        here = range(*lists.starts[index : index + 2])
        assert chosen in here
        assert expected[chosen] >= max(expected[tree] for tree in here) - 1e-9


@given(drawn_lists())
def test_dense_features_compare_inside_lists(lists: CandidateLists) -> None:
    dense = dense_features(lists, [Latent(), Latent()])
    assert dense.shape == (len(lists.bank), 8)
    starts = lists.starts[:-1]
    np.testing.assert_array_equal(np.maximum.reduceat(dense[:, 0], starts), 0.0)
    means = np.add.reduceat(dense[:, 1:], starts, axis=0)
    np.testing.assert_allclose(means, 0.0, rtol=0, atol=1e-9)
