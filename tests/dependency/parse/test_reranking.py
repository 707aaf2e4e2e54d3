"""Reranking of lists, and its features."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.dependency.data.draws import head_lists

from sapwood.dependency.data.bank import ArcBank, Arcs
from sapwood.dependency.data.lists import CandidateLists
from sapwood.dependency.model.arc_model import ArcRerankModel
from sapwood.dependency.parse.reranking import (
    choose_trees,
    dense_features,
    expected_heads,
    rerank_scores,
    tag_triples,
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


BITS = 30  # so many that no two triples of a test meet by chance


def triples(heads: list[int], tags: list[str]) -> list[tuple[object, ...]]:
    """The definition, word by word."""
    n = len(heads)
    found: list[tuple[object, ...]] = []
    for word in range(1, n + 1):
        left = [m for m in range(1, word) if heads[m - 1] == word]
        right = [m for m in range(word + 1, n + 1) if heads[m - 1] == word]
        found.append(
            ("head", tags[max(left) - 1] if left else None, tags[word - 1],
             tags[min(right) - 1] if right else None)
        )  # fmt: skip
        head = heads[word - 1]
        above = (
            tags[head - 1] if head else "root",
            ("root" if not heads[head - 1] else tags[heads[head - 1] - 1]) if head else None,
        )
        found.append(("modifier", head and word > head, tags[word - 1], *above))
    return found


@given(st.data())
def test_equal_features_are_equal_triples(data: st.DataObject) -> None:
    sentences, expected = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        heads = data.draw(head_lists(7))
        tags = data.draw(st.lists(st.sampled_from("ABC"), min_size=len(heads), max_size=len(heads)))
        sentences.append(Arcs(["w"] * len(heads), heads, upos=tags))
        expected += triples(heads, tags)
    features = tag_triples(ArcBank.of(sentences), "upos", BITS).ravel().tolist()
    assert len(features) == len(expected)
    assert len(set(zip(features, expected, strict=True))) == len(set(features))
    assert len(set(features)) == len(set(expected))


def test_features_do_not_depend_on_how_tags_are_numbered() -> None:
    one, other = Arcs(["a", "b"], [2, 0], upos=list("NV")), Arcs(["c"], [0], upos=list("V"))
    both = tag_triples(ArcBank.of([other, one]), "upos", 20)
    assert both[1:].tolist() == tag_triples(ArcBank.of([one]), "upos", 20).tolist()
    assert both.max() < 1 << 20


def test_the_column_is_the_one_that_was_asked_for() -> None:
    bank = ArcBank.of([Arcs(["a", "b"], [2, 0], upos=list("NV"), xpos=list("VN"))])
    swapped = ArcBank.of([Arcs(["a", "b"], [2, 0], upos=list("VN"), xpos=list("NV"))])
    assert (tag_triples(bank, "xpos", 20) == tag_triples(swapped, "upos", 20)).all()
    assert (tag_triples(bank, "upos", 20) != tag_triples(swapped, "upos", 20)).any()
