"""Gradients of networks against differences; LSTMs against one that goes word by word."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reference.networks import read_words

from sapwood.networks.biaffine import (
    ArcSizes,
    head_gradient,
    head_shares,
    relation_gradient,
    relation_shares,
    start_arcs,
    word_vectors,
    word_vectors_gradient,
)
from sapwood.networks.encoder import (
    Dropout,
    EncoderSizes,
    Lookup,
    encode,
    encode_gradient,
    start_encoder,
)
from sapwood.networks.lstm import bilstm, lstm, pack
from sapwood.networks.parameters import Parameters

LENGTHS = np.array([5, 4, 4, 2])
SIZES, ARC_SIZES, N_TAGS, N_RELATIONS = EncoderSizes(5, 4, 3, 6), ArcSizes(5, 4), 7, 6


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    shapes = SIZES.shapes(N_TAGS) | ARC_SIZES.shapes(2 * SIZES.state, N_RELATIONS)
    P = Parameters(shapes, np.float64)
    start_encoder(P, rng)
    start_arcs(P, rng)
    P["relation.U"][:] = rng.normal(size=P["relation.U"].shape)
    return P


def test_lstm_equals_one_that_goes_word_by_word(weights):
    rng, packing = np.random.default_rng(1), pack(LENGTHS)
    inputs = rng.normal(size=(LENGTHS.sum(), SIZES.word + SIZES.form))
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


class Problem:
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

    def loss(self, P, G=None):
        packing = pack(LENGTHS)
        dropout = Dropout(np.random.default_rng(3), 0.3, 0.2, packing)
        looked = [Lookup(*pair) for pair in zip(self.taken, self.vectors, strict=True)]
        encoding = encode(P, *looked, packing, dropout)
        vectors = word_vectors(P, encoding.states, packing, dropout)
        shares = head_shares(P, vectors, self.starts)
        relations = relation_shares(P, vectors, self.heads, self.modifiers)
        loss, d_heads, at = 0.0, [], 0
        for start, share in zip(self.starts, shares, strict=False):
            right = self.heads[at : at + len(share)] - start
            at += len(share)
            loss, d = _add(loss, share, right)
            d_heads.append(d)
        loss, d_relations = _add(loss, relations.shares, self.relation)
        loss, d_tags = _add(loss, encoding.tag_shares, self.tag)
        if G is None:
            return loss
        d_found = [
            *head_gradient(P, G, vectors, self.starts, d_heads),
            *relation_gradient(P, G, vectors, relations, d_relations),
        ]
        d_states = word_vectors_gradient(P, G, vectors, packing, d_found)
        return encode_gradient(P, G, encoding, packing, d_states, d_tags)


def _add(loss, shares, right):
    word = np.arange(len(right))
    d = shares.copy()
    d[word, right] -= 1
    return loss - np.log(shares[word, right]).sum(), d


def difference(problem, P, array, place, step=1e-5):
    kept = array[place]
    array[place] = kept + step
    above = problem.loss(P)
    array[place] = kept - step
    below = problem.loss(P)
    array[place] = kept
    return (above - below) / (2 * step)


def test_gradients_equal_differences(weights):
    problem, G, rng = Problem(), weights.blank(), np.random.default_rng(4)
    d_vectors = problem.loss(weights, G)
    pairs = [(weights[name], G[name]) for name in weights]
    pairs += list(zip(problem.vectors, d_vectors, strict=True))
    for array, gradient in pairs:
        assert gradient.any()
        for _ in range(4):
            place = tuple(rng.integers(n) for n in array.shape)
            expected = difference(problem, weights, array, place)
            assert gradient[place] == pytest.approx(expected, rel=1e-4, abs=1e-7)


def test_dropout_keeps_the_mean_and_is_one_for_a_sentence():
    packing = pack(np.array([3, 2]))
    dropout = Dropout(np.random.default_rng(0), 0.25, 0.5, packing)
    mask = dropout.of_sentences(20_000)
    assert set(np.unique(mask).tolist()) == {0.0, np.float32(1 / 0.75)}
    assert mask.mean() == pytest.approx(1, abs=0.02)
    for rows in np.split(packing.row, [3]):
        assert (mask[rows] == mask[rows[0]]).all()
    word, form = dropout.of_vectors()
    assert set((word + form).ravel().tolist()) <= {0.0, 2.0}
