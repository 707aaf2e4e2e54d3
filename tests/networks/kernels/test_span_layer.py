"""The hidden layer of spans and scores of labels, against spans one by one."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.networks import hidden_of_span

from sapwood.networks.kernels.span_layer import (
    row_maxima,
    span_label_scores,
    span_layer,
    span_layer_backward,
)

WIDTH, N_LABELS = 3, 2
ATOL = 1e-4  # sums of a few numbers around 1 in single precision, divided by their length


class Spans:
    """All spans of sentences, and what hidden layers are made of; lengths of changes are not tiny.

    Attributes
    ----------
    layer
        Vectors of fenceposts and a bias, whose numbers sum to 0; gains and offsets of sentences.
    """

    def __init__(self, sizes, seed, dtype=np.float32):
        rng = np.random.default_rng(seed)
        posts, bias = rng.normal(size=(sum(sizes), WIDTH)), rng.normal(size=WIDTH)
        posts += np.arange(len(posts))[:, None] * np.array([1, 0, -1])  # no two ends are alike
        gain, offset = rng.normal(size=(2, len(sizes), WIDTH))
        layer = posts - posts.mean(axis=1, keepdims=True), bias - bias.mean(), gain, offset
        self.layer = tuple(part.astype(dtype) for part in layer)
        first = np.append(0, np.cumsum(sizes))
        spans = [
            (i, j, s)
            for s in range(len(sizes))
            for i in range(first[s], first[s + 1])
            for j in range(i + 1, first[s + 1])
        ]
        self.spans = np.array(spans).T.copy()

    def expected(self):
        posts, bias, gain, offset = self.layer
        return np.array(
            [
                hidden_of_span(posts[j] - posts[i] + bias, gain[s], offset[s])
                for i, j, s in self.spans.T
            ]
        )

    def hidden(self):
        n, dtype = self.spans.shape[1], self.layer[0].dtype
        z, c, hidden = np.empty((n, WIDTH), dtype), np.empty(n, dtype), np.empty((n, WIDTH), dtype)
        span_layer(*self.layer, *self.spans, z, c, hidden)
        return z, c, hidden


@given(st.lists(st.integers(2, 5), min_size=1, max_size=3), st.integers(0, 10**6))
def test_the_hidden_layer_is_that_of_each_span(sizes, seed):
    spans = Spans(sizes, seed, np.float64)
    z, _, hidden = spans.hidden()
    np.testing.assert_allclose(hidden, spans.expected(), atol=1e-9)
    assert (z**2).mean(axis=1).max() <= 1 + 1e-9


def test_scores_are_products_with_the_hidden_layer():
    for sizes in ([2], [5, 14]):  # of one span; of more spans than are taken at once
        spans, rng = Spans(sizes, 1), np.random.default_rng(2)
        weights = rng.normal(size=(WIDTH, N_LABELS)).astype(np.float32)
        u = rng.normal(size=N_LABELS).astype(np.float32)
        expected = spans.expected() @ weights + u
        scores = np.empty(expected.shape, np.float32)
        span_label_scores(*spans.layer, *spans.spans, weights, u, scores)
        np.testing.assert_allclose(scores, expected, atol=ATOL)


@given(st.lists(st.integers(2, 4), min_size=1, max_size=3), st.integers(0, 10**6))
def test_gradients_go_back_to_both_ends(sizes, seed):
    spans = Spans(sizes, seed, np.float64)
    (z, c, hidden), gain = spans.hidden(), spans.layer[2]
    d = np.random.default_rng(seed).normal(size=hidden.shape)
    found, expected = ([np.zeros_like(part) for part in spans.layer] for _ in range(2))
    span_layer_backward(d.copy(), hidden, z, c, gain, *spans.spans, *found)
    for k, (i, j, s) in enumerate(spans.spans.T):
        slope = d[k] * (hidden[k] > 0)
        expected[2][s] += slope * z[k]
        expected[3][s] += slope
        slope = slope * gain[s]
        slope = c[k] * (slope - z[k] * (slope @ z[k]) / WIDTH)
        expected[0][i] -= slope
        expected[0][j] += slope
        expected[1] += slope
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 10**6))
def test_the_largest_of_each_row(n, width, seed):
    rows = np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)
    np.testing.assert_array_equal(row_maxima(rows), rows.max(axis=1))


def test_results_do_not_depend_on_where_arrays_lie_in_memory() -> None:
    """Arrays close to each other made the compiler's check for overlaps choose another loop."""
    rng = np.random.default_rng(0)
    n, width = 5, 10
    start, end = np.triu_indices(n, 1)
    A, b = rng.normal(size=(n, width)), rng.normal(size=width)
    ones, zeros = np.ones((1, width), np.float32), np.zeros((1, width), np.float32)
    found = set()
    for gap, order in itertools.product(range(40), itertools.permutations("Abz")):
        buffer, first, views = np.zeros(500, np.float32), 0, {}
        for name in order:
            array = {"A": A, "b": b, "z": np.zeros((len(start), width))}[name]
            views[name] = buffer[first : first + array.size].reshape(array.shape)
            views[name][:] = array
            first += array.size + gap
        factors, hidden = np.empty(len(start), np.float32), np.empty_like(views["z"])
        span_layer(
            views["A"], views["b"], ones, zeros, start, end, np.zeros(len(start), np.int64),
            views["z"], factors, hidden,
        )  # fmt: skip
        found.add(factors.tobytes() + hidden.tobytes())
    assert len(found) == 1
