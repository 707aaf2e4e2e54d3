"""Gradients of networks against finite differences; layers against slow ones, word by word."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reference.networks import hidden_of_span, read_words

from sapwood.core.arrays import starts_of
from sapwood.networks.network import (
    Dropout,
    EncoderSizes,
    Lookup,
    Parameters,
    bilstm,
    encode,
    encode_backward,
    init_encoder,
    lstm,
    pack_sentences,
)
from sapwood.networks.scores import (
    ArcSizes,
    ArcVectors,
    SpanSizes,
    arc_vectors,
    arc_vectors_backward,
    biaffine_heads,
    biaffine_heads_backward,
    biaffine_relations,
    biaffine_relations_backward,
    fenceposts,
    init_arcs,
    init_spans,
    span_scores,
    spans_backward,
)
from sapwood.networks.training import cross_entropy

LENGTHS = np.array([5, 4, 4, 2])
# with vectors from elsewhere, and a third layer
SIZES = EncoderSizes(5, 4, 3, 6, given=4, projected=3, layers=3)
ARC_SIZES, N_TAGS, N_RELATIONS = ArcSizes(5, 4), 7, 6


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    shapes = SIZES.shapes(N_TAGS) | ARC_SIZES.shapes(2 * SIZES.state, N_RELATIONS)
    P = init_encoder(shapes, rng, np.float64)
    init_arcs(P, rng)
    P["relation.U"][:] = rng.normal(size=P["relation.U"].shape)
    return P


def test_lstm_equals_one_that_goes_word_by_word(weights):
    rng, packing = np.random.default_rng(1), pack_sentences(LENGTHS)
    inputs = rng.normal(size=(LENGTHS.sum(), SIZES.word + SIZES.form + SIZES.projected))
    found = lstm(weights, "first.forwards", inputs, packing).outputs
    both = bilstm(weights, "first", inputs, packing).outputs
    W, U, b = (weights[f"first.forwards.{name}"] for name in "WUb")
    back = [weights[f"first.backwards.{name}"] for name in "WUb"]
    for rows in np.split(packing.row, np.cumsum(LENGTHS)[:-1]):
        expected = read_words(inputs[rows] @ W, U, b)[2]
        np.testing.assert_allclose(found[rows], expected, atol=1e-12)
        np.testing.assert_allclose(both[rows, : SIZES.state], expected, atol=1e-12)
        behind = read_words(inputs[rows[::-1]] @ back[0], *back[1:])[2][::-1]
        np.testing.assert_allclose(both[rows, SIZES.state :], behind, atol=1e-12)


def test_states_are_those_of_the_second_layer_plus_the_third(weights):
    problem, packing = ArcProblem(), pack_sentences(LENGTHS)
    looked = [Lookup(*pair) for pair in zip(problem.taken, problem.vectors, strict=True)]
    encoding = encode(weights, *looked, packing, given=problem.given)
    expected = bilstm(weights, "third", encoding.second.outputs, packing).outputs
    np.testing.assert_allclose(encoding.states, encoding.second.outputs + expected, atol=1e-12)
    assert np.abs(expected).max() > 0.01
    two = Parameters(SIZES._replace(layers=2).shapes(N_TAGS), np.float64)
    for name, array in two.items():
        array[:] = weights[name]
    without = encode(two, *looked, packing, given=problem.given)
    np.testing.assert_array_equal(without.states, encoding.second.outputs)


class ArcProblem:
    """A batch with tables of vectors, right answers and the loss of all three tasks."""

    def __init__(self):
        rng, n = np.random.default_rng(2), LENGTHS.sum()
        self.vectors = [rng.normal(size=(8, SIZES.word)), rng.normal(size=(9, SIZES.form))]
        taken = np.eye(8)[rng.integers(8, size=n)], rng.integers(0, 3, size=(n, 9)).astype(float)
        self.taken = [sp.csr_array(matrix) for matrix in taken]
        self.starts = [0, *np.cumsum(LENGTHS).tolist()]
        spans = list(zip(self.starts[:-1], self.starts[1:], strict=True))
        self.modifiers = np.concatenate([np.arange(a + 1, b) for a, b in spans])
        heads = np.concatenate([a + rng.integers(0, b - a - 1, size=b - a - 1) for a, b in spans])
        self.heads = np.where(heads >= self.modifiers, heads + 1, heads)
        self.relation = rng.integers(N_RELATIONS, size=len(self.modifiers))
        self.tag = rng.integers(N_TAGS, size=n)
        self.given = rng.normal(size=(n, SIZES.given))

    def loss(self, P, G=None):
        packing = pack_sentences(LENGTHS)
        dropout = Dropout(np.random.default_rng(3), 0.3, 0.2, packing)
        looked = [Lookup(*pair) for pair in zip(self.taken, self.vectors, strict=True)]
        encoding = encode(P, *looked, packing, dropout, given=self.given)
        vectors = arc_vectors(P, encoding.states, packing, dropout)
        posteriors = biaffine_heads(P, vectors, self.starts)
        relations = biaffine_relations(P, vectors, self.heads, self.modifiers)
        gold = np.split(self.heads, np.cumsum([len(p) for p in posteriors])[:-1])
        gold = [heads - start for heads, start in zip(gold, self.starts, strict=False)]
        tasks = [*zip(posteriors, gold, strict=True), (relations.posteriors, self.relation),
                 (encoding.tags, self.tag)]  # fmt: skip
        if G is None:
            return sum(cross_entropy(*task, 1.0)[0] for task in tasks)
        *d_heads, d_relations, d_tags = (cross_entropy(*task, 1.0)[1] for task in tasks)
        d_vectors = [
            *biaffine_heads_backward(P, G, vectors, self.starts, d_heads),
            *biaffine_relations_backward(P, G, vectors, relations, d_relations),
        ]
        d_states = arc_vectors_backward(P, G, vectors, packing, d_vectors)
        return encode_backward(P, G, encoding, packing, d_states, d_tags)


def difference(loss, array, index, step):
    kept = array[index]
    array[index] = kept + step
    above = loss()
    array[index] = kept - step
    below = loss()
    array[index] = kept
    return (above - below) / (2 * step)


def test_gradients_equal_differences(weights):
    problem, G, rng = ArcProblem(), weights.empty_like(), np.random.default_rng(4)
    d_vectors = problem.loss(weights, G)
    pairs = [(weights[name], G[name]) for name in weights]
    pairs += list(zip(problem.vectors, d_vectors, strict=True))
    for array, gradient in pairs:
        assert gradient.any()
        for _ in range(4):
            index = tuple(rng.integers(n) for n in array.shape)
            expected = difference(lambda: problem.loss(weights), array, index, 1e-5)
            assert gradient[index] == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_relations_of_negligible_gradient_are_left_out(weights):
    rng, n = np.random.default_rng(5), 12
    head, modifier = rng.normal(size=(2, n, ARC_SIZES.relation + 1))
    vectors = ArcVectors(head, head, (1.0, 1.0), head, head, head, modifier)
    arcs = rng.integers(n, size=n - 2), np.arange(2, n)
    trace = biaffine_relations(weights, vectors, *arcs)
    d_scores = rng.normal(size=trace.posteriors.shape)
    d_scores[rng.random(d_scores.shape) < 0.5] *= 1e-9
    d_scores[:, 1] *= 1e-9  # a relation that no arc asks for
    found = []
    for d in (d_scores, np.where(np.abs(d_scores) < 1e-6, 0, d_scores)):
        G = weights.empty_like()
        parts = biaffine_relations_backward(weights, G, vectors, trace, d)
        found.append([*parts, G["relation.U"].copy()])
    for some, exact in zip(*found, strict=True):
        np.testing.assert_array_equal(some, exact)
        assert np.abs(exact).max() > 0.1
    U = found[0][2].reshape(ARC_SIZES.relation + 1, N_RELATIONS, -1)
    assert [bool(U[:, k].any()) for k in range(N_RELATIONS)] == [True, False, *[True] * 4]
    nothing = biaffine_relations_backward(weights, G, vectors, trace, np.zeros_like(d_scores))
    assert not any(part.any() for part in (*nothing, G["relation.U"]))


def test_dropout_keeps_the_mean_and_is_one_for_a_sentence():
    packing = pack_sentences(np.array([3, 2]))
    dropout = Dropout(np.random.default_rng(0), 0.25, 0.5, packing)
    mask = dropout.sentence_mask(20_000)
    assert set(np.unique(mask).tolist()) == {0.0, np.float32(1 / 0.75)}
    assert mask.mean() == pytest.approx(1, abs=0.02)
    for rows in np.split(packing.row, [3]):
        assert (mask[rows] == mask[rows[0]]).all()
    word, form = dropout.word_masks()
    assert set((word + form).ravel().tolist()) <= {0.0, 2.0}


MARKED_LENGTHS = np.array([6, 5, 3])  # with marks: sentences of 4, 3 and 1 words
N_STATES, N_LABELS = 8, 3


class SpanProblem:
    def __init__(self):
        rng = np.random.default_rng(0)
        self.packing, self.starts = pack_sentences(MARKED_LENGTHS), starts_of(MARKED_LENGTHS)
        self.P = Parameters(SpanSizes(5).shapes(N_STATES, N_LABELS), np.float64)
        init_spans(self.P, rng)
        for name in ("span.b", "span.gain", "span.offset"):
            self.P[name][:] = rng.normal(size=5)
        self.states = rng.normal(size=(MARKED_LENGTHS.sum(), N_STATES))
        sizes = [n * (n + 1) // 2 for n in (MARKED_LENGTHS - 2).tolist()]
        self.factors = rng.normal(size=(sum(sizes), N_LABELS))

    def posts(self):
        dropout = Dropout(np.random.default_rng(3), 0.3, 0.1, self.packing)
        return fenceposts(self.P, self.states, self.packing, self.starts, dropout)

    def loss(self):
        return float((span_scores(self.P, self.posts()) * self.factors).sum())

    def gradients(self):
        G = self.P.empty_like()
        return spans_backward(self.P, G, self.posts(), self.packing, self.factors), G


SPAN_ARRAYS = ["span.W", "span.b", "span.gain", "span.offset", "label.W", "label.b", "states"]


@pytest.mark.parametrize("name", SPAN_ARRAYS)
def test_gradients_of_spans_equal_differences(name):
    problem = SpanProblem()
    d_states, G = problem.gradients()
    array, found = (problem.states, d_states) if name == "states" else (problem.P[name], G[name])
    expected = [difference(problem.loss, array, k, 1e-6) for k in np.ndindex(array.shape)]
    assert np.abs(found).max() > 0.1
    np.testing.assert_allclose(found.ravel(), expected, atol=1e-6)


@pytest.mark.parametrize("has_gains", [True, False], ids=["normalised", "version 0.2.0"])
def test_a_span_is_what_changes_between_its_ends(has_gains):
    problem = SpanProblem()
    rows, P = problem.packing.row[problem.starts[1] :][:5], dict(problem.P.items())
    if not has_gains:
        del P["span.gain"], P["span.offset"]
    posts = fenceposts(P, problem.states, problem.packing, problem.starts)
    half = N_STATES // 2
    ends = [
        np.concatenate([problem.states[rows[k], :half], problem.states[rows[k + 1], half:]])
        for k in range(4)
    ]
    spans = [(i, j) for i in range(3) for j in range(i + 1, 4)]
    changes = [(ends[j] - ends[i]) @ P["span.W"] + P["span.b"] for i, j in spans]
    hidden = [
        hidden_of_span(change, P["span.gain"], P["span.offset"])
        if has_gains
        else np.maximum(change, 0)
        for change in changes
    ]
    expected = np.array(hidden) @ P["label.W"] + P["label.b"]
    scores = span_scores(P, posts)
    np.testing.assert_allclose(scores[10:16], expected, atol=1e-12)  # behind those of 4 words
